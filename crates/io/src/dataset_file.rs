//! Reads data sets: `dataset.json`, schema `pbt-dataset/1`, and the folders of nnU-Net and BIDS.

use crate::dataset::{Dataset, Modality, SCHEMA};
use crate::dataset_cases::{Around, cases, kept, optional_text};
use crate::from_folder::holds_no_image;
use crate::json::{Node, parse};
use crate::landmark_rules_file::add_rules;
use crate::{IoError, bids, is_dicom_path, is_image_path, names, nnunet};
use pbt_volume::{
    Instances, MOST_CHANNELS, MOST_STRUCTURES, StructureKind, StructureSpec, did_you_mean,
    is_box_of_landmarks,
};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Keys of the file and of a structure.
const KEYS: &[&str] =
    &["$schema", "schema", "name", "modality", "channels", "structures", "labels", "cases"];
/// Keys whose lists no other file has.
const OWN_KEYS: [&str; 2] = ["structures", "cases"];
const STRUCTURE_KEYS: &[&str] = &["name", "kind", "parent", "partner", "instances", "from_labels"];

impl Dataset {
    /// Reads a data set from a folder with `dataset.json`, or from such a file under any name. The
    /// paths in it are relative to the file. An nnU-Net folder is one, too, and a folder in the
    /// layout of BIDS with label maps.
    ///
    /// # Errors
    /// [`IoError`] naming file and field (`cases[3].image`): unknown schema or kind, missing field,
    /// a name twice, a parent or partner that is no structure, a file that does not exist.
    pub fn load(path: &Path) -> Result<Self, IoError> {
        let (dataset, faults) = Self::load_with_faults(path)?;
        faults.into_iter().next().map_or(Ok(dataset), Err)
    }

