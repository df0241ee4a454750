//! The position stage: a Haar classifier over a coarse level, at every voxel of a small one; of a
//! large one at a lattice and about the best of that (`voxel_search.rs`).

use crate::DetectError;
use crate::config::PositionConfig;
use crate::data::case::{TrainingCase, originals};
use crate::data::other_instances::OtherInstances;
use crate::network::search_region::Region;
use crate::pose::prior::Prior;
use crate::random::{Seeds, Stream};
use crate::stages::classifier::{HaarClassifier, Labelled};
use crate::stages::voxel_search::{best_of, best_voxels, lattice};
use crate::working::spec::WorkingSpec;
use crate::working::spec::level_for;
use nalgebra::Vector3;
use pbt_features::haar_pool;
use pbt_tree::{Backend, ClassifierParams, Haar, ImageLayout, Score, VoxelSite};
use pbt_volume::Random;
use pbt_volume::{Geometry, Level, PointLps, VoxelIndex, resample};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Where on the pyramid the stage works and what it keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PositionSpec {
    /// Pyramid level.
    pub level: usize,
    /// Channel of the image, by its place in [`Model::channels`](crate::Model::channels).
    #[serde(skip_serializing_if = "is_first", default)]
    pub channel: usize,
    /// How far the features reach, voxels.
    pub radius: usize,
    /// Hypotheses that go on.
    pub keep: usize,
    /// Most instances in an image of the training, of a structure that occurs several times.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub most_instances: Option<usize>,
}

fn is_first(channel: &usize) -> bool {
    *channel == 0
}

/// The trained stage.
#[derive(Debug, Clone, PartialEq)]
pub struct PositionStage {
    /// Level and number of candidates.
    pub spec: PositionSpec,
    /// The classifier.
    pub classifier: HaarClassifier,
}

/// A position with its score, LPS.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Position.
    pub point: PointLps,
    /// Score of the classifier.
    pub score: Score,
}

impl PositionStage {
    /// Trains the stage on a channel.
    pub(crate) fn train<B: Backend>(
        backend: &B,
        cases: &[TrainingCase],
        (working, channel): (&WorkingSpec, usize),
        prior: &Prior,
        config: &PositionConfig,
        classifier: &ClassifierParams,
        seeds: Seeds,
    ) -> Result<Self, DetectError> {
        let level = level_for(prior.scale_mm, working.spacing_mm, config.voxels_across)
            .min(working.levels - 1);
        let most_instances =
            cases.iter().filter_map(|case| Some(case.others.as_ref()?.instances.len() + 1)).max();
        let enough = most_instances.map_or(0, |most| SPARE + EACH * most);
        let keep = config.keep.max(enough.min(MOST));
        let spec =
            PositionSpec { level, channel, radius: config.haar.radius, keep, most_instances };
        let layout = spec.layout(working);
        let shown: Vec<usize> = (0..cases.len()).filter(|&n| cases[n].shows_image()).collect();
        // Many cases need fewer copies each: about 600 in all show every orientation often enough.
        let copies = (config.copies * originals(cases) / shown.len())
            .min(600 / shown.len())
            .min(COPIED_VOXELS / voxels_of(cases, &shown, level))
            .max(1);
        let (mut copied, mut images) = (Vec::new(), Vec::new());
        // A few at a time, since the tables of a copy are kept and its voxels are not.
        let all: Vec<usize> = (0..shown.len() * copies).collect();
        for some in all.chunks(16) {
            let resampled: Vec<(Copy, Level)> = some
                .par_iter()
                .map(|&n| {
                    let mut random = seeds.random(Stream::PositionCopies, n);
                    let (case, number) = (shown[n / copies], n % copies);
                    let of = (level, channel);
                    let volume = copy(&cases[case], number, of, working, prior, &mut random);
                    (Copy::new(&cases[case], case, &volume), volume)
                })
                .collect();
            for (copy, volume) in resampled {
                images.push(backend.upload(&[volume], &layout.at_level_0())?);
                copied.push(copy);
            }
        }
        let references: Vec<&B::Image> = images.iter().collect();
        let mut samples = Labelled::concat(
            copied
                .par_iter()
                .enumerate()
                .map(|(n, c)| c.draw(n, config, seeds))
                .collect::<Vec<_>>(),
        );
        let pool = haar_pool(&config.haar, seeds.derive(Stream::HaarPool, 0));
        let train = |samples: &Labelled<VoxelSite>, index| {
            let seed = seeds.derive(Stream::PositionClassifier, index);
            HaarClassifier::train(backend, &references, Haar, &pool, samples, classifier, seed)
        };
        let first = train(&samples, 0)?;
        // The second classifier learns from what the first takes for the structure (Sofka et al.
        // 2014, section III).
        let searched = SEARCHED_VOXELS / copied.len();
        for (n, copy) in copied.iter().enumerate() {
            let mut random = seeds.random(Stream::PositionMistakes, n);
            let voxels = sparse(copy.shape, searched, &mut random);
            let best = best_of(&first, backend, &images[n], voxels, config.negatives)?;
            samples.extend(copy.mistakes(n, &best, config));
        }
        let classifier = train(&samples, 1)?;
        Ok(Self { spec, classifier })
    }

