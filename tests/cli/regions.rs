//! Data sets of regions: training, labels, batches, evaluation, and what is refused.

use crate::support::{pbt, read_json, scratch, text};
use pbt_io::{RawImage, ReadOptions, VoxelType, read_labels, read_raw, read_raw_with, write_image};
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

/// Components are those of `pbt components`; leaves are in their trees, and lead to the labels.
#[test]
fn voxel_outputs_are_files_and_components_are_told() {
    let (folder, out) = (regions().path(), scratch());
    let (model, image) = (folder.join("2.pbt"), folder.join("c4.nii.gz"));
    let detect = ["detect", "-q", "-m", text(&model), "-i", text(&image), "-o", text(out.path())];
    let all = ["--voxel-output", "labels,probabilities,leaves,first-tree-leaf"];
    let voxels = |name: &str| std::fs::read(out.path().join(name)).ok();
    let names = ["c4.leaves.nii.gz", "c4.first-tree-leaf.nii.gz", "c4.probabilities.nii.gz"];
    let mut found = Vec::new();
    for threads in ["1", "3"] {
        pbt(detect.into_iter().chain(all).chain(["--threads", threads])).exits_with(0);
        found.push(names.map(voxels));
    }
    assert!(found[0].iter().all(Option::is_some) && found[0] == found[1]);

    let frame = |name: &str, frame: usize| {
        let options = ReadOptions { frame: Some(frame), ..ReadOptions::default() };
        read_raw_with(&out.path().join(name), &options).unwrap().raw.to_f32().unwrap()
    };
    let first = read_raw(&out.path().join(names[1])).unwrap().raw;
    assert_eq!(first.geometry(), read_raw(&image).unwrap().raw.geometry());
    assert_eq!(first.to_f32().unwrap().data(), frame(names[0], 0).data());
    let trees: Vec<Volume<f32>> = (0..8).map(|tree| frame(names[0], tree)).collect();
    assert!(trees[0].data() != trees[7].data());
    // Voxels with the same leaves in all trees have the same place in the forest: most have the
    // same label, up to interpolation between voxels of the grid.
    let labels = read_labels(&out.path().join("c4.labels.nii.gz")).unwrap();
    let mut by_leaves = std::collections::BTreeMap::new();
    for (n, &label) in labels.data().iter().enumerate() {
        let leaves: Vec<u32> = trees.iter().map(|tree| tree.data()[n] as u32).collect();
        by_leaves.entry(leaves).or_insert_with(Vec::new).push(label);
    }
    let (mut alike, mut all_alike) = (0, 0);
    for labels in by_leaves.values().filter(|labels| labels.len() > 1) {
        let most = [0, 3, 7].map(|value| labels.iter().filter(|&&l| l == value).count());
        (alike, all_alike) = (alike + most.iter().max().unwrap(), all_alike + labels.len());
    }
    assert!(all_alike > 2000 && alike * 10 > all_alike * 9, "{alike} of {all_alike}");

    let result = read_json(&out.path().join("c4.json"));
    let (parts, table) = (out.path().join("parts.nii.gz"), out.path().join("parts.csv"));
    let map = out.path().join("c4.labels.nii.gz");
    let components = ["components", "-q", text(&map), text(&parts), "--labels", "--table"];
    pbt(components.into_iter().chain([text(&table)])).exits_with(0);
    let mut rows = csv::Reader::from_path(&table).unwrap();
    let heads: Vec<String> = rows.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<Vec<f64>> = rows
        .records()
        .map(|row| row.unwrap().iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect())
        .collect();
    let column = |row: &[f64], name: &str| row[heads.iter().position(|h| h == name).unwrap()];
    for (n, value) in [(0, 3.0), (1, 7.0)] {
        let found = &result["detections"][n];
        let mut own: Vec<&Vec<f64>> = rows.iter().filter(|r| column(r, "value") == value).collect();
        own.sort_by(|a, b| column(b, "voxels").total_cmp(&column(a, "voxels")));
        assert_eq!(found["components"], own.len());
        let largest = found["largest_components"].as_array().unwrap();
        assert_eq!(largest.len(), own.len().min(10));
        for (record, row) in largest.iter().zip(own) {
            assert_eq!(record["voxels"].as_f64().unwrap(), column(row, "voxels"));
            let ml = record["volume_ml"].as_f64().unwrap();
            assert!((ml * 1000.0 - column(row, "volume_mm3")).abs() < 1e-9);
            for (a, axis) in ["i", "j", "k"].into_iter().enumerate() {
                let ends = [("first_voxel", "min"), ("last_voxel", "max")];
                for (key, end) in ends {
                    assert_eq!(
                        record[key][a].as_f64(),
                        Some(column(row, &format!("{axis}_{end}")))
                    );
                }
            }
            for (a, axis) in ["x", "y", "z"].into_iter().enumerate() {
                let apart = record["centroid_lps_mm"][a].as_f64().unwrap()
                    - column(row, &format!("{axis}_lps_mm"));
                assert!(apart.abs() < 1e-9, "{apart}");
            }
        }
        // Their mean, weighted by voxels, is the region's.
        let voxels = |c: &Value| c["voxels"].as_f64().unwrap();
        if largest.len() == own_count(found) {
            let sum: f64 = largest.iter().map(|c| voxels(c) * c["score"].as_f64().unwrap()).sum();
            let mean = sum / largest.iter().map(voxels).sum::<f64>();
            assert!((mean - found["score"].as_f64().unwrap()).abs() < 1e-6);
        }
    }

    // What is not wanted any more goes.
    pbt(detect).exits_with(0);
    assert!(names.iter().all(|name| voxels(name).is_none()));
    let none = ["--voxel-output", "leafs"];
    assert!(pbt(detect.into_iter().chain(none)).exits_with(2).error_line().contains("leafs"));
}

