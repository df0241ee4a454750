//! The CUDA backend: twin of the CPU's, with the same bits (`docs/explanation/gpu.md`).
//!
//! The driver is loaded when a device is opened, so that a program with this crate builds and runs
//! where there is none. The kernels come compiled (`cargo xtask kernels`); a driver of CUDA 12.4 or
//! later is all that a user needs.

mod backend;
mod best;
mod bins;
mod boost;
mod channels;
mod components;
mod constants;
mod device;
mod forest;
mod gathered;
mod gpu;
mod haar;
mod image;
mod integral;
mod label;
mod label_backend;
mod label_equivalence;
mod patches;
mod paths;
mod poses;
mod respond;
mod ridge;
mod tiles;

pub use best::BestScores;
pub use bins::DeviceMatrix;
pub use components::DeviceComponents;
pub use device::{DeviceInfo, GpuError, devices};
pub use gpu::Gpu;
pub use haar::Strategy;
pub use image::GpuImage;
pub use integral::Integral;
pub use label::{GpuBoosting, GpuChannels, GpuLabelForest, GpuLabelMatrix};
pub use poses::PoseFrames;
