//! The two expensive parts of a regression, at the size of the last regressor of a refinement, beside nalgebra.
//!
//! `cargo bench -p pbt-linear`; it prints products a second, of which a core with AVX2 can do about 16 integer ones a clock
//! (`vpmaddwd`) and 4 real ones.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nalgebra::DMatrix;
use pbt_linear::{cholesky, gram};
use std::hint::black_box;

/// 12-bit noise, patch after patch.
fn noise(n: usize, length: usize) -> Vec<i16> {
    let mut state = 1u32;
    (0..n * length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 20) as i16
        })
        .collect()
}

fn regression(c: &mut Criterion) {
    let (n, p) = (3000, 2400);
    let patches = noise(n, p);
    let matrix = DMatrix::from_fn(n, p, |s, f| f64::from(patches[s * p + f]) - 2048.0);
    let vectors: Vec<i16> = matrix.iter().map(|&value| value as i16).collect();
    let mut group = c.benchmark_group("inner products of 2,400 features of 3,000 samples");
    group.sample_size(10).throughput(Throughput::Elements((n * p * (p + 1) / 2) as u64));
    group.bench_function("pbt", |b| {
        b.iter(|| gram::gram(&black_box(&vectors).chunks_exact(n).collect::<Vec<_>>()))
    });
    group.bench_function("nalgebra, real numbers", |b| {
        b.iter(|| black_box(&matrix).tr_mul(&matrix))
    });
    group.finish();

    let ridge = 0.4 * matrix.norm_squared() / p as f64;
    let gram = matrix.tr_mul(&matrix) + DMatrix::identity(p, p) * ridge;
    let rows: Vec<f64> = (0..p * p).map(|n| gram[(n / p, n % p)]).collect();
    let mut group = c.benchmark_group("Cholesky's factor of 2,400 x 2,400");
    group.sample_size(10).throughput(Throughput::Elements((p * p * p / 6) as u64));
    group.bench_function("pbt", |b| {
        b.iter_batched_ref(
            || rows.clone(),
            |rows| cholesky::factorise(rows, p),
            criterion::BatchSize::LargeInput,
        )
    });
    group.bench_function("nalgebra", |b| b.iter(|| black_box(gram.clone()).cholesky()));
    group.finish();
}

criterion_group!(benches, regression);
criterion_main!(benches);
