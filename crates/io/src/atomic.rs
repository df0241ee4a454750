//! Files appear whole or not at all: write beside the target, then rename.

use crate::IoError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes the file `path` through `write`, so that a reader sees the old content or the whole new
/// one.
///
/// The content goes to a temporary file in the same folder, is flushed to the disk and then
/// renamed. A symbolic link stays and its target is replaced. A device or pipe (`/dev/stdout`)
/// cannot be replaced and is written to directly.
///
/// # Errors
/// [`IoError`] (an output error) naming `path`, whatever failed; the old file is then untouched and
/// the temporary one removed.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), IoError> {
    replace(path, write).map_err(|error| IoError::output(path, &error))
}

/// Whether [`write_atomically`] can begin to write `path`, for commands that compute for long
/// before they write. Devices and pipes are not tried, since opening them may do something.
///
/// # Errors
/// [`IoError`] (an output error) naming `path`: a folder of that name, a folder that is missing or
/// must not be written.
pub fn check_writable(path: &Path) -> Result<(), IoError> {
    let try_beside = || -> io::Result<()> {
        let target = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => return Ok(()),
            Ok(_) => fs::canonicalize(path)?,
            Err(_) => path.to_path_buf(),
        };
        let temporary = temporary_beside(&target)?;
        OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        fs::remove_file(&temporary)
    };
    try_beside().map_err(|error| IoError::output(path, &error))
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let target = match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Ok(meta) if !meta.is_file() => {
            let mut writer = BufWriter::new(OpenOptions::new().write(true).open(path)?);
            write(&mut writer)?;
            return writer.flush();
        }
        Ok(_) => fs::canonicalize(path)?,
        Err(_) => path.to_path_buf(),
    };
    let temporary = temporary_beside(&target)?;
    let outcome = write_synced(&temporary, write).and_then(|()| fs::rename(&temporary, &target));
    if outcome.is_err() {
        // The first error is the one to report; a temporary file that cannot be removed either
        // changes nothing for the caller.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

fn write_synced(
    temporary: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer =
        BufWriter::new(OpenOptions::new().write(true).create_new(true).open(temporary)?);
    write(&mut writer)?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// A name in the same folder (renaming across file systems is not atomic) that no other process or
/// thread uses.
fn temporary_beside(target: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // Long names keep their end out of the temporary one, which must not exceed the system's limit
    // of 255 bytes.
    let stem: String = name.to_string_lossy().chars().take(40).collect();
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    Ok(target.with_file_name(format!(".{stem}.{}-{number}.tmp", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn failure_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pbt");
        write_atomically(&path, |w| w.write_all(b"old")).unwrap();
        let error = write_atomically(&path, |w| {
            w.write_all(b"half of the new")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert!(
            !error.is_input() && error.to_string().contains("model.pbt: file: cannot be written"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["model.pbt"]);
    }

    #[test]
    fn missing_folder_and_folder_as_target_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().join("no/such/file"), folder.path().to_path_buf()] {
            let error = write_atomically(&path, |w| w.write_all(b"x")).unwrap_err();
            assert!(error.to_string().starts_with(&path.display().to_string()), "{error}");
        }
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn trying_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        check_writable(&path).unwrap();
        fs::write(&path, "old").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(
            (names(folder.path()), fs::read(&path).unwrap()),
            (vec!["report.json".to_owned()], b"old".to_vec())
        );
        for path in [folder.path().join("no/report.json"), folder.path().to_path_buf()] {
            let error = check_writable(&path).unwrap_err();
            assert!(
                !error.is_input() && error.to_string().starts_with(&path.display().to_string()),
                "{error}"
            );
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_an_error_and_stays_a_device() {
        let path = Path::new("/dev/full");
        assert!(write_atomically(path, |w| w.write_all(b"x")).is_err());
        assert!(!fs::metadata(path).unwrap().is_file());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write_atomically(&link, |w| w.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
    }
}
