//! Which channel of an image the position stage searches.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::data::case::{TrainingCase, subjects};
use crate::data::folds::Folds;
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::stages::position::PositionStage;
use crate::working::spec::WorkingSpec;
use pbt_tree::Backend;

/// The channel in which the search comes nearest to the structure in held-out cases: Haar features
/// have one integral volume, since a second one would double what the stage takes of memory and time.
/// All later stages see every channel. The first one where there is no other, where two are equally
/// good, or where there are too few subjects to hold some out.
pub(crate) fn best_channel<B: Backend>(
    backend: &B,
    cases: &[TrainingCase],
    working: &WorkingSpec,
    prior: &Prior,
    config: &TrainConfig,
    seeds: Seeds,
) -> Result<usize, DetectError> {
    let folds = Folds::new(subjects(cases));
    if working.channel_count() == 1 || folds.count() < 2 {
        return Ok(0);
    }
    let config = config.for_held_out();
    let mut missed = vec![0.0; working.channel_count()];
    for part in 0..folds.count() {
        let is_held_out = |case: &&TrainingCase| folds.holds_out(part, case.subject);
        let rest: Vec<TrainingCase> = cases.iter().filter(|c| !is_held_out(c)).cloned().collect();
        let held_out: Vec<&TrainingCase> =
            cases.iter().filter(is_held_out).filter(|case| !case.copy).collect();
        for (channel, missed) in missed.iter_mut().enumerate() {
            let (on, with) = ((working, channel), (&config.position, &config.classifier));
            let stage = PositionStage::train(backend, &rest, on, prior, with.0, with.1, seeds)?;
            for case in &held_out {
                let layout = stage.spec.layout(working);
                let image = backend.upload(case.pyramid.volumes(), &layout)?;
                let level = case.pyramid.geometry(stage.spec.level);
                let candidates = stage.detect(backend, &image, (level, None), prior.scale_mm)?;
                let nearest = candidates
                    .iter()
                    .map(|candidate| candidate.point.distance_mm(&case.pose.center))
                    .fold(f64::INFINITY, f64::min);
                // Beyond D one place is as wrong as another.
                *missed += (nearest / prior.scale_mm).min(1.0);
            }
        }
    }
    let better = |best: usize, next: usize| if missed[next] < missed[best] { next } else { best };
    Ok((1..missed.len()).fold(0, better))
}
