//! Haar responses at scattered voxels, for training.

use crate::CpuImage;
use pbt_features::HaarFeature;
use pbt_tree::VoxelSite;
use rayon::prelude::*;

pub(crate) fn responses(
    images: &[&CpuImage],
    features: &[HaarFeature],
    sites: &[VoxelSite],
    out: &mut [i32],
) {
    let bases: Vec<usize> =
        sites.iter().map(|s| images[s.image as usize].integral().offset(s.voxel)).collect();
    out.par_chunks_mut(sites.len().max(1)).zip(features).for_each(|(row, feature)| {
        let mut bound = None;
        for ((value, site), &base) in row.iter_mut().zip(sites).zip(&bases) {
            let integral = images[site.image as usize].integral();
            // Sites of one image follow each other as a rule, so that binding is rare.
            let current = match bound.take() {
                Some((strides, b)) if strides == integral.strides() => (strides, b),
                _ => (integral.strides(), feature.bind(integral.strides())),
            };
            *value = current.1.response(integral.table(), base);
            bound = Some(current);
        }
    });
}
