//! The trial that says whether mirrored copies of the training cases are worth their time.

use super::observer::Observer;
use super::settled::Settled;
use crate::DetectError;
use crate::config::TrainConfig;
use crate::config::augmentation::AugmentationConfig;
use crate::data::augmentation::Augmented;
use crate::data::case::TrainingCase;
use crate::data::look_alikes::others_alike;
use crate::data::mirror_doubt::are_unlike_originals;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{AnyData, Subjects, TrainingData};
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::refine::border_and_ridge::{FEWEST_TO_CHOOSE, regressor_trial, volumes_of_trial};
use crate::side_by_side;
use crate::stages::input::StageInput;
use crate::working::choice::working_spec;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{PointLps, Pose};
use std::collections::BTreeMap;

/// Decides whether mirrored copies are used. Not where they show what no image shows. Landmarks in
/// left–right pairs say that a structure is symmetric; others may lie on one side, where a mirrored
/// copy would misplace them. Without landmarks a regressor of each structure is tried with mirrored
/// copies and without, so many of them `at_a_time`: spines gain, hippocampi of one side lose, and eight
/// prostates cannot tell.
pub(super) fn trial<B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    settled: Settled<'_>,
    config: &TrainConfig,
    seed: u64,
    (observer, at_a_time): (&dyn Observer, usize),
) -> Result<MirrorTrial, D::Error> {
    if !config.augmentation.flips {
        return Ok(MirrorTrial::without_gain(false));
    }
    let mirrored = Augmented::new(data, 1, &AugmentationConfig::default(), seed)?;
    if are_unlike_originals(&mirrored) {
        return Ok(MirrorTrial::without_gain(false));
    }
    if let Some(symmetric) = mirrored.symmetric() {
        return Ok(MirrorTrial::without_gain(symmetric));
    }
    let structures = mirrored.structures();
    let mut by_case: BTreeMap<usize, Vec<[f64; 2]>> = BTreeMap::new();
    let tried = side_by_side::each(structures.len(), at_a_time, |structure| {
        observer.stage(&structures[structure].0, "trying mirrored copies", 0.0);
        let mirrored: &AnyData<'_, D::Error> = &mirrored;
        let (data, seeds) = ((mirrored, pyramids), Seeds::of_structure(seed, structure));
        try_structure(backend, data, settled, config, seeds, structure, observer)
    })?;
    for (case, errors) in tried.into_iter().flatten() {
        by_case.entry(case).or_default().push(errors);
    }
    let mean = |errors: &Vec<[f64; 2]>, n: usize| {
        errors.iter().map(|error| error[n]).sum::<f64>() / errors.len() as f64
    };
    let of = |n: usize| by_case.values().map(|errors| mean(errors, n)).collect::<Vec<f64>>();
    if by_case.is_empty() {
        return Ok(MirrorTrial::without_gain(false));
    }
    Ok(MirrorTrial::of(Gain::new(&of(0), &of(1))))
}

