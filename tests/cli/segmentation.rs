//! Data sets of boxes with label maps: masks are trained beside them, written on request, evaluated.

use crate::support::{lasting, pbt, read_json, scratch, text};
use pbt_io::{OpenImage, RawImage, ReadOptions, VoxelType, read_labels, read_raw, write_image};
use pbt_volume::{Geometry, PointLps, Random, Volume, rotation_from_vector};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// An egg of two parts, 3 the thick end and 7 the thin one, turned and moved a little.
fn case(seed: u64) -> (Volume<u8>, Volume<u8>) {
    let mut random = Random::from_seed(seed);
    let matrix = nalgebra::Matrix3::new(-1.2, 0.0, 0.0, 0.0, 1.2, 0.0, 0.0, 0.0, 1.5);
    let geometry = Geometry::new([30, 34, 28], matrix, PointLps::new(30.0, -5.0, 8.0)).unwrap();
    let middle = geometry.center().0.coords.map(|m| m + random.between(-3.0, 3.0));
    let turn = rotation_from_vector(nalgebra::Vector3::from_fn(|_, _| random.between(-0.2, 0.2)));
    let radii = [6.0, 11.0, 7.5].map(|r| r * random.between(0.93, 1.07));
    let labels = Volume::from_fn(geometry.clone(), |i, j, k| {
        let at = geometry.to_lps(pbt_volume::VoxelIndex::new(i as f64, j as f64, k as f64));
        let at = turn.inverse() * (at.0.coords - middle);
        // Thinner towards one end, so that it has a direction.
        let thin = 1.0 - 0.02 * at.y;
        let inside = (at.x / radii[0] / thin).powi(2)
            + (at.y / radii[1]).powi(2)
            + (at.z / radii[2] / thin).powi(2);
        match (inside < 1.0, at.y > 2.0) {
            (true, false) => 3u8,
            (true, true) => 7,
            _ => 0,
        }
    });
    let image = Volume::from_fn(geometry, |i, j, k| {
        let value =
            [110.0, 170.0, 60.0][[0, 3, 7].iter().position(|v| *v == labels.at(i, j, k)).unwrap()];
        (value + 15.0 * random.normal()).clamp(0.0, 255.0) as u8
    });
    (image, labels)
}

fn write(path: &Path, volume: &Volume<u8>) {
    let bytes = volume.data().to_vec();
    let raw = RawImage::new(volume.geometry().clone(), VoxelType::U8, bytes, None).unwrap();
    write_image(path, &raw).unwrap();
}

const TRAINING: u64 = 12;

const SMALL: &str = "\
[augmentation]
copies = 0
[position]
copies = 3
negatives = 60
haar.features = 200
[classifier.pbt]
depth = 2
rounds_by_level = [15, 15]
[orientation]
points_across = 4.0
[refinement]
points_across = 6.0
perturbations = 60
[segmentation]
samples = 12000
features = 60
first = { trees = 25, depth = 4 }
second = { trees = 25, depth = 4 }
";

/// Fourteen cases and a model of the first twelve. Read only.
fn eggs() -> &'static TempDir {
    static MADE: OnceLock<TempDir> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = lasting();
        let of = |n: u64| {
            let (image, labels) = case(n);
            write(&folder.path().join(format!("c{n}.nii.gz")), &image);
            write(&folder.path().join(format!("c{n}.mask.nii.gz")), &labels);
            json!({ "id": format!("c{n}"), "image": format!("c{n}.nii.gz"), "labels": format!("c{n}.mask.nii.gz"),
                    "split": if n < TRAINING { "train" } else { "test" } })
        };
        let made = json!({
            "schema": "pbt-dataset/1", "name": "eggs", "modality": "MR",
            "structures": [{ "name": "egg", "kind": "box" }],
            "labels": { "3": "thick", "7": "thin" },
            "cases": (0..TRAINING + 2).map(of).collect::<Vec<_>>(),
        });
        std::fs::write(folder.path().join("dataset.json"), made.to_string()).unwrap();
        std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
        train(folder.path(), &folder.path().join("egg.pbt"), &["--threads", "2", "--device", "cpu"]);
        folder
    })
}

