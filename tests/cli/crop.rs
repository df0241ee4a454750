//! `detect --crop` and `batch --crop`: the part of an image with a structure.

use crate::support::{pbt, read_json, scratch, text, tiny};
use pbt_io::{read_image, read_raw};
use std::path::Path;

/// The crop has the very voxels of the image at the same places, and holds the box.
#[track_caller]
fn assert_is_part(crop: &Path, image: &Path, result: &Path, margin_mm: f64) -> usize {
    let (part, whole) = (read_raw(crop).unwrap().raw, read_raw(image).unwrap().raw);
    assert_eq!(part.voxel_type(), whole.voxel_type());
    let (part, whole) = (read_image(crop).unwrap().volume, read_image(image).unwrap().volume);
    assert_eq!(part.geometry().matrix(), whole.geometry().matrix());
    let [a, b, c] = part.shape();
    for at in [[0, 0, 0], [a - 1, 0, c / 2], [a / 2, b - 1, c - 1]] {
        let [i, j, k] = at.map(|n| n as f64);
        let there = part.geometry().to_lps(pbt_volume::VoxelIndex::new(i, j, k));
        let here = whole.geometry().to_index(there).0;
        let here = [here.x, here.y, here.z].map(|n| {
            assert!((n - n.round()).abs() < 1e-3, "{n} is no voxel");
            n.round() as usize
        });
        assert_eq!(part.at(at[0], at[1], at[2]), whole.at(here[0], here[1], here[2]));
    }
    let result = read_json(result);
    let found = &result["detections"][0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let center = &found["position_lps_mm"];
    let center =
        pbt_volume::PointLps::new(number(&center[0]), number(&center[1]), number(&center[2]));
    // From the middle of the box outwards there is at least half its shortest edge, and the margin.
    let half = (0..3).map(|n| number(&found["size_mm"][n])).fold(f64::INFINITY, f64::min) / 2.0;
    for axis in 0..3 {
        let step = part.geometry().spacing_mm()[axis];
        let middle = part.geometry().to_index(center).0[axis];
        let room = middle.min(part.shape()[axis] as f64 - 1.0 - middle) + 0.5;
        assert!(
            room * step >= half + margin_mm - 1e-6 || part.shape()[axis] == whole.shape()[axis]
        );
    }
    part.geometry().len()
}

#[test]
fn the_region_of_a_structure_is_written() {
    let out = scratch();
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    let crop = out.path().join("c7.gland.nii.gz");
    let mut sizes = Vec::new();
    for margin in ["0", "6"] {
        let arguments = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())];
        let more = ["--crop", "gland", "--margin-mm", margin];
        let outcome = pbt([&arguments[..], &more].concat()).exits_with(0);
        let beside = "c7.json, and beside it c7.mrk.json, c7.gland.nii.gz\n";
        assert!(outcome.stderr.ends_with(beside), "{}", outcome.stderr);
        let result = out.path().join("c7.json");
        sizes.push(assert_is_part(&crop, &image, &result, margin.parse().unwrap()));
    }
    assert!(sizes[0] < sizes[1]);

    let arguments = ["-m", text(&model), "-i", text(&image), "-o", text(out.path())];
    let unknown = pbt([&["detect"], &arguments[..], &["--crop", "glnd"]].concat()).exits_with(4);
    assert!(unknown.error_line().contains("did you mean `gland`?"), "{}", unknown.stderr);
    let alone = pbt([&["detect"], &arguments[..], &["--margin-mm", "3"]].concat()).exits_with(2);
    assert!(alone.error_line().contains("--crop"), "{}", alone.stderr);
}

#[test]
fn of_an_absent_structure_there_is_none() {
    let out = scratch();
    let folder = out.path().join("scans");
    std::fs::create_dir(&folder).unwrap();
    let found = tiny().folder().join("c6.nii.gz");
    std::fs::copy(&found, folder.join("c6.nii.gz")).unwrap();
    // Noise, in which there is no gland.
    let mut bytes = 7u32;
    let raw = read_raw(&found).unwrap().raw;
    let noise = (0..raw.bytes().len())
        .map(|_| {
            bytes = bytes.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (bytes >> 24) as u8
        })
        .collect();
    let noise =
        pbt_io::RawImage::new(raw.geometry().clone(), raw.voxel_type(), noise, None).unwrap();
    pbt_io::write_image(&folder.join("noise.nii.gz"), &noise).unwrap();
    let (model, results) = (tiny().model(), out.path().join("found"));
    let within = folder.join("found");
    let arguments = ["batch", "-m", text(&model), "-i", text(&folder), "-o", text(&within)];
    let outcome = pbt([&arguments[..], &["--crop", "gland"]].concat()).exits_with(2);
    assert!(outcome.error_line().contains("in the folder of the images"), "{}", outcome.stderr);
    std::fs::create_dir(&results).unwrap();
    let stale = results.join("noise.gland.nii.gz");
    std::fs::write(&stale, "of an earlier run").unwrap();
    let arguments = ["batch", "-m", text(&model), "-i", text(&folder), "-o", text(&results)];
    let with_crops = || pbt([&arguments[..], &["--crop", "gland"]].concat());
    // Without a result beside it, it is not pbt's.
    let outcome = with_crops().exits_with(3);
    assert!(outcome.stderr.contains("noise.gland.nii.gz: --output: is there already"));
    assert_eq!(std::fs::read(&stale).unwrap(), b"of an earlier run");
    std::fs::write(results.join("noise.json"), r#"{"schema": "pbt-result/1"}"#).unwrap();
    let outcome = with_crops().exits_with(0);
    assert_is_part(&results.join("c6.gland.nii.gz"), &found, &results.join("c6.json"), 0.0);
    let status = read_json(&results.join("noise.json"))["detections"][0]["status"].clone();
    if status == "absent" {
        assert!(!stale.exists());
        assert!(outcome.stderr.contains("noise: --crop: gland is absent"), "{}", outcome.stderr);
    } else {
        assert_eq!(status, "doubtful");
        assert!(outcome.stderr.contains("gland is doubtful"), "{}", outcome.stderr);
        assert_ne!(std::fs::read(&stale).unwrap(), b"of an earlier run");
    }
}

#[test]
fn a_case_whose_crop_cannot_be_written_is_done_again() {
    let out = scratch();
    let list = out.path().join("list.csv");
    let image = tiny().folder().join("c7.nii.gz");
    std::fs::write(&list, format!("case_id,path\nc7,{}\n", image.display())).unwrap();
    let (model, found) = (tiny().model(), out.path().join("found"));
    let crop = found.join("c7.gland.nii.gz");
    std::fs::create_dir_all(&crop).unwrap();
    let batch = ["batch", "-m", text(&model), "-i", text(&list), "-o", text(&found)];
    let batch = [&batch[..], &["--crop", "gland", "--resume"]].concat();
    for _ in 0..2 {
        let outcome = pbt(&batch).exits_with(3);
        assert!(outcome.stderr.contains("c7.gland.nii.gz: file: cannot"), "{}", outcome.stderr);
    }
    std::fs::remove_dir(&crop).unwrap();
    pbt(&batch).exits_with(0);
    assert_is_part(&crop, &image, &found.join("c7.json"), 0.0);
}
