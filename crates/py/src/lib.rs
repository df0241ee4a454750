//! `pbt._pbt`, the part of the Python package `pbt` that is Rust. The modules in `python/pbt` stand
//! before it: they take images of other libraries apart and name the options.
//!
//! Work is done on threads that do not belong to the interpreter, while the one that asked waits
//! for results, calls back and listens for Ctrl-C (`work.rs`).

mod commands;
mod device;
mod failure;
mod image;
mod model;
mod result;
mod work;

use pyo3::prelude::*;

/// The compiled part of `pbt`.
#[pymodule]
mod _pbt {
    #[pymodule_export]
    use crate::commands::{cases, main, run};
    #[pymodule_export]
    use crate::image::{case_name, read_image};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::result::ImageResult;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
