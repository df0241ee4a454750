//! The backend: what training and detection ask for, on the device. What families of features have
//! in common is written once; each says how it prepares responses and how it scores.

use crate::device::GpuError;
use crate::gpu::Gpu;
use crate::haar::HaarSites;
use crate::image::GpuImage;
use crate::poses::PoseResponses;
use crate::respond::Respond;
use cudarc::driver::CudaSlice;
use pbt_features::{HaarFeature, SteerableFeature};
use pbt_tree::{
    Backend, BinnedMatrix, BoostParams, BoostTask, Booster, Classifier, Device, DeviceError,
    Evaluate, FeatureFamily, Haar, ImageLayout, Patch, PoseSite, Score, Steerable, VoxelSite,
    Voxels, Weak,
};
use pbt_volume::{Level, Pose};

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

impl DeviceFamily for Haar {
    type Prepared<'a> = HaarSites<'a>;

    fn prepare<'a>(
        &self,
        gpu: &'a Gpu,
        images: &'a [&'a GpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
    ) -> Result<HaarSites<'a>, GpuError> {
        HaarSites::new(&gpu.haar, (&gpu.device, &gpu.images), images, features, sites)
    }

    fn score(
        &self,
        gpu: &Gpu,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        voxels: &Voxels,
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        let on = (&gpu.device, &gpu.images);
        match voxels {
            Voxels::All => gpu.haar.score_voxels(on.0, on.1, image, features, classifier).map(Some),
            Voxels::At(voxels) if voxels.is_empty() => Ok(None),
            Voxels::At(voxels) => {
                gpu.haar.score_listed(on, image, features, classifier, voxels).map(Some)
            }
        }
    }
}

impl DeviceFamily for Steerable {
    type Prepared<'a> = PoseResponses<'a>;

    fn prepare<'a>(
        &self,
        gpu: &'a Gpu,
        images: &'a [&'a GpuImage],
        features: &[SteerableFeature],
        sites: &[PoseSite],
    ) -> Result<PoseResponses<'a>, GpuError> {
        let on = (&gpu.device, &gpu.images);
        PoseResponses::new(&gpu.poses, on, images, &self.grid, features, sites)
    }

    fn score(
        &self,
        gpu: &Gpu,
        image: &GpuImage,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Result<Option<CudaSlice<i64>>, GpuError> {
        if poses.is_empty() {
            return Ok(None);
        }
        let frames = gpu.pose_frames(image, &self.grid, poses)?;
        gpu.pose_scores(image, features, classifier, &frames).map(Some)
    }
}

impl Booster for Gpu {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        let matrix = self.upload_matrix(matrix)?;
        Ok(self.boost_matrix(&matrix, labels, weights, params)?)
    }
}

impl Device for Gpu {
    type Image = GpuImage;

    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<GpuImage, DeviceError> {
        Ok(self.images.upload(&self.device, levels, layout)?)
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
        let matrix = self.bins.bin(
            &self.device,
            features.len(),
            sites.len(),
            task.cut_percent,
            |range, out| prepared.respond(range, 0..sites.len(), out),
        )?;
        Ok(self.boost_matrix(&matrix, task.labels, task.weights, task.params)?)
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
        let (rows, count) = (features.len(), sites.len());
        Ok(self.boost.margins_of(&self.device, weaks, rows, count, |range, out| {
            prepared.respond(0..rows, range, out)
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
        Ok(self.patches.sample(&self.device, &self.images, images, patch, sites, out)?)
    }

    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError> {
        Ok(self.ridge.solutions(&self.device, vectors, ridges, right)?)
    }
}
