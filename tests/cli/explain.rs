//! `pbt detect --explain`

use crate::support::{TRAINING, numbers, pbt, read_json, scratch, text, tiny};
use serde_json::{Value, json};
use std::path::Path;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn detect(out: &Path, arguments: &[&str]) {
    let image = tiny().folder().join(format!("c{TRAINING}.nii.gz"));
    let model = tiny().model();
    pbt(["detect", "-q", "-m", text(&model), "-i", text(&image), "-o", text(out)]
        .iter()
        .chain(arguments))
    .exits_with(0);
}

#[test]
fn an_explanation_adds_up_to_the_score() {
    let (plain, explained, again) = (scratch(), scratch(), scratch());
    detect(plain.path(), &[]);
    detect(explained.path(), &["--explain", "--threads", "1"]);
    detect(again.path(), &["--explain", "--threads", "2"]);
    let file = |folder: &Path, extension: &str| folder.join(format!("c{TRAINING}.{extension}"));
    let (mut result, expected) =
        (read_json(&file(explained.path(), "json")), read_json(&file(plain.path(), "json")));
    assert_eq!(result["run"]["options"], json!({ "explain": true }));
    result["run"] = expected["run"].clone();
    assert_eq!(result, expected, "explaining changes nothing");
    assert!(!file(plain.path(), "explain.json").exists());
    for extension in ["explain.json", "explain.svg"] {
        let read = |folder: &Path| std::fs::read(file(folder, extension)).unwrap();
        assert!(
            read(explained.path()) == read(again.path()),
            "{extension}: other bytes with two threads"
        );
    }

    let explanation = read_json(&file(explained.path(), "explain.json"));
    assert_eq!(
        (&explanation["schema"], &explanation["coordinate_system"]),
        (&json!("pbt-explanation/1"), &json!("LPS"))
    );
    assert_eq!(
        (&explanation["input"], &explanation["model"]),
        (&expected["input"], &expected["model"])
    );
    let (gland, found) = (&explanation["detections"][0], &expected["detections"][0]);
    assert_eq!(
        (&gland["name"], &gland["status"], &gland["score"]),
        (&found["name"], &found["status"], &found["score"])
    );
    assert_eq!(gland["pose"]["position_lps_mm"], found["position_lps_mm"]);

    // The probability of the verified pose comes from the mean of the trees; the score from that and
    // other evidence, which held-out cases have weighed.
    let verification = &gland["verification"];
    assert!(number(&verification["probability"]) >= number(&found["score"]));
    assert_eq!(
        number(&gland["evidence"]["detector"]),
        number(&verification["log_odds"]).clamp(-5.0, 5.0)
    );
    let trees = verification["trees"].as_array().unwrap();
    let posterior = trees.iter().map(|t| number(&t["posterior"])).sum::<f64>() / trees.len() as f64;
    assert!(
        ((posterior / (1.0 - posterior)).ln() - number(&verification["log_odds"])).abs() < 1e-3,
        "{verification}"
    );

    // The votes of a node add up to its margin, and that gives its probability; the branch leads to
    // the next node.
    let votes = verification["votes"].as_array().unwrap();
    assert_eq!(number(&verification["votes_in_all"]), votes.len() as f64);
    assert!(
        votes.is_sorted_by(
            |a, b| number(&a["contribution"]).abs() >= number(&b["contribution"]).abs()
        )
    );
    for (t, tree) in trees.iter().enumerate() {
        let path = tree["path"].as_array().unwrap();
        assert!(path.len() > 1 && path[0]["node"] == 0 && path.last().unwrap()["branch"] == "leaf");
        for step in &path[..path.len() - 1] {
            let mine = votes.iter().filter(|v| v["tree"] == t && v["node"] == step["node"]);
            let sum: f64 = mine.map(|v| number(&v["contribution"])).sum();
            let margin = number(&step["margin"]);
            assert!((sum - margin).abs() < 1e-9, "{step}: {sum}");
            assert!(
                (1.0 / (1.0 + (-2.0 * margin).exp()) - number(&step["probability"])).abs() < 1e-5,
                "{step}"
            );
            assert_eq!(step["branch"].as_str().unwrap().contains("right"), margin >= 0.0, "{step}");
        }
    }
    let center = numbers(&verification["pose"]["position_lps_mm"]);
    let diagonal =
        numbers(&verification["pose"]["size_mm"]).iter().map(|s| s * s).sum::<f64>().sqrt();
    for vote in votes {
        let distance = numbers(&vote["position_lps_mm"])
            .iter()
            .zip(center)
            .map(|(a, b)| (a - b).powi(2))
            .sum::<f64>()
            .sqrt();
        assert!(distance < diagonal && !vote["measures"].as_str().unwrap().is_empty(), "{vote}");
        // The weak classifiers are thresholds by default.
        let above = number(&vote["response"]) >= number(&vote["threshold"]["first"]);
        assert_eq!(
            above == vote["threshold"]["above"].as_bool().unwrap(),
            number(&vote["contribution"]) > 0.0,
            "{vote}"
        );
    }

    // What was chosen is among what was considered, and lies where it was found.
    let stages = &gland["stages"];
    let modes = stages["modes"].as_array().unwrap();
    let chosen = &modes[number(&stages["chosen"]) as usize];
    assert!(
        modes
            .iter()
            .all(|m| number(&m["converged_log_odds"]) <= number(&chosen["converged_log_odds"]))
    );
    let off = numbers(&chosen["converged"]["position_lps_mm"])
        .into_iter()
        .zip(numbers(&found["position_lps_mm"]));
    assert!(off.map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() < 10.0);
    assert!(
        modes.iter().all(|m| ["orientation", "expected"].contains(&m["from"].as_str().unwrap()))
    );
    let candidates = stages["position"].as_array().unwrap();
    assert!(
        candidates.len() > 10
            && candidates
                .iter()
                .all(|c| number(&c["log_odds"]) <= number(&candidates[0]["log_odds"]))
    );

    let svg = std::fs::read_to_string(file(explained.path(), "explain.svg")).unwrap();
    for drawn in
        [">candidate</text>", ">mode</text>", ">by pbt</text>", "weak classifiers speak for it"]
    {
        assert!(svg.contains(drawn), "{drawn} is missing");
    }
}
