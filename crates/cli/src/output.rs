//! What commands print, and whether they can write.

use crate::Failure;
use pbt_io::{IoError, check_writable, remove_leftovers};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// People read stderr; `-q` silences all but errors.
pub(crate) fn say(quiet: bool, text: impl std::fmt::Display) {
    if !quiet {
        tell(text);
    }
}

/// A line on stderr. Where that cannot be written, there is nobody to tell, and the command goes
/// on.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A command of minutes must not end with a path that cannot be written: tries it first. A missing
/// folder is made.
///
/// # Errors
/// Exit code 2 when it is a folder, or named like one, 1 when it cannot be written.
pub(crate) fn check_output(path: &Path) -> Result<(), Failure> {
    if path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator) {
        return Err(Failure::usage(format!(
            "{}: --output: is a folder (give the name of a file)",
            path.display()
        )));
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| IoError::output(path, &e))?;
        remove_leftovers(folder);
    }
    Ok(check_writable(path)?)
}

/// Writes data to stdout. A reader that has had enough (`pbt man | head`) is no error.
///
/// # Errors
/// Exit code 1 when stdout cannot be written, as on a full disk.
pub(crate) fn print(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(data).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::other(format!("stdout: cannot be written: {e}")))
        }
        _ => Ok(()),
    }
}
