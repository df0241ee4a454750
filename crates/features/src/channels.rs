//! Intensity and gradient of one pyramid level, sampled anywhere by integer trilinear
//! interpolation.

use pbt_volume::{Geometry, Level, Meter, Padding};
use std::sync::{Arc, OnceLock};

/// Samples are this many times the stored value: three fractional bits.
pub const SAMPLE_SCALE: i32 = 8;

/// Voxels across a brick, as a power of two.
const BRICK_BITS: usize = 4;
const BRICK: usize = 1 << BRICK_BITS;
/// A brick also holds the first layer of the next one on each axis, so that the eight neighbours of
/// a sample lie in one.
const ACROSS: usize = BRICK + 1;
/// Voxels across what the gradients of a brick are taken from.
const WITH_NEIGHBOURS: usize = ACROSS + 2;

/// Intensity and gradients of a voxel.
type Channels = [i16; 4];

/// One level of a case: intensity (12 bits) and twice its central differences along i, j, k,
/// interleaved so that one sample reads neighbouring memory. Differences are per edge of the shortest axis:
/// across slices that are 2ⁿ times as thick they are divided by 2ⁿ and rounded ([`gradient_shifts`]).
///
/// They are made brick by brick where the first sample falls, since boxes are sampled in a small
/// part of a large image only.
#[derive(Debug)]
pub struct ChannelVolume {
    level: Level,
    /// Of the level with its border.
    shape: [usize; 3],
    /// Voxel `(0, 0, 0)` of the level lies at this index: one border voxel is added where the image
    /// is padded by zeros.
    border: usize,
    bricks: Vec<OnceLock<Box<[Channels]>>>,
    brick_counts: [usize; 3],
    /// By how many bits differences are shifted, and what is added to round them.
    shifts: [(u32, i16); 3],
    /// Counts what the bricks take.
    meter: Arc<Meter>,
}

/// By how many bits the differences along i, j, k are shifted to the right so that they are gradients on
/// one scale: how often the voxels are twice as long as those along the shortest axis.
pub fn gradient_shifts(level: &Geometry) -> [u32; 3] {
    let spacing_mm = level.spacing_mm();
    let shortest_mm = spacing_mm.into_iter().fold(f64::INFINITY, f64::min);
    // Differences have 13 bits.
    spacing_mm.map(|mm| libm::round(libm::log2(mm / shortest_mm)).clamp(0.0, 13.0) as u32)
}

/// Bytes of a brick.
const BRICK_BYTES: usize = ACROSS * ACROSS * ACROSS * size_of::<Channels>();

impl ChannelVolume {
    /// The channels of a level. Outside the image samples go on with the border voxel
    /// ([`Padding::Edge`]) or are 0 ([`Padding::Zero`]).
    pub fn new(level: &Level, padding: Padding) -> Self {
        Self::metered(level, padding, Arc::default())
    }

    /// As [`ChannelVolume::new`]; what it takes, until it is dropped, is counted by `meter`.
    pub fn metered(level: &Level, padding: Padding, meter: Arc<Meter>) -> Self {
        let border = usize::from(padding == Padding::Zero);
        let shape = level.shape().map(|n| n + 2 * border);
        let brick_counts = shape.map(|n| n.div_ceil(BRICK));
        let bricks = (0..brick_counts.iter().product()).map(|_| OnceLock::new()).collect();
        let shifts = gradient_shifts(level.geometry()).map(|bits| (bits, (1i16 << bits) >> 1));
        Self { level: level.clone(), shape, border, bricks, brick_counts, shifts, meter }
    }

    /// Intensity and gradient (along the grid's own axes) at a position in voxel units of the
    /// level, `FRAME_BITS` fractional bits, of which the upper 8 count. Each is [`SAMPLE_SCALE`]
    /// times the stored value.
    pub fn sample(&self, at: [i32; 3]) -> [i32; 4] {
        let shift = crate::FRAME_BITS;
        let mut brick = [0usize; 3];
        let mut base = 0usize;
        let mut fraction = [0i32; 3];
        let mut step = [0usize; 3];
        let mut stride = 1usize;
        for a in 0..3 {
            let last = self.shape[a] as i32 - 1;
            let whole = (at[a] >> shift) + self.border as i32;
            let inside = whole >= 0 && whole < last;
            // Outside, both neighbours are the border voxel.
            let voxel = whole.clamp(0, last) as usize;
            brick[a] = voxel >> BRICK_BITS;
            base += (voxel & (BRICK - 1)) * stride;
            step[a] = if inside { stride } else { 0 };
            fraction[a] = (at[a] >> (shift - 8)) & 255;
            stride *= ACROSS;
        }
        let data = self.brick(brick);
        // Written out: iterators over arrays are not always compiled into plain arithmetic.
        let read = |o: usize| {
            let [v, x, y, z] = data[base + o];
            [i32::from(v), i32::from(x), i32::from(y), i32::from(z)]
        };
        let lerp = |[a, b, c, d]: [i32; 4], [e, f, g, h]: [i32; 4], share: i32| {
            let between = |from: i32, to: i32| from * 256 + (to - from) * share;
            [between(a, e), between(b, f), between(c, g), between(d, h)]
        };
        let drop = |[a, b, c, d]: [i32; 4], bits: i32| [a >> bits, b >> bits, c >> bits, d >> bits];
        let row = |o: usize| lerp(read(o), read(o + step[0]), fraction[0]);
        let plane = |o: usize| drop(lerp(row(o), row(o + step[1]), fraction[1]), 8);
        // 13 bits with sign, 8 bits more after each direction less the 8 dropped between: at most
        // 30 bits.
        drop(lerp(plane(0), plane(step[2]), fraction[2]), 13)
    }