/// Number of components of a detection.
fn own_count(found: &Value) -> usize {
    found["components"].as_u64().unwrap() as usize
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
    assert_eq!(read_json(&again)["records"], report["records"]);
    // Also against a data set that gives the values of the regions to others.
    let mut other = dataset(out.path());
    other["labels"] = json!({ "3": "shell", "7": "core", "9": "ignore" });
    for case in other["cases"].as_array_mut().unwrap() {
        let map = read_labels(&folder.join(case["labels"].as_str().unwrap())).unwrap();
        let file = out.path().join(case["labels"].as_str().unwrap());
        write(
            &file,
            &map.map(|value| match value {
                3 => 7,
                7 => 3,
                other => other as u8,
            }),
        );
        case["image"] = json!(folder.join(case["image"].as_str().unwrap()));
    }
    let other_set = out.path().join("dataset.json");
    std::fs::write(&other_set, other.to_string()).unwrap();
    let to_other =
        ["evaluate", "-i", text(&other_set), "--results", text(&found), "-o", text(&again)];
    // All structures are regions: `--labels` changes nothing.
    for more in [&[][..], &["--labels"]] {
        pbt(to_other.iter().chain(more)).exits_with(0);
        assert_eq!(read_json(&again)["records"], report["records"]);
    }
    // Without names beside them, values are those of the data set.
    let unnamed = out.path().join("unnamed");
    std::fs::create_dir(&unnamed).unwrap();
    for n in [3, 4] {
        let name = format!("c{n}.labels.nii.gz");
        std::fs::copy(found.join(&name), unnamed.join(&name)).unwrap();
    }
    let more = ["--results", text(&unnamed), "-o", text(&again)];
    pbt(common.into_iter().chain(more)).exits_with(0);
    assert_eq!(read_json(&again)["records"], report["records"]);
    // A case without labels counts as missed, all of them are a mistake.
    std::fs::remove_file(unnamed.join("c3.labels.nii.gz")).unwrap();
    pbt(common.into_iter().chain(more)).exits_with(0);
    let missed = read_json(&again);
    assert_eq!(missed["summary"][0]["cases"], 2);
    for record in &missed["records"].as_array().unwrap()[..2] {
        assert_eq!((&record["case"], &record["dice"]), (&json!("c3"), &json!(0.0)));
    }
    std::fs::remove_file(unnamed.join("c4.labels.nii.gz")).unwrap();
    let line = pbt(common.into_iter().chain(more)).exits_with(4);
    assert!(line.error_line().contains("c3.labels.nii.gz"), "{}", line.stderr);
    // A region that the results do not have is not one that was missed.
    other["structures"][1]["name"] = json!("rind");
    other["labels"] = json!({ "3": "rind", "7": "core", "9": "ignore" });
    std::fs::write(&other_set, other.to_string()).unwrap();
    let line = pbt(to_other).exits_with(4);
    assert!(line.error_line().contains("`rind`"), "{}", line.stderr);
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
    // 70,000 values, or one of them.
    let many = |v: &mut Value| {
        let named = (1..=70_000).map(|n| (n.to_string(), json!("core")));
        v["labels"] = Value::Object(named.collect());
    };
    refused(&many, 4, &["labels", "65535"]);
    refused(&|v| v["cases"][0]["not_drawn"] = json!(["cor"]), 4, &["not_drawn", "`cor`", "region"]);
    // Everything is ignored.
    refused(
        &|v| v["labels"] = json!({ "3": "core", "7": "shell", "0": "ignore", "9": "ignore" }),
        4,
        &["background"],
    );
    // A region of three voxels, values that are no labels, and fewer than none.
    let map = |voxel_type: VoxelType, bytes: &dyn Fn(usize) -> Vec<u8>| {
        let geometry = case(1).0.geometry().clone();
        let bytes = (0..geometry.len()).flat_map(bytes).collect();
        let raw = RawImage::new(geometry, voxel_type, bytes, None).unwrap();
        write_image(&folder.join("c1.mask.nii.gz"), &raw).unwrap();
    };
    let only = |v: &mut Value| v["cases"].as_array_mut().unwrap().truncate(2);
    let three = |v: &mut Value| {
        only(v);
        v["cases"][0]["split"] = json!("test");
        v["labels"] = json!({ "3": "core", "7": "shell" });
    };
    map(VoxelType::U8, &|n| vec![if n < 3 { 7 } else { 3 * u8::from(n % 2 == 0) }]);
    refused(&three, 4, &["shell: ", "at least 50"]);
    map(VoxelType::I32, &|n| (if n == 9 { 70_000i32 } else { 3 }).to_le_bytes().to_vec());
    refused(&three, 4, &["c1.mask.nii.gz", "70000", "65535"]);
    map(VoxelType::F32, &|n| (if n == 9 { 2.5f32 } else { 3.0 }).to_le_bytes().to_vec());
    refused(&three, 4, &["c1.mask.nii.gz", "2.5"]);
    map(VoxelType::I16, &|n| (if n == 9 { -1i16 } else { 3 }).to_le_bytes().to_vec());
    refused(&three, 4, &["c1.mask.nii.gz", "-1"]);

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
    for option in ["--resume", "--quick", "--no-segmentation", "--classifier=pbt"] {
        let told = pbt(["train", option, "-i", text(&set), "-o", text(&model)]).exits_with(2);
        let named = option.split('=').next().unwrap();
        assert!(told.error_line().contains(&format!("{named}: ")), "{}", told.stderr);
    }
    pbt(["validate", text(&set)]).exits_with(0);

    // Too little memory, and more than 2³¹ voxels, of which no byte is read.
    let little = ["--memory", "1M"];
    let fixed = ["train", "-q", "-i", text(&set), "-o", text(&model)];
    let line = pbt(fixed.into_iter().chain(little)).exits_with(4);
    assert!(line.error_line().contains("memory"), "{}", line.stderr);
    let line = pbt(detect.into_iter().chain(little)).exits_with(4);
    assert!(line.error_line().contains("memory"), "{}", line.stderr);
    let huge = folder.join("huge.nii");
    std::fs::write(&huge, huge_header()).unwrap();
    let detect = ["detect", "-m", text(&known), "-i", text(&huge), "-o", text(&to)];
    let line = pbt(detect).exits_with(4);
    assert!(line.error_line().contains("huge.nii"), "{}", line.stderr);
    assert!(!to.exists() && !model.exists());
}

