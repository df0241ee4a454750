//! `pbt learning-curve`

use crate::support::{TEST, pbt, read_json, scratch, text, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

fn learning_curve(data: &Path, arguments: &[&str]) -> crate::support::Outcome {
    let config = tiny().quick_config();
    pbt(["learning-curve", "-i", text(data), "--config", text(&config)].iter().chain(arguments))
}

#[test]
fn a_curve_holds_back_training_cases_and_touches_no_test_case() {
    let (out, data) = (scratch(), tiny_copy());
    // Whoever reads a test case fails.
    for n in 6..9 {
        std::fs::write(data.path().join(format!("c{n}.nii.gz")), b"no image").unwrap();
    }
    let report = out.path().join("curve.json");
    let outcome = learning_curve(data.path(), &["-o", text(&report)]).exits_with(0);
    let report = read_json(&report);
    // Every fifth of six cases is one; halvings of the five others.
    assert_eq!(
        (&report["schema"], &report["split"], &report["tested"]),
        (&json!("pbt-learning-curve/1"), &Value::Null, &json!(["c4"]))
    );
    let sizes: Vec<u64> = report["trainings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["cases"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [2, 5]);
    let boxes = &report["series"][0];
    assert_eq!(
        (&boxes["kind"], &boxes["annotated"], &boxes["outlook"]["verdict"]),
        (&json!("box"), &json!(1), &json!("too-few-sizes"))
    );
    assert_eq!(
        boxes["sizes"][1]["center_mm"],
        report["trainings"][1]["summary"]["overall"]["center_mm"]
    );
    assert!(
        outcome.stdout.contains("cannot tell what 10 cases in place of 5 would bring"),
        "{}",
        outcome.stdout
    );
    let svg = std::fs::read_to_string(out.path().join("curve.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("boxes"));
}

#[test]
fn a_subject_is_held_back_whole() {
    let (out, data) = (scratch(), tiny_copy());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    // The fifth subject has the fifth and the sixth training case, and one of the test cases.
    for n in [4, 5, 6] {
        dataset["cases"][n]["subject"] = json!("twice");
    }
    std::fs::write(&path, dataset.to_string()).unwrap();
    let report = out.path().join("curve.json");
    learning_curve(data.path(), &["-q", "-o", text(&report), "--sizes", "4"]).exits_with(0);
    assert_eq!(read_json(&report)["tested"], json!(["c4", "c5"]));
    let too_many = learning_curve(data.path(), &["--sizes", "5"]).exits_with(4);
    assert!(too_many.error_line().contains("there are 4 cases to train on"));
    // Tested on a split, what shares a subject with it is not trained on.
    let too_many = learning_curve(data.path(), &["--split", "test", "--sizes", "5"]).exits_with(4);
    assert!(too_many.error_line().contains("there are 4 cases to train on"));
    let validation = pbt(["validate", text(data.path())]).exits_with(4);
    assert!(
        validation.stdout.contains("subject: `twice` has cases in the splits `train` and `test`"),
        "{}",
        validation.stdout
    );
}

#[test]
fn sizes_are_the_first_training_cases_and_a_split_can_be_named() {
    let out = scratch();
    let report = out.path().join("curve.json");
    // With the settings of the model that it is compared with.
    let (data, config) = (text(tiny().folder()), tiny().config());
    let curve = ["learning-curve", "-q", "-i", data, "--config", text(&config)];
    let wanted = ["-o", text(&report), "--sizes", "6,3", "--split", "test"];
    pbt(curve.into_iter().chain(wanted)).exits_with(0);
    let report = read_json(&report);
    assert_eq!(
        (&report["split"], report["tested"].as_array().unwrap().len()),
        (&json!("test"), TEST)
    );
    // All cases: the model that `pbt train` makes.
    let info = pbt(["info", "--json", text(&tiny().model())]).exits_with(0);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    assert_eq!(
        (&report["trainings"][0]["cases"], &report["trainings"][1]["cases"]),
        (&json!(3), &json!(6))
    );
    assert_eq!(report["trainings"][1]["model_sha256"], info["model"]["sha256"]);
    assert_ne!(report["trainings"][0]["model_sha256"], info["model"]["sha256"]);
}

#[test]
fn what_gives_no_curve_is_said_in_one_line() {
    let folder = tiny().folder();
    let refused = |arguments: &[&str], code: i32, what: &str| {
        let outcome = learning_curve(folder, arguments).exits_with(code);
        assert!(outcome.error_line().contains(what), "{}", outcome.stderr);
    };
    refused(&["--sizes", "1"], 4, "--sizes: 1: there are 5 cases to train on, and 2 are the least");
    refused(&["--sizes", "6"], 4, "--sizes: 6: there are 5 cases");
    refused(&["--split", "train"], 2, "--split: `train`");
    refused(&["--split", "tset"], 4, "cases: none has the split `tset`");
    refused(
        &["-o", text(&folder.join("dataset.json/curve.json"))],
        1,
        "curve.json: file: cannot be written",
    );
    refused(&["-o", "curve.svg"], 2, "would overwrite");
    learning_curve(folder, &["--sizes", "x"]).exits_with(2);
    // Six cases for training, of four subjects.
    let data = tiny_copy();
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    for n in 0..3 {
        dataset["cases"][n]["subject"] = json!("thrice");
    }
    std::fs::write(&path, dataset.to_string()).unwrap();
    let outcome = learning_curve(data.path(), &[]).exits_with(4);
    let what = "cases: those of the split `train` are of fewer than 5 subjects";
    assert!(outcome.error_line().contains(what), "{}", outcome.stderr);
}
