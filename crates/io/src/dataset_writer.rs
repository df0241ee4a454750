//! Writes `dataset.json`.

use crate::dataset::{CaseSpec, Dataset, SCHEMA};
use crate::{IoError, LandmarkRule, write_atomically};
use pbt_volume::{Instances, StructureKind};
use serde::{Serialize, Serializer};
use std::io::Write;
use std::path::{Component, Path, PathBuf};

#[derive(Serialize)]
struct File<'a> {
    schema: &'static str,
    name: &'a str,
    modality: String,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    channels: &'a [String],
    structures: Vec<Structure<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<Labels<'a>>,
    cases: Vec<Case<'a>>,
}

/// Names of label values, in the order of numbers.
struct Labels<'a>(&'a Dataset);

impl Serialize for Labels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = self.0.label_names.iter().map(|(value, name)| (value.to_string(), name));
        let every = self.0.every_label.iter().map(|name| ("*".to_owned(), name));
        serializer.collect_map(named.chain(every))
    }
}

#[derive(Serialize)]
struct Structure<'a> {
    name: &'a str,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instances: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_labels: Option<&'a LandmarkRule>,
}

#[derive(Serialize)]
struct Case<'a> {
    id: &'a str,
    image: Files,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frame: Option<usize>,
    split: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Files>,
    #[serde(skip_serializing_if = "Option::is_none")]
    labels: Option<String>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    not_drawn: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum Files {
    One(String),
    Several(Vec<String>),
}

impl Files {
    fn of(mut paths: Vec<String>) -> Self {
        match paths.len() {
            1 => Self::One(paths.remove(0)),
            _ => Self::Several(paths),
        }
    }
}

impl Dataset {
    /// Writes the data set to [`Dataset::path`], paths relative to that file.
    ///
    /// # Errors
    /// [`IoError`] (an output error) when a path is not UTF-8 or the file cannot be written; an older
    /// one is then untouched.
    pub fn write(&self) -> Result<(), IoError> {
        let folder = from_root(&self.path)?;
        let folder = folder.parent().unwrap_or(Path::new(""));
        let structures = self.structures.iter().map(|s| Structure {
            name: &s.name,
            kind: match s.kind {
                StructureKind::Box => "box",
                StructureKind::Landmark => "landmark",
                StructureKind::Region => "region",
            },
            parent: s.parent.as_deref(),
            partner: s.partner.as_deref(),
            instances: (s.instances == Instances::Many).then_some("many"),
            from_labels: self.landmark_rules.get(&s.name),
        });
        let has_labels = !self.label_names.is_empty() || self.every_label.is_some();
        let file = File {
            schema: SCHEMA,
            name: &self.name,
            modality: self.modality.to_string(),
            channels: self.channels(),
            structures: structures.collect(),
            labels: has_labels.then_some(Labels(self)),
            cases: self
                .cases
                .iter()
                .map(|case| self.case(case, folder))
                .collect::<Result<_, IoError>>()?,
        };
        write_atomically(&self.path, |writer| {
            serde_json::to_writer_pretty(&mut *writer, &file)?;
            writer.write_all(b"\n")
        })
    }

    fn case<'a>(&self, case: &'a CaseSpec, folder: &Path) -> Result<Case<'a>, IoError> {
        let relative = |path: &PathBuf| {
            let text = relative_to(&from_root(path)?, folder);
            let text = text.to_str().map(|text| text.replace(std::path::MAIN_SEPARATOR, "/"));
            text.ok_or_else(|| {
                let problem = format!("the path {} is not UTF-8", path.display());
                IoError::unwritable(&self.path, "cases", problem, "rename the file")
            })
        };
        let relatives = |paths: Vec<&PathBuf>| {
            paths.into_iter().map(relative).collect::<Result<Vec<String>, IoError>>()
        };
        let images =
            relatives(std::iter::once(&case.image).chain(&case.options.further).collect())?;
        let annotations = relatives(case.annotations.iter().collect())?;
        Ok(Case {
            id: &case.id,
            image: Files::of(images),
            series: case.options.series.as_deref(),
            frame: case.options.frame,
            split: &case.split,
            subject: case.subject.as_deref(),
            annotations: (!annotations.is_empty()).then(|| Files::of(annotations)),
            labels: case.labels.as_ref().map(relative).transpose()?,
            not_drawn: &case.not_drawn,
        })
    }
}

