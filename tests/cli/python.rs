//! The Python package: its tests, run by an interpreter in which the wheel is installed.

use crate::channels::two;
use crate::support::{program, tiny};
use std::path::Path;
use std::process::Command;

#[test]
fn python_package() {
    let Some(python) = std::env::var_os("PBT_PYTHON") else {
        assert!(
            !std::env::var("CI").is_ok_and(|v| v == "true"),
            "PBT_PYTHON is not set, and CI must not skip"
        );
        println!("skipped: PBT_PYTHON is not set");
        return;
    };
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/py");
    let tests = Command::new(python)
        .args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "--durations=5"])
        .current_dir(package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PBT_TINY", tiny().folder())
        .env("PBT_TWO_CHANNELS", two().folder())
        .env("PBT_PROGRAM", program("pbt"))
        .output()
        .expect("Python starts");
    let shown = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{shown}\n{}", String::from_utf8_lossy(&tests.stderr));
    assert!(!shown.contains("skipped"), "{shown}");
}
