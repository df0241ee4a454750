//! What regression sees of a pose.

use crate::CpuImage;
use crate::poses::frame;
use pbt_features::{SAMPLE_SCALE, edge_strength};
use pbt_tree::{Patch, PoseSite};
use rayon::prelude::*;

pub(crate) fn sample(images: &[&CpuImage], patch: &Patch, sites: &[PoseSite], out: &mut [i16]) {
    let points = patch.grid.len();
    out.par_chunks_mut(patch.len().max(1)).zip(sites).for_each(|(values, site)| {
        let image = images[site.image as usize];
        let tables = image.tables();
        let frame = frame(image, &patch.grid, &site.pose);
        for (&level, block) in
            patch.levels.iter().zip(values.chunks_mut(patch.len() / patch.levels.len()))
        {
            let channels = tables.channels(level);
            let (intensities, edges) = block.split_at_mut(points);
            for (n, point) in patch.grid.iter().enumerate() {
                let sample = channels.sample(frame.point(usize::from(level), point));
                intensities[n] = (sample[0] / SAMPLE_SCALE) as i16;
                if patch.edges {
                    edges[n] = edge_strength(sample);
                }
            }
        }
    });
}
