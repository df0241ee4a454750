//! Failures as Python exceptions.

use pbt::{Failure, exit};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// The exception of a failure: its class by the exit code, with the line that the command would
/// print, the file and the field.
pub(crate) fn exception(py: Python<'_>, failure: &Failure) -> PyErr {
    let class = match failure.code() {
        exit::USAGE => "UsageError",
        exit::INPUT => "InputError",
        exit::MODEL => "ModelError",
        exit::DEVICE => "DeviceError",
        exit::INTERRUPTED => return PyKeyboardInterrupt::new_err(()),
        _ => "Error",
    };
    let file = failure.file().map(|file| file.to_string_lossy().into_owned());
    let raise = || {
        let class = py.import("pbt._errors")?.getattr(class)?;
        let error = class.call1((failure.to_string(), file, failure.field()))?;
        error.setattr("_without_file", failure.without_file())?;
        Ok::<_, PyErr>(error)
    };
    raise().map_or_else(|error| error, PyErr::from_value)
}
