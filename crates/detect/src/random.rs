//! Which random numbers a training draws.
//!
//! Every purpose has a stream of its own, and every structure and item within it: which seed a
//! stream starts from follows from a hash of them all. So trainings with different seeds share no
//! numbers, and neither do the structures and stages of one training.

use pbt_volume::Random;
use sha2::{Digest, Sha256};

/// What random numbers are for. The names are part of the hash: to rename one changes all models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Augmented copies of the training cases, by copy.
    Augmentation { copy: usize },
    /// Resampled copies of a case for the position stage.
    PositionCopies,
    /// Negatives of the position stage.
    PositionNegatives,
    /// Where the search for mistakes of the first position classifier begins.
    PositionMistakes,
    /// The pool of Haar features.
    HaarPool,
    /// The classifiers of the position stage: the first, and the one that learns from its mistakes.
    PositionClassifier,
    /// Hypotheses that the orientation stage learns from.
    OrientationHypotheses,
    /// The classifiers of the orientation stage, one after another.
    OrientationClassifier,
    /// Poses that a regressor of the cascade learns from.
    RegressorPoses { regressor: usize },
    /// Poses that a regressor learns from to compare settings.
    SettingsPoses,
    /// Poses from which regressors start to compare settings.
    SettingsStarts,
    /// Poses that a classification pass learns from.
    PassPoses { pass: usize },
    /// The classifiers of the passes.
    PassClassifier,
    /// Hypotheses that a pass draws when it is applied.
    PassHypotheses,
    /// Poses near the truth from which held-out refinements start.
    HeldOutStarts,
    /// Poses that verification learns from.
    VerificationPoses,
    /// The classifiers of verification: 0 for all cases, then one a fold.
    VerificationClassifier,
    /// Frames and points that a landmark regressor learns from.
    LandmarkPoses { regressor: usize, landmark: usize },
    /// The trees of a landmark regressor, by landmark.
    LandmarkTrees { regressor: usize },
    /// Voxels that a forest of regions learns from, by case.
    RegionSamples,
    /// The features of a forest of regions.
    RegionFeatures,
    /// The trees of a forest of regions.
    RegionTrees,
    /// Frames that masks are learned in.
    MaskFrames,
    /// Voxels that masks are learned from, by frame.
    MaskSamples { round: usize },
    /// The features of masks.
    MaskFeatures { round: usize },
    /// The trees of masks.
    MaskTrees { round: usize },
    /// Chains that the level shift test learns from.
    LevelShiftPoses,
    /// Numbers for tests.
    #[cfg(test)]
    Test,
}

/// The seeds of the training of one structure, or of what concerns all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    seed: u64,
    structure: u64,
    /// What is drawn stays in the plane of images of one slice.
    in_plane: bool,
}

impl Seeds {
    /// Of the structure with this index.
    pub(crate) fn of_structure(seed: u64, structure: usize) -> Self {
        Self { seed, structure: structure as u64, in_plane: false }
    }

    /// Of what belongs to no structure.
    pub(crate) fn of_all(seed: u64) -> Self {
        Self { seed, structure: u64::MAX, in_plane: false }
    }

    /// The same, for images of one slice where `in_plane` is set.
    pub(crate) fn in_plane(self, in_plane: bool) -> Self {
        Self { in_plane, ..self }
    }

    fn hash(self, stream: Stream, index: u64) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(format!("{stream:?}"));
        for number in [self.seed, self.structure, index] {
            hash.update(number.to_le_bytes());
        }
        hash.finalize().into()
    }

    /// A seed for what derives streams of its own: pools and classifiers.
    pub(crate) fn derive(self, stream: Stream, index: usize) -> u64 {
        let hash = self.hash(stream, index as u64);
        hash[..8].iter().rev().fold(0, |seed, &byte| seed << 8 | u64::from(byte))
    }

    /// The random numbers of one item of a stream.
    pub(crate) fn random(self, stream: Stream, index: usize) -> Random {
        Random::from_hash(self.hash(stream, index as u64)).in_plane(self.in_plane)
    }
}

/// Numbers for a test.
#[cfg(test)]
pub(crate) fn test_random(seed: u64) -> Random {
    Seeds::of_all(seed).random(Stream::Test, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_streams_share_numbers() {
        let streams = [
            Stream::PositionCopies,
            Stream::RegressorPoses { regressor: 0 },
            Stream::RegressorPoses { regressor: 1 },
            Stream::LandmarkPoses { regressor: 0, landmark: 1 },
            Stream::LandmarkPoses { regressor: 1, landmark: 0 },
        ];
        let mut first = BTreeSet::new();
        for seed in 0..4 {
            for structure in 0..3 {
                for stream in streams {
                    for index in 0..4 {
                        let seeds = Seeds::of_structure(seed, structure);
                        first.insert(seeds.random(stream, index).uniform().to_bits());
                        first.insert(seeds.derive(stream, index));
                    }
                }
            }
        }
        assert_eq!(first.len(), 4 * 3 * streams.len() * 4 * 2);
    }
}
