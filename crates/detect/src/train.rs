//! Training: stage after stage, each on what the stages before it find in the training cases.

use crate::DetectError;
use crate::augmentation::Augmented;
use crate::case::{TrainingCase, WorkingSpec};
use crate::classification::Rounds;
use crate::close_up::CloseUp;
use crate::config::{FinishConfig, FinishKind, TrainConfig};
use crate::detector::check_window;
use crate::finish::Finish;
use crate::finish_error::FinishError;
use crate::landmark_training::{self, held_out_frames};
use crate::landmarks::{LandmarkStage, mean_size_mm};
use crate::level_training;
use crate::mirror_choice::MirrorChoice;
use crate::model::{Draft, Model, Provenance};
use crate::network::Network;
use crate::orientation::OrientationStage;
use crate::position::PositionStage;
use crate::prior::Prior;
use crate::regression::{self, Cascade};
use crate::stage_input::StageInput;
use crate::trust::Trust;
use crate::verification::VerificationStage;
use crate::working::{smallest_spacing_mm, working_spec};
use pbt_evaluate::BoxError;
use pbt_tree::{Backend, ImageLayout};
use pbt_volume::{IntensityPolicy, PointLps, Pose, Volume};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

/// The data of a training, as the shells read them.
pub trait TrainingData: Sync {
    /// What can go wrong on reading.
    type Error: Send + From<DetectError>;

    /// Name of the data set.
    fn name(&self) -> &str;

    /// `CT`, `MR`, `US` or another word.
    fn modality(&self) -> &str;

    /// Names of the cases.
    fn cases(&self) -> &[String];

    /// Hash of a case's image file.
    fn image_sha256(&self, case: usize) -> &str;

    /// Grid of a case's image.
    fn geometry(&self, case: usize) -> &pbt_volume::Geometry;

    /// Reads the image of a case.
    ///
    /// # Errors
    /// Whatever the reader says.
    fn image(&self, case: usize) -> Result<Volume<f32>, Self::Error>;

    /// The structures to train, each with the cases that have it.
    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)>;

    /// The landmarks to train in the frame of a structure, each with the cases that have it.
    fn landmarks(&self, _structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        Vec::new()
    }

    /// The mirror twin of a structure or landmark, where the data name one.
    fn partner(&self, _structure: &str) -> Option<String> {
        None
    }

    /// Who was scanned: cases of one subject are never divided. `None`: a subject of its own.
    fn subject(&self, _case: usize) -> Option<&str> {
        None
    }

    /// The case that a case is a copy of, or itself.
    fn origin(&self, case: usize) -> usize {
        case
    }
}

/// Watches a training and may end it.
pub trait Observer: Sync {
    /// A stage begins; `done` is the share of the whole training that lies behind, 0 to 1.
    fn stage(&self, structure: &str, stage: &str, done: f64);

    /// Whether to stop at the next opportunity.
    fn interrupted(&self) -> bool;

    /// A stage is done: the draft as bytes of a model file, to resume from.
    ///
    /// # Errors
    /// What kept the bytes from being written; it ends the training.
    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError>;
}

/// What a stage took and reached on the training cases.
#[derive(Debug, Clone, serde::Serialize)]
pub struct StageFigure {
    /// Structure and stage.
    pub stage: String,
    /// Seconds.
    pub seconds: f64,
    /// What the figure is.
    pub what: String,
    /// Its mean over the training cases.
    pub mean: f64,
    /// Its largest value.
    pub max: f64,
}

/// A finished training.
#[derive(Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// What each stage took and reached.
    pub figures: Vec<StageFigure>,
    /// Annotations that were left out since the others contradict them, each with its case.
    pub warnings: Vec<String>,
}

/// Fewest annotated cases of a structure.
pub const FEWEST_CASES: usize = 2;

