//! Structures that look like each other: vertebrae, ribs, teeth.

use crate::data::appearance::Appearances;
use crate::data::training_data::{Annotated, TrainingData};
use pbt_volume::Pose;

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
/// says), and images look the same about both. Those share the refinement, which learns from all of them,
/// and may be taken for one another.
///
/// # Errors
/// [`crate::DetectError::Interrupted`], and whatever reading an image gives.
pub(crate) fn look_alikes<D: TrainingData>(
    data: &D,
    structures: &[Annotated],
    size: &[usize],
    interrupted: impl Fn() -> bool + Sync,
) -> Result<Vec<usize>, D::Error> {
    let is_alone = |n: usize| size.iter().filter(|&&first| first == size[n]).count() == 1;
    if (0..structures.len()).all(is_alone) {
        return Ok(size.to_vec());
    }
    let shown: Vec<bool> = (0..structures.len()).map(|n| !is_alone(n)).collect();
    let appearances = Appearances::new(data, structures, &shown, interrupted)?;
    Ok(first_alike(structures.len(), |m, n| size[m] == size[n] && appearances.are_alike(m, n)))
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

    #[test]
    fn groups_do_not_chain() {
        // 0 is like 1 and 1 like 2, but 0 is not like 2.
        let alike = |m: usize, n: usize| n - m == 1;
        assert_eq!(first_alike(4, alike), [0, 0, 2, 2]);
        assert_eq!(first_alike(3, |_, _| false), [0, 1, 2]);
    }
}
