//! Folders in the layout of BIDS as data sets: images in `sub-*/…`, label maps `…_dseg.nii.gz` of a
//! derivative beside them (`derivatives/PIPELINE/sub-*/…`) or among them, names of their values in
//! `…_dseg.tsv`.
//! <https://bids-specification.readthedocs.io/en/stable/derivatives/imaging.html#segmentations>

use crate::dataset::{CaseSpec, Dataset, Modality};
use crate::json::{Node, parse};
use crate::region_labels::IGNORE;
use crate::{IoError, ReadOptions};
use pbt_volume::{Instances, StructureKind, StructureSpec};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

mod files;
mod tables;

use files::{Named, Roots, files};
use tables::{add_names, split_of, splits};

/// The file that makes a folder a BIDS data set.
pub(crate) const DESCRIPTION: &str = "dataset_description.json";

/// Whether a JSON file is the description of a BIDS data set.
pub(crate) fn is_bids(root: &Value) -> bool {
    root.get("schema").is_none() && root.get("BIDSVersion").is_some()
}

/// Whether there are label maps in the folder of a BIDS data set. What cannot be looked at counts
/// as yes, and is named when it is read.
pub(crate) fn has_label_maps(folder: &Path) -> bool {
    let maps = |root: &PathBuf| {
        files(root, &[".nii.gz", ".nii"])
            .map_or(true, |files| files.iter().any(|file| file.suffix == "dseg"))
    };
    Roots::of(folder).map_or(true, |roots| roots.label_maps.iter().any(maps))
}

/// The data set that a `dataset_description.json` describes: each image with a label map is a case.
/// The split is what a column `split` of `participants.tsv` says of the subject, or `train` where
/// there is none.
pub(crate) fn load(path: &Path, root: &Node) -> Result<Dataset, IoError> {
    let folder = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let name = match root.optional("Name")? {
        Some(name) => name.text()?.to_owned(),
        None => "BIDS".to_owned(),
    };
    let roots = Roots::of(folder)?;
    let mut images = Vec::new();
    for root in &roots.images {
        let others = ["dseg", "mask", "probseg"];
        images.extend(
            files(root, &[".nii.gz", ".nii"])?
                .into_iter()
                .filter(|file| !others.contains(&file.suffix.as_str())),
        );
    }
    let splits = splits(&roots.images[0])?;
    let (mut cases, mut warnings) = (BTreeMap::new(), Vec::new());
    let (mut label_names, mut modalities) = (BTreeMap::new(), BTreeSet::new());
    for root in &roots.label_maps {
        for map in
            files(root, &[".nii.gz", ".nii"])?.into_iter().filter(|file| file.suffix == "dseg")
        {
            let Some(image) = image_of(&map, &images)? else {
                warnings.push(format!(
                    "{}: label map: belongs to no image of the data set and is left out",
                    map.path.display()
                ));
                continue;
            };
            add_names(&mut label_names, &map, root)?;
            modalities.insert(modality(image));
            let markups = map.beside(".mrk.json");
            let case = CaseSpec {
                id: image.stem.clone(),
                image: image.path.clone(),
                options: ReadOptions::default(),
                split: split_of(image, &splits, &roots.images[0])?,
                subject: image.subject(),
                annotations: markups.is_file().then_some(markups).into_iter().collect(),
                labels: Some(map.path.clone()),
                not_drawn: Vec::new(),
            };
            if let Some(CaseSpec { labels: Some(other), .. }) =
                cases.insert(image.stem.clone(), case)
            {
                let problem =
                    format!("belongs to the image `{}`, as does {}", image.stem, other.display());
                return Err(IoError::input(
                    &map.path,
                    "label map",
                    problem,
                    "give the folder of one derivative, or keep one of the two",
                ));
            }
        }
    }
    let Some(modality) = modalities.pop_first() else {
        let problem =
            "is a BIDS data set without a label map …_dseg.nii.gz that belongs to an image";
        return Err(IoError::input(
            path,
            "derivatives",
            problem,
            "add label maps below derivatives/NAME/sub-…",
        ));
    };
    if let Some(other) = modalities.first() {
        let problem = format!("have images of {modality} and of {other}");
        return Err(IoError::input(
            path,
            "label maps",
            problem,
            "train on one modality: keep its label maps alone",
        ));
    }
    let names: BTreeSet<&String> = label_names.values().collect();
    let mut in_order: Vec<&String> = label_names.values().collect();
    in_order.retain({
        let mut left = names;
        move |name| *name != IGNORE && left.remove(name)
    });
    let structure = |name: &String| StructureSpec {
        name: name.clone(),
        kind: StructureKind::Box,
        parent: None,
        partner: None,
        instances: Instances::One,
    };
    let structures = in_order.into_iter().map(structure).collect();
    let modality = match modality.as_str() {
        "CT" => Modality::Ct,
        "MR" => Modality::Mr,
        "US" => Modality::Us,
        _ => Modality::Other(modality),
    };
    let cases = cases.into_values().collect();
    Ok(Dataset {
        name,
        modality,
        structures,
        label_names,
        every_label: None,
        landmark_rules: BTreeMap::new(),
        cases,
        path: path.to_path_buf(),
        warnings,
        known_shapes: BTreeMap::new(),
        label_boxes: OnceLock::new(),
    })
}

