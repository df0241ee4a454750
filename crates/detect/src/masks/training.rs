//! Training of masks: frames as detection finds them, two rounds of boosted trees, and what cases
//! that were held out say of them.

mod afar;
mod nearer;

use crate::DetectError;
use crate::config::TrainConfig;
use crate::config::segmentation::SegmentationConfig;
use crate::data::folds::Folds;
use crate::data::training_data::{TrainingData, is_flat};
use crate::masks::decision::{EVEN, WEIGHTS};
use crate::masks::frame::FrameGrid;
use crate::masks::groups::{Group, groups, labels_of};
use crate::masks::held_out::HeldOutPose;
use crate::masks::landmarks::{HeldOutLandmark, LabelledLandmark, Said};
use crate::masks::overlap::{Overlap, mean_dice, mean_dice_of_a_label, overlaps};
use crate::masks::places::{LabelledVoxels, Place};
use crate::masks::prior::{self, Candidate, Priors};
use crate::masks::quality::{HeldOutMask, Quality, signs};
use crate::masks::refit::refit;
use crate::masks::rounds::{MaskRound, Refit, layers, shares};
use crate::masks::samples::{Instance, drawn_voxels};
use crate::masks::stage::MaskStage;
use crate::masks::training_frames::Frame;
use crate::model::Model;
use crate::random::{Seeds, Stream};
use crate::segment::data::{IGNORED, RegionName};
use crate::segment::matrix::{InMemory, Sampled, matrix};
use crate::side_by_side::{self, at_a_time};
use crate::train::observer::{Observer, StageFigure};
use nearer::are_nearer;
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter, MeanBox};
use pbt_tree::{
    ChannelBank, LabelBackend, LabelBoostParams, LabelBooster, LabelForest, LabelMatrix, Layered,
    Outside, Vote, boost_labels,
};
use pbt_volume::Volume;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Fewest boxes with labels.
const FEWEST_BOXES: usize = 4;

/// Boxes of features lie up to so far from the voxel, and are so long, voxels.
const RADIUS: f64 = 8.0;
const EDGE: f64 = 6.0;

/// A threshold below one half makes masks larger. It is lowered where the mean Dice coefficient of a label
/// gains so much; the best of eight gains less by chance.
const LOWER_IS_WORTH: f64 = 0.003;

/// What was learned, and where it puts the boxes of cases that were held out.
#[derive(Default)]
pub(crate) struct TrainedMasks {
    pub(crate) stages: Vec<MaskStage>,
    /// Boxes and landmarks as the masks of held-out cases move them; only of stages that move any.
    pub(crate) moved: Vec<HeldOutPose>,
    pub(crate) figures: Vec<StageFigure>,
    pub(crate) warnings: Vec<String>,
}

/// Whether there are masks to train: of structures that occur once, where there are label maps.
pub(crate) fn is_wanted<D: TrainingData + ?Sized>(data: &D, config: &TrainConfig) -> bool {
    let many = || data.structures().iter().any(|(name, _)| data.is_many(name));
    let any_labels = || (0..data.list().len()).any(|case| data.has_classes(case));
    config.segmentation.trained && !data.label_names().is_empty() && !many() && any_labels()
}

