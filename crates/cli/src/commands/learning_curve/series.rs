//! The errors of boxes, or of landmarks, at every size, and what they say about more cases.

use crate::commands::evaluate::comparison::{Comparison, Distance, Truth};
use crate::table::{row, table};
use pbt_detect::{CaseSum, Interval, Outlook, PowerLaw, Summary, Verdict, resampled_means};
use pbt_io::DetectionKind;
use pbt_report::{CurvePoint, CurveSeries};
use serde::Serialize;

/// Seed of the resampling; fixed, so that a curve can be repeated.
const SEED: u64 = 0;

/// What the report says of one kind of structure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Series {
    kind: DetectionKind,
    /// Structures in tested cases that are annotated.
    annotated: usize,
    /// Those that got a position at every size: errors are of these, so that sizes can be compared.
    compared: usize,
    sizes: Vec<Size>,
    outlook: Outlook,
}

/// One size of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Size {
    cases: usize,
    /// Distance of the centres or points; null where none was found at every size.
    center_mm: Option<Summary>,
    /// Where the mean would lie with other test cases.
    interval: Option<Interval>,
    /// Shares of those annotated, 0 to 1.
    right: f64,
    missed: f64,
}

/// Boxes and landmarks, as far as there are any. `records` are those of each size.
pub(super) fn of_kinds(sizes: &[usize], records: &[&[Comparison]]) -> Vec<Series> {
    let there = |kind: &DetectionKind| records.iter().copied().flatten().any(|c| c.kind == *kind);
    [DetectionKind::Box, DetectionKind::Landmark]
        .into_iter()
        .filter(there)
        .map(|kind| Series::new(kind, sizes, records))
        .collect()
}

