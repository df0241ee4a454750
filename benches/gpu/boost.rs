//! Boosting a node on the GPU: time, floor and ratio by size, and the CPU's time on the smaller
//! ones. `benches/peers/gpu_boost.py` prints XGBoost's.
//!
//! Wall time of a whole call on a matrix that is on the device: entries up, 40 rounds, weak
//! classifiers down; warm, median. An update is one (sample, feature, round). Floor: a byte an
//! update at the measured 4.3 TB/s of a large copy on an H200.
//!
//! With a path, a smaller matrix and its weak classifiers are written there, for
//! `benches/peers/same_stumps.py`, and nothing is timed.

use pbt_cpu::CpuBooster;
use pbt_gpu::{Gpu, GpuError};
use pbt_tree::{BinnedMatrix, BoostParams, Booster, WEIGHT_TOTAL, WeakKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use std::error::Error;
use std::time::Instant;

const ROUNDS: usize = 40;
const WARM_UP: usize = 3;
const REPEATS: usize = 15;
const BYTES_PER_MS: f64 = 4.3e9;

/// Responses of noise, the first hundred features shifted a little in positives, so that there is
/// something to learn in every round.
fn responses(samples: usize, features: usize) -> Vec<i32> {
    let mut responses = vec![0; samples * features];
    responses.par_chunks_exact_mut(samples).enumerate().for_each(|(feature, row)| {
        let mut rng = ChaCha8Rng::seed_from_u64(feature as u64);
        for (s, x) in row.iter_mut().enumerate() {
            // The sum of four uniform numbers is close enough to a Gaussian.
            let (a, b) = (rng.next_u32(), rng.next_u32());
            let noise = (a >> 18) + (a << 16 >> 18) + (b >> 18) + (b << 16 >> 18);
            *x = noise as i32 + if s % 2 == 0 && feature < 100 { 2_000 } else { 0 };
        }
    });
    responses
}

/// Writes numbers of samples, features and rounds, bins `[feature][sample]`, labels, weights, and
/// the feature and the votes of each weak classifier; little-endian. They are the CPU's where there
/// is no GPU.
fn write_problem(path: &str) -> Result<(), Box<dyn Error>> {
    let (samples, features) = (5_000, 1_000);
    let mut matrix = BinnedMatrix::new(samples, 0.5);
    matrix.push_features(&responses(samples, features));
    let labels: Vec<bool> = (0..samples).map(|s| s % 2 == 0).collect();
    // Weights of all sizes, so that no two thresholds tie.
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let weights: Vec<u32> = (0..samples).map(|_| 100_000 + rng.next_u32() % 100_000).collect();
    let params = BoostParams { rounds: ROUNDS, max_error: 0.5, weak: WeakKind::Threshold };
    let gpu = Gpu::open(0);
    let booster: &dyn Booster = match &gpu {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("on the CPU: {error}");
            &CpuBooster
        }
    };
    let mut bytes = Vec::new();
    [samples, features, ROUNDS].iter().for_each(|&n| bytes.extend((n as u32).to_le_bytes()));
    bytes.extend(matrix.as_slice());
    bytes.extend(labels.iter().map(|&label| label as u8));
    weights.iter().for_each(|w| bytes.extend(w.to_le_bytes()));
    for weak in booster.boost(&matrix, &labels, &weights, &params)? {
        bytes.extend(u64::from(weak.feature).to_le_bytes());
        bytes.extend(weak.votes.to_le_bytes());
    }
    Ok(std::fs::write(path, bytes)?)
}

fn median_ms(mut action: impl FnMut() -> Result<(), GpuError>) -> Result<f64, GpuError> {
    let mut times = Vec::with_capacity(WARM_UP + REPEATS);
    for _ in 0..WARM_UP + REPEATS {
        let start = Instant::now();
        action()?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.drain(..WARM_UP);
    times.sort_by(f64::total_cmp);
    Ok(times[REPEATS / 2])
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Some(path) = std::env::args().skip(1).find(|arg| !arg.starts_with("--")) {
        return write_problem(&path);
    }
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!(
        "{:<44} {:>9} {:>9} {:>6} {:>12}",
        "boosting, 40 rounds", "ms", "floor ms", "ratio", "updates/s"
    );
    for (samples, features) in [(5_000, 600), (5_000, 1_700), (5_000, 10_000), (10_000, 100_000)] {
        let responses = responses(samples, features);
        let labels: Vec<bool> = (0..samples).map(|s| s % 2 == 0).collect();
        let weights = vec![WEIGHT_TOTAL / samples as u32; samples];
        let matrix = gpu.bin_responses(&responses, samples, 0.5)?;
        for (name, weak) in [
            ("threshold", WeakKind::Threshold),
            ("histogram 64", WeakKind::Histogram { bins: 64 }),
            ("best", WeakKind::Best),
        ] {
            let params = BoostParams { rounds: ROUNDS, max_error: 0.5, weak };
            let mut strong = Vec::new();
            let ms = median_ms(|| {
                strong = gpu.boost_matrix(&matrix, &labels, &weights, &params)?;
                Ok(())
            })?;
            assert_eq!(strong.len(), ROUNDS, "every round finds something");
            let updates = (samples * features * ROUNDS) as f64;
            let floor = updates / BYTES_PER_MS;
            let row = format!("{samples} x {features}, {name}");
            println!(
                "{row:<44} {ms:>9.3} {floor:>9.3} {:>6.2} {:>12.2e}",
                ms / floor,
                updates / ms * 1e3
            );
            if weak == WeakKind::Threshold && features <= 10_000 {
                let mut host = BinnedMatrix::new(samples, 0.5);
                host.push_features(&responses);
                let start = Instant::now();
                let expected = CpuBooster.boost(&host, &labels, &weights, &params);
                let cpu = start.elapsed().as_secs_f64() * 1e3;
                assert_eq!(Ok(&strong), expected.as_ref(), "the CPU's bits");
                println!(
                    "{:<44} {cpu:>9.3} {:>9} {:>6.2}",
                    format!("  CPU, {} threads", rayon::current_num_threads()),
                    "",
                    cpu / ms
                );
            }
        }
    }
    Ok(())
}
