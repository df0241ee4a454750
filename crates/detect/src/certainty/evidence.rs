//! What speaks for a detection when it is made.

use crate::log_odds::believed;
use crate::pose::prior::Prior;
use pbt_volume::Pose;

/// Kinds of evidence; more of each speaks for the detection.
pub(crate) const KINDS: usize = 7;

/// What speaks for a detection, in the order of [`NAMES`]; mostly log-odds, clipped to about ± 5.
pub type Evidence = [f64; KINDS];

/// What each kind is, for people.
pub const NAMES: [&str; KINDS] =
    ["detector", "rival", "network", "neighbours", "starts", "size", "labels"];

/// The place of the verification's log-odds in it.
pub(crate) const DETECTOR: usize = 0;

/// Number of kinds that are known before there are labels.
pub(crate) const BEFORE_LABELS: usize = KINDS - 1;

/// The place of what the labels about the box say; 0 where there are none.
pub(crate) const LABELS: usize = KINDS - 1;

/// Prior means of the logistic weights, by kind.
pub(crate) const BELIEVED: Evidence = [0.3, 0.1, 0.25, 0.1, 0.1, 0.1, 0.25];

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
            0.0,
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
        let [detector, _, network, neighbours, _, size, labels] = self.evidence(prior);
        [detector, 0.0, network, neighbours, 4.0 * share - 2.0, size, labels]
    }
}

/// What labels of which this Dice coefficient is expected say of the place of their box: twice its
/// log-odds, which spread about as far as other evidence.
pub(crate) fn label_evidence(expected_dice: f64) -> f64 {
    let dice = expected_dice.clamp(1e-3, 1.0 - 1e-3);
    believed(2.0 * libm::log(dice / (1.0 - dice)))
}

/// What the score of a box says about its landmarks, as log-odds.
pub(crate) fn landmark_evidence(box_score: f64) -> f64 {
    libm::log(box_score.max(1e-3) / (1.0 - box_score).max(1e-3))
}

/// Weights as the model file has them: that of the labels is left out where they say nothing, as in models
/// that were trained before labels had a say.
pub(crate) mod stored {
    use super::{BEFORE_LABELS, Evidence, KINDS, LABELS};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(weights: &Evidence, to: S) -> Result<S::Ok, S::Error> {
        let count = if weights[LABELS] == 0.0 { BEFORE_LABELS } else { KINDS };
        weights[..count].serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Evidence, D::Error> {
        let stored = Vec::<f64>::deserialize(from)?;
        if ![BEFORE_LABELS, KINDS].contains(&stored.len()) {
            return Err(D::Error::invalid_length(
                stored.len(),
                &"a weight for each kind of evidence",
            ));
        }
        let mut weights = [0.0; KINDS];
        weights[..stored.len()].copy_from_slice(&stored);
        Ok(weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_speak_for_their_place_where_a_good_overlap_is_expected() {
        let of = label_evidence;
        assert_eq!(of(0.5), 0.0);
        assert!((of(0.9) - 2.0 * 9f64.ln()).abs() < 1e-9 && (of(0.1) + of(0.9)).abs() < 1e-9);
        // 0 and 1 have no log-odds.
        assert_eq!((of(1.0), of(0.0)), (5.0, -5.0));
    }

    #[derive(serde::Serialize, serde::Deserialize)]
    struct Weighed(#[serde(with = "stored")] Evidence);

    #[test]
    fn labels_that_say_nothing_have_no_weight_in_the_file() {
        let six = [0.5, 0.0, 0.25, 0.0, 0.125, 1.0, 0.0];
        let seven = [0.5, 0.0, 0.25, 0.0, 0.125, 1.0, 0.75];
        let text = |weights: Evidence| serde_json::to_string(&Weighed(weights)).unwrap();
        assert_eq!(text(six), "[0.5,0.0,0.25,0.0,0.125,1.0]");
        assert_eq!(text(seven), "[0.5,0.0,0.25,0.0,0.125,1.0,0.75]");
        for weights in [six, seven] {
            let Weighed(read) = serde_json::from_str(&text(weights)).unwrap();
            assert_eq!(read, weights);
        }
        assert!(serde_json::from_str::<Weighed>("[0.5,0.0,0.25,0.0,0.125]").is_err());
        assert!(serde_json::from_str::<Weighed>("[0,0,0,0,0,0,0,0]").is_err());
    }
}
