//! The real volumes that tests read, in the folder of the variable PBT_DATA (`data/README.md`).

use std::path::PathBuf;

/// Folder of a set, its volumes and its size in MB: what a test leaves out where it is not there.
const SETS: [(&str, usize, usize); 7] = [
    ("dicom_conformance", 22, 23),
    ("head_neck_ct", 54, 22),
    ("hippocampus", 243, 20),
    ("lumbar_spine_mr", 44, 27),
    ("mouse_skull", 42, 37),
    ("odd_files", 83, 4),
    ("prostate_us_mr", 20, 3),
];

/// The folder of a set. Without it the test says what it leaves out and is skipped; with CI=true
/// that is a failure.
pub(crate) fn set(name: &str) -> Option<PathBuf> {
    let (_, volumes, megabytes) =
        SETS.iter().find(|(known, ..)| *known == name).unwrap_or_else(|| panic!("no set {name}"));
    let reason = match std::env::var_os("PBT_DATA").filter(|value| !value.is_empty()) {
        None => "PBT_DATA is not set".to_owned(),
        Some(data) => {
            let folder = PathBuf::from(data).join(name);
            if folder.is_dir() {
                return Some(folder);
            }
            format!("{} is no folder", folder.display())
        }
    };
    let skipped = format!("{name} ({volumes} volumes, {megabytes} MB): {reason}");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must not skip {skipped}");
    println!("skipped: {skipped}");
    None
}
