//! What was found in a case against what is annotated there.

use pbt_detect::BoxError;
use pbt_io::{Annotations, DetectionKind, DetectionRecord, LandmarkState, ResultFile, Status, StructureKind, StructureSpec};
use pbt_volume::{PointLps, Pose};
use serde::Serialize;

/// What the annotations say of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Truth {
    /// It is there.
    Present,
    /// It was looked for and is outside the field of view.
    Absent,
}

/// What detection says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Distance {
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
    pub(super) fn center_mm(&self) -> f64 {
        match self {
            Self::Box(error) => error.center_mm,
            Self::Point { center_mm } => *center_mm,
        }
    }

    /// The errors of a box.
    pub(super) fn of_box(&self) -> Option<&BoxError> {
        match self {
            Self::Box(error) => Some(error),
            Self::Point { .. } => None,
        }
    }
}

/// One structure in one case: a record of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Comparison {
    /// Name of the case.
    pub(super) case: String,
    /// Name of the structure.
    pub(super) structure: String,
    /// What the annotations say.
    pub(super) truth: Truth,
    /// What detection says.
    pub(super) answer: Answer,
    /// Its score; null without a result.
    pub(super) score: Option<f64>,
    /// How far they are apart; null where there is only one of them.
    pub(super) error: Option<Distance>,
}

impl Comparison {
    /// It is there and was not found.
    pub(super) fn is_missed(&self) -> bool {
        self.truth == Truth::Present && matches!(self.answer, Answer::Absent | Answer::NoResult)
    }

    /// It is not there and was found.
    pub(super) fn is_false(&self) -> bool {
        self.truth == Truth::Absent && self.answer == Answer::Found
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
        StructureKind::Box => annotations.pose(&structure.name).copied().map(Place::Box),
        StructureKind::Landmark => Some(match annotations.landmark(&structure.name)? {
            LandmarkState::At(point) => Place::Point(point),
            LandmarkState::OutOfView => Place::OutOfView,
        }),
    }
}

/// Whether anything is known of a structure.
pub(super) fn is_known(structure: &StructureSpec, annotations: &Annotations) -> bool {
    place(structure, annotations).is_some()
}

/// Compares a case structure by structure; those that are not annotated are left out. A case without a result has found nothing.
///
/// # Errors
/// What is wrong with the result: another kind of structure than the data set's, or an orientation that is none.
pub(super) fn compare(
    case: &str,
    structures: &[&StructureSpec],
    annotations: &Annotations,
    result: Option<&ResultFile>,
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
        all.push(Comparison {
            case: case.to_owned(),
            structure: structure.name.clone(),
            truth,
            answer,
            score: detection.map(|d| d.score),
            error: detection.map(|d| distance(&place, structure, d)).transpose()?.flatten(),
        });
    }
    Ok(all)
}

/// The detection of a structure, the one with the highest score where there are several.
fn best<'a>(result: Option<&'a ResultFile>, name: &str) -> Option<&'a DetectionRecord> {
    result?.detections.iter().filter(|d| d.name == name).reduce(|best, d| if d.score > best.score { d } else { best })
}

fn distance(place: &Place, structure: &StructureSpec, found: &DetectionRecord) -> Result<Option<Distance>, String> {
    let (is, should) = match (found.kind, structure.kind) {
        (DetectionKind::Box, StructureKind::Landmark) => ("a box", "a landmark"),
        (DetectionKind::Landmark, StructureKind::Box) => ("a landmark", "a box"),
        _ => ("", ""),
    };
    if is != should {
        return Err(format!("detections: `{}` is {is} in the result and {should} in the data set", structure.name));
    }
    let distance = match place {
        Place::Box(truth) => found.pose().map(|pose| Distance::Box(BoxError::new(&pose, truth))),
        Place::Point(truth) => found.position().map(|point| Distance::Point { center_mm: point.distance_mm(truth) }),
        Place::OutOfView => None,
    };
    // A quaternion of zeros passes for numbers but is no rotation.
    if distance.as_ref().and_then(Distance::of_box).is_some_and(|e| !(e.angle_deg.is_finite() && e.corner_mm.is_finite())) {
        return Err(format!("detections: `{}` has an orientation or size that is none", structure.name));
    }
    Ok(distance)
}
