//! `pbt evaluate`

mod figures;
mod paired;
mod regions;
mod side;

use crate::Failure;
use crate::args::{Evaluate, Global};
use crate::commands::open_device::open_device;
use crate::commands::report_file::{EVALUATION_SCHEMA, write_report};
use crate::exit;
use crate::interrupt::catch_interrupts;
use crate::output::{Written, check_output, print_text, say, warn};
use crate::progress::CaseProgress;
use crate::session::{
    CrossValidation, FailedCase, Folds, LoadedModel, Source, StageTime, check_names,
    evaluate_cases, no_case_of_split, read_config, there_is_no,
};
use pbt_evaluate::{Answer, Comparison, Summaries, Tolerance, Truth};
use pbt_io::{CaseSpec, Dataset, DeviceRecord, ModelRecord};
use pbt_volume::{LengthUnit, StructureKind, StructureSpec};
use serde::Serialize;
use side::Given;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

/// `REPORT.json`
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: String,
    /// Null when cases of all splits were tested by turns.
    split: Option<String>,
    /// `model`, `results`, `leave-one-out` or `folds`.
    mode: &'static str,
    /// How many there are, else null.
    folds: Option<usize>,
    /// Seed of the trainings of a cross-validation, else null.
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
    /// What fields called `_mm` count.
    length_unit: LengthUnit,
    failed: Vec<FailedCase>,
    records: Vec<Comparison>,
}

pub(super) fn run(args: &Evaluate, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    if let Some(path) = &args.output {
        check_output(path, Written::Report)?;
    }
    let device = open_device(global)?;
    let dataset = Dataset::load(&args.input)?;
    dataset.warnings.iter().for_each(|w| warn(global, w));
    if let [a, b] = args.compare.as_slice() {
        let given = [Given::new(a, args, &dataset)?, Given::new(b, args, &dataset)?];
        let split = paired::split(&given, args)?;
        let cases = wanted_cases(&dataset, args, split.as_deref())?;
        return paired::run(given, (args, split), &dataset, &cases, &device, global);
    }
    let cases = wanted_cases(&dataset, args, args.tested_split())?;
    let source = source(args, &dataset, &cases)?;
    // Regions are labels and nothing else.
    let names = if args.labels && dataset.structures.iter().any(|s| !dataset.is_region(&s.name)) {
        label_names(&dataset, (&args.structure, global), &source, &cases)?
    } else {
        region_names(&dataset, &args.structure, &source)?
    };
    if !names.is_empty() {
        return regions::run(args, global, &dataset, (&names, &source), cases, &device);
    }
    let tolerance = Tolerance::new(args.tolerance, &dataset.structures);
    if folds(args).is_some() {
        catch_interrupts(global);
    }
    let evaluated = evaluate_cases(
        &dataset,
        &args.structure,
        &source,
        cases,
        &tolerance,
        &device,
        &CaseProgress::new(global),
    );
    if let (Err(failure), Some(folder)) = (&evaluated, &args.models)
        && failure.is_interruption()
    {
        let folder = folder.display();
        let what =
            format!("{folder}: has what is trained so far; the same command goes on with the rest");
        say(global.quiet, what);
    }
    let evaluated = evaluated?;
    if evaluated.has_unmeasured_scores() {
        warn(global, "scores were not measured on held-out cases, and mean little");
    }
    let names = evaluated.structures.iter().map(String::as_str);
    let count = evaluated.cases.len();
    let report = Report {
        schema: EVALUATION_SCHEMA,
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split: args.tested_split().map(str::to_owned),
        mode: match &source {
            Source::Model(_) => "model",
            Source::Folder(_) => "results",
            Source::CrossValidation(turns) => match turns.folds() {
                Folds::LeaveOneOut => "leave-one-out",
                Folds::Of(_) => "folds",
            },
        },
        folds: args.folds.map(usize::from),
        seed: folds(args).map(|_| args.seed),
        models: evaluated.models(),
        device: device.record,
        seconds: started.elapsed().as_secs_f64(),
        tolerance_mm: args.tolerance,
        summary: Summaries::new(names, &evaluated.records, evaluated.unit()),
        timing_ms: evaluated.stage_times(),
        length_unit: evaluated.unit(),
        failed: evaluated.failed,
        records: evaluated.records,
    };
    if !global.quiet {
        print_text(&report.shown(count))?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::SOME_FAILED) })
}

