//! The integral volume: sums of boxes from eight corners.

use crate::{Padding, Volume};
use rayon::prelude::*;

/// Sums of all voxels below each corner, in `u32` modulo 2³². The sum of a box is exact as long as
/// it is itself below 2³²: more than a million voxels of 12 bits.
///
/// The *image* is padded before it is summed, so that boxes reaching up to `pad` voxels outside
/// need no test of bounds. The table has one entry a corner of the padded grid: `shape + 2·pad + 1`
/// along each axis.
#[derive(Debug, Clone, PartialEq)]
pub struct IntegralVolume {
    shape: [usize; 3],
    pad: usize,
    strides: [usize; 3],
    table: Vec<u32>,
}

impl IntegralVolume {
    /// The integral of a volume that goes on for `pad` voxels on every side, with zeros or with its
    /// border voxels.
    ///
    /// Wrapping sums have no order, so that any number of threads gives the same bits. The volume
    /// is cut into slabs of planes; sums along k are carried from slab to slab in a plane of column
    /// sums that is found first by reading the input alone, so that the large table is written once
    /// and never read back from memory.
    pub fn new(v: &Volume<u16>, pad: usize, padding: Padding) -> Self {
        Self::with_buffer(Vec::new(), v, pad, padding)
    }

    /// As [`IntegralVolume::new`], in the memory of an earlier table (see
    /// [`IntegralVolume::into_table`]) where that is large enough: the system takes longer to hand
    /// out the pages of a large new table than it takes to fill it.
    pub fn with_buffer(buffer: Vec<u32>, v: &Volume<u16>, pad: usize, padding: Padding) -> Self {
        let shape = v.shape();
        let padded = shape.map(|n| n + 2 * pad);
        let strides = [1, padded[0] + 1, (padded[0] + 1) * (padded[1] + 1)];
        let source = Source { v, pad, padding, padded };
        let len = strides[2] * (padded[2] + 1);
        let mut table = buffer;
        if table.capacity() < len {
            // Zeroed pages come from the system one by one as they are touched, by whichever thread
            // that is.
            table = vec![0; len];
        }
        table.resize(len, 0);

        // The first plane of the table is zero; plane k + 1 of it ends with the voxels of plane k.
        table[..strides[2]].fill(0);
        let slab = padded[2].div_ceil(rayon::current_num_threads());
        let slabs = padded[2].div_ceil(slab);
        let mut carries: Vec<Vec<u32>> = (0..slabs)
            .into_par_iter()
            .map(|s| {
                let mut columns = vec![0u32; padded[0] * padded[1]];
                // The slab before this one; the first has none.
                for k in s.saturating_sub(1) * slab..s * slab {
                    source.add_plane(k, &mut columns);
                }
                columns
            })
            .collect();
        for s in 1..slabs {
            let (before, here) = carries.split_at_mut(s);
            here[0].iter_mut().zip(&before[s - 1]).for_each(|(c, b)| *c = c.wrapping_add(*b));
        }
        table[strides[2]..].par_chunks_mut(slab * strides[2]).zip(carries).enumerate().for_each(
            |(s, (planes, mut columns))| {
                for (k, plane) in planes.chunks_mut(strides[2]).enumerate() {
                    source.add_plane(s * slab + k, &mut columns);
                    integrate_plane(&columns, padded[0], plane);
                }
            },
        );
        Self { shape, pad, strides, table }
    }

    /// Place in the table of the corner at the low side of voxel `corner`, valid from `-pad` to
    /// `shape + pad` on each axis.
    pub fn offset(&self, corner: [i32; 3]) -> usize {
        (0..3).map(|a| (i64::from(corner[a]) + self.pad as i64) as usize * self.strides[a]).sum()
    }

    /// Distance in the table between corners that are neighbours along i, j, k.
    pub fn strides(&self) -> [usize; 3] {
        self.strides
    }

    /// The sums, i fastest.
    pub fn table(&self) -> &[u32] {
        &self.table
    }

    /// The table alone, to be used again by [`IntegralVolume::with_buffer`].
    pub fn into_table(self) -> Vec<u32> {
        self.table
    }

    /// Number of voxels along i, j, k of the volume without its padding.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Voxels of padding on every side.
    pub fn pad(&self) -> usize {
        self.pad
    }

    /// Sum modulo 2³² of the voxels from `min` up to but not including `max`; both within
    /// `-pad..=shape + pad`, `min ≤ max`.
    ///
    /// # Panics
    /// When a corner lies outside the table.
    pub fn box_sum(&self, min: [i32; 3], max: [i32; 3]) -> u32 {
        let corner = |n: usize| {
            let at = [0, 1, 2].map(|a| if n >> a & 1 == 1 { max[a] } else { min[a] });
            self.table[self.offset(at)]
        };
        // A corner's sign is minus for every axis on which it lies at the low side.
        (0..8usize).fold(0u32, |sum, n| {
            if n.count_ones() % 2 == 1 {
                sum.wrapping_add(corner(n))
            } else {
                sum.wrapping_sub(corner(n))
            }
        })
    }
}

/// The padded image, plane by plane.
struct Source<'a> {
    v: &'a Volume<u16>,
    pad: usize,
    padding: Padding,
    padded: [usize; 3],
}

