//! `pbt batch`

mod cases;
mod tables;

use crate::Failure;
use crate::args::{Batch, Global};
use crate::commands::opened::open_device;
use crate::exit;
use crate::output::{say, tell};
use crate::progress::{catch_interrupts, count_bar, interrupted};
use crate::session::{
    Device, LoadedModel, detect_image, label_map_path, make_folder, write_json, write_results,
};
use cases::batch_cases;
use indicatif::ProgressBar;
use pbt_detect::DetectError;
use pbt_io::{DeviceRecord, Image, IoError, ModelRecord, ResultFile, read_image_with, read_result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tables::{Row, row_of_failure, rows_of_result, write_tables};

pub(crate) use cases::{BatchCase, images_below};

/// `OUT/run.json`, schema `pbt-run/1`.
#[derive(Serialize)]
struct RunFile<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    input: String,
    model: &'a ModelRecord,
    model_path: String,
    device: &'a DeviceRecord,
    options: Options,
    counts: Counts,
    /// Cases that failed in this run and, in the order of the list, those of other parts that are
    /// known to have failed with this model.
    failed: &'a [FailedCase],
    seconds: Seconds,
}

#[derive(Serialize)]
struct Options {
    shard: Option<String>,
    resume: bool,
    labels: bool,
}

/// Numbers of cases of this run; of its own part when there is a shard.
#[derive(Default, Serialize)]
struct Counts {
    cases: usize,
    detected: usize,
    /// Had a result of this model already.
    resumed: usize,
    failed: usize,
}

/// Seconds of the whole run, and of loading and of detection added up over cases, of which some go
/// on side by side.
#[derive(Default, Serialize)]
struct Seconds {
    load: f64,
    detect: f64,
    total: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct FailedCase {
    case_id: String,
    path: String,
    reason: String,
}

/// What is known of a case when the tables are written.
enum State {
    Rows(Vec<Row>),
    Failed(FailedCase),
    Unknown,
}

/// An image on its way from loading to detection.
struct LoadedImage {
    place: usize,
    image: Result<Image, IoError>,
    seconds: f64,
}

pub(super) fn run(args: &Batch, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let device = open_device(global)?;
    let model = LoadedModel::open(&args.model)?;
    let cases = batch_cases(&args.input)?;
    make_folder(&args.output)?;
    catch_interrupts();

    let mut states: Vec<State> = cases.iter().map(|_| State::Unknown).collect();
    let mut counts = Counts::default();
    let mut to_do = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        if !args.shard.is_none_or(|shard| shard.has(place)) {
            continue;
        }
        counts.cases += 1;
        match args.resume.then(|| earlier_result(&args.output, case, &model, args.labels)).flatten()
        {
            Some(result) => {
                counts.resumed += 1;
                states[place] = State::Rows(rows_of_result(&result));
            }
            None => to_do.push(place),
        }
    }
    let mut seconds = Seconds::default();
    let bar = count_bar(global.quiet, to_do.len());
    let detected = detect_all(
        &Work {
            cases: &cases,
            to_do: &to_do,
            model: &model,
            device: &device,
            output: &args.output,
            labels: args.labels,
        },
        &bar,
        |done| {
            seconds.load += done.load_seconds;
            seconds.detect += done.detect_seconds;
            match &done.state {
                State::Failed(_) => counts.failed += 1,
                _ => counts.detected += 1,
            }
            states[done.place] = done.state;
        },
    );
    bar.finish_and_clear();
    match detected {
        Err(failure) if !failure.is_interruption() => return Err(failure),
        _ => {}
    }

