//! The series of a DICOM file, folder or zip archive.

use crate::Failure;
use crate::output::{print, print_text};
use crate::table::{row, table};
use pbt_io::{IoError, SeriesInfo, list_series};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// What `--json` prints, schema `pbt-series/1`.
#[derive(Serialize)]
struct SeriesFile {
    schema: &'static str,
    path: String,
    series: Vec<SeriesEntry>,
}

#[derive(Serialize)]
struct SeriesEntry {
    series: String,
    modality: String,
    images: usize,
    columns: usize,
    rows: usize,
    description: String,
}

impl From<SeriesInfo> for SeriesEntry {
    fn from(info: SeriesInfo) -> Self {
        let SeriesInfo { label, modality, description, images, matrix: [columns, rows] } = info;
        Self { series: label, modality, images, columns, rows, description }
    }
}

/// A folder of anything else is not for this command.
fn refusal(path: &Path, error: IoError) -> Failure {
    if !path.is_dir() || error.field() != "folder" {
        return error.into();
    }
    let what = "folder: holds no DICOM file, and `pbt info` is for DICOM series and models (`pbt validate` \
                looks at data sets and other images)";
    Failure::input(path, what)
}

pub(super) fn run(path: &Path, json: bool) -> Result<ExitCode, Failure> {
    let series: Vec<SeriesEntry> = list_series(path)
        .map_err(|e| refusal(path, e))?
        .into_iter()
        .map(SeriesEntry::from)
        .collect();
    if json {
        let file = SeriesFile { schema: "pbt-series/1", path: path.display().to_string(), series };
        print((serde_json::to_string_pretty(&file).map_err(Failure::other)? + "\n").as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![row(["series", "modality", "description", "images", "matrix"])];
    for s in &series {
        let matrix = format!("{} x {}", s.columns, s.rows);
        // Free text from a file may hold anything, even what would move the cursor.
        let description: String = s.description.chars().filter(|c| !c.is_control()).collect();
        rows.push(row([
            s.series.as_str(),
            &s.modality,
            &description,
            &s.images.to_string(),
            &matrix,
        ]));
    }
    print_text(&table(3, &rows))?;
    Ok(ExitCode::SUCCESS)
}
