//! nnU-Net folders as data sets: `dataset.json` with `channel_names` (version 2) or `modality`
//! (version 1), `imagesTr` with `labelsTr`, `imagesTs` with or without `labelsTs`. Each label is a
//! structure whose box follows from its voxels; a `CASE.mrk.json` beside a label map goes before
//! it. <https://github.com/MIC-DKFZ/nnUNet/blob/master/documentation/dataset_format.md>

use crate::dataset::{CaseSpec, Dataset, Modality};
use crate::file_names::is_photo_path;
use crate::json::Node;
use crate::region_labels::IGNORE;
use crate::{IoError, ReadOptions, names};
use pbt_volume::{Instances, MOST_CHANNELS, StructureKind, StructureSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether a `dataset.json` is nnU-Net's.
pub(crate) fn is_nnunet(root: &Value) -> bool {
    root.get("schema").is_none()
        && root.get("labels").is_some()
        && (root.get("channel_names").is_some() || root.get("modality").is_some())
}

/// Whether a `dataset.json` lies where nnU-Net's does, whatever it holds.
pub(crate) fn lies_in_nnunet(path: &Path) -> bool {
    path.with_file_name("imagesTr").is_dir() && path.with_file_name("labelsTr").is_dir()
}

/// Keys of version 2, which are no slips.
const KEYS: [&str; 4] = ["channel_names", "labels", "numTraining", "file_ending"];

/// The data set of a folder. Cases are sorted by name; those of `imagesTr` have the split `train`,
/// those of `imagesTs` `test`.
pub(crate) fn load(path: &Path, root: &Node) -> Result<Dataset, IoError> {
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let channels = match root.optional("channel_names")? {
        Some(channels) => channels,
        None => match root.optional("modality")? {
            Some(channels) => channels,
            None => root.get_among("channel_names", &KEYS)?,
        },
    };
    let mut channel_names = channels.entries()?;
    // Numbers, which are keys in the order of their digits.
    channel_names.sort_by_key(|(key, _)| key.parse::<usize>().unwrap_or(usize::MAX));
    let names = channel_names.iter().map(|(_, name)| name.text().map(str::to_owned));
    let mut names = names.collect::<Result<Vec<String>, IoError>>()?;
    let Some(channel) = names.first().cloned() else {
        return Err(channels.error("is empty", "name the channels"));
    };
    for n in 0..names.len() {
        names::check(&channels, &names[n], n)?;
        // "noNorm" and the like may be given to several.
        if names[..n].contains(&names[n]) {
            names[n] = format!("{} _{n:04}", names[n]);
        }
    }
    let mut warnings = Vec::new();
    if names.len() > MOST_CHANNELS {
        warnings.push(format!(
            "{}: channel_names: there are {}, more than {MOST_CHANNELS}; the first one, _0000, is used",
            path.display(),
            names.len()
        ));
        names.truncate(1);
    }
    if names.len() == 1 {
        names.clear();
    }
    let label_names = labels(&root.get_among("labels", &KEYS)?)?;
    let mut structures: Vec<StructureSpec> = Vec::new();
    for name in label_names.values().filter(|name| *name != IGNORE) {
        if let Some((problem, remedy)) = names::fault(name, structures.len()) {
            return Err(IoError::input(path, "labels", problem, remedy));
        }
        if !structures.iter().any(|s| s.name == *name) {
            structures.push(StructureSpec {
                name: name.clone(),
                kind: StructureKind::Box,
                parent: None,
                partner: None,
                instances: Instances::One,
            });
        }
    }
    let ending = match root.optional("file_ending")? {
        Some(ending) => ending.text()?.to_owned(),
        None => ".nii.gz".to_owned(),
    };
    let mut cases = cases(&folder, ("Tr", "train"), &ending, &names)?;
    cases.extend(self::cases(&folder, ("Ts", "test"), &ending, &names)?);
    if cases.is_empty() {
        let problem = format!("imagesTr holds no file CASE_0000{ending}");
        return Err(IoError::input(
            path,
            "file_ending",
            problem,
            "check the folder and the ending",
        ));
    }
    let name = match root.optional("name")? {
        Some(name) => name.text()?.to_owned(),
        None => folder
            .file_name()
            .map_or_else(|| "nnU-Net".to_owned(), |name| name.to_string_lossy().into_owned()),
    };
    let modality = modality(&channel);
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

fn modality(channel: &str) -> Modality {
    let upper = channel.to_ascii_uppercase();
    match upper.as_str() {
        "CT" => Modality::Ct,
        "US" | "ULTRASOUND" => Modality::Us,
        _ if ["MR", "T1", "T2", "FLAIR", "ADC"].iter().any(|word| upper.contains(word)) => {
            Modality::Mr
        }
        _ => Modality::Other(channel.to_owned()),
    }
}

/// Label values and names without the background, but with what is to be ignored: `{"liver": 1}` in version 2, `{"1": "liver"}` in
/// version 1.
fn labels(node: &Node) -> Result<BTreeMap<u16, String>, IoError> {
    let mut names = BTreeMap::new();
    for (key, value) in node.entries()? {
        let version_1 = key.parse::<u16>().ok().zip(value.raw().as_str().map(str::to_owned));
        let version_2 = value
            .raw()
            .as_u64()
            .and_then(|n| u16::try_from(n).ok())
            .map(|number| (number, key.to_owned()));
        let (number, name) = version_1.or(version_2).ok_or_else(|| {
            value.error(
                "is not one label value from 0 to 65535",
                "regions of several labels are not supported; list plain labels",
            )
        })?;
        if number == 0 {
            continue;
        }
        if let Some(other) = names.insert(number, name) {
            return Err(value.error(
                format!("the value {number} is `{other}`, too"),
                "give each label its own value",
            ));
        }
    }
    if names.values().all(|name| name == IGNORE) {
        return Err(node.error("holds only the background", "list what is labelled"));
    }
    Ok(names)
}

fn cases(
    folder: &Path,
    (part, split): (&str, &str),
    ending: &str,
    channels: &[String],
) -> Result<Vec<CaseSpec>, IoError> {
    let images = folder.join(format!("images{part}"));
    let labels = folder.join(format!("labels{part}"));
    if !images.is_dir() {
        return Ok(Vec::new());
    }
    let entries =
        std::fs::read_dir(&images).map_err(|error| IoError::unreadable(&images, &error))?;
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let existing = |path: PathBuf| path.is_file().then_some(path);
    let case = |(name, id): (&String, &str)| {
        let channel = |n: usize| images.join(format!("{id}_{n:04}{ending}"));
        let mut further: Vec<PathBuf> = (1..channels.len()).map(channel).collect();
        // Colours are the channels of one file.
        if is_photo_path(&images.join(name)) && !further.iter().any(|file| file.is_file()) {
            further.clear();
        }
        if let Some((file, name)) =
            further.iter().zip(channels.iter().skip(1)).find(|(f, _)| !f.is_file())
        {
            let field = format!("channel `{name}`");
            let advice = "give each case a file of every channel in channel_names";
            return Err(IoError::input(file, field, "does not exist", advice));
        }
        Ok(CaseSpec {
            id: id.to_owned(),
            image: images.join(name),
            options: ReadOptions { channels: channels.to_vec(), further, ..ReadOptions::default() },
            split: split.to_owned(),
            subject: None,
            not_drawn: Vec::new(),
            annotations: existing(labels.join(format!("{id}.mrk.json"))).into_iter().collect(),
            labels: existing(labels.join(format!("{id}{ending}"))),
        })
    };
    let first =
        |name: &'_ String| Some(name.strip_suffix(ending)?.strip_suffix("_0000")?.to_owned());
    names.iter().filter_map(|name| Some(case((name, &first(name)?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION_2: &str = r#"{"channel_names": {"0": "CT"}, "labels": {"background": 0, "liver": 1, "spleen": 2}, "numTraining": 2, "file_ending": ".nii.gz"}"#;

    fn folder(json: &str, files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        std::fs::write(folder.path().join("dataset.json"), json).unwrap();
        folder
    }

    const FILES: [&str; 8] = [
        "imagesTr/b_0000.nii.gz",
        "imagesTr/b_0001.nii.gz",
        "imagesTr/a_1_0000.nii.gz",
        "imagesTr/a_1_0001.nii.gz",
        "labelsTr/a_1.nii.gz",
        "labelsTr/b.mrk.json",
        "imagesTs/c_0000.nii.gz",
        "imagesTs/c_0001.nii.gz",
    ];

    #[test]
    fn both_versions_are_data_sets() {
        let version_1 = r#"{"name": "old", "modality": {"0": "MRI", "1": "T2"}, "labels": {"0": "background", "1": "liver", "2": "spleen"}}"#;
        let two: &[&str] = &["MRI", "T2"];
        for (json, name, modality, channels) in
            [(VERSION_2, None, Modality::Ct, &[][..]), (version_1, Some("old"), Modality::Mr, two)]
        {
            let folder = folder(json, &FILES);
            let set = Dataset::load(folder.path()).unwrap();
            assert!(
                name.is_none_or(|name| set.name == name)
                    && set.modality == modality
                    && set.warnings.is_empty()
                    && set.channels() == channels
            );
            let second = folder.path().join("imagesTs/c_0001.nii.gz");
            let further = if channels.is_empty() { Vec::new() } else { vec![second] };
            assert_eq!(set.cases[2].options.further, further);
            assert_eq!(
                set.structures.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
                ["liver", "spleen"]
            );
            assert_eq!(set.label_names[&2], "spleen");
            let ids: Vec<_> = set.cases.iter().map(|c| (c.id.as_str(), c.split.as_str())).collect();
            assert_eq!(ids, [("a_1", "train"), ("b", "train"), ("c", "test")]);
            assert!(
                set.cases[0].labels.is_some()
                    && set.cases[1].labels.is_none()
                    && set.cases[1].annotations.len() == 1
            );
        }
    }

    #[test]
    fn what_is_ignored_is_a_label_and_no_structure() {
        let json = VERSION_2.replace("\"spleen\": 2", "\"ignore\": 2");
        let set = Dataset::load(folder(&json, &FILES).path()).unwrap();
        assert_eq!(set.label_names[&2], "ignore");
        assert!(matches!(&set.structures[..], [one] if one.name == "liver"));
        let json = json.replace("\"liver\": 1, ", "");
        assert_eq!(Dataset::load(folder(&json, &FILES).path()).unwrap_err().field(), "labels");
    }

    #[test]
    fn channels_are_told_by_number_and_must_be_there() {
        let named = |names: &str, files: &[&str]| {
            let folder = folder(&VERSION_2.replace(r#"{"0": "CT"}"#, names), files);
            Dataset::load(folder.path())
        };
        let set = named(r#"{"1": "noNorm", "0": "noNorm"}"#, &FILES).unwrap();
        assert_eq!(set.channels(), ["noNorm", "noNorm _0001"]);
        let missing = named(r#"{"0": "T1", "1": "T2"}"#, &FILES[..7]).unwrap_err();
        assert_eq!(missing.field(), "channel `T2`");
        assert!(missing.path().ends_with("imagesTs/c_0001.nii.gz"), "{missing}");
        let many = r#"{"0": "a", "1": "b", "2": "c", "3": "d", "4": "e"}"#;
        let set = named(many, &FILES).unwrap();
        assert!(set.channels().is_empty() && set.warnings.len() == 1, "{:?}", set.warnings);
    }

    #[test]
    fn colours_of_one_file_are_channels() {
        let json = VERSION_2
            .replace(r#"{"0": "CT"}"#, r#"{"0": "R", "1": "G", "2": "B"}"#)
            .replace(".nii.gz", ".png");
        let set = Dataset::load(folder(&json, &["imagesTr/a_0000.png"]).path()).unwrap();
        assert_eq!(set.channels(), ["R", "G", "B"]);
        assert!(set.cases[0].options.further.is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, field) in [
            ("\"liver\": 1", "\"liver\": [1, 2]", "labels.liver"),
            ("\"liver\": 1", "\"liver\": 2", "labels.spleen"),
            ("\"liver\": 1, \"spleen\": 2", "\"x\": 0", "labels"),
            (".nii.gz", ".nrrd", "file_ending"),
            ("{\"0\": \"CT\"}", "{}", "channel_names"),
        ] {
            assert!(VERSION_2.contains(from));
            let folder = folder(&VERSION_2.replace(from, to), &FILES);
            assert_eq!(Dataset::load(folder.path()).unwrap_err().field(), field, "{to}");
        }
        // Keys that are not nnU-Net's, in a folder that is.
        for (key, slip, told) in [
            ("labels", "label", "labels: is missing (`label` is there; write `labels`)"),
            ("channel_names", "channels", "channel_names: is missing"),
        ] {
            let folder =
                folder(&VERSION_2.replace(&format!("\"{key}\""), &format!("\"{slip}\"")), &FILES);
            let error = Dataset::load(folder.path()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
