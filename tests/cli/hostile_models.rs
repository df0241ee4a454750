//! Models that somebody changed and sealed again: refused with the part that is wrong, or harmless.

use crate::support::{pbt, read_json, refused, scratch, text, tiny};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// A copy of the tiny model with another card and a seal that fits.
fn write_changed(path: &Path, change: impl FnOnce(&mut Value)) {
    let bytes = std::fs::read(tiny().model()).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let mut card: Value =
        serde_json::from_str(header["__metadata__"]["pbt"].as_str().unwrap()).unwrap();
    change(&mut card);
    card["seal"] = "0".repeat(64).into();
    header["__metadata__"]["pbt"] = card.to_string().into();
    let mut header = header.to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend(&bytes[8 + length..]);
    let digest = Sha256::digest(&file).iter().map(|b| format!("{b:02x}")).collect::<String>();
    let mark = br#"\"seal\":\""#;
    let at = file.windows(mark.len()).position(|w| w == mark).unwrap() + mark.len();
    file[at..at + 64].copy_from_slice(digest.as_bytes());
    std::fs::write(path, file).unwrap();
}

/// Where a JSON pointer leads, which must be there.
#[track_caller]
fn at<'a>(card: &'a mut Value, pointer: &str) -> &'a mut Value {
    let shown = serde_json::to_string_pretty(card).unwrap();
    card.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is missing in {shown}"))
}

#[test]
fn a_card_that_is_only_written_anew_is_taken() {
    let folder = scratch();
    let model = folder.path().join("same.pbt");
    write_changed(&model, |_| ());
    let image = tiny().folder().join("c7.nii.gz");
    pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(&folder.path().join("out"))])
        .exits_with(0);
}

