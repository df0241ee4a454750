//! Structures that look like each other: vertebrae, ribs, teeth.

use crate::data::appearance::Appearances;
use crate::data::training_data::{Annotated, TrainingData};
use pbt_volume::Pose;
use std::collections::BTreeMap;

/// Mean edge lengths of structures that are alike in size differ by less than this, |ln|.
const ALIKE: f64 = 0.3;

/// By structure, the first that is about as large, or itself. Those share a working grid.
pub(crate) fn alike_in_size(structures: &[Annotated]) -> Vec<usize> {
    let mean = |(_, poses): &Annotated| -> [f64; 3] {
        std::array::from_fn(|a| {
            poses.iter().map(|(_, p)| libm::log(p.size_mm[a])).sum::<f64>() / poses.len() as f64
        })
    };
    let means: Vec<[f64; 3]> = structures.iter().map(mean).collect();
    let alike =
        |m: usize, n: usize| means[m].iter().zip(&means[n]).all(|(a, b)| (a - b).abs() < ALIKE);
    first_alike(structures.len(), alike)
}

/// By structure, the first that it looks like, or itself: about as large (`size` is what [`alike_in_size`]
/// says), elsewhere in the body, and images look the same about both. Those share the refinement, which
/// learns from all of them, and may be taken for one another.
///
/// # Errors
/// [`crate::DetectError::Interrupted`], and whatever reading an image gives.
pub(crate) fn look_alikes<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
    size: &[usize],
    interrupted: impl Fn() -> bool + Sync,
) -> Result<Vec<usize>, D::Error> {
    let count = structures.len();
    let may_be = |m: usize, n: usize| {
        m != n && size[m] == size[n] && !lie_in_each_other(&structures[m].1, &structures[n].1)
    };
    let shown: Vec<bool> = (0..count).map(|m| (0..count).any(|n| may_be(m, n))).collect();
    if !shown.contains(&true) {
        return Ok((0..count).collect());
    }
    let appearances = Appearances::new(data, structures, &shown, interrupted)?;
    Ok(first_alike(count, |m, n| may_be(m, n) && appearances.are_alike(m, n)))
}

/// Whether the centre of one box lies in the other in most cases that have both. Such boxes, like those of the
/// heart's muscle and of the right ventricle, show the same voxels, and look alike by that alone.
fn lie_in_each_other(one: &[(usize, Pose)], other: &[(usize, Pose)]) -> bool {
    let other: BTreeMap<usize, &Pose> = other.iter().map(|(case, pose)| (*case, pose)).collect();
    let both: Vec<bool> = one
        .iter()
        .filter_map(|(case, a)| Some((a, other.get(case)?)))
        .map(|(a, b)| a.contains(b.center) || b.contains(a.center))
        .collect();
    2 * both.iter().filter(|within| **within).count() > both.len()
}

/// By index, the first that it is like, or itself. Who stands for others stands for itself, so that groups
/// do not chain.
fn first_alike(count: usize, alike: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut first: Vec<usize> = Vec::with_capacity(count);
    for n in 0..count {
        first.push((0..n).find(|&m| first[m] == m && alike(m, n)).unwrap_or(n));
    }
    first
}

/// The poses of other structures of a case that look like structure `n`.
pub(crate) fn others_alike(
    structures: &[Annotated],
    look_alikes: &[usize],
    n: usize,
    case: usize,
) -> Vec<Pose> {
    let others = (0..structures.len()).filter(|&m| m != n && look_alikes[m] == look_alikes[n]);
    others
        .flat_map(|m| structures[m].1.iter().filter(|(c, _)| *c == case).map(|&(_, pose)| pose))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    #[test]
    fn what_lies_within_is_no_look_alike() {
        let at = |mm: f64| Pose {
            center: PointLps::new(mm, 0.0, 0.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [40.0, 20.0, 20.0],
        };
        let boxes = |mm: [f64; 3]| -> Vec<(usize, Pose)> {
            mm.iter().enumerate().map(|(case, mm)| (case, at(*mm))).collect()
        };
        let first = boxes([0.0; 3]);
        assert!(lie_in_each_other(&first, &boxes([15.0, -19.0, 30.0])));
        assert!(!lie_in_each_other(&first, &boxes([15.0, -21.0, 30.0])));
        // Nowhere are both.
        assert!(!lie_in_each_other(&first, &[(7, at(0.0))]));
    }

    #[test]
    fn groups_do_not_chain() {
        // 0 is like 1 and 1 like 2, but 0 is not like 2.
        let alike = |m: usize, n: usize| n - m == 1;
        assert_eq!(first_alike(4, alike), [0, 0, 2, 2]);
        assert_eq!(first_alike(3, |_, _| false), [0, 1, 2]);
    }
}
