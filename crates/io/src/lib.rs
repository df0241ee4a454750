//! Files in, files out: images, annotations and data sets to the types of `pbt-volume`, results
//! back to files.
//!
//! All coordinates inside `pbt` are LPS millimetres; this crate is the only place where other
//! conventions (RAS in NIfTI, either one in Slicer markups and NRRD) are converted. Files come from
//! strangers: whatever they hold ends as a value or as one [`IoError`] that names file and field,
//! never as a panic or as an allocation that the file's own size does not justify.
#![forbid(unsafe_code)]

mod annotation_file;
mod annotations;
mod atomic;
mod bids;
mod boxes_from_labels;
mod boxes_from_points;
mod channels;
mod dataset;
mod dataset_cases;
mod dataset_file;
mod dataset_writer;
mod delimiter;
mod dicom;
mod error;
mod file_names;
mod from_folder;
mod json;
mod label_map;
mod label_masks;
mod label_runs;
mod landmark_rules;
mod landmark_rules_file;
mod leaf_map;
mod loaded;
mod markups;
mod memory_plan;
mod metaimage;
mod misfits;
mod names;
mod nifti;
mod nifti_header;
mod nnunet;
mod nrrd;
mod open_file;
mod open_image;
mod photo;
mod points;
mod principal_axes;
mod probability_map;
mod raw;
mod read_image;
mod region_labels;
mod region_map;
mod regular_file;
mod result;
mod shape_twins;
mod side_by_side;
mod similarity;
mod source;
mod stored;
mod table_text;
mod text_header;
mod write_image;

pub use annotation_file::read_annotations;
pub use annotations::{Annotations, Landmark, LandmarkState, check_annotations};
pub use atomic::{check_writable, remove_leftovers, write_atomically};
pub use boxes_from_labels::box_from_labels;
pub use boxes_from_points::{PointsFault, PointsOfCase, boxes_from_points};
pub use channels::channel_files;
pub use dataset::{CaseSpec, Dataset, Modality};
pub use delimiter::delimiter;
pub use dicom::{SeriesInfo, list_series};
pub use error::IoError;
pub use file_names::{case_name, is_dicom_path, is_image_path};
pub use from_folder::{
    FromFolder, Options as FolderOptions, dataset_from_folder, masks_among, segment_names,
};
pub use label_map::{label_voxels, write_label_map};
pub use landmark_rules::{Direction, LandmarkRule, Side};
pub use leaf_map::write_leaves;
pub use loaded::{Loaded, ReadOptions};
pub use markups::{Look, Shown, read_markups, write_markups, write_markups_as};
pub use open_image::OpenImage;
pub use points::read_points;
pub use probability_map::write_probabilities;
pub use raw::{RawImage, Scaling, VoxelType};
pub use read_image::{Image, read_image, read_image_with, read_labels, read_raw, read_raw_with};
pub use region_labels::{IGNORED_CLASS, RegionLabels, read_labels_on};
pub use region_map::RegionMap;
pub use regular_file::{FileKind, read_file, read_start};
pub use result::{
    ComponentRecord, DetectionRecord, DeviceRecord, InputRecord, LabelRecord, ModelRecord,
    OrientationRecord, ResultFile, RunRecord, read_result, write_result,
};
pub use side_by_side::read_side_by_side;
pub use similarity::Similarity;
pub use write_image::{fits_nifti, is_written, write_image};
