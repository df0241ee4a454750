//! Labelling every voxel of an image, block by block.

use crate::DetectError;
use crate::segment::blocks::blocks;
use crate::segment::components::{FoundComponent, components_of};
use crate::segment::leaves;
use crate::segment::probability::LabelProbability;
use crate::segment::region_forest::{RegionForest, working_grid, working_image};
use crate::working::spec::working_bytes;
use pbt_tree::{BLOCK_EDGE, Block, LabelBackend, MOST_SUM_BYTES};
use pbt_volume::{Geometry, RealVolume, Status, Volume};
use rayon::prelude::*;
use std::time::Instant;

/// What was found of a region.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundRegion {
    /// Name of the region.
    pub name: String,
    /// Its value in the label map.
    pub value: u16,
    /// Found where it has a voxel, else absent.
    pub status: Status,
    /// Mean probability of the region over its voxels; 0 without any.
    pub score: f64,
    /// Number of its voxels.
    pub voxels: u64,
    /// Their volume, millilitres.
    pub volume_ml: f64,
    /// Number of its connected components, 26 neighbours.
    pub components: usize,
    /// The largest of them, the largest first.
    pub largest: Vec<FoundComponent>,
}

/// What is wanted of the voxels beside their labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LabelOutput {
    /// How probable each region is.
    pub probabilities: bool,
    /// Of so many trees, the first ones, the leaf that a voxel arrives at.
    pub leaves_of_trees: usize,
}

/// An image's labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Labelling {
    /// The value of each voxel's region on the image's own grid, 0 for none.
    pub labels: Volume<u16>,
    /// One entry a region, in the model's order.
    pub regions: Vec<FoundRegion>,
    /// By rising value; empty where it is not wanted.
    pub probabilities: Vec<LabelProbability>,
    /// The number of the leaf that each voxel arrives at, of each tree for which it is wanted; on
    /// the image's grid, of the nearest voxel of the working grid.
    pub leaves: Vec<Volume<u32>>,
    /// Milliseconds of each stage.
    pub timing_ms: Vec<(String, f64)>,
}

impl RegionForest {
    /// Labels every voxel of an image, and says what else is wanted of it.
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image cannot be used, [`DetectError::Device`] when the device
    /// fails.
    pub fn label<B: LabelBackend>(
        &self,
        backend: &B,
        image: &RealVolume,
        output: LabelOutput,
    ) -> Result<Labelling, DetectError> {
        let edge = backend.block_edge(&self.bank, self.forest.classes);
        self.label_in_blocks(backend, image, edge, output)
    }

    fn label_in_blocks<B: LabelBackend>(
        &self,
        backend: &B,
        image: &RealVolume,
        edge: usize,
        output: LabelOutput,
    ) -> Result<Labelling, DetectError> {
        let started = Instant::now();
        let working = working_image(image, &self.intensity, self.bank.spacing_mm)?;
        let prepared = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        let places = Places::new(image.geometry(), working.geometry());
        let trees = output.leaves_of_trees.min(self.forest.trees.len());
        let mut leaves = leaves::of_nothing(image.geometry(), trees)?;
        let mut labels = vec![0; image.geometry().len()];
        // How probable the label of each voxel is.
        let mut posteriors = vec![0.0; image.geometry().len()];
        let mut tally = Tally::new(self.forest.classes);
        let wanted = self.regions.iter().filter(|_| output.probabilities);
        let mut probabilities = LabelProbability::of_nothing(image.geometry(), wanted)?;
        for block in blocks(working.shape(), edge) {
            // Voxels of the image lie between those of the block and their next ones.
            let needed = Block {
                max: [0, 1, 2].map(|a| (block.max[a] + 1).min(working.shape()[a])),
                ..block
            };
            let channels = backend.channels((&working).into(), &self.bank, &needed)?;
            let mut sums = backend.distributions(&channels, &self.forest)?;
            self.forest.shares(&mut sums);
            let sums = Sums { block: needed, classes: self.forest.classes, sums: &sums };
            let one = self.forest.one();
            let voxels = (&mut labels[..], &mut posteriors[..]);
            tally = tally.plus(&label_block(&places, &block, (&sums, one), image.shape(), voxels));
            for of in &mut probabilities {
                let class = self.regions.iter().position(|region| region.value == of.value);
                let class = class.map_or(0, |n| n + 1);
                probabilities_in_block(&places, &block, &sums, (class, one), &mut of.voxels);
            }
            if trees > 0 {
                self.leaves_in_block(
                    backend,
                    (&channels, &places),
                    [&block, &needed],
                    &mut leaves,
                )?;
            }
        }
        let values: Vec<u16> =
            std::iter::once(0).chain(self.regions.iter().map(|region| region.value)).collect();
        let labels = labels.into_iter().map(|class: u8| values[usize::from(class)]).collect();
        let labels = Volume::new(image.geometry().clone(), labels);
        let posteriors = Volume::new(image.geometry().clone(), posteriors);
        let voxel_ml = image.geometry().matrix().determinant().abs() / 1000.0;
        let mut regions = self.found(&tally, voxel_ml);
        for (region, (components, largest)) in
            regions.iter_mut().zip(components_of(&labels, &posteriors, &values[1..])?)
        {
            (region.components, region.largest) = (components, largest);
        }
        Ok(Labelling {
            labels,
            regions,
            probabilities,
            leaves,
            timing_ms: vec![
                ("prepare".to_owned(), prepared),
                ("label".to_owned(), started.elapsed().as_secs_f64() * 1e3),
            ],
        })
    }

