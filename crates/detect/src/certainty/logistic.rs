//! Calibration of published scores: logistic regression from evidence to a probability, of a few
//! coefficients that must not run away on a few dozen cases.

use crate::certainty::evidence::{BEFORE_LABELS, BELIEVED, Evidence, KINDS, LABELS};
use nalgebra::{DMatrix, DVector};

/// One outcome: what was known before, the group that it belongs to, and whether it was right.
pub(crate) struct Outcome<const N: usize> {
    pub(crate) evidence: [f64; N],
    pub(crate) group: usize,
    pub(crate) right: bool,
}

/// Weights of the evidence, which all groups share, and an intercept for each group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Logistic<const N: usize> {
    pub(crate) weights: [f64; N],
    pub(crate) intercepts: Vec<f64>,
}

/// What is believed before any outcome: weights are near these, within `WEIGHT_SPREAD`; no evidence
/// speaks against its own side, so none is negative.
pub(crate) struct Beliefs<const N: usize> {
    pub(crate) weights: [f64; N],
}

/// Standard deviations of normal priors: of the weights about what is believed, of the intercept
/// that groups have in common, and of each group's own about that.
const WEIGHT_SPREAD: f64 = 0.25;
const COMMON_SPREAD: f64 = 3.0;
const GROUP_SPREAD: f64 = 1.0;

/// Most steps of Newton's method and halvings of one.
const STEPS: usize = 50;
const HALVINGS: i32 = 30;

impl<const N: usize> Logistic<N> {
    /// The mode of the posterior, by Newton's method with steps that are halved until they help. The
    /// log posterior is strictly concave, so there is one.
    pub(crate) fn fit(outcomes: &[Outcome<N>], groups: usize, beliefs: &Beliefs<N>) -> Self {
        let mut used = [true; N];
        loop {
            let fitted = Self::fit_used(outcomes, groups, beliefs, &used);
            let lowest = (0..N)
                .filter(|&k| used[k] && fitted.weights[k] < 0.0)
                .min_by(|&a, &b| fitted.weights[a].total_cmp(&fitted.weights[b]));
            match lowest {
                // Evidence that speaks against its own side is noise.
                Some(k) => used[k] = false,
                None => return fitted,
            }
        }
    }

    fn fit_used(
        outcomes: &[Outcome<N>],
        groups: usize,
        beliefs: &Beliefs<N>,
        used: &[bool; N],
    ) -> Self {
        // Weights, then the common intercept, then each group's own part.
        let p = N + 1 + groups;
        let prior = |k: usize| match k {
            k if k < N => (if used[k] { beliefs.weights[k] } else { 0.0 }, WEIGHT_SPREAD),
            k if k == N => (0.0, COMMON_SPREAD),
            _ => (0.0, GROUP_SPREAD),
        };
        let row = |o: &Outcome<N>| {
            let mut row = DVector::zeros(p);
            for k in (0..N).filter(|&k| used[k]) {
                row[k] = o.evidence[k];
            }
            row[N] = 1.0;
            row[N + 1 + o.group] = 1.0;
            row
        };
        let rows: Vec<DVector<f64>> = outcomes.iter().map(row).collect();
        let loss = |at: &DVector<f64>| -> f64 {
            let seen = rows.iter().zip(outcomes).map(|(row, o)| {
                let z = row.dot(at);
                let target = if o.right { 1.0 } else { 0.0 };
                // ln(1 + e^z) − t·z without overflow.
                z.max(0.0) + libm::log1p(libm::exp(-z.abs())) - target * z
            });
            let believed = (0..p).map(|k| {
                let (mean, spread) = prior(k);
                0.5 * ((at[k] - mean) / spread).powi(2)
            });
            seen.sum::<f64>() + believed.sum::<f64>()
        };
        let mut at = DVector::from_fn(p, |k, _| prior(k).0);
        let mut lost = loss(&at);
        for _ in 0..STEPS {
            let mut gradient = DVector::zeros(p);
            let mut hessian = DMatrix::zeros(p, p);
            for k in 0..p {
                let (mean, spread) = prior(k);
                gradient[k] = (at[k] - mean) / (spread * spread);
                hessian[(k, k)] = 1.0 / (spread * spread);
            }
            for (row, o) in rows.iter().zip(outcomes) {
                let probability = logistic(row.dot(&at));
                let target = if o.right { 1.0 } else { 0.0 };
                gradient += row * (probability - target);
                hessian += row * row.transpose() * (probability * (1.0 - probability));
            }
            let Some(step) = hessian.cholesky().map(|c| c.solve(&gradient)) else { break };
            let better = (0..HALVINGS).find_map(|halvings| {
                let next = &at - &step * libm::ldexp(1.0, -halvings);
                let left = loss(&next);
                (left < lost).then_some((next, left))
            });
            let Some((next, left)) = better else { break };
            (at, lost) = (next, left);
        }
        Self {
            weights: std::array::from_fn(|k| at[k]),
            intercepts: (0..groups).map(|g| at[N] + at[N + 1 + g]).collect(),
        }
    }
}

