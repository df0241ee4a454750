//! Radii that hold 90 % of the errors: split conformal prediction (Papadopoulos et al. 2002; Lei et
//! al. 2018, section 2.2).

/// Share of the structures that lie within the radius.
const COVERAGE_PERCENT: usize = 90;

/// The radius that holds 90 % of errors like these, each of an independent case: the
/// ⌈0.9 (n + 1)⌉-th smallest. `None` where that is more than there are, with fewer than nine.
pub(crate) fn radius_90(errors: &[f64]) -> Option<f64> {
    let rank = (COVERAGE_PERCENT * (errors.len() + 1)).div_ceil(100);
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;

    #[test]
    fn the_rank_is_that_of_the_theorem() {
        let errors = |n: usize| (1..=n).rev().map(|e| e as f64).collect::<Vec<f64>>();
        assert_eq!(radius_90(&errors(0)), None);
        assert_eq!(radius_90(&errors(8)), None);
        // The largest of 9, the 10th of 10, the 30th of 32, the 187th of 206.
        for (n, rank) in [(9, 9.0), (10, 10.0), (32, 30.0), (206, 187.0)] {
            assert_eq!(radius_90(&errors(n)), Some(rank), "{n}");
        }
    }

    /// Over many calibration sets the next error lies within the radius in at least 90 %, and hardly
    /// more: (k of n + 1), exactly.
    #[test]
    fn nine_of_ten_lie_within() {
        let mut random = test_random(5);
        let mut error = || random.normal().abs() * random.normal().abs();
        let trials = 4000;
        let within = (0..trials)
            .filter(|_| {
                let errors: Vec<f64> = (0..32).map(|_| error()).collect();
                error() <= radius_90(&errors).unwrap()
            })
            .count();
        let share = within as f64 / f64::from(trials);
        assert!((share - 30.0 / 33.0).abs() < 0.015, "{share}");
    }
}
