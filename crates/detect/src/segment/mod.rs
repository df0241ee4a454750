//! Regions: structures that are labelled voxel by voxel, without a pose.

pub(crate) mod blocks;
pub(crate) mod case_images;
pub(crate) mod components;
pub(crate) mod data;
pub(crate) mod labelling;
pub(crate) mod leaves;
pub(crate) mod matrix;
pub(crate) mod probability;
pub(crate) mod region_forest;
pub(crate) mod samples;
#[cfg(test)]
mod test_data;
pub(crate) mod training;
