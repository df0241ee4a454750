//! What a device does for training and detection: few, coarse, batched calls, the same bits from
//! every implementation.

use crate::{
    BinnedMatrix, BoostTask, Booster, Classifier, DeviceError, FeatureFamily, Haar, PoseSite,
    Score, Steerable, Weak, best_indices, margins_from_responses,
};
use pbt_features::BoxGrid;
use pbt_volume::{Level, Padding};
use serde::{Deserialize, Serialize};

/// Which tables an uploaded case needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLayout {
    /// What lies outside the image.
    pub padding: Padding,
    /// Level with an integral volume, by its place among those that are uploaded, and how many voxels Haar features reach there; `None` for a
    /// case that is only sampled.
    pub haar: Option<(usize, usize)>,
    /// Levels with intensity and gradient channels, for steerable features and patches; also by their
    /// places.
    pub channels: Vec<usize>,
}

/// A device that holds cases and boosts.
pub trait Device: Booster {
    /// A case made resident on the device.
    type Image: Send + Sync;

    /// Uploads the levels of a working pyramid (finest first; of an image of several channels each
    /// level is as many volumes) and builds the tables that `layout` asks for. A device goes by the
    /// grid of each volume, not by its place.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<Self::Image, DeviceError>;
}

/// A device that computes a family of features: responses and scores, and, where it has better ways
/// than through responses on the host, whole nodes, margins and the best scores.
pub trait Evaluate<F: FeatureFamily>: Device {
    /// Responses of features at sites, `out[f * sites.len() + s]`.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn responses(
        &self,
        images: &[&Self::Image],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        out: &mut [i32],
    ) -> Result<(), DeviceError>;

    /// Scores of the targets in an image, in their order.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn score(
        &self,
        image: &Self::Image,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
    ) -> Result<Vec<Score>, DeviceError>;

    /// Boosts a node on features at sites; [`Weak::feature`] is the index in `features`. A device
    /// keeps the responses to itself.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn boost_node(
        &self,
        images: &[&Self::Image],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        task: &BoostTask<'_>,
    ) -> Result<Vec<Weak>, DeviceError> {
        let respond = |features: &[F::Feature], out: &mut [i32]| {
            self.responses(images, family, features, sites, out)
        };
        let matrix =
            BinnedMatrix::from_responses(features, sites.len(), task.cut_percent, respond)?;
        self.boost(&matrix, task.labels, task.weights, task.params)
    }

    /// Margins of weak classifiers at sites, in units of 2⁻¹⁶; [`Weak::feature`] is the index in
    /// `features`.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn margins(
        &self,
        images: &[&Self::Image],
        family: &F,
        features: &[F::Feature],
        weaks: &[Weak],
        sites: &[F::Site],
    ) -> Result<Vec<i32>, DeviceError> {
        margins_from_responses(weaks, features.len(), sites, |sites, out| {
            self.responses(images, family, features, sites, out)
        })
    }

    /// The `k` best targets, by their index in [`Evaluate::score`], with their scores, in the order
    /// of [`best_indices`].
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn best(
        &self,
        image: &Self::Image,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, DeviceError> {
        let scores = self.score(image, family, features, classifier, targets)?;
        Ok(best_indices(&scores, k).into_iter().map(|n| (n, scores[n])).collect())
    }
}

/// All that training and detection ask of a device. Every method must give the same bits as the CPU
/// backend, which is the oracle.
pub trait Backend: Evaluate<Haar> + Evaluate<Steerable> {
    /// What regression sees of each pose: `out[s * patch.len() + …]`.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn patches(
        &self,
        images: &[&Self::Image],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError>;

    /// What regressions spend their time on: solves `(V Vᵀ + ridge·I) x = b` for each of `ridges` and every
    /// right side `b`, as many numbers as there are vectors, by Cholesky's factors; by ridge and by right side.
    /// The `vectors`, rows of V, are one after another, of so many values each, within ±4095.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError>;
}

/// What regression samples in a posed box: level after level the intensities on a grid, 12 bits,
/// then, where wanted, the edge strengths on the same grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Where the box is sampled.
    pub grid: BoxGrid,
    /// On which pyramid levels, 0 the finest; of an image of C channels C·level + channel.
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
