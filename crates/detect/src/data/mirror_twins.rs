//! Which structure and which landmark is whose mirror twin, by name or by place, and so takes its
//! place in a mirrored image.

use crate::data::point_pairs::{Symmetry, across, mutual};
use crate::data::training_data::{Annotated, Points, TrainingData, is_flat};
use nalgebra::{UnitQuaternion, Vector3};
use pbt_volume::{PointLps, Pose};

/// What a mirror makes of a structure and its landmarks.
pub(super) struct Mirror {
    /// In the mirrored image, the structure whose mirror image takes this one's place; itself on the
    /// midline; `None` beside the midline, where the other side's structure is not trained. A
    /// mirrored image would teach that one under this one's name.
    pub(super) twin: Option<usize>,
    /// The axis of its box that points left or right.
    pub(super) axis: usize,
    /// Rotation and shift that align the twin's mirrored box with this structure's own box.
    pub(super) rotation: UnitQuaternion<f64>,
    pub(super) shift_mm: Vector3<f64>,
    /// By landmark, the one of the twin that comes to lie there.
    pub(super) landmarks: Vec<Option<usize>>,
    /// Whether the landmarks come in left–right pairs.
    pub(super) symmetric: bool,
}

/// A pair of landmarks is accepted if the mirrored one lies this near to its partner, in D.
const REACH: f64 = 0.03;

/// The same of a pair of boxes, in D.
const BOX_REACH: f64 = 0.3;

/// If the mean |cosine| of one box axis with left–right exceeds this, the structures lie alike, and
/// only that axis is tried.
const UPRIGHT: f64 = 0.75;

impl Mirror {
    pub(super) fn new<D: TrainingData + ?Sized>(
        data: &D,
        structures: &[Annotated],
        landmarks: &[Vec<Points>],
        n: usize,
        mirror_twin: Option<usize>,
    ) -> Self {
        let twin = mirror_twin.unwrap_or(n);
        let (own, others) = (
            mean_places(&structures[n].1, &landmarks[n]),
            mean_places(&structures[twin].1, &landmarks[twin]),
        );
        let poses = &structures[twin].1;
        let sideways = |axis: usize| {
            poses.iter().map(|(_, pose)| pose.axes()[(0, axis)].abs()).sum::<f64>()
                / poses.len() as f64
        };
        let axis =
            (0..3).fold(0, |best, axis| if sideways(axis) > sideways(best) { axis } else { best });
        let upright = sideways(axis) > UPRIGHT;
        let given = given_twins(data, &landmarks[n], &landmarks[twin]);
        let reach = REACH * scale_mm(poses);
        // Nothing is mirrored out of a plane.
        let axes = if is_flat(data) { 0..2 } else { 0..3 };
        let symmetry = axes
            .filter(|&other| !upright || other == axis)
            .filter_map(|axis| {
                Some((axis, Symmetry::between(&own, &others, given.as_deref(), axis, reach)?))
            })
            .min_by(|a, b| a.1.residual.total_cmp(&b.1.residual));
        match symmetry {
            Some((axis, found)) => Self {
                twin: mirror_twin,
                axis,
                rotation: found.rotation,
                shift_mm: found.shift,
                symmetric: mirror_twin.is_some()
                    && (twin != n
                        || found
                            .twins
                            .iter()
                            .enumerate()
                            .any(|(l, other)| other.is_some_and(|other| other != l))),
                landmarks: found.twins,
            },
            None => Self {
                twin: mirror_twin,
                axis: if upright { axis } else { 0 },
                rotation: UnitQuaternion::identity(),
                shift_mm: Vector3::zeros(),
                symmetric: false,
                landmarks: given
                    .unwrap_or_else(|| (0..own.len()).map(|l| (twin == n).then_some(l)).collect()),
            },
        }
    }
}

