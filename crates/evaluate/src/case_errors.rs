//! What was found in a case against what is annotated there.

use crate::box_error::BoxError;
use crate::confidence::Judged;
use crate::instances::{intersection_over_union, is_unknown, matched, row_ends};
use crate::tolerance::Tolerance;
use pbt_volume::{
    Detection, Instances, LengthUnit, Location, PointLps, Pose, Status, StructureKind,
    StructureSpec,
};
use serde::{Deserialize, Serialize};

/// What the annotations say of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Truth {
    /// It is there.
    Present,
    /// It was looked for and is outside the field of view; or, of a structure that occurs several
    /// times, none is annotated where one was detected.
    Absent,
}

/// What detection says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It is there.
    Found,
    /// It may be there.
    Doubtful,
    /// It is not there.
    Absent,
    /// Nothing: there is no result for the case or the structure.
    NoResult,
}

/// How far a found structure is from the annotated one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Distance {
    /// Of boxes.
    Box(BoxError),
    /// Of landmarks.
    Point {
        /// Distance of the points, mm.
        center_mm: f64,
    },
}

impl Distance {
    /// Distance of the centres or points, mm.
    pub fn center_mm(&self) -> f64 {
        match self {
            Self::Box(error) => error.center_mm,
            Self::Point { center_mm } => *center_mm,
        }
    }

    /// The errors of a box.
    pub fn of_box(&self) -> Option<&BoxError> {
        match self {
            Self::Box(error) => Some(error),
            Self::Point { .. } => None,
        }
    }

    /// Whether it is near enough; a box must lie the right way round, too: beyond 45 degrees
    /// another order of its axes would fit better. Of one with loose ends only the distance across
    /// its longest edge counts.
    pub fn is_within(&self, tolerance_mm: f64, loose_ends: bool) -> bool {
        let off_mm = match self {
            Self::Box(error) => error.off_mm(loose_ends),
            Self::Point { center_mm } => *center_mm,
        };
        off_mm <= tolerance_mm && self.of_box().is_none_or(|e| e.angle_deg < TURNED_DEG)
    }
}

/// A box is not right when it is turned by as much, degrees.
const TURNED_DEG: f64 = 45.0;

/// A structure counts as identified up to this distance, mm (Sekuboyina et al. 2021: the VerSe
/// benchmark of vertebrae).
const IDENTIFIED_BELOW_MM: f64 = 20.0;

/// One structure in one case: a record of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the case.
    pub case: String,
    /// Name of the structure.
    pub structure: String,
    /// Box or landmark.
    pub kind: StructureKind,
    /// What the annotations say.
    pub truth: Truth,
    /// What detection says.
    pub answer: Answer,
    /// Its score; null without a result.
    pub score: Option<f64>,
    /// How far they are apart; null where there is only one of them.
    pub error: Option<Distance>,
    /// Up to which distance it would be right, mm; null where that is not known: out of view, or
    /// without a box and a result.
    pub tolerance_mm: Option<f64>,
    /// Whether that is the distance across the longest edge of the box, since its ends are loose.
    #[serde(default)]
    pub across: bool,
    /// Whether a position was given and is right.
    pub right: bool,
    /// The radius that holds 90 % of structures like it, mm, as the detection says; null where it says
    /// none or is not `found`.
    #[serde(default)]
    pub radius_90_mm: Option<f64>,
    /// Other structures of its kind that are annotated in the case, farther away than the tolerance: what
    /// it could be taken for.
    pub rivals: usize,
    /// The annotated structure of its kind that is nearest to where it was found; null without
    /// rivals or without a position.
    pub nearest: Option<String>,
    /// Of a structure that occurs several times, which of them, from 1, in the order of the
    /// annotations; of a detection where nothing is annotated its rank by score. Without the key
    /// for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<usize>,
    /// Volume that found and annotated instance share over that of both together; without the key for
    /// others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<f64>,
}

impl Comparison {
    /// The distance that is right or wrong, mm: of a box with loose ends that across its longest edge.
    pub fn counted_mm(&self) -> Option<f64> {
        let error = self.error.as_ref()?;
        Some(error.of_box().map_or(error.center_mm(), |of_box| of_box.off_mm(self.across)))
    }