    if args.shard.is_some() {
        add_other_shards(&args.output, &cases, &model, &mut states);
    }
    let failed: Vec<FailedCase> = states
        .iter()
        .filter_map(|s| if let State::Failed(f) = s { Some(f.clone()) } else { None })
        .collect();
    let rows: Vec<Row> = states
        .into_iter()
        .flat_map(|state| match state {
            State::Rows(rows) => rows,
            State::Failed(f) => vec![row_of_failure(&f.case_id, &model.sha256, &f.reason)],
            State::Unknown => Vec::new(),
        })
        .collect();
    write_tables(&args.output, &rows)?;
    seconds.total = started.elapsed().as_secs_f64();
    let run = RunFile {
        schema: "pbt-run/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        input: args.input.display().to_string(),
        model: &model.record(),
        model_path: args.model.display().to_string(),
        device: &device.record,
        options: Options {
            shard: args.shard.map(|s| s.to_string()),
            resume: args.resume,
            labels: args.labels,
        },
        counts,
        failed: &failed,
        seconds,
    };
    write_json(&args.output.join("run.json"), &run)?;
    if detected.is_err() {
        say(
            global.quiet,
            format_args!("{}: results so far are kept; go on with --resume", args.output.display()),
        );
    }
    detected?;
    let Counts { cases, detected, resumed, failed } = run.counts;
    let earlier =
        if args.resume { format!(", {resumed} had a result already") } else { String::new() };
    let table = args.output.join("detections.csv");
    say(
        global.quiet,
        format_args!(
            "{cases} cases: {detected} done{earlier}, {failed} failed; {:.1} s; table: {}",
            run.seconds.total,
            table.display()
        ),
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

/// The result that a case has from this model, if its files are complete.
fn earlier_result(
    folder: &Path,
    case: &BatchCase,
    model: &LoadedModel,
    labels: bool,
) -> Option<ResultFile> {
    let result = read_result(&folder.join(format!("{}.json", case.id))).ok()?;
    let usable = result.model.sha256 == model.sha256 && result.case_id == case.id;
    let complete = folder.join(format!("{}.mrk.json", case.id)).is_file()
        && (!labels || label_map_path(folder, &case.id).is_file());
    (usable && complete).then_some(result)
}

/// What [`detect_all`] goes through.
struct Work<'a> {
    cases: &'a [BatchCase],
    to_do: &'a [usize],
    model: &'a LoadedModel,
    device: &'a Device,
    output: &'a Path,
    labels: bool,
}

/// How a case went.
struct Done {
    place: usize,
    state: State,
    load_seconds: f64,
    detect_seconds: f64,
}

/// Cases in detection at a time on a CPU with several threads: while one is at work that does not
/// divide, the other has the cores.
const AT_A_TIME: usize = 2;

/// Detects in the cases and writes their results, while the next image is being loaded: at most
/// four are in memory, two in detection, one waiting, one being read. With a single thread, or on a
/// GPU, they are detected one by one; with a single thread loading waits, too.
///
/// # Errors
/// What ends the whole batch: an output that cannot be written, an interruption. An image that
/// cannot be used is a failed case.
fn detect_all(
    work: &Work<'_>,
    bar: &ProgressBar,
    mut report: impl FnMut(Done),
) -> Result<(), Failure> {
    let mut images = work.to_do.iter().map(|&place| load(work, place));
    let mut note = |done: Result<Done, Failure>| -> Result<(), Failure> {
        report(done?);
        bar.inc(1);
        Ok(())
    };
    if work.device.record.threads == 1 {
        return images.try_for_each(|loaded| note(detect_one(work, bar, loaded)));
    }
    let ended = AtomicBool::new(false);
    let (loader, loaded) = sync_channel::<LoadedImage>(1);
    let (reporter, done) = sync_channel(1);
    let at_a_time = if work.device.is_gpu() { 1 } else { AT_A_TIME };
    std::thread::scope(|scope| {
        let ended = &ended;
        scope.spawn(move || {
            images.all(|loaded| !ended.load(Ordering::Relaxed) && loader.send(loaded).is_ok())
        });
        let loaded = Arc::new(Mutex::new(loaded));
        for reporter in vec![reporter; at_a_time] {
            let loaded = Arc::clone(&loaded);
            scope.spawn(move || {
                let next = || loaded.lock().unwrap_or_else(PoisonError::into_inner).recv().ok();
                let mut done = std::iter::from_fn(next).map(|loaded| detect_one(work, bar, loaded));
                done.all(|done| reporter.send(done).is_ok() && !ended.load(Ordering::Relaxed))
            });
        }
        drop(loaded);
        // After a failure, what the other thread has at hand is still written and noted.
        let mut outcome = Ok(());
        for done in done {
            let noted = note(done);
            outcome = outcome.and(noted);
            ended.fetch_or(outcome.is_err(), Ordering::Relaxed);
        }
        outcome
    })
}

fn load(work: &Work<'_>, place: usize) -> LoadedImage {
    let started = Instant::now();
    let case = &work.cases[place];
    let image = read_image_with(&case.path, &case.options);
    LoadedImage { place, image, seconds: started.elapsed().as_secs_f64() }
}

fn detect_one(work: &Work<'_>, bar: &ProgressBar, loaded: LoadedImage) -> Result<Done, Failure> {
    if interrupted() {
        return Err(DetectError::Interrupted.into());
    }
    let LoadedImage { place, image, seconds: load_seconds } = loaded;
    let case = &work.cases[place];
    bar.set_message(case.id.clone());
    let begun = Instant::now();
    let result = image.map_err(Failure::from).and_then(|image| {
        detect_image(work.model, case.input(), &image, load_seconds * 1e3, work.device)
    });
    let state = match result {
        Ok(result) => {
            write_results(work.output, &result, work.labels)?;
            State::Rows(rows_of_result(&result))
        }
        Err(failure) => {
            bar.suspend(|| tell(format_args!("error: case {}: {failure}", case.id)));
            let path = case.path.display().to_string();
            State::Failed(FailedCase {
                case_id: case.id.clone(),
                path,
                reason: failure.to_string(),
            })
        }
    };
    Ok(Done { place, state, load_seconds, detect_seconds: begun.elapsed().as_secs_f64() })
}

/// The other parts may have written into the same folder: the tables then show what they found,
/// too. Parts that end at the same moment may miss each other's last cases; a batch with `--resume`
/// and without a shard gathers everything.
fn add_other_shards(folder: &Path, cases: &[BatchCase], model: &LoadedModel, states: &mut [State]) {
    let failures = earlier_failures(&folder.join("run.json"), model);
    for (case, state) in cases.iter().zip(states) {
        if !matches!(state, State::Unknown) {
            continue;
        }
        if let Some(result) = earlier_result(folder, case, model, false) {
            *state = State::Rows(rows_of_result(&result));
        } else if let Some(failure) = failures.iter().find(|f| f.case_id == case.id) {
            *state = State::Failed(failure.clone());
        }
    }
}

/// The failures that an earlier run with this model recorded; none when there is no such record.
fn earlier_failures(path: &Path, model: &LoadedModel) -> Vec<FailedCase> {
    #[derive(Deserialize)]
    struct Earlier {
        model: ModelRecord,
        failed: Vec<FailedCase>,
    }
    let earlier =
        std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Earlier>(&bytes).ok());
    earlier.filter(|run| run.model.sha256 == model.sha256).map_or_else(Vec::new, |run| run.failed)
}
