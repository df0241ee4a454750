//! Haar responses at scattered voxels, for training, and scores: of every voxel of a level, row by
//! row, or of listed ones.

use crate::image::Tables;
use crate::{Cpu, CpuImage, room};
use pbt_features::{BoundHaar, HaarFeature};
use pbt_tree::{Classifier, DeviceError, Evaluate, Haar, Score, VoxelSite, Voxels};
use pbt_volume::IntegralVolume;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

impl Evaluate<Haar> for Cpu {
    fn responses(
        &self,
        images: &[&CpuImage],
        _: &Haar,
        features: &[HaarFeature],
        sites: &[VoxelSite],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        responses(images, features, sites, out);
        Ok(())
    }

    fn score(
        &self,
        image: &CpuImage,
        _: &Haar,
        features: &[HaarFeature],
        classifier: &Classifier,
        voxels: &Voxels,
    ) -> Result<Vec<Score>, DeviceError> {
        Ok(match voxels {
            Voxels::All => score(image, features, classifier),
            Voxels::At(voxels) => score_at(image, features, classifier, voxels),
        })
    }
}

fn responses(images: &[&CpuImage], features: &[HaarFeature], sites: &[VoxelSite], out: &mut [i32]) {
    // As many images at a time as there is room for the tables of.
    let mut first = 0;
    while first < images.len() {
        let mut bytes = 0;
        let fits = |image: &&&CpuImage| {
            bytes += image.integral_bytes();
            bytes <= room::most() / 2
        };
        let last = first + images[first..].iter().take_while(fits).count().max(1);
        responses_of(images, first..last, features, sites, out);
        first = last;
    }
}

/// Those at the sites in some of the images.
fn responses_of(
    images: &[&CpuImage],
    of: Range<usize>,
    features: &[HaarFeature],
    sites: &[VoxelSite],
    out: &mut [i32],
) {
    let is_there = |s: &usize| of.contains(&(sites[*s].image as usize));
    let here: Vec<usize> = (0..sites.len()).filter(is_there).collect();
    if here.is_empty() {
        return;
    }
    let tables: Vec<Arc<Tables>> = images[of.clone()].iter().map(|image| image.tables()).collect();
    let place = |&s: &usize| {
        let integral = tables[sites[s].image as usize - of.start].integral();
        (s, integral, integral.offset(sites[s].voxel))
    };
    let places: Vec<(usize, &IntegralVolume, usize)> = here.iter().map(place).collect();
    out.par_chunks_mut(sites.len()).zip(features).for_each(|(row, feature)| {
        let mut bound = None;
        for &(s, integral, base) in &places {
            // Sites of one image follow each other as a rule, so that binding is rare.
            let current = match bound.take() {
                Some((strides, b)) if strides == integral.strides() => (strides, b),
                _ => (integral.strides(), feature.bind(integral.strides())),
            };
            row[s] = current.1.response(integral.table(), base);
            bound = Some(current);
        }
    });
}

/// Voxels that go through a tree together, about: a node's features then pass over memory that stays in
/// the fastest cache, and so does what it keeps of them.
const BLOCK: usize = 1024;

fn score(image: &CpuImage, features: &[HaarFeature], classifier: &Classifier) -> Vec<Score> {
    let tables = image.tables();
    let integral = tables.integral();
    let scorer = Scorer::new(integral, features, classifier);
    let [nx, ny, nz] = integral.shape();
    let mut scores = vec![Score(0); nx * ny * nz];
    let rows = BLOCK.div_ceil(nx);
    scores.par_chunks_mut(rows * nx).enumerate().for_each(|(block, out)| {
        let first_of = |row: usize| integral.offset([0, (row % ny) as i32, (row / ny) as i32]);
        let firsts = (block * rows..block * rows + out.len() / nx).map(first_of);
        let bases: Vec<usize> = firsts.flat_map(|first| first..first + nx).collect();
        scorer.score(&bases, out);
    });
    scores
}

