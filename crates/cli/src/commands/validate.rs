//! `pbt validate`: reads what a training or detection would read and says all that is wrong, not
//! only the first thing.

mod about_box;
mod absence;
mod axes;
mod boxes;
mod by_model;
mod dataset;
mod examination;
mod finding;
mod folder;
mod grids;
mod images;
mod label_map;
mod landmarks;
mod masks;
mod near_duplicates;
mod odd_boxes;
mod pattern;
mod picture;
mod places;
mod reversed;
mod robust;
mod sides;
mod sizes;
mod splits;
mod spread;
mod suspect;
mod trainable;
mod usual_shape;

use crate::Failure;
use crate::args::{Global, Validate, VolumeChoice};
use crate::commands::batch::images_below;
use crate::output::{Written, argument, check_output, print, print_text, say};
use crate::session::LoadedModel;
use absence::StructureAbsence;
use by_model::AskedModel;
use examination::Examination;
use finding::{Finding, Severity};
use images::ImageFacts;
pub(super) use odd_boxes::warnings_of_boxes;
use pbt_io::{Dataset, FileKind, is_image_path, read_file, read_markups, read_result};
use pbt_volume::LengthUnit;
use serde::Serialize;
pub(super) use splits::lost_to_training;
use spread::StructureSpread;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// What `--json` prints, schema `pbt-validation/1`.
#[derive(Serialize)]
struct Validation {
    schema: &'static str,
    path: String,
    /// `data set`, `image`, `folder of images`, `markups`, `result` or `model`.
    kind: &'static str,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding>,
    /// The images that could be read.
    images: Vec<ImageFacts>,
    /// Of a data set: how the boxes of each structure spread.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    structures: Vec<StructureSpread>,
    /// Of a data set: boxes that are marked as missing in training cases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absences: Vec<StructureAbsence>,
}

pub(super) fn run(args: &Validate, global: &Global) -> Result<ExitCode, Failure> {
    let path = args.path();
    if let Some(picture) = &args.picture {
        check_output(picture, Written::Picture)?;
    }
    let examination = match &args.model {
        None => examine(path, &args.volume)?,
        Some(model) if is_data_set(path) => {
            args.volume.refuse(path, "data set")?;
            dataset::examine(path, Some(&AskedModel::open(model, global)?))?
        }
        Some(_) => {
            // What is missing is no question of usage.
            if !path.exists() {
                examine(path, &args.volume)?;
            }
            return Err(Failure::usage(format!(
                "{}: --model: is not a data set (give one, whose annotations the model is to be held against)",
                path.display()
            )));
        }
    };
    if let Some(picture) = &args.picture {
        let name = path.display().to_string();
        if !picture::draw(picture, &name, &examination.suspects)? {
            say(global.quiet, "no picture is drawn, since there is no box to compare with others");
        }
    }
    let Examination { kind, findings, images, spreads, absences, has_training, .. } = examination;
    let errors = findings.iter().filter(|f| f.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    let validation = Validation {
        schema: "pbt-validation/1",
        path: path.display().to_string(),
        kind,
        errors,
        warnings,
        findings,
        images,
        structures: spreads,
        absences,
    };
    if args.json {
        let json = serde_json::to_string_pretty(&validation).map_err(Failure::other)? + "\n";
        print(json.as_bytes())?;
    } else {
        print_text(&validation.text())?;
        // Who has a model has trained.
        if errors == 0 && has_training && args.model.is_none() && !global.quiet {
            print_text(&format!("next: pbt train -i {} -o MODEL.pbt\n", argument(path)))?;
        }
    }
    if errors == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let what = format!(
        "{kind}: {errors} error(s), {warnings} warning(s) (each with what to do on stdout)"
    );
    Err(if kind == "model" { Failure::model(path, what) } else { Failure::input(path, what) })
}

/// What a path holds decides what is looked at.
fn examine(path: &Path, volume: &VolumeChoice) -> Result<Examination, Failure> {
    let options = &volume.options();
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let of_result = |kind, result: Result<(), String>| Examination {
        kind,
        findings: result.err().map(Finding::error).into_iter().collect(),
        ..Examination::default()
    };
    if is_data_set(path) {
        volume.refuse(path, "data set")?;
        return dataset::examine(path, None);
    }
    if path.is_dir() {
        let below = images_below(path)?;
        if let [only] = &below[..]
            && only.path == path
        {
            return Ok(folder::examine_file(path, options));
        }
        volume.refuse(path, "folder of images")?;
        return Ok(folder::examine_folder(path, &below));
    }
    for (ending, kind) in [(".mrk.json", "markups file"), (".json", "result"), (".pbt", "model")] {
        if name.ends_with(ending) {
            volume.refuse(path, kind)?;
        }
    }
    Ok(if name.ends_with(".mrk.json") {
        of_result("markups", read_markups(path).map(drop).map_err(|e| e.to_string()))
    } else if name.ends_with(".json") {
        of_result("result", read_result(path).map(drop).map_err(|e| e.to_string()))
    } else if name.ends_with(".pbt") {
        of_result("model", LoadedModel::open(path).map(drop).map_err(|e| e.to_string()))
    } else if is_image_path(path) || path.is_file() {
        folder::examine_file(path, options)
    } else {
        // It is missing, or a pipe or device.
        let error = read_file(path, FileKind::Document).err();
        return Err(error.map_or_else(|| Failure::input(path, "file: changed"), Failure::from));
    })
}

/// Whether a path is that of a data set: a folder with one, or a JSON file that is neither markups
/// nor a result.
fn is_data_set(path: &Path) -> bool {
    if path.is_dir() {
        return Dataset::is_in(path);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let is_result = || {
        let bytes = read_file(path, FileKind::Document).ok()?;
        let value: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
        Some(value["schema"].as_str()?.starts_with("pbt-result/"))
    };
    name.ends_with(".json") && !name.ends_with(".mrk.json") && !is_result().unwrap_or(false)
}

impl Validation {
    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        for finding in &self.findings {
            let severity = if finding.severity == Severity::Error { "error" } else { "warning" };
            let _ = writeln!(text, "{severity}: {}", finding.message);
        }
        if let [image] = &self.images[..] {
            let _ = writeln!(text, "{image}");
        }
        let unit = LengthUnit::of_all(self.images.iter().map(|image| image.unit));
        text.push_str(&spread::text(&self.structures, unit));
        for absence in &self.absences {
            let _ = writeln!(text, "{absence}");
        }
        let images = if self.images.len() > 1 {
            format!(" with {} readable images", self.images.len())
        } else {
            String::new()
        };
        // With errors, the one line on stderr is the verdict.
        let verdict = match (self.errors, self.warnings) {
            (0, 0) => "nothing is wrong".to_owned(),
            (0, warnings) => format!("0 error(s), {warnings} warning(s)"),
            _ => return text,
        };
        let _ = writeln!(text, "{}: {}{images}: {verdict}", self.path, self.kind);
        text
    }
}
