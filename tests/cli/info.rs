//! `pbt info`

use crate::support::{TRAINING, pbt, read_json, refused, scratch, text, tiny};
use serde_json::Value;

#[test]
fn json_tells_what_the_file_and_the_training_say() {
    let model = tiny().model();
    let outcome = pbt(["info".as_ref(), "--json".as_ref(), model.as_os_str()]).exits_with(0);
    let info: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(info["schema"], "pbt-info/1");
    assert!(info.get("devices").is_none());
    let info = &info["model"];
    let training = read_json(&model.with_extension("train.json"));
    assert_eq!(info["bytes"].as_u64().unwrap(), std::fs::metadata(&model).unwrap().len());
    assert_eq!(info["sha256"], training["model_sha256"]);
    assert_eq!(info["provenance"]["training_sha256"], training["training_sha256"]);
    let structure = &info["structures"][0];
    assert_eq!(
        (structure["name"].as_str(), structure["cases"].as_u64()),
        (Some("gland"), Some(TRAINING as u64))
    );
    let stages = structure["stages"].as_array().unwrap();
    let names: Vec<&str> = stages.iter().map(|s| s["stage"].as_str().unwrap()).collect();
    assert_eq!(names, ["position", "orientation", "refinement", "verification"]);
    for stage in stages.iter().filter(|s| s["kind"] == "classifier") {
        // The configuration sets the number of weak classifiers, 15 a node at most, and the depth,
        // 2.
        let [nodes, weaks, features] =
            ["nodes", "weak_classifiers", "features"].map(|key| stage[key].as_u64().unwrap());
        assert!((1..=7).contains(&nodes) && weaks <= 15 * 3 && features <= weaks, "{stage}");
        let used = stage["most_used"].as_array().unwrap();
        assert_eq!(used.len() as u64, features.min(10));
        let alphas: Vec<f64> = used.iter().map(|u| u["alpha"].as_f64().unwrap()).collect();
        assert!(alphas.is_sorted_by(|a, b| a >= b) && alphas[0] > 0.0, "{alphas:?}");
    }
}

#[test]
fn text_shows_card_stages_and_features() {
    let outcome = pbt(["info".as_ref(), tiny().model().as_os_str()]).exits_with(0);
    for part in [
        "tiny (US), 6 cases",
        "gland (box), 6 cases",
        "weak classifiers",
        "orientation: features used most",
        "Haar ",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing in\n{}", outcome.stdout);
    }
    assert!(outcome.stderr.is_empty());
}

#[test]
fn devices_are_listed() {
    let outcome = pbt(["info", "--devices", "--json", "--threads", "3"]).exits_with(0);
    let info: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&info["devices"][0]["kind"], &info["devices"][0]["threads"]),
        (&"cpu".into(), &3.into())
    );
    assert!(info.get("model").is_none());
    assert!(pbt(["info", "--devices"]).exits_with(0).stdout.starts_with("cpu: "));
}

#[test]
fn what_is_no_model_is_refused() {
    let folder = scratch();
    pbt(["info"]).exits_with(2);
    pbt(["info".as_ref(), folder.path().join("none.pbt").as_os_str()]).exits_with(4).error_line();
    let outcome = pbt(["info".as_ref(), tiny().folder().as_os_str()]).exits_with(4);
    assert!(outcome.error_line().contains("pbt validate"), "{}", outcome.stderr);
    let cut = folder.path().join("cut.pbt");
    let bytes = std::fs::read(tiny().model()).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
    let outcome = pbt(["info".as_ref(), cut.as_os_str()]).exits_with(5);
    assert!(outcome.error_line().contains("cut.pbt"));
    assert!(outcome.stdout.is_empty());
}

#[test]
fn a_drawing_replaces_no_model() {
    let folder = scratch();
    let model = folder.path().join("m.pbt");
    std::fs::copy(tiny().model(), &model).unwrap();
    let outcome = pbt(["info", text(&model), "--svg", text(&model)]);
    refused(outcome, 2, &["m.pbt: --svg: is a model already"]);
}
