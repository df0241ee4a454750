//! The CUDA backend: twin of the CPU's, with the same bits (`docs/explanation/gpu.md`).
//!
//! The driver is loaded when a device is opened, so that a program with this crate builds and runs
//! where there is none. The kernels come compiled (`cargo xtask kernels`); a driver of CUDA 12.4 or
//! later is all that a user needs.

mod backend;
mod best;
mod boost;
mod classifier;
mod error;
mod gpu;
mod haar;
mod image;
mod matrix;
mod paths;
mod poses;
mod resident;

pub use best::BestScores;
pub use error::{GpuError, guarded};
pub use gpu::{DeviceInfo, Gpu, devices};
pub use haar::Strategy;
pub use image::{GpuImage, Integral};
pub use matrix::DeviceMatrix;
pub use poses::PoseFrames;
