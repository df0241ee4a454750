//! Boosting on the device against the CPU's: the same weak classifiers, bit for bit.

mod support;

use pbt_cpu::CpuBooster;
use pbt_gpu::DeviceMatrix;
use pbt_tree::{
    BinnedMatrix, BoostParams, Booster, Bounds, ClassifierKind, ClassifierParams, DeviceError,
    PbtForestParams, SampleSource, TrainingSet, WEIGHT_TOTAL, Weak, WeakKind,
    margins_from_responses, train_classifier,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use support::{WORKS, fresh_rng, gpu};

const KINDS: [WeakKind; 7] = [
    WeakKind::Threshold,
    WeakKind::Histogram { bins: 2 },
    WeakKind::Histogram { bins: 4 },
    WeakKind::Histogram { bins: 16 },
    WeakKind::Histogram { bins: 32 },
    WeakKind::Histogram { bins: 64 },
    WeakKind::Best,
];

/// Responses `[feature][sample]`, labels and weights.
struct Problem {
    responses: Vec<i32>,
    samples: usize,
    labels: Vec<bool>,
    weights: Vec<u32>,
}

/// How the weights are spread.
#[derive(Debug, Clone, Copy)]
enum Weights {
    Equal,
    /// Over 24 binary orders of magnitude.
    Wide,
    /// As `Wide`, most of them 0.
    Sparse,
}

impl Problem {
    /// Features are in turns constant, of few values (ties), of usual size and beyond all others;
    /// every fourth leans towards the labels.
    fn new(rng: &mut ChaCha8Rng, samples: usize, features: usize, spread: Weights) -> Self {
        let labels: Vec<bool> = (0..samples).map(|_| rng.next_u32().is_multiple_of(3)).collect();
        let mut responses = Vec::with_capacity(samples * features);
        for feature in 0..features {
            let scale = [0, 3, 40_000, i64::from(i32::MAX)][feature % 4];
            let lean = if feature / 4 % 4 == 0 { scale / 5 } else { 0 };
            responses.extend(labels.iter().map(|&label| {
                let noise = (i64::from(rng.next_u32() as i32) * scale) >> 31;
                (noise + if label { lean } else { 0 }).clamp(i32::MIN.into(), i32::MAX.into())
                    as i32
            }));
        }
        let raw: Vec<u64> = (0..samples)
            .map(|_| match spread {
                Weights::Equal => 1,
                Weights::Wide => u64::from(rng.next_u32() >> (rng.next_u32() % 24)),
                Weights::Sparse if !rng.next_u32().is_multiple_of(3) => 0,
                Weights::Sparse => u64::from(rng.next_u32() >> (rng.next_u32() % 24)),
            })
            .collect();
        let sum = raw.iter().sum::<u64>().max(1);
        let weights = raw.iter().map(|w| (w * u64::from(WEIGHT_TOTAL) / sum) as u32).collect();
        Self { responses, samples, labels, weights }
    }

    fn matrix(&self, percent: f64) -> BinnedMatrix {
        let mut matrix = BinnedMatrix::new(self.samples, percent);
        matrix.push_features(&self.responses);
        matrix
    }
}

impl SampleSource for Problem {
    fn sample_count(&self) -> usize {
        self.samples
    }

    fn feature_count(&self) -> usize {
        self.responses.len() / self.samples
    }

    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        for (out, &feature) in out.chunks_exact_mut(samples.len()).zip(features) {
            let row = &self.responses[feature as usize * self.samples..][..self.samples];
            out.iter_mut().zip(samples).for_each(|(out, &s)| *out = row[s as usize]);
        }
        Ok(())
    }
}

const SIZES: [(usize, usize, Weights); 14] = [
    (0, 3, Weights::Equal),
    (3, 0, Weights::Equal),
    (1, 1, Weights::Equal),
    (2, 5, Weights::Wide),
    (15, 127, Weights::Sparse),
    (16, 128, Weights::Wide),
    (17, 129, Weights::Equal),
    (31, 600, Weights::Sparse),
    (255, 1000, Weights::Wide),
    (257, 3000, Weights::Sparse),
    (1000, 1700, Weights::Wide),
    (5000, 600, Weights::Equal),
    (13_000, 300, Weights::Wide),
    (37, 70_001, Weights::Wide),
];

#[test]
fn boosting_equals_the_cpu_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (samples, features, spread) in SIZES {
        let problem = Problem::new(&mut rng, samples, features, spread);
        let matrix = problem.matrix(0.5);
        for weak in KINDS {
            for max_error in [0.45, 0.5] {
                let params = BoostParams { rounds: 40, max_error, weak };
                let expected =
                    CpuBooster.boost(&matrix, &problem.labels, &problem.weights, &params);
                let found = gpu.boost(&matrix, &problem.labels, &problem.weights, &params);
                assert_eq!(
                    found, expected,
                    "{samples} x {features}, {spread:?}, {weak:?}, {max_error}"
                );
            }
        }
    }
}

