//! What was found in a case against what is annotated there.

use super::tolerance::Tolerance;
use pbt_detect::{BoxError, Judged};
use pbt_io::{
    Annotations, DetectionKind, DetectionRecord, LandmarkState, ResultFile, Status, StructureKind,
    StructureSpec,
};
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// What the annotations say of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::commands) enum Truth {
    /// It is there.
    Present,
    /// It was looked for and is outside the field of view.
    Absent,
}

/// What detection says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::commands) enum Answer {
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
pub(in crate::commands) enum Distance {
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
    pub(in crate::commands) fn center_mm(&self) -> f64 {
        match self {
            Self::Box(error) => error.center_mm,
            Self::Point { center_mm } => *center_mm,
        }
    }

    /// The errors of a box.
    pub(in crate::commands) fn of_box(&self) -> Option<&BoxError> {
        match self {
            Self::Box(error) => Some(error),
            Self::Point { .. } => None,
        }
    }

    /// Whether it is near enough; a box must lie the right way round, too: beyond [`TURNED_DEG`]
    /// another order of its axes would fit better.
    fn is_within(&self, tolerance_mm: f64) -> bool {
        self.center_mm() <= tolerance_mm && self.of_box().is_none_or(|e| e.angle_deg < TURNED_DEG)
    }
}

/// A box is not right when it is turned by as much, degrees.
const TURNED_DEG: f64 = 45.0;

/// A structure counts as identified up to this distance, mm (Sekuboyina et al. 2021: the VerSe
/// benchmark of vertebrae).
const IDENTIFIED_BELOW_MM: f64 = 20.0;

/// One structure in one case: a record of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::commands) struct Comparison {
    /// Name of the case.
    pub(in crate::commands) case: String,
    /// Name of the structure.
    pub(in crate::commands) structure: String,
    /// Box or landmark.
    pub(in crate::commands) kind: DetectionKind,
    /// What the annotations say.
    pub(in crate::commands) truth: Truth,
    /// What detection says.
    pub(in crate::commands) answer: Answer,
    /// Its score; null without a result.
    pub(in crate::commands) score: Option<f64>,
    /// How far they are apart; null where there is only one of them.
    pub(in crate::commands) error: Option<Distance>,
    /// Up to which distance it would be right, mm; null where that is not known: out of view, or
    /// without a box and a result.
    pub(in crate::commands) tolerance_mm: Option<f64>,
    /// Whether a position was given and is right.
    pub(in crate::commands) right: bool,
    /// Other structures of its kind that are annotated in the case: what it could be taken for.
    pub(in crate::commands) rivals: usize,
    /// The annotated structure of its kind that is nearest to where it was found; null without
    /// rivals or without a position.
    pub(in crate::commands) nearest: Option<String>,
}

impl Comparison {
    /// It is there and was not found.
    pub(in crate::commands) fn is_missed(&self) -> bool {
        self.truth == Truth::Present && matches!(self.answer, Answer::Absent | Answer::NoResult)
    }

    /// It is not there and was found.
    pub(in crate::commands) fn is_false(&self) -> bool {
        self.truth == Truth::Absent && self.answer == Answer::Found
    }

    /// Found nearer to itself than to any rival; `None` without rivals or without a position.
    pub(in crate::commands) fn is_nearest_right(&self) -> Option<bool> {
        self.nearest.as_ref().map(|name| *name == self.structure)
    }

    /// Nearest to itself and less than 20 mm away; `None` where it is out of view or has no rivals.
    /// A missed one is not identified.
    pub(in crate::commands) fn is_identified(&self) -> Option<bool> {
        let near = self.error.as_ref().is_some_and(|e| e.center_mm() < IDENTIFIED_BELOW_MM);
        (self.truth == Truth::Present && self.rivals > 0)
            .then(|| near && self.is_nearest_right() == Some(true))
    }

    /// As the check of scores sees it; `None` without a score. One that is called absent, or is out
    /// of view, has no right position, so an honest score of it is low.
    pub(in crate::commands) fn judged(&self) -> Option<Judged> {
        Some(Judged {
            score: self.score?,
            right: self.right,
            error_mm: self.error.as_ref().map(Distance::center_mm),
        })
    }
}

/// Where a structure is, as annotated.
enum Place {
    Box(Pose),
    Point(PointLps),
    OutOfView,
}

fn place(structure: &StructureSpec, annotations: &Annotations) -> Option<Place> {
    match structure.kind {
        StructureKind::Box => match annotations.pose(&structure.name) {
            Some(pose) => Some(Place::Box(*pose)),
            // A box has a point only where that is marked as missing.
            None => annotations.landmark(&structure.name).map(|_| Place::OutOfView),
        },
        StructureKind::Landmark => Some(match annotations.landmark(&structure.name)? {
            LandmarkState::At(point) => Place::Point(point),
            LandmarkState::OutOfView => Place::OutOfView,
        }),
    }
}