/// The image that a label map belongs to: the only one with its entities, or the one among them
/// that the label map's sidecar names as its source.
fn image_of<'a>(map: &Named, images: &'a [Named]) -> Result<Option<&'a Named>, IoError> {
    // A derivative may hold a copy of the image; the first of one name is that of the data set
    // itself.
    let mut names = BTreeSet::new();
    let matching: Vec<&Named> = images
        .iter()
        .filter(|image| image.key() == map.key() && names.insert(&image.stem))
        .collect();
    if matching.len() < 2 {
        return Ok(matching.first().copied());
    }
    let sidecar = map.beside(".json");
    let mut named = Vec::new();
    if sidecar.is_file() {
        let value = parse(&sidecar)?;
        let root = Node::root(&sidecar, &value);
        for key in ["Sources", "RawSources"] {
            let sources = match root.optional(key)? {
                Some(sources) if sources.raw().is_string() => vec![sources],
                Some(sources) => sources.items()?,
                None => Vec::new(),
            };
            for source in sources {
                let file = source.text()?.rsplit(['/', ':']).next().unwrap_or_default();
                named.extend(
                    matching
                        .iter()
                        .copied()
                        .filter(|image| image.path.file_name().is_some_and(|name| name == file)),
                );
            }
        }
    }
    match named[..] {
        [one] => Ok(Some(one)),
        _ => {
            let list: Vec<&str> = matching.iter().map(|image| image.stem.as_str()).collect();
            let problem = format!("may belong to {}", list.join(" or "));
            Err(IoError::input(
                &map.path,
                "label map",
                problem,
                "name the image in `Sources` of the label map's .json file",
            ))
        }
    }
}

