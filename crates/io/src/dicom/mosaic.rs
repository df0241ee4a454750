//! Siemens mosaics: one image tiled with the slices of a volume. How many there are and where they
//! point is only in Siemens' private header "CSA", whose layout nibabel's documentation describes
//! (<https://nipy.org/nibabel/dicom/siemens_csa.html>).

use super::file::Elements;
use super::plane::{Placement, Plane, Tile, field, missing};
use crate::IoError;
use dicom_core::Tag;
use dicom_dictionary_std::tags;
use nalgebra::Vector3;
use std::path::Path;

const CSA_IMAGE_HEADER: Tag = Tag(0x0029, 0x1010);

/// The tiles of a mosaic, first slice first. The position of `whole` is that of the mosaic as if it
/// were one large slice about the same centre (<https://nipy.org/nibabel/dicom/dicom_mosaic.html>).
pub(super) fn planes(
    path: &Path,
    elements: Elements,
    whole: &Plane,
) -> Result<Vec<Plane>, IoError> {
    let refused = |problem: &str| {
        field(
            path,
            CSA_IMAGE_HEADER,
            "CSA image header",
            format!("{problem}, so the mosaic cannot be split"),
        )
    };
    let csa = elements.bytes(CSA_IMAGE_HEADER).ok_or_else(|| refused("is missing"))?;
    let count = numbers(&csa, "NumberOfImagesInMosaic")
        .and_then(|n| n.first().copied())
        .filter(|n| (1.0..=4096.0).contains(n));
    let count = count.ok_or_else(|| refused("does not say how many slices there are"))? as usize;
    let normal: Option<[f64; 3]> =
        numbers(&csa, "SliceNormalVector").and_then(|v| v.try_into().ok());
    let stated =
        Vector3::from(normal.ok_or_else(|| refused("does not say where the slices point"))?);
    // The normal is that of the plane up to its sign, which is what counts.
    let cosine = stated.dot(&whole.placement.normal());
    if (cosine.abs() - 1.0).abs() > 1e-3 {
        return Err(refused("states slices that are not parallel to the image"));
    }
    let step_mm = elements.float(tags::SPACING_BETWEEN_SLICES).filter(|&s| s > 0.0);
    let step_mm = step_mm
        .ok_or_else(|| missing(path, tags::SPACING_BETWEEN_SLICES, "SpacingBetweenSlices"))?;
    let across = (1..).find(|n| n * n >= count).unwrap_or(1);
    let (rows, columns) = (whole.format.rows / across, whole.format.columns / across);
    if rows * across != whole.format.rows || columns * across != whole.format.columns {
        return Err(refused("states a number of slices that does not divide the image"));
    }
    let [row_mm, column_mm] = whole.placement.spacing_mm;
    let first = whole.placement.position
        + whole.placement.along_row * (column_mm * (whole.format.columns - columns) as f64 / 2.0)
        + whole.placement.along_column * (row_mm * (whole.format.rows - rows) as f64 / 2.0);
    let step = whole.placement.normal() * (cosine.signum() * step_mm);
    let tile = |n: usize| Plane {
        tile: Tile { row: n / across * rows, column: n % across * columns, rows, columns },
        placement: Placement { position: first + step * n as f64, ..whole.placement.clone() },
        ..whole.clone()
    };
    Ok((0..count).map(tile).collect())
}

/// The values of an entry of a CSA header of version 2.
fn numbers(csa: &[u8], wanted: &str) -> Option<Vec<f64>> {
    let int = |at: usize| {
        csa.get(at..)?
            .first_chunk()
            .map(|b| i32::from_le_bytes(*b))
            .and_then(|n| usize::try_from(n).ok())
    };
    if !csa.starts_with(b"SV10") {
        return None;
    }
    let mut at = 16;
    for _ in 0..int(8)?.min(1024) {
        let name = csa.get(at..at + 64)?;
        let name = &name[..name.iter().position(|&b| b == 0)?];
        let values = int(at + 64)?;
        let items = int(at + 76)?;
        at += 84;
        let mut found = Vec::new();
        for n in 0..items {
            let length = int(at + 4)?;
            at += 16;
            let text = csa.get(at..at.checked_add(length)?)?;
            if name == wanted.as_bytes() && n < values && length > 0 {
                let text = text.split(|&b| b == 0).next().unwrap_or_default();
                found.push(std::str::from_utf8(text).ok()?.trim().parse().ok()?);
            }
            at = at.checked_add(length.checked_next_multiple_of(4)?)?;
        }
        if name == wanted.as_bytes() {
            return (!found.is_empty() && found.iter().all(|v: &f64| v.is_finite()))
                .then_some(found);
        }
    }
    None
}
