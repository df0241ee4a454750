//! `pbt report`

use crate::Failure;
use crate::args::{Global, Report};
use crate::commands::report_file::{EVALUATION_SCHEMA, REGION_EVALUATION_SCHEMA};
use crate::commands::report_image::ShownImage;
use crate::contents::Content;
use crate::output::{Written, check_output, say};
use pbt_io::{FileKind, ResultFile, read_file, read_result, write_atomically};
use pbt_report::{Batch, BatchCase, BatchDetection, Evaluation, RegionEvaluation, Viewer};
use pbt_volume::Status;
use rayon::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(args: &Report, global: &Global) -> Result<ExitCode, Failure> {
    check_output(&args.output, Written::Page)?;
    let wanted = Wanted { pictures: args.pictures, viewer: args.viewer.into() };
    let page = if args.input.is_dir() {
        batch_page(&args.input, wanted)?
    } else {
        let asked =
            [(wanted.pictures > 0, "--pictures"), (wanted.viewer != Viewer::None, "--viewer")];
        // What is not there at all is told below.
        for (_, option) in asked.iter().filter(|(asked, _)| *asked && args.input.exists()) {
            say(
                global.quiet,
                format_args!(
                    "warning: {option}: is left out, since a report of `pbt evaluate` does not say where images are (give a folder of results)"
                ),
            );
        }
        evaluation_page(&args.input, wanted.viewer)?
    };
    write_atomically(&args.output, |w| w.write_all(page.as_bytes()))?;
    say(global.quiet, format_args!("page: {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// What a page shows of images.
#[derive(Clone, Copy)]
struct Wanted {
    /// Slices of so many cases.
    pictures: usize,
    viewer: Viewer,
}

fn evaluation_page(path: &Path, viewer: Viewer) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let bytes = read_file(path, FileKind::Document)?;
    let head: Head = parsed(path, &bytes)?;
    match head.schema.as_str() {
        EVALUATION_SCHEMA => {
            parsed::<Evaluation>(path, &bytes)?.page(viewer).map_err(Failure::other)
        }
        REGION_EVALUATION_SCHEMA => {
            parsed::<RegionEvaluation>(path, &bytes)?.page(viewer).map_err(Failure::other)
        }
        other => Err(Failure::input(
            path,
            format!(
                "schema: {other:?} is no report of `pbt evaluate` (give one, or a folder of results)"
            ),
        )),
    }
}

fn parsed<T: DeserializeOwned>(path: &Path, bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(|e| {
        let what = match e.classify() {
            // What a parser says of an image or a table tells nobody anything.
            Category::Syntax | Category::Eof | Category::Io => {
                "file: is not JSON, or cut".to_owned()
            }
            Category::Data => format!("JSON: {e}"),
        };
        let advice = "give a report of `pbt evaluate`, or a folder of results";
        Failure::input(path, format!("{what} ({advice})"))
    })
}

/// What the page needs of `run.json`.
#[derive(Default, Deserialize)]
struct Run {
    failed: Vec<FailedCase>,
}

#[derive(Deserialize)]
struct FailedCase {
    case_id: String,
    reason: String,
}

fn batch_page(folder: &Path, wanted: Wanted) -> Result<String, Failure> {
    let run_file = folder.join("run.json");
    // `pbt detect` writes none.
    let run: Run = match run_file.is_file() {
        true => parsed(&run_file, &read_file(&run_file, FileKind::Document)?)?,
        false => Run::default(),
    };
    let mut results = results(folder)?;
    // A case that has failed since keeps its earlier result.
    results.retain(|(_, result)| run.failed.iter().all(|failed| failed.case_id != result.case_id));
    let Some((_, first)) = results.first() else {
        if run.failed.is_empty() {
            let what = "holds no result (give a folder that `pbt batch` or `pbt detect` wrote)";
            return Err(Failure::input(folder, what));
        }
        return page(folder, String::new(), String::new(), &run, &[], wanted);
    };
    let model = format!("{} ({})", first.model.name, first.model.sha256.get(..12).unwrap_or(""));
    page(folder, model, first.run.pbt_version.clone(), &run, &results, wanted)
}

/// The results in a folder, by the names of their files. There may be other JSON beside them: explanations,
/// reports, and what is no business of ours.
fn results(folder: &Path) -> Result<Vec<(PathBuf, ResultFile)>, Failure> {
    let listed = std::fs::read_dir(folder).map_err(|e| Failure::input(folder, e))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            name.ends_with(".json") && !name.ends_with(".mrk.json") && name != "run.json"
        })
        .filter(|path| Content::of_file(path) == Content::DetectionResult)
        .collect();
    files.sort();
    let read = |path: PathBuf| read_result(&path).map(|result| (path, result));
    Ok(files.into_par_iter().map(read).collect::<Result<_, _>>()?)
}

