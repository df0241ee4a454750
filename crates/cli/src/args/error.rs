//! What clap finds wrong with the arguments, in one line.

use crate::output::argument;
use crate::session::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::path::Path;

impl From<clap::Error> for Failure {
    /// What is wrong with the arguments, and the one that was probably meant, without the reminder
    /// of the usage.
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let lines: Vec<&str> =
            text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage: ")).collect();
        let meant = lines
            .iter()
            .find_map(|line| line.strip_prefix("tip: ").filter(|tip| tip.contains("similar")));
        let wrong: Vec<&str> = lines.iter().copied().take_while(|line| !line.is_empty()).collect();
        let wrong = match &wrong[..] {
            [what, list @ ..] if what.ends_with(':') => format!("{what} {}", list.join(", ")),
            all => all.join(" "),
        };
        let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong);
        let advice = match (meant, input_without_option(&error, &text)) {
            (Some(meant), _) => meant.to_owned(),
            (None, Some(path)) => format!("write -i {path}, if it is the input; see --help"),
            (None, None) => "see --help".to_owned(),
        };
        Self::usage(format!("{wrong} ({advice})"))
    }
}

/// What stands alone where a command takes its input with `-i`, as others take it without.
fn input_without_option(error: &clap::Error, text: &str) -> Option<String> {
    let usage = text.lines().map(str::trim).find(|line| line.starts_with("Usage: "))?;
    let takes_input = error.kind() == ErrorKind::UnknownArgument && usage.contains(" --input <");
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if takes_input && !word.starts_with('-') => {
            Some(argument(Path::new(word)))
        }
        _ => None,
    }
}
