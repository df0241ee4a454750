//! Which of two is better on the same cases, and whether so few cases can tell.

use crate::bootstrap::{CaseSum, Interval, RESAMPLES, pooled_mean, resampled_means};
use crate::box_error::BoxError;
use crate::case_errors::{Comparison, Distance, Truth};
use pbt_volume::{LengthUnit, StructureKind};
use serde::Serialize;

/// Seed of the resampling; fixed, so that a comparison can be repeated.
const SEED: u64 = 0;

/// What A and B are to each other. All differences are B − A.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Paired {
    /// Draws behind each interval.
    pub resamples: usize,
    /// Cases with a pair.
    pub cases: usize,
    /// Structures in cases that both sides have.
    pub pairs: usize,
    /// Those that only one side has; they are left out.
    pub unpaired: usize,
    /// Of all structures together, a measure each.
    pub overall: Vec<Difference>,
    /// Of all boxes; null where all are of one kind.
    pub boxes: Option<Vec<Difference>>,
    /// Of all landmarks; null where all are of one kind.
    pub landmarks: Option<Vec<Difference>>,
    /// Of each structure that has a pair.
    pub structures: Vec<StructureDifferences>,
}

/// The differences in one structure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StructureDifferences {
    /// Its name.
    pub structure: String,
    /// A measure each.
    pub differences: Vec<Difference>,
}

/// One measure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// What is measured.
    pub measure: &'static str,
    /// `mm` or `pixels`, `degrees`, `%` or nothing.
    pub unit: &'static str,
    /// Whether less is better.
    pub lower_is_better: bool,
    /// Cases in which both sides have the measure.
    pub cases: usize,
    /// Structures in cases for which both sides have it.
    pub pairs: usize,
    /// Mean of A over the pairs.
    pub mean_a: f64,
    /// Mean of B over the pairs.
    pub mean_b: f64,
    /// B − A.
    pub difference: f64,
    /// Holds 95 % of the differences when cases are drawn anew; null with fewer than two cases.
    pub interval: Option<Interval>,
    /// `a` or `b`; null when the interval holds 0.
    pub better: Option<&'static str>,
}

/// Two records that were not measured alike.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "records: `{structure}` of case {case} was compared with another annotation or tolerance than on the other side (evaluate both anew)"
)]
pub struct PairError {
    /// The case.
    pub case: String,
    /// The structure.
    pub structure: String,
}

/// Something that is measured of a structure in a case.
struct Measure {
    name: &'static str,
    /// None of lengths.
    unit: Option<&'static str>,
    lower_is_better: bool,
    of: fn(&Comparison, LengthUnit) -> Option<f64>,
}

fn of_box(c: &Comparison, measure: fn(&BoxError) -> f64) -> Option<f64> {
    c.error.as_ref().and_then(Distance::of_box).map(measure)
}

fn share(yes: bool) -> f64 {
    if yes { 100.0 } else { 0.0 }
}

const MEASURES: [Measure; 8] = [
    Measure {
        name: "centre error",
        unit: None,
        lower_is_better: true,
        of: |c, _| c.error.as_ref().map(Distance::center_mm),
    },
    Measure {
        name: "angle error",
        unit: Some("degrees"),
        lower_is_better: true,
        of: |c, _| of_box(c, |e| e.angle_deg),
    },
    Measure {
        name: "size error",
        unit: Some("%"),
        lower_is_better: true,
        of: |c, _| of_box(c, |e| e.size_percent),
    },
    Measure {
        name: "right",
        unit: Some("%"),
        lower_is_better: false,
        of: |c, _| (c.truth == Truth::Present).then(|| share(c.right)),
    },
    Measure {
        name: "missed",
        unit: Some("%"),
        lower_is_better: true,
        of: |c, _| (c.truth == Truth::Present).then(|| share(c.is_missed())),
    },
    Measure {
        name: "falsely found",
        unit: Some("%"),
        lower_is_better: true,
        of: |c, _| (c.truth == Truth::Absent).then(|| share(c.is_false())),
    },
    Measure {
        name: "identified",
        unit: Some("%"),
        lower_is_better: false,
        of: |c, unit| c.is_identified(unit).map(share),
    },
    Measure {
        name: "Brier score",
        unit: Some(""),
        lower_is_better: true,
        of: |c, _| c.judged().map(|judged| judged.brier()),
    },
];

/// The same structure in the same case on both sides.
type Pair<'a> = (&'a Comparison, &'a Comparison);

