//! Data sets: structures, cases, and what is annotated in a case.

use crate::annotation_file::read_annotations;
use crate::annotations::{Annotations, Landmark, LandmarkState};
use crate::label_masks::LabelBoxes;
use crate::markups::name_of_file;
use crate::{Image, IoError, LandmarkRule, OpenImage, ReadOptions, read_labels};
use pbt_volume::{Instances, LabelShape, StructureKind, StructureSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The schema of `dataset.json`.
pub(crate) const SCHEMA: &str = "pbt-dataset/1";

/// What made the images; it chooses the default intensity policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modality {
    /// Computed tomography, Hounsfield units.
    Ct,
    /// Magnetic resonance.
    Mr,
    /// Ultrasound.
    Us,
    /// Anything else, as the file says it.
    Other(String),
}

impl fmt::Display for Modality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ct => "CT",
            Self::Mr => "MR",
            Self::Us => "US",
            Self::Other(name) => name,
        })
    }
}

/// A case: an image and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseSpec {
    /// Unique name.
    pub id: String,
    /// The image's file or DICOM folder; of several channels that of the first.
    pub image: PathBuf,
    /// Which of its volumes; and its channels, where there are several.
    pub options: ReadOptions,
    /// `train`, `test`, `dev` or any other word.
    pub split: String,
    /// Who was scanned. Cases of one subject are never divided between training and test.
    pub subject: Option<String>,
    /// Slicer markups and tables of landmarks. Slicer saves each markup as a file of its own.
    pub annotations: Vec<PathBuf>,
    /// A label map; boxes, and landmarks with a rule, that the annotations lack are derived from it.
    pub labels: Option<PathBuf>,
    /// Regions that nobody drew in the label map, although they may be there.
    pub not_drawn: Vec<String>,
}

impl CaseSpec {
    /// Reads the header of the case's image.
    ///
    /// # Errors
    /// As [`OpenImage::open`].
    pub fn open_image(&self) -> Result<OpenImage, IoError> {
        OpenImage::open(&self.image, &self.options)
    }

    /// Reads the case's image.
    ///
    /// # Errors
    /// As [`crate::read_image_with`].
    pub fn read_image(&self) -> Result<Image, IoError> {
        self.open_image()?.read()
    }

    /// Whether two cases show the same subject. A case that names none is its own.
    pub fn has_subject_of(&self, other: &Self) -> bool {
        self.id == other.id || (self.subject.is_some() && self.subject == other.subject)
    }

    /// The file that messages about the case's annotations name: the one that they are in, or the
    /// image.
    pub fn annotated_in(&self) -> &Path {
        match (&self.annotations[..], &self.labels) {
            ([one], _) | ([], Some(one)) => one,
            _ => &self.image,
        }
    }
}

/// A data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Its name.
    pub name: String,
    /// What made the images.
    pub modality: Modality,
    /// What is annotated, in the file's order.
    pub structures: Vec<StructureSpec>,
    /// Names of the values in label maps.
    pub label_names: BTreeMap<u16, String>,
    /// The structure that every value but 0 and the named ones belongs to, where there is one: `"*"`.
    /// Either a region, or a box that occurs several times, each value once.
    pub every_label: Option<String>,
    /// By name of the landmark, how it follows from label maps where it is not annotated.
    pub landmark_rules: BTreeMap<String, LandmarkRule>,
    /// The cases, in the file's order.
    pub cases: Vec<CaseSpec>,
    /// The file that it was read from.
    pub path: PathBuf,
    /// Keys that are not known, which most often are slips of the pen.
    pub warnings: Vec<String>,
    /// By name of the structure, mean shapes in label maps that are known beforehand.
    pub(crate) known_shapes: BTreeMap<String, LabelShape>,
    /// How boxes follow from label maps; made when the first such box is wanted.
    pub(crate) label_boxes: OnceLock<LabelBoxes>,
}

impl Dataset {
    /// A data set without label names and warnings.
    pub fn new(
        name: String,
        modality: Modality,
        structures: Vec<StructureSpec>,
        cases: Vec<CaseSpec>,
        path: PathBuf,
    ) -> Self {
        Self {
            name,
            modality,
            structures,
            label_names: BTreeMap::new(),
            every_label: None,
            landmark_rules: BTreeMap::new(),
            cases,
            path,
            warnings: Vec::new(),
            known_shapes: BTreeMap::new(),
            label_boxes: OnceLock::new(),
        }
    }

    /// Names of the channels of every image, where there are several; else none.
    pub fn channels(&self) -> &[String] {
        self.cases.first().map_or(&[], |case| &case.options.channels)
    }

