//! What clap finds wrong with the arguments, in one line.

use crate::session::Failure;

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
        Self::usage(format!("{wrong} ({})", meant.unwrap_or("see --help")))
    }
}
