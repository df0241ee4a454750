//! What the targets share.

use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A model file with the seal that its content asks for, as whoever means harm would make it: with
/// the old one nothing gets past the seal.
pub fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    const MARK: &[u8] = br#"\"seal\":\""#;
    const DIGITS: usize = 64;
    let start = bytes.windows(MARK.len()).position(|w| w == MARK)? + MARK.len();
    let mut sealed = bytes.to_vec();
    sealed.get_mut(start..start + DIGITS)?.fill(b'0');
    let digest: String = Sha256::digest(&sealed).iter().map(|b| format!("{b:02x}")).collect();
    sealed[start..start + DIGITS].copy_from_slice(digest.as_bytes());
    Some(sealed)
}

/// Writes the input to a file of this name, in a folder of this process: the readers take paths,
/// since pairs and series are several files.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("pbt-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the inputs");
        folder
    });
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().expect("it lies in the folder"))
        .expect("a folder for the input");
    std::fs::write(&path, bytes).expect("the input is written");
    path
}
