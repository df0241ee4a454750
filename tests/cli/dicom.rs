//! DICOM through the commands: folders, zip archives, series and time points.

use crate::sets::set;
use crate::support::{numbers, pbt, read_json, scratch, tiny};
use pbt_io::read_raw;
use std::path::{Path, PathBuf};

/// The folder of a series of `dicom_conformance`.
fn series(name: &str) -> Option<PathBuf> {
    Some(set("dicom_conformance")?.join(name).join("dicom"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path in UTF-8").to_owned()
}

#[test]
fn a_series_is_converted_to_every_format_and_back() {
    let Some(input) = series("ct_axial_5mm") else { return };
    let folder = scratch();
    let expected = read_raw(&input).unwrap().raw;
    for name in ["a.nii.gz", "a.mha", "b.mhd", "a.nrrd", "c.nhdr"] {
        let output = folder.path().join(name);
        pbt(["convert".to_owned(), text(&input), text(&output)]).exits_with(0);
        let written = read_raw(&output).unwrap().raw;
        assert_eq!(
            (written.bytes(), written.voxel_type()),
            (expected.bytes(), expected.voxel_type()),
            "{name}"
        );
        assert!(
            (written.geometry().affine() - expected.geometry().affine()).abs().max() < 1e-4,
            "{name}"
        );
    }
    assert!(folder.path().join("b.raw").is_file() && folder.path().join("c.raw").is_file());
}

#[test]
fn time_points_are_asked_for_and_recorded() {
    let Some(input) = series("siemens_mosaic_AP") else { return };
    let folder = scratch();
    let output = folder.path().join("a.nii");
    let outcome = pbt(["convert".to_owned(), text(&input), text(&output)]).exits_with(4);
    assert!(
        outcome.error_line().contains("choose a time point with --frame 0 to 1"),
        "{}",
        outcome.stderr
    );
    assert!(!output.exists());
    pbt(["convert".to_owned(), text(&input), text(&output), "--frame".into(), "1".into()])
        .exits_with(0);
    assert_eq!(read_raw(&output).unwrap().raw.geometry().shape(), [72, 72, 5]);
    let choose = ["--series", "3", "--frame", "1"].map(str::to_owned);
    let detect = [
        "detect".to_owned(),
        "-m".into(),
        text(&tiny().model()),
        "-i".into(),
        text(&input),
        "-o".into(),
        text(folder.path()),
    ];
    pbt(detect.into_iter().chain(choose)).exits_with(0);
    let result = read_json(&folder.path().join("dicom.json"));
    assert_eq!(
        (&result["run"]["options"]["series"], &result["run"]["options"]["frame"]),
        (&"3".into(), &1.into())
    );
    assert_eq!(numbers(&result["input"]["shape"]), [72.0, 72.0, 5.0]);
}

#[test]
fn series_are_listed_and_a_list_of_images_may_name_them() {
    let Some(input) = series("philips_enhanced_b0") else { return };
    let listed = pbt(["info".to_owned(), text(&input)]).exits_with(0).stdout;
    assert!(
        listed.contains("801.1") && listed.contains("801.2") && listed.contains("64 x 64"),
        "{listed}"
    );
    let folder = scratch();
    for (option, file) in [("--devices", None), ("--svg", Some("network.svg"))] {
        let file = file.map(|name| text(&folder.path().join(name)));
        let info = ["info".to_owned(), text(&input), option.to_owned()];
        let told = pbt(info.into_iter().chain(file)).exits_with(2);
        assert!(told.error_line().contains(&format!("{option}: ")), "{}", told.stderr);
    }
    let manifest = folder.path().join("list.csv");
    let rows =
        format!("case_id,path,series\none,{0},801.1\ntwo,{0},801.2\nthree,{0},\n", text(&input));
    std::fs::write(&manifest, rows).unwrap();
    let out = folder.path().join("found");
    let outcome = pbt([
        "batch".to_owned(),
        "-m".into(),
        text(&tiny().model()),
        "-i".into(),
        text(&manifest),
        "-o".into(),
        text(&out),
    ]);
    assert!(outcome.exits_with(3).stderr.contains("choose one with --series"));
    let [one, two] = ["one.json", "two.json"].map(|name| read_json(&out.join(name)));
    // One file, two volumes of it.
    assert_eq!(one["input"]["sha256"], two["input"]["sha256"]);
    assert_eq!(two["run"]["options"]["series"], "801.2");
}

#[test]
fn data_sets_may_hold_series() {
    let (Some(input), Some(mosaic)) = (series("hippocrop_study1"), series("siemens_mosaic_RL"))
    else {
        return;
    };
    let folder = scratch();
    let set = serde_json::json!({
        "schema": "pbt-dataset/1", "name": "s", "modality": "MR", "structures": [{ "name": "a", "kind": "landmark" }],
        "cases": [
            { "id": "x", "image": text(&input), "split": "test" },
            { "id": "y", "image": text(&mosaic), "split": "test", "series": "5", "frame": 1 },
        ]
    });
    std::fs::write(folder.path().join("dataset.json"), set.to_string()).unwrap();
    let outcome = pbt(["validate".to_owned(), text(folder.path()), "--json".into()]).exits_with(0);
    let found: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(numbers(&found["images"][0]["shape"]), [35.0, 51.0, 32.0]);
    assert_eq!(numbers(&found["images"][1]["shape"]), [72.0, 72.0, 5.0]);
    let alone = pbt(["validate".to_owned(), text(&input), "--json".into()]).exits_with(0);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&alone.stdout).unwrap()["kind"], "image");
}
