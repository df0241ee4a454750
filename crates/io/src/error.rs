//! The one error of this crate: a file, a field, what is wrong and what to do, on one line.

use pbt_volume::NotEnoughMemory;
use std::io;
use std::path::{Path, PathBuf};

/// Why a file could not be read or written.
///
/// Its display is exactly one line, `FILE: FIELD: what is wrong (what to do)`, whatever characters
/// the file's name holds.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}", one_line(&path.display().to_string()), self.without_path())]
pub struct IoError {
    path: PathBuf,
    field: String,
    problem: String,
    advice: String,
    writing: bool,
    disk: bool,
}

impl IoError {
    /// A file that cannot be read, or whose content is invalid.
    pub fn input(
        path: &Path,
        field: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_path_buf(),
            field: field.into(),
            problem: problem.into(),
            advice: advice.into(),
            writing: false,
            disk: false,
        }
    }

    /// A file that the system does not let us read.
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::PermissionDenied => "check the permissions",
            io::ErrorKind::IsADirectory => "give a file",
            _ => "check that the file is complete and the disk healthy",
        };
        Self::input(path, "file", format!("cannot be read: {}", describe(error)), advice)
    }

    /// A file whose content takes more memory than there is.
    pub fn memory(path: &Path, error: &NotEnoughMemory) -> Self {
        let advice = "crop or downsample the image, or allow more with --memory";
        Self::input(path, "memory", error.to_string(), advice)
    }

    /// A file that could not be written; what was there before is still there.
    pub fn output(path: &Path, error: &io::Error) -> Self {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => "check that the folder exists",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a folder that you may write to"
            }
            io::ErrorKind::IsADirectory => "give the name of a file",
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
            io::ErrorKind::FileTooLarge => "allow larger files, as by `ulimit -f unlimited`",
            _ => "check the folder and the disk",
        };
        let in_the_way = path.ancestors().skip(1).find(|above| above.is_file());
        let advice = match in_the_way {
            Some(file) => format!("{} is a file: give a path in a folder", file.display()),
            None => advice.to_owned(),
        };
        let problem = format!("cannot be written: {}", describe(error));
        Self {
            path: path.to_path_buf(),
            field: "file".into(),
            problem,
            advice,
            writing: true,
            disk: matches!(
                error.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::FileTooLarge
            ),
        }
    }

    /// A file that was not written because its content would be invalid.
    pub(crate) fn unwritable(
        path: &Path,
        field: impl Into<String>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { writing: true, ..Self::input(path, field, problem, advice) }
    }

    /// The same about a channel of an image of several.
    pub(crate) fn of_channel(self, name: &str) -> Self {
        Self { field: format!("channel `{name}`: {}", self.field), ..self }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line without the file: `FIELD: what is wrong (what to do)`.
    pub fn without_path(&self) -> String {
        one_line(&format!("{}: {} ({})", self.field, self.problem, self.advice))
    }

    /// The field of the file that is wrong, `file` when it is the file as a whole.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Whether an input was unreadable or invalid (exit code 4), as opposed to an output that could
    /// not be written (exit code 1).
    pub fn is_input(&self) -> bool {
        !self.writing
    }

    /// Whether an output could not be written because the disk, or the process's limit, takes
    /// nothing more: other files would fail, too.
    pub fn is_disk(&self) -> bool {
        self.disk
    }
}

/// The system's words without its number: "No such file or directory".
fn describe(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return "no such file or directory".to_owned();
    }
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// Control characters in names and messages would break the promise of one line.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_line_of_four_parts() {
        let error =
            IoError::input(Path::new("a\nb.nii"), "dim[1]", "is -3", "convert the file anew");
        assert_eq!(error.to_string(), "a\u{fffd}b.nii: dim[1]: is -3 (convert the file anew)");
        assert_eq!(error.without_path(), "dim[1]: is -3 (convert the file anew)");
        assert!(error.is_input());
        assert!(!IoError::output(Path::new("x"), &io::Error::other("no")).is_input());
    }
}
