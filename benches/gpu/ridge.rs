//! What regressions spend their time on, on the GPU: time, floor and ratio by size, and the CPU's time.
//!
//! Times of kernels are device events on data that lies there; whole calls are wall times, with vectors up and
//! solutions down; warm, median. Floors: a multiplication of integers with its sum an instruction, and a product
//! or a sum of reals one, 64 a clock and multiprocessor of a Hopper, at 1.98 GHz on 132 of them. `benches/peers/gpu_ridge.py`
//! prints PyTorch's times.

use pbt_cpu::Cpu;
use pbt_gpu::{Gpu, GpuError};
use pbt_tree::{Backend, DeviceError};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::time::Instant;

const REPEATS: usize = 11;
const PER_MS: f64 = 132.0 * 64.0 * 1.98e6;

fn wall_ms(mut call: impl FnMut() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
    let mut times = Vec::new();
    for _ in 0..REPEATS {
        let started = Instant::now();
        call()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[REPEATS / 2])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(GpuError::NoDriver) => {
            println!("no GPU");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    println!("{}, {} threads", gpu.info().name, rayon::current_num_threads());
    println!(
        "| vectors x values | products, ms | floor | factor, ms | floor | nine sides, ms | whole call, ms | CPU, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (count, length) in [(600, 3000), (1400, 4000), (2400, 3000), (3000, 4000)] {
        let value = || (rng.next_u32() % 8191) as i16 - 4095;
        let vectors: Vec<i16> = std::iter::repeat_with(value).take(count * length).collect();
        let ridge = 0.4 * length as f64 * 4095f64.powi(2) / 3.0;
        let resident = gpu.upload_vectors(&vectors)?;
        let products =
            gpu.median_ms(2, REPEATS, || gpu.inner_products(&resident, count).map(|_| ()))?;
        let mut matrix = gpu.inner_products(&resident, count)?;
        // It takes as long whatever the values are, so that the factor may be factorised again.
        let factor = gpu.median_ms(2, REPEATS, || gpu.factorise(&mut matrix, count, ridge))?;
        let sides = vec![vec![1.0; count]; 9];
        let mut resident = gpu.upload_numbers(&sides.concat())?;
        let solve = gpu.median_ms(2, REPEATS, || gpu.substitute(&matrix, count, &mut resident))?;
        let on = (&vectors[..], length);
        let whole = wall_ms(|| gpu.ridge_solutions(on, &[ridge], &sides).map(|_| ()))?;
        let cpu = wall_ms(|| Cpu.ridge_solutions(on, &[ridge], &sides).map(|_| ()))?;
        let (n, l) = (count as f64, length as f64);
        let floors = [n * (n + 1.0) / 2.0 * l / PER_MS, n.powi(3) / 3.0 / PER_MS];
        println!(
            "| {count} x {length} | {products:.2} | {:.2} | {factor:.2} | {:.2} | {solve:.2} | {whole:.1} | {cpu:.1} |",
            floors[0], floors[1]
        );
    }
    Ok(())
}
