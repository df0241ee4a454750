//! What detection and training take, told from the grids of images before a voxel of them is read.

use crate::DetectError;
use crate::detect::searches_at_a_time;
use crate::model::{Model, StructureModel};
use crate::working::spec::{MORE_MEMORY, WorkingSpec, check_grid, working_bytes};
use pbt_tree::ImageLayout;
use pbt_volume::{Geometry, Pose, check_memory, memory_limit, room_for_tables};

/// Bytes a voxel of the channels of a level: intensity and three differences.
const CHANNELS: u64 = 8;

/// Bytes a voxel of an integral volume.
const INTEGRAL: u64 = 4;

/// Bytes a voxel that the search for positions holds on its level: scores and their order.
const SCORES: u64 = 16;

impl Model {
    /// The most bytes that [`Model::detect`] holds at a time, the image itself, of so many bytes a voxel
    /// and channel, among them. Close-ups of landmarks are not: how large they are is known only when
    /// their box is found, and is looked at then.
    ///
    /// # Errors
    /// [`DetectError::Image`] when an image on this grid cannot be used, as [`Model::detect`] would
    /// say.
    pub fn memory_bytes(&self, image: &Geometry, voxel_bytes: u64) -> Result<u64, DetectError> {
        let mut served: Vec<(&StructureModel, ImageLayout)> = Vec::new();
        let (mut held, mut most, mut largest, mut most_scores) = (0, 0, 0, 0);
        for structure in &self.structures {
            let layout = structure.layout();
            if served.iter().any(|(s, l)| s.working == structure.working && *l == layout) {
                continue;
            }
            let (working, spec) = (&structure.working, &structure.position.spec);
            let window = (spec.radius, structure.prior.flat);
            let grid = (working.spacing_mm, working.levels);
            let levels = check_grid(image, grid, spec.level, window)?;
            let finest = levels[0].shape();
            let kept = Kept::of(&levels, working, (spec.level, spec.radius));
            let tables = kept.channels + kept.integral;
            let uploading = kept.pyramid + tables;
            most = most
                .max(held + uploading.max(working_bytes(image, finest, working.channel_count())));
            held += tables;
            largest = largest.max(voxels(finest, 0));
            most_scores = most_scores.max(kept.scores);
            served.push((structure, layout));
        }
        let threads = rayon::current_num_threads();
        let at_a_time = searches_at_a_time(largest as usize, threads).min(self.structures.len());
        most = most.max(held + most_scores.saturating_mul(at_a_time as u64));
        // The label of each voxel and how probable it is.
        // Channels on other grids count as if they were as large as the first.
        let (voxels, channels) = (image.len() as u64, self.channels().len().max(1) as u64);
        let masks = if self.masks.is_empty() { 0 } else { 4 * voxels };
        Ok((voxel_bytes * channels * voxels).saturating_add(most.max(masks)))
    }
}

/// Channels are made where boxes are sampled: about the structure and about the places that look like
/// it. So many times the box's own volume covers them.
const SAMPLED_BOXES: f64 = 64.0;

/// Finest levels are held in memory while they are not larger than this, all together, nor than this
/// share of the memory that may be taken.
const HELD: u64 = 1 << 30;
const HELD_SHARE: u64 = 32;

/// Whether a training holds finest levels of so many bytes in memory, and not in a temporary file.
pub fn is_held(bytes: u64) -> bool {
    bytes <= HELD.min(memory_limit() / HELD_SHARE)
}

/// How many of the finest levels of working pyramids a training on images of these grids keeps in a
/// temporary file: where the finest ones are too much for the memory, as many as it takes to leave a
/// quarter of what may be held.
pub(crate) fn stored_levels<'a>(
    images: impl Iterator<Item = &'a Geometry>,
    working: &WorkingSpec,
) -> usize {
    let mut by_level = vec![0u64; working.levels];
    for image in images {
        for (bytes, level) in by_level.iter_mut().zip(working.grids(image).unwrap_or_default()) {
            let voxels = voxels(level.shape(), 0);
            *bytes =
                bytes.saturating_add(voxels.saturating_mul(2 * working.channel_count() as u64));
        }
    }
    if is_held(by_level[0]) {
        return 0;
    }
    let left = |stored: usize| by_level[stored..].iter().fold(0u64, |a, b| a.saturating_add(*b));
    (1..working.levels)
        .find(|&stored| is_held(left(stored).saturating_mul(4)))
        .unwrap_or(working.levels)
}

/// Whether a training may hold the working pyramids and tables of images on these grids, all at
/// once, with a box in each; the position stage works on the coarsest level. The finest levels that
/// are `stored` do not count, nor do integral volumes of such, and channels not beyond the room that
/// tables have; but one image is made ready and sampled at a time, whatever is stored.
pub(crate) fn check_training<'a>(
    boxes: impl Iterator<Item = (&'a Geometry, &'a Pose)>,
    working: &WorkingSpec,
    (radius, stored): (usize, usize),
) -> Result<(), DetectError> {
    let (mut bytes, mut all_channels, mut one) = (0u64, 0u64, 0u64);
    for (image, pose) in boxes {
        let grids = working.grids(image)?;
        let levels = grids.len();
        let Kept { pyramid, channels, integral, .. } =
            Kept::of(&grids, working, (levels - 1, radius));
        let voxel_mm3 = grids[0].spacing_mm().iter().product::<f64>();
        let sampled = pose.size_mm.iter().product::<f64>() / voxel_mm3;
        let sampled = CHANNELS as f64 * SAMPLED_BOXES * sampled;
        let sampled = sampled as u64 * working.channel_count() as u64;
        let in_file = Kept::of(&grids[..stored], working, (0, 0));
        let integral = if stored < levels { integral } else { 0 };
        bytes = bytes.saturating_add(pyramid - in_file.pyramid + integral);
        let channels = channels.min(sampled);
        all_channels = all_channels.saturating_add(channels);
        let made = working_bytes(image, grids[0].shape(), working.channel_count());
        one = one.max(made).max(channels);
    }
    bytes = bytes.saturating_add(all_channels.min(room_for_tables()).max(one));
    check_memory(bytes).map_err(|error| {
        let what = format!("{error} (train on fewer cases, {MORE_MEMORY})");
        DetectError::training("memory", what)
    })
}

/// Bytes that an image made ready takes.
struct Kept {
    pyramid: u64,
    /// Of all levels, if they are sampled everywhere.
    channels: u64,
    /// Of the level on which positions are searched.
    integral: u64,
    /// While positions are searched.
    scores: u64,
}

impl Kept {
    /// On levels with these grids.
    fn of(grids: &[Geometry], working: &WorkingSpec, (level, radius): (usize, usize)) -> Self {
        let channels = working.channel_count() as u64;
        let mut kept = Self { pyramid: 0, channels: 0, integral: 0, scores: 0 };
        for (n, grid) in grids.iter().enumerate() {
            let shape = grid.shape();
            kept.pyramid += channels * 2 * voxels(shape, 0);
            // A border of one voxel where the image is padded by zeros.
            kept.channels += channels * CHANNELS * voxels(shape, 1);
            if n == level {
                kept.integral = INTEGRAL * voxels(shape, radius + 1);
                kept.scores = SCORES * voxels(shape, 0);
            }
        }
        kept
    }
}

/// Voxels of a grid that is so much wider on every side.
fn voxels(shape: [usize; 3], by: usize) -> u64 {
    shape.iter().fold(1, |all, &n| all.saturating_mul((n + 2 * by) as u64))
}
