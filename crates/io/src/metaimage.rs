//! Reading MetaImage, `.mha` and `.mhd` (<https://itk.org/Wiki/MetaIO/Documentation>). Coordinates
//! are LPS millimetres, as in ITK, which wrote nearly all such files.

use crate::IoError;
use crate::raw::VoxelType;
use crate::source::Compression;
use crate::stored::{FileBytes, Frame, Start, Stored, StoredImage, Volumes};
use crate::text_header::{TextHeader, line_at, too_long};
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, PointLps};
use std::path::Path;

pub(crate) fn open(path: &Path, volumes: Volumes) -> Result<StoredImage, IoError> {
    let file = FileBytes::read_checked(path, |start| parse(path, start).map(drop))?;
    let (header, header_end) = parse(path, &file.bytes)?;
    let dimensions: [usize; 1] = header.numbers("NDims", header.required("NDims")?)?;
    if ![3, 4].contains(&dimensions[0]) {
        return Err(header.error("NDims", format!("is {}; one 3D volume is needed", dimensions[0])));
    }
    if let Some(channels) = header.get("ElementNumberOfChannels").filter(|&n| n != "1") {
        return Err(header.error(
            "ElementNumberOfChannels",
            format!("is {channels}; one value a voxel is needed"),
        ));
    }
    if header.get("BinaryData").is_some_and(|v| !is_true(v)) {
        return Err(header.error("BinaryData", "is False; voxels as text are not supported"));
    }
    let (geometry, frames) =
        if dimensions == [3] { geometry::<3>(&header)? } else { geometry::<4>(&header)? };
    let frame = Frame::choose(path, "DimSize", frames, volumes)?;
    let voxel_type = voxel_type(&header)?;
    let big_endian = match header.any(&["BinaryDataByteOrderMSB", "ElementByteOrderMSB"]) {
        Some((_, value)) => is_true(value),
        None => false,
    };
    let data = header.required("ElementDataFile")?;
    let local = data.eq_ignore_ascii_case("LOCAL");
    let compression = if header.get("CompressedData").is_some_and(is_true) {
        Compression::Zlib
    } else {
        Compression::None
    };
    let start = match (header.get("HeaderSize"), local) {
        (None, true) => Start::At { file_offset: header_end, stream_offset: 0 },
        (None, false) => Start::At { file_offset: 0, stream_offset: 0 },
        (Some("-1"), _) if compression == Compression::None => Start::End,
        (Some(text), _) => {
            let [file_offset] = header.numbers("HeaderSize", text)?;
            match file_offset {
                // As in MetaIO, 0 says nothing: before the voxels is at least this header.
                0 if local => Start::At { file_offset: header_end, stream_offset: 0 },
                1.. if local && file_offset < header_end => {
                    return Err(header.error("HeaderSize", format!("{text} ends in the header")));
                }
                _ => Start::At { file_offset, stream_offset: 0 },
            }
        }
    };
    let detached = if local { None } else { Some(header.data_file("ElementDataFile", data)?) };
    Stored { header: file, detached, start, compression, big_endian, frame }.described(
        geometry,
        voxel_type,
        None,
        Vec::new(),
    )
}

/// The fields up to `ElementDataFile`, which is the last one, and the offset behind it.
fn parse<'a>(path: &'a Path, bytes: &[u8]) -> Result<(TextHeader<'a>, usize), IoError> {
    let mut header = TextHeader::new(path);
    let mut offset = 0;
    while let Some((line, next)) = line_at(bytes, offset).filter(|_| !too_long(offset)) {
        let Some((key, value)) =
            std::str::from_utf8(line).ok().and_then(|line| line.split_once('='))
        else {
            return Err(header.error(
                "header",
                format!(
                    "line {} is not `Key = Value`: this is no MetaImage",
                    header_lines(bytes, offset)
                ),
            ));
        };
        let key = key.trim();
        header.insert(key, value.trim())?;
        offset = next;
        if key.eq_ignore_ascii_case("ElementDataFile") {
            return Ok((header, offset));
        }
    }
    // A detached header may end without a line break.
    if let Some((key, value)) = bytes
        .get(offset..)
        .and_then(|b| std::str::from_utf8(b).ok())
        .and_then(|line| line.split_once('='))
        && key.trim().eq_ignore_ascii_case("ElementDataFile")
    {
        header.insert(key.trim(), value.trim())?;
        return Ok((header, bytes.len()));
    }
    Err(header.error("ElementDataFile", "is missing: the file is cut or no MetaImage"))
}

