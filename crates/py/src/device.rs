//! Devices that stay open from call to call: opening a GPU takes longer than a detection.

use pbt::Failure;
use pbt::session::{Device, DeviceChoice, install_threads};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open device.
pub(crate) struct OpenDevice {
    device: Device,
    /// Whose turn it is on a GPU.
    turn: Mutex<()>,
}

/// What a caller asks for: device and threads.
type Wanted = (String, Option<u16>);

static OPEN: Mutex<BTreeMap<Wanted, Arc<OpenDevice>>> = Mutex::new(BTreeMap::new());

/// The device of this name with so many CPU threads, all cores where no number is given.
///
/// # Errors
/// Exit code 2 for a name that is none, 6 when a GPU is asked for and cannot be used.
pub(crate) fn open(name: &str, threads: Option<u16>) -> Result<Arc<OpenDevice>, Failure> {
    let choice =
        name.parse::<DeviceChoice>().map_err(|why| Failure::usage(format!("device: {why}")))?;
    all_cores();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let wanted = (name.to_owned(), threads);
    if let Some(device) = open.get(&wanted) {
        return Ok(Arc::clone(device));
    }
    let device = OpenDevice { device: Device::open(choice, threads)?, turn: Mutex::new(()) };
    let device = Arc::new(device);
    open.insert(wanted, Arc::clone(&device));
    Ok(device)
}

/// The process has all cores, so that each call may take fewer.
pub(crate) fn all_cores() {
    install_threads(None);
}

impl OpenDevice {
    /// The device, once it is free: calls from several threads share a CPU and wait for a GPU.
    pub(crate) fn turn(&self) -> (&Device, Option<MutexGuard<'_, ()>>) {
        let turn = || self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.device, self.device.is_gpu().then(turn))
    }
}
