//! 3D Slicer's own libraries, by `tests/oracles/slicer_oracle.py`.

use nalgebra::{Matrix3, Vector3};
use pbt_volume::PointLps;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What the script says when the package is not installed.
const NOT_INSTALLED: i32 = 77;

/// Slicer's answers to a request, one for each file that it read. `None` where the package is not
/// there, which CI does not allow.
pub(crate) fn ask(python: &str, folder: &Path, request: &Value) -> Option<Vec<Value>> {
    std::fs::write(folder.join("request.json"), request.to_string()).unwrap();
    let places = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|root| root.join("tests/oracles/slicer_oracle.py"));
    let script = places.into_iter().find(|path| path.exists()).expect("the script is there");
    let status =
        Command::new(python).arg(script).arg(folder).status().expect("PBT_ORACLE_PYTHON starts");
    if status.code() == Some(NOT_INSTALLED) {
        assert!(
            !std::env::var("CI").is_ok_and(|v| v == "true"),
            "slicer-core is not installed, and CI must not skip"
        );
        println!("skipped: slicer-core is not installed");
        return None;
    }
    assert!(status.success(), "the oracle failed");
    Some(serde_json::from_slice(&std::fs::read(folder.join("answer.json")).unwrap()).unwrap())
}

/// A point that Slicer gives in RAS.
pub(crate) fn point(ras: &Value) -> PointLps {
    let [x, y, z] =
        [0, 1, 2].map(|n| ras[n].as_f64().unwrap_or_else(|| panic!("{ras} is no point")));
    PointLps::new(-x, -y, z)
}

/// Centre and axes of a box, of which Slicer gives the matrix from its own space to RAS.
pub(crate) fn frame(to_ras: &Value) -> (PointLps, Matrix3<f64>) {
    let number = |r: usize, c: usize| {
        to_ras[r][c].as_f64().unwrap_or_else(|| panic!("{to_ras} is no matrix"))
    };
    let axes = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0)) * Matrix3::from_fn(number);
    (PointLps::new(-number(0, 3), -number(1, 3), number(2, 3)), axes)
}
