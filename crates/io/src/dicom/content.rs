//! What a DICOM file is: planes, an image that cannot be used, or something to leave out.

use super::file::{Elements, Layout};
use super::pixel_data::PixelData;
use super::plane::{
    PixelFormat, Placement, Plane, SeriesKey, Tile, Time, field, missing, placement, rescale,
};
use super::walk::Values;
use super::{functional_groups, mosaic};
use crate::IoError;
use dicom_dictionary_std::tags;
use nalgebra::Vector3;
use std::path::Path;
use std::sync::Arc;

/// Above 64 MiB, compressed images of more than this ratio are refused: it bounds what a small file
/// can ask for.
const MAX_COMPRESSION: usize = 200;

/// More frames than any file has: long series of functional MR have some tens of thousands.
const MAX_FRAMES: usize = 1 << 16;

/// Why a file gives no plane: it is left out, and the reason counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeftOut {
    /// No pixel data: reports, plans, directories.
    NoPixels,
    /// An overview of low resolution.
    Localizer,
    /// A screenshot or scanned page.
    SecondaryCapture,
    /// Colour or palette.
    Colour,
}

impl LeftOut {
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::NoPixels => "without pixels",
            Self::Localizer => "localizer image(s)",
            Self::SecondaryCapture => "secondary capture(s)",
            Self::Colour => "colour image(s)",
        }
    }
}

/// What a file is.
pub(super) enum Content {
    Planes(Vec<Plane>),
    Left(LeftOut),
    /// An image of this series that cannot be placed or valued: an error when the series is wanted.
    Unusable {
        series_uid: String,
        error: IoError,
    },
}

/// Reads the elements of a file.
///
/// # Errors
/// [`IoError`] when the file is damaged.
pub(super) fn read(path: &Path, file: usize, bytes: &[u8]) -> Result<Content, IoError> {
    let layout = Layout::of(path, bytes, Values::Kept)?;
    let elements = Elements(&layout.elements);
    let Some(data) = layout.pixel_data.clone() else { return Ok(Content::Left(LeftOut::NoPixels)) };
    let class = elements.text(tags::SOP_CLASS_UID).unwrap_or_default();
    if elements.texts(tags::IMAGE_TYPE).iter().any(|part| part.contains("LOCALIZER")) {
        return Ok(Content::Left(LeftOut::Localizer));
    }
    // The storage classes of secondary capture, single- and multi-frame (PS3.4, annex B.5).
    if class.starts_with("1.2.840.10008.5.1.4.1.1.7") {
        return Ok(Content::Left(LeftOut::SecondaryCapture));
    }
    let photometric = elements.text(tags::PHOTOMETRIC_INTERPRETATION).unwrap_or_default();
    if elements.int(tags::SAMPLES_PER_PIXEL).unwrap_or(1) != 1 || photometric.starts_with("PALETTE")
    {
        return Ok(Content::Left(LeftOut::Colour));
    }
    match planes(path, file, &layout.uid, elements, data) {
        Ok(planes) => Ok(Content::Planes(planes)),
        Err(error) => Ok(Content::Unusable {
            series_uid: elements.text(tags::SERIES_INSTANCE_UID).unwrap_or_default(),
            error,
        }),
    }
}

fn pixel_format(
    path: &Path,
    transfer_syntax: &str,
    elements: Elements,
    data: PixelData,
) -> Result<PixelFormat, IoError> {
    let positive = |tag, name: &str| {
        let value = elements.int(tag).and_then(|n| u16::try_from(n).ok()).filter(|&n| n > 0);
        value.ok_or_else(|| missing(path, tag, name))
    };
    let frames = match elements.has(tags::NUMBER_OF_FRAMES) {
        true => elements
            .int(tags::NUMBER_OF_FRAMES)
            .and_then(|n| usize::try_from(n).ok())
            .filter(|&n| n > 0),
        false => Some(1),
    };
    let format = PixelFormat {
        transfer_syntax: transfer_syntax.to_owned(),
        rows: positive(tags::ROWS, "Rows")?.into(),
        columns: positive(tags::COLUMNS, "Columns")?.into(),
        frames: frames.ok_or_else(|| missing(path, tags::NUMBER_OF_FRAMES, "NumberOfFrames"))?,
        bits_allocated: positive(tags::BITS_ALLOCATED, "BitsAllocated")?,
        bits_stored: positive(tags::BITS_STORED, "BitsStored")?,
        high_bit: elements
            .int(tags::HIGH_BIT)
            .and_then(|n| u16::try_from(n).ok())
            .unwrap_or(u16::MAX),
        signed: elements.int(tags::PIXEL_REPRESENTATION).unwrap_or(0) == 1,
        data,
    };
    if ![8, 16, 32].contains(&format.bits_allocated) {
        let problem = format!("is {}; 8, 16 or 32 is needed", format.bits_allocated);
        return Err(field(path, tags::BITS_ALLOCATED, "BitsAllocated", problem));
    }
    let high_bit =
        if format.high_bit == u16::MAX { format.bits_stored - 1 } else { format.high_bit };
    if format.bits_stored > format.bits_allocated
        || high_bit >= format.bits_allocated
        || high_bit + 1 < format.bits_stored
    {
        let problem = format!(
            "is {} with {} bits allocated and {high_bit} as the high bit",
            format.bits_stored, format.bits_allocated
        );
        return Err(field(path, tags::BITS_STORED, "BitsStored", problem));
    }
    if format.frames > MAX_FRAMES {
        return Err(field(
            path,
            tags::NUMBER_OF_FRAMES,
            "NumberOfFrames",
            format!("is {}, more than {MAX_FRAMES}", format.frames),
        ));
    }
    // The smallest frame that can be: what the file cannot hold is refused before anything is made
    // of it.
    let native = format.rows * format.columns * usize::from(format.bits_allocated / 8);
    let (held, needed) = match &format.data {
        PixelData::Native(range) => (range.len(), native.saturating_mul(format.frames)),
        PixelData::Encapsulated { fragments, .. } => {
            let packed: usize = fragments.iter().map(std::ops::Range::len).sum();
            let most = packed.saturating_mul(MAX_COMPRESSION).saturating_add(64 << 20);
            (
                if fragments.len() < format.frames { 0 } else { most },
                native.saturating_mul(format.frames),
            )
        }
    };
    if held < needed {
        let problem = format!(
            "can hold {held} bytes where {needed} should be: the file is cut or its header wrong"
        );
        return Err(field(path, tags::PIXEL_DATA, "PixelData", problem));
    }
    Ok(PixelFormat { high_bit, ..format })
}