fn page(
    folder: &Path,
    model: String,
    version: String,
    run: &Run,
    results: &[(PathBuf, ResultFile)],
    wanted: Wanted,
) -> Result<String, Failure> {
    let name = folder.canonicalize().ok();
    let name = name.as_deref().unwrap_or(folder).file_name();
    let failed = run.failed.iter().map(|failed| BatchCase {
        name: failed.case_id.clone(),
        failure: Some(failed.reason.clone()),
        warnings: Vec::new(),
        detections: Vec::new(),
        in_pixels: false,
        picture: None,
        scene: None,
    });
    let mut batch = Batch {
        name: name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        model,
        version,
        cases: failed.chain(results.iter().map(|(_, result)| batch_case(result))).collect(),
    };
    batch.cases.sort_by(BatchCase::order);
    show(&mut batch.cases, results, wanted);
    batch.page(wanted.viewer).map_err(Failure::other)
}

/// Gives the first cases that did not fail their pictures and scenes.
fn show(cases: &mut [BatchCase], results: &[(PathBuf, ResultFile)], wanted: Wanted) {
    let by_name: HashMap<&str, &(PathBuf, ResultFile)> =
        results.iter().map(|result| (result.1.case_id.as_str(), result)).collect();
    let mut shown: Vec<_> = (cases.iter_mut().filter(|case| case.failure.is_none()))
        .filter_map(|case| Some((*by_name.get(case.name.as_str())?, case)))
        .collect();
    let scenes = if wanted.viewer == Viewer::None { 0 } else { Batch::MOST_SCENES };
    let scenes = scenes.min(shown.len());
    let mut bytes_left = Batch::scene_bytes(1);
    let most_bytes = Batch::scene_bytes(shown.len());
    // One after the other: making a large image smaller takes a few times its memory.
    for (n, ((path, result), case)) in shown[..scenes].iter_mut().enumerate() {
        let scene_bytes = (bytes_left > 0).then_some(most_bytes);
        if scene_bytes.is_some() || n < wanted.pictures {
            case_pictures(case, path, result, n < wanted.pictures, scene_bytes);
        }
        bytes_left = bytes_left.saturating_sub(case.scene.as_ref().map_or(0, |s| s.bytes()));
    }
    let pictures = wanted.pictures.clamp(scenes, shown.len());
    shown[scenes..pictures].par_iter_mut().for_each(|((path, result), case)| {
        case_pictures(case, path, result, true, None);
    });
}

/// A case's slices, and its scene in so many bytes; or why not.
fn case_pictures(
    case: &mut BatchCase,
    path: &Path,
    result: &ResultFile,
    picture: bool,
    scene_bytes: Option<usize>,
) {
    let mut draw = || -> Result<(), Failure> {
        let image = ShownImage::read(path, result)?;
        case.warnings.extend(image.note());
        let scene = image.scene(result);
        if picture {
            case.picture = Some(scene.slices(&case.name).map_err(Failure::other)?);
        }
        if let Some(most_bytes) = scene_bytes {
            case.scene = Some(scene.packed(&case.name, most_bytes).map_err(Failure::other)?);
        }
        Ok(())
    };
    if let Err(failure) = draw() {
        let what = if scene_bytes.is_some() { "not in the viewer" } else { "no picture" };
        case.warnings.push(format!("{what}: {failure}"));
    }
}

fn batch_case(result: &ResultFile) -> BatchCase {
    let detections = result.detections.iter().map(|d| BatchDetection {
        name: d.name.clone(),
        status: d.status,
        score: d.score,
        position_mm: d.position_lps_mm,
        precision: d.precision,
        volume_ml: d.volume_ml,
        predicted_dice: d.predicted_dice,
        has_doubtful_labels: d.status != Status::Doubtful
            && d.labels.iter().any(|label| label.status == Status::Doubtful),
    });
    BatchCase {
        name: result.case_id.clone(),
        failure: None,
        warnings: result.warnings.clone(),
        detections: detections.collect(),
        in_pixels: !result.unit().is_mm(),
        picture: None,
        scene: None,
    }
}
