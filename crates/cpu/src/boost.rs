//! AdaBoost on the CPU: one signed addition a (sample, feature) and round.

use pbt_tree::{
    BINS, BinnedMatrix, BoostParams, Booster, Candidate, DeviceError, Weak, adaboost,
    best_of_feature,
};
use rayon::prelude::*;

/// Boosts with the threads of the current rayon pool; the result does not depend on their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct CpuBooster;

/// Features that are summed together: each weight is read once for all of them, and an addition
/// rarely waits for the one before, which it must where neighbouring samples share a bin.
const GROUP: usize = 4;
/// Features that one task searches, a multiple of [`GROUP`]: some 10⁵ additions at usual sample
/// numbers, far above the cost of a task.
const FEATURES_A_TASK: usize = 32;

impl Booster for CpuBooster {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        let mut compact = Compact::default();
        Ok(adaboost(matrix, labels, weights, params, |signed, total| {
            let (rows, signed) = compact.rows(matrix, signed);
            let samples = signed.len();
            let search = |first: usize, rows: &[u8]| {
                let row = |i: usize| &rows[i * samples..(i + 1) * samples];
                let features = rows.len() / samples;
                let of_group = |start: usize| {
                    // A last incomplete group repeats its last feature, which cannot win against
                    // itself.
                    let member = |i: usize| (start + i).min(features - 1);
                    let sums = signed_histograms(std::array::from_fn(|i| row(member(i))), signed);
                    let best = |i: usize| {
                        best_of_feature((first + member(i)) as u32, &sums[i], total, params.weak)
                    };
                    (1..GROUP).map(best).fold(best(0), Candidate::better)
                };
                (0..features).step_by(GROUP).map(of_group).reduce(Candidate::better)
            };
            let tasks = rows.par_chunks(FEATURES_A_TASK * samples).enumerate();
            tasks
                .filter_map(|(task, rows)| search(task * FEATURES_A_TASK, rows))
                .reduce_with(Candidate::better)
        }))
    }
}

/// D\[b\] of several features: the sums of the signed weights of the samples in each bin.
fn signed_histograms(rows: [&[u8]; GROUP], signed: &[i32]) -> [[i32; BINS]; GROUP] {
    // One place for every u8, so that no access needs a test; bins are below 64.
    let mut sums = [[0i32; 256]; GROUP];
    for ((((&a, &b), &c), &d), &weight) in
        rows[0].iter().zip(rows[1]).zip(rows[2]).zip(rows[3]).zip(signed)
    {
        sums[0][a as usize] += weight;
        sums[1][b as usize] += weight;
        sums[2][c as usize] += weight;
        sums[3][d as usize] += weight;
    }
    sums.map(|sums| std::array::from_fn(|bin| sums[bin]))
}

/// The matrix without the samples whose weight has become 0: they stay at 0 for good and add
/// nothing.
#[derive(Default)]
struct Compact {
    /// The samples that are left, in order; empty while all are there.
    kept: Vec<u32>,
    rows: Vec<u8>,
    signed: Vec<i32>,
}

