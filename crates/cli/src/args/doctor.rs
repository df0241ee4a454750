//! `pbt doctor`

use clap::Args;

/// `pbt doctor`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  pbt doctor\n  pbt doctor --json\n\nLooks at this machine as the other commands would find it: CPU threads, GPU with driver and kernels, memory with the limits \
of control groups and ulimit, and whether the current folder can be written. `note` is something that works, and could be better; `problem` makes the \
exit code 1."
)]
pub struct Doctor {
    /// JSON on stdout in place of text
    #[arg(long)]
    pub json: bool,
}
