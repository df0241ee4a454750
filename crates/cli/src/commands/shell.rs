//! `pbt completions` and `pbt man`: what a package of pbt installs beside the program.

use crate::Failure;
use crate::args::{Cli, Completions, Man, TrainPbt};
use crate::output::print;
use clap::CommandFactory;
use std::process::ExitCode;

pub(super) fn completions(args: &Completions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pbt", &mut script);
    print(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(args: &Man) -> Result<ExitCode, Failure> {
    let Some(folder) = &args.output else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut page).map_err(Failure::other)?;
        print(&page)?;
        return Ok(ExitCode::SUCCESS);
    };
    crate::session::make_folder(folder)?;
    let unwritable = |e| {
        Failure::other(format!(
            "{}: --output: cannot be written: {e} (choose another folder)",
            folder.display()
        ))
    };
    for program in [Cli::command(), TrainPbt::command()] {
        clap_mangen::generate_to(program, folder).map_err(unwritable)?;
    }
    Ok(ExitCode::SUCCESS)
}
