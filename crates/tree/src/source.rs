//! How growing gets at samples: feature ids in, integer responses out.

use crate::bins::BinnedMatrix;
use crate::boost::{BoostTask, Booster};
use crate::device_error::DeviceError;
use crate::weak::Weak;

/// Most responses that margins are summed from at a time (64 MB).
const RESPONSES_AT_A_TIME: usize = 16 << 20;

/// A set of samples and a pool of features. Both are known by number only, so a new family of
/// features, or another kind of sample, needs no change in this crate.
pub trait SampleSource: Sync {
    /// Number of samples.
    fn sample_count(&self) -> usize;

    /// Number of features.
    fn feature_count(&self) -> usize;

    /// Writes the responses of `features` for `samples` to `out[f * samples.len() + s]`, where `f`
    /// and `s` count places in the two lists.
    ///
    /// The lists are long (up to 256 MB of responses), `samples` are in rising order with possible
    /// repetitions. An implementation spreads the work over the threads itself, since it knows how
    /// its samples lie in memory, and must not depend on their number.
    ///
    /// # Errors
    /// [`DeviceError`] when a device that makes the responses fails.
    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError>;

    /// Boosts a node on `features` and `samples` (lists as for [`SampleSource::respond`]);
    /// [`Weak::feature`] is a place in `features`.
    ///
    /// A source whose responses are made on a device overrides this, so that they stay there; the
    /// result must be the same.
    ///
    /// # Errors
    /// [`DeviceError`] when a device that makes the responses or boosts fails.
    fn boost(
        &self,
        booster: &dyn Booster,
        features: &[u32],
        samples: &[u32],
        task: &BoostTask<'_>,
    ) -> Result<Vec<Weak>, DeviceError> {
        let respond = |features: &[u32], out: &mut [i32]| self.respond(features, samples, out);
        let matrix =
            BinnedMatrix::from_responses(features, samples.len(), task.cut_percent, respond)?;
        booster.boost(&matrix, task.labels, task.weights, task.params)
    }

    /// The margins of `weaks` for `samples`, in units of 2⁻¹⁶; here too [`Weak::feature`] is a
    /// place in `features`, and a source whose responses are made on a device overrides this.
    ///
    /// # Errors
    /// [`DeviceError`] when a device that makes the responses fails.
    fn margins(
        &self,
        features: &[u32],
        weaks: &[Weak],
        samples: &[u32],
    ) -> Result<Vec<i32>, DeviceError> {
        margins_from_responses(weaks, features.len(), samples, |samples, out| {
            self.respond(features, samples, out)
        })
    }
}

/// The margins H = Σ α·h of `weaks` for `samples`, in units of 2⁻¹⁶.
pub(crate) fn margins(
    source: &dyn SampleSource,
    weaks: &[Weak],
    samples: &[u32],
) -> Result<Vec<i32>, DeviceError> {
    let mut features: Vec<u32> = weaks.iter().map(|w| w.feature).collect();
    features.sort_unstable();
    features.dedup();
    let place = |weak: &Weak| Weak {
        feature: features.partition_point(|&f| f < weak.feature) as u32,
        ..*weak
    };
    let weaks: Vec<Weak> = weaks.iter().map(place).collect();
    source.margins(&features, &weaks, samples)
}

/// The margins H = Σ α·h of `weaks`, in units of 2⁻¹⁶, at `sites`, with at most 64 MB of responses
/// in memory: `respond` writes those of all `rows` features at some of the sites,
/// `[feature][site]`. [`Weak::feature`] is a row.
///
/// # Errors
/// That of `respond`.
pub fn margins_from_responses<S>(
    weaks: &[Weak],
    rows: usize,
    sites: &[S],
    mut respond: impl FnMut(&[S], &mut [i32]) -> Result<(), DeviceError>,
) -> Result<Vec<i32>, DeviceError> {
    let at_a_time = (RESPONSES_AT_A_TIME / rows.max(1)).clamp(1, sites.len().max(1));
    let mut responses = vec![0; at_a_time * rows];
    let mut margins = vec![0; sites.len()];
    for (sites, margins) in sites.chunks(at_a_time).zip(margins.chunks_mut(at_a_time)) {
        let responses = &mut responses[..rows * sites.len()];
        respond(sites, responses)?;
        for weak in weaks {
            weak.accumulate(
                &responses[weak.feature as usize * sites.len()..][..sites.len()],
                margins,
            );
        }
    }
    Ok(margins)
}