/// What made an image, by the suffix and the folder that BIDS gives each kind.
fn modality(image: &Named) -> String {
    let folder = image
        .path
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    match (image.suffix.to_ascii_uppercase().as_str(), folder) {
        (suffix @ ("CT" | "US" | "PET"), _) => suffix.to_owned(),
        (_, "pet") => "PET".to_owned(),
        (_, "ct") => "CT".to_owned(),
        (_, "micr") => "microscopy".to_owned(),
        _ => "MR".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "index\tname\tabbreviation\n0\tbackground\tBG\n2\tliver\tL\n5\tspleen\tS\n";

    /// A data set with these files, by path and content.
    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, content) in
            [("dataset_description.json", r#"{"Name": "livers", "BIDSVersion": "1.10.0"}"#)]
                .iter()
                .chain(files)
        {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        folder
    }

    const FILES: [(&str, &str); 9] = [
        ("sub-02/ses-a/anat/sub-02_ses-a_T1w.nii.gz", ""),
        ("sub-01/anat/sub-01_T1w.nii", ""),
        ("sub-01/anat/sub-01_run-1_FLAIR.nii.gz", ""),
        ("sub-03/anat/sub-03_T1w.nii.gz", ""),
        ("derivatives/manual/sub-01/anat/sub-01_space-orig_seg-x_dseg.nii.gz", ""),
        ("derivatives/manual/sub-01/anat/sub-01_space-MNI_dseg.nii.gz", ""),
        ("derivatives/manual/sub-02/ses-a/sub-02_ses-a_desc-manual_dseg.nii.gz", ""),
        ("derivatives/manual/dseg.tsv", NAMES),
        // Copies of images, which are no other images.
        ("derivatives/manual/sub-01/anat/sub-01_T1w.nii", ""),
    ];

    fn ids(set: &Dataset) -> Vec<(&str, &str)> {
        set.cases.iter().map(|case| (case.id.as_str(), case.split.as_str())).collect()
    }

    #[test]
    fn images_with_label_maps_are_cases() {
        let folder = folder(&FILES);
        let set = Dataset::load(folder.path()).unwrap();
        assert_eq!((set.name.as_str(), &set.modality), ("livers", &Modality::Mr));
        assert_eq!(ids(&set), [("sub-01_T1w", "train"), ("sub-02_ses-a_T1w", "train")]);
        assert!(!set.cases[0].image.to_string_lossy().contains("derivatives"));
        assert!(
            set.cases[1].labels.as_ref().unwrap().ends_with("sub-02_ses-a_desc-manual_dseg.nii.gz")
        );
        assert_eq!(
            set.structures.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
            ["liver", "spleen"]
        );
        assert_eq!(set.label_names, BTreeMap::from([(2, "liver".into()), (5, "spleen".into())]));
        // The label map in another space belongs to no image here.
        assert!(
            set.warnings.len() == 1 && set.warnings[0].contains("space-MNI"),
            "{:?}",
            set.warnings
        );
        // The derivative alone, and the description itself, lead to the same cases.
        std::fs::write(
            folder.path().join("derivatives/manual/dataset_description.json"),
            r#"{"BIDSVersion": "1.10.0"}"#,
        )
        .unwrap();
        for path in ["derivatives/manual", "dataset_description.json"] {
            assert_eq!(
                ids(&Dataset::load(&folder.path().join(path)).unwrap()),
                ids(&set),
                "{path}"
            );
        }
    }

    #[test]
    fn tables_say_names_and_splits() {
        let mut files = FILES.to_vec();
        files.push((
            "participants.tsv",
            "participant_id\tage\tsplit\nsub-01\t40\ttest\nsub-02\t50\tdev\n",
        ));
        // Nearer and more special tables go first.
        files.push((
            "derivatives/manual/sub-01/anat/sub-01_space-orig_seg-x_dseg.tsv",
            "name\tindex\nkidney\t7\n",
        ));
        let set = Dataset::load(folder(&files).path()).unwrap();
        assert_eq!(ids(&set), [("sub-01_T1w", "test"), ("sub-02_ses-a_T1w", "dev")]);
        assert_eq!(
            set.label_names.into_values().collect::<Vec<_>>(),
            ["liver", "spleen", "kidney"]
        );
    }

    #[test]
    fn what_is_ignored_is_a_label_and_no_structure() {
        let mut files = FILES.to_vec();
        files[7].1 = "index\tname\n2\tliver\n9\tignore\n";
        let set = Dataset::load(folder(&files).path()).unwrap();
        assert!(matches!(&set.structures[..], [one] if one.name == "liver"));
        assert_eq!(set.label_names[&9], "ignore");
    }

    #[test]
    fn of_two_tables_none_is_chosen() {
        let mut files = FILES.to_vec();
        files.push(("derivatives/manual/sub-01/anat/seg-x_dseg.tsv", "index\tname\n2\tlung\n"));
        files.push(("derivatives/manual/sub-01/anat/space-orig_dseg.tsv", NAMES));
        let error = Dataset::load(folder(&files).path()).unwrap_err().to_string();
        let part = "space-orig_dseg.tsv: file: names the labels of sub-01_space-orig_seg-x_dseg, as does seg-x_dseg.tsv";
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn of_two_images_the_sidecar_names_one() {
        let mut files = FILES.to_vec();
        files.push(("sub-01/anat/sub-01_T2w.nii.gz", ""));
        let error = Dataset::load(folder(&files).path()).unwrap_err().to_string();
        assert!(error.contains("may belong to sub-01_T1w or sub-01_T2w"), "{error}");
        let sidecar = "derivatives/manual/sub-01/anat/sub-01_space-orig_seg-x_dseg.json";
        files.push((sidecar, r#"{"Sources": ["bids::sub-01/anat/sub-01_T2w.nii.gz"]}"#));
        assert_eq!(ids(&Dataset::load(folder(&files).path()).unwrap())[0].0, "sub-01_T2w");
    }

    #[test]
    fn mistakes_are_named() {
        let table = FILES.len() - 2;
        for (change, with, part) in [
            (Some(table), ("README", ""), "sub-01_space-orig_seg-x_dseg.tsv: file: is missing"),
            (
                Some(table),
                ("derivatives/manual/dseg.tsv", "index\nx"),
                "dseg.tsv: table: has no column `name`",
            ),
            (
                Some(table),
                ("derivatives/manual/dseg.tsv", "index\tname\n70000\tx"),
                "line 2: `70000` is no label value",
            ),
            (
                None,
                ("derivatives/manual/sub-02/dseg.tsv", "index\tname\n2\tlung"),
                "`lung` here and `liver` elsewhere",
            ),
            (
                None,
                ("derivatives/other/sub-02/ses-a/sub-02_ses-a_dseg.nii.gz", ""),
                "dseg.tsv: file: is missing",
            ),
            (
                None,
                ("derivatives/manual/sub-01/anat/sub-01_dseg.nii.gz", ""),
                "belongs to the image `sub-01_T1w`, as does",
            ),
            (
                None,
                ("participants.tsv", "participant_id\tsplit\nsub-01\ttest\n"),
                "split: has no split for `sub-02`",
            ),
        ] {
            let mut files = FILES.to_vec();
            match change {
                Some(n) => files[n] = with,
                None => files.push(with),
            }
            let error = Dataset::load(folder(&files).path()).unwrap_err();
            assert!(error.is_input() && error.to_string().contains(part), "{error}");
        }
        assert!(
            Dataset::is_in(folder(&FILES).path()) && !Dataset::is_in(folder(&FILES[..4]).path())
        );
        let error = Dataset::load(folder(&FILES[..4]).path()).unwrap_err().to_string();
        assert!(
            error.contains(
                "dataset_description.json: derivatives: is a BIDS data set without a label map"
            ),
            "{error}"
        );
    }
}
