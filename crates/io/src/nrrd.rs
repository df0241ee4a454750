//! Reading NRRD, `.nrrd` and `.nhdr` (<https://teem.sourceforge.net/nrrd/format.html>), with raw or
//! gzip encoding.

use crate::IoError;
use crate::raw::VoxelType;
use crate::source::Compression;
use crate::stored::{FileBytes, Frame, Start, Stored, StoredImage, Volumes};
use crate::text_header::{TextHeader, line_at, too_long};
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, GeometryError, PointLps};
use std::path::Path;

pub(crate) fn open(path: &Path, volumes: Volumes) -> Result<StoredImage, IoError> {
    let file = FileBytes::read_checked(path, |start| parse(path, start).map(drop))?;
    let (header, header_end) = parse(path, &file.bytes)?;
    let voxel_type = voxel_type(&header)?;
    let mut warnings = Vec::new();
    let (geometry, frames) = geometry(&header, &mut warnings)?;
    let frame = Frame::choose(path, "sizes", frames, volumes)?;
    let compression = match header.required("encoding")?.to_ascii_lowercase().as_str() {
        "raw" => Compression::None,
        "gzip" | "gz" => Compression::Gzip,
        other => {
            return Err(header
                .error("encoding", format!("`{other}` is not supported; raw or gzip is needed")));
        }
    };
    let big_endian = match header.get("endian").map(str::to_ascii_lowercase).as_deref() {
        Some("little") => false,
        Some("big") => true,
        None if voxel_type.size() == 1 => false,
        None => return Err(header.error("endian", "is missing")),
        Some(other) => {
            return Err(header.error("endian", format!("is `{other}`, not little or big")));
        }
    };
    let detached = match header.any(&["data file", "datafile"]) {
        Some((key, name)) => Some(header.data_file(key, name)?),
        None => None,
    };
    let start = start(
        &header,
        detached.as_ref().map_or((&file.bytes, header_end), |f| (&f.bytes, 0)),
        compression,
    )?;
    Stored { header: file, detached, start, compression, big_endian, frame }
        .described(geometry, voxel_type, None, warnings)
}

/// The fields up to the empty line (or the file's end, in a detached header), and the offset behind
/// it.
fn parse<'a>(path: &'a Path, bytes: &[u8]) -> Result<(TextHeader<'a>, usize), IoError> {
    let mut header = TextHeader::new(path);
    if !bytes.starts_with(b"NRRD000") {
        return Err(header.error("magic", "is not NRRD000x: this is no NRRD file"));
    }
    let (_, mut offset) =
        line_at(bytes, 0).ok_or_else(|| header.error("header", "ends after its first line"))?;
    while offset < bytes.len() {
        let (line, next) = line_at(bytes, offset)
            .filter(|_| !too_long(offset))
            // A detached header may end without a line break.
            .or_else(|| {
                (!too_long(bytes.len())).then(|| (bytes[offset..].trim_ascii(), bytes.len()))
            })
            .ok_or_else(|| header.error("header", "has no end: the file is cut or no NRRD"))?;
        offset = next;
        if line.is_empty() {
            break;
        }
        let text = std::str::from_utf8(line).map_err(|_| header.error("header", "is not text"))?;
        // Comments, and key/value pairs of applications (`key:=value`), do not concern the voxels.
        if text.starts_with('#') || text.contains(":=") {
            continue;
        }
        let (key, value) = text
            .split_once(':')
            .ok_or_else(|| header.error("header", format!("the line `{text}` is no field")))?;
        header.insert(key.trim(), value.trim())?;
    }
    Ok((header, offset))
}