impl Paired {
    /// Of two evaluations, each case by case; `structures` are the names in the order of the
    /// report. No pairs, no differences.
    ///
    /// # Errors
    /// Two records that were not measured alike.
    pub fn new<'a>(
        a: &[Comparison],
        b: &[Comparison],
        structures: impl Iterator<Item = &'a str>,
        unit: LengthUnit,
    ) -> Result<Self, PairError> {
        let (pairs, unpaired) = pairs(a, b)?;
        let both_kinds =
            StructureKind::ALL.iter().all(|kind| pairs.iter().any(|(a, _)| a.kind == *kind));
        let of_kind = |kind| both_kinds.then(|| differences(&pairs, unit, |c| c.kind == kind));
        let mut cases: Vec<&str> = pairs.iter().map(|(a, _)| a.case.as_str()).collect();
        cases.dedup();
        Ok(Self {
            resamples: RESAMPLES,
            cases: cases.len(),
            pairs: pairs.len(),
            unpaired,
            overall: differences(&pairs, unit, |_| true),
            boxes: of_kind(StructureKind::Box),
            landmarks: of_kind(StructureKind::Landmark),
            structures: structures
                .filter(|name| pairs.iter().any(|(a, _)| a.structure == *name))
                .map(|name| StructureDifferences {
                    structure: name.to_owned(),
                    differences: differences(&pairs, unit, |c| c.structure == name),
                })
                .collect(),
        })
    }
}

/// The records that both sides have, in the order of A, and how many only one side has.
///
/// # Errors
/// Two records that were not measured alike.
fn pairs<'a>(
    a: &'a [Comparison],
    b: &'a [Comparison],
) -> Result<(Vec<Pair<'a>>, usize), PairError> {
    let mut pairs = Vec::new();
    for first in a {
        let Some(second) =
            b.iter().find(|c| c.case == first.case && c.structure == first.structure)
        else {
            continue;
        };
        let tolerances = first.tolerance_mm.zip(second.tolerance_mm);
        if first.truth != second.truth || tolerances.is_some_and(|(a, b)| (a - b).abs() > 1e-6) {
            return Err(PairError { case: first.case.clone(), structure: first.structure.clone() });
        }
        pairs.push((first, second));
    }
    let unpaired = a.len() + b.len() - 2 * pairs.len();
    Ok((pairs, unpaired))
}