fn planes(
    path: &Path,
    file: usize,
    transfer_syntax: &str,
    elements: Elements,
    data: PixelData,
) -> Result<Vec<Plane>, IoError> {
    let format = Arc::new(pixel_format(path, transfer_syntax, elements, data)?);
    if elements.has(tags::MODALITY_LUT_SEQUENCE) {
        return Err(field(
            path,
            tags::MODALITY_LUT_SEQUENCE,
            "ModalityLUTSequence",
            "is a table of values, which is not supported",
        ));
    }
    let image_type = elements.texts(tags::IMAGE_TYPE);
    let text = |tag| elements.text(tag).unwrap_or_default();
    let modality = text(tags::MODALITY);
    // Magnitude and phase, or echoes, may share a series; computed tomography has neither.
    let mut kind = image_type.get(2..).unwrap_or_default().join("/");
    if modality == "MR" {
        kind += &format!(" echo {}", text(tags::ECHO_TIME));
    }
    let plane = Plane {
        file,
        frame: 0,
        tile: Tile { row: 0, column: 0, rows: format.rows, columns: format.columns },
        key: SeriesKey {
            number: elements.int(tags::SERIES_NUMBER).unwrap_or(0),
            uid: text(tags::SERIES_INSTANCE_UID),
            modality,
            kind,
        },
        placement: Placement {
            position: Vector3::zeros(),
            along_row: Vector3::x(),
            along_column: Vector3::y(),
            spacing_mm: [1.0; 2],
        },
        time: Time {
            temporal_position: elements.int(tags::TEMPORAL_POSITION_IDENTIFIER).unwrap_or(0),
            acquisition: elements.int(tags::ACQUISITION_NUMBER).unwrap_or(0),
            instance: elements.int(tags::INSTANCE_NUMBER).unwrap_or(0),
            frame: 0,
        },
        slope: 1.0,
        intercept: 0.0,
        instance_uid: text(tags::SOP_INSTANCE_UID),
        description: text(tags::SERIES_DESCRIPTION),
        inverted: text(tags::PHOTOMETRIC_INTERPRETATION) == "MONOCHROME1",
        format,
    };
    if elements.has(tags::PER_FRAME_FUNCTIONAL_GROUPS_SEQUENCE) {
        return functional_groups::planes(path, elements, &plane);
    }
    let (slope, intercept) = rescale(path, elements)?;
    let plane = Plane {
        placement: placement(path, elements, elements, elements)?,
        slope,
        intercept,
        ..plane
    };
    if image_type.iter().any(|part| part == "MOSAIC") {
        return mosaic::planes(path, elements, &plane);
    }
    match (plane.format.frames, elements.floats(tags::GRID_FRAME_OFFSET_VECTOR)) {
        (1, None) => Ok(vec![plane]),
        (frames, Some(offsets)) => dose_planes(path, elements, &plane, frames, &offsets),
        (frames, None) => {
            let problem = format!("is {frames}, and the file does not say where each frame lies");
            Err(field(path, tags::NUMBER_OF_FRAMES, "NumberOfFrames", problem))
        }
    }
}

/// The planes of a dose grid: offsets along the normal (PS3.3, C.8.8.3.2), values times
/// DoseGridScaling.
fn dose_planes(
    path: &Path,
    elements: Elements,
    plane: &Plane,
    frames: usize,
    offsets: &[f64],
) -> Result<Vec<Plane>, IoError> {
    const NAME: &str = "GridFrameOffsetVector";
    if offsets.len() != frames || offsets[0] != 0.0 {
        return Err(field(
            path,
            tags::GRID_FRAME_OFFSET_VECTOR,
            NAME,
            format!("is not {frames} offsets from 0 on"),
        ));
    }
    let slope = elements.float(tags::DOSE_GRID_SCALING).filter(|&s| s > 0.0);
    let slope = slope.ok_or_else(|| missing(path, tags::DOSE_GRID_SCALING, "DoseGridScaling"))?;
    let at = |frame: usize, offset: f64| {
        let position = plane.placement.position + plane.placement.normal() * offset;
        Plane {
            frame,
            slope,
            placement: Placement { position, ..plane.placement.clone() },
            ..plane.clone()
        }
    };
    Ok(offsets.iter().enumerate().map(|(frame, &offset)| at(frame, offset)).collect())
}