    fn found(&self, tally: &Tally, voxel_ml: f64) -> Vec<FoundRegion> {
        let one = f64::from(self.forest.one()) * WEIGHT_ONE as f64;
        let of = |(n, region): (usize, &crate::RegionName)| {
            let voxels = tally.voxels[n + 1];
            let status = if voxels > 0 { Status::Found } else { Status::Absent };
            FoundRegion {
                name: region.name.clone(),
                value: region.value,
                status,
                score: (tally.weights[n + 1] as f64 / one / voxels.max(1) as f64).min(1.0),
                voxels,
                volume_ml: voxels as f64 * voxel_ml,
                components: 0,
                largest: Vec::new(),
            }
        };
        self.regions.iter().enumerate().map(of).collect()
    }

    /// Writes the leaves of the image's voxels that lie in a block; its channels are for the block
    /// `needed`, with the voxels after its last ones.
    fn leaves_in_block<B: LabelBackend>(
        &self,
        backend: &B,
        (channels, places): (&B::Channels, &Places),
        [block, needed]: [&Block; 2],
        out: &mut [Volume<u32>],
    ) -> Result<(), DetectError> {
        // Voxels of the image by plane of the grid, so that one plane of leaves is in memory.
        let inside = [0, 1, 2].map(|a| places.within(a, block));
        let across = places.axes.iter().position(|&t| t == 2).unwrap_or(2);
        let [nx, ..] = needed.shape();
        for k in needed.min[2]..needed.max[2] {
            let voxels: Vec<[usize; 3]> = (needed.min[1]..needed.max[1])
                .flat_map(|j| (needed.min[0]..needed.max[0]).map(move |i| [i, j, k]))
                .collect();
            let mut wanted = inside.clone();
            wanted[across].retain(|&n| places.nearest(across, n) == k);
            if wanted[across].is_empty() {
                continue;
            }
            let trees = out.len();
            let found = leaves::leaves(backend, channels, (&self.forest, trees), &voxels)?;
            let of_tree = |(tree, out): (usize, &mut Volume<u32>)| {
                let [row, plane] = [out.shape()[0], out.shape()[0] * out.shape()[1]];
                for &z in &wanted[2] {
                    for &y in &wanted[1] {
                        for &x in &wanted[0] {
                            let mut at = [0; 3];
                            for (a, n) in [x, y, z].into_iter().enumerate() {
                                at[places.axes[a]] = places.nearest(a, n);
                            }
                            let place = (at[1] - needed.min[1]) * nx + at[0] - needed.min[0];
                            out.data_mut()[z * plane + y * row + x] = found[place * trees + tree];
                        }
                    }
                }
            };
            out.par_iter_mut().enumerate().for_each(of_tree);
        }
        Ok(())
    }

