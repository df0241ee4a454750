//! How good a mask is: what its own probabilities say of its overlap with the truth, and between
//! which bounds its volume lies.

use crate::certainty::conformal::radius_90;
use crate::masks::decision::decided;
use pbt_linear::{LinearMap, RegressionProblem};
use pbt_tree::LEAF_ONE;
use std::collections::BTreeMap;

/// What held-out masks say of masks.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// From what a mask's probabilities say to the Dice coefficient.
    pub dice: LinearMap<i32>,
    /// Held-out masks with a lower predicted Dice are one in twenty.
    pub doubtful_below: f64,
    /// Where less is predicted of every label of a box, its place is doubtful, if they move it or its
    /// landmarks.
    pub box_doubtful_below: f64,
    /// By class from 1 on: in 90 % of new cases the logarithm of the ratio of the true volume and
    /// the mask's lies within this of 0 (split conformal, by subject); `None` below nine subjects.
    pub log_volume_90: Vec<Option<f64>>,
}

/// A label of a mask of a box that was held out.
pub(crate) struct HeldOutMask {
    pub(crate) subject: usize,
    /// From 1 on.
    pub(crate) class: usize,
    pub(crate) signs: Vec<i16>,
    pub(crate) dice: f64,
    /// Log of the true volume over the mask's.
    pub(crate) log_volume: f64,
}

/// Number of [`signs`].
pub(crate) const SIGNS: usize = 3;

/// Units of a share in [`signs`].
const UNITS: f64 = 2000.0;

/// A box is doubtful for its labels where so much less is predicted than of the middle one of held-out
/// masks: where all masks are nearly the same, a little less says nothing of the place.
const CLEARLY_LESS: f64 = 0.1;

/// Penalty on the map, as a share of the mean variance of a sign.
const RIDGE: f64 = 0.01;

/// What a mask's probabilities say of the quality of one label: the overlap that is expected if they
/// are right, 2·Σ p over the mask / (Σ p + voxels of the mask), the mean probability in the mask, and
/// the overlap with what is likely before the image is seen.
pub(crate) fn signs(
    shares: &[u32],
    (classes, class): (usize, usize),
    label_weight: u32,
    likely: &[bool],
) -> Vec<i16> {
    let (mut all, mut within, mut voxels, mut both, mut prior) = (0u64, 0u64, 0u64, 0u64, 0u64);
    for (shares, &likely) in shares.chunks_exact(classes).zip(likely) {
        let own = u64::from(shares[class]);
        let in_mask = decided(shares, label_weight) == class;
        all += own;
        prior += u64::from(likely);
        if in_mask {
            within += own;
            voxels += 1;
            both += u64::from(likely);
        }
    }
    let one = f64::from(LEAF_ONE);
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let expected = ratio(2.0 * within as f64 / one, all as f64 / one + voxels as f64);
    let mean = ratio(within as f64 / one, voxels as f64);
    let alike = ratio(2.0 * both as f64, (voxels + prior) as f64);
    [expected, mean, alike].iter().map(|sign| libm::round(sign * UNITS) as i16).collect()
}

impl Quality {
    /// From masks of held-out boxes; `None` without any.
    pub(crate) fn new(masks: &[HeldOutMask], labels: usize) -> Option<Self> {
        masks.first()?;
        let signs: Vec<i16> = masks.iter().flat_map(|mask| mask.signs.iter().copied()).collect();
        let targets: Vec<f64> = masks.iter().map(|mask| mask.dice).collect();
        let dice: LinearMap<i32> = RegressionProblem::new(signs, SIGNS, &[targets]).solve(RIDGE);
        let mut predicted: Vec<f64> = masks.iter().map(|mask| of(&dice, &mask.signs)).collect();
        predicted.sort_by(f64::total_cmp);
        let (low, middle) = (predicted[masks.len() / 20], predicted[masks.len() / 2]);
        let log_volume_90 = (1..=labels)
            .map(|class| {
                // Of several masks of a subject the worst counts.
                let mut worst: BTreeMap<usize, f64> = BTreeMap::new();
                for mask in masks.iter().filter(|mask| mask.class == class) {
                    let error = worst.entry(mask.subject).or_insert(0.0);
                    *error = error.max(mask.log_volume.abs());
                }
                radius_90(&worst.into_values().collect::<Vec<_>>())
            })
            .collect();
        let box_doubtful_below = (2.0 * low - middle).min(middle - CLEARLY_LESS).max(0.0);
        Some(Self { dice, doubtful_below: low, box_doubtful_below, log_volume_90 })
    }

    /// The Dice coefficient to expect of a mask with these signs.
    pub(crate) fn predicted_dice(&self, signs: &[i16]) -> f64 {
        of(&self.dice, signs)
    }
}

fn of(map: &LinearMap<i32>, signs: &[i16]) -> f64 {
    map.apply(signs)[0].clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masks::decision::EVEN;
    use crate::random::test_random;

    #[test]
    fn sure_masks_are_expected_to_be_good() {
        let likely = vec![true; 10];
        let of = |p: f64| -> Vec<u32> {
            let own = (p * f64::from(LEAF_ONE)) as u32;
            (0..10).flat_map(|_| [LEAF_ONE - own, own]).collect()
        };
        assert_eq!(signs(&of(1.0), (2, 1), EVEN, &likely), [2000, 2000, 2000]);
        assert_eq!(signs(&of(0.0), (2, 1), EVEN, &likely), [0, 0, 0]);
        // 2 · 6 / (6 + 10).
        assert_eq!(signs(&of(0.6), (2, 1), EVEN, &likely), [1500, 1200, 2000]);
    }

    #[test]
    fn dice_is_predicted_where_signs_tell_and_volumes_have_bounds() {
        let mut random = test_random(3);
        let masks: Vec<HeldOutMask> = (0..40)
            .map(|n| {
                let dice = random.between(0.6, 0.95);
                let sign = |noise: f64| ((dice + noise) * UNITS) as i16;
                HeldOutMask {
                    subject: n / 2,
                    class: 1,
                    signs: vec![sign(0.01), sign(-0.02), sign(random.between(-0.1, 0.1))],
                    dice,
                    log_volume: 0.01 * (n / 2) as f64,
                }
            })
            .collect();
        let quality = Quality::new(&masks, 1).unwrap();
        for mask in &masks {
            assert!((quality.predicted_dice(&mask.signs) - mask.dice).abs() < 0.02);
        }
        // The 19th of 20 subjects.
        assert!((quality.log_volume_90[0].unwrap() - 0.18).abs() < 1e-9);
        assert!((0.55..0.7).contains(&quality.doubtful_below));
        // As far below that as it is below the middle, 0.78.
        assert!(
            (0.4..0.55).contains(&quality.box_doubtful_below),
            "{}",
            quality.box_doubtful_below
        );
        assert!(Quality::new(&[], 1).is_none());
    }
}
