//! Frames about the boxes of training cases, and voxels in them.

use crate::masks::frame::FrameGrid;
use crate::masks::prior::Candidate;
use crate::pose::step::Step;
use crate::segment::data::IGNORED;
use nalgebra::Vector3;
use pbt_volume::{Geometry, PointLps, Pose, Random, Volume, VoxelIndex};

/// An annotated box of a structure, whose voxels are labelled.
#[derive(Debug, Clone)]
pub(crate) struct Instance {
    /// Place of the structure in the model.
    pub(crate) structure: usize,
    /// The case.
    pub(crate) case: usize,
    /// The person or animal.
    pub(crate) subject: usize,
    /// The box.
    pub(crate) truth: Pose,
    /// Where it was found by a model that had not seen it.
    pub(crate) found: Option<Pose>,
    /// Its landmarks as they were found, in the model's order.
    pub(crate) landmarks: Vec<PointLps>,
}

/// So much of what is drawn lies where the prior nearly tells the label. The trees see the prior, so
/// that its share does not bias them.
const SURE_PART: f64 = 0.2;

/// Frames of all boxes together, at least.
const FRAMES: usize = 64;
/// Frames of a box, at most and at least.
const MOST_OF_A_BOX: usize = 8;
const FEWEST_OF_A_BOX: usize = 2;

/// Errors of frames where there are too few detections to take them from: of the centre and the
/// edges, in edges, and of the rotation, radians.
const SHIFT: f64 = 0.03;
const ANGLE_RAD: f64 = 0.07;
/// Fewest detections that errors are taken from.
const FEWEST_FOUND: usize = 6;

/// A detection farther off than this is of something else: of the centre in edges, and radians.
const NEAR_SHIFT: f64 = 0.3;
const NEAR_RAD: f64 = 0.6;

impl Instance {
    /// The step from the truth to where it was found, unless that is somewhere else.
    fn error(&self) -> Option<Step> {
        let step = Step::between(&self.truth, &self.found?);
        let near = (0..3).all(|a| step.shift_mm[a].abs() < NEAR_SHIFT * self.truth.size_mm[a]);
        (near && step.rotation.norm() < NEAR_RAD).then_some(step)
    }

    /// Where it was found, if it was found there.
    pub(crate) fn found_near(&self) -> Option<Pose> {
        self.error().and(self.found)
    }
}

/// Frames of each of so many boxes.
pub(crate) fn frames_of_a_box(boxes: usize) -> usize {
    FRAMES.div_ceil(boxes.max(1)).clamp(FEWEST_OF_A_BOX, MOST_OF_A_BOX)
}

/// Frames to learn from, as wrong as detection makes them: for each box where it was found, then
/// where it would be with errors like those of the boxes.
pub(crate) fn frames(instances: &[Instance], random: &mut Random) -> Vec<(usize, Pose)> {
    let errors: Vec<Step> = instances.iter().filter_map(Instance::error).collect();
    let each = frames_of_a_box(instances.len());
    let mut frames = Vec::new();
    for (n, instance) in instances.iter().enumerate() {
        let own = instance.found_near();
        frames.extend(own.map(|pose| (n, pose)));
        for _ in usize::from(own.is_some())..each {
            let step = match errors.len() >= FEWEST_FOUND {
                true => mixed(&errors, random),
                false => drawn(&instance.truth, random),
            };
            frames.push((n, step.apply(&instance.truth)));
        }
    }
    frames
}

/// A mixture of two errors about their mean, which spreads as they do. The errors themselves would be
/// a few answers to choose from: held-out boxes, whose own error is among them, would seem to be
/// mended far better than new ones are.
fn mixed(errors: &[Step], random: &mut Random) -> Step {
    let first = random.below(errors.len());
    let second = (first + 1 + random.below(errors.len() - 1)) % errors.len();
    let turn = random.between(0.0, std::f64::consts::TAU);
    let (a, b) = (libm::cos(turn), libm::sin(turn));
    let of = |number: &dyn Fn(&Step) -> f64| {
        let mean = errors.iter().map(number).sum::<f64>() / errors.len() as f64;
        mean + a * (number(&errors[first]) - mean) + b * (number(&errors[second]) - mean)
    };
    Step {
        rotation: Vector3::from_fn(|n, _| of(&|step| step.rotation[n])),
        shift_mm: Vector3::from_fn(|n, _| of(&|step| step.shift_mm[n])),
        log_size: [0, 1, 2].map(|n| of(&|step| step.log_size[n])),
    }
}

fn drawn(pose: &Pose, random: &mut Random) -> Step {
    let mut three = |spread: f64| [0; 3].map(|_| spread * random.normal());
    let (shift, rotation, log_size) = (three(SHIFT), three(ANGLE_RAD), three(SHIFT));
    Step {
        rotation: random.turning(Vector3::from(rotation)),
        shift_mm: random.moving(Vector3::from_fn(|a, _| shift[a] * pose.size_mm[a])),
        log_size: random.growing(log_size),
    }
}

/// The class of each voxel of a grid: that of the nearest voxel of a label map, in the numbers of a
/// stage. `own` says by class of the label map which class of the stage it is.
pub(crate) fn classes_on(labels: &Volume<u8>, grid: &Geometry, own: &[u8; 256]) -> Vec<u8> {
    let shape = labels.shape().map(|n| n as i64);
    let steps = labels.geometry().inverse() * grid.matrix();
    let first = labels.geometry().to_index(grid.to_lps(VoxelIndex::new(0.0, 0.0, 0.0))).0.coords;
    let [nx, ny, nz] = grid.shape();
    let mut out = Vec::with_capacity(nx * ny * nz);
    for k in 0..nz {
        for j in 0..ny {
            let row = first + steps.column(1) * j as f64 + steps.column(2) * k as f64;
            for i in 0..nx {
                let at = row + steps.column(0) * i as f64;
                let voxel = [0, 1, 2].map(|a| libm::round(at[a]) as i64);
                let inside = (0..3).all(|a| (0..shape[a]).contains(&voxel[a]));
                let class = match inside {
                    true => labels.at(voxel[0] as usize, voxel[1] as usize, voxel[2] as usize),
                    false => 0,
                };
                out.push(own[usize::from(class)]);
            }
        }
    }
    out
}

/// Up to so many of the candidates of a frame, in rising order; none that is ignored. `SURE_PART` of
/// them are such whose label the prior nearly tells; within either kind each is as likely.
pub(crate) fn drawn_voxels(
    grid: &FrameGrid,
    candidates: &[Candidate],
    classes: &[u8],
    count: usize,
    random: &mut Random,
) -> (Vec<[usize; 3]>, Vec<u8>) {
    let [nx, ny, _] = grid.shape;
    let counted = |c: &&Candidate| classes[c.voxel as usize] != IGNORED;
    let mut left = [0; 2];
    candidates.iter().filter(counted).for_each(|c| left[usize::from(c.sure)] += 1);
    let sure = (libm::round(SURE_PART * count as f64) as usize).min(left[1]);
    let mut wanted = [(count - sure).min(left[0]), sure];
    let (mut voxels, mut labels) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for c in candidates.iter().filter(counted) {
        let kind = usize::from(c.sure);
        // Selection sampling (Knuth, TAOCP 2, algorithm S).
        if random.below(left[kind]) < wanted[kind] {
            wanted[kind] -= 1;
            let n = c.voxel as usize;
            voxels.push([n % nx, n / nx % ny, n / (nx * ny)]);
            labels.push(classes[n]);
        }
        left[kind] -= 1;
    }
    (voxels, labels)
}
