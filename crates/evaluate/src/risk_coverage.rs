//! Keeping only what is sure enough: how much is left, and how much of it is wrong.

use crate::confidence::Judged;
use serde::{Deserialize, Serialize};

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

/// Points of the thinned curve.
const POINTS: usize = 20;

impl RiskCoverage {
    /// Of one detection at least.
    pub(crate) fn new(judged: &[Judged]) -> Self {
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
    use pbt_volume::Random;

    fn judged(score: f64, right: bool, error_mm: f64) -> Judged {
        Judged { score, right, error_mm: Some(error_mm) }
    }

    /// For every detection, the share of wrong ones among all that are as sure or surer: their mean
    /// is the area.
    fn area(all: &[Judged]) -> f64 {
        let risk = |score: f64| {
            let kept: Vec<&Judged> = all.iter().filter(|j| j.score >= score).collect();
            kept.iter().filter(|j| !j.right).count() as f64 / kept.len() as f64
        };
        all.iter().map(|j| risk(j.score)).sum::<f64>() / all.len() as f64
    }

    #[test]
    fn areas_agree_with_brute_force() {
        let mut random = Random::from_seed(6);
        for n in 1..60 {
            let all: Vec<Judged> = (0..n)
                .map(|_| judged(random.below(8) as f64 / 8.0, random.below(3) > 0, 0.0))
                .collect();
            let curve = RiskCoverage::new(&all);
            assert!((curve.area - area(&all)).abs() < 1e-12);
            // Scores that order perfectly, each its own.
            let mut sorted = all.clone();
            sorted.sort_by_key(|j| !j.right);
            let best: Vec<Judged> = sorted
                .iter()
                .enumerate()
                .map(|(n, j)| Judged { score: -(n as f64), ..*j })
                .collect();
            assert!((curve.least_area - area(&best)).abs() < 1e-12);
            assert!((RiskCoverage::new(&best).area - curve.least_area).abs() < 1e-12);
            assert!(curve.least_area <= curve.area + 1e-12);
        }
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
        let (a, b) = (RiskCoverage::new(&all), RiskCoverage::new(&turned));
        assert_eq!(a, b);
        assert!((a.area - (0.75 / 3.0 + 0.25 * 0.5)).abs() < 1e-12);
        assert_eq!(a.points.len(), 2);
    }

    #[test]
    fn the_curve_is_thinned() {
        let all: Vec<Judged> =
            (0..1000).map(|n| judged(1.0 - n as f64 / 1000.0, n % 7 != 0, n as f64)).collect();
        let points = RiskCoverage::new(&all).points;
        assert_eq!(points.len(), 20);
        assert!((points[0].coverage - 0.05).abs() < 1e-12 && points[19].coverage == 1.0);
    }
}
