//! The device that a command computes on.

use crate::Failure;
use crate::args::Global;
use crate::output::say;
use crate::session::Device;

/// The device that the arguments ask for. Where `auto` finds no GPU it says why with `--verbose`.
///
/// # Errors
/// Exit code 6 when a GPU is asked for and cannot be used.
pub(super) fn open_device(global: &Global) -> Result<Device, Failure> {
    let device = Device::open(global.device, global.threads)?;
    if let Some(reason) = &device.no_gpu {
        say(!global.verbose, format_args!("computing on the CPU: {reason}"));
    }
    Ok(device)
}
