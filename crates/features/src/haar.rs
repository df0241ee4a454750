//! A Haar feature: up to four weighted cuboids beside a voxel, summed through the integral volume.

use pbt_volume::{IntegralVolume, MAX_INTENSITY};
use serde::{Deserialize, Serialize};

/// Voxels `min..min + size` relative to the test voxel, and the weight of their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cuboid {
    /// First voxel along i, j, k, relative to the test voxel.
    pub min: [i8; 3],
    /// Number of voxels along i, j, k; at least 1.
    pub size: [u8; 3],
    /// Weight of the sum of the voxels; 0 marks an unused cuboid.
    pub weight: i16,
}

impl Cuboid {
    /// Number of voxels.
    pub fn voxels(&self) -> i64 {
        self.size.iter().map(|&s| i64::from(s)).product()
    }
}

/// Why a list of cuboids is no feature.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HaarError {
    /// None, or more than four.
    #[error("a Haar feature has 1 to 4 cuboids, not {0}")]
    Count(usize),
    /// A cuboid without voxels or without weight.
    #[error("cuboid {0:?} has no voxels or no weight")]
    Empty(Cuboid),
    /// The response could leave `i32`.
    #[error("the response could reach {0}, which does not fit 31 bits")]
    Overflow(i64),
}

/// `Σ weight · (sum of the cuboid's 12-bit voxels)`, as `i32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HaarFeature {
    cuboids: [Cuboid; 4],
}

const UNUSED: Cuboid = Cuboid { min: [0; 3], size: [1; 3], weight: 0 };

impl HaarFeature {
    /// A feature from 1 to 4 cuboids.
    ///
    /// # Errors
    /// [`HaarError`]: wrong number, an empty cuboid, or a response that could reach 2³¹ (the sums wrap modulo 2³² on the way and are
    /// exact only below, DESIGN section 4).
    pub fn new(cuboids: &[Cuboid]) -> Result<Self, HaarError> {
        if cuboids.is_empty() || cuboids.len() > 4 {
            return Err(HaarError::Count(cuboids.len()));
        }
        if let Some(&empty) = cuboids.iter().find(|c| c.size.contains(&0) || c.weight == 0) {
            return Err(HaarError::Empty(empty));
        }
        let reach: i64 = cuboids
            .iter()
            .map(|c| i64::from(c.weight).abs() * c.voxels() * i64::from(MAX_INTENSITY))
            .sum();
        if reach >= 1 << 31 {
            return Err(HaarError::Overflow(reach));
        }
        let mut all = [UNUSED; 4];
        all[..cuboids.len()].copy_from_slice(cuboids);
        Ok(Self { cuboids: all })
    }

    /// The cuboids in use.
    pub fn cuboids(&self) -> impl Iterator<Item = &Cuboid> {
        self.cuboids.iter().filter(|c| c.weight != 0)
    }

    /// How far the feature reaches from the test voxel along any axis, in voxels: the integral
    /// volume must be padded by as much.
    pub fn radius(&self) -> usize {
        let reach = |c: &Cuboid| {
            (0..3)
                .map(|a| (-i32::from(c.min[a])).max(i32::from(c.min[a]) + i32::from(c.size[a]) - 1))
                .max()
                .unwrap_or(0)
        };
        self.cuboids().map(reach).max().unwrap_or(0).max(0) as usize
    }

    /// The table corners that the feature reads, relative to the low corner of the test voxel, with
    /// corners that cuboids share merged and those that cancel left out (an edge reads 12, a line
    /// 16, a 2×2 checker 18 instead of 16, 24, 32).
    pub fn taps(&self) -> Vec<([i32; 3], i32)> {
        let mut taps = std::collections::BTreeMap::new();
        for cuboid in self.cuboids() {
            for corner in 0..8usize {
                // k slowest in the key, so that taps come in memory order.
                let place = [2, 1, 0].map(|a| {
                    i32::from(cuboid.min[a])
                        + if corner >> a & 1 == 1 { i32::from(cuboid.size[a]) } else { 0 }
                });
                let sign = if corner.count_ones() % 2 == 1 { 1 } else { -1 };
                *taps.entry(place).or_insert(0) += sign * i32::from(cuboid.weight);
            }
        }
        taps.into_iter().filter(|&(_, w)| w != 0).map(|([k, j, i], w)| ([i, j, k], w)).collect()
    }

