//! `pbt tune`

mod combinations;
mod race;

use crate::Failure;
use crate::args::{Global, Tune};
use crate::commands::open_device::open_device;
use crate::interrupt::catch_interrupts;
use crate::output::{Written, check_output, print_text, say};
use crate::progress::CaseProgress;
use crate::session::{
    Device, LoadedModel, RegionCases, Source, Wanted, Watcher, divide_subjects, evaluate_regions,
    read_config, train_regions, write_json,
};
use crate::table::{row, table};
use combinations::{Combination, combinations};
use pbt_io::{CaseSpec, Dataset, DeviceRecord, FileKind, read_file, write_atomically};
use race::{is_worse, mean};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// `TUNED.json`
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: &'a str,
    folds: usize,
    cases: usize,
    seed: u64,
    device: &'a DeviceRecord,
    seconds: f64,
    /// The best one comes first.
    settings: Vec<Figure<'a>>,
}

/// What a combination reached.
#[derive(Serialize)]
struct Figure<'a> {
    values: BTreeMap<&'a str, &'a toml::Value>,
    /// The mean over cases of a case's mean over regions.
    mean_dice: f64,
    /// Cases that it labelled.
    cases: usize,
    /// The fold after which it was dropped, from 1.
    dropped_after: Option<usize>,
    seconds: f64,
}

/// A combination in the race.
struct Runner {
    combination: Combination,
    /// Mean Dice coefficients of the cases so far, in the order in which they came.
    figures: Vec<f64>,
    dropped_after: Option<usize>,
    seconds: f64,
}

pub(super) fn run(args: &Tune, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let report_path = args.output.with_extension("json");
    if args.output == report_path {
        return Err(Failure::usage(
            "--output: the report would overwrite the settings (name the settings .toml)",
        ));
    }
    check_output(&args.output, Written::Settings)?;
    check_output(&report_path, Written::Report)?;
    let device = open_device(global)?;
    // What is wrong in the file is not to be blamed on what varies.
    read_config(args.config.as_deref())?;
    let base = match &args.config {
        Some(path) => String::from_utf8_lossy(&read_file(path, FileKind::Settings)?).into_owned(),
        None => String::new(),
    };
    let all = combinations(&args.vary, &base, args.draws, args.seed)?;
    let dataset = Dataset::load(&args.input)?;
    let wanted = Wanted::new(&dataset, &args.structure)?;
    if wanted.regions.is_empty() {
        let what = "structures: `pbt tune` takes regions (for boxes compare models: `pbt evaluate --compare`)";
        return Err(Failure::input(&dataset.path, what));
    }
    let mut cases: Vec<CaseSpec> =
        dataset.split("train").filter(|case| case.labels.is_some()).cloned().collect();
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    let folds = usize::from(args.folds);
    if divide_subjects(cases.clone(), folds, folds - 1).1.is_empty() {
        let what = format!(
            "cases: fewer than {folds} subjects of the split `train` have label maps (lower --folds)"
        );
        return Err(Failure::input(&dataset.path, what));
    }
    say(
        global.quiet,
        format_args!("{} combinations, {} cases in {folds} folds", all.len(), cases.len()),
    );
    catch_interrupts(global);
    let mut runners: Vec<Runner> = all
        .into_iter()
        .map(|combination| Runner {
            combination,
            figures: Vec::new(),
            dropped_after: None,
            seconds: 0.0,
        })
        .collect();
    let work = Work { args, global, dataset: &dataset, wanted: &wanted, device: &device };
    for fold in 0..folds {
        let (training, tested) = divide_subjects(cases.clone(), folds, fold);
        let training = RegionCases::read(&dataset, &training, &wanted)?;
        for runner in runners.iter_mut().filter(|runner| runner.dropped_after.is_none()) {
            work.fold(fold, runner, &training, &tested)?;
        }
        drop_losers(&mut runners, fold + 1);
    }
    let best = best(&runners);
    write_atomically(&args.output, |w| w.write_all(runners[best].combination.text.as_bytes()))?;
    let mut order: Vec<&Runner> = runners.iter().collect();
    // Those that went all the way first.
    order.sort_by(|a, b| {
        let key = |r: &Runner| r.dropped_after.unwrap_or(usize::MAX);
        key(b).cmp(&key(a)).then(mean(&b.figures).total_cmp(&mean(&a.figures)))
    });
    if !global.quiet {
        print_text(&shown(&order))?;
    }
    let report = Report {
        schema: "pbt-tuning/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: &dataset.name,
        folds,
        cases: cases.len(),
        seed: args.seed,
        device: &device.record,
        seconds: started.elapsed().as_secs_f64(),
        settings: order.into_iter().map(figure).collect(),
    };
    write_json(&report_path, &report)?;
    let (settings, report) = (args.output.display(), report_path.display());
    say(global.quiet, format_args!("settings: {settings}; report: {report}"));
    Ok(ExitCode::SUCCESS)
}

