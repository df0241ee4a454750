//! `pbt learning-curve`

mod series;

use crate::Failure;
use crate::args::{Global, LearningCurve};
use crate::commands::open_device::open_device;
use crate::commands::report_file::write_report;
use crate::exit;
use crate::interrupt::catch_interrupts;
use crate::output::{Written, check_output, print_text, say, warn};
use crate::progress::CaseProgress;
use crate::session::{
    Evaluated, Source, Training, Wanted, Watcher, evaluate_cases, hold_back, no_case_of_split,
    read_cases, read_config,
};
use pbt_detect::FEWEST_CASES;
use pbt_evaluate::{Comparison, FEWEST_SIZES, Series, Summaries, Tolerance};
use pbt_io::{CaseSpec, Dataset, DeviceRecord, write_atomically};
use pbt_report::CurveSeries;
use pbt_volume::LengthUnit;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Every so many-th subject among the training cases is held back for the tests.
const HELD_BACK: usize = 5;

/// The smallest size of the default ones.
const SMALLEST: usize = 5;

/// `REPORT.json`
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: &'a str,
    /// The split that was tested; null for training cases that were held back.
    split: Option<&'a str>,
    /// Names of the tested cases.
    tested: Vec<String>,
    seed: u64,
    device: &'a DeviceRecord,
    seconds: f64,
    /// What fields called `_mm` count.
    length_unit: LengthUnit,
    trainings: &'a [TrainedSize],
    series: &'a [Series],
}

/// One size.
#[derive(Serialize)]
struct TrainedSize {
    /// Training cases: the first ones in the file's order.
    cases: usize,
    seconds: f64,
    model_sha256: String,
    summary: Summaries,
    records: Vec<Comparison>,
}

pub(super) fn run(args: &LearningCurve, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let picture = args.output.as_ref().map(|path| path.with_extension("svg"));
    if args.output.is_some() && args.output == picture {
        return Err(Failure::usage(
            "--output: the picture would overwrite the report (name the report .json)",
        ));
    }
    if let (Some(report), Some(picture)) = (&args.output, &picture) {
        check_output(report, Written::Report)?;
        check_output(picture, Written::Picture)?;
    }
    let device = open_device(global)?;
    let config = read_config(args.config.as_deref())?;
    let dataset = Dataset::load(&args.input)?;
    dataset.warnings.iter().for_each(|w| warn(global, w));
    let wanted =
        Wanted::new(&dataset, &args.structure)?.without_regions(&dataset, "a learning curve")?;
    let wanted = wanted.without_instances(&dataset, "a learning curve")?;
    let (training, mut tested) = divide(&dataset, args.split.as_deref())?;
    let sizes = sizes(&args.sizes, training.len(), &dataset)?;
    let largest = sizes.last().copied().unwrap_or(0);
    let training = read_cases(&dataset, &training[..largest], &wanted)?;
    say(
        global.quiet,
        format_args!(
            "training on {} cases, testing on {} other{}",
            list(&sizes),
            tested.len(),
            if tested.len() == 1 { "" } else { "s" }
        ),
    );
    if sizes.len() < FEWEST_SIZES {
        let what =
            "these sizes are too few to tell what more cases would bring (four, with --sizes)";
        warn(global, what);
    }
    catch_interrupts(global);
    let tolerance = Tolerance::new(None, &dataset.structures);
    let progress = CaseProgress::new(global);
    let mut trainings = Vec::new();
    let mut failed = false;
    let mut length_unit = LengthUnit::default();
    for &size in &sizes {
        let began = Instant::now();
        let what = format!("{size} cases");
        let trained = Training {
            dataset: &dataset,
            cases: training[..size].to_vec(),
            wanted: &wanted,
            config: &config,
            seed: args.seed,
            resume: None,
        }
        .run(&device, &*progress.training(&what, None))?;
        let (model_sha256, seconds) = (trained.sha256.clone(), began.elapsed().as_secs_f64());
        let model = trained.loaded(PathBuf::from(format!("trained on {what}")));
        let source = Source::Model(Box::new(model));
        let evaluated = evaluate_cases(
            &dataset,
            &args.structure,
            &source,
            tested.clone(),
            &tolerance,
            &device,
            &progress,
        )?;
        length_unit = evaluated.unit();
        let Evaluated { records: compared, structures, failed: unreadable, .. } = evaluated;
        // What cannot be read is told once and tested no more.
        failed |= !unreadable.is_empty();
        tested.retain(|case| unreadable.iter().all(|f| f.case != case.id));
        trainings.push(TrainedSize {
            cases: size,
            seconds,
            model_sha256,
            summary: Summaries::new(structures.iter().map(String::as_str), &compared, length_unit),
            records: compared,
        });
    }
    let series = Series::of_kinds(
        &sizes,
        &trainings.iter().map(|t| t.records.as_slice()).collect::<Vec<_>>(),
    );
    let report = Report {
        schema: "pbt-learning-curve/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: &dataset.name,
        split: args.split.as_deref(),
        tested: tested.iter().map(|case| case.id.clone()).collect(),
        seed: args.seed,
        device: &device.record,
        seconds: started.elapsed().as_secs_f64(),
        length_unit,
        trainings: &trainings,
        series: &series,
    };
    let what = match &args.split {
        Some(split) => format!("cases of the split {split}"),
        None => "training cases that were held back".to_owned(),
    };
    if !global.quiet {
        let text: Vec<String> = series.iter().map(|one| series::shown(one, length_unit)).collect();
        let what = format!("{}: errors in {} {what}", dataset.name, tested.len());
        print_text(&format!("{what}\n\n{}", text.join("\n")))?;
    }
    write_report(args.output.as_deref(), &report, global.quiet)?;
    if let Some(path) = &picture {
        let svg = pbt_report::learning_curve(
            &dataset.name,
            &series.iter().map(CurveSeries::from).collect::<Vec<_>>(),
            length_unit.name(),
        );
        write_atomically(path, |w| w.write_all(svg.as_bytes()))?;
    }
    Ok(if failed { ExitCode::from(exit::SOME_FAILED) } else { ExitCode::SUCCESS })
}

