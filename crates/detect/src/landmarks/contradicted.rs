//! Annotations that all other cases contradict.

use crate::landmarks::annotated::AnnotatedLandmark;

/// An annotation that training does not believe.
#[derive(Debug, PartialEq)]
pub(crate) struct Contradicted {
    /// Index of the landmark.
    pub(crate) landmark: usize,
    /// Number of the case in the stage's input.
    pub(crate) case: usize,
    /// How far off regressors that did not see the case put the landmark, in D.
    pub(crate) distance_d: f64,
}

/// Held-out regressors end farther from an annotation than this many times the median distance of
/// all annotations of the landmark: it is rather the annotation that is wrong. In three folds of
/// the mouse skulls, where three are known to be, leaving such ones out gains 0.3 %.
const CONTRADICTED_BEYOND: f64 = 5.0;

/// Fewest cases whose median distance says what is usual.
const FEWEST_TO_CONTRADICT: usize = 8;

/// `distances[landmark][annotation]`, in D.
pub(super) fn contradicted(
    landmarks: &[AnnotatedLandmark],
    distances: &[Vec<Option<f64>>],
) -> Vec<Contradicted> {
    let mut found = Vec::new();
    for (l, ((_, points), distances)) in landmarks.iter().zip(distances).enumerate() {
        let mut sorted: Vec<f64> = distances.iter().flatten().copied().collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() < FEWEST_TO_CONTRADICT {
            continue;
        }
        let most = CONTRADICTED_BEYOND * sorted[sorted.len() / 2];
        for (&(case, _), distance) in points.iter().zip(distances) {
            if let Some(distance) = distance.filter(|&distance| distance > most) {
                found.push(Contradicted { landmark: l, case, distance_d: distance });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::PointLps;

    /// Cases from 10 on, one annotation each.
    fn annotated(count: usize) -> Vec<AnnotatedLandmark> {
        vec![(
            "tip".to_owned(),
            (10..10 + count).map(|case| (case, PointLps::new(0.0, 0.0, 0.0))).collect(),
        )]
    }

    #[test]
    fn an_annotation_far_from_what_all_others_say_is_contradicted() {
        let mut distances: Vec<Option<f64>> =
            (0..9).map(|n| Some(0.01 + 0.001 * f64::from(n))).collect();
        distances[3] = Some(0.068);
        // The median of the nine is 0.015; no other case has the last one's landmark.
        distances.push(None);
        assert_eq!(contradicted(&annotated(10), &[distances.clone()]), []);
        distances[3] = Some(0.08);
        assert_eq!(
            contradicted(&annotated(10), &[distances]),
            [Contradicted { landmark: 0, case: 13, distance_d: 0.08 }]
        );
    }

    #[test]
    fn a_handful_of_cases_contradicts_nobody() {
        let distances = vec![Some(0.01), Some(0.01), Some(0.01), Some(0.5)];
        assert_eq!(contradicted(&annotated(4), &[distances]), []);
    }
}
