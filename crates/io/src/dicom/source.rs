//! Where DICOM files come from: one file, a folder with all below it, or a zip archive, which is
//! never unpacked to the disk.

use super::file::{INFLATED_SLACK, MAX_RATIO, is_dicom};
use crate::IoError;
use crate::regular_file::{FileKind, read_file, read_start};
use pbt_volume::check_memory;
use rayon::prelude::*;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zip::ZipArchive;

/// More files than any examination has.
const MAX_FILES: usize = 200_000;

/// More entries than an archive of one examination has. The directory takes some hundred bytes of
/// memory for each.
const MAX_ENTRIES: usize = 100_000;

/// The mark of an entry in an archive's directory, and the least bytes that an entry takes there.
const DIRECTORY_ENTRY: ([u8; 4], usize) = (*b"PK\x01\x02", 46);

/// Folders in folders.
const MAX_DEPTH: usize = 32;

/// Clones share the bytes and the directory.
type Archive = ZipArchive<Cursor<Arc<[u8]>>>;

/// The DICOM files of a path.
pub(super) struct Source {
    kind: Kind,
    /// Files that are not DICOM, which are passed over.
    pub(super) others: usize,
}

enum Kind {
    Files(Vec<PathBuf>),
    Zip { path: PathBuf, archive: Archive, entries: Vec<(usize, PathBuf)>, length: u64 },
}

impl Source {
    /// Finds the files. Their order does not matter to what is made of them.
    pub(super) fn open(path: &Path) -> Result<Self, IoError> {
        if path.is_dir() {
            return Self::folder(path);
        }
        let bytes = read_file(path, FileKind::Image)?;
        if is_dicom(&bytes) {
            return Ok(Self { kind: Kind::Files(vec![path.to_path_buf()]), others: 0 });
        }
        if bytes.starts_with(b"PK") {
            return Self::zip(path, bytes);
        }
        Err(not_dicom(path))
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        match &self.kind {
            Kind::Files(files) => files.len(),
            Kind::Zip { entries, .. } => entries.len(),
        }
    }

    /// Bytes that are held as long as the source is.
    pub(super) fn held_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Files(_) => 0,
            Kind::Zip { length, .. } => *length,
        }
    }

    /// The name of a file, for messages.
    pub(super) fn path(&self, n: usize) -> &Path {
        match &self.kind {
            Kind::Files(files) => &files[n],
            Kind::Zip { entries, .. } => &entries[n].1,
        }
    }

    /// The content of a file.
    pub(super) fn bytes(&self, n: usize) -> Result<Vec<u8>, IoError> {
        match &self.kind {
            Kind::Files(files) => read_file(&files[n], FileKind::Image),
            Kind::Zip { path, archive, entries, .. } => {
                let (entry, name) = &entries[n];
                unpack(path, name, &mut archive.clone(), *entry, u64::MAX)
            }
        }
    }

    fn folder(path: &Path) -> Result<Self, IoError> {
        let mut found = Vec::new();
        list(path, &mut found, 0)?;
        // A folder may hold anything; the first bytes say what is DICOM.
        let looked: Vec<(PathBuf, bool)> = found
            .into_par_iter()
            .map(|file| {
                let yes = read_start(&file, 132).is_some_and(|start| is_dicom(&start));
                (file, yes)
            })
            .collect();
        let mut files = Vec::new();
        let mut others = 0;
        for (file, yes) in looked {
            let called_dicom = file
                .extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("dcm") || e.eq_ignore_ascii_case("ima"));
            match (yes, called_dicom) {
                (true, _) => files.push(file),
                // To pass over what may be a slice could make a volume with a slice too few.
                (false, true) => return Err(not_dicom(&file)),
                (false, false) => others += 1,
            }
        }
        if files.is_empty() {
            let advice = "give an image file or the folder of a DICOM series; folders of other images are for pbt batch";
            return Err(IoError::input(path, "folder", "holds no DICOM file", advice));
        }
        files.sort();
        Ok(Self { kind: Kind::Files(files), others })
    }

    fn zip(path: &Path, bytes: Vec<u8>) -> Result<Self, IoError> {
        let length = bytes.len() as u64;
        // Counted before the directory is parsed, since who parses it makes room for what it
        // states.
        let (mark, least) = DIRECTORY_ENTRY;
        if bytes.len() > MAX_ENTRIES * least
            && bytes.windows(mark.len()).filter(|window| *window == mark).count() > MAX_ENTRIES
        {
            return Err(IoError::input(
                path,
                "zip",
                format!("has more than {MAX_ENTRIES} entries"),
                "pack one series alone",
            ));
        }
        let mut archive = ZipArchive::new(Cursor::new(bytes.into()))
            .map_err(|error| bad_zip(path, &error.to_string()))?;
        let (mut entries, mut others, mut packed) = (Vec::new(), 0, 0u64);
        for n in 0..archive.len() {
            let (size, name) = {
                let entry =
                    archive.by_index_raw(n).map_err(|error| bad_zip(path, &error.to_string()))?;
                if entry.is_dir() {
                    continue;
                }
                // The archive is never unpacked to the disk; who packs such a name means harm all
                // the same.
                let name =
                    entry.name().map_err(|error| bad_zip(path, &error.to_string()))?.into_owned();
                if name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..")
                {
                    return Err(bad_zip(
                        path,
                        &format!("the entry {n} has a name that leads out of the archive"),
                    ));
                }
                if entry.encrypted() {
                    return Err(bad_zip(path, "it is encrypted"));
                }
                let (size, compressed) = (entry.size(), entry.compressed_size());
                if size > compressed.saturating_mul(MAX_RATIO).saturating_add(INFLATED_SLACK) {
                    return Err(bad_zip(
                        path,
                        &format!(
                            "the entry {n} would grow to {size} bytes, {MAX_RATIO} times what an image should"
                        ),
                    ));
                }
                packed = packed.saturating_add(compressed);
                (size, path.join(name))
            };
            // Entries that share their bytes make small archives grow without end.
            if packed > length {
                return Err(bad_zip(path, "its entries overlap"));
            }
            if size >= 132 && is_dicom(&unpack(path, &name, &mut archive, n, 132)?) {
                entries.push((n, name));
            } else {
                others += 1;
            }
        }
        if entries.is_empty() {
            return Err(IoError::input(
                path,
                "zip",
                "holds no DICOM file",
                "pack a DICOM series, or give an image file",
            ));
        }
        entries.sort_by(|a, b| a.1.cmp(&b.1));
        Ok(Self { kind: Kind::Zip { path: path.to_path_buf(), archive, entries, length }, others })
    }
}