/// The cases to train on and those to test on: another split, or every fifth subject among the
/// training cases.
fn divide(
    dataset: &Dataset,
    split: Option<&str>,
) -> Result<(Vec<CaseSpec>, Vec<CaseSpec>), Failure> {
    let all: Vec<CaseSpec> = dataset.split("train").cloned().collect();
    let (training, tested) = match split {
        Some("train") => {
            return Err(Failure::usage(
                "--split: `train` is what is trained on (leave it out to hold cases back)",
            ));
        }
        Some(split) => {
            let tested: Vec<CaseSpec> = dataset.split(split).cloned().collect();
            let is_tested = |case: &CaseSpec| tested.iter().any(|t| t.has_subject_of(case));
            (all.into_iter().filter(|case| !is_tested(case)).collect(), tested)
        }
        None => hold_back(all, HELD_BACK),
    };
    if tested.is_empty() {
        let too_few = || {
            let what = format!(
                "cases: those of the split `train` are of fewer than {HELD_BACK} subjects, so that none can be held back (annotate more, or use --split)"
            );
            Failure::input(&dataset.path, what)
        };
        return Err(split.map_or_else(too_few, |split| {
            no_case_of_split(dataset, split, "choose another with --split")
        }));
    }
    Ok((training, tested))
}

/// The sizes in ascending order: those asked for, or doublings up to all cases.
fn sizes(asked: &[usize], available: usize, dataset: &Dataset) -> Result<Vec<usize>, Failure> {
    if let Some(size) = asked.iter().find(|&&size| size < FEWEST_CASES || size > available) {
        let what = format!(
            "--sizes: {size}: there are {available} cases to train on, and {FEWEST_CASES} are the least"
        );
        return Err(Failure::input(&dataset.path, what));
    }
    let mut sizes = if asked.is_empty() { default_sizes(available) } else { asked.to_vec() };
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.is_empty() {
        return Err(Failure::input(
            &dataset.path,
            format!("cases: {available} to train on (at least {FEWEST_CASES} are needed)"),
        ));
    }
    Ok(sizes)
}

/// 5, 10, 20 … and all; none that is nearly all. With few cases halvings of all, so that there is
/// more than one size.
fn default_sizes(all: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = std::iter::successors(Some(SMALLEST), |size| Some(2 * size))
        .take_while(|size| 5 * size <= 4 * all)
        .collect();
    if sizes.len() < 3 {
        sizes = std::iter::successors(Some(all / 2), |size| Some(size / 2))
            .take_while(|&size| size >= FEWEST_CASES)
            .take(3)
            .collect();
    }
    sizes.extend((all >= FEWEST_CASES).then_some(all));
    sizes
}

fn list(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_sizes_double_and_end_with_all() {
        assert_eq!(default_sizes(165), [5, 10, 20, 40, 80, 165]);
        assert_eq!(default_sizes(26), [5, 10, 20, 26]);
        // 20 of 24 is nearly all; halvings then are the better steps.
        assert_eq!(default_sizes(24), [12, 6, 3, 24]);
        assert_eq!(default_sizes(8), [4, 2, 8]);
        // What the documentation promises: enough for an estimate.
        let last_without = (1..200).rev().find(|&all| default_sizes(all).len() < 4);
        assert_eq!(last_without, Some(15));
        assert_eq!((default_sizes(2), default_sizes(1)), (vec![2], vec![]));
    }
}
