//! Feature families as plain data: what is measured at a voxel (Haar, box means) or inside a posed
//! box (steerable).
//!
//! A feature is a value; trees refer to it by its place in a list, so a model carries the few
//! features that it uses and needs no pool. Responses are `i32` and come from integer arithmetic
//! alone, so every backend computes the same ones.
#![forbid(unsafe_code)]

mod box_mean;
mod channels;
mod filter;
mod frame;
mod haar;
mod haar_pool;
mod steerable;
mod tables;

pub use box_mean::{BoxMeanFeature, BoxMeanPool, MISSING, MOST_BOX_EDGE, MOST_BOX_REACH, MeanBox};
pub use channels::{ChannelVolume, SAMPLE_SCALE, gradient_shifts};
pub use filter::{
    CHANNEL_ZERO, Filter, MAX_CHANNEL, MOST_FILTER_VOXELS, SMOOTH_BITS, gaussian_weights,
};
pub use frame::{AXIS_BITS, BoxGrid, FRAME_BITS, PoseFrame};
pub use haar::{BoundHaar, Cuboid, HaarError, HaarFeature};
pub use haar_pool::{HaarPoolConfig, haar_pool};
pub use steerable::{
    Channel, Modifier, SteerableFeature, SteerableSet, edge_strength, steerable_pool,
};
pub use tables::{angle_table, transform_tables};
