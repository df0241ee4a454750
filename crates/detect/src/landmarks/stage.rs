//! Landmarks of a box: points found in its frame, so that a turned structure is no harder than an
//! upright one.
//!
//! A landmark starts at its mean position in the box and is moved by regressors, linear ones and in a
//! plane forests. A regressor looks at the whole box and moves all landmarks together, or at the
//! surroundings of each landmark and moves it alone; what all regressors say is blended. Lengths are
//! in units of D, the box's mean size, or of the spread of the landmarks about their mean positions,
//! so that one configuration serves mouse skulls and hippocampi.

use crate::DetectError;
use crate::config::landmarks::{View, has_no_trees};
use crate::landmarks::close_up::CloseUp;
use crate::landmarks::refit::refitted;
use crate::stages::sampling::normalise;
use nalgebra::Vector3;
use pbt_linear::LinearMap;
use pbt_tree::{Backend, Patch, PoseSite, RegressionForest};
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// A landmark before any image is seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandmarkPrior {
    /// Name of the structure.
    pub name: String,
    /// Training cases that have it.
    pub cases: usize,
    /// Mean position in the box as shares of its edges; 0 is the centre, ½ a face.
    pub mean: [f64; 3],
    /// Root mean square distance from the mean position in the training cases, in D.
    pub spread_d: f64,
    /// The largest such distance, in D.
    pub farthest_d: f64,
    /// How often it came within 0.1 D in training cases that the regressors did not see, 0 to 1.
    pub right: f64,
    /// Weights of the mean position and of where each regressor puts the landmark; they add up to
    /// 1.
    pub stacking_weights: Vec<f64>,
}

/// A landmark within this of its annotation counts as right, in D: a little above verification's
/// smallest limit for wrong boxes, 0.08 D.
pub(crate) const RIGHT_WITHIN: f64 = 0.1;

/// A regressor's description, without its weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandmarkRegressorSpec {
    /// What it looks at.
    pub view: View,
    /// Samples, one patch after another. Extents are in units of the box; for `View::Point`, of its
    /// mean edge.
    pub patches: Vec<Patch>,
    /// Whether patches are brought to one mean and deviation: for images without an absolute scale.
    pub normalise: bool,
    /// Longest step, in D; longer ones are cut.
    pub reach_d: f64,
    /// Trees of its forests; 0 where its maps are linear.
    #[serde(default, skip_serializing_if = "has_no_trees")]
    pub trees: usize,
}

/// From what a regressor sees to steps.
#[derive(Debug, Clone, PartialEq)]
pub enum LandmarkMap {
    /// Ridge regression.
    Linear(LinearMap<i16>),
    /// A forest.
    Forest(RegressionForest),
}

impl LandmarkMap {
    fn apply(&self, patch: &[i16]) -> Vec<f64> {
        match self {
            Self::Linear(map) => map.apply(patch),
            Self::Forest(forest) => forest.apply(patch),
        }
    }
}

/// Landmarks that one map moves.
#[derive(Debug, Clone, PartialEq)]
pub struct LandmarkGroup {
    /// Indices into the list of landmarks; exactly one for `View::Point`.
    pub landmarks: Vec<usize>,
    /// Three outputs a landmark: the step in the box's frame, in D.
    pub map: LandmarkMap,
}

/// A trained regressor.
#[derive(Debug, Clone, PartialEq)]
pub struct LandmarkRegressor {
    /// What it looks at.
    pub spec: LandmarkRegressorSpec,
    /// Every landmark is in one of them.
    pub groups: Vec<LandmarkGroup>,
}

/// The landmarks of a box.
#[derive(Debug, Clone, PartialEq)]
pub struct LandmarkStage {
    /// Mean positions, in the order of results.
    pub landmarks: Vec<LandmarkPrior>,
    /// Finer images for the regressors; `None` where the working pyramid is fine enough or the images
    /// have no more detail.
    pub close_up: Option<CloseUp>,
    /// The regressors, in the order in which they are applied.
    pub regressors: Vec<LandmarkRegressor>,
}

/// A landmark that was sought.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundLandmark {
    /// Where.
    pub point: PointLps,
    /// Probability that it is right in a right box: how often it was right in held-out cases, reduced
    /// where it lies farther from its mean position than in any training case.
    pub score: f64,
}

/// Where a mean position lies in an image.
pub(crate) fn expected(frame: &Pose, mean: [f64; 3]) -> PointLps {
    frame.to_lps(Vector3::from_fn(|a, _| mean[a] * frame.size_mm[a]))
}

