//! From integer responses to 64 equal-width bins, and the matrix of bins that boosting reads.

use crate::device_error::DeviceError;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Number of bins of every feature. A weak classifier keeps one output bit a bin, so that its votes
/// fill one `u64`.
pub const BINS: usize = 64;
/// A bin is its response's distance from the lower bound times ⌊2³⁸/(hi − lo + 1)⌋, over 2³².
pub const BIN_MULTIPLIER_BITS: u32 = 38;

/// Most responses that are asked for at a time (256 MB).
const RESPONSES_AT_A_TIME: usize = 64 << 20;

/// The range of responses that the bins divide; a response outside falls into the first or the last
/// bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bounds {
    /// Lowest response of the first bin.
    pub lo: i32,
    /// Highest response of the last bin. Must be above `lo`.
    pub hi: i32,
}

impl Bounds {
    /// Bounds from a response to another; where they coincide they are moved apart by one, so that
    /// `lo < hi` always holds.
    pub fn new(a: i32, b: i32) -> Self {
        let (lo, hi) = (a.min(b), a.max(b));
        match (lo == hi, hi.checked_add(1)) {
            (false, _) => Self { lo, hi },
            (true, Some(hi)) => Self { lo, hi },
            (true, None) => Self { lo: lo - 1, hi },
        }
    }

    /// The range of `responses` after a share of them (`percent` of 100) is cut off at either end;
    /// 0 keeps minimum and maximum.
    ///
    /// The order statistics are those of rank ⌊n·percent/100⌋ from below and from above. `scratch`
    /// only saves an allocation. No responses give the bounds of zero.
    pub fn of_percentiles(responses: &[i32], percent: f64, scratch: &mut Vec<i32>) -> Self {
        let n = responses.len();
        if n == 0 {
            return Self::new(0, 0);
        }
        let rank = BinnedMatrix::cut_rank(n, percent);
        if rank == 0 {
            let (lo, hi) =
                responses.iter().fold((i32::MAX, i32::MIN), |(lo, hi), &x| (lo.min(x), hi.max(x)));
            return Self::new(lo, hi);
        }
        scratch.clear();
        scratch.extend_from_slice(responses);
        let (_, lo, above) = scratch.select_nth_unstable(rank);
        let lo = *lo;
        // Of the n − rank − 1 values above, the one of rank `rank` from the top; none are above
        // when n = 2·rank + 1.
        let hi = if above.len() > rank {
            *above.select_nth_unstable(n - 1 - rank - (rank + 1)).1
        } else {
            lo
        };
        Self::new(lo, hi)
    }

    /// m = ⌊2³⁸/(hi − lo + 1)⌋, the factor that turns a distance from `lo` into a bin after a shift
    /// by 32.
    pub fn multiplier(&self) -> u64 {
        (1u64 << BIN_MULTIPLIER_BITS) / (self.hi as i64 - self.lo as i64 + 1) as u64
    }

    /// The bin of a response: `((clamp(x, lo, hi) − lo)·m) >> 32`, from 0 to 63, rising with `x`.
    /// (The edges are equidistant to one part in m, which matters only for ranges near 2³².)
    pub fn bin(&self, x: i32) -> u8 {
        self.bin_with(self.multiplier(), x)
    }

    /// [`Bounds::bin`] with a multiplier that was computed before, which saves the division.
    pub fn bin_with(&self, multiplier: u64, x: i32) -> u8 {
        let distance = (x.max(self.lo).min(self.hi) as i64 - self.lo as i64) as u64;
        ((distance * multiplier) >> 32) as u8
    }

    /// The lowest response whose bin is `bin` or a higher one; `None` when no response gets there.
    pub fn first_in_bin(&self, bin: u8) -> Option<i32> {
        if bin == 0 {
            return Some(i32::MIN);
        }
        let distance = ((bin as u64) << 32).div_ceil(self.multiplier());
        let first = self.lo as i64 + distance as i64;
        (first <= self.hi as i64).then_some(first as i32)
    }
}

/// Bins of every (feature, sample), feature-major: what a boosting node trains on.
#[derive(Debug, Clone)]
pub struct BinnedMatrix {
    samples: usize,
    percent: f64,
    bounds: Vec<Bounds>,
    bins: Vec<u8>,
}

impl BinnedMatrix {
    /// A matrix without features yet, for `samples` samples; `percent` of the responses is cut off
    /// at either end of a feature's range.
    pub fn new(samples: usize, percent: f64) -> Self {
        Self { samples, percent, bounds: Vec::new(), bins: Vec::new() }
    }

    /// The bins of `features` for `samples` samples, with at most 256 MB of responses in memory:
    /// `respond` writes those of some of the features, `[feature][sample]`.
    ///
    /// # Errors
    /// That of `respond`.
    pub fn from_responses<F>(
        features: &[F],
        samples: usize,
        percent: f64,
        mut respond: impl FnMut(&[F], &mut [i32]) -> Result<(), DeviceError>,
    ) -> Result<Self, DeviceError> {
        let mut matrix = Self::new(samples, percent);
        let at_a_time = (RESPONSES_AT_A_TIME / samples.max(1)).clamp(1, features.len().max(1));
        let mut responses = vec![0; at_a_time * samples];
        for features in features.chunks(at_a_time) {
            let responses = &mut responses[..features.len() * samples];
            respond(features, responses)?;
            matrix.push_features(responses);
        }
        Ok(matrix)
    }