fn train(folder: &Path, model: &Path, more: &[&str]) {
    let (input, config) = (folder.join("dataset.json"), folder.join("small.toml"));
    let fixed = ["train", "-q", "-i", text(&input), "-o", text(model), "--config", text(&config)];
    pbt(fixed.iter().chain(more)).exits_with(0);
}

fn detect(model: &Path, image: &Path, to: &Path, more: &[&str]) -> serde_json::Value {
    let fixed = ["detect", "-q", "-m", text(model), "-i", text(image), "-o", text(to)];
    pbt(fixed.iter().chain(more)).exits_with(0);
    read_json(&to.join(format!("{}.json", pbt_io::case_name(image))))
}

#[test]
fn labels_are_learned_with_the_box_and_written_where_they_are_asked_for() {
    let (folder, out) = (eggs().path(), scratch());
    let (model, image) = (folder.join("egg.pbt"), folder.join("c13.nii.gz"));
    let (plain, with) = (out.path().join("plain"), out.path().join("with"));
    let without_labels = detect(&model, &image, &plain, &[]);
    assert!(!plain.join("c13.labels.nii.gz").exists());
    let result = detect(&model, &image, &with, &["--labels"]);
    let egg = &result["detections"][0];
    // The box is the same, asked for labels or not.
    assert_eq!(egg["position_lps_mm"], without_labels["detections"][0]["position_lps_mm"]);
    assert!(without_labels["detections"][0].get("labels").is_none());
    let original = read_raw(&image).unwrap().raw;
    let map = read_labels(&with.join("c13.labels.nii.gz")).unwrap();
    assert_eq!(map.geometry(), original.geometry());
    assert_eq!(read_labels(&with.join("c13.pbt.seg.nrrd")).unwrap().data(), map.data());
    let truth = case(13).1;
    let voxel_ml = map.geometry().matrix().determinant().abs() / 1000.0;
    for (n, (name, value)) in [("thick", 3), ("thin", 7)].into_iter().enumerate() {
        let label = &egg["labels"][n];
        assert_eq!((&label["name"], &label["value"]), (&json!(name), &json!(value)));
        let voxels = map.data().iter().filter(|&&v| v == value).count();
        assert!((label["volume_ml"].as_f64().unwrap() - voxels as f64 * voxel_ml).abs() < 1e-9);
        let both = map.data().iter().zip(truth.data());
        let both = both.filter(|(f, t)| **f == value && u16::from(**t) == value).count();
        let truth = truth.data().iter().filter(|&&t| u16::from(t) == value).count();
        let dice = 2.0 * both as f64 / (voxels + truth) as f64;
        assert!(dice > 0.85, "{name}: {dice}");
        let predicted = label["predicted_dice"].as_f64().unwrap();
        assert!((predicted - dice).abs() < 0.08, "{name}: {predicted}, not {dice}");
        let within = label["volume_90_ml"].as_array().unwrap();
        assert!(within[0].as_f64() < label["volume_ml"].as_f64());
        assert!(within[1].as_f64() > label["volume_ml"].as_f64());
    }
    let sum: f64 = (0..2).map(|n| egg["labels"][n]["volume_ml"].as_f64().unwrap()).sum();
    assert!((egg["volume_ml"].as_f64().unwrap() - sum).abs() < 1e-9);
    assert!(egg["predicted_dice"].is_number());
}

/// The lines that `validate` prints of a path.
fn validate(path: &Path, code: i32) -> String {
    pbt(["validate", text(path)]).exits_with(code).stdout
}

