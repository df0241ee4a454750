//! `pbt merge`: the tables of a batch from the results of its parts, wherever these lie.

use super::earlier::EarlierRun;
use super::state::FailedCase;
use super::tables::{CSV, PARQUET, Row, row_of_failure, rows_of_result, write_tables};
use super::warnings::Warnings;
use super::{BatchCase, Counts, RUN_FILE, Seconds, batch_cases, without_channels};
use crate::Failure;
use crate::args::{Global, Merge};
use crate::exit;
use crate::output::{say, tell, warn};
use crate::session::{make_folder, write_json};
use pbt_io::{DeviceRecord, ModelRecord, ResultFile, check_writable, read_result};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// `OUT/run.json`, schema `pbt-run/1`.
#[derive(Serialize)]
struct MergedFile<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    input: String,
    model: &'a ModelRecord,
    model_path: &'a str,
    /// That of the first result.
    device: &'a DeviceRecord,
    options: Options,
    counts: Counts,
    failed: &'a [FailedCase],
    /// `total` is that of merging.
    seconds: Seconds,
}

#[derive(Serialize)]
struct Options {
    merged: Vec<String>,
}

/// What the result of a case contributes.
struct Found {
    file: PathBuf,
    model: ModelRecord,
    model_path: String,
    device: DeviceRecord,
    rows: Vec<Row>,
    warnings: Vec<String>,
    load_seconds: f64,
    total_seconds: f64,
    /// Number of channels of the image.
    channels: usize,
}

impl Found {
    fn of(file: PathBuf, result: ResultFile) -> Self {
        let rows = rows_of_result(&result);
        let (run, warnings) = (result.run, result.warnings);
        let seconds = |stage: &str| {
            run.timing_ms.iter().find(|(name, _)| name == stage).map_or(0.0, |(_, ms)| ms / 1e3)
        };
        let (load_seconds, total_seconds) = (seconds("load"), seconds("total"));
        let channels = run.options.get("channels").and_then(|names| names.as_array());
        let channels = channels.map_or(1, Vec::len);
        let (model, model_path, device) = (result.model, run.model_path, run.device);
        Self {
            file,
            model,
            model_path,
            device,
            rows,
            warnings,
            load_seconds,
            total_seconds,
            channels,
        }
    }
}

pub(in crate::commands) fn run(args: &Merge, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let mut cases = batch_cases(&args.input)?;
    for folder in &args.folders {
        if !folder.is_dir() {
            return Err(Failure::input(folder, "folder: there is none (name those of the parts)"));
        }
    }
    make_folder(&args.output)?;
    for file in [CSV, PARQUET, RUN_FILE] {
        check_writable(&args.output.join(file))?;
    }
    let runs = args.folders.iter().map(|folder| EarlierRun::read(&folder.join(RUN_FILE)));
    let parts: Vec<(&PathBuf, Option<EarlierRun>)> = args.folders.iter().zip(runs).collect();
    let look = |cases: &[BatchCase]| -> Vec<Option<Found>> {
        cases.par_iter().map(|case| result_of(case, &parts)).collect()
    };
    let mut found = look(&cases);
    let channels = found.iter().flatten().map(|found| found.channels).max().unwrap_or(1);
    if channels > 1 {
        cases = without_channels(cases, channels);
        found = look(&cases);
    }
    let Some(first) = found.iter().flatten().next() else {
        let what = "cases: none has a result in these folders (give those of `pbt batch -o`)";
        return Err(Failure::input(&args.input, what));
    };
    let same = |other: &&Found| other.model.sha256 != first.model.sha256;
    if let Some(other) = found.iter().flatten().find(same) {
        let what = format!(
            "model: is another than that of {} (detect in all cases with the same)",
            first.file.display()
        );
        return Err(Failure::input(&other.file, what));
    }
    let sha256 = &first.model.sha256;
    let failures: BTreeMap<String, FailedCase> = parts
        .into_iter()
        .filter_map(|(_, run)| run)
        .flat_map(|run| run.failures(sha256))
        .map(|failure| (failure.case_id.clone(), failure))
        .collect();

    let mut counts = Counts { cases: cases.len(), ..Counts::default() };
    let (mut seconds, mut warnings) = (Seconds::default(), Warnings::default());
    let (mut rows, mut failed, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for (case, found) in cases.iter().zip(&found) {
        match found {
            Some(found) => {
                counts.detected += 1;
                seconds.load += found.load_seconds;
                seconds.detect += found.total_seconds - found.load_seconds;
                rows.extend_from_slice(&found.rows);
                warnings.add(&case.id, &found.warnings);
            }
            None => match failures.get(&case.id) {
                Some(failure) => {
                    counts.failed += 1;
                    rows.push(row_of_failure(&case.id, sha256, &failure.reason));
                    failed.push(failure.clone());
                }
                None => missing.push(&case.id),
            },
        }
    }
    write_tables(&args.output, &rows)?;
    seconds.total = started.elapsed().as_secs_f64();
    let shown = |path: &Path| path.display().to_string();
    let merged = args.folders.iter().map(|folder| shown(folder)).collect();
    let file = MergedFile {
        schema: "pbt-run/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        input: shown(&args.input),
        model: &first.model,
        model_path: &first.model_path,
        device: &first.device,
        options: Options { merged },
        counts,
        failed: &failed,
        seconds,
    };
    write_json(&args.output.join(RUN_FILE), &file)?;
    for warning in warnings.lines() {
        warn(global, warning);
    }
    let Counts { cases, detected, failed, .. } = file.counts;
    let table = args.output.join(CSV);
    say(
        global.quiet,
        format_args!(
            "{cases} cases: {detected} with a result, {failed} failed; table: {}",
            table.display()
        ),
    );
    if let Some(one) = missing.first() {
        tell(format_args!(
            "error: {}: {} of {} cases have no result, `{one}` first (go on with their parts, with --resume, and merge again)",
            shown(&args.input),
            missing.len(),
            cases
        ));
    }
    let complete = failed == 0 && missing.is_empty();
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

/// The case's result in the first folder that has one, and in which the case has not failed since.
fn result_of(case: &BatchCase, parts: &[(&PathBuf, Option<EarlierRun>)]) -> Option<Found> {
    parts.iter().find_map(|(folder, run)| {
        if run.as_ref().is_some_and(|run| run.has_failed(&case.id)) {
            return None;
        }
        let file = folder.join(format!("{}.json", case.id));
        let result = read_result(&file).ok().filter(|result| result.case_id == case.id)?;
        Some(Found::of(file, result))
    })
}
