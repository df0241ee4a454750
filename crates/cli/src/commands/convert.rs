//! `pbt convert`

use super::image_output::{
    check_format, refuse_another_image, refuse_same, warn_of_rounding, warn_of_scaling,
};
use crate::Failure;
use crate::args::{Convert, Global};
use crate::output::say;
use pbt_io::{read_raw_with, write_image};
use std::process::ExitCode;

pub(super) fn run(args: &Convert, global: &Global) -> Result<ExitCode, Failure> {
    check_format(&args.output)?;
    refuse_same(&args.output, "OUT", &args.input, "the input itself, or has its file of voxels")?;
    refuse_another_image(&args.output)?;
    let loaded = read_raw_with(&args.input, &args.volume.options())?;
    for warning in &loaded.warnings {
        say(global.quiet, format_args!("warning: {}: {warning}", args.input.display()));
    }
    write_image(&args.output, &loaded.raw)?;
    warn_of_scaling(&args.output, loaded.raw.scaling(), global.quiet);
    warn_of_rounding(&args.output, loaded.raw.geometry(), global.quiet);
    Ok(ExitCode::SUCCESS)
}
