//! A first model in a fraction of the time.

use crate::config::TrainConfig;

/// Half the copies of a case in the position stage.
const COPIES: usize = 5;

/// Half the perturbed poses that regressors of the refinement, and of landmarks, learn from.
const SAMPLES: usize = 2500;
const LANDMARK_SAMPLES: usize = 2000;

/// The border and the penalty of the refinement, which otherwise are chosen on held-out cases: the middle
/// ones of those that are tried.
const BORDER: f64 = 0.1;
const RIDGE: f64 = 1.0;

impl TrainConfig {
    /// The same with what takes most of the time left out or made smaller: nothing is held out, so that
    /// scores are those of the verification stage, far too sure, and there are no radii; no masks, no
    /// mirrored copies, no test of the vertebral level; and half of what stages learn from. What the
    /// configuration itself sets for copies, border and penalty stays.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.certainty.measured = false;
        self.segmentation.trained = false;
        self.network.level_shift = false;
        self.augmentation.copies.get_or_insert(0);
        self.position.copies = self.position.copies.min(COPIES);
        self.refinement.border.get_or_insert(BORDER);
        self.refinement.ridge.get_or_insert(RIDGE);
        self.refinement.most_samples = self.refinement.most_samples.min(SAMPLES);
        self.landmarks.most_samples = self.landmarks.most_samples.min(LANDMARK_SAMPLES);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_chosen_stays() {
        let own = "[augmentation]\ncopies = 2\n[position]\ncopies = 3\n[refinement]\nborder = 0.25";
        let config = TrainConfig::from_toml(own).unwrap().quick();
        assert_eq!((config.augmentation.copies, config.position.copies), (Some(2), 3));
        assert_eq!((config.refinement.border, config.refinement.ridge), (Some(0.25), Some(RIDGE)));
        assert!(!config.certainty.measured && config.check().is_ok());
        let twice = config.clone().quick();
        assert_eq!(twice, config);
    }
}