    /// The most bytes that [`RegionForest::label`] holds at a time, the image itself with so many bytes a
    /// voxel among them.
    ///
    /// # Errors
    /// [`DetectError::Image`] when an image on this grid cannot be used.
    pub fn memory_bytes(&self, image: &Geometry, voxel_bytes: u64) -> Result<u64, DetectError> {
        let grid = working_grid(image, self.bank.spacing_mm)?;
        let around = 2 * (self.bank.reach + self.bank.support());
        let block: u64 =
            grid.shape().iter().map(|&n| (n.min(BLOCK_EDGE + 1) + around) as u64).product();
        let of_voxels = |voxels: u64| voxels.saturating_mul(4 * self.forest.classes as u64);
        // A sum of four bytes and a channel of two, twice, of each filter.
        let channels = block.saturating_mul(8 * self.bank.filters.len() as u64);
        // A device may take larger blocks.
        let sums = of_voxels(block).max(of_voxels(grid.len() as u64).min(MOST_SUM_BYTES as u64));
        let labels = 7 * image.len() as u64 + 2 * grid.len() as u64;
        let preparing = working_bytes(image, grid.shape(), 1);
        Ok((voxel_bytes * image.len() as u64)
            .saturating_add(preparing.max(channels + sums + labels)))
    }
}

/// Numbers of voxels and sums of their own weights, by class.
struct Tally {
    voxels: Vec<u64>,
    weights: Vec<u128>,
}

impl Tally {
    fn new(classes: usize) -> Self {
        Self { voxels: vec![0; classes], weights: vec![0; classes] }
    }

    fn plus(mut self, other: &Self) -> Self {
        self.voxels.iter_mut().zip(&other.voxels).for_each(|(a, b)| *a += b);
        self.weights.iter_mut().zip(&other.weights).for_each(|(a, b)| *a += b);
        self
    }
}

/// Fractional bits of a place between two voxels.
const PLACE_BITS: u32 = 8;
/// The weight of all eight neighbours.
const WEIGHT_ONE: u64 = 1 << (3 * PLACE_BITS);

/// Where the voxels of an image lie on the working grid.
struct Places {
    /// By axis of the image, the axis of the grid that it runs along.
    axes: [usize; 3],
    /// By axis of the image, the place of each of its voxels with [`PLACE_BITS`] fractional bits, from
    /// 0 to that of the last voxel.
    along: [Vec<u32>; 3],
}

impl Places {
    fn new(image: &Geometry, grid: &Geometry) -> Self {
        let axes = grid.along(image);
        let one = f64::from(1 << PLACE_BITS);
        let along = [0, 1, 2].map(|a| {
            let (t, first, step) = axes[a];
            let last = (grid.shape()[t] - 1) as f64;
            let place =
                |n: usize| libm::round((first + step * n as f64).clamp(0.0, last) * one) as u32;
            (0..image.shape()[a]).map(place).collect()
        });
        Self { axes: axes.map(|(t, ..)| t), along }
    }

    /// The voxel of the grid that is nearest to the image's voxel `n` along its axis `a`.
    fn nearest(&self, a: usize, n: usize) -> usize {
        ((self.along[a][n] + (1 << (PLACE_BITS - 1))) >> PLACE_BITS) as usize
    }

    /// The voxels of the image along its axis `a` that lie in a block.
    fn within(&self, a: usize, block: &Block) -> Vec<usize> {
        let t = self.axes[a];
        let inside = |&n: &usize| {
            let whole = (self.along[a][n] >> PLACE_BITS) as usize;
            (block.min[t]..block.max[t]).contains(&whole)
        };
        (0..self.along[a].len()).filter(inside).collect()
    }
}

/// Distributions of the voxels of a block.
struct Sums<'a> {
    block: Block,
    classes: usize,
    sums: &'a [u32],
}

impl Sums<'_> {
    /// The distribution at a place of the grid, trilinear between voxels, times [`WEIGHT_ONE`].
    fn at(&self, place: [u32; 3], out: &mut [u64]) {
        let one = 1u64 << PLACE_BITS;
        let shape = self.block.shape();
        let whole = [0, 1, 2].map(|t| (place[t] >> PLACE_BITS) as usize - self.block.min[t]);
        let part = place.map(|p| u64::from(p) & (one - 1));
        out.fill(0);
        for corner in 0..8 {
            let up = [0, 1, 2].map(|t| corner >> t & 1);
            let weight: u64 =
                (0..3).map(|t| if up[t] == 1 { part[t] } else { one - part[t] }).product();
            if weight == 0 {
                continue;
            }
            let at = [0, 1, 2].map(|t| whole[t] + up[t]);
            let first = ((at[2] * shape[1] + at[1]) * shape[0] + at[0]) * self.classes;
            let sums = &self.sums[first..first + self.classes];
            out.iter_mut().zip(sums).for_each(|(out, &sum)| *out += weight * u64::from(sum));
        }
    }
}

