//! Progress: a bar with the time left on a terminal, a line now and then elsewhere, and what a host is
//! told; checkpoints.

use crate::args::Global;
use crate::host::Host;
use crate::interrupt::interrupted;
use crate::output::{say, tell, visible};
use crate::session::{Failure, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pbt_detect::{DetectError, Observer};
use pbt_io::write_atomically;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of progress for who reads stderr later: a file, the log of a batch system.
struct Lines {
    started: Instant,
    /// Where there is a terminal, a host, or nobody who wants to read, there are none.
    wanted: bool,
    last: Mutex<Instant>,
}

impl Lines {
    fn new(quiet: bool, host: bool, started: Instant) -> Self {
        let wanted = !quiet && !host && !std::io::stderr().is_terminal();
        Self { started, wanted, last: Mutex::new(Instant::now()) }
    }

    /// Says how far the work is, `done` from 0 to 1, unless a line was written less than `pause` ago.
    fn say(&self, what: &str, done: f64, pause: Duration) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.wanted || last.elapsed() < pause {
            return;
        }
        *last = Instant::now();
        let gone = self.started.elapsed();
        let gone_and_left = format!("{} gone{}", span(gone.as_secs_f64()), left(gone, done));
        tell(format_args!("{:3.0} %  {what} ({gone_and_left})", 100.0 * done));
    }
}

/// `, about 45 s left`, or nothing: the first per cent tells nothing about the rest.
fn left(gone: Duration, done: f64) -> String {
    if done <= 0.02 {
        return String::new();
    }
    format!(", about {} left", span(gone.as_secs_f64() * (1.0 - done) / done))
}

/// A time for people: `45 s`, `12 min`, `3.5 h`.
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 5700.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// A training says a line when a stage begins, but not more often.
const STAGE_PAUSE: Duration = Duration::from_secs(5);

/// Where there are many cases, or trainings within other work.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// How cases are counted on a terminal.
const CASES: &str = "{bar:30} {pos} of {len} cases  {elapsed} gone, {eta} left  {msg}";

/// Where trainings among the work tell what is left.
const CASES_AND_TRAININGS: &str = "{bar:30} {pos} of {len} cases  {elapsed} gone  {msg}";

/// A bar that counts cases on a terminal unless `quiet`, and counts unseen elsewhere.
fn count_bar(quiet: bool, cases: usize) -> ProgressBar {
    let bar = ProgressBar::hidden();
    bar.set_length(cases as u64);
    if !quiet && std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    if let Ok(style) = ProgressStyle::with_template(CASES) {
        bar.set_style(style);
    }
    bar
}

/// The trainings among the work of some cases.
#[derive(Clone, Copy)]
struct Trainings {
    begun: usize,
    all: usize,
    /// When the first case's turn came.
    since: Instant,
}

impl Trainings {
    /// What is done beside so many of all cases. Those of the first fold are tested before most trainings have
    /// begun, so that cases alone would not tell where the share of the work comes from.
    fn beside(self, cases: u64, all: u64) -> String {
        let cases = format!("{cases} of {all} cases");
        match self.all {
            0 => cases,
            all => format!("{} of {all} trainings, {cases}", self.begun.min(all)),
        }
    }
}

/// Of some work, the part that a training is: what share lies behind when it begins, its own share, and
/// when the work began.
#[derive(Clone, Copy)]
struct PartOfWork {
    from: f64,
    share: f64,
    since: Instant,
}

impl PartOfWork {
    /// A training by itself.
    fn whole() -> Self {
        Self { from: 0.0, share: 1.0, since: Instant::now() }
    }
}

/// Shows how many cases are done, and the trainings among the work.
pub(crate) struct CaseProgress {
    quiet: bool,
    host: Option<Arc<dyn Host>>,
    bar: Mutex<ProgressBar>,
    trainings: Mutex<Trainings>,
    lines: Mutex<Lines>,
}

