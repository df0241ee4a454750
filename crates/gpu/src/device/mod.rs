//! What lies below the kernels: the driver, a device that is open, its memory, launches, and their
//! errors.

mod context;
mod devices;
mod error;
mod launch;
mod resident;
mod staging;

pub(crate) use context::{Context, bytes_of};
pub use devices::{DeviceInfo, devices};
pub use error::GpuError;
pub(crate) use launch::{blocks_of, launch, module};
pub(crate) use resident::Resident;
