//! `pbt completions` and `pbt man`

use clap::Args;
use std::path::PathBuf;

/// `pbt completions`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt completions bash > ~/.local/share/bash-completion/completions/pbt
  pbt completions zsh > ~/.zfunc/_pbt
  pbt completions fish > ~/.config/fish/completions/pbt.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// `pbt man`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt man | man -l -
  pbt man -o ~/.local/share/man/man1")]
pub struct Man {
    /// Folder for the pages of all commands; made if missing [default: the main page goes to
    /// stdout]
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}
