//! The published JSON Schemas hold for what the program writes and for what it reads, and for
//! nothing else.

use crate::sets::set;
use crate::support::{pbt, read_json, scratch, tiny};
use jsonschema::Validator;
use pbt_io::{Landmark, LandmarkState, write_markups};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn schema(path: &str) -> Validator {
    let schema = read_json(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path));
    assert!(jsonschema::meta::is_valid(&schema), "{path} is no schema");
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn published(name: &str) -> Validator {
    schema(&format!("docs/reference/schema/{name}-1.schema.json"))
}

#[track_caller]
fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:?}");
}

/// Each change of a value that is valid makes it invalid.
#[track_caller]
fn assert_refused(validator: &Validator, good: &Value, changes: &[(&str, Value)]) {
    assert_valid(validator, good, "before any change");
    for (at, to) in changes {
        let mut bad = good.clone();
        match (bad.pointer_mut(at), at.rsplit_once('/')) {
            // Null here means that the key is taken out.
            (Some(_), Some((parent, key))) if to.is_null() => {
                bad.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
            }
            (Some(value), _) => *value = to.clone(),
            (None, Some((parent, key))) => {
                bad.pointer_mut(parent).unwrap()[key] = to.clone();
            }
            (None, None) => unreachable!(),
        }
        assert!(!validator.is_valid(&bad), "{at} = {to} passes");
    }
}

/// The result and the markups of a detection.
fn detected(folder: &Path, image: &Path) -> (Value, Value) {
    let model = tiny().model();
    let [m, i, o] = [&model, image, folder].map(|path| path.to_str().unwrap());
    pbt(["detect", "-q", "-m", m, "-i", i, "-o", o]).exits_with(0);
    let name = image.file_name().unwrap().to_str().unwrap().trim_end_matches(".nii.gz");
    (
        read_json(&folder.join(format!("{name}.json"))),
        read_json(&folder.join(format!("{name}.mrk.json"))),
    )
}

#[test]
fn results_keep_the_schema() {
    let (validator, out) = (published("pbt-result"), scratch());
    let (good, _) = detected(out.path(), &tiny().folder().join("c7.nii.gz"));
    assert_ne!(good["detections"][0]["status"], "absent");
    let changes = [
        ("/schema", json!("pbt-result/2")),
        ("/coordinate_system", json!("RAS")),
        ("/case_id", Value::Null),
        ("/input/sha256", json!("abc")),
        ("/input/shape", json!([1, 2])),
        ("/input/shape/0", json!(1.5)),
        ("/input/spacing_mm/1", json!(0)),
        ("/input/affine_lps/3", json!([0, 0, 0, 2])),
        ("/input/affine_lps/0/0", json!("1")),
        ("/detections/0/status", json!("maybe")),
        ("/detections/0/status", json!("absent")),
        ("/detections/0/kind", json!("landmark")),
        ("/detections/0/score", json!(1.1)),
        ("/detections/0/size_mm", Value::Null),
        ("/detections/0/size_mm/2", json!(-1)),
        ("/detections/0/position_lps_mm", json!([1, 2])),
        ("/detections/0/orientation/quaternion_wxyz/0", json!(-0.5)),
        ("/detections/0/orientation/matrix/1", json!([0, 0])),
        ("/run/device/kind", json!("tpu")),
        ("/run/timing_ms/total", Value::Null),
        ("/warnings", json!([1])),
    ];
    assert_refused(&validator, &good, &changes);
    // What the reader takes, the schema takes, landmarks and absent structures included.
    let mut other = good.clone();
    let landmark = json!({ "name": "tip", "kind": "landmark", "status": "found", "score": 1, "position_lps_mm": [1, 2, 3],
        "orientation": null, "size_mm": null });
    let absent = json!({ "name": "b", "kind": "box", "status": "absent", "score": 0, "position_lps_mm": null,
        "orientation": null, "size_mm": null });
    other["detections"] = json!([landmark, absent]);
    other["later"] = json!("keys may be added");
    let path = out.path().join("other.json");
    std::fs::write(&path, other.to_string()).unwrap();
    pbt_io::read_result(&path).unwrap();
    assert_valid(&validator, &other, "a landmark and an absent box");
    assert_refused(
        &validator,
        &other,
        &[
            ("/detections/0/size_mm", json!([1, 2, 3])),
            ("/detections/1/position_lps_mm", json!([1, 2, 3])),
        ],
    );
}