/// Weights of evidence from what came of it. Where labels are nowhere evidence they have no weight.
pub(crate) fn weighed(outcomes: &[Outcome<KINDS>], groups: usize) -> Logistic<KINDS> {
    if outcomes.iter().any(|outcome| outcome.evidence[LABELS] != 0.0) {
        return Logistic::fit(outcomes, groups, &Beliefs { weights: BELIEVED });
    }
    let without =
        |evidence: &Evidence| std::array::from_fn::<f64, BEFORE_LABELS, _>(|k| evidence[k]);
    let outcomes: Vec<Outcome<BEFORE_LABELS>> = outcomes
        .iter()
        .map(|o| Outcome { evidence: without(&o.evidence), group: o.group, right: o.right })
        .collect();
    let fitted = Logistic::fit(&outcomes, groups, &Beliefs { weights: without(&BELIEVED) });
    let mut weights = [0.0; KINDS];
    weights[..BEFORE_LABELS].copy_from_slice(&fitted.weights);
    Logistic { weights, intercepts: fitted.intercepts }
}

/// The probability of log-odds.
pub(crate) fn logistic(log_odds: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-log_odds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;

    const BELIEFS: Beliefs<2> = Beliefs { weights: [0.25, 0.25] };

    /// Drawn from a known curve in two groups; the second weight is truly 0.
    #[test]
    fn finds_the_curve_that_outcomes_were_drawn_from() {
        let mut random = test_random(1);
        let outcomes: Vec<Outcome<2>> = (0..3000)
            .map(|n: usize| {
                let evidence = [random.normal() * 2.0, random.normal() * 2.0];
                let z = 0.8 * evidence[0] + if n.is_multiple_of(2) { 1.5 } else { -0.5 };
                let right = random.uniform() < logistic(z);
                Outcome { evidence, group: n % 2, right }
            })
            .collect();
        let fitted = Logistic::fit(&outcomes, 2, &BELIEFS);
        assert!((fitted.weights[0] - 0.8).abs() < 0.1, "{fitted:?}");
        assert!((0.0..0.08).contains(&fitted.weights[1]), "{fitted:?}");
        assert!((fitted.intercepts[0] - 1.5).abs() < 0.25, "{fitted:?}");
        assert!((fitted.intercepts[1] + 0.5).abs() < 0.25, "{fitted:?}");
    }

    #[test]
    fn few_outcomes_that_are_all_right_do_not_run_away() {
        let outcome = |_| Outcome { evidence: [3.0, 2.0], group: 0, right: true };
        let fitted = Logistic::fit(&(0..8).map(outcome).collect::<Vec<_>>(), 1, &BELIEFS);
        let z = 3.0 * fitted.weights[0] + 2.0 * fitted.weights[1] + fitted.intercepts[0];
        assert!((1.5..8.0).contains(&z), "{fitted:?}");
        // Nothing seen: what was believed.
        let none = Logistic::<2>::fit(&[], 1, &BELIEFS);
        assert_eq!(none.weights, BELIEFS.weights);
        assert_eq!(none.intercepts, [0.0]);
    }

    #[test]
    fn evidence_that_speaks_against_its_side_is_not_used() {
        let outcome = |n: usize| Outcome {
            evidence: [
                if n.is_multiple_of(2) { 2.0 } else { -2.0 },
                if n.is_multiple_of(2) { -3.0 } else { 3.0 },
            ],
            group: 0,
            right: n.is_multiple_of(2),
        };
        let fitted = Logistic::fit(&(0..60).map(outcome).collect::<Vec<_>>(), 1, &BELIEFS);
        assert_eq!(fitted.weights[1], 0.0);
        assert!(fitted.weights[0] > 0.5, "{fitted:?}");
    }
}
