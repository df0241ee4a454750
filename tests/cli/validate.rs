//! `pbt validate`

use crate::support::{
    Outcome, TEST, TRAINING, numbers, pbt, read_json, scratch, text, tiny, tiny_copy, train,
};
use pbt_io::{RawImage, VoxelType, read_raw, write_image};
use serde_json::{Value, json};
use std::path::Path;

fn validate(path: &Path) -> Outcome {
    pbt(["validate".as_ref(), path.as_os_str()])
}

/// The same through JSON: exit code, kind, and the lines of all findings.
fn findings(path: &Path, code: i32) -> (String, Vec<String>) {
    let outcome = pbt(["validate".as_ref(), "--json".as_ref(), path.as_os_str()]).exits_with(code);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(json["schema"], "pbt-validation/1");
    let line = |f: &Value| {
        format!("{}: {}", f["severity"].as_str().unwrap(), f["message"].as_str().unwrap())
    };
    let lines: Vec<String> = json["findings"].as_array().unwrap().iter().map(line).collect();
    let errors = lines.iter().filter(|l| l.starts_with("error: ")).count();
    assert_eq!((json["errors"].as_u64().unwrap(), errors > 0), (errors as u64, code != 0));
    if errors > 0 {
        outcome.error_line();
    }
    (json["kind"].as_str().unwrap().to_owned(), lines)
}

/// One phantom of the tiny data set is stored along other axes than the rest.
const TURNED: &str = "c0.nii.gz: orientation: the axes point towards LAI";

/// Changes the data set's file.
fn edit(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("dataset.json");
    let mut dataset = read_json(&path);
    change(&mut dataset);
    std::fs::write(path, dataset.to_string()).unwrap();
}

#[test]
fn files_in_order_pass() {
    let outcome = validate(tiny().folder()).exits_with(0);
    let expected =
        format!("data set with {} readable images: 0 error(s), 1 warning(s)", TRAINING + TEST);
    assert!(outcome.stdout.contains(&expected) && outcome.stderr.is_empty(), "{}", outcome.stdout);
    let next = format!("next: pbt train -i {} -o MODEL.pbt\n", tiny().folder().display());
    assert!(outcome.stdout.ends_with(&next), "{}", outcome.stdout);
    let quiet = pbt(["validate".as_ref(), tiny().folder().as_os_str(), "-q".as_ref()]);
    assert!(!quiet.exits_with(0).stdout.contains("next: "));
    let (kind, lines) = findings(&tiny().folder().join("dataset.json"), 0);
    assert!(kind == "data set" && lines.len() == 1 && lines[0].contains(TURNED), "{lines:?}");
    for (file, kind) in [("c0.nii.gz", "image"), ("c0.mrk.json", "markups"), ("gland.pbt", "model")]
    {
        assert_eq!(findings(&tiny().folder().join(file), 0), (kind.to_owned(), Vec::new()));
    }
    let out = scratch();
    let image = tiny().folder().join("c0.nii.gz");
    pbt([
        "detect".as_ref(),
        "-m".as_ref(),
        tiny().model().as_os_str(),
        "-i".as_ref(),
        image.as_os_str(),
        "-o".as_ref(),
        out.path().as_os_str(),
    ])
    .exits_with(0);
    assert_eq!(findings(&out.path().join("c0.json"), 0).0, "result");
    let shown = validate(&image).stdout;
    let input = read_json(&out.path().join("c0.json"))["input"].clone();
    let [i, j, k] = numbers(&input["shape"]);
    assert!(
        shown.contains(&format!("{i} x {j} x {k} voxels of "))
            && shown.contains("axes towards LAI"),
        "{shown}"
    );
    assert!(shown.contains(input["sha256"].as_str().unwrap()));
}

