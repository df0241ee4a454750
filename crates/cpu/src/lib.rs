//! The CPU backend: rayon in whatever pool the caller installs, integers and fixed orders
//! throughout, so that the number of threads never shows in a result. Every other backend is
//! checked against this one.
#![forbid(unsafe_code)]

mod boost;
mod haar;
mod image;
mod patches;
mod poses;

pub use boost::CpuBooster;
pub use image::CpuImage;

use pbt_tree::{
    Backend, BinnedMatrix, BoostParams, Booster, Device, ImageLayout, Patch, PoseSite, Weak,
};
use pbt_volume::Volume;

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

impl Device for Cpu {
    type Image = CpuImage;

    fn upload(&self, levels: &[Volume<u16>], layout: &ImageLayout) -> CpuImage {
        CpuImage::new(levels, layout)
    }
}

impl Backend for Cpu {
    fn patches(&self, images: &[&CpuImage], patch: &Patch, sites: &[PoseSite], out: &mut [i16]) {
        patches::sample(images, patch, sites, out);
    }
}
