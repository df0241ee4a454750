//! What an image shows about a box, and what it would show if image or box were turned round.

use super::pattern::Pattern;
use pbt_volume::{Geometry, IntensityPolicy, IntensityRange, PointLps, Pose, RealVolume, Volume};

/// What is looked at about a box is so many times as long, along the patient's axes.
const REACH: f64 = 2.0;

/// Cells along each axis of it, and voxels that are looked at along each axis of a cell.
const CELLS: usize = 8;
const IN_A_CELL: usize = 3;

/// What an image shows about a box.
#[derive(Debug, Clone)]
pub(super) struct AboutBox {
    pub(super) structure: String,
    pub(super) as_it_is: Pattern,
    /// With the image, but not the box, reversed along its voxel axis that is nearest to each axis of the patient.
    image_reversed: [Pattern; 3],
}

impl AboutBox {
    /// What an image, whose voxel axes are nearest to these of the patient, shows about boxes; nothing where it
    /// has no contrast.
    pub(super) fn all(
        (image, towards): (&RealVolume, [usize; 3]),
        numbers: &Volume<f32>,
        boxes: &[(String, Pose)],
    ) -> Vec<Self> {
        // A clip of metal or a border of constant value must not decide.
        let usual = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 };
        let Ok(range) = usual.range(image) else { return Vec::new() };
        let about = |(structure, pose): &(String, Pose)| {
            let shown = |reversed| cells(numbers, &range, pose, reversed);
            let nearest = |axis| towards.iter().position(|&patient| patient == axis);
            Self {
                structure: structure.clone(),
                as_it_is: shown(None),
                image_reversed: std::array::from_fn(|axis| shown(nearest(axis))),
            }
        };
        boxes.iter().map(about).collect()
    }

    /// What it would show if this were turned back.
    pub(super) fn seen(&self, how: Reversal) -> Pattern {
        match how.what {
            What::Both => flipped(&self.as_it_is, how.axis),
            What::Image => self.image_reversed[how.axis].clone(),
            // Where the box should have been, the reversed image shows what lies there the wrong way round.
            What::Annotations => flipped(&self.image_reversed[how.axis], how.axis),
        }
    }
}

/// Mean intensities of the cells about a box, from one end of the patient's axes to the other; with the image
/// reversed along a voxel axis, if one is given.
fn cells(
    numbers: &Volume<f32>,
    range: &IntensityRange,
    pose: &Pose,
    reversed: Option<usize>,
) -> Pattern {
    const ALONG: usize = CELLS * IN_A_CELL;
    let geometry = numbers.geometry();
    let corners = pose.corners();
    let length = |axis: usize| {
        let at = corners.map(|corner| corner.0[axis]);
        at.iter().copied().fold(f64::NEG_INFINITY, f64::max)
            - at.iter().copied().fold(f64::INFINITY, f64::min)
    };
    let lengths: [f64; 3] = std::array::from_fn(|axis| REACH * length(axis));
    let mut sums = vec![0.0; CELLS.pow(3)];
    for n in 0..ALONG.pow(3) {
        let at = [n % ALONG, n / ALONG % ALONG, n / ALONG / ALONG];
        let mut point = pose.center.0;
        for axis in 0..3 {
            point[axis] += ((at[axis] as f64 + 0.5) / ALONG as f64 - 0.5) * lengths[axis];
        }
        let cell = at.map(|along| along / IN_A_CELL);
        let value = f64::from(nearest_voxel(numbers, geometry, PointLps(point), reversed));
        let value = if value.is_finite() { value } else { range.low };
        sums[cell[0] + CELLS * (cell[1] + CELLS * cell[2])] += value.clamp(range.low, range.high);
    }
    Pattern::of(&sums)
}

/// The voxel nearest to a point; beyond the image that at its border.
fn nearest_voxel(
    numbers: &Volume<f32>,
    geometry: &Geometry,
    point: PointLps,
    reversed: Option<usize>,
) -> f32 {
    let index = geometry.to_index(point).0;
    let shape = geometry.shape();
    let [i, j, k] = std::array::from_fn(|axis| {
        let last = (shape[axis] - 1) as f64;
        let n = index[axis].round().clamp(0.0, last);
        if reversed == Some(axis) { (last - n) as usize } else { n as usize }
    });
    numbers.at(i, j, k)
}

fn flipped(pattern: &Pattern, axis: usize) -> Pattern {
    let stride = CELLS.pow(axis as u32);
    pattern.reordered(|n| {
        let along = n / stride % CELLS;
        n - stride * along + stride * (CELLS - 1 - along)
    })
}

/// What may be reversed in a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Both,
    Image,
    Annotations,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Reversal {
    pub(super) what: What,
    /// Of the patient: x, y or z.
    pub(super) axis: usize,
}

/// Number of reversals.
pub(super) const REVERSALS: usize = 9;

impl Reversal {
    pub(super) fn number(r: usize) -> Self {
        Self { what: [What::Both, What::Image, What::Annotations][r / 3], axis: r % 3 }
    }

    pub(super) fn direction(self, is_picture: bool) -> &'static str {
        match (self.axis, is_picture) {
            (0, _) => "from left to right",
            (1, false) => "from front to back",
            (1, true) => "from top to bottom",
            _ => "from head to foot",
        }
    }
}