    fn brick(&self, [i, j, k]: [usize; 3]) -> &[Channels] {
        let number = (k * self.brick_counts[1] + j) * self.brick_counts[0] + i;
        self.bricks[number].get_or_init(|| {
            self.meter.add(BRICK_BYTES);
            self.make_brick([i, j, k].map(|b| b * BRICK))
        })
    }

    /// The brick from this voxel of the bordered level on. What lies beyond the level is not read.
    fn make_brick(&self, first: [usize; 3]) -> Box<[Channels]> {
        let values = self.with_neighbours(first);
        let [stride_j, stride_k] = [WITH_NEIGHBOURS, WITH_NEIGHBOURS * WITH_NEIGHBOURS];
        let outer = |a: usize, n: usize| first[a] + n == 0 || first[a] + n == self.shape[a] - 1;
        let mut brick = Vec::with_capacity(ACROSS * ACROSS * ACROSS);
        for k in 0..ACROSS {
            for j in 0..ACROSS {
                let row = (k + 1) * stride_k + (j + 1) * stride_j + 1;
                for i in 0..ACROSS {
                    let at = row + i;
                    let step = |(stride, (bits, half)): (usize, (u32, i16))| {
                        (values[at + stride] - values[at - stride] + half) >> bits
                    };
                    let [si, sj, sk] = self.shifts;
                    let steps = [step((1, si)), step((stride_j, sj)), step((stride_k, sk))];
                    // Samples beyond the outermost layer repeat it: beyond zeros nothing changes.
                    let flat = self.border > 0 && (outer(0, i) || outer(1, j) || outer(2, k));
                    let [x, y, z] = if flat { [0; 3] } else { steps };
                    brick.push([values[at], x, y, z]);
                }
            }
        }
        brick.into_boxed_slice()
    }

    /// Intensities of a brick and the voxels around it; those beyond the bordered level are those
    /// of its border.
    fn with_neighbours(&self, first: [usize; 3]) -> Vec<i16> {
        let shape = self.level.shape();
        // Index on the level, or none in the border.
        let on_level = [0, 1, 2].map(|a| {
            let place = |n: usize| {
                let voxel = (first[a] + n).saturating_sub(1).min(self.shape[a] - 1);
                voxel.checked_sub(self.border).filter(|&v| v < shape[a])
            };
            (0..WITH_NEIGHBOURS).map(place).collect::<Vec<_>>()
        });
        let ends = [0, 1, 2].map(|a| {
            let mut indices = on_level[a].iter().flatten();
            let low = indices.next().copied().unwrap_or(0);
            (low, indices.next_back().map_or(low, |&high| high) + 1 - low)
        });
        let (low, across) = (ends.map(|(low, _)| low), ends.map(|(_, across)| across));
        let block = self.level.block(low, across);
        let mut values = Vec::with_capacity(WITH_NEIGHBOURS.pow(3));
        for k in &on_level[2] {
            for j in &on_level[1] {
                let row = j.zip(*k).map(|(j, k)| {
                    &block[((k - low[2]) * across[1] + j - low[1]) * across[0]..][..across[0]]
                });
                let value = |i: &Option<usize>| {
                    row.zip(*i).map_or(0, |(row, i)| row[i - low[0]].min(i16::MAX as u16) as i16)
                };
                values.extend(on_level[0].iter().map(value));
            }
        }
        values
    }
}

