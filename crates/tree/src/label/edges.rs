//! The thresholds that a feature's bins divide at, drawn from responses.

use pbt_features::MISSING;

/// Bins of a feature in label training, the one of missing responses included.
pub const LABEL_BINS: usize = 64;

/// The bin of a response that is missing.
pub const MISSING_BIN: u8 = LABEL_BINS as u8 - 1;

/// Most edges of a feature: one fewer than bins of responses.
const MOST_EDGES: usize = LABEL_BINS - 2;

/// Edges of one feature, rising: bin `b` holds the responses from edge `b − 1` up to but not
/// including edge `b`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edges(Vec<i64>);

impl Edges {
    /// At most `MOST_EDGES` edges at equal ranks of these responses, in any order; missing ones do
    /// not count.
    pub fn of_responses(mut responses: Vec<i64>) -> Self {
        responses.retain(|&r| r != MISSING);
        responses.sort_unstable();
        let n = responses.len();
        let edges = (1..=MOST_EDGES).filter_map(|e| responses.get(e * n / (MOST_EDGES + 1)));
        let mut edges: Vec<i64> = edges.copied().collect();
        edges.dedup();
        // Nothing lies below the smallest response.
        if !edges.is_empty() && edges.first() == responses.first() {
            edges.remove(0);
        }
        Self(edges)
    }

    /// The edges, rising.
    pub fn as_slice(&self) -> &[i64] {
        &self.0
    }

    /// The bin of a response.
    pub fn bin(&self, response: i64) -> u8 {
        if response == MISSING {
            return MISSING_BIN;
        }
        self.0.partition_point(|&edge| edge <= response) as u8
    }

    /// Number of bins without that of missing responses.
    pub fn bins(&self) -> usize {
        self.0.len() + 1
    }

    /// The responses in the bins `first..=last`: from the first value up to but not including the
    /// second. Beyond the outermost edges lies every response that is not missing.
    pub fn range(&self, first: usize, last: usize) -> [i64; 2] {
        let low = first.checked_sub(1).map_or(MISSING + 1, |edge| self.0[edge]);
        [low, self.0.get(last).copied().unwrap_or(i64::MAX)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_and_ranges_agree(
            responses in prop::collection::vec(prop_oneof![8 => -50i64..50, 1 => Just(MISSING)], 0..300),
            asked in -60i64..60, a in 0usize..64, b in 0usize..64,
        ) {
            let edges = Edges::of_responses(responses);
            let bin = usize::from(edges.bin(asked));
            prop_assert!(bin < edges.bins() && edges.bins() < LABEL_BINS);
            let (first, last) = (a.min(b).min(edges.bins() - 1), a.max(b).min(edges.bins() - 1));
            let [low, high] = edges.range(first, last);
            prop_assert_eq!((low..high).contains(&asked), (first..=last).contains(&bin));
            prop_assert!(!(low..high).contains(&MISSING));
            prop_assert_eq!(edges.bin(MISSING), MISSING_BIN);
        }
    }

    #[test]
    fn many_distinct_responses_fill_bins_evenly() {
        let edges = Edges::of_responses((0..6300).rev().collect());
        assert_eq!(edges.bins(), LABEL_BINS - 1);
        let mut counts = [0; LABEL_BINS];
        (0..6300).for_each(|r| counts[usize::from(edges.bin(r))] += 1);
        assert!(counts[..LABEL_BINS - 1].iter().all(|&n| n == 100), "{counts:?}");
    }
}
