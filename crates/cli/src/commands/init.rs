//! `pbt init`

use crate::Failure;
use crate::args::{Global, Init};
use crate::output::{Written, argument, check_output, print_text};
use pbt_io::{FileKind, FolderOptions, FromFolder, Modality, dataset_from_folder, read_file};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(args: &Init, global: &Global) -> Result<ExitCode, Failure> {
    if !args.folder.is_dir() {
        let what = if args.folder.exists() {
            "folder: is a file (give the folder that it lies in)"
        } else {
            "folder: does not exist (check the path)"
        };
        return Err(Failure::input(&args.folder, what));
    }
    let output = match &args.output {
        None => args.folder.join("dataset.json"),
        Some(folder) if folder.is_dir() => folder.join("dataset.json"),
        Some(file) => file.clone(),
    };
    may_be_written(&output, args.force)?;
    check_output(&output, Written::DataSet)?;
    let options = FolderOptions {
        name: args.name.clone(),
        modality: args.modality.as_deref().map(modality),
        structure: args.structure.clone(),
        labels: args.label.iter().cloned().collect(),
        only: args.only.clone(),
        space: args.space.as_ref().map(|space| space.to_ascii_uppercase()),
    };
    let made = dataset_from_folder(&args.folder, &output, &options)?;
    if !global.quiet {
        print_text(&text(&made, &output))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is missing, or a data set that may be replaced.
fn may_be_written(path: &Path, force: bool) -> Result<(), Failure> {
    let Ok(bytes) = read_file(path, FileKind::Document) else {
        // Whatever else is there, `check_output` sees it.
        return Ok(());
    };
    let value: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
    let is_ours = value.is_some_and(|value| value["schema"] == "pbt-dataset/1");
    let what = match (is_ours, force) {
        (true, true) => return Ok(()),
        (true, false) => "is there already (--force replaces it, -o writes another file)",
        (false, _) => "is there already and is no data set of pbt (give another name with -o)",
    };
    Err(Failure::usage(format!("{}: --output: {what}", path.display())))
}

fn modality(word: &str) -> Modality {
    match word.to_ascii_uppercase().as_str() {
        "CT" => Modality::Ct,
        "MR" | "MRI" => Modality::Mr,
        "US" => Modality::Us,
        _ => Modality::Other(word.to_owned()),
    }
}

fn text(made: &FromFolder, output: &Path) -> String {
    let mut text =
        format!("{}: {}, {}\n", output.display(), made.dataset.name, made.dataset.modality);
    for (title, lines) in
        [("found", &made.found), ("assumed", &made.assumed), ("left out", &made.left_out)]
    {
        if !lines.is_empty() {
            let _ = writeln!(text, "{title}:");
        }
        for line in lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    let _ = writeln!(text, "next: pbt validate {}", argument(output));
    text
}
