//! Responses of voxels.

use crate::label::channels::CpuChannels;
use pbt_features::BoxMeanFeature;
use pbt_tree::Edges;
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
