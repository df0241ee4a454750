//! `pbt validate` on data sets in which something hides in plain sight: each fault is named with its
//! case, and a sound data set has none.

use crate::sets::set;
use crate::support::{pbt, read_json, refused, scratch, train};
use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_io::{OpenImage, RawImage, ReadOptions, VoxelType, write_image, write_markups};
use pbt_volume::{Geometry, PointLps, Pose, VoxelIndex};
use serde_json::{Value, json};
use std::path::Path;

const NAMES: [&str; 3] = ["upper", "middle", "lower"];
const CASES: usize = 12;
const EDGE: usize = 32;

/// A repeatable number from -1 to 1.
fn wobble(n: usize) -> f64 {
    let scrambled = (n as u32 + 1).wrapping_mul(2_654_435_761).rotate_left(13);
    f64::from(scrambled.wrapping_mul(2_246_822_519)) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Voxels of 3 mm, so many slices.
fn grid(slices: usize) -> Geometry {
    let matrix = Matrix3::identity() * 3.0;
    Geometry::new([EDGE, EDGE, slices], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap()
}

/// A row of three boxes in case `n`.
fn pose(n: usize, name: usize) -> Pose {
    let off = |a: usize| 0.7 * wobble(100 * n + 10 * name + a);
    Pose {
        center: PointLps::new(46.0 + off(0), 47.0 + off(1), 16.0 + 30.0 * name as f64 + off(2)),
        orientation: UnitQuaternion::identity(),
        size_mm: [30.0 + off(3), 24.0 + off(4), 18.0 + off(5)],
    }
}

fn write_poses(folder: &Path, n: usize, change: impl Fn(usize, &mut Pose)) {
    let poses: Vec<(String, Pose)> = NAMES
        .iter()
        .enumerate()
        .map(|(m, name)| {
            let mut pose = pose(n, m);
            change(m, &mut pose);
            ((*name).to_owned(), pose)
        })
        .collect();
    write_markups(&folder.join(format!("c{n}.mrk.json")), &poses, &[], |_| String::new()).unwrap();
}

fn write_volume(path: &Path, geometry: &Geometry, value: impl Fn([usize; 3], PointLps) -> u8) {
    let [nx, ny, _] = geometry.shape();
    let voxel = |v: usize| {
        let index = [v % nx, v / nx % ny, v / nx / ny];
        let [i, j, k] = index.map(|n| n as f64);
        value(index, geometry.to_lps(VoxelIndex::new(i, j, k)))
    };
    let bytes = (0..geometry.len()).map(voxel).collect();
    let raw = RawImage::new(geometry.clone(), VoxelType::U8, bytes, None).unwrap();
    write_image(path, &raw).unwrap();
}

fn write_picture(folder: &Path, n: usize, slices: usize) {
    write_volume(&folder.join(format!("c{n}.nii.gz")), &grid(slices), |[i, j, k], _| {
        (128.0 + 90.0 * wobble(7 * n + i / 4 + 11 * (j / 4) + 131 * (k / 4))) as u8
    });
}

/// A label map with the boxes as labels 1, 2, 3, and a hole that no other case has.
fn write_labels(folder: &Path, n: usize, geometry: &Geometry, strays: &[[usize; 3]]) {
    write_volume(&folder.join(format!("c{n}.labels.nii.gz")), geometry, |index, point| {
        let is_in = |m: &usize| {
            let pose = pose(n, *m);
            let local = point.0 - pose.center.0;
            (0..3).all(|a| local[a].abs() <= pose.size_mm[a] / 2.0)
        };
        match (0..3).find(is_in) {
            Some(1) if index == [12 + n % 6, 14 + n / 6, 15] => 0,
            Some(m) => m as u8 + 1,
            None => 2 * u8::from(strays.contains(&index)),
        }
    });
}

fn write_sound(folder: &Path) {
    let mut cases = Vec::new();
    for n in 0..CASES {
        write_poses(folder, n, |_, _| {});
        write_picture(folder, n, EDGE);
        write_labels(folder, n, &grid(EDGE), &[]);
        cases.push(json!({
            "id": format!("c{n}"), "image": format!("c{n}.nii.gz"), "labels": format!("c{n}.labels.nii.gz"),
            "annotations": format!("c{n}.mrk.json"), "split": if n < 10 { "train" } else { "test" },
        }));
    }
    let structures: Vec<Value> =
        NAMES.iter().map(|name| json!({ "name": name, "kind": "box" })).collect();
    let dataset = json!({
        "schema": "pbt-dataset/1", "name": "made", "modality": "MR", "structures": structures,
        "labels": { "1": "upper", "2": "middle", "3": "lower" }, "cases": cases,
    });
    std::fs::write(folder.join("dataset.json"), dataset.to_string()).unwrap();
}

/// What `--json` says.
fn validation(path: &Path, code: i32) -> Value {
    let outcome = pbt(["validate".as_ref(), "--json".as_ref(), path.as_os_str()]).exits_with(code);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn what_hides_in_plain_sight_is_named_with_its_case() {
    let folder = scratch();
    let data = folder.path();
    write_sound(data);
    let sound = validation(data, 0);
    assert_eq!(sound["findings"], json!([]), "{sound:#}");
    let spread = &sound["structures"][1];
    assert_eq!((&spread["name"], &spread["cases"]), (&json!("middle"), &json!(CASES)));
    assert!((spread["median_size_mm"][0].as_f64().unwrap() - 30.0).abs() < 0.7, "{spread}");
    assert!(spread["loose_axis"].is_null() && spread["angle_spread_deg"].as_f64().unwrap() < 1e-3);

    write_poses(data, 1, |m, pose| {
        if m == 0 {
            pose.size_mm = pose.size_mm.map(|mm| mm / 10.0);
        }
    });
    write_poses(data, 2, |m, pose| pose.center.0.x += if m == 1 { 16.0 } else { 0.0 });
    write_poses(data, 3, |m, pose| {
        if m == 2 {
            // e1 and e2 exchanged by a quarter turn.
            let turn = std::f64::consts::FRAC_PI_2;
            pose.orientation = UnitQuaternion::from_axis_angle(&Vector3::z_axis(), turn);
            pose.size_mm.swap(0, 1);
        }
    });
    write_labels(data, 4, &grid(EDGE), &[[1, 1, 1], [2, 1, 1]]);
    let coarse = Matrix3::identity() * 6.0;
    let coarse = Geometry::new([16; 3], coarse, PointLps::new(1.5, 1.5, 1.5)).unwrap();
    write_labels(data, 5, &coarse, &[]);
    let beside =
        Geometry::new([EDGE; 3], Matrix3::identity() * 3.0, PointLps::new(500.0, 0.0, 0.0));
    write_labels(data, 6, &beside.unwrap(), &[]);
    write_picture(data, 7, 2);
    write_poses(data, 7, |_, pose| pose.center.0.z = 2.0);
    let mut dataset = read_json(&data.join("dataset.json"));
    dataset["cases"][7].as_object_mut().unwrap().remove("labels");
    dataset["cases"][8]["split"] = "trian".into();
    std::fs::write(data.join("dataset.json"), dataset.to_string()).unwrap();

    let found = validation(data, 4);
    let findings = found["findings"].as_array().unwrap();
    for (severity, case, part) in [
        ("warning", "c8", "the split `trian`: c8 (write `train`"),
        ("warning", "c1", "c1.mrk.json: upper: its box is 3."),
        ("warning", "c2", "c2.mrk.json: middle: the centre of its box lies 1"),
        ("warning", "c3", "lower: the axes of the box are named otherwise in 1 of 12 cases: c3"),
        ("warning", "c4", "middle: its mask is in pieces in 1 of 11 label maps: c4 (2 pieces"),
        ("warning", "c5", "c5.labels.nii.gz: grid: it has another grid than the image"),
        ("error", "c6", "c6.labels.nii.gz: grid: it lies beside the image"),
        ("error", "c7", "dataset.json: case c7: shape: the image is "),
    ] {
        let fits = |f: &&Value| {
            f["severity"] == severity
                && f["cases"] == json!([case])
                && f["message"].as_str().unwrap().contains(part)
        };
        assert_eq!(findings.iter().filter(fits).count(), 1, "{part}: {findings:#?}");
    }
    let others: Vec<&Value> = findings.iter().filter(|f| f["cases"] != json!(["c7"])).collect();
    assert_eq!(others.len(), 7, "{others:#?}");
    // What `validate` foretells, `train` says.
    let model = data.join("m.pbt");
    let outcome =
        pbt(["train".as_ref(), "-i".as_ref(), data.as_os_str(), "-o".as_ref(), model.as_os_str()])
            .exits_with(4);
    assert!(outcome.stderr.contains("case c7: shape: the image is "));
}

#[test]
fn the_oddest_boxes_are_drawn() {
    let folder = scratch();
    let data = folder.path();
    write_sound(data);
    let picture = data.join("pictures/odd.svg");
    let draw = || {
        let outcome =
            pbt(["validate".as_ref(), data.as_os_str(), "--picture".as_ref(), picture.as_os_str()])
                .exits_with(0);
        (std::fs::read_to_string(&picture).unwrap(), outcome.stdout)
    };
    let (svg, stdout) = draw();
    assert!(svg.contains("no box is odd") && svg.matches("<image ").count() == 3 * CASES);
    assert!(stdout.contains("median size, mm") && stdout.contains("nothing is wrong"), "{stdout}");
    write_poses(data, 9, |m, pose| pose.center.0.y += if m == 1 { 16.0 } else { 0.0 });
    let (svg, _) = draw();
    let (first, second) = (svg.find(">c9: middle<").unwrap(), svg.find("not unusual").unwrap());
    assert!(first < second && svg.contains("1 case(s) to look at"));
    assert!(svg.contains(">expected<") && svg.contains("mm from where others expect it"));
    // An image has no boxes to compare.
    let image = data.join("c0.nii.gz");
    let none = data.join("none.svg");
    let outcome =
        pbt(["validate".as_ref(), image.as_os_str(), "--picture".as_ref(), none.as_os_str()])
            .exits_with(0);
    assert!(outcome.stderr.contains("no picture is drawn") && !none.exists());
}

#[test]
fn sound_sets_are_left_in_peace() {
    for (name, file, odd) in [
        ("hippocampus", "dataset.json", &[][..]),
        ("mouse_skull", "dataset.json", &["MOLG_DnJ.mrk.json: 1: the landmark lies 0.9"]),
        // A crooked spine.
        ("lumbar_spine_mr", "dataset.json", &["lumbar_49.mrk.json: L5", "lumbar_49.mrk.json: L4"]),
        ("prostate_us_mr", "us.json", &[]),
        ("prostate_us_mr", "mr.json", &[]),
    ] {
        let Some(folder) = set(name) else { continue };
        let found = validation(&folder.join(file), 0);
        let findings = found["findings"].as_array().unwrap();
        let is_known =
            |f: &&Value| odd.iter().any(|part| f["message"].as_str().unwrap().contains(part));
        let others: Vec<&Value> = findings.iter().filter(|f| !is_known(f)).collect();
        assert!(others.is_empty() && findings.len() == odd.len(), "{name}/{file}: {findings:#?}");
    }
}

/// The data set in a folder, for a `dataset.json` in another one.
fn read_from_elsewhere(set: &Path) -> Value {
    let mut dataset = read_json(&set.join("dataset.json"));
    for case in dataset["cases"].as_array_mut().unwrap() {
        for key in ["image", "labels", "annotations"] {
            if let Some(path) = case[key].as_str() {
                case[key] = json!(set.join(path));
            }
        }
    }
    dataset
}

#[test]
fn a_moved_vertebra_is_named_among_real_ones() {
    let Some(set) = set("lumbar_spine_mr") else { return };
    let folder = scratch();
    let mut dataset = read_from_elsewhere(&set);
    let moved = [(3, "L3", 0), (11, "L2", 1), (25, "L4", 2), (40, "L3", 1)];
    let mut expected = Vec::new();
    for (n, name, axis) in moved {
        let case = &mut dataset["cases"][n];
        let mut markups = read_json(Path::new(case["annotations"].as_str().unwrap()));
        let boxes = markups["markups"].as_array_mut().unwrap();
        let one = boxes.iter_mut().find(|markup| markup["name"] == name).unwrap();
        one["center"][axis] = json!(one["center"][axis].as_f64().unwrap() + 16.0);
        let file = folder.path().join(format!("{}.mrk.json", case["id"].as_str().unwrap()));
        std::fs::write(&file, markups.to_string()).unwrap();
        case["annotations"] = json!(file);
        expected.push(format!("{}: {name}: the centre of its box lies 1", file.display()));
    }
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
    let found = validation(folder.path(), 0);
    let messages: Vec<&str> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["message"].as_str())
        .filter(|message| !message.contains("lumbar_49"))
        .collect();
    for part in &expected {
        assert!(messages.iter().any(|message| message.starts_with(part)), "{part}: {messages:#?}");
    }
    assert_eq!(messages.len(), expected.len(), "{messages:#?}");
}

/// Spinal cords and oesophagi end where the planner of a radiotherapy stopped drawing.
#[test]
fn loose_ends_are_told_of_eight_real_heads() {
    let Some(set) = set("head_neck_ct") else { return };
    let folder = scratch();
    let mut dataset = read_from_elsewhere(&set);
    dataset["cases"].as_array_mut().unwrap().truncate(8);
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
    let found = validation(folder.path(), 0);
    let loose: Vec<(&str, u64)> = found["structures"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|s| Some((s["name"].as_str()?, s["loose_axis"].as_u64()?)))
        .collect();
    assert_eq!(loose, [("SpinalCord", 3), ("Esophagus", 3)]);
}

/// Of real spines one image is reversed by its header: it is named, and no other.
#[test]
fn reversed_images_are_named_among_real_ones() {
    let Some(set) = set("lumbar_spine_mr") else { return };
    let folder = scratch();
    let mut dataset = read_from_elsewhere(&set);
    let cases = dataset["cases"].as_array_mut().unwrap();
    cases.retain(|case| case["id"] != "lumbar_49");
    cases.truncate(16);
    for case in cases.iter_mut() {
        case.as_object_mut().unwrap().remove("labels");
    }
    // The patient's z is turned about the middle of the image.
    let turned_image = |case: &mut Value| {
        let image =
            OpenImage::open(Path::new(case["image"].as_str().unwrap()), &ReadOptions::default());
        let volume = image.unwrap().read().unwrap().volume;
        let geometry = volume.geometry();
        let mut affine = geometry.affine();
        let middle = geometry.center().0.z;
        (0..4).for_each(|column| affine[(2, column)] = -affine[(2, column)]);
        affine[(2, 3)] += 2.0 * middle;
        let turned = Geometry::from_affine(geometry.shape(), &affine).unwrap();
        let values = volume.numbers();
        let bytes = values.data().iter().flat_map(|&v| (v as i16).to_le_bytes()).collect();
        let file = folder.path().join(format!("{}.nii.gz", case["id"].as_str().unwrap()));
        write_image(&file, &RawImage::new(turned, VoxelType::I16, bytes, None).unwrap()).unwrap();
        case["image"] = json!(file);
    };
    turned_image(&mut cases[5]);
    let id = cases[5]["id"].clone();
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
    let found = validation(folder.path(), 0);
    let messages: Vec<&Value> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|f| f["message"].as_str().unwrap().contains("reversed"))
        .collect();
    let [one] = &messages[..] else { panic!("{messages:#?}") };
    assert_eq!(one["cases"], json!([id]));
    let said = "orientation: the image, but not its annotations, seems reversed from head to foot";
    assert!(one["message"].as_str().unwrap().contains(said), "{one}");
}

/// Landmarks that follow from label maps by rule: those that are there are as good as marked ones, and
/// what is wrong with a rule, or keeps it from giving a point, is named.
#[test]
fn rules_of_landmarks_are_checked() {
    let folder = scratch();
    let data = folder.path();
    write_sound(data);
    let path = data.join("dataset.json");
    let boxes = read_json(&path);
    let with_rules = |rules: &[Value]| {
        let mut file = boxes.clone();
        let landmarks = rules.iter().enumerate().map(
            |(n, rule)| json!({ "name": format!("p{n}"), "kind": "landmark", "from_labels": rule }),
        );
        file["structures"].as_array_mut().unwrap().extend(landmarks);
        std::fs::write(&path, file.to_string()).unwrap();
    };
    let tip = json!({ "rule": "tip", "label": "upper", "direction": "superior" });
    with_rules(&[json!({ "rule": "centroid", "label": "middle" }), tip]);
    assert_eq!(validation(data, 0)["findings"], json!([]));

    // The boxes lie apart, and so there is nothing to train.
    with_rules(&[json!({ "rule": "interface", "between": ["upper", "lower"] })]);
    let findings = validation(data, 4)["findings"].clone();
    let told = |part: &str| {
        let lines = findings.as_array().unwrap().iter();
        lines.filter(|f| f["message"].as_str().unwrap().contains(part)).count()
    };
    assert_eq!(told("labels.nii.gz: p0: `upper` and `lower` touch nowhere, so this case"), CASES);
    assert_eq!(told("structures: p0: not annotated in 12 of 12 cases"), 1, "{findings:#}");
    assert_eq!(told("structures: p0: 0 training case(s) with this landmark"), 1, "{findings:#}");

    with_rules(&[
        json!({ "rule": "centriod", "label": "upper" }),
        json!({ "rule": "centroid", "label": "uper" }),
        json!({ "rule": "tip", "label": "upper" }),
    ]);
    let findings = validation(data, 4)["findings"].clone();
    for (n, part) in [
        (0, "structures[3].from_labels.rule: is `centriod`; did you mean `centroid`? ("),
        (
            1,
            "structures[4].from_labels.label: `uper` is no name under `labels`; did you mean `upper`? (",
        ),
        (2, "structures[5].from_labels.direction: is missing (write `left`, `right`, "),
    ] {
        let line = findings[n]["message"].as_str().unwrap();
        assert!(line.contains(part) && findings[n]["severity"] == "error", "{line}");
    }
    let model = data.join("m.pbt");
    refused(train(data, &model, &[]), 4, &["dataset.json: structures[3].from_labels.rule: "]);
}

/// Left and right in the names, two cases that were mirrored, and a label map that belongs to another
/// case.
#[test]
fn exchanged_sides_and_copied_label_maps_are_named() {
    let folder = scratch();
    let data = folder.path();
    write_sound(data);
    let write = |mirrored: &[usize]| {
        for n in 0..CASES {
            let sign = if mirrored.contains(&n) { -1.0 } else { 1.0 };
            let poses = [("LungLeft", sign), ("LungRight", -sign)].map(|(name, side)| {
                let mut pose = pose(n, 1);
                pose.center.0.x += 20.0 * side;
                (name.to_owned(), pose)
            });
            let file = data.join(format!("c{n}.mrk.json"));
            write_markups(&file, &poses, &[], |_| String::new()).unwrap();
        }
    };
    let mut dataset = read_json(&data.join("dataset.json"));
    dataset["structures"] =
        json!([{ "name": "LungLeft", "kind": "box" }, { "name": "LungRight", "kind": "box" }]);
    dataset["labels"] = json!({ "1": "upper part", "2": "middle part", "3": "lower part" });
    std::fs::write(data.join("dataset.json"), dataset.to_string()).unwrap();
    write(&[]);
    assert_eq!(validation(data, 0)["findings"], json!([]));

    write(&[4, 6]);
    std::fs::copy(data.join("c3.labels.nii.gz"), data.join("c9.labels.nii.gz")).unwrap();
    let found = validation(data, 0);
    let lines = |found: &Value| -> Vec<(Value, String)> {
        let findings = found["findings"].as_array().unwrap().iter();
        findings.map(|f| (f["cases"].clone(), f["message"].as_str().unwrap().to_owned())).collect()
    };
    let few = lines(&found);
    assert_eq!(few.len(), 3, "{few:#?}");
    for (n, case) in ["c4", "c6"].into_iter().enumerate() {
        let words =
            format!("{case}.mrk.json: structures: left and right are exchanged in this case");
        assert!(few[n].0 == json!([case]) && few[n].1.contains(&words), "{few:#?}");
    }
    assert!(few[2].0 == json!(["c3", "c9"]) && few[2].1.contains("same voxels: c3, c9"));

    write(&(0..CASES).collect::<Vec<_>>());
    let all = lines(&validation(data, 0));
    let words = "dataset.json: structures: left and right seem exchanged in the names";
    assert!(all.len() == 2 && all[0].1.contains(words), "{all:#?}");
}
