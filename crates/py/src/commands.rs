//! The commands: as functions of Python, and as the program `pbt`.

use crate::device::all_cores;
use crate::work::{Interrupted, off_interpreter};
use clap::Parser;
use pbt::args::Cli;
use pbt::commands::{BatchCase, batch_cases, without_channels};
use pbt::host::Host;
use pbt::{Failure, exit};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs a command without output; what it warns of is a `UserWarning`. `progress` is called with what is being worked on and the share
/// of the whole that is done, 0 to 1.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    arguments: Vec<OsString>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    off_interpreter(py, Interrupted::Stopped, progress.as_ref(), move |watch| {
        let arguments = std::iter::once("pbt".into()).chain(arguments);
        let mut cli = Cli::try_parse_from(arguments).map_err(Failure::from)?;
        cli.global.quiet = true;
        cli.global.host = Some(Arc::clone(watch) as Arc<dyn Host>);
        all_cores();
        // Failed cases are in the report.
        pbt::commands::run(&cli).map(drop)
    })
}

/// Name, image, series and time point of a case.
type Case = (String, PathBuf, Option<String>, Option<usize>);

/// The cases of a batch: those of a list, or the images below a folder, in the order of its tables, for a
/// model of so many channels.
#[pyfunction]
#[pyo3(signature = (input, channels=1))]
pub(crate) fn cases(py: Python<'_>, input: PathBuf, channels: usize) -> PyResult<Vec<Case>> {
    let cases = off_interpreter(py, Interrupted::Left, None, move |_: &_| {
        Ok(without_channels(batch_cases(&input)?, channels))
    })?;
    let case = |case: BatchCase| (case.id, case.path, case.options.series, case.options.frame);
    Ok(cases.into_iter().map(case).collect())
}

/// Runs the program `pbt` with these arguments, of which the first is its name, and returns the
/// exit code.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    /// What Rust's own programs end with.
    const PANICKED: u8 = 101;
    py.detach(|| catch_unwind(|| pbt::main_with(arguments))).map_or(PANICKED, number)
}

/// The number of an exit code, which the standard library keeps to itself.
fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(exit::FAILURE)
}
