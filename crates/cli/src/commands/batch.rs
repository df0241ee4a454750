//! `pbt batch`

mod cases;
mod detection;
mod earlier;
pub(super) mod merge;
mod state;
mod tables;
mod warnings;

use crate::Failure;
use crate::args::{Batch, Global};
use crate::commands::open_device::open_device;
use crate::exit;
use crate::interrupt::catch_interrupts;
use crate::output::{say, warn};
use crate::progress::CaseProgress;
use crate::session::{Crops, LoadedModel, VoxelOutput, Watcher, make_folder, write_json};
use detection::{Work, detect_all};
use earlier::{EarlierRun, earlier_result, is_of_this_image};
use pbt_io::{
    DeviceRecord, ModelRecord, ResultFile, check_writable, masks_among, remove_leftovers,
};
use rayon::prelude::*;
use serde::Serialize;
use state::{FailedCase, State};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use tables::{Row, row_of_failure, write_tables};
use warnings::Warnings;

pub(crate) use cases::images_below;
pub use cases::{BatchCase, batch_cases, without_channels};

/// The record of the run.
const RUN_FILE: &str = "run.json";

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
    probabilities: bool,
    leaves: bool,
    first_tree_leaf: bool,
    no_paths: bool,
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

/// Says which images of a folder are masks of others by their names. They are searched as all are: a name
/// is no proof.
fn name_masks(folder: &Path, cases: &[BatchCase], global: &Global) {
    let images: Vec<PathBuf> = cases.iter().map(|case| case.path.clone()).collect();
    let masks = if folder.is_dir() { masks_among(folder, &images) } else { Vec::new() };
    if let Some(first) = masks.first() {
        warn(
            global,
            format_args!(
                "{}: {} of {} images are masks of others by their names, and are searched, too: {} is the first (give a list to leave them out)",
                folder.display(),
                masks.len(),
                images.len(),
                first.display()
            ),
        );
    }
}

/// Crops are images: where they lie below the images, the next run would take them for cases.
fn check_crops_lie_outside(args: &Batch) -> Result<(), Failure> {
    if args.crop.crop.is_empty() || !args.input.is_dir() {
        return Ok(());
    }
    let Ok(images) = args.input.canonicalize() else { return Ok(()) };
    // The folder may not be there yet, but one above it is.
    let absolute = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    let there = absolute.ancestors().find_map(|folder| folder.canonicalize().ok());
    if !there.is_some_and(|there| there.starts_with(images)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: --output: lies in the folder of the images, where --crop would add more of them (give a folder beside it)",
        args.output.display()
    )))
}

pub(super) fn run(args: &Batch, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let device = open_device(global)?;
    let model = LoadedModel::open(&args.model)?;
    let output = args.voxels();
    model.check_output(output)?;
    let crops = Crops::from(&args.crop);
    crops.check(&model)?;
    let cases = without_channels(batch_cases(&args.input)?, model.model.channels().len());
    name_masks(&args.input, &cases, global);
    check_crops_lie_outside(args)?;
    make_folder(&args.output)?;
    remove_leftovers(&args.output);
    for file in [tables::CSV, tables::PARQUET, RUN_FILE] {
        check_writable(&args.output.join(file))?;
    }
    catch_interrupts(global);

    let mut states: Vec<State> = cases.iter().map(|_| State::Unknown).collect();
    let mut counts = Counts::default();
    let mut to_do = Vec::new();
    let own: Vec<usize> =
        (0..cases.len()).filter(|&n| args.shard.is_none_or(|shard| shard.has(n))).collect();
    let earlier = own.par_iter().map(|&place| {
        let case = &cases[place];
        let result = args.resume.then(|| earlier_result(&args.output, case, &model, output));
        let fits = |result: &ResultFile| {
            (!args.no_paths || result.has_no_paths()) && is_of_this_image(case, &model, result)
        };
        result.flatten().filter(fits)
    });
    for (&place, result) in own.iter().zip(earlier.collect::<Vec<_>>()) {
        counts.cases += 1;
        match result {
            Some(result) => {
                counts.resumed += 1;
                states[place] = State::of_result(&result);
            }
            None => to_do.push(place),
        }
    }
    let mut seconds = Seconds::default();
    let progress = CaseProgress::new(global);
    progress.begin(to_do.len());
    let detected = detect_all(
        &Work {
            cases: &cases,
            to_do: &to_do,
            model: &model,
            device: &device,
            output: &args.output,
            voxels: output,
            no_paths: args.no_paths,
            crops: &crops,
        },
        &progress,
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
    progress.end();
    match detected {
        Err(failure) if !failure.is_interruption() => return Err(failure),
        _ => {}
    }

    // Of this part alone, as the counts are.
    let mut warnings = Warnings::default();
    for (case, state) in cases.iter().zip(&states) {
        if let State::Found { warnings: own, .. } = state {
            warnings.add(&case.id, own);
        }
    }
    if args.shard.is_some() {
        add_other_shards(args, &cases, &model, &mut states);
    }
    let failed: Vec<FailedCase> = states
        .iter()
        .filter_map(|s| if let State::Failed(f) = s { Some(f.clone()) } else { None })
        .collect();
    let rows: Vec<Row> = states
        .into_iter()
        .flat_map(|state| match state {
            State::Found { rows, .. } => rows,
            State::Failed(f) => vec![row_of_failure(&f.case_id, &model.sha256, &f.reason)],
            State::Unknown => Vec::new(),
        })
        .collect();
    write_tables(&args.output, &rows)?;
    seconds.total = started.elapsed().as_secs_f64();
    let shown = |path: &Path| match args.no_paths {
        true => String::new(),
        false => path.display().to_string(),
    };
    let run = RunFile {
        schema: "pbt-run/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        input: shown(&args.input),
        model: &model.record(),
        model_path: shown(&model.path),
        device: &device.record,
        options: Options {
            shard: args.shard.map(|s| s.to_string()),
            resume: args.resume,
            labels: output.labels(),
            probabilities: output.probabilities(),
            leaves: output.leaves(),
            first_tree_leaf: output.first_tree_leaf(),
            no_paths: args.no_paths,
        },
        counts,
        failed: &failed,
        seconds,
    };
    write_json(&args.output.join(RUN_FILE), &run)?;
    if detected.is_err() {
        say(
            global.quiet,
            format_args!("{}: results so far are kept; go on with --resume", args.output.display()),
        );
    }
    detected?;
    for warning in warnings.lines() {
        warn(global, warning);
    }
    let Counts { cases, detected, resumed, failed } = run.counts;
    let earlier =
        if args.resume { format!(", {resumed} had a result already") } else { String::new() };
    let table = args.output.join(tables::CSV);
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

/// The other parts may have written into the same folder: the tables then show what they found,
/// too. Parts that end at the same moment may miss each other's last cases; a batch with `--resume`
/// and without a shard gathers everything.
fn add_other_shards(args: &Batch, cases: &[BatchCase], model: &LoadedModel, states: &mut [State]) {
    let folder = &args.output;
    let run = EarlierRun::read(&folder.join(RUN_FILE));
    let failures = run.map_or_else(Vec::new, |run| run.failures(&model.sha256));
    for (case, state) in cases.iter().zip(states) {
        if !matches!(state, State::Unknown) {
            continue;
        }
        if let Some(result) = earlier_result(folder, case, model, VoxelOutput::default()) {
            *state = State::of_result(&result);
        } else if let Some(failure) = failures.iter().find(|f| f.case_id == case.id) {
            let failure = failure.clone();
            *state = State::Failed(if args.no_paths { failure.without_paths() } else { failure });
        }
    }
}
