//! Names, numbers and amounts that nobody means well with: escaped, refused by name, or harmless.

use crate::sets::set;
use crate::support::{limited, pbt, read_json, scratch, text, tiny, tiny_copy};
use serde_json::{Value, json};
use std::path::Path;

/// Changes the data set's file in a folder.
fn change(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("dataset.json");
    let mut dataset = read_json(&path);
    change(&mut dataset);
    std::fs::write(path, dataset.to_string()).unwrap();
}

/// The text of every file below a folder.
fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &all_text(&path);
        } else {
            text += &String::from_utf8_lossy(&std::fs::read(&path).unwrap());
        }
    }
    text
}

#[test]
fn names_cannot_act_on_a_terminal() {
    let folder = tiny_copy();
    change(folder.path(), |dataset| dataset["structures"][0]["name"] = json!("gl\u{1b}[31mand"));
    let refused = pbt(["validate", text(folder.path())]).exits_with(4);
    let shown = refused.stdout + &refused.stderr;
    assert!(shown.contains("control characters") && !shown.contains('\u{1b}'), "{shown}");

    let folder = tiny_copy();
    change(folder.path(), |dataset| dataset["structures"][0]["name"] = json!("gl\u{202e}dna"));
    let named = pbt(["validate", text(folder.path())]);
    let shown = named.stdout + &named.stderr;
    assert!(shown.contains("gl\\u{202e}dna") && !shown.contains('\u{202e}'), "{shown}");

    let images = scratch();
    let evil = images.path().join("a\u{1b}]0;b\u{202e}.nii.gz");
    std::fs::write(&evil, "no image").unwrap();
    let (model, out) = (tiny().model(), images.path().join("out"));
    let failed = pbt(["batch", "-m", text(&model), "-i", text(images.path()), "-o", text(&out)]);
    let failed = failed.exits_with(3);
    let shown = failed.stdout + &failed.stderr;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");

    // A line of its own would look like another error.
    let images = scratch();
    std::fs::write(images.path().join("a\nerror: fake.nii.gz"), "no image").unwrap();
    std::fs::write(images.path().join("b\nerror: fake.nii.gz"), "no image").unwrap();
    let out = images.path().join("out");
    let batch = ["batch", "-m", text(&model), "-i", text(images.path()), "-o", text(&out)];
    for outcome in [pbt(batch).exits_with(3), pbt(["validate", text(images.path())]).exits_with(4)]
    {
        let shown = outcome.stdout + &outcome.stderr;
        assert!(shown.contains("fake") && !shown.contains("\nerror: fake"), "{shown}");
    }
}

