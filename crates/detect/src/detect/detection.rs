//! What detection finds in one image, and how it came to it.

use crate::certainty::evidence::Evidence;
use crate::masks::stage::Mask;
use crate::stages::position::Candidate;
use pbt_tree::Score;
use pbt_volume::{Location, Plane, PointLps, Pose, Precision, Status, is_box_of_landmarks};

/// One structure in one image.
#[derive(Debug, Clone, PartialEq)]
pub struct Detection {
    /// Name of the structure.
    pub name: String,
    /// Which of several instances, from 1, the surest first; `None` of a structure that occurs once.
    pub instance: Option<usize>,
    /// Whether it is there.
    pub status: Status,
    /// Probability that the pose is right: within the tolerance of `precision`.
    pub score: f64,
    /// The best pose; for `Absent` too, for those who compare. In an image of one slice as
    /// [`Plane::brought_into`] leaves boxes.
    pub pose: Pose,
    /// Share of its box that lies inside the image.
    pub visible: f64,
    /// How near it is; `None` where the model was trained on too few cases to tell.
    pub precision: Option<Precision>,
    /// What each stage found.
    pub trace: Trace,
    /// The landmarks in its frame, in the model's order.
    pub landmarks: Vec<LandmarkDetection>,
}

/// One landmark in one image.
#[derive(Debug, Clone, PartialEq)]
pub struct LandmarkDetection {
    /// Name of the structure.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// Probability that the landmark is right: that its box is right, and that the landmark is right
    /// in such a box.
    pub score: f64,
    /// The best point; for `Absent` too, for those who compare.
    pub point: PointLps,
    /// Log-odds that the landmark is right, given a right box.
    pub place: f64,
    /// How near it is; `None` where the model was trained on too few cases to tell.
    pub precision: Option<Precision>,
}

impl Detection {
    /// Takes back that it is found, whatever its score.
    pub(super) fn doubt(&mut self) {
        if self.status != Status::Absent {
            self.trace.at_most = Some(Status::Doubtful);
            self.status = Status::Doubtful;
        }
    }

    /// The box, then its landmarks, as plain data; absent structures get no position. A box that was
    /// derived from landmarks is their frame and no structure, and is left out.
    pub fn plain(&self) -> Vec<pbt_volume::Detection> {
        let plain = pbt_volume::Detection::new;
        let own = plain(self.name.clone(), self.status, self.score, Location::Box(Some(self.pose)))
            .with_precision(self.precision)
            .with_visible(self.visible);
        let own = self.instance.into_iter().fold(own, |own, n| own.with_instance(n));
        let landmark = |l: &LandmarkDetection| {
            plain(l.name.clone(), l.status, l.score, Location::Landmark(Some(l.point)))
                .with_precision(l.precision)
        };
        let own = (!is_box_of_landmarks(&self.name)).then_some(own);
        own.into_iter().chain(self.landmarks.iter().map(landmark)).collect()
    }

    /// From a plane's own coordinates to the patient's.
    pub(super) fn leave(&mut self, plane: &Plane) {
        self.pose = plane.pose_to_lps(&self.pose);
        for landmark in &mut self.landmarks {
            landmark.point = plane.point_to_lps(landmark.point);
        }
        for candidate in &mut self.trace.candidates {
            candidate.point = plane.point_to_lps(candidate.point);
        }
        for pose in self.trace.modes.iter_mut().chain(&mut self.trace.converged) {
            *pose = plane.pose_to_lps(pose);
        }
    }
}

/// What each stage of a detection found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Position candidates, best first.
    pub candidates: Vec<Candidate>,
    /// Modes of the orientation stage, then what the neighbours in the network propose, then poses
    /// that the level test added because no converged pose lay there.
    pub modes: Vec<Pose>,
    /// Number of modes before the neighbours' proposals.
    pub own_modes: usize,
    /// Where the refinement brought each mode.
    pub converged: Vec<Pose>,
    /// What verification says of each converged pose.
    pub scores: Vec<Score>,
    /// Index of the chosen one among them.
    pub chosen: usize,
    /// Margin in log-odds to the best joint choice in which this structure is at another place;
    /// infinite where there is none; after a level test it may be negative.
    pub lead: f64,
    /// Log of how much likelier the place is by where the chosen neighbours lie; 0 without
    /// neighbours.
    pub support: f64,
    /// Probability that anything like the structure is there at all, right or wrong.
    pub there: f64,
    /// What speaks for the chosen pose.
    pub evidence: Evidence,
    /// The most that can be said of it, whatever its score: `Absent`, or `Doubtful`.
    pub at_most: Option<Status>,
}

impl Trace {
    /// Appends modes, and where they ended with the scores there.
    pub(super) fn extend(&mut self, modes: &[Pose], (ends, scores): (Vec<Pose>, Vec<Score>)) {
        self.modes.extend_from_slice(modes);
        self.converged.extend(ends);
        self.scores.extend(scores);
    }
}

/// The detections of an image with the time that each stage took, milliseconds, in order.
#[derive(Debug, Clone)]
pub struct Detections {
    /// In the model's order; of a structure that may occur several times its instances, the surest
    /// first.
    pub detections: Vec<Detection>,
    /// The labels about each box, where the model has them and they were asked for or move the box
    /// or its landmarks.
    pub(crate) masks: Vec<Option<Mask>>,
    /// What the user should know of the image, `FIELD: text` each.
    pub warnings: Vec<String>,
    /// Stage and milliseconds.
    pub timing_ms: Vec<(String, f64)>,
}
