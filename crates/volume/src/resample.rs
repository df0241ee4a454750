//! Resampling a quantised volume onto another grid, with anti-aliasing, in integers.
//!
//! Where the axes of both grids are parallel up to order and direction, one axis is resampled at a
//! time; otherwise the image is smoothed along its own axes as far as the target is coarser, and
//! interpolated trilinearly.

use crate::taps::Taps;
use crate::{Geometry, Volume};
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::ops::Range;

/// What lies outside an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// Zeros.
    Zero,
    /// The border voxels, repeated.
    Edge,
}

/// An image in 12 bits, to be resampled.
pub trait Source: Sync {
    /// Shape and placement.
    fn geometry(&self) -> &Geometry;

    /// The voxels of these ranges along i, j and k, i fastest.
    fn block(&self, ranges: [Range<usize>; 3]) -> Cow<'_, [u16]>;
}

impl Source for Volume<u16> {
    fn geometry(&self) -> &Geometry {
        self.geometry()
    }

    fn block(&self, [i, j, k]: [Range<usize>; 3]) -> Cow<'_, [u16]> {
        let [nx, ny, _] = self.shape();
        if i.len() == nx && j.len() == ny {
            return self.data()[k.start * nx * ny..k.end * nx * ny].into();
        }
        let row = |j: usize, k: usize| &self.data()[self.offset(i.start, j, k)..][..i.len()];
        k.flat_map(|k| j.clone().map(move |j| (j, k)))
            .flat_map(|(j, k)| row(j, k).iter().copied())
            .collect()
    }
}

/// Voxels of an image that are resampled at a time, so that large ones take little memory.
pub const SLAB: usize = 1 << 24;

/// Axes count as parallel when the step along one has components along the others below this,
/// relative to its length.
const PARALLEL: f64 = 1e-6;

/// `image` on the grid `to`. Outside the image there is zero, or the border goes on.
///
/// Along an axis with a coarser target the filter is a triangle as wide as two of the target's
/// voxels, so that every voxel of the image counts (as PIL's `resize` has it); with a finer target
/// it is linear interpolation. Weights are integers (Q14 along parallel axes, 8-bit fractions on
/// oblique ones) and each pass rounds to the nearest integer, so the result has the same bits with
/// any number of threads and for any of the 48 orders and directions in which the image may be
/// stored, as far as positions agree to 10⁻⁶ voxels. A grid that only permutes or flips the image's
/// voxels gives these voxels.
pub fn resample(image: &impl Source, to: &Geometry, padding: Padding) -> Volume<u16> {
    in_slabs(image, to, padding, SLAB)
}

/// By so many voxels at a time.
fn in_slabs(image: &impl Source, to: &Geometry, padding: Padding, slab: usize) -> Volume<u16> {
    // Steps in index units of the image (rows) for one voxel of the target (columns).
    let steps = image.geometry().inverse() * to.matrix();
    let first = image.geometry().to_index(to.origin()).0.coords;
    let data = match parallel_axes(image.geometry(), to, &steps) {
        Some(axes) => along_axes(image, to.shape(), (&steps, first), axes, padding, slab),
        None => oblique(image, to.shape(), &steps, first, padding),
    };
    Volume::new(to.clone(), data)
}

/// For each axis of the target the axis of the image that is parallel to it; `None` on oblique
/// grids.
fn parallel_axes(image: &Geometry, to: &Geometry, steps: &Matrix3<f64>) -> Option<[usize; 3]> {
    let (image_mm, to_mm) = (image.spacing_mm(), to.spacing_mm());
    let part = |a: usize, t: usize| (steps[(a, t)] * image_mm[a] / to_mm[t]).abs();
    let axes = [0, 1, 2]
        .map(|t| (1..3).fold(0, |best, a| if part(a, t) > part(best, t) { a } else { best }));
    let parallel = (0..3).all(|t| (0..3).all(|a| a == axes[t] || part(a, t) <= PARALLEL));
    // No axis may be missing: with all others negligible, two equal ones would make the step matrix
    // singular.
    (parallel && axes[0] != axes[1] && axes[1] != axes[2] && axes[0] != axes[2]).then_some(axes)
}

