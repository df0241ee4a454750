//! Families of features as training and devices see them: what a feature is, where it is computed,
//! and what of an image is scored.

use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_volume::Pose;

/// A family of features. The value itself holds what a response needs beside the feature and the
/// site. A new family is one implementation here and one of [`Evaluate`](crate::Evaluate) a device.
pub trait FeatureFamily: Sync {
    /// A feature.
    type Feature: Clone + PartialEq + Sync;
    /// Where a feature is computed: somewhere in one of several images.
    type Site: Copy + Sync;
    /// What of one image is scored.
    type Targets: ?Sized;
}

/// Haar features at voxels, on the integral volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Haar;

impl FeatureFamily for Haar {
    type Feature = HaarFeature;
    type Site = VoxelSite;
    type Targets = Voxels;
}

/// Steerable features in posed boxes, on intensities and gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steerable {
    /// Where a box is sampled.
    pub grid: BoxGrid,
}

impl FeatureFamily for Steerable {
    type Feature = SteerableFeature;
    type Site = PoseSite;
    type Targets = [Pose];
}

/// Voxels of the level with the integral volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voxels {
    /// Every one, i fastest.
    All,
    /// Those at these indices, all of them inside.
    At(Vec<[i32; 3]>),
}

/// A voxel of a level of one of several images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoxelSite {
    /// Index in the list of images.
    pub image: u32,
    /// Voxel index on the level with the integral volume.
    pub voxel: [i32; 3],
}

/// A pose in one of several images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoseSite {
    /// Index in the list of images.
    pub image: u32,
    /// The posed box, LPS mm.
    pub pose: Pose,
}
