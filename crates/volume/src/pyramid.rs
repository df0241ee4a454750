//! Coarser levels of a volume by halving.

use crate::{Geometry, Level, Scratch, Volume, VoxelIndex};
use rayon::prelude::*;
use std::io;
use std::sync::Arc;

/// Half the resolution: each new voxel is the mean of 2×2×2 voxels, `(sum + 4) >> 3`; at odd ends
/// the last voxel is repeated. The shape is halved and rounded up, and the centre of the new voxel
/// 0 lies at index ½ of the old.
pub fn downsample2(v: &Volume<u16>) -> Volume<u16> {
    let [nx, ny, nz] = v.shape();
    let shape = [nx, ny, nz].map(|n| n.div_ceil(2));
    let origin = v.geometry().to_lps(VoxelIndex::new(0.5, 0.5, 0.5));
    let geometry = Geometry::derived(shape, v.geometry().matrix() * 2.0, origin);
    let mut data = vec![0u16; geometry.len()];
    data.par_chunks_mut(shape[0] * shape[1]).enumerate().for_each(|(k, plane)| {
        for (j, to) in plane.chunks_mut(shape[0]).enumerate() {
            let row = |dj: usize, dk: usize| {
                let start = v.offset(0, (2 * j + dj).min(ny - 1), (2 * k + dk).min(nz - 1));
                &v.data()[start..start + nx]
            };
            let rows = [row(0, 0), row(1, 0), row(0, 1), row(1, 1)];
            let column = |i: usize| rows.iter().map(|row| u32::from(row[i])).sum::<u32>();
            for (i, to) in to.iter_mut().enumerate() {
                *to = ((column(2 * i) + column((2 * i + 1).min(nx - 1)) + 4) >> 3) as u16;
            }
        }
    });
    Volume::new(geometry, data)
}

/// An image at several resolutions, each level half of the one before; of an image of several
/// channels a level has a volume of each, all on one grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Pyramid {
    volumes: Vec<Level>,
    channels: usize,
}

impl Pyramid {
    /// `levels` levels, at least one, the given volume being the finest.
    pub fn new(finest: Volume<u16>, levels: usize) -> Self {
        Self::of_channels(vec![finest], levels)
    }

    /// `levels` levels, at least one, of an image of several channels that lie on one grid.
    ///
    /// # Panics
    /// Without channels.
    pub fn of_channels(finest: Vec<Volume<u16>>, levels: usize) -> Self {
        assert!(!finest.is_empty(), "an image has a channel");
        let channels = finest.len();
        Self { volumes: finest.into_iter().map(Level::from).collect(), channels }
            .with_levels(levels)
    }

    /// The same with `levels` levels at least.
    pub fn with_levels(&self, levels: usize) -> Self {
        let mut all = self.volumes.clone();
        while all.len() < levels * self.channels {
            all.push(downsample2(&all[all.len() - self.channels].volume()).into());
        }
        Self { volumes: all, channels: self.channels }
    }