#[test]
fn tables_hold_no_formulas_and_no_paths_where_none_are_wanted() {
    let folder = scratch();
    let images = folder.path().join("Jane_Doe");
    std::fs::create_dir(&images).unwrap();
    std::fs::copy(tiny().folder().join("c7.nii.gz"), images.join("=1+1.nii.gz")).unwrap();
    std::fs::write(images.join("bad.nii.gz"), "no image").unwrap();
    // Errors about a file within a case, and about a path that one line does not show as it is.
    std::fs::create_dir(images.join("dicom")).unwrap();
    std::fs::write(images.join("dicom/1.dcm"), "no image").unwrap();
    std::fs::create_dir(folder.path().join("Jane_Doe  x")).unwrap();
    std::fs::write(folder.path().join("Jane_Doe  x/bad.nii.gz"), "no image").unwrap();
    let list = folder.path().join("list.csv");
    let rows = [
        "case_id,path",
        "=1+1,Jane_Doe/=1+1.nii.gz",
        "@b,Jane_Doe/bad.nii.gz",
        "c,Jane_Doe/dicom",
        "d,Jane_Doe  x/bad.nii.gz",
        "e,Jane_Doe/missing.nii.gz",
    ];
    std::fs::write(&list, rows.join("\n")).unwrap();
    let (model, out) = (tiny().model(), folder.path().join("out"));
    let batch = ["batch", "-m", text(&model), "-i", text(&list), "-o", text(&out), "--no-paths"];
    pbt(batch).exits_with(3);
    let table = std::fs::read_to_string(out.join("detections.csv")).unwrap();
    assert!(table.contains("\n'=1+1,") && table.contains("\n'@b,failed"), "{table}");
    assert!(!table.contains("\n=") && !table.contains("\n@"), "{table}");
    let written = all_text(&out);
    assert!(!written.contains("Jane_Doe") && !written.contains(text(&model)), "{written}");
    let run = read_json(&out.join("run.json"));
    assert_eq!(
        (&run["failed"][0]["case_id"], &run["options"]["no_paths"]),
        (&json!("@b"), &json!(true))
    );
    let reasons = run["failed"].as_array().unwrap().iter().map(|f| f["reason"].as_str().unwrap());
    assert!(reasons.clone().all(|reason| reason.contains(": ")), "{reasons:?}");
    // With paths, as everybody has them.
    pbt(&batch[..7]).exits_with(3);
    assert!(all_text(&out).contains("Jane_Doe"));
    // These are not taken over where none are wanted, not even those of another part.
    pbt(batch.iter().chain(&["--resume", "--shard", "1/2"])).exits_with(3);
    let run = std::fs::read_to_string(out.join("run.json")).unwrap();
    assert!(!run.contains("Jane_Doe") && run.contains("record with paths"), "{run}");
    pbt(batch.iter().chain(&["--resume"])).exits_with(3);
    assert!(!all_text(&out).contains("Jane_Doe"));
    assert_eq!(read_json(&out.join("run.json"))["counts"]["resumed"], 1);

    let (image, one) = (images.join("=1+1.nii.gz"), folder.path().join("one"));
    pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(&one), "--no-paths"])
        .exits_with(0);
    assert!(!all_text(&one).contains("Jane_Doe"));
    assert_eq!(read_json(&one.join("=1+1.json"))["run"]["input_path"], "");
}

#[test]
fn amounts_are_limited_and_chains_followed_once() {
    let folder = tiny_copy();
    let landmark = |n: usize| json!({"name": format!("p{n}"), "kind": "landmark"});
    let structures = |count: usize, parents: bool| {
        let all = (0..count).map(|n| {
            let mut one = landmark(n);
            if parents {
                one["kind"] = json!("box");
            }
            if parents && n > 0 {
                one["parent"] = json!(format!("p{}", n - 1));
            }
            one
        });
        let mut list: Vec<Value> = all.collect();
        list.push(json!({"name": "gland", "kind": "box"}));
        Value::from(list)
    };
    change(folder.path(), |dataset| dataset["structures"] = structures(60_000, false));
    let outcome = pbt(["validate", text(folder.path())]).exits_with(4);
    assert!(outcome.stdout.contains("more than 5000 structures"), "{}", outcome.stdout);
    // Following each chain to its end from every structure, name by name, took hours.
    change(folder.path(), |dataset| dataset["structures"] = structures(4_000, true));
    let outcome = pbt(["validate", text(folder.path())]).exits_with(4);
    assert!(outcome.stdout.contains("p3999: 0 annotated training case(s)"), "{}", outcome.stdout);
    change(folder.path(), |dataset| {
        dataset["structures"] = structures(4_000, true);
        dataset["structures"][0]["parent"] = json!("p3999");
    });
    let outcome = pbt(["validate", text(folder.path())]).exits_with(4);
    assert!(outcome.stdout.contains("goes in a circle"), "{}", outcome.stdout);

    let points: Vec<Value> = (0..150_000)
        .map(|n| json!({"label": format!("p{n}"), "position": [0.0, 0.0, 0.0]}))
        .collect();
    let markups = json!({"markups": [{"type": "Fiducial", "controlPoints": points}]});
    let path = folder.path().join("many.mrk.json");
    std::fs::write(&path, markups.to_string()).unwrap();
    let outcome = pbt(["validate", text(&path)]).exits_with(4);
    assert!(outcome.stdout.contains("more than 5000 names"), "{}", outcome.stdout);
}

