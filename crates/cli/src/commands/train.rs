//! `pbt train`

use crate::Failure;
use crate::args::{Global, Train};
use crate::commands::open_device::open_device;
use crate::commands::validate::{lost_to_training, warnings_of_boxes};
use crate::interrupt::catch_interrupts;
use crate::output::{Written, argument, check_output, file_size, say, warn};
use crate::progress::{TrainingProgress, span};
use crate::session::{
    Device, LoadedModel, RegionCases, Resume, TrainedModel, Training, TrainingNeeds,
    TrainingReport, Wanted, beside, checkpoint_of, misfits, no_case_of_split, read_cases,
    read_config, train_regions, write_json,
};
use pbt_detect::TrainConfig;
use pbt_io::{CaseSpec, Dataset, DeviceRecord};
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(args: &Train, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let checkpoint = checkpoint_of(&args.output)?;
    let device = open_device(global)?;
    let config = wanted_config(args)?;
    let dataset = Dataset::load(&args.input)?;
    check_output(&args.output, Written::Model)?;
    let wanted = Wanted::new(&dataset, &args.structure)?;
    let mut cases: Vec<_> = dataset.split("train").cloned().collect();
    if cases.is_empty() {
        return Err(no_case_of_split(&dataset, "train", "name those to learn from `train`"));
    }
    if args.cases == Some(1) && wanted.regions.is_empty() {
        let what = "--cases: 1 is too few to learn boxes or landmarks from (give 2 or more)";
        return Err(Failure::usage(what));
    }
    if !wanted.regions.is_empty() {
        refuse_for_regions(args)?;
    }
    let training_cases = cases.len();
    cases.truncate(args.cases.unwrap_or(usize::MAX));
    say(
        global.quiet,
        format_args!(
            "training {}{} on {} of {training_cases} training cases with {} ({} threads)",
            if args.quick { "quickly " } else { "" },
            summary(&wanted),
            cases.len(),
            device.record.name,
            device.record.threads
        ),
    );
    let run = Run { args, global, dataset: &dataset, config: &config, started };
    if !wanted.regions.is_empty() {
        return run.regions(&cases, &wanted, &device);
    }
    let cases = read_cases(&dataset, &cases, &wanted)?;
    let mut warnings = warnings_of(&dataset);
    warnings.extend(
        cases.iter().flat_map(|c| c.warnings.iter().map(|w| format!("{}: {w}", c.spec.id))),
    );
    warnings.extend(misfits(&dataset, &cases, &wanted));
    warnings.extend(warnings_of_boxes(&dataset, &cases));
    warnings.iter().for_each(|w| warn(global, w));

    let mut training = Training {
        dataset: &dataset,
        cases,
        wanted: &wanted,
        config: &config,
        seed: args.seed,
        resume: None,
    };
    // The file itself: a model of this name elsewhere is another one.
    let is_finished = || {
        args.output.is_file()
            && LoadedModel::open(&args.output)
                .and_then(|there| training.difference_from(&there))
                .is_ok_and(|difference| difference.is_none())
    };
    if args.resume && !checkpoint.exists() && is_finished() {
        let model = args.output.display();
        say(
            global.quiet,
            format_args!(
                "{model}: is finished, of the same cases and options (without --resume it is trained again)"
            ),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let resume = if args.resume { Resume::from(&checkpoint)? } else { None };
    let told = match &resume {
        Some(resume) => {
            training.check(resume)?;
            Some("resuming from its finished stages")
        }
        None if args.resume => Some("nothing to resume, starting anew"),
        None => checkpoint.exists().then_some(
            "finished stages of an earlier training are replaced (--resume goes on with them)",
        ),
    };
    if let Some(told) = told {
        say(global.quiet, format_args!("{}: {told}", checkpoint.display()));
    }
    training.resume = resume.as_ref();
    catch_interrupts(global);
    let progress = TrainingProgress::new(global, checkpoint.clone());
    if let Some(needs) = training.needs(device.record.threads) {
        say(global.quiet, needs_line(&needs, &device));
    }
    let trained = training.run(&device, &progress);
    drop(progress);
    let trained = trained.map_err(|failure| {
        if failure.is_interruption() && checkpoint.exists() {
            say(
                global.quiet,
                format_args!(
                    "finished stages are in {}; go on with --resume",
                    checkpoint.display()
                ),
            );
        }
        failure.about(&args.output)
    })?;

    run.write(&trained, warnings, &device.record)?;
    // The model is complete; a checkpoint that cannot be removed does no harm.
    let _ = std::fs::remove_file(&checkpoint);
    Ok(ExitCode::SUCCESS)
}

/// Options that mean nothing to a training of regions.
///
/// # Errors
/// Exit code 2 for the first that is given.
fn refuse_for_regions(args: &Train) -> Result<(), Failure> {
    let given = [
        (args.resume, "--resume: a training of regions has no checkpoints (leave it out)"),
        (
            args.quick,
            "--quick: is for boxes and landmarks (for regions set `regions.samples` or `regions.features` in --config)",
        ),
        (
            args.classifier.is_some(),
            "--classifier: is that of boxes (for regions set `regions.classifier` in --config)",
        ),
        (
            args.no_segmentation,
            "--no-segmentation: is for boxes and landmarks, and regions are nothing but labels (leave it out)",
        ),
    ];
    let refused = given.into_iter().find(|(is_given, _)| *is_given);
    refused.map_or(Ok(()), |(_, what)| Err(Failure::usage(what)))
}

/// What the data set's file says that nobody may have meant.
fn warnings_of(dataset: &Dataset) -> Vec<String> {
    [&dataset.warnings[..], &lost_to_training(dataset)].concat()
}

/// What a training of any kind needs to end.
struct Run<'a> {
    args: &'a Train,
    global: &'a Global,
    dataset: &'a Dataset,
    config: &'a TrainConfig,
    started: Instant,
}

impl Run<'_> {
    /// Trains regions on these cases.
    fn regions(
        &self,
        cases: &[CaseSpec],
        wanted: &Wanted,
        device: &Device,
    ) -> Result<ExitCode, Failure> {
        let Self { args, global, dataset, .. } = self;
        let cases = RegionCases::read(dataset, cases, wanted)?;
        let mut warnings = warnings_of(dataset);
        warnings.extend(cases.warnings());
        warnings.iter().for_each(|w| warn(global, w));
        catch_interrupts(global);
        let progress = TrainingProgress::new(global, checkpoint_of(&args.output)?);
        let trained = train_regions(dataset, &cases, self.config, args.seed, device, &progress);
        drop(progress);
        self.write(&trained?, warnings, &device.record)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Writes the model and what lies beside it.
    fn write(
        &self,
        trained: &TrainedModel,
        mut warnings: Vec<String>,
        device: &DeviceRecord,
    ) -> Result<(), Failure> {
        let Self { args, global, dataset, .. } = self;
        trained.warnings.iter().for_each(|w| warn(global, w));
        warnings.extend(trained.warnings.iter().cloned());
        trained.write(&args.output)?;
        trained.write_settings(&args.output)?;
        let seconds = self.started.elapsed().as_secs_f64();
        let report = TrainingReport::new(trained, dataset, args.seed, device, &warnings, seconds);
        write_json(&beside(&args.output, "train.json"), &report)?;
        if trained.model.provenance.copies > 0 {
            say(
                global.quiet,
                format_args!(
                    "each case has a mirrored copy (augmentation.copies = 0 does without)"
                ),
            );
        }
        let model = &trained.model;
        if model.scores_mean_little() {
            say(
                global.quiet,
                "scores were not measured on held-out cases: do not decide by them, nor by `found`",
            );
        }
        let (model, size) = (args.output.display(), file_size(trained.bytes.len()));
        say(global.quiet, format_args!("{model} ({size}) in {}", span(seconds)));
        if dataset.split("test").next().is_some() {
            let [model, data] = [&args.output, &args.input].map(|path| argument(path));
            say(
                global.quiet,
                format_args!("next: pbt evaluate -m {model} -i {data} -o report.json"),
            );
        }
        Ok(())
    }
}

/// How long it will take, and how much memory. How much faster a GPU is depends on the GPU.
fn needs_line(needs: &TrainingNeeds, device: &Device) -> String {
    let [least, most] = needs.memory_bytes.map(|bytes| bytes / 1e9);
    let memory = format!("{least:.1} to {most:.1} GB of memory");
    if device.is_gpu() {
        return format!("this will take about {memory}");
    }
    let [least, most] = needs.seconds.map(span);
    format!("this will take about {least} to {most} and {memory}")
}

/// The boxes or regions by name, the landmarks by number.
fn summary(wanted: &Wanted) -> String {
    match wanted.landmarks.len() {
        0 => [&wanted.boxes[..], &wanted.regions].concat().join(", "),
        n => {
            format!("{} and {n} landmark{}", wanted.boxes.join(", "), if n == 1 { "" } else { "s" })
        }
    }
}

fn wanted_config(args: &Train) -> Result<TrainConfig, Failure> {
    let mut config = read_config(args.config.as_deref())?;
    if args.no_segmentation {
        config.segmentation.trained = false;
    }
    if let Some(kind) = args.classifier {
        config.classifier.kind = kind.into();
    }
    Ok(if args.quick { config.quick() } else { config })
}
