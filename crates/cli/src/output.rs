//! What commands print, and whether they can write.

use crate::Failure;
use crate::args::Global;
use crate::contents::Content;
use pbt_io::{IoError, check_writable, is_image_path, remove_leftovers};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// People read stderr; `-q` silences all but errors.
pub(crate) fn say(quiet: bool, text: impl std::fmt::Display) {
    if !quiet {
        tell(text);
    }
}

/// What a person should look at, although the command goes on. Within another program its host is told,
/// whoever reads stderr.
pub(crate) fn warn(global: &Global, text: impl std::fmt::Display) {
    match &global.host {
        Some(host) => host.warning(&visible(&text.to_string())),
        None => say(global.quiet, format_args!("warning: {text}")),
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

/// A path as an argument for a shell, where a message says what to type next.
pub(crate) fn argument(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain =
        |c: char| c.is_alphanumeric() || c == std::path::MAIN_SEPARATOR || "._-+,:=@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The size of a file for people: `820.0 kB`, `9.9 MB`.
pub(crate) fn file_size(bytes: usize) -> String {
    match bytes as f64 {
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{:.1} MB", bytes / 1e6),
    }
}

/// A line on stderr. Where that cannot be written, there is nobody to tell, and the command goes
/// on.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", visible(&text.to_string()));
}

/// What a command writes to a file that its user names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Model,
    /// JSON with a schema.
    Report,
    /// TOML.
    Settings,
    /// SVG, of `--picture`.
    Picture,
    /// SVG, of `--svg`.
    Network,
    /// HTML.
    Page,
    /// `dataset.json`; what is there already is looked at elsewhere.
    DataSet,
    /// The argument OUT.
    Image,
    /// CSV, of `--table`.
    Components,
}

impl Written {
    /// The option or argument that names the file.
    fn option(self) -> &'static str {
        match self {
            Self::Picture => "--picture",
            Self::Network => "--svg",
            Self::Image => "OUT",
            Self::Components => "--table",
            _ => "--output",
        }
    }

    /// How the names of such files end.
    fn ending(self) -> &'static str {
        match self {
            Self::Model => ".pbt",
            Self::Report | Self::DataSet => ".json",
            Self::Settings => ".toml",
            Self::Picture | Self::Network => ".svg",
            Self::Page => ".html",
            Self::Image => ".nii.gz",
            Self::Components => ".csv",
        }
    }

    /// Whether a file of this content may be replaced.
    fn replaces(self, there: Content, path: &Path) -> bool {
        // Settings have no mark of their own.
        let is_toml = || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
        match there {
            Content::Empty => true,
            Content::Model => self == Self::Model,
            Content::Report => self == Self::Report,
            Content::Picture => matches!(self, Self::Picture | Self::Network),
            Content::Page => self == Self::Page,
            Content::Image => self == Self::Image,
            Content::Components => self == Self::Components,
            Content::DataSet | Content::DetectionResult | Content::Json => false,
            Content::Other => self == Self::Settings && is_toml(),
        }
    }
}

/// What is there already is replaced only by what is of its kind, and nothing but images gets the name of one.
///
/// # Errors
/// Exit code 2.
pub(crate) fn refuse_another_kind(path: &Path, written: Written) -> Result<(), Failure> {
    if !path.is_file() {
        if written == Written::Image || !is_image_path(path) {
            return Ok(());
        }
        return Err(Failure::usage(format!(
            "{}: {}: has the name of an image (let it end in {})",
            path.display(),
            written.option(),
            written.ending()
        )));
    }
    let there = Content::of_file(path);
    if written == Written::DataSet || written.replaces(there, path) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: {}: is {} already (give another name, or remove it)",
        path.display(),
        written.option(),
        there.name()
    )))
}

/// A command of minutes must not end with a path that cannot be written: tries it first. A missing
/// folder is made.
///
/// # Errors
/// Exit code 2 when it is a folder, or named like one, or a file of another kind than what is `written`,
/// 1 when it cannot be written.
pub(crate) fn check_output(path: &Path, written: Written) -> Result<(), Failure> {
    if path.is_dir() || path.to_string_lossy().ends_with(std::path::is_separator) {
        return Err(Failure::usage(format!(
            "{}: {}: is a folder (give the name of a file)",
            path.display(),
            written.option()
        )));
    }
    refuse_another_kind(path, written)?;
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
    fn only_a_file_of_the_same_kind_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let model = b"\x10\0\0\0\0\0\0\0{\"__metadata__\":{\"pbt\":\"{}\"}}";
        let all = [
            Written::Model,
            Written::Report,
            Written::Settings,
            Written::Picture,
            Written::Network,
            Written::Page,
            Written::Image,
            Written::Components,
        ];
        let contents: [(&[u8], &[Written]); 12] = [
            (b"", &all),
            (b"results of yesterday", &[]),
            (model, &[Written::Model]),
            (b"{\n  \"schema\": \"pbt-evaluation/1\"", &[Written::Report]),
            (b"{\"schema\":\"pbt-dataset/1\"", &[]),
            (b"{\"schema\":\"pbt-result/1\"", &[]),
            (b"{\"markups\": []}", &[]),
            (b"<svg xmlns=", &[Written::Picture, Written::Network]),
            (b"label,value,voxels,volume_mm3", &[Written::Components]),
            (b"<!doctype html>", &[Written::Page]),
            (b"\x1f\x8b\x08\0 an image", &[Written::Image]),
            (&[&[0; 128][..], b"DICM"].concat(), &[Written::Image]),
        ];
        for (content, replaced_by) in contents {
            std::fs::write(&path, content).unwrap();
            for written in all {
                let may = replaced_by.contains(&written);
                let checked = check_output(&path, written);
                assert_eq!(checked.is_ok(), may, "{written:?} over {content:?}");
            }
            assert!(check_output(&path, Written::DataSet).is_ok());
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        let settings = folder.path().join("out.toml");
        std::fs::write(&settings, "seed = 1").unwrap();
        assert!(check_output(&settings, Written::Settings).is_ok());
        assert!(check_output(&settings, Written::Report).is_err());
    }

    #[test]
    fn a_path_is_one_argument() {
        let shown = |path: &str| argument(Path::new(path));
        assert_eq!(shown("my_scans"), "my_scans");
        assert_eq!(shown("my scans"), "'my scans'");
        assert_eq!(shown("Anna's"), r"'Anna'\''s'");
    }

    #[test]
    fn what_acts_on_a_terminal_is_written_out() {
        assert_eq!(visible("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(visible("gpj.\u{202e}nii"), "gpj.\\u{202e}nii");
        assert_eq!(visible("one\ntwo\tä 漢字 \u{5d0}"), "one\ntwo\tä 漢字 \u{5d0}");
    }
}
