//! Channels from intensities, in integers.

use pbt_features::{CHANNEL_ZERO, Filter, MAX_CHANNEL, SMOOTH_BITS, gaussian_weights};
use pbt_volume::{IntegralVolume, Padding, Volume};

/// A part of an image that filters are applied to. Beyond its ends they see its border voxels.
pub(super) struct Part<'a> {
    /// Intensities.
    pub(super) voxels: &'a Volume<u16>,
    /// Where the part begins in the image, voxels.
    pub(super) first: [i64; 3],
    /// Shape of the image.
    pub(super) image_shape: [usize; 3],
}

/// The channel of every voxel of a part: what a filter makes of its intensities.
pub(super) fn channel(part: &Part<'_>, filter: &Filter, spacing_mm: f64) -> Vec<u16> {
    let voxels = part.voxels;
    match *filter {
        Filter::Intensity | Filter::Layer { .. } => voxels.data().to_vec(),
        Filter::Gradient { axis } => {
            let signed = |d: i32| (i32::from(CHANNEL_ZERO) + (d >> 1)) as u16;
            map(voxels, |at| signed(difference(voxels, at, usize::from(axis))))
        }
        Filter::GradientMagnitude => map(voxels, |at| {
            let squares = (0..3).map(|axis| difference(voxels, at, axis).pow(2) as u32);
            (squares.sum::<u32>().isqrt() >> 1) as u16
        }),
        Filter::Gaussian { sigma_mm } => {
            let smooth = gaussian(voxels, sigma_mm / spacing_mm);
            let half = 1 << (SMOOTH_BITS - 1);
            let rounded = |&v: &u16| ((u32::from(v) + half) >> SMOOTH_BITS) as u16;
            smooth.iter().map(rounded).collect()
        }
        Filter::Laplacian { sigma_mm } => laplacian(voxels, sigma_mm / spacing_mm),
        Filter::LocalMean { .. } => local_mean(voxels, filter.support(spacing_mm) as i64),
        Filter::Place { axis } => {
            let axis = usize::from(axis);
            let last = (part.image_shape[axis] as i64 - 1).max(1);
            map(voxels, |at| {
                let place = (part.first[axis] + at[axis] as i64).clamp(0, last);
                (place * i64::from(MAX_CHANNEL) / last) as u16
            })
        }
    }
}

fn map(voxels: &Volume<u16>, value: impl Fn([usize; 3]) -> u16) -> Vec<u16> {
    let [nx, ny, nz] = voxels.shape();
    let mut out = Vec::with_capacity(nx * ny * nz);
    for k in 0..nz {
        for j in 0..ny {
            out.extend((0..nx).map(|i| value([i, j, k])));
        }
    }
    out
}

/// The next voxel along an axis less the one before.
fn difference(voxels: &Volume<u16>, at: [usize; 3], axis: usize) -> i32 {
    let (mut after, mut before) = (at, at);
    after[axis] = (at[axis] + 1).min(voxels.shape()[axis] - 1);
    before[axis] = at[axis].saturating_sub(1);
    let value = |[i, j, k]: [usize; 3]| i32::from(voxels.at(i, j, k));
    value(after) - value(before)
}

/// Intensities smoothed along one axis after the other, each pass rounded, with [`SMOOTH_BITS`]
/// fractional bits.
fn gaussian(voxels: &Volume<u16>, sigma: f64) -> Vec<u16> {
    let weights = gaussian_weights(sigma);
    let [nx, ny, nz] = voxels.shape();
    let values: Vec<u16> = voxels.data().iter().map(|&v| v << SMOOTH_BITS).collect();
    let values = smoothed_rows(&values, nx, &weights);
    let values = smoothed(&values, (ny, nx), &weights);
    smoothed(&values, (nz, nx * ny), &weights)
}

/// What weighted sums begin with, so that they are rounded.
const HALF: u32 = 1 << 15;

/// One pass along rows of `n` voxels.
fn smoothed_rows(values: &[u16], n: usize, weights: &[u32]) -> Vec<u16> {
    let reach = weights.len() - 1;
    let mut row = vec![0; n + 2 * reach];
    let mut sums = vec![0; n];
    let mut out = Vec::with_capacity(values.len());
    for values in values.chunks_exact(n) {
        row[..reach].fill(values[0]);
        row[reach..reach + n].copy_from_slice(values);
        row[reach + n..].fill(values[n - 1]);
        sums.fill(HALF);
        for (d, &weight) in weights.iter().enumerate() {
            let sides = [&row[reach - d..][..n], &row[reach + d..][..n]];
            add(&mut sums, weight, &sides[usize::from(d == 0)..]);
        }
        out.extend(sums.iter().map(|&s| (s >> 16) as u16));
    }
    out
}