#[test]
fn label_maps_are_told_from_images() {
    let (folder, out) = (eggs().path(), scratch());
    // One that its name tells is no finding of its own.
    for (from, to) in [
        ("c0.nii.gz", "c0.nii.gz"),
        ("c0.mask.nii.gz", "c0.mask.nii.gz"),
        ("c0.mask.nii.gz", "m.nii.gz"),
        ("c1.nii.gz", "c1.nii.gz"),
    ] {
        std::fs::copy(folder.join(from), out.path().join(to)).unwrap();
    }
    let said = validate(out.path(), 0);
    let maps: Vec<&str> = said.lines().filter(|line| line.contains("a label map")).collect();
    assert!(
        maps.len() == 1
            && maps[0].contains("m.nii.gz: voxels: all are one of 3 integers (0, 3, 7)"),
        "{said}"
    );
    assert!(said.contains("1 of 4 images are masks of others by their names"), "{said}");
    let mut set = read_json(&folder.join("dataset.json"));
    for case in set["cases"].as_array_mut().unwrap() {
        for key in ["image", "labels"] {
            case[key] = json!(folder.join(case[key].as_str().unwrap()));
        }
    }
    set["cases"][0]["image"] = set["cases"][0]["labels"].clone();
    set["labels"] = json!({ "3": "egg", "5": "white" });
    std::fs::write(out.path().join("dataset.json"), set.to_string()).unwrap();
    let said = validate(out.path(), 4);
    let own = "c0.mask.nii.gz: image: is the case's label map, too";
    assert_eq!(said.lines().filter(|line| line.contains(own)).count(), 1, "{said}");
    assert!(said.contains("labels: 5 occurs in no label map; they hold 3, 7 ("), "{said}");
    set["labels"] = json!({ "5": "egg" });
    std::fs::write(out.path().join("dataset.json"), set.to_string()).unwrap();
    let to = out.path().join("m.pbt");
    let training = pbt(["train", "-i", text(out.path()), "-o", text(&to)]).exits_with(4);
    assert!(training.stderr.contains("labels: 5 occurs in no label map"), "{}", training.stderr);
}

#[test]
fn an_explanation_takes_no_labels_away() {
    let (folder, out) = (eggs().path(), scratch());
    let (model, image) = (folder.join("egg.pbt"), folder.join("c13.nii.gz"));
    let (plain, explained) = (out.path().join("plain"), out.path().join("explained"));
    let mut expected = detect(&model, &image, &plain, &["--probabilities"]);
    let mut result = detect(&model, &image, &explained, &["--probabilities", "--explain"]);
    assert!(result["detections"][0]["labels"].is_array() && result != expected);
    (expected["run"], result["run"]) = (json!(null), json!(null));
    assert_eq!(result, expected);
    for extension in ["labels.nii.gz", "pbt.seg.nrrd", "probabilities.nii.gz"] {
        let bytes = |folder: &Path| std::fs::read(folder.join(format!("c13.{extension}"))).unwrap();
        assert!(bytes(&plain) == bytes(&explained), "{extension}");
    }
    assert!(explained.join("c13.explain.svg").exists());
}

/// Labels move the egg, so that they are looked for in any case, and say how sure its place is.
#[test]
fn labels_that_move_the_box_are_evidence() {
    let (folder, out) = (eggs().path(), scratch());
    let (model, image) = (folder.join("egg.pbt"), folder.join("c12.nii.gz"));
    let (plain, with) = (out.path().join("plain"), out.path().join("with"));
    let evidence = |to: &Path| {
        read_json(&to.join("c12.explain.json"))["detections"][0]["evidence"]["labels"].clone()
    };
    let without_labels = detect(&model, &image, &plain, &["--explain"]);
    let result = detect(&model, &image, &with, &["--explain", "--labels"]);
    let [egg, plain_egg] = [&result, &without_labels].map(|result| &result["detections"][0]);
    assert_eq!((&egg["score"], &egg["status"]), (&plain_egg["score"], &plain_egg["status"]));
    assert_eq!(evidence(&plain), evidence(&with));
    let labels = egg["labels"].as_array().unwrap();
    let dice = |label: &serde_json::Value| label["predicted_dice"].as_f64().unwrap();
    let best = labels.iter().map(dice).fold(0.0, f64::max);
    let expected = (2.0 * (best / (1.0 - best)).ln()).clamp(-5.0, 5.0);
    assert!((evidence(&with).as_f64().unwrap() - expected).abs() < 1e-9, "{best}");
    assert!(expected > 2.0, "{best}");
}

/// How probable a label is, as readers of a fourth axis see it.
fn probable(file: &Path, frame: usize) -> Vec<f32> {
    let options = ReadOptions { frame: Some(frame), ..ReadOptions::default() };
    let image = OpenImage::open(file, &options).unwrap().read().unwrap();
    image.volume.numbers().into_data()
}

