//! What speaks for a detection when it is made.

use crate::log_odds::believed;
use crate::pose::prior::Prior;
use pbt_volume::Pose;

/// Kinds of evidence; more of each speaks for the detection.
pub(crate) const KINDS: usize = 6;

/// What speaks for a detection, in the order of [`NAMES`]; mostly log-odds, clipped to about ± 5.
pub type Evidence = [f64; KINDS];

/// What each kind is, for people.
pub const NAMES: [&str; KINDS] = ["detector", "rival", "network", "neighbours", "starts", "size"];

/// The place of the verification's log-odds in it.
pub(crate) const DETECTOR: usize = 0;

/// Prior means of the logistic weights, by kind.
pub(crate) const BELIEVED: Evidence = [0.3, 0.1, 0.25, 0.1, 0.1, 0.1];

/// A converged pose farther than this from the chosen one, in D, is another place.
const ELSEWHERE: f64 = 0.4;

/// Beyond this many standard deviations from the mean size, a larger deviation counts no more.
const FARTHEST: f64 = 5.0;

/// Least standard deviation of a log edge length.
const SIZE_FLOOR: f64 = 0.05;

/// What is known of a detection before its evidence is weighed.
pub(crate) struct Known<'a> {
    /// Where each mode converged, with the log-odds that verification gives it.
    pub(crate) converged: &'a [Pose],
    pub(crate) log_odds: &'a [f64],
    /// Number of the modes that its own search found.
    pub(crate) own_modes: usize,
    pub(crate) chosen: usize,
    /// By how much the best joint choice elsewhere is worse; infinite without one.
    pub(crate) lead: f64,
    /// Log of how much likelier the place is by where the neighbours lie.
    pub(crate) support: f64,
}

impl Known<'_> {
    /// The evidence for the chosen pose.
    pub(crate) fn evidence(&self, prior: &Prior) -> Evidence {
        let at = &self.converged[self.chosen];
        let d = prior.scale_mm;
        let here = |pose: &Pose| pose.center.distance_mm(&at.center) <= ELSEWHERE * d;
        let elsewhere = self
            .converged
            .iter()
            .zip(self.log_odds)
            .filter(|(pose, _)| !here(pose))
            .map(|(_, log_odds)| *log_odds)
            .fold(f64::NEG_INFINITY, f64::max);
        let own = &self.converged[..self.own_modes.min(self.converged.len())];
        let share = own.iter().filter(|pose| here(pose)).count() as f64 / own.len().max(1) as f64;
        let spread = prior.log_size_spread.max(SIZE_FLOOR);
        let odd = (0..3)
            .map(|a| (libm::log(at.size_mm[a] / prior.mean_size_mm[a]) / spread).abs())
            .fold(0.0, f64::max);
        [
            believed(self.log_odds[self.chosen]),
            believed(self.log_odds[self.chosen] - elsewhere),
            believed(self.lead),
            believed(self.support),
            // From −2 to 2.
            4.0 * share - 2.0,
            -odd.min(FARTHEST),
        ]
    }
}

impl Known<'_> {
    /// The evidence for one of several instances: others are no rivals, and of the starts only those
    /// nearby tell. `modes` are these starts.
    pub(crate) fn evidence_for_instance(&self, modes: &[Pose], prior: &Prior) -> Evidence {
        let at = &self.converged[self.chosen];
        let reach_mm = ELSEWHERE * prior.scale_mm;
        let here = |pose: &Pose| pose.center.distance_mm(&at.center) <= reach_mm;
        let near = || modes.iter().zip(self.converged).filter(|(mode, _)| here(mode));
        let stayed = near().filter(|(_, end)| here(end)).count() as f64;
        let share = if near().count() == 0 { 0.0 } else { stayed / near().count() as f64 };
        let [detector, _, network, neighbours, _, size] = self.evidence(prior);
        [detector, 0.0, network, neighbours, 4.0 * share - 2.0, size]
    }
}

/// What the score of a box says about its landmarks, as log-odds.
pub(crate) fn landmark_evidence(box_score: f64) -> f64 {
    libm::log(box_score.max(1e-3) / (1.0 - box_score).max(1e-3))
}