impl CaseProgress {
    /// Shows nothing but failures where that is wanted.
    pub(crate) fn new(global: &Global) -> Self {
        let (quiet, host) = (global.quiet, global.host.clone());
        let since = Instant::now();
        let lines = Mutex::new(Lines::new(quiet, host.is_some(), since));
        let trainings = Mutex::new(Trainings { begun: 0, all: 0, since });
        Self { quiet, host, bar: Mutex::new(ProgressBar::hidden()), trainings, lines }
    }

    /// Something that a person should look at.
    pub(crate) fn warn(&self, text: &str) {
        match &self.host {
            Some(host) => host.warning(&visible(text)),
            None => self.note(&format!("warning: {text}")),
        }
    }

    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn trainings_so_far(&self) -> MutexGuard<'_, Trainings> {
        self.trainings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The share of the work that is done, 0 to 1: that of the trainings where there are some, but not all
    /// while cases are left.
    fn share_done(&self) -> f64 {
        let trainings = *self.trainings_so_far();
        let bar = self.bar();
        let (position, length) = (bar.position(), bar.length().unwrap_or(0));
        match trainings.all {
            0 => position as f64 / length.max(1) as f64,
            all if position < length => (trainings.begun as f64 / all as f64).min(0.99),
            _ => 1.0,
        }
    }

    fn tell_host(&self) {
        let Some(host) = &self.host else { return };
        let message = self.bar().message();
        host.progress(&message, self.share_done());
    }
}

impl Watcher for CaseProgress {
    fn note(&self, text: &str) {
        self.bar().suspend(|| say(self.quiet, text));
    }

    fn begin(&self, cases: usize) {
        let since = Instant::now();
        *self.bar() = count_bar(self.quiet, cases);
        *self.trainings_so_far() = Trainings { begun: 0, all: 0, since };
        let lines = Lines::new(self.quiet, self.host.is_some(), since);
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    fn trainings(&self, count: usize) {
        self.trainings_so_far().all = count;
        if count > 0
            && let Ok(style) = ProgressStyle::with_template(CASES_AND_TRAININGS)
        {
            self.bar().set_style(style);
        }
    }

    fn case(&self, id: &str) {
        self.bar().set_message(visible(id));
        self.tell_host();
    }

    fn failed(&self, id: &str, failure: &Failure) {
        // A host reads the report.
        if self.host.is_none() {
            self.bar().suspend(|| tell(format_args!("error: case {id}: {failure}")));
        }
    }

    fn done(&self) {
        let (count, all) = {
            let bar = self.bar();
            bar.inc(1);
            (bar.position(), bar.length().unwrap_or(0).max(1))
        };
        let what = self.trainings_so_far().beside(count, all);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.say(&what, self.share_done(), LONG_PAUSE);
        drop(lines);
        self.tell_host();
    }

    fn end(&self) {
        self.bar().finish_and_clear();
    }

    fn interrupted(&self) -> bool {
        interrupted(self.host.as_deref())
    }

    fn training(&self, what: &str, checkpoint: Option<&Path>) -> Box<dyn Observer> {
        let mut trainings = self.trainings_so_far();
        let part = match trainings.all {
            0 => PartOfWork::whole(),
            all => {
                let share = 1.0 / all as f64;
                PartOfWork { from: share * trainings.begun as f64, share, since: trainings.since }
            }
        };
        trainings.begun += 1;
        let mut progress = TrainingProgress::told(self.quiet, self.host.clone(), what, part);
        progress.checkpoint = checkpoint.map(Path::to_owned);
        Box::new(progress)
    }
}

/// Shows a training and keeps its checkpoint.
pub(crate) struct TrainingProgress {
    bar: ProgressBar,
    host: Option<Arc<dyn Host>>,
    checkpoint: Option<PathBuf>,
    what: String,
    part: PartOfWork,
    lines: Lines,
}

impl TrainingProgress {
    /// A bar on a terminal unless it is to be quiet; checkpoints go to the file `checkpoint`.
    pub(crate) fn new(global: &Global, checkpoint: PathBuf) -> Self {
        let mut progress = Self::without_checkpoint(global, "");
        progress.checkpoint = Some(checkpoint);
        progress
    }