/// Skips as the format says: lines of the file first, then bytes of the inflated stream.
fn start(
    header: &TextHeader,
    (bytes, mut file_offset): (&[u8], usize),
    compression: Compression,
) -> Result<Start, IoError> {
    if let Some((key, text)) = header.any(&["line skip", "lineskip"]) {
        let [lines]: [usize; 1] = header.numbers(key, text)?;
        for _ in 0..lines {
            file_offset = line_at(bytes, file_offset)
                .ok_or_else(|| header.error(key, format!("{lines} lines are not there")))?
                .1;
        }
    }
    match header.any(&["byte skip", "byteskip"]) {
        None => Ok(Start::At { file_offset, stream_offset: 0 }),
        Some((_, "-1")) if compression == Compression::None => Ok(Start::End),
        Some((key, text)) => {
            let [stream_offset] = header.numbers(key, text)?;
            Ok(Start::At { file_offset, stream_offset })
        }
    }
}

/// The grid, and how many volumes lie one after the other.
fn geometry(header: &TextHeader, warnings: &mut Vec<String>) -> Result<(Geometry, usize), IoError> {
    let sizes: Option<Vec<usize>> =
        header.required("sizes")?.split_whitespace().map(|word| word.parse().ok()).collect();
    let [dimension]: [usize; 1] = header.numbers("dimension", header.required("dimension")?)?;
    let Some(sizes) = sizes.filter(|sizes| sizes.len() == dimension) else {
        return Err(header.error("sizes", format!("are not {dimension} numbers")));
    };
    // Axes without a direction hold time points or components; one of them is as good as none.
    let axes: Vec<Option<Vector3<f64>>> = match header.get("space directions") {
        Some(text) => directions(header, text)?,
        None => spacings(header, dimension, warnings)?,
    };
    if axes.len() != dimension {
        return Err(header.error(
            "space directions",
            format!("are {}, not one for each of {dimension} axes", axes.len()),
        ));
    }
    let (mut shape, mut columns, mut frames) = (Vec::new(), Vec::new(), 1);
    for (&size, axis) in sizes.iter().zip(axes) {
        match axis {
            Some(column) => {
                shape.push(size);
                columns.push(column);
            }
            None if size == 1 => {}
            // Behind the three spatial axes it is the slowest one: whole volumes, one after the
            // other.
            None if shape.len() == 3 && frames == 1 && size > 0 => frames = size,
            None => {
                return Err(header.error(
                    "sizes",
                    format!("an axis that is not spatial has {size} entries; one volume is needed"),
                ));
            }
        }
    }
    let (Ok(shape), Ok(columns)) =
        (<[usize; 3]>::try_from(shape), <[Vector3<f64>; 3]>::try_from(columns))
    else {
        return Err(
            header.error("dimension", "there are not three spatial axes; one 3D volume is needed")
        );
    };
    let origin = match header.get("space origin") {
        Some(text) => {
            vector(text)
                .ok_or_else(|| header.error("space origin", format!("`{text}` is not `(x,y,z)`")))?
                .0
        }
        None => Vector3::zeros(),
    };
    if let Some(units) = header
        .get("space units")
        .filter(|text| text.split_whitespace().any(|unit| !matches!(unit, "\"mm\"" | "\"\"")))
    {
        return Err(header.error("space units", format!("are {units}; mm is needed")));
    }
    let to_lps = match header.get("space").map(str::to_ascii_lowercase).as_deref() {
        Some("left-posterior-superior" | "lps" | "left-posterior-superior-time" | "lpst") => {
            Vector3::new(1.0, 1.0, 1.0)
        }
        Some("right-anterior-superior" | "ras" | "right-anterior-superior-time" | "rast") => {
            Vector3::new(-1.0, -1.0, 1.0)
        }
        Some("left-anterior-superior" | "las" | "left-anterior-superior-time" | "last") => {
            Vector3::new(1.0, -1.0, 1.0)
        }
        None => {
            warnings.push("space: is missing, so orientation is unknown; left-posterior-superior is taken, as ITK does".into());
            Vector3::new(1.0, 1.0, 1.0)
        }
        Some(other) => {
            return Err(header
                .error("space", format!("`{other}` does not say where the patient's left is")));
        }
    };
    let to_lps = Matrix3::from_diagonal(&to_lps);
    let origin = to_lps * origin;
    let matrix = to_lps * Matrix3::from_columns(&columns);
    let geometry = Geometry::new(shape, matrix, PointLps::new(origin.x, origin.y, origin.z))
        .map_err(|error| match error {
            GeometryError::EmptyShape(_) | GeometryError::TooLarge(_) => {
                header.error("sizes", error.to_string())
            }
            _ => header.error("space directions", error.to_string()),
        })?;
    Ok((geometry, frames))
}

