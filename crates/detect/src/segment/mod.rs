//! Regions: structures that are labelled voxel by voxel, without a pose.

pub(crate) mod blocks;
pub(crate) mod data;
pub(crate) mod labelling;
pub(crate) mod matrix;
pub(crate) mod probability;
pub(crate) mod region_forest;
pub(crate) mod samples;
pub(crate) mod training;
