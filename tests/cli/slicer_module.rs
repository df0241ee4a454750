//! The module for 3D Slicer: its tests, with Slicer's own libraries.

use crate::support::{program, tiny};
use std::path::Path;
use std::process::Command;

/// What the script says when the package slicer-core is not installed.
const NOT_INSTALLED: i32 = 77;

#[test]
fn slicer_module() {
    let in_ci = std::env::var("CI").is_ok_and(|v| v == "true");
    let Some(python) = std::env::var_os("PBT_ORACLE_PYTHON") else {
        assert!(!in_ci, "PBT_ORACLE_PYTHON is not set, and CI must not skip");
        println!("skipped: PBT_ORACLE_PYTHON is not set");
        return;
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations/slicer/tests");
    let tests = Command::new(python)
        .arg("test_pbt_detect.py")
        .current_dir(folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PBT_TINY", tiny().folder())
        .env("PBT_PROGRAM", program("pbt"))
        .output()
        .expect("Python starts");
    if tests.status.code() == Some(NOT_INSTALLED) {
        assert!(!in_ci, "slicer-core is not installed, and CI must not skip");
        println!("skipped: slicer-core is not installed");
        return;
    }
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&tests.stderr));
}
