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

/// `distances[landmark][annotation]`, in D. Where the other landmarks of a case are as far off, the
/// case is hard, or its box was missed, and nothing is said of its annotations: of a fly's wing five of
/// twelve landmarks seemed wrong that were right.
pub(super) fn contradicted(
    landmarks: &[AnnotatedLandmark],
    distances: &[Vec<Option<f64>>],
) -> Vec<Contradicted> {
    let mut known: Vec<Known> = Vec::new();
    for (l, ((_, points), distances)) in landmarks.iter().zip(distances).enumerate() {
        let Some(usual) = median(distances.iter().flatten().copied().collect())
            .filter(|_| distances.iter().flatten().count() >= FEWEST_TO_CONTRADICT)
        else {
            continue;
        };
        known.extend(points.iter().zip(distances).filter_map(|(&(case, _), distance)| {
            let distance = (*distance)?;
            Some(Known { landmark: l, case, distance, times: distance / usual })
        }));
    }
    let is_contradicted = |k: &&Known| {
        let others = known.iter().filter(|o| o.case == k.case && o.landmark != k.landmark);
        let of_case = median(others.map(|o| o.times).collect()).unwrap_or(1.0).max(1.0);
        k.times > CONTRADICTED_BEYOND * of_case
    };
    known
        .iter()
        .filter(is_contradicted)
        .map(|k| Contradicted { landmark: k.landmark, case: k.case, distance_d: k.distance })
        .collect()
}

/// How far off a landmark of a case is.
struct Known {
    landmark: usize,
    case: usize,
    distance: f64,
    /// In median distances of the landmark.
    times: f64,
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
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

    /// Case 13 has four landmarks. Where one is far off, that one is contradicted; where all are, none.
    #[test]
    fn a_case_that_is_far_off_as_a_whole_contradicts_nothing() {
        let landmarks: Vec<AnnotatedLandmark> = (0..4).flat_map(|_| annotated(10)).collect();
        let usual: Vec<Option<f64>> = (0..10).map(|n| Some(0.01 + 0.001 * f64::from(n))).collect();
        let mut distances = vec![usual; 4];
        distances[2][3] = Some(0.2);
        let alone = contradicted(&landmarks, &distances);
        assert_eq!(alone, [Contradicted { landmark: 2, case: 13, distance_d: 0.2 }]);
        (0..4).for_each(|l| distances[l][3] = Some(0.2));
        assert_eq!(contradicted(&landmarks, &distances), []);
    }
}
