//! Responses and labels of voxels.

use crate::label::channels::{BoundFeature, CpuChannels};
use pbt_features::BoxMeanFeature;
use pbt_tree::LabelForest;
use rayon::prelude::*;

/// Writes the responses of features at voxels, `[feature][voxel]`.
pub(super) fn respond(
    channels: &CpuChannels,
    features: &[BoxMeanFeature],
    voxels: &[[usize; 3]],
    out: &mut [i64],
) {
    if voxels.is_empty() {
        return;
    }
    let bases: Vec<usize> = voxels.iter().map(|&voxel| channels.base(voxel)).collect();
    out.par_chunks_mut(voxels.len()).zip(features).for_each(|(row, feature)| {
        let feature = channels.bind(feature);
        for ((out, &voxel), &base) in row.iter_mut().zip(voxels).zip(&bases) {
            *out = feature.response(voxel, base);
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
