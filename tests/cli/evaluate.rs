//! `pbt evaluate`

use crate::support::{TEST, TRAINING, numbers, pbt, read_json, scratch, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

fn evaluate(arguments: &[&str], report: &Path) -> crate::support::Outcome {
    pbt(["evaluate", "-o", report.to_str().unwrap()].iter().chain(arguments))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The same figure by another way: distance of the centre in the result file from the one in the annotation file.
fn distance_mm(results: &Path, dataset: &Path, id: &str) -> f64 {
    let found = read_json(&results.join(format!("{id}.json")));
    let truth = read_json(&dataset.join(format!("{id}.mrk.json")));
    let (found, truth) = (numbers(&found["detections"][0]["position_lps_mm"]), numbers(&truth["markups"][0]["center"]));
    found.iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// Detects in the test cases of a data set.
fn detect_all(dataset: &Path, out: &Path) {
    for n in TRAINING..TRAINING + TEST {
        let image = dataset.join(format!("c{n}.nii.gz"));
        pbt(["detect", "-m", text(&tiny().model()), "-i", text(&image), "-o", text(out)]).exits_with(0);
    }
}

#[test]
fn the_report_agrees_with_results_and_annotations() {
    let out = scratch();
    let report = out.path().join("report.json");
    let printed = evaluate(&["-m", text(&tiny().model()), "-i", text(tiny().folder())], &report).exits_with(0);
    detect_all(tiny().folder(), out.path());
    let report = read_json(&report);
    assert_eq!(report["schema"], "pbt-evaluation/1");
    assert_eq!((&report["dataset"], &report["split"], &report["failed"]), (&json!("tiny"), &json!("test"), &json!([])));
    let model = read_json(&out.path().join(format!("c{TRAINING}.json")))["model"].clone();
    assert_eq!(report["models"], json!([model]));
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), TEST);
    let mut distances = Vec::new();
    for record in records {
        let expected = distance_mm(out.path(), tiny().folder(), record["case"].as_str().unwrap());
        assert!((record["error"]["center_mm"].as_f64().unwrap() - expected).abs() < 1e-9, "{record}");
        distances.push(expected);
    }
    distances.sort_by(f64::total_cmp);
    let center = &report["summary"]["structures"][0]["center_mm"];
    assert!((center["mean"].as_f64().unwrap() - distances.iter().sum::<f64>() / TEST as f64).abs() < 1e-9);
    assert!((center["median"].as_f64().unwrap() - distances[TEST / 2]).abs() < 1e-9);
    assert!((center["max"].as_f64().unwrap() - distances[TEST - 1]).abs() < 1e-9);
    let within = distances.iter().filter(|&&d| d <= 3.0).count() as f64 / TEST as f64;
    assert_eq!(report["summary"]["overall"]["success_rates"]["within_3_mm"].as_f64().unwrap(), within);
    assert!(report["timing_ms"].as_array().unwrap().iter().any(|t| t["stage"] == "total" && t["mean"].as_f64().unwrap() > 0.0));
    assert!(printed.stdout.contains("centre, mm") && printed.stdout.contains(&format!("{:.2}", distances[TEST - 1])));
}

#[test]
fn results_made_earlier_give_the_same_and_a_missing_one_is_missed() {
    let out = scratch();
    let (report, other) = (out.path().join("report.json"), out.path().join("other.json"));
    evaluate(&["-m", text(&tiny().model()), "-i", text(tiny().folder())], &report).exits_with(0);
    let results = scratch();
    detect_all(tiny().folder(), results.path());
    let compare = ["--results", text(results.path()), "-i", text(tiny().folder())];
    evaluate(&compare, &other).exits_with(0);
    assert_eq!(read_json(&other)["records"], read_json(&report)["records"]);
    assert_eq!(read_json(&other)["summary"], read_json(&report)["summary"]);

    std::fs::remove_file(results.path().join(format!("c{TRAINING}.json"))).unwrap();
    evaluate(&compare, &other).exits_with(0);
    let report = read_json(&other);
    let figures = &report["summary"]["overall"];
    assert_eq!((&figures["annotated"], &figures["missed"], &figures["center_mm"]["n"]), (&json!(TEST), &json!(1), &json!(TEST - 1)));
    assert!(figures["success_rates"]["within_4_mm"].as_f64().unwrap() <= (TEST - 1) as f64 / TEST as f64);
    assert_eq!((&report["records"][0]["answer"], &report["records"][0]["error"]), (&json!("no-result"), &Value::Null));
}

#[test]
fn a_landmark_out_of_view_that_is_found_is_false() {
    let (data, results) = (tiny_copy(), scratch());
    detect_all(data.path(), results.path());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    dataset["structures"].as_array_mut().unwrap().push(json!({ "name": "tip", "kind": "landmark" }));
    std::fs::write(&path, dataset.to_string()).unwrap();
    // The first case has the landmark 3 mm from where it is found, the second has it out of view, the third does not say.
    for (n, status) in [(TRAINING, "defined"), (TRAINING + 1, "missing"), (TRAINING + 2, "")] {
        let path = results.path().join(format!("c{n}.json"));
        let mut result = read_json(&path);
        let place = numbers(&result["detections"][0]["position_lps_mm"]);
        result["detections"].as_array_mut().unwrap().push(json!({
            "name": "tip", "kind": "landmark", "status": "found", "score": 0.9,
            "position_lps_mm": [place[0], place[1] + 3.0, place[2]], "orientation": null, "size_mm": null,
        }));
        std::fs::write(&path, result.to_string()).unwrap();
        if !status.is_empty() {
            let path = data.path().join(format!("c{n}.mrk.json"));
            let mut markups = read_json(&path);
            markups["markups"].as_array_mut().unwrap().push(json!({
                "type": "Fiducial", "coordinateSystem": "LPS",
                "controlPoints": [{ "label": "tip", "position": place, "positionStatus": status }],
            }));
            std::fs::write(&path, markups.to_string()).unwrap();
        }
    }
    let report = data.path().join("report.json");
    evaluate(&["--results", text(results.path()), "-i", text(data.path())], &report).exits_with(0);
    let report = read_json(&report);
    let figures = &report["summary"]["structures"][1];
    assert_eq!((&figures["structure"], &figures["annotated"], &figures["false"]), (&json!("tip"), &json!(1), &json!(1)));
    assert!((figures["center_mm"]["mean"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(figures["angle_deg"], Value::Null);
    // A structure that the model does not know is not held against it.
    let other = data.path().join("other.json");
    evaluate(&["-m", text(&tiny().model()), "-i", text(data.path())], &other).exits_with(0);
    assert_eq!(read_json(&other)["summary"]["structures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_case_that_cannot_be_read_is_a_row_of_the_report() {
    let data = tiny_copy();
    let report = data.path().join("report.json");
    let arguments = ["-m", text(&tiny().model()), "-i", text(data.path())].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let spoil = |n: usize| std::fs::write(data.path().join(format!("c{n}.nii.gz")), b"no image").unwrap();
    spoil(TRAINING + 1);
    let outcome = evaluate(&arguments, &report).exits_with(3);
    assert!(outcome.error_line().contains(&format!("case c{}", TRAINING + 1)), "{}", outcome.stderr);
    let first = read_json(&report);
    assert_eq!(first["failed"][0]["case"], format!("c{}", TRAINING + 1));
    assert!(first["failed"][0]["reason"].as_str().unwrap().contains(".nii.gz"));
    assert_eq!(first["records"].as_array().unwrap().len(), TEST - 1);

    (TRAINING..TRAINING + TEST).for_each(spoil);
    let outcome = evaluate(&arguments, &report).exits_with(4);
    assert!(outcome.stderr.contains("none of the 3 could be evaluated"), "{}", outcome.stderr);
    assert_eq!(read_json(&report), first, "an older report stays");
}

#[test]
fn leaving_one_out_tests_every_case_once() {
    let out = scratch();
    let report = out.path().join("report.json");
    let config = tiny().config();
    let arguments = ["--leave-one-out", "-i", text(tiny().folder()), "--config", text(&config), "--cases", "4"];
    evaluate(&arguments, &report).exits_with(0);
    let report = read_json(&report);
    let cases: Vec<&str> = report["records"].as_array().unwrap().iter().map(|r| r["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["c0", "c1", "c2", "c3"]);
    assert_eq!((&report["mode"], &report["split"]), (&json!("leave-one-out"), &Value::Null));
    // Four trainings on different cases are four models.
    assert_eq!(report["models"].as_array().unwrap().len(), 4);
    // The model of the first turn is the one that training on the others gives.
    let data = tiny_copy();
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    let others = dataset["cases"].as_array().unwrap()[1..4].to_vec();
    dataset["cases"] = json!(others);
    std::fs::write(&path, dataset.to_string()).unwrap();
    let model = data.path().join("others.pbt");
    pbt(["train", "-i", text(data.path()), "-o", text(&model), "--config", text(&config)]).exits_with(0);
    let info = pbt(["info", "--json", text(&model)]).exits_with(0);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    assert_eq!(report["models"][0]["sha256"], info["model"]["sha256"]);
}

#[test]
fn what_cannot_be_evaluated_is_said_in_one_line() {
    let (data, empty) = (tiny_copy(), scratch());
    let report = data.path().join("report.json");
    let (model, folder) = (tiny().model(), text(data.path()).to_owned());
    let outcome = evaluate(&["-m", text(&model), "-i", &folder, "--split", "tset"], &report).exits_with(4);
    assert!(outcome.error_line().contains("cases: none has the split `tset`"));
    let outcome = evaluate(&["-m", text(&model), "-i", &folder, "--structure", "glnd"], &report).exits_with(4);
    assert!(outcome.error_line().contains("there is no `glnd`"));
    let outcome = evaluate(&["--results", text(empty.path()), "-i", &folder], &report).exits_with(4);
    assert!(outcome.error_line().contains("there is no result for any of them"));
    let config = tiny().config();
    evaluate(&["-m", text(&config), "-i", &folder], &report).exits_with(5);
    evaluate(&["-m", text(&empty.path().join("no.pbt")), "-i", &folder], &report).exits_with(4);
    evaluate(&["-i", &folder], &report).exits_with(2);

    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    for case in dataset["cases"].as_array_mut().unwrap() {
        case.as_object_mut().unwrap().remove("annotations");
    }
    std::fs::write(&path, dataset.to_string()).unwrap();
    let outcome = evaluate(&["-m", text(&model), "-i", &folder], &report).exits_with(4);
    assert!(outcome.error_line().contains("none of the 3 has annotations of gland"));
    assert!(!report.exists());
}
