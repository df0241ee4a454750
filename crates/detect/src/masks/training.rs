//! Training of masks: frames as detection finds them, two rounds of boosted trees, and what cases
//! that were held out say of them.

use crate::DetectError;
use crate::config::segmentation::SegmentationConfig;
use crate::data::folds::Folds;
use crate::data::look_alikes::representatives;
use crate::data::mirror_twins::is_on_one_side;
use crate::data::training_data::{Annotated, Subjects, TrainingData};
use crate::linear::map::{LinearMap, RegressionProblem};
use crate::masks::frame::FrameGrid;
use crate::masks::held_out::HeldOutPose;
use crate::masks::labelling::classes_of;
use crate::masks::landmarks::{HeldOutLandmark, LabelledLandmark, Said};
use crate::masks::moments;
use crate::masks::prior;
use crate::masks::quality::{HeldOutMask, Quality, signs};
use crate::masks::rounds::{MaskRound, Refit, layers, numbers, shares, step_of};
use crate::masks::samples::{Instance, classes_on, drawn_voxels, frames};
use crate::masks::stage::{MaskStage, share_layers};
use crate::model::Model;
use crate::random::{Seeds, Stream};
use crate::segment::data::{IGNORED, RegionName};
use crate::segment::matrix::{Sampled, matrix};
use crate::train::observer::{Observer, StageFigure};
use pbt_evaluate::BoxError;
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter, MeanBox};
use pbt_tree::{
    ChannelBank, LabelBackend, LabelBoostParams, LabelForest, LabelMatrix, Layered, Outside, Vote,
    boost_labels,
};
use pbt_volume::{Geometry, Padding, Pose, Volume, VoxelIndex, resample};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// Fewest boxes with labels.
const FEWEST_BOXES: usize = 4;

/// Fewest voxels of a grid across a box: coarser images are interpolated.
const ACROSS: f64 = 16.0;

/// Boxes of features lie up to so far from the voxel, and are so long, voxels.
const RADIUS: f64 = 8.0;
const EDGE: f64 = 6.0;

/// Penalties on the map from labels to a better frame that are tried, as shares of the mean variance
/// of a number.
const RIDGES: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Fewest boxes that were found, to judge steps by.
const FEWEST_FOUND: usize = 6;

/// Boxes are moved where that leaves less than this of the error of their corners.
const WORTH: f64 = 0.95;

/// What was learned, and where it puts the boxes of cases that were held out.
pub(crate) struct TrainedMasks {
    pub(crate) stages: Vec<MaskStage>,
    /// Boxes and landmarks as the masks of held-out cases move them; only of stages that move any.
    pub(crate) moved: Vec<HeldOutPose>,
    pub(crate) figures: Vec<StageFigure>,
}

/// Whether there are masks to train.
pub(crate) fn is_wanted<D: TrainingData>(data: &D, model: &Model) -> bool {
    model.provenance.config.segmentation.trained && !data.label_names().is_empty()
}

/// Trains the masks of all structures whose labels are there. `found` is where models that had not
/// seen a case found its structures; `begun` is the share of the whole training that lies behind.
pub(crate) fn train<B: LabelBackend, D: TrainingData>(
    backend: &B,
    data: &D,
    model: &Model,
    found: &[HeldOutPose],
    (observer, begun): (&dyn Observer, f64),
) -> Result<TrainedMasks, D::Error> {
    let mut trained = TrainedMasks { stages: Vec::new(), moved: Vec::new(), figures: Vec::new() };
    let config = &model.provenance.config.segmentation;
    if !is_wanted(data, model) {
        return Ok(trained);
    }
    let structures = data.structures();
    let labels = labels_of(data, &structures)?;
    let groups = groups(data, &structures, &labels);
    for (n, members) in groups.iter().enumerate() {
        let first = members[0];
        let done = begun + (1.0 - begun) * n as f64 / groups.len() as f64;
        observer.stage(&structures[first].0, "masks", done);
        let group = Group {
            data,
            model,
            structures: &structures,
            labels: &labels,
            members: members.clone(),
        };
        let instances = group.instances(found);
        if instances.len() < FEWEST_BOXES {
            continue;
        }
        let training = Training {
            backend,
            config,
            group: &group,
            instances: &instances,
            folds: Folds::new(1 + instances.iter().map(|i| i.subject).max().unwrap_or(0)),
            seeds: Seeds::of_structure(model.provenance.seed, first),
            observer,
        };
        training.run(&mut trained)?;
    }
    Ok(trained)
}

