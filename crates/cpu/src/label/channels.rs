//! The channels of a part of an image as integral volumes.

use crate::label::filters::{Part, channel};
use pbt_features::{BoxMeanFeature, Filter, MISSING, MeanBox};
use pbt_tree::{Block, ChannelBank, ChannelPart, Layered, VoxelRange, shape_of};
use pbt_volume::{Geometry, IntegralVolume, Padding, Volume};
use rayon::prelude::*;

/// Channels of all voxels that boxes about a block's voxels can read.
#[derive(Debug)]
pub struct CpuChannels {
    /// The voxels that boxes lie about.
    pub(super) block: Block,
    part: ChannelPart,
    tables: Vec<IntegralVolume>,
}

fn geometry(range: &VoxelRange) -> Geometry {
    Geometry::isotropic(shape_of(range), 1.0).expect("a part of an image has voxels")
}

impl CpuChannels {
    /// The channels for a block.
    pub(super) fn new(of: Layered<'_>, bank: &ChannelBank, block: &Block) -> Self {
        let shape = of.image.shape();
        let part = ChannelPart::new(shape, bank, block);
        let voxels = Volume::new(geometry(&part.source), part.voxels(of.image).into_owned());
        let source = Part { voxels: &voxels, first: part.source[0], image_shape: shape };
        let skip = part.skip();
        let table = |filter: &Filter| {
            let values = match *filter {
                Filter::Layer { layer } => part.voxels(of.layers[usize::from(layer)]).into_owned(),
                _ => channel(&source, filter, bank.spacing_mm),
            };
            let values = Volume::new(voxels.geometry().clone(), values);
            let cut = Volume::from_fn(geometry(&part.read), |i, j, k| {
                values.at(i + skip[0], j + skip[1], k + skip[2])
            });
            IntegralVolume::new(&cut, 0, Padding::Edge)
        };
        let tables = bank.filters.par_iter().map(table).collect();
        Self { block: *block, part, tables }
    }

    /// Where a voxel of the image stands in the tables.
    #[inline]
    pub(super) fn base(&self, voxel: [usize; 3]) -> usize {
        let strides = self.tables[0].strides();
        (0..3).map(|a| (voxel[a] as i64 - self.part.read[0][a]) as usize * strides[a]).sum()
    }

    /// A feature made ready for these tables.
    pub(super) fn bind(&self, feature: &BoxMeanFeature) -> BoundFeature<'_> {
        let first = self.bind_box(&feature.first);
        let second = feature.second.as_ref().map(|second| self.bind_box(second));
        let [low, high] = self.part.range(feature);
        let voxels = |b: &MeanBox| b.voxels() as u32;
        BoundFeature {
            counts: [voxels(&feature.first), feature.second.as_ref().map_or(1, voxels)],
            first,
            second,
            low,
            high,
        }
    }

    fn bind_box(&self, b: &MeanBox) -> BoundBox<'_> {
        let table = &self.tables[usize::from(b.channel)];
        let strides = table.strides().map(|s| s as i64);
        let corner = |n: usize| -> i64 {
            (0..3)
                .map(|a| {
                    let far = if n >> a & 1 == 1 { i64::from(b.size[a]) } else { 0 };
                    (i64::from(b.min[a]) + far) * strides[a]
                })
                .sum()
        };
        BoundBox {
            table: table.table(),
            corners: [0, 1, 2, 3, 4, 5, 6, 7].map(|n| corner(n) as isize),
        }
    }
}

/// A box as places in a table, relative to its voxel.
pub(super) struct BoundBox<'a> {
    table: &'a [u32],
    /// Corner `n` is the far one along the axes whose bits are set.
    corners: [isize; 8],
}

impl BoundBox<'_> {
    /// The sum of the box about the voxel that stands at `base`.
    #[inline]
    fn sum(&self, base: usize) -> u32 {
        sum(|n| self.table[base.wrapping_add_signed(self.corners[n])])
    }

    /// The sums about so many voxels that follow each other along i, the first of which stands at `base`.
    #[inline]
    fn sums(&self, base: usize, count: usize) -> impl Iterator<Item = u32> {
        let corners =
            self.corners.map(|corner| &self.table[base.wrapping_add_signed(corner)..][..count]);
        (0..count).map(move |voxel| sum(|n| corners[n][voxel]))
    }
}

/// The sum of a box by its corners in an integral volume.
#[inline]
fn sum(at: impl Fn(usize) -> u32) -> u32 {
    let row = |n: usize| at(n + 1).wrapping_sub(at(n));
    row(6).wrapping_sub(row(4)).wrapping_sub(row(2).wrapping_sub(row(0)))
}

/// A feature made ready for the channels of a part.
pub(super) struct BoundFeature<'a> {
    first: BoundBox<'a>,
    second: Option<BoundBox<'a>>,
    /// Voxels of the boxes.
    counts: [u32; 2],
    /// Both boxes lie inside for voxels from `low` up to but not including `high`.
    low: [i64; 3],
    high: [i64; 3],
}

impl BoundFeature<'_> {
    /// The response at a voxel of the image, which stands at `base`.
    #[inline]
    pub(super) fn response(&self, voxel: [usize; 3], base: usize) -> i64 {
        let inside = |a: usize| (self.low[a]..self.high[a]).contains(&(voxel[a] as i64));
        if !(inside(0) && inside(1) && inside(2)) {
            return MISSING;
        }
        match &self.second {
            Some(second) => self.difference(self.first.sum(base), second.sum(base)),
            None => i64::from(self.first.sum(base)),
        }
    }

    /// Writes the responses at voxels that follow each other along i, the first of which stands at `base`.
    pub(super) fn responses(&self, voxel: [usize; 3], base: usize, out: &mut [i64]) {
        let inside = |a: usize| (self.low[a]..self.high[a]).contains(&(voxel[a] as i64));
        if !(inside(1) && inside(2)) {
            out.fill(MISSING);
            return;
        }
        let end = |at: i64| (at - voxel[0] as i64).clamp(0, out.len() as i64) as usize;
        let (from, to) = (end(self.low[0]), end(self.high[0]));
        out[..from].fill(MISSING);
        out[to.max(from)..].fill(MISSING);
        if from >= to {
            return;
        }
        let (base, count) = (base + from, to - from);
        let out = out[from..to].iter_mut().zip(self.first.sums(base, count));
        match &self.second {
            Some(second) => {
                let sums = out.zip(second.sums(base, count));
                sums.for_each(|((out, first), second)| *out = self.difference(first, second));
            }
            None => out.for_each(|(out, first)| *out = i64::from(first)),
        }
    }

    /// What two boxes of these sums respond.
    #[inline]
    fn difference(&self, first: u32, second: u32) -> i64 {
        let times = |sum: u32, count: u32| (u64::from(sum) * u64::from(count)) as i64;
        times(first, self.counts[1]) - times(second, self.counts[0])
    }
}