    /// The cases of a split, in the file's order.
    pub fn split<'a>(&'a self, split: &'a str) -> impl Iterator<Item = &'a CaseSpec> {
        self.cases.iter().filter(move |case| case.split == split)
    }

    /// What is known about the structures of a case: its markups, and, for what they lack, boxes
    /// (`docs/reference/boxes-from-labels.md`) and landmarks with a rule
    /// (`docs/reference/landmarks-from-labels.md`) derived from its label map. Markups of other names
    /// than the data set's structures are left out.
    ///
    /// A point of a box's name that is marked as missing says that the box is outside the field of
    /// view; it stays among the landmarks, and no box is derived for it.
    ///
    /// The axes of derived boxes come from the label maps of the cases for training together (of
    /// all cases where none is for training), so that they mean the same in every case, unless
    /// [`Self::with_label_shapes`] gave them; the first call that needs them reads those maps.
    ///
    /// A structure's voxels are those of the label with its name; when no label has it and there is
    /// only one structure of kind box, all that are not 0. A structure without voxels stays
    /// unlabelled. Of a structure that occurs several times, each value of its labels is one
    /// instance.
    ///
    /// # Errors
    /// [`IoError`] when a file cannot be read, when two have a structure of the same name, or when
    /// a name that is a box's in the data set is a point's in the markups, or the reverse.
    pub fn load_annotations(&self, case: &CaseSpec) -> Result<Annotations, IoError> {
        let mut annotations = Annotations::default();
        for path in &case.annotations {
            let more = self.of_structures(path, read_annotations(path)?)?;
            let has = |name: &str| {
                annotations.pose(name).is_some() || annotations.landmark(name).is_some()
            };
            let mut names = more
                .boxes
                .iter()
                .map(|(name, _)| name)
                .chain(more.landmarks.iter().map(|l| &l.name));
            if let Some(name) = names.find(|name| has(name) && !self.is_many(name)) {
                return Err(IoError::input(
                    path,
                    name,
                    "is in another file of the case, too",
                    "list one of the two",
                ));
            }
            annotations.boxes.extend(more.boxes);
            annotations.landmarks.extend(more.landmarks);
            annotations.in_pixels |= more.in_pixels;
        }
        self.add_from_labels(case, &mut annotations)?;
        Ok(annotations)
    }

    /// Reads the label maps that boxes follow from where a case has nothing but a label map, with all
    /// threads of the caller. To be called before cases are read side by side: the one that needs these
    /// boxes first would read the maps by itself, and the others would wait.
    pub fn read_label_boxes(&self, cases: &[CaseSpec]) {
        let is_box = |spec: &StructureSpec| spec.kind == StructureKind::Box;
        let needs = |case: &CaseSpec| case.labels.is_some() && case.annotations.is_empty();
        if self.structures.iter().any(is_box) && cases.iter().any(needs) {
            self.label_boxes();
        }
    }

    /// The same with boxes of label maps by these mean shapes, those of a model as a rule. The
    /// structures that are not among them keep the mean shapes of the data set.
    pub fn with_label_shapes(&self, shapes: &BTreeMap<String, LabelShape>) -> Self {
        Self { known_shapes: shapes.clone(), label_boxes: OnceLock::new(), ..self.clone() }
    }

    /// The mean shapes in label maps, by name of the structure; empty where no box was wanted of one
    /// so far.
    pub fn label_shapes(&self) -> BTreeMap<String, LabelShape> {
        self.label_boxes.get().map(LabelBoxes::shapes).unwrap_or_default()
    }

    fn label_boxes(&self) -> &LabelBoxes {
        self.label_boxes.get_or_init(|| LabelBoxes::of(self, &self.known_shapes))
    }

    /// Adds the boxes and landmarks that are not annotated and follow from the case's label map.
    fn add_from_labels(
        &self,
        case: &CaseSpec,
        annotations: &mut Annotations,
    ) -> Result<(), IoError> {
        let Some(path) = &case.labels else { return Ok(()) };
        let is_open =
            |name: &str| annotations.pose(name).is_none() && annotations.landmark(name).is_none();
        let open = |kind: StructureKind| {
            let of_kind = self.structures.iter().filter(move |s| s.kind == kind);
            of_kind.map(|s| s.name.as_str()).filter(|name| is_open(name))
        };
        let boxes: Vec<&str> = open(StructureKind::Box).collect();
        let rules: Vec<(&str, &LandmarkRule)> = open(StructureKind::Landmark)
            .filter_map(|name| Some((name, self.landmark_rules.get(name)?)))
            .collect();
        if boxes.is_empty() && rules.is_empty() {
            return Ok(());
        }
        // Reads the maps of other cases, and so comes before the map of this one is held.
        let shapes = (!boxes.is_empty()).then(|| self.label_boxes());
        let map = read_labels(path)?;
        if let Some(shapes) = shapes {
            annotations.boxes.extend(shapes.in_map(&map, &boxes));
        }
        for (name, rule) in rules {
            // What nobody drew here may be a part of what the rule needs.
            if rule.labels().iter().any(|label| case.not_drawn.iter().any(|n| n == label)) {
                continue;
            }
            match rule.point(&map, &|label| self.values_of(label)) {
                Ok(Some(point)) => annotations
                    .landmarks
                    .push(Landmark { name: name.to_owned(), state: LandmarkState::At(point) }),
                Ok(None) => {}
                Err(why) => annotations.warnings.push(format!(
                    "{}: {name}: {why}, so this case has no such landmark (annotate it here, or mend \
                     the label map)",
                    path.display()
                )),
            }
        }
        Ok(())
    }

