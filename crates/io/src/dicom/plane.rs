//! Planes: what a DICOM file says about each of its slices. A classic file is one plane, an
//! Enhanced multi-frame file one a frame, a mosaic one a tile; from here on they are the same.

use super::file::Elements;
use super::pixel_data::PixelData;
use crate::IoError;
use dicom_core::Tag;
use dicom_dictionary_std::tags;
use nalgebra::Vector3;
use std::path::Path;
use std::sync::Arc;

/// How the pixels of a file are stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PixelFormat {
    pub(super) transfer_syntax: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) frames: usize,
    pub(super) bits_allocated: u16,
    pub(super) bits_stored: u16,
    pub(super) high_bit: u16,
    pub(super) signed: bool,
    pub(super) data: PixelData,
}

/// The part of a frame that a plane is, in pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tile {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// In which order planes at one place were taken.
#[derive(Debug, Clone, PartialEq, PartialOrd, Eq, Ord)]
pub(super) struct Time {
    pub(super) temporal_position: i64,
    pub(super) acquisition: i64,
    pub(super) instance: i64,
    pub(super) frame: usize,
}

/// Where a plane's pixels lie in the patient, LPS millimetres.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Placement {
    /// Centre of the first pixel.
    pub(super) position: Vector3<f64>,
    /// Unit vector from one column to the next.
    pub(super) along_row: Vector3<f64>,
    /// Unit vector from one row to the next.
    pub(super) along_column: Vector3<f64>,
    /// Distances between rows and between columns, in that order, as DICOM has it.
    pub(super) spacing_mm: [f64; 2],
}

impl Placement {
    /// Unit vector at a right angle to the plane.
    pub(super) fn normal(&self) -> Vector3<f64> {
        self.along_row.cross(&self.along_column)
    }
}

/// What planes of one volume have in common besides their placement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesKey {
    pub(super) number: i64,
    pub(super) uid: String,
    pub(super) modality: String,
    /// What kind of image of the series it is: magnitude or phase, which echo, which stack.
    pub(super) kind: String,
}

/// One slice.
#[derive(Debug, Clone)]
pub(super) struct Plane {
    pub(super) file: usize,
    pub(super) frame: usize,
    pub(super) tile: Tile,
    pub(super) format: Arc<PixelFormat>,
    pub(super) key: SeriesKey,
    pub(super) placement: Placement,
    pub(super) time: Time,
    /// Stored to real values.
    pub(super) slope: f64,
    pub(super) intercept: f64,
    /// Tells copies of one image.
    pub(super) instance_uid: String,
    /// For people who ask.
    pub(super) description: String,
    pub(super) inverted: bool,
}

/// An element with its name, for messages.
pub(super) fn missing(path: &Path, tag: Tag, name: &str) -> IoError {
    field(path, tag, name, "is missing or malformed")
}

pub(super) fn field(
    path: &Path,
    Tag(group, element): Tag,
    name: &str,
    problem: impl Into<String>,
) -> IoError {
    IoError::input(
        path,
        format!("({group:04X},{element:04X}) {name}"),
        problem,
        "export the series again, or convert it with dcm2niix",
    )
}

/// Slope and intercept; 1 and 0 where there are none.
pub(super) fn rescale(path: &Path, elements: Elements) -> Result<(f64, f64), IoError> {
    let number = |tag, name: &str, default: f64| match elements.has(tag) {
        false => Ok(default),
        true => elements.float(tag).ok_or_else(|| missing(path, tag, name)),
    };
    let slope = number(tags::RESCALE_SLOPE, "RescaleSlope", 1.0)?;
    if slope == 0.0 {
        return Err(field(
            path,
            tags::RESCALE_SLOPE,
            "RescaleSlope",
            "is 0, so all values are the same",
        ));
    }
    Ok((slope, number(tags::RESCALE_INTERCEPT, "RescaleIntercept", 0.0)?))
}

/// Placement from the elements that hold position, orientation and spacing: the data set itself, or
/// functional groups of a frame.
pub(super) fn placement(
    path: &Path,
    position: Elements,
    orientation: Elements,
    spacing: Elements,
) -> Result<Placement, IoError> {
    const ADVICE: &str =
        "is missing or malformed, so nobody knows where the image lies in the patient";
    let place = |tag, name: &str| field(path, tag, name, ADVICE);
    let point: [f64; 3] = position
        .vector(tags::IMAGE_POSITION_PATIENT)
        .ok_or_else(|| place(tags::IMAGE_POSITION_PATIENT, "ImagePositionPatient"))?;
    let directions: [f64; 6] = orientation
        .vector(tags::IMAGE_ORIENTATION_PATIENT)
        .ok_or_else(|| place(tags::IMAGE_ORIENTATION_PATIENT, "ImageOrientationPatient"))?;
    let spacing_mm: [f64; 2] = spacing
        .vector(tags::PIXEL_SPACING)
        .ok_or_else(|| place(tags::PIXEL_SPACING, "PixelSpacing"))?;
    if !spacing_mm.iter().all(|&s| s > 0.0) {
        return Err(field(
            path,
            tags::PIXEL_SPACING,
            "PixelSpacing",
            format!("is {spacing_mm:?}, not above zero"),
        ));
    }
    let [a, b, c, d, e, f] = directions;
    let (along_row, along_column) = (Vector3::new(a, b, c), Vector3::new(d, e, f));
    // Files state five or six digits.
    let unit = |v: &Vector3<f64>| (v.norm() - 1.0).abs() < 1e-2;
    if !unit(&along_row) || !unit(&along_column) || along_row.dot(&along_column).abs() > 1e-2 {
        let problem = format!("is {directions:?}, not two unit vectors at a right angle");
        return Err(field(
            path,
            tags::IMAGE_ORIENTATION_PATIENT,
            "ImageOrientationPatient",
            problem,
        ));
    }
    let (along_row, along_column) = (along_row.normalize(), along_column.normalize());
    Ok(Placement { position: Vector3::from(point), along_row, along_column, spacing_mm })
}
