//! `pbt evaluate --compare A B`: which of two is better on the same cases, and whether so few cases
//! can tell.

use super::cases::check_names;
use super::comparison::{Comparison, Distance, Truth};
use super::side::{Side, SideRecord};
use super::write_report;
use crate::Failure;
use crate::args::Evaluate;
use crate::device::Device;
use crate::output::print;
use crate::table::{row, table};
use pbt_detect::{BoxError, CaseSum, Interval, RESAMPLES, pooled_mean, resampled_means};
use pbt_io::{CaseSpec, Dataset, DetectionKind};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Seed of the resampling; fixed, so that a comparison can be repeated.
const SEED: u64 = 0;

/// With fewer cases than this percentile intervals are known to be too narrow.
const FEW_CASES: usize = 10;

/// `REPORT.json` of a comparison.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: String,
    split: String,
    a: SideRecord,
    b: SideRecord,
    resamples: usize,
    /// Cases with a pair.
    cases: usize,
    /// Structures in cases that both sides have.
    pairs: usize,
    /// Those that only one side has; they are left out.
    unpaired: usize,
    overall: Vec<Difference>,
    /// Null where all are of one kind.
    boxes: Option<Vec<Difference>>,
    landmarks: Option<Vec<Difference>>,
    structures: Vec<StructureDifferences>,
}

#[derive(Serialize)]
struct StructureDifferences {
    structure: String,
    differences: Vec<Difference>,
}

/// One measure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Difference {
    measure: &'static str,
    unit: &'static str,
    lower_is_better: bool,
    /// Cases and structures in them for which both sides have the measure.
    cases: usize,
    pairs: usize,
    mean_a: f64,
    mean_b: f64,
    /// B − A.
    difference: f64,
    /// Holds 95 % of the differences when cases are drawn anew; null with fewer than two cases.
    interval: Option<Interval>,
    /// `a` or `b`; null when the interval holds 0.
    better: Option<&'static str>,
}

/// Something that is measured of a structure in a case.
struct Measure {
    name: &'static str,
    unit: &'static str,
    lower_is_better: bool,
    of: fn(&Comparison) -> Option<f64>,
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
        unit: "mm",
        lower_is_better: true,
        of: |c| c.error.as_ref().map(Distance::center_mm),
    },
    Measure {
        name: "angle error",
        unit: "degrees",
        lower_is_better: true,
        of: |c| of_box(c, |e| e.angle_deg),
    },
    Measure {
        name: "size error",
        unit: "%",
        lower_is_better: true,
        of: |c| of_box(c, |e| e.size_percent),
    },
    Measure {
        name: "right",
        unit: "%",
        lower_is_better: false,
        of: |c| (c.truth == Truth::Present).then(|| share(c.right)),
    },
    Measure {
        name: "missed",
        unit: "%",
        lower_is_better: true,
        of: |c| (c.truth == Truth::Present).then(|| share(c.is_missed())),
    },
    Measure {
        name: "falsely found",
        unit: "%",
        lower_is_better: true,
        of: |c| (c.truth == Truth::Absent).then(|| share(c.is_false())),
    },
    Measure {
        name: "identified",
        unit: "%",
        lower_is_better: false,
        of: |c| c.is_identified().map(share),
    },
    Measure {
        name: "Brier score",
        unit: "",
        lower_is_better: true,
        of: |c| c.judged().map(|j| (j.score - if j.right { 1.0 } else { 0.0 }).powi(2)),
    },
];

/// The same structure in the same case on both sides.
type Pair<'a> = (&'a Comparison, &'a Comparison);

pub(super) fn run(
    paths: [&Path; 2],
    args: &Evaluate,
    dataset: &Dataset,
    cases: &[CaseSpec],
    device: &Device,
    quiet: bool,
) -> Result<ExitCode, Failure> {
    check_names(dataset, &args.structure)?;
    let [a, b] = paths.map(|path| Side::open(path, args, dataset, cases, device, quiet));
    let (a, b) = (a?, b?);
    let (pairs, unpaired) = pairs(&a, &b).map_err(|what| Failure::input(paths[1], what))?;
    if pairs.is_empty() {
        return Err(Failure::input(
            paths[1],
            format!("records: none is of a case and structure of {}", paths[0].display()),
        ));
    }
    let names = dataset
        .structures
        .iter()
        .map(|s| s.name.as_str())
        .filter(|name| pairs.iter().any(|(a, _)| a.structure == *name));
    let kinds = [DetectionKind::Box, DetectionKind::Landmark];
    let both_kinds = kinds.iter().all(|kind| pairs.iter().any(|(a, _)| a.kind == *kind));
    let of_kind = |kind| both_kinds.then(|| differences(&pairs, |c| c.kind == kind));
    let mut ids: Vec<&str> = pairs.iter().map(|(a, _)| a.case.as_str()).collect();
    ids.dedup();
    let report = Report {
        schema: "pbt-comparison/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        dataset: dataset.name.clone(),
        split: args.split.clone(),
        resamples: RESAMPLES,
        cases: ids.len(),
        pairs: pairs.len(),
        unpaired,
        overall: differences(&pairs, |_| true),
        boxes: of_kind(DetectionKind::Box),
        landmarks: of_kind(DetectionKind::Landmark),
        structures: names
            .map(|name| StructureDifferences {
                structure: name.to_owned(),
                differences: differences(&pairs, |c| c.structure == name),
            })
            .collect(),
        a: a.record,
        b: b.record,
    };
    if !quiet {
        print(report.shown().as_bytes())?;
    }
    write_report(args.output.as_deref(), &report, quiet)?;
    Ok(if report.a.failed.is_empty() && report.b.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(3)
    })
}