/// One pass along another axis, with `n` voxels that lie `stride` apart. Runs of `stride` voxels that
/// lie side by side have the same neighbours along it.
fn smoothed(values: &[u16], (n, stride): (usize, usize), weights: &[u32]) -> Vec<u16> {
    let mut sums = vec![0; stride];
    let mut out = Vec::with_capacity(values.len());
    for line in values.chunks_exact(n * stride) {
        let run = |at: i64| &line[at.clamp(0, n as i64 - 1) as usize * stride..][..stride];
        for at in 0..n as i64 {
            sums.fill(HALF);
            for (d, &weight) in (0i64..).zip(weights) {
                let sides = [run(at - d), run(at + d)];
                add(&mut sums, weight, &sides[usize::from(d == 0)..]);
            }
            out.extend(sums.iter().map(|&s| (s >> 16) as u16));
        }
    }
    out
}

fn add(sums: &mut [u32], weight: u32, values: &[&[u16]]) {
    for values in values {
        sums.iter_mut().zip(*values).for_each(|(s, &v)| *s += weight * u32::from(v));
    }
}

/// The sum of the six neighbours less six times the voxel of the smoothed image, times twice the
/// Gaussian's variance: a step across the whole range then nearly fills the channel.
fn laplacian(voxels: &Volume<u16>, sigma: f64) -> Vec<u16> {
    let smooth = Volume::new(voxels.geometry().clone(), gaussian(voxels, sigma));
    let variance = (sigma * sigma * 16.0 + 0.5) as i64;
    map(&smooth, |[i, j, k]| {
        let value = |d: [i64; 3]| {
            let at = [i, j, k].map(|n| n as i64);
            i64::from(smooth.at_clamped(at[0] + d[0], at[1] + d[1], at[2] + d[2]))
        };
        let around = value([-1, 0, 0])
            + value([1, 0, 0])
            + value([0, -1, 0])
            + value([0, 1, 0])
            + value([0, 0, -1])
            + value([0, 0, 1]);
        // From sixteenths of the variance and of an intensity to twice the product.
        let value = ((around - 6 * value([0; 3])) * variance) >> (4 + SMOOTH_BITS - 1);
        (i64::from(CHANNEL_ZERO) + value).clamp(0, i64::from(MAX_CHANNEL)) as u16
    })
}

