//! The backend: what training and detection ask for, on the device.

use crate::Gpu;
use crate::error::OrEnd;
use crate::haar::HaarSites;
use crate::image::GpuImage;
use crate::poses::PoseResponses;
use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{
    Backend, BoostTask, Classifier, ImageLayout, Patch, PoseSite, Score, VoxelSite, Weak,
};
use pbt_volume::{Pose, Volume};

/// A device that fails ends the computation: see [`guarded`](crate::guarded).
impl Backend for Gpu {
    type Image = GpuImage;

    fn upload(&self, levels: &[Volume<u16>], layout: &ImageLayout) -> GpuImage {
        GpuImage::new(self, levels, layout).or_end()
    }

    fn haar_responses(
        &self,
        images: &[&GpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
        out: &mut [i32],
    ) {
        let prepared = HaarSites::new(self, images, features, sites).or_end();
        self.read_responses(out, |device| {
            prepared.respond(0..features.len(), 0..sites.len(), device)
        })
        .or_end();
    }

    fn pose_responses(
        &self,
        images: &[&GpuImage],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        out: &mut [i32],
    ) {
        let prepared = PoseResponses::new(self, images, grid, features, sites).or_end();
        self.read_responses(out, |device| {
            prepared.respond(0..features.len(), 0..sites.len(), device)
        })
        .or_end();
    }

    fn boost_voxels(
        &self,
        images: &[&GpuImage],
        features: &[HaarFeature],
        sites: &[VoxelSite],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        let prepared = HaarSites::new(self, images, features, sites).or_end();
        self.boost_responses(features.len(), sites.len(), task, |range, out| {
            prepared.respond(range, 0..sites.len(), out)
        })
        .or_end()
    }

    fn boost_poses(
        &self,
        images: &[&GpuImage],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        let prepared = PoseResponses::new(self, images, grid, features, sites).or_end();
        self.boost_responses(features.len(), sites.len(), task, |range, out| {
            prepared.respond(range, 0..sites.len(), out)
        })
        .or_end()
    }

    fn voxel_margins(
        &self,
        images: &[&GpuImage],
        features: &[HaarFeature],
        weaks: &[Weak],
        sites: &[VoxelSite],
    ) -> Vec<i32> {
        let prepared = HaarSites::new(self, images, features, sites).or_end();
        self.margins_of(weaks, features.len(), sites.len(), |range, out| {
            prepared.respond(0..features.len(), range, out)
        })
        .or_end()
    }

    fn pose_margins(
        &self,
        images: &[&GpuImage],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        weaks: &[Weak],
        sites: &[PoseSite],
    ) -> Vec<i32> {
        let prepared = PoseResponses::new(self, images, grid, features, sites).or_end();
        self.margins_of(weaks, features.len(), sites.len(), |range, out| {
            prepared.respond(0..features.len(), range, out)
        })
        .or_end()
    }

    fn score_voxels(
        &self,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Vec<Score> {
        let scores = self.score_voxels_on_device(image, features, classifier).or_end();
        self.read_scores(&scores).or_end()
    }

    fn best_voxels(
        &self,
        image: &GpuImage,
        features: &[HaarFeature],
        classifier: &Classifier,
        k: usize,
    ) -> Vec<(usize, Score)> {
        let scores = self.score_voxels_on_device(image, features, classifier).or_end();
        self.best_scores(&scores, k).or_end()
    }

    fn score_poses(
        &self,
        image: &GpuImage,
        grid: &BoxGrid,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Vec<Score> {
        Gpu::score_poses(self, image, grid, features, classifier, poses).or_end()
    }

    fn patches(&self, images: &[&GpuImage], patch: &Patch, sites: &[PoseSite], out: &mut [i16]) {
        Gpu::patches(self, images, patch, sites, out).or_end();
    }
}