/// By case, the errors of a regressor of a structure that was trained without mirrored copies and
/// with them, as shares of the mean error without. Nothing where there are no copies or too few
/// subjects to tell.
fn try_structure<B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (mirrored, pyramids): (&D, &Pyramids),
    Settled { intensities, look_alikes, .. }: Settled<'_>,
    config: &TrainConfig,
    seeds: Seeds,
    structure: usize,
    observer: &dyn Observer,
) -> Result<Vec<(usize, [f64; 2])>, D::Error> {
    let structures = mirrored.structures();
    let (_, annotated) = &structures[structure];
    // The originals come first.
    let originals: Vec<(usize, Pose)> =
        annotated.iter().filter(|&&(case, _)| mirrored.origin(case) == case).copied().collect();
    let subjects = Subjects::new(mirrored, annotated);
    if originals.len() == annotated.len() || subjects.count() < FEWEST_TO_CHOOSE {
        return Ok(Vec::new());
    }
    let poses: Vec<Pose> = originals.iter().map(|&(_, pose)| pose).collect();
    let middle = |case: usize| mirrored.list().geometry(case).center();
    let middles: Vec<PointLps> = originals.iter().map(|&(case, _)| middle(case)).collect();
    let prior = Prior::new(&poses, &middles, config.orientation.orientations);
    let working = working_spec(mirrored, config, &prior, intensities);
    let shown = annotated.iter().map(|&(case, _)| case);
    let pyramids = pyramids.get_all(mirrored, shown, &working, || observer.interrupted())?;
    let case = |(n, &(case, pose)): (usize, &(usize, Pose))| TrainingCase {
        pyramid: pyramids[&case].clone(),
        middle: middle(case),
        pose,
        subject: subjects.subject(n),
        origin: subjects.origin(n),
        copy: mirrored.origin(case) != case,
        look_alikes: others_alike(&structures, look_alikes, structure, case),
        others: None,
    };
    let cases: Vec<TrainingCase> = annotated.iter().enumerate().map(case).collect();
    let channels = volumes_of_trial(&config.refinement, &prior, &working);
    let layout = ImageLayout { padding: working.padding, haar: None, channels };
    let images: Vec<B::Image> = cases
        .iter()
        .map(|case| Ok(backend.upload(case.pyramid.volumes(), &layout)?))
        .collect::<Result<_, DetectError>>()?;
    let images: Vec<&B::Image> = images.iter().collect();
    let errors = |count: usize| {
        if observer.interrupted() {
            return Err(DetectError::Interrupted);
        }
        regressor_trial(&StageInput {
            backend,
            cases: &cases[..count],
            images: &images[..count],
            working: &working,
            prior: &prior,
            config,
            seeds,
        })
    };
    let (without, with) = (errors(originals.len())?, errors(cases.len())?);
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    let shares = without.iter().zip(&with).map(|(without, with)| [without / mean, with / mean]);
    Ok(originals.iter().map(|&(case, _)| case).zip(shares).collect())
}

/// Mirrored copies are taken where they leave less than this share of the error: they double the
/// time of training. At 93 % whole detections gain, at 95 % nothing that can be shown
/// (`docs/experiments/mirrored-copies.md`).
const WORTH: f64 = 0.94;

/// What a trial of mirrored copies decided.
pub(super) struct MirrorTrial {
    /// Whether they are worth their time.
    pub(super) helps: bool,
    /// What they bring, where it was measured.
    pub(super) gain: Option<Gain>,
}

impl MirrorTrial {
    /// A decision that needed no measurement.
    pub(super) fn without_gain(helps: bool) -> Self {
        Self { helps, gain: None }
    }

    /// The decision by what was measured.
    pub(super) fn of(gain: Gain) -> Self {
        Self { helps: gain.is_worth_it(), gain: Some(gain) }
    }
}

/// What copies bring, by paired errors of the same cases.
pub(super) struct Gain {
    /// Share of the error that is left with copies.
    pub(super) share: f64,
    /// The share if the copies helped less than was seen by one standard error of the mean
    /// difference.
    pub(super) share_at_most: f64,
}

impl Gain {
    pub(super) fn new(without: &[f64], with: &[f64]) -> Self {
        let n = without.len() as f64;
        let total: f64 = without.iter().sum();
        let gains: Vec<f64> =
            without.iter().zip(with).map(|(without, with)| without - with).collect();
        let mean = gains.iter().sum::<f64>() / n;
        let variance = gains.iter().map(|gain| (gain - mean) * (gain - mean)).sum::<f64>()
            / (n - 1.0).max(1.0);
        let share = |gain: f64| if total > 0.0 { 1.0 - gain * n / total } else { 1.0 };
        Self { share: share(mean), share_at_most: share(mean - (variance / n).sqrt()) }
    }

    /// Enough for the time, and more than one standard error: of two choices the simpler one unless
    /// the other is clearly better (Breiman et al. 1984, section 3.4.3).
    fn is_worth_it(&self) -> bool {
        self.share < WORTH && self.share_at_most < 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_taken_where_the_gain_is_large_and_sure() {
        let steady = Gain::new(&[1.0, 2.0, 3.0], &[0.9, 1.8, 2.7]);
        assert!(
            (steady.share - 0.9).abs() < 1e-12
                && steady.share_at_most > 0.9
                && steady.is_worth_it()
        );
        let small = Gain::new(&[1.0, 2.0, 3.0], &[0.99, 1.98, 2.97]);
        assert!(!small.is_worth_it());
        // The same total, by one case that gains much and two that lose.
        let unsure = Gain::new(&[1.0, 2.0, 3.0], &[1.2, 2.2, 2.0]);
        assert!(
            (unsure.share - 0.9).abs() < 1e-12
                && unsure.share_at_most > 1.0
                && !unsure.is_worth_it()
        );
        assert!(!Gain::new(&[], &[]).is_worth_it());
    }
}
