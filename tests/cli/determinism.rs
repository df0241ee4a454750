//! The same bytes for the same data, configuration and seed, whatever the number of threads and
//! however often a training was interrupted.

use crate::column::{MEMBERS, TEST, column};
use crate::support::{
    NO_CERTAINTY, TRAINING, VOXELS, numbers, pbt, read_json, scratch, small_and, text, tiny,
};
use pbt_volume::{PointLps, Pose};
use serde_json::Value;
use std::path::Path;

/// Trains on the tiny data set with these settings beside the small ones and returns model and
/// resolved configuration.
fn trained(settings: &[&str], threads: &str, more: &[&str]) -> [Vec<u8>; 2] {
    let out = scratch();
    let (config, model) = (out.path().join("c.toml"), out.path().join("m.pbt"));
    std::fs::write(&config, small_and(settings)).unwrap();
    let data = tiny().folder();
    let arguments = [
        "train",
        "-q",
        "-i",
        text(data),
        "-o",
        text(&model),
        "--config",
        text(&config),
        "--threads",
        threads,
    ];
    pbt(arguments.iter().chain(more)).exits_with(0);
    ["m.pbt", "m.train.toml"].map(|file| std::fs::read(out.path().join(file)).unwrap())
}

/// Every classifier and finish, small enough for seconds, and mirrored copies.
pub(crate) const VARIANTS: [(&str, &[&str]); 5] = [
    ("", &["--classifier", "pbt"]),
    ("[augmentation]\ncopies = 1\n", &[]),
    ("[classifier.pbt_forest]\ntrees = 3\n", &["--classifier", "pbt-forest"]),
    ("[classifier.random_forest]\ntrees = 4\ndepth = 4\n", &["--classifier", "random-forest"]),
    ("[refinement]\nkind = \"classification\"\nhypotheses = 60\n", &[]),
];

/// Each training is a process of its own, so that this also compares one run with the next. Cases are held
/// out with mirrored copies and in the last one only: that trains the same stages again.
#[test]
fn models_are_the_same_with_any_number_of_threads() {
    let mut models = Vec::new();
    for (settings, more) in &VARIANTS[1..] {
        let settings = if settings.contains("copies") {
            vec![*settings]
        } else {
            vec![*settings, NO_CERTAINTY]
        };
        let first = trained(&settings, "1", more);
        assert!(
            first == trained(&settings, "2", more),
            "{settings:?} {more:?}: another model with two threads"
        );
        models.push(first[0].clone());
    }
    // The comparison means something: other settings and other seeds give other models.
    models.push(trained(&[NO_CERTAINTY], "2", &["--seed", "1"])[0].clone());
    models.push(trained(&[], "3", &[])[0].clone());
    assert!(models.last() == Some(&std::fs::read(tiny().model()).unwrap()));
    models.sort();
    models.dedup();
    assert_eq!(models.len(), VARIANTS.len() + 1);
}

/// Where memory is short for the finest levels of all images, they are in a file.
#[test]
fn a_model_is_the_same_where_images_are_in_a_temporary_file() {
    let memory = 24_000_000;
    let finest = TRAINING * 2 * VOXELS.pow(3);
    assert!(finest > memory / 32, "{finest} bytes would be held in memory");
    let memory = memory.to_string();
    let stored = trained(&[], "2", &["--memory", &memory]);
    assert_eq!(stored[0], std::fs::read(tiny().model()).unwrap());
}