    /// It is there and was not found.
    pub fn is_missed(&self) -> bool {
        self.truth == Truth::Present && matches!(self.answer, Answer::Absent | Answer::NoResult)
    }

    /// It is not there and was found.
    pub fn is_false(&self) -> bool {
        self.truth == Truth::Absent && self.answer == Answer::Found
    }

    /// Found nearer to itself than to any rival; `None` without rivals or without a position.
    pub fn is_nearest_right(&self) -> Option<bool> {
        self.nearest.as_ref().map(|name| *name == self.structure)
    }

    /// Nearest to itself and less than 20 mm away, in pixels at any distance; `None` where it is out
    /// of view or has no rivals. A missed one is not identified.
    pub fn is_identified(&self, unit: LengthUnit) -> Option<bool> {
        let is_near = |e: &Distance| !unit.is_mm() || e.center_mm() < IDENTIFIED_BELOW_MM;
        let near = self.error.as_ref().is_some_and(is_near);
        (self.truth == Truth::Present && self.rivals > 0)
            .then(|| near && self.is_nearest_right() == Some(true))
    }

    /// As the check of scores sees it; `None` without a score. One that is called absent, or is out
    /// of view, has no right position, so an honest score of it is low.
    pub fn judged(&self) -> Option<Judged> {
        Some(Judged {
            score: self.score?,
            right: self.right,
            error_mm: self.error.as_ref().map(Distance::center_mm),
        })
    }
}

/// What was found in a case.
#[derive(Debug, Clone, Copy)]
pub struct CaseResult<'a> {
    /// Of each structure; those that nothing is said of are missing.
    pub detections: &'a [Detection],
    /// Distance between the voxel centres of the image, mm.
    pub spacing_mm: [f64; 3],
}

/// Why a result cannot be compared with annotations.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// A structure is of another kind than in the data set.
    #[error("detections: `{name}` is a {found} in the result and a {wanted} in the data set")]
    Kind {
        /// The structure.
        name: String,
        /// Its kind in the result.
        found: StructureKind,
        /// Its kind in the data set.
        wanted: StructureKind,
    },
    /// A quaternion of zeros passes for numbers but is no rotation.
    #[error("detections: `{name}` has an orientation or size that is none")]
    NoPose {
        /// The structure.
        name: String,
    },
}

/// Where a structure is, as annotated.
fn location<'a>(
    structure: &StructureSpec,
    annotated: &'a [(String, Location)],
) -> Option<&'a Location> {
    let is_it =
        |(name, at): &&(String, Location)| *name == structure.name && at.kind() == structure.kind;
    annotated.iter().find(is_it).map(|(_, at)| at)
}

/// Whether anything is known of a structure: where it is, or that it is out of view.
pub fn is_annotated(structure: &StructureSpec, annotated: &[(String, Location)]) -> bool {
    location(structure, annotated).is_some()
}

