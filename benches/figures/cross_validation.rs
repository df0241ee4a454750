//! Cross-validation: every training case of a set is tested once, by a model that has seen no case
//! of its subject. With several configurations, how each differs from the first.

mod folds;
mod set;
mod summary;
mod trial;

use anyhow::{Context, bail};
use clap::Args;
use pbt::table::{row, table};
use serde::Serialize;
use serde_json::Value;
use set::Set;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use summary::{Difference, Differences, Figures, Group, Record};
use trial::{Runner, Trial};

/// `figures cross-validation`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Data set: a path below the folder PBT_DATA, or any path
    set: PathBuf,
    /// Train only this structure (may be given several times) [default: all boxes]
    #[arg(long, value_name = "NAME")]
    structure: Vec<String>,
    /// Train the landmarks, too
    #[arg(long, conflicts_with = "structure")]
    landmarks: bool,
    /// Train on the first N training cases of each fold only
    #[arg(long, value_name = "N")]
    cases: Option<usize>,
    /// Number of folds
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = at_least::<2>)]
    folds: usize,
    /// Settings of the trainings, or the word `default`; several are compared with the first
    #[arg(long, value_name = "FILE.toml")]
    config: Vec<PathBuf>,
    /// Keep cases together whose numbers lie in the same block of N, where no subject is named
    /// [default: 10 for the set hippocampus, else 1]
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    /// Seed of the trainings
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Trainings at a time; each takes the memory that one takes alone
    #[arg(long, value_name = "J", default_value_t = 1, value_parser = at_least::<1>)]
    jobs: usize,
    /// Device of `pbt`
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,
    /// Folder for models and reports [default: figures/cross-validation in Cargo's target folder]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

fn at_least<const LEAST: usize>(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|&n| n >= LEAST)
        .ok_or_else(|| format!("expected a number from {LEAST}"))
}

/// What is written.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    dataset: String,
    /// Hash of the program that trained and detected.
    program_sha256: String,
    /// Its arguments for training: structures, number of cases, seed.
    training: Vec<String>,
    /// Names of the held-out cases by fold.
    folds: Vec<Vec<String>>,
    configurations: Vec<Configuration>,
}

/// One configuration.
#[derive(Serialize)]
struct Configuration {
    /// Name of its file without the extension, or `default`.
    name: String,
    figures: Vec<Figures>,
    /// Against the first configuration; empty for that one.
    differences: Vec<Differences>,
    /// The models, by fold, as `pbt evaluate` names them.
    models: Vec<Value>,
    /// Cases that could not be evaluated.
    failed: Vec<Value>,
    /// The records of `pbt evaluate`.
    records: Vec<Value>,
}

/// Runs the cross-validation, prints the table and writes the report.
///
/// # Errors
/// A set that cannot be divided, whatever keeps `pbt` from training, and files that cannot be
/// written.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let set = Set::load(&path_of(&arguments.set))?;
    let blocks = arguments.blocks.unwrap_or_else(|| folds::default_blocks(&set.name));
    let fold_of = folds::divide(&folds::groups(&set.cases, blocks)?, arguments.folds)?;
    let runner = Runner::new(training_options(arguments, &set), computing_options(arguments))?;
    let configs = configurations(&arguments.config)?;
    let folder = arguments.output.clone().unwrap_or_else(|| {
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        Path::new(&target).join("figures/cross-validation")
    });

    let of_fold = |(name, config): &(String, Option<PathBuf>), fold: usize| Trial {
        title: format!("{}, {name}, fold {} of {}", set.name, fold + 1, arguments.folds),
        dataset: set.fold(&fold_of, fold),
        config: config.clone(),
        folder: folder.join(&set.name).join(name).join(format!("fold-{}", fold + 1)),
    };
    let trials: Vec<Trial> = configs
        .iter()
        .flat_map(|config| (0..arguments.folds).map(move |fold| (config, fold)))
        .map(|(config, fold)| of_fold(config, fold))
        .collect();
    let reports = run_all(&runner, &trials, arguments.jobs)?;

    let mut merged: Vec<Configuration> = Vec::new();
    let mut first: Option<Vec<Record>> = None;
    for ((name, _), reports) in configs.into_iter().zip(reports.chunks(arguments.folds)) {
        let list = |key: &'static str| {
            let of_fold = move |report: &Value| report[key].as_array().cloned().unwrap_or_default();
            reports.iter().flat_map(of_fold)
        };
        let records = list("records")
            .map(serde_json::from_value)
            .collect::<Result<Vec<Record>, _>>()
            .context("the reports are of another version of pbt")?;
        let groups = Group::of(&records, set.structures());
        let differences = first
            .iter()
            .flat_map(|first| groups.iter().map(|group| Differences::new(group, first, &records)));
        merged.push(Configuration {
            name,
            figures: groups.iter().map(|group| Figures::new(group, &records)).collect(),
            differences: differences.collect(),
            models: list("models").collect(),
            failed: list("failed").collect(),
            records: list("records").collect(),
        });
        first.get_or_insert(records);
    }
    let held_out = |fold: usize| {
        let cases = set.cases.iter().zip(&fold_of).filter(move |&(_, &of)| of == fold);
        cases.filter_map(|(case, _)| case["id"].as_str().map(str::to_owned)).collect()
    };
    let report = Report {
        schema: "pbt-cross-validation/1",
        dataset: set.name.clone(),
        program_sha256: runner.program_sha256,
        training: runner.training,
        folds: (0..arguments.folds).map(held_out).collect(),
        configurations: merged,
    };
    println!("{}", report.shown());
    let path = folder.join(&set.name).with_extension("json");
    std::fs::write(&path, serde_json::to_vec_pretty(&report)?)
        .with_context(|| path.display().to_string())?;
    println!("report: {}", path.display());
    Ok(())
}

