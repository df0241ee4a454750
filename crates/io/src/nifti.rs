//! NIfTI files: `.nii`, `.nii.gz`, and pairs of `.hdr` and `.img`, each with or without gzip.

use crate::IoError;
use crate::nifti_header::{Header, MAX_HEADER_BYTES};
use crate::source::{Compression, start_of};
use crate::stored::{FileBytes, Frame, Start, Stored, StoredImage, Volumes};
use std::path::{Path, PathBuf};

/// Reads the header of a NIfTI file, or of a pair from the name of either part; of several time points the wanted
/// one. The hash of a pair is that of header and voxels, one after the other.
pub(crate) fn open(path: &Path, volumes: Volumes) -> Result<StoredImage, IoError> {
    let header_path = match split_extension(path) {
        Some((stem, "img" | "img.gz")) => existing(path, stem, ["hdr", "hdr.gz"])?,
        _ => path.to_path_buf(),
    };
    let parse = |bytes: &[u8]| {
        let start = start_of(bytes, Compression::of_file(bytes), MAX_HEADER_BYTES);
        Header::parse(&header_path, &start.map_err(|error| not_inflated(&header_path, &error))?)
    };
    let file = FileBytes::read_checked(&header_path, |start| parse(start).map(drop))?;
    let header = parse(&file.bytes)?;
    let voxel_type = header.voxel_type(&header_path)?;
    let mut warnings = Vec::new();
    let frame = Frame::choose(&header_path, "dim[4]", header.time_points(), volumes)?;
    let geometry = header.geometry(&header_path, &mut warnings)?;
    let stream_offset = header.voxel_offset(&header_path)?;
    let scaling = header.scaling(&header_path)?;
    let detached = if header.single_file {
        None
    } else {
        let Some((stem, "hdr" | "hdr.gz")) = split_extension(&header_path) else {
            let problem =
                "says that the voxels are in an .img file, which only a .hdr file can have";
            return Err(IoError::input(
                &header_path,
                "magic",
                problem,
                "rename the file to .hdr, or repair the header",
            ));
        };
        Some(FileBytes::read(&existing(&header_path, stem, ["img", "img.gz"])?)?)
    };
    let compression = Compression::of_file(&detached.as_ref().unwrap_or(&file).bytes);
    let start = Start::At { file_offset: 0, stream_offset };
    Stored { header: file, detached, start, compression, big_endian: header.big_endian, frame }
        .described(geometry, voxel_type, scaling, warnings)
}

fn not_inflated(path: &Path, error: &std::io::Error) -> IoError {
    IoError::input(path, "file", format!("cannot be inflated: {error}"), "copy or export it again")
}

/// Stem and extension of a part of a pair, in lower case; `None` for any other name.
fn split_extension(path: &Path) -> Option<(&str, &'static str)> {
    let name = path.file_name()?.to_str()?;
    ["hdr.gz", "img.gz", "hdr", "img"].into_iter().find_map(|extension| {
        let at = name.len().checked_sub(extension.len() + 1)?;
        let (stem, end) = (name.get(..at)?, name.get(at..)?);
        (end.starts_with('.') && end[1..].eq_ignore_ascii_case(extension))
            .then_some((stem, extension))
    })
}

/// The first of the named partners that exists beside `path`.
fn existing(path: &Path, stem: &str, extensions: [&str; 2]) -> Result<PathBuf, IoError> {
    // A pair named in capitals has its partner in capitals.
    let candidates = extensions
        .iter()
        .flat_map(|e| [format!("{stem}.{e}"), format!("{stem}.{}", e.to_uppercase())]);
    candidates.map(|name| path.with_file_name(name)).find(|p| p.is_file()).ok_or_else(|| {
        let problem = format!("{stem}.{} is missing beside it", extensions[0]);
        IoError::input(path, "file", problem, "keep the two files of the pair together")
    })
}