#[test]
fn bins_equal_the_cpu_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (samples, features, spread) in SIZES {
        let problem = Problem::new(&mut rng, samples, features, spread);
        for percent in [0.0, 0.5, 7.0, 49.0] {
            let expected = problem.matrix(percent);
            let read = |matrix: &DeviceMatrix| gpu.read_matrix(matrix).expect(WORKS);
            let binned = gpu.bin_responses(&problem.responses, samples, percent);
            let (bounds, bins) = read(&binned.expect(WORKS));
            let expected_bounds: Vec<_> =
                (0..expected.features()).map(|f| expected.bounds(f)).collect();
            assert!(bounds == expected_bounds, "bounds of {samples} x {features}, {percent} %");
            assert!(bins == expected.as_slice(), "bins of {samples} x {features}, {percent} %");
            let (bounds, bins) = read(&gpu.upload_matrix(&expected).expect(WORKS));
            assert!(
                bounds == expected_bounds && bins == expected.as_slice(),
                "upload of {samples} x {features}"
            );
        }
    }
}

/// A matrix that does not fit stays on the host and passes through the device tile by tile.
#[test]
fn a_matrix_beyond_the_limit_gives_the_same_cuda() {
    let Some(gpu) = gpu() else { return };
    let gpu = gpu.with_matrix_limit(1 << 20);
    let mut rng = fresh_rng();
    for (samples, features) in [(1000, 1700), (600_000, 300)] {
        let problem = Problem::new(&mut rng, samples, features, Weights::Wide);
        let params = BoostParams { rounds: 12, max_error: 0.5, weak: WeakKind::Best };
        let expected = CpuBooster
            .boost(&problem.matrix(0.5), &problem.labels, &problem.weights, &params)
            .expect("no device");
        assert!(expected.len() > 3);
        let matrix = gpu.bin_responses(&problem.responses, samples, 0.5).expect(WORKS);
        assert!(!matrix.is_resident());
        assert_eq!(
            gpu.boost_matrix(&matrix, &problem.labels, &problem.weights, &params).expect(WORKS),
            expected,
            "{samples} x {features}"
        );
    }
}

#[test]
fn margins_equal_the_cpu_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (sites, rows, count) in [(1, 1, 1), (1000, 40, 48), (4321, 7, 100), (10, 3, 0)] {
        let problem = Problem::new(&mut rng, sites, rows, Weights::Equal);
        let weaks: Vec<Weak> = (0..count)
            .map(|_| Weak {
                feature: rng.next_u32() % rows as u32,
                bounds: Bounds::new(
                    rng.next_u32() as i32 >> (rng.next_u32() % 24),
                    rng.next_u32() as i32 >> (rng.next_u32() % 24),
                ),
                votes: rng.next_u64(),
                alpha: (rng.next_u32() >> 12) as i32,
            })
            .collect();
        let all: Vec<usize> = (0..sites).collect();
        let expected = margins_from_responses(&weaks, rows, &all, |sites, out| {
            for (out, row) in out
                .chunks_exact_mut(sites.len())
                .zip(problem.responses.chunks_exact(problem.samples))
            {
                out.iter_mut().zip(sites).for_each(|(out, &s)| *out = row[s]);
            }
            Ok(())
        })
        .expect("responses");
        assert_eq!(
            gpu.margins_of_responses(&weaks, &problem.responses, sites).expect("margins"),
            expected,
            "{sites} x {rows}"
        );
    }
}

#[test]
fn classifiers_trained_with_the_device_are_the_cpus_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    let problem = Problem::new(&mut rng, 6000, 300, Weights::Equal);
    let groups: Vec<u32> = (0..6000).map(|s| s % 10).collect();
    let set = TrainingSet { source: &problem, labels: &problem.labels, groups: &groups };
    for kind in [ClassifierKind::Pbt, ClassifierKind::PbtForest] {
        let params = ClassifierParams {
            kind,
            pbt_forest: PbtForestParams { trees: 3, ..Default::default() },
            ..Default::default()
        };
        let expected = train_classifier(&set, &CpuBooster, &params, 7).expect("sound parameters");
        assert!(expected.trees[0].nodes.len() > 3, "a tree with several levels");
        assert_eq!(
            train_classifier(&set, &gpu, &params, 7).expect("sound parameters"),
            expected,
            "{kind:?}"
        );
    }
}
