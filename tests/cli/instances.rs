//! Structures that occur several times in an image: cells, alone and beside what occurs once, and vertebrae
//! without names.

use crate::column::{MEMBERS, column};
use crate::support::{lasting, pbt, read_json, refused, scratch, text};
use nalgebra::Matrix3;
use pbt_io::{
    RawImage, VoxelType, read_labels, read_markups, read_raw, write_image, write_markups,
};
use pbt_volume::{Geometry, PointLps};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

const TRAINING: usize = 6;
const TEST: usize = 2;
const SIDE: usize = 44;

/// Settings of a training in seconds, without mirrored copies.
const SETTINGS: &str = "\
[augmentation]
copies = 0
[position]
copies = 2
negatives = 80
haar.features = 200
[classifier.pbt]
depth = 2
rounds_by_level = [15, 15]
[orientation]
rotations = 10
points_across = 4.0
[refinement]
points_across = 5.0
perturbations = 30
border = 0.1
ridge = 1.0
";

/// Cells as bright balls about a dark core, each with a value of its own in the label map, and a model of
/// the cells.
pub(crate) struct Cells {
    folder: TempDir,
}

impl Cells {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder().join("small.toml")
    }

    /// Those for tests.
    pub(crate) fn images(&self) -> Vec<PathBuf> {
        let all = TRAINING..TRAINING + TEST;
        all.map(|n| self.folder().join(format!("c{n}.nii.gz"))).collect()
    }

    fn model(&self) -> PathBuf {
        self.folder().join("cells.pbt")
    }

    fn train(&self, model: &Path, more: &[&str]) {
        let config = self.config();
        let arguments = [
            "train",
            "-q",
            "-i",
            text(self.folder()),
            "-o",
            text(model),
            "--config",
            text(&config),
        ];
        pbt(arguments.iter().chain(more)).exits_with(0);
    }
}

pub(crate) fn cells() -> &'static Cells {
    static CELLS: OnceLock<Cells> = OnceLock::new();
    CELLS.get_or_init(|| {
        let cells = Cells { folder: lasting() };
        std::fs::write(cells.config(), SETTINGS).unwrap();
        let cases: Vec<Value> = (0..TRAINING + TEST)
            .map(|n| {
                let id = format!("c{n}");
                write_cells(cells.folder(), &id, n as u64, 3 + n % 4);
                json!({ "id": id, "image": format!("{id}.nii.gz"), "labels": format!("{id}.labels.nii.gz"),
                        "split": if n < TRAINING { "train" } else { "test" } })
            })
            .collect();
        // No cell at all.
        write_cells(cells.folder(), "none", 99, 0);
        let dataset = json!({
            "schema": "pbt-dataset/1", "name": "cells", "modality": "fluorescence",
            "structures": [{ "name": "cell", "kind": "box", "instances": "many" },
                           { "name": "core", "kind": "box" }],
            "labels": { "*": "cell", "200": "core" }, "cases": cases,
        });
        std::fs::write(cells.folder().join("dataset.json"), dataset.to_string()).unwrap();
        cells.train(&cells.model(), &["--structure", "cell", "--threads", "2"]);
        cells
    })
}

/// Edges of the core, mm.
const CORE: f64 = 11.0;

/// Where the core is.
fn core(seed: u64) -> [f64; 3] {
    [7, 11, 13].map(|factor| 18.0 + (seed * factor % 9) as f64)
}