impl Source<'_> {
    /// Adds plane `k` of the padded image to the column sums.
    fn add_plane(&self, k: usize, columns: &mut [u32]) {
        let [nx, ny, nz] = self.v.shape();
        let Some(k) = self.inside(k, nz) else { return };
        for (j, sums) in columns.chunks_mut(self.padded[0]).enumerate() {
            let Some(j) = self.inside(j, ny) else { continue };
            let start = self.v.offset(0, j, k);
            let row = &self.v.data()[start..start + nx];
            let (left, rest) = sums.split_at_mut(self.pad);
            let (middle, right) = rest.split_at_mut(nx);
            for (sum, &v) in middle.iter_mut().zip(row) {
                *sum = sum.wrapping_add(v.into());
            }
            if self.padding == Padding::Edge {
                left.iter_mut().for_each(|sum| *sum = sum.wrapping_add(row[0].into()));
                right.iter_mut().for_each(|sum| *sum = sum.wrapping_add(row[nx - 1].into()));
            }
        }
    }

    /// The image index behind an index of the padded image, `None` where the padding is zero.
    fn inside(&self, index: usize, n: usize) -> Option<usize> {
        let moved = index.checked_sub(self.pad);
        match self.padding {
            Padding::Zero => moved.filter(|&m| m < n),
            Padding::Edge => Some(moved.unwrap_or(0).min(n - 1)),
        }
    }
}

/// One plane of the table from the sums of the columns below it: sums along i and j. The first row
/// and column are zero.
fn integrate_plane(columns: &[u32], width: usize, plane: &mut [u32]) {
    let (mut before, mut rest) = plane.split_at_mut(width + 1);
    before.fill(0);
    for row in columns.chunks(width) {
        let (here, after) = rest.split_at_mut(width + 1);
        let mut sum = 0u32;
        here[0] = 0;
        for ((to, &up), &column) in here[1..].iter_mut().zip(&before[1..]).zip(row) {
            sum = sum.wrapping_add(column);
            *to = up.wrapping_add(sum);
        }
        (before, rest) = (here, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use proptest::prelude::*;

    /// The voxel of the padded image, slowly.
    fn padded(v: &Volume<u16>, index: [i64; 3], padding: Padding) -> u64 {
        let outside = (0..3).any(|a| index[a] < 0 || index[a] >= v.shape()[a] as i64);
        if outside && padding == Padding::Zero {
            0
        } else {
            v.at_clamped(index[0], index[1], index[2]).into()
        }
    }

    fn noise(shape: [usize; 3]) -> Volume<u16> {
        let mut state = 1u32;
        Volume::from_fn(Geometry::isotropic(shape, 1.0).unwrap(), |_, _, _| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as u16
        })
    }

    proptest! {
        #[test]
        fn box_sums_are_sums_over_voxels(
            shape in prop::array::uniform3(1usize..7),
            values in prop::collection::vec(any::<u16>(), 216),
            pad in 0usize..4,
            edge in any::<bool>(),
            corners in prop::array::uniform6(0.0f64..1.0),
        ) {
            let geometry = Geometry::isotropic(shape, 1.0).unwrap();
            let v = Volume::new(geometry.clone(), values[..geometry.len()].to_vec());
            let padding = if edge { Padding::Edge } else { Padding::Zero };
            let integral = IntegralVolume::new(&v, pad, padding);
            prop_assert_eq!(integral.shape(), shape);
            prop_assert_eq!(integral.table().len(), shape.iter().map(|n| n + 2 * pad + 1).product::<usize>());
            let place = |a: usize, part: f64| (part * (shape[a] + 2 * pad + 1) as f64) as i32 - pad as i32;
            let low = [0, 1, 2].map(|a| place(a, corners[a]).min(place(a, corners[a + 3])));
            let high = [0, 1, 2].map(|a| place(a, corners[a]).max(place(a, corners[a + 3])));
            let mut expected = 0u64;
            for k in low[2]..high[2] {
                for j in low[1]..high[1] {
                    for i in low[0]..high[0] {
                        expected += padded(&v, [i, j, k].map(i64::from), padding);
                    }
                }
            }
            prop_assert_eq!(u64::from(integral.box_sum(low, high)), expected);
        }
    }

    #[test]
    fn has_the_same_bits_with_any_threads_and_in_used_memory() {
        let v = noise([13, 11, 17]);
        for padding in [Padding::Zero, Padding::Edge] {
            let expected = IntegralVolume::new(&v, 3, padding);
            for threads in [1, 2, 3, 8, 40] {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                assert_eq!(
                    pool.install(|| IntegralVolume::new(&v, 3, padding)),
                    expected,
                    "{threads} threads"
                );
            }
            for len in [10, expected.table().len(), expected.table().len() + 500] {
                assert_eq!(
                    IntegralVolume::with_buffer(vec![u32::MAX; len], &v, 3, padding),
                    expected
                );
            }
            assert_eq!(expected.clone().into_table(), expected.table());
        }
    }

    #[test]
    fn boxes_stay_exact_when_the_table_wraps() {
        // 42³ · 65535 exceeds 2³².
        let v = Volume::filled(Geometry::isotropic([42; 3], 1.0).unwrap(), u16::MAX);
        let integral = IntegralVolume::new(&v, 0, Padding::Zero);
        assert_eq!(u64::from(integral.box_sum([0; 3], [42; 3])), 42 * 42 * 42 * 65535 % (1 << 32));
        assert_eq!(integral.box_sum([31, 30, 29], [42; 3]), 11 * 12 * 13 * 65535);
    }

    #[test]
    fn offsets_follow_the_strides() {
        let integral = IntegralVolume::new(&noise([3, 4, 5]), 2, Padding::Zero);
        let [sx, sy, sz] = integral.strides();
        assert_eq!((integral.pad(), integral.offset([-2; 3])), (2, 0));
        assert_eq!(integral.offset([0; 3]), 2 * (sx + sy + sz));
        assert_eq!(integral.offset([5, 6, 7]) + 1, integral.table().len());
    }
}
