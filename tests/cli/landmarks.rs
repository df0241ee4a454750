//! Landmarks: trained with their box, found in its frame, written, evaluated, listed.

use crate::geometry::part;
use crate::support::{
    NO_CERTAINTY, TEST, TRAINING, numbers, pbt, read_json, scratch, small_and, text, tiny,
    tiny_copy,
};
use crate::trivial::{assert_beaten, trivial};
use nalgebra::Vector3;
use pbt_io::{Landmark, LandmarkState, read_markups, read_raw, write_image, write_markups};
use pbt_volume::PointLps;
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// Share of the error of a detector that does not look at images that six cases must stay below.
const BEATEN: f64 = 0.5;

/// Places in the box, shares of its edges.
const PLACES: [(&str, [f64; 3]); 3] =
    [("tip", [0.5, 0.0, 0.0]), ("side", [0.0, 0.4, -0.2]), ("rare", [-0.3, 0.0, 0.3])];

/// The tiny data set with three landmarks: `tip` is out of view in one case, `rare` is annotated in
/// the first `rare` cases only.
pub(crate) fn with_landmarks(rare: usize) -> TempDir {
    let folder = tiny_copy();
    let file = folder.path().join("dataset.json");
    let mut dataset = read_json(&file);
    let structures = dataset["structures"].as_array_mut().unwrap();
    structures.extend(
        PLACES
            .iter()
            .map(|(name, _)| json!({ "name": name, "kind": "landmark", "parent": "gland" })),
    );
    for (n, case) in dataset["cases"].as_array().unwrap().iter().enumerate() {
        let path = folder.path().join(case["annotations"].as_str().unwrap());
        let boxes = read_markups(&path).unwrap().boxes;
        let pose = boxes[0].1;
        let wanted = PLACES.iter().filter(|(name, _)| *name != "rare" || n < rare);
        let landmarks: Vec<Landmark> = wanted
            .map(|(name, share)| {
                let point = pose.to_lps(Vector3::from_fn(|a, _| share[a] * pose.size_mm[a]));
                let state = if *name == "tip" && n == 1 {
                    LandmarkState::OutOfView
                } else {
                    LandmarkState::At(point)
                };
                Landmark { name: (*name).to_owned(), state }
            })
            .collect();
        write_markups(&path, &boxes, &landmarks, |_| String::new()).unwrap();
    }
    std::fs::write(&file, dataset.to_string()).unwrap();
    folder
}

