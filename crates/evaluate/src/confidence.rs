//! Whether scores can be believed: a reliability table and the Brier score.

use crate::risk_coverage::RiskCoverage;
use serde::{Deserialize, Serialize};

/// A detection whose truth is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Its score, 0 to 1.
    pub score: f64,
    /// Whether it was right.
    pub right: bool,
    /// How far it was from the truth, mm; `None` where it has no position or there is no truth to
    /// be far from.
    pub error_mm: Option<f64>,
}

impl Judged {
    /// 1 for right and 0 for wrong.
    pub fn outcome(&self) -> f64 {
        if self.right { 1.0 } else { 0.0 }
    }

    /// (score − outcome)²: what it adds to the Brier score.
    pub fn brier(&self) -> f64 {
        (self.score - self.outcome()).powi(2)
    }
}

/// How well scores foretell what is right. A score is well calibrated when of all detections that
/// bear 0.8, 80 % are right.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Confidence {
    /// Number of detections.
    pub n: usize,
    /// Share of them that is right.
    pub share_right: f64,
    /// Mean of (score − outcome)², outcome 1 for right and 0 for wrong (Brier 1950); 0 is perfect,
    /// 0.25 is what a constant ½ gets.
    pub brier: f64,
    /// Mean of |mean score − share right| over the bins, weighted by their numbers (Naeini et al.
    /// 2015).
    pub calibration_error: f64,
    /// Ten bins of equal width, the lowest scores first.
    pub reliability: Vec<Bin>,
    /// What is left at each limit of the score.
    pub risk_coverage: RiskCoverage,
}

/// Detections whose scores lie in a range: from `low`, which is inside, to `high`, which is inside
/// in the last bin only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
    /// Number of detections.
    pub n: usize,
    /// Mean of their scores; `None` of none.
    pub mean_score: Option<f64>,
    /// Share of them that is right; `None` of none.
    pub share_right: Option<f64>,
}

const BINS: usize = 10;

impl Confidence {
    /// `None` of no detections.
    pub fn new(judged: &[Judged]) -> Option<Self> {
        if judged.is_empty() {
            return None;
        }
        let n = judged.len() as f64;
        let reliability: Vec<Bin> = (0..BINS).map(|b| Bin::new(b, judged)).collect();
        let gap = |bin: &Bin| Some(bin.n as f64 * (bin.mean_score? - bin.share_right?).abs());
        Some(Self {
            n: judged.len(),
            share_right: judged.iter().map(Judged::outcome).sum::<f64>() / n,
            brier: judged.iter().map(Judged::brier).sum::<f64>() / n,
            calibration_error: reliability.iter().filter_map(gap).sum::<f64>() / n,
            reliability,
            risk_coverage: RiskCoverage::new(judged),
        })
    }
}

