//! What a model knows of how sure and how near it is.

use crate::certainty::evidence::{Evidence, KINDS, stored};
use crate::certainty::logistic::logistic;
use crate::certainty::presence::Presence;
use pbt_evaluate::{landmark_tolerance_mm, tolerance_mm};
use pbt_volume::Precision;
use serde::{Deserialize, Serialize};

/// Of a structure: from detections of the whole chain in held-out cases. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certainty {
    /// From evidence to log-odds of being within tolerance.
    #[serde(with = "stored")]
    pub weights: Evidence,
    /// Log-odds without evidence.
    pub intercept: f64,
    /// Held-out cases, and how near the found ones were.
    pub held_out: HeldOutErrors,
    /// The box is long and ends at no definite place: tolerance is across it.
    pub loose_ends: bool,
    /// Least share of its box that lay inside an image where it was found, 0 to 1. What is cut by more
    /// was not measured.
    #[serde(skip_serializing_if = "is_whole", default = "whole")]
    pub least_visible: f64,
    /// Whether it is in an image at all; absent where too few cases are said not to have it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub presence: Option<Presence>,
    /// Of its landmarks, in the model's order.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub landmarks: Vec<LandmarkCertainty>,
}

fn whole() -> f64 {
    1.0
}

fn is_whole(share: &f64) -> bool {
    *share == whole()
}

/// A box counts as cut where this much less of it lies inside the image than ever in held-out cases: a
/// box that is found a little off is not.
const CUT_BY: f64 = 0.05;

/// Of a landmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandmarkCertainty {
    /// From the log-odds of the box and of its own place to those of being within tolerance.
    pub weights: [f64; 2],
    /// Log-odds without evidence.
    pub intercept: f64,
    /// Held-out cases, and how near the found ones were.
    pub held_out: HeldOutErrors,
}

/// What held-out cases showed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOutErrors {
    /// Subjects with the structure.
    pub subjects: usize,
    /// How many of them were within tolerance.
    pub right: usize,
    /// Subjects in which it was found.
    pub found: usize,
    /// Radius that holds 90 % of the errors where it was found, mm; `None` below nine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub radius_90_mm: Option<f64>,
    /// The same of the corner of a box that is farthest off.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub corner_radius_90_mm: Option<f64>,
}

impl HeldOutErrors {
    /// The highest score that so many subjects can earn: (n + 1) / (n + 2), Laplace's rule of
    /// succession where all were right.
    pub fn highest_score(&self) -> f64 {
        let n = self.subjects as f64;
        (n + 1.0) / (n + 2.0)
    }

    /// Whether at most one held-out subject in ten would be `found`.
    pub fn is_rarely_found(&self) -> bool {
        10 * self.found <= self.subjects
    }

    fn capped(&self, log_odds: f64) -> f64 {
        logistic(log_odds).min(self.highest_score())
    }

    fn precision(&self, tolerance_mm: f64) -> Precision {
        Precision {
            tolerance_mm,
            radius_90_mm: self.radius_90_mm,
            corner_radius_90_mm: self.corner_radius_90_mm,
            n_calibration: self.found,
        }
    }

    fn is_valid(&self) -> bool {
        let length = |mm: Option<f64>| mm.is_none_or(|mm| mm.is_finite() && mm >= 0.0);
        self.right <= self.subjects
            && self.found <= self.subjects
            && length(self.radius_90_mm)
            && length(self.corner_radius_90_mm)
    }
}

impl Certainty {
    /// Probability that a box with this evidence is within tolerance.
    pub(crate) fn score(&self, evidence: &Evidence) -> f64 {
        let weighed = (0..KINDS).map(|k| self.weights[k] * evidence[k]).sum::<f64>();
        self.held_out.capped(self.intercept + weighed)
    }

    /// The same of one of several instances. Scores also rank instances of one image, so the highest
    /// score is approached and not cut at.
    pub(crate) fn score_of_instance(&self, evidence: &Evidence) -> f64 {
        let weighed = (0..KINDS).map(|k| self.weights[k] * evidence[k]).sum::<f64>();
        logistic(self.intercept + weighed) * self.held_out.highest_score()
    }

    /// Whether more of a box is cut off than of any in held-out cases; `visible` is the share of it
    /// inside the image.
    pub(crate) fn is_cut(&self, visible: f64) -> bool {
        visible < self.least_visible - CUT_BY
    }

    /// How near a box of this size, mm, lies in an image of this spacing, mm, of which so much is
    /// visible. Nobody has measured how near boxes lie that are cut.
    pub(crate) fn precision(
        &self,
        size_mm: [f64; 3],
        spacing_mm: [f64; 3],
        visible: f64,
    ) -> Precision {
        let precision = self.held_out.precision(tolerance_mm(size_mm, spacing_mm));
        if self.is_cut(visible) {
            return Precision { radius_90_mm: None, corner_radius_90_mm: None, ..precision };
        }
        precision
    }

    /// Whether nothing in it leads evaluation astray, with so many landmarks.
    pub(crate) fn is_valid(&self, landmarks: usize) -> bool {
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        finite(&self.weights)
            && self.intercept.is_finite()
            && self.held_out.is_valid()
            && (0.0..=1.0).contains(&self.least_visible)
            && self.presence.as_ref().is_none_or(Presence::is_valid)
            && self.landmarks.len() == landmarks
            && self
                .landmarks
                .iter()
                .all(|l| finite(&l.weights) && l.intercept.is_finite() && l.held_out.is_valid())
    }
}

impl LandmarkCertainty {
    /// Probability that a landmark is within tolerance, by the scores of its box and of its place.
    pub(crate) fn score(&self, evidence: &[f64; 2]) -> f64 {
        let weighed = self.weights[0] * evidence[0] + self.weights[1] * evidence[1];
        self.held_out.capped(self.intercept + weighed)
    }

    /// How near it lies, in the box `parent` of this size in an image of this spacing, mm.
    pub(crate) fn precision(
        &self,
        parent: &str,
        size_mm: [f64; 3],
        spacing_mm: [f64; 3],
    ) -> Precision {
        self.held_out.precision(landmark_tolerance_mm(parent, size_mm, spacing_mm))
    }
}