    /// As [`Dataset::load`], but goes on after a fault: the data set without what is wrong, and all
    /// that is wrong, in the file's order.
    ///
    /// # Errors
    /// [`IoError`] when the file cannot be read at all or is no data set.
    pub fn load_with_faults(path: &Path) -> Result<(Self, Vec<IoError>), IoError> {
        let path = match Self::file_in(path) {
            Some(file) => file,
            None if path.is_dir() => {
                return Err(no_dataset_in(path));
            }
            None if path.is_file() && (is_image_path(path) || is_dicom_path(path)) => {
                return Err(IoError::input(
                    path,
                    "file",
                    "is an image, not a data set",
                    "give the data set's folder or its dataset.json",
                ));
            }
            None => path.to_path_buf(),
        };
        let value = parse(&path)?;
        let root = Node::root(&path, &value);
        let is_ours = OWN_KEYS.iter().any(|key| value.get(key).is_some_and(Value::is_array));
        let lies_there = value.get("schema").is_none() && nnunet::lies_in_nnunet(&path);
        if (nnunet::is_nnunet(&value) || lies_there) && !is_ours {
            return Ok((nnunet::load(&path, &root)?, Vec::new()));
        }
        if bids::is_bids(&value) {
            return Ok((bids::load(&path, &root)?, Vec::new()));
        }
        let (mut warnings, mut faults) = (Vec::new(), Vec::new());
        match check_schema(&root, is_ours) {
            // Some other file.
            Err(fault) if !is_ours => return Err(fault),
            checked => kept(checked, &mut faults),
        };
        root.warn_unknown(KEYS, &mut warnings)?;
        let text = |key| root.get_among(key, KEYS).and_then(|value| value.text());
        let name = kept(text("name"), &mut faults).unwrap_or_default().to_owned();
        let modality = kept(text("modality"), &mut faults).unwrap_or_default();
        let list = kept(root.get_among("structures", KEYS), &mut faults);
        let structures = list
            .and_then(|list| {
                let read = structures(&list, &mut warnings, &mut faults);
                kept(read, &mut faults)
            })
            .unwrap_or_default();
        let faults_of_structures = faults.len();
        let read_names = match root.optional("labels")? {
            Some(labels) => kept(label_names(&labels, &structures), &mut faults),
            None => Some(Default::default()),
        };
        let names_are_sound = read_names.is_some();
        let (label_names, every_label) = read_names.unwrap_or_default();
        let modality = match modality.to_ascii_uppercase().as_str() {
            "CT" => Modality::Ct,
            "MR" => Modality::Mr,
            "US" => Modality::Us,
            _ => Modality::Other(modality.to_owned()),
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let channels = kept(channels(&root), &mut faults).unwrap_or_default();
        let list = kept(root.get_among("cases", KEYS), &mut faults);
        let cases = list
            .and_then(|list| {
                let around =
                    Around { folder: &folder, structures: &structures, channels: &channels };
                let read = cases(&list, &around, &mut warnings, &mut faults);
                kept(read, &mut faults)
            })
            .unwrap_or_default();
        let mut dataset = Self {
            label_names,
            every_label,
            ..Self::new(name, modality, structures, cases, path.clone())
        };
        // Rules name labels, and so are read when these are known. Of labels that are not, every
        // rule would be wrong.
        if let (Some(list), true) = (root.optional("structures")?, names_are_sound) {
            let of_rules = add_rules(&list, &mut dataset, &mut warnings);
            faults.splice(faults_of_structures..faults_of_structures, of_rules);
        }
        dataset.warnings = warnings;
        Ok((dataset, faults))
    }

    /// Whether a folder is a data set: it has `dataset.json`, or it is one of BIDS with label maps.
    pub fn is_in(folder: &Path) -> bool {
        Self::file_in(folder)
            .is_some_and(|file| !file.ends_with(bids::DESCRIPTION) || bids::has_label_maps(folder))
    }

    fn file_in(folder: &Path) -> Option<PathBuf> {
        ["dataset.json", bids::DESCRIPTION]
            .map(|name| folder.join(name))
            .into_iter()
            .find(|file| file.is_file())
    }
}

/// A folder without `dataset.json`: `pbt init` makes one, where there is something to make it of.
fn no_dataset_in(folder: &Path) -> IoError {
    if holds_no_image(folder) {
        let problem = "holds neither dataset.json nor images";
        return IoError::input(folder, "folder", problem, "give the folder of a data set");
    }
    let advice = format!(
        "`pbt init {}` makes one of images with label maps or annotations",
        folder.display()
    );
    IoError::input(folder, "folder", "holds no dataset.json", advice)
}

/// Whether the schema is ours; of a file that `is_ours` by its other keys the error says what to write.
fn check_schema(root: &Node, is_ours: bool) -> Result<(), IoError> {
    const OTHER_FILE: &str = "give the folder of a data set or its dataset.json";
    let Some(schema) = root.optional("schema")? else {
        let advice = format!("write `\"schema\": \"{SCHEMA}\"`");
        let advice = if is_ours { advice } else { OTHER_FILE.to_owned() };
        return Err(root.child_error("schema", "is missing", advice));
    };
    let name = schema.text()?;
    if name == SCHEMA {
        return Ok(());
    }
    let is_data_set = is_ours || name.starts_with("pbt-dataset/");
    let advice = if is_data_set { "use a pbt that knows this schema" } else { OTHER_FILE };
    Err(schema.error(format!("is `{name}`, not `{SCHEMA}`"), advice))
}

fn structures(
    list: &Node,
    warnings: &mut Vec<String>,
    faults: &mut Vec<IoError>,
) -> Result<Vec<StructureSpec>, IoError> {
    let (mut structures, mut nodes): (Vec<StructureSpec>, Vec<Node>) = (Vec::new(), Vec::new());
    for node in list.items()? {
        if structures.len() >= MOST_STRUCTURES {
            let problem = format!("has more than {MOST_STRUCTURES} structures");
            return Err(list.error(problem, "leave out what is not searched"));
        }
        let Some(spec) = kept(structure(&node, &structures, warnings), faults) else { continue };
        structures.push(spec);
        nodes.push(node);
    }
    if list.items()?.is_empty() {
        return Err(list.error("is empty", "list what is annotated"));
    }
    let places = structures.iter().enumerate().map(|(n, spec)| (spec.name.as_str(), n)).collect();
    for (node, spec) in nodes.iter().zip(&structures) {
        kept(check_relations(node, spec, &structures, &places), faults);
    }
    Ok(structures)
}

fn structure(
    node: &Node,
    before: &[StructureSpec],
    warnings: &mut Vec<String>,
) -> Result<StructureSpec, IoError> {
    node.warn_unknown(STRUCTURE_KEYS, warnings)?;
    let name = node.get_among("name", STRUCTURE_KEYS)?;
    let kind = node.get_among("kind", STRUCTURE_KEYS)?;
    let spec = StructureSpec {
        name: name.text()?.to_owned(),
        kind: match kind.text()? {
            "box" => StructureKind::Box,
            "landmark" => StructureKind::Landmark,
            "region" => StructureKind::Region,
            other => {
                let meant = did_you_mean(other, ["box", "landmark", "region"]);
                let problem = format!("is `{other}`{meant}");
                return Err(kind.error(problem, "write `box`, `landmark` or `region`"));
            }
        },
        parent: optional_text(node, "parent")?,
        partner: optional_text(node, "partner")?,
        instances: instances(node)?,
    };
    names::check(&name, &spec.name, before.len())?;
    if is_box_of_landmarks(&spec.name) {
        return Err(name.error("is a name that pbt needs itself", "give it another name"));
    }
    if spec.instances == Instances::Many && spec.kind != StructureKind::Box {
        return Err(node.child_error(
            "instances",
            format!("is `many` for a {}", spec.kind),
            "only boxes can occur several times; leave it out here",
        ));
    }
    if let Some(n) = before.iter().position(|s| s.name == spec.name) {
        return Err(name.error(
            format!("`{}` is the name of structures[{n}], too", spec.name),
            "give each structure its own name",
        ));
    }
    Ok(spec)
}

fn instances(node: &Node) -> Result<Instances, IoError> {
    let Some(value) = node.optional("instances")? else { return Ok(Instances::One) };
    match value.text()? {
        "one" => Ok(Instances::One),
        "many" => Ok(Instances::Many),
        other => Err(value.error(format!("is `{other}`"), "write `one` or `many`")),
    }
}

/// Parents and partners must be structures, and parents must not go in a circle.
fn check_relations(
    node: &Node,
    spec: &StructureSpec,
    structures: &[StructureSpec],
    places: &HashMap<&str, usize>,
) -> Result<(), IoError> {
    for (key, other) in [("parent", &spec.parent), ("partner", &spec.partner)] {
        let Some(other) = other else { continue };
        if *other == spec.name || !places.contains_key(other.as_str()) {
            let names = structures.iter().map(|s| s.name.as_str()).filter(|n| *n != spec.name);
            let meant = did_you_mean(other, names);
            return Err(node.child_error(
                key,
                format!("`{other}` is no other structure of the data set{meant}"),
                "name one of the structures",
            ));
        }
    }
    // Following parents longer than there are structures means going in a circle.
    let parent_of = |spec: &&StructureSpec| {
        spec.parent.as_ref().and_then(|name| places.get(name.as_str())).map(|&n| &structures[n])
    };
    if std::iter::successors(Some(spec), parent_of).take(structures.len() + 1).count()
        > structures.len()
    {
        return Err(node.child_error(
            "parent",
            "goes in a circle",
            "leave one structure of the circle without a parent",
        ));
    }
    Ok(())
}

/// Names of single values, and the name of all others.
type LabelNames = (BTreeMap<u16, String>, Option<String>);

fn label_names(labels: &Node, structures: &[StructureSpec]) -> Result<LabelNames, IoError> {
    let (mut names, mut every) = (BTreeMap::new(), None);
    for (key, node) in labels.entries()? {
        if key == "*" {
            let name = node.text()?;
            let takes_all = |s: &&StructureSpec| {
                s.kind == StructureKind::Region || s.instances == Instances::Many
            };
            if !structures.iter().filter(takes_all).any(|s| s.name == name) {
                return Err(node.error(
                    format!("`{name}` is no region, and no box that occurs several times"),
                    "name single values for other structures, or give it `\"instances\": \"many\"`",
                ));
            }
            every = Some(name.to_owned());
            continue;
        }
        let value: u16 = key
            .parse()
            .map_err(|_| node.error("is no label value", "use integers from 0 to 65535 as keys"))?;
        // `1`, `01` and `+1` are one value.
        if let Some(other) = names.insert(value, node.text()?.to_owned()) {
            let problem = format!("the value {value} is `{other}`, too");
            return Err(node.error(problem, "give each value one name"));
        }
    }
    Ok((names, every))
}

/// Names of the channels of every image; none where there is only one.
fn channels(root: &Node) -> Result<Vec<String>, IoError> {
    let Some(list) = root.optional("channels")? else { return Ok(Vec::new()) };
    let mut names: Vec<String> = Vec::new();
    for node in list.items()? {
        let name = node.text()?;
        names::check(&node, name, 0)?;
        if name.is_empty() || names.iter().any(|other| other == name) {
            return Err(node.error(
                format!("`{name}` is no name of its own"),
                "give each channel a name that no other has",
            ));
        }
        names.push(name.to_owned());
    }
    if names.len() > MOST_CHANNELS {
        let problem =
            format!("has {} names; an image has at most {MOST_CHANNELS} channels", names.len());
        return Err(list.error(problem, "leave some out"));
    }
    Ok(if names.len() > 1 { names } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LandmarkState;

    fn load(text: &str) -> Result<Dataset, IoError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        std::fs::write(folder.path().join("dataset.json"), text).unwrap();
        Dataset::load(folder.path())
    }

    const GOOD: &str = r#"{"schema": "pbt-dataset/1", "name": "set", "modality": "PET",
        "structures": [{"name": "skull", "kind": "box"}, {"name": "nose", "kind": "landmark", "parent": "skull"}],
        "labels": {"3": "skull"},
        "cases": [{"id": "a", "image": "a.nii", "split": "train"}, {"id": "b", "image": "a.nii", "split": "test"}]}"#;

