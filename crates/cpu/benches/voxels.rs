//! Dense scoring of one node of 40 Haar features at every voxel of a 128³ volume: median of nine
//! runs, with the corners read.
//!
//! `cargo bench -p pbt-cpu --bench voxels`

use pbt_cpu::Cpu;
use pbt_features::{HaarPoolConfig, haar_pool};
use pbt_tree::{
    Bounds, Classifier, Device, DeviceError, EvalParams, Evaluate, Evaluator, Haar, ImageLayout,
    Node, Tree, Voxels, Weak,
};
use pbt_volume::{Geometry, Padding, Volume};
use std::hint::black_box;
use std::time::Instant;

const SIDE: usize = 128;
const WEAK: u32 = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let volume = Volume::from_fn(Geometry::isotropic([SIDE; 3], 1.0)?, |i, j, k| {
        ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 9 & 4095) as u16
    });
    let features = haar_pool(
        &HaarPoolConfig { features: WEAK as usize, radius: 9, ..HaarPoolConfig::default() },
        1,
    );
    let weak = |feature| Weak {
        feature,
        bounds: Bounds::new(-500_000, 500_000),
        votes: u64::MAX << 32,
        alpha: 20_000,
    };
    let leaf = |positive| Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive };
    let root = Node { first_weak: 0, weak_count: WEAK, left: 1, right: 2, positive: 1 << 31 };
    let tree = Tree {
        nodes: vec![root, leaf(1 << 20), leaf(u32::MAX - 9)],
        weaks: (0..WEAK).map(weak).collect(),
    };
    let classifier = Classifier { trees: vec![tree], eval: Evaluator::new(EvalParams::default()) };
    let layout = ImageLayout { padding: Padding::Zero, haar: Some((0, 9)), channels: vec![] };
    let image = Cpu.upload(&[volume.clone().into()], &layout)?;
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let started = Instant::now();
            black_box(Cpu.score(&image, &Haar, &features, &classifier, &Voxels::All)?);
            Ok(started.elapsed().as_secs_f64() * 1e3)
        })
        .collect::<Result<_, DeviceError>>()?;
    times.sort_by(f64::total_cmp);
    let taps: usize = features.iter().map(|f| f.taps().len()).sum();
    println!(
        "dense score {SIDE}^3, {WEAK} weak classifiers, {taps} corners a voxel: {:.0} ms ({:.2e} corners/s), {} threads",
        times[4],
        (taps * SIDE.pow(3)) as f64 / times[4] * 1e3,
        rayon::current_num_threads()
    );
    Ok(())
}