/// The step between two points in the frame of a box, in its D.
pub(crate) fn step_between(frame: &Pose, from: PointLps, to: PointLps) -> Vector3<f64> {
    frame.orientation.inverse() * (to.0 - from.0) / frame.mean_size_mm()
}

fn stepped(frame: &Pose, from: PointLps, step: Vector3<f64>) -> PointLps {
    PointLps(from.0 + frame.orientation * (step * frame.mean_size_mm()))
}

impl LandmarkRegressorSpec {
    /// Values a site.
    pub(crate) fn len(&self) -> usize {
        self.patches.iter().map(Patch::len).sum()
    }

    /// Where the regressor looks: the box, or a cube of its mean size about a point; the patches'
    /// extents say how much of it.
    pub(crate) fn site(&self, frame: &Pose, point: PointLps) -> Pose {
        match self.view {
            View::Box => *frame,
            View::Point => Pose {
                center: point,
                orientation: frame.orientation,
                size_mm: [frame.mean_size_mm(); 3],
            },
        }
    }

    /// What it sees there, site after site.
    pub(crate) fn see<B: Backend>(
        &self,
        backend: &B,
        images: &[&B::Image],
        sites: &[PoseSite],
    ) -> Result<Vec<i16>, DetectError> {
        let length = self.len();
        let mut all = vec![0i16; sites.len() * length];
        let mut first = 0;
        for patch in &self.patches {
            let mut values = vec![0i16; sites.len() * patch.len()];
            backend.patches(images, patch, sites, &mut values)?;
            for (to, from) in all.chunks_exact_mut(length).zip(values.chunks_exact_mut(patch.len()))
            {
                if self.normalise {
                    normalise(patch, from);
                }
                to[first..first + from.len()].copy_from_slice(from);
            }
            first += patch.len();
        }
        Ok(all)
    }
}

impl LandmarkStage {
    /// All landmarks of a box that was found here; the image is a close-up where the stage has one.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn detect<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        frame: &Pose,
    ) -> Result<Vec<FoundLandmark>, DetectError> {
        let estimates = self.estimates(backend, image, frame)?;
        let found = |(l, landmark): (usize, &LandmarkPrior)| {
            let start = estimates[0][l];
            let step = |(weight, points): (&f64, &Vec<PointLps>)| {
                step_between(frame, start, points[l]) * *weight
            };
            let step: Vector3<f64> =
                landmark.stacking_weights.iter().zip(&estimates).map(step).sum();
            FoundLandmark {
                point: stepped(frame, start, step),
                score: landmark.right * landmark.plausibility(step.norm()),
            }
        };
        Ok(self.landmarks.iter().enumerate().map(found).collect())
    }

    /// The mean positions of all landmarks, then where they are after each regressor; sought once in
    /// the frame as it was found, and again from where the landmarks say that the frame is.
    pub(crate) fn estimates<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        frame: &Pose,
    ) -> Result<Vec<Vec<PointLps>>, DetectError> {
        let first = self.estimates_in(backend, image, frame)?;
        let means: Vec<[f64; 3]> = self.landmarks.iter().map(|l| l.mean).collect();
        self.estimates_in(backend, image, &refitted(frame, &means, &first[first.len() - 1]))
    }

    fn estimates_in<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        frame: &Pose,
    ) -> Result<Vec<Vec<PointLps>>, DetectError> {
        let mut all: Vec<Vec<PointLps>> =
            vec![self.landmarks.iter().map(|l| expected(frame, l.mean)).collect()];
        for regressor in &self.regressors {
            let mut points = all[all.len() - 1].clone();
            let spec = &regressor.spec;
            let sites: Vec<PoseSite> = regressor
                .groups
                .iter()
                .map(|g| PoseSite { image: 0, pose: spec.site(frame, points[g.landmarks[0]]) })
                .collect();
            let seen = spec.see(backend, &[image], &sites)?;
            for (group, patch) in regressor.groups.iter().zip(seen.chunks_exact(spec.len())) {
                for (&l, step) in group.landmarks.iter().zip(group.map.apply(patch).chunks_exact(3))
                {
                    let step = Vector3::new(step[0], step[1], step[2]);
                    let step = if step.norm() > spec.reach_d {
                        step * (spec.reach_d / step.norm())
                    } else {
                        step
                    };
                    points[l] = stepped(frame, points[l], step);
                }
            }
            all.push(points);
        }
        Ok(all)
    }
}

impl LandmarkPrior {
    /// 1 within the training cases' distances from the mean position, falling like a normal density
    /// beyond.
    fn plausibility(&self, distance: f64) -> f64 {
        let beyond = (distance - self.farthest_d).max(0.0) / self.spread_d.max(1e-6);
        libm::exp(-0.5 * beyond * beyond)
    }
}
