//! From labels to better frames: the map of a round, and where it moves the boxes of held-out cases.
//!
//! What labels say of the box is learned from the true ones, which say it without error, and believed by how far
//! the labels of held-out cases bring boxes nearer.

use crate::data::folds::Folds;
use crate::masks::frame::FrameGrid;
use crate::masks::moments;
use crate::masks::rounds::{Refit, numbers, step_of};
use crate::masks::samples::Instance;
use crate::masks::training_frames::Frame;
use pbt_linear::{LinearMap, RegressionProblem};
use pbt_tree::LEAF_ONE;
use rayon::prelude::*;

/// Penalties on the map from labels to a better frame that are tried, as shares of the mean variance
/// of a number.
const RIDGES: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];

/// Fewest boxes that were found, to judge steps by.
const FEWEST_FOUND: usize = 6;

/// The map from labels to better frames, those without each part of the subjects, and where these move the
/// boxes of held-out subjects.
pub(crate) fn refit(
    (grid, classes): (&FrameGrid, usize),
    instances: &[Instance],
    folds: Folds,
    frames: &mut [Frame],
) -> (Refit, Vec<Refit>) {
    let length = moments::count(classes - 1);
    let of = |shares: &[u32]| moments::moments(grid, shares, classes);
    let rows: Vec<Vec<i16>> = frames.par_iter().map(|frame| of(&frame.shares)).collect();
    let true_rows: Vec<Vec<i16>> =
        frames.par_iter().map(|frame| of(&certain(&frame.classes, classes))).collect();
    let truths: Vec<[f64; 9]> =
        frames.iter().map(|frame| numbers(&frame.pose, &instances[frame.instance].truth)).collect();
    let subjects: Vec<usize> =
        frames.iter().map(|frame| instances[frame.instance].subject).collect();
    let fit = |keeps: &dyn Fn(usize) -> bool, ridge: f64| -> LinearMap<i32> {
        let kept: Vec<usize> = (0..rows.len()).filter(|&n| keeps(subjects[n])).collect();
        let patches = kept.iter().flat_map(|&n| true_rows[n].iter().copied()).collect();
        let targets: Vec<Vec<f64>> =
            (0..9).map(|t| kept.iter().map(|&n| truths[n][t]).collect()).collect();
        RegressionProblem::new(patches, length, &targets).solve(ridge)
    };
    let parts = folds.count();
    if parts < 2 {
        return (Refit { map: fit(&|_| true, RIDGES[2]), taken: [0.0; 3] }, Vec::new());
    }
    let without = |ridge: f64| -> Vec<LinearMap<i32>> {
        (0..parts).map(|part| fit(&|subject| !folds.holds_out(part, subject), ridge)).collect()
    };
    let held_out = |ridge: f64| -> Vec<Vec<f64>> {
        let maps = without(ridge);
        let of_subject = |s: usize| (0..parts).find(|&part| folds.holds_out(part, s)).unwrap_or(0);
        rows.iter().zip(&subjects).map(|(row, &s)| maps[of_subject(s)].apply(row)).collect()
    };
    // Where boxes were found counts, not where frames were put to have more of them.
    let is_found = |frame: &Frame| instances[frame.instance].found_near().is_some();
    let mut seen = vec![false; instances.len()];
    let found: Vec<bool> = frames
        .iter()
        .map(|f| !std::mem::replace(&mut seen[f.instance], true) && is_found(f))
        .collect();
    let enough = found.iter().filter(|&&found| found).count() >= FEWEST_FOUND;
    let counts = |n: &usize| !enough || found[*n];
    let judged: Vec<usize> = (0..frames.len()).filter(counts).collect();
    let tried: Vec<_> = RIDGES
        .iter()
        .map(|&ridge| {
            let steps = held_out(ridge);
            let (taken, left) = shares_taken(&steps, &truths, &judged);
            (ridge, steps, taken, left)
        })
        .collect();
    let (ridge, steps, taken, _) =
        tried.into_iter().min_by(|a, b| a.3.total_cmp(&b.3)).expect("some ridge is tried");
    for (frame, step) in frames.iter_mut().zip(&steps) {
        frame.moved = step_of(step, taken, &frame.pose).apply(&frame.pose);
    }
    let refit = |map: LinearMap<i32>| Refit { map, taken };
    (refit(fit(&|_| true, ridge)), without(ridge).into_iter().map(refit).collect())
}

/// The probabilities of so many classes where each voxel's is known. Voxels of none are background.
fn certain(voxels: &[u8], classes: usize) -> Vec<u32> {
    let mut shares = vec![0; voxels.len() * classes];
    for (shares, &class) in shares.chunks_exact_mut(classes).zip(voxels) {
        let class = usize::from(class);
        shares[if class < classes { class } else { 0 }] = LEAF_ONE;
    }
    shares
}

/// How much of each part of held-out steps brings boxes nearest to the truth (least squares), and the
/// share of the squared error that is then left, summed over the parts.
fn shares_taken(steps: &[Vec<f64>], truths: &[[f64; 9]], judged: &[usize]) -> ([f64; 3], f64) {
    let mut left = 0.0;
    let taken = [0, 1, 2].map(|part| {
        let of = || judged.iter().flat_map(|&n| (3 * part..3 * part + 3).map(move |t| (n, t)));
        let products: f64 = of().map(|(n, t)| steps[n][t] * truths[n][t]).sum();
        let squares: f64 = of().map(|(n, t)| steps[n][t] * steps[n][t]).sum();
        let taken = if squares > 0.0 { (products / squares).clamp(0.0, 1.0) } else { 0.0 };
        let before: f64 = of().map(|(n, t)| truths[n][t].powi(2)).sum();
        let after: f64 = of().map(|(n, t)| (taken * steps[n][t] - truths[n][t]).powi(2)).sum();
        left += after / before.max(1e-12);
        taken
    });
    (taken, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::data::IGNORED;

    #[test]
    fn voxels_of_no_class_are_background() {
        assert_eq!(certain(&[0, 1, IGNORED], 2), [LEAF_ONE, 0, 0, LEAF_ONE, LEAF_ONE, 0]);
    }
}