    /// `Σ weight · box sum` at voxel `(i, j, k)` of the volume under the table.
    pub fn response(&self, integral: &IntegralVolume, voxel: [i32; 3]) -> i32 {
        let sum = self.cuboids().fold(0u32, |sum, c| {
            let min: [i32; 3] = std::array::from_fn(|a| voxel[a] + i32::from(c.min[a]));
            let max: [i32; 3] = std::array::from_fn(|a| min[a] + i32::from(c.size[a]));
            sum.wrapping_add(integral.box_sum(min, max).wrapping_mul(c.weight as u32))
        });
        sum as i32
    }

    /// The feature with its taps as offsets into a table with these strides.
    pub fn bind(&self, strides: [usize; 3]) -> BoundHaar {
        let offset =
            |p: [i32; 3]| (0..3).map(|a| p[a] as isize * strides[a] as isize).sum::<isize>();
        BoundHaar { taps: self.taps().into_iter().map(|(p, w)| (offset(p), w)).collect() }
    }
}

/// A feature made ready for one integral volume: table offsets relative to the test voxel's low
/// corner, and weights.
#[derive(Debug, Clone)]
pub struct BoundHaar {
    taps: Vec<(isize, i32)>,
}

impl BoundHaar {
    /// The offsets and weights.
    pub fn taps(&self) -> &[(isize, i32)] {
        &self.taps
    }

    /// The response at the voxel whose low corner is at `base` in the table.
    pub fn response(&self, table: &[u32], base: usize) -> i32 {
        let sum = self.taps.iter().fold(0u32, |sum, &(offset, weight)| {
            sum.wrapping_add(table[base.wrapping_add_signed(offset)].wrapping_mul(weight as u32))
        });
        sum as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{Geometry, Padding, Volume};
    use proptest::prelude::*;

    fn cuboid() -> impl Strategy<Value = Cuboid> {
        (
            prop::array::uniform3(-4i8..4),
            prop::array::uniform3(1u8..5),
            prop_oneof![-9i16..0, 1i16..9],
        )
            .prop_map(|(min, size, weight)| Cuboid { min, size, weight })
    }

    proptest! {
        #[test]
        fn taps_equal_brute_force(cuboids in prop::collection::vec(cuboid(), 1..5), seed in 0u32..1000) {
            let feature = HaarFeature::new(&cuboids).unwrap();
            let geometry = Geometry::isotropic([9, 8, 7], 1.0).unwrap();
            let volume = Volume::from_fn(geometry, |i, j, k| {
                ((i as u32 * 7919 + j as u32 * 104_729 + k as u32 * 1_299_709 + seed).wrapping_mul(2_654_435_761) >> 20) as u16
            });
            let pad = feature.radius();
            let integral = IntegralVolume::new(&volume, pad, Padding::Zero);
            let bound = feature.bind(integral.strides());
            for voxel in [[0, 0, 0], [8, 7, 6], [4, 3, 2]] {
                let mut expected = 0i64;
                for c in &cuboids {
                    for k in 0..i32::from(c.size[2]) { for j in 0..i32::from(c.size[1]) { for i in 0..i32::from(c.size[0]) {
                        let p = [i, j, k];
                        let at: [i32; 3] = std::array::from_fn(|a| voxel[a] + i32::from(c.min[a]) + p[a]);
                        if (0..3).all(|a| at[a] >= 0 && at[a] < volume.shape()[a] as i32) {
                            expected += i64::from(c.weight) * i64::from(volume.at(at[0] as usize, at[1] as usize, at[2] as usize));
                        }
                    }}}
                }
                prop_assert_eq!(i64::from(bound.response(integral.table(), integral.offset(voxel))), expected);
                prop_assert_eq!(i64::from(feature.response(&integral, voxel)), expected);
            }
        }
    }

    #[test]
    fn shared_corners_merge() {
        let edge = [
            Cuboid { min: [0; 3], size: [2, 3, 4], weight: 1 },
            Cuboid { min: [2, 0, 0], size: [2, 3, 4], weight: -1 },
        ];
        assert_eq!(HaarFeature::new(&edge).unwrap().taps().len(), 12);
        let checker: Vec<Cuboid> = (0..4i8)
            .map(|n| Cuboid {
                min: [(n & 1) * 2, (n >> 1) * 2, 0],
                size: [2, 2, 2],
                weight: if n == 0 || n == 3 { 1 } else { -1 },
            })
            .collect();
        assert_eq!(HaarFeature::new(&checker).unwrap().taps().len(), 18);
    }

    #[test]
    fn refuses_what_could_overflow() {
        let huge = Cuboid { min: [-64; 3], size: [128; 3], weight: 1 };
        assert!(matches!(HaarFeature::new(&[huge]), Err(HaarError::Overflow(_))));
        assert_eq!(HaarFeature::new(&[]), Err(HaarError::Count(0)));
    }
}
