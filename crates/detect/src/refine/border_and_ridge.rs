//! How far a cascade looks beyond the box and how stiff it is: chosen on held-out cases.

use crate::DetectError;
use crate::config::{PassConfig, RefinementConfig};
use crate::data::case::subjects;
use crate::data::folds::Folds;
use crate::pose::prior::Prior;
use crate::pose::step::{Step, perturbed_normally};
use crate::random::Stream;
use crate::refine::cascade::{CascadeSettings, specify};
use crate::refine::regressor::{Regressor, RegressorSpec, solved};
use crate::stages::input::StageInput;
use crate::stages::sampling::levels_for;
use crate::working::spec::WorkingSpec;
use nalgebra::Vector3;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// Borders to choose from, in D: inside the box, where what surrounds it varies; or beyond, where
/// neighbours help (vertebrae).
const BORDERS: [f64; 3] = [-0.06, 0.1, 0.25];

/// Ridge penalties to choose from; the first is used where there are too few subjects to choose. What
/// varies much from case to case asks for more.
const RIDGES: [f64; 3] = [0.4, 1.0, 2.5];

/// Fewest subjects of which a third is held out to choose.
pub(crate) const FEWEST_TO_CHOOSE: usize = 6;

/// What the configuration sets, and the first value to choose from where it leaves a choice.
fn first(config: &RefinementConfig) -> CascadeSettings {
    CascadeSettings {
        border: config.border.unwrap_or(BORDERS[0]),
        ridge: config.ridge.unwrap_or(RIDGES[0]),
    }
}

/// The middle regressor of a cascade, if it has any.
fn middle(config: &RefinementConfig) -> Option<&PassConfig> {
    config.regressors.get(config.regressors.len() / 2)
}

/// Places of the volumes of the pyramid that a [`regressor_trial`] looks at.
pub(crate) fn volumes_of_trial(
    config: &RefinementConfig,
    prior: &Prior,
    working: &WorkingSpec,
) -> Vec<usize> {
    let of_pass = |pass: &PassConfig| levels_for(prior, working, &pass.voxels_across);
    let volumes = middle(config).map_or_else(Vec::new, of_pass);
    volumes.into_iter().map(usize::from).collect()
}

/// Border and penalty, chosen where the configuration leaves them open: first the one, then the
/// other, by the error of a single regressor that is trained on two thirds of the cases and applied
/// to the others.
pub(crate) fn choose<B: Backend>(
    input: &StageInput<'_, B>,
) -> Result<CascadeSettings, DetectError> {
    let config = &input.config.refinement;
    let mut settings = first(config);
    // The middle regressor stands for all.
    if let Some(pass) = middle(config)
        && subjects(input.cases) >= FEWEST_TO_CHOOSE
    {
        let least = |errors: &[f64]| {
            (1..errors.len()).fold(0, |best, n| if errors[n] < errors[best] { n } else { best })
        };
        let errors = |settings: CascadeSettings, ridges: &[f64]| -> Result<Vec<f64>, DetectError> {
            let by_ridge = errors_by_ridge(input, pass, settings, ridges, LAST_FOLD)?;
            Ok(by_ridge.iter().map(|errors| errors.iter().map(|(_, error)| error).sum()).collect())
        };
        if config.border.is_none() {
            let of_border =
                |border| Ok(errors(CascadeSettings { border, ..settings }, &[settings.ridge])?[0]);
            let by_border =
                BORDERS.into_iter().map(of_border).collect::<Result<Vec<_>, DetectError>>()?;
            settings.border = BORDERS[least(&by_border)];
        }
        if config.ridge.is_none() {
            settings.ridge = RIDGES[least(&errors(settings, &RIDGES)?)];
        }
    }
    Ok(settings)
}

/// For each case that is no copy, the error that the middle regressor of a cascade leaves there, with
/// few sample points and trained without the case: enough to compare training sets. Empty without
/// regressors, or with a single subject.
pub(crate) fn regressor_trial<B: Backend>(
    input: &StageInput<'_, B>,
) -> Result<Vec<f64>, DetectError> {
    let config = &input.config.refinement;
    let Some(pass) = middle(config) else {
        return Ok(Vec::new());
    };
    let folds = Folds::of(input.cases);
    if folds.count() < 2 {
        return Ok(Vec::new());
    }
    let settings = first(config);
    let pass = PassConfig { density: TRIAL_DENSITY * pass.density, ..pass.clone() };
    let mut errors: Vec<(usize, f64)> = Vec::new();
    for fold in 0..folds.count() {
        errors.append(&mut errors_by_ridge(input, &pass, settings, &[settings.ridge], fold)?[0]);
    }
    errors.sort_by_key(|&(case, _)| case);
    Ok(errors.into_iter().map(|(_, error)| error).collect())
}

/// Share of the points along an edge that a trial has.
const TRIAL_DENSITY: f64 = 0.75;

/// A regressor with a large penalty takes short steps and needs several, so one step would not compare
/// penalties fairly.
const REPEATS_TO_CHOOSE: usize = 3;

/// The part of the cases that is held out to choose, of the three of [`Folds`].
const LAST_FOLD: usize = 2;

/// By penalty, the held-out cases that are no copies, each with the error, in units of D and radians,
/// of a regressor that did not see them.
fn errors_by_ridge<B: Backend>(
    input: &StageInput<'_, B>,
    pass: &PassConfig,
    settings: CascadeSettings,
    ridges: &[f64],
    fold: usize,
) -> Result<Vec<Vec<(usize, f64)>>, DetectError> {
    let &StageInput { backend, cases, images, .. } = input;
    let fold = input.fold(Folds::of(cases), fold);
    let rest = fold.input(input);
    let fewer = input.config.for_held_out().refinement;
    let spec = specify(input, &PassConfig { repeats: REPEATS_TO_CHOOSE, ..pass.clone() }, settings);
    let problem = spec.problem(
        backend,
        rest.cases,
        rest.images,
        &fewer,
        (input.seeds, Stream::SettingsPoses),
    )?;
    let maps = solved(backend, &problem, ridges)?;
    let left = |truth: &Pose, end: &Pose| {
        let step = Step::between(end, truth);
        step.shift_mm.norm() / input.prior.scale_mm
            + step.rotation.norm()
            + Vector3::from(step.log_size).norm()
    };
    let error = |regressor: &Regressor, n: usize| -> Result<f64, DetectError> {
        let mut random = input.seeds.random(Stream::SettingsStarts, n);
        let truths: Vec<Pose> = cases[n].all().flat_map(|pose| [pose; 8]).collect();
        let starts: Vec<Pose> = truths
            .iter()
            .map(|truth| perturbed_normally(truth, &regressor.spec.reach, &mut random))
            .collect();
        let ends = regressor.apply(backend, images[n], &starts)?;
        Ok(truths.iter().zip(&ends).map(|(truth, end)| left(truth, end)).sum())
    };
    let by_case = |regressor: &Regressor| {
        fold.held_out
            .iter()
            .filter(|&&n| !cases[n].copy)
            .map(|&n| Ok((n, error(regressor, n)?)))
            .collect()
    };
    ridges
        .iter()
        .zip(maps)
        .map(|(&ridge, map)| {
            by_case(&Regressor { spec: RegressorSpec { ridge, ..spec.clone() }, map })
        })
        .collect()
}
