//! Connected components on the GPU: time, floor and ratio by row.
//!
//! Times are of device events round the work, warm, median; mask and labels stay on the device. The
//! floor is the mask's bytes and the labels' at the measured 4.3 TB/s of a large copy on an H200. Label
//! equivalence with skipped checks, which asks the device after every round but the first whether
//! another one is needed, is the baseline; it gives the same labels.
//!
//! usage: cargo bench -p pbt-gpu --bench components [-- WORD …]    only what has one of the words in
//! its name

use pbt_gpu::Gpu;
use pbt_volume::{Components, Connectivity, Geometry, Joining, Volume};
use rayon::prelude::*;
use std::error::Error;

const BYTES_PER_MS: f64 = 4.3e9;

/// Whether the command line asks for work of this name.
fn wanted(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

/// Uniform in 0 to 1, of a place (splitmix64).
fn noise(n: usize) -> f64 {
    let mut z = (n as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 53) as f64
}

fn mask(n: usize, inside: impl Fn(usize, [usize; 3]) -> bool + Sync) -> Vec<u8> {
    let at = |v: usize| [v % n, v / n % n, v / n / n];
    (0..n * n * n).into_par_iter().map(|v| u8::from(inside(v, at(v)))).collect()
}

fn time(gpu: &Gpu, n: usize, what: &str, mask: &[u8]) -> Result<(), Box<dyn Error>> {
    for (neighbours, connectivity) in
        [(6, Connectivity::Six), (18, Connectivity::Eighteen), (26, Connectivity::TwentySix)]
    {
        let name = format!("components of {n}^3, {neighbours} neighbours, {what}");
        if !wanted(&name) {
            continue;
        }
        let voxels = gpu.upload_mask(mask)?;
        let found = gpu.components(&voxels, [n; 3], connectivity)?;
        let (labels, count) = gpu.read_components(&found)?;
        if n <= 256 {
            let geometry = Geometry::isotropic([n; 3], 1.0)?;
            let volume = Volume::new(geometry, mask.to_vec());
            let expected = Components::new(&volume, |v| v != 0, connectivity, Joining::default())?;
            assert_eq!(expected.len(), count as usize, "{name}");
            assert!(labels == *expected.voxels(|label| label)?, "{name}");
        }
        let ms =
            gpu.median_ms(3, 11, || gpu.components(&voxels, [n; 3], connectivity).map(|_| ()))?;
        let floor_ms = (5 * n * n * n) as f64 / BYTES_PER_MS;
        let equal = gpu.components_by_label_equivalence(&voxels, [n; 3], connectivity)?;
        assert!(gpu.read_components(&equal)? == (labels, count), "{name}, label equivalence");
        drop((found, equal));
        let equivalence_ms = gpu.median_ms(1, 3, || {
            gpu.components_by_label_equivalence(&voxels, [n; 3], connectivity).map(|_| ())
        })?;
        println!(
            "{name:<52} {count:>8} found {ms:>7.3} ms  floor {floor_ms:>6.3}  x {:>5.2}  label equivalence {equivalence_ms:>8.2} ms",
            ms / floor_ms
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("{}", gpu.info().name);
    for n in [256, 512] {
        for percent in [10, 20, 30, 50] {
            let inside = |v: usize, _: [usize; 3]| noise(v) < f64::from(percent) / 100.0;
            time(&gpu, n, &format!("random {percent} %"), &mask(n, inside))?;
        }
        // Sums of waves in many directions, above their middle and far above.
        for (percent, above) in [(10, 1.3), (50, 0.0)] {
            let waves = |_: usize, at: [usize; 3]| {
                let [x, y, z] = at.map(|v| v as f64);
                (0.09 * x + 0.05 * y).sin()
                    + (0.07 * y - 0.08 * z + 1.0).sin()
                    + (0.11 * z + 0.04 * x - 0.03 * y).cos()
                    > above
            };
            time(&gpu, n, &format!("smooth, about {percent} %"), &mask(n, waves))?;
        }
        time(&gpu, n, "checkerboard", &mask(n, |_, [i, j, k]| (i + j + k) % 2 == 0))?;
        time(&gpu, n, "full", &mask(n, |_, _| true))?;
    }
    Ok(())
}
