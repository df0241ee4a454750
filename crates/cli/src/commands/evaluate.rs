//! `pbt evaluate`

pub(super) mod cases;
pub(super) mod comparison;
pub(super) mod figures;
mod paired;
mod side;
pub(super) mod source;
pub(super) mod tolerance;

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::device::Device;
use crate::output::{check_output, print, say};
use cases::{Evaluated, FailedCase, evaluate_cases};
use comparison::Comparison;
use figures::Summaries;
use pbt_io::{CaseSpec, Dataset, DeviceRecord, ModelRecord, ResultFile, write_atomically};
use serde::Serialize;
use source::Source;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use tolerance::Tolerance;

/// Schema of `REPORT.json`.
const SCHEMA: &str = "pbt-evaluation/1";

/// `REPORT.json`
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: String,
    /// Null when cases of all splits were tested by turns.
    split: Option<String>,
    /// `model`, `results` or `leave-one-out`.
    mode: &'static str,
    /// Seed of the trainings of leaving one out, else null.
    seed: Option<u64>,
    /// The models that made the results, each once, in the order of the cases.
    models: Vec<ModelRecord>,
    device: DeviceRecord,
    seconds: f64,
    /// Up to which distance a position is right; null for the rule by structure.
    tolerance_mm: Option<f64>,
    summary: Summaries,
    /// Mean milliseconds of the stages of detection.
    timing_ms: Vec<StageTime>,
    failed: Vec<FailedCase>,
    records: Vec<Comparison>,
}

#[derive(Serialize)]
struct StageTime {
    stage: String,
    mean: f64,
    max: f64,
}

pub(super) fn run(args: &Evaluate, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    if args.config.is_some() && !args.leave_one_out {
        return Err(Failure::usage("--config: says how to train, and only --leave-one-out trains"));
    }
    if let Some(path) = &args.output {
        check_output(path)?;
    }
    let device = Device::open(global)?;
    let dataset = Dataset::load(&args.input)?;
    dataset.warnings.iter().for_each(|w| say(global.quiet, format_args!("warning: {w}")));
    let cases = wanted_cases(&dataset, args)?;
    if let [a, b] = args.compare.as_slice() {
        return paired::run([a, b], args, &dataset, &cases, &device, global.quiet);
    }
    let source = Source::open(args, &dataset, &cases, global.quiet)?;
    let tolerance = Tolerance::new(args.tolerance, &dataset);
    let evaluated = evaluate_cases(
        &dataset,
        &args.structure,
        &source,
        cases,
        &tolerance,
        &device,
        global.quiet,
    )?;
    let Evaluated { records, results, failed, structures, cases } = evaluated;
    let report = Report {
        schema: SCHEMA,
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split: (!args.leave_one_out).then(|| args.split.clone()),
        mode: match source {
            Source::Model(_) => "model",
            Source::Folder(_) => "results",
            Source::LeaveOneOut(_) => "leave-one-out",
        },
        seed: args.leave_one_out.then_some(args.seed),
        models: models(&results),
        device: device.record,
        seconds: started.elapsed().as_secs_f64(),
        tolerance_mm: args.tolerance,
        summary: Summaries::new(structures.iter().map(String::as_str), &records),
        timing_ms: stage_times(&results),
        failed,
        records,
    };
    if !global.quiet {
        print(report.shown(cases.len()).as_bytes())?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// Writes a report as JSON where one is wanted, and says so.
///
/// # Errors
/// Exit code 1 when it cannot be written.
pub(super) fn write_report(
    path: Option<&Path>,
    report: &impl Serialize,
    quiet: bool,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    write_atomically(path, |w| {
        serde_json::to_writer_pretty(&mut *w, report)?;
        w.write_all(b"\n")
    })?;
    say(quiet, format_args!("report: {}", path.display()));
    Ok(())
}

/// The cases of the split, or all of them for leaving one out.
fn wanted_cases(dataset: &Dataset, args: &Evaluate) -> Result<Vec<CaseSpec>, Failure> {
    let mut cases: Vec<CaseSpec> = if args.leave_one_out {
        dataset.cases.clone()
    } else {
        dataset.split(&args.split).cloned().collect()
    };
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    if cases.is_empty() {
        return Err(Failure::input(
            &dataset.path,
            format!("cases: none has the split `{}` (choose another with --split)", args.split),
        ));
    }
    Ok(cases)
}

/// The models of results, each once.
fn models(results: &[ResultFile]) -> Vec<ModelRecord> {
    let mut models: Vec<ModelRecord> = Vec::new();
    for result in results {
        if !models.contains(&result.model) {
            models.push(result.model.clone());
        }
    }
    models
}

/// Mean and maximum by stage, in the order in which the first result names them.
fn stage_times(results: &[ResultFile]) -> Vec<StageTime> {
    let mut stages: Vec<(&str, Vec<f64>)> = Vec::new();
    for (stage, ms) in results.iter().flat_map(|r| &r.run.timing_ms) {
        match stages.iter_mut().find(|(name, _)| name == stage) {
            Some((_, all)) => all.push(*ms),
            None => stages.push((stage, vec![*ms])),
        }
    }
    let time = |(stage, all): (&str, Vec<f64>)| StageTime {
        stage: stage.to_owned(),
        mean: all.iter().sum::<f64>() / all.len() as f64,
        max: all.iter().copied().fold(0.0, f64::max),
    };
    stages.into_iter().map(time).collect()
}

impl Report {
    fn shown(&self, cases: usize) -> String {
        let what = match &self.split {
            Some(split) => format!("split {split}"),
            None => "one left out by turns".to_owned(),
        };
        let mut text = format!(
            "{}, {what}: {} of {cases} cases evaluated\n\n",
            self.dataset,
            cases - self.failed.len()
        );
        text.push_str(&self.summary.shown());
        let times: Vec<String> =
            self.timing_ms.iter().map(|t| format!("{} {:.1}", t.stage, t.mean)).collect();
        if !times.is_empty() {
            text.push_str(&format!("\nmean time a case, ms: {}\n", times.join(", ")));
        }
        text
    }
}
