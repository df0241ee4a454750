//! Progress of a training: a bar with the time left on a terminal, nothing elsewhere; checkpoints.

use crate::interrupt::interrupted;
use crate::output::{say, tell, visible};
use crate::session::{Failure, Watcher};
use indicatif::{ProgressBar, ProgressStyle};
use pbt_detect::{DetectError, Observer};
use pbt_io::write_atomically;
use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

/// A bar that counts cases on a terminal unless `quiet`, nothing elsewhere.
pub(crate) fn count_bar(quiet: bool, cases: usize) -> ProgressBar {
    let bar = if quiet || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(cases as u64)
    };
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {pos} of {len}  {elapsed} gone, {eta} left  {msg}")
    {
        bar.set_style(style);
    }
    bar
}

/// Shows how many cases are done, and the trainings among the work.
pub(crate) struct CaseProgress {
    quiet: bool,
    bar: RefCell<ProgressBar>,
}

impl CaseProgress {
    /// Shows nothing but failures if `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        Self { quiet, bar: RefCell::new(ProgressBar::hidden()) }
    }
}

impl Watcher for CaseProgress {
    fn note(&self, text: &str) {
        say(self.quiet, text);
    }

    fn begin(&self, cases: usize) {
        *self.bar.borrow_mut() = count_bar(self.quiet, cases);
    }

    fn case(&self, id: &str) {
        self.bar.borrow().set_message(visible(id));
    }

    fn failed(&self, id: &str, failure: &Failure) {
        self.bar.borrow().suspend(|| tell(format_args!("error: case {id}: {failure}")));
    }

    fn done(&self) {
        self.bar.borrow().inc(1);
    }

    fn end(&self) {
        self.bar.borrow().finish_and_clear();
    }

    fn training(&self, what: &str) -> Box<dyn Observer> {
        Box::new(TrainingProgress::without_checkpoint(self.quiet, what))
    }
}

/// Shows a training and keeps its checkpoint.
pub(crate) struct TrainingProgress {
    bar: ProgressBar,
    checkpoint: Option<PathBuf>,
    what: String,
}

impl TrainingProgress {
    /// A bar on a terminal unless `quiet`; checkpoints go to the file `checkpoint`.
    pub(crate) fn new(quiet: bool, checkpoint: PathBuf) -> Self {
        let mut progress = Self::without_checkpoint(quiet, "");
        progress.checkpoint = Some(checkpoint);
        progress
    }

    /// The same for a short training, of which nothing is kept until it is done; `what` says which
    /// it is.
    pub(crate) fn without_checkpoint(quiet: bool, what: &str) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(1000)
        };
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:30} {percent:>3} %  {elapsed} gone, {eta} left  {msg}",
        ) {
            bar.set_style(style);
        }
        // It ticks on a thread of its own.
        if !bar.is_hidden() && rayon::current_num_threads() > 1 {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar, checkpoint: None, what: what.to_owned() }
    }
}

/// Takes the bar away.
impl Drop for TrainingProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for TrainingProgress {
    fn stage(&self, structure: &str, stage: &str, done: f64) {
        self.bar.set_position((done * 1000.0) as u64);
        let what = if self.what.is_empty() { String::new() } else { format!("{}: ", self.what) };
        self.bar.set_message(visible(&format!("{what}{structure}: {stage}")));
    }

    fn interrupted(&self) -> bool {
        interrupted()
    }

    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        write_atomically(path, |writer| writer.write_all(bytes))
            .map_err(|e| DetectError::Output(e.to_string()))
    }
}
