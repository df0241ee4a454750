//! What the targets share.

use std::path::PathBuf;
use std::sync::OnceLock;

/// Writes the input to a file of this name, in a folder of this process: the readers take paths, since pairs and series are several files.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("pbt-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the inputs");
        folder
    });
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("it lies in the folder")).expect("a folder for the input");
    std::fs::write(&path, bytes).expect("the input is written");
    path
}
