//! What two images have in common, whatever their brightness and contrast.

/// Numbers shifted and scaled to mean 0 and length 1. Empty where they are all the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Pattern(Vec<f32>);

impl Pattern {
    pub(super) fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let length = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>().sqrt();
        // Rounding leaves a little of a constant.
        if !(length.is_finite() && length > 1e-9 * mean.abs()) {
            return Self::default();
        }
        Self(values.iter().map(|v| ((v - mean) / length) as f32).collect())
    }

    /// What several have in common.
    pub(super) fn mean<'a>(of: impl Iterator<Item = &'a Self>) -> Self {
        let mut sums: Vec<f64> = Vec::new();
        for pattern in of {
            sums.resize(sums.len().max(pattern.0.len()), 0.0);
            sums.iter_mut().zip(&pattern.0).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        Self::of(&sums)
    }

    /// The same with the numbers in another order: `from` tells where each is taken from.
    pub(super) fn reordered(&self, from: impl Fn(usize) -> usize) -> Self {
        Self((0..self.0.len()).map(|n| self.0[from(n)]).collect())
    }

    /// From -1 to 1, 1 for what is the same up to an offset and a factor; 0 for what is empty.
    pub(super) fn correlation(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }
}
