//! The CPU backend: rayon in whatever pool the caller installs, integers and fixed orders
//! throughout, so that the number of threads never shows in a result. Every other backend is
//! checked against this one.
#![forbid(unsafe_code)]

mod boost;
mod haar;
mod image;
mod patches;
mod steerable;
mod voxels;

pub use boost::CpuBooster;
pub use image::CpuImage;

use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{
    Backend, BinnedMatrix, BoostParams, Booster, Classifier, ImageLayout, Patch, PoseSite, Score,
    VoxelSite, Weak,
};
use pbt_volume::{Pose, Volume};

/// The CPU backend.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu;

impl Booster for Cpu {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Vec<Weak> {
        CpuBooster.boost(matrix, labels, weights, params)
    }
}

impl Backend for Cpu {
    type Image = CpuImage;

    fn upload(&self, levels: &[Volume<u16>], layout: &ImageLayout) -> CpuImage {
        CpuImage::new(levels, layout)
    }

    fn haar_responses(
        &self,
        images: &[&CpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
        out: &mut [i32],
    ) {
        haar::responses(images, features, sites, out);
    }

    fn pose_responses(
        &self,
        images: &[&CpuImage],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        out: &mut [i32],
    ) {
        steerable::responses(images, grid, features, sites, out);
    }

    fn score_voxels(
        &self,
        image: &CpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Vec<Score> {
        voxels::score(image, features, classifier)
    }

    fn score_poses(
        &self,
        image: &CpuImage,
        grid: &BoxGrid,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Vec<Score> {
        steerable::score(image, grid, features, classifier, poses)
    }

    fn patches(&self, images: &[&CpuImage], patch: &Patch, sites: &[PoseSite], out: &mut [i16]) {
        patches::sample(images, patch, sites, out);
    }
}
