//! `pbt evaluate --folds` and `--leave-one-out`

use crate::evaluate::evaluate;
use crate::support::{interrupt_when_there, pbt, read_json, scratch, start, text, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

/// The model that `pbt train` makes of a data set, and its hash.
fn trained_on(data: &Path, config: &Path) -> (Vec<u8>, Value) {
    let model = data.join("others.pbt");
    pbt(["train", "-i", text(data), "-o", text(&model), "--config", text(config)]).exits_with(0);
    let info = pbt(["info", "--json", text(&model)]).exits_with(0);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    (std::fs::read(&model).unwrap(), info["model"]["sha256"].clone())
}

#[test]
fn leaving_one_out_tests_every_case_once() {
    let out = scratch();
    let report = out.path().join("report.json");
    let config = tiny().quick_config();
    let arguments =
        ["--leave-one-out", "-i", text(tiny().folder()), "--config", text(&config), "--cases", "4"];
    evaluate(&arguments, &report).exits_with(0);
    let report = read_json(&report);
    let cases: Vec<&str> =
        report["records"].as_array().unwrap().iter().map(|r| r["case"].as_str().unwrap()).collect();
    assert_eq!(cases, ["c0", "c1", "c2", "c3"]);
    assert_eq!((&report["mode"], &report["split"]), (&json!("leave-one-out"), &Value::Null));
    // Two of them are compared in all splits.
    let path = out.path().join("report.json");
    let compare = ["--compare", text(&path), text(&path), "-i", text(tiny().folder())];
    let compared = out.path().join("compared.json");
    let shown = evaluate(&compare, &compared).exits_with(0).stdout;
    assert!(shown.contains("all splits: 4 pairs in 4 cases"), "{shown}");
    assert_eq!(read_json(&compared)["split"], Value::Null);
    // Four trainings on different cases are four models.
    assert_eq!(report["models"].as_array().unwrap().len(), 4);
    // The model of the first turn is the one that training on the others gives.
    let data = tiny_copy();
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    let others = dataset["cases"].as_array().unwrap()[1..4].to_vec();
    dataset["cases"] = json!(others);
    std::fs::write(&path, dataset.to_string()).unwrap();
    let (_, sha256) = trained_on(data.path(), &config);
    assert_eq!(report["models"][0]["sha256"], sha256);
}

#[test]
fn folds_test_every_training_case_once() {
    let (out, data) = (scratch(), tiny_copy());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    for n in [0, 3] {
        dataset["cases"][n]["subject"] = json!("twice");
    }
    std::fs::write(&path, dataset.to_string()).unwrap();
    let (report, config) = (out.path().join("report.json"), tiny().quick_config());
    let set = text(data.path());
    let models = out.path().join("models");
    let arguments =
        ["--folds", "2", "-i", set, "--config", text(&config), "--models", text(&models)];
    let outcome = evaluate(&arguments, &report).exits_with(0);
    assert!(outcome.stdout.contains("split train in 2 folds"), "{}", outcome.stdout);
    let written = read_json(&report);
    assert_eq!((&written["mode"], &written["folds"]), (&json!("folds"), &json!(2)));
    assert_eq!((&written["split"], &written["seed"]), (&json!("train"), &json!(0)));
    let cases: Vec<&str> = written["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["case"].as_str().unwrap())
        .collect();
    // In the order of the file, training cases alone.
    assert_eq!(cases, ["c0", "c1", "c2", "c3", "c4", "c5"]);
    assert_eq!(written["models"].as_array().unwrap().len(), 2);
    reports_of_folds_are_compared(&report, set, &models.join("fold-1.pbt"));
    let of_first = std::fs::read(models.join("fold-1.pbt")).unwrap();
    an_interrupted_one_goes_on(&arguments, &models, &written);

    // Subjects are {c0, c3}, c1, c2, c4, c5: the first fold holds out c0, c3, c2 and c5.
    let kept = [1, 4].map(|n| dataset["cases"][n].clone());
    dataset["cases"] = json!(kept);
    std::fs::write(&path, dataset.to_string()).unwrap();
    let (model, sha256) = trained_on(data.path(), &config);
    assert_eq!(written["models"][0]["sha256"], sha256);
    assert!(model == of_first);

    let refused = |arguments: &[&str], code, part: &str| {
        let outcome = evaluate(arguments, &report).exits_with(code);
        assert!(outcome.error_line().contains(part), "{}", outcome.stderr);
    };
    refused(&["--folds", "3", "-i", set], 4, "2 subject(s) cannot be divided into 3 folds");
    refused(&["--folds", "1", "-i", set], 2, "1");
    refused(&["--folds", "2", "--split", "dev", "-i", set], 4, "none has the split `dev`");
    refused(&["--folds", "2", "--leave-one-out", "-i", set], 2, "--leave-one-out");
    assert_eq!(read_json(&report), written, "an older report stays");
}

/// In the split that they are about; what another option would mean is not guessed.
fn reports_of_folds_are_compared(report: &Path, set: &str, model: &Path) {
    let out = scratch();
    let compared = out.path().join("compared.json");
    let compare = |b: &Path, more: &[&str]| {
        let sides = ["--compare", text(report), text(b), "-i", set];
        evaluate(&[&sides[..], more].concat(), &compared)
    };
    let shown = compare(report, &[]).exits_with(0).stdout;
    assert!(shown.contains("split train: 6 pairs in 6 cases"), "{shown}");
    assert_eq!(read_json(&compared)["split"], "train");
    std::fs::remove_file(&compared).unwrap();
    let refused = |b: &Path, more: &[&str], code: i32, part: &str| {
        let outcome = compare(b, more).exits_with(code);
        assert!(outcome.error_line().contains(part), "{}", outcome.stderr);
    };
    let none = "report.json: records: none is of a case of the split `test` that is compared \
                (they are of the split `train`: choose it with --split)";
    refused(report, &["--split", "test"], 4, none);
    // Of a model the usual cases are those for tests.
    refused(model, &[], 4, none);
    refused(report, &["--tolerance", "3"], 2, "--tolerance: ");
    let other = out.path().join("other.json");
    let mut of_tests = read_json(report);
    of_tests["split"] = json!("test");
    std::fs::write(&other, of_tests.to_string()).unwrap();
    refused(&other, &[], 2, "--split: the reports are about different ones, train and test");
    assert!(!compared.exists());
}

/// As if the run that has `written` a report had been interrupted in its second training.
fn an_interrupted_one_goes_on(arguments: &[&str], models: &Path, written: &Value) {
    let [first, second] = ["fold-1.pbt", "fold-2.pbt"].map(|name| models.join(name));
    let again = models.join("again.json");
    let changed = || std::fs::metadata(&first).unwrap().modified().unwrap();
    let before = (changed(), std::fs::read(&second).unwrap());
    std::fs::remove_file(&second).unwrap();
    evaluate(arguments, &again).exits_with(0);
    assert_eq!((changed(), std::fs::read(&second).unwrap()), before);
    let report = read_json(&again);
    for key in ["records", "models", "summary"] {
        assert_eq!(report[key], written[key], "{key}");
    }
    let other_seed = [arguments, &["--seed", "1"]].concat();
    let refused = evaluate(&other_seed, &again).exits_with(2);
    let error = refused.error_line();
    assert!(error.contains("--models: was made with another seed: 0, now 1 (give an"), "{error}");
    let other_settings = [arguments, &["--quick"]].concat();
    let refused = evaluate(&other_settings, &again).exits_with(2);
    let error = refused.error_line();
    assert!(
        error.contains(
            "fold-1.pbt: --models: was made with another configuration: without --quick, now"
        ),
        "{error}"
    );
    let of_file = [&arguments[..arguments.len() - 1], &[text(&first)]].concat();
    let refused = evaluate(&of_file, &again).exits_with(2);
    assert!(refused.error_line().contains("is a file (give a folder)"), "{}", refused.stderr);
    // What is spoilt is named before the first training, also where it is the last fold's.
    std::fs::remove_file(&first).unwrap();
    std::fs::write(&second, &before.1[..2000]).unwrap();
    let refused = evaluate(arguments, &again).exits_with(5);
    assert!(refused.error_line().contains("fold-2.pbt"), "{}", refused.stderr);
    std::fs::write(&second, &before.1).unwrap();
    std::fs::remove_file(models.join("fold-2.train.json")).unwrap();
    let refused = evaluate(arguments, &again).exits_with(2);
    let error = refused.error_line();
    assert!(error.contains("since fold-2.train.json is missing, damaged or of another"), "{error}");
    assert!(!first.exists());
}

#[cfg(unix)]
#[test]
fn a_fold_goes_on_where_it_was() {
    let (out, config) = (scratch(), tiny().quick_config());
    let (models, report) = (out.path().join("models"), out.path().join("report.json"));
    let data = text(tiny().folder());
    let folds = ["--folds", "2", "--cases", "4", "-i", data, "--config", text(&config)];
    let kept = ["--models", text(&models), "-o", text(&report), "--threads", "1"];
    let arguments = [&["evaluate"][..], &folds, &kept].concat();
    let partial = models.join("fold-2.partial");
    let (code, stderr) = interrupt_when_there(start(&arguments), &partial);
    assert!(code == Some(130) && stderr.contains("the same command goes on"), "{stderr}");
    assert!(models.join("fold-1.pbt").exists() && !report.exists());

    // A checkpoint of another training and a damaged one are named before anything is trained.
    let first = models.join("fold-1.pbt");
    let kept = std::fs::read(&first).unwrap();
    std::fs::remove_file(&first).unwrap();
    let other_seed = [&arguments[..], &["--seed", "1"]].concat();
    let refused = pbt(&other_seed).exits_with(5);
    let expected =
        "fold-2.partial: provenance: the checkpoint was made with another seed: 0, now 1";
    assert!(refused.error_line().contains(expected), "{}", refused.stderr);
    let finished = std::fs::read(&partial).unwrap();
    std::fs::write(&partial, &finished[..finished.len() / 2]).unwrap();
    let refused = pbt(&arguments).exits_with(5);
    let expected = "fold-2.partial: checkpoint: is damaged or of another version of pbt (remove it";
    assert!(refused.error_line().contains(expected), "{}", refused.stderr);
    assert!(!first.exists());
    std::fs::write(&partial, &finished).unwrap();
    std::fs::write(&first, kept).unwrap();

    let resumed = pbt(&arguments).exits_with(0);
    let told = "fold-2.partial: resuming from its finished stages";
    assert!(resumed.stderr.contains(told) && !partial.exists(), "{}", resumed.stderr);
    let at_once = out.path().join("at-once.json");
    evaluate(&folds, &at_once).exits_with(0);
    let [resumed, whole] = [report, at_once].map(|path| read_json(&path));
    assert_eq!(resumed["records"], whole["records"]);
    assert_eq!(resumed["models"], whole["models"]);
}

#[test]
fn leaving_one_out_leaves_out_all_of_its_subject() {
    let (out, data) = (scratch(), tiny_copy());
    let path = data.path().join("dataset.json");
    let mut dataset = read_json(&path);
    for n in [0, 1] {
        dataset["cases"][n]["subject"] = json!("twice");
    }
    std::fs::write(&path, dataset.to_string()).unwrap();
    let (report, config) = (out.path().join("report.json"), tiny().quick_config());
    let arguments =
        ["--leave-one-out", "-i", text(data.path()), "--config", text(&config), "--cases", "4"];
    evaluate(&arguments, &report).exits_with(0);
    let report = read_json(&report);
    assert_eq!(report["records"].as_array().unwrap().len(), 4);
    // The first two cases are tested with one model, the one that training on the others gives.
    assert_eq!(report["models"].as_array().unwrap().len(), 3);
    dataset["cases"] = json!(dataset["cases"].as_array().unwrap()[2..4]);
    std::fs::write(&path, dataset.to_string()).unwrap();
    let (_, sha256) = trained_on(data.path(), &config);
    assert_eq!(report["models"][0]["sha256"], sha256);
}
