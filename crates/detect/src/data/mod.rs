//! Training data: cases, their images on the working grid, copies of them.

pub(crate) mod appearance;
pub(crate) mod augmentation;
pub(crate) mod case;
pub(crate) mod case_list;
pub(crate) mod each_image;
pub(crate) mod folds;
pub(crate) mod look_alikes;
pub(crate) mod mirror_doubt;
pub(crate) mod mirror_twins;
pub(crate) mod other_instances;
pub(crate) mod part;
pub(crate) mod point_pairs;
pub(crate) mod pyramids;
pub(crate) mod training_data;