/// Resampling along one axis after the other, the largest reduction first; target axis `t` is the
/// image's axis `axes[t]`. The image is taken in slabs across its third axis.
fn along_axes(
    image: &impl Source,
    target: [usize; 3],
    (steps, first): (&Matrix3<f64>, Vector3<f64>),
    axes: [usize; 3],
    padding: Padding,
    slab: usize,
) -> Vec<u16> {
    let shape = image.geometry().shape();
    let taps = [0, 1, 2].map(|t| {
        let a = axes[t];
        let (n, step) = (shape[a], steps[(a, t)]);
        // A flipped axis is laid out as if it were not, and its taps turned round afterwards: sums
        // then round the same way.
        let start = if step < 0.0 { (n - 1) as f64 - first[a] } else { first[a] };
        let taps = Taps::resize(start, step.abs(), target[t], n, padding);
        if step < 0.0 { taps.flipped(n) } else { taps }
    });
    // Equal reductions must rank as equal, whatever rounding errors the affines have: each pass
    // rounds, so that their order shows.
    let reduction = |t: usize| (steps[(axes[t], t)].abs() * f64::from(1u32 << 20) + 0.5) as u64;
    let mut order = [2, 1, 0];
    order.sort_by_key(|&t| std::cmp::Reverse(reduction(t)));
    let slow = axes.iter().position(|&a| a == 2).unwrap_or(2);
    let planes = taps[slow].len();
    let a_slab = (slab / (shape[0] * shape[1])).max(1).saturating_mul(planes) / shape[2];
    let mut data = Vec::with_capacity(target.iter().product());
    let mut done = 0;
    while done < planes {
        let outputs = done..(done + a_slab.max(1)).min(planes);
        done = outputs.end;
        let parts =
            [0, 1, 2].map(|t| taps[t].part(if t == slow { outputs.clone() } else { 0..target[t] }));
        let mut ranges = [0..0, 0..0, 0..0];
        (0..3).for_each(|t| ranges[axes[t]] = parts[t].0.clone());
        let mut shape = ranges.each_ref().map(ExactSizeIterator::len);
        let mut slab = image.block(ranges);
        for t in order {
            let (part, a) = (&parts[t].1, axes[t]);
            if !part.is_identity(shape[a]) {
                slab = part.apply(&slab, shape, a).into();
                shape[a] = part.len();
            }
        }
        data.extend_from_slice(&slab);
    }
    let mut shape = shape;
    (0..3).for_each(|t| shape[axes[t]] = target[t]);
    if axes == [0, 1, 2] { data } else { permute(&data, shape, axes) }
}

/// The voxels in another order of the axes: axis `t` of the result is axis `axes[t]` of `data`.
fn permute(data: &[u16], shape: [usize; 3], axes: [usize; 3]) -> Vec<u16> {
    let strides = [1, shape[0], shape[0] * shape[1]];
    let [sx, sy, sz] = axes.map(|a| strides[a]);
    let [nx, ny, _] = axes.map(|a| shape[a]);
    let mut out = vec![0u16; data.len()];
    out.par_chunks_mut(nx).enumerate().for_each(|(line, row)| {
        let start = (line % ny) * sy + (line / ny) * sz;
        row.iter_mut().zip(data[start..].iter().step_by(sx)).for_each(|(to, &v)| *to = v);
    });
    out
}

/// Resampling onto a grid in any direction: smoothing along the image's axes, then trilinear
/// interpolation.
fn oblique(
    image: &impl Source,
    target: [usize; 3],
    steps: &Matrix3<f64>,
    mut first: Vector3<f64>,
    padding: Padding,
) -> Vec<u16> {
    let mut ranges = image.geometry().shape().map(|n| 0..n);
    let mut smoothing: [Option<Taps>; 3] = [None, None, None];
    for a in 0..3 {
        let n = ranges[a].len();
        // Distance of the target's voxels in units of the image's, for an isotropic target exactly.
        let ratio = steps.row(a).norm();
        // Variances of filters add up, and a triangle's goes with its width squared: smoothing and
        // the interpolation that follows have together the width of the triangle used on parallel
        // axes.
        let reach = (ratio * ratio - 1.0).max(0.0).sqrt();
        let needed = interval(steps, first[a], target, a, n);
        first[a] -= needed.start as f64;
        ranges[a] = needed.clone();
        if reach > 1.0 {
            let (source, taps) =
                Taps::smooth(reach, needed.clone(), n, padding).part(0..needed.len());
            (ranges[a], smoothing[a]) = (source, Some(taps));
        }
    }
    let mut shape = ranges.each_ref().map(ExactSizeIterator::len);
    let mut data = image.block(ranges);
    for a in [2, 1, 0] {
        if let Some(taps) = &smoothing[a] {
            data = taps.apply(&data, shape, a).into();
            shape[a] = taps.len();
        }
    }
    let grid = Grid { data: &data, shape, padding };
    let [nx, ny, nz] = target;
    let mut out = vec![0u16; nx * ny * nz];
    out.par_chunks_mut(nx).enumerate().for_each(|(line, row)| {
        let start =
            first + steps.column(1) * (line % ny) as f64 + steps.column(2) * (line / ny) as f64;
        for (i, to) in row.iter_mut().enumerate() {
            *to = grid.trilinear(start + steps.column(0) * i as f64);
        }
    });
    out
}