fn score_at(
    image: &CpuImage,
    features: &[HaarFeature],
    classifier: &Classifier,
    voxels: &[[i32; 3]],
) -> Vec<Score> {
    let tables = image.tables();
    let integral = tables.integral();
    let scorer = Scorer::new(integral, features, classifier);
    let mut scores = vec![Score(0); voxels.len()];
    scores.par_chunks_mut(BLOCK).zip(voxels.par_chunks(BLOCK)).for_each(|(out, voxels)| {
        let bases: Vec<usize> = voxels.iter().map(|&voxel| integral.offset(voxel)).collect();
        scorer.score(&bases, out);
    });
    scores
}

/// A classifier made ready for an integral volume.
struct Scorer<'a> {
    table: &'a [u32],
    features: Vec<BoundHaar>,
    classifier: &'a Classifier,
    arch: pulp::Arch,
}

impl<'a> Scorer<'a> {
    fn new(
        integral: &'a IntegralVolume,
        features: &[HaarFeature],
        classifier: &'a Classifier,
    ) -> Self {
        let features = features.iter().map(|f| f.bind(integral.strides())).collect();
        Self { table: integral.table(), features, classifier, arch: pulp::Arch::new() }
    }

    /// Writes the scores of the voxels of a block, which stand at `bases` in the table.
    fn score(&self, bases: &[usize], out: &mut [Score]) {
        let of_all = runs(bases.len(), |n| bases[n]);
        let mut span = Vec::new();
        let mut respond = |id: u32, places: &[u32], responses: &mut [i32]| {
            let feature = &self.features[id as usize];
            let base = |n: usize| bases[places[n] as usize];
            if places.len() == bases.len() {
                self.respond(feature, &of_all, base, responses, &mut span);
            } else {
                self.respond(feature, &runs(places.len(), base), base, responses, &mut span);
            }
        };
        self.classifier.score_block(&mut respond, out);
    }

    /// Writes the responses of a feature at voxels that stand at `base` of their number.
    fn respond(
        &self,
        feature: &BoundHaar,
        runs: &[Range<usize>],
        base: impl Fn(usize) -> usize,
        responses: &mut [i32],
        span: &mut Vec<i32>,
    ) {
        let (taps, table) = (feature.taps(), self.table);
        for run in runs {
            let (first, last) = (base(run.start), base(run.end - 1));
            let responses = &mut responses[run.clone()];
            if run.len() < FEW {
                for (n, response) in run.clone().zip(responses) {
                    *response = feature.response(table, base(n));
                }
            } else if last - first + 1 == run.len() {
                self.arch.dispatch(Row { taps, table, first, responses });
            } else {
                span.resize(last - first + 1, 0);
                self.arch.dispatch(Row { taps, table, first, responses: span });
                for (n, response) in run.clone().zip(responses) {
                    *response = span[base(n) - first];
                }
            }
        }
    }
}

/// Voxels at most so far from each other along a row are one run.
const GAP: usize = 3;

/// Shorter runs gain nothing from being one.
const FEW: usize = 6;

/// Voxels, by their numbers, that follow each other along a row, with small gaps.
fn runs(count: usize, base: impl Fn(usize) -> usize) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    let mut start = 0;
    for n in 1..=count {
        let goes_on = n < count && (1..=GAP).contains(&base(n).wrapping_sub(base(n - 1)));
        if !goes_on {
            runs.push(start..n);
            start = n;
        }
    }
    runs
}

/// The responses of a feature along a row: neighbouring voxels read neighbouring corners, so whole
/// rows are added at once. `pulp` picks the widest instructions; integers make the choice
/// invisible.
struct Row<'a> {
    taps: &'a [(isize, i32)],
    table: &'a [u32],
    /// Place in the table of the low corner of the row's first voxel.
    first: usize,
    responses: &'a mut [i32],
}