/// A path from the root. Links among its folders are resolved, and the file itself may be one.
fn from_root(path: &Path) -> Result<PathBuf, IoError> {
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| IoError::output(path, &error))?;
    Ok(folder.join(path.file_name().unwrap_or_default()))
}

/// The way from a folder to a path, both from the root.
fn relative_to(path: &Path, folder: &Path) -> PathBuf {
    let (mut to, mut from) = (path.components().peekable(), folder.components().peekable());
    if to.peek() != from.peek() {
        // Another drive.
        return path.to_path_buf();
    }
    while to.peek().is_some() && to.peek() == from.peek() {
        to.next();
        from.next();
    }
    let up = from.map(|_| Component::ParentDir);
    up.chain(to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Modality;
    use crate::{Direction, ReadOptions, Side};
    use pbt_volume::StructureSpec;
    use std::collections::BTreeMap;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["set/x", "images"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            path.canonicalize().unwrap()
        };
        let structure = |name: &str, kind, parent: Option<&str>| StructureSpec {
            name: name.to_owned(),
            kind,
            parent: parent.map(str::to_owned),
            partner: None,
            instances: if name == "skull" { Instances::Many } else { Instances::One },
        };
        let structures = vec![
            structure("skull", StructureKind::Box, None),
            structure("nose", StructureKind::Landmark, Some("skull")),
            structure("middle", StructureKind::Landmark, None),
            structure("chin", StructureKind::Landmark, None),
            structure("seam", StructureKind::Landmark, None),
        ];
        let skull = || "skull".to_owned();
        let tip = |direction| LandmarkRule::Tip { labels: vec![skull()], direction, share: 0.1 };
        let rules = BTreeMap::from([
            ("middle", LandmarkRule::Centroid { labels: vec![skull(), "jaw".to_owned()] }),
            ("nose", tip(Direction::Patient(Side::Anterior))),
            ("chin", tip(Direction::Labels { from: skull(), to: "jaw".to_owned() })),
            ("seam", LandmarkRule::Interface { between: [skull(), "jaw".to_owned()] }),
        ]);
        let cases = vec![CaseSpec {
            id: "a".to_owned(),
            image: file("images/a.nii"),
            options: ReadOptions {
                series: Some("3".to_owned()),
                frame: Some(1),
                ..ReadOptions::default()
            },
            split: "dev".to_owned(),
            subject: Some("p".to_owned()),
            annotations: vec![file("set/a.mrk.json"), file("set/x/b.mrk.json")],
            labels: Some(file("images/a_seg.nii")),
            not_drawn: Vec::new(),
        }];
        let two = CaseSpec {
            options: ReadOptions {
                channels: vec!["T1".to_owned(), "T2".to_owned()],
                further: vec![file("images/b.nii")],
                ..ReadOptions::default()
            },
            ..cases[0].clone()
        };
        let path = folder.path().canonicalize().unwrap().join("set/two.json");
        let set = Dataset::new("set".to_owned(), Modality::Mr, structures.clone(), vec![two], path);
        set.write().unwrap();
        let again = Dataset::load(&set.path).unwrap();
        assert_eq!(again.channels(), ["T1", "T2"]);
        let further = &again.cases[0].options.further;
        assert_eq!(further[0].canonicalize().unwrap(), set.cases[0].options.further[0]);

        let path = folder.path().canonicalize().unwrap().join("set/dataset.json");
        let mut set = Dataset::new("set".to_owned(), Modality::Us, structures, cases, path.clone());
        set.label_names.extend([(3, skull()), (4, "jaw".to_owned())]);
        set.landmark_rules =
            rules.into_iter().map(|(name, rule)| (name.to_owned(), rule)).collect();
        set.write().unwrap();
        let again = Dataset::load(&path).unwrap();
        let canonical = |set: &Dataset| {
            let mut cases = set.cases.clone();
            for case in &mut cases {
                let files = case.annotations.iter_mut().chain(&mut case.labels);
                files.for_each(|path| *path = path.canonicalize().unwrap());
                case.image = case.image.canonicalize().unwrap();
            }
            cases
        };
        assert_eq!(canonical(&again), canonical(&set));
        assert_eq!((&again.structures, &again.label_names), (&set.structures, &set.label_names));
        assert_eq!(again.landmark_rules, set.landmark_rules);
        assert_eq!((again.modality, again.warnings), (Modality::Us, Vec::new()));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("\"../images/a.nii\"") && text.contains("\"x/b.mrk.json\""),
            "{text}"
        );
    }
}
