//! Training samples as the trees see them: numbered features, numbered samples, integer responses
//! from a backend.

use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{Backend, BoostTask, Booster, PoseSite, SampleSource, VoxelSite, Weak};

fn at<T: Copy>(list: &[T], places: &[u32]) -> Vec<T> {
    places.iter().map(|&p| list[p as usize]).collect()
}

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
        self.backend.haar_responses(
            self.images,
            &at(self.pool, features),
            &at(self.sites, samples),
            out,
        );
    }

    fn boost(
        &self,
        _: &dyn Booster,
        features: &[u32],
        samples: &[u32],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        self.backend.boost_voxels(
            self.images,
            &at(self.pool, features),
            &at(self.sites, samples),
            task,
        )
    }

    fn margins(&self, features: &[u32], weaks: &[Weak], samples: &[u32]) -> Vec<i32> {
        self.backend.voxel_margins(
            self.images,
            &at(self.pool, features),
            weaks,
            &at(self.sites, samples),
        )
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
        self.backend.pose_responses(
            self.images,
            self.grid,
            &at(self.pool, features),
            &at(self.sites, samples),
            out,
        );
    }

    fn boost(
        &self,
        _: &dyn Booster,
        features: &[u32],
        samples: &[u32],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        self.backend.boost_poses(
            self.images,
            self.grid,
            &at(self.pool, features),
            &at(self.sites, samples),
            task,
        )
    }

    fn margins(&self, features: &[u32], weaks: &[Weak], samples: &[u32]) -> Vec<i32> {
        self.backend.pose_margins(
            self.images,
            self.grid,
            &at(self.pool, features),
            weaks,
            &at(self.sites, samples),
        )
    }
}
