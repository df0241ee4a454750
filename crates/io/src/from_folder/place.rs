//! What names of files and folders say: to which scan a file belongs, and what it is to it.

use std::path::Path;

/// Words for images.
const IMAGES: [&str; 8] = ["image", "images", "img", "imgs", "scan", "scans", "volume", "volumes"];

/// Names of files that stand for the only image of their folder.
const ONLY_IMAGES: [&str; 12] =
    ["ct", "cta", "mr", "mri", "t1", "t1w", "t2", "t2w", "flair", "us", "pet", "dicom"];

/// Words for masks and label maps.
const LABELS: [&str; 12] = [
    "label",
    "labels",
    "labelmap",
    "mask",
    "masks",
    "seg",
    "segs",
    "dseg",
    "segmentation",
    "segmentations",
    "gt",
    "groundtruth",
];

/// Words for files of boxes and points.
const ANNOTATIONS: [&str; 12] = [
    "annotation",
    "annotations",
    "markup",
    "markups",
    "landmark",
    "landmarks",
    "fiducials",
    "points",
    "box",
    "boxes",
    "roi",
    "rois",
];

/// What separates words of a name.
const SEPARATORS: [char; 4] = ['_', '-', '.', ' '];

/// What a file is to a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Image,
    Labels,
    Annotations,
}

/// Where a file belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The folders that it lies in, from the top, without those that only name a role.
    pub(super) folders: Vec<String>,
    /// The file's name without extensions and without words that only name a role.
    pub(super) key: String,
    /// By its folders and its name; none where these say nothing.
    pub(super) role: Option<Role>,
    /// What its folders say of the split.
    pub(super) split: Option<&'static str>,
}

impl Place {
    /// Of a file by its path in the folder that is looked at and its name without extensions.
    pub(super) fn new(relative: &Path, stem: &str) -> Self {
        let mut place = Self { folders: Vec::new(), key: String::new(), role: None, split: None };
        let folders = relative.parent().unwrap_or(Path::new(""));
        for folder in folders.iter().map(|name| name.to_string_lossy()) {
            place.enter(&folder);
        }
        let (key, role) = strip(stem);
        place.role = role.or(place.role);
        if !ONLY_IMAGES.contains(&key.to_ascii_lowercase().as_str()) {
            place.key = key.to_owned();
        }
        place
    }

    fn enter(&mut self, folder: &str) {
        let lower = folder.to_ascii_lowercase();
        // nnU-Net's folders.
        if let Some((word, end)) = lower.split_at_checked(lower.len().saturating_sub(2))
            && let (Some(role), Some(split)) = (role_of(word), nnunet_split(end))
        {
            (self.role, self.split) = (Some(role), Some(split));
            self.folders.push(end.to_owned());
            return;
        }
        self.split = split_of(&lower).or(self.split);
        let (rest, role) = strip(folder);
        self.role = role.or(self.role);
        if !rest.is_empty() {
            self.folders.push(rest.to_owned());
        }
    }
}

fn nnunet_split(end: &str) -> Option<&'static str> {
    match end {
        "tr" => Some("train"),
        "ts" => Some("test"),
        _ => None,
    }
}

/// The split that a folder's name stands for.
pub(super) fn split_of(word: &str) -> Option<&'static str> {
    match word {
        "train" | "training" => Some("train"),
        "test" | "testing" => Some("test"),
        "dev" | "val" | "valid" | "validation" => Some("dev"),
        _ => None,
    }
}

fn role_of(word: &str) -> Option<Role> {
    let word = word.to_ascii_lowercase();
    let is_in = |words: &[&str]| words.contains(&word.as_str());
    if is_in(&LABELS) {
        Some(Role::Labels)
    } else if is_in(&ANNOTATIONS) {
        Some(Role::Annotations)
    } else {
        is_in(&IMAGES).then_some(Role::Image)
    }
}

/// A name without a word at one of its ends that says a role.
fn strip(name: &str) -> (&str, Option<Role>) {
    if let Some(role) = role_of(name) {
        return ("", Some(role));
    }
    if let Some(at) = name.rfind(SEPARATORS)
        && let Some(role) = role_of(&name[at + 1..])
    {
        return (name[..at].trim_end_matches(SEPARATORS), Some(role));
    }
    if let Some(at) = name.find(SEPARATORS)
        && let Some(role) = role_of(&name[..at])
    {
        return (name[at + 1..].trim_start_matches(SEPARATORS), Some(role));
    }
    (name, None)
}

/// What remains of a key behind another one and a separator.
pub(super) fn behind<'a>(key: &'a str, start: &str) -> Option<&'a str> {
    let rest = key.strip_prefix(start).filter(|_| !start.is_empty())?;
    let rest = rest.strip_prefix(SEPARATORS)?.trim_start_matches(SEPARATORS);
    (!rest.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_scan_and_role() {
        let labels = Some(Role::Labels);
        for (path, stem, folders, key, role, split) in [
            ("a.nii.gz", "a", &[] as &[&str], "a", None, None),
            ("a_seg.nii.gz", "a_seg", &[], "a", labels, None),
            ("a.seg.nrrd", "a.seg", &[], "a", labels, None),
            ("mask-a.nii", "mask-a", &[], "a", labels, None),
            ("a_liver_mask.nii", "a_liver_mask", &[], "a_liver", labels, None),
            ("imagesTr/a_0000.nii", "a_0000", &["tr"], "a_0000", Some(Role::Image), Some("train")),
            ("labelsTs/a.nii", "a", &["ts"], "a", labels, Some("test")),
            ("us_labels/a.nii", "a", &["us"], "a", labels, None),
            ("s1/segmentations/liver.nii.gz", "liver", &["s1"], "liver", labels, None),
            ("s1/ct.nii.gz", "ct", &["s1"], "", None, None),
            ("val/s1/image.nii", "image", &["val", "s1"], "", Some(Role::Image), Some("dev")),
            ("annotations/7.csv", "7", &[], "7", Some(Role::Annotations), None),
            ("p/left kidney.mrk.json", "left kidney", &["p"], "left kidney", None, None),
        ] {
            let folders = folders.iter().map(|f| (*f).to_owned()).collect();
            let expected = Place { folders, key: key.to_owned(), role, split };
            assert_eq!(Place::new(Path::new(path), stem), expected, "{path}");
        }
        assert_eq!(behind("p1_liver", "p1"), Some("liver"));
        assert_eq!(behind("p10", "p1"), None);
        assert_eq!(behind("p1", "p1"), None);
    }
}
