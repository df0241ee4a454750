//! Training samples as the trees see them: numbered features, numbered samples, integer responses from a backend.

use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{Backend, PoseSite, SampleSource, VoxelSite};

/// Haar features at voxels of several images.
pub(crate) struct HaarSamples<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) images: &'a [&'a B::Image],
    pub(crate) pool: &'a [HaarFeature],
    pub(crate) sites: &'a [VoxelSite],
}

impl<B: Backend> SampleSource for HaarSamples<'_, B> {
    fn sample_count(&self) -> usize {
        self.sites.len()
    }

    fn feature_count(&self) -> usize {
        self.pool.len()
    }

    fn respond(&self, features: &[u32], samples: &[u32], out: &mut [i32]) {
        let features: Vec<HaarFeature> = features.iter().map(|&f| self.pool[f as usize]).collect();
        let sites: Vec<VoxelSite> = samples.iter().map(|&s| self.sites[s as usize]).collect();
        self.backend.haar_responses(self.images, &features, &sites, out);
    }
}

/// Steerable features at poses in several images.
pub(crate) struct PoseSamples<'a, B: Backend> {
    pub(crate) backend: &'a B,
    pub(crate) images: &'a [&'a B::Image],
    pub(crate) grid: &'a BoxGrid,
    pub(crate) pool: &'a [SteerableFeature],
    pub(crate) sites: &'a [PoseSite],
}

impl<B: Backend> SampleSource for PoseSamples<'_, B> {
    fn sample_count(&self) -> usize {
        self.sites.len()
    }

    fn feature_count(&self) -> usize {
        self.pool.len()
    }

    fn respond(&self, features: &[u32], samples: &[u32], out: &mut [i32]) {
        let features: Vec<SteerableFeature> = features.iter().map(|&f| self.pool[f as usize]).collect();
        let sites: Vec<PoseSite> = samples.iter().map(|&s| self.sites[s as usize]).collect();
        self.backend.pose_responses(self.images, self.grid, &features, &sites, out);
    }
}