/// All files below a folder. Hidden ones, and links to folders, which may go in circles, are left
/// out.
fn list(folder: &Path, files: &mut Vec<PathBuf>, depth: usize) -> Result<(), IoError> {
    if depth > MAX_DEPTH {
        return Err(IoError::input(
            folder,
            "folder",
            format!("is more than {MAX_DEPTH} folders deep"),
            "give the folder of the series",
        ));
    }
    for entry in std::fs::read_dir(folder).map_err(|error| IoError::unreadable(folder, &error))? {
        let entry = entry.map_err(|error| IoError::unreadable(folder, &error))?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        let kind = entry.file_type().map_err(|error| IoError::unreadable(&path, &error))?;
        if kind.is_dir() {
            list(&path, files, depth + 1)?;
        } else if path.is_file() {
            files.push(path);
        }
        if files.len() > MAX_FILES {
            return Err(IoError::input(
                folder,
                "folder",
                format!("holds more than {MAX_FILES} files"),
                "give the folder of the series",
            ));
        }
    }
    Ok(())
}

/// The first `limit` bytes of an entry, or all of it, which must then have the size that the
/// archive's directory states.
fn unpack(
    path: &Path,
    name: &Path,
    archive: &mut Archive,
    entry: usize,
    limit: u64,
) -> Result<Vec<u8>, IoError> {
    let damaged = |error: String| {
        IoError::input(name, "zip", format!("cannot be unpacked: {error}"), "pack the files again")
    };
    let mut entry = archive.by_index(entry).map_err(|error| bad_zip(path, &error.to_string()))?;
    let size = entry.size();
    check_memory(limit.min(size)).map_err(|error| IoError::memory(path, &error))?;
    let mut bytes = Vec::new();
    // The checksum is verified when the end is read.
    (&mut entry)
        .take(limit.min(size.saturating_add(1)))
        .read_to_end(&mut bytes)
        .map_err(|error| damaged(error.to_string()))?;
    if limit > size && bytes.len() as u64 != size {
        return Err(damaged(format!("its size is not the {size} bytes that the archive states")));
    }
    Ok(bytes)
}

fn bad_zip(path: &Path, problem: &str) -> IoError {
    IoError::input(
        path,
        "zip",
        format!("cannot be used: {problem}"),
        "pack the files again, without a password",
    )
}

fn not_dicom(path: &Path) -> IoError {
    IoError::input(
        path,
        "file",
        "is no DICOM file: DICM is missing at byte 128",
        "export it again as a DICOM file (PS3.10)",
    )
}
