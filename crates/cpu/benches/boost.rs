//! One boosting node: 5,000 samples × 10,000 features × 40 rounds, 64 bins. Prints updates a
//! second, where an update is one (sample, feature, round).
//!
//! `cargo bench -p pbt-cpu --bench boost -- [THREADS] [MATRIX]`: with a path, the matrix of
//! responses and the labels are written there for the peers (`benches/peers/boost.sh` does that):
//! i32 responses `[feature][sample]`, then one byte a label, little-endian.

use pbt_cpu::CpuBooster;
use pbt_tree::{BinnedMatrix, BoostParams, Booster, WEIGHT_TOTAL, WeakKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Instant;

const SAMPLES: usize = 5_000;
const FEATURES: usize = 10_000;
const ROUNDS: usize = 40;
const REPEATS: usize = 5;

/// Responses of noise, the first hundred features shifted a little in positives, so that there is
/// something to learn in every round.
fn problem() -> (Vec<i32>, Vec<bool>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let labels: Vec<bool> = (0..SAMPLES).map(|s| s % 2 == 0).collect();
    let mut responses = vec![0; FEATURES * SAMPLES];
    for (feature, row) in responses.chunks_exact_mut(SAMPLES).enumerate() {
        for (x, &label) in row.iter_mut().zip(&labels) {
            // The sum of four uniform numbers is close enough to a Gaussian.
            let noise: i32 = (0..4).map(|_| (rng.next_u32() >> 18) as i32).sum();
            *x = noise + if label && feature < 100 { 2_000 } else { 0 };
        }
    }
    (responses, labels)
}

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let threads = args.first().and_then(|arg| arg.parse().ok()).unwrap_or(2);
    let (responses, labels) = problem();
    if let Some(path) = args.get(1) {
        let mut bytes: Vec<u8> = responses.iter().flat_map(|x| x.to_le_bytes()).collect();
        bytes.extend(labels.iter().map(|&label| label as u8));
        std::fs::write(path, bytes)?;
    }
    let weights = vec![WEIGHT_TOTAL / SAMPLES as u32; SAMPLES];
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(std::io::Error::other)?;
    pool.install(|| {
        let start = Instant::now();
        let mut matrix = BinnedMatrix::new(SAMPLES, 0.5);
        matrix.push_features(&responses);
        println!("pbt  bounds and bins: {:.3} s ({threads} threads)", start.elapsed().as_secs_f64());
        for (name, weak) in [("threshold", WeakKind::Threshold), ("histogram", WeakKind::Histogram { bins: 64 })] {
            let params = BoostParams { rounds: ROUNDS, max_error: 0.5, weak };
            let mut seconds: Vec<f64> = (0..REPEATS)
                .map(|_| {
                    let start = Instant::now();
                    let strong = CpuBooster.boost(&matrix, &labels, &weights, &params);
                    assert_eq!(strong.map(|strong| strong.len()), Ok(ROUNDS));
                    start.elapsed().as_secs_f64()
                })
                .collect();
            seconds.sort_by(f64::total_cmp);
            let median = seconds[REPEATS / 2];
            let updates = (SAMPLES * FEATURES * ROUNDS) as f64 / median;
            println!("pbt  {name}: {median:.3} s, {:.2}e9 updates/s ({threads} threads, median of {REPEATS})", updates / 1e9);
        }
    });
    Ok(())
}