/// A path below PBT_DATA where there is one of this name, else the path itself.
fn path_of(set: &Path) -> PathBuf {
    let data = std::env::var_os("PBT_DATA").map(PathBuf::from);
    data.map(|data| data.join(set)).filter(|path| path.exists()).unwrap_or_else(|| set.to_owned())
}

fn training_options(arguments: &Arguments, set: &Set) -> Vec<String> {
    let structures = match (&arguments.structure, arguments.landmarks) {
        (named, _) if !named.is_empty() => named.clone(),
        (_, true) => Vec::new(),
        // A set of landmarks alone is trained as it is.
        (_, false) => set.without_landmarks(),
    };
    let mut options = vec!["--seed".to_owned(), arguments.seed.to_string()];
    options.extend(arguments.cases.into_iter().flat_map(|n| ["--cases".to_owned(), n.to_string()]));
    options.extend(structures.into_iter().flat_map(|name| ["--structure".to_owned(), name]));
    options
}

fn computing_options(arguments: &Arguments) -> Vec<String> {
    let mut options = vec!["--device".to_owned(), arguments.device.clone()];
    if arguments.jobs > 1 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        options.extend(["--threads".to_owned(), (cores / arguments.jobs).max(1).to_string()]);
    }
    options
}

/// Names and files of the configurations; `default` has none.
fn configurations(files: &[PathBuf]) -> anyhow::Result<Vec<(String, Option<PathBuf>)>> {
    let mut named: Vec<(String, Option<PathBuf>)> = Vec::new();
    for file in files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if named.iter().any(|(other, _)| *other == name) {
            bail!("--config: two are called `{name}` (rename one)");
        }
        named.push((name, (file.as_os_str() != "default").then(|| file.clone())));
    }
    if named.is_empty() {
        named.push(("default".to_owned(), None));
    }
    Ok(named)
}

/// The reports of all trials in their order, so many at a time. The first failure ends the run when
/// the trials that were begun are done.
fn run_all(runner: &Runner, trials: &[Trial], jobs: usize) -> anyhow::Result<Vec<Value>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Value>>> = Mutex::new(vec![None; trials.len()]);
    let failure = Mutex::new(None);
    let work = || {
        while failure.lock().is_ok_and(|failure| failure.is_none()) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(trial) = trials.get(n) else { break };
            match runner.report(trial) {
                Ok(report) => done.lock().expect("no thread panics")[n] = Some(report),
                Err(error) => *failure.lock().expect("no thread panics") = Some(error),
            }
        }
    };
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    match failure.into_inner().expect("no thread panics") {
        Some(error) => Err(error),
        None => Ok(done.into_inner().expect("no thread panics").into_iter().flatten().collect()),
    }
}

impl Report {
    fn shown(&self) -> String {
        let sizes: Vec<String> = self.folds.iter().map(|fold| fold.len().to_string()).collect();
        let mut text = format!(
            "\n{}: {} cases in {} folds of {}; {}\n\n",
            self.dataset,
            self.folds.iter().map(Vec::len).sum::<usize>(),
            self.folds.len(),
            sizes.join(", "),
            self.training.join(" "),
        );
        let several = self.configurations.len() > 1;
        let mut head = row([
            "structure",
            "configuration",
            "n",
            "found",
            "wrong",
            "missed",
            "centre, mm",
            "median",
            "P95",
            "max",
            "angle, °",
            "size, %",
            "Brier",
            "calibration",
        ]);
        if several {
            head.extend(row(["Δ centre", "Δ angle", "Δ Brier"]));
        }
        let mut rows = vec![head];
        let structures = self.configurations.first().map_or(0, |c| c.figures.len());
        for n in 0..structures {
            for configuration in &self.configurations {
                let Some(figures) = configuration.figures.get(n) else { continue };
                let mut cells = figures.cells(&configuration.name);
                if let Some(d) = configuration.differences.get(n) {
                    cells.extend([d.center_mm, d.angle_deg, d.brier].map(shown_difference));
                }
                rows.push(cells);
            }
        }
        text.push_str(&table(2, &rows));
        text.push_str(
            "\nwrong: found without doubt and not right; centre, angle and size: of found and doubtful ones\n",
        );
        if several {
            text.push_str(&format!(
                "Δ: above `{}`, mean and standard error of the cases\n",
                self.configurations[0].name
            ));
        }
        for configuration in self.configurations.iter().filter(|c| !c.failed.is_empty()) {
            let (name, failed) = (&configuration.name, configuration.failed.len());
            text.push_str(&format!("{name}: {failed} case(s) could not be evaluated\n"));
        }
        text
    }
}

impl Figures {
    fn cells(&self, configuration: &str) -> Vec<String> {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
        };
        let center =
            |part: fn(&pbt_evaluate::Summary) -> f64| number(self.center_mm.as_ref().map(part), 3);
        let mut cells = row([self.structure.as_str(), configuration]);
        cells
            .extend([self.n, self.found, self.found_and_wrong, self.missed].map(|n| n.to_string()));
        cells.extend([
            center(|s| s.mean),
            center(|s| s.median),
            center(|s| s.p95),
            center(|s| s.max),
        ]);
        cells.push(number(self.angle_deg.map(|s| s.mean), 2));
        cells.push(number(self.size_percent.map(|s| s.mean), 2));
        cells.extend([self.brier, self.calibration_error].map(|value| number(value, 4)));
        cells
    }
}

fn shown_difference(difference: Option<Difference>) -> String {
    match difference {
        Some(Difference { mean, standard_error: Some(error), .. }) => {
            format!("{mean:+.4} ± {error:.4}")
        }
        Some(Difference { mean, .. }) => format!("{mean:+.4}"),
        None => "-".to_owned(),
    }
}
