//! Everything that a user may set for training; every key has a default, and `auto` values are
//! resolved from the training cases.

pub(crate) mod augmentation;
pub(crate) mod landmarks;
mod quick;
pub(crate) mod range;
pub(crate) mod regions;
pub(crate) mod segmentation;
pub(crate) mod toml_error;

use crate::DetectError;
use crate::config::augmentation::AugmentationConfig;
use crate::config::landmarks::LandmarksConfig;
use crate::config::range::within;
use crate::config::regions::RegionsConfig;
use crate::config::segmentation::SegmentationConfig;
use crate::config::toml_error::{in_words, key_at};
use pbt_features::{HaarPoolConfig, SteerableSet};
use pbt_tree::ClassifierParams;
use pbt_volume::{IntensityPolicy, Padding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// The whole configuration of a training, as in a TOML file given by `--config`.
///
/// Lengths are given in units of the structure's mean size D, the geometric mean of the mean edge
/// lengths, so that one configuration serves mouse skulls and vertebrae.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The working grid.
    pub working: WorkingConfig,
    /// Copies of the training cases.
    pub augmentation: AugmentationConfig,
    /// The boosted classifiers of all stages.
    pub classifier: ClassifierParams,
    /// Where the structure's centre may be.
    pub position: PositionConfig,
    /// How it may be turned.
    pub orientation: OrientationConfig,
    /// How the found modes are brought to the structure.
    pub refinement: RefinementConfig,
    /// Which of the converged poses is right.
    pub verification: VerificationConfig,
    /// How far orientation and size are drawn towards the training mean.
    pub shrinkage: ShrinkageConfig,
    /// What structures say about each other.
    pub network: NetworkConfig,
    /// How landmarks are found in a box.
    pub landmarks: LandmarksConfig,
    /// How sure and how near detections are.
    pub certainty: CertaintyConfig,
    /// How regions are labelled.
    pub regions: RegionsConfig,
    /// How the voxels about a box are labelled.
    pub segmentation: SegmentationConfig,
}

/// The working grid that all images are brought to.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkingConfig {
    /// Spacing of the finest level, mm. Automatic: the smallest spacing of an image, median over the
    /// training images, doubled until it is nearest to D/46.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spacing_mm: Option<f64>,
    /// How intensities become 12 bits. Automatic: by modality, a window learned from the training
    /// images for CT, percentiles otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intensity: Option<IntensityPolicy>,
    /// The same for single channels of images of several, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, IntensityPolicy>,
    /// What lies outside an image. Automatic: `zero` (air) for CT, `edge` otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<Padding>,
}

/// The position stage: a Haar classifier over a coarse level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PositionConfig {
    /// Voxels of the stage's level across D; the level nearest to it is used.
    pub voxels_across: f64,
    /// The Haar pool; its radius is in voxels of the level.
    pub haar: HaarPoolConfig,
    /// A voxel this near to the true centre is a positive, voxels.
    pub positive_within: f64,
    /// A voxel this far from it is a negative, voxels.
    pub negative_beyond: f64,
    /// Resampled copies of each case: in random orientations where the structure may lie anyhow,
    /// within its spread otherwise.
    pub copies: usize,
    /// Negatives a copy; half of them near the structure.
    pub negatives: usize,
    /// Hypotheses that go on.
    pub keep: usize,
    /// Name of the channel that is searched, of images of several. Automatic: the one whose search
    /// comes nearest to the structure in held-out training cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

impl Default for PositionConfig {
    fn default() -> Self {
        Self {
            voxels_across: 11.5,
            haar: HaarPoolConfig::default(),
            positive_within: 1.0,
            negative_beyond: 2.0,
            copies: 10,
            negatives: 150,
            keep: 20,
            channel: None,
        }
    }
}

/// Which orientations are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Orientations {
    /// `any` where some training case is turned by more than 75° from the middle one, else
    /// `training`.
    #[default]
    Auto,
    /// An even cover of all rotations.
    Any,
    /// The orientations of the training cases (constrained marginal space learning).
    Training,
}

/// The orientation stage: position candidates × rotations, scored jointly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OrientationConfig {
    /// Which orientations are tried.
    pub orientations: Orientations,
    /// Most rotations tried a candidate.
    pub rotations: usize,
    /// Types of steerable features.
    pub features: SteerableSet,
    /// Sample points across D; the grid has about the cube of it.
    pub points_across: f64,
    /// Best hypotheses that modes are sought in.
    pub keep: usize,
    /// Most modes that go on.
    pub modes: usize,
    /// Rounds of training on what the classifier before got wrong.
    pub bootstrap: usize,
}

