//! Whether mirrored copies of the training cases are worth their time: the decision.

/// Mirrored copies are taken where they leave less than this share of the error: they double the
/// time of training.
const WORTH: f64 = 0.95;

/// What a trial of mirrored copies decided.
pub(crate) struct MirrorTrial {
    /// Whether they are worth their time.
    pub(crate) helps: bool,
    /// What they bring, where it was measured.
    pub(crate) gain: Option<Gain>,
}

impl MirrorTrial {
    /// A decision that needed no measurement.
    pub(crate) fn without_gain(helps: bool) -> Self {
        Self { helps, gain: None }
    }

    /// The decision by what was measured.
    pub(crate) fn of(gain: Gain) -> Self {
        Self { helps: gain.is_worth_it(), gain: Some(gain) }
    }
}

/// What copies bring, by paired errors of the same cases.
pub(crate) struct Gain {
    /// Share of the error that is left with copies.
    pub(crate) share: f64,
    /// The share if the copies helped less than was seen by one standard error of the mean
    /// difference.
    pub(crate) share_at_most: f64,
}

impl Gain {
    pub(crate) fn new(without: &[f64], with: &[f64]) -> Self {
        let n = without.len() as f64;
        let total: f64 = without.iter().sum();
        let gains: Vec<f64> =
            without.iter().zip(with).map(|(without, with)| without - with).collect();
        let mean = gains.iter().sum::<f64>() / n;
        let variance = gains.iter().map(|gain| (gain - mean) * (gain - mean)).sum::<f64>()
            / (n - 1.0).max(1.0);
        let share = |gain: f64| if total > 0.0 { 1.0 - gain * n / total } else { 1.0 };
        Self { share: share(mean), share_at_most: share(mean - (variance / n).sqrt()) }
    }

    /// Enough for the time, and more than one standard error: of two choices the simpler one unless
    /// the other is clearly better (Breiman et al. 1984, section 3.4.3).
    fn is_worth_it(&self) -> bool {
        self.share < WORTH && self.share_at_most < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_taken_where_the_gain_is_large_and_sure() {
        let steady = Gain::new(&[1.0, 2.0, 3.0], &[0.9, 1.8, 2.7]);
        assert!(
            (steady.share - 0.9).abs() < 1e-12
                && steady.share_at_most > 0.9
                && steady.is_worth_it()
        );
        let small = Gain::new(&[1.0, 2.0, 3.0], &[0.99, 1.98, 2.97]);
        assert!(!small.is_worth_it());
        // The same total, by one case that gains much and two that lose.
        let unsure = Gain::new(&[1.0, 2.0, 3.0], &[1.2, 2.2, 2.0]);
        assert!(
            (unsure.share - 0.9).abs() < 1e-12
                && unsure.share_at_most > 1.0
                && !unsure.is_worth_it()
        );
        assert!(!Gain::new(&[], &[]).is_worth_it());
    }
}
