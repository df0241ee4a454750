//! `pbt demo`: phantoms, training, detection in unseen ones. It goes the way that a user's own data
//! go, through the same files.

mod outcome;
mod phantoms;

use crate::Failure;
use crate::args::{Demo, DemoModality, Global};
use crate::commands::open_device::open_device;
use crate::output::{print_text, say};
use crate::progress::TrainingProgress;
use crate::session::{
    Device, Found, LoadedModel, Training, VoxelOutput, Wanted, detect_file, install_threads,
    make_folder, read_cases, write_results,
};
use clap::ValueEnum;
use outcome::{Outcome, Unseen, picture, tables};
use pbt_detect::{AugmentationConfig, RefinementConfig, TrainConfig};
use pbt_io::{Dataset, write_atomically};
use phantoms::{Subject, refuse_another_dataset, write_dataset};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

pub(super) fn run(args: &Demo, global: &Global) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let modalities: Vec<DemoModality> = DemoModality::value_variants()
        .iter()
        .copied()
        .filter(|m| args.modality.is_empty() || args.modality.contains(m))
        .collect();
    for subject in modalities.iter().map(|&m| Subject::from(m)) {
        refuse_another_dataset(&args.output.join(subject.file), subject)?;
    }
    if args.data_only {
        return write_data(args, global, &modalities);
    }
    let device = open_device(global)?;
    make_folder(&args.output)?;
    say(
        global.quiet,
        format_args!(
            "For {}: make {} phantoms with known poses, train on {}, find the structure in the other {} ({}, {} threads).",
            listed(&modalities),
            args.cases + args.unseen,
            args.cases,
            args.unseen,
            device.record.name,
            device.record.threads
        ),
    );
    let outcomes: Vec<Outcome> = modalities
        .into_iter()
        .map(|modality| demonstrate(modality.into(), args, global, &device))
        .collect::<Result<_, _>>()?;
    let svg = picture(&outcomes)?;
    write_atomically(&args.output.join("demo.svg"), |w| w.write_all(svg.as_bytes()))?;
    if !global.quiet {
        print_text(&format!("\n{}\n{}", tables(&outcomes), next_steps(&args.output, &outcomes)))?;
    }
    say(global.quiet, format_args!("\n{:.0} s in all", started.elapsed().as_secs_f64()));
    Ok(ExitCode::SUCCESS)
}

/// The data sets alone.
fn write_data(
    args: &Demo,
    global: &Global,
    modalities: &[DemoModality],
) -> Result<ExitCode, Failure> {
    make_folder(&args.output)?;
    install_threads(global.threads);
    for subject in modalities.iter().map(|&m| Subject::from(m)) {
        let (folder, file) = (args.output.join(subject.file), subject.file);
        write_dataset(&folder, subject, args.cases.into(), args.unseen.into())?;
        say(
            global.quiet,
            format_args!(
                "{}: {} cases to train on, {} to test; try pbt detect -m phantom-{file} -i {}/images/{file}-test-01.nii.gz -o found",
                folder.display(),
                args.cases,
                args.unseen,
                folder.display(),
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// `CT`, or `each of CT, MR, US`.
fn listed(modalities: &[DemoModality]) -> String {
    let names: Vec<&str> = modalities.iter().map(|&m| Subject::from(m).title).collect();
    format!("{}{}", if names.len() > 1 { "each of " } else { "" }, names.join(", "))
}

/// A coarser and shorter refinement than the default with nothing to choose, in half of its time: a
/// demo should take less than a minute.
fn config() -> TrainConfig {
    let refinement = RefinementConfig {
        points_across: 7.0,
        perturbations: 90,
        border: Some(-0.06),
        ridge: Some(0.4),
        ..RefinementConfig::default()
    };
    let augmentation = AugmentationConfig { copies: Some(0), ..AugmentationConfig::default() };
    TrainConfig { refinement, augmentation, ..TrainConfig::default() }
}

/// Data set, training and detection of one modality.
fn demonstrate(
    subject: Subject,
    args: &Demo,
    global: &Global,
    device: &Device,
) -> Result<Outcome, Failure> {
    let name = format!("{}, {}", subject.title, subject.modality.structure());
    let begun = Instant::now();
    let folder = args.output.join(subject.file);
    write_dataset(&folder, subject, args.cases.into(), args.unseen.into())?;
    say(global.quiet, format_args!("{name}: phantoms in {:.1} s", begun.elapsed().as_secs_f64()));

    let begun = Instant::now();
    let dataset = Dataset::load(&folder)?;
    let wanted = Wanted::new(&dataset, &[])?;
    let training: Vec<_> = dataset.split("train").cloned().collect();
    let trained = Training {
        dataset: &dataset,
        cases: read_cases(&dataset, &training, &wanted)?,
        wanted: &wanted,
        config: &config(),
        seed: 0,
        resume: None,
    }
    .run(device, &TrainingProgress::without_checkpoint(global, subject.title))?;
    let path = args.output.join(format!("{}.pbt", subject.file));
    trained.write(&path)?;
    let time = begun.elapsed();
    say(global.quiet, format_args!("{name}: trained in {:.1} s", time.as_secs_f64()));

    let model_bytes = trained.bytes.len();
    let model = LoadedModel::open(&path)?;
    let mut unseen = Vec::with_capacity(args.unseen.into());
    for case in dataset.split("test") {
        let found = Found::from(detect_file(&model, case.into(), device)?);
        write_results(&args.output.join("results"), &found, VoxelOutput::default())?;
        let result = found.result;
        let annotations = dataset.load_annotations(case)?;
        if let Some(&truth) = annotations.pose(subject.modality.structure()) {
            unseen.push(Unseen { case: case.clone(), truth, result });
        }
    }
    Ok(Outcome { subject, training_cases: training.len(), training: time, model_bytes, unseen })
}

/// What a user may do now.
fn next_steps(folder: &Path, outcomes: &[Outcome]) -> String {
    let shown = folder.display();
    let mut text = format!(
        "Look at {shown}/demo.svg in a browser: true boxes are green, found ones orange.\n"
    );
    if let Some((subject, first)) =
        outcomes.iter().find_map(|o| Some((o.subject, o.unseen.first()?)))
    {
        let (file, id) = (subject.file, &first.case.id);
        text.push_str(&format!(
            "In 3D Slicer, open {shown}/{file}/images/{id}.nii.gz together with {shown}/results/{id}.mrk.json.\n\
             Train it again: pbt train -i {shown}/{file} -o again.pbt; test it: pbt evaluate -m {shown}/{file}.pbt -i {shown}/{file}\n\
             Your own scans, with masks or boxes drawn in Slicer: pbt init my_scans, then pbt train -i my_scans -o my.pbt\n"
        ));
    }
    text
}