/// By structure, the numbers of its labels: of its own name, or those without a structure of their
/// name whose voxels lie in its boxes more than in others'.
fn labels_of<D: TrainingData>(
    data: &D,
    structures: &[Annotated],
) -> Result<Vec<Vec<usize>>, D::Error> {
    /// Cases that are looked at.
    const CASES: usize = 10;
    let names = data.label_names();
    let mut labels = vec![Vec::new(); structures.len()];
    let mut open = Vec::new();
    for (n, label) in names.iter().enumerate() {
        match structures.iter().position(|(name, _)| *name == label.name) {
            Some(structure) => labels[structure].push(n),
            None => open.push(n),
        }
    }
    if open.is_empty() {
        return Ok(labels);
    }
    let mut voxels = vec![vec![0u64; structures.len()]; names.len()];
    let mut looked_at = 0;
    for case in 0..data.list().len() {
        if looked_at == CASES {
            break;
        }
        let Some(classes) = data.classes(case)? else { continue };
        looked_at += 1;
        for (structure, (_, poses)) in structures.iter().enumerate() {
            let Some(&(_, pose)) = poses.iter().find(|(c, _)| *c == case) else { continue };
            let grid = FrameGrid { shape: [24; 3], voxel_mm: 1.0 };
            let Some(about) = grid.about(&pose) else { continue };
            let all = std::array::from_fn(|class| class as u8);
            for class in classes_on(&classes, &about, &all) {
                if class > 0 && class != IGNORED {
                    voxels[usize::from(class) - 1][structure] += 1;
                }
            }
        }
    }
    for n in open {
        let most = (0..structures.len()).rev().max_by_key(|&s| voxels[n][s]);
        if let Some(structure) = most.filter(|&s| voxels[n][s] > 0) {
            labels[structure].push(n);
        }
    }
    Ok(labels)
}

/// Structures whose masks are learned together: those that look alike and have one label each, and
/// do not lie on one side, where the other side's twin is turned round; every other by itself.
fn groups<D: TrainingData>(
    data: &D,
    structures: &[Annotated],
    labels: &[Vec<usize>],
) -> Vec<Vec<usize>> {
    let representatives = representatives(structures);
    let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (n, (_, poses)) in structures.iter().enumerate().filter(|(n, _)| !labels[*n].is_empty()) {
        let alone = labels[n].len() > 1 || is_on_one_side(data, poses);
        let own = if alone { n + 1 } else { 0 };
        groups.entry((representatives[n], own)).or_default().push(n);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort();
    groups
}

/// Structures whose masks are learned together.
struct Group<'a, D> {
    data: &'a D,
    model: &'a Model,
    structures: &'a [Annotated],
    labels: &'a [Vec<usize>],
    members: Vec<usize>,
}

/// The part of a case that counts: the image in 12 bits and its label map.
struct Loaded {
    image: Volume<u16>,
    classes: Volume<u8>,
}

/// By number of the case.
type LoadedCases = BTreeMap<usize, Loaded>;

impl<D: TrainingData> Group<'_, D> {
    /// All boxes of cases with labels.
    fn instances(&self, found: &[HeldOutPose]) -> Vec<Instance> {
        let cases: Vec<(usize, ())> = (0..self.data.list().len()).map(|case| (case, ())).collect();
        let subjects = Subjects::new(self.data, &cases);
        let mut instances = Vec::new();
        for &structure in &self.members {
            let poses = &self.structures[structure].1;
            for &(case, truth) in poses.iter().filter(|(case, _)| self.data.has_classes(*case)) {
                let own = |f: &&HeldOutPose| f.structure == structure && f.case == case;
                instances.push(Instance {
                    structure,
                    case,
                    subject: subjects.subject(case),
                    truth,
                    found: found.iter().find(own).map(|f| f.pose),
                    landmarks: found
                        .iter()
                        .find(own)
                        .map_or_else(Vec::new, |f| f.landmarks.clone()),
                });
            }
        }
        instances
    }

    /// The parts of a case about some frames. `None` where it has no label map after all.
    fn load(&self, case: usize, frames: &[Geometry]) -> Result<Option<Loaded>, D::Error> {
        let Some(classes) = self.data.classes(case)? else { return Ok(None) };
        let image = self.data.image(case)?;
        let policy = &self.model.structures[self.members[0]].working.intensity;
        let range = policy.range(&image).map_err(|e| {
            DetectError::training(format!("case {}", self.data.list().id(case)), e.to_string())
        })?;
        Ok(Some(Loaded {
            image: cut(&range.quantise(&image), frames),
            classes: cut(&classes, frames),
        }))
    }

    /// The class of this group of each class of a label map, for one of its structures.
    fn own_classes(&self, structure: usize) -> [u8; 256] {
        let mut own = [0; 256];
        for (n, &label) in self.labels[structure].iter().enumerate() {
            own[label + 1] = n as u8 + 1;
        }
        own[usize::from(IGNORED)] = IGNORED;
        own
    }
}

