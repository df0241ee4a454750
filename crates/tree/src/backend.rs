//! What a device does for training and detection: few, coarse, batched calls, the same bits from
//! every implementation.

use crate::{
    BinnedMatrix, BoostTask, Booster, Classifier, Score, Weak, best_indices, margins_from_responses,
};
use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_volume::{Padding, Pose, Volume};
use serde::{Deserialize, Serialize};

/// Which tables an uploaded case needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLayout {
    /// What lies outside the image.
    pub padding: Padding,
    /// Level with an integral volume, and how many voxels Haar features reach there; `None` for a
    /// case that is only sampled.
    pub haar: Option<(usize, usize)>,
    /// Levels with intensity and gradient channels, for steerable features and patches.
    pub channels: Vec<usize>,
}

/// A voxel of a level of one of several images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoxelSite {
    /// Place in the list of images.
    pub image: u32,
    /// Voxel index on the level with the integral volume.
    pub voxel: [i32; 3],
}

/// A pose in one of several images.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoseSite {
    /// Place in the list of images.
    pub image: u32,
    /// The posed box, LPS mm.
    pub pose: Pose,
}

/// A device. Every method must give the same bits as the CPU backend, which is the oracle.
pub trait Backend: Booster {
    /// A case made resident on the device.
    type Image: Send + Sync;

    /// Uploads the levels of a working pyramid (finest first) and builds the tables that `layout`
    /// asks for.
    fn upload(&self, levels: &[Volume<u16>], layout: &ImageLayout) -> Self::Image;

    /// Responses of Haar features, `out[f * sites.len() + s]`.
    fn haar_responses(
        &self,
        images: &[&Self::Image],
        features: &[HaarFeature],
        sites: &[VoxelSite],
        out: &mut [i32],
    );

    /// Responses of steerable features on a grid, `out[f * sites.len() + s]`.
    fn pose_responses(
        &self,
        images: &[&Self::Image],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        out: &mut [i32],
    );

    /// Boosts a node on Haar features at voxels; [`Weak::feature`] is the place in `features`. A
    /// device keeps the responses to itself.
    fn boost_voxels(
        &self,
        images: &[&Self::Image],
        features: &[HaarFeature],
        sites: &[VoxelSite],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        let respond = |features: &[HaarFeature], out: &mut [i32]| {
            self.haar_responses(images, features, sites, out)
        };
        let matrix = BinnedMatrix::from_responses(features, sites.len(), task.cut_percent, respond);
        self.boost(&matrix, task.labels, task.weights, task.params)
    }

    /// Boosts a node on steerable features of poses; [`Weak::feature`] is the place in `features`.
    /// A device keeps the responses to itself.
    fn boost_poses(
        &self,
        images: &[&Self::Image],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        task: &BoostTask<'_>,
    ) -> Vec<Weak> {
        let respond = |features: &[SteerableFeature], out: &mut [i32]| {
            self.pose_responses(images, grid, features, sites, out)
        };
        let matrix = BinnedMatrix::from_responses(features, sites.len(), task.cut_percent, respond);
        self.boost(&matrix, task.labels, task.weights, task.params)
    }

    /// Margins of weak classifiers at voxels, in units of 2⁻¹⁶; [`Weak::feature`] is the place in
    /// `features`.
    fn voxel_margins(
        &self,
        images: &[&Self::Image],
        features: &[HaarFeature],
        weaks: &[Weak],
        sites: &[VoxelSite],
    ) -> Vec<i32> {
        margins_from_responses(weaks, features.len(), sites, |sites, out| {
            self.haar_responses(images, features, sites, out)
        })
    }

    /// Margins of weak classifiers at poses, in units of 2⁻¹⁶; [`Weak::feature`] is the place in
    /// `features`.
    fn pose_margins(
        &self,
        images: &[&Self::Image],
        grid: &BoxGrid,
        features: &[SteerableFeature],
        weaks: &[Weak],
        sites: &[PoseSite],
    ) -> Vec<i32> {
        margins_from_responses(weaks, features.len(), sites, |sites, out| {
            self.pose_responses(images, grid, features, sites, out)
        })
    }

    /// Scores of all voxels of the level with the integral volume, i fastest.
    fn score_voxels(
        &self,
        image: &Self::Image,
        features: &[HaarFeature],
        classifier: &Classifier,
    ) -> Vec<Score>;

    /// The `k` best voxels, by their place in [`Backend::score_voxels`], with their scores, in the
    /// order of [`best_indices`].
    fn best_voxels(
        &self,
        image: &Self::Image,
        features: &[HaarFeature],
        classifier: &Classifier,
        k: usize,
    ) -> Vec<(usize, Score)> {
        let scores = self.score_voxels(image, features, classifier);
        best_indices(&scores, k).into_iter().map(|n| (n, scores[n])).collect()
    }

    /// Scores of pose hypotheses.
    fn score_poses(
        &self,
        image: &Self::Image,
        grid: &BoxGrid,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Vec<Score>;

    /// What regression sees of each pose: `out[s * patch.len() + …]`.
    fn patches(&self, images: &[&Self::Image], patch: &Patch, sites: &[PoseSite], out: &mut [i16]);
}

/// What regression samples in a posed box: level after level the intensities on a grid, 12 bits,
/// then, where wanted, the edge strengths on the same grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Where the box is sampled.
    pub grid: BoxGrid,
    /// On which pyramid levels, 0 the finest.
    pub levels: Vec<u8>,
    /// Whether edge strengths 64·√|∇I| (per voxel of the level, 12 bits) follow the intensities of
    /// each level. The root keeps strong edges from drowning weak ones.
    pub edges: bool,
}

impl Patch {
    /// Number of values a pose.
    pub fn len(&self) -> usize {
        self.grid.len() * self.levels.len() * if self.edges { 2 } else { 1 }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
