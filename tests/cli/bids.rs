//! Folders in the layout of BIDS, from validation to evaluation.

use crate::support::{TEST, TRAINING, pbt, read_json, scratch, tiny};
use pbt_io::{RawImage, VoxelType, read_markups, read_raw, write_image};
use pbt_volume::VoxelIndex;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

/// The tiny data set: label maps with the voxels of the boxes, in a derivative.
fn bids() -> TempDir {
    let folder = scratch();
    let mut participants = "participant_id\tsplit\n".to_owned();
    let derivative = folder.path().join("derivatives/manual");
    for n in 0..TRAINING + TEST {
        participants
            .push_str(&format!("sub-{n}\t{}\n", if n < TRAINING { "train" } else { "test" }));
        let [images, maps] =
            [folder.path(), &derivative].map(|root| root.join(format!("sub-{n}/us")));
        for folder in [&images, &maps] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let image = tiny().folder().join(format!("c{n}.nii.gz"));
        std::fs::copy(&image, images.join(format!("sub-{n}_us.nii.gz"))).unwrap();
        let geometry = read_raw(&image).unwrap().raw.geometry().clone();
        let pose =
            read_markups(&tiny().folder().join(format!("c{n}.mrk.json"))).unwrap().boxes[0].1;
        let [nx, ny, _] = geometry.shape();
        let inside = |at: usize| {
            let index =
                VoxelIndex::new((at % nx) as f64, (at / nx % ny) as f64, (at / nx / ny) as f64);
            let local = pose.orientation.inverse() * (geometry.to_lps(index).0 - pose.center.0);
            u8::from((0..3).all(|a| local[a].abs() <= pose.size_mm[a] / 2.0)) * 4
        };
        let labels = (0..geometry.len()).map(inside).collect();
        let labels = RawImage::new(geometry, VoxelType::U8, labels, None).unwrap();
        write_image(&maps.join(format!("sub-{n}_dseg.nii.gz")), &labels).unwrap();
    }
    let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
    write(&folder.path().join("participants.tsv"), &participants);
    write(&derivative.join("dseg.tsv"), "index\tname\n4\tgland\n");
    write(
        &folder.path().join("dataset_description.json"),
        r#"{"Name": "tiny", "BIDSVersion": "1.10.0"}"#,
    );
    folder
}

#[test]
fn a_bids_folder_is_a_data_set() {
    let (data, out) = (bids(), scratch());
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let validation = pbt(["validate", "--json", &path(data.path())]).exits_with(0);
    let validation: Value = serde_json::from_str(&validation.stdout).unwrap();
    assert_eq!(
        (&validation["kind"], validation["images"].as_array().unwrap().len()),
        (&"data set".into(), TRAINING + TEST)
    );
    let (model, report) = (path(&out.path().join("m.pbt")), path(&out.path().join("r.json")));
    pbt([
        "train",
        "-q",
        "-i",
        &path(data.path()),
        "-o",
        &model,
        "--config",
        &path(&tiny().quick_config()),
        "--no-segmentation",
    ])
    .exits_with(0);
    pbt(["evaluate", "-q", "-m", &model, "-i", &path(data.path()), "-o", &report]).exits_with(0);
    let report = read_json(Path::new(&report));
    let overall = &report["summary"]["overall"];
    assert_eq!((&overall["annotated"], &overall["missed"]), (&TEST.into(), &0.into()));
    assert!(overall["center_mm"]["median"].as_f64().unwrap() < 8.0, "{overall}");
    assert_eq!(report["records"][0]["case"], format!("sub-{TRAINING}_us"));
    // Without label maps it is a folder of images, and nothing to train on.
    std::fs::remove_dir_all(data.path().join("derivatives")).unwrap();
    let validation = pbt(["validate", "--json", &path(data.path())]).exits_with(0);
    assert_eq!(
        serde_json::from_str::<Value>(&validation.stdout).unwrap()["kind"],
        "folder of images"
    );
    let refused = pbt(["train", "-q", "-i", &path(data.path()), "-o", &model]).exits_with(4);
    assert!(refused.error_line().contains("without a label map"), "{}", refused.stderr);
}
