//! The one door through which files are read: regular files only, and of a size that their kind can
//! have. A pipe waits for whoever writes to it, and a device may have no end.

use crate::IoError;
use pbt_volume::{NotEnoughMemory, check_memory};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::Path;

/// What a file is read as, which says how large it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// An image, or a part of one. What its voxels take is compared with the memory later.
    Image,
    /// A model or a checkpoint.
    Model,
    /// JSON, or a table or list of points as text. In memory a JSON value takes up to 16 times the
    /// bytes that it has in its file.
    Document,
    /// Settings of a training.
    Settings,
}

impl FileKind {
    /// More bytes than any honest file of the kind has.
    pub fn most_bytes(self) -> u64 {
        match self {
            Self::Image => 1 << 40,
            Self::Model => 1 << 30,
            Self::Document => 64 << 20,
            Self::Settings => 1 << 20,
        }
    }

    /// Whether a file of no bytes has a meaning, or is told in better words by who parses it.
    fn may_be_empty(self) -> bool {
        matches!(self, Self::Settings | Self::Model)
    }
}

/// The whole content of a file.
///
/// # Errors
/// [`IoError`] (an input error) when the file is missing, no regular file, empty where its kind
/// cannot be, larger than its kind may be or than memory can hold.
pub fn read_file(path: &Path, kind: FileKind) -> Result<Vec<u8>, IoError> {
    let unreadable = |error: io::Error| IoError::unreadable(path, &error);
    let (mut file, meta) = open(path)?;
    let most = kind.most_bytes();
    if meta.len() > most {
        return Err(too_long(path, meta.len(), most));
    }
    if meta.len() == 0 && !kind.may_be_empty() {
        return Err(IoError::input(path, "file", "is empty", "copy or export it again"));
    }
    let no_memory = |error: NotEnoughMemory| match kind {
        FileKind::Image => IoError::memory(path, &error),
        _ => IoError::input(path, "memory", error.to_string(), "allow more with --memory"),
    };
    check_memory(meta.len()).map_err(no_memory)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(meta.len() as usize)
        .map_err(|_| no_memory(NotEnoughMemory { asked: meta.len(), limit: None }))?;
    // A file may grow while it is read; files of /proc say that they are empty.
    (&mut file).take(meta.len().max(1 << 16)).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// At most `limit` bytes from the start of a file; `None` where it cannot be read or is no regular
/// file.
pub fn read_start(path: &Path, limit: u64) -> Option<Vec<u8>> {
    let mut start = Vec::new();
    open(path).ok()?.0.take(limit).read_to_end(&mut start).ok()?;
    Some(start)
}

/// Opens a regular file; links are followed. Its type is looked at before, since to open a pipe is
/// to wait, and once more afterwards, should it have been replaced.
fn open(path: &Path) -> Result<(File, Metadata), IoError> {
    let unreadable = |error: io::Error| IoError::unreadable(path, &error);
    check_type(path, &std::fs::metadata(path).map_err(unreadable)?)?;
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    check_type(path, &meta)?;
    Ok((file, meta))
}

fn check_type(path: &Path, meta: &Metadata) -> Result<(), IoError> {
    if meta.is_file() {
        return Ok(());
    }
    if meta.is_dir() {
        return Err(IoError::unreadable(path, &io::ErrorKind::IsADirectory.into()));
    }
    Err(IoError::input(path, "file", "is a pipe or device", "save it as a file first"))
}

fn too_long(path: &Path, bytes: u64, most: u64) -> IoError {
    let problem = format!("has {bytes} bytes; a file of its kind has at most {most}");
    IoError::input(path, "file", problem, "check that it is the right file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_a_fitting_size() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.toml");
        let read = |kind| read_file(&path, kind);
        std::fs::write(&path, "a").unwrap();
        assert_eq!(
            (read(FileKind::Settings).unwrap(), read_start(&path, 9)),
            (b"a".to_vec(), Some(b"a".to_vec()))
        );
        File::create(&path).unwrap().set_len((1 << 20) + 1).unwrap();
        let error = read(FileKind::Settings).unwrap_err().to_string();
        assert!(
            error.contains("has 1048577 bytes; a file of its kind has at most 1048576"),
            "{error}"
        );
        assert_eq!(read(FileKind::Document).unwrap().len(), (1 << 20) + 1);
        File::create(&path).unwrap();
        assert!(read(FileKind::Settings).unwrap().is_empty());
        assert!(read(FileKind::Document).unwrap_err().to_string().contains("is empty"));
        assert!(read_file(folder.path(), FileKind::Model).unwrap_err().is_input());
    }

    #[cfg(unix)]
    #[test]
    fn devices_are_not_opened_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link.nii");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        for path in [Path::new("/dev/zero"), &link] {
            assert!(read_file(path, FileKind::Image).unwrap_err().to_string().contains("device"));
            assert_eq!(read_start(path, 10), None);
        }
    }
}