#[test]
fn every_file_of_a_batch_keeps_the_schema() {
    let (validator, markups, out) =
        (published("pbt-result"), schema("tests/cli/slicer-markups.schema.json"), scratch());
    let model = tiny().model();
    let [m, i, o] =
        [model.as_path(), tiny().folder(), out.path()].map(|path| path.to_str().unwrap());
    pbt(["batch", "-q", "-m", m, "-i", i, "-o", o]).exits_with(0);
    for n in 0..9 {
        assert_valid(
            &validator,
            &read_json(&out.path().join(format!("c{n}.json"))),
            &format!("c{n}.json"),
        );
        assert_valid(
            &markups,
            &read_json(&out.path().join(format!("c{n}.mrk.json"))),
            &format!("c{n}.mrk.json"),
        );
    }
}

/// Slicer's own schema is in no package; where its file is at hand, in PBT_SLICER_SCHEMA, it is
/// applied, too. Slicer itself reads markups in `geometry.rs`.
#[test]
fn markups_keep_the_rules_of_slicer() {
    let (validator, out) = (schema("tests/cli/slicer-markups.schema.json"), scratch());
    let (_, good) = detected(out.path(), &tiny().folder().join("c7.nii.gz"));
    let path = out.path().join("points.mrk.json");
    let at = LandmarkState::At(pbt_volume::PointLps::new(1.0, 2.0, 3.0));
    let landmarks = [("a", at), ("b", LandmarkState::OutOfView)]
        .map(|(name, state)| Landmark { name: name.to_owned(), state });
    write_markups(&path, &[], &landmarks, |_| String::new()).unwrap();
    let points = read_json(&path);
    let changes = [
        ("/@schema", Value::Null),
        ("/markups/0/type", json!("Line")),
        ("/markups/0/coordinateSystem", json!("IJK")),
        ("/markups/0/coordinateUnits", json!("m")),
        ("/markups/0/center", json!([1, 2])),
        ("/markups/0/orientation", json!([1, 0, 0])),
        ("/markups/0/size/0", json!(0)),
        ("/markups/0/display/selectedColor", json!([1, 0])),
        ("/markups/0/display/color/0", json!(255)),
        ("/markups/0/controlPoints", json!([])),
    ];
    assert_refused(&validator, &good, &changes);
    let changes = [
        ("/markups/0/controlPoints/0/position", json!([1])),
        ("/markups/0/controlPoints/1/positionStatus", json!("gone")),
    ];
    assert_refused(&validator, &points, &changes);
    if let Some(official) = std::env::var_os("PBT_SLICER_SCHEMA").map(PathBuf::from) {
        let official = jsonschema::validator_for(&read_json(&official)).unwrap();
        assert_valid(&official, &good, "a box");
        // Slicer writes and reads `missing`, which its schema has not learnt yet.
        let mut defined = points.clone();
        defined["markups"][0]["controlPoints"].as_array_mut().unwrap().truncate(1);
        assert_valid(&official, &defined, "points");
        assert!(!official.is_valid(&json!({ "@schema": "x", "markups": [{ "type": "Nothing" }] })));
    }
}

