//! `pbt evaluate`

mod compare;
mod figures;
mod source;

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::device::Device;
use crate::output::{print, say, tell};
use crate::progress::count_bar;
use compare::{Comparison, compare, is_known};
use figures::{Figures, shown};
use nalgebra::Matrix4;
use pbt_io::{
    Annotations, CaseSpec, Dataset, DeviceRecord, InputRecord, ModelRecord, ResultFile, StructureSpec, check_annotations, write_atomically,
};
use pbt_volume::Geometry;
use serde::Serialize;
use source::Source;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// `REPORT.json`, schema `pbt-evaluation/1`.
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
    summary: Summaries,
    /// Mean milliseconds of the stages of detection.
    timing_ms: Vec<StageTime>,
    failed: Vec<FailedCase>,
    records: Vec<Comparison>,
}

#[derive(Serialize)]
struct Summaries {
    overall: Figures,
    structures: Vec<Figures>,
}

#[derive(Serialize)]
struct StageTime {
    stage: String,
    mean: f64,
    max: f64,
}

#[derive(Serialize)]
struct FailedCase {
    case: String,
    reason: String,
}

pub(super) fn run(args: &Evaluate, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let device = Device::open(global)?;
    let dataset = Dataset::load(&args.input)?;
    dataset.warnings.iter().for_each(|w| say(global.quiet, format_args!("warning: {w}")));
    let cases = wanted_cases(&dataset, args)?;
    let source = Source::open(args, &dataset, &cases, global.quiet)?;
    let structures = wanted_structures(&dataset, args, &source, &cases)?;
    let split_size = cases.len();
    let cases = annotated_cases(&dataset, &structures, cases)?;
    if cases.len() < split_size {
        say(global.quiet, format_args!("{} cases without annotations are left out", split_size - cases.len()));
    }

    let mut results: Vec<ResultFile> = Vec::new();
    let mut records: Vec<Comparison> = Vec::new();
    let mut failed: Vec<FailedCase> = Vec::new();
    let bar = count_bar(global.quiet, cases.len());
    for (case, annotations) in &cases {
        bar.set_message(case.id.clone());
        match evaluate_case(&dataset, &structures, &source, case, annotations, &device) {
            Ok((compared, result)) => {
                records.extend(compared);
                results.extend(result);
            }
            Err(failure) if failure.is_input() => {
                bar.suspend(|| tell(format_args!("error: case {}: {failure}", case.id)));
                failed.push(FailedCase { case: case.id.clone(), reason: failure.to_string() });
            }
            Err(failure) => return Err(failure),
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if failed.len() == cases.len() {
        return Err(Failure::input(&dataset.path, format!("cases: none of the {} could be evaluated (see above)", cases.len())));
    }

    let report = Report {
        schema: "pbt-evaluation/1",
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
        summary: Summaries {
            overall: Figures::new(None, &records),
            structures: structures.iter().map(|s| Figures::new(Some(&s.name), &records)).collect(),
        },
        timing_ms: stage_times(&results),
        failed,
        records,
    };
    if !global.quiet {
        print(report.shown(cases.len()).as_bytes())?;
    }
    if let Some(path) = &args.output {
        write_atomically(path, |w| {
            serde_json::to_writer_pretty(&mut *w, &report)?;
            w.write_all(b"\n")
        })?;
        say(global.quiet, format_args!("report: {}", path.display()));
    }
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

/// The cases of the split, or all of them for leaving one out.
fn wanted_cases(dataset: &Dataset, args: &Evaluate) -> Result<Vec<CaseSpec>, Failure> {
    let mut cases: Vec<CaseSpec> = if args.leave_one_out { dataset.cases.clone() } else { dataset.split(&args.split).cloned().collect() };
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    if cases.is_empty() {
        return Err(Failure::input(&dataset.path, format!("cases: none has the split `{}` (choose another with --split)", args.split)));
    }
    Ok(cases)
}

/// The structures of the data set that the results speak of, in its order.
fn wanted_structures<'a>(
    dataset: &'a Dataset,
    args: &Evaluate,
    source: &Source,
    cases: &[CaseSpec],
) -> Result<Vec<&'a StructureSpec>, Failure> {
    let known = |name: &String| dataset.structures.iter().any(|s| s.name == *name);
    if let Some(name) = args.structure.iter().find(|name| !known(name)) {
        return Err(Failure::input(&dataset.path, format!("structures: there is no `{name}`")));
    }
    let found = source.structures(cases);
    let wanted = |s: &&StructureSpec| found.contains(&s.name) && (args.structure.is_empty() || args.structure.contains(&s.name));
    let structures: Vec<&StructureSpec> = dataset.structures.iter().filter(wanted).collect();
    if structures.is_empty() {
        let names: Vec<String> = found.into_iter().collect();
        let what = if names.is_empty() {
            "cases: there is no result for any of them (check the folder)".to_owned()
        } else {
            format!("structures: none of those wanted is among the results ({})", names.join(", "))
        };
        return Err(Failure::input(&dataset.path, what));
    }
    Ok(structures)
}

/// A case with its annotations, or why they cannot be read.
type AnnotatedCase = (CaseSpec, Result<Annotations, String>);

/// The cases of which something is known or whose annotations cannot be read, which is reported when their turn comes.
fn annotated_cases(dataset: &Dataset, structures: &[&StructureSpec], cases: Vec<CaseSpec>) -> Result<Vec<AnnotatedCase>, Failure> {
    let count = cases.len();
    let mut annotated = Vec::new();
    for case in cases {
        match dataset.load_annotations(&case) {
            Ok(annotations) if structures.iter().any(|s| is_known(s, &annotations)) => annotated.push((case, Ok(annotations))),
            Ok(_) => {}
            Err(error) => annotated.push((case, Err(error.to_string()))),
        }
    }
    if annotated.is_empty() {
        let names: Vec<&str> = structures.iter().map(|s| s.name.as_str()).collect();
        return Err(Failure::input(&dataset.path, format!("cases: none of the {count} has annotations of {}", names.join(", "))));
    }
    Ok(annotated)
}

fn evaluate_case(
    dataset: &Dataset,
    structures: &[&StructureSpec],
    source: &Source,
    case: &CaseSpec,
    annotations: &Result<Annotations, String>,
    device: &Device,
) -> Result<(Vec<Comparison>, Option<ResultFile>), Failure> {
    let annotations = annotations.as_ref().map_err(Failure::complete_input)?;
    let result = source.result(dataset, case, device)?;
    if let Some(result) = &result {
        let geometry = geometry(&result.input).map_err(|e| Failure::input(&case.image, format!("affine: {e}")))?;
        let file = case.annotations.as_deref().or(case.labels.as_deref()).unwrap_or(&case.image);
        let mut wanted = annotations.clone();
        wanted.boxes.retain(|(name, _)| structures.iter().any(|s| s.name == *name));
        wanted.landmarks.retain(|landmark| structures.iter().any(|s| s.name == landmark.name));
        check_annotations(file, &geometry, &wanted)?;
    }
    let compared = compare(&case.id, structures, annotations, result.as_ref()).map_err(|what| Failure::input(&case.image, what))?;
    Ok((compared, result))
}

/// The grid of the image that a result is about.
fn geometry(input: &InputRecord) -> Result<Geometry, pbt_volume::GeometryError> {
    Geometry::from_affine(input.shape, &Matrix4::from_fn(|row, column| input.affine_lps[row][column]))
}

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
        let mut text = format!("{}, {what}: {} of {cases} cases evaluated\n\n", self.dataset, cases - self.failed.len());
        let Summaries { overall, structures } = &self.summary;
        let mut figures: Vec<&Figures> = structures.iter().collect();
        if structures.len() > 1 {
            figures.push(overall);
        }
        text.push_str(&shown(&figures));
        let times: Vec<String> = self.timing_ms.iter().map(|t| format!("{} {:.1}", t.stage, t.mean)).collect();
        if !times.is_empty() {
            text.push_str(&format!("\nmean time a case, ms: {}\n", times.join(", ")));
        }
        text
    }
}
