//! The cases of a data set as training uses them.

use crate::session::{Failure, GridDifference, check_names};
use pbt_detect::{CaseList, ListedCase, RegionName, TrainingData};
use pbt_io::{
    Annotations, CaseSpec, Dataset, IoError, Landmark, LandmarkState, OpenImage, PointsOfCase,
    ReadOptions, RegionLabels, boxes_from_points, check_annotations, read_labels,
    read_side_by_side,
};
use pbt_volume::{
    Geometry, Instances, LengthUnit, Plane, PointLps, Pose, RealVolume, StructureKind,
    StructureSpec, Volume, box_of_landmarks, is_box_of_landmarks, trimmed, trimmed_channels,
};
use std::collections::BTreeSet;

/// The boxes and landmarks of a case, with what was checked when it was read.
#[derive(Debug, Clone)]
pub struct AnnotatedCase {
    /// The case.
    pub spec: CaseSpec,
    /// Structure and pose; only what the case has.
    pub boxes: Vec<(String, Pose)>,
    /// Structure and point; only what the case has in view.
    pub landmarks: Vec<(String, PointLps)>,
    /// Names of structures and landmarks that are marked as missing.
    pub absent: Vec<String>,
    /// Hash of the image file.
    pub sha256: String,
    /// Grid of the image without what only surrounds it: [`trimmed`].
    pub geometry: Geometry,
    /// What its lengths count.
    pub unit: LengthUnit,
    /// Of an image of one slice, once it is laid flat: annotations and grid are in the plane's own
    /// coordinates then.
    pub plane: Option<Plane>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

impl AnnotatedCase {
    /// A case with what is in view of its annotations, without warnings.
    pub fn new(
        spec: CaseSpec,
        annotations: Annotations,
        sha256: String,
        (geometry, unit): (Geometry, LengthUnit),
    ) -> Self {
        let (mut landmarks, mut absent) = (Vec::new(), Vec::new());
        for Landmark { name, state } in annotations.landmarks {
            match state {
                LandmarkState::At(point) => landmarks.push((name, point)),
                LandmarkState::OutOfView => absent.push(name),
            }
        }
        let (boxes, warnings) = (annotations.boxes, Vec::new());
        Self { spec, boxes, landmarks, absent, sha256, geometry, unit, plane: None, warnings }
    }

    /// Lays an image of one slice flat.
    fn lay_flat(&mut self) {
        let Some(plane) = Plane::of(&self.geometry) else { return };
        self.geometry = plane.geometry().clone();
        for (_, point) in &mut self.landmarks {
            *point = plane.flat_point(*point);
        }
        for (_, pose) in &mut self.boxes {
            *pose = plane.flat_pose(pose);
        }
        self.plane = Some(plane);
    }
}

/// The structures to train or to compare: boxes, and landmarks with the box in whose frame each is
/// found; or regions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Names in the data set's order.
    pub boxes: Vec<String>,
    /// Name and parent in the data set's order.
    pub landmarks: Vec<(String, String)>,
    /// Names of regions in the data set's order; there are either these or boxes.
    pub regions: Vec<String>,
}

