//! The weak classifier: one feature, 64 bins, one output bit a bin.

use crate::bins::Bounds;
use serde::{Deserialize, Serialize};

/// Fractional bits of [`Weak::alpha`] and of every margin.
pub const ALPHA_BITS: u32 = 16;

/// A weak classifier. A threshold is the special case whose positive bins are a prefix or a suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weak {
    /// Which feature: an index into whatever list of features the model keeps.
    pub feature: u32,
    /// The range of responses that the bins divide.
    pub bounds: Bounds,
    /// Bit `b` is set when bin `b` votes +1; otherwise it votes −1.
    pub votes: u64,
    /// Weight of the vote, in units of 2⁻¹⁶ ([`ALPHA_BITS`]); never negative.
    pub alpha: i32,
}

/// A threshold on the raw response: votes +1 when `(x >= first) == above`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The lowest response on the upper side.
    pub first: i32,
    /// Whether the upper side votes +1.
    pub above: bool,
}

impl Threshold {
    /// Whether a response gets +1.
    pub fn vote(&self, x: i32) -> bool {
        (x >= self.first) == self.above
    }
}

impl Weak {
    /// Whether a response gets +1.
    pub fn vote(&self, x: i32) -> bool {
        (self.votes >> self.bounds.bin(x)) & 1 == 1
    }

    /// The contribution of a response to the margin: +alpha or −alpha.
    pub fn signed_alpha(&self, x: i32) -> i32 {
        if self.vote(x) { self.alpha } else { -self.alpha }
    }

    /// Adds [`Weak::signed_alpha`] of each response to the margin in the same place.
    pub fn accumulate(&self, responses: &[i32], margins: &mut [i32]) {
        let signed = |vote: bool| if vote { self.alpha } else { -self.alpha };
        if let Some(threshold) = self.as_threshold() {
            let (above, below) = (signed(threshold.above), signed(!threshold.above));
            for (margin, &x) in margins.iter_mut().zip(responses) {
                *margin += if x >= threshold.first { above } else { below };
            }
        } else {
            let multiplier = self.bounds.multiplier();
            for (margin, &x) in margins.iter_mut().zip(responses) {
                *margin += signed((self.votes >> self.bounds.bin_with(multiplier, x)) & 1 == 1);
            }
        }
    }

    /// The same classifier as a comparison of the raw response, when its positive bins are a prefix
    /// or a suffix: this saves binning.
    pub fn as_threshold(&self) -> Option<Threshold> {
        let (edge, above) = if self.votes & 1 == 0 {
            (self.votes.trailing_zeros(), true)
        } else {
            (self.votes.trailing_ones(), false)
        };
        // From the edge on all bits must agree.
        let upper = u64::MAX.checked_shl(edge).unwrap_or(0);
        let expected = if above { upper } else { !upper };
        if self.votes != expected {
            return None;
        }
        // No response above the edge: the lower side's vote is the vote of all.
        let first = if edge < 64 { self.bounds.first_in_bin(edge as u8) } else { None };
        Some(first.map_or(Threshold { first: i32::MIN, above: !above }, |first| Threshold {
            first,
            above,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn threshold_form_votes_alike(lo in -300i32..300, span in 1i32..500, edge in 0u32..=64, above: bool, x in -1000i32..1000) {
            let upper = u64::MAX.checked_shl(edge).unwrap_or(0);
            let weak = Weak { feature: 0, bounds: Bounds::new(lo, lo + span), votes: if above { upper } else { !upper }, alpha: 1 };
            let threshold = weak.as_threshold().expect("a prefix or a suffix");
            for x in [x, lo - 1, lo, lo + span, lo + span + 1, i32::MIN, i32::MAX] {
                prop_assert_eq!(threshold.vote(x), weak.vote(x));
            }
        }
    }

    proptest! {
        #[test]
        fn many_responses_at_once(lo in -300i32..300, span in 1i32..500, votes in prop_oneof![any::<u64>(), Just(!0 << 20), Just(0)], x in prop::collection::vec(any::<i32>(), 0..40)) {
            let weak = Weak { feature: 0, bounds: Bounds::new(lo, lo + span), votes, alpha: 9 };
            let x: Vec<i32> = x.iter().map(|x| x >> 22).collect();
            let mut margins: Vec<i32> = (0..x.len() as i32).collect();
            weak.accumulate(&x, &mut margins);
            for (i, &x) in x.iter().enumerate() {
                prop_assert_eq!(margins[i], i as i32 + weak.signed_alpha(x));
            }
        }
    }

    #[test]
    fn other_masks_are_no_thresholds() {
        for votes in [0b101u64, 0b110, !0 ^ 0b10, 1 | 1 << 63] {
            assert_eq!(
                Weak { feature: 0, bounds: Bounds::new(0, 63), votes, alpha: 1 }.as_threshold(),
                None
            );
        }
    }
}