#[test]
fn probabilities_agree_with_the_labels() {
    let (folder, out) = (eggs().path(), scratch());
    let (model, image) = (folder.join("egg.pbt"), folder.join("c13.nii.gz"));
    detect(&model, &image, out.path(), &["--probabilities"]);
    let file = out.path().join("c13.probabilities.nii.gz");
    let (thick, thin) = (probable(&file, 0), probable(&file, 1));
    let labels = read_labels(&out.path().join("c13.labels.nii.gz")).unwrap();
    // Half a step of 255ths, and a share of three.
    let half = 0.5 / 255.0;
    for ((&label, &thick), &thin) in labels.data().iter().zip(&thick).zip(&thin) {
        assert!(thick + thin <= 1.0 + 2.0 * half + 1e-6, "{thick} {thin}");
        let (own, other) = if label == 3 { (thick, thin) } else { (thin, thick) };
        if label == 0 {
            assert!(thick.max(thin) <= 0.5 + half, "{thick} {thin}");
        } else {
            assert!(own >= other - half && own >= 1.0 / 3.0 - half, "{label}: {own} {other}");
        }
    }
    assert!(thick.contains(&0.0) && thick.iter().any(|&p| p > 0.9));
    // Another run into the folder leaves none that is not its own.
    detect(&model, &image, out.path(), &["--labels"]);
    assert!(!file.exists());
}

#[test]
fn leaves_are_those_of_regions() {
    let (model, image) = (eggs().path().join("egg.pbt"), eggs().path().join("c13.nii.gz"));
    let out = scratch();
    let detect = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())];
    let leaves = ["--voxel-output", "leaves"];
    let told = pbt(detect.into_iter().chain(leaves)).exits_with(2);
    assert!(told.error_line().contains("forest of regions"), "{}", told.stderr);
}

#[test]
fn a_batch_with_probabilities_is_gone_on_with_where_they_are_missing() {
    let (folder, out) = (eggs().path(), scratch());
    let list = out.path().join("list.csv");
    let image = folder.join("c12.nii.gz");
    std::fs::write(&list, format!("case_id,path\nc12,{}\n", text(&image))).unwrap();
    let to = out.path().join("found");
    let run = |more: &[&str]| {
        let model = folder.join("egg.pbt");
        let fixed = ["batch", "-q", "-m", text(&model), "-i", text(&list), "-o", text(&to)];
        pbt(fixed.iter().chain(more)).exits_with(0);
        read_json(&to.join("run.json"))["counts"]["resumed"].clone()
    };
    assert_eq!(run(&["--labels"]), 0);
    assert_eq!(run(&["--labels", "--resume"]), 1);
    assert_eq!(run(&["--probabilities", "--resume"]), 0);
    assert!(to.join("c12.probabilities.nii.gz").exists());
    assert_eq!(run(&["--probabilities", "--resume"]), 1);
    // What lies there is not an image of another batch.
    let cases =
        pbt(["batch", "-q", "-m", text(&folder.join("egg.pbt")), "-i", text(&to), "-o", text(&to)]);
    assert!(cases.exits_with(4).stderr.contains("no image"), "a result was taken for an image");
}

#[test]
fn results_named_after_images_of_nnunet_are_found() {
    let (folder, out) = (eggs().path(), scratch());
    let set = out.path().join("set");
    let put = |from: &str, to: &str| {
        let to = set.join(to);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(folder.join(from), to).unwrap();
    };
    for n in 0..3 {
        put(&format!("c{n}.nii.gz"), &format!("imagesTr/c{n}_0000.nii.gz"));
        put(&format!("c{n}.mask.nii.gz"), &format!("labelsTr/c{n}.nii.gz"));
    }
    put("c12.nii.gz", "imagesTs/c12_0000.nii.gz");
    let made = json!({ "channel_names": { "0": "MR" }, "labels": { "background": 0, "egg": 3 },
                       "numTraining": 3, "file_ending": ".nii.gz" });
    std::fs::write(set.join("dataset.json"), made.to_string()).unwrap();
    assert!(
        !validate(&set, 0).contains("not annotated"),
        "images without labels are nnU-Net's way"
    );
    put("c12.mask.nii.gz", "labelsTs/c12.nii.gz");
    let (model, found) = (folder.join("egg.pbt"), out.path().join("found"));
    let images = set.join("imagesTs");
    let batch = ["batch", "-q", "-m", text(&model), "-i", text(&images), "-o", text(&found)];
    pbt(batch.iter().chain(&["--labels"])).exits_with(0);
    assert!(found.join("c12_0000.json").exists());
    let evaluate = |results: &Path, more: &[&str]| {
        pbt(["evaluate", "--results", text(results), "-i", text(&set)].iter().chain(more))
    };
    let table = evaluate(&found, &[]).exits_with(0).stdout;
    assert!(table.contains("1 of 1 cases evaluated"), "{table}");
    // Labels are told by their names, not by values that happen to be the same.
    let line = evaluate(&found, &["--labels"]).exits_with(4);
    let what = "found: structures: the results have the labels thick, thin, and none of egg";
    assert!(line.error_line().contains(what), "{}", line.stderr);
    let named = made.to_string().replace("egg", "thick");
    std::fs::write(set.join("dataset.json"), named).unwrap();
    let table = evaluate(&found, &["--labels"]).exits_with(0).stdout;
    assert!(table.contains("1 of 1 cases evaluated"), "{table}");
    let empty = evaluate(&images, &[]).exits_with(4);
    assert!(empty.error_line().contains("imagesTs/c12.json"), "{}", empty.error_line());
}