impl Wanted {
    /// The structures of these names with the parents of landmarks, or all of the data set.
    ///
    /// # Errors
    /// A name that the data set does not have, a landmark whose parent is no box that occurs once, or
    /// regions beside others.
    pub fn new(dataset: &Dataset, named: &[String]) -> Result<Self, Failure> {
        check_names(dataset, named)?;
        let find = |name: &String| dataset.structures.iter().find(|s| &s.name == name);
        let is_box = |s: &&StructureSpec| s.kind == StructureKind::Box;
        let is_many = |s: &&StructureSpec| s.instances == Instances::Many;
        let wanted = |s: &&StructureSpec| named.is_empty() || named.contains(&s.name);
        let is_region = |s: &&StructureSpec| s.kind == StructureKind::Region;
        let all: Vec<&StructureSpec> = dataset.structures.iter().filter(wanted).collect();
        if all.iter().any(is_region) {
            if !all.iter().all(is_region) {
                let what = "structures: regions cannot be used together with boxes and landmarks (name \
                            one kind with --structure)";
                return Err(Failure::input(&dataset.path, what));
            }
            let regions = all.iter().map(|s| s.name.clone()).collect();
            return Ok(Self { regions, ..Self::default() });
        }
        if !dataset.structures.iter().any(|s| is_box(&s)) {
            return Self::of_points(dataset, &all);
        }
        let first = dataset.structures.iter().find(|s| is_box(s) && !is_many(s));
        let mut landmarks = Vec::new();
        for landmark in all.iter().copied().filter(|s| !is_box(s)) {
            let parent = landmark.parent.as_ref().map_or(first, find);
            let Some(parent) = parent.filter(is_box).filter(|s| !is_many(s)) else {
                return Err(no_box_as_parent(dataset, &landmark.name));
            };
            landmarks.push((landmark.name.clone(), parent.name.clone()));
        }
        let needed =
            |s: &&StructureSpec| wanted(s) || landmarks.iter().any(|(_, parent)| *parent == s.name);
        let boxes = dataset
            .structures
            .iter()
            .filter(is_box)
            .filter(needed)
            .map(|s| s.name.clone())
            .collect();
        Ok(Self { boxes, landmarks, regions: Vec::new() })
    }

    /// Landmarks of a data set without boxes, in the frame of the box that follows from them all.
    fn of_points(dataset: &Dataset, landmarks: &[&StructureSpec]) -> Result<Self, Failure> {
        if let Some(orphan) = landmarks.iter().find(|s| s.parent.is_some()) {
            return Err(no_box_as_parent(dataset, &orphan.name));
        }
        let name = box_of_landmarks(&dataset.structures);
        let own = |s: &&StructureSpec| (s.name.clone(), name.to_owned());
        Ok(Self {
            boxes: vec![name.to_owned()],
            landmarks: landmarks.iter().map(own).collect(),
            regions: Vec::new(),
        })
    }

    /// Whether the only box follows from the landmarks.
    fn is_of_points(&self) -> bool {
        self.boxes.iter().any(|name| is_box_of_landmarks(name))
    }

    /// Whether a landmark is needed: it is wanted, or the box follows from it.
    fn needs(&self, landmark: &str) -> bool {
        self.is_of_points() || self.landmarks.iter().any(|(name, _)| name == landmark)
    }

    /// Whether there are boxes and landmarks, and no regions.
    ///
    /// # Errors
    /// Exit code 4 that says what is not done with regions yet.
    pub fn without_regions(self, dataset: &Dataset, what: &str) -> Result<Self, Failure> {
        match self.regions.first() {
            None => Ok(self),
            Some(name) => Err(Failure::input(
                &dataset.path,
                format!("structures: {name}: {what} takes boxes and landmarks, not regions"),
            )),
        }
    }

    /// Whether every structure occurs once.
    ///
    /// # Errors
    /// Exit code 4 that says what is not done with several instances.
    pub fn without_instances(self, dataset: &Dataset, what: &str) -> Result<Self, Failure> {
        match self.boxes.iter().find(|name| dataset.is_many(name)) {
            None => Ok(self),
            Some(name) => Err(Failure::input(
                &dataset.path,
                format!(
                    "structures: {name}: {what} takes structures that occur once (`\"instances\": \"one\"`)"
                ),
            )),
        }
    }

    /// All names, boxes first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let landmarks = self.landmarks.iter().map(|(name, _)| name);
        self.boxes.iter().chain(landmarks).chain(&self.regions).map(String::as_str)
    }
}

fn no_box_as_parent(dataset: &Dataset, landmark: &str) -> Failure {
    let what = format!(
        "structures: {landmark}: its parent is not of the kind `box`, or occurs several times (name a box that occurs once as its parent)"
    );
    Failure::input(&dataset.path, what)
}