    /// The candidates of an image, or of a region of the level, best first: half of them the best voxels, the others the best
    /// that keep two voxels apart. Of a structure of the mean size `scale_mm` that occurs several
    /// times, all of them keep 0.3 of that apart.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn detect<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        (level, region): (&Geometry, Option<&Region>),
        scale_mm: f64,
    ) -> Result<Vec<Candidate>, DetectError> {
        let keep = self.spec.keep;
        // Only the best few can be chosen: each candidate excludes at most the 33 voxels within two
        // voxels of it, or those within the larger distance that instances keep.
        let (best, apart, excluded) = match self.spec.most_instances {
            None => (keep / 2, 2, 34),
            Some(_) => {
                let edge_mm = level.spacing_mm().into_iter().fold(f64::INFINITY, f64::min);
                let apart = (APART * scale_mm / edge_mm).clamp(1.0, 8.0) as i32;
                (0, apart, (2 * apart as usize + 1).pow(3))
            }
        };
        let searched = (level.shape(), region);
        let order = best_voxels(&self.classifier, backend, image, searched, keep * excluded)?;
        let mut chosen: Vec<([i32; 3], Score)> = order.iter().copied().take(best).collect();
        let apart = |a: [i32; 3], b: [i32; 3]| {
            (0..3).map(|n| (a[n] - b[n]).pow(2)).sum::<i32>() > apart * apart
        };
        for &(voxel, score) in &order {
            if chosen.len() >= keep {
                break;
            }
            if chosen.iter().all(|&(other, _)| apart(other, voxel)) {
                chosen.push((voxel, score));
            }
        }
        let candidate = |(voxel, score): ([i32; 3], Score)| {
            let [i, j, k] = voxel.map(f64::from);
            Candidate { point: level.to_lps(VoxelIndex::new(i, j, k)), score }
        };
        Ok(chosen.into_iter().map(candidate).collect())
    }
}

/// Voxels of all copies together: half a gigabyte of integral volumes, and some for their padding.
const COPIED_VOXELS: usize = 1 << 27;

/// Voxels that the first classifier is tried on, over all copies: enough to find what it takes for
/// the structure, a fraction of what many copies of large images have.
const SEARCHED_VOXELS: usize = 1 << 22;

/// Candidates of a structure that occurs several times: so many, and
const SPARE: usize = 20;

/// so many for each instance that an image may show.
const EACH: usize = 4;

/// As many as a model may have.
const MOST: usize = 10_000;

/// Candidates of such a structure keep this distance, in D: near enough for the refinement to reach
/// whatever lies between two of them.
const APART: f64 = 0.3;

/// Voxels of these cases at a level.
fn voxels_of(cases: &[TrainingCase], these: &[usize], level: usize) -> usize {
    these.iter().map(|&n| cases[n].pyramid.geometry(level).len()).sum()
}

/// At most about so many voxels of an image, on a lattice that begins anywhere.
fn sparse(shape: [usize; 3], most: usize, random: &mut Random) -> Vec<[i32; 3]> {
    let share = shape.iter().product::<usize>() as f64 / most.max(1) as f64;
    let step = libm::ceil(libm::cbrt(share)).max(1.0) as usize;
    let first = shape.map(|n| random.below(step.min(n)));
    lattice(shape, step, first)
}

impl PositionSpec {
    /// What a case needs for this stage.
    pub(crate) fn layout(&self, working: &WorkingSpec) -> ImageLayout {
        ImageLayout {
            padding: working.padding,
            haar: Some((working.volume(self.level, self.channel), self.radius)),
            channels: Vec::new(),
        }
    }
}

trait AtLevel0 {
    fn at_level_0(&self) -> ImageLayout;
}

impl AtLevel0 for ImageLayout {
    /// The same for a pyramid that holds the stage's level alone.
    fn at_level_0(&self) -> ImageLayout {
        ImageLayout { haar: self.haar.map(|(_, radius)| (0, radius)), ..self.clone() }
    }
}

