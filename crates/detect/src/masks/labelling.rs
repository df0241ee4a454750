//! From the masks of all boxes to one label a voxel of the image.

use crate::certainty::evidence::label_evidence;
use crate::masks::decision::decided;
use crate::masks::quality::signs;
use crate::masks::stage::{Mask, MaskStage};
use pbt_tree::LEAF_ONE;
use pbt_volume::{Geometry, Volume, VoxelIndex};
use rayon::prelude::*;

/// One label about a box.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelFound {
    /// Its name.
    pub name: String,
    /// Its value in label maps.
    pub value: u16,
    /// Voxels of the image that have it.
    pub voxels: u64,
    /// Their volume, millilitres.
    pub volume_ml: f64,
    /// Between these the true volume lies in 90 % of cases; `None` where the model was trained on
    /// too few to tell.
    pub volume_90_ml: Option<[f64; 2]>,
    /// The Dice coefficient to expect; `None` where too few cases tell.
    pub predicted_dice: Option<f64>,
    /// Whether fewer than one in twenty masks of training cases have so low an expectation.
    pub doubtful: bool,
}

/// The labels of an image under way.
pub(crate) struct Labelling {
    labels: Volume<u16>,
    /// How probable the label of each voxel is.
    shares: Vec<u16>,
}

/// Fractional bits of a place between two voxels.
const PLACE_BITS: u32 = 8;

impl Labelling {
    /// Of an image on this grid, without labels.
    pub(crate) fn new(image: &Geometry) -> Self {
        let labels = Volume::filled(image.clone(), 0);
        Self { shares: vec![0; labels.data().len()], labels }
    }

    /// Adds a mask, the grid of a frame and how probable each class is at each of its voxels: a voxel
    /// gets the class that is [`decided`], unless it has a more probable label of another box. `values`
    /// are those of the classes from 1 on.
    pub(crate) fn add(&mut self, mask: (&Geometry, &[u32]), values: &[u16], weight: u32) {
        let classes = values.len() + 1;
        let image = self.labels.geometry().clone();
        let [nx, ny, _] = image.shape();
        let labels = self.labels.data_mut().par_chunks_mut(nx * ny);
        let planes = labels.zip(self.shares.par_chunks_mut(nx * ny));
        at_voxels(&image, mask, classes, planes, |(labels, shares), n, found| {
            let best = decided(found, weight);
            let share = (found[best] >> (3 * PLACE_BITS)).min(65_535) as u16;
            if best > 0 && share > shares[n] {
                (labels[n], shares[n]) = (values[best - 1], share);
            }
        });
    }

    /// The labels.
    pub(crate) fn finish(self) -> Volume<u16> {
        self.labels
    }
}

/// Adds how probable a class of a mask is at the voxels of an image, in 255ths; where another box says
/// more, that stays.
pub(crate) fn add_probabilities(
    probabilities: &mut Volume<u8>,
    mask: (&Geometry, &[u32]),
    (class, classes): (usize, usize),
) {
    let image = probabilities.geometry().clone();
    let [nx, ny, _] = image.shape();
    let one = u64::from(LEAF_ONE) << (3 * PLACE_BITS);
    let planes = probabilities.data_mut().par_chunks_mut(nx * ny);
    at_voxels(&image, mask, classes, planes, |plane, n, found| {
        let share = (found[class] * 255 + one / 2) / one;
        plane[n] = plane[n].max(share.min(255) as u8);
    });
}

/// Hands out the voxels of an image that a mask reaches, as planes of the image and numbers in them,
/// with how probable each class is there, times 2 to three [`PLACE_BITS`].
fn at_voxels<P: Send>(
    image: &Geometry,
    (grid, of): (&Geometry, &[u32]),
    classes: usize,
    planes: impl IndexedParallelIterator<Item = P>,
    take: impl Fn(&mut P, usize, &[u64]) + Sync,
) {
    let Some((first, last)) = range(image, grid) else { return };
    let steps = grid.inverse() * image.matrix();
    let place = |j: usize, k: usize| {
        grid.to_index(image.to_lps(VoxelIndex::new(0.0, j as f64, k as f64))).0.coords
    };
    let nx = image.shape()[0];
    let planes = planes.enumerate().filter(|(k, _)| (first[2]..=last[2]).contains(k));
    planes.for_each(|(k, mut plane)| {
        let mut found = vec![0u64; classes];
        for j in first[1]..=last[1] {
            let row = place(j, k);
            for i in first[0]..=last[0] {
                let at = row + steps.column(0) * i as f64;
                if trilinear(of, grid.shape(), [at.x, at.y, at.z], &mut found) {
                    take(&mut plane, j * nx + i, &found);
                }
            }
        }
    });
}

