//! `pbt detect`

mod explain;

use crate::Failure;
use crate::args::{Detect, Global};
use crate::commands::train::hex;
use crate::device::Device;
use crate::output::say;
use pbt_detect::{Detection, Detections, LandmarkDetection, Model, Status};
use pbt_io::{
    DetectionKind, DetectionRecord, Image, InputRecord, IoError, Landmark, LandmarkState,
    ModelRecord, ReadOptions, ResultFile, RunRecord, case_name, read_image_with, write_label_map,
    write_markups, write_result,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// A model with the file that it came from.
pub struct LoadedModel {
    /// The model.
    pub model: Model,
    /// Its file.
    pub path: PathBuf,
    /// Hash of its file.
    pub sha256: String,
}

impl LoadedModel {
    /// Reads and checks a model file.
    ///
    /// # Errors
    /// Exit code 4 when the file cannot be read, 5 when it is not a model that this version can
    /// use.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            return Err(Failure::input(path, "file: is a folder (give a model file)"));
        }
        let bytes = std::fs::read(path).map_err(|e| IoError::unreadable(path, &e))?;
        let model = Model::from_bytes(&bytes).map_err(|e| Failure::from(e).about(path))?;
        Ok(Self { model, path: path.to_path_buf(), sha256: hex(&bytes) })
    }

    /// How results name it.
    pub(super) fn record(&self) -> ModelRecord {
        let name =
            self.path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
        ModelRecord {
            name,
            sha256: self.sha256.clone(),
            version: self.model.provenance.pbt_version.clone(),
        }
    }
}

/// Detects in one image file and returns its result, with nothing written. `options` says which of
/// several volumes is meant.
///
/// # Errors
/// Exit code 4 when the image cannot be read or used.
pub fn detect_file(
    model: &LoadedModel,
    image: &Path,
    options: &ReadOptions,
    case_id: &str,
    device: &Device,
) -> Result<ResultFile, Failure> {
    let started = Instant::now();
    let loaded = read_image_with(image, options)?;
    let mut result =
        detect_image(model, loaded, started.elapsed().as_secs_f64() * 1e3, image, case_id, device)?;
    record_choice(&mut result, options);
    Ok(result)
}

/// Notes in the result which volume of its input was chosen.
pub(super) fn record_choice(result: &mut ResultFile, options: &ReadOptions) {
    result
        .run
        .options
        .extend(options.series.iter().map(|series| ("series".to_owned(), series.clone().into())));
    result.run.options.extend(options.frame.map(|frame| ("frame".to_owned(), frame.into())));
}

/// Detects in an image that was read from `path` in `load_ms` milliseconds.
///
/// # Errors
/// Exit code 4 when the image cannot be used.
pub(super) fn detect_image(
    model: &LoadedModel,
    image: Image,
    load_ms: f64,
    path: &Path,
    case_id: &str,
    device: &Device,
) -> Result<ResultFile, Failure> {
    let started = Instant::now();
    let found = device.detect(&model.model, &image.volume).map_err(|e| e.about(path))?;
    let total_ms = load_ms + started.elapsed().as_secs_f64() * 1e3;
    Ok(result_of(model, &image, &found, [load_ms, total_ms], path, case_id, device))
}

/// The result of an image in which this was found.
fn result_of(
    model: &LoadedModel,
    image: &Image,
    found: &Detections,
    [load_ms, total_ms]: [f64; 2],
    path: &Path,
    case_id: &str,
    device: &Device,
) -> ResultFile {
    let mut timing_ms = vec![("load".to_owned(), load_ms)];
    timing_ms.extend(found.timing_ms.iter().cloned());
    timing_ms.push(("total".to_owned(), total_ms));
    ResultFile::new(
        case_id.to_owned(),
        InputRecord::new(image.sha256.clone(), image.volume.geometry()),
        model.record(),
        found.detections.iter().flat_map(records).collect(),
        image.warnings.clone(),
        RunRecord {
            pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
            device: device.record.clone(),
            input_path: path.display().to_string(),
            model_path: model.path.display().to_string(),
            options: BTreeMap::new(),
            timing_ms,
        },
    )
}

/// A box and its landmarks as they are written: an absent structure has no geometry.
fn records(detection: &Detection) -> Vec<DetectionRecord> {
    let landmark = |l: &LandmarkDetection| match written(l.status) {
        pbt_io::Status::Absent => {
            DetectionRecord::absent(l.name.clone(), DetectionKind::Landmark, l.score)
        }
        status => DetectionRecord::of_landmark(l.name.clone(), status, l.score, l.point),
    };
    std::iter::once(box_record(detection)).chain(detection.landmarks.iter().map(landmark)).collect()
}