/// The voxels along axis `a` of the image that the target's box touches, with one to spare on
/// either side; at least one.
fn interval(
    steps: &Matrix3<f64>,
    first: f64,
    target: [usize; 3],
    a: usize,
    n: usize,
) -> Range<usize> {
    let reaches = [0, 1, 2].map(|t| steps[(a, t)] * (target[t] - 1) as f64);
    let low = first + reaches.iter().map(|r| r.min(0.0)).sum::<f64>();
    let high = first + reaches.iter().map(|r| r.max(0.0)).sum::<f64>();
    // Casts saturate: what lies below the image becomes 0.
    let start = ((low - 1.0) as usize).min(n - 1);
    start..((high + 3.0) as usize).clamp(start + 1, n)
}

/// Voxels to interpolate between.
struct Grid<'a> {
    data: &'a [u16],
    shape: [usize; 3],
    padding: Padding,
}

impl Grid<'_> {
    /// The value at a position in index units, rounded to 1/256 voxel; the eight products are
    /// exact, and rounded once.
    fn trilinear(&self, at: Vector3<f64>) -> u16 {
        let [nx, ny, _] = self.shape;
        // From two voxels outside on, nothing changes any more; the clamp keeps far positions
        // within the integers.
        let fixed = [0, 1, 2]
            .map(|a| ((at[a].clamp(-2.0, (self.shape[a] + 1) as f64) + 2.0) * 256.0 + 0.5) as i64);
        let whole = fixed.map(|f| (f >> 8) - 2);
        let [fx, fy, fz] = fixed.map(|f| (f & 255) as u32);
        let inside = (0..3).all(|a| whole[a] >= 0 && whole[a] + 1 < self.shape[a] as i64);
        let at: [u32; 8] = if inside {
            let base = (whole[2] as usize * ny + whole[1] as usize) * nx + whole[0] as usize;
            let (lower, upper) = (&self.data[base..], &self.data[base + nx * ny..]);
            [
                lower[0],
                lower[1],
                lower[nx],
                lower[nx + 1],
                upper[0],
                upper[1],
                upper[nx],
                upper[nx + 1],
            ]
            .map(u32::from)
        } else {
            std::array::from_fn(|n| {
                self.padded([0, 1, 2].map(|a| whole[a] + (n >> a & 1) as i64)).into()
            })
        };
        let along_x = |n: usize| at[n] * (256 - fx) + at[n + 1] * fx;
        let along_y = |n: usize| u64::from(along_x(n) * (256 - fy) + along_x(n + 2) * fy);
        let sum = along_y(0) * u64::from(256 - fz) + along_y(4) * u64::from(fz);
        ((sum + (1 << 23)) >> 24) as u16
    }

    /// The voxel at an index, or the padding.
    fn padded(&self, index: [i64; 3]) -> u16 {
        let inside = [0, 1, 2].map(|a| index[a].clamp(0, self.shape[a] as i64 - 1));
        if self.padding == Padding::Zero && inside != index {
            return 0;
        }
        let [i, j, k] = inside.map(|i| i as usize);
        self.data[(k * self.shape[1] + j) * self.shape[0] + i]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointLps;
    use proptest::prelude::*;

    proptest! {
        /// On parallel axes in any order and direction, and on oblique ones.
        #[test]
        fn slabs_and_blocks_change_nothing(
            shape in prop::array::uniform3(1usize..12),
            to in prop::array::uniform3(1usize..12),
            spacing in prop::array::uniform3(0.3f64..4.0),
            origin in prop::array::uniform3(-3.0f64..3.0),
            order in 0usize..6,
            flip in any::<[bool; 3]>(),
            turn in prop_oneof![Just(0.0f64), -1.0f64..1.0],
            edge in any::<bool>(),
            slab in 1usize..200,
        ) {
            let image = Volume::from_fn(Geometry::isotropic(shape, 1.0).unwrap(), |i, j, k| {
                (i * 389 + j * 1711 + k * 2903) as u16 % 4096
            });
            let axes = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
            let mut matrix = Matrix3::zeros();
            for t in 0..3 {
                matrix[(axes[t], t)] = if flip[t] { -spacing[t] } else { spacing[t] };
            }
            let parallel = turn == 0.0;
            let turn = nalgebra::Rotation3::from_euler_angles(turn, turn / 2.0, -turn);
            let origin = PointLps::new(origin[0], origin[1], origin[2]);
            let to = Geometry::new(to, turn.matrix() * matrix, origin).unwrap();
            let padding = if edge { Padding::Edge } else { Padding::Zero };
            let whole = in_slabs(&image, &to, padding, usize::MAX);
            prop_assert_eq!(&in_slabs(&image, &to, padding, slab), &whole);
            // Where the border goes on, an image that shows it is the same image.
            if parallel && edge {
                let origin = PointLps::new(-40.0, -40.0, -40.0);
                let larger = Geometry::new(shape.map(|n| n + 80), Matrix3::identity(), origin).unwrap();
                let larger = Volume::from_fn(larger, |i, j, k| {
                    let [i, j, k] = [i, j, k].map(|n| n as i64 - 40);
                    image.at_clamped(i, j, k)
                });
                prop_assert_eq!(&resample(&larger, &to, padding), &whole);
            }
        }
    }
}