impl Drop for ChannelVolume {
    fn drop(&mut self) {
        let made = self.bricks.iter().filter(|brick| brick.get().is_some()).count();
        self.meter.remove(made * BRICK_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{Geometry, Volume};
    use proptest::prelude::*;

    fn volume(shape: [usize; 3]) -> Volume<u16> {
        Volume::from_fn(Geometry::isotropic(shape, 1.0).unwrap(), |i, j, k| {
            ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 7 & 4095)
                as u16
        })
    }

    proptest! {
        #[test]
        fn close_to_float_trilinear(at in prop::array::uniform3(-3.0f64..36.0), zero in any::<bool>()) {
            let level = volume([34, 5, 17]);
            let padding = if zero { Padding::Zero } else { Padding::Edge };
            let channels = ChannelVolume::new(&level.clone().into(), padding);
            let fixed = at.map(|v| (v * 65536.0).floor() as i32);
            // The sampler keeps the upper 8 bits of the fraction.
            let at = fixed.map(|v| f64::from(v >> 8) / 256.0);
            let value = |p: [i64; 3]| {
                let outside = (0..3).any(|a| p[a] < 0 || p[a] >= level.shape()[a] as i64);
                if zero && outside { 0.0 } else { f64::from(level.at_clamped(p[0], p[1], p[2])) }
            };
            let mut expected = 0.0;
            for corner in 0..8i64 {
                let mut weight = 1.0;
                let p: [i64; 3] = std::array::from_fn(|a| {
                    let f = at[a] - at[a].floor();
                    let up = corner >> a & 1;
                    weight *= if up == 1 { f } else { 1.0 - f };
                    at[a].floor() as i64 + up
                });
                expected += weight * value(p);
            }
            let found = f64::from(channels.sample(fixed)[0]) / f64::from(SAMPLE_SCALE);
            prop_assert!((found - expected).abs() < 0.2, "{found} against {expected}");
        }
    }

    /// `v[i+1] − v[i−1]` at every voxel; at the border the missing neighbour is the voxel itself,
    /// or 0 where the image is padded by zeros.
    #[test]
    fn gradients_are_differences_of_neighbours() {
        let level = volume([35, 4, 18]);
        for padding in [Padding::Edge, Padding::Zero] {
            let channels = ChannelVolume::new(&level.clone().into(), padding);
            Volume::from_fn(level.geometry().clone(), |i, j, k| {
                let at = |di: i64, dj: i64, dk: i64| {
                    let p = [i as i64 + di, j as i64 + dj, k as i64 + dk];
                    let outside = (0..3).any(|a| p[a] < 0 || p[a] >= level.shape()[a] as i64);
                    let zero = outside && padding == Padding::Zero;
                    if zero { 0 } else { i32::from(level.at_clamped(p[0], p[1], p[2])) }
                };
                let expected = [
                    at(0, 0, 0),
                    at(1, 0, 0) - at(-1, 0, 0),
                    at(0, 1, 0) - at(0, -1, 0),
                    at(0, 0, 1) - at(0, 0, -1),
                ];
                let found = channels.sample([i, j, k].map(|v| (v as i32) << 16));
                assert_eq!(found, expected.map(|v| v * SAMPLE_SCALE), "{padding:?} {i} {j} {k}");
                0u8
            });
        }
    }

    /// A ramp rises by as much for each millimetre in every direction, so its gradient has the same parts
    /// along all axes, thick slices or not.
    #[test]
    fn gradients_are_on_one_scale() {
        let matrix = nalgebra::Matrix3::from_diagonal(&nalgebra::Vector3::new(1.0, 2.0, 8.0));
        let origin = pbt_volume::PointLps::new(0.0, 0.0, 0.0);
        let geometry = Geometry::new([12, 9, 5], matrix, origin).unwrap();
        assert_eq!(gradient_shifts(&geometry), [0, 1, 3]);
        let ramp = Volume::from_fn(geometry, |i, j, k| (40 * (i + 2 * j + 8 * k)) as u16);
        let channels = ChannelVolume::new(&ramp.into(), Padding::Edge);
        let expected = [40 * (5 + 2 * 4 + 8 * 2), 80, 80, 80].map(|v| v * SAMPLE_SCALE);
        assert_eq!(channels.sample([5 << 16, 4 << 16, 2 << 16]), expected);
    }

    #[test]
    fn what_bricks_take_is_counted_while_they_are_there() {
        let (level, meter) = (volume([40, 20, 3]), Arc::new(Meter::default()));
        let channels = ChannelVolume::metered(&level.into(), Padding::Edge, meter.clone());
        assert_eq!(meter.bytes(), 0);
        for i in [0, 3, 17] {
            channels.sample([i << 16, 0, 0]);
        }
        assert_eq!(meter.bytes(), 2 * BRICK_BYTES);
        drop(channels);
        assert_eq!(meter.bytes(), 0);
    }

    #[test]
    fn far_outside_is_the_border_or_zero() {
        let level = volume([6, 5, 4]);
        let channels = ChannelVolume::new(&level.clone().into(), Padding::Edge);
        assert_eq!(channels.sample([i32::MAX, 0, 0]), channels.sample([5 << 16, 0, 0]));
        assert_eq!(
            ChannelVolume::new(&level.clone().into(), Padding::Zero).sample([i32::MIN, 0, 0]),
            [0; 4]
        );
    }
}