#[test]
fn landmarks_from_training_to_the_report() {
    let data = with_landmarks(3);
    let out = scratch();
    let train = |name: &str, config: &Path, threads: &str, more: &[&str]| {
        let model = out.path().join(name);
        let arguments = [
            "train",
            "-q",
            "-i",
            text(data.path()),
            "-o",
            text(&model),
            "--config",
            text(config),
            "--threads",
            threads,
        ];
        pbt(arguments.iter().chain(more)).exits_with(0);
        model
    };
    let (config, quick) = (tiny().config(), tiny().quick_config());
    let model = train("all.pbt", &config, "1", &[]);
    let with_two = train("two.pbt", &config, "2", &[]);
    assert!(
        std::fs::read(&model).unwrap() == std::fs::read(with_two).unwrap(),
        "another model with two threads"
    );

    // A landmark alone brings its box.
    let alone = train("alone.pbt", &quick, "2", &["--structure", "side"]);
    let listed = |model: &Path| {
        let info = pbt(["info", "--json", text(model)]).exits_with(0);
        let info: serde_json::Value = serde_json::from_str(&info.stdout).unwrap();
        let gland = &info["model"]["structures"][0];
        assert_eq!(gland["name"], "gland");
        let landmarks = gland["landmarks"].as_array().unwrap().clone();
        landmarks
            .iter()
            .map(|l| (l["name"].as_str().unwrap().to_owned(), l["cases"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&alone), [("side".to_owned(), 6)]);
    assert_eq!(
        listed(&model),
        [("tip".to_owned(), 5), ("side".to_owned(), 6), ("rare".to_owned(), 3)]
    );
    assert!(pbt(["info", text(&model)]).exits_with(0).stdout.contains("3: tip, side, rare"));

    let image = data.path().join("c7.nii.gz");
    pbt(["detect", "-q", "-m", text(&model), "-i", text(&image), "-o", text(out.path())])
        .exits_with(0);
    let result = read_json(&out.path().join("c7.json"));
    let found = result["detections"].as_array().unwrap();
    assert_eq!(
        found.iter().map(|d| d["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["gland", "tip", "side", "rare"]
    );
    let written = read_markups(&out.path().join("c7.mrk.json")).unwrap();
    for d in &found[1..] {
        assert!(
            d["kind"] == "landmark" && d["orientation"].is_null() && d["size_mm"].is_null(),
            "{d}"
        );
        assert!(d["score"].as_f64().unwrap() <= found[0]["score"].as_f64().unwrap());
        let name = d["name"].as_str().unwrap();
        let Some(LandmarkState::At(point)) = written.landmark(name) else {
            panic!("{name} is not in the markups")
        };
        let [x, y, z] = numbers(&d["position_lps_mm"]);
        assert_eq!((point.0.x, point.0.y, point.0.z), (x, y, z));
    }
    assert_eq!(found[0]["visible"], 1.0);
    assert!(found[1..].iter().all(|d| d.get("visible").is_none()));
    the_tip_is_cut_off(&model, &image, found);

    let report = out.path().join("report.json");
    pbt(["evaluate", "-q", "-m", text(&model), "-i", text(data.path()), "-o", text(&report)])
        .exits_with(0);
    let report = read_json(&report);
    assert_beaten(&report, &trivial(data.path(), TRAINING, TEST), BEATEN, BEATEN);
    let figures = report["summary"]["structures"].as_array().unwrap();
    let annotated =
        |name: &str| figures.iter().find(|f| f["structure"] == name).unwrap()["annotated"].as_u64();
    assert_eq!(
        (annotated("tip"), annotated("side"), annotated("rare")),
        (Some(3), Some(3), Some(0))
    );
}

/// Cuts the image between the middle of the gland and its tip, two voxels before the tip.
fn the_tip_is_cut_off(model: &Path, image: &Path, found: &[serde_json::Value]) {
    let (raw, out) = (read_raw(image).unwrap().raw, scratch());
    let voxel = |d: &serde_json::Value| {
        let [x, y, z] = numbers(&d["position_lps_mm"]);
        raw.geometry().to_index(PointLps::new(x, y, z)).0
    };
    let (middle, tip) = (voxel(&found[0]), voxel(&found[1]));
    let axis = (tip - middle).iamax();
    let (mut from, mut to) = ([0; 3], raw.geometry().shape());
    if tip[axis] > middle[axis] {
        to[axis] = tip[axis] as usize - 1;
    } else {
        from[axis] = tip[axis] as usize + 3;
    }
    let cut = out.path().join("cut.nrrd");
    write_image(&cut, &part(&raw, from, to)).unwrap();
    pbt(["detect", "-q", "-m", text(model), "-i", text(&cut), "-o", text(out.path())])
        .exits_with(0);
    let result = read_json(&out.path().join("cut.json"));
    let (gland, tip) = (&result["detections"][0], &result["detections"][1]);
    let visible = gland["visible"].as_f64().unwrap();
    assert!(gland["status"] == "found" && (0.7..1.0).contains(&visible), "{gland}");
    assert!(tip["status"] == "outside" && tip["position_lps_mm"].is_array(), "{tip}");
}

#[test]
fn landmarks_that_cannot_be_trained_are_named() {
    let train = |data: &Path| {
        let out = scratch();
        pbt(["train", "-q", "-i", text(data), "-o", text(&out.path().join("m.pbt"))]).exits_with(4)
    };
    let outcome = train(with_landmarks(1).path());
    assert!(
        outcome.error_line().contains("structures: rare: 1 training case(s)"),
        "{}",
        outcome.stderr
    );

    let data = with_landmarks(3);
    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["structures"][2]["parent"] = json!("tip");
    std::fs::write(&file, dataset.to_string()).unwrap();
    let outcome = train(data.path());
    assert!(
        outcome.error_line().contains("structures: side: its parent is not of the kind `box`"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn landmarks_in_a_close_up() {
    let (data, out) = (with_landmarks(6), scratch());
    let train = |name: &str, halvings: u8, threads: &str| {
        let (config, model) = (out.path().join("near.toml"), out.path().join(name));
        let close = format!("[working]\nspacing_mm = 3.6\n[landmarks]\nhalvings = {halvings}\n");
        std::fs::write(&config, small_and(&[NO_CERTAINTY, &close])).unwrap();
        let arguments = [
            "train",
            "-q",
            "-i",
            text(data.path()),
            "-o",
            text(&model),
            "--config",
            text(&config),
            "--threads",
            threads,
        ];
        (pbt(arguments), model)
    };
    let trained = |name: &str, halvings: u8, threads: &str| {
        let (outcome, model) = train(name, halvings, threads);
        outcome.exits_with(0);
        model
    };
    let near = trained("near.pbt", 1, "1");
    let bytes = |model: &Path| std::fs::read(model).unwrap();
    assert!(bytes(&near) == bytes(&trained("two.pbt", 1, "2")), "another model with two threads");
    assert!(bytes(&near) != bytes(&trained("far.pbt", 0, "2")), "the close-up makes no difference");
    // The images have 1.8 mm; finer voxels would show nothing more.
    let resolved = |model: &str| {
        std::fs::read_to_string(out.path().join(model).with_extension("train.toml")).unwrap()
    };
    trained("finer.pbt", 3, "2");
    assert!(
        resolved("finer.pbt").contains("halvings = 1")
            && resolved("far.pbt").contains("halvings = 0")
    );

    pbt([
        "detect",
        "-q",
        "-m",
        text(&near),
        "-i",
        text(&data.path().join("c7.nii.gz")),
        "-o",
        text(out.path()),
    ])
    .exits_with(0);
    let result = read_json(&out.path().join("c7.json"));
    assert!(result["run"]["timing_ms"]["landmarks"].as_f64().is_some_and(|ms| ms > 0.0));
    let report = out.path().join("report.json");
    pbt(["evaluate", "-q", "-m", text(&near), "-i", text(data.path()), "-o", text(&report)])
        .exits_with(0);
    assert_beaten(&read_json(&report), &trivial(data.path(), TRAINING, TEST), BEATEN, BEATEN);

    let refused = train("nine.pbt", 9, "1").0.exits_with(4);
    assert!(
        refused.error_line().contains("landmarks.halvings: 9 is not between 0 and 4"),
        "{}",
        refused.stderr
    );
}
