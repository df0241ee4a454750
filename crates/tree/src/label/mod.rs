//! Forests of many classes that label every voxel: the tables, how they grow level by level or are
//! boosted, and what a device computes for them.
//!
//! Growing knows samples by number and features by row of a matrix of bins; a forest knows features
//! by number. What decides is an integer throughout.

pub(crate) mod backend;
pub(crate) mod boosted_host;
pub(crate) mod booster;
pub(crate) mod boosting;
pub(crate) mod edges;
pub(crate) mod forest;
pub(crate) mod gain;
pub(crate) mod growth;
pub(crate) mod leaves;
pub(crate) mod matrix;
pub(crate) mod part;
pub(crate) mod slopes;
pub(crate) mod softmax;
pub(crate) mod splits;
#[cfg(test)]
pub(crate) mod test_boosting;