/// Number, from 1, of the line at an offset.
fn header_lines(bytes: &[u8], offset: usize) -> usize {
    1 + bytes[..offset].iter().filter(|&&b| b == b'\n').count()
}

fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true") || value == "1"
}

/// The grid, and how many volumes lie one after the other. A fourth dimension is time; what the
/// file says of its place does not concern ours.
fn geometry<const N: usize>(header: &TextHeader) -> Result<(Geometry, usize), IoError> {
    let shape: [usize; N] = header.numbers("DimSize", header.required("DimSize")?)?;
    let Some((spacing_key, spacing)) = header.any(&["ElementSpacing", "ElementSize"]) else {
        return Err(header.error("ElementSpacing", "is missing"));
    };
    let spacing_mm: [f64; N] = header.numbers(spacing_key, spacing)?;
    if let Some(spacing) = spacing_mm.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(header.error(spacing_key, format!("a spacing is {spacing}, not above zero")));
    }
    // The file lists the direction of axis i, then of j, then of k: the columns of the matrix.
    let (direction_key, direction) =
        match header.any(&["TransformMatrix", "Orientation", "Rotation"]) {
            Some((key, text)) => {
                let entries = header.floats(key, text, N * N)?;
                let mixed = (3..N).any(|a| {
                    (0..3).any(|b| entries[a * N + b] != 0.0 || entries[b * N + a] != 0.0)
                });
                if mixed {
                    return Err(header.error(key, "mixes space and time"));
                }
                (key, Matrix3::from_fn(|row, column| entries[column * N + row]))
            }
            None => ("TransformMatrix", Matrix3::identity()),
        };
    let origin = match header.any(&["Offset", "Position", "Origin"]) {
        Some((key, text)) => header.floats(key, text, N)?,
        None => vec![0.0; N],
    };
    let matrix = direction
        * Matrix3::from_diagonal(&Vector3::from([spacing_mm[0], spacing_mm[1], spacing_mm[2]]));
    let origin = PointLps::new(origin[0], origin[1], origin[2]);
    let geometry = Geometry::new([shape[0], shape[1], shape[2]], matrix, origin).map_err(
        |error| match error {
            pbt_volume::GeometryError::EmptyShape(_) | pbt_volume::GeometryError::TooLarge(_) => {
                header.error("DimSize", error.to_string())
            }
            _ => header.error(direction_key, error.to_string()),
        },
    )?;
    match shape.get(3) {
        Some(0) => Err(header.error("DimSize", "has no time point")),
        frames => Ok((geometry, frames.copied().unwrap_or(1))),
    }
}

fn voxel_type(header: &TextHeader) -> Result<VoxelType, IoError> {
    let text = header.required("ElementType")?;
    // MET_LONG is the writing machine's `long`; MetaIO itself has read it as 32 bits since version
    // 1.2.
    Ok(match text.to_ascii_uppercase().as_str() {
        "MET_UCHAR" => VoxelType::U8,
        "MET_CHAR" => VoxelType::I8,
        "MET_USHORT" => VoxelType::U16,
        "MET_SHORT" => VoxelType::I16,
        "MET_UINT" | "MET_ULONG" => VoxelType::U32,
        "MET_INT" | "MET_LONG" => VoxelType::I32,
        "MET_ULONG_LONG" => VoxelType::U64,
        "MET_LONG_LONG" => VoxelType::I64,
        "MET_FLOAT" => VoxelType::F32,
        "MET_DOUBLE" => VoxelType::F64,
        _ => {
            return Err(header.error(
                "ElementType",
                format!("`{text}` is not supported; one real number a voxel is needed"),
            ));
        }
    })
}