impl pulp::NullaryFnOnce for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        self.responses.fill(0);
        for &(offset, weight) in self.taps {
            let start = self.first.wrapping_add_signed(offset);
            let corners = &self.table[start..start + self.responses.len()];
            // Nearly all weights are ±1 and ±2: additions are cheaper than multiplications.
            match weight {
                1 => self
                    .responses
                    .iter_mut()
                    .zip(corners)
                    .for_each(|(r, &c)| *r = r.wrapping_add(c as i32)),
                -1 => self
                    .responses
                    .iter_mut()
                    .zip(corners)
                    .for_each(|(r, &c)| *r = r.wrapping_sub(c as i32)),
                2 => self
                    .responses
                    .iter_mut()
                    .zip(corners)
                    .for_each(|(r, &c)| *r = r.wrapping_add((c << 1) as i32)),
                -2 => self
                    .responses
                    .iter_mut()
                    .zip(corners)
                    .for_each(|(r, &c)| *r = r.wrapping_sub((c << 1) as i32)),
                w => self
                    .responses
                    .iter_mut()
                    .zip(corners)
                    .for_each(|(r, &c)| *r = r.wrapping_add((c as i32).wrapping_mul(w))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_features::{HaarPoolConfig, haar_pool};
    use pbt_tree::{Bounds, EvalParams, Evaluator, ImageLayout, Node, Tree, Weak};
    use pbt_volume::{Geometry, Padding, Volume};

    fn tree(features: u32) -> Tree {
        let weak = |f: u32| Weak {
            feature: f,
            bounds: Bounds::new(-200_000, 200_000),
            votes: 0xFFFF_FFFF_0F0F_00FF,
            alpha: 9000 + f as i32 * 977,
        };
        let leaf = |positive| Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive };
        let half = features / 2;
        Tree {
            nodes: vec![
                Node { first_weak: 0, weak_count: half, left: 1, right: 2, positive: 1 << 31 },
                leaf(1 << 20),
                Node {
                    first_weak: half,
                    weak_count: features - half,
                    left: 3,
                    right: 4,
                    positive: 3 << 30,
                },
                leaf(1 << 30),
                leaf(u32::MAX - 5),
            ],
            weaks: (0..features).map(weak).collect(),
        }
    }

    /// The plain form, voxel by voxel and cuboid by cuboid, is the oracle; threads do not show.
    #[test]
    fn rows_equal_single_voxels() {
        let geometry = Geometry::isotropic([21, 10, 9], 1.0).unwrap();
        let volume = Volume::from_fn(geometry, |i, j, k| {
            ((i * 7919 + j * 104_729 + k * 1_299_709).wrapping_mul(2_654_435_761) >> 9 & 4095)
                as u16
        });
        let features =
            haar_pool(&HaarPoolConfig { features: 24, radius: 4, ..HaarPoolConfig::default() }, 3);
        for eval in [EvalParams::default(), EvalParams::HARD] {
            let classifier = Classifier { trees: vec![tree(24)], eval: Evaluator::new(eval) };
            let layout =
                ImageLayout { padding: Padding::Edge, haar: Some((0, 4)), channels: vec![] };
            let image = CpuImage::new(&[volume.clone().into()], &layout);
            let run = |threads| {
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap()
                    .install(|| score(&image, &features, &classifier))
            };
            let scores = run(1);
            assert_eq!(scores, run(3));
            for (n, found) in scores.iter().enumerate() {
                let voxel = [n % 21, n / 21 % 10, n / 210].map(|v| v as i32);
                let expected = classifier.score(&mut |id| {
                    features[id as usize].response(image.tables().integral(), voxel)
                });
                assert_eq!(*found, expected, "voxel {voxel:?}");
            }
            let listed: Vec<usize> = (0..scores.len()).rev().step_by(7).collect();
            let voxels: Vec<[i32; 3]> =
                listed.iter().map(|n| [n % 21, n / 21 % 10, n / 210].map(|v| v as i32)).collect();
            let expected: Vec<Score> = listed.iter().map(|&n| scores[n]).collect();
            assert_eq!(score_at(&image, &features, &classifier, &voxels), expected);
        }
    }
}