/// The first and last voxels of an image, on each axis, that a grid may reach.
fn range(image: &Geometry, grid: &Geometry) -> Option<([usize; 3], [usize; 3])> {
    let corners = grid.corners().map(|corner| image.to_index(grid.to_lps(corner)).0);
    let (mut first, mut last) = ([0; 3], [0; 3]);
    for a in 0..3 {
        let end = image.shape()[a] as f64 - 1.0;
        let low = corners.iter().fold(f64::INFINITY, |low, c| low.min(c[a])).floor().max(0.0);
        let high = corners.iter().fold(f64::NEG_INFINITY, |h, c| h.max(c[a])).ceil().min(end);
        if low > high {
            return None;
        }
        (first[a], last[a]) = (low as usize, high as usize);
    }
    Some((first, last))
}

/// The shares at a place of the grid of a mask, trilinear, times 2 to three [`PLACE_BITS`]; false
/// beyond the middles of its outermost voxels.
fn trilinear(of: &[u32], shape: [usize; 3], at: [f64; 3], out: &mut [u64]) -> bool {
    let one = f64::from(1 << PLACE_BITS);
    let mut whole = [0usize; 3];
    let mut part = [0u64; 3];
    for a in 0..3 {
        if !(at[a] >= 0.0 && at[a] <= (shape[a] - 1) as f64) {
            return false;
        }
        let fixed = libm::round(at[a] * one) as u64;
        whole[a] = (fixed >> PLACE_BITS) as usize;
        part[a] = fixed & ((1 << PLACE_BITS) - 1);
    }
    out.fill(0);
    let classes = out.len();
    for corner in 0..8 {
        let up = [0, 1, 2].map(|a| corner >> a & 1);
        let weight: u64 = (0..3)
            .map(|a| if up[a] == 1 { part[a] } else { (1 << PLACE_BITS) - part[a] })
            .product();
        if weight == 0 {
            continue;
        }
        let [i, j, k] = [0, 1, 2].map(|a| (whole[a] + up[a]).min(shape[a] - 1));
        let first = ((k * shape[1] + j) * shape[0] + i) * classes;
        let shares = &of[first..first + classes];
        out.iter_mut().zip(shares).for_each(|(out, &share)| *out += weight * u64::from(share));
    }
    true
}

impl MaskStage {
    /// What there is to say of each label of a box, by the label map of the whole image.
    pub(crate) fn found(&self, own: usize, mask: &Mask, labels: &Volume<u16>) -> Vec<LabelFound> {
        let voxel_ml = labels.geometry().matrix().determinant().abs() / 1000.0;
        let predicted = self.predicted_dice(&mask.shares);
        let of = |(n, label): (usize, &crate::RegionName)| {
            let voxels = labels.data().par_iter().filter(|&&v| v == label.value).count() as u64;
            let volume_ml = voxels as f64 * voxel_ml;
            let quality = self.quality.as_ref();
            let bounds = |log: f64| [volume_ml * libm::exp(-log), volume_ml * libm::exp(log)];
            // What has no voxels overlaps nothing.
            let expected = |dices: &Vec<f64>| if voxels == 0 { 0.0 } else { dices[n] };
            let predicted_dice = predicted.as_ref().map(expected);
            let below = quality.map_or(0.0, |quality| quality.doubtful_below);
            LabelFound {
                name: label.name.clone(),
                value: label.value,
                voxels,
                volume_ml,
                volume_90_ml: quality.and_then(|q| q.log_volume_90[n]).map(bounds),
                predicted_dice,
                doubtful: voxels == 0 || predicted_dice.is_some_and(|dice| dice < below),
            }
        };
        self.labels[own].iter().enumerate().map(of).collect()
    }

    /// The Dice coefficient to expect of each label of a box, by how probable the classes of the voxels of
    /// its frame are; none where nothing is known.
    fn predicted_dice(&self, shares: &[u32]) -> Option<Vec<f64>> {
        let quality = self.quality.as_ref()?;
        let of = |class: usize| {
            let (classes, likely) = ((self.classes(), class), self.likely(class));
            quality.predicted_dice(&signs(shares, classes, self.label_weight, &likely))
        };
        Some((1..self.classes()).map(of).collect())
    }

    /// The largest Dice coefficient to expect of a label, where that is so small that the box is doubtful.
    pub(crate) fn contradicts(&self, shares: &[u32]) -> Option<f64> {
        let most = self.expected_of_best(shares)?;
        (most < self.quality.as_ref()?.box_doubtful_below).then_some(most)
    }

    fn expected_of_best(&self, shares: &[u32]) -> Option<f64> {
        self.predicted_dice(shares)?.into_iter().reduce(f64::max)
    }

    /// What the labels of a box say of its place; 0 where nothing is known.
    pub(crate) fn evidence(&self, shares: &[u32]) -> f64 {
        self.expected_of_best(shares).map_or(0.0, label_evidence)
    }

    /// Where a class is more likely than not before the image is seen.
    pub(crate) fn likely(&self, class: usize) -> Vec<bool> {
        let even = pbt_features::CHANNEL_ZERO;
        self.prior[class - 1].data().iter().map(|&value| value > even).collect()
    }
}
