//! The boxes of a data set, structure by structure.

use pbt_io::{Annotations, CaseSpec, Dataset, LandmarkState};
use pbt_volume::{Instances, LengthUnit, PointLps, Pose, StructureKind, StructureSpec};

/// The cases whose annotations could be read.
pub(super) struct AnnotatedCases<'a> {
    pub(super) dataset: &'a Dataset,
    /// In the data set's order.
    pub(super) cases: Vec<(&'a CaseSpec, &'a Annotations)>,
    /// What lengths count.
    pub(super) unit: LengthUnit,
}

/// The boxes of one structure.
#[derive(Debug, Clone)]
pub(super) struct StructureBoxes {
    pub(super) name: String,
    /// Index into the annotated cases, and the box.
    pub(super) boxes: Vec<(usize, Pose)>,
}

impl StructureBoxes {
    /// The box of a case.
    pub(super) fn of_case(&self, case: usize) -> Option<&Pose> {
        self.boxes.iter().find(|(n, _)| *n == case).map(|(_, pose)| pose)
    }
}

fn occurs_once(structure: &&StructureSpec) -> bool {
    structure.kind == StructureKind::Box && structure.instances == Instances::One
}

fn is_sound(pose: &Pose) -> bool {
    pose.size_mm.iter().all(|mm| mm.is_finite() && *mm > 0.0)
}

/// The boxes of one case, as [`AnnotatedCases::boxes`] has them.
pub(super) fn boxes_of(dataset: &Dataset, annotations: &Annotations) -> Vec<(String, Pose)> {
    let boxes = dataset.structures.iter().filter(occurs_once);
    boxes
        .filter_map(|s| Some((s.name.clone(), *annotations.pose(&s.name)?)))
        .filter(|(_, pose)| is_sound(pose))
        .collect()
}

impl AnnotatedCases<'_> {
    /// The boxes of every structure of kind box, in the data set's order. Boxes with an edge that
    /// is no length have findings of their own, and are left out.
    pub(super) fn boxes(&self) -> Vec<StructureBoxes> {
        let of = |name: &str| StructureBoxes {
            name: name.to_owned(),
            boxes: self
                .cases
                .iter()
                .enumerate()
                .filter_map(|(n, (_, a))| Some((n, *a.pose(name)?)))
                .filter(|(_, pose)| is_sound(pose))
                .collect(),
        };
        self.dataset.structures.iter().filter(occurs_once).map(|s| of(&s.name)).collect()
    }

    /// The landmarks, each with the cases that have it in view.
    pub(super) fn landmarks(&self) -> Vec<(String, Vec<(usize, PointLps)>)> {
        let point = |annotations: &Annotations, name: &str| match annotations.landmark(name) {
            Some(LandmarkState::At(point)) => Some(point),
            _ => None,
        };
        let points = |name: &str| {
            let all = self.cases.iter().enumerate();
            all.filter_map(|(n, (_, a))| Some((n, point(a, name)?))).collect()
        };
        let landmarks =
            self.dataset.structures.iter().filter(|s| s.kind == StructureKind::Landmark);
        landmarks.map(|s| (s.name.clone(), points(&s.name))).collect()
    }
}

/// Made-up cases and boxes for the tests of the checks.
#[cfg(test)]
pub(super) mod made {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_io::{Landmark, Modality, ReadOptions};
    use std::path::PathBuf;

    /// A case `cN` of the split `train`, annotated in `cN.mrk.json`.
    pub(in super::super) fn case(n: usize) -> CaseSpec {
        CaseSpec {
            id: format!("c{n}"),
            image: PathBuf::from(format!("c{n}.nii.gz")),
            options: ReadOptions::default(),
            split: "train".into(),
            subject: None,
            annotations: vec![PathBuf::from(format!("c{n}.mrk.json"))],
            labels: None,
            not_drawn: Vec::new(),
        }
    }

    /// A data set with these structures and cases `c0`, `c1`, ….
    pub(in super::super) fn dataset(structures: &[(&str, StructureKind)], cases: usize) -> Dataset {
        let spec = |&(name, kind): &(&str, StructureKind)| StructureSpec {
            name: name.to_owned(),
            kind,
            parent: None,
            partner: None,
            instances: Instances::One,
        };
        let structures = structures.iter().map(spec).collect();
        let cases = (0..cases).map(case).collect();
        Dataset::new("made".into(), Modality::Mr, structures, cases, PathBuf::from("dataset.json"))
    }

    /// The cases of a data set with these annotations.
    pub(in super::super) fn annotated<'a>(
        dataset: &'a Dataset,
        annotations: &'a [Annotations],
    ) -> AnnotatedCases<'a> {
        AnnotatedCases {
            dataset,
            cases: dataset.cases.iter().zip(annotations).collect(),
            unit: LengthUnit::Mm,
        }
    }

    /// A box along the patient's axes.
    pub(in super::super) fn upright(center: [f64; 3], size_mm: [f64; 3]) -> Pose {
        let [x, y, z] = center;
        Pose { center: PointLps::new(x, y, z), orientation: UnitQuaternion::identity(), size_mm }
    }

    /// Annotations of boxes and landmarks.
    pub(in super::super) fn marked(
        boxes: &[(&str, Pose)],
        landmarks: &[(&str, PointLps)],
    ) -> Annotations {
        let landmark = |&(name, point): &(&str, PointLps)| Landmark {
            name: name.to_owned(),
            state: LandmarkState::At(point),
        };
        Annotations {
            boxes: boxes.iter().map(|&(name, pose)| (name.to_owned(), pose)).collect(),
            landmarks: landmarks.iter().map(landmark).collect(),
            ..Annotations::default()
        }
    }

    /// A repeatable number from -1 to 1.
    pub(in super::super) fn wobble(n: usize) -> f64 {
        let scrambled = (n as u32 + 1).wrapping_mul(2_654_435_761).rotate_left(13);
        f64::from(scrambled.wrapping_mul(2_246_822_519)) / f64::from(u32::MAX) * 2.0 - 1.0
    }
}
