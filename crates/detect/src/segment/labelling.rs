//! Labelling every voxel of an image, block by block.

use crate::DetectError;
use crate::segment::blocks::blocks;
use crate::segment::probability::LabelProbability;
use crate::segment::region_forest::{RegionForest, working_grid, working_image};
use crate::working::spec::working_bytes;
use pbt_tree::{BLOCK_EDGE, Block, LabelBackend, MOST_SUM_BYTES};
use pbt_volume::{Geometry, Status, Volume};
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
    /// Milliseconds of each stage.
    pub timing_ms: Vec<(String, f64)>,
}

impl RegionForest {
    /// Labels every voxel of an image, and where `probabilities` are wanted says how probable each
    /// region is there.
    ///
    /// # Errors
    /// [`DetectError::Image`] when the image cannot be used, [`DetectError::Device`] when the device
    /// fails.
    pub fn label<B: LabelBackend>(
        &self,
        backend: &B,
        image: &Volume<f32>,
        probabilities: bool,
    ) -> Result<Labelling, DetectError> {
        let edge = backend.block_edge(&self.bank, self.forest.classes);
        self.label_in_blocks(backend, image, edge, probabilities)
    }

    fn label_in_blocks<B: LabelBackend>(
        &self,
        backend: &B,
        image: &Volume<f32>,
        edge: usize,
        probabilities: bool,
    ) -> Result<Labelling, DetectError> {
        let started = Instant::now();
        let working = working_image(image, &self.intensity, self.bank.spacing_mm)?;
        let prepared = started.elapsed().as_secs_f64() * 1e3;
        let started = Instant::now();
        let places = Places::new(image.geometry(), working.geometry());
        let mut labels = vec![0; image.data().len()];
        let mut tally = Tally::new(self.forest.classes);
        let wanted = self.regions.iter().filter(|_| probabilities);
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
            tally = tally.plus(&label_block(&places, &block, &sums, image.shape(), &mut labels));
            for of in &mut probabilities {
                let class = self.regions.iter().position(|region| region.value == of.value);
                let class = class.map_or(0, |n| n + 1);
                let one = self.forest.one();
                probabilities_in_block(&places, &block, &sums, (class, one), &mut of.voxels);
            }
        }
        let values: Vec<u16> =
            std::iter::once(0).chain(self.regions.iter().map(|region| region.value)).collect();
        let labels = labels.into_iter().map(|class: u8| values[usize::from(class)]).collect();
        let voxel_ml = image.geometry().matrix().determinant().abs() / 1000.0;
        Ok(Labelling {
            labels: Volume::new(image.geometry().clone(), labels),
            regions: self.found(&tally, voxel_ml),
            probabilities,
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
            }
        };
        self.regions.iter().enumerate().map(of).collect()
    }

    /// The most bytes that [`RegionForest::label`] holds at a time, the image itself with 4 bytes a
    /// voxel among them.
    ///
    /// # Errors
    /// [`DetectError::Image`] when an image on this grid cannot be used.
    pub fn memory_bytes(&self, image: &Geometry) -> Result<u64, DetectError> {
        let grid = working_grid(image, self.bank.spacing_mm)?;
        let around = 2 * (self.bank.reach + self.bank.support());
        let block: u64 =
            grid.shape().iter().map(|&n| (n.min(BLOCK_EDGE + 1) + around) as u64).product();
        let of_voxels = |voxels: u64| voxels.saturating_mul(4 * self.forest.classes as u64);
        // A sum of four bytes and a channel of two, twice, of each filter.
        let channels = block.saturating_mul(8 * self.bank.filters.len() as u64);
        // A device may take larger blocks.
        let sums = of_voxels(block).max(of_voxels(grid.len() as u64).min(MOST_SUM_BYTES as u64));
        let labels = 3 * image.len() as u64 + 2 * grid.len() as u64;
        let preparing = working_bytes(image.len(), grid.shape());
        Ok((4 * image.len() as u64).saturating_add(preparing.max(channels + sums + labels)))
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

/// Writes the most probable class, of equals the lowest, of the image's voxels that lie in a block.
fn label_block(
    places: &Places,
    block: &Block,
    sums: &Sums<'_>,
    shape: [usize; 3],
    labels: &mut [u8],
) -> Tally {
    let planes = labels.par_chunks_mut(shape[0] * shape[1]);
    let planes = planes.map(|plane| (plane, Tally::new(sums.classes)));
    let done = at_voxels(places, block, sums, shape[0], planes, |(plane, tally), n, weights| {
        let best = (1..sums.classes)
            .fold(0, |best, class| if weights[class] > weights[best] { class } else { best });
        plane[n] = best as u8;
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
    use crate::data::case_list::CaseList;
    use crate::segment::data::{LabelledImage, RegionData, RegionName};
    use crate::segment::training::train_regions;
    use crate::train::observer::Observer;
    use nalgebra::{Matrix3, Vector3};
    use pbt_cpu::Cpu;
    use pbt_volume::{PointLps, Random};

    /// Bright balls in noise, of one grid.
    struct Balls {
        list: CaseList,
        regions: Vec<RegionName>,
    }

    impl Balls {
        fn new(count: usize) -> Self {
            let matrix = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.6));
            let origin = PointLps::new(9.0, 0.0, -4.0);
            let geometry = Geometry::new([24, 22, 15], matrix, origin).unwrap();
            Self {
                list: CaseList::made("MR", std::iter::repeat_n(geometry, count)),
                regions: vec![RegionName { name: "ball".into(), value: 300 }],
            }
        }
    }

    impl RegionData for Balls {
        type Error = DetectError;

        fn list(&self) -> &CaseList {
            &self.list
        }

        fn regions(&self) -> &[RegionName] {
            &self.regions
        }

        fn load(&self, case: usize) -> Result<LabelledImage, DetectError> {
            let mut random = Random::from_seed(case as u64);
            let middle = [12.0, 11.0, 11.0].map(|m| m + random.between(-3.0, 3.0));
            let inside = |i: usize, j: usize, k: usize| {
                let at = [i as f64, j as f64, k as f64 * 1.6];
                (0..3).map(|a| (at[a] - middle[a]).powi(2)).sum::<f64>() < 30.0
            };
            let classes = Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
                u8::from(inside(i, j, k))
            });
            let image = Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
                (100.0 * f64::from(classes.at(i, j, k)) + 40.0 * random.normal()) as f32
            });
            Ok(LabelledImage { image, classes })
        }
    }

    struct Silent;

    impl Observer for Silent {
        fn stage(&self, _structure: &str, _stage: &str, _done: f64) {}

        fn interrupted(&self) -> bool {
            false
        }

        fn checkpoint(&self, _bytes: &[u8]) -> Result<(), DetectError> {
            Ok(())
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
            let whole = forest.label_in_blocks(&Cpu, &new.image, 96, true).unwrap();
            for edge in [1, 5, 8] {
                let parts = forest.label_in_blocks(&Cpu, &new.image, edge, true).unwrap();
                assert_eq!(parts.labels, whole.labels, "{spacing_mm} {edge}");
                assert_eq!(parts.regions, whole.regions);
                assert_eq!(parts.probabilities, whole.probabilities);
            }
            // With one region, a voxel has it where it is more likely than not.
            let probable = &whole.probabilities[0].voxels;
            for (&label, &p) in whole.labels.data().iter().zip(probable.data()) {
                assert!(if label == 300 { p >= 127 } else { p <= 128 }, "{label} {p}");
            }
            let voxels = |value: u16| whole.labels.data().iter().filter(|&&v| v == value).count();
            assert_eq!(voxels(0) + voxels(300), new.image.data().len());
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
