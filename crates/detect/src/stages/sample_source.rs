//! Training samples as the trees see them: numbered features, numbered samples, integer responses
//! from a backend.

use pbt_tree::{BoostTask, Booster, DeviceError, Evaluate, FeatureFamily, SampleSource, Weak};

/// Features of a family at sites in several images.
pub(crate) struct Samples<'a, B: Evaluate<F>, F: FeatureFamily> {
    pub(crate) backend: &'a B,
    pub(crate) images: &'a [&'a B::Image],
    pub(crate) family: &'a F,
    pub(crate) pool: &'a [F::Feature],
    pub(crate) sites: &'a [F::Site],
}

fn at<T: Clone>(list: &[T], indices: &[u32]) -> Vec<T> {
    indices.iter().map(|&n| list[n as usize].clone()).collect()
}

impl<B: Evaluate<F>, F: FeatureFamily> SampleSource for Samples<'_, B, F> {
    fn sample_count(&self) -> usize {
        self.sites.len()
    }

    fn feature_count(&self) -> usize {
        self.pool.len()
    }

    fn respond(
        &self,
        features: &[u32],
        samples: &[u32],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        let (features, sites) = (at(self.pool, features), at(self.sites, samples));
        self.backend.responses(self.images, self.family, &features, &sites, out)
    }

    fn boost(
        &self,
        _: &dyn Booster,
        features: &[u32],
        samples: &[u32],
        task: &BoostTask<'_>,
    ) -> Result<Vec<Weak>, DeviceError> {
        let (features, sites) = (at(self.pool, features), at(self.sites, samples));
        self.backend.boost_node(self.images, self.family, &features, &sites, task)
    }

    fn margins(
        &self,
        features: &[u32],
        weaks: &[Weak],
        samples: &[u32],
    ) -> Result<Vec<i32>, DeviceError> {
        let (features, sites) = (at(self.pool, features), at(self.sites, samples));
        self.backend.margins(self.images, self.family, &features, weaks, &sites)
    }
}
