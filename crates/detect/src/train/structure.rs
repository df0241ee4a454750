//! Training of one structure: position, orientation, refinement, verification, landmarks.

use super::observer::StageFigure;
use super::progress::Progress;
use crate::DetectError;
use crate::config::{RefinementKind, TrainConfig};
use crate::data::case::TrainingCase;
use crate::data::each_image::images_at_a_time;
use crate::data::look_alikes::others_alike;
use crate::data::other_instances::{OtherInstances, divided};
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, Subjects, TrainingData, is_flat};
use crate::memory_need::{check_training, stored_levels};
use crate::model::StructureModel;
use crate::model::unfinished::StructureCheckpoint;
use crate::random::Seeds;
use crate::refine::held_out_refinement::{HeldOutOnce, HeldOutPass};
use crate::refine::refinement::{Refinement, RefinementTrainer};
use crate::side_by_side;
use crate::stages::input::StageInput;
use crate::stages::orientation::OrientationStage;
use crate::stages::position::{Candidate, PositionStage};
use crate::stages::position_channel::best_channel;
use crate::stages::verification::VerificationStage;
use crate::working::spec::{ChannelSpec, WorkingSpec, check_window};
use pbt_evaluate::BoxError;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{PointLps, Pose};
use std::time::Instant;

/// The training of one structure among those of a data set.
pub(super) struct StructureTraining<'a, B, D: ?Sized> {
    pub(super) backend: &'a B,
    pub(super) data: &'a D,
    pub(super) pyramids: &'a Pyramids,
    pub(super) config: &'a TrainConfig,
    pub(super) seeds: Seeds,
    pub(super) progress: &'a Progress<'a>,
    /// The structure as it was trained on all cases, where this training holds some out: what was
    /// settled with all of them is not settled again.
    pub(super) whole: Option<&'a StructureModel>,
    pub(super) structures: &'a [Annotated],
    /// Index of the structure.
    pub(super) index: usize,
    /// By structure, the first that it looks like, or itself.
    pub(super) look_alikes: &'a [usize],
    /// That first one, trained; `None` of itself.
    pub(super) first: Option<&'a StructureCheckpoint>,
    /// The structure, with the stages that are trained.
    pub(super) checkpoint: StructureCheckpoint,
    pub(super) figures: Vec<StageFigure>,
    pub(super) warnings: Vec<String>,
}

/// What the training of a structure gives.
pub(super) struct TrainedStructure {
    pub(super) checkpoint: StructureCheckpoint,
    pub(super) figures: Vec<StageFigure>,
    pub(super) warnings: Vec<String>,
}

