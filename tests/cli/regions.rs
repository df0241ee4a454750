//! Data sets of regions: training, labels, batches, evaluation, and what is refused.

use crate::support::{pbt, read_json, scratch, text};
use pbt_io::{RawImage, VoxelType, read_labels, read_raw, write_image};
use pbt_volume::{Geometry, PointLps, Random, Volume};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// A bright core and its darker shell in noise, on an oblique and mirrored grid, and their labels: 3
/// the core, 7 the shell, 9 a corner that nobody looked at.
fn case(seed: u64) -> (Volume<u8>, Volume<u8>) {
    let mut random = Random::from_seed(seed);
    let matrix = nalgebra::Matrix3::new(-1.5, 0.2, 0.0, 0.2, 1.5, 0.0, 0.0, 0.0, 1.7);
    let geometry = Geometry::new([26, 24, 22], matrix, PointLps::new(30.0, -5.0, 8.0)).unwrap();
    let middle = [13.0, 12.0, 11.0].map(|m| m + random.between(-3.0, 3.0));
    let radius = random.between(5.0, 7.0);
    let distance = |i: usize, j: usize, k: usize| {
        let at = [i, j, k].map(|n| n as f64);
        (0..3).map(|a| (at[a] - middle[a]).powi(2)).sum::<f64>().sqrt()
    };
    let labels = Volume::from_fn(geometry.clone(), |i, j, k| match distance(i, j, k) {
        d if d < radius - 2.5 => 3,
        d if d < radius => 7,
        _ if i + j + k < 6 => 9,
        _ => 0u8,
    });
    let image = Volume::from_fn(geometry, |i, j, k| {
        let value = match labels.at(i, j, k) {
            3 => 170.0,
            7 => 60.0,
            9 => 200.0,
            _ => 110.0,
        };
        (value + 15.0 * random.normal()).clamp(0.0, 255.0) as u8
    });
    (image, labels)
}

fn write(path: &Path, volume: &Volume<u8>) {
    let bytes = volume.data().to_vec();
    let raw = RawImage::new(volume.geometry().clone(), VoxelType::U8, bytes, None).unwrap();
    write_image(path, &raw).unwrap();
}

fn dataset(folder: &Path) -> Value {
    let case = |n: usize| {
        json!({ "id": format!("c{n}"), "image": format!("c{n}.nii.gz"), "labels": format!("c{n}.mask.nii.gz"),
                "split": if n < 3 { "train" } else { "test" } })
    };
    let made = json!({
        "schema": "pbt-dataset/1", "name": "made", "modality": "MR",
        "structures": [{ "name": "core", "kind": "region" }, { "name": "shell", "kind": "region" }],
        "labels": { "3": "core", "7": "shell", "9": "ignore" },
        "cases": (0..5).map(case).collect::<Vec<_>>(),
    });
    std::fs::write(folder.join("dataset.json"), made.to_string()).unwrap();
    made
}

const SMALL: &str = "\
[working]
spacing_mm = 2.0
[regions]
features = 120
samples = 6000
radius_mm = 12.0
forest = { trees = 8, depth = 9, features_per_node = 0.15 }
";

/// Five cases and a model of the first three. Read only.
fn regions() -> &'static TempDir {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = crate::support::lasting();
        for n in 0..5 {
            let (image, labels) = case(n);
            write(&folder.path().join(format!("c{n}.nii.gz")), &image);
            write(&folder.path().join(format!("c{n}.mask.nii.gz")), &labels);
        }
        dataset(folder.path());
        std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
        train(folder.path(), "2");
        folder
    })
}

/// Trains to the folder's `THREADS.pbt`.
fn train(folder: &Path, threads: &str) -> PathBuf {
    let model = folder.join(format!("{threads}.pbt"));
    let (input, config) = (folder.join("dataset.json"), folder.join("small.toml"));
    let fixed = ["train", "-q", "-i", text(&input), "-o", text(&model), "--config", text(&config)];
    pbt(fixed.into_iter().chain(["--threads", threads, "--device", "cpu"])).exits_with(0);
    model
}