/// Balls of 9 to 12 mm across that keep apart, in noise, and, where there are any, a dark cube between them.
fn write_cells(folder: &Path, id: &str, seed: u64, count: usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = move || f64::from(random.next_u32()) / f64::from(u32::MAX);
    let core = core(seed);
    let mut balls: Vec<([f64; 3], f64)> = Vec::new();
    while balls.len() < count {
        let center: [f64; 3] = std::array::from_fn(|_| 8.0 + draw() * (SIDE as f64 - 16.0));
        let radius = 4.5 + 1.5 * draw();
        let apart = |(other, r): &([f64; 3], f64)| {
            let off = (0..3).map(|a| (center[a] - other[a]).powi(2)).sum::<f64>().sqrt();
            off > radius + r + 1.0
        };
        let from_core = (0..3).map(|a| (center[a] - core[a]).abs()).fold(0.0, f64::max);
        if balls.iter().all(apart) && from_core > CORE / 2.0 + radius + 1.0 {
            balls.push((center, radius));
        }
    }
    let (mut image, mut labels) = (Vec::new(), Vec::new());
    for n in 0..SIDE * SIDE * SIDE {
        let at = [n % SIDE, n / SIDE % SIDE, n / SIDE / SIDE].map(|v| v as f64);
        let inside = |(center, radius): &([f64; 3], f64)| {
            (0..3).map(|a| (at[a] - center[a]).powi(2)).sum::<f64>().sqrt() <= *radius
        };
        let cell = balls.iter().position(inside);
        let in_core = count > 0 && (0..3).all(|a| (at[a] - core[a]).abs() <= CORE / 2.0);
        let (value, label) = match cell {
            Some(n) => (170.0, n as u8 + 1),
            None if in_core => (10.0, 200),
            None => (60.0, 0),
        };
        image.push((value + 30.0 * draw()) as u8);
        labels.push(label);
    }
    let geometry =
        Geometry::new([SIDE; 3], Matrix3::identity(), PointLps::new(0.0, 0.0, 0.0)).unwrap();
    for (end, bytes) in [("", image), (".labels", labels)] {
        let volume = RawImage::new(geometry.clone(), VoxelType::U8, bytes, None).unwrap();
        write_image(&folder.join(format!("{id}{end}.nii.gz")), &volume).unwrap();
    }
}

