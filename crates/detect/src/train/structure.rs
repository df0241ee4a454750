//! Training of one structure: position, orientation, refinement, verification, landmarks.

use super::observer::{Observer, StageFigure};
use crate::DetectError;
use crate::config::{RefinementKind, TrainConfig};
use crate::data::case::TrainingCase;
use crate::data::each_image::images_at_a_time;
use crate::data::look_alikes::others_alike;
use crate::data::other_instances::{OtherInstances, divided};
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, Subjects, TrainingData, is_flat};
use crate::memory_need::{check_training, stored_levels};
use crate::model::file::checkpoint_bytes;
use crate::model::unfinished::StructureCheckpoint;
use crate::model::{Provenance, StructureModel};
use crate::network::row::Row;
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::refine::held_out_refinement::{HeldOutOnce, HeldOutPass};
use crate::refine::refinement::{Refinement, RefinementTrainer};
use crate::side_by_side;
use crate::stages::input::StageInput;
use crate::stages::orientation::OrientationStage;
use crate::stages::position::{Candidate, PositionStage};
use crate::stages::position_channel::best_channel;
use crate::stages::verification::VerificationStage;
use crate::working::choice::working_spec;
use crate::working::spec::{ChannelSpec, WorkingSpec, check_window};
use pbt_evaluate::BoxError;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{IntensityPolicy, PointLps, Pose};
use std::time::Instant;

/// What checkpoints hold beside the structures of a group.
pub(super) struct Checkpoints<'a> {
    /// Of the whole training.
    pub(super) provenance: &'a Provenance,
    /// The structures of the groups before, finished.
    pub(super) before: &'a [StructureCheckpoint],
}

/// The training of one structure among those of a data set.
pub(super) struct StructureTraining<'a, B, D> {
    pub(super) backend: &'a B,
    pub(super) data: &'a D,
    pub(super) pyramids: &'a Pyramids,
    pub(super) intensities: &'a [IntensityPolicy],
    pub(super) config: &'a TrainConfig,
    pub(super) seeds: Seeds,
    pub(super) observer: &'a dyn Observer,
    pub(super) kept: &'a Checkpoints<'a>,
    /// The structure as it was trained on all cases, where this training holds some out: what was
    /// settled with all of them is not settled again.
    pub(super) whole: Option<&'a StructureModel>,
    pub(super) structures: &'a [Annotated],
    /// Index of the structure.
    pub(super) index: usize,
    /// By structure, the first that is about as large, or itself.
    pub(super) alike_in_size: &'a [usize],
    /// By structure, the first that it looks like, or itself.
    pub(super) look_alikes: &'a [usize],
    pub(super) figures: &'a mut Vec<StageFigure>,
    pub(super) warnings: &'a mut Vec<String>,
}

