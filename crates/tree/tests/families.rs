//! A family of features that the crate has never heard of trains and evaluates all three
//! classifiers, through `SampleSource` alone.

use pbt_tree::{
    BINS, BinnedMatrix, BoostParams, Booster, Candidate, Classifier, ClassifierKind,
    ClassifierParams, DeviceError, EvalParams, PbtForestParams, PbtParams, RandomForestParams,
    SampleSource, Score, TrainError, TrainingSet, Weak, adaboost, best_of_feature,
    train_classifier, used_features,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::sync::atomic::{AtomicUsize, Ordering};

/// AdaBoost by signed sums on one thread.
struct SumBooster;

impl Booster for SumBooster {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        Ok(adaboost(matrix, labels, weights, params, |signed, total| {
            let of_feature = |f: usize| {
                let mut sums = [0; BINS];
                matrix.row(f).iter().zip(signed).for_each(|(&bin, &w)| sums[bin as usize] += w);
                best_of_feature(f as u32, &sums, total, params.weak)
            };
            (0..matrix.features()).map(of_feature).reduce(Candidate::better)
        }))
    }
}

/// Points in the plane; feature `f` is the projection on the direction of angle π·f/16 (an oblique
/// coordinate), in thousandths.
struct Projections {
    points: Vec<[f64; 2]>,
}

const ANGLES: usize = 16;

impl Projections {
    fn response(&self, feature: u32, sample: u32) -> i32 {
        let angle = std::f64::consts::PI * feature as f64 / ANGLES as f64;
        let [x, y] = self.points[sample as usize];
        (1000.0 * (x * libm::cos(angle) + y * libm::sin(angle))) as i32
    }
}

impl SampleSource for Projections {
    fn sample_count(&self) -> usize {
        self.points.len()
    }

    fn feature_count(&self) -> usize {
        ANGLES
    }

    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        assert!(samples.is_sorted(), "samples come in rising order");
        for (out, &feature) in out.chunks_exact_mut(samples.len()).zip(features) {
            for (out, &sample) in out.iter_mut().zip(samples) {
                *out = self.response(feature, sample);
            }
        }
        Ok(())
    }
}

/// Uniform points in [−1, 1]², positive inside a ring: no single direction tells the classes apart.
fn ring(seed: u64, count: usize) -> (Projections, Vec<bool>, Vec<u32>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut coordinate = || rng.next_u32() as f64 / 2f64.powi(31) - 1.0;
    let points: Vec<[f64; 2]> = (0..count).map(|_| [coordinate(), coordinate()]).collect();
    let labels = points.iter().map(|[x, y]| (0.3..0.7).contains(&(x * x + y * y).sqrt())).collect();
    let groups = (0..count as u32).map(|s| s % 12).collect();
    (Projections { points }, labels, groups)
}

fn params(kind: ClassifierKind) -> ClassifierParams {
    ClassifierParams {
        kind,
        pbt: PbtParams {
            depth: 5,
            positives_per_node: 400,
            negatives_per_node: 400,
            ..PbtParams::default()
        },
        pbt_forest: PbtForestParams { trees: 5, feature_fraction: 0.6 },
        random_forest: RandomForestParams { trees: 15, ..RandomForestParams::default() },
        eval: EvalParams::default(),
    }
}

fn train(kind: ClassifierKind, seed: u64) -> Classifier {
    let (source, labels, groups) = ring(1, 3000);
    let set = TrainingSet { source: &source, labels: &labels, groups: &groups };
    train_classifier(&set, &SumBooster, &params(kind), seed).expect("a sound problem")
}

/// Share of unseen points on the right side of probability ½, each class counting one half.
fn accuracy(classifier: &Classifier) -> f64 {
    let (source, labels, _) = ring(2, 3000);
    let right = |label: bool| {
        let of_class: Vec<u32> =
            (0..labels.len() as u32).filter(|&s| labels[s as usize] == label).collect();
        let hit = |s: &&u32| {
            (classifier.score(&mut |f| source.response(f, **s)).posterior() > 0.5) == label
        };
        of_class.iter().filter(hit).count() as f64 / of_class.len() as f64
    };
    (right(true) + right(false)) / 2.0
}

#[test]
fn all_three_classifiers_learn_a_ring() {
    for (kind, least) in [
        (ClassifierKind::Pbt, 0.9),
        (ClassifierKind::PbtForest, 0.9),
        (ClassifierKind::RandomForest, 0.9),
    ] {
        let classifier = train(kind, 0);
        classifier.validate(ANGLES).expect("valid tables");
        let accuracy = accuracy(&classifier);
        assert!(accuracy > least, "{kind:?}: {accuracy}");
    }
}

#[test]
fn the_same_bits_with_any_number_of_threads_and_others_with_another_seed() {
    for kind in [ClassifierKind::Pbt, ClassifierKind::PbtForest, ClassifierKind::RandomForest] {
        let with_threads = |threads| {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| train(kind, 5))
        };
        let one = with_threads(1);
        assert_eq!(one, with_threads(3));
        assert_ne!(one.trees, train(kind, 6).trees);
    }
}

#[test]
fn a_classifier_survives_renumbering_its_features() {
    let (source, _, _) = ring(3, 50);
    let before = train(ClassifierKind::PbtForest, 1);
    let mut after = before.clone();
    let used = used_features(&mut after.trees);
    after.validate(used.len()).expect("valid tables");
    for s in 0..50 {
        let score = before.score(&mut |f| source.response(f, s));
        assert_eq!(score, after.score(&mut |f| source.response(used[f as usize], s)));
    }
}