/// Trains every structure of the data.
///
/// `resume` is a checkpoint of an earlier run with the same data, configuration and seed: its
/// finished stages are taken over.
///
/// # Errors
/// [`DetectError`] for data or configuration that cannot be used, and whatever reading an image
/// gives.
pub fn train<B: Backend, D: TrainingData>(
    backend: &B,
    data: &D,
    config: &TrainConfig,
    seed: u64,
    resume: Option<&[u8]>,
    observer: &dyn Observer,
) -> Result<Trained, D::Error> {
    config.check()?;
    let structures = data.structures();
    if structures.is_empty() {
        return Err(DetectError::training("structures", "there is no structure to train").into());
    }
    for (name, cases) in &structures {
        if cases.len() < FEWEST_CASES {
            let what = format!(
                "{} annotated training case(s); at least {FEWEST_CASES} are needed",
                cases.len()
            );
            return Err(DetectError::training(format!("structures: {name}"), what).into());
        }
        for (landmark, points) in data.landmarks(name) {
            let both =
                points.iter().filter(|(case, _)| cases.iter().any(|(c, _)| c == case)).count();
            if both < FEWEST_CASES {
                let what = format!(
                    "{both} training case(s) with this landmark and its box {name}; at least {FEWEST_CASES} are needed"
                );
                return Err(DetectError::training(format!("structures: {landmark}"), what).into());
            }
        }
    }
    let mut figures = Vec::new();
    let copies = match config.augmentation.copies {
        Some(copies) => copies,
        None => {
            observer.stage(&structures[0].0, "trying mirrored copies", 0.0);
            let choice = MirrorChoice::new(backend, data, config, seed)?;
            figures.extend(choice.figure);
            usize::from(choice.helps)
        }
    };
    let provenance = Provenance {
        pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
        dataset: data.name().to_owned(),
        modality: data.modality().to_owned(),
        training_sha256: training_hash(data, &structures),
        cases: data.cases().len(),
        copies,
        seed,
        config: config.clone(),
    };
    let drafts = match resume {
        Some(bytes) => crate::file::read_drafts(bytes, &provenance)?,
        None => Vec::new(),
    };
    let mut trained = match copies {
        0 => train_on(backend, data, provenance, drafts, observer)?,
        _ => train_on(
            backend,
            &Augmented::new(data, copies, &config.augmentation, seed)?,
            provenance,
            drafts,
            observer,
        )?,
    };
    figures.append(&mut trained.figures);
    Ok(Trained { figures, ..trained })
}

fn train_on<B: Backend, D: TrainingData>(
    backend: &B,
    data: &D,
    provenance: Provenance,
    mut drafts: Vec<Draft>,
    observer: &dyn Observer,
) -> Result<Trained, D::Error> {
    let (config, seed, structures) = (&provenance.config, provenance.seed, data.structures());
    let (mut figures, mut warnings) = (Vec::new(), Vec::new());
    for (n, (name, annotated)) in structures.iter().enumerate() {
        let mut trainer = Trainer {
            backend,
            data,
            config,
            seed: seed.wrapping_add((n as u64).wrapping_mul(0x5851_F42D_4C95_7F2D)),
            observer,
            provenance: &provenance,
            name,
            structures: &structures,
            leader: leader(&structures, n),
            share: (n as f64 / structures.len() as f64, 1.0 / structures.len() as f64),
            figures: &mut figures,
            warnings: &mut warnings,
        };
        trainer.run(annotated, &mut drafts, n)?;
    }
    let network = network(data, config, &structures, &drafts);
    let levels = match &network {
        Some(network) if config.network.levels => {
            let leaders: Vec<usize> =
                (0..structures.len()).map(|n| leader(&structures, n)).collect();
            level_training::train(
                backend,
                data,
                network,
                &structures,
                &leaders,
                &drafts,
                seed ^ 0x60,
            )?
        }
        _ => Vec::new(),
    };
    let structures = drafts.into_iter().filter_map(Draft::complete).collect();
    Ok(Trained { model: Model { provenance, structures, network, levels }, figures, warnings })
}

/// What the structures say about each other.
fn network<D: TrainingData>(
    data: &D,
    config: &TrainConfig,
    structures: &[(String, Vec<(usize, Pose)>)],
    drafts: &[Draft],
) -> Option<Network> {
    let cases = 0..data.cases().len();
    let poses: Vec<Vec<Option<Pose>>> = structures
        .iter()
        .map(|(_, annotated)| {
            cases
                .clone()
                .map(|case| annotated.iter().find(|(c, _)| *c == case).map(|&(_, pose)| pose))
                .collect()
        })
        .collect();
    let middles: Vec<PointLps> = cases.map(|case| data.geometry(case).center()).collect();
    let priors: Vec<&Prior> = drafts.iter().map(|d| &d.prior).collect();
    Network::train(&poses, &middles, &priors, config.network.places)
}

