//! Data sets of landmarks without a box: their box follows from them and is not among the results.

use crate::support::{
    SMALL, TEST, TRAINING, pbt, program, read_json, refused, scratch, text, tiny, tiny_copy, train,
};
use crate::trivial::{assert_beaten, trivial};
use nalgebra::Vector3;
use pbt_io::{Annotations, Landmark, LandmarkState, read_markups, write_markups};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// Share of the error of a detector that does not look at images that six cases must stay below.
const BEATEN: f64 = 0.5;

/// Places in the box of the tiny data set, shares of its edges; the first two are mirror twins.
const PLACES: [(&str, [f64; 3]); 6] = [
    ("left", [0.5, 0.0, 0.0]),
    ("right", [-0.5, 0.0, 0.0]),
    ("front", [0.0, -0.5, 0.0]),
    ("back", [0.0, 0.5, 0.0]),
    ("top", [0.0, 0.0, 0.5]),
    ("bottom", [0.0, 0.0, -0.5]),
];

/// The tiny data set with landmarks in place of its box; a case lacks one of them.
fn points_only() -> TempDir {
    let folder = tiny_copy();
    let file = folder.path().join("dataset.json");
    let mut dataset = read_json(&file);
    let structure = |(name, _): &(&str, _)| json!({ "name": name, "kind": "landmark" });
    dataset["structures"] = PLACES.iter().map(structure).collect();
    dataset["structures"][0]["partner"] = json!("right");
    dataset["structures"][1]["partner"] = json!("left");
    for (n, case) in dataset["cases"].as_array().unwrap().iter().enumerate() {
        let path = folder.path().join(case["annotations"].as_str().unwrap());
        let pose = read_markups(&path).unwrap().boxes[0].1;
        let landmark = |(name, share): &(&str, [f64; 3])| {
            let point = pose.to_lps(Vector3::from_fn(|a, _| share[a] * pose.size_mm[a]));
            Landmark { name: (*name).to_owned(), state: LandmarkState::At(point) }
        };
        let own = PLACES.iter().filter(|(name, _)| *name != "top" || n != 1);
        let landmarks: Vec<Landmark> = own.map(landmark).collect();
        write_markups(&path, &[], &landmarks, |_| String::new()).unwrap();
    }
    std::fs::write(&file, dataset.to_string()).unwrap();
    folder
}

#[test]
fn landmarks_without_a_box_are_trained_found_and_evaluated() {
    let (data, out) = (points_only(), scratch());
    pbt(["validate", text(data.path())]).exits_with(0);
    // Landmarks in pairs have mirrored copies unless the settings say otherwise.
    let config = out.path().join("small.toml");
    std::fs::write(&config, SMALL).unwrap();
    let set = ["train", "-i", text(data.path()), "--config", text(&config)];
    let model = |name: &str, threads: &str| {
        let model = out.path().join(name);
        let wanted = ["-o", text(&model), "-q", "--threads", threads];
        pbt(set.iter().chain(&wanted)).exits_with(0);
        model
    };
    let one = model("one.pbt", "1");
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    assert!(bytes(&one) == bytes(&model("two.pbt", "2")), "another model with two threads");
    let info = pbt(["info", "--json", text(&one)]).exits_with(0).stdout;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["model"]["provenance"]["copies"], 1);
    let again = pbt(set.iter().chain(&["-o", text(&one), "--resume"])).exits_with(0);
    assert!(again.stderr.contains("one.pbt: is finished, of the same cases"), "{}", again.stderr);
    // One of the same name in a folder of models is not the file that was asked for.
    let mut elsewhere = std::process::Command::new(program("pbt"));
    elsewhere.args(set).args(["-o", "one.pbt", "--resume"]).current_dir(data.path());
    assert!(elsewhere.env("PBT_MODELS", out.path()).output().unwrap().status.success());
    assert!(bytes(&data.path().join("one.pbt")) == bytes(&one));

    let image = data.path().join("c7.nii.gz");
    pbt(["detect", "-q", "-m", text(&one), "-i", text(&image), "-o", text(out.path())])
        .exits_with(0);
    let result = read_json(&out.path().join("c7.json"));
    let found = result["detections"].as_array().unwrap();
    let names: Vec<&str> = found.iter().map(|d| d["name"].as_str().unwrap()).collect();
    assert_eq!(names, PLACES.map(|(name, _)| name));
    assert!(found.iter().all(|d| d["kind"] == "landmark" && d["orientation"].is_null()));
    let tolerance_mm = found[0]["tolerance_mm"].as_f64().unwrap();
    let Annotations { boxes, landmarks, .. } =
        read_markups(&out.path().join("c7.mrk.json")).unwrap();
    assert!(boxes.is_empty() && landmarks.len() == PLACES.len());

    let report = out.path().join("report.json");
    pbt(["evaluate", "-q", "-m", text(&one), "-i", text(data.path()), "-o", text(&report)])
        .exits_with(0);
    let report = read_json(&report);
    // What is right is the same to a score and to an evaluation, but for the size of the box.
    for record in report["records"].as_array().unwrap() {
        let share = record["tolerance_mm"].as_f64().unwrap() / tolerance_mm;
        assert!((share - 1.0).abs() < 0.2, "{record}: {share}");
    }
    assert_beaten(&report, &trivial(data.path(), TRAINING, TEST), BEATEN, BEATEN);

    // With another data set, the box that stands for the landmarks is none of what is found.
    let other = ["evaluate", "-m", text(&one), "-i", text(tiny().folder())];
    let error = pbt(other).exits_with(4).error_line().to_owned();
    assert!(error.contains("none of those that the data set has (gland) is among"), "{error}");
    assert!(error.ends_with("(is this the model of this data set?)"), "{error}");
    assert!(!error.contains("box of the landmark"), "{error}");
}

#[test]
fn one_point_of_many_is_refused_and_one_in_all_is_a_position() {
    let (data, out) = (points_only(), scratch());
    let markups = data.path().join("c2.mrk.json");
    let mut landmarks = read_markups(&markups).unwrap().landmarks;
    landmarks.truncate(1);
    write_markups(&markups, &[], &landmarks, |_| String::new()).unwrap();
    let model = out.path().join("m.pbt");
    let parts =
        ["c2.mrk.json: landmarks: 1 of 6 landmarks do not tell how the structure is turned"];
    refused(train(data.path(), &model, &["-q"]), 4, &parts);
    let listed = pbt(["validate", text(data.path())]).exits_with(4);
    assert!(
        listed.stdout.contains(parts[0]) || listed.stderr.contains(parts[0]),
        "{}",
        listed.stdout
    );

    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["structures"] = json!([{ "name": "left", "kind": "landmark" }]);
    std::fs::write(&file, dataset.to_string()).unwrap();
    train(data.path(), &model, &["-q"]).exits_with(0);
    let image = data.path().join("c7.nii.gz");
    pbt(["detect", "-q", "-m", text(&model), "-i", text(&image), "-o", text(out.path())])
        .exits_with(0);
    let result = read_json(&out.path().join("c7.json"));
    assert_eq!(result["detections"].as_array().unwrap().len(), 1);

    dataset["structures"][0]["parent"] = json!("left");
    dataset["structures"][0]["name"] = json!("(box of the landmarks)");
    std::fs::write(&file, dataset.to_string()).unwrap();
    refused(train(data.path(), &model, &["-q"]), 4, &["structures[0].name: is a name that pbt"]);
}