impl Default for OrientationConfig {
    fn default() -> Self {
        Self {
            orientations: Orientations::Auto,
            rotations: 600,
            features: SteerableSet::Compact,
            points_across: 5.5,
            keep: 400,
            modes: 8,
            bootstrap: 1,
        }
    }
}

/// How modes are brought to the structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefinementKind {
    /// A cascade of ridge regressors.
    #[default]
    Regression,
    /// Boosted classifiers alone, as in the patent: size, then passes of finer and finer
    /// hypotheses.
    Classification,
}

/// One regressor or pass of a refinement: how far from the structure it works, and on which levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassConfig {
    /// Rotations up to this, degrees; for a regressor 2½ standard deviations of those about each
    /// axis that it learns from.
    pub degrees: f64,
    /// Shifts up to this, in D; for a regressor 2½ standard deviations of those along each axis.
    pub shift: f64,
    /// Share of the size's reach, which is a few standard deviations of the training sizes.
    pub size: f64,
    /// Voxels across D on the levels that are sampled.
    pub voxels_across: Vec<f64>,
    /// How often it is applied.
    pub repeats: usize,
    /// Sample points across D of a regressor's grid, relative to `refinement.points_across`.
    #[serde(default = "one")]
    pub density: f64,
}

fn one() -> f64 {
    1.0
}

impl PassConfig {
    fn new(degrees: f64, shift: f64, size: f64, voxels_across: &[f64], repeats: usize) -> Self {
        Self { degrees, shift, size, voxels_across: voxels_across.to_vec(), repeats, density: 1.0 }
    }

    fn with_density(self, density: f64) -> Self {
        Self { density, ..self }
    }
}

/// The finishing stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RefinementConfig {
    /// Regression or classification.
    pub kind: RefinementKind,
    /// Sample points across D of the regressors' grid.
    pub points_across: f64,
    /// Whether regressors see edge strengths beside intensities.
    pub edges: bool,
    /// How far the grid reaches beyond the box on every side, in D. Automatic: of three the one
    /// that is best on held-out cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub border: Option<f64>,
    /// Perturbed poses a case that a regressor learns from; more where cases are few, and their total
    /// stays within `most_samples`.
    pub perturbations: usize,
    /// Most perturbed poses in all.
    pub most_samples: usize,
    /// Ridge penalty as a share of the mean variance of a feature. Automatic: of three the one that
    /// is best on held-out cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ridge: Option<f64>,
    /// Hypotheses a mode and pass of classification.
    pub hypotheses: usize,
    /// The regressors of the cascade, each trained on its own perturbations of the truth.
    pub regressors: Vec<PassConfig>,
    /// The passes of classification; the first is the size stage of marginal space learning.
    pub passes: Vec<PassConfig>,
}

impl Default for RefinementConfig {
    fn default() -> Self {
        Self {
            kind: RefinementKind::Regression,
            points_across: 10.5,
            edges: true,
            border: None,
            perturbations: 100,
            most_samples: 5000,
            ridge: None,
            hypotheses: 800,
            regressors: vec![
                // Few points where much is to be corrected, many for the last word.
                PassConfig::new(20.0, 0.115, 1.0, &[11.5, 23.0], 2).with_density(0.8),
                PassConfig::new(8.0, 0.054, 0.6, &[23.0], 1),
                PassConfig::new(5.0, 0.031, 0.4, &[23.0, 46.0], 6).with_density(1.25),
            ],
            passes: vec![
                PassConfig::new(12.0, 0.06, 1.0, &[11.5, 23.0], 1),
                PassConfig::new(20.0, 0.10, 0.8, &[11.5, 23.0], 2),
                PassConfig::new(10.0, 0.05, 0.5, &[23.0], 2),
                PassConfig::new(5.0, 0.03, 0.25, &[23.0, 46.0], 2),
            ],
        }
    }
}

/// The verification stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VerificationConfig {
    /// A detection whose probability is below this is `doubtful`.
    pub doubtful_below: f64,
    /// A detection whose probability is below this is `absent`.
    pub absent_below: f64,
}

impl Default for VerificationConfig {
    fn default() -> Self {
        Self { doubtful_below: 0.8, absent_below: 1e-3 }
    }
}

/// Shrinkage towards the training mean, where cases are few.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ShrinkageConfig {
    /// Most that a pose is drawn, as a multiple of the refinement's error in held-out cases; 0
    /// leaves it as found.
    pub most: f64,
}

impl Default for ShrinkageConfig {
    fn default() -> Self {
        Self { most: 1.0 }
    }
}

/// The network of several structures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkConfig {
    /// Whether the position of a structure in the image counts: right where all images are planned
    /// alike, wrong where they are not.
    pub center_prior: bool,
    /// Whether chains of look-alikes (vertebrae) are tested for standing at the right level.
    pub level_shift: bool,
    /// Whether structures are looked for about one that is found first.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub search_regions: bool,
}

