//! How often a label is where in the frame, before any image is seen.

use crate::segment::data::IGNORED;
use pbt_features::{CHANNEL_ZERO, MAX_CHANNEL};
use pbt_volume::{Geometry, Volume};
use rayon::prelude::*;
use std::collections::BTreeSet;

/// Units of a layer to a nat of log-odds: 12 bits hold ±8 nats.
const UNITS: f64 = 256.0;

/// A voxel counts where some label has been there in so large a part of the training frames. Above
/// 0.03, one voxel in fifty of a structure would be lost.
const LEAST_SHARE: f64 = 0.003;

/// Where a label has been there in less than this part of them, or in all others, the prior nearly
/// tells.
const SURE_SHARE: f64 = 0.02;

/// Log-odds of this share as a layer has them.
fn units(share: f64) -> u16 {
    let log_odds = libm::log(share / (1.0 - share));
    let value = f64::from(CHANNEL_ZERO) + log_odds * UNITS;
    libm::round(value.clamp(0.0, f64::from(MAX_CHANNEL))) as u16
}

/// The layers of the labels, one each.
pub(crate) type Layers = Vec<Volume<u16>>;

/// Parts of the subjects that are left out of a prior together, at most.
const PARTS: usize = 20;

/// The layers from all subjects, and for each without its own labels: what a new image has is no
/// better.
pub(crate) struct Priors {
    /// From all.
    pub(crate) all: Layers,
    /// By part, without its subjects.
    parts: Vec<Layers>,
}

impl Priors {
    /// From the subjects of training frames and the classes of their voxels.
    pub(crate) fn new(grid: &Geometry, labels: usize, frames: &[(usize, &[u8])]) -> Self {
        let subjects: BTreeSet<usize> = frames.iter().map(|(subject, _)| *subject).collect();
        let parts = if subjects.len() > 1 { subjects.len().min(PARTS) } else { 0 };
        let without = |part: usize| {
            let others = frames.iter().filter(|(subject, _)| subject % parts != part);
            layers(grid, labels, others.map(|(_, classes)| *classes))
        };
        Self {
            all: layers(grid, labels, frames.iter().map(|(_, classes)| *classes)),
            parts: (0..parts).into_par_iter().map(without).collect(),
        }
    }

    /// Without a subject, if there are others.
    pub(crate) fn without(&self, subject: usize) -> &[Volume<u16>] {
        match self.parts.len() {
            0 => &self.all,
            parts => &self.parts[subject % parts],
        }
    }
}

/// The layers of labels 1 to `labels`, from the classes of the voxels of training frames.
fn layers<'a>(grid: &Geometry, labels: usize, frames: impl Iterator<Item = &'a [u8]>) -> Layers {
    let mut counts = vec![vec![0u32; grid.len()]; labels];
    let mut all = 0;
    for classes in frames {
        all += 1;
        let labelled = |class: u8| class > 0 && class != IGNORED;
        for (n, &class) in classes.iter().enumerate().filter(|(_, class)| labelled(**class)) {
            if let Some(counts) = counts.get_mut(usize::from(class) - 1) {
                counts[n] += 1;
            }
        }
    }
    let layer = |counts: &Vec<u32>| {
        let smooth = cube_sums(counts, grid.shape());
        // A fiftieth of a frame on either side keeps off 0 and 1.
        let share = |&(sum, voxels): &(u32, u32)| {
            (f64::from(sum) / f64::from(voxels) + 0.02) / (f64::from(all) + 0.04)
        };
        Volume::new(grid.clone(), smooth.iter().map(|cube| units(share(cube))).collect())
    };
    counts.iter().map(layer).collect()
}

/// Sums over the cube of 3 voxels about each, as far as it lies on the grid, and its voxels.
fn cube_sums(values: &[u32], [nx, ny, nz]: [usize; 3]) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(values.len());
    let near = |n: usize, count: usize| n.saturating_sub(1)..(n + 2).min(count);
    for k in 0..nz {
        for j in 0..ny {
            for i in 0..nx {
                let (mut sum, mut voxels) = (0, 0);
                for c in near(k, nz) {
                    for b in near(j, ny) {
                        for a in near(i, nx) {
                            sum += values[(c * ny + b) * nx + a];
                            voxels += 1;
                        }
                    }
                }
                out.push((sum, voxels));
            }
        }
    }
    out
}

/// A voxel where a label may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its number in the grid, the first axis running fastest.
    pub(crate) voxel: u32,
    /// Whether the prior nearly tells which label.
    pub(crate) sure: bool,
}

impl Candidate {
    /// Where it lies in a grid of so many voxels along the first two axes.
    pub(crate) fn at(self, nx: usize, ny: usize) -> [usize; 3] {
        let (nx, ny) = (nx as u32, ny as u32);
        let row = self.voxel / nx;
        [self.voxel % nx, row % ny, row / ny].map(|n| n as usize)
    }
}

/// The voxels where a label may be, in rising order.
pub(crate) fn candidates(layers: &[Volume<u16>]) -> Vec<Candidate> {
    let [least, low, high] = [LEAST_SHARE, SURE_SHARE, 1.0 - SURE_SHARE].map(units);
    let count = layers.first().map_or(0, |layer| layer.data().len());
    let values = |n: usize| layers.iter().map(move |layer| layer.data()[n]);
    let candidate = |n: usize| Candidate {
        voxel: n as u32,
        sure: values(n).all(|value| value < low || value > high),
    };
    (0..count).filter(|&n| values(n).any(|value| value >= least)).map(candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_log_odds_and_what_never_was_is_left_out() {
        let grid = Geometry::isotropic([9, 3, 3], 1.0).unwrap();
        // Label 1 fills the left third in all frames, label 2 the next plane in half of them.
        let frame = |second: bool| -> Vec<u8> {
            (0..81)
                .map(|n| match n % 9 {
                    0..=2 => 1,
                    3 if second => 2,
                    _ => 0,
                })
                .collect()
        };
        let frames: Vec<Vec<u8>> = (0..40).map(|n| frame(n % 2 == 0)).collect();
        let layers = layers(&grid, 2, frames.iter().map(|f| &f[..]));
        let at = |label: usize, i: usize| layers[label].at(i, 1, 1);
        assert!(at(0, 1) > 3900 && at(0, 6) < 200, "{} {}", at(0, 1), at(0, 6));
        // A third of the cube has it, in half of the frames.
        assert_eq!(at(1, 3), units((20.0 / 3.0 + 0.02) / 40.04));
        let candidates = candidates(&layers);
        let columns: std::collections::BTreeSet<u32> =
            candidates.iter().map(|c| c.voxel % 9).collect();
        assert_eq!(columns.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }
}
