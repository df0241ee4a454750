//! The trial that says whether mirrored copies of the training cases are worth their time.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::config::augmentation::AugmentationConfig;
use crate::data::augmentation::Augmented;
use crate::data::case::TrainingCase;
use crate::data::look_alikes::look_alikes;
use crate::data::mirror_trial::{Gain, MirrorTrial};
use crate::data::training_data::{Subjects, TrainingData};
use crate::data::working_choice::working_spec;
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::refine::settings::{self, FEWEST_TO_CHOOSE};
use crate::stages::input::StageInput;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{PointLps, Pose};
use rayon::prelude::*;
use std::sync::Arc;

/// Landmarks in left–right pairs say that a structure is symmetric; others may lie on one side,
/// where a mirrored copy would misplace them. Without landmarks a regressor is tried on the first
/// structure and its look-alikes, with mirrored copies and without: spines gain, hippocampi of one
/// side lose, and eight prostates cannot tell.
pub(super) fn trial<B: Backend, D: TrainingData>(
    backend: &B,
    data: &D,
    config: &TrainConfig,
    seed: u64,
) -> Result<MirrorTrial, D::Error> {
    if !config.augmentation.flips {
        return Ok(MirrorTrial::without_gain(false));
    }
    let mirrored = Augmented::new(data, 1, &AugmentationConfig::default(), seed)?;
    if let Some(symmetric) = mirrored.symmetric() {
        return Ok(MirrorTrial::without_gain(symmetric));
    }
    let structures = mirrored.structures();
    let Some((_, annotated)) = structures.first() else {
        return Ok(MirrorTrial::without_gain(false));
    };
    let subjects = Subjects::new(&mirrored, annotated);
    if subjects.count() < FEWEST_TO_CHOOSE {
        return Ok(MirrorTrial::without_gain(false));
    }
    let originals: Vec<(usize, Pose)> =
        annotated.iter().filter(|&&(case, _)| mirrored.origin(case) == case).copied().collect();
    let poses: Vec<Pose> = originals.iter().map(|&(_, pose)| pose).collect();
    let middles: Vec<PointLps> =
        originals.iter().map(|&(case, _)| data.geometry(case).center()).collect();
    let prior = Prior::new(&poses, &middles, config.orientation.orientations);
    let working = working_spec(data, config, &originals, &prior)?;
    let cases = annotated
        .par_iter()
        .enumerate()
        .map(|(n, &(case, pose))| {
            let unusable = |e: DetectError| {
                DetectError::training(format!("case {}", mirrored.cases()[case]), e.to_string())
            };
            let pyramid = Arc::new(working.pyramid(&mirrored.image(case)?).map_err(unusable)?);
            Ok(TrainingCase {
                pyramid,
                pose,
                subject: subjects.subject(n),
                origin: subjects.origin(n),
                copy: mirrored.origin(case) != case,
                look_alikes: look_alikes(&structures, 0, case),
            })
        })
        .collect::<Result<Vec<_>, D::Error>>()?;
    let layout = ImageLayout {
        padding: working.padding,
        haar: None,
        channels: (0..working.levels).collect(),
    };
    let images: Vec<B::Image> = cases
        .iter()
        .map(|case| Ok(backend.upload(case.pyramid.levels(), &layout)?))
        .collect::<Result<_, DetectError>>()?;
    let images: Vec<&B::Image> = images.iter().collect();
    // The originals come first.
    let errors = |count: usize| {
        settings::trial(&StageInput {
            backend,
            cases: &cases[..count],
            images: &images[..count],
            working: &working,
            prior: &prior,
            config,
            seeds: Seeds::of_structure(seed, 0),
        })
    };
    Ok(MirrorTrial::of(Gain::new(&errors(originals.len())?, &errors(cases.len())?)))
}