/// What every training and test needs.
struct Work<'a> {
    args: &'a Tune,
    global: &'a Global,
    dataset: &'a Dataset,
    wanted: &'a Wanted,
    device: &'a Device,
}

impl Work<'_> {
    /// Trains a combination on the other folds and tests it on one.
    fn fold(
        &self,
        fold: usize,
        runner: &mut Runner,
        training: &RegionCases,
        tested: &[CaseSpec],
    ) -> Result<(), Failure> {
        let Self { args, global, dataset, wanted, device } = self;
        let began = Instant::now();
        let progress = CaseProgress::new(global);
        let what = format!("fold {}: {}", fold + 1, named(&runner.combination));
        let config = &runner.combination.config;
        let observer = progress.training(&what, None);
        let trained = train_regions(dataset, training, config, args.seed, device, &*observer)?;
        drop(observer);
        let model: LoadedModel = trained.loaded(PathBuf::from(&what));
        let (source, cases) = (Source::Model(Box::new(model)), tested.to_vec());
        let names = &wanted.regions;
        let found = evaluate_regions(dataset, names, &source, cases, device, &progress)?;
        for case in tested {
            let own = found.records.iter().filter(|record| record.case == case.id);
            let dices: Vec<f64> = own.filter_map(|record| record.dice).collect();
            // A case without any region says nothing, and one that cannot be read was told.
            if !dices.is_empty() {
                runner.figures.push(mean(&dices));
            }
        }
        runner.seconds += began.elapsed().as_secs_f64();
        Ok(())
    }
}

/// The one with the highest mean of those that are left, of equals the first.
fn best(runners: &[Runner]) -> usize {
    let left = (0..runners.len()).filter(|&n| runners[n].dropped_after.is_none());
    left.fold(None, |best: Option<usize>, n| match best {
        Some(best) if mean(&runners[n].figures) <= mean(&runners[best].figures) => Some(best),
        _ => Some(n),
    })
    .unwrap_or(0)
}

fn drop_losers(runners: &mut [Runner], after: usize) {
    let best = runners[best(runners)].figures.clone();
    for runner in runners.iter_mut().filter(|runner| runner.dropped_after.is_none()) {
        // All that are left have labelled the same cases; a pair with other ones cannot be compared.
        let comparable = runner.figures.len() == best.len();
        if comparable && is_worse(&runner.figures, &best) {
            runner.dropped_after = Some(after);
        }
    }
}

fn named(combination: &Combination) -> String {
    let one = |(key, value): &(String, toml::Value)| format!("{key} = {value}");
    combination.values.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn figure(runner: &Runner) -> Figure<'_> {
    Figure {
        values: runner.combination.values.iter().map(|(key, v)| (&key[..], v)).collect(),
        mean_dice: mean(&runner.figures),
        cases: runner.figures.len(),
        dropped_after: runner.dropped_after,
        seconds: runner.seconds,
    }
}

fn shown(order: &[&Runner]) -> String {
    let mut rows = vec![row(["settings", "Dice", "cases", "dropped after fold", "s"])];
    rows.extend(order.iter().map(|runner| {
        let dropped = runner.dropped_after.map_or_else(|| "-".to_owned(), |fold| fold.to_string());
        row([
            named(&runner.combination),
            format!("{:.4}", mean(&runner.figures)),
            runner.figures.len().to_string(),
            dropped,
            format!("{:.1}", runner.seconds),
        ])
    }));
    table(1, &rows)
}
