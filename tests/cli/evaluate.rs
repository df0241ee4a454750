//! `pbt evaluate`

use crate::support::{TEST, TRAINING, numbers, pbt, read_json, scratch, text, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) fn evaluate(arguments: &[&str], report: &Path) -> crate::support::Outcome {
    pbt(["evaluate", "-o", report.to_str().unwrap()].iter().chain(arguments))
}

/// The same figure by another way: distance of the centre in the result file from the one in the
/// annotation file.
fn distance_mm(results: &Path, dataset: &Path, id: &str) -> f64 {
    let found = read_json(&results.join(format!("{id}.json")));
    let truth = read_json(&dataset.join(format!("{id}.mrk.json")));
    let (found, truth) = (
        numbers(&found["detections"][0]["position_lps_mm"]),
        numbers(&truth["markups"][0]["center"]),
    );
    found.iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// Detects in the test cases of a data set.
fn detect_all(dataset: &Path, out: &Path) {
    for n in TRAINING..TRAINING + TEST {
        let image = dataset.join(format!("c{n}.nii.gz"));
        pbt(["detect", "-m", text(&tiny().model()), "-i", text(&image), "-o", text(out)])
            .exits_with(0);
    }
}

#[test]
fn the_report_agrees_with_results_and_annotations() {
    let out = scratch();
    let report = out.path().join("report.json");
    let printed = evaluate(&["-m", text(&tiny().model()), "-i", text(tiny().folder())], &report)
        .exits_with(0);
    detect_all(tiny().folder(), out.path());
    let report = read_json(&report);
    assert_eq!(report["schema"], "pbt-evaluation/1");
    assert_eq!(
        (&report["dataset"], &report["split"], &report["failed"]),
        (&json!("tiny"), &json!("test"), &json!([]))
    );
    let model = read_json(&out.path().join(format!("c{TRAINING}.json")))["model"].clone();
    assert_eq!(report["models"], json!([model]));
    let records = report["records"].as_array().unwrap();
    assert_eq!(records.len(), TEST);
    let mut distances = Vec::new();
    for record in records {
        let expected = distance_mm(out.path(), tiny().folder(), record["case"].as_str().unwrap());
        assert!(
            (record["error"]["center_mm"].as_f64().unwrap() - expected).abs() < 1e-9,
            "{record}"
        );
        distances.push(expected);
    }
    distances.sort_by(f64::total_cmp);
    let center = &report["summary"]["structures"][0]["center_mm"];
    assert!(
        (center["mean"].as_f64().unwrap() - distances.iter().sum::<f64>() / TEST as f64).abs()
            < 1e-9
    );
    assert!((center["median"].as_f64().unwrap() - distances[TEST / 2]).abs() < 1e-9);
    assert!((center["max"].as_f64().unwrap() - distances[TEST - 1]).abs() < 1e-9);
    let within = distances.iter().filter(|&&d| d <= 3.0).count() as f64 / TEST as f64;
    assert_eq!(
        report["summary"]["overall"]["success_rates"]["within_3_mm"].as_f64().unwrap(),
        within
    );
    assert!(
        report["timing_ms"]
            .as_array()
            .unwrap()
            .iter()
            .any(|t| t["stage"] == "total" && t["mean"].as_f64().unwrap() > 0.0)
    );
    assert!(
        printed.stdout.contains("centre, mm")
            && printed.stdout.contains(&format!("{:.2}", distances[TEST - 1]))
    );

    // The check of the scores, worked out anew from the records and the annotations.
    let mut brier = 0.0;
    for record in records {
        let truth = read_json(
            &tiny().folder().join(format!("{}.mrk.json", record["case"].as_str().unwrap())),
        );
        let mean_size_mm = numbers(&truth["markups"][0]["size"]).iter().product::<f64>().cbrt();
        let tolerance_mm = (0.1 * mean_size_mm).max(2.0 * 1.8);
        assert!((record["tolerance_mm"].as_f64().unwrap() - tolerance_mm).abs() < 1e-6, "{record}");
        let error = &record["error"];
        let right = error["center_mm"].as_f64().unwrap() <= tolerance_mm
            && error["angle_deg"].as_f64().unwrap() < 45.0;
        assert_eq!(record["right"], right);
        brier += (record["score"].as_f64().unwrap() - if right { 1.0 } else { 0.0 }).powi(2)
            / TEST as f64;
        assert_eq!(
            (&record["kind"], &record["rivals"], &record["nearest"]),
            (&json!("box"), &json!(0), &Value::Null)
        );
    }
    let confidence = &report["summary"]["overall"]["confidence"];
    assert!((confidence["brier"].as_f64().unwrap() - brier).abs() < 1e-12);
    assert_eq!(
        (&confidence["n"], confidence["reliability"].as_array().unwrap().len()),
        (&json!(TEST), 10)
    );
    assert!(printed.stdout.contains(&format!("Brier score {brier:.3}")), "{}", printed.stdout);
}

#[test]
fn the_tolerance_decides_what_is_right() {
    let out = scratch();
    let results = scratch();
    detect_all(tiny().folder(), results.path());
    let report = out.path().join("report.json");
    let right = |tolerance: &str| {
        evaluate(
            &[
                "--results",
                text(results.path()),
                "-i",
                text(tiny().folder()),
                "--tolerance",
                tolerance,
            ],
            &report,
        )
        .exits_with(0);
        read_json(&report)["summary"]["overall"]["confidence"]["share_right"].as_f64().unwrap()
    };
    assert_eq!((right("0.0001"), right("1000")), (0.0, 1.0));
    for wrong in ["0", "-1", "NaN", "inf", "x"] {
        evaluate(
            &["--results", text(results.path()), "-i", text(tiny().folder()), "--tolerance", wrong],
            &report,
        )
        .exits_with(2);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_read() {
    let out = scratch();
    let nothing = out.path().join("nothing");
    std::fs::write(out.path().join("file"), "mine").unwrap();
    let report = out.path().join("file/report.json");
    let outcome = evaluate(&["-m", text(&nothing), "-i", text(&nothing)], &report).exits_with(1);
    let file = format!("{} is a file: give a path in a folder", out.path().join("file").display());
    for part in ["report.json: file: cannot be written", &file] {
        assert!(outcome.error_line().contains(part), "{}", outcome.stderr);
    }
    evaluate(&["-m", text(&nothing), "-i", text(&nothing)], out.path()).exits_with(2);
}

/// A data set of two boxes: what is the second one in the annotations is found where the first one
/// is.
#[test]
fn a_structure_that_is_taken_for_its_neighbour_is_not_identified() {
    let (data, results) = (tiny_copy(), scratch());
    detect_all(data.path(), results.path());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    dataset["structures"].as_array_mut().unwrap().push(json!({ "name": "other", "kind": "box" }));
    std::fs::write(&path, dataset.to_string()).unwrap();
    for n in TRAINING..TRAINING + TEST {
        let path = results.path().join(format!("c{n}.json"));
        let mut result = read_json(&path);
        let mut other = result["detections"][0].clone();
        other["name"] = json!("other");
        other["status"] = json!(if n == TRAINING { "doubtful" } else { "found" });
        result["detections"].as_array_mut().unwrap().push(other);
        std::fs::write(&path, result.to_string()).unwrap();
        let path = data.path().join(format!("c{n}.mrk.json"));
        let mut markups = read_json(&path);
        let mut other = markups["markups"][0].clone();
        let center = numbers(&other["center"]);
        other["name"] = json!("other");
        other["center"] = json!([center[0], center[1], center[2] + 12.0]);
        markups["markups"].as_array_mut().unwrap().push(other);
        std::fs::write(&path, markups.to_string()).unwrap();
    }
    let report = data.path().join("report.json");
    let printed = evaluate(&["--results", text(results.path()), "-i", text(data.path())], &report)
        .exits_with(0);
    let report = read_json(&report);
    let of = |n: usize| &report["summary"]["structures"][n]["identification"];
    assert_eq!(
        of(0),
        &json!({ "annotated": TEST, "rate": 1.0, "nearest_is_right": 1.0, "wrong_without_doubt": 0 })
    );
    assert_eq!(
        of(1),
        &json!({ "annotated": TEST, "rate": 0.0, "nearest_is_right": 0.0, "wrong_without_doubt": TEST - 1 })
    );
    assert_eq!(report["summary"]["overall"]["identification"]["rate"], 0.5);
    assert!(
        report["records"]
            .as_array()
            .unwrap()
            .iter()
            .all(|r| r["nearest"] == "gland" && r["rivals"] == 1)
    );
    assert!(
        printed.stdout.contains("identified") && printed.stdout.contains("50.0 %"),
        "{}",
        printed.stdout
    );
}

#[test]
fn two_are_compared_as_models_folders_or_reports() {
    let (out, worse) = (scratch(), scratch());
    detect_all(tiny().folder(), worse.path());
    for n in TRAINING..TRAINING + TEST {
        let path = worse.path().join(format!("c{n}.json"));
        let mut result = read_json(&path);
        // Along the line from the truth through what was found, so that the error grows by exactly
        // this.
        let found = numbers(&result["detections"][0]["position_lps_mm"]);
        let truth = numbers(
            &read_json(&tiny().folder().join(format!("c{n}.mrk.json")))["markups"][0]["center"],
        );
        let away = [0, 1, 2].map(|a| found[a] - truth[a]);
        let length = away.iter().map(|v| v * v).sum::<f64>().sqrt();
        result["detections"][0]["position_lps_mm"] =
            json!([0, 1, 2].map(|a| found[a] + away[a] / length * (n - TRAINING + 1) as f64));
        std::fs::write(&path, result.to_string()).unwrap();
    }
    let earlier = out.path().join("earlier.json");
    evaluate(&["-m", text(&tiny().model()), "-i", text(tiny().folder())], &earlier).exits_with(0);
    let compared = |a: &Path, b: &Path| {
        let report = out.path().join("compared.json");
        let outcome =
            evaluate(&["--compare", text(a), text(b), "-i", text(tiny().folder())], &report)
                .exits_with(0);
        (read_json(&report), outcome.stdout)
    };
    let model = tiny().model();
    let (report, printed) = compared(&model, worse.path());
    assert_eq!(
        (&report["schema"], &report["cases"], &report["unpaired"]),
        (&json!("pbt-comparison/1"), &json!(TEST), &json!(0))
    );
    let center = &report["overall"][0];
    assert_eq!((&center["measure"], &center["better"]), (&json!("centre error"), &json!("a")));
    assert!((center["difference"].as_f64().unwrap() - 2.0).abs() < 1e-9);
    // Of the 27 draws of 1, 2 and 3 mm one in 27 has the mean 1 and one the mean 3: more than 2.5
    // %.
    let interval = ["low", "high"].map(|end| center["interval"][end].as_f64().unwrap());
    assert!((interval[0] - 1.0).abs() < 1e-9 && (interval[1] - 3.0).abs() < 1e-9, "{interval:?}");
    assert!(
        printed.contains("centre error: A is better, 2.000 mm lower than B")
            && printed.contains("take them as hints"),
        "{printed}"
    );

    // A report of the model says what the model says; the other way round it is the other one.
    let (again, _) = compared(&earlier, worse.path());
    assert_eq!(again["overall"], report["overall"]);
    let (turned, printed) = compared(worse.path(), &earlier);
    assert_eq!(turned["overall"][0]["better"], "b");
    assert!(printed.contains("centre error: B is better"), "{printed}");
    let (same, printed) = compared(&model, &earlier);
    assert_eq!(same["overall"][0]["better"], Value::Null);
    assert!(printed.contains("centre error: the same in every case"), "{printed}");
}

#[test]
fn what_cannot_be_compared_is_said_in_one_line() {
    let out = scratch();
    let report = out.path().join("compared.json");
    let (model, folder) = (tiny().model(), text(tiny().folder()).to_owned());
    let compare = |b: &Path, code: i32| {
        evaluate(&["--compare", text(&model), text(b), "-i", &folder], &report).exits_with(code)
    };
    let other = out.path().join("other.json");
    std::fs::write(&other, json!({ "schema": "pbt-run/1" }).to_string()).unwrap();
    assert!(compare(&other, 4).error_line().contains("other.json: JSON: "));
    let earlier =
        json!({ "schema": "pbt-evaluation/1", "dataset": "large", "models": [], "records": [] });
    std::fs::write(&other, earlier.to_string()).unwrap();
    assert!(compare(&other, 4).error_line().contains("other.json: dataset: is `large`"));
    std::fs::write(&other, earlier.to_string().replace("large", "tiny")).unwrap();
    assert!(compare(&other, 4).error_line().contains("other.json: records: none is of a case"));
    compare(&tiny().config(), 5);
    evaluate(&["--compare", text(&model), "-i", &folder], &report).exits_with(2);
    evaluate(
        &["--compare", text(&model), text(&model), "-m", text(&model), "-i", &folder],
        &report,
    )
    .exits_with(2);
    assert!(!report.exists());
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
    let stages = |report: &Path| {
        let times = read_json(report)["timing_ms"].as_array().unwrap().clone();
        times.iter().map(|t| t["stage"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(
        stages(&other) == stages(&report) && stages(&other)[..2] == ["load", "prepare"],
        "{:?}",
        stages(&other)
    );

    std::fs::remove_file(results.path().join(format!("c{TRAINING}.json"))).unwrap();
    evaluate(&compare, &other).exits_with(0);
    let report = read_json(&other);
    let figures = &report["summary"]["overall"];
    assert_eq!(
        (&figures["annotated"], &figures["missed"], &figures["center_mm"]["n"]),
        (&json!(TEST), &json!(1), &json!(TEST - 1))
    );
    assert!(
        figures["success_rates"]["within_4_mm"].as_f64().unwrap()
            <= (TEST - 1) as f64 / TEST as f64
    );
    assert_eq!(
        (&report["records"][0]["answer"], &report["records"][0]["error"]),
        (&json!("no-result"), &Value::Null)
    );
}

#[test]
fn a_landmark_out_of_view_that_is_found_is_false() {
    let (data, results) = (tiny_copy(), scratch());
    detect_all(data.path(), results.path());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    dataset["structures"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "tip", "kind": "landmark" }));
    std::fs::write(&path, dataset.to_string()).unwrap();
    // The first case has the landmark 3 mm from where it is found, the second has it out of view,
    // the third does not say.
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
    assert_eq!(
        (&figures["structure"], &figures["annotated"], &figures["false"]),
        (&json!("tip"), &json!(1), &json!(1))
    );
    assert!((figures["center_mm"]["mean"].as_f64().unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(figures["angle_deg"], Value::Null);
    // A structure that the model does not know is not held against it.
    let other = data.path().join("other.json");
    evaluate(&["-m", text(&tiny().model()), "-i", text(data.path())], &other).exits_with(0);
    assert_eq!(read_json(&other)["summary"]["structures"].as_array().unwrap().len(), 1);
}

#[test]
fn a_box_out_of_view_that_is_found_is_false() {
    let (data, results) = (tiny_copy(), scratch());
    detect_all(data.path(), results.path());
    for (n, status) in [(TRAINING, "found"), (TRAINING + 1, "doubtful"), (TRAINING + 2, "absent")] {
        let markups = json!({ "markups": [{
            "type": "Fiducial", "coordinateSystem": "LPS",
            "controlPoints": [{ "label": "gland", "position": [0, 0, 0], "positionStatus": "missing" }],
        }] });
        std::fs::write(data.path().join(format!("c{n}.mrk.json")), markups.to_string()).unwrap();
        let path = results.path().join(format!("c{n}.json"));
        let mut result = read_json(&path);
        let gland = &mut result["detections"][0];
        gland["status"] = json!(status);
        gland["score"] = json!(0.5);
        if status == "absent" {
            ["position_lps_mm", "orientation", "size_mm"]
                .iter()
                .for_each(|field| gland[field] = Value::Null);
        }
        std::fs::write(&path, result.to_string()).unwrap();
    }
    let report = data.path().join("report.json");
    let printed = evaluate(&["--results", text(results.path()), "-i", text(data.path())], &report)
        .exits_with(0);
    let figures = &read_json(&report)["summary"]["overall"];
    let counts = ["annotated", "out_of_view", "false", "doubtful_out_of_view"]
        .map(|key| figures[key].as_u64().unwrap());
    assert_eq!(counts, [0, 3, 1, 1]);
    // None of the three has a right position: a score of a half is as bad for each.
    assert_eq!(
        (&figures["confidence"]["brier"], &figures["confidence"]["share_right"]),
        (&json!(0.25), &json!(0.0))
    );
    assert!(printed.stdout.contains("out of view"), "{}", printed.stdout);
}

#[test]
fn scores_that_are_all_alike_are_explained() {
    let (data, results) = (tiny().folder(), scratch());
    detect_all(data, results.path());
    let told = |score_of: &dyn Fn(usize) -> f64| {
        for n in TRAINING..TRAINING + 3 {
            let path = results.path().join(format!("c{n}.json"));
            let mut result = read_json(&path);
            result["detections"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(|d| d["score"] = json!(score_of(n)));
            std::fs::write(&path, result.to_string()).unwrap();
        }
        let report = results.path().join("report.json");
        let from = ["--results", text(results.path()), "-i", text(data)];
        evaluate(&from, &report).exits_with(0).stdout
    };
    let (alike, unlike) = (told(&|_| 0.9), told(&|n| 0.9 - 0.01 * n as f64));
    assert!(alike.contains("scores equal the highest of their structure"), "{alike}");
    assert!(!unlike.contains("scores equal"), "{unlike}");
}

#[test]
fn a_case_that_cannot_be_read_is_a_row_of_the_report() {
    let data = tiny_copy();
    let report = data.path().join("report.json");
    let arguments = ["-m", text(&tiny().model()), "-i", text(data.path())].map(str::to_owned);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let spoil =
        |n: usize| std::fs::write(data.path().join(format!("c{n}.nii.gz")), b"no image").unwrap();
    spoil(TRAINING + 1);
    let outcome = evaluate(&arguments, &report).exits_with(3);
    assert!(
        outcome.error_line().contains(&format!("case c{}", TRAINING + 1)),
        "{}",
        outcome.stderr
    );
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
fn what_cannot_be_evaluated_is_said_in_one_line() {
    let (data, empty) = (tiny_copy(), scratch());
    let report = data.path().join("report.json");
    let (model, folder) = (tiny().model(), text(data.path()).to_owned());
    let outcome =
        evaluate(&["-m", text(&model), "-i", &folder, "--split", "tset"], &report).exits_with(4);
    assert!(
        outcome.error_line().contains("cases: none has the split `tset` (did you mean `test`?)")
    );
    let outcome = evaluate(&["-m", text(&model), "-i", &folder, "--structure", "glnd"], &report)
        .exits_with(4);
    assert!(outcome.error_line().contains("there is no `glnd` (did you mean `gland`?)"));
    let outcome =
        evaluate(&["--results", text(empty.path()), "-i", &folder], &report).exits_with(4);
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