#[test]
fn all_that_is_wrong_with_a_data_set_is_said_at_once() {
    let data = tiny_copy();
    let at = |name: &str| data.path().join(name);
    // An image in two splits, one that is damaged, a box that is far away, and a structure that is
    // hardly annotated.
    std::fs::copy(at("c5.nii.gz"), at(&format!("c{TRAINING}.nii.gz"))).unwrap();
    std::fs::copy(at("c5.mrk.json"), at(&format!("c{TRAINING}.mrk.json"))).unwrap();
    std::fs::write(at("c1.nii.gz"), "no image").unwrap();
    let mut markups = read_json(&at("c2.mrk.json"));
    markups["markups"][0]["center"] = json!([1000.0, 0.0, 0.0]);
    std::fs::write(at("c2.mrk.json"), markups.to_string()).unwrap();
    edit(data.path(), |dataset| {
        dataset["structures"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "tip", "kind": "landmark" }));
        dataset["cases"][3].as_object_mut().unwrap().remove("annotations");
        dataset["cases"][4]["colour"] = json!("red");
    });
    let (kind, lines) = findings(data.path(), 4);
    assert_eq!(kind, "data set");
    let twice = format!("c{TRAINING}.nii.gz: image: ");
    let mut expected = vec![
        ("error", "c1.nii.gz: ", ""),
        ("error", "c2.mrk.json: gland: ", "voxels outside"),
        ("error", twice.as_str(), "one in the split `test` and one in `train`"),
        ("warning", "gland: not annotated in 1 of 9 cases: c3", ""),
        ("warning", "tip: not annotated in 9 of 9 cases: c0, c1, c2, c3, c4, ...", ""),
        ("error", "tip: 0 training case(s) with this landmark and its box gland", ""),
        ("warning", "colour", ""),
        ("warning", TURNED, ""),
    ];
    for line in &lines {
        let is = |(severity, part, other): &(&str, &str, &str)| {
            line.starts_with(severity) && line.contains(part) && line.contains(other)
        };
        let place = expected
            .iter()
            .position(is)
            .unwrap_or_else(|| panic!("{line}\nis not expected among {lines:#?}"));
        expected.remove(place);
    }
    assert!(expected.is_empty(), "{expected:?} are missing in {lines:#?}");
    let outcome = validate(data.path()).exits_with(4);
    assert_eq!(outcome.stdout.lines().filter(|l| l.starts_with("error: ")).count(), 4);
    assert!(
        outcome.error_line().contains("4 error(s), 4 warning(s)")
            && !outcome.stdout.contains("4 error(s)"),
        "said once"
    );
}

#[test]
fn a_label_of_nearly_the_name_may_be_meant() {
    let data = tiny_copy();
    edit(data.path(), |set| {
        set["structures"].as_array_mut().unwrap().push(json!({"name": "Duct", "kind": "box"}));
        set["labels"] = json!({"1": "gland", "2": "duct"});
    });
    let (_, lines) = findings(data.path(), 4);
    let told = |text: &str| lines.iter().any(|line| line.contains(text));
    assert!(told("Duct: not annotated in 9 of 9 cases"), "{lines:#?}");
    assert!(told("`labels` has `duct`: is that meant?"), "{lines:#?}");
}

#[test]
fn names_that_the_data_set_lacks_are_the_reason() {
    let data = tiny_copy();
    edit(data.path(), |dataset| dataset["structures"][0]["name"] = json!("liver"));
    let (_, lines) = findings(data.path(), 4);
    let said = "c0.mrk.json: names: holds a box `gland`; the data set has no such structure, and so it \
                is in 8 more files";
    assert_eq!(lines.iter().filter(|line| line.contains(said)).count(), 1, "{lines:#?}");
    let out = scratch();
    let training = train(data.path(), &out.path().join("m.pbt"), &[]).exits_with(4);
    assert!(training.stderr.contains("holds a box `gland`"), "{}", training.stderr);
}

#[test]
fn faults_of_the_file_do_not_hide_each_other() {
    let data = tiny_copy();
    edit(data.path(), |dataset| {
        dataset["cases"][1]["image"] = json!("gone.nii");
        dataset["cases"][2].as_object_mut().unwrap().remove("split");
        dataset["structures"].as_array_mut().unwrap().extend([
            json!({ "name": "left", "kind": "landmark", "partner": "right" }),
            json!({ "name": "right", "kind": "landmark" }),
            json!({ "name": "odd", "kind": "cube" }),
        ]);
    });
    let (_, lines) = findings(data.path(), 4);
    for part in [
        "structures[3].kind",
        "cases[1].image",
        "cases[2].split",
        "left: its partner right does not name it",
    ] {
        assert_eq!(
            lines.iter().filter(|line| line.contains(part)).count(),
            1,
            "{part}: {lines:#?}"
        );
    }
}