#[test]
fn boxes_have_edges_of_this_world() {
    for edge in [1e-308, 1e300] {
        let folder = tiny_copy();
        let path = folder.path().join("c2.mrk.json");
        let mut markups = read_json(&path);
        markups["markups"][0]["size"][1] = json!(edge);
        std::fs::write(&path, markups.to_string()).unwrap();
        let outcome = pbt(["validate", text(folder.path())]).exits_with(4);
        assert!(outcome.stdout.contains("c2.mrk.json: markups[0].size"), "{}", outcome.stdout);
        let model = folder.path().join("m.pbt");
        let outcome = pbt(["train", "-i", text(folder.path()), "-o", text(&model)]).exits_with(4);
        assert!(
            outcome.error_line().contains("c2.mrk.json: markups[0].size"),
            "{}",
            outcome.stderr
        );
    }
}

#[cfg(unix)]
#[test]
fn a_limit_of_file_sizes_is_an_error_like_a_full_disk() {
    let out = scratch();
    let model = out.path().join("m.pbt");
    std::fs::copy(tiny().model(), &model).unwrap();
    let config = tiny().config();
    let data = tiny().folder();
    let train = ["train", "-q", "-i", text(data), "-o", text(&model), "--config", text(&config)];
    let outcome = limited("ulimit -f 8", &train).exits_with(1);
    assert!(outcome.error_line().contains("cannot be written"), "{}", outcome.stderr);
    assert!(outcome.error_line().contains("ulimit -f"), "{}", outcome.stderr);
    assert_eq!(std::fs::read(&model).unwrap(), std::fs::read(tiny().model()).unwrap());
}

/// The files of a series, each changed.
fn changed_series(name: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) -> Option<tempfile::TempDir> {
    let folder = scratch();
    for entry in std::fs::read_dir(set("dicom_conformance")?.join(name).join("dicom")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = change(std::fs::read(&path).unwrap());
        std::fs::write(folder.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    Some(folder)
}

#[test]
fn an_unknown_transfer_syntax_is_refused() {
    let known = b"1.2.840.10008.1.2.1\0";
    let replaced = |bytes: Vec<u8>| {
        let at = bytes.windows(known.len()).position(|w| w == known).expect("explicit, little");
        let mut bytes = bytes;
        bytes[at + known.len() - 2] = b'7';
        bytes
    };
    let Some(series) = changed_series("ct_axial_5mm", replaced) else { return };
    let output = series.path().join("out.nii.gz");
    let outcome = pbt(["convert", text(series.path()), text(&output)]).exits_with(4);
    let line = outcome.error_line();
    assert!(line.contains("TransferSyntaxUID") && line.contains("1.2.840.10008.1.2.7"), "{line}");
    assert!(!output.exists());
}

#[test]
fn geometry_of_unknown_kind_is_read_by_the_dictionary() {
    // Pixel spacing, position and orientation of the patient.
    let tags: [[u8; 4]; 3] = [[0x28, 0, 0x30, 0], [0x20, 0, 0x32, 0], [0x20, 0, 0x37, 0]];
    let unknown = |mut bytes: Vec<u8>| {
        for tag in tags {
            let head = [&tag[..], b"DS"].concat();
            let at = bytes.windows(6).position(|w| w == head).expect("the element");
            let length = u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]);
            let new = [&b"UN\0\0"[..], &u32::from(length).to_le_bytes()].concat();
            bytes.splice(at + 4..at + 8, new);
        }
        bytes
    };
    let Some(series) = changed_series("ct_axial_5mm", unknown) else { return };
    let Some(plain) = changed_series("ct_axial_5mm", |bytes| bytes) else { return };
    let converted = |folder: &Path| {
        let output = folder.join("out.nii");
        pbt(["convert", text(folder), text(&output)]).exits_with(0);
        std::fs::read(output).unwrap()
    };
    assert_eq!(converted(series.path()), converted(plain.path()));
}
