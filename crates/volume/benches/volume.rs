//! The volume operations of a detection, at the sizes of the figures in `docs/performance.md`.
//!
//! `cargo bench -p pbt-volume`; the integral volume beside numpy in the same run:
//! `benches/peers/integral.sh`.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use criterion::{Criterion, criterion_group, criterion_main};
use pbt_volume::{
    Geometry, IntegralVolume, IntensityPolicy, Padding, Volume, downsample2, resample,
    working_geometry,
};
use std::hint::black_box;

/// 12-bit noise, the same as in `benches/peers/integral_numpy.py`: no value can be predicted, so no
/// branch or cache can profit.
fn noise(shape: [usize; 3], spacing_mm: f64) -> Volume<u16> {
    let mut state = 1u32;
    Volume::from_fn(Geometry::isotropic(shape, spacing_mm).expect("a valid grid"), |_, _, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) as u16
    })
}

/// A number that any wrong entry of a table changes, for comparison with the peer's.
fn checksum(table: &[u32]) -> u32 {
    table.iter().fold(0u32, |sum, &v| sum.wrapping_mul(31).wrapping_add(v))
}

fn integral(c: &mut Criterion) {
    let cube = noise([256; 3], 1.0);
    eprintln!(
        "checksum of the table of 256^3: {:08x}",
        checksum(IntegralVolume::new(&cube, 0, Padding::Zero).table())
    );
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool of one thread");
    let mut group = c.benchmark_group("integral");
    // Dropped tables are not timed, so that the peer need not be either.
    group.bench_function("new table", |b| {
        b.iter_with_large_drop(|| IntegralVolume::new(black_box(&cube), 0, Padding::Zero))
    });
    let mut table = Vec::new();
    let mut reuse = || {
        let integral = IntegralVolume::with_buffer(
            std::mem::take(&mut table),
            black_box(&cube),
            0,
            Padding::Zero,
        );
        table = integral.into_table();
    };
    group.bench_function("table used again", |b| b.iter(&mut reuse));
    group.bench_function("table used again, 1 thread", |b| one.install(|| b.iter(&mut reuse)));
    let padded = noise([64; 3], 1.0);
    group.bench_function("64^3 padded by 32", |b| {
        b.iter(|| IntegralVolume::new(black_box(&padded), 32, Padding::Edge))
    });
}

fn preparation(c: &mut Criterion) {
    // The size and spacing of a mouse head of the data set mouse_skull.
    let mouse = noise([250, 250, 150], 0.141);
    let raw = pbt_volume::RealVolume::from(mouse.map(f32::from));
    let policy = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.5 };
    let range = policy.range(&raw).expect("noise has contrast");
    c.bench_function("percentiles 250x250x150", |b| b.iter(|| policy.range(black_box(&raw))));
    c.bench_function("quantise 250x250x150", |b| b.iter(|| range.quantise(black_box(&raw))));
    let working = working_geometry(mouse.geometry(), 0.282, 0);
    c.bench_function("resample 250x250x150 to half", |b| {
        b.iter(|| resample(black_box(&mouse), &working, Padding::Edge))
    });
    let turn = pbt_volume::rotation_from_vector(nalgebra::Vector3::new(0.3, -0.5, 0.2))
        .to_rotation_matrix();
    let oblique = Geometry::new(working.shape(), turn * working.matrix(), working.origin())
        .expect("a rotated grid");
    c.bench_function("resample 250x250x150 to half, oblique", |b| {
        b.iter(|| resample(black_box(&mouse), &oblique, Padding::Edge))
    });
    c.bench_function("downsample2 250x250x150", |b| b.iter(|| downsample2(black_box(&mouse))));
}

criterion_group!(benches, integral, preparation);
criterion_main!(benches);