/// The regions to evaluate; none where boxes and landmarks are.
fn region_names(
    dataset: &Dataset,
    named: &[String],
    source: &Source,
) -> Result<Vec<String>, Failure> {
    check_names(dataset, named)?;
    let wanted = |s: &&StructureSpec| named.is_empty() || named.contains(&s.name);
    let (regions, others): (Vec<_>, Vec<_>) =
        dataset.structures.iter().filter(wanted).partition(|s| s.kind == StructureKind::Region);
    let of_regions = match source {
        Source::Model(model) => model.model.regions.is_some(),
        _ => others.is_empty(),
    };
    if of_regions && regions.is_empty() {
        let what = "structures: none of them is a region, and the model labels regions";
        return Err(Failure::input(&dataset.path, what));
    }
    let names = regions.into_iter().map(|s| s.name.clone());
    Ok(if of_regions { names.collect() } else { Vec::new() })
}

/// The labels to evaluate: those of the data set that the model or the results have.
fn label_names(
    dataset: &Dataset,
    (named, global): (&[String], &Global),
    source: &Source,
    cases: &[CaseSpec],
) -> Result<Vec<String>, Failure> {
    let Some(labels) = dataset.labels_of(&dataset.box_names()) else {
        return Err(Failure::input(&dataset.path, "labels: there are none (name them)"));
    };
    let learned = source.label_names(cases);
    let known = |name: &String| learned.as_ref().is_none_or(|learned| learned.contains(name));
    let (path, whose) = match source {
        Source::Model(model) => (&model.path, "the model has learned"),
        Source::Folder(folder) => (folder, "the results have"),
        Source::CrossValidation(_) => (&dataset.path, "the folds have"),
    };
    let all: Vec<String> = labels.regions.into_iter().map(|(name, _)| name).collect();
    if let Some(name) = named.iter().find(|name| !all.contains(name)) {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let what = format!("labels: {}", there_is_no(name, &all));
        return Err(Failure::input(&dataset.path, what));
    }
    let wanted = |name: &String| (named.is_empty() || named.contains(name)) && known(name);
    let names: Vec<String> = all.iter().filter(|name| wanted(name)).cloned().collect();
    if names.is_empty() {
        let learned: Vec<String> = learned.into_iter().flatten().collect();
        let what = match learned.is_empty() {
            true => {
                "structures: the model has learned no labels (train it on cases with label maps, \
                     without --quick and --no-segmentation)"
                    .to_owned()
            }
            false => format!(
                "structures: {whose} the labels {}, and none of {} (name them alike in `labels` of {})",
                learned.join(", "),
                if named.is_empty() { all.join(", ") } else { named.join(", ") },
                dataset.path.display()
            ),
        };
        return Err(Failure::input(path, what));
    }
    let left_out: Vec<&str> = all.iter().filter(|name| !known(name)).map(String::as_str).collect();
    if named.is_empty() && !left_out.is_empty() {
        let names = left_out.join(", ");
        let who = if matches!(source, Source::Model(_)) {
            "the model has not learned"
        } else {
            "the results do not have"
        };
        warn(global, format_args!("labels: {who} {names}: left out"));
    }
    Ok(names)
}

/// How a cross-validation divides the cases, if one is wanted.
fn folds(args: &Evaluate) -> Option<Folds> {
    let counted = args.folds.map(|count| Folds::Of(count.into()));
    if args.leave_one_out { Some(Folds::LeaveOneOut) } else { counted }
}

/// The cases of the split, or all of them.
fn wanted_cases(
    dataset: &Dataset,
    args: &Evaluate,
    split: Option<&str>,
) -> Result<Vec<CaseSpec>, Failure> {
    let is_wanted = |case: &&CaseSpec| split.is_none_or(|split| case.split == split);
    let mut cases: Vec<CaseSpec> = dataset.cases.iter().filter(is_wanted).cloned().collect();
    if folds(args).is_some() && args.cases.is_some_and(|cases| cases < 3) {
        let what =
            "--cases: two or more are learned from and another one is tested (give 3 or more)";
        return Err(Failure::usage(what));
    }
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    if cases.is_empty() {
        return Err(no_case_of_split(
            dataset,
            split.unwrap_or_default(),
            "choose another with --split",
        ));
    }
    Ok(cases)
}

