//! The command line of `pbt`: reading arguments, running commands, exit codes.
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
mod contents;
pub mod exit;
pub mod host;
mod interrupt;
mod output;
mod progress;
pub mod session;
pub mod shard;
pub mod table;

pub use session::Failure;

use clap::Parser;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs `pbt` with the process's arguments.
pub fn main() -> ExitCode {
    main_with(std::env::args_os())
}

/// Runs `pbt` with these arguments, of which the first is the program's name.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    args::Cli::try_parse_from(arguments).map_or_else(without_command, |cli| run(&cli))
}

/// Runs `train-pbt`, the same as `pbt train`, with the process's arguments.
pub fn main_of_train_pbt() -> ExitCode {
    let cli = |args::TrainPbt { train, global }| args::Cli {
        command: args::Command::Train(train),
        global,
    };
    args::TrainPbt::try_parse().map(cli).map_or_else(without_command, |cli| run(&cli))
}

fn run(cli: &args::Cli) -> ExitCode {
    outlive_file_limits();
    commands::run(cli).unwrap_or_else(|failure| failed(&failure))
}

/// Beyond `ulimit -f` the system ends a process without a word; with a handler the write fails like any
/// other, and the error says so.
fn outlive_file_limits() {
    #[cfg(unix)]
    {
        let seen = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // Where it cannot be set, all stays as the system has it.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen);
    }
}

/// Shows help or version where these are wanted, or says what is wrong with the arguments.
fn without_command(error: clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => failed(&error.into()),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    output::tell(format_args!("error: {failure}"));
    ExitCode::from(failure.code())
}
