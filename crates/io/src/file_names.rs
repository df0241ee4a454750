//! What the names of image files say, and the first bytes where the name says nothing.

use crate::dicom;
use crate::regular_file::read_start;
use std::path::Path;

/// File name extensions of images, longest first where one ends another.
pub(crate) const EXTENSIONS: [&str; 13] = [
    "nii.gz", "nii", "hdr.gz", "hdr", "mha", "mhd", "nrrd", "nhdr", "png", "jpg", "jpeg", "tif",
    "tiff",
];

/// Those of 2D images in pixels.
const PHOTOS: [&str; 5] = ["png", "jpg", "jpeg", "tif", "tiff"];

/// Whether the file's name is that of a 2D image in pixels.
pub(crate) fn is_photo_path(path: &Path) -> bool {
    extension(path, &PHOTOS).is_some()
}

/// What [`case_name`] takes off a file name.
const CASE_EXTENSIONS: [&str; 12] =
    ["nii", "gz", "mha", "mhd", "nrrd", "nhdr", "zip", "png", "jpg", "jpeg", "tif", "tiff"];

/// Whether a file is DICOM, or a zip archive of such files, by its first bytes or its name; for
/// files without an extension that says more.
pub fn is_dicom_path(path: &Path) -> bool {
    let named = extension(path, &["dcm", "ima", "zip"]).is_some();
    read_start(path, 132).is_some_and(|start| named || dicom::is_dicom(&start))
}

/// Whether the file's name is that of an image (an `.img` file is only a part of one).
pub fn is_image_path(path: &Path) -> bool {
    extension(path, &EXTENSIONS).is_some()
}

/// The name of a case: the file's name without `.nii`, `.gz`, `.mha`, `.mhd`, `.nrrd`, `.nhdr`,
/// `.zip`, `.png`, `.jpg`, `.jpeg`, `.tif`, `.tiff`.
pub fn case_name(path: &Path) -> String {
    // A path such as `.` has a name only once it is resolved.
    let resolved = if path.file_name().is_none() { path.canonicalize().ok() } else { None };
    let name =
        resolved.as_deref().unwrap_or(path).file_name().unwrap_or_default().to_string_lossy();
    let mut stem: &str = &name;
    while let Some(extension) = CASE_EXTENSIONS.iter().find(|e| ends_with_extension(stem, e)) {
        stem = &stem[..stem.len() - extension.len() - 1];
    }
    // It becomes the name of files and is printed.
    stem.replace(char::is_control, "_")
}

pub(crate) fn extension<'a>(path: &Path, known: &[&'a str]) -> Option<&'a str> {
    let name = path.file_name()?.to_string_lossy();
    known.iter().find(|e| ends_with_extension(&name, e)).copied()
}

/// Whether `name` is something, a dot and the extension, in any case.
pub(crate) fn ends_with_extension(name: &str, extension: &str) -> bool {
    let Some(at) = name.len().checked_sub(extension.len() + 1).filter(|&at| at > 0) else {
        return false;
    };
    name.is_char_boundary(at)
        && name.as_bytes()[at] == b'.'
        && name[at + 1..].eq_ignore_ascii_case(extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cases() {
        for (file, case) in [
            ("a/b/head.nii.gz", "head"),
            ("head.NII.GZ", "head"),
            ("head.t1.nrrd", "head.t1"),
            ("x.mha", "x"),
            ("x.mhd", "x"),
            ("x.nhdr", "x"),
            ("series.zip", "series"),
            ("wing.JPG", "wing"),
            ("head", "head"),
            (".nii", ".nii"),
            ("é.nii", "é"),
        ] {
            assert_eq!(case_name(Path::new(file)), case);
        }
    }

    #[test]
    fn images_by_name() {
        for name in ["a.nii", "a.nii.gz", "a.hdr", "a.MHA", "a.nrrd"] {
            assert!(is_image_path(Path::new(name)), "{name}");
        }
        for name in ["a.img", "a.json", "a.gz", "nii", "a.mrk.json", ""] {
            assert!(!is_image_path(Path::new(name)), "{name}");
        }
    }
}