/// Trains the masks of all structures whose labels are there. `found` is where models that had not
/// seen a case found its structures; `begun` is the share of the whole training that lies behind.
pub(crate) fn train<B: LabelBackend + LabelBooster, D: TrainingData + ?Sized>(
    backend: &B,
    data: &D,
    model: &Model,
    found: &[HeldOutPose],
    (observer, begun): (&dyn Observer, f64),
) -> Result<TrainedMasks, D::Error> {
    let config = &model.provenance.config.segmentation;
    if !is_wanted(data, &model.provenance.config) {
        return Ok(TrainedMasks::default());
    }
    let structures = data.structures();
    let labels = labels_of(data, &structures)?;
    let groups = groups(data, &structures, &labels)?;
    let progress =
        Progress { observer, begun, rounds: 2 * groups.len(), done: AtomicUsize::new(0) };
    let at_a_time = at_a_time(groups.len(), rayon::current_num_threads());
    let parts = side_by_side::each(groups.len(), at_a_time, |n| {
        let members = &groups[n];
        let first = members[0];
        progress.tell(&structures[first].0, "masks");
        let group = Group {
            data,
            model,
            structures: &structures,
            labels: &labels,
            members: members.clone(),
        };
        let instances = group.instances(found);
        let mut part = TrainedMasks::default();
        if instances.len() < FEWEST_BOXES {
            return Ok(part);
        }
        let training = Training {
            backend,
            config,
            group: &group,
            found,
            instances: &instances,
            folds: Folds::new(1 + instances.iter().map(|i| i.subject).max().unwrap_or(0)),
            seeds: Seeds::of_structure(model.provenance.seed, first).in_plane(is_flat(data)),
            progress: &progress,
        };
        training.run(&mut part)?;
        progress.round_is_done();
        Ok::<TrainedMasks, D::Error>(part)
    })?;
    let warnings = without_a_box(data.label_names(), &labels).into_iter().collect();
    let all = TrainedMasks { warnings, ..TrainedMasks::default() };
    Ok(parts.into_iter().fold(all, |mut all, part| {
        all.stages.extend(part.stages);
        all.moved.extend(part.moved);
        all.figures.extend(part.figures);
        all.warnings.extend(part.warnings);
        all
    }))
}

/// A warning that names the labels that belong to no box, if there are any.
fn without_a_box(names: &[RegionName], labels: &[Vec<usize>]) -> Option<String> {
    /// So many are named.
    const NAMED: usize = 5;
    let own: BTreeSet<usize> = labels.iter().flatten().copied().collect();
    let open = names.iter().enumerate().filter(|(n, _)| !own.contains(n));
    let open: Vec<&str> = open.map(|(_, label)| label.name.as_str()).collect();
    let more = match open.len().checked_sub(NAMED) {
        Some(more @ 1..) => format!(" and {more} more"),
        _ => String::new(),
    };
    let named = open[..open.len().min(NAMED)].join(", ");
    (!open.is_empty()).then(|| {
        format!("labels: no box holds more than half of {named}{more}: background to every mask")
    })
}

/// The training of one group.
struct Training<'a, B, D: ?Sized> {
    backend: &'a B,
    config: &'a SegmentationConfig,
    group: &'a Group<'a, D>,
    /// Where structures were found by models that had not seen the case.
    found: &'a [HeldOutPose],
    instances: &'a [Instance],
    folds: Folds,
    seeds: Seeds,
    progress: &'a Progress<'a>,
}

/// How far the masks of all groups are.
struct Progress<'a> {
    observer: &'a dyn Observer,
    /// Share of the whole training that lies before the masks.
    begun: f64,
    /// Rounds of all groups, and how many of them are done.
    rounds: usize,
    done: AtomicUsize,
}

