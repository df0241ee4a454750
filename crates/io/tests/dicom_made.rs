//! Series that pydicom made: every transfer syntax and storage of pixels that it can write,
//! geometries that are right, and those that are not.

mod support;

use pbt_io::{ReadOptions, read_raw_with};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::python;

/// What pydicom was told to write, so that no message and no result may show it.
const PATIENT: [&str; 4] = ["Mustermann", "Erika", "ID-4711", "19700101"];

fn check(folder: &Path, name: &str, case: &Value) {
    let path = folder.join(case["path"].as_str().unwrap_or(name));
    let options = ReadOptions {
        series: case["series"].as_str().map(str::to_owned),
        frame: case["frame"].as_u64().map(|frame| frame as usize),
        ..ReadOptions::default()
    };
    let outcome = read_raw_with(&path, &options);
    if let Some(word) = case["refuse"].as_str() {
        let error = outcome.map(drop).expect_err(name);
        let text = error.to_string();
        assert!(error.is_input() && text.contains(word) && !text.contains('\n'), "{name}: {text}");
        assert!(!PATIENT.iter().any(|word| text.contains(word)), "{text}");
        return;
    }
    let loaded = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        !PATIENT.iter().any(|word| loaded.warnings.join(" ").contains(word)),
        "{:?}",
        loaded.warnings
    );
    let geometry = loaded.raw.geometry();
    assert_eq!(serde_json::json!(geometry.shape()), case["shape"], "{name}");
    // Decimal strings have up to 16 characters, so about 12 digits behind the point.
    for (ours, theirs) in
        geometry.affine().transpose().iter().zip(case["affine"].as_array().unwrap())
    {
        assert!((ours - theirs.as_f64().unwrap()).abs() < 1e-9, "{name}: {}", geometry.affine());
    }
    let values = case["values"].as_array().unwrap();
    assert_eq!(
        loaded.raw.to_f64(),
        values.iter().map(|v| v.as_f64().unwrap()).collect::<Vec<_>>(),
        "{name}"
    );
}

#[test]
fn series_are_read_as_they_were_made() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dicom_make.py");
    assert!(
        Command::new(python)
            .arg("-W")
            .arg("ignore")
            .arg(script)
            .arg(folder.path())
            .status()
            .expect("it starts")
            .success()
    );
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".json"));
    names.sort();
    assert!(names.len() > 30, "{names:?}");
    for name in &names {
        let case =
            serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap();
        check(folder.path(), name.trim_end_matches(".json"), &case);
    }
    // Packing and names do not count in the hash, what is left out is said.
    let read =
        |name: &str| read_raw_with(&folder.path().join(name), &ReadOptions::default()).unwrap();
    let (plain, zipped) = (read("company"), read("company.zip"));
    assert_eq!((plain.sha256, &plain.warnings), (zipped.sha256, &zipped.warnings));
    let said = plain.warnings.join("\n");
    for part in
        ["1 localizer", "1 secondary", "1 without pixels", "1 that are not DICOM", "1 copies"]
    {
        assert!(said.contains(part), "{said}");
    }
}
