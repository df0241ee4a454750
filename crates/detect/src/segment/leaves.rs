//! The leaf of each tree that a voxel arrives at (Sharp's outputs `ForestLeaves` and `TreeLeaf`).
//!
//! Devices give responses; trees are walked here, on the host, so that all devices agree.

use crate::DetectError;
use pbt_tree::{DeviceError, LEAF, LabelBackend, LabelForest};
use pbt_volume::{Geometry, Volume, check_memory};
use rayon::prelude::*;

/// Responses that are in memory at a time: 32 MB.
const RESPONSES: usize = 1 << 22;

/// Leaves of nothing yet, on the grid of the image, one volume for each tree.
///
/// # Errors
/// [`DetectError::Image`] where there is not as much memory.
pub(super) fn of_nothing(image: &Geometry, trees: usize) -> Result<Vec<Volume<u32>>, DetectError> {
    let bytes = (trees as u64).saturating_mul(4 * image.len() as u64);
    check_memory(bytes)
        .map_err(|e| DetectError::image("memory", format!("{e} (leave out leaves)")))?;
    Ok((0..trees).map(|_| Volume::filled(image.clone(), 0)).collect())
}

/// The leaf of each of the first `trees` trees at voxels of the channels' block,
/// `[voxel][tree]`.
///
/// # Errors
/// [`DeviceError`] when the device fails.
pub(super) fn leaves<B: LabelBackend>(
    backend: &B,
    channels: &B::Channels,
    (forest, trees): (&LabelForest, usize),
    voxels: &[[usize; 3]],
) -> Result<Vec<u32>, DeviceError> {
    let walked = &forest.trees[..trees];
    let mut places = vec![None; forest.features.len()];
    for node in walked.iter().flat_map(|tree| &tree.nodes).filter(|node| node.feature != LEAF) {
        places[node.feature as usize] = Some(0);
    }
    places.iter_mut().flatten().enumerate().for_each(|(n, place)| *place = n);
    let used = forest.features.iter().zip(&places).filter(|(_, place)| place.is_some());
    let features: Vec<_> = used.map(|(feature, _)| *feature).collect();
    let mut out = vec![0; voxels.len() * trees];
    let at_a_time = (RESPONSES / features.len().max(1)).max(1);
    let mut responses = Vec::new();
    for (voxels, out) in voxels.chunks(at_a_time).zip(out.chunks_mut(at_a_time * trees)) {
        responses.resize(features.len() * voxels.len(), 0);
        backend.respond(channels, &features, voxels, &mut responses)?;
        let response =
            |n: usize, f: u32| responses[places[f as usize].unwrap_or(0) * voxels.len() + n];
        out.par_chunks_exact_mut(trees).enumerate().for_each(|(n, out)| {
            for (out, tree) in out.iter_mut().zip(walked) {
                *out = tree.leaf(|f| response(n, f));
            }
        });
    }
    Ok(out)
}
