//! The tables of a batch: one row a detection, or one for a case that failed, as CSV and as Parquet
//! with the same columns.

use crate::Failure;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use pbt_io::{ResultFile, write_atomically};
use pbt_volume::Precision;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

/// The table as text.
pub(super) const CSV: &str = "detections.csv";

/// The table in columns.
pub(super) const PARQUET: &str = "detections.parquet";

/// A cell; none is empty in CSV and null in Parquet.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Text(Option<String>),
    Number(Option<f64>),
}

/// A row of the tables, a cell for each of the [`COLUMNS`].
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row(Vec<Cell>);

/// Name of each column, and whether it holds numbers. Positions are LPS mm, sizes full edges in mm.
const COLUMNS: [(&str, bool); 27] = [
    ("case_id", false),
    ("status", false),
    ("name", false),
    ("kind", false),
    ("score", true),
    ("x_lps_mm", true),
    ("y_lps_mm", true),
    ("z_lps_mm", true),
    ("qw", true),
    ("qx", true),
    ("qy", true),
    ("qz", true),
    ("size_1_mm", true),
    ("size_2_mm", true),
    ("size_3_mm", true),
    ("tolerance_mm", true),
    ("radius_90_mm", true),
    ("corner_radius_90_mm", true),
    ("n_calibration", true),
    ("visible", true),
    ("instance", true),
    ("volume_ml", true),
    ("predicted_dice", true),
    ("components", true),
    ("input_sha256", false),
    ("model_sha256", false),
    ("reason", false),
];

/// The rows of a case with a result, one for each detection.
pub(super) fn rows_of_result(result: &ResultFile) -> Vec<Row> {
    let text = |text: &str| Cell::Text(Some(text.to_owned()));
    let numbers = |values: Option<&[f64]>, count: usize| {
        (0..count).map(move |n| Cell::Number(values.map(|v| v[n]))).collect::<Vec<_>>()
    };
    let row = |d: &pbt_io::DetectionRecord| {
        let mut cells = vec![
            text(&result.case_id),
            text(d.status.as_str()),
            text(&d.name),
            text(d.kind.as_str()),
            Cell::Number(Some(d.score)),
        ];
        cells.extend(numbers(d.position_lps_mm.as_ref().map(|v| &v[..]), 3));
        cells.extend(numbers(d.orientation.as_ref().map(|o| &o.quaternion_wxyz[..]), 4));
        cells.extend(numbers(d.size_mm.as_ref().map(|v| &v[..]), 3));
        let precision = |of: &dyn Fn(&Precision) -> Option<f64>| {
            Cell::Number(d.precision.as_ref().and_then(of))
        };
        cells.extend([
            precision(&|p| Some(p.tolerance_mm)),
            precision(&|p| p.radius_90_mm),
            precision(&|p| p.corner_radius_90_mm),
            precision(&|p| Some(p.n_calibration as f64)),
            Cell::Number(d.visible),
            Cell::Number(d.instance.map(|n| n as f64)),
            Cell::Number(d.volume_ml),
            Cell::Number(d.predicted_dice),
            Cell::Number(d.components.map(|n| n as f64)),
        ]);
        cells.extend([text(&result.input.sha256), text(&result.model.sha256), Cell::Text(None)]);
        Row(cells)
    };
    result.detections.iter().map(row).collect()
}

/// The row of a case that failed.
pub(super) fn row_of_failure(case_id: &str, model_sha256: &str, reason: &str) -> Row {
    let cell = |(name, is_number): (&str, bool)| match (name, is_number) {
        ("case_id", _) => Cell::Text(Some(case_id.to_owned())),
        ("status", _) => Cell::Text(Some("failed".to_owned())),
        ("model_sha256", _) => Cell::Text(Some(model_sha256.to_owned())),
        ("reason", _) => Cell::Text(Some(reason.to_owned())),
        (_, true) => Cell::Number(None),
        (_, false) => Cell::Text(None),
    };
    Row(COLUMNS.into_iter().map(cell).collect())
}

/// Writes `detections.csv` and `detections.parquet` into a folder. Numbers in CSV have as many
/// digits as it takes to read the same `f64`.
///
/// # Errors
/// A file that cannot be written; the older one is then untouched.
pub(super) fn write_tables(folder: &Path, rows: &[Row]) -> Result<(), Failure> {
    write_atomically(&folder.join(CSV), |file| write_csv(file, rows))?;
    write_atomically(&folder.join(PARQUET), |file| {
        write_parquet(file, rows).map_err(|error| match error {
            ParquetError::External(inner) => {
                inner.downcast::<io::Error>().map_or_else(io::Error::other, |e| *e)
            }
            other => io::Error::other(other),
        })
    })?;
    Ok(())
}

fn write_csv(file: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    writer.write_record(COLUMNS.map(|(name, _)| name))?;
    for Row(cells) in rows {
        writer.write_record(cells.iter().map(|cell| match cell {
            Cell::Text(text) => text.as_deref().map_or_else(String::new, plain),
            Cell::Number(number) => number.map_or_else(String::new, |n| n.to_string()),
        }))?;
    }
    writer.flush()
}

/// A text that a spreadsheet shows as it is: what would begin a formula gets an apostrophe before it
/// (OWASP, CSV Injection). Parquet has the text itself.
fn plain(text: &str) -> String {
    let quote = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("{quote}{text}")
}

/// One row group: a hundred thousand rows are some 40 MB.
fn write_parquet(file: &mut (impl Write + Send), rows: &[Row]) -> Result<(), ParquetError> {
    let field = |(name, is_number): (&str, bool)| {
        let (physical, logical) = if is_number {
            (Physical::DOUBLE, None)
        } else {
            (Physical::BYTE_ARRAY, Some(LogicalType::String))
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = COLUMNS.into_iter().map(field).collect::<Result<Vec<_>, _>>()?;
    let schema = Arc::new(Type::group_type_builder("detections").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("pbt ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    let mut place = 0;
    while let Some(mut column) = group.next_column()? {
        let cells: Vec<&Cell> = rows.iter().map(|row| &row.0[place]).collect();
        let present =
            |cell: &&Cell| i16::from(!matches!(cell, Cell::Text(None) | Cell::Number(None)));
        let levels: Vec<i16> = cells.iter().map(present).collect();
        if COLUMNS[place].1 {
            let number =
                |cell: &&Cell| if let Cell::Number(number) = cell { *number } else { None };
            column.typed::<DoubleType>().write_batch(
                &cells.iter().filter_map(number).collect::<Vec<f64>>(),
                Some(&levels),
                None,
            )?;
        } else {
            let text = |cell: &&Cell| {
                if let Cell::Text(Some(text)) = cell {
                    Some(ByteArray::from(text.as_str()))
                } else {
                    None
                }
            };
            column.typed::<ByteArrayType>().write_batch(
                &cells.iter().filter_map(text).collect::<Vec<ByteArray>>(),
                Some(&levels),
                None,
            )?;
        }
        column.close()?;
        place += 1;
    }
    group.close()?;
    writer.close()?;
    Ok(())
}