#[test]
fn masks_do_not_depend_on_threads() {
    let (folder, out) = (eggs().path(), scratch());
    let one = out.path().join("one.pbt");
    train(folder, &one, &["--threads", "1", "--device", "cpu"]);
    assert!(std::fs::read(&one).unwrap() == std::fs::read(folder.join("egg.pbt")).unwrap());
    let labels = ["1", "3"].map(|threads| {
        let to = out.path().join(threads);
        detect(&one, &folder.join("c12.nii.gz"), &to, &["--labels", "--threads", threads]);
        std::fs::read(to.join("c12.labels.nii.gz")).unwrap()
    });
    assert!(labels[0] == labels[1]);
}

#[test]
fn a_gpu_gives_the_same_masks_cuda() {
    if !crate::gpu::gpu() {
        return;
    }
    let (folder, out) = (eggs().path(), scratch());
    let (known, model) = (folder.join("egg.pbt"), out.path().join("gpu.pbt"));
    train(folder, &model, &["--device", "gpu"]);
    assert!(std::fs::read(&model).unwrap() == std::fs::read(&known).unwrap(), "another model");
    let labels = ["cpu", "gpu"].map(|device| {
        let to = out.path().join(device);
        detect(&known, &folder.join("c12.nii.gz"), &to, &["--labels", "--device", device]);
        std::fs::read(to.join("c12.labels.nii.gz")).unwrap()
    });
    assert!(labels[0] == labels[1], "other labels");
}

#[test]
fn evaluation_and_batches_take_labels() {
    let (folder, out) = (eggs().path(), scratch());
    let (model, set) = (folder.join("egg.pbt"), folder.join("dataset.json"));
    let report = |name: &str, more: &[&str]| {
        let path: PathBuf = out.path().join(name);
        let fixed = ["evaluate", "-q", "--labels", "-i", text(&set), "-o", text(&path)];
        pbt(fixed.iter().chain(more)).exits_with(0);
        read_json(&path)
    };
    let of_model = report("model.json", &["-m", text(&model)]);
    for (n, name) in ["thick", "thin"].into_iter().enumerate() {
        let summary = &of_model["summary"][n];
        assert_eq!((&summary["region"], &summary["cases"]), (&json!(name), &json!(2)));
        assert!(summary["mean_dice"].as_f64().unwrap() > 0.85, "{summary}");
    }
    let (list, found) = (out.path().join("list.csv"), out.path().join("found"));
    let rows =
        [12, 13].map(|n| format!("c{n},{}\n", folder.join(format!("c{n}.nii.gz")).display()));
    std::fs::write(&list, format!("case_id,path\n{}", rows.concat())).unwrap();
    let batch = ["batch", "-q", "-m", text(&model), "-i", text(&list), "-o", text(&found)];
    pbt(batch.iter().chain(&["--labels"])).exits_with(0);
    assert_eq!(
        report("results.json", &["--results", text(&found)])["records"],
        of_model["records"]
    );
}

/// A data set of the eggs beside a file of another label map of one of them.
fn eggs_with_map(out: &Path, id: &str, labels: &Volume<u8>) -> PathBuf {
    let (folder, map) = (eggs().path(), out.join("map.nii.gz"));
    write(&map, labels);
    let mut set = read_json(&folder.join("dataset.json"));
    for case in set["cases"].as_array_mut().unwrap() {
        for key in ["image", "labels"] {
            case[key] = json!(folder.join(case[key].as_str().unwrap()));
        }
        if case["id"] == id {
            case["labels"] = json!(map);
        }
    }
    let path = out.join("dataset.json");
    std::fs::write(&path, set.to_string()).unwrap();
    path
}