/// A case resampled to another grid at the stage's level; the first copy keeps its grid where the
/// structure's orientation is known.
fn copy(
    case: &TrainingCase,
    number: usize,
    (level, channel): (usize, usize),
    working: &WorkingSpec,
    prior: &Prior,
    random: &mut Random,
) -> Level {
    let stored = &case.pyramid.level(level)[channel];
    if number == 0 && !prior.any_orientation {
        return stored.clone();
    }
    // Turned about the middle of the image, shifted by part of a voxel, from the next finer level.
    let rotation = if prior.any_orientation {
        random.rotation()
    } else {
        random.rotation_by(0.0, prior.spread_rad.max(5f64.to_radians()))
    };
    let geometry = stored.geometry();
    let matrix = rotation.to_rotation_matrix().into_inner() * geometry.matrix();
    let shift = Vector3::from_fn(|_, _| random.between(-0.5, 0.5));
    let shift = random.moving(shift);
    let widest = geometry.shape().into_iter().max().unwrap_or(1);
    let shape = match (prior.any_orientation, prior.flat) {
        (true, true) => [widest, widest, 1],
        (true, false) => [widest; 3],
        (false, _) => geometry.shape(),
    };
    let half = Vector3::from_fn(|a, _| (shape[a] as f64 - 1.0) / 2.0);
    let origin = PointLps(geometry.center().0 - matrix * (half + shift));
    let grid = Geometry::new(shape, matrix, origin).unwrap_or_else(|_| geometry.clone());
    let finer = case.pyramid.level(level.saturating_sub(1))[channel].volume();
    resample(&finer, &grid, working.padding).into()
}

/// What is drawn from a resampled case; the truth stays where it is in LPS.
struct Copy {
    case: usize,
    geometry: Geometry,
    shape: [usize; 3],
    /// Where the structure is; every instance of it, where there are several.
    truths: Vec<VoxelIndex>,
    others: Option<OtherInstances>,
}

impl Copy {
    fn new(case: &TrainingCase, number: usize, volume: &Level) -> Self {
        let geometry = volume.geometry().clone();
        let others = case.others.clone();
        let instances = others.iter().flat_map(|others| &others.instances);
        let centers = std::iter::once(&case.pose).chain(instances).map(|pose| pose.center);
        let truths = centers.map(|center| geometry.to_index(center)).collect();
        Self { case: number, shape: volume.shape(), truths, geometry, others }
    }

    fn distance_to(truth: &VoxelIndex, voxel: [i32; 3]) -> f64 {
        (VoxelIndex::new(f64::from(voxel[0]), f64::from(voxel[1]), f64::from(voxel[2])).0 - truth.0)
            .norm()
    }

    /// Whether a voxel is an example of what the structure does not look like.
    fn is_negative(&self, voxel: [i32; 3], beyond: f64) -> bool {
        let [i, j, k] = voxel.map(f64::from);
        let point = || self.geometry.to_lps(VoxelIndex::new(i, j, k));
        self.truths.iter().all(|truth| Self::distance_to(truth, voxel) > beyond)
            && !self.others.as_ref().is_some_and(|others| others.is_unknown(point()))
    }

    fn inside(&self, voxel: [i32; 3]) -> bool {
        (0..3).all(|a| voxel[a] >= 0 && voxel[a] < self.shape[a] as i32)
    }

    /// Voxels near the truth as positives; as negatives half from anywhere and half from the
    /// surroundings.
    fn draw(&self, image: usize, config: &PositionConfig, seeds: Seeds) -> Labelled<VoxelSite> {
        let mut samples = Labelled::new();
        let site = |voxel| VoxelSite { image: image as u32, voxel };
        let reach = config.positive_within.ceil() as i32 + 1;
        for truth in &self.truths {
            let middle: [i32; 3] = std::array::from_fn(|a| libm::round(truth.0[a]) as i32);
            for k in -reach..=reach {
                for j in -reach..=reach {
                    for i in -reach..=reach {
                        let voxel = [middle[0] + i, middle[1] + j, middle[2] + k];
                        let off = Self::distance_to(truth, voxel);
                        if self.inside(voxel) && off <= config.positive_within {
                            samples.push(site(voxel), true, self.case);
                        }
                    }
                }
            }
        }
        let mut random = seeds.random(Stream::PositionNegatives, image);
        let shape = self.shape;
        for n in 0..config.negatives {
            let voxel: [i32; 3] = if n % 2 == 0 {
                std::array::from_fn(|a| random.below(shape[a]) as i32)
            } else {
                let beside = random.in_ball(6.0);
                let truth = match self.truths.len() {
                    1 => &self.truths[0],
                    several => &self.truths[random.below(several)],
                };
                std::array::from_fn(|a| libm::round(truth.0[a] + beside[a]) as i32)
            };
            if self.inside(voxel) && self.is_negative(voxel, config.negative_beyond) {
                samples.push(site(voxel), false, self.case);
            }
        }
        samples
    }

    /// Of the voxels with the highest scores those that are no structure.
    fn mistakes(
        &self,
        image: usize,
        best: &[([i32; 3], Score)],
        config: &PositionConfig,
    ) -> Labelled<VoxelSite> {
        let mut samples = Labelled::new();
        for &(voxel, _) in best {
            if samples.sites.len() < config.negatives / 3
                && self.is_negative(voxel, config.negative_beyond)
            {
                samples.push(VoxelSite { image: image as u32, voxel }, false, self.case);
            }
        }
        samples
    }
}