/// Whether anything is known of a structure.
pub(in crate::commands) fn is_known(structure: &StructureSpec, annotations: &Annotations) -> bool {
    place(structure, annotations).is_some()
}

/// Compares a case structure by structure; those that are not annotated are left out. A case
/// without a result has found nothing.
///
/// # Errors
/// What is wrong with the result: another kind of structure than the data set's, or an orientation
/// that is none.
pub(in crate::commands) fn compare(
    case: &str,
    structures: &[&StructureSpec],
    annotations: &Annotations,
    result: Option<&ResultFile>,
    tolerance: &Tolerance,
) -> Result<Vec<Comparison>, String> {
    let mut all = Vec::new();
    for &structure in structures {
        let Some(place) = place(structure, annotations) else { continue };
        let truth = if matches!(place, Place::OutOfView) { Truth::Absent } else { Truth::Present };
        let detection = best(result, &structure.name);
        let answer = match detection.map(|d| d.status) {
            Some(Status::Found) => Answer::Found,
            Some(Status::Doubtful) => Answer::Doubtful,
            Some(Status::Absent) => Answer::Absent,
            None => Answer::NoResult,
        };
        let error = detection.map(|d| distance(&place, structure, d)).transpose()?.flatten();
        let tolerance_mm = if truth == Truth::Present {
            tolerance.of(structure, annotations, result)
        } else {
            None
        };
        let points = points(structure.kind, annotations);
        let rivals = points.iter().filter(|(name, _)| *name != structure.name).count();
        let position = detection
            .and_then(DetectionRecord::position)
            .filter(|_| truth == Truth::Present && rivals > 0);
        all.push(Comparison {
            case: case.to_owned(),
            structure: structure.name.clone(),
            kind: match structure.kind {
                StructureKind::Box => DetectionKind::Box,
                StructureKind::Landmark => DetectionKind::Landmark,
            },
            truth,
            answer,
            score: detection.map(|d| d.score),
            error,
            tolerance_mm,
            right: error.zip(tolerance_mm).is_some_and(|(error, mm)| error.is_within(mm)),
            rivals,
            nearest: position.and_then(|at| nearest(at, &points)).map(str::to_owned),
        });
    }
    Ok(all)
}

/// The centres of all annotated boxes, or all annotated landmarks in view.
fn points(kind: StructureKind, annotations: &Annotations) -> Vec<(&str, PointLps)> {
    match kind {
        StructureKind::Box => {
            annotations.boxes.iter().map(|(name, pose)| (name.as_str(), pose.center)).collect()
        }
        StructureKind::Landmark => annotations
            .landmarks
            .iter()
            .filter_map(|landmark| match landmark.state {
                LandmarkState::At(point) => Some((landmark.name.as_str(), point)),
                LandmarkState::OutOfView => None,
            })
            .collect(),
    }
}

/// The first of the nearest ones.
fn nearest<'a>(at: PointLps, points: &[(&'a str, PointLps)]) -> Option<&'a str> {
    points
        .iter()
        .min_by(|a, b| a.1.distance_mm(&at).total_cmp(&b.1.distance_mm(&at)))
        .map(|(name, _)| *name)
}

/// The detection of a structure, the one with the highest score where there are several.
fn best<'a>(result: Option<&'a ResultFile>, name: &str) -> Option<&'a DetectionRecord> {
    result?
        .detections
        .iter()
        .filter(|d| d.name == name)
        .reduce(|best, d| if d.score > best.score { d } else { best })
}

fn distance(
    place: &Place,
    structure: &StructureSpec,
    found: &DetectionRecord,
) -> Result<Option<Distance>, String> {
    let (is, should) = match (found.kind, structure.kind) {
        (DetectionKind::Box, StructureKind::Landmark) => ("a box", "a landmark"),
        (DetectionKind::Landmark, StructureKind::Box) => ("a landmark", "a box"),
        _ => ("", ""),
    };
    if is != should {
        return Err(format!(
            "detections: `{}` is {is} in the result and {should} in the data set",
            structure.name
        ));
    }
    let distance = match place {
        Place::Box(truth) => found.pose().map(|pose| Distance::Box(BoxError::new(&pose, truth))),
        Place::Point(truth) => {
            found.position().map(|point| Distance::Point { center_mm: point.distance_mm(truth) })
        }
        Place::OutOfView => None,
    };
    // A quaternion of zeros passes for numbers but is no rotation.
    if distance
        .as_ref()
        .and_then(Distance::of_box)
        .is_some_and(|e| !(e.angle_deg.is_finite() && e.corner_mm.is_finite()))
    {
        return Err(format!(
            "detections: `{}` has an orientation or size that is none",
            structure.name
        ));
    }
    Ok(distance)
}