#[test]
fn a_gpu_gives_the_same_forest_and_labels_cuda() {
    if !crate::gpu::gpu() {
        return;
    }
    let (folder, out) = (regions().path(), scratch());
    let (known, model) = (folder.join("2.pbt"), out.path().join("gpu.pbt"));
    let (input, config) = (folder.join("dataset.json"), folder.join("small.toml"));
    let train = ["train", "-q", "-i", text(&input), "-o", text(&model), "--config", text(&config)];
    pbt(train.into_iter().chain(["--device", "gpu"])).exits_with(0);
    assert!(std::fs::read(&model).unwrap() == std::fs::read(&known).unwrap(), "another model");
    let image = folder.join("c3.nii.gz");
    let labels = ["cpu", "gpu"].map(|device| {
        let to = out.path().join(device);
        let detect = ["detect", "-m", text(&known), "-i", text(&image), "-o", text(&to)];
        pbt(detect.into_iter().chain(["--device", device])).exits_with(0);
        assert_eq!(read_json(&to.join("c3.json"))["run"]["device"]["kind"], device);
        std::fs::read(to.join("c3.labels.nii.gz")).unwrap()
    });
    assert!(labels[0] == labels[1], "other labels");
}

#[test]
fn labels_lie_on_the_images_grid_with_the_values_of_the_data_set() {
    let (folder, out) = (regions().path(), scratch());
    let (model, image) = (folder.join("2.pbt"), folder.join("c4.nii.gz"));
    let detect = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())];
    pbt(detect.into_iter().chain(["--device", "cpu"])).exits_with(0);
    let labels = out.path().join("c4.labels.nii.gz");
    let segments = out.path().join("c4.pbt.seg.nrrd");
    let original = read_raw(&image).unwrap().raw;
    let map = read_labels(&labels).unwrap();
    assert_eq!(map.geometry(), original.geometry());
    assert_eq!(read_labels(&segments).unwrap().data(), map.data());
    assert!(map.data().iter().all(|value| [0, 3, 7].contains(value)));
    let header = std::fs::read(&segments).unwrap();
    let header = String::from_utf8_lossy(&header);
    for field in ["Segment0_Name:=core\n", "Segment0_LabelValue:=3\n", "Segment1_LabelValue:=7\n"] {
        assert!(header.contains(field), "{field}");
    }
    let result = read_json(&out.path().join("c4.json"));
    assert_eq!(result["run"]["device"]["kind"], "cpu");
    let voxel_ml = map.geometry().matrix().determinant().abs() / 1000.0;
    for (n, value) in [(0, 3), (1, 7)] {
        let found = &result["detections"][n];
        assert_eq!((&found["kind"], &found["status"]), (&json!("region"), &json!("found")));
        for key in ["position_lps_mm", "orientation", "size_mm"] {
            assert!(found[key].is_null());
        }
        let voxels = map.data().iter().filter(|&&v| v == value).count();
        assert!((found["volume_ml"].as_f64().unwrap() - voxels as f64 * voxel_ml).abs() < 1e-9);
        assert!((0.5..=1.0).contains(&found["score"].as_f64().unwrap()));
    }
}

#[test]
fn models_and_labels_do_not_depend_on_threads() {
    let (folder, out) = (regions().path(), scratch());
    let one = train(folder, "1");
    assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(folder.join("2.pbt")).unwrap());
    let image = folder.join("c3.nii.gz");
    let labels = ["1", "3"].map(|threads| {
        let to = out.path().join(threads);
        let fixed = ["detect", "-q", "-m", text(&one), "-i", text(&image), "-o", text(&to)];
        pbt(fixed.into_iter().chain(["--threads", threads])).exits_with(0);
        std::fs::read(to.join("c3.labels.nii.gz")).unwrap()
    });
    assert_eq!(labels[0], labels[1]);
}

