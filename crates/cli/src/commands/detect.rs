//! `pbt detect`

mod explain;

use crate::Failure;
use crate::args::{Detect, Global};
use crate::commands::open_device::open_device;
use crate::output::say;
use crate::session::{
    Crops, Device, Explained, Found, Input, LoadedModel, VoxelOutput, explain_file, label_file,
    write_results,
};
use pbt_io::{ResultFile, case_name};
use std::process::ExitCode;

pub(super) fn run(args: &Detect, global: &Global) -> Result<ExitCode, Failure> {
    let device = open_device(global)?;
    let model = LoadedModel::open(&args.model)?;
    let (case_id, options) = (case_name(&args.input), args.volume.options());
    let input = Input { case_id: &case_id, path: &args.input, options: &options };
    if args.explain && model.model.regions.is_some() {
        return Err(Failure::usage("--explain: explains boxes and landmarks, not regions"));
    }
    let crops = Crops::from(&args.crop);
    crops.check(&model)?;
    let found = if args.explain {
        explained(&model, input, args, &device)?
    } else {
        let output = VoxelOutput::new(args.labels, args.probabilities);
        let mut found = label_file(&model, input, &device, output)?;
        found.result = named(found.result, args);
        write_results(&args.output, &found, output.labels())?;
        found
    };
    let notes = crops.write(&args.output, input, &found)?;
    let result = found.result;
    result
        .warnings
        .iter()
        .for_each(|w| say(global.quiet, format_args!("warning: {}: {w}", args.input.display())));
    for d in &result.detections {
        let place = match (d.position_lps_mm, d.volume_ml) {
            (Some(p), _) if result.is_in_pixels() => format!("({:.2}, {:.2}) pixels", p[0], p[1]),
            (Some(p), _) => format!("({:.2}, {:.2}, {:.2}) LPS mm", p[0], p[1], p[2]),
            (None, Some(ml)) => format!("{ml:.3} ml"),
            (None, None) => "-".to_owned(),
        };
        say(global.quiet, format_args!("{}: {}, score {:.3}, {place}", d.name, d.status, d.score));
    }
    notes.iter().for_each(|note| say(global.quiet, format_args!("warning: --crop: {note}")));
    Ok(ExitCode::SUCCESS)
}

/// The result with paths if they are wanted.
fn named(result: ResultFile, args: &Detect) -> ResultFile {
    if args.no_paths { result.without_paths() } else { result }
}

/// Detects, and writes the result with its explanation.
fn explained(
    model: &LoadedModel,
    input: Input<'_>,
    args: &Detect,
    device: &Device,
) -> Result<Found, Failure> {
    let Explained { result, image, found, explanations } = explain_file(model, input, device)?;
    let written = Found::from(named(result, args));
    write_results(&args.output, &written, args.labels)?;
    let about = explain::About {
        case_id: input.case_id,
        input: &written.result.input,
        record: &written.result.model,
        model: &model.model,
        image: &image.volume,
    };
    explain::write(&args.output, &about, &found.detections, &explanations)?;
    Ok(written)
}
