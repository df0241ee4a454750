//! Random streams, the same on every platform.
//!
//! Every purpose has a stream of its own, and every structure and item within it: which seed a
//! stream starts from follows from a hash of them all. So trainings with different seeds share no
//! numbers, and neither do the structures and stages of one training.

use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use pbt_volume::{positive, rotation_from_vector};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
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
}

impl Seeds {
    /// Of the structure with this index.
    pub(crate) fn of_structure(seed: u64, structure: usize) -> Self {
        Self { seed, structure: structure as u64 }
    }

    /// Of what belongs to no structure.
    pub(crate) fn of_all(seed: u64) -> Self {
        Self { seed, structure: u64::MAX }
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
        Random(ChaCha8Rng::from_seed(self.hash(stream, index as u64)))
    }
}

/// Random numbers of one stream.
#[derive(Debug)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// The stream that starts from this seed.
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Numbers for a test.
    #[cfg(test)]
    pub(crate) fn for_test(seed: u64) -> Self {
        Seeds::of_all(seed).random(Stream::Test, 0)
    }

    /// Uniform in [0, 1) with 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Normal with mean 0 and standard deviation 1, nearly: twelve uniform numbers less six, so
    /// never beyond six.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Uniform in `0..n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// A direction, uniform on the sphere.
    pub(crate) fn direction(&mut self) -> Vector3<f64> {
        let z = self.between(-1.0, 1.0);
        let (sin, cos) = libm::sincos(self.between(0.0, core::f64::consts::TAU));
        let r = (1.0 - z * z).max(0.0).sqrt();
        Vector3::new(r * cos, r * sin, z)
    }

    /// A vector uniform in the ball of this radius.
    pub(crate) fn in_ball(&mut self, radius: f64) -> Vector3<f64> {
        let r = radius * libm::cbrt(self.uniform());
        self.direction() * r
    }

    /// A rotation uniform in SO(3) (Shoemake 1992).
    pub(crate) fn rotation(&mut self) -> UnitQuaternion<f64> {
        let (u, v, w) = (self.uniform(), self.uniform(), self.uniform());
        let (sin_v, cos_v) = libm::sincos(core::f64::consts::TAU * v);
        let (sin_w, cos_w) = libm::sincos(core::f64::consts::TAU * w);
        let (a, b) = ((1.0 - u).sqrt(), u.sqrt());
        positive(UnitQuaternion::new_normalize(Quaternion::new(
            b * cos_w,
            a * sin_v,
            a * cos_v,
            b * sin_w,
        )))
    }

    /// A rotation by an angle uniform in [low, high) radians about a uniform axis.
    pub(crate) fn rotation_by(&mut self, low: f64, high: f64) -> UnitQuaternion<f64> {
        let angle = self.between(low, high);
        rotation_from_vector(self.direction() * angle)
    }
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
                        first.insert(seeds.random(stream, index).0.next_u64());
                        first.insert(seeds.derive(stream, index));
                    }
                }
            }
        }
        assert_eq!(first.len(), 4 * 3 * streams.len() * 4 * 2);
    }
}
