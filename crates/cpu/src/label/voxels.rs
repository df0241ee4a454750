//! Responses and labels of voxels.

use crate::label::channels::{BoundFeature, CpuChannels};
use pbt_features::BoxMeanFeature;
use pbt_tree::{Edges, LabelForest};
use rayon::prelude::*;

/// Writes the responses of features at voxels, `[feature][voxel]`.
pub(super) fn respond(
    channels: &CpuChannels,
    features: &[BoxMeanFeature],
    voxels: &[[usize; 3]],
    out: &mut [i64],
) {
    by_feature(channels, voxels, features, out, |_, response| response);
}

/// Writes the bins of the same.
pub(super) fn bins(
    channels: &CpuChannels,
    features: &[BoxMeanFeature],
    edges: &[Edges],
    voxels: &[[usize; 3]],
    out: &mut [u8],
) {
    by_feature(channels, voxels, features, out, |feature, response| edges[feature].bin(response));
}

/// Writes what becomes of each response of a feature, by its number, `[feature][voxel]`.
fn by_feature<T: Send>(
    channels: &CpuChannels,
    voxels: &[[usize; 3]],
    features: &[BoxMeanFeature],
    out: &mut [T],
    of: impl Fn(usize, i64) -> T + Sync,
) {
    if voxels.is_empty() {
        return;
    }
    let bases: Vec<usize> = voxels.iter().map(|&voxel| channels.base(voxel)).collect();
    let rows = out.par_chunks_mut(voxels.len()).zip(features).enumerate();
    rows.for_each(|(number, (row, feature))| {
        let feature = channels.bind(feature);
        for ((out, &voxel), &base) in row.iter_mut().zip(voxels).zip(&bases) {
            *out = of(number, feature.response(voxel, base));
        }
    });
}

/// The distribution of every voxel of the channels' block, i fastest, classes together.
pub(super) fn distributions(channels: &CpuChannels, forest: &LabelForest) -> Vec<u32> {
    let block = &channels.block;
    let evaluation = Evaluation::new(channels, forest);
    let [nx, ny, _] = block.shape();
    let mut out = vec![0; block.len() * forest.classes];
    let rows = out.par_chunks_mut(nx * forest.classes).enumerate();
    rows.for_each_init(Vec::new, |scratch, (row, out)| {
        let [j, k] = [block.min[1] + row % ny, block.min[2] + row / ny];
        let voxels: Vec<_> = (block.min[0]..block.max[0]).map(|i| [i, j, k]).collect();
        let tiles = out.chunks_mut(TILE * forest.classes).zip(voxels.chunks(TILE));
        tiles.for_each(|(out, voxels)| evaluation.tile(voxels, scratch, out));
    });
    out
}

/// The same at some voxels.
pub(super) fn distributions_at(
    channels: &CpuChannels,
    forest: &LabelForest,
    voxels: &[[usize; 3]],
) -> Vec<u32> {
    let evaluation = Evaluation::new(channels, forest);
    let mut out = vec![0; voxels.len() * forest.classes];
    let tiles = out.par_chunks_mut(TILE * forest.classes).zip(voxels.par_chunks(TILE));
    tiles.for_each_init(Vec::new, |scratch, (out, voxels)| evaluation.tile(voxels, scratch, out));
    out
}

/// Voxels that a thread goes through at a time: the responses of some hundred features there stay
/// in its cache.
const TILE: usize = 64;

/// A forest made ready for the channels of a part.
struct Evaluation<'a> {
    channels: &'a CpuChannels,
    forest: &'a LabelForest,
    features: Vec<BoundFeature<'a>>,
    /// Whether a voxel meets more nodes than there are features: then each feature is computed once.
    repeats: bool,
}

impl<'a> Evaluation<'a> {
    fn new(channels: &'a CpuChannels, forest: &'a LabelForest) -> Self {
        let levels = |nodes: usize| nodes.ilog2() as usize;
        let met: usize = forest.trees.iter().map(|tree| levels(tree.nodes.len())).sum();
        Self {
            channels,
            forest,
            features: forest.features.iter().map(|f| channels.bind(f)).collect(),
            repeats: met > forest.features.len(),
        }
    }

    /// Writes the distributions of some voxels.
    fn tile(&self, voxels: &[[usize; 3]], responses: &mut Vec<i64>, out: &mut [u32]) {
        let forest = self.forest;
        let count = voxels.len();
        if !self.repeats {
            for (sums, &voxel) in out.chunks_exact_mut(forest.classes).zip(voxels) {
                let base = self.channels.base(voxel);
                forest.distribution(|f| self.features[f as usize].response(voxel, base), sums);
            }
            return;
        }
        responses.resize(self.features.len() * count, 0);
        for (row, feature) in responses.chunks_exact_mut(count).zip(&self.features) {
            for (response, &voxel) in row.iter_mut().zip(voxels) {
                *response = feature.response(voxel, self.channels.base(voxel));
            }
        }
        out.fill(0);
        for tree in &forest.trees {
            for (n, sums) in out.chunks_exact_mut(forest.classes).enumerate() {
                let leaf = tree.leaf(|f| responses[f as usize * count + n]) as usize;
                forest.add(&tree.leaves[leaf * forest.classes..][..forest.classes], sums);
            }
        }
    }
}