    #[test]
    fn reads_what_is_there() {
        let set = load(GOOD).unwrap();
        assert!(set.warnings.is_empty());
        assert_eq!(set.modality.to_string(), "PET");
        assert_eq!(load(&GOOD.replace("PET", "ct")).unwrap().modality, Modality::Ct);
        assert_eq!(set.label_names[&3], "skull");
        assert_eq!(set.structures[1].parent.as_deref(), Some("skull"));
        assert_eq!(set.split("test").map(|c| c.id.as_str()).collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, field) in [
            ("dataset/1", "dataset/9", "schema"),
            ("\"name\": \"set\",", "", "name"),
            ("\"box\"", "\"cube\"", "structures[0].kind"),
            ("\"nose\"", "\"skull\"", "structures[1].name"),
            ("\"parent\": \"skull\"", "\"parent\": \"scull\"", "structures[1].parent"),
            (
                "\"kind\": \"box\"",
                "\"kind\": \"box\", \"parent\": \"nose\"",
                "structures[0].parent",
            ),
            ("\"3\"", "\"-3\"", "labels.-3"),
            ("\"3\"", "\"03\": \"nose\", \"3\"", "labels.3"),
            ("\"id\": \"b\"", "\"id\": \"a\"", "cases[1].id"),
            ("\"id\": \"b\"", "\"id\": \"../b\"", "cases[1].id"),
            ("\"id\": \"b\", ", "", "cases[1].id"),
            ("a.nii\", \"split\": \"test\"", "b.nii\", \"split\": \"test\"", "cases[1].image"),
            ("\"split\": \"test\"", "\"split\": 4", "cases[1].split"),
            ("\"split\": \"test\"", "\"split\": \"test\", \"frame\": -1", "cases[1].frame"),
            (
                "\"split\": \"test\"",
                "\"split\": \"test\", \"labels\": \"x.nii\"",
                "cases[1].labels",
            ),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = load(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(error.is_input() && error.to_string().contains("dataset.json: "), "{error}");
            assert_eq!(error.field(), field, "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let fault = || Dataset::load(folder.path()).unwrap_err().to_string();
        assert!(fault().contains("folder: holds neither dataset.json nor images (give"));
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        let what =
            format!("folder: holds no dataset.json (`pbt init {}` makes", folder.path().display());
        assert!(fault().contains(&what), "{}", fault());
    }

    #[test]
    fn all_mistakes_are_found_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        let text = GOOD
            .replacen("\"box\"", "\"cube\"", 1)
            .replacen("\"id\": \"a\"", "\"id\": \"a/b\"", 1)
            .replacen("\"test\"", "4", 1);
        std::fs::write(folder.path().join("dataset.json"), text).unwrap();
        let (set, faults) = Dataset::load_with_faults(folder.path()).unwrap();
        let fields: Vec<&str> = faults.iter().map(IoError::field).collect();
        // The landmark's parent is gone with the box that could not be read.
        assert_eq!(
            fields,
            ["structures[0].kind", "structures[1].parent", "cases[0].id", "cases[1].split"]
        );
        assert!(set.cases.is_empty() && set.structures.len() == 1);
    }

    #[test]
    fn a_missing_point_puts_its_box_out_of_view() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        let text = GOOD.replacen(
            "\"split\": \"train\"",
            "\"split\": \"train\", \"annotations\": \"a.mrk.json\"",
            1,
        );
        std::fs::write(folder.path().join("dataset.json"), text).unwrap();
        let annotated = |status: &str| {
            let points = format!(
                r#"[{{"label": "skull", "position": [1, 2, 3], "positionStatus": "{status}"}}]"#
            );
            let markups = format!(
                r#"{{"markups": [{{"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": {points}}}]}}"#
            );
            std::fs::write(folder.path().join("a.mrk.json"), markups).unwrap();
            let set = Dataset::load(folder.path()).unwrap();
            set.load_annotations(&set.cases[0])
        };
        let out = annotated("missing").unwrap();
        assert!(
            out.pose("skull").is_none() && out.landmark("skull") == Some(LandmarkState::OutOfView)
        );
        assert!(
            annotated("defined")
                .unwrap_err()
                .to_string()
                .contains("skull: is a point here and a box in the data set")
        );
    }

    /// As Slicer saves them: a file for each markup, with no names inside.
    #[test]
    fn boxes_without_names_are_named_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        let roi = r#"{"markups": [{"type": "ROI", "coordinateSystem": "LPS", "center": [1, 2, 3], "size": [4, 5, 6]}]}"#;
        for file in ["p01.mrk.json", "skull.mrk.json", "Jaw.MRK.JSON"] {
            std::fs::write(folder.path().join(file), roi).unwrap();
        }
        let read = |structures: &str, annotations: &str| {
            let text = GOOD.replacen("\"name\": \"skull\", \"kind\": \"box\"", structures, 1);
            let text = text.replacen(
                "\"split\": \"train\"",
                &format!("\"split\": \"train\", \"annotations\": {annotations}"),
                1,
            );
            std::fs::write(folder.path().join("dataset.json"), text).unwrap();
            let set = Dataset::load(folder.path())?;
            set.load_annotations(&set.cases[0])
                .map(|found| found.boxes.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let (one, two) = (
            r#""name": "skull", "kind": "box""#,
            r#""name": "skull", "kind": "box"}, {"name": "Jaw", "kind": "box""#,
        );
        assert_eq!(read(one, r#""p01.mrk.json""#).unwrap(), ["skull"]);
        assert_eq!(read(two, r#"["skull.mrk.json", "Jaw.MRK.JSON"]"#).unwrap(), ["skull", "Jaw"]);
        // Which of the two it is, nobody says.
        assert!(read(two, r#""p01.mrk.json""#).unwrap().is_empty());
        let error = read(one, r#"["skull.mrk.json", "p01.mrk.json"]"#).unwrap_err().to_string();
        assert!(error.contains("p01.mrk.json: skull: is in another file"), "{error}");
        assert_eq!(
            read(one, r#"["skull.mrk.json", "no.mrk.json"]"#).unwrap_err().field(),
            "cases[0].annotations[1]"
        );
        assert_eq!(read(one, "[4]").unwrap_err().field(), "cases[0].annotations[0]");
    }

    #[test]
    fn a_subject_may_have_several_cases() {
        let named = |first: &str, second: &str| {
            let text = GOOD.replacen("\"id\": \"a\"", &format!("\"id\": \"a\", {first}"), 1);
            load(&text.replacen("\"id\": \"b\"", &format!("\"id\": \"b\", {second}"), 1))
        };
        let same = |first: &str, second: &str| {
            let set = named(first, second).unwrap();
            assert!(set.warnings.is_empty());
            set.cases[0].has_subject_of(&set.cases[1])
        };
        assert!(same(r#""subject": "x""#, r#""subject": "x""#));
        assert!(!same(r#""subject": "x""#, r#""subject": "y""#));
        // Neither of them names one, and the name of a case is no subject.
        assert!(!same(r#""subject": """#, r#""subject": null"#));
        assert!(!same(r#""frame": 0"#, r#""subject": "a""#));
        let wrong = named(r#""subject": 7"#, r#""frame": 0"#).unwrap_err();
        assert_eq!(wrong.field(), "cases[0].subject");
    }

    #[test]
    fn unknown_keys_are_warnings() {
        let set = load(&GOOD.replacen(
            "\"split\": \"test\"",
            "\"split\": \"test\", \"anotations\": \"x\"",
            1,
        ))
        .unwrap();
        assert_eq!(set.warnings.len(), 1);
        assert!(set.warnings[0].contains("cases[1].anotations"), "{:?}", set.warnings);
        assert!(set.warnings[0].ends_with("; did you mean `annotations`?"), "{:?}", set.warnings);
    }

    #[test]
    fn a_missing_or_foreign_schema_says_what_to_do() {
        // Without its schema it is no file of nnU-Net, although the labels would fit.
        let labelled = GOOD.replacen("\"schema\": \"pbt-dataset/1\", ", "", 1);
        assert!(labelled.len() < GOOD.len() && labelled.contains("\"labels\""));
        for (text, told) in [
            (&*labelled, "schema: is missing (write `\"schema\": \"pbt-dataset/1\"`)"),
            (&GOOD.replacen("dataset/1", "dataset/2", 1), "(use a pbt that knows this schema)"),
            (
                r#"{"schema": "pbt-evaluation/1"}"#,
                "is `pbt-evaluation/1`, not `pbt-dataset/1` (give the folder of a data set or its dataset.json)",
            ),
            // `MODEL.train.json` counts its cases.
            (r#"{"schema": "pbt-training/1", "cases": 10}"#, "(give the folder of a data set or"),
            (r#"{"name": "x"}"#, "is missing (give the folder of a data set or its dataset.json)"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let text = [
            ("\"modality\"", "\"modalty\""),
            ("dataset/1", "dataset/7"),
            ("\"kind\": \"landmark\"", "\"kind\": \"landmrk\""),
            (
                "\"image\": \"a.nii\", \"split\": \"test\"",
                "\"imgae\": \"a.nii\", \"split\": \"test\"",
            ),
        ]
        .iter()
        .fold(GOOD.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.nii"), "").unwrap();
        std::fs::write(folder.path().join("dataset.json"), &text).unwrap();
        let (set, faults) = Dataset::load_with_faults(folder.path()).unwrap();
        let fields: Vec<&str> = faults.iter().map(IoError::field).collect();
        assert_eq!(fields, ["schema", "modality", "structures[1].kind", "cases[1].image"]);
        let told =
            |n: usize, part: &str| assert!(faults[n].to_string().contains(part), "{}", faults[n]);
        told(1, "is missing (`modalty` is there; write `modality`)");
        told(2, "is `landmrk`; did you mean `landmark`?");
        told(3, "`imgae` is there");
        // What is right is there.
        assert_eq!((set.name.as_str(), set.structures.len(), set.cases.len()), ("set", 1, 1));
        // Other files are none.
        std::fs::write(folder.path().join("dataset.json"), r#"{"name": "x"}"#).unwrap();
        assert_eq!(Dataset::load_with_faults(folder.path()).unwrap_err().field(), "schema");
        let headless = r#"{"schema": "pbt-dataset/1", "caess": []}"#;
        std::fs::write(folder.path().join("dataset.json"), headless).unwrap();
        let (_, faults) = Dataset::load_with_faults(folder.path()).unwrap();
        let fields: Vec<&str> = faults.iter().map(IoError::field).collect();
        assert_eq!(fields, ["name", "modality", "structures", "cases"]);
    }
}