impl<B: Backend, D: TrainingData + ?Sized> StructureTraining<'_, B, D> {
    /// Trains the stages that the checkpoint does not have yet.
    pub(super) fn run(mut self) -> Result<TrainedStructure, D::Error> {
        if !self.checkpoint.is_complete() {
            self.train_stages()?;
        }
        let Self { checkpoint, figures, warnings, .. } = self;
        Ok(TrainedStructure { checkpoint, figures, warnings })
    }

    fn train_stages(&mut self) -> Result<(), D::Error> {
        self.begin("reading", 0.0)?;
        let started = Instant::now();
        let (_, annotated) = &self.structures[self.index];
        let subjects = Subjects::new(self.data, annotated);
        let (working, prior) = (self.checkpoint.working.clone(), self.checkpoint.prior.clone());
        let cases = self.cases(&subjects, &working)?;
        let (config, seeds) = (self.config, self.seeds.in_plane(prior.flat));
        let (backend, whole, first) = (self.backend, self.whole, self.first);

        let position = self.get_or_train(
            ("position", 0.05),
            |checkpoint| &mut checkpoint.position,
            || {
                let channel = match (whole, &config.position.channel) {
                    (Some(whole), _) => whole.position.spec.channel,
                    (None, Some(name)) => {
                        let is_named = |channel: &ChannelSpec| channel.name == *name;
                        working.channels.iter().position(is_named).unwrap_or(0)
                    }
                    (None, None) => best_channel(backend, &cases, &working, &prior, config, seeds)?,
                };
                PositionStage::train(
                    backend,
                    &cases,
                    (&working, channel),
                    &prior,
                    &config.position,
                    &config.classifier,
                    seeds,
                )
            },
        )?;
        self.begin("detecting positions in all cases", 0.17)?;
        let layout = ImageLayout { channels: working.volumes(), ..position.spec.layout(&working) };
        let shown: Vec<usize> = (0..cases.len()).filter(|&n| cases[n].shows_image()).collect();
        let upload = |n: usize| Ok(backend.upload(cases[n].pyramid.volumes(), &layout)?);
        let largest = cases.iter().map(|case| case.pyramid.geometry(0).len()).max().unwrap_or(0);
        let at_a_time = images_at_a_time(largest, rayon::current_num_threads());
        let uploaded: Vec<B::Image> =
            side_by_side::each(shown.len(), at_a_time, |n| upload(shown[n]))?;
        // By case, which of the images shows it: those of one image follow each other.
        let image_of: Vec<usize> = (0..cases.len())
            .map(|n| shown.iter().filter(|&&first| first <= n).count() - 1)
            .collect();
        let images: Vec<&B::Image> = image_of.iter().map(|&image| &uploaded[image]).collect();
        let candidates: Vec<Vec<Candidate>> = shown
            .iter()
            .zip(&uploaded)
            .map(|(&n, image)| {
                let level = cases[n].pyramid.geometry(position.spec.level);
                position.detect(backend, image, (level, None), prior.scale_mm)
            })
            .collect::<Result<_, _>>()?;
        let nearest = cases.iter().zip(&image_of).map(|(case, &image)| {
            candidates[image]
                .iter()
                .map(|c| c.point.distance_mm(&case.pose.center))
                .fold(f64::INFINITY, f64::min)
        });
        self.distances("position", started, "nearest candidate", nearest.collect());

        let input = StageInput {
            backend,
            cases: &cases,
            images: &images,
            working: &working,
            prior: &prior,
            config,
            seeds,
        };
        let by_case = instances_of_images(&cases, &image_of, &candidates, |c| c.point);
        let started = Instant::now();
        let orientation = self.get_or_train(
            ("orientation", 0.2),
            |checkpoint| &mut checkpoint.orientation,
            || OrientationStage::train(&input, &by_case),
        )?;
        self.begin("detecting modes in all cases", 0.28)?;
        let modes: Vec<Vec<Pose>> = uploaded
            .iter()
            .zip(&candidates)
            .zip(&shown)
            .map(|((image, found), &n)| match position.spec.most_instances {
                None => orientation.detect(backend, image, found, &prior, cases[n].middle),
                Some(_) => orientation.detect_each(backend, image, found, &prior),
            })
            .collect::<Result<_, _>>()?;
        let modes = instances_of_images(&cases, &image_of, &modes, |pose| pose.center);
        let turned = nearest_pose(&cases, &modes, |e| e.angle_deg);
        self.figure("orientation", started, "nearest mode, degrees", turned);

        let started = Instant::now();
        let trainer = RefinementTrainer::new(&input);
        // Look-alikes share a cascade, which has learned from all of them.
        let shared = match config.refinement.kind {
            RefinementKind::Regression => first.and_then(|first| first.refinement.clone()),
            RefinementKind::Classification => None,
        };
        let refinement = self.get_or_train(
            ("refinement", 0.3),
            |checkpoint| &mut checkpoint.refinement,
            || shared.map_or_else(|| trainer.train(&input), Ok),
        )?;
        let converged: Vec<Vec<Pose>> = images
            .iter()
            .zip(&modes)
            .map(|(image, modes)| refinement.apply(backend, image, modes))
            .collect::<Result<_, _>>()?;
        let left = nearest_pose(&cases, &converged, |e| e.center_mm);
        self.distances("refinement", started, "nearest converged pose", left);

        let started = Instant::now();
        let held_out = HeldOutOnce::new(&input, &trainer, &modes);
        let verification = self.verification(&held_out, &refinement)?;
        let mut errors = Vec::new();
        for ((image, poses), case) in images.iter().zip(&converged).zip(&cases) {
            let best = verification.best(&orientation, backend, image, poses, &prior)?;
            errors.extend(best.map(|(pose, _)| BoxError::new(&pose, &case.pose).center_mm));
        }
        self.distances("verification", started, "chosen pose", errors);
        self.landmarks(&held_out, &verification)
    }

    /// The annotated cases on the working grid.
    fn cases(
        &self,
        subjects: &Subjects,
        working: &WorkingSpec,
    ) -> Result<Vec<TrainingCase>, D::Error> {
        let own = &self.structures[self.index];
        let (_, annotated) = own;
        let first_of_case: Vec<(usize, Pose)> =
            annotated.chunk_by(|a, b| a.0 == b.0).map(|of_case| of_case[0]).collect();
        let boxes =
            first_of_case.iter().map(|(case, pose)| (self.data.list().geometry(*case), pose));
        let radius = self.config.position.haar.radius;
        let list = self.data.list();
        let stored = stored_levels((0..list.len()).map(|case| list.geometry(case)), working);
        check_training(boxes, working, (radius, stored))?;
        let shown = first_of_case.iter().map(|(case, _)| *case);
        let interrupted = || self.progress.interrupted();
        let pyramids = self.pyramids.get_all(self.data, shown, working, interrupted)?;
        for (&case, pyramid) in &pyramids {
            let level = pyramid.geometry(working.levels - 1);
            check_window(level.shape(), (radius, is_flat(self.data)), level.spacing_mm()[0])
                .map_err(|e| {
                    let id = self.data.list().id(case);
                    DetectError::training(format!("case {id}"), e.to_string())
                })?;
        }
        let many = self.data.is_many(&own.0);
        let case = |(n, &(case, pose)): (usize, &(usize, Pose))| TrainingCase {
            pyramid: pyramids[&case].clone(),
            middle: self.data.list().geometry(case).center(),
            pose,
            subject: subjects.subject(n),
            origin: subjects.origin(n),
            copy: self.data.origin(case) != case,
            look_alikes: others_alike(self.structures, self.look_alikes, self.index, case),
            others: many.then(|| OtherInstances::of(own, n)),
        };
        Ok(annotated.iter().enumerate().map(case).collect())
    }

    fn verification(
        &mut self,
        held_out: &HeldOutOnce<'_, B>,
        refinement: &Refinement,
    ) -> Result<VerificationStage, D::Error> {
        // Look-alikes share their refinement, and so its errors.
        let first = self.first.and_then(|first| first.verification.as_ref());
        let shared = first.map(|first| (first.spec.shrinkage, first.spec.error));
        let (backend, whole, alone) = (self.backend, self.whole, self.structures.len() == 1);
        self.get_or_train(
            ("verification", 0.45),
            |checkpoint| &mut checkpoint.verification,
            || {
                let input = held_out.input;
                let refine =
                    |image: &B::Image, poses: &[Pose]| refinement.apply(backend, image, poses);
                if let Some(whole) = whole {
                    let settled = &whole.verification.spec;
                    return VerificationStage::train_as(input, held_out.modes, refine, settled);
                }
                // The refinement's error weighs neighbours; a model of one structure needs none.
                let (shrinkage, error) = match shared {
                    Some(shared) => shared,
                    None if alone && !HeldOutPass::tells_shrinkage(input) => (None, None),
                    None => match held_out.get()? {
                        Some(pass) => {
                            (pass.shrinkage(input), (!alone).then(|| pass.pose_error(input)))
                        }
                        None => (None, None),
                    },
                };
                VerificationStage::train(input, held_out.modes, refine, shrinkage, error)
            },
        )
    }

    /// The stage that the checkpoint has, or the one that `train` gives, which the checkpoint then
    /// keeps. `begins` is the name of the stage and the share of this structure's training that
    /// lies behind it.
    pub(super) fn get_or_train<T: Clone>(
        &mut self,
        begins: (&str, f64),
        stage: impl Fn(&mut StructureCheckpoint) -> &mut Option<T>,
        train: impl FnOnce() -> Result<T, DetectError>,
    ) -> Result<T, D::Error> {
        if let Some(trained) = stage(&mut self.checkpoint) {
            return Ok(trained.clone());
        }
        self.begin(begins.0, begins.1)?;
        let trained = train()?;
        self.pyramids.check()?;
        *stage(&mut self.checkpoint) = Some(trained.clone());
        self.progress.keep(self.index, &self.checkpoint)?;
        Ok(trained)
    }

    pub(super) fn begin(&self, stage: &str, done: f64) -> Result<(), DetectError> {
        self.progress.begin(self.index, stage, done)
    }

    /// Notes distances, in the unit of the images.
    pub(super) fn distances(
        &mut self,
        stage: &str,
        started: Instant,
        what: &str,
        values: Vec<f64>,
    ) {
        let what = format!("{what}, {}", self.data.list().unit);
        self.figure(stage, started, &what, values);
    }

    pub(super) fn figure(&mut self, stage: &str, started: Instant, what: &str, values: Vec<f64>) {
        let stage = format!("{}: {stage}", self.structures[self.index].0);
        self.figures.push(StageFigure::new(stage, started, what, &values));
    }
}

/// What was found in images, by case: of a structure that occurs several times each is of the nearest
/// instance.
fn instances_of_images<T: Clone>(
    cases: &[TrainingCase],
    image_of: &[usize],
    found: &[Vec<T>],
    place: impl Fn(&T) -> PointLps,
) -> Vec<Vec<T>> {
    let of_image = |image: usize| {
        let centers: Vec<PointLps> = cases
            .iter()
            .zip(image_of)
            .filter(|(_, of)| **of == image)
            .map(|(case, _)| case.pose.center)
            .collect();
        divided(&found[image], &place, &centers)
    };
    (0..found.len()).flat_map(of_image).collect()
}

/// By case, the smallest error among the poses that were found.
fn nearest_pose(
    cases: &[TrainingCase],
    found: &[Vec<Pose>],
    measure: impl Fn(&BoxError) -> f64,
) -> Vec<f64> {
    let best = |(case, poses): (&TrainingCase, &Vec<Pose>)| {
        poses
            .iter()
            .map(|pose| measure(&BoxError::new(pose, &case.pose)))
            .fold(f64::INFINITY, f64::min)
    };
    cases.iter().zip(found).map(best).collect()
}
