//! The command line as its users see it: files, exit codes, what is printed.

// Tests begin in the order of their names: this one takes longest, and the others run beside it.
#[path = "python.rs"]
mod _python;
mod absence;
mod bad_input;
mod batch;
mod bids;
mod boxes_in_pictures;
mod channels;
mod column;
mod components;
mod convert;
mod crop;
mod cross_validation;
mod demo;
mod determinism;
mod dicom;
mod doctor;
mod evaluate;
mod explain;
mod geometry;
mod gpu;
mod help;
mod hostile_data;
mod hostile_models;
mod info;
mod init;
mod instances;
mod kind_of_image;
mod label_map;
mod landmarks;
mod learning_curve;
mod merge;
mod models;
mod pictures;
mod points;
mod regions;
mod report;
mod robustness;
mod schemas;
mod segmentation;
#[path = "../sets.rs"]
mod sets;
mod slicer_module;
mod support;
mod thick_slices;
mod train;
#[path = "../trivial.rs"]
mod trivial;
mod unwritable;
mod validate;
mod validate_data;
mod validate_landmarks;
mod validate_model;