/// Writes the most probable class, of equals the lowest, of the image's voxels that lie in a block,
/// and how probable it is; `one` is the sum of a distribution.
fn label_block(
    places: &Places,
    block: &Block,
    (sums, one): (&Sums<'_>, u32),
    shape: [usize; 3],
    (labels, posteriors): (&mut [u8], &mut [f32]),
) -> Tally {
    let plane = shape[0] * shape[1];
    let planes = labels.par_chunks_mut(plane).zip(posteriors.par_chunks_mut(plane));
    let planes = planes.map(|plane| (plane, Tally::new(sums.classes)));
    let one = f64::from(one) * WEIGHT_ONE as f64;
    let done = at_voxels(places, block, sums, shape[0], planes, |(plane, tally), n, weights| {
        let best = (1..sums.classes)
            .fold(0, |best, class| if weights[class] > weights[best] { class } else { best });
        plane.0[n] = best as u8;
        plane.1[n] = (weights[best] as f64 / one) as f32;
        tally.voxels[best] += 1;
        tally.weights[best] += u128::from(weights[best]);
    });
    done.map(|(_, tally)| tally).reduce(|| Tally::new(sums.classes), |a, b| a.plus(&b))
}

/// Writes how probable a class is at the image's voxels that lie in a block; `one` is the sum of a
/// distribution.
fn probabilities_in_block(
    places: &Places,
    block: &Block,
    sums: &Sums<'_>,
    (class, one): (usize, u32),
    probabilities: &mut Volume<u8>,
) {
    let [nx, ny, _] = probabilities.shape();
    let one = u64::from(one) * WEIGHT_ONE;
    let planes = probabilities.data_mut().par_chunks_mut(nx * ny);
    at_voxels(places, block, sums, nx, planes, |plane, n, weights| {
        plane[n] = ((weights[class] * 255 + one / 2) / one).min(255) as u8;
    })
    .for_each(drop);
}

/// Hands out the voxels of an image of `nx` columns that lie in a block, as planes of the image and
/// numbers in them, with how probable each class is there, times [`WEIGHT_ONE`].
fn at_voxels<'a, P: Send + 'a>(
    places: &'a Places,
    block: &'a Block,
    sums: &'a Sums<'a>,
    nx: usize,
    planes: impl IndexedParallelIterator<Item = P> + 'a,
    take: impl Fn(&mut P, usize, &[u64]) + Send + Sync + 'a,
) -> impl ParallelIterator<Item = P> + 'a {
    let [i, j, k] = [0, 1, 2].map(|a| places.within(a, block));
    planes.enumerate().filter(move |(plane, _)| k.binary_search(plane).is_ok()).map(
        move |(k, mut plane)| {
            let mut weights = vec![0; sums.classes];
            let mut place = [0; 3];
            place[places.axes[2]] = places.along[2][k];
            for &j in &j {
                place[places.axes[1]] = places.along[1][j];
                for &i in &i {
                    place[places.axes[0]] = places.along[0][i];
                    sums.at(place, &mut weights);
                    take(&mut plane, j * nx + i, &weights);
                }
            }
            plane
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TrainConfig;
    use crate::segment::data::RegionData;
    use crate::segment::test_data::{Balls, Silent};
    use crate::segment::training::train_regions;
    use pbt_cpu::Cpu;

    /// What is wrong with the leaves of trees, where the grid of the forest is that of the image: a
    /// voxel's probabilities are the mean of its leaves.
    fn check_leaves(forest: &RegionForest, labelling: &Labelling) {
        let tree_count = forest.forest.trees.len();
        assert_eq!(labelling.leaves.len(), tree_count);
        for (n, &label) in labelling.labels.data().iter().enumerate() {
            let mut sums = vec![0; forest.forest.classes];
            for (tree, leaves) in forest.forest.trees.iter().zip(&labelling.leaves) {
                let leaf = leaves.data()[n] as usize;
                forest.forest.add(&tree.leaves[leaf * sums.len()..][..sums.len()], &mut sums);
            }
            assert_eq!(label, if sums[1] > sums[0] { 300 } else { 0 }, "{n}");
        }
    }

    /// As tables of a forest, so for leaves: on a grid that is the image's own.
    #[test]
    fn leaves_add_up_to_the_labels() {
        let mut new = Balls::new(8).load(7).unwrap();
        let geometry = Geometry::isotropic(new.image.shape(), 1.0).unwrap();
        new.image = new.image.on(geometry);
        let forest = trained(1.0);
        let output = LabelOutput { leaves_of_trees: usize::MAX, ..LabelOutput::default() };
        let found = forest.label_in_blocks(&Cpu, &new.image, 8, output).unwrap();
        check_leaves(&forest, &found);
        let first = LabelOutput { leaves_of_trees: 1, ..LabelOutput::default() };
        let first = forest.label(&Cpu, &new.image, first).unwrap();
        assert!(first.leaves[..] == found.leaves[..1] && first.labels == found.labels);
        assert_eq!(first.regions, found.regions);
        let components: u64 = found.regions[0].largest.iter().map(|c| c.voxels).sum();
        if found.regions[0].components <= 10 {
            assert_eq!(components, found.regions[0].voxels);
        }
    }

    fn trained(spacing_mm: f64) -> RegionForest {
        let text = format!(
            "working.spacing_mm = {spacing_mm}\n[regions]\nfeatures = 60\nsamples = 3000\n\
             forest = {{ trees = 4, depth = 6, features_per_node = 0.2 }}"
        );
        let config = TrainConfig::from_toml(&text).unwrap();
        let model = train_regions(&Cpu, &Balls::new(3), &config, 0, &Silent).unwrap().model;
        // As a file it is the same.
        let again = crate::Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
        assert_eq!(again, model);
        model.regions.unwrap()
    }

    #[test]
    fn blocks_do_not_show_and_the_ball_is_found() {
        let new = Balls::new(8).load(7).unwrap();
        for spacing_mm in [1.0, 1.25, 2.3] {
            let forest = trained(spacing_mm);
            let all = LabelOutput { probabilities: true, leaves_of_trees: usize::MAX };
            let whole = forest.label_in_blocks(&Cpu, &new.image, 96, all).unwrap();
            // Blocks of single voxels take a minute on the finer grids.
            let smallest = if spacing_mm > 2.0 { 1 } else { 3 };
            for edge in [smallest, 5, 8] {
                let parts = forest.label_in_blocks(&Cpu, &new.image, edge, all).unwrap();
                assert_eq!(parts.labels, whole.labels, "{spacing_mm} {edge}");
                assert_eq!(parts.regions, whole.regions);
                assert_eq!(parts.probabilities, whole.probabilities);
                assert!(parts.leaves == whole.leaves, "{spacing_mm} {edge}");
            }
            // With one region, a voxel has it where it is more likely than not.
            let probable = &whole.probabilities[0].voxels;
            for (&label, &p) in whole.labels.data().iter().zip(probable.data()) {
                assert!(if label == 300 { p >= 127 } else { p <= 128 }, "{label} {p}");
            }
            let voxels = |value: u16| whole.labels.data().iter().filter(|&&v| v == value).count();
            assert_eq!(voxels(0) + voxels(300), new.image.geometry().len());
            let both = whole.labels.data().iter().zip(new.classes.data());
            let both = both.filter(|(label, class)| **label == 300 && **class == 1).count();
            let truth = new.classes.data().iter().filter(|&&class| class == 1).count();
            let dice = 2.0 * both as f64 / (truth + voxels(300)) as f64;
            assert!(dice > 0.8, "{spacing_mm}: {dice}");
            let found = &whole.regions[0];
            assert_eq!((found.voxels, found.status), (voxels(300) as u64, Status::Found));
            assert!((found.volume_ml - voxels(300) as f64 * 1.6e-3).abs() < 1e-12);
            assert!((0.5..=1.0).contains(&found.score));
        }
    }
}