impl Progress<'_> {
    fn tell(&self, structure: &str, stage: &str) {
        let done = self.done.load(Ordering::Relaxed) as f64 / self.rounds as f64;
        self.observer.stage(structure, stage, self.begun + (1.0 - self.begun) * done);
    }

    fn round_is_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl<B: LabelBackend + LabelBooster, D: TrainingData + ?Sized> Training<'_, B, D> {
    fn run(&self, trained: &mut TrainedMasks) -> Result<(), D::Error> {
        let started = Instant::now();
        let group = self.group;
        let structure = &group.model.structures[group.members[0]];
        let classes = group.labels[group.members[0]].len() + 1;
        let grid = self.grid();
        let random = &mut self.seeds.random(Stream::MaskFrames, 0);
        let (mut frames, loaded) = group.first_frames(self.instances, &grid, random)?;
        let Some(alone) = grid.geometry().filter(|_| !frames.is_empty()) else { return Ok(()) };
        let subject = |frame: &Frame| self.instances[frame.instance].subject;
        let is_drawn = |frame: &Frame| frame.classes.iter().any(|&c| c > 0 && c != IGNORED);
        let drawn: Vec<usize> = frames.iter().filter(|f| is_drawn(f)).map(subject).collect();
        let is_learned = |part: usize| drawn.iter().any(|&s| !self.folds.holds_out(part, s));
        let parts = self.folds.count();
        if drawn.is_empty() || parts > 1 && !(0..parts).all(is_learned) {
            trained.warnings.push(format!(
                "{}: masks: none are learned, since its labels are drawn in too few cases (draw more)",
                group.structures[group.members[0]].0
            ));
            return Ok(());
        }
        let prior = {
            let known: Vec<(usize, &[u8])> =
                frames.iter().map(|frame| (subject(frame), &frame.classes[..])).collect();
            Priors::new(&alone, classes - 1, &known)
        };
        let candidates = prior::candidates(&prior.all);
        let mut of =
            Round { number: 0, grid: &grid, prior: &prior, candidates: &candidates, classes };
        let judge = |frames: &[Frame], weight: u32| {
            overlaps(group, self.instances, &loaded, (frames, classes), weight)
        };
        let (first, first_without) = self.round(&of, &self.config.first, &mut frames)?;
        let mut rounds = vec![first];
        // By part, rounds that have not seen its subjects.
        let mut without: Vec<Vec<MaskRound>> = first_without.into_iter().map(|r| vec![r]).collect();
        let judged = judge(&frames, EVEN);
        self.progress.round_is_done();
        self.progress.tell(&group.structures[group.members[0]].0, "masks, second round");
        // The second round stays where it labels held-out cases better. A third never did in trials.
        let mut again = group.moved_frames(self.instances, (&grid, classes), &loaded, &frames);
        of.number = 1;
        let (second, second_without) = self.round(&of, &self.config.second, &mut again)?;
        let judged_again = judge(&again, EVEN);
        if mean_dice(&judged_again) > mean_dice(&judged) {
            rounds.push(second);
            without.iter_mut().zip(second_without).for_each(|(rounds, round)| rounds.push(round));
            frames = again;
        }
        self.interrupted()?;
        // One frame a box: where it was found, if it was.
        let mut seen = vec![false; self.instances.len()];
        frames.retain(|frame| !std::mem::replace(&mut seen[frame.instance], true));
        // Where all subjects are in all trees, every probability is too sure to tell.
        let weights = if self.folds.count() > 1 { &WEIGHTS[..] } else { &[EVEN] };
        let (mut label_weight, mut judged) = (EVEN, judge(&frames, EVEN));
        for &weight in &weights[1..] {
            let other = judge(&frames, weight);
            let least = if label_weight == EVEN { LOWER_IS_WORTH } else { 0.0 };
            if mean_dice_of_a_label(&other) > mean_dice_of_a_label(&judged) + least {
                (label_weight, judged) = (weight, other);
            }
        }
        let regions = |&structure: &usize| -> Vec<RegionName> {
            let own = group.labels[structure].iter();
            own.map(|&label| group.data.label_names()[label].clone()).collect()
        };
        let mut stage = MaskStage {
            structures: group.members.clone(),
            labels: group.members.iter().map(regions).collect(),
            cases: frames.len(),
            intensity: structure.working.intensity,
            padding: structure.working.padding,
            grid,
            prior: prior.all.clone(),
            rounds,
            label_weight,
            moves_box: false,
            landmarks: Vec::new(),
            quality: None,
        };
        let masks = held_out_masks(&stage, self.instances, &frames, &judged);
        let dices: Vec<f64> = masks.iter().map(|mask| mask.dice).collect();
        if self.folds.count() > 1 {
            stage.quality = Quality::new(&masks, classes - 1);
        }
        stage.moves_box = are_nearer(self.instances, &frames);
        let mut moved: Vec<Option<HeldOutPose>> =
            frames.iter().map(|frame| self.held_out(frame, &stage)).collect();
        stage.landmarks = self.landmarks(&stage, &frames, &mut moved);
        if stage.moves() {
            trained.moved.extend(moved.into_iter().flatten());
            // Whole images are read now, in place of their parts.
            drop((frames, loaded));
            trained.moved.extend(self.moved_from_afar(&stage, &prior, &without)?);
        }
        let name = format!("{}: masks", group.structures[group.members[0]].0);
        let what = "Dice of a label in held-out cases";
        trained.figures.push(StageFigure::new(name, started, what, &dices));
        trained.stages.push(stage);
        Ok(())
    }

    fn interrupted(&self) -> Result<(), DetectError> {
        if self.progress.observer.interrupted() { Err(DetectError::Interrupted) } else { Ok(()) }
    }

    /// The grid for boxes of the mean size, in images with the middle voxel.
    fn grid(&self) -> FrameGrid {
        let list = self.group.data.list();
        let finest = |case| list.geometry(case).spacing_mm().into_iter().fold(f64::MAX, f64::min);
        let boxes: Vec<_> = self.instances.iter().map(|i| (finest(i.case), i.truth)).collect();
        FrameGrid::of_boxes(&boxes, is_flat(self.group.data))
    }

    /// Trains a round, and without each part of the subjects, and says what it makes of frames whose subjects
    /// were held out.
    fn round(
        &self,
        of: &Round<'_>,
        params: &LabelBoostParams,
        frames: &mut [Frame],
    ) -> Result<(MaskRound, Vec<MaskRound>), D::Error> {
        let (mut bank, random_channels) = of.bank(frames[0].further.len());
        let features = self.features(of, bank.filters.len(), random_channels);
        bank.reach = features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0);
        let each = self.config.samples_of(self.instances.len()).div_ceil(frames.len());
        let drawn: Vec<(Vec<[usize; 3]>, Vec<u8>)> = frames
            .iter()
            .enumerate()
            .map(|(n, frame)| {
                let mut random = self.seeds.random(Stream::MaskSamples { round: of.number }, n);
                drawn_voxels(of.grid, of.candidates, &frame.classes, each, &mut random)
            })
            .collect();
        let prior = |frame: &Frame| of.prior.without(self.instances[frame.instance].subject);
        let layers: Vec<Vec<&Volume<u16>>> = frames
            .iter()
            .map(|frame| layers(&frame.before, prior(frame), &frame.further))
            .collect();
        let sampled: Vec<Sampled<'_>> =
            drawn.iter().map(|(voxels, classes)| Sampled { voxels, classes }).collect();
        let images: Vec<Layered<'_>> = frames
            .iter()
            .zip(&layers)
            .map(|(frame, layers)| Layered { image: &frame.image, layers })
            .collect();
        let lent = InMemory(&images);
        let matrix = matrix(self.backend, (&sampled, &lent), &bank, &features, of.classes, |_| {
            self.interrupted()
        })?;
        let subject_of: Vec<usize> = frames
            .iter()
            .zip(&drawn)
            .flat_map(|(frame, (voxels, _))| {
                std::iter::repeat_n(self.instances[frame.instance].subject, voxels.len())
            })
            .collect();
        drop((sampled, images));
        // Trees that have not seen the subjects of a fold; where there is one subject only, all have.
        let parts = if self.folds.count() > 1 { self.folds.count() } else { 0 };
        let without = |part: usize| {
            let keeps = |n: &u32| !self.folds.holds_out(part, subject_of[*n as usize]);
            let kept: Vec<u32> = (0..subject_of.len() as u32).filter(keeps).collect();
            self.forest(of, params, &features, &matrix.of_samples(&kept))
        };
        // Side by side, since a tree needs the one before it.
        let (forest, without) = rayon::join(
            || self.forest(of, params, &features, &matrix),
            || (0..parts).into_par_iter().map(without).collect::<Result<Vec<_>, DetectError>>(),
        );
        let (forest, without) = (forest?, without?);
        drop(matrix);
        let fold_of = |frame: &Frame| {
            let subject = self.instances[frame.instance].subject;
            (0..parts).find(|&part| self.folds.holds_out(part, subject))
        };
        let said: Vec<Vec<u32>> = frames
            .par_iter()
            .zip(&layers)
            .map(|(frame, layers)| {
                self.interrupted()?;
                let forest = fold_of(frame).map_or(&forest, |part| &without[part]);
                let layered = Layered { image: &frame.image, layers };
                shares(self.backend, layered, (&bank, forest), of.candidates)
            })
            .collect::<Result<_, DetectError>>()?;
        drop(layers);
        for (frame, shares) in frames.iter_mut().zip(said) {
            frame.shares = shares;
        }
        let (refit, refits) = refit((of.grid, of.classes), self.instances, self.folds, frames);
        let round = |(forest, refit): (LabelForest, Refit)| MaskRound {
            bank: ChannelBank { reach: forest.reach(), ..bank.clone() },
            forest,
            refit,
        };
        let without = without.into_iter().zip(refits).map(round).collect();
        Ok((round((forest, refit)), without))
    }

    fn features(&self, of: &Round<'_>, channels: usize, random: usize) -> Vec<BoxMeanFeature> {
        let pool = BoxMeanPool { radius: RADIUS, edge: EDGE, channels: random };
        let random_of = &mut self.seeds.random(Stream::MaskFeatures { round: of.number }, 0);
        let mut features = pool.features(random + self.config.features, random_of);
        features.extend((random..channels).map(|channel| {
            let first = MeanBox { min: [0; 3], size: [1; 3], channel: channel as u8 };
            BoxMeanFeature { first, second: None }
        }));
        features
    }

    fn forest(
        &self,
        of: &Round<'_>,
        params: &LabelBoostParams,
        features: &[BoxMeanFeature],
        matrix: &LabelMatrix,
    ) -> Result<LabelForest, DetectError> {
        let seed = self.seeds.derive(Stream::MaskTrees { round: of.number }, 0);
        let trees = boost_labels(self.backend, matrix, params, seed, || {
            !self.progress.observer.interrupted()
        })
        .map_err(|e| DetectError::of_trees("segmentation", e))?;
        self.interrupted()?;
        let forest = LabelForest {
            classes: of.classes,
            vote: Vote::Scores,
            features: features.to_vec(),
            trees,
        };
        Ok(forest.without_unused_features())
    }

    /// Where the labels of a held-out case put the box, if it was found there.
    fn held_out(&self, frame: &Frame, stage: &MaskStage) -> Option<HeldOutPose> {
        let Instance { structure, case, landmarks, .. } = &self.instances[frame.instance];
        let found = self.instances[frame.instance].found_near()?;
        let pose = if stage.moves_box { frame.moved } else { found };
        Some(HeldOutPose {
            structure: *structure,
            case: *case,
            pose,
            visible: pose.visible_share(self.group.data.list().geometry(*case)),
            absent: false,
            contradicted: stage.contradicts(&frame.shares).is_some(),
            labels: stage.evidence(&frame.shares),
            landmarks: landmarks.clone(),
        })
    }

    /// Landmarks that the labels move, and where they put those of held-out cases. Of look-alikes
    /// together, which have the same labels and other landmarks, none.
    fn landmarks(
        &self,
        stage: &MaskStage,
        frames: &[Frame],
        moved: &mut [Option<HeldOutPose>],
    ) -> Vec<LabelledLandmark> {
        let &[structure] = &self.group.members[..] else { return Vec::new() };
        let all = self.group.data.landmarks(&self.group.structures[structure].0);
        if all.is_empty() {
            return Vec::new();
        }
        let classes = stage.classes();
        let places = Place::all(classes - 1);
        let said: Vec<[Said; 2]> = frames
            .par_iter()
            .map(|frame| {
                let on = (&stage.grid, &frame.pose);
                let found = LabelledVoxels::of_shares(on, &frame.shares, classes);
                let truth = LabelledVoxels::of_classes(on, &frame.classes, classes - 1);
                [found, truth].map(|voxels| Said::new(frame.pose, &voxels, &places))
            })
            .collect();
        let mut landmarks = Vec::new();
        for (n, (_, points)) in all.iter().enumerate() {
            let mut cases = Vec::new();
            let mut of = Vec::new();
            for (frame, ([said, truly], moved)) in said.iter().zip(&*moved).enumerate() {
                let Some(moved) = moved else { continue };
                let truth = points.iter().find(|(case, _)| *case == moved.case);
                let (Some(&(_, truth)), Some(&found)) = (truth, moved.landmarks.get(n)) else {
                    continue;
                };
                let subject = self.instances[frames[frame].instance].subject;
                cases.push(HeldOutLandmark { subject, said, truly, found, truth });
                of.push(frame);
            }
            let Some((landmark, places)) = LabelledLandmark::train(n, &places, &cases, self.folds)
            else {
                continue;
            };
            landmarks.push(landmark);
            for (frame, place) in of.into_iter().zip(places) {
                if let Some(moved) = &mut moved[frame] {
                    moved.landmarks[n] = place;
                }
            }
        }
        landmarks
    }
}