/// What is wrong with images of one slice: volumes beside them.
fn what_slices_refuse(cases: &[AnnotatedCase]) -> Vec<(usize, Failure)> {
    let flat = cases.first().is_some_and(|case| case.plane.is_some());
    let unit = cases.first().map_or(LengthUnit::Mm, |case| case.unit);
    let refusal = |case: &AnnotatedCase| match (&case.plane, flat) {
        (Some(_), false) => {
            Some("shape: the image is 2D, and others are volumes (train them by themselves)")
        }
        (None, true) => {
            Some("shape: the image is a volume, and others are 2D (train them by themselves)")
        }
        _ if case.unit != unit => Some(match unit {
            LengthUnit::Mm => {
                "spacing: the file has no scale, and others are in millimetres (train them by themselves)"
            }
            LengthUnit::Pixels => {
                "spacing: the image is in millimetres, and others have no scale (train them by themselves)"
            }
        }),
        _ => None,
    };
    let refused = cases.iter().enumerate().filter_map(|(n, case)| Some((n, case, refusal(case)?)));
    refused.map(|(n, case, what)| (n, Failure::input(&case.spec.image, what))).collect()
}

/// The box that follows from the landmarks of this case alone, where the data set has no box and the landmarks
/// tell one; of an image of one slice in the plane's own coordinates.
pub(super) fn box_of_points(
    dataset: &Dataset,
    (spec, annotations): (&CaseSpec, &Annotations),
    grid: (Geometry, LengthUnit),
) -> Option<(String, Pose)> {
    if dataset.structures.iter().any(|s| s.kind == StructureKind::Box) {
        return None;
    }
    let mut case = AnnotatedCase::new(spec.clone(), annotations.clone(), String::new(), grid);
    case.lay_flat();
    add_boxes_of_points(dataset, std::slice::from_mut(&mut case));
    case.boxes.pop()
}

/// Gives each case the box that follows from the landmarks of all of them, where these have no other.
/// Returns what is wrong with single cases, each with its index.
fn add_boxes_of_points(dataset: &Dataset, cases: &mut [AnnotatedCase]) -> Vec<(usize, Failure)> {
    let landmarks: Vec<&StructureSpec> =
        dataset.structures.iter().filter(|s| s.kind == StructureKind::Landmark).collect();
    let number = |name: &str| landmarks.iter().position(|other| other.name == name);
    let twins: Vec<[usize; 2]> = landmarks
        .iter()
        .enumerate()
        .filter_map(|(n, s)| Some([n, number(s.partner.as_ref()?)?]))
        .collect();
    let place = |case: &AnnotatedCase, name: &str| {
        case.landmarks.iter().find(|(n, _)| n == name).map(|&(_, point)| point)
    };
    let points: Vec<PointsOfCase<'_>> = cases
        .iter()
        .map(|case| PointsOfCase {
            points: landmarks.iter().map(|s| place(case, &s.name)).collect(),
            image: &case.geometry,
        })
        .collect();
    let flat = cases.first().is_some_and(|case| case.plane.is_some());
    let boxes = boxes_from_points(&points, &twins, flat);
    let name = box_of_landmarks(&dataset.structures);
    let mut faults = Vec::new();
    for (n, (case, found)) in cases.iter_mut().zip(boxes).enumerate() {
        match found {
            Ok(pose) => case.boxes.extend(pose.map(|pose| (name.to_owned(), pose))),
            Err(fault) => {
                let what = format!("landmarks: {fault} (add some, or take the case out)");
                faults.push((n, Failure::input(case.spec.annotated_in(), what)));
            }
        }
    }
    faults
}

