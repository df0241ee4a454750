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
    models: Vec<ModelRecord>,
    #[serde(default)]
    length_unit: LengthUnit,
    records: Vec<Comparison>,
}

impl Side {
    /// Evaluates a model or a folder with results, or reads the report of an evaluation.
    ///
    /// # Errors
    /// What cannot be read, a report of another data set, and whatever ends an evaluation.
    pub(super) fn open(
        path: &Path,
        args: &Evaluate,
        dataset: &Dataset,
        cases: &[CaseSpec],
        device: &Device,
        global: &Global,
    ) -> Result<Self, Failure> {
        let name = path.display().to_string();
        if is_json(path) {
            let EarlierReport { dataset: of, models, length_unit, mut records, .. } =
                read_report(path)?;
            if of != dataset.name {
                return Err(Failure::input(
                    path,
                    format!(
                        "dataset: is `{of}`, not `{}` (evaluate on this data set)",
                        dataset.name
                    ),
                ));
            }
            let wanted = |c: &Comparison| {
                cases.iter().any(|case| case.id == c.case)
                    && (args.structure.is_empty() || args.structure.contains(&c.structure))
            };
            records.retain(wanted);
            return Ok(Self {
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
        Ok(Self { record, records: evaluated.records, length_unit })
    }
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