/// What the training of a round goes by.
struct Round<'a> {
    number: usize,
    grid: &'a FrameGrid,
    prior: &'a Priors,
    candidates: &'a [Candidate],
    classes: usize,
}

impl Round<'_> {
    /// The channels: those of the image, of which `further` follow the first, and what the round
    /// before said, of which boxes are drawn; then place and prior, of which single voxels tell all.
    /// How many are drawn from comes with it.
    fn bank(&self, further: usize) -> (ChannelBank, usize) {
        let mm = self.grid.voxel_mm;
        let mut filters = Filter::bank(&[mm, 2.0 * mm, 4.0 * mm]);
        let labels = (self.classes - 1) as u8;
        let before = if self.number > 0 { labels } else { 0 };
        filters.extend((0..before).map(|layer| Filter::Layer { layer }));
        let prior_ends = before + labels;
        let further = prior_ends..prior_ends + further as u8;
        filters.extend(further.map(|layer| Filter::Layer { layer }));
        let drawn_from = filters.len();
        filters.extend((0..3).map(|axis| Filter::Place { axis }));
        filters.extend((before..prior_ends).map(|layer| Filter::Layer { layer }));
        let bank = ChannelBank { filters, spacing_mm: mm, outside: Outside::Missing, reach: 0 };
        (bank, drawn_from)
    }
}

