//! Intensity and gradient of one pyramid level, sampled anywhere by integer trilinear
//! interpolation.

use pbt_volume::{Padding, Volume, gradient};

/// Samples are this many times the stored value: three fractional bits.
pub const SAMPLE_SCALE: i32 = 8;

/// One level of a case: intensity (12 bits) and twice its central differences along i, j, k,
/// interleaved so that one sample reads neighbouring memory.
#[derive(Debug, Clone)]
pub struct ChannelVolume {
    shape: [usize; 3],
    /// Voxel `(0, 0, 0)` of the level lies at this index: one border voxel is added where the image
    /// is padded by zeros.
    border: i32,
    data: Vec<[i16; 4]>,
}

impl ChannelVolume {
    /// The channels of a level. Outside the image samples go on with the border voxel
    /// ([`Padding::Edge`]) or are 0 ([`Padding::Zero`]).
    pub fn new(level: &Volume<u16>, padding: Padding) -> Self {
        match padding {
            Padding::Edge => Self {
                shape: level.shape(),
                border: 0,
                data: interleave(level.data(), &gradient(level)),
            },
            Padding::Zero => {
                let [nx, ny, nz] = level.shape();
                // The same grid, one voxel larger on every side; its placement is not used here.
                let shape = [nx + 2, ny + 2, nz + 2];
                let Ok(geometry) = pbt_volume::Geometry::isotropic(shape, 1.0) else {
                    unreachable!("a level is never empty")
                };
                let mut padded = Volume::filled(geometry, 0u16);
                for k in 0..nz {
                    for j in 0..ny {
                        let (from, to) = (level.offset(0, j, k), padded.offset(1, j + 1, k + 1));
                        padded.data_mut()[to..to + nx]
                            .copy_from_slice(&level.data()[from..from + nx]);
                    }
                }
                // The gradient of the outermost layer is set to 0 too, since samples beyond it
                // repeat it.
                let mut steps = gradient(&padded);
                for k in 0..shape[2] {
                    for j in 0..shape[1] {
                        let row = padded.offset(0, j, k);
                        let outer = |v: usize, n: usize| v == 0 || v == n - 1;
                        if outer(j, shape[1]) || outer(k, shape[2]) {
                            steps[row..row + shape[0]].fill([0; 3]);
                        } else {
                            steps[row] = [0; 3];
                            steps[row + shape[0] - 1] = [0; 3];
                        }
                    }
                }
                Self { shape, border: 1, data: interleave(padded.data(), &steps) }
            }
        }
    }

    /// Intensity and gradient (along the grid's own axes) at a position in voxel units of the
    /// level, `FRAME_BITS` fractional bits, of which the upper 8 count. Each is [`SAMPLE_SCALE`]
    /// times the stored value.
    pub fn sample(&self, at: [i32; 3]) -> [i32; 4] {
        let shift = crate::FRAME_BITS;
        let mut base = 0usize;
        let mut fraction = [0i32; 3];
        let mut step = [0usize; 3];
        let mut stride = 1usize;
        for a in 0..3 {
            let last = self.shape[a] as i32 - 1;
            let whole = (at[a] >> shift) + self.border;
            let inside = whole >= 0 && whole < last;
            // Outside, both neighbours are the border voxel.
            base += whole.clamp(0, last) as usize * stride;
            step[a] = if inside { stride } else { 0 };
            fraction[a] = (at[a] >> (shift - 8)) & 255;
            stride *= self.shape[a];
        }
        let read = |o: usize| self.data[base + o].map(i32::from);
        let lerp = |a: [i32; 4], b: [i32; 4], f: i32| -> [i32; 4] {
            std::array::from_fn(|c| a[c] * 256 + (b[c] - a[c]) * f)
        };
        let row = |o: usize| lerp(read(o), read(o + step[0]), fraction[0]);
        let plane = |o: usize| lerp(row(o), row(o + step[1]), fraction[1]).map(|v| v >> 8);
        // 13 bits with sign, 8 bits more after each direction less the 8 dropped between: at most
        // 30 bits.
        lerp(plane(0), plane(step[2]), fraction[2]).map(|v| v >> 13)
    }
}

fn interleave(intensity: &[u16], steps: &[[i16; 3]]) -> Vec<[i16; 4]> {
    intensity.iter().zip(steps).map(|(&v, g)| [v as i16, g[0], g[1], g[2]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;
    use proptest::prelude::*;

    fn volume() -> Volume<u16> {
        Volume::from_fn(Geometry::isotropic([6, 5, 4], 1.0).unwrap(), |i, j, k| {
            ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 7 & 4095)
                as u16
        })
    }

    proptest! {
        #[test]
        fn close_to_float_trilinear(at in prop::array::uniform3(-3.0f64..8.0), zero in any::<bool>()) {
            let level = volume();
            let padding = if zero { Padding::Zero } else { Padding::Edge };
            let channels = ChannelVolume::new(&level, padding);
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

    #[test]
    fn gradient_channels_at_voxel_centres() {
        let level = volume();
        let channels = ChannelVolume::new(&level, Padding::Edge);
        let sample = channels.sample([2 << 16, 2 << 16, 1 << 16]);
        let step = i32::from(level.at(3, 2, 1)) - i32::from(level.at(1, 2, 1));
        assert_eq!(sample[1], step * SAMPLE_SCALE);
        assert_eq!(channels.sample([i32::MAX, 0, 0]), channels.sample([5 << 16, 0, 0]));
        assert_eq!(ChannelVolume::new(&level, Padding::Zero).sample([i32::MIN, 0, 0]), [0; 4]);
    }
}
