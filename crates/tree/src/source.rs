//! How growing gets at samples: feature ids in, integer responses out.

use crate::bins::BinnedMatrix;
use crate::weak::Weak;

/// Most responses that are asked for at a time (256 MB).
const RESPONSES_AT_A_TIME: usize = 64 << 20;

/// A set of samples and a pool of features. Both are known by number only, so a new family of features, or another kind of sample, needs
/// no change in this crate.
pub trait SampleSource: Sync {
    /// Number of samples.
    fn sample_count(&self) -> usize;

    /// Number of features.
    fn feature_count(&self) -> usize;

    /// Writes the responses of `features` for `samples` to `out[f * samples.len() + s]`, where `f` and `s` count places in the two lists.
    ///
    /// The lists are long (up to 256 MB of responses), `samples` are in rising order with possible repetitions. An implementation
    /// spreads the work over the threads itself, since it knows how its samples lie in memory, and must not depend on their number.
    fn respond(&self, features: &[u32], samples: &[u32], out: &mut [i32]);
}

/// The bins of `features` for `samples`, with at most [`RESPONSES_AT_A_TIME`] responses in memory.
pub(crate) fn binned_matrix(source: &dyn SampleSource, features: &[u32], samples: &[u32], percent: f64) -> BinnedMatrix {
    let mut matrix = BinnedMatrix::new(samples.len(), percent);
    let at_a_time = (RESPONSES_AT_A_TIME / samples.len().max(1)).clamp(1, features.len().max(1));
    let mut responses = vec![0; at_a_time * samples.len()];
    for features in features.chunks(at_a_time) {
        let responses = &mut responses[..features.len() * samples.len()];
        source.respond(features, samples, responses);
        matrix.push_features(responses);
    }
    matrix
}

/// The margins H = Σ α·h of `weaks` for `samples`, in units of 2⁻¹⁶.
pub(crate) fn margins(source: &dyn SampleSource, weaks: &[Weak], samples: &[u32]) -> Vec<i32> {
    let mut features: Vec<u32> = weaks.iter().map(|w| w.feature).collect();
    features.sort_unstable();
    features.dedup();
    let at_a_time = (RESPONSES_AT_A_TIME / 4 / features.len().max(1)).clamp(1, samples.len().max(1));
    let mut responses = vec![0; at_a_time * features.len()];
    let mut margins = vec![0; samples.len()];
    for (samples, margins) in samples.chunks(at_a_time).zip(margins.chunks_mut(at_a_time)) {
        let responses = &mut responses[..features.len() * samples.len()];
        source.respond(&features, samples, responses);
        for weak in weaks {
            let row = features.partition_point(|&f| f < weak.feature);
            weak.accumulate(&responses[row * samples.len()..][..samples.len()], margins);
        }
    }
    margins
}