/// The rounded mean over a cube, as far as it lies in the part.
fn local_mean(voxels: &Volume<u16>, radius: i64) -> Vec<u16> {
    let sums = IntegralVolume::new(voxels, 0, Padding::Edge);
    let shape = voxels.shape();
    map(voxels, |at| {
        let low = [0, 1, 2].map(|a| (at[a] as i64 - radius).max(0) as i32);
        let high = [0, 1, 2].map(|a| (at[a] as i64 + radius + 1).min(shape[a] as i64) as i32);
        let count: u32 = (0..3).map(|a| (high[a] - low[a]) as u32).product();
        ((sums.box_sum(low, high) + count / 2) / count) as u16
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;

    fn noise(shape: [usize; 3]) -> Volume<u16> {
        Volume::from_fn(Geometry::isotropic(shape, 1.0).unwrap(), |i, j, k| {
            ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 7 & 4095)
                as u16
        })
    }

    fn filtered(voxels: &Volume<u16>, filter: Filter) -> Volume<u16> {
        let part = Part { voxels, first: [0; 3], image_shape: voxels.shape() };
        Volume::new(voxels.geometry().clone(), channel(&part, &filter, 1.0))
    }

    /// The filters in floating point, from their definitions.
    #[test]
    fn channels_are_within_a_step_of_the_formulas() {
        let image = noise([13, 9, 11]);
        let at = |v: &[f64], i: i64, j: i64, k: i64| {
            let [nx, ny, nz] = image.shape().map(|n| n as i64);
            let [i, j, k] = [i.clamp(0, nx - 1), j.clamp(0, ny - 1), k.clamp(0, nz - 1)];
            v[((k * ny + j) * nx + i) as usize]
        };
        let plain: Vec<f64> = image.data().iter().map(|&v| f64::from(v)).collect();
        let every = |f: &dyn Fn(i64, i64, i64) -> f64| -> Vec<f64> {
            let [nx, ny, nz] = image.shape().map(|n| n as i64);
            (0..nz)
                .flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| f(i, j, k))))
                .collect()
        };
        let step = |i, j, k, axis: usize| {
            let d = |a: usize| i64::from(axis == a);
            at(&plain, i + d(0), j + d(1), k + d(2)) - at(&plain, i - d(0), j - d(1), k - d(2))
        };
        let gauss = |sigma: f64| {
            let radius = (3.0 * sigma).ceil() as i64;
            let shape = |n: i64| (-0.5 * (n as f64 / sigma).powi(2)).exp();
            let all: f64 = (-radius..=radius).map(shape).sum();
            let mut values = plain.clone();
            for axis in 0..3 {
                let before = values.clone();
                let d = |a: usize, n: i64| if axis == a { n } else { 0 };
                values = every(&|i, j, k| {
                    let tap =
                        |n| shape(n) / all * at(&before, i + d(0, n), j + d(1, n), k + d(2, n));
                    (-radius..=radius).map(tap).sum()
                });
            }
            values
        };
        let laplace = |sigma: f64| {
            let smooth = gauss(sigma);
            every(&|i, j, k| {
                let around: f64 = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
                    .iter()
                    .map(|d: &[i64; 3]| {
                        at(&smooth, i + d[0], j + d[1], k + d[2])
                            + at(&smooth, i - d[0], j - d[1], k - d[2])
                    })
                    .sum();
                let value = 2048.0 + 2.0 * sigma * sigma * (around - 6.0 * at(&smooth, i, j, k));
                value.clamp(0.0, 4095.0)
            })
        };
        let mean = every(&|i, j, k| {
            let [nx, ny, nz] = image.shape().map(|n| n as i64);
            let range = |v: i64, n: i64| (v - 2).max(0)..(v + 3).min(n);
            let (mut sum, mut count) = (0.0, 0.0);
            for k in range(k, nz) {
                for j in range(j, ny) {
                    for i in range(i, nx) {
                        (sum, count) = (sum + at(&plain, i, j, k), count + 1.0);
                    }
                }
            }
            sum / count
        });
        let magnitude =
            every(&|i, j, k| (0..3).map(|a| step(i, j, k, a).powi(2)).sum::<f64>().sqrt() / 2.0);
        let cases = [
            (Filter::Intensity, plain.clone(), 0.0),
            (Filter::Gradient { axis: 1 }, every(&|i, j, k| 2048.0 + step(i, j, k, 1) / 2.0), 0.51),
            (Filter::GradientMagnitude, magnitude, 1.01),
            (Filter::Gaussian { sigma_mm: 1.0 }, gauss(1.0), 0.7),
            (Filter::Gaussian { sigma_mm: 2.5 }, gauss(2.5), 0.7),
            (Filter::Laplacian { sigma_mm: 1.0 }, laplace(1.0), 4.0),
            (Filter::LocalMean { radius_mm: 2.0 }, mean, 0.51),
        ];
        for (filter, expected, within) in cases {
            let found = filtered(&image, filter);
            for (n, (&found, expected)) in found.data().iter().zip(expected).enumerate() {
                assert!(
                    (f64::from(found) - expected).abs() <= within,
                    "{filter:?} {n}: {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn places_go_from_end_to_end() {
        let found = filtered(&noise([5, 1, 3]), Filter::Place { axis: 0 });
        assert_eq!(found.data()[..5], [0, 1023, 2047, 3071, 4095]);
        assert!(
            filtered(&noise([5, 1, 3]), Filter::Place { axis: 1 }).data().iter().all(|&v| v == 0)
        );
    }

    #[test]
    fn the_brightest_image_stays_within_12_bits() {
        let white = Volume::filled(Geometry::isotropic([9, 8, 7], 1.0).unwrap(), 4095);
        for filter in Filter::bank(&[0.4, 1.0, 4.0]) {
            let found = filtered(&white, filter);
            let flat = match filter {
                Filter::Gradient { .. } | Filter::Laplacian { .. } => 2048,
                Filter::GradientMagnitude => 0,
                _ => 4095,
            };
            assert!(found.data().iter().all(|&v| v == flat), "{filter:?}");
        }
    }
}