#[test]
fn every_cell_is_found_counted_and_listed() {
    let (cells, out) = (cells(), scratch());
    pbt(["validate", text(cells.folder())]).exits_with(0);
    let report = out.path().join("report.json");
    let [model, folder] = [cells.model(), cells.folder().to_owned()];
    let shown = pbt(["evaluate", "-m", text(&model), "-i", text(&folder), "-o", text(&report)]);
    assert!(shown.exits_with(0).stdout.contains("panoptic quality"));
    let report = read_json(&report);
    let figures = &report["summary"]["structures"][0]["instances"];
    // Cases 6 and 7 have five and six cells.
    assert_eq!(figures["annotated"], 11);
    assert!(figures["f1"].as_f64().unwrap() >= 0.9, "{figures}");
    assert!(figures["average_precision"].as_f64().unwrap() >= 0.9, "{figures}");
    assert!(figures["panoptic_quality"].as_f64().unwrap() > 0.6, "{figures}");

    let list = out.path().join("list.csv");
    let rows: String = ["c6", "c7", "none"]
        .map(|id| format!("{id},{}\n", folder.join(format!("{id}.nii.gz")).display()))
        .concat();
    std::fs::write(&list, format!("case_id,path\n{rows}")).unwrap();
    let found = out.path().join("found");
    let batch = ["batch", "-m", text(&model), "-i", text(&list), "-o", text(&found), "--labels"];
    pbt(batch).exits_with(0);
    let detections = |id: &str| -> Vec<Value> {
        read_json(&found.join(format!("{id}.json")))["detections"].as_array().unwrap().clone()
    };
    let six = detections("c6");
    let numbers: Vec<u64> = six.iter().map(|d| d["instance"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=six.len() as u64).collect::<Vec<_>>());
    let scores: Vec<f64> = six.iter().map(|d| d["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    // Six subjects earn no score above 7/8.
    assert!(scores[0] <= 7.0 / 8.0 && six[0]["name"] == "cell", "{:?}", six[0]);
    let none = detections("none");
    // Of an image without cells the best guess is no more than that.
    assert!(
        none.iter().all(|d| d["status"] != "found" && d["score"].as_f64() < Some(0.5)),
        "{none:?}"
    );
    let table = std::fs::read_to_string(found.join("detections.csv")).unwrap();
    assert_eq!(table.lines().count(), 1 + six.len() + detections("c7").len() + none.len());
    let boxes = read_markups(&found.join("c6.mrk.json")).unwrap().boxes;
    assert!(boxes.len() == six.len() && boxes.iter().all(|(name, _)| name == "cell"));
    pbt(["info", text(&model)]).exits_with(0);
    let image = folder.join("c6.nii.gz");
    let explain = ["detect", "-m", text(&model), "-i", text(&image), "--explain"];
    pbt(explain.into_iter().chain(["-o", text(&found)])).exits_with(0);
    let explained = read_json(&found.join("c6.explain.json"));
    assert_eq!(explained["detections"].as_array().unwrap().len(), six.len());
}

/// Each is found as by a model of its own; one of both is trained, evaluated, explained and read as others
/// are.
#[test]
fn cells_are_found_beside_what_occurs_once() {
    let (cells, out) = (cells(), scratch());
    let folder = cells.folder();
    let model = out.path().join("both.pbt");
    cells.train(&model, &["--threads", "2"]);
    let image = folder.join("c7.nii.gz");
    let found = |model: &Path, more: &[&str]| -> Vec<Value> {
        let detect = ["detect", "-m", text(model), "-i", text(&image), "-o", text(out.path())];
        pbt(detect.iter().chain(more)).exits_with(0);
        read_json(&out.path().join("c7.json"))["detections"].as_array().unwrap().clone()
    };
    let both = found(&model, &["--explain"]);
    let explained = read_json(&out.path().join("c7.explain.json"));
    assert_eq!(both[1..], found(&cells.model(), &[]));
    assert!(both.len() > 3 && both[1..].iter().all(|d| d["name"] == "cell"), "{both:?}");
    let at = core(7);
    let off_mm = (0..3).map(|a| (both[0]["position_lps_mm"][a].as_f64().unwrap() - at[a]).abs());
    assert!(both[0]["name"] == "core" && off_mm.fold(0.0, f64::max) < 3.0, "{:?}", both[0]);
    let names = explained["detections"].as_array().unwrap().iter().map(|d| &d["name"]);
    assert!(names.eq(both.iter().map(|d| &d["name"])));

    let report = out.path().join("report.json");
    pbt(["evaluate", "-m", text(&model), "-i", text(folder), "-o", text(&report)]).exits_with(0);
    let summary = &read_json(&report)["summary"]["structures"];
    let [cell, core] = ["cell", "core"].map(|name| {
        let of = |s: &&Value| s["structure"] == name;
        summary.as_array().unwrap().iter().find(of).unwrap().clone()
    });
    assert_eq!((&cell["instances"]["annotated"], &core["annotated"]), (&json!(11), &json!(2)));
    assert!(core["instances"].is_null() && cell["instances"]["f1"].as_f64() >= Some(0.9), "{cell}");
    let info = pbt(["info", text(&model)]).exits_with(0).stdout;
    assert!(info.contains("core (box), 6 cases") && info.contains("cell (box, many"), "{info}");
    // The features of several structures fill screens.
    let features = "core: position: features used most";
    assert!(info.contains("with -v:") && !info.contains(features), "{info}");
    assert!(pbt(["info", "-v", text(&model)]).exits_with(0).stdout.contains(features));
}

/// Images that show no more than the edge of a cell, whose centre lies outside: what else is found in them must
/// not be lost.
#[test]
fn a_cell_outside_the_image_is_absent() {
    let (cells, out) = (cells(), scratch());
    write_cells(out.path(), "one", 50, 1);
    let image = read_raw(&out.path().join("one.nii.gz")).unwrap().raw;
    let labels = read_labels(&out.path().join("one.labels.nii.gz")).unwrap();
    let inside = (0..labels.data().len()).filter(|&n| labels.data()[n] == 1);
    let last = inside.map(|n| n % SIDE).max().unwrap();
    let middle = (0..labels.data().len()).filter(|&n| labels.data()[n] == 1 && n % SIDE == last);
    let middle = middle.max().unwrap();
    let [j, k] = [middle / SIDE % SIDE, middle / SIDE / SIDE];
    let images = out.path().join("images");
    std::fs::create_dir(&images).unwrap();
    for back in 0..4 {
        let cut = image.part([last - back, j - 3, k - 3], [3, 5, 5]);
        write_image(&images.join(format!("cut{back}.nii.gz")), &cut).unwrap();
    }
    let (model, found) = (cells.model(), out.path().join("found"));
    pbt(["batch", "-m", text(&model), "-i", text(&images), "-o", text(&found)]).exits_with(0);
    let result = read_json(&found.join("cut0.json"));
    let detections = result["detections"].as_array().unwrap();
    assert_eq!((detections.len(), &detections[0]["status"]), (1, &json!("absent")));
    assert!(detections[0]["position_lps_mm"].is_null());
}

#[test]
fn models_of_instances_are_the_same_with_one_thread() {
    let (cells, out) = (cells(), scratch());
    let model = out.path().join("one.pbt");
    cells.train(&model, &["--structure", "cell", "--threads", "1"]);
    assert!(std::fs::read(&model).unwrap() == std::fs::read(cells.model()).unwrap());
    let image = cells.folder().join("c7.nii.gz");
    let result = |threads: &str| {
        let folder = out.path().join(threads);
        let detect = ["detect", "-m", text(&model), "-i", text(&image), "--threads", threads, "-o"];
        pbt(detect.into_iter().chain([text(&folder)])).exits_with(0);
        read_json(&folder.join("c7.json"))["detections"].clone()
    };
    assert_eq!(result("1"), result("2"));
}

/// The column's members, all of one name: a row, in which neighbours are looked for.
#[test]
fn a_row_is_found_without_names() {
    let (column, out) = (column(), scratch());
    let mut dataset = read_json(&column.folder().join("dataset.json"));
    dataset["structures"] = json!([{ "name": "vertebra", "kind": "box", "instances": "many" }]);
    for case in dataset["cases"].as_array_mut().unwrap() {
        let markups = column.folder().join(case["annotations"].as_str().unwrap());
        let boxes = read_markups(&markups).unwrap().boxes;
        let boxes: Vec<_> =
            boxes.into_iter().map(|(_, pose)| ("vertebra".to_owned(), pose)).collect();
        let renamed = out.path().join(markups.file_name().unwrap());
        write_markups(&renamed, &boxes, &[], |_| String::new()).unwrap();
        case["annotations"] = json!(renamed);
        case["image"] = json!(column.folder().join(case["image"].as_str().unwrap()));
    }
    let file = out.path().join("dataset.json");
    std::fs::write(&file, dataset.to_string()).unwrap();
    let (model, report) = (out.path().join("m.pbt"), out.path().join("report.json"));
    let config = column.config();
    let train = ["train", "-q", "-i", text(&file), "-o", text(&model), "--config", text(&config)];
    pbt(train).exits_with(0);
    pbt(["evaluate", "-q", "-m", text(&model), "-i", text(&file), "-o", text(&report)])
        .exits_with(0);
    let report = read_json(&report);
    let figures = &report["summary"]["structures"][0]["instances"];
    assert_eq!(figures["annotated"], 2 * MEMBERS.len());
    assert!(figures["recall"].as_f64().unwrap() >= 0.75, "{figures}");
    assert!(figures["false_an_image"].as_f64().unwrap() <= 0.5, "{figures}");
}

#[test]
fn what_does_not_fit_several_instances_is_said() {
    let (column, out) = (column(), scratch());
    let original = read_json(&column.folder().join("dataset.json"));
    let file = out.path().join("dataset.json");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut dataset = original.clone();
        for case in dataset["cases"].as_array_mut().unwrap() {
            for key in ["image", "annotations"] {
                case[key] = json!(column.folder().join(case[key].as_str().unwrap()));
            }
        }
        change(&mut dataset);
        std::fs::write(&file, dataset.to_string()).unwrap();
        let model = out.path().join("m.pbt");
        pbt(["train", "-i", text(&file), "-o", text(&model)])
    };
    // Two boxes of one name where one is expected.
    let markups = out.path().join("c0.mrk.json");
    let boxes = read_markups(&column.folder().join("c0.mrk.json")).unwrap().boxes;
    let twice = [boxes[0].clone(), (boxes[0].0.clone(), boxes[1].1)];
    write_markups(&markups, &twice, &[], |_| String::new()).unwrap();
    let same = with(&|set| set["cases"][0]["annotations"] = json!(markups));
    refused(same, 4, &["c0.mrk.json: v1: has several boxes", "\"instances\": \"many\""]);
    let parent = with(&|set| set["structures"][1]["instances"] = json!("many"));
    refused(parent, 4, &["structures: tip: its parent", "occurs several times"]);
    let landmark = with(&|set| set["structures"][4]["instances"] = json!("many"));
    refused(landmark, 4, &["structures[4].instances: is `many` for a landmark"]);
    let word = with(&|set| set["structures"][0]["instances"] = json!("several"));
    refused(word, 4, &["structures[0].instances: is `several`", "`one` or `many`"]);
    let cells = cells().folder();
    let curve = pbt(["learning-curve", "-i", text(cells)]);
    refused(curve, 4, &["cell: a learning curve takes structures that occur once"]);
}
