//! `pbt demo`, with one modality and few cases: the whole of it takes half a minute on two cores.

use crate::support::{Outcome, numbers, pbt, read_json, scratch};
use std::path::Path;

fn demo(folder: &Path, threads: &str) -> Outcome {
    pbt([
        "demo",
        "-o",
        folder.to_str().unwrap(),
        "--modality",
        "us",
        "--cases",
        "5",
        "--threads",
        threads,
    ])
}

#[test]
fn the_demo_measures_and_repeats() {
    let folder = scratch();
    let (first, again) = (folder.path().join("first"), folder.path().join("again"));
    let outcome = demo(&first, "2").exits_with(0);
    demo(&again, "1").exits_with(0);
    let bytes = |folder: &Path, file: &str| std::fs::read(folder.join(file)).unwrap();
    assert_eq!(bytes(&first, "us.pbt"), bytes(&again, "us.pbt"));
    assert_eq!(bytes(&first, "demo.svg"), bytes(&again, "demo.svg"));
    let svg = String::from_utf8(bytes(&first, "demo.svg")).unwrap();
    assert!(
        svg.starts_with("<svg ")
            && svg.matches("<image ").count() == 3
            && svg.contains("us-test-0")
    );

    // The figures that are printed, from the files that are written.
    let (mut distances, mut found_mm): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for n in 1..=8 {
        let id = format!("us-test-{n:02}");
        let result = read_json(&first.join(format!("results/{id}.json")));
        let markups = read_json(&first.join(format!("results/{id}.mrk.json")));
        let truth = read_json(&first.join(format!("us/annotations/{id}.mrk.json")));
        let found = numbers(&result["detections"][0]["position_lps_mm"]);
        assert_eq!(numbers(&markups["markups"][0]["center"]), found);
        let truth = numbers(&truth["markups"][0]["center"]);
        distances.push(found.iter().zip(truth).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt());
        if result["detections"][0]["status"] == "found" {
            found_mm.push(distances[distances.len() - 1]);
        }
        let mut other = read_json(&again.join(format!("results/{id}.json")));
        other["run"] = result["run"].clone();
        assert_eq!(other, result);
    }
    let (mean, max) =
        (distances.iter().sum::<f64>() / 8.0, distances.iter().copied().fold(0.0, f64::max));
    assert!(
        outcome.stdout.contains(&format!("{mean:.2} ({max:.2})")),
        "{mean} {max}\n{}",
        outcome.stdout
    );
    // From five cases one may be lost, but then it is doubtful.
    assert!(found_mm.len() >= 7, "{distances:?}");
    let found_mean = found_mm.iter().sum::<f64>() / found_mm.len() as f64;
    assert!(
        found_mean < 1.0 && found_mm.iter().all(|&mm| mm < 2.5),
        "five cases teach more: {found_mm:?}"
    );
    // The model reports that it was trained on what the folder holds, so that a user can repeat it.
    let model = first.join("us.pbt");
    let report = first.join("report.json");
    let dataset = first.join("us");
    pbt([
        "evaluate",
        "-q",
        "-m",
        model.to_str().unwrap(),
        "-i",
        dataset.to_str().unwrap(),
        "-o",
        report.to_str().unwrap(),
    ])
    .exits_with(0);
    assert!(
        (read_json(&report)["summary"]["overall"]["center_mm"]["mean"].as_f64().unwrap() - mean)
            .abs()
            < 1e-9
    );
}

#[test]
fn a_folder_that_cannot_be_made_ends_it_at_once() {
    let folder = scratch();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(demo(&file, "1").exits_with(1).error_line().contains("--output"));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_data_set_of_somebody_else_is_not_replaced() {
    let folder = scratch();
    let theirs = folder.path().join("us/dataset.json");
    std::fs::create_dir(folder.path().join("us")).unwrap();
    std::fs::write(&theirs, "{\"mine\": 1}").unwrap();
    let output = folder.path().to_str().unwrap();
    let args =
        ["demo", "--data-only", "--modality", "us", "--cases", "2", "--unseen", "1", "-o", output];
    let outcome = pbt(args).exits_with(2);
    let error = outcome.error_line();
    assert!(error.contains("us/dataset.json: --output: is a JSON file already"), "{error}");
    assert_eq!(std::fs::read_to_string(&theirs).unwrap(), "{\"mine\": 1}");
    // Nor is anything made before it.
    pbt(["demo", "--cases", "2", "--unseen", "1", "-o", output]).exits_with(2);
    assert!(!folder.path().join("ct").exists());
    // Phantoms of an earlier demo are made again.
    std::fs::remove_file(&theirs).unwrap();
    pbt(args).exits_with(0);
    pbt(args).exits_with(0);
    // However long their list is.
    let many = args.map(|arg| if arg == "2" { "24" } else { arg });
    pbt(many).exits_with(0);
    pbt(many).exits_with(0);
}
