//! Finding the real volumes and the oracles.

use std::path::PathBuf;

/// The folder of real volumes. Without `PBT_DATA` the test says so and is skipped; in CI
/// (`CI=true`) that is a failure.
#[allow(dead_code, reason = "not every test reads real volumes")]
pub(crate) fn data() -> Option<PathBuf> {
    match std::env::var_os("PBT_DATA") {
        Some(folder) => Some(folder.into()),
        None if std::env::var("CI").is_ok_and(|v| v == "true") => {
            panic!("PBT_DATA is not set, and CI must not skip")
        }
        None => {
            println!("skipped: PBT_DATA is not set");
            None
        }
    }
}

/// The interpreter of the oracles. Without `PBT_ORACLE_PYTHON` the test says so and is skipped; in
/// CI that is a failure.
#[allow(dead_code, reason = "not every test has an oracle")]
pub(crate) fn python() -> Option<String> {
    let python = std::env::var("PBT_ORACLE_PYTHON").ok();
    if python.is_none() {
        assert!(
            !std::env::var("CI").is_ok_and(|v| v == "true"),
            "PBT_ORACLE_PYTHON is not set, and CI must not skip"
        );
        println!("skipped: PBT_ORACLE_PYTHON is not set");
    }
    python
}