#[test]
fn training_tells_of_a_label_map_that_covers_another_region_than_its_image() {
    let (folder, out) = (eggs().path(), scratch());
    let drawn = read_labels(&folder.join("c3.mask.nii.gz")).unwrap();
    let [nx, ny, nz] = drawn.shape();
    let grid = drawn.geometry();
    let cut = Geometry::new([nx, ny, nz - 3], *grid.matrix(), grid.origin()).unwrap();
    let cut = Volume::from_fn(cut, |i, j, k| drawn.at(i, j, k) as u8);
    let (set, model) = (eggs_with_map(out.path(), "c3", &cut), out.path().join("egg.pbt"));
    let config = folder.join("small.toml");
    let fixed = ["train", "-i", text(&set), "-o", text(&model), "--config", text(&config)];
    let told = pbt(fixed.iter().chain(&["--no-segmentation"])).exits_with(0);
    let lines: Vec<&str> = told.stderr.lines().filter(|l| l.contains("another region")).collect();
    assert!(lines.len() == 1 && lines[0].starts_with("warning: c3: "), "{}", told.stderr);
    assert!(lines[0].contains("map.nii.gz: grid: "), "{}", lines[0]);
}

#[test]
fn labels_that_nobody_drew_are_not_evaluated() {
    let (folder, out) = (eggs().path(), scratch());
    let drawn = read_labels(&folder.join("c13.mask.nii.gz")).unwrap();
    let thick_alone = drawn.map(|value| if value == 3 { 3u8 } else { 0 });
    let path = eggs_with_map(out.path(), "c13", &thick_alone);
    let report = out.path().join("report.json");
    let model = folder.join("egg.pbt");
    let fixed = ["evaluate", "-q", "--labels", "-m", text(&model), "-i", text(&path)];
    pbt(fixed.iter().chain(&["-o", text(&report)])).exits_with(0);
    let cases = [0, 1].map(|n| read_json(&report)["summary"][n]["cases"].clone());
    assert_eq!(cases, [json!(2), json!(1)]);
}

#[test]
fn labels_of_other_names_are_told_apart() {
    let (folder, out) = (eggs().path(), scratch());
    let mut set = read_json(&folder.join("dataset.json"));
    for name in set["labels"].as_object_mut().expect("labels").values_mut() {
        *name = json!(format!("other {}", name.as_str().expect("a name")));
    }
    for case in set["cases"].as_array_mut().expect("cases") {
        for key in ["image", "labels"] {
            case[key] = json!(folder.join(case[key].as_str().expect("a path")));
        }
    }
    let path = out.path().join("dataset.json");
    std::fs::write(&path, set.to_string()).unwrap();
    let model = folder.join("egg.pbt");
    let fixed = ["evaluate", "--labels", "-i", text(&path), "-m", text(&model)];
    let outcome = pbt(fixed).exits_with(4);
    let line = outcome.error_line();
    assert!(
        line.contains("has learned the labels ") && line.contains("and none of other "),
        "{line}"
    );
}

#[test]
fn boxes_alone_have_no_labels_to_evaluate() {
    let (folder, out) = (eggs().path(), scratch());
    let model = out.path().join("box.pbt");
    train(folder, &model, &["--no-segmentation"]);
    let fixed = ["evaluate", "--labels", "-i", text(folder), "-m", text(&model)];
    let line = pbt(fixed).exits_with(4);
    assert!(line.error_line().contains("has learned no labels"), "{}", line.error_line());
    let (image, to) = (folder.join("c12.nii.gz"), out.path().join("to"));
    let fixed = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(&to), "--labels"];
    let said = pbt(fixed).exits_with(0).stderr;
    assert!(said.contains("warning: --labels: the model has learned no masks"), "{said}");
    let result = read_json(&to.join("c12.json"));
    assert!(result["detections"][0].get("labels").is_none());
    assert!(to.join("c12.pbt.seg.nrrd").exists(), "boxes as numbered voxels");
}