impl<B: Backend, D: TrainingData> StructureTraining<'_, B, D> {
    /// Trains the stages that the checkpoints do not have yet.
    pub(super) fn run(
        &mut self,
        checkpoints: &mut Vec<StructureCheckpoint>,
    ) -> Result<(), D::Error> {
        if checkpoints.get(self.index).is_some_and(StructureCheckpoint::is_complete) {
            return Ok(());
        }
        self.begin("reading", 0.0)?;
        let started = Instant::now();
        let (_, annotated) = &self.structures[self.index];
        let subjects = Subjects::new(self.data, annotated);
        if checkpoints.len() == self.index {
            checkpoints.push(self.start(&subjects, checkpoints));
        }
        let (working, prior) =
            (checkpoints[self.index].working.clone(), checkpoints[self.index].prior.clone());
        let cases = self.cases(&subjects, &working)?;
        let (config, seeds) = (self.config, self.seeds.in_plane(prior.flat));

        let position = self.get_or_train(
            checkpoints,
            ("position", 0.15),
            |checkpoint| &mut checkpoint.position,
            || {
                let channel = match (self.whole, &config.position.channel) {
                    (Some(whole), _) => whole.position.spec.channel,
                    (None, Some(name)) => {
                        let is_named = |channel: &ChannelSpec| channel.name == *name;
                        working.channels.iter().position(is_named).unwrap_or(0)
                    }
                    (None, None) => {
                        best_channel(self.backend, &cases, &working, &prior, config, seeds)?
                    }
                };
                PositionStage::train(
                    self.backend,
                    &cases,
                    (&working, channel),
                    &prior,
                    &config.position,
                    &config.classifier,
                    seeds,
                )
            },
        )?;
        self.begin("detecting positions in all cases", 0.4)?;
        let layout = ImageLayout { channels: working.volumes(), ..position.spec.layout(&working) };
        let shown: Vec<usize> = (0..cases.len()).filter(|&n| cases[n].shows_image()).collect();
        let upload = |n: usize| Ok(self.backend.upload(cases[n].pyramid.volumes(), &layout)?);
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
                position.detect(self.backend, image, (level, None), prior.scale_mm)
            })
            .collect::<Result<_, _>>()?;
        let nearest = cases.iter().zip(&image_of).map(|(case, &image)| {
            candidates[image]
                .iter()
                .map(|c| c.point.distance_mm(&case.pose.center))
                .fold(f64::INFINITY, f64::min)
        });
        self.figure("position", started, "nearest candidate, mm", nearest.collect());

        let input = StageInput {
            backend: self.backend,
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
            checkpoints,
            ("orientation", 0.45),
            |checkpoint| &mut checkpoint.orientation,
            || OrientationStage::train(&input, &by_case),
        )?;
        self.begin("detecting modes in all cases", 0.6)?;
        let modes: Vec<Vec<Pose>> = uploaded
            .iter()
            .zip(&candidates)
            .zip(&shown)
            .map(|((image, found), &n)| match position.spec.most_instances {
                None => orientation.detect(self.backend, image, found, &prior, cases[n].middle),
                Some(_) => orientation.detect_each(self.backend, image, found, &prior),
            })
            .collect::<Result<_, _>>()?;
        let modes = instances_of_images(&cases, &image_of, &modes, |pose| pose.center);
        let turned = nearest_pose(&cases, &modes, |e| e.angle_deg);
        self.figure("orientation", started, "nearest mode, degrees", turned);

        let started = Instant::now();
        let trainer = RefinementTrainer::new(&input);
        // Look-alikes share a cascade, which has learned from all of them.
        let shared = match config.refinement.kind {
            RefinementKind::Regression => {
                checkpoints[self.look_alikes[self.index]].refinement.clone()
            }
            RefinementKind::Classification => None,
        };
        let refinement = self.get_or_train(
            checkpoints,
            ("refinement", 0.65),
            |checkpoint| &mut checkpoint.refinement,
            || shared.map_or_else(|| trainer.train(&input), Ok),
        )?;
        let converged: Vec<Vec<Pose>> = images
            .iter()
            .zip(&modes)
            .map(|(image, modes)| refinement.apply(self.backend, image, modes))
            .collect::<Result<_, _>>()?;
        let left = nearest_pose(&cases, &converged, |e| e.center_mm);
        self.figure("refinement", started, "nearest converged pose, mm", left);

        let started = Instant::now();
        let held_out = HeldOutOnce::new(&input, &trainer, &modes);
        let verification = self.verification(checkpoints, &held_out, &refinement)?;
        let mut errors = Vec::new();
        for ((image, poses), case) in images.iter().zip(&converged).zip(&cases) {
            let best = verification.best(&orientation, self.backend, image, poses, &prior)?;
            errors.extend(best.map(|(pose, _)| BoxError::new(&pose, &case.pose).center_mm));
        }
        self.figure("verification", started, "chosen pose, mm", errors);
        self.landmarks(checkpoints, &held_out, &verification)
    }

    /// The structure before any stage is trained: how images are prepared, and what its poses say.
    fn start(
        &self,
        subjects: &Subjects,
        checkpoints: &[StructureCheckpoint],
    ) -> StructureCheckpoint {
        let (name, annotated) = &self.structures[self.index];
        let poses: Vec<Pose> = annotated.iter().map(|&(_, pose)| pose).collect();
        let middles: Vec<PointLps> =
            annotated.iter().map(|&(case, _)| self.data.list().geometry(case).center()).collect();
        let prior = Prior::new(&poses, &middles, self.config.orientation.orientations)
            .of_slices(is_flat(self.data));
        let working = match (self.whole, checkpoints.get(self.alike_in_size[self.index])) {
            (Some(whole), _) => whole.working.clone(),
            (None, Some(first)) => first.working.clone(),
            (None, None) => working_spec(self.data, self.config, &prior, self.intensities),
        };
        let landmarks = self.data.landmarks(name).into_iter().map(|(name, _)| name).collect();
        let row = match self.data.is_many(name) {
            true => Row::train(&poses_of_images(annotated), prior.mean_size_mm),
            false => None,
        };
        let cases = subjects.originals();
        StructureCheckpoint {
            row,
            ..StructureCheckpoint::new(name, cases, working, prior, landmarks)
        }
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
        let interrupted = || self.observer.interrupted();
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
        checkpoints: &mut [StructureCheckpoint],
        held_out: &HeldOutOnce<'_, B>,
        refinement: &Refinement,
    ) -> Result<VerificationStage, D::Error> {
        // The refinement's error weighs neighbours; a model of one structure needs none.
        let shared = checkpoints[self.look_alikes[self.index]]
            .verification
            .as_ref()
            .and_then(|first| first.spec.error);
        let alone = self.structures.len() == 1;
        self.get_or_train(
            checkpoints,
            ("verification", 0.7),
            |checkpoint| &mut checkpoint.verification,
            || {
                let input = held_out.input;
                let refine =
                    |image: &B::Image, poses: &[Pose]| refinement.apply(self.backend, image, poses);
                if let Some(whole) = self.whole {
                    let settled = &whole.verification.spec;
                    return VerificationStage::train_as(input, held_out.modes, refine, settled);
                }
                let (mut shrinkage, mut error) = (None, shared);
                // With many cases shrinkage is not measured, and look-alikes share the error.
                if shared.is_none() && (!alone || HeldOutPass::tells_shrinkage(input)) {
                    let measured = held_out.get()?;
                    shrinkage = measured.and_then(|measured| measured.shrinkage(input));
                    error = measured.filter(|_| !alone).map(HeldOutPass::pose_error);
                }
                VerificationStage::train(input, held_out.modes, refine, shrinkage, error)
            },
        )
    }

    /// The stage that the checkpoint has, or the one that `train` gives, which the checkpoint then
    /// keeps. `begins` is the name of the stage and the share of this structure's training that
    /// lies behind it.
    pub(super) fn get_or_train<T: Clone>(
        &self,
        checkpoints: &mut [StructureCheckpoint],
        begins: (&str, f64),
        stage: impl Fn(&mut StructureCheckpoint) -> &mut Option<T>,
        train: impl FnOnce() -> Result<T, DetectError>,
    ) -> Result<T, D::Error> {
        if let Some(trained) = stage(&mut checkpoints[self.index]) {
            return Ok(trained.clone());
        }
        self.begin(begins.0, begins.1)?;
        let trained = train()?;
        self.pyramids.check()?;
        *stage(&mut checkpoints[self.index]) = Some(trained.clone());
        self.keep(checkpoints)?;
        Ok(trained)
    }

    pub(super) fn begin(&self, stage: &str, done: f64) -> Result<(), DetectError> {
        if self.observer.interrupted() {
            return Err(DetectError::Interrupted);
        }
        let share = (self.index as f64 + done) / self.structures.len() as f64;
        self.observer.stage(&self.structures[self.index].0, stage, share);
        Ok(())
    }

    /// Hands a checkpoint to the observer.
    pub(super) fn keep(&self, checkpoints: &[StructureCheckpoint]) -> Result<(), D::Error> {
        let all = [self.kept.before, checkpoints].concat();
        let bytes = checkpoint_bytes(self.kept.provenance, &all)?;
        Ok(self.observer.checkpoint(&bytes)?)
    }

    pub(super) fn figure(&mut self, stage: &str, started: Instant, what: &str, values: Vec<f64>) {
        let stage = format!("{}: {stage}", self.structures[self.index].0);
        self.figures.push(StageFigure::new(stage, started, what, &values));
    }
}

/// The poses of each image.
fn poses_of_images(annotated: &[(usize, Pose)]) -> Vec<Vec<Pose>> {
    let images = annotated.chunk_by(|a, b| a.0 == b.0);
    images.map(|of_image| of_image.iter().map(|&(_, pose)| pose).collect()).collect()
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
