//! What regression sees of a pose: the twin of `patches.rs` of `pbt-cpu`.

use crate::device::{Context, GpuError, blocks_of, launch, module};
use crate::image::{GpuImage, Images};
use crate::poses::PoseSites;
use cudarc::driver::CudaFunction;
use pbt_tree::{Patch, PoseSite};

/// The kernel of `patches.cu`.
pub(crate) struct PatchesKernels {
    sample: CudaFunction,
}

impl PatchesKernels {
    pub(crate) fn load(device: &Context) -> Result<Self, GpuError> {
        Ok(Self { sample: module!(device, "patches")?.load_function("patches_sample")? })
    }

    /// Writes what is seen of each pose.
    pub(crate) fn sample(
        &self,
        device: &Context,
        store: &Images,
        images: &[&GpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), GpuError> {
        if sites.is_empty() || patch.is_empty() {
            return Ok(());
        }
        let used = |level: usize| patch.levels.iter().any(|&l| usize::from(l) == level);
        let prepared = PoseSites::new((device, store), images, &patch.grid, sites, used)?;
        let levels: Vec<u32> = patch.levels.iter().map(|&l| l.into()).collect();
        let device_levels = device.upload(&levels)?;
        // SAFETY: the kernel writes every value.
        let mut values = unsafe { device.alloc::<i16>(sites.len() * patch.len()) }?;
        let [nx, ny, nz] = patch.grid.points.map(u32::from);
        let (level_count, edges) = (levels.len() as u32, u32::from(patch.edges));
        let config = blocks_of(256, sites.len() * levels.len() * patch.grid.len());
        let (kernel, images, frames) =
            (&self.sample, &prepared.device_image_of_site, prepared.frames.argument(device));
        prepared.with_channels(0..sites.len(), |channels| {
            launch!(
                device,
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
        device.read(&values, &mut out[..sites.len() * patch.len()])
    }
}
