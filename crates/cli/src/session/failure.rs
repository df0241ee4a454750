//! Errors as the user sees them: one line and a documented exit code.

use crate::exit;
use pbt_detect::DetectError;
use pbt_io::IoError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Why a command failed. Its display is one line, `FILE: FIELD: what is wrong (what to do)`.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    file: Option<PathBuf>,
    /// Whether the error itself names the file.
    complete: bool,
    error: anyhow::Error,
}

impl Failure {
    fn new(code: u8, error: impl Into<anyhow::Error>) -> Self {
        Self { code, file: None, complete: false, error: error.into() }
    }

    /// Exit code 1: something went wrong.
    pub fn other(what: impl fmt::Display) -> Self {
        Self::new(exit::FAILURE, anyhow::anyhow!("{what}"))
    }

    /// Exit code 2: the command was not used as documented.
    pub fn usage(what: impl fmt::Display) -> Self {
        Self::new(exit::USAGE, anyhow::anyhow!("{what}"))
    }

    /// Exit code 4: an input cannot be read or is invalid.
    pub fn input(file: &Path, what: impl fmt::Display) -> Self {
        Self::new(exit::INPUT, anyhow::anyhow!("{what}")).about(file)
    }

    /// Exit code 4 with a line that names its file already.
    pub(crate) fn complete_input(line: impl fmt::Display) -> Self {
        Self { complete: true, ..Self::new(exit::INPUT, anyhow::anyhow!("{line}")) }
    }

    /// Exit code 5: a model is rejected.
    pub fn model(file: &Path, what: impl fmt::Display) -> Self {
        Self::new(exit::MODEL, anyhow::anyhow!("{what}")).about(file)
    }

    /// Exit code 6: the device is not there.
    pub fn device(what: impl fmt::Display) -> Self {
        Self::new(exit::DEVICE, anyhow::anyhow!("{what}"))
    }

    /// Exit code 1: the device failed at work. No file is to blame.
    pub(crate) fn device_failed(what: impl fmt::Display) -> Self {
        Self { complete: true, ..Self::other(what) }
    }

    /// What the device says where it failed at work.
    pub(crate) fn of_device(&self) -> Option<&DetectError> {
        self.error.downcast_ref().filter(|error| matches!(error, DetectError::Device(_)))
    }

    /// The same failure with the file that it is about, unless it names one already.
    pub fn about(mut self, file: &Path) -> Self {
        if !self.complete && self.file.is_none() {
            self.file = Some(file.to_path_buf());
        }
        self
    }

    /// The file that it is about, where one is known.
    pub fn file(&self) -> Option<&Path> {
        self.error.downcast_ref().map(IoError::path).or(self.file.as_deref())
    }

    /// The line without the file that it is about, whose name may be that of a patient.
    pub fn without_file(&self) -> String {
        match self.error.downcast_ref::<IoError>() {
            Some(error) => on_one_line(&error.without_path()),
            None => on_one_line(&format!("{:#}", self.error)),
        }
    }

    /// What of the file, or which option, is wrong, where that is known.
    pub fn field(&self) -> Option<String> {
        if let Some(error) = self.error.downcast_ref::<IoError>() {
            return Some(error.field().to_owned());
        }
        // Every other text is `FIELD: what is wrong`, too, unless it begins with a sentence.
        let text = self.error.to_string();
        let (field, _) = text.split_once(": ")?;
        (!field.contains(char::is_whitespace)).then(|| field.to_owned())
    }

    /// The documented [exit code](crate::exit).
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Whether an input is to blame.
    pub(crate) fn is_input(&self) -> bool {
        self.code == exit::INPUT
    }

    /// Whether the disk takes nothing more, so that other files would fail, too.
    pub(crate) fn is_disk(&self) -> bool {
        self.error.downcast_ref::<IoError>().is_some_and(IoError::is_disk)
    }

    /// Whether the user ended the command.
    pub fn is_interruption(&self) -> bool {
        self.code == exit::INTERRUPTED
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        f.write_str(&on_one_line(&format!("{:#}", self.error)))
    }
}

/// Whatever a library says, the user gets one line.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        Self {
            complete: true,
            ..Self::new(if error.is_input() { exit::INPUT } else { exit::FAILURE }, error)
        }
    }
}

impl From<DetectError> for Failure {
    fn from(error: DetectError) -> Self {
        match error {
            DetectError::Model { .. } => Self::new(exit::MODEL, error),
            DetectError::Output(_) | DetectError::Device(_) => {
                Self { complete: true, ..Self::new(exit::FAILURE, error) }
            }
            DetectError::Interrupted => {
                Self { complete: true, ..Self::new(exit::INTERRUPTED, error) }
            }
            DetectError::Image { .. }
            | DetectError::Training { .. }
            | DetectError::Config { .. } => Self::new(exit::INPUT, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_and_field_are_those_of_the_line() {
        let parts = |failure: &Failure| {
            (failure.file().map(|file| file.display().to_string()), failure.field())
        };
        let named = |file: &str, field: &str| (Some(file.to_owned()), Some(field.to_owned()));
        let io = Failure::from(IoError::input(Path::new("a.nii"), "dim[1]", "is -3", "mend it"));
        assert_eq!(parts(&io), named("a.nii", "dim[1]"));
        let input = Failure::input(Path::new("dataset.json"), "cases: none has the split `train`");
        assert_eq!(parts(&input), named("dataset.json", "cases"));
        let what = DetectError::Model { field: "format".into(), what: "is 3".into() };
        assert_eq!(parts(&Failure::from(what).about(Path::new("m.pbt"))), named("m.pbt", "format"));
        assert_eq!(parts(&Failure::usage("give a model, or: two")), (None, None));
    }

    #[test]
    fn the_file_can_be_left_out() {
        let path = Path::new("Jane  Doe/a.nii");
        let io = Failure::from(IoError::input(path, "dim[1]", "is -3", "mend it"));
        assert_eq!(io.without_file(), "dim[1]: is -3 (mend it)");
        assert!(io.to_string().ends_with(&io.without_file()), "{io}");
        let input = Failure::input(path, "shape: is  flat");
        assert_eq!(input.without_file(), "shape: is flat");
        assert_eq!(Failure::device_failed("is gone").without_file(), "is gone");
    }
}
