//! Work off the interpreter: on a thread of its own, with the interpreter's lock released. Ctrl-C
//! ends it, exceptions of callbacks end it, and a panic becomes an exception like any other.

use crate::failure::exception;
use pbt::Failure;
use pbt::host::Host;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::any::Any;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How long Ctrl-C and callbacks may wait.
const TICK: Duration = Duration::from_millis(50);

/// Warnings name the line that called the function of the package, one above that function.
const CALLER: i32 = 2;

/// What the working thread and the waiting one share.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    interrupted: AtomicBool,
    /// Told by the work, and not yet to the callback.
    news: Mutex<Vec<(String, f64)>>,
    /// Of which Python has not been warned yet.
    warnings: Mutex<Vec<String>>,
}

impl Host for Watch {
    fn progress(&self, what: &str, done: f64) {
        self.news.lock().unwrap_or_else(PoisonError::into_inner).push((what.to_owned(), done));
    }

    fn warning(&self, text: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    fn interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

impl Watch {
    /// Warns and calls back with all news.
    fn tell(&self, py: Python<'_>, callback: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let taken =
            std::mem::take(&mut *self.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        for text in taken {
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &CString::new(text)?, CALLER)?;
        }
        let news = std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner));
        let Some(callback) = callback else { return Ok(()) };
        news.into_iter().try_for_each(|told| callback.call1(told).map(drop))
    }
}

/// What happens to work when its caller is interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupted {
    /// It leaves nothing behind, so that nobody needs to wait for its end.
    Left,
    /// It stops at its next step; a second interruption leaves it.
    Stopped,
}

/// Does the work and returns its result.
///
/// # Errors
/// The exception of its failure, of an interruption, or of the callback.
pub(crate) fn off_interpreter<T: Send + 'static>(
    py: Python<'_>,
    when: Interrupted,
    callback: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Arc<Watch>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    let error = |failure: &Failure| exception(py, failure);
    check_process().map_err(|failure| error(&failure))?;
    let watch = Arc::new(Watch::default());
    let (sender, mut results) = channel();
    let watched = Arc::clone(&watch);
    let thread = std::thread::Builder::new().name("pbt".to_owned()).spawn(move || {
        // Where nobody waits any longer, nobody misses the result.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&watched))));
    });
    thread.map_err(|e| error(&Failure::other(format!("threads: cannot be made: {e}"))))?;
    let mut stop = None;
    loop {
        let outcome;
        (outcome, results) = py.detach(move || (results.recv_timeout(TICK), results));
        // After an exception the caller hears nothing more but the end.
        let told = if stop.is_none() { watch.tell(py, callback) } else { Ok(()) };
        if let Err(exception) = told.and_then(|()| py.check_signals()) {
            if when == Interrupted::Left || stop.is_some() {
                return Err(exception);
            }
            watch.interrupted.store(true, Ordering::SeqCst);
            stop = Some(exception);
        }
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => {
                Err(Box::new("no result") as Box<dyn Any + Send>)
            }
        };
        if let Some(exception) = stop {
            return Err(exception);
        }
        return match outcome {
            Ok(result) => result.map_err(|failure| error(&failure)),
            Err(panic) => Err(error(&mistake(&*panic))),
        };
    }
}

/// A panic as a failure.
fn mistake(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no reason is known");
    Failure::other(format!("a mistake of the program, please report it: {text}"))
}

/// A process that is forked has none of the threads that wait for work, and would wait for them for
/// ever.
fn check_process() -> Result<(), Failure> {
    static STARTED_IN: OnceLock<u32> = OnceLock::new();
    let here = std::process::id();
    if *STARTED_IN.get_or_init(|| here) == here {
        return Ok(());
    }
    Err(Failure::usage(
        "the process was forked from one in which pbt had started its threads (start it with the method `spawn` of multiprocessing)",
    ))
}
