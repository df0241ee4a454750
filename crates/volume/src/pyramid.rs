//! Coarser levels of a volume by halving.

use crate::{Geometry, Level, Scratch, Volume, VoxelIndex};
use nalgebra::{Matrix3, Vector3};
use rayon::prelude::*;
use std::io;
use std::sync::Arc;

/// An axis is halved unless its voxels are so many times as long as those of the shortest axis.
const THICK: f64 = 1.5;

/// How many voxels along each axis become one on the next level: two, and one where they are much longer
/// than those of another axis. So thick slices stay until the voxels are cubes.
fn joined(grid: &Geometry) -> [usize; 3] {
    let spacing_mm = grid.spacing_mm();
    let shortest_mm = spacing_mm.into_iter().fold(f64::INFINITY, f64::min);
    spacing_mm.map(|mm| if mm < THICK * shortest_mm { 2 } else { 1 })
}

/// The grid of the level after one with this grid: the shape is divided by the number of voxels that
/// become one and rounded up, and the centre of its voxel 0 is theirs.
pub fn next_level(grid: &Geometry) -> Geometry {
    let joined = joined(grid);
    let shape = std::array::from_fn(|a| grid.shape()[a].div_ceil(joined[a]));
    let [i, j, k] = joined.map(|n| (n - 1) as f64 / 2.0);
    let times = Matrix3::from_diagonal(&Vector3::from(joined.map(|n| n as f64)));
    Geometry::derived(shape, grid.matrix() * times, grid.to_lps(VoxelIndex::new(i, j, k)))
}

/// The level after this one ([`next_level`]): each new voxel is the rounded mean of those that become
/// one, 2×2×2 where voxels are cubes; at odd ends the last voxel is repeated.
pub fn downsample2(v: &Volume<u16>) -> Volume<u16> {
    let [nx, ny, nz] = v.shape();
    let [di, dj, dk] = joined(v.geometry());
    let geometry = next_level(v.geometry());
    let shape = geometry.shape();
    let mut data = vec![0u16; geometry.len()];
    data.par_chunks_mut(shape[0] * shape[1]).enumerate().for_each(|(k, plane)| {
        for (j, to) in plane.chunks_mut(shape[0]).enumerate() {
            let row = |second_j: bool, second_k: bool| {
                let place = |n: usize, joined: usize, second: bool, count: usize| {
                    (joined * n + if second { joined - 1 } else { 0 }).min(count - 1)
                };
                let start = v.offset(0, place(j, dj, second_j, ny), place(k, dk, second_k, nz));
                &v.data()[start..start + nx]
            };
            // A voxel that stays as it is along an axis counts twice, which does not change the mean.
            let rows = [row(false, false), row(true, false), row(false, true), row(true, true)];
            let column = |i: usize| rows.iter().map(|row| u32::from(row[i])).sum::<u32>();
            for (i, to) in to.iter_mut().enumerate() {
                let second = (di * i + di - 1).min(nx - 1);
                *to = ((column(di * i) + column(second) + 4) >> 3) as u16;
            }
        }
    });
    Volume::new(geometry, data)
}

/// An image at several resolutions, each level the [`next_level`] of the one before; of an image of several
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

    /// The same with so many levels, at least one. Those that both have share their voxels.
    pub fn with_levels(&self, levels: usize) -> Self {
        let mut all = self.volumes.clone();
        all.truncate(levels.max(1) * self.channels);
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_the_rounded_mean(
            shape in prop::array::uniform3(1usize..8),
            thick in prop::array::uniform3(any::<bool>()),
            values in prop::collection::vec(any::<u16>(), 343),
        ) {
            let turn = nalgebra::Rotation3::from_euler_angles(0.3, -0.7, 1.9);
            let mm = thick.map(|thick| if thick { 1.4 } else { 0.7 });
            let matrix = turn.matrix() * Matrix3::from_diagonal(&Vector3::from(mm));
            let geometry = Geometry::new(shape, matrix, PointLps::new(5.0, -6.0, 7.0)).unwrap();
            let v = Volume::new(geometry.clone(), values[..geometry.len()].to_vec());
            let half = downsample2(&v);
            let all = thick == [true; 3];
            let n = thick.map(|thick| if thick && !all { 1 } else { 2 });
            prop_assert_eq!(half.shape(), [0, 1, 2].map(|a| shape[a].div_ceil(n[a])));
            Volume::from_fn(half.geometry().clone(), |i, j, k| {
                let together: Vec<[usize; 3]> = (0..n[2])
                    .flat_map(|dk| (0..n[1]).flat_map(move |dj| (0..n[0]).map(move |di| [n[0] * i + di, n[1] * j + dj, n[2] * k + dk])))
                    .collect();
                let count = together.len();
                let sum: usize = together.iter().map(|&[i, j, k]| usize::from(v.at_clamped(i as i64, j as i64, k as i64))).sum();
                assert_eq!(usize::from(half.at(i, j, k)), (sum + count / 2) / count);
                // The new voxel lies in the middle of them.
                let positions = together.iter().map(|&[i, j, k]| geometry.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64)).0.coords);
                let middle = positions.sum::<nalgebra::Vector3<f64>>() / count as f64;
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
    fn thick_slices_stay_until_voxels_are_cubes() {
        let matrix = Matrix3::from_diagonal(&Vector3::new(4.0, 1.0, 1.0));
        let grid = Geometry::new([7, 40, 40], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        let pyramid = Pyramid::new(Volume::filled(grid, 7u16), 4);
        let shapes: Vec<_> = pyramid.volumes().iter().map(Level::shape).collect();
        assert_eq!(shapes, [[7, 40, 40], [7, 20, 20], [7, 10, 10], [4, 5, 5]]);
        assert_eq!(pyramid.geometry(2).spacing_mm(), [4.0; 3]);
        assert_eq!(pyramid.geometry(3).spacing_mm(), [8.0; 3]);
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