impl Bin {
    fn new(number: usize, judged: &[Judged]) -> Self {
        let place = |score: f64| ((score * BINS as f64) as usize).min(BINS - 1);
        let inside: Vec<&Judged> = judged.iter().filter(|j| place(j.score) == number).collect();
        let mean = |value: fn(&Judged) -> f64| {
            let sum = inside.iter().map(|j| value(j)).sum::<f64>();
            (!inside.is_empty()).then(|| sum / inside.len() as f64)
        };
        Self {
            low: number as f64 / BINS as f64,
            high: (number + 1) as f64 / BINS as f64,
            n: inside.len(),
            mean_score: mean(|j| j.score),
            share_right: mean(Judged::outcome),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Random;

    fn judged(score: f64, right: bool, error_mm: f64) -> Judged {
        Judged { score, right, error_mm: Some(error_mm) }
    }

    /// Worked out by hand.
    #[test]
    fn four_detections() {
        let all = [
            judged(0.9, true, 1.0),
            judged(0.8, false, 9.0),
            judged(0.5, true, 2.0),
            judged(0.1, false, 8.0),
        ];
        let c = Confidence::new(&all).unwrap();
        assert_eq!((c.n, c.share_right), (4, 0.5));
        assert!((c.brier - (0.01 + 0.64 + 0.25 + 0.01) / 4.0).abs() < 1e-12);
        // Each detection is alone in its bin.
        assert!((c.calibration_error - (0.1 + 0.8 + 0.5 + 0.1) / 4.0).abs() < 1e-12);
        let curve = &c.risk_coverage;
        assert!((curve.area - (0.0 + 0.5 + 1.0 / 3.0 + 0.5) / 4.0).abs() < 1e-12);
        assert!((curve.least_area - (1.0 / 3.0 + 0.5) / 4.0).abs() < 1e-12);
        let listed: Vec<(f64, f64, f64)> =
            curve.points.iter().map(|p| (p.coverage, p.score, p.mean_error_mm.unwrap())).collect();
        assert_eq!(listed, [(0.25, 0.9, 1.0), (0.5, 0.8, 5.0), (0.75, 0.5, 4.0), (1.0, 0.1, 5.0)]);
    }

    #[test]
    fn bins_hold_their_lower_limit_and_the_last_one_both() {
        let all = [0.0, 0.0999, 0.1, 0.95, 1.0].map(|score| judged(score, score > 0.5, 0.0));
        let c = Confidence::new(&all).unwrap();
        assert_eq!(
            c.reliability.iter().map(|b| b.n).collect::<Vec<_>>(),
            [2, 1, 0, 0, 0, 0, 0, 0, 0, 2]
        );
        assert_eq!((c.reliability[5].mean_score, c.reliability[9].share_right), (None, Some(1.0)));
        assert!((c.reliability[9].mean_score.unwrap() - 0.975).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_judge() {
        assert_eq!(Confidence::new(&[]), None);
        let absent =
            Confidence::new(&[Judged { score: 0.0, right: false, error_mm: None }]).unwrap();
        assert_eq!((absent.brier, absent.risk_coverage.points[0].mean_error_mm), (0.0, None));
    }

    /// Of honest scores the share that is right is the score, and each adds p(1 − p) to the Brier
    /// score; the same outcomes with scores that are too sure are found out.
    #[test]
    fn honest_scores_are_told_from_sure_ones() {
        let mut random = Random::from_seed(3);
        let mut draw = || {
            let score = random.uniform();
            Judged { score, right: random.uniform() < score, error_mm: None }
        };
        let honest: Vec<Judged> = (0..20_000).map(|_| draw()).collect();
        let figures = Confidence::new(&honest).unwrap();
        // ∫ p(1 − p) dp = 1/6; the standard error of each of ten bins of 2,000 is 0.01.
        assert!((figures.brier - 1.0 / 6.0).abs() < 0.005, "{}", figures.brier);
        assert!(figures.calibration_error < 0.02, "{}", figures.calibration_error);
        let sure: Vec<Judged> = honest
            .iter()
            .map(|j| Judged { score: if j.score < 0.5 { 0.02 } else { 0.98 }, ..*j })
            .collect();
        let sure = Confidence::new(&sure).unwrap();
        // Right are 1/4 of those below ½ and 3/4 of those above.
        assert!((sure.calibration_error - 0.23).abs() < 0.02, "{}", sure.calibration_error);
        assert!(sure.brier > figures.brier && sure.share_right == figures.share_right);
    }

    /// The bins lose nothing: their weighted shares and scores are those of the whole, and the
    /// Brier score is reliability − resolution + uncertainty (Murphy 1973) where all scores of a
    /// bin are one.
    #[test]
    fn the_parts_add_up() {
        let mut random = Random::from_seed(4);
        let mut draw = || {
            let score = (random.below(10) as f64 + 0.5) / 10.0;
            judged(score, random.uniform() < score * score, 0.0)
        };
        let all: Vec<Judged> = (0..500).map(|_| draw()).collect();
        let c = Confidence::new(&all).unwrap();
        assert_eq!(c.reliability.iter().map(|b| b.n).sum::<usize>(), 500);
        let over = |f: &dyn Fn(f64, f64) -> f64| {
            let value = |b: &Bin| Some(b.n as f64 * f(b.mean_score?, b.share_right?));
            c.reliability.iter().filter_map(value).sum::<f64>() / 500.0
        };
        assert!((over(&|_, right| right) - c.share_right).abs() < 1e-12);
        let reliability = over(&|score, right| (score - right).powi(2));
        let resolution = over(&|_, right| (right - c.share_right).powi(2));
        let uncertainty = c.share_right * (1.0 - c.share_right);
        assert!((c.brier - (reliability - resolution + uncertainty)).abs() < 1e-12);
    }

    #[test]
    fn a_constant_score_of_a_half_has_a_brier_score_of_a_quarter() {
        let all = [judged(0.5, true, 0.0), judged(0.5, false, 0.0), judged(0.5, false, 0.0)];
        let c = Confidence::new(&all).unwrap();
        assert_eq!(c.brier, 0.25);
        assert!((c.calibration_error - (0.5 - 1.0 / 3.0)).abs() < 1e-12);
    }
}
