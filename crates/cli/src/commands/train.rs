//! `pbt train`

use crate::Failure;
use crate::args::{Global, Train};
use crate::dataset::{TrainingCases, Wanted, read_cases};
use crate::device::Device;
use crate::output::{beside, check_output, say};
use crate::progress::{TrainingProgress, catch_interrupts};
use pbt_detect::{StageFigure, TrainConfig, Trained};
use pbt_io::{Dataset, IoError, write_atomically};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// `MODEL.train.json`
#[derive(Serialize)]
struct TrainingReport<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: &'a str,
    cases: usize,
    seed: u64,
    model_sha256: String,
    training_sha256: &'a str,
    device: &'a pbt_io::DeviceRecord,
    seconds: f64,
    /// Errors on the training cases themselves: they say whether a stage works, not how well it
    /// does on new cases.
    stages: &'a [StageFigure],
    warnings: &'a [String],
}

pub(super) fn run(args: &Train, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let device = Device::open(global)?;
    let config = wanted_config(args)?;
    let dataset = Dataset::load(&args.input)?;
    check_output(&args.output)?;
    let wanted = Wanted::new(&dataset, &args.structure)?;
    say(
        global.quiet,
        format_args!(
            "training {} on {} ({} threads)",
            summary(&wanted),
            device.record.name,
            device.record.threads
        ),
    );
    let mut cases: Vec<_> = dataset.split("train").cloned().collect();
    if cases.is_empty() {
        return Err(Failure::input(&dataset.path, "cases: none has the split `train`"));
    }
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    let cases = read_cases(&dataset, &cases, &wanted)?;
    let mut warnings: Vec<String> = dataset.warnings.clone();
    warnings.extend(
        cases.iter().flat_map(|c| c.warnings.iter().map(|w| format!("{}: {w}", c.spec.id))),
    );
    warnings.iter().for_each(|w| say(global.quiet, format_args!("warning: {w}")));
    let data = TrainingCases::new(&dataset, cases, wanted);

    let checkpoint = beside(&args.output, "partial");
    let resume = match std::fs::read(&checkpoint) {
        Ok(bytes) if args.resume => Some(bytes),
        Err(_) if args.resume => {
            say(
                global.quiet,
                format_args!("{}: nothing to resume, starting anew", checkpoint.display()),
            );
            None
        }
        _ => None,
    };
    catch_interrupts();
    let progress = TrainingProgress::new(global.quiet, checkpoint.clone());
    let trained = device.train(&data, &config, args.seed, resume.as_deref(), &progress);
    progress.finish();
    let Trained { model, figures, warnings: doubts } = trained.map_err(|failure| {
        if failure.is_interruption() && checkpoint.exists() {
            say(
                global.quiet,
                format_args!(
                    "finished stages are in {}; go on with --resume",
                    checkpoint.display()
                ),
            );
        }
        failure.about(if resume.is_some() { &checkpoint } else { &dataset.path })
    })?;

    doubts.iter().for_each(|w| say(global.quiet, format_args!("warning: {w}")));
    warnings.extend(doubts);

    let bytes = model.to_bytes().map_err(|e| Failure::from(e).about(&args.output))?;
    write_atomically(&args.output, |w| w.write_all(&bytes))?;
    let resolved = toml::to_string_pretty(&model.resolved_config()).map_err(Failure::other)?;
    write_atomically(&beside(&args.output, "train.toml"), |w| w.write_all(resolved.as_bytes()))?;
    let report = TrainingReport {
        schema: "pbt-training/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: &dataset.name,
        cases: model.provenance.cases,
        seed: args.seed,
        model_sha256: hex(&bytes),
        training_sha256: &model.provenance.training_sha256,
        device: &device.record,
        seconds: started.elapsed().as_secs_f64(),
        stages: &figures,
        warnings: &warnings,
    };
    write_atomically(&beside(&args.output, "train.json"), |w| {
        serde_json::to_writer_pretty(&mut *w, &report)?;
        w.write_all(b"\n")
    })?;
    // The model is complete; a checkpoint that cannot be removed does no harm.
    let _ = std::fs::remove_file(&checkpoint);
    say(
        global.quiet,
        format_args!(
            "{} ({:.1} kB) in {:.0} s",
            args.output.display(),
            bytes.len() as f64 / 1e3,
            report.seconds
        ),
    );
    Ok(ExitCode::SUCCESS)
}

/// The boxes by name, the landmarks by number.
fn summary(wanted: &Wanted) -> String {
    match wanted.landmarks.len() {
        0 => wanted.boxes.join(", "),
        n => {
            format!("{} and {n} landmark{}", wanted.boxes.join(", "), if n == 1 { "" } else { "s" })
        }
    }
}

fn wanted_config(args: &Train) -> Result<TrainConfig, Failure> {
    let mut config = read_config(args.config.as_deref())?;
    if let Some(kind) = args.classifier {
        config.classifier.kind = kind.into();
    }
    Ok(config)
}

/// The configuration in a file, or the default.
pub(crate) fn read_config(path: Option<&Path>) -> Result<TrainConfig, Failure> {
    let Some(path) = path else { return Ok(TrainConfig::default()) };
    let text = std::fs::read_to_string(path).map_err(|e| IoError::unreadable(path, &e))?;
    TrainConfig::from_toml(&text).map_err(|e| Failure::from(e).about(path))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