/// What the schema refuses the program refuses or warns of, and what the schema takes it takes.
#[test]
fn data_sets_keep_the_schema() {
    let validator = published("pbt-dataset");
    let good = read_json(&tiny().folder().join("dataset.json"));
    let mut full = good.clone();
    full["$schema"] = json!("pbt-dataset-1.schema.json");
    full["labels"] = json!({ "1": "gland" });
    full["structures"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "tip", "kind": "landmark", "parent": "gland", "partner": null }));
    for (name, rule) in [
        ("middle", json!({ "rule": "centroid", "label": "gland" })),
        (
            "top",
            json!({ "rule": "tip", "labels": ["gland"], "direction": "superior", "share": 0.1 }),
        ),
        (
            "end",
            json!({ "rule": "tip", "label": "gland", "direction": { "from": "gland", "to": "duct" } }),
        ),
        ("neck", json!({ "rule": "interface", "between": ["gland", "duct"] })),
    ] {
        let landmark = json!({ "name": name, "kind": "landmark", "from_labels": rule });
        full["structures"].as_array_mut().unwrap().push(landmark);
    }
    full["labels"]["2"] = json!("duct");
    full["cases"][0]["labels"] = json!("c0.nii.gz");
    full["cases"][0]["frame"] = json!(0);
    full["cases"][0]["series"] = json!("4.1");
    full["cases"][0]["subject"] = json!("patient 7");
    full["cases"][1]["annotations"] = json!(["c1.mrk.json"]);
    let changes = [
        ("/schema", json!("pbt-dataset/2")),
        ("/name", Value::Null),
        ("/modality", json!("")),
        ("/structures", json!([])),
        ("/structures/0/kind", json!("cube")),
        ("/structures/2/from_labels/rule", json!("middle")),
        ("/structures/2/from_labels/label", json!(1)),
        ("/structures/2/from_labels/label", Value::Null),
        ("/structures/2/from_labels/share", json!(0.1)),
        ("/structures/3/from_labels/direction", json!("up")),
        ("/structures/3/from_labels/direction", Value::Null),
        ("/structures/3/from_labels/share", json!(0)),
        ("/structures/3/from_labels/label", json!("gland")),
        ("/structures/4/from_labels/direction/to", Value::Null),
        ("/structures/5/from_labels/between", json!(["gland"])),
        ("/structures/0/from_labels", json!({ "rule": "centroid", "label": "gland" })),
        ("/labels/1", json!(1)),
        ("/labels/-1", json!("x")),
        ("/cases", json!([])),
        ("/cases/0/id", json!("a/b")),
        ("/cases/0/id", json!("..")),
        ("/cases/0/image", Value::Null),
        ("/cases/0/split", json!(4)),
        ("/cases/0/frame", json!(-1)),
        ("/cases/0/subject", json!(7)),
        ("/cases/0/annotations", json!(["c0.mrk.json", 4])),
        ("/cases/0/anotations", json!("x")),
    ];
    assert_refused(&validator, &full, &changes);
    let folder = crate::support::tiny_copy();
    let path = folder.path().join("dataset.json");
    let read = |value: &Value| {
        std::fs::write(&path, value.to_string()).unwrap();
        pbt_io::Dataset::load_with_faults(&path)
            .map(|(set, faults)| set.warnings.len() + faults.len())
            .unwrap_or(1)
    };
    assert_eq!(read(&full), 0);
    for (at, to) in changes {
        let mut bad = full.clone();
        let (parent, key) = at.rsplit_once('/').unwrap();
        bad.pointer_mut(parent).unwrap()[key] = to.clone();
        assert!(read(&bad) > 0, "{at} = {to} is read without a word");
    }
}

#[test]
fn real_data_sets_keep_the_schema() {
    let validator = published("pbt-dataset");
    for (name, file) in [
        ("hippocampus", "dataset.json"),
        ("mouse_skull", "dataset.json"),
        ("lumbar_spine_mr", "dataset.json"),
        ("prostate_us_mr", "us.json"),
    ] {
        let Some(folder) = set(name) else { continue };
        assert_valid(&validator, &read_json(&folder.join(file)), name);
    }
}