/// Where the results come from that the arguments ask for; `cases` are those that will be
/// evaluated.
fn source(args: &Evaluate, dataset: &Dataset, cases: &[CaseSpec]) -> Result<Source, Failure> {
    if let Some(folds) = folds(args) {
        let config = read_config(args.config.as_deref())?;
        let config = if args.quick { config.quick() } else { config };
        let turns =
            CrossValidation::new(dataset, cases, &args.structure, folds, config, args.seed)?
                .keeping(dataset, args.models.as_deref())?;
        return Ok(Source::CrossValidation(Box::new(turns)));
    }
    match (&args.results, &args.model) {
        (Some(folder), _) if !folder.is_dir() => {
            Err(Failure::input(folder, "--results: is not a folder (give one with result files)"))
        }
        (Some(folder), _) => Ok(Source::Folder(folder.clone())),
        (None, Some(path)) => Ok(Source::Model(Box::new(LoadedModel::open(path)?))),
        (None, None) => {
            Err(Failure::usage("give a model, --results, --compare, --leave-one-out or --folds"))
        }
    }
}

impl Report {
    /// How many are right, and which of those that are found are wrong. Instances have figures of their own.
    fn verdict(&self) -> String {
        const TOLD: usize = 5;
        let asked = |r: &&Comparison| r.truth == Truth::Present && r.instance.is_none();
        let present: Vec<&Comparison> = self.records.iter().filter(asked).collect();
        if present.is_empty() {
            return String::new();
        }
        let right = present.iter().filter(|r| r.right).count();
        let mut text = format!("{right} of {} right", present.len());
        let mut wrong: Vec<(&Comparison, f64)> = present
            .iter()
            .filter(|r| !r.right && r.answer == Answer::Found)
            .filter_map(|r| Some((*r, r.counted_mm()?)))
            .collect();
        wrong.sort_by(|a, b| b.1.total_cmp(&a.1));
        let describe = |(r, off): &(&Comparison, f64)| {
            let score = r.score.unwrap_or_default();
            format!(
                "{} {} ({off:.1} {} off, score {score:.2})",
                r.case, r.structure, self.length_unit
            )
        };
        let told: Vec<String> = wrong.iter().take(TOLD).map(describe).collect();
        if !told.is_empty() {
            let more = wrong.len() - told.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            text += &format!("; found and wrong: {}{more}", told.join(", "));
        }
        text + "\n" + &highest_scores(&present).unwrap_or_default()
    }

    fn shown(&self, cases: usize) -> String {
        let what = match (&self.split, self.folds) {
            (Some(split), None) => format!("split {split}"),
            (Some(split), Some(count)) => format!("split {split} in {count} folds"),
            (None, _) => "one left out by turns".to_owned(),
        };
        let mut text = format!(
            "{}, {what}: {} of {cases} cases evaluated\n{}\n",
            self.dataset,
            cases - self.failed.len(),
            self.verdict()
        );
        text.push_str(&figures::tables(&self.summary, self.length_unit.name()));
        let times: Vec<String> =
            self.timing_ms.iter().map(|t| format!("{} {:.1}", t.stage, t.mean)).collect();
        if !times.is_empty() {
            text.push_str(&format!("\nmean time a case, ms: {}\n", times.join(", ")));
        }
        text
    }
}

/// Says so where most detections have the highest score of their structure: who reads the figures would look for a
/// fault.
fn highest_scores(present: &[&Comparison]) -> Option<String> {
    let mut scores: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for record in present {
        scores.entry(&record.structure).or_default().extend(record.score);
    }
    let all: usize = scores.values().map(Vec::len).sum();
    let equal = |scores: &Vec<f64>| {
        let highest = scores.iter().copied().fold(0.0, f64::max);
        Some(scores.iter().filter(|&&score| score == highest).count()).filter(|&count| count > 1)
    };
    let equal: usize = scores.values().filter_map(equal).sum();
    (2 * equal > all).then(|| {
        format!(
            "{equal} of {all} scores equal the highest of their structure: the training knew nothing that tells \
             these detections apart, or all reach the limit of (n + 1) / (n + 2) after n cases\n"
        )
    })
}