    /// The same with so many of its finest levels in a file.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn stored(&self, levels: usize, scratch: &Arc<Scratch>) -> io::Result<Self> {
        let mut volumes = self.volumes.clone();
        for volume in volumes.iter_mut().take(levels * self.channels) {
            *volume = volume.stored(scratch)?;
        }
        Ok(Self { volumes, ..*self })
    }

    /// Number of levels.
    pub fn levels(&self) -> usize {
        self.volumes.len() / self.channels
    }

    /// Number of channels of each level.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Level after level, finest first, the channels of each one after the other.
    pub fn volumes(&self) -> &[Level] {
        &self.volumes
    }

    /// The channels of a level, 0 the finest.
    pub fn level(&self, level: usize) -> &[Level] {
        &self.volumes[level * self.channels..][..self.channels]
    }

    /// The grid of a level, 0 the finest.
    pub fn geometry(&self, level: usize) -> &Geometry {
        self.level(level)[0].geometry()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PointLps;
    use nalgebra::Matrix3;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_rounded_mean_of_eight(
            shape in prop::array::uniform3(1usize..8),
            values in prop::collection::vec(any::<u16>(), 343),
        ) {
            let matrix = Matrix3::new(0.5, 0.1, 0.0, -0.1, 0.0, 2.0, 0.0, -0.7, 0.3);
            let geometry = Geometry::new(shape, matrix, PointLps::new(5.0, -6.0, 7.0)).unwrap();
            let v = Volume::new(geometry.clone(), values[..geometry.len()].to_vec());
            let half = downsample2(&v);
            prop_assert_eq!(half.shape(), shape.map(|n| n.div_ceil(2)));
            Volume::from_fn(half.geometry().clone(), |i, j, k| {
                let eight = (0..8).map(|n| [2 * i + (n & 1), 2 * j + (n >> 1 & 1), 2 * k + (n >> 2)]);
                let sum: u32 = eight.clone().map(|[i, j, k]| u32::from(v.at_clamped(i as i64, j as i64, k as i64))).sum();
                assert_eq!(u32::from(half.at(i, j, k)), (sum + 4) / 8);
                // The new voxel lies in the middle of the eight.
                let positions = eight.map(|n| geometry.to_lps(VoxelIndex::new(n[0] as f64, n[1] as f64, n[2] as f64)).0.coords);
                let middle = positions.sum::<nalgebra::Vector3<f64>>() / 8.0;
                let place = half.geometry().to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
                assert!((place.0.coords - middle).norm() < 1e-12);
                0u8
            });
        }
    }

    #[test]
    fn levels_halve() {
        let v = Volume::filled(Geometry::isotropic([9, 4, 1], 1e9).unwrap(), 4095u16);
        let pyramid = Pyramid::new(v.clone(), 4);
        assert_eq!(pyramid.level(0), [Level::from(v.clone())]);
        let shapes: Vec<_> = pyramid.volumes().iter().map(Level::shape).collect();
        assert_eq!(shapes, [[9, 4, 1], [5, 2, 1], [3, 1, 1], [2, 1, 1]]);
        assert!(
            pyramid.volumes().iter().all(|level| level.volume().data().iter().all(|&v| v == 4095))
        );
        assert_eq!(Pyramid::new(v, 0).levels(), 1);
    }

    #[test]
    fn each_channel_is_halved_by_itself() {
        let geometry = Geometry::isotropic([9, 4, 6], 1.0).unwrap();
        let channel = |n: usize| {
            Volume::from_fn(geometry.clone(), |i, j, k| {
                ((i * 31 + j * 7 + k * n * 100) % 4096) as u16
            })
        };
        let both = Pyramid::of_channels(vec![channel(1), channel(5)], 2).with_levels(3);
        assert_eq!((both.levels(), both.channels(), both.volumes().len()), (3, 2, 6));
        for (c, n) in [1, 5].into_iter().enumerate() {
            let alone = Pyramid::new(channel(n), 3);
            assert!((0..3).all(|level| both.level(level)[c] == alone.level(level)[0]));
            assert_eq!(both.geometry(2), alone.geometry(2));
        }
    }

    #[test]
    fn a_stored_pyramid_is_the_same() {
        let v = Volume::from_fn(Geometry::isotropic([9, 4, 6], 1.0).unwrap(), |i, j, k| {
            (i * 31 + j * 7 + k) as u16
        });
        let folder = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::new(folder.path()).unwrap());
        let held = Pyramid::of_channels(vec![v.clone(), v], 2);
        let is_stored = |level: &Level| matches!(level, Level::Stored(_));
        for levels in [1, 2] {
            let stored = held.stored(levels, &scratch).unwrap();
            assert_eq!(
                stored.volumes().iter().filter(|level| is_stored(level)).count(),
                2 * levels
            );
            assert!(is_stored(&stored.volumes()[1]));
            assert_eq!(stored, held);
            assert_eq!(stored.with_levels(4), held.with_levels(4));
        }
    }
}