fn written(status: Status) -> pbt_io::Status {
    match status {
        Status::Found => pbt_io::Status::Found,
        Status::Doubtful => pbt_io::Status::Doubtful,
        Status::Absent => pbt_io::Status::Absent,
    }
}

fn box_record(detection: &Detection) -> DetectionRecord {
    let Detection { name, status, score, pose, .. } = detection;
    match written(*status) {
        pbt_io::Status::Absent => DetectionRecord::absent(name.clone(), DetectionKind::Box, *score),
        status => DetectionRecord::of_box(name.clone(), status, *score, pose),
    }
}

/// Writes `FOLDER/<case>.json` and `FOLDER/<case>.mrk.json`, and `FOLDER/<case>.pbt.seg.nrrd` where
/// labels are wanted.
pub(super) fn write(folder: &Path, result: &ResultFile, labels: bool) -> Result<(), Failure> {
    make_folder(folder)?;
    let map = label_map(folder, &result.case_id);
    if labels {
        write_label_map(&map, &result.input, &result.detections)?;
    } else if map.is_file() {
        // One of an earlier run, perhaps of another model, would not belong to this result.
        std::fs::remove_file(&map).map_err(|e| IoError::output(&map, &e))?;
    }
    let boxes: Vec<_> =
        result.detections.iter().filter_map(|d| Some((d.name.clone(), d.pose()?))).collect();
    write_markups(
        &folder.join(format!("{}.mrk.json", result.case_id)),
        &boxes,
        &landmarks(result),
    )?;
    write_result(&folder.join(format!("{}.json", result.case_id)), result)?;
    Ok(())
}

/// How names of label maps end: Slicer knows segmentations by `.seg.nrrd`, and what a user made
/// with it is not called `.pbt`.
const LABEL_MAP: &str = ".pbt.seg.nrrd";

/// Where the label map of a case goes.
pub(super) fn label_map(folder: &Path, case_id: &str) -> PathBuf {
    folder.join(format!("{case_id}{LABEL_MAP}"))
}

/// The landmarks with a position.
fn landmarks(result: &ResultFile) -> Vec<Landmark> {
    let landmarks = result.detections.iter().filter(|d| d.kind == DetectionKind::Landmark);
    landmarks
        .filter_map(|d| {
            Some(Landmark { name: d.name.clone(), state: LandmarkState::At(d.position()?) })
        })
        .collect()
}

pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::other(format!(
            "{}: --output: the folder cannot be made: {e} (choose another)",
            folder.display()
        ))
    })
}

pub(super) fn run(args: &Detect, global: &Global) -> Result<ExitCode, Failure> {
    let device = Device::open(global)?;
    let model = LoadedModel::open(&args.model)?;
    let case_id = case_name(&args.input);
    let result = if args.explain {
        explained(&model, args, &case_id, &device)?
    } else {
        let result = detect_file(&model, &args.input, &args.volume.options(), &case_id, &device)?;
        write(&args.output, &result, args.labels)?;
        result
    };
    result
        .warnings
        .iter()
        .for_each(|w| say(global.quiet, format_args!("warning: {}: {w}", args.input.display())));
    for d in &result.detections {
        let place = d.position_lps_mm.map_or_else(
            || "-".to_owned(),
            |p| format!("({:.2}, {:.2}, {:.2}) LPS mm", p[0], p[1], p[2]),
        );
        say(
            global.quiet,
            format_args!(
                "{}: {}, score {:.3}, {place}",
                d.name,
                format!("{:?}", d.status).to_lowercase(),
                d.score
            ),
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Detects, and writes the result with its explanation.
fn explained(
    model: &LoadedModel,
    args: &Detect,
    case_id: &str,
    device: &Device,
) -> Result<ResultFile, Failure> {
    let (started, options) = (Instant::now(), args.volume.options());
    let image = read_image_with(&args.input, &options)?;
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let (found, explanations) =
        device.explain(&model.model, &image.volume).map_err(|e| e.about(&args.input))?;
    let total_ms = started.elapsed().as_secs_f64() * 1e3;
    let mut result =
        result_of(model, &image, &found, [load_ms, total_ms], &args.input, case_id, device);
    record_choice(&mut result, &options);
    result.run.options.insert("explain".to_owned(), true.into());
    write(&args.output, &result, args.labels)?;
    let about = explain::About {
        case_id,
        input: &result.input,
        record: &result.model,
        model: &model.model,
        image: &image.volume,
    };
    explain::write(&args.output, &about, &found.detections, &explanations)?;
    Ok(result)
}