/// The voxels of a volume that some grids reach, and as many again on either side, so that frames
/// may move.
fn cut<T: Copy + Default>(volume: &Volume<T>, grids: &[Geometry]) -> Volume<T> {
    let corners: Vec<VoxelIndex> = grids
        .iter()
        .flat_map(|grid| {
            grid.corners().map(|corner| volume.geometry().to_index(grid.to_lps(corner)))
        })
        .collect();
    let ends = [0, 1, 2].map(|a| {
        let last = volume.shape()[a] as f64 - 1.0;
        let low = corners.iter().fold(f64::INFINITY, |low, c| low.min(c.0[a]));
        let high = corners.iter().fold(f64::NEG_INFINITY, |high, c| high.max(c.0[a]));
        let spare = (high - low) / 4.0;
        let (low, high) = ((low - spare).clamp(0.0, last), (high + spare).clamp(0.0, last));
        (low as usize, high.ceil() as usize + 1)
    });
    let (first, shape) = (ends.map(|(low, _)| low), ends.map(|(low, high)| high - low));
    let part = volume.geometry().part(first, shape);
    Volume::from_fn(part, |i, j, k| volume.at(first[0] + i, first[1] + j, first[2] + k))
}

/// The training of one group.
struct Training<'a, B, D> {
    backend: &'a B,
    config: &'a SegmentationConfig,
    group: &'a Group<'a, D>,
    instances: &'a [Instance],
    folds: Folds,
    seeds: Seeds,
    observer: &'a dyn Observer,
}

/// A frame with what it shows.
struct Frame {
    /// Whose.
    instance: usize,
    pose: Pose,
    grid: Geometry,
    image: Volume<u16>,
    /// Classes of its voxels, in truth.
    classes: Vec<u8>,
    /// What the round before said.
    before: Vec<Volume<u16>>,
    /// What this round says, by trees that have not seen the subject.
    shares: Vec<u32>,
    /// The box as that moves it.
    moved: Pose,
}