#[test]
fn evaluation_has_dice_by_region_and_takes_results_too() {
    let (folder, out) = (regions().path(), scratch());
    let (model, set) = (folder.join("2.pbt"), folder.join("dataset.json"));
    let (report, again) = (out.path().join("model.json"), out.path().join("results.json"));
    let common = ["evaluate", "-i", text(&set)];
    let told = pbt(common.into_iter().chain(["-m", text(&model), "-o", text(&report)]));
    let told = told.exits_with(0).stdout;
    for word in ["worst case", "Dice", "HD95 mm", "surface mm", "NSD", "volume %"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    let report = read_json(&report);
    for (n, name) in ["core", "shell"].into_iter().enumerate() {
        let summary = &report["summary"][n];
        assert_eq!((&summary["region"], &summary["cases"]), (&json!(name), &json!(2)));
        assert!(summary["mean_dice"].as_f64().unwrap() > 0.8, "{summary}");
        assert!(summary["worst_dice"].as_f64() <= summary["mean_dice"].as_f64());
        assert_eq!(summary["cases_with_surfaces"], 2);
        assert!(summary["mean_surface_mm"].as_f64() < summary["mean_hd95_mm"].as_f64());
        assert!(summary["mean_nsd"].as_f64().unwrap() > 0.8, "{summary}");
        assert!(summary["mean_volume_error_percent"].as_f64().unwrap().abs() < 30.0);
    }
    let records = report["records"].as_array().unwrap();
    let dice: Vec<f64> = records.iter().map(|r| r["dice"].as_f64().unwrap()).collect();
    assert!(dice.len() == 4 && dice.is_sorted(), "the worst come first: {dice:?}");
    for record in records {
        for key in ["hd95_mm", "surface_mm", "nsd", "volume_error_ml", "volume_error_percent"] {
            assert!(record[key].is_number(), "{key}: {record}");
        }
        // Voxels of 1.5 x 1.5 x 1.7 mm.
        assert_eq!(record["nsd_tolerance_mm"], 2.0);
    }
    // A batch, and the same figures from its files.
    let (list, found) = (out.path().join("list.csv"), out.path().join("found"));
    let rows = [3, 4].map(|n| format!("c{n},{}\n", folder.join(format!("c{n}.nii.gz")).display()));
    std::fs::write(&list, format!("case_id,path\n{}", rows.concat())).unwrap();
    let batch = ["batch", "-q", "-m", text(&model), "-i", text(&list), "-o", text(&found)];
    pbt(batch).exits_with(0);
    let table = std::fs::read_to_string(found.join("detections.csv")).unwrap();
    assert!(table.lines().next().unwrap().contains("volume_ml"));
    assert_eq!(table.lines().filter(|line| line.contains(",region,")).count(), 4);
    let more = ["--results", text(&found), "-o", text(&again)];
    pbt(common.into_iter().chain(more)).exits_with(0);
    let again = read_json(&again);
    assert_eq!(again["records"], report["records"]);
    // Nothing is left to do.
    let before = std::fs::metadata(found.join("c3.json")).unwrap().modified().unwrap();
    pbt(batch.into_iter().chain(["--resume"])).exits_with(0);
    assert_eq!(std::fs::metadata(found.join("c3.json")).unwrap().modified().unwrap(), before);
    let info = pbt(["info", text(&model)]).exits_with(0).stdout;
    assert!(info.contains("core (3), shell (7)"), "{info}");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let (made, out) = (regions().path(), scratch());
    let folder = out.path();
    for entry in std::fs::read_dir(made).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let set = folder.join("dataset.json");
    let model = folder.join("x.pbt");
    let refused = |spoil: &dyn Fn(&mut Value), code: i32, words: &[&str]| {
        let mut value = dataset(folder);
        spoil(&mut value);
        std::fs::write(&set, value.to_string()).unwrap();
        let told = pbt(["train", "-q", "-i", text(&set), "-o", text(&model)]).exits_with(code);
        let line = told.error_line();
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
        assert!(!model.exists());
    };
    refused(&|v| v["structures"][1]["kind"] = json!("box"), 4, &["together", "--structure"]);
    refused(&|v| v["labels"] = json!({ "3": "core" }), 4, &["labels", "`shell`"]);
    refused(&|v| v["labels"] = json!({ "3": "core", "8": "shell" }), 4, &["shell: 0 voxels"]);
    refused(&|v| v["labels"] = json!({ "*": "else" }), 4, &["labels", "`else`", "region"]);
    refused(&|v| v["structures"][1]["kind"] = json!("blob"), 4, &["kind", "`blob`"]);
    let none = |v: &mut Value| {
        for case in v["cases"].as_array_mut().unwrap() {
            case.as_object_mut().unwrap().remove("labels");
        }
    };
    refused(&none, 4, &["label map"]);
    // Everything is ignored.
    refused(
        &|v| v["labels"] = json!({ "3": "core", "7": "shell", "0": "ignore", "9": "ignore" }),
        4,
        &["background"],
    );
    let (image, _) = case(1);
    let small = image.geometry().part([0, 0, 0], [26, 24, 21]);
    write(&folder.join("c1.mask.nii.gz"), &Volume::filled(small, 3));
    refused(&|_| (), 4, &["c1.mask.nii.gz", "grid", "26 x 24 x 22"]);
    write(&folder.join("c1.mask.nii.gz"), &case(1).1);

    let (known, image) = (folder.join("2.pbt"), folder.join("c4.nii.gz"));
    let to = folder.join("to");
    let detect = ["detect", "-m", text(&known), "-i", text(&image), "-o", text(&to)];
    pbt(detect.into_iter().chain(["--explain"])).exits_with(2);
    pbt(["evaluate", "--leave-one-out", "-i", text(&set)]).exits_with(4);
    pbt(["learning-curve", "-i", text(&set)]).exits_with(4);
    pbt(["train", "--resume", "-i", text(&set), "-o", text(&model)]).exits_with(2);
    pbt(["validate", text(&set)]).exits_with(0);
}
