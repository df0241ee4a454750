//! The commands, one file each.

mod batch;
mod components;
mod convert;
mod demo;
mod detect;
mod doctor;
mod evaluate;
mod image_output;
mod info;
mod init;
mod learning_curve;
mod open_device;
mod report;
mod report_file;
mod report_image;
mod shell;
mod train;
mod tune;
mod validate;

pub use batch::{BatchCase, batch_cases, without_channels};

use crate::Failure;
use crate::args::{Cli, Command};
use crate::session::install_threads;
use std::process::ExitCode;

/// Runs a command.
///
/// # Errors
/// [`Failure`] with the line for the user and the exit code.
pub fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    if let Some(bytes) = cli.global.memory {
        pbt_volume::set_memory_limit(bytes);
    }
    install_threads(cli.global.threads);
    match &cli.command {
        Command::Demo(args) => demo::run(args, &cli.global),
        Command::Init(args) => init::run(args, &cli.global),
        Command::Train(args) => train::run(args, &cli.global),
        Command::Detect(args) => detect::run(args, &cli.global),
        Command::Batch(args) => batch::run(args, &cli.global),
        Command::Merge(args) => batch::merge::run(args, &cli.global),
        Command::Evaluate(args) => evaluate::run(args, &cli.global),
        Command::Tune(args) => tune::run(args, &cli.global),
        Command::LearningCurve(args) => learning_curve::run(args, &cli.global),
        Command::Info(args) => info::run(args, &cli.global),
        Command::Doctor(args) => doctor::run(args, &cli.global),
        Command::Validate(args) => validate::run(args, &cli.global),
        Command::Convert(args) => convert::run(args, &cli.global),
        Command::Components(args) => components::run(args, &cli.global),
        Command::Report(args) => report::run(args, &cli.global),
        Command::Completions(args) => shell::completions(args),
        Command::Man(args) => shell::man(args),
    }
}