/// The header of a NIfTI file of 1300³ bytes, and no voxel.
fn huge_header() -> Vec<u8> {
    let mut header = vec![0u8; 352];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348i32.to_le_bytes());
    for (n, size) in [3i16, 1300, 1300, 1300, 1, 1, 1, 1].into_iter().enumerate() {
        put(40 + 2 * n, &size.to_le_bytes());
    }
    // Unsigned bytes.
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    (0..4).for_each(|n| put(76 + 4 * n, &1f32.to_le_bytes()));
    put(108, &352f32.to_le_bytes());
    // The affine of its sform: the identity.
    put(254, &1i16.to_le_bytes());
    (0..3).for_each(|row| put(280 + 16 * row + 4 * row, &1f32.to_le_bytes()));
    put(344, b"n+1\0");
    header
}

/// A case without a region trains the others: its background is nobody's, its regions count.
#[test]
fn regions_that_were_not_drawn_train_the_others() {
    let (made, out) = (regions().path(), scratch());
    let folder = out.path();
    for entry in std::fs::read_dir(made).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    // In two of three cases nobody drew the shell.
    for n in 0..2 {
        let map = case(n).1;
        let data = map.data().iter().map(|&v| if v == 7 { 0 } else { v }).collect();
        let map = Volume::new(map.geometry().clone(), data);
        write(&folder.join(format!("c{n}.mask.nii.gz")), &map);
    }
    let mean_dice = |drawn: bool| {
        let mut value = dataset(folder);
        if drawn {
            for n in 0..2 {
                value["cases"][n]["not_drawn"] = json!(["shell"]);
            }
        }
        std::fs::write(folder.join("dataset.json"), value.to_string()).unwrap();
        let model = train(folder, "2");
        let report = folder.join("report.json");
        let set = folder.join("dataset.json");
        let fixed = ["evaluate", "-q", "-m", text(&model), "-i", text(&set), "-o", text(&report)];
        pbt(fixed).exits_with(0);
        let report = read_json(&report);
        // Cases of the split `train`: the shell is scored where it was drawn.
        let fixed = ["evaluate", "-q", "-m", text(&model), "-i", text(&set), "--split", "train"];
        let of_training = folder.join("training.json");
        pbt(fixed.into_iter().chain(["-o", text(&of_training)])).exits_with(0);
        let records = read_json(&of_training)["records"].as_array().unwrap().len();
        assert_eq!(records, if drawn { 4 } else { 6 });
        [0, 1].map(|n| report["summary"][n]["mean_dice"].as_f64().unwrap())
    };
    let [core, shell] = mean_dice(true);
    assert!(core > 0.6 && shell > 0.75, "{core} {shell}");
    // Without saying so, the shell is taken for background.
    assert!(mean_dice(false)[1] < shell - 0.1);
}

