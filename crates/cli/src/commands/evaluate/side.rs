//! One of the two that are compared: a model, a folder with results, or the report of an
//! evaluation.

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::commands::report_file::EVALUATION_SCHEMA;
use crate::output::say;
use crate::progress::CaseProgress;
use crate::session::{Device, FailedCase, Source, evaluate_cases};
use pbt_evaluate::{Comparison, Tolerance};
use pbt_io::{CaseSpec, Dataset, FileKind, ModelRecord, read_file, read_start};
use pbt_volume::LengthUnit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;

/// One of the two.
pub(super) struct Side {
    pub(super) record: SideRecord,
    /// Of the wanted cases and structures, case by case.
    pub(super) records: Vec<Comparison>,
    pub(super) length_unit: LengthUnit,
}

/// How a report names it.
#[derive(Serialize)]
pub(super) struct SideRecord {
    /// The model, folder or report as it was given.
    pub(super) path: String,
    pub(super) models: Vec<ModelRecord>,
    pub(super) failed: Vec<FailedCase>,
}

/// What is needed of a report of an evaluation.
#[derive(Deserialize)]
struct EarlierReport {
    schema: String,
    dataset: String,
    #[serde(default)]
    split: Option<String>,
    #[serde(default)]
    tolerance_mm: Option<f64>,
    models: Vec<ModelRecord>,
    #[serde(default)]
    length_unit: LengthUnit,
    records: Vec<Comparison>,
}

/// One of the two as it is given.
pub(super) struct Given<'a> {
    pub(super) path: &'a Path,
    /// Its content, where it is a report.
    report: Option<EarlierReport>,
}

impl<'a> Given<'a> {
    /// Reads the report of an evaluation; what else there may be is not opened yet.
    ///
    /// # Errors
    /// A report that cannot be read, of another data set or made with another tolerance.
    pub(super) fn new(path: &'a Path, args: &Evaluate, dataset: &Dataset) -> Result<Self, Failure> {
        if !is_json(path) {
            return Ok(Self { path, report: None });
        }
        let report = read_report(path)?;
        if report.dataset != dataset.name {
            return Err(Failure::input(
                path,
                format!(
                    "dataset: is `{}`, not `{}` (evaluate on this data set)",
                    report.dataset, dataset.name
                ),
            ));
        }
        if args.tolerance.is_some() && args.tolerance != report.tolerance_mm {
            return Err(Failure::usage(format!(
                "--tolerance: {} was made with another, and its records say what is right (leave it out, or \
                 evaluate anew)",
                path.display()
            )));
        }
        Ok(Self { path, report: Some(report) })
    }

    /// Of a report the split that it is about, where that is one.
    pub(super) fn split(&self) -> Option<Option<&str>> {
        self.report.as_ref().map(|report| report.split.as_deref())
    }

    /// Evaluates a model or a folder with results, or takes the records of a report.
    ///
    /// # Errors
    /// What cannot be read, a report without records of the cases, and whatever ends an evaluation.
    pub(super) fn side(
        self,
        args: &Evaluate,
        dataset: &Dataset,
        cases: &[CaseSpec],
        device: &Device,
        global: &Global,
    ) -> Result<Side, Failure> {
        let Self { path, report } = self;
        let name = path.display().to_string();
        if let Some(EarlierReport { models, length_unit, mut records, .. }) = report {
            let compared = |c: &Comparison| cases.iter().any(|case| case.id == c.case);
            if !records.iter().any(compared) {
                return Err(Failure::input(path, no_record(&records, dataset, cases)));
            }
            let wanted =
                |c: &Comparison| args.structure.is_empty() || args.structure.contains(&c.structure);
            records.retain(|c| compared(c) && wanted(c));
            return Ok(Side {
                record: SideRecord { path: name, models, failed: Vec::new() },
                records,
                length_unit,
            });
        }
        say(global.quiet, format_args!("{name}"));
        let source = Source::of_path(path)?;
        let tolerance = Tolerance::new(args.tolerance, &dataset.structures);
        let evaluated = evaluate_cases(
            dataset,
            &args.structure,
            &source,
            cases.to_vec(),
            &tolerance,
            device,
            &CaseProgress::new(global),
        )?;
        let length_unit = evaluated.unit();
        let record =
            SideRecord { path: name, models: evaluated.models(), failed: evaluated.failed };
        Ok(Side { record, records: evaluated.records, length_unit })
    }
}

/// That a report is about none of the cases that are compared, and which ones it is about.
fn no_record(records: &[Comparison], dataset: &Dataset, cases: &[CaseSpec]) -> String {
    let splits = |is_meant: &dyn Fn(&CaseSpec) -> bool| {
        let splits: BTreeSet<&str> = dataset
            .cases
            .iter()
            .filter(|case| is_meant(case))
            .map(|case| &case.split[..])
            .collect();
        splits.iter().map(|split| format!("`{split}`")).collect::<Vec<_>>().join(", ")
    };
    let compared = splits(&|case| cases.iter().any(|c| c.id == case.id));
    let of_records = splits(&|case| records.iter().any(|c| c.case == case.id));
    let advice = match of_records.is_empty() {
        true => "give a report about these cases".to_owned(),
        false => format!("they are of the split {of_records}: choose it with --split"),
    };
    format!("records: none is of a case of the split {compared} that is compared ({advice})")
}

/// Whether a file begins like JSON. A model begins with a length that is divisible by eight, and
/// `{` is not.
fn is_json(path: &Path) -> bool {
    read_start(path, 1).is_some_and(|start| start == b"{")
}

fn read_report(path: &Path) -> Result<EarlierReport, Failure> {
    let bytes = read_file(path, FileKind::Document)?;
    let wrong = |what: String| {
        Failure::input(
            path,
            format!("JSON: {what} (give a report of `pbt evaluate` of this version)"),
        )
    };
    let report: EarlierReport = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
    if report.schema != EVALUATION_SCHEMA {
        return Err(wrong(format!("its schema is `{}`, not `{EVALUATION_SCHEMA}`", report.schema)));
    }
    Ok(report)
}