/// Reads images and annotations of cases and checks that they belong together.
///
/// # Errors
/// The first case, in the file's order, that cannot be read or whose annotations lie outside its
/// image.
pub fn read_cases(
    dataset: &Dataset,
    cases: &[CaseSpec],
    wanted: &Wanted,
) -> Result<Vec<AnnotatedCase>, Failure> {
    let read = |spec: &CaseSpec, image: Result<OpenImage, IoError>| {
        let image = image?.read()?;
        let mut annotations = dataset.load_annotations(spec)?;
        annotations.boxes.retain(|(name, _)| wanted.boxes.contains(name));
        // A point of a box's name says that it is missing.
        let of_box = |landmark: &Landmark| wanted.boxes.contains(&landmark.name);
        annotations.landmarks.retain(|landmark| wanted.needs(&landmark.name) || of_box(landmark));
        let file = spec.annotated_in();
        let mut warnings = image.warnings.clone();
        warnings.append(&mut annotations.warnings);
        let grid = (image.volume.geometry(), image.unit);
        warnings.extend(check_annotations(file, grid, &annotations)?);
        warnings.extend(labels_elsewhere(spec, image.volume.geometry()));
        let geometry = trimmed(&image.volume).geometry().clone();
        let grid = (geometry, image.unit);
        let case = AnnotatedCase::new(spec.clone(), annotations, image.sha256, grid);
        Ok(AnnotatedCase { warnings, ..case })
    };
    dataset.read_label_boxes(cases);
    read_side_by_side(cases, CaseSpec::open_image, read).into_iter().collect()
}

/// A warning of a label map that covers another region than its image, as that of another subject does.
fn labels_elsewhere(spec: &CaseSpec, image: &Geometry) -> Option<String> {
    let path = spec.labels.as_ref()?;
    // One that cannot be read is told where it is needed.
    let labels = OpenImage::open(path, &ReadOptions::default()).ok()?;
    let difference = GridDifference::between(image, labels.geometry())?;
    let (what, todo) = difference.told();
    (difference > GridDifference::Spacing)
        .then(|| format!("{}: grid: {what} ({todo})", path.display()))
}

/// Why a wanted box or landmark may be annotated nowhere in the cases: names and values that do not
/// fit the data set, a line each.
pub fn misfits(dataset: &Dataset, cases: &[AnnotatedCase], wanted: &Wanted) -> Vec<String> {
    let specs = cases.iter().map(|case| &case.spec);
    let mut lines = dataset.unknown_names(specs.clone());
    let nowhere = |name: &String| cases.iter().all(|c| c.boxes.iter().all(|(n, _)| n != name));
    let no_point = |(name, _): &(String, String)| {
        dataset.landmark_rules.contains_key(name)
            && cases.iter().all(|c| c.landmarks.iter().all(|(n, _)| n != name))
    };
    let maps: Vec<_> = specs.filter_map(|spec| spec.labels.as_deref()).collect();
    let no_box = !wanted.is_of_points() && wanted.boxes.iter().any(nowhere);
    if !maps.is_empty() && (no_box || wanted.landmarks.iter().any(no_point)) {
        let read = maps.iter().filter_map(|path| read_labels(path).ok());
        let held = read.flat_map(|map| map.data().iter().copied().collect::<BTreeSet<u16>>());
        lines.extend(dataset.unused_labels(&held.collect()));
    }
    lines
}

/// Cases of a data set for a training.
pub(super) fn case_list(
    dataset: &Dataset,
    unit: LengthUnit,
    cases: impl Iterator<Item = ListedCase>,
) -> CaseList {
    CaseList {
        name: dataset.name.clone(),
        modality: dataset.modality.to_string(),
        channels: dataset.channels().to_vec(),
        unit,
        label_shapes: dataset.label_shapes(),
        cases: cases.collect(),
    }
}

/// Training cases of a data set.
pub struct TrainingCases {
    list: CaseList,
    wanted: Wanted,
    /// Names of the wanted boxes that may occur several times.
    many: Vec<String>,
    /// Names of the structures that name a mirror twin, and of the twin.
    partners: Vec<(String, String)>,
    cases: Vec<AnnotatedCase>,
    /// What label maps hold.
    labels: Option<RegionLabels>,
    /// The names of their labels.
    label_names: Vec<RegionName>,
}

