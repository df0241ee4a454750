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

/// A text in which nothing can act on a terminal or change the order of what is read there: control
/// characters other than line ends and tabs, and marks of direction and of zero width, are written as
/// `\u{202e}`.
pub(crate) fn visible(text: &str) -> String {
    let acts = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if acts(c) { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

/// A line on stderr. Where that cannot be written, there is nobody to tell, and the command goes
/// on.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", visible(&text.to_string()));
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

/// Writes a text for people to stdout. A reader that has had enough is no error.
///
/// # Errors
/// Those of [`print`].
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print(visible(text).as_bytes())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_written_out() {
        assert_eq!(visible("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(visible("gpj.\u{202e}nii"), "gpj.\\u{202e}nii");
        assert_eq!(visible("one\ntwo\tä 漢字 \u{5d0}"), "one\ntwo\tä 漢字 \u{5d0}");
    }
}
