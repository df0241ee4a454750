//! What regression sees of a pose: the twin of `patches.rs` of `pbt-cpu`.

use crate::device::{blocks_of, launch};
use crate::poses::PoseSites;
use crate::{Gpu, GpuError, GpuImage};
use cudarc::driver::{CudaFunction, CudaModule};
use pbt_tree::{Patch, PoseSite};
use std::sync::Arc;

/// The kernel of `patches.cu`.
pub(crate) struct PatchesKernels {
    sample: CudaFunction,
}

impl PatchesKernels {
    pub(crate) fn load(module: &Arc<CudaModule>) -> Result<Self, GpuError> {
        Ok(Self { sample: module.load_function("patches_sample")? })
    }
}

impl Gpu {
    pub(crate) fn sample_patches(
        &self,
        images: &[&GpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), GpuError> {
        if sites.is_empty() || patch.is_empty() {
            return Ok(());
        }
        let used = |level: usize| patch.levels.iter().any(|&l| usize::from(l) == level);
        let prepared = PoseSites::new(self, images, &patch.grid, sites, used)?;
        let levels: Vec<u32> = patch.levels.iter().map(|&l| l.into()).collect();
        let device_levels = self.device.upload(&levels)?;
        // SAFETY: the kernel writes every value.
        let mut values = unsafe { self.device.alloc::<i16>(sites.len() * patch.len()) }?;
        let [nx, ny, nz] = patch.grid.points.map(u32::from);
        let (level_count, edges) = (levels.len() as u32, u32::from(patch.edges));
        let config = blocks_of(256, sites.len() * levels.len() * patch.grid.len());
        let (kernel, images, frames) =
            (&self.patches.sample, &prepared.device_image_of_site, prepared.frames.argument(self));
        prepared.with_channels(0..sites.len(), |channels| {
            launch!(
                self.device,
                kernel,
                config,
                channels,
                images,
                &frames,
                &device_levels,
                &level_count,
                &nx,
                &ny,
                &nz,
                &edges,
                &mut values
            )
        })?;
        self.device.stream.memcpy_dtoh(&values, &mut out[..sites.len() * patch.len()])?;
        self.device.stream.synchronize()?;
        Ok(())
    }
}
