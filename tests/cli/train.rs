//! `pbt train`: what it says beforehand, and `--quick`.

use crate::support::{SMALL, pbt, read_json, scratch, text, tiny, tiny_copy, train};
use pbt_io::{RawImage, VoxelType, read_image, read_markups, write_image, write_markups};
use serde_json::json;

#[test]
fn what_it_takes_is_said_beforehand() {
    let out = scratch();
    let (model, config) = (out.path().join("m.pbt"), tiny().quick_config());
    let arguments = ["train", "-i", text(tiny().folder()), "-o", text(&model), "--device", "cpu"];
    let said = pbt([&arguments[..], &["--config", text(&config)]].concat()).exits_with(0).stderr;
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("training gland on 6 of 6 training cases with "), "{said}");
    assert!(lines[1].starts_with("this will take about "), "{said}");
    assert!(lines[1].contains(" s to ") && lines[1].ends_with(" GB of memory"), "{said}");
    // At the end, what came of it, and what comes next.
    let [.., written, next] = lines[..] else { panic!("{said}") };
    let (model, data) = (text(&model), text(tiny().folder()));
    assert!(written.starts_with(&format!("{model} (")) && written.contains("B) in "), "{said}");
    assert_eq!(next, format!("next: pbt evaluate -m {model} -i {data} -o report.json"));
}

#[test]
fn a_quick_model_says_what_it_left_out() {
    let out = scratch();
    let (model, config) = (out.path().join("m.pbt"), out.path().join("small.toml"));
    std::fs::write(&config, SMALL).unwrap();
    let arguments = ["train", "--quick", "-i", text(tiny().folder()), "-o", text(&model)];
    let said = pbt([&arguments[..], &["--config", text(&config)]].concat()).exits_with(0).stderr;
    assert!(said.starts_with("training quickly gland on 6 of 6 training cases"), "{said}");
    let resolved = std::fs::read_to_string(out.path().join("m.train.toml")).unwrap();
    for line in
        ["measured = false", "trained = false", "copies = 0", "level_shift = false", "copies = 3"]
    {
        assert!(resolved.lines().any(|l| l == line), "{line}: {resolved}");
    }
    // It detects, and its scores are no measured ones.
    let image = tiny().folder().join("c7.nii.gz");
    pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())]).exits_with(0);
    let result = read_json(&out.path().join("c7.json"));
    assert!(result["detections"][0].get("radius_90_mm").is_none(), "{result}");
    // A batch says so once, and so does its page.
    let (list, found) = (out.path().join("list.csv"), out.path().join("found"));
    let rows = ["c6", "c7"].map(|case| {
        format!("{case},{}\n", tiny().folder().join(format!("{case}.nii.gz")).display())
    });
    std::fs::write(&list, format!("case_id,path\n{}", rows.concat())).unwrap();
    let batch = ["batch", "-m", text(&model), "-i", text(&list), "-o", text(&found)];
    let unmeasured = "score: was not measured on held-out cases";
    let said = pbt(batch).exits_with(0).stderr;
    let warnings: Vec<&str> = said.lines().filter(|line| line.contains(unmeasured)).collect();
    let [warning] = warnings[..] else { panic!("{said}") };
    assert!(warning.starts_with("warning: ") && warning.ends_with(" (2 cases)"), "{said}");
    assert_eq!(pbt([&batch[..], &["-q"]].concat()).exits_with(0).stderr, "");
    let page = out.path().join("page.html");
    pbt(["report", text(&found), "-o", text(&page)]).exits_with(0);
    let page = std::fs::read_to_string(page).unwrap();
    let (head, cases) = page.split_once("id=\"cases\"").unwrap();
    assert!(head.contains(unmeasured) && !cases.contains(unmeasured));
}

#[test]
fn cases_of_a_misspelled_split_are_not_left_out_without_a_word() {
    let data = tiny_copy();
    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["cases"][1]["split"] = "trian".into();
    std::fs::write(&file, dataset.to_string()).unwrap();
    let said = train(data.path(), &data.path().join("m.pbt"), &["--quick"]).exits_with(0).stderr;
    assert!(said.contains("on 5 of 5 training cases"), "{said}");
    let warning =
        "cases: split: 1 case(s) have the split `trian`: c1 (write `train`, if that is meant";
    assert!(said.lines().any(|l| l.starts_with("warning: ") && l.contains(warning)), "{said}");
}

/// What `validate` would have said of a box is said before the training learns from it.
#[test]
fn a_box_ten_times_too_small_is_not_learned_without_a_word() {
    let data = tiny_copy();
    let file = data.path().join("c1.mrk.json");
    let mut markups = read_json(&file);
    for edge in markups["markups"][0]["size"].as_array_mut().unwrap() {
        *edge = (edge.as_f64().unwrap() / 10.0).into();
    }
    std::fs::write(&file, markups.to_string()).unwrap();
    let out = data.path().join("m.pbt");
    let said = train(data.path(), &out, &["--quick"]).exits_with(0).stderr;
    let warning = "c1.mrk.json: gland: ";
    assert!(said.lines().any(|l| l.starts_with("warning: ") && l.contains(warning)), "{said}");
    let report = read_json(&data.path().join("m.train.json"));
    assert!(report["warnings"][0].as_str().unwrap().contains(warning), "{report}");
}

#[test]
fn labels_that_nobody_drew_end_no_training() {
    let (data, out) = (tiny_copy(), scratch());
    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["labels"] = json!({ "1": "gland" });
    for case in dataset["cases"].as_array_mut().unwrap() {
        let id = case["id"].as_str().unwrap().to_owned();
        let grid = read_image(&data.path().join(format!("{id}.nii.gz"))).unwrap();
        let grid = grid.volume.geometry().clone();
        let empty = vec![0; grid.len()];
        let map = RawImage::new(grid, VoxelType::U8, empty, None).unwrap();
        write_image(&data.path().join(format!("{id}.labels.nii.gz")), &map).unwrap();
        case["labels"] = json!(format!("{id}.labels.nii.gz"));
    }
    std::fs::write(&file, dataset.to_string()).unwrap();
    let said = train(data.path(), &out.path().join("m.pbt"), &[]).exits_with(0).stderr;
    assert!(said.contains("gland: masks: none are learned"), "{said}");
}

#[test]
fn a_rare_structure_that_leaves_scores_unmeasured_is_named() {
    let (data, out) = (tiny_copy(), scratch());
    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["structures"].as_array_mut().unwrap().push(json!({ "name": "rare", "kind": "box" }));
    std::fs::write(&file, dataset.to_string()).unwrap();
    for id in ["c0", "c1"] {
        let path = data.path().join(format!("{id}.mrk.json"));
        let (name, pose) = read_markups(&path).unwrap().boxes.swap_remove(0);
        let rare = ("rare".to_owned(), pose);
        write_markups(&path, &[(name, pose), rare], &[], |_| String::new()).unwrap();
    }
    let said = train(data.path(), &out.path().join("m.pbt"), &[]).exits_with(0).stderr;
    assert!(said.contains("rare: annotated in too few cases to hold some out"), "{said}");
}
