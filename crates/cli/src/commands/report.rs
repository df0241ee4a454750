//! `pbt report`

use crate::Failure;
use crate::args::{Global, Report};
use crate::commands::report_file::{EVALUATION_SCHEMA, REGION_EVALUATION_SCHEMA};
use crate::output::say;
use pbt_io::{
    FileKind, ReadOptions, ResultFile, read_file, read_image_with, read_result, write_atomically,
};
use pbt_report::{
    Batch, BatchCase, BatchDetection, Case, DrawnBox, DrawnPoint, Evaluation, Mark,
    RegionEvaluation, three_slices,
};
use pbt_volume::IntensityPolicy;
use rayon::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(args: &Report, global: &Global) -> Result<ExitCode, Failure> {
    let page = if args.input.is_dir() {
        batch_page(&args.input, args.pictures)?
    } else {
        evaluation_page(&args.input)?
    };
    write_atomically(&args.output, |w| w.write_all(page.as_bytes()))?;
    say(global.quiet, format_args!("page: {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

fn evaluation_page(path: &Path) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    let bytes = read_file(path, FileKind::Document)?;
    let head: Head = parsed(path, &bytes)?;
    match head.schema.as_str() {
        EVALUATION_SCHEMA => parsed::<Evaluation>(path, &bytes)?.page().map_err(Failure::other),
        REGION_EVALUATION_SCHEMA => {
            parsed::<RegionEvaluation>(path, &bytes)?.page().map_err(Failure::other)
        }
        other => Err(Failure::input(
            path,
            format!(
                "schema: {other:?} is no report of `pbt evaluate` (give one, or a folder of `pbt batch`)"
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
        let advice = "give a report of `pbt evaluate`, or a folder of `pbt batch`";
        Failure::input(path, format!("{what} ({advice})"))
    })
}

/// What the page needs of `run.json`.
#[derive(Deserialize)]
struct Run {
    failed: Vec<FailedCase>,
}

#[derive(Deserialize)]
struct FailedCase {
    case_id: String,
    reason: String,
}

fn batch_page(folder: &Path, pictures: usize) -> Result<String, Failure> {
    let run_file = folder.join("run.json");
    if !run_file.is_file() {
        let what = "holds no run.json (give a folder that `pbt batch` wrote)";
        return Err(Failure::input(folder, what));
    }
    let run: Run = parsed(&run_file, &read_file(&run_file, FileKind::Document)?)?;
    let results = results(folder)?;
    let Some((_, first)) = results.first() else {
        if run.failed.is_empty() {
            return Err(Failure::input(folder, "holds no result"));
        }
        return page(folder, String::new(), String::new(), &run, &[], pictures);
    };
    let model = format!("{} ({})", first.model.name, first.model.sha256.get(..12).unwrap_or(""));
    page(folder, model, first.run.pbt_version.clone(), &run, &results, pictures)
}

/// The results in a folder, by the names of their files.
fn results(folder: &Path) -> Result<Vec<(PathBuf, ResultFile)>, Failure> {
    let listed = std::fs::read_dir(folder).map_err(|e| Failure::input(folder, e))?;
    let mut files: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            name.ends_with(".json") && !name.ends_with(".mrk.json") && name != "run.json"
        })
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
    pictures: usize,
) -> Result<String, Failure> {
    let name = folder.canonicalize().ok();
    let name = name.as_deref().unwrap_or(folder).file_name();
    let failed = run.failed.iter().map(|failed| BatchCase {
        name: failed.case_id.clone(),
        failure: Some(failed.reason.clone()),
        warnings: Vec::new(),
        detections: Vec::new(),
        picture: None,
    });
    let mut batch = Batch {
        name: name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        model,
        version,
        cases: failed.chain(results.iter().map(|(_, result)| batch_case(result))).collect(),
    };
    batch.cases.sort_by(BatchCase::order);
    let first = &mut batch.cases[..];
    let drawn = first.iter_mut().filter(|case| case.failure.is_none()).take(pictures);
    drawn.par_bridge().for_each(|case| {
        if let Some((_, result)) = results.iter().find(|(_, r)| r.case_id == case.name) {
            match picture(result) {
                Ok(svg) => case.picture = Some(svg),
                Err(failure) => case.warnings.push(format!("no picture: {failure}")),
            }
        }
    });
    batch.page().map_err(Failure::other)
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
    });
    BatchCase {
        name: result.case_id.clone(),
        failure: None,
        warnings: result.warnings.clone(),
        detections: detections.collect(),
        picture: None,
    }
}

/// Three slices of the image that a result is about, through its least sure structure.
fn picture(result: &ResultFile) -> Result<String, Failure> {
    let path = Path::new(&result.run.input_path);
    if result.run.input_path.is_empty() {
        return Err(Failure::other("the result does not say where its image is"));
    }
    let option = |key: &str| result.run.options.get(key);
    let options = ReadOptions {
        series: option("series").and_then(|v| v.as_str()).map(str::to_owned),
        frame: option("frame").and_then(serde_json::Value::as_u64).map(|n| n as usize),
    };
    let image = read_image_with(path, &options)?;
    if image.sha256 != result.input.sha256 {
        return Err(Failure::input(path, "is not the image that the result is about"));
    }
    let policy = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.5 };
    let window = policy.range(&image.volume).map_or((0.0, 1.0), |range| (range.low, range.high));
    let seen = || result.detections.iter().filter(|d| d.position().is_some());
    let boxes: Vec<DrawnBox> = seen()
        .filter_map(|d| Some(DrawnBox { name: d.name.clone(), pose: d.pose()?, mark: Mark::Found }))
        .collect();
    let points: Vec<DrawnPoint> = seen()
        .filter(|d| d.pose().is_none())
        .filter_map(|d| {
            Some(DrawnPoint { name: d.name.clone(), point: d.position()?, mark: Mark::Found })
        })
        .collect();
    let least = seen().min_by(|a, b| a.score.total_cmp(&b.score)).and_then(|d| d.position());
    let through = least.unwrap_or_else(|| image.volume.geometry().center());
    let case = Case {
        image: &image.volume,
        window,
        through,
        boxes: &boxes,
        points: &points,
        title: &result.case_id,
        note: "",
    };
    three_slices(&case).map_err(Failure::other)
}