/// Compares a case structure by structure. `annotated` is all that is annotated in the case, a
/// structure that is out of view without a place; those that are not annotated are left out. A case
/// without a result has found nothing.
///
/// # Errors
/// What is wrong with the result: another kind of structure than the data set's, or an orientation
/// that is none.
pub fn compare(
    case: &str,
    structures: &[&StructureSpec],
    annotated: &[(String, Location)],
    result: Option<CaseResult<'_>>,
    tolerance: &Tolerance,
) -> Result<Vec<Comparison>, CompareError> {
    let detections = result.map_or(&[][..], |result| result.detections);
    let spacing_mm = result.map(|result| result.spacing_mm);
    let mut all = Vec::new();
    for &structure in structures {
        let Some(truly) = location(structure, annotated) else { continue };
        if structure.instances == Instances::Many {
            let mut own = compare_instances(case, structure, annotated, detections, tolerance)?;
            if result.is_none() {
                own.iter_mut().for_each(|comparison| comparison.answer = Answer::NoResult);
            }
            all.extend(own);
            continue;
        }
        let truth = if truly.point().is_some() { Truth::Present } else { Truth::Absent };
        let detection = best(detections, &structure.name);
        let answer = match detection.map(|d| d.status) {
            Some(Status::Found) => Answer::Found,
            Some(Status::Doubtful) => Answer::Doubtful,
            // Right where it is out of view, and no more than doubt where it is in view.
            Some(Status::Outside) if truth == Truth::Absent => Answer::Absent,
            Some(Status::Outside) => Answer::Doubtful,
            Some(Status::Absent) => Answer::Absent,
            None => Answer::NoResult,
        };
        let error = detection.map(|d| distance(truly, d)).transpose()?.flatten();
        let tolerance_mm = match truth {
            Truth::Present => tolerance.of(structure, annotated, spacing_mm),
            Truth::Absent => None,
        };
        // A structure within another, or about it, is nearer than an error that is none.
        let is_apart = |at: &PointLps| {
            let own = truly.point().zip(tolerance_mm);
            own.is_none_or(|(own, tolerance)| own.distance_mm(at) > tolerance)
        };
        let mut points = points(structure.kind, annotated);
        points.retain(|(name, at)| *name == structure.name || is_apart(at));
        let rivals = points.iter().filter(|(name, _)| *name != structure.name).count();
        let position = detection
            .and_then(|d| d.location.point())
            .filter(|_| truth == Truth::Present && rivals > 0);
        all.push(Comparison {
            case: case.to_owned(),
            structure: structure.name.clone(),
            kind: structure.kind,
            truth,
            answer,
            score: detection.map(|d| d.score),
            error,
            tolerance_mm,
            across: tolerance.is_loose(structure),
            right: error
                .zip(tolerance_mm)
                .is_some_and(|(error, mm)| error.is_within(mm, tolerance.is_loose(structure))),
            radius_90_mm: detection
                .filter(|d| d.status == Status::Found)
                .and_then(|d| d.precision?.radius_90_mm),
            rivals,
            nearest: position.and_then(|at| nearest(at, &points)).map(str::to_owned),
            instance: None,
            overlap: None,
        });
    }
    Ok(all)
}

/// Every annotated instance with its detection, then every detection that is none of them, the surest
/// first. Detections where a row of instances would go on are left out: nobody knows.
fn compare_instances(
    case: &str,
    structure: &StructureSpec,
    annotated: &[(String, Location)],
    detections: &[Detection],
    tolerance: &Tolerance,
) -> Result<Vec<Comparison>, CompareError> {
    let truths: Vec<Pose> = annotated
        .iter()
        .filter(|(name, _)| *name == structure.name)
        .filter_map(|(_, at)| at.pose())
        .collect();
    let mut found: Vec<(&Detection, Pose)> = Vec::new();
    for detection in detections.iter().filter(|d| d.name == structure.name) {
        // Refuses another kind and a pose that is none.
        distance(&Location::Box(truths.first().copied()), detection)?;
        found.extend(detection.location.pose().map(|pose| (detection, pose)));
    }
    found.sort_by(|a, b| b.0.score.total_cmp(&a.0.score));
    let poses: Vec<Pose> = found.iter().map(|(_, pose)| *pose).collect();
    let matches = matched(&truths, &poses, |size_mm| tolerance.of_instance(size_mm));
    let answer = |detection: &Detection| match detection.status {
        Status::Found => Answer::Found,
        _ => Answer::Doubtful,
    };
    let radius = |detection: &Detection| {
        detection.precision.filter(|_| detection.status == Status::Found)?.radius_90_mm
    };
    let comparison =
        |truth: Truth, detection: Option<&Detection>, instance: Option<usize>| Comparison {
            case: case.to_owned(),
            structure: structure.name.clone(),
            kind: structure.kind,
            truth,
            answer: detection.map_or(Answer::Absent, answer),
            score: detection.map(|detection| detection.score),
            error: None,
            tolerance_mm: None,
            across: false,
            right: false,
            radius_90_mm: None,
            rivals: 0,
            nearest: None,
            instance,
            overlap: None,
        };
    let mut all = Vec::new();
    for (n, truth) in truths.iter().enumerate() {
        let mine = matches.iter().position(|&of| of == Some(n)).map(|f| found[f]);
        all.push(Comparison {
            error: mine.map(|(_, pose)| Distance::Box(BoxError::new(&pose, truth))),
            tolerance_mm: Some(tolerance.of_instance(truth.size_mm)),
            right: mine.is_some(),
            radius_90_mm: mine.and_then(|(detection, _)| radius(detection)),
            overlap: mine.map(|(_, pose)| intersection_over_union(truth, &pose)),
            ..comparison(Truth::Present, mine.map(|(detection, _)| detection), Some(n + 1))
        });
    }
    let ends = row_ends(&truths);
    for (n, (detection, pose)) in found.iter().enumerate() {
        if matches[n].is_none() && !is_unknown(&ends, pose.center) {
            all.push(comparison(Truth::Absent, Some(detection), Some(n + 1)));
        }
    }
    Ok(all)
}

