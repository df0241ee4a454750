//! The CPU as a device.

use crate::boost::CpuBooster;
use crate::image::CpuImage;
use pbt_tree::{BinnedMatrix, BoostParams, Booster, Device, DeviceError, ImageLayout, Weak};
use pbt_volume::Level;

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
    ) -> Result<Vec<Weak>, DeviceError> {
        CpuBooster.boost(matrix, labels, weights, params)
    }
}

impl Device for Cpu {
    type Image = CpuImage;

    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<CpuImage, DeviceError> {
        Ok(CpuImage::new(levels, layout))
    }
}
