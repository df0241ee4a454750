//! The backend: what training and detection ask for, on the device. What families of features have
//! in common is written once; each says how it prepares responses and how it scores.

use crate::{Gpu, GpuError, GpuImage};
use cudarc::driver::{CudaSlice, CudaViewMut};
use pbt_tree::{
    Backend, BoostTask, Classifier, Device, DeviceError, Evaluate, FeatureFamily, ImageLayout,
    Patch, PoseSite, Score, Weak,
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

    fn upload(
        &self,
        levels: &[Volume<u16>],
        layout: &ImageLayout,
    ) -> Result<GpuImage, DeviceError> {
        Ok(GpuImage::new(self, levels, layout)?)
    }
}

impl<F: DeviceFamily> Evaluate<F> for Gpu {
    fn responses(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        let prepared = family.prepare(self, images, features, sites)?;
        Ok(self.device.read_responses(out, |device| {
            prepared.respond(0..features.len(), 0..sites.len(), device)
        })?)
    }

    fn score(
        &self,
        image: &GpuImage,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
    ) -> Result<Vec<Score>, DeviceError> {
        match family.score(self, image, features, classifier, targets)? {
            Some(scores) => Ok(self.read_scores(&scores)?),
            None => Ok(Vec::new()),
        }
    }

    fn boost_node(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        task: &BoostTask<'_>,
    ) -> Result<Vec<Weak>, DeviceError> {
        let prepared = family.prepare(self, images, features, sites)?;
        Ok(self.boost_responses(features.len(), sites.len(), task, |range, out| {
            prepared.respond(range, 0..sites.len(), out)
        })?)
    }

    fn margins(
        &self,
        images: &[&GpuImage],
        family: &F,
        features: &[F::Feature],
        weaks: &[Weak],
        sites: &[F::Site],
    ) -> Result<Vec<i32>, DeviceError> {
        let prepared = family.prepare(self, images, features, sites)?;
        Ok(self.margins_of(weaks, features.len(), sites.len(), |range, out| {
            prepared.respond(0..features.len(), range, out)
        })?)
    }

    fn best(
        &self,
        image: &GpuImage,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, DeviceError> {
        match family.score(self, image, features, classifier, targets)? {
            Some(scores) => Ok(self.best_scores(&scores, k)?),
            None => Ok(Vec::new()),
        }
    }
}

impl Backend for Gpu {
    fn patches(
        &self,
        images: &[&GpuImage],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError> {
        Ok(self.sample_patches(images, patch, sites, out)?)
    }
}