/// The centres of all annotated boxes, or all annotated landmarks, that are in view.
fn points(kind: StructureKind, annotated: &[(String, Location)]) -> Vec<(&str, PointLps)> {
    annotated
        .iter()
        .filter(|(_, at)| at.kind() == kind)
        .filter_map(|(name, at)| Some((name.as_str(), at.point()?)))
        .collect()
}

/// The first of the nearest ones.
fn nearest<'a>(at: PointLps, points: &[(&'a str, PointLps)]) -> Option<&'a str> {
    points
        .iter()
        .min_by(|a, b| a.1.distance_mm(&at).total_cmp(&b.1.distance_mm(&at)))
        .map(|(name, _)| *name)
}

/// The detection of a structure, the one with the highest score where there are several.
fn best<'a>(detections: &'a [Detection], name: &str) -> Option<&'a Detection> {
    detections
        .iter()
        .filter(|d| d.name == name)
        .reduce(|best, d| if d.score > best.score { d } else { best })
}

fn distance(truth: &Location, found: &Detection) -> Result<Option<Distance>, CompareError> {
    let distance = match (found.location, truth) {
        (Location::Box(found), Location::Box(truth)) => {
            found.zip(*truth).map(|(found, truth)| Distance::Box(BoxError::new(&found, &truth)))
        }
        (Location::Landmark(found), Location::Landmark(truth)) => {
            found.zip(*truth).map(|(a, b)| Distance::Point { center_mm: a.distance_mm(&b) })
        }
        (is, should) => {
            return Err(CompareError::Kind {
                name: found.name.clone(),
                found: is.kind(),
                wanted: should.kind(),
            });
        }
    };
    match distance {
        Some(Distance::Box(e)) if !(e.angle_deg.is_finite() && e.corner_mm.is_finite()) => {
            Err(CompareError::NoPose { name: found.name.clone() })
        }
        distance => Ok(distance),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::{Quaternion, UnitQuaternion, Vector3};
    use pbt_volume::{Instances, Pose, rotation_from_vector};

    fn at(x: f64) -> PointLps {
        PointLps::new(x, 0.0, 0.0)
    }

    fn a_box(x: f64, angle_rad: f64) -> Location {
        let orientation = rotation_from_vector(Vector3::new(0.0, 0.0, angle_rad));
        Location::Box(Some(Pose { center: at(x), orientation, size_mm: [20.0; 3] }))
    }

    fn structures() -> Vec<StructureSpec> {
        let spec = |name: &str, kind| StructureSpec {
            name: name.into(),
            kind,
            parent: None,
            partner: None,
            instances: Instances::One,
        };
        vec![
            spec("L1", StructureKind::Box),
            spec("L2", StructureKind::Box),
            spec("tip", StructureKind::Landmark),
        ]
    }

    fn annotated() -> Vec<(String, Location)> {
        vec![
            ("L1".into(), a_box(0.0, 0.0)),
            ("L2".into(), a_box(30.0, 0.0)),
            ("tip".into(), Location::Landmark(None)),
        ]
    }

    fn found(name: &str, score: f64, location: Location) -> Detection {
        Detection::new(name.into(), Status::Found, score, location)
    }

    fn compared(detections: &[Detection]) -> Result<Vec<Comparison>, CompareError> {
        let structures = structures();
        compare(
            "c",
            &structures.iter().collect::<Vec<_>>(),
            &annotated(),
            Some(CaseResult { detections, spacing_mm: [0.5; 3] }),
            &Tolerance::new(None, &structures),
        )
    }

    #[test]
    fn what_lies_within_a_structure_is_no_rival() {
        let annotated =
            vec![("L1".to_owned(), a_box(0.0, 0.0)), ("L2".to_owned(), a_box(1.0, 0.0))];
        let structures = structures();
        let compared = |mm| {
            let detections = [found("L1", 0.9, a_box(0.9, 0.0))];
            let result = CaseResult { detections: &detections, spacing_mm: [0.5; 3] };
            let tolerance = Tolerance::new(Some(mm), &structures);
            compare("c", &[&structures[0]], &annotated, Some(result), &tolerance).unwrap().remove(0)
        };
        let (wide, narrow) = (compared(1.5), compared(0.5));
        assert_eq!((wide.rivals, wide.is_identified(LengthUnit::Mm)), (0, None));
        assert_eq!((narrow.rivals, narrow.nearest.as_deref()), (1, Some("L2")));
    }

    #[test]
    fn what_is_found_is_held_against_what_is_there() {
        let tip = found("tip", 0.9, Location::Landmark(Some(at(1.0))));
        let all = compared(&[
            found("L1", 0.5, a_box(9.0, 0.0)),
            found("L1", 0.8, a_box(1.0, 0.0)),
            found("L2", 0.7, a_box(12.0, 0.0)),
            tip,
        ])
        .unwrap();
        // The surer of two counts; a tenth of the box's size is the tolerance.
        assert!((all[0].right, all[0].tolerance_mm) == (true, Some(2.0)), "{:?}", all[0]);
        assert_eq!(
            (all[0].is_identified(LengthUnit::Mm), all[0].nearest.as_deref()),
            (Some(true), Some("L1"))
        );
        assert_eq!((all[1].right, all[1].nearest.as_deref()), (false, Some("L1")));
        assert!(all[2].is_false() && all[2].error.is_none() && all[2].tolerance_mm.is_none());
        let none = compared(&[]).unwrap();
        assert!(none[0].is_missed() && none[0].answer == Answer::NoResult);
    }

    #[test]
    fn a_box_that_is_turned_is_not_right() {
        for (angle_deg, right) in [(44.0f64, true), (46.0, false)] {
            let all = compared(&[found("L1", 0.5, a_box(0.0, angle_deg.to_radians()))]).unwrap();
            assert_eq!(all[0].right, right, "{angle_deg} degrees");
        }
    }

    #[test]
    fn instances_have_a_tolerance_too() {
        let mut structure = structures().remove(0);
        structure.instances = Instances::Many;
        let compared = |fixed_mm: Option<f64>| {
            let detections = [found("L1", 0.9, a_box(4.0, 0.0))];
            let result = CaseResult { detections: &detections, spacing_mm: [0.5; 3] };
            let tolerance = Tolerance::new(fixed_mm, std::slice::from_ref(&structure));
            let annotated = [("L1".to_owned(), a_box(0.0, 0.0))];
            let none = compare("c", &[&structure], &annotated, None, &tolerance).unwrap();
            assert!(none.len() == 1 && none[0].answer == Answer::NoResult);
            let all = compare("c", &[&structure], &annotated, Some(result), &tolerance).unwrap();
            (all[0].right, all[0].tolerance_mm.unwrap(), all.len())
        };
        let (right, tolerance_mm, count) = compared(None);
        assert!(right && (tolerance_mm - 5.0).abs() < 1e-9 && count == 1, "{tolerance_mm}");
        assert_eq!(compared(Some(3.0)), (false, 3.0, 2));
        assert_eq!(compared(Some(4.5)), (true, 4.5, 1));
    }

    #[test]
    fn what_cannot_be_compared_is_named() {
        let kind = compared(&[found("L1", 0.5, Location::Landmark(Some(at(0.0))))]).unwrap_err();
        let text = "detections: `L1` is a landmark in the result and a box in the data set";
        assert_eq!(kind.to_string(), text);
        let zeros = UnitQuaternion::new_normalize(Quaternion::new(0.0, 0.0, 0.0, 0.0));
        let pose = Pose { center: at(0.0), orientation: zeros, size_mm: [1.0; 3] };
        let none = compared(&[found("L2", 0.5, Location::Box(Some(pose)))]).unwrap_err();
        assert_eq!(none, CompareError::NoPose { name: "L2".into() });
    }
}
