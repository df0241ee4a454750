//! The CPU backend: rayon in whatever pool the caller installs, integers and fixed orders
//! throughout, so that the number of threads never shows in a result. Every other backend is
//! checked against this one.
#![forbid(unsafe_code)]

mod boost;
mod device;
mod haar;
mod image;
mod label;
mod patches;
mod poses;
mod room;

pub use boost::CpuBooster;
pub use device::Cpu;
pub use image::CpuImage;
pub use label::CpuChannels;

use pbt_tree::{Backend, DeviceError, Patch, PoseSite};

impl Backend for Cpu {
    fn patches(
        &self,
        images: &[&CpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError> {
        patches::sample(images, patch, sites, out);
        Ok(())
    }

    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError> {
        Ok(pbt_linear::solutions(vectors, ridges, right))
    }
}
