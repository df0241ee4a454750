//! What a device says when it fails.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// A device failed at work: its memory is full, its driver stopped, or the like. It reads as the
/// error that the device gave.
#[derive(Debug, Clone)]
pub struct DeviceError(Arc<dyn Error + Send + Sync>);

impl DeviceError {
    /// The error of a device.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error that the device gave.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The source is that of the device's error, whose own words [`fmt::Display`] gives already.
impl Error for DeviceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// Errors with the same words are equal.
impl PartialEq for DeviceError {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}