impl Default for NetworkConfig {
    fn default() -> Self {
        Self { center_prior: true, level_shift: true, search_regions: true }
    }
}

/// Scores and radii.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CertaintyConfig {
    /// Whether they come from held-out cases, for which the whole chain is trained three times more
    /// on two thirds of the cases. Without, scores are those of the verification stage, which is far
    /// too sure, and there are no radii.
    pub measured: bool,
}

impl Default for CertaintyConfig {
    fn default() -> Self {
        Self { measured: true }
    }
}

/// Most perturbed poses that a cascade for held-out cases learns from: it is trained on two of three
/// parts of the cases, and so on as many poses of each as by default.
const HELD_OUT_SAMPLES: usize = 3300;

impl TrainConfig {
    /// Where the errors of a chain are wanted and not the best one: half the copies of the cases
    /// serve, and no more perturbed poses than by default, whatever the configuration says.
    pub(crate) fn for_held_out(&self) -> Self {
        let mut config = self.clone();
        config.position.copies = config.position.copies.div_ceil(2);
        config.refinement.most_samples = config.refinement.most_samples.min(HELD_OUT_SAMPLES);
        config
    }

    /// Reads a TOML text; an unknown key or a value of the wrong type is an error that names line
    /// and key.
    ///
    /// # Errors
    /// [`DetectError::Config`].
    pub fn from_toml(text: &str) -> Result<Self, DetectError> {
        let config: Self = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |span| span.start);
            let line = text.bytes().take(at).filter(|&b| b == b'\n').count() + 1;
            let key = DeTable::parse(text)
                .ok()
                .and_then(|root| key_at(&DeValue::Table(root.into_inner()), at));
            let field =
                key.map_or_else(|| format!("line {line}"), |key| format!("line {line}: {key}"));
            DetectError::config(field, in_words(e.message()))
        })?;
        config.check()?;
        Ok(config)
    }

    /// Checks that every value lies in its range.
    ///
    /// # Errors
    /// [`DetectError::Config`] naming the first key that does not.
    pub fn check(&self) -> Result<(), DetectError> {
        if let Some(spacing) = self.working.spacing_mm {
            within("working.spacing_mm", spacing, 1e-4, 1e3)?;
        }
        if let Some(policy) = self.working.intensity {
            policy.check().map_err(|e| DetectError::config("working.intensity", e.to_string()))?;
        }
        for (name, policy) in &self.working.channels {
            let key = format!("working.channels.{name}");
            policy.check().map_err(|e| DetectError::config(key, e.to_string()))?;
        }
        within("position.voxels_across", self.position.voxels_across, 2.0, 100.0)?;
        within("position.haar.features", self.position.haar.features as f64, 100.0, 100_000.0)?;
        within("position.haar.radius", self.position.haar.radius as f64, 1.0, 60.0)?;
        within("position.haar.step", self.position.haar.step as f64, 1.0, 60.0)?;
        within("position.haar.concentric", self.position.haar.concentric, 0.0, 1.0)?;
        within("position.positive_within", self.position.positive_within, 0.87, 10.0)?;
        within(
            "position.negative_beyond",
            self.position.negative_beyond,
            self.position.positive_within,
            50.0,
        )?;
        within("position.copies", self.position.copies as f64, 1.0, 1000.0)?;
        within("position.negatives", self.position.negatives as f64, 10.0, 1e6)?;
        within("position.keep", self.position.keep as f64, 1.0, 1e4)?;
        within("orientation.rotations", self.orientation.rotations as f64, 1.0, 1e5)?;
        let poses = self.position.keep * self.orientation.rotations;
        within("orientation.rotations times position.keep", poses as f64, 1.0, 1e7)?;
        within("orientation.points_across", self.orientation.points_across, 2.0, 15.0)?;
        within("orientation.keep", self.orientation.keep as f64, 1.0, 1e5)?;
        within("orientation.modes", self.orientation.modes as f64, 1.0, 1000.0)?;
        within("orientation.bootstrap", self.orientation.bootstrap as f64, 0.0, 10.0)?;
        within("refinement.points_across", self.refinement.points_across, 2.0, 20.0)?;
        if let Some(border) = self.refinement.border {
            within("refinement.border", border, -0.2, 2.0)?;
        }
        within("refinement.perturbations", self.refinement.perturbations as f64, 10.0, 1e5)?;
        within("refinement.most_samples", self.refinement.most_samples as f64, 100.0, 1e6)?;
        if let Some(ridge) = self.refinement.ridge {
            within("refinement.ridge", ridge, 1e-9, 1e3)?;
        }
        within("refinement.hypotheses", self.refinement.hypotheses as f64, 10.0, 1e5)?;
        for (key, passes) in [
            ("refinement.regressors", &self.refinement.regressors),
            ("refinement.passes", &self.refinement.passes),
        ] {
            within(key, passes.len() as f64, 1.0, 20.0)?;
            for pass in passes {
                within(&format!("{key}.degrees"), pass.degrees, 0.1, 50.0)?;
                within(&format!("{key}.shift"), pass.shift, 1e-3, 0.9)?;
                within(&format!("{key}.size"), pass.size, 0.0, 2.0)?;
                within(&format!("{key}.repeats"), pass.repeats as f64, 1.0, 100.0)?;
                within(&format!("{key}.density"), pass.density, 0.2, 3.0)?;
                within(&format!("{key}.voxels_across"), pass.voxels_across.len() as f64, 1.0, 4.0)?;
                pass.voxels_across
                    .iter()
                    .try_for_each(|&v| within(&format!("{key}.voxels_across"), v, 1.0, 500.0))?;
            }
        }
        self.augmentation.check()?;
        self.landmarks.check()?;
        self.regions.check()?;
        self.segmentation.check()?;
        within("verification.doubtful_below", self.verification.doubtful_below, 0.0, 1.0)?;
        within(
            "verification.absent_below",
            self.verification.absent_below,
            0.0,
            self.verification.doubtful_below,
        )?;
        within("shrinkage.most", self.shrinkage.most, 0.0, 100.0)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_the_documentation_are_read() {
        let pages = [
            include_str!("../../../../docs/reference/configuration.md"),
            include_str!("../../../../docs/how-to/tune-a-training.md"),
        ];
        let examples: Vec<&str> = pages
            .iter()
            .flat_map(|page| page.split("```toml").skip(1))
            .filter_map(|rest| rest.split("```").next())
            .collect();
        let read: Vec<TrainConfig> = examples
            .iter()
            .map(|text| TrainConfig::from_toml(text).unwrap_or_else(|e| panic!("{e} in {text}")))
            .collect();
        let patches = |config: &TrainConfig| {
            config
                .landmarks
                .regressors
                .iter()
                .map(|regressor| regressor.patches.len())
                .collect::<Vec<_>>()
        };
        assert!(read.iter().any(|config| patches(config) == [1, 2]));
    }

    #[test]
    fn errors_name_line_and_key() {
        for (text, expected) in [
            (
                "[position]\nkeep = \"x\"",
                "line 2: position.keep: invalid type: string \"x\", expected a whole number from 0 on",
            ),
            (
                "\nposition.haar = { radius = 9, features = 1.5 }",
                "line 2: position.haar.features: invalid type: floating point `1.5`, ",
            ),
            ("[position]\nkep = 3", "line 2: position.kep: unknown key; did you mean `keep`?"),
            ("position = 3", "line 1: position: invalid type: integer `3`, expected a table"),
            (
                "[refinement]\nedges = 1",
                "line 2: refinement.edges: invalid type: integer `1`, expected true or false",
            ),
            (
                "[refinement]\nkind = \"x\"",
                "line 2: refinement.kind: unknown variant `x`, expected `regression` or `classification`",
            ),
            (
                "[[refinement.passes]]\ndegrees = 3",
                "line 1: refinement.passes[0]: missing field `shift`",
            ),
            (
                "[[landmarks.regressors]]\nview = \"box\"\n[[landmarks.regressors.patches]]\nextent = 1\npoints = 9\nlevels = [0.7,\n\"x\"]",
                "line 7: landmarks.regressors[0].patches[0].levels[1]: invalid type: string \"x\", expected a number",
            ),
            (
                "[classifier.pbt]\nrounds_by_level = 3",
                "line 2: classifier.pbt.rounds_by_level: invalid type: integer `3`, expected a list",
            ),
            ("[position]\nkeep = 3\nkeep = 4", "line 3: duplicate key"),
            (
                "[working]\nintensity = { policy = \"window\", low = 5, high = 1 }",
                "working.intensity: intensity window: low 5 must be below",
            ),
            (
                "[position]\nkeep = 9000\n[orientation]\nrotations = 9000",
                "orientation.rotations times position.keep: 81000000 is not between",
            ),
            ("[position", "line 1: unclosed table"),
            ("[postion]\nkeep = 3", "line 1: postion: unknown key; did you mean `position`?"),
            (
                "[position]\nhaar = { feature = 5 }",
                "line 2: position.haar.feature: unknown key; did you mean `features`?",
            ),
            ("[position]\nxyz = 3", "line 2: position.xyz: unknown field `xyz`, expected one of"),
        ] {
            let error = TrainConfig::from_toml(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }
}
