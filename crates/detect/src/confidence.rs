//! Whether scores can be believed: a reliability table, the Brier score, and risk against coverage.

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

/// Risk against coverage (El-Yaniv and Wiener 2010): keeping only detections above a limit of the
/// score, what share is kept, and what share of those is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RiskCoverage {
    /// Area under the curve of wrong shares over coverage, 0 to 1, lower is better (AURC: Geifman
    /// et al. 2019).
    pub area: f64,
    /// The area if every wrong detection had a lower score than every right one: the least that
    /// scores can reach here.
    pub least_area: f64,
    /// The curve, thinned to about twenty points, the highest limit first; the last one keeps
    /// everything.
    pub points: Vec<RiskPoint>,
}

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RiskPoint {
    /// Share of the detections that is kept.
    pub coverage: f64,
    /// The lowest score that is kept.
    pub score: f64,
    /// Share of the kept ones that is wrong.
    pub share_wrong: f64,
    /// Mean error of the kept ones that have one, mm.
    pub mean_error_mm: Option<f64>,
}

const BINS: usize = 10;
const POINTS: usize = 20;

impl Confidence {
    /// `None` of no detections.
    pub fn new(judged: &[Judged]) -> Option<Self> {
        if judged.is_empty() {
            return None;
        }
        let n = judged.len() as f64;
        let outcome = |j: &Judged| if j.right { 1.0 } else { 0.0 };
        let reliability: Vec<Bin> = (0..BINS).map(|b| Bin::new(b, judged)).collect();
        let gap = |bin: &Bin| Some(bin.n as f64 * (bin.mean_score? - bin.share_right?).abs());
        Some(Self {
            n: judged.len(),
            share_right: judged.iter().map(outcome).sum::<f64>() / n,
            brier: judged.iter().map(|j| (j.score - outcome(j)).powi(2)).sum::<f64>() / n,
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
            share_right: mean(|j| if j.right { 1.0 } else { 0.0 }),
        }
    }
}

impl RiskCoverage {
    fn new(judged: &[Judged]) -> Self {
        let mut sorted = judged.to_vec();
        sorted.sort_by(|a, b| b.score.total_cmp(&a.score));
        let n = sorted.len() as f64;
        let (mut kept, mut wrong, mut with_error, mut error_mm) = (0usize, 0usize, 0usize, 0.0);
        let mut all = Vec::new();
        let mut area = 0.0;
        // No limit divides equal scores, so they enter together.
        for equal in sorted.chunk_by(|a, b| a.score == b.score) {
            kept += equal.len();
            wrong += equal.iter().filter(|j| !j.right).count();
            with_error += equal.iter().filter(|j| j.error_mm.is_some()).count();
            error_mm += equal.iter().filter_map(|j| j.error_mm).sum::<f64>();
            let share_wrong = wrong as f64 / kept as f64;
            area += equal.len() as f64 / n * share_wrong;
            let mean_error_mm = (with_error > 0).then(|| error_mm / with_error as f64);
            all.push(RiskPoint {
                coverage: kept as f64 / n,
                score: equal[0].score,
                share_wrong,
                mean_error_mm,
            });
        }
        let right = sorted.len() - wrong;
        // The sum of nothing is −0.
        let least_area =
            (right + 1..=sorted.len()).map(|k| (k - right) as f64 / k as f64).sum::<f64>() / n
                + 0.0;
        let mut points: Vec<RiskPoint> = Vec::with_capacity(POINTS);
        for step in 1..=POINTS {
            let wanted = step as f64 / POINTS as f64 - 1e-9;
            let Some(&point) = all.iter().find(|p| p.coverage >= wanted) else { continue };
            if points.last() != Some(&point) {
                points.push(point);
            }
        }
        Self { area, least_area, points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn equal_scores_enter_together_in_any_order() {
        let all = [
            judged(0.5, true, 1.0),
            judged(0.5, false, 3.0),
            judged(0.5, true, 2.0),
            judged(0.2, false, 4.0),
        ];
        let mut turned = all;
        turned.reverse();
        let (a, b) = (Confidence::new(&all).unwrap(), Confidence::new(&turned).unwrap());
        assert_eq!(a.risk_coverage, b.risk_coverage);
        assert!((a.risk_coverage.area - (0.75 / 3.0 + 0.25 * 0.5)).abs() < 1e-12);
        assert_eq!(a.risk_coverage.points.len(), 2);
    }

    #[test]
    fn nothing_to_judge() {
        assert_eq!(Confidence::new(&[]), None);
        let absent =
            Confidence::new(&[Judged { score: 0.0, right: false, error_mm: None }]).unwrap();
        assert_eq!((absent.brier, absent.risk_coverage.points[0].mean_error_mm), (0.0, None));
    }

    #[test]
    fn the_curve_is_thinned() {
        let all: Vec<Judged> =
            (0..1000).map(|n| judged(1.0 - n as f64 / 1000.0, n % 7 != 0, n as f64)).collect();
        let points = Confidence::new(&all).unwrap().risk_coverage.points;
        assert_eq!(points.len(), 20);
        assert!((points[0].coverage - 0.05).abs() < 1e-12 && points[19].coverage == 1.0);
    }
}