/// `(a,b,c) (d,e,f) none (g,h,i)`; with time in the space, as ITK writes it, `(a,b,c,0) (d,e,f,0)
/// (g,h,i,0) (0,0,0,t)`.
fn directions(header: &TextHeader, text: &str) -> Result<Vec<Option<Vector3<f64>>>, IoError> {
    let wrong = || {
        header.error("space directions", format!("`{text}` is not a list of `(x,y,z)` and `none`"))
    };
    let mut rest = text.trim();
    let mut axes = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("none") {
            axes.push(None);
            rest = after.trim_start();
        } else {
            let end = rest.find(')').ok_or_else(wrong)?;
            axes.push(match vector(&rest[..=end]).ok_or_else(wrong)? {
                (space, 0.0) => Some(space),
                (space, _) if space == Vector3::zeros() => None,
                _ => return Err(header.error("space directions", "mix space and time")),
            });
            rest = rest[end + 1..].trim_start();
        }
    }
    Ok(axes)
}

/// `(x,y,z)` or `(x,y,z,t)`.
fn vector(text: &str) -> Option<(Vector3<f64>, f64)> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let parts: Option<Vec<f64>> = inner.split(',').map(|part| part.trim().parse().ok()).collect();
    match parts?[..] {
        [x, y, z] => Some((Vector3::new(x, y, z), 0.0)),
        [x, y, z, t] => Some((Vector3::new(x, y, z), t)),
        _ => None,
    }
}

/// Axes of a file without directions: along the world's axes, each with its spacing.
fn spacings(
    header: &TextHeader,
    dimension: usize,
    warnings: &mut Vec<String>,
) -> Result<Vec<Option<Vector3<f64>>>, IoError> {
    if dimension != 3 {
        return Err(header.error("dimension", format!("is {dimension}; one 3D volume is needed")));
    }
    let text = header
        .get("spacings")
        .ok_or_else(|| header.error("space directions", "and spacings are missing"))?;
    let spacing_mm: [f64; 3] = header.numbers("spacings", text)?;
    if let Some(spacing) = spacing_mm.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(header.error("spacings", format!("a spacing is {spacing}, not above zero")));
    }
    warnings.push("space directions: are missing, so orientation is unknown; the axes are taken as those of the space".into());
    Ok((0..3).map(|a| Some(Vector3::ith(a, spacing_mm[a]))).collect())
}

fn voxel_type(header: &TextHeader) -> Result<VoxelType, IoError> {
    let text = header.required("type")?;
    Ok(match text.to_ascii_lowercase().as_str() {
        "uchar" | "unsigned char" | "uint8" | "uint8_t" => VoxelType::U8,
        "signed char" | "int8" | "int8_t" => VoxelType::I8,
        "ushort" | "unsigned short" | "unsigned short int" | "uint16" | "uint16_t" => {
            VoxelType::U16
        }
        "short" | "short int" | "signed short" | "signed short int" | "int16" | "int16_t" => {
            VoxelType::I16
        }
        "uint" | "unsigned int" | "uint32" | "uint32_t" => VoxelType::U32,
        "int" | "signed int" | "int32" | "int32_t" => VoxelType::I32,
        "ulonglong" | "unsigned long long" | "unsigned long long int" | "uint64" | "uint64_t" => {
            VoxelType::U64
        }
        "longlong"
        | "long long"
        | "long long int"
        | "signed long long"
        | "signed long long int"
        | "int64"
        | "int64_t" => VoxelType::I64,
        "float" => VoxelType::F32,
        "double" => VoxelType::F64,
        _ => {
            return Err(header.error(
                "type",
                format!("`{text}` is not supported; one real number a voxel is needed"),
            ));
        }
    })
}
