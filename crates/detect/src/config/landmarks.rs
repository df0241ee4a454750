//! What a user may set for landmarks.

use crate::DetectError;
use crate::config::range::within;
use serde::{Deserialize, Serialize};

/// What a regressor looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The whole box; all landmarks move together, from their mean positions.
    Box,
    /// A cube about each landmark, turned as the box.
    Point,
}

/// More would be finer than any scanner is in relation to what it is used for.
pub(crate) const MOST_HALVINGS: u8 = 4;

/// The landmarks of a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LandmarksConfig {
    /// Frames a case that a regressor learns from; their total stays within `most_samples`.
    pub perturbations: usize,
    /// Most frames in all.
    pub most_samples: usize,
    /// How often the working spacing is halved for landmarks, as far as the training images are
    /// finer. Automatic: as often as the finest patch asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halvings: Option<u8>,
    /// The regressors in their order.
    pub regressors: Vec<LandmarkRegressorConfig>,
    /// More that follow in images of one slice.
    pub in_plane: Vec<LandmarkRegressorConfig>,
}

/// One regressor of landmark regression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandmarkRegressorConfig {
    /// The whole box, or a cube about each landmark.
    pub view: View,
    /// What is sampled there.
    pub patches: Vec<LandmarkPatchConfig>,
    /// Whether edge strengths are seen beside intensities.
    pub edges: bool,
    /// Most distance to go, in units of the landmarks' spread about their mean positions: 2½
    /// standard deviations of those along each axis that a regressor about points learns from.
    pub reach: f64,
    /// Noise on the held-out frames that the regressor learns from, in units of their own errors.
    pub jitter: f64,
    /// Ridge penalty as a share of the mean variance of a feature.
    pub ridge: f64,
    /// Trees of a regression forest in place of a ridge regression, which has none.
    #[serde(default, skip_serializing_if = "has_no_trees")]
    pub trees: usize,
}

/// A grid of samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LandmarkPatchConfig {
    /// Edge length: of a box regressor in units of the box, of a point regressor in units of the
    /// spread.
    pub extent: f64,
    /// Points across D of a box regressor, along an edge of a point regressor.
    pub points: f64,
    /// Voxel sizes of the levels that are sampled, in units of the distance of points; the nearest
    /// levels are used.
    pub levels: Vec<f64>,
}

/// Most trees of a landmark regressor: more bring nothing and make the model large.
pub(crate) const MOST_LANDMARK_TREES: usize = 500;

/// Whether a regressor is a ridge regression.
pub(crate) fn has_no_trees(trees: &usize) -> bool {
    *trees == 0
}

impl Default for LandmarksConfig {
    fn default() -> Self {
        let patch = |extent, points, levels: &[f64]| LandmarkPatchConfig {
            extent,
            points,
            levels: levels.to_vec(),
        };
        let point = |patches, reach, ridge| LandmarkRegressorConfig {
            view: View::Point,
            patches,
            edges: true,
            reach,
            jitter: 0.7,
            ridge,
            trees: 0,
        };
        let forest = |extent, reach| LandmarkRegressorConfig {
            trees: 25,
            ..point(vec![patch(extent, 6.5, &[0.7])], reach, 0.8)
        };
        Self {
            perturbations: 30,
            most_samples: 4000,
            halvings: None,
            regressors: vec![
                LandmarkRegressorConfig {
                    view: View::Box,
                    patches: vec![patch(0.94, 10.5, &[0.7])],
                    edges: true,
                    reach: 2.5,
                    jitter: 0.7,
                    ridge: 0.8,
                    trees: 0,
                },
                point(vec![patch(10.0, 7.0, &[0.7])], 1.8, 0.8),
                point(vec![patch(5.0, 9.0, &[0.7])], 0.9, 0.8),
                point(vec![patch(3.5, 9.0, &[0.7])], 0.7, 0.8),
                point(vec![patch(2.5, 9.0, &[0.7])], 0.5, 0.8),
            ],
            in_plane: vec![forest(5.0, 2.0), forest(3.0, 1.5), forest(3.0, 1.0)],
        }
    }
}

impl LandmarksConfig {
    /// The regressors in their order, for images of one slice where `flat` is set.
    pub(crate) fn regressors(&self, flat: bool) -> impl Iterator<Item = &LandmarkRegressorConfig> {
        self.regressors.iter().chain(self.in_plane.iter().filter(move |_| flat))
    }

    /// Checks that every value lies in its range.
    pub(crate) fn check(&self) -> Result<(), DetectError> {
        within("landmarks.perturbations", self.perturbations as f64, 1.0, 1e4)?;
        within("landmarks.most_samples", self.most_samples as f64, 10.0, 1e6)?;
        if let Some(halvings) = self.halvings {
            within("landmarks.halvings", f64::from(halvings), 0.0, f64::from(MOST_HALVINGS))?;
        }
        for (list, regressors) in
            [("landmarks.regressors", &self.regressors), ("landmarks.in_plane", &self.in_plane)]
        {
            within(list, regressors.len() as f64, 0.0, 20.0)?;
            regressors.iter().try_for_each(|regressor| regressor.check(list))?;
        }
        Ok(())
    }
}

impl LandmarkRegressorConfig {
    fn check(&self, list: &str) -> Result<(), DetectError> {
        let within =
            |key: &str, value, low, high| within(&format!("{list}.{key}"), value, low, high);
        within("reach", self.reach, 0.01, 20.0)?;
        within("jitter", self.jitter, 0.0, 10.0)?;
        within("ridge", self.ridge, 1e-9, 1e3)?;
        within("trees", self.trees as f64, 0.0, MOST_LANDMARK_TREES as f64)?;
        within("patches", self.patches.len() as f64, 1.0, 8.0)?;
        for patch in &self.patches {
            within("patches.extent", patch.extent, 0.05, 50.0)?;
            within("patches.points", patch.points, 2.0, 20.0)?;
            within("patches.levels", patch.levels.len() as f64, 1.0, 4.0)?;
            patch.levels.iter().try_for_each(|&l| within("patches.levels", l, 0.01, 100.0))?;
        }
        Ok(())
    }
}