impl<B: LabelBackend, D: TrainingData> Training<'_, B, D> {
    fn run(&self, trained: &mut TrainedMasks) -> Result<(), D::Error> {
        let started = Instant::now();
        let group = self.group;
        let structure = &group.model.structures[group.members[0]];
        let classes = group.labels[group.members[0]].len() + 1;
        let grid = self.grid();
        let (mut frames, loaded) = self.first_frames(&grid, structure.working.padding)?;
        let Some(alone) = grid.geometry().filter(|_| !frames.is_empty()) else { return Ok(()) };
        let prior = {
            let known: Vec<Vec<u8>> = frames
                .iter()
                .map(|f| f.classes.iter().map(|&c| if c == IGNORED { 0 } else { c }).collect())
                .collect();
            prior::layers(&alone, classes - 1, known.iter().map(|c| &c[..]))
        };
        let candidates = prior::candidates(&prior);
        let mut of =
            Round { number: 0, grid: &grid, prior: &prior, candidates: &candidates, classes };
        let mut rounds = vec![self.round(&of, &self.config.first, &mut frames)?];
        // The second round stays where it labels held-out cases better.
        let mut again = self.moved_frames(&of, &loaded, structure.working.padding, &frames);
        of.number = 1;
        let second = self.round(&of, &self.config.second, &mut again)?;
        if mean_dice(&again, classes) > mean_dice(&frames, classes) {
            rounds.push(second);
            frames = again;
        }
        self.interrupted()?;
        // One frame a box: where it was found, if it was.
        let mut seen = vec![false; self.instances.len()];
        frames.retain(|frame| !std::mem::replace(&mut seen[frame.instance], true));
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
            prior,
            rounds,
            moves_box: false,
            landmarks: Vec::new(),
            quality: None,
        };
        let masks = held_out_masks(&stage, self.instances, &frames);
        let dices: Vec<f64> = masks.iter().map(|mask| mask.dice).collect();
        if self.folds.count() > 1 {
            stage.quality = Quality::new(&masks, classes - 1);
        }
        stage.moves_box = self.is_nearer(&frames);
        let mut moved: Vec<Option<HeldOutPose>> =
            frames.iter().map(|frame| self.held_out(frame, stage.moves_box)).collect();
        stage.landmarks = self.landmarks(&stage, &frames, &mut moved);
        if stage.moves() {
            trained.moved.extend(moved.into_iter().flatten());
        }
        let name = format!("{}: masks", group.structures[group.members[0]].0);
        let what = "Dice of a label in held-out cases";
        trained.figures.push(StageFigure::new(name, started, what, &dices));
        trained.stages.push(stage);
        Ok(())
    }

    fn interrupted(&self) -> Result<(), DetectError> {
        if self.observer.interrupted() { Err(DetectError::Interrupted) } else { Ok(()) }
    }

    /// The grid for boxes of the mean size, in images with the middle voxel.
    fn grid(&self) -> FrameGrid {
        let mean = |a: usize| {
            let sum: f64 = self.instances.iter().map(|i| libm::log(i.truth.size_mm[a])).sum();
            libm::exp(sum / self.instances.len() as f64)
        };
        let list = self.group.data.list();
        let edge = |i: &Instance| {
            let finest = list.geometry(i.case).spacing_mm().into_iter().fold(f64::MAX, f64::min);
            finest.min(i.truth.mean_size_mm() / ACROSS)
        };
        let mut edges: Vec<f64> = self.instances.iter().map(edge).collect();
        edges.sort_by(f64::total_cmp);
        FrameGrid::new([0, 1, 2].map(mean), edges[edges.len() / 2])
    }

    /// Frames as wrong as detection makes them, and by case what they show.
    fn first_frames(
        &self,
        grid: &FrameGrid,
        padding: Padding,
    ) -> Result<(Vec<Frame>, LoadedCases), D::Error> {
        let poses = frames(self.instances, &mut self.seeds.random(Stream::MaskFrames, 0));
        let mut by_case: BTreeMap<usize, Vec<Geometry>> = BTreeMap::new();
        let mut placed = Vec::with_capacity(poses.len());
        for (instance, pose) in poses {
            if let Some(about) = grid.about(&pose) {
                by_case.entry(self.instances[instance].case).or_default().push(about.clone());
                placed.push((instance, pose, about));
            }
        }
        let load = |(&case, grids): (&usize, &Vec<Geometry>)| {
            Ok(self.group.load(case, grids)?.map(|loaded| (case, loaded)))
        };
        let all: Vec<_> = by_case.par_iter().map(load).collect();
        let all = all.into_iter().collect::<Result<Vec<_>, D::Error>>()?;
        let loaded: LoadedCases = all.into_iter().flatten().collect();
        let frame = |(instance, pose, about): (usize, Pose, Geometry)| {
            let of = &self.instances[instance];
            let shown = loaded.get(&of.case)?;
            let own = self.group.own_classes(of.structure);
            Some(Frame {
                instance,
                pose,
                image: resample(&shown.image, &about, padding),
                classes: classes_on(&shown.classes, &about, &own),
                grid: about,
                before: Vec::new(),
                shares: Vec::new(),
                moved: pose,
            })
        };
        let frames = placed.into_par_iter().filter_map(frame).collect();
        Ok((frames, loaded))
    }

    /// Frames about the boxes as the last round moved them, with what it said as layers. Where a box
    /// cannot be laid out there is none.
    fn moved_frames(
        &self,
        last: &Round<'_>,
        loaded: &LoadedCases,
        padding: Padding,
        frames: &[Frame],
    ) -> Vec<Frame> {
        let moved = |frame: &Frame| {
            let of = &self.instances[frame.instance];
            let (about, shown) = (last.grid.about(&frame.moved)?, loaded.get(&of.case)?);
            let said = share_layers(&frame.grid, &frame.shares, last.classes);
            let before = said.iter().map(|layer| resample(layer, &about, Padding::Zero)).collect();
            let own = self.group.own_classes(of.structure);
            Some(Frame {
                instance: frame.instance,
                pose: frame.moved,
                image: resample(&shown.image, &about, padding),
                classes: classes_on(&shown.classes, &about, &own),
                grid: about,
                before,
                shares: Vec::new(),
                moved: frame.moved,
            })
        };
        frames.par_iter().filter_map(moved).collect()
    }

    /// Trains a round, and says what it makes of frames whose subjects were held out.
    fn round(
        &self,
        of: &Round<'_>,
        params: &LabelBoostParams,
        frames: &mut [Frame],
    ) -> Result<MaskRound, D::Error> {
        let (mut bank, random_channels) = of.bank();
        let features = self.features(of, bank.filters.len(), random_channels);
        bank.reach = features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0);
        let each = self.config.samples.div_ceil(frames.len());
        let drawn: Vec<(Vec<[usize; 3]>, Vec<u8>)> = frames
            .iter()
            .enumerate()
            .map(|(n, frame)| {
                let mut random = self.seeds.random(Stream::MaskSamples { round: of.number }, n);
                drawn_voxels(of.grid, of.candidates, &frame.classes, each, &mut random)
            })
            .collect();
        let layers: Vec<Vec<&Volume<u16>>> =
            frames.iter().map(|frame| layers(&frame.before, of.prior)).collect();
        let sampled: Vec<Sampled<'_>> = frames
            .iter()
            .zip(&layers)
            .zip(&drawn)
            .map(|((frame, layers), (voxels, classes))| Sampled {
                image: Layered { image: &frame.image, layers },
                voxels,
                classes,
            })
            .collect();
        let matrix =
            matrix(self.backend, &sampled, &bank, &features, of.classes, |_| self.interrupted())?;
        let subject_of: Vec<usize> = frames
            .iter()
            .zip(&drawn)
            .flat_map(|(frame, (voxels, _))| {
                std::iter::repeat_n(self.instances[frame.instance].subject, voxels.len())
            })
            .collect();
        let forest = self.forest(of, params, &features, &matrix)?;
        // Trees that have not seen the subjects of a fold; where there is one subject only, all have.
        let parts = if self.folds.count() > 1 { self.folds.count() } else { 0 };
        let mut without = Vec::with_capacity(parts);
        for part in 0..parts {
            let keeps = |n: &u32| !self.folds.holds_out(part, subject_of[*n as usize]);
            let kept: Vec<u32> = (0..subject_of.len() as u32).filter(keeps).collect();
            without.push(self.forest(of, params, &features, &matrix.of_samples(&kept))?);
        }
        drop((sampled, matrix));
        let fold_of = |frame: &Frame| {
            let subject = self.instances[frame.instance].subject;
            (0..parts).find(|&part| self.folds.holds_out(part, subject))
        };
        let said: Vec<Vec<u32>> = frames
            .iter()
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
        let refit = self.refit(of, frames);
        bank.reach = forest.reach();
        Ok(MaskRound { bank, forest, refit })
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
        let trees = boost_labels(matrix, params, seed, || !self.observer.interrupted())
            .map_err(|e| DetectError::training("segmentation", e.to_string()))?;
        self.interrupted()?;
        let forest = LabelForest {
            classes: of.classes,
            vote: Vote::Scores,
            features: features.to_vec(),
            trees,
        };
        Ok(forest.without_unused_features())
    }

    /// The map from labels to better frames, and where it moves the boxes of held-out subjects.
    fn refit(&self, of: &Round<'_>, frames: &mut [Frame]) -> Refit {
        let length = moments::count(of.classes - 1);
        let rows: Vec<Vec<i16>> = frames
            .par_iter()
            .map(|frame| moments::moments(of.grid, &frame.shares, of.classes))
            .collect();
        let truths: Vec<[f64; 9]> = frames
            .iter()
            .map(|frame| numbers(&frame.pose, &self.instances[frame.instance].truth))
            .collect();
        let subjects: Vec<usize> =
            frames.iter().map(|frame| self.instances[frame.instance].subject).collect();
        let fit = |keeps: &dyn Fn(usize) -> bool, ridge: f64| -> LinearMap<i32> {
            let kept: Vec<usize> = (0..rows.len()).filter(|&n| keeps(subjects[n])).collect();
            let patches = kept.iter().flat_map(|&n| rows[n].iter().copied()).collect();
            let targets: Vec<Vec<f64>> =
                (0..9).map(|t| kept.iter().map(|&n| truths[n][t]).collect()).collect();
            RegressionProblem::new(patches, length, &targets).solve(ridge)
        };
        let parts = self.folds.count();
        if parts < 2 {
            return Refit { map: fit(&|_| true, RIDGES[2]), taken: [0.0; 3] };
        }
        let held_out = |ridge: f64| -> Vec<Vec<f64>> {
            let maps: Vec<LinearMap<i32>> = (0..parts)
                .map(|part| fit(&|subject| !self.folds.holds_out(part, subject), ridge))
                .collect();
            let of_subject =
                |s: usize| (0..parts).find(|&part| self.folds.holds_out(part, s)).unwrap_or(0);
            rows.iter().zip(&subjects).map(|(row, &s)| maps[of_subject(s)].apply(row)).collect()
        };
        // Where boxes were found counts, not where frames were put to have more of them.
        let is_found = |frame: &Frame| self.instances[frame.instance].found_near().is_some();
        let mut seen = vec![false; self.instances.len()];
        let found: Vec<bool> = frames
            .iter()
            .map(|f| !std::mem::replace(&mut seen[f.instance], true) && is_found(f))
            .collect();
        let enough = found.iter().filter(|&&found| found).count() >= FEWEST_FOUND;
        let counts = |n: &usize| !enough || found[*n];
        let judged: Vec<usize> = (0..frames.len()).filter(counts).collect();
        let tried: Vec<_> = RIDGES
            .iter()
            .map(|&ridge| {
                let steps = held_out(ridge);
                let (taken, left) = shares_taken(&steps, &truths, &judged);
                (ridge, steps, taken, left)
            })
            .collect();
        let (ridge, steps, taken, _) =
            tried.into_iter().min_by(|a, b| a.3.total_cmp(&b.3)).expect("some ridge is tried");
        for (frame, step) in frames.iter_mut().zip(&steps) {
            frame.moved = step_of(step, taken, &frame.pose).apply(&frame.pose);
        }
        Refit { map: fit(&|_| true, ridge), taken }
    }

    /// Where the labels of a held-out case put the box, if it was found there.
    fn held_out(&self, frame: &Frame, moves_box: bool) -> Option<HeldOutPose> {
        let Instance { structure, case, landmarks, .. } = &self.instances[frame.instance];
        let found = self.instances[frame.instance].found_near()?;
        Some(HeldOutPose {
            structure: *structure,
            case: *case,
            pose: if moves_box { frame.moved } else { found },
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
        let said: Vec<Said> = frames
            .par_iter()
            .map(|frame| Said::new(frame.pose, &stage.grid, &frame.shares, classes))
            .collect();
        let mut landmarks = Vec::new();
        for (n, (_, points)) in all.iter().enumerate() {
            let mut cases = Vec::new();
            let mut of = Vec::new();
            for (frame, (said, moved)) in said.iter().zip(&*moved).enumerate() {
                let Some(moved) = moved else { continue };
                let truth = points.iter().find(|(case, _)| *case == moved.case);
                let (Some(&(_, truth)), Some(&found)) = (truth, moved.landmarks.get(n)) else {
                    continue;
                };
                let subject = self.instances[frames[frame].instance].subject;
                cases.push(HeldOutLandmark { subject, said, found, truth });
                of.push(frame);
            }
            let Some((landmark, places)) = LabelledLandmark::train(n, &cases, self.folds) else {
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

    /// Whether the boxes of held-out cases are nearer to the truth than they were found.
    fn is_nearer(&self, frames: &[Frame]) -> bool {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for frame in frames {
            let of = &self.instances[frame.instance];
            let Some(found) = of.found_near() else { continue };
            before.push(BoxError::new(&found, &of.truth).corner_mm);
            after.push(BoxError::new(&frame.moved, &of.truth).corner_mm);
        }
        before.len() >= FEWEST_BOXES
            && after.iter().sum::<f64>() < WORTH * before.iter().sum::<f64>()
    }
}

/// How much of each part of held-out steps brings boxes nearest to the truth (least squares), and the
/// share of the squared error that is then left, summed over the parts.
fn shares_taken(steps: &[Vec<f64>], truths: &[[f64; 9]], judged: &[usize]) -> ([f64; 3], f64) {
    let mut left = 0.0;
    let taken = [0, 1, 2].map(|part| {
        let of = || judged.iter().flat_map(|&n| (3 * part..3 * part + 3).map(move |t| (n, t)));
        let products: f64 = of().map(|(n, t)| steps[n][t] * truths[n][t]).sum();
        let squares: f64 = of().map(|(n, t)| steps[n][t] * steps[n][t]).sum();
        let taken = if squares > 0.0 { (products / squares).clamp(0.0, 1.0) } else { 0.0 };
        let before: f64 = of().map(|(n, t)| truths[n][t].powi(2)).sum();
        let after: f64 = of().map(|(n, t)| (taken * steps[n][t] - truths[n][t]).powi(2)).sum();
        left += after / before.max(1e-12);
        taken
    });
    (taken, left)
}

/// What the training of a round goes by.
struct Round<'a> {
    number: usize,
    grid: &'a FrameGrid,
    prior: &'a [Volume<u16>],
    candidates: &'a [u32],
    classes: usize,
}

impl Round<'_> {
    /// The channels: those of the image, and what the round before said, of which boxes are drawn;
    /// then place and prior, of which single voxels tell all. How many are drawn from comes with it.
    fn bank(&self) -> (ChannelBank, usize) {
        let mm = self.grid.voxel_mm;
        let mut filters = Filter::bank(&[mm, 2.0 * mm, 4.0 * mm]);
        let labels = (self.classes - 1) as u8;
        let before = if self.number > 0 { labels } else { 0 };
        filters.extend((0..before).map(|layer| Filter::Layer { layer }));
        let drawn_from = filters.len();
        filters.extend((0..3).map(|axis| Filter::Place { axis }));
        filters.extend((before..before + labels).map(|layer| Filter::Layer { layer }));
        let bank = ChannelBank { filters, spacing_mm: mm, outside: Outside::Missing, reach: 0 };
        (bank, drawn_from)
    }
}

/// The mean Dice coefficient of a mask in its frame, all labels as one.
fn mean_dice(frames: &[Frame], classes: usize) -> f64 {
    let of = |frame: &Frame| {
        let (mut sizes, mut both) = (0u64, 0u64);
        for (mask, &truth) in classes_of(&frame.shares, classes).zip(&frame.classes) {
            if truth != IGNORED {
                sizes += u64::from(mask > 0) + u64::from(truth > 0);
                both += u64::from(mask > 0 && mask == usize::from(truth));
            }
        }
        2.0 * both as f64 / sizes.max(1) as f64
    };
    let dices: Vec<f64> = frames.par_iter().map(of).collect();
    dices.iter().sum::<f64>() / dices.len().max(1) as f64
}

/// Each label of the mask of each frame against the truth.
fn held_out_masks(stage: &MaskStage, instances: &[Instance], frames: &[Frame]) -> Vec<HeldOutMask> {
    let classes = stage.classes();
    let likely: Vec<Vec<bool>> = (1..classes).map(|class| stage.likely(class)).collect();
    let of = |frame: &Frame| -> Vec<HeldOutMask> {
        let (mut found, mut truth, mut both) =
            (vec![0u64; classes], vec![0u64; classes], vec![0u64; classes]);
        for (mask, &true_class) in classes_of(&frame.shares, classes).zip(&frame.classes) {
            if true_class == IGNORED {
                continue;
            }
            let true_class = usize::from(true_class);
            found[mask] += 1;
            truth[true_class] += 1;
            both[mask] += u64::from(mask == true_class);
        }
        (1..classes)
            .filter(|&class| truth[class] > 0)
            .map(|class| HeldOutMask {
                subject: instances[frame.instance].subject,
                class,
                signs: signs(&frame.shares, classes, class, &likely[class - 1]),
                dice: 2.0 * both[class] as f64 / (found[class] + truth[class]) as f64,
                log_volume: libm::log(truth[class] as f64 / found[class].max(1) as f64),
            })
            .collect()
    };
    frames.par_iter().flat_map_iter(of).collect()
}