/// Area under the ROC curve on unseen points; ties count one half.
fn area(score: impl Fn(&mut dyn FnMut(u32) -> i32) -> Score) -> f64 {
    let (source, labels, _) = ring(2, 3000);
    let scores: Vec<Score> = (0..3000).map(|s| score(&mut |f| source.response(f, s))).collect();
    let of_class =
        |label| (0..3000).filter(|&s| labels[s] == label).map(|s| scores[s]).collect::<Vec<_>>();
    let (positives, negatives) = (of_class(true), of_class(false));
    let twice: usize = positives
        .iter()
        .flat_map(|p| negatives.iter().map(move |n| 1 + (p > n) as usize - (p < n) as usize))
        .sum();
    twice as f64 / 2.0 / (positives.len() * negatives.len()) as f64
}

#[test]
fn soft_posteriors_rank_better_than_hard_ones_and_the_margin_mends_hard_ones() {
    let soft = train(ClassifierKind::Pbt, 0);
    let hard = Classifier { eval: EvalParams::HARD.into(), ..soft.clone() };
    // The margin is the lower half of a score.
    let without_margin = |score: Score| Score(score.0 >> 32);
    let soft_posterior = area(|mut respond| without_margin(soft.score(&mut respond)));
    let hard_posterior = area(|mut respond| without_margin(hard.score(&mut respond)));
    let hard_with_margin = area(|mut respond| hard.score(&mut respond));
    assert!(soft_posterior > hard_posterior + 0.001, "{soft_posterior} {hard_posterior}");
    assert!(hard_with_margin > hard_posterior + 0.001, "{hard_with_margin} {hard_posterior}");
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let (source, labels, groups) = ring(1, 100);
    let refuse = |labels: &[bool], groups: &[u32], params: &ClassifierParams| {
        train_classifier(&TrainingSet { source: &source, labels, groups }, &SumBooster, params, 0)
            .expect_err("a refusal")
    };
    for kind in [ClassifierKind::Pbt, ClassifierKind::PbtForest, ClassifierKind::RandomForest] {
        let good = params(kind);
        assert_eq!(refuse(&[false; 100], &groups, &good), TrainError::NoSamples("positive"));
        assert_eq!(refuse(&[true; 100], &groups, &good), TrainError::NoSamples("negative"));
        assert_eq!(
            refuse(&labels[..99], &groups, &good),
            TrainError::Count { what: "labels", found: 99, expected: 100 }
        );
        let unsound = ClassifierParams { eval: EvalParams { e1: f64::NAN, e2: 0.1 }, ..good };
        assert!(matches!(
            refuse(&labels, &groups, &unsound),
            TrainError::Parameter { field: "e1", .. }
        ));
    }
    let forest = params(ClassifierKind::PbtForest);
    assert_eq!(
        refuse(&labels, &groups[..7], &forest),
        TrainError::Count { what: "groups", found: 7, expected: 100 }
    );
    let deep = ClassifierParams {
        pbt: PbtParams { depth: 25, ..PbtParams::default() },
        ..ClassifierParams::default()
    };
    assert!(matches!(
        refuse(&labels, &groups, &deep),
        TrainError::Parameter { field: "depth", .. }
    ));
}

/// A device that is lost after some calls.
struct Lost<T> {
    inner: T,
    calls_left: AtomicUsize,
}

impl<T> Lost<T> {
    fn after(calls: usize, inner: T) -> Self {
        Self { inner, calls_left: AtomicUsize::new(calls) }
    }

    fn call(&self) -> Result<&T, DeviceError> {
        let one_less = |n: usize| n.checked_sub(1);
        match self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Ok(&self.inner),
            Err(_) => Err(DeviceError::new(std::io::Error::other("the device is lost"))),
        }
    }
}

impl Booster for Lost<SumBooster> {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        self.call()?.boost(matrix, labels, weights, params)
    }
}

impl SampleSource for Lost<Projections> {
    fn sample_count(&self) -> usize {
        self.inner.sample_count()
    }

    fn feature_count(&self) -> usize {
        self.inner.feature_count()
    }

    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        self.call()?.respond(features, samples, out)
    }
}

#[test]
fn a_device_that_fails_ends_training_wherever_it_fails() {
    let lost = DeviceError::new(std::io::Error::other("the device is lost"));
    for kind in [ClassifierKind::Pbt, ClassifierKind::PbtForest, ClassifierKind::RandomForest] {
        // Responses for the matrix of a node, then for the margins that send its samples on.
        for calls in 0..4 {
            let (source, labels, groups) = ring(1, 500);
            let source = Lost::after(calls, source);
            let set = TrainingSet { source: &source, labels: &labels, groups: &groups };
            let ended = train_classifier(&set, &SumBooster, &params(kind), 0);
            assert_eq!(ended, Err(TrainError::Device(lost.clone())), "{kind:?}, {calls} calls");
        }
    }
    for calls in [0, 1] {
        let (source, labels, groups) = ring(1, 500);
        let set = TrainingSet { source: &source, labels: &labels, groups: &groups };
        let booster = Lost::after(calls, SumBooster);
        let ended = train_classifier(&set, &booster, &params(ClassifierKind::Pbt), 0);
        assert_eq!(ended, Err(TrainError::Device(lost.clone())), "{calls} calls");
    }
    assert_eq!(lost.to_string(), "the device is lost");
}

#[test]
fn a_configuration_names_its_keys() {
    let params: ClassifierParams =
        serde_json::from_str(r#"{"kind": "pbt-forest", "pbt": {"depth": 6, "boost": {"weak": {"histogram": {"bins": 16}}}}}"#)
            .expect("good");
    assert_eq!((params.kind, params.pbt.depth), (ClassifierKind::PbtForest, 6));
    assert!(
        serde_json::from_str::<ClassifierParams>(r#"{"pbt": {"dept": 6}}"#)
            .expect_err("a typing error")
            .to_string()
            .contains("dept")
    );
}
