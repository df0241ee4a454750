//! `pbt detect`

mod explain;

use crate::Failure;
use crate::args::{Detect, Global};
use crate::commands::open_device::open_device;
use crate::output::say;
use crate::session::{
    Crops, Cut, Device, Explained, Input, LeafFile, LoadedModel, VoxelOutput, check_explanation,
    crop_path, explain_file, explanation_paths, label_file, label_map_path, leaves_path,
    probabilities_path, region_labels_path, write_results,
};
use pbt_io::{DetectionRecord, LabelRecord, ReadOptions, ResultFile, case_name};
use pbt_volume::Status;
use std::process::ExitCode;

pub(super) fn run(args: &Detect, global: &Global) -> Result<ExitCode, Failure> {
    let device = open_device(global)?;
    let model = LoadedModel::open(&args.model)?;
    let Some((path, further)) = args.input.split_first() else {
        return Err(Failure::usage("--input: is missing (name an image)"));
    };
    let options = ReadOptions { further: further.to_vec(), ..args.volume.options() };
    let case_id = case_name(path);
    let input = Input { case_id: &case_id, path, options: &options };
    if args.explain && model.model.regions.is_some() {
        return Err(Failure::usage("--explain: explains boxes and landmarks, not regions"));
    }
    let output = args.voxels();
    let crops = Crops::from(&args.crop);
    crops.check(&model)?;
    crops.check_places(&args.output, &case_id)?;
    if args.explain {
        check_explanation(&args.output, &case_id)?;
    }
    let (result, cut) = if args.explain {
        explained(&model, input, args, &crops, (&device, output))?
    } else {
        let mut found = label_file(&model, input, &device, output)?;
        found.result = named(found.result, args);
        let cut = crops.cut(&args.output, input, &found)?;
        write_results(&args.output, &found, output)?;
        (found.result, cut)
    };
    let notes = cut.write()?;
    result
        .warnings
        .iter()
        .for_each(|w| say(global.quiet, format_args!("warning: {}: {w}", path.display())));
    for d in &result.detections {
        let place = match (d.position_lps_mm, d.volume_ml) {
            (Some(p), _) if !result.unit().is_mm() => format!("({:.2}, {:.2}) pixels", p[0], p[1]),
            (Some(p), _) => format!("({:.2}, {:.2}, {:.2}) LPS mm", p[0], p[1], p[2]),
            (None, Some(ml)) => format!("{ml:.3} ml"),
            (None, None) => "-".to_owned(),
        };
        let labels = doubtful_labels(d);
        let instance = d.instance.map_or_else(String::new, |n| format!(" {n}"));
        let name = format!("{}{instance}", d.name);
        say(
            global.quiet,
            format_args!("{name}: {}, score {:.3}, {place}{labels}", d.status, d.score),
        );
    }
    if args.labels && model.model.label_names().next().is_none() {
        say(
            global.quiet,
            "warning: --labels: the model has learned no masks; labels are its boxes and landmarks",
        );
    }
    notes.iter().for_each(|note| say(global.quiet, format_args!("warning: --crop: {note}")));
    let written = args.output.join(format!("{case_id}.json"));
    let beside = beside_result(args, &crops, &case_id).join(", ");
    say(global.quiet, format_args!("result: {}, and beside it {beside}", written.display()));
    Ok(ExitCode::SUCCESS)
}

/// The names of the files that this run has written beside the result.
fn beside_result(args: &Detect, crops: &Crops, case_id: &str) -> Vec<String> {
    let mut paths = vec![
        args.output.join(format!("{case_id}.mrk.json")),
        label_map_path(&args.output, case_id),
        region_labels_path(&args.output, case_id),
        probabilities_path(&args.output, case_id),
    ];
    paths.extend([LeafFile::All, LeafFile::First].map(|of| leaves_path(&args.output, case_id, of)));
    paths.extend(crops.names.iter().map(|name| crop_path(&args.output, case_id, name)));
    if args.explain {
        paths.extend(explanation_paths(&args.output, case_id));
    }
    // Those of an earlier run that do not belong to this one were removed.
    let names = paths.iter().filter(|path| path.is_file()).filter_map(|path| path.file_name());
    names.map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Which labels about a box are to be looked at, and the Dice coefficient to expect of them.
fn doubtful_labels(detection: &DetectionRecord) -> String {
    let doubtful = detection.labels.iter().filter(|label| label.status == Status::Doubtful);
    let label = |label: &LabelRecord| match label.predicted_dice {
        Some(dice) => format!("{} (Dice {dice:.2} to expect)", label.name),
        None => label.name.clone(),
    };
    let names: Vec<String> = doubtful.map(label).collect();
    // A box says itself that it is doubtful.
    if names.is_empty() || detection.status == Status::Doubtful {
        return String::new();
    }
    format!("; labels are unusually poor: {}", names.join(", "))
}

/// The result with paths if they are wanted.
fn named(result: ResultFile, args: &Detect) -> ResultFile {
    if args.no_paths { result.without_paths() } else { result }
}

/// Detects, and writes the result with its explanation. What is cut out is not written yet.
fn explained(
    model: &LoadedModel,
    input: Input<'_>,
    args: &Detect,
    crops: &Crops,
    (device, output): (&Device, VoxelOutput),
) -> Result<(ResultFile, Cut), Failure> {
    let explained = explain_file(model, input, device, output)?;
    let Explained { found: mut written, image, detections, explanations } = explained;
    written.result = named(written.result, args);
    let cut = crops.cut(&args.output, input, &written)?;
    write_results(&args.output, &written, output)?;
    let about = explain::About {
        case_id: input.case_id,
        coordinate_system: written.result.coordinate_system(),
        input: &written.result.input,
        record: &written.result.model,
        model: &model.model,
        image: &image.volume.numbers(),
    };
    explain::write(&args.output, &about, &detections, &explanations)?;
    Ok((written.result, cut))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{Detection, Location};

    #[test]
    fn labels_to_look_at_are_named() {
        let label = |name: &str, status, predicted_dice| LabelRecord {
            name: name.to_owned(),
            value: 1,
            status,
            volume_ml: 1.0,
            volume_90_ml: None,
            predicted_dice,
        };
        let of = |status, labels| {
            let location = Location::Box(None);
            let detection = Detection::new("egg".to_owned(), status, 0.9, location);
            doubtful_labels(&DetectionRecord { labels, ..detection.into() })
        };
        let (found, doubtful) = (Status::Found, Status::Doubtful);
        let labels = vec![label("a", found, Some(0.9)), label("b", doubtful, Some(0.614))];
        assert_eq!(
            of(found, labels.clone()),
            "; labels are unusually poor: b (Dice 0.61 to expect)"
        );
        assert_eq!(of(doubtful, labels), "");
        assert_eq!(of(found, vec![label("a", found, None)]), "");
    }
}