/// Bad settings are dropped after a fold, the best ones train.
#[test]
fn tuning_finds_settings_and_drops_bad_ones() {
    let (made, out) = (regions().path(), scratch());
    let mut value = dataset(out.path());
    for case in value["cases"].as_array_mut().unwrap() {
        for key in ["image", "labels"] {
            case[key] = json!(made.join(case[key].as_str().unwrap()));
        }
        case["split"] = json!("train");
    }
    let (set, tuned) = (out.path().join("dataset.json"), out.path().join("tuned.toml"));
    std::fs::write(&set, value.to_string()).unwrap();
    let config = made.join("small.toml");
    let tune = ["tune", "-i", text(&set), "-o", text(&tuned), "--config", text(&config)];
    let vary = ["--vary", "regions.forest.depth=9,0", "--folds", "2"];
    let told = pbt(tune.into_iter().chain(vary)).exits_with(0);
    assert!(told.stdout.contains("regions.forest.depth = 9"), "{}", told.stdout);
    let report = read_json(&out.path().join("tuned.json"));
    let settings = report["settings"].as_array().unwrap();
    assert_eq!(settings[0]["values"]["regions.forest.depth"], 9);
    assert_eq!((&settings[0]["cases"], &settings[0]["dropped_after"]), (&json!(5), &Value::Null));
    assert!(settings[0]["mean_dice"].as_f64().unwrap() > 0.7);
    // A forest without tests labels nothing.
    assert!(settings[1]["mean_dice"].as_f64().unwrap() < 0.1);
    let model = out.path().join("x.pbt");
    let train = ["train", "-q", "-i", text(&set), "-o", text(&model), "--config", text(&tuned)];
    pbt(train).exits_with(0);
    let resolved = std::fs::read_to_string(out.path().join("x.train.toml")).unwrap();
    assert!(resolved.contains("depth = 9") && resolved.contains("features = 120"), "{resolved}");

    let refused = |more: &[&str], code: i32, words: &str| {
        let told = pbt(tune.iter().chain(more)).exits_with(code);
        assert!(told.error_line().contains(words), "{}", told.stderr);
    };
    refused(&["--vary", "regions.forest.deep=1"], 2, "regions.forest.deep");
    refused(&["--vary", "regions.near=1", "--folds", "6"], 4, "--folds");
    refused(&["--vary", "regions.near"], 2, "KEY=VALUE");
    // What the file has wrong is the file's.
    let bad = out.path().join("bad.toml");
    let tune = ["tune", "-i", text(&set), "-o", text(&tuned), "--config", text(&bad)];
    for wrong in ["[regions]\nfeaturez = 9\n", "[regions\n"] {
        std::fs::write(&bad, wrong).unwrap();
        let told = pbt(tune.into_iter().chain(["--vary", "regions.near=1"])).exits_with(4);
        let line = told.error_line();
        assert!(line.contains("bad.toml") && !line.contains("--vary"), "{line}");
    }
}
