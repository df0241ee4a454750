//! The evaluation of regions: Dice's coefficient by region.

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::commands::report_file::write_report;
use crate::exit;
use crate::output::print_text;
use crate::progress::CaseProgress;
use crate::session::{Device, FailedCase, Source, evaluate_regions};
use crate::table::{row, table};
use pbt_evaluate::{RegionOverlap, RegionSummary};
use pbt_io::{CaseSpec, Dataset, DeviceRecord, ModelRecord};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Instant;

/// `REPORT.json` of regions.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: String,
    split: String,
    /// `model` or `results`.
    mode: &'static str,
    models: Vec<ModelRecord>,
    device: DeviceRecord,
    seconds: f64,
    summary: Vec<RegionSummary>,
    failed: Vec<FailedCase>,
    records: Vec<RegionOverlap>,
}

/// Evaluates the regions of these names.
///
/// # Errors
/// Those of [`evaluate_regions`], and a report that cannot be written.
pub(super) fn run(
    args: &Evaluate,
    global: &Global,
    dataset: &Dataset,
    (names, source): (&[String], &Source),
    cases: Vec<CaseSpec>,
    device: &Device,
) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let progress = CaseProgress::new(global);
    let evaluated = evaluate_regions(dataset, names, source, cases, device, &progress)?;
    let (mode, models) = match source {
        Source::Model(model) => ("model", vec![model.record()]),
        _ => ("results", Vec::new()),
    };
    let report = Report {
        schema: "pbt-region-evaluation/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split: args.split.clone(),
        mode,
        models,
        device: device.record.clone(),
        seconds: started.elapsed().as_secs_f64(),
        summary: evaluated.summaries,
        failed: evaluated.failed,
        records: evaluated.overlaps,
    };
    if !global.quiet {
        print_text(&shown(&report, evaluated.cases))?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

fn shown(report: &Report, cases: usize) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
    let percent =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{:+.1}", v * 100.0));
    let mut rows = vec![row(["region", "cases", "Dice", "worst", "in case", "volume %"])];
    rows.extend(report.summary.iter().map(|s| {
        row([
            s.region.clone(),
            s.cases.to_string(),
            number(s.mean_dice),
            number(s.worst_dice),
            s.worst_case.clone().unwrap_or_else(|| "-".to_owned()),
            percent(s.mean_volume_error),
        ])
    }));
    format!(
        "{}, split {}: {} of {cases} cases evaluated\n\n{}",
        report.dataset,
        report.split,
        cases - report.failed.len(),
        table(1, &rows)
    )
}
