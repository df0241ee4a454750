//! What is known of each component from its runs.

use super::labelled::Components;
use super::runs::Run;
use crate::{NotEnoughMemory, PointLps, Volume, VoxelIndex, try_zeroed};

/// One connected component.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Component {
    /// Number of voxels.
    pub voxels: u64,
    /// Index of its first voxel in memory, i fastest.
    pub first_voxel: [usize; 3],
    /// The least voxel index along each axis.
    pub first: [usize; 3],
    /// The greatest voxel index along each axis.
    pub last: [usize; 3],
    /// Mean of the voxel centres, in voxel units.
    pub centroid: VoxelIndex,
    /// The same in the patient.
    pub centroid_lps: PointLps,
    /// Sum of the image's intensities, added in raster order; 0 without an image.
    pub intensity_sum: f64,
}

/// Sums over the runs of one component. All but the intensities are integers.
#[derive(Clone, Copy, Default)]
struct Sums {
    voxels: u64,
    first_voxel: [u32; 3],
    first: [u32; 3],
    last: [u32; 3],
    /// Of the voxel indices: below 2³¹ voxels with indices below 2³¹.
    index: [u64; 3],
    intensity: f64,
}

impl Sums {
    fn add(&mut self, run: Run, [j, k]: [u32; 2], intensity: f64) {
        let (first, last) = ([run.first, j, k], [run.last, j, k]);
        if self.voxels == 0 {
            (self.first_voxel, self.first, self.last) = (first, first, last);
        }
        for a in 0..3 {
            self.first[a] = self.first[a].min(first[a]);
            self.last[a] = self.last[a].max(last[a]);
            // Twice the mean is an integer, and so is its product with the number of voxels, halved.
            self.index[a] += run.len() * u64::from(first[a] + last[a]) / 2;
        }
        self.voxels += run.len();
        self.intensity += intensity;
    }
}

/// The statistics of all components, in their order.
pub(super) fn statistics(
    components: &Components,
    image: Option<&Volume<f32>>,
) -> Result<Vec<Component>, NotEnoughMemory> {
    let mut sums: Vec<Sums> = try_zeroed(components.len())?;
    for (run, label, [j, k]) in components.all_runs() {
        let intensity = image.map_or(0.0, |image| {
            let row = image.offset(0, j, k);
            let values = &image.data()[row + run.first as usize..=row + run.last as usize];
            values.iter().map(|&v| f64::from(v)).sum()
        });
        sums[label as usize - 1].add(run, [j as u32, k as u32], intensity);
    }
    crate::check_memory((sums.len() * size_of::<Component>()) as u64)?;
    Ok(sums.iter().map(|sums| component(components, sums)).collect())
}

fn component(components: &Components, sums: &Sums) -> Component {
    let [i, j, k] = sums.index.map(|sum| sum as f64 / sums.voxels as f64);
    let centroid = VoxelIndex::new(i, j, k);
    Component {
        voxels: sums.voxels,
        first_voxel: sums.first_voxel.map(|v| v as usize),
        first: sums.first.map(|v| v as usize),
        last: sums.last.map(|v| v as usize),
        centroid,
        centroid_lps: components.geometry().to_lps(centroid),
        intensity_sum: sums.intensity,
    }
}