#[test]
fn shapes_that_no_label_map_has_are_refused_by_name() {
    let folder = scratch();
    let [model, report] = ["shape.pbt", "report.json"].map(|name| folder.path().join(name));
    let outcome = |key: &str, value: Value| {
        write_changed(&model, |card| {
            let unit = json!([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
            let [reach, shift] = [[1.0; 3], [0.0; 3]];
            let mut shape =
                json!({ "covariance": unit, "axes": unit, "reach": reach, "shift": shift });
            shape[key] = value;
            card["provenance"]["label_shapes"] = json!({ "gland": shape });
        });
        let data = tiny().folder();
        pbt(["evaluate", "-m", text(&model), "-i", text(data), "-o", text(&report)])
    };
    outcome("reach", json!([1.0, 1.0, 1.1])).exits_with(0);
    for (key, value) in [
        ("covariance", json!([[1e308, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
        ("axes", json!([[1.0, 0.0, 0.0], [0.0, 1e200, 0.0], [0.0, 0.0, 1.0]])),
        ("axes", json!([[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])),
        ("reach", json!([1.0, -1.0, 1.0])),
        ("shift", json!([1e300, 0.0, 0.0])),
    ] {
        refused(outcome(key, value), 5, &["label_shapes: gland", key]);
    }
}

#[test]
fn numbers_that_no_training_makes_are_refused_by_name() {
    let folder = scratch();
    let model = folder.path().join("hostile.pbt");
    let image = tiny().folder().join("c7.nii.gz");
    let structure = "/structures/0";
    let regressor = "/structures/0/refinement/regression/0";
    let changes: Vec<(String, Value, &str)> = vec![
        (format!("{structure}/working/spacing_mm"), json!(1e-9), "spacing_mm"),
        (format!("{structure}/working/levels"), json!(9), "levels"),
        (format!("{structure}/prior/mean_size_mm/0"), json!(1e308), "mean_size_mm"),
        (format!("{structure}/prior/scale_mm"), json!(2600.0), "scale_mm"),
        (format!("{structure}/prior/spread_rad"), json!(-1.0), "spread_rad"),
        (format!("{structure}/prior/center_offset_mm/1"), json!(1e300), "center_offset_mm"),
        (format!("{structure}/position/spec/keep"), json!(1_000_000), "keep"),
        (format!("{structure}/position/spec/radius"), json!(1000), "radius"),
        (format!("{structure}/orientation/spec/keep"), json!(u32::MAX), "keep"),
        (format!("{structure}/orientation/spec/modes"), json!(0), "modes"),
        (format!("{structure}/orientation/spec/apart_mm"), json!(-5.0), "apart_mm"),
        (format!("{regressor}/reach/log_size"), json!(-0.1), "log_size"),
        (format!("{regressor}/reach/angle_rad"), json!(1e9), "angle_rad"),
        (format!("{regressor}/reach/center_mm"), json!(1e9), "center_mm"),
        (format!("{regressor}/scale_mm"), json!(1e9), "scale_mm"),
        (format!("{regressor}/repeats"), json!(1_000_000), "repeats"),
        (format!("{structure}/verification/spec/same/log_size"), json!(-1.0), "log_size"),
        (format!("{structure}/verification/spec/doubtful_below"), json!(-1.0), "doubtful_below"),
        (format!("{structure}/verification/spec/calibration/intercept"), json!(1e6), "intercept"),
        (format!("{structure}/verification/spec/calibration/slope"), json!(1e300), "slope"),
        ("/certainty/0/intercept".into(), json!(1e300), "intercept"),
        ("/certainty/0/weights/0".into(), json!(1e300), "weights"),
        ("/certainty/0/held_out/subjects".into(), json!(1_000_000_000_u64), "subjects"),
        ("/provenance/cases".into(), json!(u64::MAX), "cases"),
        ("/provenance/config/position/keep".into(), json!(1_000_000), "position.keep"),
    ];
    for (pointer, value, named) in changes {
        write_changed(&model, |card| *at(card, &pointer) = value);
        let out = folder.path().join("out");
        let outcome = pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(&out)]);
        let outcome = outcome.exits_with(5);
        let line = outcome.error_line();
        assert!(line.contains(named) && line.contains("hostile.pbt"), "{pointer}: {line}");
        assert!(!out.exists(), "{pointer}");
        let validated = pbt(["validate", text(&model)]).exits_with(5);
        assert!(validated.stdout.contains(named), "{pointer}: {}", validated.stdout);
    }
}

#[test]
fn what_leads_out_of_the_image_is_never_found() {
    let folder = scratch();
    let model = folder.path().join("far.pbt");
    // Steps are given in units of this; each now leads metres away.
    write_changed(&model, |card| {
        let regressors = at(card, "/structures/0/refinement/regression").as_array_mut().unwrap();
        for regressor in regressors {
            regressor["scale_mm"] = json!(90_000.0);
            regressor["reach"]["center_mm"] = json!(90_000.0);
        }
        *at(card, "/structures/0/verification/spec/doubtful_below") = json!(0.0);
        *at(card, "/structures/0/verification/spec/absent_below") = json!(0.0);
    });
    let (image, out) = (tiny().folder().join("c7.nii.gz"), folder.path().join("out"));
    pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(&out)]).exits_with(0);
    let result = read_json(&out.join("c7.json"));
    assert_ne!(result["detections"][0]["status"], "found", "{result}");
}

#[test]
fn a_batch_goes_on_where_a_detection_fails() {
    let folder = scratch();
    let model = folder.path().join("flat.pbt");
    // Sizes are multiplied until no box is left.
    write_changed(&model, |card| {
        let regressors = at(card, "/structures/0/refinement/regression").as_array_mut().unwrap();
        for regressor in regressors {
            regressor["reach"]["log_size"] = json!(10.0);
            regressor["repeats"] = json!(100);
        }
    });
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    for case in ["c6", "c7"] {
        let name = format!("{case}.nii.gz");
        std::fs::copy(tiny().folder().join(&name), images.join(&name)).unwrap();
    }
    let out = folder.path().join("out");
    let outcome = pbt(["batch", "-m", text(&model), "-i", text(&images), "-o", text(&out)]);
    assert!([0, 3].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
    let run = read_json(&out.join("run.json"));
    assert_eq!(run["cases"].as_u64().or(run["counts"]["cases"].as_u64()), Some(2), "{run}");
}
