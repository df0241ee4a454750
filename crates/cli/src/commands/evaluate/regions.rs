//! The evaluation of regions: overlap, distance of the surfaces and volume by region.

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::commands::report_file::{REGION_EVALUATION_SCHEMA, write_report};
use crate::exit;
use crate::output::print_text;
use crate::progress::CaseProgress;
use crate::session::{Device, FailedCase, Source, evaluate_regions};
use crate::table::{row, table};
use pbt_evaluate::{RegionRecord, RegionSummary};
use pbt_io::{CaseSpec, Dataset, DeviceRecord, ModelRecord};
use pbt_volume::LengthUnit;
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
    /// What fields called `_mm` count.
    length_unit: LengthUnit,
    summary: Vec<RegionSummary>,
    failed: Vec<FailedCase>,
    records: Vec<RegionRecord>,
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
        schema: REGION_EVALUATION_SCHEMA,
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split: args.tested_split().unwrap_or_default().to_owned(),
        mode,
        models,
        device: device.record.clone(),
        seconds: started.elapsed().as_secs_f64(),
        length_unit: evaluated.unit,
        summary: evaluated.summaries,
        failed: evaluated.failed,
        records: evaluated.records,
    };
    if !global.quiet {
        print_text(&shown(&report, evaluated.cases))?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

/// How many of the worst records are printed.
const WORST: usize = 5;

fn shown(report: &Report, cases: usize) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.3}"));
    let mm = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    let percent = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:+.1}"));
    let [hd95, surface] = ["HD95", "surface"].map(|what| format!("{what} {}", report.length_unit));
    let figures = ["Dice", &hd95, &surface, "NSD", "volume %"];
    let mut regions = vec![[row(["region", "cases"]), row(figures)].concat()];
    regions.extend(report.summary.iter().map(|s| {
        row([
            s.region.clone(),
            s.cases.to_string(),
            number(s.mean_dice),
            mm(s.mean_hd95_mm),
            mm(s.mean_surface_mm),
            number(s.mean_nsd),
            percent(s.mean_volume_error_percent),
        ])
    }));
    let mut worst = vec![[row(["worst case", "region"]), row(figures)].concat()];
    worst.extend(report.records.iter().filter(|r| r.dice.is_some()).take(WORST).map(|r| {
        row([
            r.case.clone(),
            r.region.clone(),
            number(r.dice),
            mm(r.hd95_mm),
            mm(r.surface_mm),
            number(r.nsd),
            percent(r.volume_error_percent),
        ])
    }));
    format!(
        "{}, split {}: {} of {cases} cases evaluated\n\n{}\n{}",
        report.dataset,
        report.split,
        cases - report.failed.len(),
        table(2, &worst),
        table(1, &regions)
    )
}