/// All measures of the pairs that are wanted.
fn differences(
    pairs: &[Pair<'_>],
    length: LengthUnit,
    wanted: impl Fn(&Comparison) -> bool,
) -> Vec<Difference> {
    // Pairs of one case stand together, since each side goes through its cases one by one.
    let by_case: Vec<Vec<&Pair<'_>>> = pairs
        .chunk_by(|x, y| x.0.case == y.0.case)
        .map(|case| case.iter().filter(|(a, _)| wanted(a)).collect::<Vec<_>>())
        .filter(|case| !case.is_empty())
        .collect();
    let mut sums: Vec<Vec<CaseSum>> = Vec::new();
    let mut differences: Vec<Difference> = Vec::new();
    for measure in &MEASURES {
        let sum = |value: &dyn Fn(f64, f64) -> f64| -> Vec<CaseSum> {
            let of_case = |case: &Vec<&Pair<'_>>| {
                let mut sum = CaseSum::default();
                case.iter()
                    .filter_map(|(a, b)| (measure.of)(a, length).zip((measure.of)(b, length)))
                    .for_each(|(a, b)| sum.add(value(a, b)));
                sum
            };
            by_case.iter().map(of_case).collect()
        };
        let difference = sum(&|a, b| b - a);
        let (Some(mean), Some(mean_a), Some(mean_b)) =
            (pooled_mean(&difference), pooled_mean(&sum(&|a, _| a)), pooled_mean(&sum(&|_, b| b)))
        else {
            continue;
        };
        let &Measure { name, unit, lower_is_better, .. } = measure;
        differences.push(Difference {
            measure: name,
            unit: unit.unwrap_or(length.name()),
            lower_is_better,
            cases: difference.iter().filter(|case| case.count > 0).count(),
            pairs: difference.iter().map(|case| case.count).sum(),
            mean_a,
            mean_b,
            difference: mean,
            interval: None,
            better: None,
        });
        sums.push(difference);
    }
    for (difference, means) in differences.iter_mut().zip(resampled_means(&sums, SEED)) {
        if difference.cases < 2 {
            continue;
        }
        difference.interval = Interval::of(means.into_iter().flatten());
        if difference.interval.is_some_and(|interval| interval.excludes_zero()) {
            difference.better =
                Some(if (difference.difference < 0.0) == difference.lower_is_better {
                    "b"
                } else {
                    "a"
                });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case_errors::Answer;

    fn comparison(case: usize, structure: &str, center_mm: Option<f64>) -> Comparison {
        Comparison {
            case: format!("c{case}"),
            structure: structure.into(),
            kind: StructureKind::Landmark,
            truth: Truth::Present,
            answer: if center_mm.is_some() { Answer::Found } else { Answer::Absent },
            score: Some(0.8),
            error: center_mm.map(|center_mm| Distance::Point { center_mm }),
            across: false,
            radius_90_mm: None,
            tolerance_mm: Some(3.0),
            right: center_mm.is_some_and(|mm| mm <= 3.0),
            rivals: 0,
            nearest: None,
            instance: None,
            overlap: None,
        }
    }

    fn right_or_missed(cases: usize, is_missed: impl Fn(usize) -> bool) -> Vec<Comparison> {
        (0..cases).map(|n| comparison(n, "nose", (!is_missed(n)).then_some(1.0))).collect()
    }

    /// Two structures in each of `cases` cases with these errors.
    fn errors(cases: usize, of: impl Fn(usize) -> f64) -> Vec<Comparison> {
        (0..cases).flat_map(|n| ["nose", "ear"].map(|s| comparison(n, s, Some(of(n))))).collect()
    }

    fn paired(a: &[Comparison], b: &[Comparison]) -> Paired {
        Paired::new(a, b, ["nose", "ear", "chin"].into_iter(), LengthUnit::Mm).unwrap()
    }

    fn centre(a: &[Comparison], b: &[Comparison]) -> Difference {
        paired(a, b).overall.remove(0)
    }

    #[test]
    fn a_difference_in_every_case_is_told_and_noise_is_not() {
        let a = errors(20, |n| 2.0 + 0.5 * (n % 5) as f64);
        let better = centre(&a, &errors(20, |n| 1.5 + 0.5 * (n % 5) as f64 + 0.1 * (n % 2) as f64));
        assert!(
            (better.difference + 0.45).abs() < 1e-12 && (better.cases, better.pairs) == (20, 40)
        );
        assert_eq!(better.better, Some("b"));
        let noise = centre(
            &a,
            &errors(20, |n| 2.0 + 0.5 * (n % 5) as f64 + if n % 2 == 0 { 0.3 } else { -0.25 }),
        );
        assert!(noise.better.is_none() && noise.difference > 0.0, "{noise:?}");
        let same = centre(&a, &a);
        assert_eq!((same.better, same.interval), (None, Some(Interval { low: 0.0, high: 0.0 })));
    }

    #[test]
    fn a_missed_structure_counts_where_there_is_no_error_to_compare() {
        let (a, b) = (right_or_missed(12, |_| false), right_or_missed(12, |n| n % 3 == 0));
        let Paired { overall, unpaired, structures, .. } = paired(&a, &b);
        assert_eq!(structures.len(), 1);
        let of = |name: &str| overall.iter().find(|d| d.measure == name).unwrap();
        assert_eq!(
            (of("centre error").pairs, of("centre error").difference, unpaired),
            (8, 0.0, 0)
        );
        let right = of("right");
        assert!(
            (right.mean_a, right.better) == (100.0, Some("a"))
                && (right.difference + 100.0 / 3.0).abs() < 1e-9,
            "{right:?}"
        );
        assert_eq!(of("missed").better, Some("a"));
        assert!(
            overall
                .iter()
                .all(|d| !["identified", "angle error", "falsely found"].contains(&d.measure))
        );
    }

    #[test]
    fn what_only_one_side_has_is_left_out_and_other_truths_are_refused() {
        let a = errors(3, |_| 1.0);
        let mut b = errors(4, |_| 1.0);
        b.remove(0);
        let both = paired(&a, &b);
        assert_eq!((both.pairs, both.cases, both.unpaired), (5, 3, 3));
        b[2].tolerance_mm = Some(5.0);
        let refused = Paired::new(&a, &b, std::iter::empty(), LengthUnit::Mm).unwrap_err();
        assert_eq!(refused.case, "c1");
    }

    #[test]
    fn one_case_has_no_interval() {
        let one = centre(&errors(1, |_| 1.0), &errors(1, |_| 2.0));
        assert!(one.interval.is_none() && one.better.is_none() && one.difference == 1.0);
    }
}