    /// By value of label maps, whether it is one of that name: of those under `labels`, or, where
    /// none has it and it is the only box's, all but 0. All false of other names.
    pub(crate) fn values_of(&self, name: &str) -> Vec<bool> {
        let mut inside = vec![false; usize::from(u16::MAX) + 1];
        let named = self.label_names.iter().filter(|(_, n)| *n == name);
        let values: Vec<u16> = named.map(|(&value, _)| value).collect();
        if self.every_label.as_deref() == Some(name) {
            inside[1..].fill(true);
            self.label_names.keys().for_each(|&value| inside[usize::from(value)] = false);
        } else if values.is_empty() {
            inside[1..].fill(self.only_box() == Some(name));
        }
        values.iter().for_each(|&value| inside[usize::from(value)] = true);
        inside
    }

    /// The name of the box, where there is one only.
    pub(crate) fn only_box(&self) -> Option<&str> {
        let mut boxes = self.structures.iter().filter(|s| s.kind == StructureKind::Box);
        boxes.next().filter(|_| boxes.next().is_none()).map(|s| s.name.as_str())
    }

    /// Whether a structure may occur several times in an image.
    pub fn is_many(&self, name: &str) -> bool {
        self.structures.iter().any(|s| s.name == name && s.instances == Instances::Many)
    }

    /// What is about the data set's structures.
    pub(crate) fn of_structures(
        &self,
        path: &Path,
        mut annotations: Annotations,
    ) -> Result<Annotations, IoError> {
        let kind = |name: &str| self.structures.iter().find(|s| s.name == name).map(|s| s.kind);
        // Slicer writes no names into its files. The only box of a file, called after that, is the
        // only box of the data set.
        let mut boxes = self.structures.iter().filter(|s| s.kind == StructureKind::Box);
        if let (Some(only), None, [(name, _)]) =
            (boxes.next(), boxes.next(), &mut annotations.boxes[..])
            && kind(name).is_none()
            && *name == name_of_file(path)
        {
            name.clone_from(&only.name);
        }
        let mut once = BTreeSet::new();
        if let Some((name, _)) =
            annotations.boxes.iter().find(|(name, _)| !self.is_many(name) && !once.insert(name))
        {
            return Err(IoError::input(
                path,
                name,
                "has several boxes",
                "remove or rename some, or give the structure `\"instances\": \"many\"`",
            ));
        }
        let wrong = |name: &str, is: &str, should: &str| {
            let problem = format!("is {is} here and {should} in the data set");
            IoError::input(path, name, problem, "annotate it as the data set says")
        };
        if let Some((name, _)) =
            annotations.boxes.iter().find(|(name, _)| kind(name) == Some(StructureKind::Landmark))
        {
            return Err(wrong(name, "a box", "a landmark"));
        }
        // A point beside a box of the same name is common (a label in the scene) and contradicts
        // nothing.
        let is_box = |name: &str| kind(name) == Some(StructureKind::Box);
        let drawn: BTreeSet<String> =
            annotations.boxes.iter().map(|(name, _)| name.clone()).collect();
        let is_out = |l: &Landmark| l.state == LandmarkState::OutOfView && !drawn.contains(&l.name);
        if let Some(landmark) = annotations
            .landmarks
            .iter()
            .find(|l| is_box(&l.name) && !drawn.contains(&l.name) && !is_out(l))
        {
            return Err(wrong(&landmark.name, "a point", "a box"));
        }
        annotations.boxes.retain(|(name, _)| kind(name).is_some());
        annotations.landmarks.retain(|l| {
            kind(&l.name) == Some(StructureKind::Landmark) || (is_box(&l.name) && is_out(l))
        });
        Ok(annotations)
    }
}
