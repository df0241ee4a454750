//! Detections in cases that no stage has seen: every stage, from position to
//! network and landmarks, is trained again without each part of the subjects in turn.

use super::aids::{self, Aids, place_loss};
use super::made_worse::LastStages;
use super::observer::{BEFORE_MASKS, Nested, Observer};
use super::search_order::FoundAlone;
use super::settled::Settled;
use super::{any_stored, train_on};
use crate::DetectError;
use crate::certainty::evidence::LABELS;
use crate::certainty::fitting::{HeldOutBox, HeldOutLandmark, certainties, learned_presences};
use crate::certainty::learned::Certainty;
use crate::certainty::presence::Presence;
use crate::certainty::suspicion::Suspicion;
use crate::config::TrainConfig;
use crate::data::augmentation::Augmented;
use crate::data::each_image::cases_at_a_time;
use crate::data::folds::Folds;
use crate::data::part::Part;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, AnyData, FEWEST_CASES, Subjects, TrainingData};
use crate::detect::STRONG;
use crate::detect::detection::Detection;
use crate::masks;
use crate::masks::held_out::HeldOutPose;
use crate::model::{Model, Provenance, StructureModel};
use crate::refine::refinement::Refinement;
use crate::side_by_side;
use pbt_evaluate::{
    BoxError, Distance, instance_tolerance_mm, is_unknown, landmark_tolerance_mm, loose_axis,
    matched, row_ends, tolerance_mm,
};
use pbt_tree::{Backend, LabelBackend};
use pbt_volume::{PointLps, Pose, Status};
use std::sync::{Mutex, PoisonError};

/// What held-out cases say of a model.
#[derive(Default)]
pub(super) struct HeldOutDetections {
    /// Every structure in every case that has it; empty where there are too few cases to tell.
    boxes: Vec<HeldOutBox>,
    /// What was taken for a structure in cases that are said not to have it.
    without: Vec<HeldOutBox>,
    /// Where each of `boxes`, then of `without`, was found.
    pub(super) poses: Vec<HeldOutPose>,
    /// Where each of them and its landmarks truly are.
    truths: Vec<Truth>,
    /// By structure.
    loose_ends: Vec<bool>,
    /// What helps a structure that is alone.
    pub(super) aids: Aids,
    /// Case by case, what each structure's own detector says.
    pub(super) alone: Vec<(usize, Vec<FoundAlone>)>,
    /// Of stages that make held-out cases worse.
    pub(super) warnings: Vec<String>,
}

/// Large images that are searched at a time, at most: each takes memory of the device, too.
const LARGE_AT_A_TIME: usize = 4;

