//! The backend: what training and detection ask for, on the device. What families of features have
//! in common is written once; each says how it prepares responses and how it scores.

use crate::device::OrEnd;
use crate::{Gpu, GpuError, GpuImage};
use cudarc::driver::{CudaSlice, CudaViewMut};
use pbt_tree::{
    Backend, BoostTask, Classifier, Device, Evaluate, FeatureFamily, ImageLayout, Patch, PoseSite,
    Score, Weak,
};
use pbt_volume::Volume;
use std::ops::Range;

/// A family of features on the device.
pub(crate) trait DeviceFamily: FeatureFamily {
    /// Features and sites, ready for responses.
    type Prepared<'a>: Respond;

    fn prepare<'a>(
        &self,
        gpu: &'a Gpu,
        images: &'a [&'a GpuImage],
        features: &[Self::Feature],
        sites: &[Self::Site],
    ) -> Result<Self::Prepared<'a>, GpuError>;

    /// Scores of the targets; they stay on the device. `None` where there are no targets.
    fn score(
        &self,
        gpu: &Gpu,
        image: &GpuImage,
        features: &[Self::Feature],
        classifier: &Classifier,
        targets: &Self::Targets,
    ) -> Result<Option<CudaSlice<i64>>, GpuError>;
}

/// Responses of the features and sites that were prepared.
pub(crate) trait Respond {
    /// The responses of some of the features at some of the sites, `[feature][site]`.
    fn respond(
        &self,
        features: Range<usize>,
        sites: Range<usize>,
        out: &mut CudaViewMut<'_, i32>,
    ) -> Result<(), GpuError>;
}

impl Device for Gpu {
    type Image = GpuImage;

    fn upload(&self, levels: &[Volume<u16>], layout: &ImageLayout) -> GpuImage {
        GpuImage::new(self, levels, layout).or_end()
    }
}

/// A device that fails ends the computation: see [`guarded`](crate::guarded).
impl<F: DeviceFamily> Evaluate<F> for Gpu {
    fn responses(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        out: &mut [i32],
    ) {
        let prepared = family.prepare(self, images, features, sites).or_end();
        self.device
            .read_responses(out, |device| {
                prepared.respond(0..features.len(), 0..sites.len(), device)
            })
            .or_end();
    }

    fn score(
        &self,
        image: &GpuImage,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
    ) -> Vec<Score> {
        let scores = family.score(self, image, features, classifier, targets).or_end();
        scores.map_or_else(Vec::new, |scores| self.read_scores(&scores).or_end())
    }

    fn boost_node(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        let prepared = family.prepare(self, images, features, sites).or_end();
        self.boost_responses(features.len(), sites.len(), task, |range, out| {
            prepared.respond(range, 0..sites.len(), out)
        })
        .or_end()
    }

    fn margins(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        weaks: &[Weak],
        sites: &[F::Site],
    ) -> Vec<i32> {
        let prepared = family.prepare(self, images, features, sites).or_end();
        self.margins_of(weaks, features.len(), sites.len(), |range, out| {
            prepared.respond(0..features.len(), range, out)
        })
        .or_end()
    }

    fn best(
        &self,
        image: &GpuImage,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
        k: usize,
    ) -> Vec<(usize, Score)> {
        let scores = family.score(self, image, features, classifier, targets).or_end();
        scores.map_or_else(Vec::new, |scores| self.best_scores(&scores, k).or_end())
    }
}

impl Backend for Gpu {
    fn patches(&self, images: &[&GpuImage], patch: &Patch, sites: &[PoseSite], out: &mut [i16]) {
        self.sample_patches(images, patch, sites, out).or_end();
    }
}
