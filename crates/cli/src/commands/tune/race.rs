//! Who stays in a race of settings, from what each reached in the same cases.

/// A difference counts from so many standard errors on: a two-sided level of 5 % at six cases.
const ERRORS: f64 = 2.5;

/// Fewest cases that decide.
const FEWEST: usize = 4;

/// Whether `other` is worse than `best`, both case by case, more surely than by chance.
pub(super) fn is_worse(other: &[f64], best: &[f64]) -> bool {
    let differences: Vec<f64> = best.iter().zip(other).map(|(b, o)| b - o).collect();
    let n = differences.len() as f64;
    if differences.len() < FEWEST {
        return false;
    }
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean) * (d - mean)).sum::<f64>() / (n - 1.0);
    mean > 0.0 && mean > ERRORS * (variance / n).sqrt()
}

/// The mean of some figures; 0 of none.
pub(super) fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_surely_worse_is_dropped() {
        let best = [0.8, 0.7, 0.9, 0.6, 0.85, 0.75];
        let less = |by: [f64; 6]| -> Vec<f64> { best.iter().zip(by).map(|(b, d)| b - d).collect() };
        assert!(is_worse(&less([0.02, 0.03, 0.02, 0.01, 0.02, 0.03]), &best));
        // The same mean, but by chance.
        assert!(!is_worse(&less([0.3, -0.2, 0.1, -0.1, 0.05, -0.02]), &best));
        assert!(!is_worse(&best, &best));
        assert!(!is_worse(&less([-0.1; 6]), &best));
        assert!(!is_worse(&[0.1; 3], &best[..3]));
        // Without any variance every difference counts.
        assert!(is_worse(&less([0.01; 6]), &best));
    }
}
