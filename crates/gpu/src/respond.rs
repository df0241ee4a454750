//! Responses on the device, whatever the family of features.

use crate::device::GpuError;
use cudarc::driver::CudaViewMut;
use std::ops::Range;

/// Responses of the features and sites that were prepared.
pub(crate) trait Respond {
    /// The responses of some of the features at some of the sites, `[feature][site]`.
    fn respond(
        &self,
        features: Range<usize>,
        sites: Range<usize>,
        out: &mut CudaViewMut<'_, i32>,
    ) -> Result<(), GpuError>;
}
