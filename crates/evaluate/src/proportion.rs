//! A share with its confidence interval.

use std::fmt;

/// So many of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Proportion {
    /// Those that are as wanted.
    pub good: usize,
    /// All of them.
    pub all: usize,
}

/// Probability that the truth lies beyond either end of an interval.
const TAIL: f64 = 0.025;

impl Proportion {
    /// Counts one more.
    pub fn add(&mut self, good: bool) {
        self.all += 1;
        self.good += usize::from(good);
    }

    /// Exact 95 % interval of the share behind it, for independent ones (Clopper and Pearson 1934).
    pub fn interval(&self) -> [f64; 2] {
        let Self { good, all } = *self;
        // The end at which so many, or more (fewer), have the probability `TAIL`.
        let low = if good == 0 { 0.0 } else { root(|p| at_most(all - good, all, 1.0 - p) - TAIL) };
        let high = if good == all { 1.0 } else { root(|p| TAIL - at_most(good, all, p)) };
        [low, high]
    }
}

impl fmt::Display for Proportion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { good, all } = self;
        write!(f, "{good} of {all}")?;
        if *all == 0 {
            return Ok(());
        }
        let share = 100.0 * *good as f64 / *all as f64;
        let [low, high] = self.interval().map(|p| 100.0 * p);
        write!(f, " ({share:.1} %, 95 % interval {low:.1} to {high:.1} %)")
    }
}

/// Probability of at most `good` of `all` where each is with probability `p`: the sum of the
/// binomial terms, each from its logarithm.
fn at_most(good: usize, all: usize, p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 || good >= all { 1.0 } else { 0.0 };
    }
    let (mut log_choose, mut sum) = (0.0, 0.0);
    for k in 0..=good {
        sum +=
            libm::exp(log_choose + k as f64 * libm::log(p) + (all - k) as f64 * libm::log(1.0 - p));
        log_choose += libm::log((all - k) as f64 / (k + 1) as f64);
    }
    sum
}

/// Where a function that rises on 0 to 1 is 0.
fn root(rising: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if rising(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with binomial sums over Python's exact `math.comb`.
    #[test]
    fn intervals_are_those_of_the_tables() {
        for (good, all, low, high) in [
            (0, 10, 0.0, 0.3084971),
            (10, 10, 0.6915029, 1.0),
            (5, 10, 0.1870860, 0.8129140),
            (1, 20, 0.001265089, 0.2487328),
            (229, 241, 0.9146384, 0.9740101),
        ] {
            let [a, b] = Proportion { good, all }.interval();
            assert!((a - low).abs() < 1e-6 && (b - high).abs() < 1e-6, "{good}/{all}: {a} to {b}");
        }
    }

    #[test]
    fn nothing_has_no_share() {
        assert_eq!(Proportion::default().to_string(), "0 of 0");
        let some = Proportion { good: 5, all: 10 };
        assert_eq!(some.to_string(), "5 of 10 (50.0 %, 95 % interval 18.7 to 81.3 %)");
    }
}
