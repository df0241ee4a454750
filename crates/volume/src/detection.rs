//! What is said of a structure in an image, as plain data.

use crate::{PointLps, Pose, StructureKind};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Whether a structure is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is there.
    Found,
    /// It may be there; its location is the best guess.
    Doubtful,
    /// A landmark that lies outside the image: its location is extrapolated from its box.
    Outside,
    /// It is not there.
    Absent,
}

impl Status {
    /// The word in files: `found`, `doubtful`, `outside` or `absent`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Doubtful => "doubtful",
            Self::Outside => "outside",
            Self::Absent => "absent",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a box or a landmark is; `None` for one that is not in the image. A region is where its
/// voxels are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Location {
    /// Of a box.
    Box(Option<Pose>),
    /// Of a landmark.
    Landmark(Option<PointLps>),
    /// Of a region: its label map says it.
    Region,
}

impl Location {
    /// Nowhere.
    pub fn none(kind: StructureKind) -> Self {
        match kind {
            StructureKind::Box => Self::Box(None),
            StructureKind::Landmark => Self::Landmark(None),
            StructureKind::Region => Self::Region,
        }
    }

    /// What it is the location of.
    pub fn kind(&self) -> StructureKind {
        match self {
            Self::Box(_) => StructureKind::Box,
            Self::Landmark(_) => StructureKind::Landmark,
            Self::Region => StructureKind::Region,
        }
    }

    /// The box's centre or the landmark.
    pub fn point(&self) -> Option<PointLps> {
        match self {
            Self::Box(pose) => pose.map(|pose| pose.center),
            Self::Landmark(point) => *point,
            Self::Region => None,
        }
    }

    /// The box; `None` of anything else.
    pub fn pose(&self) -> Option<Pose> {
        match self {
            Self::Box(pose) => *pose,
            Self::Landmark(_) | Self::Region => None,
        }
    }
}

/// How near a location is, in millimetres, as held-out cases of the training say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// Up to this distance from the truth the location counts as right: the score is the probability
    /// of that, mm.
    pub tolerance_mm: f64,
    /// Of structures like this that are found, 90 % lie within this distance of their true place,
    /// mm; `None` with fewer than nine held-out cases.
    pub radius_90_mm: Option<f64>,
    /// The same of the corner of a box that is farthest off, mm; `None` of landmarks, too.
    pub corner_radius_90_mm: Option<f64>,
    /// Number of held-out cases that the radii follow from.
    pub n_calibration: usize,
}

/// One structure in one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Name of the structure.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// Probability that the location is right, 0 to 1.
    pub score: f64,
    /// Where it is; nowhere when absent.
    pub location: Location,
    /// How near that is; `None` when absent, and where the model does not say.
    pub precision: Option<Precision>,
    /// Share of a box's volume that lies inside the image, 0 to 1; `None` of landmarks and when absent.
    pub visible: Option<f64>,
    /// Which of several instances of the structure, from 1, the surest first; `None` of a structure
    /// that occurs once, and when absent.
    pub instance: Option<usize>,
}

impl Detection {
    /// Of a best guess that counts unless the structure is absent.
    pub fn new(name: String, status: Status, score: f64, best: Location) -> Self {
        let location = if status == Status::Absent { Location::none(best.kind()) } else { best };
        Self { name, status, score, location, precision: None, visible: None, instance: None }
    }

    /// The same with a precision, unless it is absent.
    pub fn with_precision(self, precision: Option<Precision>) -> Self {
        Self { precision: precision.filter(|_| self.status != Status::Absent), ..self }
    }

    /// The same as one of several instances, numbered from 1, unless it is absent.
    pub fn with_instance(self, instance: usize) -> Self {
        Self { instance: (self.status != Status::Absent).then_some(instance), ..self }
    }

    /// The same with the visible share of its box, unless it is absent.
    pub fn with_visible(self, visible: f64) -> Self {
        Self { visible: (self.status != Status::Absent).then_some(visible), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_absent_is_nowhere() {
        let at = Location::Landmark(Some(PointLps::new(1.0, 2.0, 3.0)));
        let [found, absent] = [Status::Doubtful, Status::Absent]
            .map(|status| Detection::new("nose".into(), status, 0.3, at).location);
        assert_eq!((found.point(), absent.point()), (at.point(), None));
        assert_eq!((absent.kind(), absent.pose()), (StructureKind::Landmark, None));
    }

    #[test]
    fn words_are_those_of_files() {
        for status in [Status::Found, Status::Doubtful, Status::Outside, Status::Absent] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for kind in StructureKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }
}