impl TrainingCases {
    /// The cases of a data set with the wanted structures, and what is wrong with single cases, by
    /// their index: landmarks from which no box follows. Such a case has none.
    pub fn new(
        dataset: &Dataset,
        mut cases: Vec<AnnotatedCase>,
        wanted: Wanted,
    ) -> (Self, Vec<(usize, Failure)>) {
        cases.iter_mut().for_each(AnnotatedCase::lay_flat);
        let mut faults = what_slices_refuse(&cases);
        if faults.is_empty() && wanted.is_of_points() {
            faults = add_boxes_of_points(dataset, &mut cases);
        }
        let (many, once): (Vec<String>, Vec<String>) =
            wanted.boxes.iter().cloned().partition(|name| dataset.is_many(name));
        let labels = dataset.labels_of(&once).filter(|_| !once.is_empty());
        let label =
            |(name, value): &(String, u16)| RegionName { name: name.clone(), value: *value };
        let label_names = labels.iter().flat_map(|labels| labels.regions.iter().map(label));
        let data = Self {
            label_names: label_names.collect(),
            labels,
            list: case_list(
                dataset,
                LengthUnit::of_all(cases.iter().map(|case| case.unit)),
                cases.iter().map(|case| ListedCase {
                    id: case.spec.id.clone(),
                    image_sha256: case.sha256.clone(),
                    geometry: case.geometry.clone(),
                }),
            ),
            many,
            wanted,
            partners: dataset
                .structures
                .iter()
                .filter_map(|s| Some((s.name.clone(), s.partner.clone()?)))
                .collect(),
            cases,
        };
        (data, faults)
    }
}

impl TrainingData for TrainingCases {
    type Error = Failure;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, Failure> {
        Ok(self.channels(case)?.swap_remove(0))
    }

    fn channels(&self, case: usize) -> Result<Vec<RealVolume>, Failure> {
        let case = &self.cases[case];
        let channels = trimmed_channels(&case.spec.read_image()?.channels());
        Ok(match &case.plane {
            Some(plane) => channels.iter().map(|channel| plane.laid_flat(channel)).collect(),
            None => channels,
        })
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let of_case = |n: usize, name: &str| -> Vec<(usize, Pose)> {
            let own = self.cases[n].boxes.iter().filter(|(other, _)| other == name);
            own.map(|&(_, pose)| (n, pose)).collect()
        };
        let of = |name: &String| {
            (name.clone(), (0..self.cases.len()).flat_map(|n| of_case(n, name)).collect())
        };
        self.wanted.boxes.iter().map(of).collect()
    }

    fn is_many(&self, structure: &str) -> bool {
        self.many.iter().any(|name| name == structure)
    }

    fn landmarks(&self, structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        let point = |case: &AnnotatedCase, name: &str| {
            case.landmarks.iter().find(|(n, _)| n == name).map(|&(_, point)| point)
        };
        let points = |name: &str| {
            self.cases.iter().enumerate().filter_map(|(n, c)| Some((n, point(c, name)?))).collect()
        };
        let own = self.wanted.landmarks.iter().filter(|(_, parent)| parent == structure);
        own.map(|(name, _)| (name.clone(), points(name))).collect()
    }

    fn absent(&self, name: &str) -> Vec<usize> {
        let is_absent = |n: &usize| self.cases[*n].absent.iter().any(|other| other == name);
        (0..self.cases.len()).filter(is_absent).collect()
    }

    fn label_names(&self) -> &[RegionName] {
        &self.label_names
    }

    fn has_classes(&self, case: usize) -> bool {
        self.labels.is_some() && self.cases[case].spec.labels.is_some()
    }

    fn classes(&self, case: usize) -> Result<Option<Volume<u8>>, Failure> {
        match (&self.labels, &self.cases[case].spec.labels) {
            (Some(labels), Some(path)) => {
                let classes = labels.read_classes(path)?;
                let plane = self.cases[case].plane.as_ref().and(Plane::of(classes.geometry()));
                Ok(Some(match plane {
                    Some(plane) => Volume::new(plane.geometry().clone(), classes.into_data()),
                    None => classes,
                }))
            }
            _ => Ok(None),
        }
    }

    fn subject(&self, case: usize) -> Option<&str> {
        self.cases[case].spec.subject.as_deref()
    }

    fn partner(&self, structure: &str) -> Option<String> {
        self.partners.iter().find(|(name, _)| name == structure).map(|(_, partner)| partner.clone())
    }
}
