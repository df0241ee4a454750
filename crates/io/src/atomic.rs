//! Files appear whole or not at all: write beside the target, then rename.

use crate::IoError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile};

/// How temporary names end: `.NAME.RANDOM.pbt-tmp`.
const SUFFIX: &str = ".pbt-tmp";

/// Random letters and digits in a temporary name. Two processes on two machines that write into
/// one folder may have the same number, time and name.
const RANDOM: usize = 12;

/// Writes the file `path` through `write`, so that a reader sees the old content or the whole new
/// one.
///
/// The content goes to a temporary file in the same folder, is flushed to the disk and then
/// renamed, and the folder flushed. A file that was there keeps its mode. A symbolic link stays and
/// its target is replaced. A device or pipe (`/dev/stdout`) cannot be replaced and is written to
/// directly.
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
    let try_beside = || match Target::of(path)? {
        Target::File { path, .. } => temporary_beside(&path)?.close(),
        Target::Stream => Ok(()),
    };
    try_beside().map_err(|error| IoError::output(path, &error))
}

/// Removes the temporary files that a killed process left in a folder, and says how many. Those of
/// a running process are locked and stay.
pub fn remove_leftovers(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(or_here(folder)) else { return 0 };
    let of_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') && name.ends_with(SUFFIX)
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(of_ours);
    let remove = |path: &PathBuf| -> io::Result<()> {
        // Not even a link of that name is followed.
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = OpenOptions::new().write(true).open(path)?;
        file.try_lock()?;
        fs::remove_file(path)
    };
    paths.filter(|path| remove(path).is_ok()).count()
}

/// What is to be written.
enum Target {
    /// A file that is there or not: its own name, links resolved, and what it may be used for.
    File { path: PathBuf, permissions: Option<fs::Permissions> },
    /// A device or pipe.
    Stream,
}

impl Target {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => Self::Stream,
            Ok(meta) => {
                Self::File { path: fs::canonicalize(path)?, permissions: Some(meta.permissions()) }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Self::File { path: path.to_path_buf(), permissions: None }
            }
            // A name that is too long, say, which the shorter temporary one would not show.
            Err(error) => return Err(error),
        })
    }
}

fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let Target::File { path: target, permissions } = Target::of(path)? else {
        let mut writer = BufWriter::new(OpenOptions::new().write(true).open(path)?);
        write(&mut writer)?;
        return writer.flush();
    };
    let temporary = temporary_beside(&target)?;
    let mut writer = BufWriter::new(temporary.as_file().try_clone()?);
    write(&mut writer)?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()?;
    drop(file);
    temporary.persist(&target)?;
    sync_folder(folder_of(&target))
}

/// The folder that a file is in.
fn folder_of(target: &Path) -> &Path {
    or_here(target.parent().unwrap_or(Path::new("")))
}

/// The folder of a bare name is the current one.
fn or_here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// A new file in the same folder (renaming across file systems is not atomic), removed when it is
/// dropped, and locked, which tells it from one that a killed process left behind.
fn temporary_beside(target: &Path) -> io::Result<NamedTempFile> {
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // Long names keep their end out of the temporary one, which must not exceed the system's limit
    // of 255 bytes.
    let stem: String = name.to_string_lossy().chars().take(40).collect();
    let prefix = format!(".{stem}.");
    let mut builder = Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX).rand_bytes(RANDOM);
    // As for any new file, the user's umask says who may read it.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    loop {
        let temporary = builder.tempfile_in(folder_of(target))?;
        // Some network folders have no locks; nobody tidies up there.
        let locked = temporary.as_file().lock().is_ok();
        // Who tidies up may have come between.
        if !locked || temporary.path().exists() {
            return Ok(temporary);
        }
    }
}

/// Flushes the entries of a folder, so that a new name outlives a loss of power.
#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    // A folder that may be written and not read cannot be opened.
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        // Some file systems do not know this.
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
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

    #[test]
    fn leftovers_go_and_what_is_being_written_stays() {
        let folder = tempfile::tempdir().unwrap();
        let left = folder.path().join(".model.pbt.0a1B2c3D4e5F.pbt-tmp");
        fs::write(&left, "half").unwrap();
        fs::write(folder.path().join(".mine.tmp"), "x").unwrap();
        let path = folder.path().join("model.pbt");
        write_atomically(&path, |w| {
            assert_eq!(remove_leftovers(folder.path()), 1);
            w.write_all(b"new")
        })
        .unwrap();
        let mut names = names(folder.path());
        names.sort();
        assert_eq!(names, [".mine.tmp", "model.pbt"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_mode_of_a_file_is_kept_and_a_new_one_obeys_the_umask() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, plain) = (folder.path().join("a.json"), folder.path().join("plain"));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        fs::write(&plain, "x").unwrap();
        write_atomically(&path, |w| w.write_all(b"old")).unwrap();
        assert_eq!(mode(&path), mode(&plain));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write_atomically(&path, |w| w.write_all(b"new")).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o640, b"new".to_vec()));
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