/// The records that both sides have, in the order of A, and how many only one side has.
///
/// # Errors
/// Two records that were not measured alike.
fn pairs<'a>(a: &'a Side, b: &'a Side) -> Result<(Vec<Pair<'a>>, usize), String> {
    let mut pairs = Vec::new();
    for first in &a.records {
        let Some(second) =
            b.records.iter().find(|c| c.case == first.case && c.structure == first.structure)
        else {
            continue;
        };
        let tolerances = first.tolerance_mm.zip(second.tolerance_mm);
        if first.truth != second.truth || tolerances.is_some_and(|(a, b)| (a - b).abs() > 1e-6) {
            let what = "was compared with another annotation or tolerance than on the other side (evaluate both anew)";
            return Err(format!("records: `{}` of case {} {what}", first.structure, first.case));
        }
        pairs.push((first, second));
    }
    let unpaired = a.records.len() + b.records.len() - 2 * pairs.len();
    Ok((pairs, unpaired))
}

/// All measures of the pairs that are wanted.
fn differences(pairs: &[Pair<'_>], wanted: impl Fn(&Comparison) -> bool) -> Vec<Difference> {
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
                    .filter_map(|(a, b)| (measure.of)(a).zip((measure.of)(b)))
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
            unit,
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

impl Difference {
    /// What it means, in words.
    fn sentence(&self) -> String {
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let cases = format!("{} case{}", self.cases, if self.cases == 1 { "" } else { "s" });
        let Some(Interval { low, high }) = self.interval else {
            return format!("{}: one case cannot tell which is better", self.measure);
        };
        let (size, range) = (
            self.difference.abs(),
            format!("95 % interval of B − A {low:+.3} to {high:+.3}{unit}, {cases}"),
        );
        match self.better {
            Some(better) => {
                let (better, other) = if better == "a" { ("A", "B") } else { ("B", "A") };
                let how = if self.lower_is_better { "lower" } else { "higher" };
                format!(
                    "{}: {better} is better, {size:.3}{unit} {how} than {other} ({range})",
                    self.measure
                )
            }
            None if low == 0.0 && high == 0.0 => {
                format!("{}: the same in every case ({cases})", self.measure)
            }
            None => format!("{}: these cases cannot tell which is better ({range})", self.measure),
        }
    }

    fn cells(&self, first: &str) -> Vec<String> {
        let interval =
            self.interval.map_or("-".to_owned(), |i| format!("{:+.3} to {:+.3}", i.low, i.high));
        let better = self.better.map_or("-".to_owned(), str::to_uppercase);
        let mut cells = row([first, self.unit]);
        cells.extend([
            self.pairs.to_string(),
            format!("{:.3}", self.mean_a),
            format!("{:.3}", self.mean_b),
        ]);
        cells.extend([format!("{:+.3}", self.difference), interval, better]);
        cells
    }
}

impl Report {
    fn shown(&self) -> String {
        let mut text = format!(
            "{}, split {}: {} pairs in {} cases\nA  {}\nB  {}\n\n",
            self.dataset, self.split, self.pairs, self.cases, self.a.path, self.b.path
        );
        if self.unpaired > 0 {
            text.push_str(&format!(
                "{} records that only one side has are left out\n\n",
                self.unpaired
            ));
        }
        let head =
            |first: &str| row([first, "", "n", "A", "B", "B − A", "95 % interval", "better"]);
        let mut overall = vec![head("(all)")];
        overall.extend(self.overall.iter().map(|d| d.cells(d.measure)));
        text.push_str(&table(2, &overall));
        if self.structures.len() > 1 {
            let mut centres = vec![head("centre error")];
            let of = |list: &[Difference], name: &str| {
                list.iter().find(|d| d.measure == MEASURES[0].name).map(|d| d.cells(name))
            };
            centres.extend(self.structures.iter().filter_map(|s| of(&s.differences, &s.structure)));
            centres.extend(self.boxes.iter().filter_map(|list| of(list, "(boxes)")));
            centres.extend(self.landmarks.iter().filter_map(|list| of(list, "(landmarks)")));
            text.push_str(&format!("\n{}", table(2, &centres)));
        }
        text.push('\n');
        for difference in
            self.overall.iter().filter(|d| ["centre error", "right"].contains(&d.measure))
        {
            text.push_str(&format!("{}\n", difference.sentence()));
        }
        if self.cases < FEW_CASES {
            text.push_str(&format!(
                "With fewer than {FEW_CASES} cases intervals are too narrow: take them as hints.\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::evaluate::comparison::Answer;

    fn comparison(case: usize, structure: &str, center_mm: Option<f64>) -> Comparison {
        Comparison {
            case: format!("c{case}"),
            structure: structure.into(),
            kind: DetectionKind::Landmark,
            truth: Truth::Present,
            answer: if center_mm.is_some() { Answer::Found } else { Answer::Absent },
            score: Some(0.8),
            error: center_mm.map(|center_mm| Distance::Point { center_mm }),
            tolerance_mm: Some(3.0),
            right: center_mm.is_some_and(|mm| mm <= 3.0),
            rivals: 0,
            nearest: None,
        }
    }

    fn side(records: Vec<Comparison>) -> Side {
        Side {
            record: SideRecord { path: "x".into(), models: Vec::new(), failed: Vec::new() },
            records,
        }
    }

    /// Two structures in each of `cases` cases with these errors.
    fn errors(cases: usize, of: impl Fn(usize) -> f64) -> Side {
        side(
            (0..cases)
                .flat_map(|n| ["nose", "ear"].map(|s| comparison(n, s, Some(of(n)))))
                .collect(),
        )
    }

    fn centre(a: &Side, b: &Side) -> Difference {
        let (pairs, _) = pairs(a, b).unwrap();
        differences(&pairs, |_| true).remove(0)
    }

    #[test]
    fn a_difference_in_every_case_is_told_and_noise_is_not() {
        let a = errors(20, |n| 2.0 + 0.5 * (n % 5) as f64);
        let better = centre(&a, &errors(20, |n| 1.5 + 0.5 * (n % 5) as f64 + 0.1 * (n % 2) as f64));
        assert!(
            (better.difference + 0.45).abs() < 1e-12 && (better.cases, better.pairs) == (20, 40)
        );
        assert_eq!(better.better, Some("b"));
        assert!(
            better.sentence().starts_with("centre error: B is better, 0.450 mm lower than A"),
            "{}",
            better.sentence()
        );
        let noise = centre(
            &a,
            &errors(20, |n| 2.0 + 0.5 * (n % 5) as f64 + if n % 2 == 0 { 0.3 } else { -0.25 }),
        );
        assert!(
            noise.better.is_none() && noise.sentence().contains("cannot tell"),
            "{}",
            noise.sentence()
        );
        let same = centre(&a, &a);
        assert!(
            same.better.is_none() && same.sentence().contains("the same in every case"),
            "{}",
            same.sentence()
        );
    }

    #[test]
    fn a_missed_structure_counts_where_there_is_no_error_to_compare() {
        let a = side((0..12).map(|n| comparison(n, "nose", Some(1.0))).collect());
        let b = side((0..12).map(|n| comparison(n, "nose", (n % 3 > 0).then_some(1.0))).collect());
        let (pairs, unpaired) = pairs(&a, &b).unwrap();
        let all = differences(&pairs, |_| true);
        let of = |name: &str| all.iter().find(|d| d.measure == name).unwrap();
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
            all.iter()
                .all(|d| !["identified", "angle error", "falsely found"].contains(&d.measure))
        );
    }

    #[test]
    fn what_only_one_side_has_is_left_out_and_other_truths_are_refused() {
        let a = errors(3, |_| 1.0);
        let mut b = errors(4, |_| 1.0);
        b.records.remove(0);
        let (both, unpaired) = pairs(&a, &b).unwrap();
        assert_eq!((both.len(), unpaired), (5, 3));
        b.records[2].tolerance_mm = Some(5.0);
        assert!(pairs(&a, &b).unwrap_err().contains("case c1"));
    }

    #[test]
    fn one_case_has_no_interval() {
        let one = centre(&errors(1, |_| 1.0), &errors(1, |_| 2.0));
        assert!(
            one.interval.is_none() && one.better.is_none() && one.sentence().contains("one case")
        );
    }
}