impl Compact {
    /// Rows and signed weights to search, each row as long as the weights. The rows are copied when
    /// a fifth of the present ones is idle: a copy costs about as much as one round.
    fn rows<'a>(
        &'a mut self,
        matrix: &'a BinnedMatrix,
        signed: &'a [i32],
    ) -> (&'a [u8], &'a [i32]) {
        let present = if self.kept.is_empty() { signed.len() } else { self.kept.len() };
        let alive = signed.iter().filter(|&&w| w != 0).count();
        if alive > 0 && alive * 5 <= present * 4 {
            self.kept = (0..signed.len() as u32).filter(|&s| signed[s as usize] != 0).collect();
            self.rows = vec![0; alive * matrix.features()];
            self.rows.par_chunks_exact_mut(alive).enumerate().for_each(|(f, out)| {
                let row = matrix.row(f);
                out.iter_mut().zip(&self.kept).for_each(|(out, &s)| *out = row[s as usize]);
            });
        }
        if self.kept.is_empty() {
            return (matrix.as_slice(), signed);
        }
        self.signed.clear();
        self.signed.extend(self.kept.iter().map(|&s| signed[s as usize]));
        (&self.rows, &self.signed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_tree::{ReferenceBooster, WEIGHT_TOTAL, WeakKind};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    const KINDS: [WeakKind; 4] = [
        WeakKind::Threshold,
        WeakKind::Histogram { bins: 64 },
        WeakKind::Histogram { bins: 16 },
        WeakKind::Best,
    ];

    /// Noise with some informative features, among them steps and constants, and weights of very
    /// different size.
    fn problem(seed: u64, samples: usize, features: usize) -> (BinnedMatrix, Vec<bool>, Vec<u32>) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let labels: Vec<bool> = (0..samples).map(|_| rng.next_u32() % 3 == 0).collect();
        let mut responses = Vec::with_capacity(samples * features);
        for feature in 0..features {
            let scale = [0, 3, 1000][feature % 3];
            responses.extend(labels.iter().map(|&label| {
                (rng.next_u32() % 1000) as i32 * scale / 1000 + if label { scale / 5 } else { 0 }
            }));
        }
        let mut matrix = BinnedMatrix::new(samples, 0.5);
        matrix.push_features(&responses);
        let raw: Vec<u64> =
            (0..samples).map(|_| (rng.next_u32() >> (rng.next_u32() % 24)) as u64).collect();
        let sum: u64 = raw.iter().sum::<u64>().max(1);
        let weights = raw.iter().map(|w| (w * WEIGHT_TOTAL as u64 / sum) as u32).collect();
        (matrix, labels, weights)
    }

    #[test]
    fn equals_the_reference_with_any_number_of_threads() {
        for (seed, samples, features) in
            [(1, 1, 1), (2, 2, 5), (3, 97, 33), (4, 300, 70), (5, 251, 131)]
        {
            let (matrix, labels, weights) = problem(seed, samples, features);
            for weak in KINDS {
                let params = BoostParams { rounds: 15, max_error: 0.48, weak };
                let expected = ReferenceBooster.boost(&matrix, &labels, &weights, &params);
                for threads in [1, 2, 4] {
                    let pool = rayon::ThreadPoolBuilder::new()
                        .num_threads(threads)
                        .build()
                        .expect("a pool");
                    let found =
                        pool.install(|| CpuBooster.boost(&matrix, &labels, &weights, &params));
                    assert_eq!(found, expected, "seed {seed}, {weak:?}, {threads} threads");
                }
            }
        }
    }

    #[test]
    fn no_samples_and_no_features_give_nothing() {
        for (samples, features) in [(0, 3), (3, 0), (0, 0)] {
            let (matrix, labels, weights) = problem(1, samples, features);
            let found = CpuBooster.boost(&matrix, &labels, &weights, &BoostParams::default());
            assert_eq!(found, Ok(vec![]));
        }
    }

    #[test]
    fn idle_samples_are_left_out() {
        let (matrix, labels, mut weights) = problem(6, 200, 20);
        weights.iter_mut().skip(1).step_by(2).for_each(|w| *w = 0);
        let signed: Vec<i32> = weights.iter().map(|&w| w as i32).collect();
        let mut compact = Compact::default();
        let (rows, kept) = compact.rows(&matrix, &signed);
        assert!(kept.len() <= 100 && kept.iter().all(|&w| w > 0));
        assert_eq!(rows.len(), kept.len() * 20);
        let params = BoostParams { rounds: 10, ..BoostParams::default() };
        assert_eq!(
            CpuBooster.boost(&matrix, &labels, &weights, &params),
            ReferenceBooster.boost(&matrix, &labels, &weights, &params)
        );
    }
}