#[test]
fn one_scan_in_two_splits_is_found_in_another_format() {
    let data = tiny_copy();
    let test_image = data.path().join(format!("c{TRAINING}.nii.gz"));
    let original = read_raw(&data.path().join("c5.nii.gz")).unwrap().raw;
    // Twice as bright, with a little noise, as 16-bit numbers.
    let noisy = |(n, v): (usize, &f64)| {
        ((2.0 * v) as i16 + (n as i16).wrapping_mul(7919) % 5).to_le_bytes()
    };
    let bytes = original.to_f64().iter().enumerate().flat_map(noisy).collect();
    let copy = RawImage::new(original.geometry().clone(), VoxelType::I16, bytes, None).unwrap();
    write_image(&test_image, &copy).unwrap();
    std::fs::copy(
        data.path().join("c5.mrk.json"),
        data.path().join(format!("c{TRAINING}.mrk.json")),
    )
    .unwrap();
    let (_, lines) = findings(data.path(), 0);
    let alike: Vec<&String> = lines.iter().filter(|line| line.contains("looks the same")).collect();
    assert!(alike.len() == 1 && alike[0].contains("1 such pair(s): c5 and c6"), "{lines:?}");
}

#[test]
fn faults_of_single_files_have_their_exit_codes() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    validate(&at("none.nii")).exits_with(4).error_line();
    std::fs::write(at("dataset.json"), "{").unwrap();
    assert!(findings(&at("dataset.json"), 4).1[0].contains("dataset.json: JSON: "));
    std::fs::write(at("a.mrk.json"), "[]").unwrap();
    assert_eq!(findings(&at("a.mrk.json"), 4).0, "markups");
    std::fs::write(at("m.pbt"), "no model").unwrap();
    assert_eq!(findings(&at("m.pbt"), 5).0, "model");
    std::fs::write(at("notes.txt"), "notes").unwrap();
    assert!(findings(&at("notes.txt"), 4).1[0].contains("extension"));
    let empty = scratch();
    assert!(findings(empty.path(), 4).1[0].contains("neither dataset.json nor images"));
}

#[test]
fn a_folder_of_images_is_compared() {
    let folder = scratch();
    for n in 1..4 {
        std::fs::copy(
            tiny().folder().join(format!("c{n}.nii.gz")),
            folder.path().join(format!("c{n}.nii.gz")),
        )
        .unwrap();
    }
    assert_eq!(findings(folder.path(), 0), ("folder of images".to_owned(), Vec::new()));
    // Of many images no one volume is meant.
    for path in [folder.path(), tiny().folder(), &tiny().model()] {
        for choice in [["--frame", "0"], ["--series", "1"]] {
            let told = pbt(["validate", text(path)].into_iter().chain(choice)).exits_with(2);
            assert!(told.error_line().contains(choice[0]), "{}", told.stderr);
        }
    }
    std::fs::copy(folder.path().join("c1.nii.gz"), folder.path().join("d.nii.gz")).unwrap();
    let (_, lines) = findings(folder.path(), 0);
    assert!(
        lines.len() == 1
            && lines[0].starts_with("warning: ")
            && lines[0].contains("d.nii.gz: image: the same bytes"),
        "{lines:?}"
    );
}

#[test]
fn a_label_map_is_called_one() {
    let folder = scratch();
    let path = folder.path().join("mask.nii.gz");
    let bytes = (0..6 * 6 * 6).map(|n| u8::from(n % 7 == 0) * 3).collect();
    let mask = RawImage::new(
        pbt_volume::Geometry::isotropic([6, 6, 6], 1.0).unwrap(),
        VoxelType::U8,
        bytes,
        None,
    )
    .unwrap();
    write_image(&path, &mask).unwrap();
    let (_, lines) = findings(&path, 0);
    assert!(
        lines.len() == 1
            && lines[0].starts_with("warning: ")
            && lines[0].contains("0 or 3: a label map"),
        "{lines:?}"
    );
    // Where an image to train on is expected, it is wrong.
    let data = tiny_copy();
    std::fs::copy(&path, data.path().join("mask.nii.gz")).unwrap();
    edit(data.path(), |dataset| dataset["cases"][2]["image"] = "mask.nii.gz".into());
    let (_, lines) = findings(data.path(), 4);
    assert!(
        lines.iter().any(|l| l.starts_with("error: ") && l.contains("0 or 3: a label map")),
        "{lines:?}"
    );
}
