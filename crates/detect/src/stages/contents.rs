//! What a structure's box shows in training images, so that images of another kind are noticed.

use crate::DetectError;
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, levels_for};
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// Percent of a box's samples that lie below the intensities which describe it.
const BELOW: [usize; 5] = [10, 30, 50, 70, 90];

/// Fewest training cases to tell what is usual.
const FEWEST_CASES: usize = 6;

/// Spreads are larger by this, a hundredth of 12 bits: few cases may agree by chance.
const LEAST_SPREAD: f64 = 40.0;

/// So much farther off than any training case is by what the others show, and so many spreads at least: of
/// held-out training cases that calls 0.5 % unlike from 6 cases, 0.2 from 8 and 0.02 from 20
/// (docs/explanation/verification-and-scores.md, Images of another kind).
const FARTHER: f64 = 2.0;
const LEAST_LIMIT: f64 = 3.0;

/// What the box shows, as numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// Where the box is sampled.
    pub patch: Patch,
    /// The intensities of 12 bits below which 10, 30, 50, 70 and 90 % of the samples lie: means over
    /// training cases.
    pub means: [f64; 5],
    /// And their standard deviations.
    pub spreads: [f64; 5],
    /// A box whose intensities are farther from the means, in spreads and on average, is unlike those
    /// of the training.
    pub limit: f64,
}

impl Contents {
    /// Of the annotated boxes; `None` where there are too few.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn train<B: Backend>(
        input: &StageInput<'_, B>,
    ) -> Result<Option<Self>, DetectError> {
        let levels = levels_for(input.prior, input.working, &[11.5]);
        let grid = grid_for(input.prior, 9.0, 0.0);
        // Of several channels the first.
        let patch = Patch { grid, levels: levels[..1].to_vec(), edges: false };
        let originals = input.cases.iter().zip(input.images).filter(|(case, _)| !case.copy);
        let shown: Vec<[f64; 5]> = originals
            .map(|(case, image)| shown(input.backend, image, &patch, &case.pose))
            .collect::<Result<_, DetectError>>()?;
        Ok((shown.len() >= FEWEST_CASES).then(|| {
            let without = |left_out: usize| {
                let others = shown.iter().enumerate().filter(|(n, _)| *n != left_out);
                described(&others.map(|(_, shown)| *shown).collect::<Vec<_>>())
            };
            let farthest = (0..shown.len()).map(|n| distance(&without(n), &shown[n]));
            let farthest = farthest.fold(0.0, f64::max);
            let (means, spreads) = described(&shown);
            Self { patch, means, spreads, limit: (FARTHER * farthest).max(LEAST_LIMIT) }
        }))
    }

    /// Whether a box shows what is unlike the training images.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn are_unlike<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        pose: &Pose,
    ) -> Result<bool, DetectError> {
        let shown = shown(backend, image, &self.patch, pose)?;
        Ok(distance(&(self.means, self.spreads), &shown) > self.limit)
    }

    /// Whether all numbers are such as a training gives.
    pub(crate) fn is_valid(&self) -> bool {
        let spreads = LEAST_SPREAD..=2.0 * 4095.0;
        self.means.iter().all(|mean| (0.0..=4095.0).contains(mean))
            && self.spreads.iter().all(|spread| spreads.contains(spread))
            && (LEAST_LIMIT..=1e6).contains(&self.limit)
            && !self.patch.edges
            && self.patch.levels.len() == 1
    }
}

/// The intensities that describe a box.
fn shown<B: Backend>(
    backend: &B,
    image: &B::Image,
    patch: &Patch,
    pose: &Pose,
) -> Result<[f64; 5], DetectError> {
    let mut values = vec![0; patch.len()];
    let site = PoseSite { image: 0, pose: *pose };
    backend.patches(&[image], patch, &[site], &mut values)?;
    values.sort_unstable();
    Ok(BELOW.map(|percent| values[percent * (values.len() - 1) / 100].into()))
}

/// Means and spreads.
fn described(shown: &[[f64; 5]]) -> ([f64; 5], [f64; 5]) {
    let n = shown.len() as f64;
    let of = |q: usize| shown.iter().map(move |values| values[q]);
    let means = [0, 1, 2, 3, 4].map(|q| of(q).sum::<f64>() / n);
    let variance =
        |q: usize| of(q).map(|v| (v - means[q]) * (v - means[q])).sum::<f64>() / (n - 1.0);
    (means, [0, 1, 2, 3, 4].map(|q| variance(q).sqrt() + LEAST_SPREAD))
}

fn distance((means, spreads): &([f64; 5], [f64; 5]), shown: &[f64; 5]) -> f64 {
    (0..5).map(|q| (shown[q] - means[q]).abs() / spreads[q]).sum::<f64>() / 5.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_lies_among_the_others_is_near() {
        let shown: Vec<[f64; 5]> =
            (0..9).map(|n| [100.0, 200.0, 300.0, 400.0, 500.0].map(|v| v + f64::from(n))).collect();
        let all = described(&shown);
        assert_eq!(all.0, [104.0, 204.0, 304.0, 404.0, 504.0]);
        assert!((all.1[0] - LEAST_SPREAD - 7.5f64.sqrt()).abs() < 1e-9);
        assert!(distance(&all, &shown[4]) < 1e-9);
        assert!(distance(&all, &[504.0, 404.0, 304.0, 204.0, 104.0]) > 4.0);
    }
}
