//! Finding the real volumes.

use std::path::PathBuf;

/// The folder of real volumes. Without `PBT_DATA` the test says so and is skipped; in CI (`CI=true`) that is a failure.
pub(crate) fn data() -> Option<PathBuf> {
    match std::env::var_os("PBT_DATA") {
        Some(folder) => Some(folder.into()),
        None if std::env::var("CI").is_ok_and(|v| v == "true") => panic!("PBT_DATA is not set, and CI must not skip"),
        None => {
            println!("skipped: PBT_DATA is not set");
            None
        }
    }
}