    /// The same for a short training, of which nothing is kept until it is done; `what` says which
    /// it is.
    pub(crate) fn without_checkpoint(global: &Global, what: &str) -> Self {
        Self::told(global.quiet, global.host.clone(), what, PartOfWork::whole())
    }

    fn told(quiet: bool, host: Option<Arc<dyn Host>>, what: &str, part: PartOfWork) -> Self {
        let bar = if quiet || !std::io::stderr().is_terminal() {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(1000).with_elapsed(part.since.elapsed())
        };
        // What is left is told when a stage begins: from then on to its end nothing is known of it.
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {gone} gone{msg}")
        {
            let gone = |state: &ProgressState, to: &mut dyn fmt::Write| {
                let _ = to.write_str(&span(state.elapsed().as_secs_f64()));
            };
            bar.set_style(style.with_key("gone", gone));
        }
        // It ticks on a thread of its own.
        if !bar.is_hidden() && rayon::current_num_threads() > 1 {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let lines = Lines::new(quiet, host.is_some(), part.since);
        Self { bar, host, checkpoint: None, what: what.to_owned(), part, lines }
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
        let done = self.part.from + self.part.share * done;
        self.bar.set_position((done * 1000.0) as u64);
        let what = if self.what.is_empty() { String::new() } else { format!("{}: ", self.what) };
        let what = visible(&format!("{what}{structure}: {stage}"));
        if let Some(host) = &self.host {
            host.progress(&what, done);
        }
        let pause = if self.what.is_empty() { STAGE_PAUSE } else { LONG_PAUSE };
        self.lines.say(&what, done, pause);
        self.bar.set_message(format!("{}  {what}", left(self.part.since.elapsed(), done)));
    }

    fn interrupted(&self) -> bool {
        interrupted(self.host.as_deref())
    }

    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        write_atomically(path, |writer| writer.write_all(bytes))
            .map_err(|e| DetectError::Output(e.to_string()))
    }

    /// Beside the model: there is room, where folders for temporary files are often in memory.
    fn scratch_folder(&self) -> PathBuf {
        let folder = self.checkpoint.as_deref().and_then(Path::parent);
        match folder.map(Path::to_owned) {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder,
            None => std::env::temp_dir(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the shares that it is told.
    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<f64>>);

    impl Host for Told {
        fn progress(&self, _what: &str, done: f64) {
            self.0.lock().unwrap().push(done);
        }

        fn warning(&self, _text: &str) {}

        fn interrupted(&self) -> bool {
            false
        }
    }

    #[test]
    fn trainings_are_all_of_the_work_of_the_cases_that_they_are_for() {
        let told = Arc::new(Told::default());
        let progress = CaseProgress {
            quiet: true,
            host: Some(told.clone()),
            bar: Mutex::new(ProgressBar::hidden()),
            trainings: Mutex::new(Trainings { begun: 0, all: 0, since: Instant::now() }),
            lines: Mutex::new(Lines::new(true, true, Instant::now())),
        };
        progress.begin(3);
        progress.trainings(2);
        for (case, trains) in [("a", true), ("b", true), ("c", false)] {
            progress.case(case);
            if trains {
                progress.training("without it", None).stage("box", "position", 0.5);
            }
            progress.done();
        }
        assert_eq!(progress.trainings_so_far().beside(2, 3), "2 of 2 trainings, 2 of 3 cases");
        let shares = told.0.lock().unwrap();
        assert_eq!(*shares, [0.0, 0.25, 0.5, 0.5, 0.75, 0.99, 0.99, 1.0]);
    }

    #[test]
    fn times_are_for_people() {
        let spans = [0.4, 45.0, 99.4, 130.0, 3600.0, 9000.0].map(span);
        assert_eq!(spans, ["0 s", "45 s", "99 s", "2 min", "60 min", "2.5 h"]);
    }

    #[test]
    fn what_is_left_is_told_when_something_is_done() {
        let after = |done| left(Duration::from_secs(30), done);
        assert_eq!([after(0.01), after(0.25)], ["", ", about 90 s left"]);
    }
}