/// Name of a structure, and the cases that have it with its pose.
pub(crate) type Annotated = (String, Vec<(usize, Pose)>);

/// By annotated case, the number of the case that it is a copy of among those that have copies or
/// are none.
pub(crate) fn groups<D: TrainingData, T>(data: &D, annotated: &[(usize, T)]) -> Vec<usize> {
    let origins: BTreeSet<usize> = annotated.iter().map(|&(case, _)| data.origin(case)).collect();
    let numbers: BTreeMap<usize, usize> =
        origins.into_iter().enumerate().map(|(n, origin)| (origin, n)).collect();
    annotated.iter().map(|&(case, _)| numbers[&data.origin(case)]).collect()
}

/// Mean edge lengths of look-alikes differ by less than this, |ln|.
const ALIKE: f64 = 0.3;

/// Place of the first structure whose mean edge lengths are about those of structure `n`:
/// vertebrae, ribs, teeth.
fn leader(structures: &[Annotated], n: usize) -> usize {
    let mean = |m: usize| -> [f64; 3] {
        let poses = &structures[m].1;
        std::array::from_fn(|a| {
            poses.iter().map(|(_, p)| libm::log(p.size_mm[a])).sum::<f64>() / poses.len() as f64
        })
    };
    let own = mean(n);
    let alike = |m: usize| mean(m).iter().zip(&own).all(|(a, b)| (a - b).abs() < ALIKE);
    // A leader leads itself, so that groups do not chain.
    (0..n).find(|&m| alike(m) && leader(structures, m) == m).unwrap_or(n)
}

/// The poses of other structures of a case that look like structure `n`.
pub(crate) fn look_alikes(structures: &[Annotated], n: usize, case: usize) -> Vec<Pose> {
    let first = leader(structures, n);
    let others = (0..structures.len()).filter(|&m| m != n && leader(structures, m) == first);
    others
        .flat_map(|m| structures[m].1.iter().filter(|(c, _)| *c == case).map(|&(_, pose)| pose))
        .collect()
}

struct Trainer<'a, B, D> {
    backend: &'a B,
    data: &'a D,
    config: &'a TrainConfig,
    seed: u64,
    observer: &'a dyn Observer,
    provenance: &'a Provenance,
    name: &'a str,
    structures: &'a [Annotated],
    /// Place of the first structure that this one looks like, or its own.
    leader: usize,
    /// Where this structure's training begins in the whole and how long it is, as shares.
    share: (f64, f64),
    figures: &'a mut Vec<StageFigure>,
    warnings: &'a mut Vec<String>,
}

