//! Models by name, their cards, and the phantom models of the program.

use crate::support::{
    Outcome, contents, numbers, pbt, program, read_json, refused, scratch, text, tiny,
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The demo models and their recipes.
fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
}

/// Runs `pbt` in a folder (that of the tests has the folder `models`), with folders of models in
/// `PBT_MODELS` if some are given.
fn pbt_in(folder: &Path, models: Option<&str>, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(program("pbt"));
    command.args(arguments).current_dir(folder).env_remove("PBT_MODELS");
    if let Some(models) = models {
        command.env("PBT_MODELS", models);
    }
    let output = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome {
        code: output.status.code().expect("the program ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

#[test]
fn two_commands_detect_without_any_data() {
    let folder = scratch();
    let run = |arguments: &[&str]| pbt_in(folder.path(), None, arguments).exits_with(0);
    run(&["demo", "--data-only", "--cases", "2", "--unseen", "2", "-o", "try"]);
    for (modality, name) in [("ct", "skull"), ("mr", "hippocampus"), ("us", "gland")] {
        let dataset = read_json(&folder.path().join(format!("try/{modality}/dataset.json")));
        assert_eq!(dataset["cases"].as_array().map(Vec::len), Some(4));
        let image = format!("try/{modality}/images/{modality}-test-02.nii.gz");
        let model = format!("phantom-{modality}");
        run(&["detect", "-m", &model, "-i", &image, "-o", "found"]);
        let result = read_json(&folder.path().join(format!("found/{modality}-test-02.json")));
        let found = &result["detections"][0];
        assert_eq!((&found["name"], &found["status"]), (&json!(name), &json!("found")), "{found}");
        assert_eq!(result["model"]["name"], json!(model));
        assert_eq!(result["run"]["model_path"], json!(model));
        let truth =
            folder.path().join(format!("try/{modality}/annotations/{modality}-test-02.mrk.json"));
        let (a, b) = (
            numbers(&found["position_lps_mm"]),
            numbers(&read_json(&truth)["markups"][0]["center"]),
        );
        let off_mm = (0..3).map(|n| (a[n] - b[n]).powi(2)).sum::<f64>().sqrt();
        assert!(off_mm < 3.0, "{model}: {off_mm} mm");
    }
    // Data alone: neither models nor results.
    assert!(
        !folder.path().join("try/results").exists() && !folder.path().join("try/ct.pbt").exists()
    );
}

#[test]
fn a_name_is_sought_in_the_folders_of_models() {
    let root = scratch();
    let folders = ["here/models", "mine", "empty"].map(|name| root.path().join(name));
    folders.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let here = root.path().join("here");
    std::fs::copy(tiny().model(), folders[1].join("organ.pbt")).unwrap();
    let listed = std::env::join_paths([&folders[2], &folders[1]]).unwrap();
    let listed = listed.to_str().unwrap();
    let image = tiny().folder().join("c7.nii.gz");
    let detect = |models: Option<&str>| {
        pbt_in(&here, models, &["detect", "-m", "organ", "-i", text(&image), "-o", "found"])
    };
    refused(detect(None), 4, &["organ: model: ", "PBT_MODELS is not set", "models"]);
    detect(Some(listed)).exits_with(0);
    let used = || read_json(&here.join("found/c7.json"))["run"]["model_path"].clone();
    assert_eq!(used(), json!(folders[1].join("organ.pbt")));
    // The current folder's models go first.
    std::fs::copy(tiny().model(), folders[0].join("organ.pbt")).unwrap();
    detect(Some(listed)).exits_with(0);
    assert_eq!(used(), json!("models/organ.pbt"));
    // A file in the current folder goes before them, also without its extension.
    std::fs::copy(tiny().model(), here.join("organ.pbt")).unwrap();
    detect(Some(listed)).exits_with(0);
    assert_eq!(used(), json!("organ.pbt"));
    std::fs::remove_file(here.join("organ.pbt")).unwrap();
    // Every command that takes a model knows names.
    let data = text(tiny().folder()).to_owned();
    pbt_in(&here, None, &["evaluate", "-m", "organ", "-i", &data, "--cases", "1"]).exits_with(0);
    pbt_in(&here, None, &["batch", "-m", "organ", "-i", &data, "-o", "all"]).exits_with(0);
    assert_eq!(read_json(&here.join("all/run.json"))["model_path"], json!("models/organ.pbt"));
    pbt_in(&here, None, &["validate", &data, "-m", "organ"]).exits_with(0);
    pbt_in(&here, None, &["info", "organ"]).exits_with(0);
    // A slip is told with the nearest name.
    let slip = pbt_in(&here, None, &["info", "orgam"]);
    refused(slip, 4, &["did you mean `organ`?"]);
    refused(pbt_in(&here, None, &["info", "phantom-mrt"]), 4, &["did you mean `phantom-mr`?"]);
    // A model in the image's place, which is easily done.
    let swapped =
        pbt_in(&here, None, &["detect", "-i", "models/organ.pbt", "-m", "organ", "-o", "x"]);
    refused(
        swapped,
        4,
        &["models/organ.pbt: file: is a model, not an image (give the model to -m"],
    );
    // What has a folder is a path.
    refused(pbt_in(&here, Some(listed), &["info", "./organ"]), 4, &["./organ: file: "]);
}

#[test]
fn info_prints_the_card_that_lies_beside_a_model() {
    let (name, elsewhere) = ("phantom-us", scratch());
    let outcome = pbt_in(elsewhere.path(), None, &["info", name]).exits_with(0);
    let page = std::fs::read_to_string(models().join("phantom-us.md")).unwrap();
    assert!(outcome.stdout.starts_with(&page), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("gland: stages"));
    let info = pbt_in(elsewhere.path(), None, &["info", name, "--json"]).exits_with(0);
    let info: Value = serde_json::from_str(&info.stdout).unwrap();
    assert_eq!(info["model"]["card"], read_json(&models().join("phantom-us.json")));
    assert_eq!(info["model"]["path"], json!(name));

    // Of a file in a folder of the user's own; of another model it is not shown.
    let folder = scratch();
    for extension in ["pbt", "md", "json"] {
        let file = format!("phantom-us.{extension}");
        std::fs::copy(models().join(&file), folder.path().join(&file)).unwrap();
    }
    let model = folder.path().join("phantom-us.pbt");
    assert!(pbt(["info", text(&model)]).exits_with(0).stdout.starts_with(&page));
    std::fs::copy(tiny().model(), &model).unwrap();
    let outcome = pbt(["info", text(&model)]).exits_with(0);
    assert!(!outcome.stdout.contains("Not a medical device"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("phantom-us.json: model.sha256: is not that of"));
    assert!(pbt(["info", "-q", text(&model)]).exits_with(0).stderr.is_empty());
    // Whatever else has such a name is none.
    std::fs::write(folder.path().join("phantom-us.json"), "[1]").unwrap();
    assert!(pbt(["info", text(&model)]).exits_with(0).stderr.is_empty());
}

/// Of every model the card is committed, of these the model, too: `.gitignore` names them.
const COMMITTED: [&str; 4] = ["hippocampus", "phantom-ct", "phantom-mr", "phantom-us"];

#[test]
fn committed_models_are_small_and_those_of_their_cards() {
    let hashes = contents(&models());
    for name in COMMITTED {
        let file = models().join(name).with_extension("pbt");
        let bytes = std::fs::metadata(&file).unwrap().len();
        assert!(bytes < 1_000_000, "{name}: {bytes} bytes");
        let model = &read_json(&file.with_extension("json"))["model"];
        assert_eq!(model["sha256"], json!(hashes[&file]), "{name}: run cargo xtask models {name}");
        assert_eq!(model["bytes"], json!(bytes));
    }
}

#[test]
fn every_recipe_has_a_card_that_says_what_a_user_must_know() {
    let listed = std::fs::read_to_string(models().join("README.md")).unwrap();
    let mut names = Vec::new();
    let files = contents(&models()).into_keys();
    for file in files.filter(|file| file.extension().is_some_and(|e| e == "toml")) {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let card = read_json(&file.with_extension("json"));
        assert_eq!(card["schema"], "pbt-model-card/1");
        for key in ["intended_use", "not_a_medical_device"] {
            assert!(card[key].as_str().is_some_and(|text| !text.is_empty()), "{name}: {key}");
        }
        let page = std::fs::read_to_string(file.with_extension("md")).unwrap();
        let recipe: toml::Table = std::fs::read_to_string(&file).unwrap().parse().unwrap();
        for key in ["failures", "limits"] {
            // What a person wrote: that of the recipe, as it is now.
            let words: Vec<&str> =
                recipe[key].as_array().unwrap().iter().flat_map(|w| w.as_str()).collect();
            assert_eq!(card[key], json!(words), "{name}: run cargo xtask models {name}");
            assert!(!words.is_empty() && words.iter().all(|w| page.contains(w)), "{name}: {key}");
        }
        assert!(card["structures"].as_array().is_some_and(|list| !list.is_empty()), "{name}");
        let data = &card["data"];
        assert!(data["licence"].is_string() && data["source"].is_string(), "{name}: {data}");
        let accuracy = &card["accuracy"]["structures"][0];
        let [low, high] =
            ["low", "high"].map(|end| accuracy["center_mm"]["interval"][end].as_f64().unwrap());
        let mean = accuracy["center_mm"]["mean"].as_f64().unwrap();
        assert!(low <= mean && mean <= high && low < high, "{name}: {accuracy}");
        let sha256 = card["model"]["sha256"].as_str().unwrap();
        assert!(page.contains(sha256) && page.contains("Not a medical device"), "{name}");
        assert!(listed.contains(&format!("({name}.md)")), "{name} is not in models/README.md");
        names.push(name);
    }
    assert!(COMMITTED.iter().all(|name| names.iter().any(|n| n == name)), "{names:?}");
}

/// The committed model is what its recipe makes: on this machine, today.
#[test]
fn a_phantom_model_is_made_again_to_the_byte() {
    let folder = scratch();
    let made = folder.path().join("again.pbt");
    let recipe: toml::Table =
        std::fs::read_to_string(models().join("phantom-us.toml")).unwrap().parse().unwrap();
    let options = recipe["training"]["options"].as_array().unwrap();
    let data = folder.path().join("us");
    let phantoms = ["demo", "--data-only", "--modality", "us", "--unseen", "1", "-q", "-o"];
    pbt(phantoms.into_iter().chain([text(folder.path())])).exits_with(0);
    // Paths of a recipe are those of the checkout.
    let mut train = vec!["train", "-q", "-i", text(&data), "-o", text(&made)];
    train.extend(options.iter().map(|option| option.as_str().unwrap()));
    pbt_in(Path::new(env!("CARGO_MANIFEST_DIR")), None, &train).exits_with(0);
    let committed = std::fs::read(models().join("phantom-us.pbt")).unwrap();
    assert!(
        std::fs::read(&made).unwrap() == committed,
        "models/phantom-us.pbt: training makes another (run `cargo xtask models phantom-ct phantom-mr phantom-us`)"
    );
}
