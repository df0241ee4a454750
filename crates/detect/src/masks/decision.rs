//! Which class a voxel gets, by how probable each one is.
//!
//! The most probable class makes fewest voxels wrong, but not the best Dice coefficient: that needs every
//! voxel whose label is more probable than half of the coefficient that is reached (Lipton, Elkan, Naryanaswamy:
//! Optimal thresholding of classifiers to maximize F1 measure, ECML PKDD 2014, theorem 1). So labels weigh more than the
//! background, by a factor that held-out cases choose.

/// The weight that changes nothing.
pub(crate) const EVEN: u32 = 4;

/// Weights to choose from: thresholds of 0.5, 0.44, 0.4, 0.36, 0.33, 0.29, 0.25 and 0.2.
pub(crate) const WEIGHTS: [u32; 8] = [EVEN, 5, 6, 7, 8, 10, 12, 16];

/// The most probable label where it outweighs the background, else the background, 0. Of equals the lowest.
/// `weight` is that of labels, in units of which the background has [`EVEN`].
pub(crate) fn decided<T: Copy + Into<u64>>(shares: &[T], weight: u32) -> usize {
    let share = |class: usize| -> u64 { shares[class].into() };
    let label = (2..shares.len()).fold(1, |best, c| if share(c) > share(best) { c } else { best });
    let outweighs = share(label) * u64::from(weight) > share(0) * u64::from(EVEN);
    if outweighs { label } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_weights_leave_the_most_probable_class() {
        for (shares, class) in
            [([5u32, 3, 2], 0), ([3, 4, 3], 1), ([3, 3, 4], 2), ([2, 4, 4], 1), ([4, 4, 2], 0)]
        {
            assert_eq!(decided(&shares, EVEN), class, "{shares:?}");
        }
    }

    #[test]
    fn more_weight_lowers_the_threshold_and_leaves_the_choice_between_labels() {
        assert_eq!(decided(&[66u32, 34], 2 * EVEN), 1);
        assert_eq!(decided(&[67u32, 33], 2 * EVEN), 0);
        assert_eq!(decided(&[60u32, 15, 25], 4 * EVEN), 2);
    }
}
