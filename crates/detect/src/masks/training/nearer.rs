//! Whether labels move boxes: only where those of held-out cases come nearer to the truth.

use crate::masks::samples::Instance;
use crate::masks::training_frames::Frame;
use pbt_evaluate::BoxError;
use std::collections::BTreeSet;

/// Fewest subjects by whose held-out boxes it is judged, and from how many on their mean error is believed.
/// Of fewer, the gain must be twice its standard error: by ten hippocampi, moved boxes were as little as half
/// as far off as in other cases.
const FEWEST_SUBJECTS: usize = 6;
const ENOUGH_SUBJECTS: usize = 20;

/// Boxes are moved where that leaves less than this of the error of their corners or of their centres.
const WORTH: f64 = 0.95;

/// Whether the boxes of held-out cases are nearer to the truth than they were found: their corners or
/// their centres clearly, and neither farther.
pub(super) fn are_nearer(instances: &[Instance], frames: &[Frame]) -> bool {
    // By measure, corner and centre: errors before and after.
    let mut errors: [Vec<[f64; 2]>; 2] = Default::default();
    let mut subjects = BTreeSet::new();
    for frame in frames {
        let of = &instances[frame.instance];
        let Some(found) = of.found_near() else { continue };
        subjects.insert(of.subject);
        let [before, after] = [found, frame.moved].map(|pose| BoxError::new(&pose, &of.truth));
        errors[0].push([before.corner_mm, after.corner_mm]);
        errors[1].push([before.center_mm, after.center_mm]);
    }
    let enough = subjects.len() >= ENOUGH_SUBJECTS;
    subjects.len() >= FEWEST_SUBJECTS
        && errors.iter().any(|errors| is_clearly_less(errors, enough))
        && errors.iter().all(|errors| left(errors) <= 1.0)
}

/// What is left of a mean error.
fn left(errors: &[[f64; 2]]) -> f64 {
    let sum = |n: usize| errors.iter().map(|error| error[n]).sum::<f64>();
    sum(1) / sum(0)
}

/// Whether errors are clearly less than before, also where they are too few to believe their mean.
fn is_clearly_less(errors: &[[f64; 2]], enough: bool) -> bool {
    let n = errors.len() as f64;
    let gain = |error: &[f64; 2]| error[0] - error[1];
    let mean = errors.iter().map(gain).sum::<f64>() / n;
    let spread = errors.iter().map(|error| (gain(error) - mean).powi(2)).sum::<f64>();
    let standard_error = (spread / (n - 1.0).max(1.0) / n).sqrt();
    left(errors) < WORTH && (enough || mean > 2.0 * standard_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_errors_must_be_clearly_less() {
        let steady = [[2.0, 1.0], [2.2, 1.3], [1.8, 0.8], [2.1, 1.0], [1.9, 1.0], [2.0, 1.1]];
        let by_one = [[2.0, 2.0], [2.0, 2.1], [2.0, 1.9], [2.0, 2.1], [2.0, 1.9], [9.0, 2.0]];
        assert!(is_clearly_less(&steady, false) && is_clearly_less(&steady, true));
        assert!(!is_clearly_less(&by_one, false) && is_clearly_less(&by_one, true));
        let hardly = steady.map(|[before, after]| [before, before - 0.04 * after]);
        assert!(!is_clearly_less(&hardly, true));
    }
}
