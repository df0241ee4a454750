//! Which voxels of an image the channels about a block are made of.

use crate::label::backend::{Block, ChannelBank, Outside};
use pbt_features::BoxMeanFeature;
use pbt_volume::Volume;
use rayon::prelude::*;
use std::borrow::Cow;

/// Voxels of an image and its padding, from the first up to but not including the second.
pub type VoxelRange = [[i64; 3]; 2];

/// The parts of an image that count for the voxels of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelPart {
    /// Boxes must lie there: the image itself, or the image with its padding.
    pub bounds: VoxelRange,
    /// Where boxes read channels.
    pub read: VoxelRange,
    /// What channels are made of: filters go wrong at the ends of a part, unless the image ends
    /// there, too.
    pub source: VoxelRange,
    image_shape: [usize; 3],
    zero: bool,
}

/// Number of voxels along each axis.
pub fn shape_of([low, high]: &VoxelRange) -> [usize; 3] {
    [0, 1, 2].map(|a| (high[a] - low[a]) as usize)
}

fn grown([min, max]: VoxelRange, by: i64, bounds: &VoxelRange) -> VoxelRange {
    let low = [0, 1, 2].map(|a| (min[a] - by).max(bounds[0][a]));
    let high = [0, 1, 2].map(|a| (max[a] + by).min(bounds[1][a]));
    [low, high]
}

impl ChannelPart {
    /// For a block of an image of this shape.
    pub fn new(image_shape: [usize; 3], bank: &ChannelBank, block: &Block) -> Self {
        let padding = if bank.outside == Outside::Missing { 0 } else { bank.reach as i64 };
        let bounds = [[-padding; 3], image_shape.map(|n| n as i64 + padding)];
        let voxels = [block.min, block.max].map(|corner| corner.map(|n| n as i64));
        let read = grown(voxels, bank.reach as i64, &bounds);
        let source = grown(read, bank.support() as i64, &bounds);
        Self { bounds, read, source, image_shape, zero: bank.outside == Outside::Zero }
    }

    /// Where the part that is read begins in the source.
    pub fn skip(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| (self.read[0][a] - self.source[0][a]) as usize)
    }

    /// The voxels of the source, i fastest.
    pub fn voxels<'a>(&self, image: &'a Volume<u16>) -> Cow<'a, [u16]> {
        if self.source == [[0; 3], self.image_shape.map(|n| n as i64)] {
            return image.data().into();
        }
        let [nx, ny, nz] = shape_of(&self.source);
        let mut out = vec![0; nx * ny * nz];
        let clamped = |a: usize, n: i64| n.clamp(0, self.image_shape[a] as i64 - 1) as usize;
        out.par_chunks_exact_mut(nx).enumerate().for_each(|(row, out)| {
            let first = self.source[0];
            let (j, k) = (first[1] + (row % ny) as i64, first[2] + (row / ny) as i64);
            let (inner_j, inner_k) = (clamped(1, j), clamped(2, k));
            if self.zero && (inner_j as i64 != j || inner_k as i64 != k) {
                return;
            }
            let start = image.offset(0, inner_j, inner_k);
            let values = &image.data()[start..start + self.image_shape[0]];
            for (i, out) in (first[0]..).zip(out) {
                let inner_i = clamped(0, i);
                if !self.zero || inner_i as i64 == i {
                    *out = values[inner_i];
                }
            }
        });
        out.into()
    }

    /// The voxels about which both boxes of a feature lie inside the bounds.
    pub fn range(&self, feature: &BoxMeanFeature) -> VoxelRange {
        let [mut low, mut high] = self.bounds;
        for b in [Some(&feature.first), feature.second.as_ref()].into_iter().flatten() {
            for a in 0..3 {
                let end = i64::from(b.min[a]) + i64::from(b.size[a]);
                low[a] = low[a].max(self.bounds[0][a] - i64::from(b.min[a]));
                high[a] = high[a].min(self.bounds[1][a] - end + 1);
            }
        }
        [low, high]
    }
}