/// Each label of the mask of each frame, and how it overlaps with the truth.
fn held_out_masks(
    stage: &MaskStage,
    instances: &[Instance],
    frames: &[Frame],
    overlaps: &[Overlap],
) -> Vec<HeldOutMask> {
    let classes = stage.classes();
    let likely: Vec<Vec<bool>> = (1..classes).map(|class| stage.likely(class)).collect();
    let of = |(frame, overlap): (&Frame, &Overlap)| -> Vec<HeldOutMask> {
        let mask = |class: usize| {
            let (found, truth) = (overlap.found[class].max(1), overlap.truth[class]);
            Some(HeldOutMask {
                subject: instances[frame.instance].subject,
                class,
                signs: signs(
                    &frame.shares,
                    (classes, class),
                    stage.label_weight,
                    &likely[class - 1],
                ),
                dice: overlap.dice(class)?,
                log_volume: libm::log(truth as f64 / found as f64),
            })
        };
        (1..classes).filter_map(mask).collect()
    };
    frames.par_iter().zip(overlaps).flat_map_iter(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_without_a_box_are_named() {
        let names: Vec<RegionName> =
            (0..9).map(|n| RegionName { name: format!("l{n}"), value: n + 1 }).collect();
        let said = |labels: &[Vec<usize>]| without_a_box(&names, labels);
        assert_eq!(said(&[vec![0, 2, 4, 6, 8], vec![1, 3, 5, 7]]), None);
        let two = said(&[vec![0, 1, 2], vec![5, 6, 7, 8]]).unwrap();
        assert!(two.contains("half of l3, l4: background"), "{two}");
        let many = said(&[vec![0, 1]]).unwrap();
        assert!(many.contains("l2, l3, l4, l5, l6 and 2 more: background"), "{many}");
    }
}