/// D of a structure, mm.
fn scale_mm(poses: &[(usize, Pose)]) -> f64 {
    let logs = poses.iter().map(|(_, pose)| libm::log(pose.mean_size_mm()));
    libm::exp(logs.sum::<f64>() / poses.len() as f64)
}

/// Mean positions of landmarks in their box, mm.
fn mean_places(poses: &[(usize, Pose)], landmarks: &[Points]) -> Vec<Vector3<f64>> {
    let place = |&(case, point): &(usize, PointLps)| {
        let (_, pose) = poses.iter().find(|(c, _)| *c == case)?;
        Some(pose.orientation.inverse() * (point.0 - pose.center.0))
    };
    let mean = |points: &Points| {
        let places: Vec<Vector3<f64>> = points.1.iter().filter_map(place).collect();
        places.iter().sum::<Vector3<f64>>() / places.len().max(1) as f64
    };
    landmarks.iter().map(mean).collect()
}

/// Partners given by the data set, if any are; a landmark without one is its own partner.
fn given_twins<D: TrainingData + ?Sized>(
    data: &D,
    own: &[Points],
    others: &[Points],
) -> Option<Vec<Option<usize>>> {
    let partners: Vec<Option<String>> = own.iter().map(|(name, _)| data.partner(name)).collect();
    let place = |(partner, (name, _)): (&Option<String>, &Points)| {
        let wanted = partner.as_ref().unwrap_or(name);
        others.iter().position(|(other, _)| other == wanted)
    };
    partners.iter().any(Option::is_some).then(|| partners.iter().zip(own).map(place).collect())
}

/// For each structure its twin: the named partner; else the structure of similar size nearest to its
/// mirror image; else itself, unless it lies on one side of the body or its partner is not trained.
pub(super) fn twins<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
) -> Vec<Option<usize>> {
    let scales: Vec<f64> = structures.iter().map(|(_, poses)| scale_mm(poses)).collect();
    let reach = BOX_REACH * scales.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = |case: usize| {
        let centers: Vec<Vector3<f64>> = structures
            .iter()
            .filter_map(|(_, poses)| {
                Some(poses.iter().find(|(c, _)| *c == case)?.1.center.0.coords)
            })
            .collect();
        centers.iter().sum::<Vector3<f64>>() / centers.len() as f64
    };
    let mean = |(_, poses): &Annotated| {
        poses.iter().map(|(case, pose)| pose.center.0.coords - middle(*case)).sum::<Vector3<f64>>()
            / poses.len() as f64
    };
    let places: Vec<Vector3<f64>> = structures.iter().map(mean).collect();
    let mirrored: Vec<Vector3<f64>> = places.iter().map(|p| across(p, 0)).collect();
    let found = mutual(&places, &mirrored, reach);
    let alike = |n: usize, other: usize| libm::log(scales[n] / scales[other]).abs() < 0.2;
    let twin = |n: usize| match data.partner(&structures[n].0) {
        Some(partner) => structures.iter().position(|(name, _)| *name == partner),
        None => found[n]
            .filter(|&other| other != n && alike(n, other))
            .or_else(|| (!is_on_one_side(data, &structures[n].1)).then_some(n)),
    };
    (0..structures.len()).map(twin).collect()
}

/// Whether the sagittal plane through the middles of the images passes by a structure's boxes, on
/// the mean. Images are trimmed to the patient, so that their middle is near the patient's.
pub(crate) fn is_on_one_side<D: TrainingData + ?Sized>(data: &D, poses: &[(usize, Pose)]) -> bool {
    let off =
        |(case, pose): &(usize, Pose)| pose.center.0.x - data.list().geometry(*case).center().0.x;
    let half = |(_, pose): &(usize, Pose)| {
        let axes = pose.axes();
        (0..3).map(|axis| axes[(0, axis)].abs() * pose.size_mm[axis] / 2.0).sum::<f64>()
    };
    poses.iter().map(off).sum::<f64>().abs() > poses.iter().map(half).sum::<f64>()
}
