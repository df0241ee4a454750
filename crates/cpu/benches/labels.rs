//! A forest of three classes: 200,000 samples × 2,000 features × 14 levels × 20 trees, a node looking
//! at 5 % of the features. Prints seconds, and updates a second, where an update is one (sample,
//! candidate feature, level).
//!
//! `cargo bench -p pbt-cpu --bench labels -- [THREADS] [SAMPLES] [FEATURES] [TREES] [MATRIX]`: with a
//! path, the matrix is written there for the peers (`benches/peers/labels.sh` does that): one byte a
//! bin, `[feature][sample]`, then one byte a label.

use pbt_cpu::Cpu;
use pbt_tree::{Edges, LabelForestParams, LabelMatrix, LeafPrior, grow_label_forest};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Instant;

const CLASSES: u32 = 3;
/// Bins of a feature without that of missing responses.
const BINS: u32 = 63;
const DEPTH: usize = 14;
const MIN_LEAF: u32 = 5;
const SHARE: f64 = 0.05;

/// Bins of noise; every twentieth feature is shifted by class, so that trees have something to learn
/// at all levels.
fn problem(samples: usize, features: usize) -> (Vec<u8>, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let labels: Vec<u8> = (0..samples).map(|_| (rng.next_u32() % CLASSES) as u8).collect();
    let mut bins = vec![0; features * samples];
    for (feature, row) in bins.chunks_exact_mut(samples).enumerate() {
        for (bin, &label) in row.iter_mut().zip(&labels) {
            // Round the ends, so that no bin is of one class.
            let noise = rng.next_u32() % 32 + rng.next_u32() % 32;
            let shift = if feature % 20 == 0 { 2 * u32::from(label) } else { 0 };
            *bin = ((noise + shift) % BINS) as u8;
        }
    }
    (bins, labels)
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let number = |n: usize, default| args.get(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (threads, samples) = (number(0, 2), number(1, 200_000));
    let (features, trees) = (number(2, 2000), number(3, 20));
    let (bins, labels) = problem(samples, features);
    if let Some(path) = args.get(4) {
        std::fs::write(path, [&bins[..], &labels].concat())?;
    }
    let edges = Edges::of_responses((0..i64::from(BINS)).collect());
    let matrix = LabelMatrix::new(CLASSES as usize, labels, vec![edges; features], bins);
    let prior = LeafPrior { weights: vec![1; samples], bias: 0 };
    let params = LabelForestParams {
        trees,
        depth: DEPTH,
        min_leaf: MIN_LEAF,
        bootstrap: true,
        features_per_node: SHARE,
        ..LabelForestParams::default()
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    pool.install(|| {
        let start = Instant::now();
        let grown = grow_label_forest(&Cpu, &matrix, &prior, &params, 0, || ())?;
        let seconds = start.elapsed().as_secs_f64();
        let nodes: usize = grown.iter().map(|tree| tree.nodes.len()).sum();
        let updates = (samples * trees * DEPTH) as f64 * SHARE * features as f64;
        println!(
            "pbt: {seconds:.2} s, at most {:.2}e9 updates/s ({threads} threads, {nodes} nodes)",
            updates / seconds / 1e9
        );
        Ok(())
    })
}
