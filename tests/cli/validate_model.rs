//! `pbt validate --model`: boxes that a model is sure to find elsewhere.

use crate::absence::write_noise;
use crate::support::{Outcome, pbt, read_json, scratch, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

/// `pbt validate --model --json` with more arguments.
fn ask(data: &Path, model: &Path, more: &[&str]) -> Outcome {
    let [data, model] = [data, model].map(|path| path.to_str().unwrap());
    pbt(["validate", data, "--model", model, "--json"].iter().chain(more))
}

/// The cases that the model contradicts, and what it says of them.
fn contradicted(outcome: &Outcome) -> Vec<(Value, String)> {
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let said = findings.iter().filter_map(|f| {
        let message = f["message"].as_str()?;
        (message.contains("from its annotation")).then(|| (f["cases"].clone(), message.to_owned()))
    });
    said.collect()
}

/// Moves the box of a case along x.
fn move_box(data: &Path, case: &str, by_mm: f64) {
    let path = data.join(format!("{case}.mrk.json"));
    let mut markups = read_json(&path);
    let x = &mut markups["markups"][0]["center"][0];
    *x = json!(x.as_f64().unwrap() + by_mm);
    std::fs::write(path, markups.to_string()).unwrap();
}

const ITSELF: &str = "for training cases the model itself is asked";

#[test]
fn a_moved_box_of_a_test_case_is_named() {
    let data = tiny_copy();
    let model = data.path().join("gland.pbt");
    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    assert!(contradicted(&outcome).is_empty() && outcome.stderr.is_empty(), "{}", outcome.stdout);
    move_box(data.path(), "c7", 14.0);
    let picture = data.path().join("odd.svg");
    let outcome = ask(data.path(), &model, &["--picture", picture.to_str().unwrap()]).exits_with(0);
    let [(cases, message)] = &contradicted(&outcome)[..] else { panic!("{}", outcome.stdout) };
    assert_eq!(cases, &json!(["c7"]));
    assert!(message.starts_with("c7: gland: found 1"), "{message}");
    assert!(message.ends_with("with a score of 0.88 (look at the annotation)"), "{message}");
    let svg = std::fs::read_to_string(&picture).unwrap();
    assert!(svg.contains("1 case(s) to look at") && svg.contains(">c7: gland<"));
    assert!(svg.contains("a model finds it 1") && svg.contains(">expected<"));
    // Without what its training found in held-out cases, the model is asked in all cases.
    std::fs::remove_file(data.path().join("gland.train.json")).unwrap();
    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    assert_eq!(contradicted(&outcome).len(), 1);
    assert!(outcome.stderr.lines().count() == 1 && outcome.stderr.contains(ITSELF));
    // What it cannot tell is counted.
    let image = data.path().join("c8.nii.gz");
    write_noise(&image, pbt_io::read_raw(&image).unwrap().raw.geometry().clone(), 8);
    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    let told = "of 9 boxes annotated in the cases that were searched 1 are not compared";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
}

#[test]
fn a_moved_box_of_a_training_case_is_known_from_its_training() {
    let data = tiny_copy();
    move_box(data.path(), "c2", 14.0);
    let config = data.path().join("small.toml");
    // Among six cases with a wrong one, no score is high.
    let settings =
        std::fs::read_to_string(&config).unwrap() + "[verification]\ndoubtful_below = 0.6\n";
    std::fs::write(&config, settings).unwrap();
    let model = data.path().join("moved.pbt");
    let [i, o, c] = [data.path(), &model, &config].map(|path| path.to_str().unwrap());
    let training = pbt(["train", "-i", i, "-o", o, "--config", c]).exits_with(0);
    let report = read_json(&data.path().join("moved.train.json"));
    let [suspicion] = &report["suspicions"].as_array().unwrap()[..] else { panic!("{report:#}") };
    assert_eq!(
        [&suspicion["case"], &suspicion["name"], &suspicion["status"]],
        ["c2", "gland", "found"]
    );
    assert!(suspicion["off_mm"].as_f64().unwrap() > 10.0 && suspicion["size_mm"][2].is_number());
    let known: Vec<&Value> =
        report["training_cases"].as_array().unwrap().iter().map(|c| &c["case"]).collect();
    assert_eq!(known, ["c0", "c1", "c2", "c3", "c4", "c5"]);

    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    let said = contradicted(&outcome);
    let of_c2: Vec<&String> =
        said.iter().filter(|(cases, _)| *cases == json!(["c2"])).map(|(_, m)| m).collect();
    assert!(of_c2.len() == 1, "{}", outcome.stdout);
    assert!(!outcome.stderr.contains(ITSELF), "{}", outcome.stderr);
    assert!(training.stderr.contains(&format!("warning: {}", of_c2[0])), "{}", training.stderr);
    assert_eq!(report["warnings"], json!([of_c2[0]]));
    // Once the annotation is mended, there is nothing to say.
    move_box(data.path(), "c2", -14.0);
    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    assert!(contradicted(&outcome).iter().all(|(cases, _)| *cases != json!(["c2"])));
    // What is beside another model says nothing of this one.
    std::fs::copy(tiny().folder().join("gland.train.json"), data.path().join("moved.train.json"))
        .unwrap();
    let outcome = ask(data.path(), &model, &[]).exits_with(0);
    assert!(outcome.stderr.contains(ITSELF) && outcome.stderr.contains("is of another model"));
}

#[test]
fn what_a_model_cannot_be_asked_is_an_error() {
    let (data, out) = (tiny_copy(), scratch());
    let model = tiny().model();
    ask(data.path(), &out.path().join("none.pbt"), &[]).exits_with(4).error_line();
    let text = out.path().join("text.pbt");
    std::fs::write(&text, "no model").unwrap();
    ask(data.path(), &text, &[]).exits_with(5).error_line();
    let image = ask(&data.path().join("c0.nii.gz"), &model, &[]).exits_with(2);
    assert!(image.error_line().contains("--model: is not a data set"), "{}", image.stderr);
    ask(&data.path().join("none"), &model, &[]).exits_with(4).error_line();

    let file = data.path().join("dataset.json");
    let text = std::fs::read_to_string(&file).unwrap().replace("gland", "lump");
    std::fs::write(&file, text).unwrap();
    let other = ask(data.path(), &model, &[]).exits_with(4);
    let expected =
        "structures: none of the model's is a box of the data set that occurs once: gland (";
    assert!(other.error_line().contains(expected), "{}", other.stderr);
}