impl Series {
    fn new(kind: DetectionKind, sizes: &[usize], records: &[&[Comparison]]) -> Self {
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
        let of_size = |n: usize| Size {
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

    fn name(&self) -> &'static str {
        match self.kind {
            DetectionKind::Box => "boxes",
            DetectionKind::Landmark => "landmarks",
        }
    }

    /// The table and what follows from it.
    pub(super) fn shown(&self) -> String {
        let mut rows = vec![row([
            "cases",
            "mean, mm",
            "95 % interval",
            "median",
            "P95",
            "max",
            "right",
            "missed",
        ])];
        for size in &self.sizes {
            let mm = |value: fn(&Summary) -> f64| {
                size.center_mm.as_ref().map_or("-".to_owned(), |s| format!("{:.2}", value(s)))
            };
            let interval =
                size.interval.map_or("-".to_owned(), |i| format!("{:.2} to {:.2}", i.low, i.high));
            let mut cells = vec![size.cases.to_string(), mm(|s| s.mean), interval];
            cells.extend([mm(|s| s.median), mm(|s| s.p95), mm(|s| s.max)]);
            cells.extend([size.right, size.missed].map(|share| format!("{:.1} %", 100.0 * share)));
            rows.push(cells);
        }
        let some = if self.compared < self.annotated {
            format!(
                " (errors of the {} of {} that were found at every size)",
                self.compared, self.annotated
            )
        } else {
            String::new()
        };
        format!("{}{some}\n{}{}\n", self.name(), table(0, &rows), self.sentence())
    }

    /// What more cases would bring, in words.
    fn sentence(&self) -> String {
        let most = self.sizes.last().map_or(0, |s| s.cases);
        let now = self.sizes.last().and_then(|s| s.center_mm).map_or(0.0, |s| s.mean);
        let Outlook { residual_mm, gain_mm, interval, verdict, .. } = &self.outlook;
        let (gain, residual) = (gain_mm.unwrap_or(0.0), residual_mm.unwrap_or(0.0));
        let range = interval.map_or(String::new(), |i| format!("{:.2} to {:.2} mm", i.low, i.high));
        let double = format!("{} cases in place of {most}", 2 * most);
        match verdict {
            Verdict::Gain => {
                format!(
                    "{double} would lower the mean of {now:.2} mm by about {gain:.2} mm (95 % interval {range})"
                )
            }
            Verdict::Little => format!("{double} would bring little: {range} of {now:.2} mm"),
            Verdict::CannotTell => format!(
                "cannot tell what {double} would bring: the curve says {gain:.2} mm, 95 % interval {range}, \
                 and the errors lie {residual:.2} mm off it"
            ),
            Verdict::TooFewSizes => {
                format!("cannot tell what {double} would bring: a curve needs four sizes (--sizes)")
            }
            Verdict::TooFewCases => {
                format!("cannot tell what {double} would bring: too few tested cases")
            }
        }
    }

    /// For the picture, with the curve up to twice the largest number of cases.
    pub(super) fn drawn(&self) -> CurveSeries {
        let point = |size: &Size| {
            let interval_mm = size.interval.map(|i| (i.low, i.high));
            Some(CurvePoint {
                cases: size.cases as f64,
                error_mm: size.center_mm?.mean,
                interval_mm,
            })
        };
        let points: Vec<CurvePoint> = self.sizes.iter().filter_map(point).collect();
        let ends = points.first().zip(points.last()).map(|(a, b)| (a.cases, 2.0 * b.cases));
        let curve = |law: PowerLaw, (low, high): (f64, f64)| {
            let at = |n: i32| low * (high / low).powf(f64::from(n) / 60.0);
            (0..=60).map(|n| (at(n), law.at(at(n)))).collect()
        };
        let fitted = self.outlook.fit.zip(ends).map_or(Vec::new(), |(law, ends)| curve(law, ends));
        CurveSeries { name: self.name().to_owned(), points, fitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::evaluate::comparison::Answer;

    const SIZES: [usize; 4] = [5, 10, 20, 40];

    /// Of ten cases with two landmarks each; `error` gives the error by size, case and structure,
    /// or none for a missed one.
    fn series(sizes: usize, error: impl Fn(usize, usize, usize) -> Option<f64>) -> Vec<Series> {
        let record = |size: usize, case: usize, structure: usize| {
            let error = error(size, case, structure);
            Comparison {
                case: format!("c{case}"),
                structure: format!("s{structure}"),
                kind: DetectionKind::Landmark,
                truth: Truth::Present,
                answer: if error.is_some() { Answer::Found } else { Answer::Absent },
                score: Some(0.5),
                error: error.map(|center_mm| Distance::Point { center_mm }),
                tolerance_mm: Some(2.0),
                right: error.is_some_and(|mm| mm <= 2.0),
                rivals: 1,
                nearest: None,
            }
        };
        let of_size =
            |size: usize| (0..10).flat_map(|case| [0, 1].map(|s| record(size, case, s))).collect();
        let records: Vec<Vec<Comparison>> = (0..sizes).map(of_size).collect();
        of_kinds(&SIZES[..sizes], &records.iter().map(Vec::as_slice).collect::<Vec<_>>())
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
        let text = landmarks.shown();
        assert!(
            text.starts_with(
                "landmarks (errors of the 18 of 20 that were found at every size)\ncases  mean, mm"
            ),
            "{text}"
        );
        // error(n) = 20/n: forty cases more halve it.
        assert!(
            text.contains(
                "80 cases in place of 40 would lower the mean of 0.50 mm by about 0.25 mm"
            ),
            "{text}"
        );
        let drawn = landmarks.drawn();
        assert!(
            drawn.points.len() == 4
                && (drawn.fitted[60].0 - 80.0).abs() < 1e-9
                && (drawn.fitted[60].1 - 0.25).abs() < 0.01
        );
    }

    #[test]
    fn what_is_not_settled_is_not_promised() {
        let jumps =
            series(4, |size, case, _| Some(3.0 + [0.0, -1.0, 1.2, -0.4][size] + 0.1 * case as f64));
        assert!(jumps[0].shown().contains("cannot tell what 80 cases"), "{}", jumps[0].shown());
        let three = series(3, |size, _, _| Some(4.0 / (1 << size) as f64));
        assert!(three[0].shown().contains("a curve needs four sizes"));
        let missed = series(4, |_, _, _| None);
        assert!(
            missed[0].shown().contains("too few tested cases")
                && missed[0].drawn().points.is_empty()
        );
        assert!(of_kinds(&SIZES, &[&[], &[], &[], &[]]).is_empty());
    }
}
