//! The command line of `pbt`: reading arguments, running commands, exit codes.
#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod dataset;
pub mod device;
mod failure;
mod output;
mod progress;
mod table;

pub use failure::Failure;

use clap::Parser;
use std::process::ExitCode;

/// Runs `pbt` with the process's arguments.
pub fn main() -> ExitCode {
    run(args::Cli::parse())
}

/// Runs `train-pbt`, the same as `pbt train`, with the process's arguments.
pub fn main_of_train_pbt() -> ExitCode {
    let args::TrainPbt { train, global } = args::TrainPbt::parse();
    run(args::Cli { command: args::Command::Train(train), global })
}

fn run(cli: args::Cli) -> ExitCode {
    match commands::run(&cli) {
        Ok(code) => code,
        Err(failure) => {
            output::tell(format_args!("error: {failure}"));
            failure.exit_code()
        }
    }
}
