//! What can go wrong with a GPU.

use cudarc::driver::{DriverError, sys::CUresult};
use pbt_tree::DeviceError;

/// Why a GPU cannot be used, or why it stopped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// No CUDA driver is installed.
    #[error("no NVIDIA driver found (install one, or use --device cpu)")]
    NoDriver,
    /// A driver without a GPU.
    #[error("the NVIDIA driver sees no GPU (use --device cpu)")]
    NoDevice,
    /// A number beyond the last GPU.
    #[error("gpu:{ordinal} is not there: {count} GPU(s), numbered from 0 (see pbt info --devices)")]
    NotThere {
        /// The number asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A driver that cannot load the kernels.
    #[error("the NVIDIA driver supports CUDA {}.{} and {}.{} is needed (update the driver to 550 or later)", found / 1000, found % 1000 / 10, needed / 1000, needed % 1000 / 10)]
    OldDriver {
        /// As the driver counts: 12040 is 12.4.
        found: i32,
        /// The same.
        needed: i32,
    },
    /// A GPU that cannot run the kernels.
    #[error("{name} has compute capability {major}.{minor} and 7.5 is needed (use --device cpu)")]
    OldDevice {
        /// The GPU.
        name: String,
        /// Compute capability.
        major: i32,
        /// Compute capability.
        minor: i32,
    },
    /// Another program holds the GPU.
    #[error(
        "gpu:{ordinal} is in use by another program that does not share it (wait for it, or choose another device)"
    )]
    InUse {
        /// The number of the GPU.
        ordinal: u32,
    },
    /// The memory is full.
    #[error(
        "out of GPU memory: {asked} bytes asked for, {free} free (use smaller volumes, another GPU or --device cpu)"
    )]
    OutOfMemory {
        /// Bytes; 0 where the driver does not say.
        asked: usize,
        /// Bytes.
        free: usize,
    },
    /// More voxels than the kernels can number.
    #[error("{0:?} are 2^31 voxels or more (use --device cpu)")]
    TooLarge([usize; 3]),
    /// Anything else that the driver reports, kernels that failed among it.
    #[error("the GPU failed: {0} (try again, or use --device cpu)")]
    Driver(String),
}

impl GpuError {
    /// Whether a device is missing or cannot be used, rather than one that failed at work.
    pub fn is_unavailable(&self) -> bool {
        !matches!(self, Self::OutOfMemory { .. } | Self::TooLarge(_) | Self::Driver(_))
    }
}

impl From<GpuError> for DeviceError {
    fn from(error: GpuError) -> Self {
        Self::new(error)
    }
}

impl From<DriverError> for GpuError {
    fn from(error: DriverError) -> Self {
        match error.0 {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY => Self::OutOfMemory { asked: 0, free: 0 },
            CUresult::CUDA_ERROR_NO_DEVICE => Self::NoDevice,
            code => {
                let text = error
                    .error_string()
                    .map(|t| t.to_string_lossy().into_owned())
                    .unwrap_or_default();
                Self::Driver(format!("{code:?}: {text}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_and_name_the_numbers() {
        assert_eq!(
            GpuError::OldDriver { found: 11080, needed: 12040 }.to_string(),
            "the NVIDIA driver supports CUDA 11.8 and 12.4 is needed (update the driver to 550 or later)"
        );
        assert!(
            GpuError::OutOfMemory { asked: 4096, free: 17 }
                .to_string()
                .contains("4096 bytes asked for, 17 free")
        );
    }
}
