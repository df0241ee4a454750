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
    let features: Vec<BoundFeature<'_>> =
        forest.features.iter().map(|f| channels.bind(f)).collect();
    let [nx, ny, _] = block.shape();
    let mut out = vec![0; block.len() * forest.classes];
    out.par_chunks_mut(nx * forest.classes).enumerate().for_each(|(row, out)| {
        let [j, k] = [block.min[1] + row % ny, block.min[2] + row / ny];
        for (i, sums) in out.chunks_exact_mut(forest.classes).enumerate() {
            let voxel = [block.min[0] + i, j, k];
            let base = channels.base(voxel);
            forest.distribution(|f| features[f as usize].response(voxel, base), sums);
        }
    });
    out
}

/// The same at some voxels.
pub(super) fn distributions_at(
    channels: &CpuChannels,
    forest: &LabelForest,
    voxels: &[[usize; 3]],
) -> Vec<u32> {
    /// Voxels that a thread goes through at a time.
    const TILE: usize = 256;
    let features: Vec<BoundFeature<'_>> =
        forest.features.iter().map(|f| channels.bind(f)).collect();
    let mut out = vec![0; voxels.len() * forest.classes];
    let tiles = out.par_chunks_mut(TILE * forest.classes).zip(voxels.par_chunks(TILE));
    tiles.for_each(|(out, voxels)| {
        for (sums, &voxel) in out.chunks_exact_mut(forest.classes).zip(voxels) {
            let base = channels.base(voxel);
            forest.distribution(|f| features[f as usize].response(voxel, base), sums);
        }
    });
    out
}
