//! Structures that look like each other: vertebrae, ribs, teeth.

use crate::data::training_data::Annotated;
use pbt_volume::Pose;

/// Mean edge lengths of look-alikes differ by less than this, |ln|.
const ALIKE: f64 = 0.3;

/// Index of the first structure whose mean edge lengths are about those of structure `n`:
/// vertebrae, ribs, teeth.
fn representative(structures: &[Annotated], n: usize) -> usize {
    let mean = |m: usize| -> [f64; 3] {
        let poses = &structures[m].1;
        std::array::from_fn(|a| {
            poses.iter().map(|(_, p)| libm::log(p.size_mm[a])).sum::<f64>() / poses.len() as f64
        })
    };
    let own = mean(n);
    let alike = |m: usize| mean(m).iter().zip(&own).all(|(a, b)| (a - b).abs() < ALIKE);
    // A representative stands for itself, so that groups do not chain.
    (0..n).find(|&m| alike(m) && representative(structures, m) == m).unwrap_or(n)
}

/// By structure, the index of its representative: the first structure that it looks like, or
/// itself.
pub(crate) fn representatives(structures: &[Annotated]) -> Vec<usize> {
    (0..structures.len()).map(|n| representative(structures, n)).collect()
}

/// The poses of other structures of a case that look like structure `n`.
pub(crate) fn look_alikes(structures: &[Annotated], n: usize, case: usize) -> Vec<Pose> {
    let first = representative(structures, n);
    let others =
        (0..structures.len()).filter(|&m| m != n && representative(structures, m) == first);
    others
        .flat_map(|m| structures[m].1.iter().filter(|(c, _)| *c == case).map(|&(_, pose)| pose))
        .collect()
}
