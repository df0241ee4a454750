//! What boosted trees learn from: how the loss of a sample changes with its scores.

use crate::label::leaves::LEAF_ONE;

/// Fractional bits of gradients and curvatures.
pub const SLOPE_BITS: u32 = 14;

/// A test that makes the loss fall by less than this is rounding and counts as none.
pub const LEAST_FALL: f64 = 1e-6;

/// What [`slope`] shifts by.
const SHARE_BITS: u32 = LEAF_ONE.ilog2();
const _: () = assert!(LEAF_ONE == 1 << SHARE_BITS && SHARE_BITS == SLOPE_BITS + 1);

/// Gradient and curvature of the cross-entropy of a sample by the score of a class, p − y and
/// p·(1 − p) rounded half away from zero, the curvature at least one step; from the class's
/// share of [`LEAF_ONE`], and whether the sample is of that class.
#[inline]
pub(crate) fn slope(share: u32, is_of_class: bool) -> [i32; 2] {
    // A share has one bit more than a gradient.
    let twice = share as i32 - if is_of_class { LEAF_ONE as i32 } else { 0 };
    let curve = (share * (LEAF_ONE - share) + LEAF_ONE) >> (SHARE_BITS + 1);
    [(twice + twice.signum()) / 2, curve.max(1) as i32]
}

/// Twice how much the loss falls by the best scores of a leaf with these sums of slopes,
/// `[class − 1][2]`, nats: Σ G²/(H + λ).
pub(crate) fn worth(sums: &[i64], ridge: f64) -> f64 {
    let one = f64::from(1 << SLOPE_BITS);
    let of = |pair: &[i64]| {
        let (gradient, curve) = (pair[0] as f64 / one, pair[1] as f64 / one);
        gradient * gradient / (curve + ridge)
    };
    sums.chunks_exact(2).map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_cross_entropy() {
        let one = f64::from(1 << SLOPE_BITS);
        for share in 0..=LEAF_ONE {
            let p = f64::from(share) / f64::from(LEAF_ONE);
            for y in [0.0, 1.0] {
                let [gradient, curve] = slope(share, y == 1.0);
                assert_eq!(f64::from(gradient), ((p - y) * one).round());
                assert_eq!(f64::from(curve), (p * (1.0 - p) * one).round().max(1.0));
            }
        }
    }
}
