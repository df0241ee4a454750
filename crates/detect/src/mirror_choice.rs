//! Whether mirrored copies of the training cases are worth their time.

use crate::DetectError;
use crate::augmentation::{AugmentationConfig, Augmented};
use crate::case::TrainingCase;
use crate::config::TrainConfig;
use crate::prior::Prior;
use crate::regression::{self, FEWEST_TO_CHOOSE};
use crate::stage_input::StageInput;
use crate::train::{StageFigure, TrainingData, groups, look_alikes};
use crate::working::working_spec;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{IntensityPolicy, PointLps, Pose};
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// Mirrored copies are taken where they leave less than this share of the error: lumbar spines say 0.92 to 0.94, hippocampi of one side 0.96
/// to 1.03, depending on which cases are at hand, and lose in the end.
const WORTH: f64 = 0.95;

/// Whether to take mirrored copies.
pub(crate) struct MirrorChoice {
    /// Whether they are worth their time.
    pub(crate) helps: bool,
    /// What the trial said, where there was one.
    pub(crate) figure: Option<StageFigure>,
}

impl MirrorChoice {
    fn without_trial(helps: bool) -> Self {
        Self { helps, figure: None }
    }

    /// Landmarks in left–right pairs say that a structure is symmetric; others may lie on one side, where a mirrored copy would misplace
    /// them. Without landmarks a regressor is tried on the first structure and its look-alikes, with mirrored copies and without: spines
    /// gain, hippocampi of one side lose.
    pub(crate) fn new<B: Backend, D: TrainingData>(backend: &B, data: &D, config: &TrainConfig, seed: u64) -> Result<Self, D::Error> {
        if !config.augmentation.flips {
            return Ok(Self::without_trial(false));
        }
        let started = Instant::now();
        let mirrored = Augmented::new(data, 1, &AugmentationConfig::default(), seed)?;
        if let Some(symmetric) = mirrored.symmetric() {
            return Ok(Self::without_trial(symmetric));
        }
        let structures = mirrored.structures();
        let Some((_, annotated)) = structures.first() else { return Ok(Self::without_trial(false)) };
        let groups = groups(&mirrored, annotated);
        if groups.iter().max().is_none_or(|&last| last + 1 < FEWEST_TO_CHOOSE) {
            return Ok(Self::without_trial(false));
        }
        let originals: Vec<(usize, Pose)> = annotated.iter().filter(|&&(case, _)| mirrored.origin(case) == case).copied().collect();
        let poses: Vec<Pose> = originals.iter().map(|&(_, pose)| pose).collect();
        let middles: Vec<PointLps> = originals.iter().map(|&(case, _)| data.geometry(case).center()).collect();
        let prior = Prior::new(&poses, &middles, config.orientation.orientations);
        let working = working_spec(data, config, &originals, &prior)?;
        let cases = annotated
            .par_iter()
            .zip(groups)
            .map(|(&(case, pose), group)| {
                let unusable = |e: DetectError| DetectError::training(format!("case {}", mirrored.cases()[case]), e.to_string());
                let pyramid = Arc::new(working.pyramid(&mirrored.image(case)?).map_err(unusable)?);
                let look_alikes = look_alikes(&structures, 0, case);
                Ok(TrainingCase { pyramid, pose, group, copy: mirrored.origin(case) != case, look_alikes })
            })
            .collect::<Result<Vec<_>, D::Error>>()?;
        let layout = ImageLayout { padding: working.padding, haar: None, channels: (0..working.levels).collect() };
        let images: Vec<B::Image> = cases.iter().map(|case| backend.upload(case.pyramid.levels(), &layout)).collect();
        let images: Vec<&B::Image> = images.iter().collect();
        let normalise = !matches!(working.intensity, IntensityPolicy::Window { .. });
        let error = |count: usize| {
            let (cases, images) = (&cases[..count], &images[..count]);
            regression::trial(
                &StageInput { backend, cases, images, spacing_mm: working.spacing_mm, prior: &prior, config, seed },
                normalise,
            )
        };
        let share = error(cases.len()) / error(originals.len());
        let figure = StageFigure {
            stage: "mirrored copies".to_owned(),
            seconds: started.elapsed().as_secs_f64(),
            what: "share of the held-out error that is left with them".to_owned(),
            mean: share,
            max: share,
        };
        Ok(Self { helps: share < WORTH, figure: Some(figure) })
    }
}
