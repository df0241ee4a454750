//! The errors of boxes, or of landmarks, at growing numbers of training cases, and what they say
//! about more cases.

use crate::bootstrap::{CaseSum, Interval, resampled_means};
use crate::case_errors::{Comparison, Distance, Truth};
use crate::outlook::Outlook;
use crate::summary::Summary;
use pbt_volume::StructureKind;
use serde::Serialize;

/// Seed of the resampling; fixed, so that a curve can be repeated.
const SEED: u64 = 0;

/// What the report says of one kind of structure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Box or landmark.
    pub kind: StructureKind,
    /// Structures in tested cases that are annotated.
    pub annotated: usize,
    /// Those that got a position at every size: errors are of these, so that sizes can be compared.
    pub compared: usize,
    /// The errors at each size.
    pub sizes: Vec<CurveSize>,
    /// What more cases would bring.
    pub outlook: Outlook,
}

/// One size of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurveSize {
    /// Training cases.
    pub cases: usize,
    /// Distance of the centres or points; null where none was found at every size.
    pub center_mm: Option<Summary>,
    /// Where the mean would lie with other test cases.
    pub interval: Option<Interval>,
    /// Share of those annotated that is right, 0 to 1.
    pub right: f64,
    /// Share of those annotated that is missed, 0 to 1.
    pub missed: f64,
}

impl Series {
    /// Boxes and landmarks, as far as there are any. `records` are those of each size, the sizes in
    /// ascending order.
    pub fn of_kinds(sizes: &[usize], records: &[&[Comparison]]) -> Vec<Self> {
        let there =
            |kind: &StructureKind| records.iter().copied().flatten().any(|c| c.kind == *kind);
        let of = |kind| Self::new(kind, sizes, records);
        StructureKind::ALL.into_iter().filter(there).map(of).collect()
    }

    fn new(kind: StructureKind, sizes: &[usize], records: &[&[Comparison]]) -> Self {
        let mine: Vec<Vec<&Comparison>> = records
            .iter()
            .map(|all| all.iter().filter(|c| c.kind == kind && c.truth == Truth::Present).collect())
            .collect();
        let error = |c: &Comparison| c.error.as_ref().map(Distance::center_mm);
        let is_same =
            |a: &Comparison, b: &Comparison| a.case == b.case && a.structure == b.structure;
        // Case by case and structure by structure the errors at every size.
        let located = |c: &Comparison| -> Option<Vec<f64>> {
            mine.iter()
                .map(|size| size.iter().find(|d| is_same(c, d)).and_then(|d| error(d)))
                .collect()
        };
        let first = mine.first().map_or(&[][..], Vec::as_slice);
        let mut errors: Vec<Vec<f64>> = vec![Vec::new(); sizes.len()];
        let mut sums: Vec<Vec<CaseSum>> = vec![Vec::new(); sizes.len()];
        for case in first.chunk_by(|a, b| a.case == b.case) {
            sums.iter_mut().for_each(|sums| sums.push(CaseSum::default()));
            for located in case.iter().filter_map(|c| located(c)) {
                for ((error, errors), sums) in located.into_iter().zip(&mut errors).zip(&mut sums) {
                    errors.push(error);
                    if let Some(sum) = sums.last_mut() {
                        sum.add(error);
                    }
                }
            }
        }
        let share = |size: &[&Comparison], is: fn(&Comparison) -> bool| {
            size.iter().filter(|c| is(c)).count() as f64 / size.len().max(1) as f64
        };
        let several =
            sums.first().is_some_and(|cases| cases.iter().filter(|c| c.count > 0).count() > 1);
        let resampled =
            if several { resampled_means(&sums, SEED) } else { vec![Vec::new(); sizes.len()] };
        let of_size = |n: usize| CurveSize {
            cases: sizes[n],
            center_mm: Summary::new(&errors[n]),
            interval: Interval::of(resampled[n].iter().flatten().copied()),
            right: share(&mine[n], |c| c.right),
            missed: share(&mine[n], Comparison::is_missed),
        };
        Self {
            kind,
            annotated: first.len(),
            compared: errors.first().map_or(0, Vec::len),
            sizes: (0..sizes.len()).map(of_size).collect(),
            outlook: Outlook::new(sizes, &sums, SEED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_errors::Answer;
    use crate::outlook::Verdict;

    const SIZES: [usize; 4] = [5, 10, 20, 40];

    /// Of ten cases with two landmarks each; `error` gives the error by size, case and structure,
    /// or none for a missed one.
    fn series(sizes: usize, error: impl Fn(usize, usize, usize) -> Option<f64>) -> Vec<Series> {
        let record = |size: usize, case: usize, structure: usize| {
            let error = error(size, case, structure);
            Comparison {
                case: format!("c{case}"),
                structure: format!("s{structure}"),
                kind: StructureKind::Landmark,
                truth: Truth::Present,
                answer: if error.is_some() { Answer::Found } else { Answer::Absent },
                score: Some(0.5),
                error: error.map(|center_mm| Distance::Point { center_mm }),
                across: false,
                radius_90_mm: None,
                tolerance_mm: Some(2.0),
                right: error.is_some_and(|mm| mm <= 2.0),
                rivals: 1,
                nearest: None,
                instance: None,
                overlap: None,
            }
        };
        let of_size =
            |size: usize| (0..10).flat_map(|case| [0, 1].map(|s| record(size, case, s))).collect();
        let records: Vec<Vec<Comparison>> = (0..sizes).map(of_size).collect();
        Series::of_kinds(&SIZES[..sizes], &records.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    #[test]
    fn only_what_is_found_at_every_size_is_compared() {
        // The hard case 9 is missed with five cases and far off later: it must not make more cases
        // look worse.
        let series = series(4, |size, case, _| {
            if case == 9 { (size > 0).then_some(30.0) } else { Some(4.0 / (1 << size) as f64) }
        });
        assert_eq!(series.len(), 1);
        let landmarks = &series[0];
        assert_eq!((landmarks.annotated, landmarks.compared), (20, 18));
        let means: Vec<f64> = landmarks.sizes.iter().map(|s| s.center_mm.unwrap().mean).collect();
        assert_eq!(means, [4.0, 2.0, 1.0, 0.5]);
        assert_eq!(
            (landmarks.sizes[0].missed, landmarks.sizes[1].missed, landmarks.sizes[1].right),
            (0.1, 0.0, 0.9)
        );
        // error(n) = 20/n: forty cases more halve it.
        assert!((landmarks.outlook.gain_mm.unwrap() - 0.25).abs() < 0.01);
    }

    #[test]
    fn what_is_not_settled_is_not_promised() {
        let jumps =
            series(4, |size, case, _| Some(3.0 + [0.0, -1.0, 1.2, -0.4][size] + 0.1 * case as f64));
        assert_eq!(jumps[0].outlook.verdict, Verdict::CannotTell);
        let three = series(3, |size, _, _| Some(4.0 / (1 << size) as f64));
        assert_eq!(three[0].outlook.verdict, Verdict::TooFewSizes);
        let missed = series(4, |_, _, _| None);
        assert_eq!(missed[0].outlook.verdict, Verdict::TooFewCases);
        assert!(missed[0].sizes.iter().all(|s| s.center_mm.is_none() && s.missed == 1.0));
        assert!(Series::of_kinds(&SIZES, &[&[], &[], &[], &[]]).is_empty());
    }
}