impl<B: Backend, D: TrainingData> Trainer<'_, B, D> {
    fn run(
        &mut self,
        annotated: &[(usize, Pose)],
        drafts: &mut Vec<Draft>,
        n: usize,
    ) -> Result<(), D::Error> {
        let landmarks = self.landmarks(annotated);
        let groups = groups(self.data, annotated);
        if drafts.get(n).is_some_and(|d| {
            d.verification.is_some() && (landmarks.is_empty() || d.landmarks.is_some())
        }) {
            return Ok(());
        }
        self.begin("reading", 0.0)?;
        if drafts.len() == n {
            let poses: Vec<Pose> = annotated.iter().map(|&(_, pose)| pose).collect();
            let middles: Vec<PointLps> =
                annotated.iter().map(|&(case, _)| self.data.geometry(case).center()).collect();
            let prior = Prior::new(&poses, &middles, self.config.orientation.orientations);
            let working = match drafts.get(self.leader) {
                Some(leader) => leader.working.clone(),
                None => working_spec(self.data, self.config, annotated, &prior)?,
            };
            drafts.push(Draft {
                name: self.name.to_owned(),
                cases: groups.iter().max().map_or(0, |last| last + 1),
                working,
                prior,
                position: None,
                orientation: None,
                finish: None,
                verification: None,
                landmark_names: landmarks.iter().map(|(name, _)| name.clone()).collect(),
                frames: None,
                landmarks: None,
            });
        }
        let (working, prior) = (drafts[n].working.clone(), drafts[n].prior.clone());
        let cases = annotated
            .par_iter()
            .zip(&groups)
            .map(|(&(case, pose), &group)| {
                if self.observer.interrupted() {
                    return Err(DetectError::Interrupted.into());
                }
                let id = &self.data.cases()[case];
                let image = self.data.image(case)?;
                let unusable =
                    |e: DetectError| DetectError::training(format!("case {id}"), e.to_string());
                let pyramid = working.pyramid(&image).map_err(unusable)?;
                let level = pyramid.levels()[working.levels - 1].geometry();
                check_window(
                    level.shape(),
                    self.config.position.haar.radius,
                    level.spacing_mm()[0],
                )
                .map_err(unusable)?;
                let look_alikes = look_alikes(self.structures, n, case);
                let copy = self.data.origin(case) != case;
                Ok(TrainingCase { pyramid: Arc::new(pyramid), pose, group, copy, look_alikes })
            })
            .collect::<Result<Vec<_>, D::Error>>()?;
        let (config, seed) = (self.config, self.seed);

        if drafts[n].position.is_none() {
            self.begin("position", 0.15)?;
            let stage = PositionStage::train(
                self.backend,
                &cases,
                &working,
                &prior,
                &config.position,
                &config.classifier,
                seed ^ 0x10,
            )?;
            drafts[n].position = Some(stage);
            self.checkpoint(drafts)?;
        }
        let Some(position) = drafts[n].position.clone() else {
            unreachable!("the stage was trained above")
        };
        self.begin("batch detection of positions", 0.4)?;
        let layout = ImageLayout {
            channels: (0..working.levels).collect(),
            ..position.spec.layout(&working)
        };
        let images: Vec<B::Image> =
            cases.iter().map(|c| self.backend.upload(c.pyramid.levels(), &layout)).collect();
        let images: Vec<&B::Image> = images.iter().collect();
        let started = Instant::now();
        let candidates: Vec<_> = cases
            .iter()
            .zip(&images)
            .map(|(case, image)| {
                position.detect(
                    self.backend,
                    image,
                    case.pyramid.levels()[position.spec.level].geometry(),
                )
            })
            .collect();
        let nearest = cases.iter().zip(&candidates).map(|(case, found)| {
            found
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
            seed,
        };
        if drafts[n].orientation.is_none() {
            self.begin("orientation", 0.45)?;
            let stage = OrientationStage::train(&input, &candidates)?;
            drafts[n].orientation = Some(stage);
            self.checkpoint(drafts)?;
        }
        let Some(orientation) = drafts[n].orientation.clone() else {
            unreachable!("the stage was trained above")
        };
        self.begin("batch detection of modes", 0.6)?;
        let started = Instant::now();
        let modes: Vec<Vec<Pose>> = images
            .iter()
            .zip(&candidates)
            .zip(&cases)
            .map(|((image, found), case)| {
                let middle = case.pyramid.levels()[0].geometry().center();
                orientation.detect(self.backend, image, found, &prior, middle)
            })
            .collect();
        let nearest = |found: &[Vec<Pose>], measure: &dyn Fn(&BoxError) -> f64| -> Vec<f64> {
            let best = |(case, poses): (&TrainingCase, &Vec<Pose>)| {
                poses
                    .iter()
                    .map(|p| measure(&BoxError::new(p, &case.pose)))
                    .fold(f64::INFINITY, f64::min)
            };
            cases.iter().zip(found).map(best).collect()
        };
        self.figure(
            "orientation",
            started,
            "nearest mode, degrees",
            nearest(&modes, &|e| e.angle_deg),
        );

        let normalise = !matches!(working.intensity, IntensityPolicy::Window { .. });
        // Chosen once on all cases, and only where a finish is trained.
        let settled_config = OnceCell::new();
        let train_finish = |part: &StageInput<'_, B>| -> Result<Finish, DetectError> {
            Ok(match config.finish.kind {
                FinishKind::Regression => {
                    let chosen: &FinishConfig =
                        settled_config.get_or_init(|| regression::settled(&input, normalise));
                    let finish = FinishConfig {
                        margin: chosen.margin,
                        ridge: chosen.ridge,
                        ..part.config.finish.clone()
                    };
                    let config = TrainConfig { finish, ..part.config.clone() };
                    Finish::Regression(Cascade::train(
                        &StageInput { config: &config, ..*part },
                        normalise,
                    ))
                }
                FinishKind::Classification => Finish::Classification(Rounds::train(part)?),
            })
        };
        if drafts[n].finish.is_none() {
            self.begin("finish", 0.65)?;
            drafts[n].finish = match (&config.finish.kind, drafts[self.leader].finish.clone()) {
                (FinishKind::Regression, Some(shared)) => Some(shared),
                _ => Some(train_finish(&input)?),
            };
            self.checkpoint(drafts)?;
        }
        let Some(finish) = drafts[n].finish.clone() else {
            unreachable!("the stage was trained above")
        };
        let started = Instant::now();
        let converged: Vec<Vec<Pose>> = images
            .iter()
            .zip(&modes)
            .map(|(image, m)| finish.apply(self.backend, image, m))
            .collect();
        self.figure(
            "finish",
            started,
            "nearest converged pose, mm",
            nearest(&converged, &|e| e.center_mm),
        );

        if drafts[n].verification.is_none() {
            self.begin("trust", 0.7)?;
            let trust = Trust::measure(&input, &modes, train_finish)?;
            // Neighbours are weighed by it; without any it is not needed.
            let shared =
                drafts[self.leader].verification.as_ref().and_then(|leader| leader.spec.error);
            let error = match shared {
                None if self.structures.len() > 1 => FinishError::measure(&input, train_finish)?,
                shared => shared,
            };
            self.begin("verification", 0.8)?;
            drafts[n].verification =
                Some(VerificationStage::train(&input, &modes, &finish, trust, error)?);
            self.checkpoint(drafts)?;
        }
        let Some(verification) = drafts[n].verification.clone() else {
            unreachable!("the stage was trained above")
        };
        let started = Instant::now();
        let chosen: Vec<Option<Pose>> = images
            .iter()
            .zip(&converged)
            .zip(&cases)
            .map(|((image, poses), case)| {
                let expected = prior.expected(case.pyramid.levels()[0].geometry().center());
                Some(verification.best(self.backend, image, poses, expected.as_ref())?.0)
            })
            .collect();
        let errors = chosen
            .iter()
            .zip(&cases)
            .filter_map(|(pose, case)| Some(BoxError::new(pose.as_ref()?, &case.pose).center_mm));
        self.figure("verification", started, "chosen pose, mm", errors.collect());
        if landmarks.is_empty() {
            return Ok(());
        }

        if drafts[n].frames.is_none() {
            self.begin("frames", 0.85)?;
            drafts[n].frames = Some(held_out_frames(&input, &modes, &verification, train_finish)?);
            self.checkpoint(drafts)?;
        }
        let Some(frames) = drafts[n].frames.take() else {
            unreachable!("they were measured above")
        };
        let errors = frames
            .iter()
            .zip(&cases)
            .map(|(frame, case)| BoxError::new(frame, &case.pose).center_mm);
        self.figure("frames", Instant::now(), "held-out pose, mm", errors.collect());
        self.begin("landmarks", 0.93)?;
        let close_up = landmark_training::close_up(
            &input,
            &config.landmarks,
            &landmarks,
            &frames,
            smallest_spacing_mm(self.data, annotated),
        );
        let near_working = close_up.as_ref().map(|close_up| close_up.working(&working));
        let near_images: Vec<B::Image> = match &close_up {
            Some(close_up) => self.close_ups(close_up, &working, annotated, &frames)?,
            None => Vec::new(),
        };
        let near_images: Vec<&B::Image> = near_images.iter().collect();
        let input = match &near_working {
            Some(working) => StageInput { images: &near_images, working, ..input },
            None => input,
        };
        let (stage, contradicted) =
            LandmarkStage::train(&input, &config.landmarks, &landmarks, &frames, normalise);
        let stage = LandmarkStage { close_up, ..stage };
        for c in contradicted.iter().filter(|c| !cases[c.case].copy) {
            self.warnings.push(format!(
                "{}: landmark {}: {:.2} mm from where the other cases expect it; not learned from (check the annotation)",
                self.data.cases()[annotated[c.case].0],
                landmarks[c.landmark].0,
                c.distance * mean_size_mm(&cases[c.case].pose)
            ));
        }
        let started = Instant::now();
        let found: Vec<_> = input
            .images
            .iter()
            .zip(&frames)
            .map(|(image, frame)| stage.detect(self.backend, image, frame))
            .collect();
        let errors = landmarks.iter().enumerate().flat_map(|(l, (_, points))| {
            let found = &found;
            points.iter().map(move |&(case, truth)| found[case][l].point.distance_mm(&truth))
        });
        self.figure("landmarks", started, "landmarks, mm", errors.collect());
        drafts[n].landmarks = Some(stage);
        self.checkpoint(drafts)
    }

    /// Close-ups of the boxes, uploaded. One image is read after the other, since all of them would
    /// need as much memory again.
    fn close_ups(
        &self,
        close_up: &CloseUp,
        working: &WorkingSpec,
        annotated: &[(usize, Pose)],
        frames: &[Pose],
    ) -> Result<Vec<B::Image>, D::Error> {
        let layout = close_up.layout(working);
        let mut images = Vec::with_capacity(frames.len());
        for (&(case, pose), &frame) in annotated.iter().zip(frames) {
            if self.observer.interrupted() {
                return Err(DetectError::Interrupted.into());
            }
            let unusable = |e: DetectError| {
                DetectError::training(format!("case {}", self.data.cases()[case]), e.to_string())
            };
            // Rounds learn from places about the truth, and are judged where detection would begin.
            let pyramid = close_up
                .pyramid(working, &self.data.image(case)?, &[pose, frame])
                .map_err(unusable)?;
            images.push(self.backend.upload(pyramid.levels(), &layout));
        }
        Ok(images)
    }

    /// The landmarks of the structure, by the numbers of its own cases.
    fn landmarks(&self, annotated: &[(usize, Pose)]) -> Vec<landmark_training::Annotated> {
        let place = |case: usize| annotated.iter().position(|&(c, _)| c == case);
        let own = |points: Vec<(usize, PointLps)>| {
            points.into_iter().filter_map(|(case, point)| Some((place(case)?, point))).collect()
        };
        self.data
            .landmarks(self.name)
            .into_iter()
            .map(|(name, points)| (name, own(points)))
            .collect()
    }

    fn begin(&self, stage: &str, done: f64) -> Result<(), DetectError> {
        if self.observer.interrupted() {
            return Err(DetectError::Interrupted);
        }
        self.observer.stage(self.name, stage, self.share.0 + self.share.1 * done);
        Ok(())
    }

    fn checkpoint(&self, drafts: &[Draft]) -> Result<(), D::Error> {
        Ok(self.observer.checkpoint(&crate::file::write_drafts(
            self.provenance,
            drafts,
            None,
            &[],
        )?)?)
    }

    fn figure(&mut self, stage: &str, started: Instant, what: &str, values: Vec<f64>) {
        self.figures.push(StageFigure {
            stage: format!("{}: {stage}", self.name),
            seconds: started.elapsed().as_secs_f64(),
            what: what.to_owned(),
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            max: values.iter().copied().fold(0.0, f64::max),
        });
    }
}

/// Hash over names, images and poses of the training cases.
fn training_hash<D: TrainingData>(data: &D, structures: &[(String, Vec<(usize, Pose)>)]) -> String {
    let mut hash = Sha256::new();
    for (n, case) in data.cases().iter().enumerate() {
        hash.update(format!("case {case} {}\n", data.image_sha256(n)));
    }
    for (name, cases) in structures {
        hash.update(format!("structure {name}\n"));
        for (case, pose) in cases {
            let numbers = pose
                .center
                .0
                .iter()
                .chain(pose.orientation.coords.iter())
                .chain(&pose.size_mm)
                .copied()
                .collect::<Vec<f64>>();
            hash.update(format!("{case} {numbers:?}\n"));
        }
        for (landmark, points) in data.landmarks(name) {
            hash.update(format!("landmark {landmark}\n"));
            for (case, point) in points {
                hash.update(format!("{case} {:?}\n", point.0.coords.as_slice()));
            }
        }
    }
    pbt_volume::hex(&hash.finalize())
}
