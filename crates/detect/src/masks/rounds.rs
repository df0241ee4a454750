//! One round of labelling: trees, and what their labels say of the frame.

use crate::DetectError;
use crate::masks::frame::FrameGrid;
use crate::masks::moments::moments;
use crate::masks::prior::Candidate;
use crate::pose::step::Step;
use crate::segment::blocks::blocks;
use nalgebra::Vector3;
use pbt_linear::LinearMap;
use pbt_tree::{ChannelBank, LEAF_ONE, LabelBackend, LabelForest, Layered};
use pbt_volume::{Pose, Volume};
use rayon::prelude::*;
use std::borrow::Cow;

/// One round.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskRound {
    /// The channels.
    pub bank: ChannelBank,
    /// Boosted trees.
    pub forest: LabelForest,
    /// From the labels to a better frame.
    pub refit: Refit,
}

impl MaskRound {
    /// How probable each class is at each voxel of a frame, classes together, sum
    /// [`LEAF_ONE`]; the background beyond the candidates.
    pub(crate) fn shares<B: LabelBackend>(
        &self,
        backend: &B,
        frame: Layered<'_>,
        candidates: &[Candidate],
    ) -> Result<Vec<u32>, DetectError> {
        shares(backend, frame, (&self.bank, &self.forest), candidates)
    }
}

/// The layers of a frame in the order of a round's channels: what the round before said, then the
/// prior, then what an image of several channels shows beside the first.
pub(crate) fn layers<'a>(
    before: &'a [Volume<u16>],
    prior: &'a [Volume<u16>],
    further: &'a [Volume<u16>],
) -> Vec<&'a Volume<u16>> {
    before.iter().chain(prior).chain(further).collect()
}

/// A frame has few voxels, so that it is one block, unless it is longer than the rows that every device
/// can sum.
const LONGEST_EDGE: usize = 1024;

/// Voxels that a thread takes at a time.
const AT_ONCE: usize = 1 << 13;

/// As [`MaskRound::shares`], by any forest.
pub(crate) fn shares<B: LabelBackend>(
    backend: &B,
    frame: Layered<'_>,
    (bank, forest): (&ChannelBank, &LabelForest),
    candidates: &[Candidate],
) -> Result<Vec<u32>, DetectError> {
    let (classes, shape) = (forest.classes, frame.image.shape());
    let [nx, ny, _] = shape;
    let number = |[i, j, k]: [usize; 3]| (k * ny + j) * nx + i;
    let mut all = vec![0; frame.image.data().len() * classes];
    all.par_chunks_mut(AT_ONCE * classes).for_each(|some| {
        some.chunks_exact_mut(classes).for_each(|shares| shares[0] = LEAF_ONE);
    });
    let at = |candidate: &Candidate| candidate.at(nx, ny);
    let voxels: Vec<[usize; 3]> = candidates.par_iter().with_min_len(AT_ONCE).map(at).collect();
    for block in blocks(shape, LONGEST_EDGE) {
        let inside = |v: &[usize; 3]| (0..3).all(|a| (block.min[a]..block.max[a]).contains(&v[a]));
        let own: Cow<'_, [[usize; 3]]> = match block.shape() == shape {
            true => (&voxels).into(),
            false => voxels.iter().copied().filter(inside).collect(),
        };
        if own.is_empty() {
            continue;
        }
        let channels = backend.channels(frame, bank, &block)?;
        let mut shares = backend.distributions_at(&channels, forest, &own)?;
        forest.shares(&mut shares);
        for (&voxel, shares) in own.iter().zip(shares.chunks_exact(classes)) {
            all[number(voxel) * classes..][..classes].copy_from_slice(shares);
        }
    }
    Ok(all)
}

/// A linear map from the moments of labels to the step from their frame to the box.
#[derive(Debug, Clone, PartialEq)]
pub struct Refit {
    /// Nine numbers: shift along each axis in edges of the box, rotation vector, log ratios of edges.
    pub map: LinearMap<i32>,
    /// How much of its shift, rotation and size is taken, 0 to 1: as much as brings held-out boxes
    /// nearest to the truth.
    pub taken: [f64; 3],
}

impl Refit {
    /// The step from a frame, from the probabilities of the classes of its voxels.
    pub(crate) fn step(
        &self,
        grid: &FrameGrid,
        frame: &Pose,
        shares: &[u32],
        classes: usize,
    ) -> Step {
        step_of(&self.map.apply(&moments(grid, shares, classes)), self.taken, frame)
    }
}

/// The nine numbers of the step from a frame to a box.
pub(crate) fn numbers(frame: &Pose, truth: &Pose) -> [f64; 9] {
    let step = Step::between(frame, truth);
    let shift = [0, 1, 2].map(|a| step.shift_mm[a] / frame.size_mm[a]);
    let rotation = step.rotation;
    let [x, y, z] = step.log_size;
    [shift[0], shift[1], shift[2], rotation.x, rotation.y, rotation.z, x, y, z]
}

/// The step from a frame of these nine numbers, as far as they are taken.
pub(crate) fn step_of(numbers: &[f64], taken: [f64; 3], frame: &Pose) -> Step {
    let part = |n: usize| -> [f64; 3] {
        std::array::from_fn(|a| taken[n] * numbers[3 * n + a].clamp(-0.5, 0.5))
    };
    let (shift, rotation, log_size) = (part(0), part(1), part(2));
    Step {
        rotation: Vector3::from(rotation),
        shift_mm: Vector3::from_fn(|a, _| shift[a] * frame.size_mm[a]),
        log_size,
    }
}
