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

    /// The same with the numbers in another order: `from` tells where each is taken from.
    pub(super) fn reordered(&self, from: impl Fn(usize) -> usize) -> Self {
        Self((0..self.0.len()).map(|n| self.0[from(n)]).collect())
    }

    /// From -1 to 1, 1 for what is the same up to an offset and a factor; 0 for what is empty.
    pub(super) fn correlation(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    }
}

/// Patterns of the same kind of image, added up.
#[derive(Debug, Clone, Default)]
pub(super) struct Patterns {
    sums: Vec<f64>,
    added: usize,
}

impl<'a> FromIterator<&'a Pattern> for Patterns {
    fn from_iter<T: IntoIterator<Item = &'a Pattern>>(patterns: T) -> Self {
        let mut all = Self::default();
        for Pattern(values) in patterns.into_iter().filter(|pattern| !pattern.0.is_empty()) {
            all.added += 1;
            all.sums.resize(all.sums.len().max(values.len()), 0.0);
            all.sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        all
    }
}

impl Patterns {
    /// What all have in common but one, which was added.
    pub(super) fn without(&self, one: &Pattern) -> Pattern {
        let others = self.added - usize::from(!one.0.is_empty());
        // Rounding may leave a little of the one.
        if others == 0 {
            return Pattern::default();
        }
        let mut sums = self.sums.clone();
        sums.iter_mut().zip(&one.0).for_each(|(sum, &value)| *sum -= f64::from(value));
        Pattern::of(&sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_held_against_the_others() {
        let [up, down] = [Pattern::of(&[1.0, 2.0, 3.0]), Pattern::of(&[6.0, 4.0, 2.0])];
        let flat = Pattern::of(&[5.0; 3]);
        let patterns: Patterns = [&up, &up, &down, &flat].into_iter().collect();
        assert!((patterns.without(&down).correlation(&up) - 1.0).abs() < 1e-6);
        assert!((patterns.without(&flat).correlation(&up) - 1.0).abs() < 1e-6);
        let alone: Patterns = [&up, &flat].into_iter().collect();
        assert_eq!(alone.without(&up).correlation(&up), 0.0);
    }
}