/// Trains without each part of the subjects, finds them there, and compares. `whole` was trained on
/// all cases; what its trainings settled (grids, borders, shares of shrinkage), and what looks alike, holds
/// here, too.
pub(super) fn held_out_detections<B: Backend + LabelBackend, D: TrainingData + ?Sized>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    (whole, settled): (&Model, Settled<'_>),
    observer: &dyn Observer,
) -> Result<HeldOutDetections, D::Error> {
    let none = HeldOutDetections::default();
    if !whole.provenance.config.certainty.measured {
        return Ok(none);
    }
    let structures = data.structures();
    let cases: Vec<(usize, ())> = (0..data.list().len()).map(|case| (case, ())).collect();
    let subjects = Subjects::new(data, &cases);
    let folds = Folds::new(subjects.count());
    let parts = folds.count();
    let of_part = |part: usize, held_out: bool| -> Vec<usize> {
        let is_held_out = |case: usize| folds.holds_out(part, subjects.subject(case));
        (0..cases.len()).filter(|&case| is_held_out(case) == held_out).collect()
    };
    if parts < 2 {
        return Ok(none);
    }
    let rare = too_rare(data, (0..parts).map(|part| of_part(part, false)));
    if !rare.is_empty() {
        // Where all are rare, nobody expects scores.
        let is_told = structures.iter().any(|(name, _)| !rare.contains(name));
        let warnings = is_told.then(|| {
            format!(
                "{}: annotated in too few cases to hold some out: scores and radii are measured for no \
                 structure (annotate more, or train the others with --structure)",
                rare.join(", ")
            )
        });
        return Ok(HeldOutDetections { warnings: warnings.into_iter().collect(), ..none });
    }
    let loose_ends: Vec<bool> = structures
        .iter()
        .map(|(name, annotated)| {
            let poses: Vec<Pose> = annotated.iter().map(|a| a.1).collect();
            !data.is_many(name) && loose_axis(&poses).is_some()
        })
        .collect();
    let absent: Vec<Vec<usize>> = structures.iter().map(|(name, _)| data.absent(name)).collect();
    let (mut found, mut without, mut without_poses) = (Vec::new(), Vec::new(), Vec::new());
    let (mut poses, mut truths, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    let mut last_stages: Vec<LastStages> =
        structures.iter().map(|_| LastStages::default()).collect();
    let until =
        if masks::training::is_wanted(data, &whole.provenance.config) { BEFORE_MASKS } else { 1.0 };
    let done = Mutex::new(vec![0.0; parts]);
    let any_large = any_stored(data, whole.structures.iter().map(|s| &s.working));
    let threads = rayon::current_num_threads();
    let at_a_time = |n: usize| if any_large { 1 } else { side_by_side::at_a_time(n, threads) };
    let parts_at_a_time = at_a_time(parts);
    // Of all parts together about as many as of one training alone.
    let structures_at_a_time = at_a_time(structures.len()).div_ceil(parts_at_a_time);
    let models = side_by_side::each(parts, parts_at_a_time, |part| {
        let rest: &AnyData<'_, D::Error> = &Part::new(data, of_part(part, false));
        let nested = Nested { outer: observer, part, done: &done, until };
        let watched = (&nested as &dyn Observer, structures_at_a_time);
        let model = train_part(backend, (rest, pyramids), (whole, settled), watched)?;
        done.lock().unwrap_or_else(PoisonError::into_inner)[part] = 1.0;
        Ok::<Model, D::Error>(model)
    })?;
    let answers = |part: usize, model: &Model| {
        let cases = of_part(part, true);
        let at_a_time = match any_large {
            true => cases_at_a_time(data, &cases, threads.min(LARGE_AT_A_TIME)),
            false => side_by_side::at_a_time(cases.len(), threads),
        };
        let answers = side_by_side::each(cases.len(), at_a_time, |n| {
            if observer.interrupted() {
                return Err(DetectError::Interrupted.into());
            }
            let channels = data.channels(cases[n])?;
            let detections = match model.of_instances() {
                Some(structure) => structure.every_instance(backend, &channels)?,
                None => model.detect(backend, &channels)?.detections,
            };
            Ok::<_, D::Error>((detections, channels[0].geometry().spacing_mm()))
        })?;
        Ok::<Vec<Answer>, D::Error>(cases.into_iter().zip(answers).collect())
    };
    let pass = |models: &[Model]| {
        let all = models.iter().enumerate().map(|(part, model)| answers(part, model));
        Ok(all.collect::<Result<Vec<_>, D::Error>>()?.concat())
    };
    let learn = |models: Vec<Model>| {
        let of = |(part, model): (usize, Model)| {
            let rest: &AnyData<'_, D::Error> = &Part::new(data, of_part(part, false));
            model.with_surroundings(backend, (rest, pyramids))
        };
        models.into_iter().enumerate().map(of).collect()
    };
    let loss = |found: &Vec<Answer>| {
        let loss = |(case, (detections, _)): &Answer| {
            let truth = structures[0].1.iter().find(|(c, _)| c == case)?;
            Some(place_loss(&detections[0], &truth.1))
        };
        let losses: Vec<f64> = found.iter().filter_map(loss).collect();
        losses.iter().sum::<f64>() / losses.len().max(1) as f64
    };
    let (aids, answers) = aids::settle(models, pass, learn, loss)?;
    for (case, (detections, spacing_mm)) in answers {
        if whole.of_instances().is_some() {
            let (_, annotated) = &structures[0];
            let truths: Vec<Pose> = annotated.iter().filter(|a| a.0 == case).map(|a| a.1).collect();
            if truths.is_empty() && !absent[0].contains(&case) {
                continue;
            }
            let subject = subjects.subject(case);
            found.extend(judge_instances(&detections, &truths, subject, &mut last_stages[0]));
            continue;
        }
        let mut found_alone = Vec::new();
        for (s, (name, annotated)) in structures.iter().enumerate() {
            let Some(&(_, truth)) = annotated.iter().find(|(c, _)| *c == case) else {
                if absent[s].contains(&case) {
                    without_poses.push(HeldOutPose::new((s, case), &detections[s]));
                    without.push(of_nothing(s, subjects.subject(case), &detections[s]));
                }
                continue;
            };
            let points = data.landmarks(name).into_iter().map(|(landmark, points)| {
                match points.iter().find(|(c, _)| *c == case) {
                    Some(&(_, point)) => Annotation::At(point),
                    None if data.absent(&landmark).contains(&case) => Annotation::Missing,
                    None => Annotation::None,
                }
            });
            let truth = Truth {
                structure: s,
                subject: subjects.subject(case),
                pose: truth,
                spacing_mm,
                tolerance_mm: tolerance_mm(truth.size_mm, spacing_mm),
                points: points.collect(),
                points_tolerance_mm: landmark_tolerance_mm(name, truth.size_mm, spacing_mm),
            };
            last_stages[s].add(&detections[s], &truth.pose);
            poses.push(HeldOutPose::new((s, case), &detections[s]));
            found.push(judge(&detections[s], &truth, loose_ends[s]));
            let detector = (s, &whole.structures[s]);
            found_alone.push(FoundAlone::new(detector, &detections[s], truth.pose.center));
            truths.push(truth);
        }
        alone.push((case, found_alone));
    }
    let warnings = structures.iter().zip(&last_stages);
    let warnings = warnings
        .flat_map(|((name, _), stages)| {
            stages.warnings(name, structures.len() == 1, data.list().unit)
        })
        .collect();
    let boxes = found;
    poses.extend(without_poses);
    let found_from = whole.provenance.config.verification.doubtful_below;
    let presences = learned_presences((&boxes, &without), structures.len(), found_from);
    for (pose, b) in poses.iter_mut().zip(boxes.iter().chain(&without)) {
        if let Some(presence) = &presences[pose.structure] {
            let there = presence.probability(&b.evidence);
            pose.absent = there < Presence::absent_below(found_from);
        }
    }
    Ok(HeldOutDetections { boxes, without, poses, truths, loose_ends, aids, alone, warnings })
}

impl HeldOutDetections {
    /// Takes boxes and landmarks as labels move them: what is known of their errors is then of these, and
    /// the labels are evidence.
    pub(super) fn moved(&mut self, moved: &[HeldOutPose]) {
        let all = self.boxes.iter_mut().chain(&mut self.without).zip(&mut self.poses);
        let truths = self.truths.iter().map(Some).chain(std::iter::repeat(None));
        for ((found, pose), truth) in all.zip(truths) {
            let same = |m: &&HeldOutPose| (m.structure, m.case) == (pose.structure, pose.case);
            let Some(now) = moved.iter().find(same).filter(|_| !pose.absent) else { continue };
            *pose = now.clone();
            found.evidence[LABELS] = now.labels;
            found.visible = now.visible;
            if now.contradicted {
                (found.out, found.unsure) = (true, true);
            }
            let Some(truth) = truth else { continue };
            let error = BoxError::new(&now.pose, &truth.pose);
            let loose_ends = self.loose_ends[found.structure];
            found.right = Distance::Box(error).is_within(truth.tolerance_mm, loose_ends);
            (found.center_mm, found.corner_mm) = (error.center_mm, error.corner_mm);
            for landmark in &mut found.landmarks {
                let n = landmark.landmark;
                if let (Some(point), Some(Annotation::At(at))) =
                    (now.landmarks.get(n), truth.points.get(n))
                {
                    landmark.error_mm = point.distance_mm(at);
                    landmark.right = landmark.error_mm <= truth.points_tolerance_mm;
                }
            }
        }
    }

    /// What the model `whole` knows of its own certainty, and the annotations under suspicion.
    pub(super) fn certainty<D: TrainingData + ?Sized>(
        &self,
        data: &D,
        whole: &Model,
    ) -> (Vec<Certainty>, Vec<Suspicion>) {
        if self.boxes.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let landmarks: Vec<usize> = whole.structures.iter().map(|s| s.landmarks().len()).collect();
        let found_from = whole.provenance.config.verification.doubtful_below;
        let boxes = (&self.boxes[..], &self.without[..]);
        let certainty = certainties(boxes, &landmarks, &self.loose_ends, found_from);
        let sure_from: Vec<f64> =
            (0..certainty.len()).map(|s| self.sure_from(s, &certainty[s], found_from)).collect();
        let suspicion = |((b, found), truth): ((&HeldOutBox, &HeldOutPose), &Truth)| {
            let (structure, certainty) = (&whole.structures[b.structure], &certainty[b.structure]);
            let loose_ends = self.loose_ends[b.structure];
            let off_mm =
                structure.far_mm(&found.pose, &truth.pose, truth.spacing_mm, loose_ends)?;
            let score = certainty.score(&b.evidence);
            let is_sure = score >= sure_from[b.structure];
            (!certainty.is_out(b, found_from) && is_sure).then(|| Suspicion {
                case: data.list().id(found.case).to_owned(),
                structure: structure.name.clone(),
                found: found.pose,
                off_mm,
                unit: data.list().unit,
                score,
            })
        };
        let all = self.boxes.iter().zip(&self.poses).zip(&self.truths);
        let suspicions = all.filter_map(suspicion).collect();
        (certainty, suspicions)
    }

    /// The score from which a detection of a structure is sure enough to doubt its annotation: where it
    /// would be found; or, where hardly anything is found although most are right, as sure as most of
    /// those. Several wrong annotations make all scores so low.
    fn sure_from(&self, structure: usize, certainty: &Certainty, found_from: f64) -> f64 {
        let own: Vec<&HeldOutBox> =
            self.boxes.iter().filter(|b| b.structure == structure).collect();
        let right = own.iter().filter(|b| b.right);
        let mut scores: Vec<f64> = right.map(|b| certainty.score(&b.evidence)).collect();
        let are_most_right = !scores.is_empty() && 3 * scores.len() >= 2 * own.len();
        if !are_most_right || !certainty.held_out.is_rarely_found() {
            return found_from;
        }
        scores.sort_by(f64::total_cmp);
        found_from.min(scores[scores.len() / 4])
    }
}

/// A case with what was found in it, and the spacing of its image.
type Answer = (usize, (Vec<Detection>, [f64; 3]));

/// The structures that cannot be trained, they or their landmarks, on the cases of some part.
fn too_rare<D: TrainingData + ?Sized>(
    data: &D,
    parts: impl Iterator<Item = Vec<usize>>,
) -> Vec<String> {
    let parts: Vec<Vec<usize>> = parts.collect();
    let enough = |cases: &[usize]| {
        let kept = |part: &Vec<usize>| cases.iter().filter(|case| part.contains(case)).count();
        parts.iter().all(|part| kept(part) >= FEWEST_CASES)
    };
    let is_enough = |(name, annotated): &Annotated| {
        let boxed: Vec<usize> = annotated.iter().map(|a| a.0).collect();
        enough(&boxed)
            && data.landmarks(name).iter().all(|(_, points)| {
                let cases: Vec<usize> =
                    points.iter().map(|p| p.0).filter(|case| boxed.contains(case)).collect();
                enough(&cases)
            })
    };
    let rare = data.structures().into_iter().filter(|structure| !is_enough(structure));
    rare.map(|(name, _)| name).collect()
}

fn train_part<B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (part, pyramids): (&D, &Pyramids),
    (whole, settled): (&Model, Settled<'_>),
    watched: (&dyn Observer, usize),
) -> Result<Model, D::Error> {
    let Provenance { copies, seed, config, .. } = &whole.provenance;
    let provenance =
        super::provenance::provenance(part, &part.structures(), config, *copies, *seed);
    let intensities = whole.structures[0].working.intensities();
    let settled = Settled { intensities: &intensities, whole: Some(whole), ..settled };
    let none = (Vec::new(), None);
    let trained = match copies {
        0 => {
            let images = (part, pyramids);
            train_on(backend, images, settled, provenance, none, watched)?
        }
        _ => {
            let copied = Augmented::new(part, *copies, &config.augmentation, *seed)?;
            let copied: &AnyData<'_, D::Error> = &copied;
            let images = (copied, pyramids);
            train_on(backend, images, settled, provenance, none, watched)?
        }
    };
    Ok(trained.model)
}

/// The configuration of a structure without choices that the training on all cases has made.
pub(super) fn settled(config: &TrainConfig, whole: &StructureModel) -> TrainConfig {
    let mut config = config.for_held_out();
    if let Refinement::Regression(cascade) = &whole.refinement
        && let Some(regressor) = cascade.regressors.first()
    {
        config.refinement.border = Some(regressor.spec.border);
        config.refinement.ridge = Some(regressor.spec.ridge);
    }
    if let Some(stage) = &whole.landmarks {
        config.landmarks.halvings = Some(stage.close_up.as_ref().map_or(0, |c| c.halvings));
    }
    config
}

/// Where a structure and its landmarks truly are in a case of a subject.
struct Truth {
    structure: usize,
    subject: usize,
    pose: Pose,
    spacing_mm: [f64; 3],
    tolerance_mm: f64,
    points: Vec<Annotation>,
    points_tolerance_mm: f64,
}

/// What a case says of a landmark.
#[derive(Clone, Copy)]
enum Annotation {
    At(PointLps),
    /// It is not there.
    Missing,
    /// Nothing.
    None,
}

/// Detections of a structure that occurs several times in a case of a subject; without those of which
/// nobody knows.
fn judge_instances(
    detections: &[Detection],
    truths: &[Pose],
    subject: usize,
    last_stages: &mut LastStages,
) -> Vec<HeldOutBox> {
    let poses: Vec<Pose> = detections.iter().map(|detection| detection.pose).collect();
    let ends = row_ends(truths);
    let mut judged = Vec::new();
    for (detection, of) in detections.iter().zip(matched(truths, &poses, instance_tolerance_mm)) {
        if of.is_none() && is_unknown(&ends, detection.pose.center) {
            continue;
        }
        let error = of.map(|n| BoxError::new(&detection.pose, &truths[n]));
        if let Some(n) = of {
            last_stages.add(detection, &truths[n]);
        }
        judged.push(HeldOutBox {
            structure: 0,
            subject,
            evidence: detection.trace.evidence,
            out: false,
            unsure: false,
            right: of.is_some(),
            center_mm: error.map_or(f64::INFINITY, |error| error.center_mm),
            corner_mm: error.map_or(f64::INFINITY, |error| error.corner_mm),
            // What is no instance says nothing of how much of one is in view.
            visible: if of.is_some() { detection.visible } else { 1.0 },
            landmarks: Vec::new(),
            instance: true,
        });
    }
    judged
}

/// What was taken for a structure in a case of a subject that is said not to have it.
fn of_nothing(structure: usize, subject: usize, detection: &Detection) -> HeldOutBox {
    HeldOutBox {
        structure,
        subject,
        evidence: detection.trace.evidence,
        out: detection.trace.at_most.is_some(),
        unsure: false,
        right: false,
        center_mm: f64::INFINITY,
        corner_mm: f64::INFINITY,
        visible: detection.visible,
        landmarks: Vec::new(),
        instance: false,
    }
}

fn judge(detection: &Detection, truth: &Truth, loose_ends: bool) -> HeldOutBox {
    let error = BoxError::new(&detection.pose, &truth.pose);
    let landmark =
        |(landmark, (found, annotated)): (usize, (&crate::LandmarkDetection, &Annotation))| {
            let error_mm = match annotated {
                Annotation::At(at) => found.point.distance_mm(at),
                // Whoever says that it lies outside the image is right, whatever the score.
                Annotation::Missing if found.status != Status::Outside => f64::INFINITY,
                Annotation::Missing | Annotation::None => return None,
            };
            let right = error_mm <= truth.points_tolerance_mm;
            let missing = matches!(annotated, Annotation::Missing);
            Some(HeldOutLandmark { landmark, place: found.place, right, error_mm, missing })
        };
    let is_weak = detection.trace.lead < STRONG && !loose_ends;
    HeldOutBox {
        structure: truth.structure,
        subject: truth.subject,
        evidence: detection.trace.evidence,
        out: match detection.trace.at_most {
            // As in detection: what has loose ends may lie anywhere along its length.
            Some(Status::Doubtful) => !loose_ends,
            at_most => at_most.is_some(),
        },
        unsure: match detection.trace.at_most {
            Some(Status::Doubtful) => !loose_ends,
            Some(_) => is_weak,
            None => false,
        },
        right: Distance::Box(error).is_within(truth.tolerance_mm, loose_ends),
        center_mm: error.center_mm,
        corner_mm: error.corner_mm,
        visible: detection.visible,
        landmarks: detection
            .landmarks
            .iter()
            .zip(&truth.points)
            .enumerate()
            .filter_map(landmark)
            .collect(),
        instance: false,
    }
}