/// A model of the column, with more arguments of `train`; what it finds in the images for tests and in a part
/// of the first; and what `info` says of it.
fn column_with(threads: &str, more: &[&str]) -> (Vec<u8>, Vec<Value>, String) {
    let out = scratch();
    let (model, config) = (out.path().join("m.pbt"), column().config());
    let with = |arguments: &[&str]| {
        pbt(arguments.iter().chain(&["-q", "--threads", threads])).exits_with(0);
    };
    let data = text(column().folder());
    let wanted = ["train", "-i", data, "-o", text(&model), "--config", text(&config)];
    with(&[&wanted[..], more].concat());
    let results = column().images().into_iter().chain([column().part()]).map(|image| {
        with(&["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())]);
        let name = image.file_name().unwrap().to_str().unwrap().replace("nii.gz", "json");
        let mut result = read_json(&out.path().join(name));
        result.as_object_mut().unwrap().remove("run");
        result
    });
    let results = results.collect();
    let card = pbt(["info", text(&model)]).exits_with(0).stdout;
    (std::fs::read(&model).unwrap(), results, card)
}

/// Several boxes: the network and its test of the level, what neighbours say of each other's poses,
/// and landmarks have their own sums.
#[test]
fn a_chain_of_look_alikes_is_the_same_with_any_number_of_threads() {
    let first = column_with("1", &[]);
    // The comparison means something: the model has all parts, and the chain is found.
    let chain = MEMBERS.join(" - ");
    let reversed = MEMBERS.iter().rev().copied().collect::<Vec<_>>().join(" - ");
    assert!(first.2.contains(&chain) || first.2.contains(&reversed), "no chain in {}", first.2);
    assert!(first.2.contains("tip"), "no landmark in {}", first.2);
    let near = |image: &Path, result: &Value| -> Vec<String> {
        let found = result["detections"].as_array().unwrap();
        let is_near = |(name, pose): &(String, Pose)| {
            let detection = found.iter().find(|d| d["name"] == name.as_str()).unwrap();
            detection["position_lps_mm"].is_array() && {
                let [x, y, z] = numbers(&detection["position_lps_mm"]);
                pose.center.distance_mm(&PointLps::new(x, y, z)) < 8.0
            }
        };
        column().boxes(image).into_iter().filter(is_near).map(|(name, _)| name).collect()
    };
    let images = column().images();
    let whole: usize = images.iter().zip(&first.1).map(|(i, r)| near(i, r).len()).sum();
    assert!(whole >= MEMBERS.len() * TEST / 2, "{whole} are near the truth");
    let in_part = near(&images[0], &first.1[TEST]);
    assert!(in_part.starts_with(&[MEMBERS[0].to_owned(), MEMBERS[1].to_owned()]), "{in_part:?}");
    // So many that structures are trained side by side.
    let again = column_with("9", &[]);
    assert!(first.0 == again.0, "another model with nine threads");
    assert_eq!(first.1, again.1, "nine threads");
}

/// One of the column alone, without the others' names: its place tells it from them.
#[test]
fn one_of_several_look_alikes_is_the_same_with_any_number_of_threads() {
    let first = column_with("1", &["--structure", "v3"]);
    assert!(first.2.contains("where it lies in the image counts"), "no place in {}", first.2);
    let again = column_with("5", &["--structure", "v3"]);
    assert!(first.0 == again.0, "another model with five threads");
    assert_eq!(first.1, again.1, "five threads");
}

#[test]
fn the_resolved_configuration_gives_the_model_again() {
    let out = scratch();
    // The folder is made.
    let again = out.path().join("some/where/m.pbt");
    let resolved = tiny().model().with_extension("train.toml");
    pbt([
        "train",
        "-q",
        "-i",
        text(tiny().folder()),
        "-o",
        text(&again),
        "--config",
        text(&resolved),
    ])
    .exits_with(0);
    // The model says which keys the user had set, so that only what was learned is compared.
    let learned = |model: &Path| {
        let info = pbt(["info", "--json", text(model)]).exits_with(0);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        info["model"]["structures"].clone()
    };
    assert_eq!(learned(&again), learned(&tiny().model()));
    assert_eq!(
        std::fs::read(again.with_extension("train.toml")).unwrap(),
        std::fs::read(resolved).unwrap()
    );
}

#[test]
fn detections_are_the_same_but_for_the_record_of_the_run() {
    let found = |threads: &str| {
        let out = scratch();
        let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
        pbt([
            "detect",
            "-q",
            "-m",
            text(&model),
            "-i",
            text(&image),
            "-o",
            text(out.path()),
            "--threads",
            threads,
        ])
        .exits_with(0);
        let result = std::fs::read_to_string(out.path().join("c7.json")).unwrap();
        let (before, run) = result.split_once("\n  \"run\": {").expect("`run` comes last");
        assert!(
            run.trim_end().ends_with('}')
                && read_json(&out.path().join("c7.json"))["run"]["device"]["threads"]
                    == threads.parse::<u64>().unwrap()
        );
        (before.to_owned(), std::fs::read(out.path().join("c7.mrk.json")).unwrap())
    };
    let first = found("1");
    assert!(first == found("1") && first == found("2") && first == found("5"));
}

#[test]
fn nothing_moves_on_stderr_when_it_is_no_terminal() {
    let out = scratch();
    let model = out.path().join("m.pbt");
    let outcome = pbt([
        "train",
        "-i",
        text(tiny().folder()),
        "-o",
        text(&model),
        "--config",
        text(&tiny().quick_config()),
    ])
    .exits_with(0);
    // How many lines of progress there are depends on how long it takes.
    let lines = outcome.stderr.lines().filter(|line| !line.contains(" gone")).count();
    assert!(!outcome.stderr.contains(['\r', '\u{1b}']) && lines <= 5, "{:?}", outcome.stderr);
    let outcome =
        pbt(["batch", "-m", text(&model), "-i", text(tiny().folder()), "-o", text(out.path())])
            .exits_with(0);
    assert!(
        !outcome.stderr.contains(['\r', '\u{1b}']) && outcome.stderr.lines().count() <= 2,
        "{:?}",
        outcome.stderr
    );
    let outcome = pbt([
        "train",
        "-q",
        "-i",
        text(tiny().folder()),
        "-o",
        text(&model),
        "--config",
        text(&tiny().quick_config()),
    ])
    .exits_with(0);
    assert_eq!((outcome.stdout, outcome.stderr), (String::new(), String::new()));
}

#[cfg(unix)]
mod interrupted {
    use super::*;
    use crate::support::{interrupt_when_there, start};

    #[test]
    fn a_training_goes_on_where_it_was() {
        let out = scratch();
        let (model, partial) = (out.path().join("m.pbt"), out.path().join("m.partial"));
        std::fs::copy(tiny().model(), &model).unwrap();
        let config = tiny().config();
        let arguments = [
            "train",
            "-i",
            text(tiny().folder()),
            "-o",
            text(&model),
            "--config",
            text(&config),
            "--threads",
            "1",
        ];
        let (code, stderr) = interrupt_when_there(start(&arguments), &partial);
        assert_eq!(code, Some(130), "{stderr}");
        assert!(
            stderr.contains("m.partial; go on with --resume")
                && stderr.lines().last() == Some("error: interrupted"),
            "{stderr}"
        );
        assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(tiny().model()).unwrap());
        let mut files: Vec<_> = std::fs::read_dir(out.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        assert_eq!(files, ["m.partial", "m.pbt"]);
        // The checkpoint is no model.
        let image = tiny().folder().join("c7.nii.gz");
        let detected =
            pbt(["detect", "-m", text(&partial), "-i", text(&image), "-o", text(out.path())])
                .exits_with(5);
        assert!(
            detected.error_line().contains("stages: its training was not finished"),
            "{}",
            detected.stderr
        );
        // Nor does it serve another seed.
        let other = pbt(arguments.iter().chain(&["--resume", "--seed", "7"])).exits_with(5);
        assert!(
            other.error_line().contains("m.partial: provenance: ")
                && other.stderr.contains("another seed: 0, now 7 (go on with the same"),
            "{}",
            other.stderr
        );

        let other = ["--resume", "--classifier", "random-forest"];
        let other = pbt(arguments.iter().chain(&other)).exits_with(5);
        assert!(
            other
                .error_line()
                .contains("another configuration: `classifier.kind` is \"pbt\", now \""),
            "{}",
            other.stderr
        );

        pbt(arguments.iter().chain(&["--resume"])).exits_with(0);
        assert!(
            std::fs::read(&model).unwrap() == std::fs::read(tiny().model()).unwrap(),
            "resuming gives another model"
        );
        assert!(!partial.exists());
        // What is finished is not trained again: not a file is touched.
        let settings = model.with_extension("train.toml");
        std::fs::write(&settings, "mine").unwrap();
        let again = pbt(arguments.iter().chain(&["--resume"])).exits_with(0);
        assert!(again.stderr.contains("m.pbt: is finished, of the same cases"), "{}", again.stderr);
        assert_eq!(std::fs::read(&settings).unwrap(), b"mine");
        // Of other cases it is another model.
        let other = pbt(arguments.iter().chain(&["--resume", "--cases", "5"])).exits_with(0);
        assert!(other.stderr.contains("nothing to resume, starting anew"), "{}", other.stderr);
        assert_eq!(read_json(&model.with_extension("train.json"))["cases"], 5);
    }

    #[test]
    fn a_batch_keeps_what_it_has() {
        let (out, list) = (scratch(), scratch());
        // Some seconds of work.
        let mut rows = String::from("case_id,path\n");
        for n in 0..400 {
            rows.push_str(&format!(
                "r{n},{}\n",
                tiny().folder().join(format!("c{}.nii.gz", n % 9)).display()
            ));
        }
        let list = {
            let path = list.path().join("list.csv");
            std::fs::write(&path, rows).unwrap();
            (list, path)
        };
        let model = tiny().model();
        let arguments = [
            "batch",
            "-m",
            text(&model),
            "-i",
            text(&list.1),
            "-o",
            text(out.path()),
            "--threads",
            "1",
        ];
        let (code, stderr) = interrupt_when_there(start(&arguments), &out.path().join("r3.json"));
        assert_eq!(code, Some(130), "{stderr}");
        let run = read_json(&out.path().join("run.json"));
        let detected = run["counts"]["detected"].as_u64().unwrap() as usize;
        assert!((4..400).contains(&detected), "{detected}");
        let table = std::fs::read_to_string(out.path().join("detections.csv")).unwrap();
        assert_eq!(table.lines().count(), 1 + detected);
        let hidden = |e: std::io::Result<std::fs::DirEntry>| {
            e.unwrap().file_name().to_string_lossy().starts_with('.')
        };
        assert!(!std::fs::read_dir(out.path()).unwrap().any(hidden), "a temporary file is left");
    }
}
