//! Ridge regression on the device against the CPU's on fresh random input: the same bits.

mod support;

use pbt_cpu::Cpu;
use pbt_gpu::Gpu;
use pbt_tree::Backend;
use rand_chacha::rand_core::Rng;
use support::{WORKS, fresh_rng, gpu};

/// Numbers of vectors and of their values, about the edges of tiles, panels, stretches and blocks of rows.
const SHAPES: [(usize, usize); 12] = [
    (1, 1),
    (1, 70),
    (3, 2),
    (63, 100),
    (64, 64),
    (65, 33),
    (97, 128),
    (130, 1),
    (577, 600),
    (640, 999),
    (1111, 1300),
    (1500, 2049),
];

const LARGEST: i16 = 4095;

#[test]
fn ridge_solutions_cuda() {
    let Some(gpu) = gpu() else { return };
    same_as_on_the_cpu(&gpu, &SHAPES);
}

/// Where the device is full, the host solves.
#[test]
fn full_memory_does_not_end_a_regression_cuda() {
    let Some(gpu) = gpu() else { return };
    same_as_on_the_cpu(&gpu.with_memory_limit(1 << 16), &[(97, 128), (577, 600)]);
}

fn same_as_on_the_cpu(gpu: &Gpu, shapes: &[(usize, usize)]) {
    let mut rng = fresh_rng();
    for &(count, length) in shapes {
        let mut value = || (rng.next_u32() % 8191) as i16 - LARGEST;
        let mut vectors: Vec<i16> =
            std::iter::repeat_with(&mut value).take(count * length).collect();
        // The largest sums, and those of nothing.
        vectors[..length].fill(LARGEST);
        if count > 2 {
            vectors[length..2 * length].fill(-LARGEST);
            vectors[2 * length..3 * length].fill(0);
        }
        let mean = length as f64 * f64::from(LARGEST).powi(2) / 3.0;
        let ridges = [0.01 * mean, 1.0 + mean];
        let mut number = || f64::from(rng.next_u32()) - 2f64.powi(31);
        let sides: Vec<Vec<f64>> =
            (0..11).map(|_| std::iter::repeat_with(&mut number).take(count).collect()).collect();
        let on = (&vectors[..], length);
        let cpu = Cpu.ridge_solutions(on, &ridges, &sides).expect(WORKS);
        let device = gpu.ridge_solutions(on, &ridges, &sides).expect(WORKS);
        assert_eq!((cpu.len(), cpu[0].len()), (ridges.len(), sides.len()));
        let bits = |all: &[Vec<Vec<f64>>]| -> Vec<u64> {
            all.iter().flatten().flatten().map(|value| value.to_bits()).collect()
        };
        assert!(bits(&cpu) == bits(&device), "{count} vectors of {length} values");
        assert!(bits(&cpu).iter().any(|&bits| f64::from_bits(bits).is_normal()));
    }
}