    /// Adds features from their responses `[feature][sample]`, in parallel. A last incomplete
    /// feature is not taken.
    pub fn push_features(&mut self, responses: &[i32]) {
        if self.samples == 0 {
            return;
        }
        let (n, percent) = (self.samples, self.percent);
        let start = self.bins.len();
        let count = responses.len() / n;
        self.bins.resize(start + count * n, 0);
        let bounds: Vec<Bounds> = self.bins[start..]
            .par_chunks_exact_mut(n)
            .zip(responses.par_chunks_exact(n))
            .map_init(Vec::new, |scratch, (row, responses)| {
                let bounds = Bounds::of_percentiles(responses, percent, scratch);
                let multiplier = bounds.multiplier();
                for (bin, &x) in row.iter_mut().zip(responses) {
                    *bin = bounds.bin_with(multiplier, x);
                }
                bounds
            })
            .collect();
        self.bounds.extend(bounds);
    }

    /// The rank of the order statistics, from below and from above, that bound the bins when
    /// `percent` of `samples` responses is cut off at either end.
    pub fn cut_rank(samples: usize, percent: f64) -> usize {
        // A product, a quotient and a floor are exact in IEEE arithmetic, so the rank is the same
        // everywhere.
        ((samples as f64 * percent / 100.0).floor() as usize).min(samples.saturating_sub(1) / 2)
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.bounds.len()
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// The bins of a feature, one a sample, each below 64.
    pub fn row(&self, feature: usize) -> &[u8] {
        &self.bins[feature * self.samples..(feature + 1) * self.samples]
    }

    /// All bins, `[feature][sample]`.
    pub fn as_slice(&self) -> &[u8] {
        &self.bins
    }

    /// The range of a feature's bins.
    pub fn bounds(&self, feature: usize) -> Bounds {
        self.bounds[feature]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extreme_ranges() {
        for bounds in [
            Bounds::new(i32::MIN, i32::MAX),
            Bounds::new(i32::MAX, i32::MAX),
            Bounds::new(i32::MIN, i32::MIN),
            Bounds::new(0, 63),
        ] {
            assert!(bounds.lo < bounds.hi);
            assert_eq!(bounds.bin(i32::MIN), 0);
            assert!(bounds.bin(i32::MAX) < 64);
        }
        let full = Bounds::new(i32::MIN, i32::MAX);
        assert_eq!(full.bin(i32::MAX), 63);
        assert_eq!(full.bin(0), 32);
        let exact = Bounds::new(0, 63);
        assert!((0..64).all(|x| exact.bin(x) == x as u8));
    }

    proptest! {
        #[test]
        fn bins_are_equal_width(a: i32, b: i32, x: i32) {
            let bounds = Bounds::new(a, b);
            let (lo, hi) = (bounds.lo as f64, bounds.hi as f64);
            let width = (hi - lo + 1.0) / 64.0;
            let position = ((x as f64).clamp(lo, hi) - lo) / width;
            let bin = bounds.bin(x) as f64;
            prop_assert!(bin < 64.0);
            // Rounding the multiplier m down shrinks the position by less than one part in m.
            let shrunk = position * (1.0 - 1.0 / bounds.multiplier() as f64);
            prop_assert!(bin <= position + 1e-6 && bin > shrunk - 1.0 - 1e-6, "{bin} at {position}");
        }

        #[test]
        fn first_in_bin_is_the_edge(a in -5000i32..5000, span in 1i32..10000, bin in 0u8..64) {
            let bounds = Bounds::new(a, a + span);
            let by_search = (bounds.lo..=bounds.hi).find(|&x| bounds.bin(x) >= bin);
            if bin == 0 {
                prop_assert_eq!(bounds.first_in_bin(0), Some(i32::MIN));
            } else {
                prop_assert_eq!(bounds.first_in_bin(bin), by_search);
            }
        }

        #[test]
        fn percentiles_are_order_statistics(mut x in prop::collection::vec(-1000i32..1000, 1..300), percent in 0.0f64..50.0) {
            let bounds = Bounds::of_percentiles(&x, percent, &mut Vec::new());
            x.sort();
            let rank = ((x.len() as f64 * percent / 100.0).floor() as usize).min((x.len() - 1) / 2);
            prop_assert_eq!(bounds, Bounds::new(x[rank], x[x.len() - 1 - rank]));
        }
    }

    #[test]
    fn matrix_holds_bins_of_each_feature() {
        let mut matrix = BinnedMatrix::new(3, 0.0);
        matrix.push_features(&[0, 32, 63, 5, 5, 5]);
        matrix.push_features(&[-63, 0, -32]);
        assert_eq!((matrix.features(), matrix.samples()), (3, 3));
        assert_eq!(matrix.row(0), [0, 32, 63]);
        assert_eq!(matrix.row(1), [0, 0, 0]);
        assert_eq!(matrix.row(2), [0, 63, 31]);
        assert_eq!(matrix.bounds(2), Bounds { lo: -63, hi: 0 });
    }
}
