//! The devices that the driver sees, and whether they can be used.

use super::GpuError;
use cudarc::driver::sys;

/// The oldest CUDA version of a driver that loads the kernels: that of the compiler which made them
/// (`cargo xtask kernels`).
const NEEDED_DRIVER: i32 = 12040;
/// The compute capability for which they are made.
const NEEDED_CAPABILITY: (i32, i32) = (7, 5);

/// What is known of a device without opening it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number: `gpu:N`.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Bytes.
    pub memory: usize,
}

/// The devices that the driver sees.
///
/// # Errors
/// [`GpuError`] where there is no driver, or it cannot be used.
pub fn devices() -> Result<Vec<DeviceInfo>, GpuError> {
    let info = |ordinal: u32| {
        let device = cudarc::driver::result::device::get(ordinal as i32)?;
        // SAFETY: `device` is one of the driver's.
        let (attribute, memory) = unsafe {
            let attribute = |a| cudarc::driver::result::device::get_attribute(device, a);
            use sys::CUdevice_attribute::{
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            };
            let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
            let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
            ((major, minor), cudarc::driver::result::device::total_mem(device)?)
        };
        Ok(DeviceInfo {
            ordinal,
            name: cudarc::driver::result::device::get_name(device)?,
            capability: attribute,
            memory,
        })
    };
    (0..count()?).map(info).collect()
}

/// Number of devices.
fn count() -> Result<u32, GpuError> {
    // SAFETY: asks the system for a library, no more.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::NoDriver);
    }
    cudarc::driver::result::init()?;
    let mut found = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut found) }.result()?;
    if found < NEEDED_DRIVER {
        return Err(GpuError::OldDriver { found, needed: NEEDED_DRIVER });
    }
    match cudarc::driver::result::device::get_count()? {
        0 => Err(GpuError::NoDevice),
        n => Ok(n as u32),
    }
}

/// What is known of a device that can be used.
///
/// # Errors
/// [`GpuError`] where there is no driver or no such device, or where it is too old.
pub(super) fn usable(ordinal: u32) -> Result<DeviceInfo, GpuError> {
    let count = count()?;
    if ordinal >= count {
        return Err(GpuError::NotThere { ordinal, count });
    }
    let info = devices()?.swap_remove(ordinal as usize);
    let (major, minor) = info.capability;
    if (major, minor) < NEEDED_CAPABILITY {
        return Err(GpuError::OldDevice { name: info.name, major, minor });
    }
    Ok(info)
}
