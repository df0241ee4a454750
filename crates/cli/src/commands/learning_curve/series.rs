//! What the sizes of a learning curve reached, as a table and in words.

use crate::table::{row, table};
use pbt_evaluate::{Outlook, Series, Summary, Verdict};
use pbt_volume::LengthUnit;

/// The table and what follows from it.
pub(super) fn shown(series: &Series, unit: LengthUnit) -> String {
    let mean = format!("mean, {unit}");
    let mut rows = vec![row([
        "cases",
        mean.as_str(),
        "95 % interval",
        "median",
        "P95",
        "max",
        "right",
        "missed",
    ])];
    for size in &series.sizes {
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
    let some = if series.compared < series.annotated {
        format!(
            " (errors of the {} of {} that were found at every size)",
            series.compared, series.annotated
        )
    } else {
        String::new()
    };
    format!("{}{some}\n{}{}\n", series.kind.plural(), table(0, &rows), sentence(series, unit))
}

/// What more cases would bring, in words.
fn sentence(series: &Series, unit: LengthUnit) -> String {
    let most = series.sizes.last().map_or(0, |s| s.cases);
    let now = series.sizes.last().and_then(|s| s.center_mm).map_or(0.0, |s| s.mean);
    let Outlook { residual_mm, gain_mm, interval, verdict, .. } = &series.outlook;
    let (gain, residual) = (gain_mm.unwrap_or(0.0), residual_mm.unwrap_or(0.0));
    let range = interval.map_or(String::new(), |i| format!("{:.2} to {:.2} {unit}", i.low, i.high));
    let double = format!("{} cases in place of {most}", 2 * most);
    match verdict {
        Verdict::Gain => {
            format!(
                "{double} would lower the mean of {now:.2} {unit} by about {gain:.2} {unit} (95 % interval {range})"
            )
        }
        Verdict::Little => format!("{double} would bring little: {range} of {now:.2} {unit}"),
        Verdict::CannotTell => format!(
            "cannot tell what {double} would bring: the curve says {gain:.2} {unit}, 95 % interval {range}, \
             and the errors lie {residual:.2} {unit} off it"
        ),
        Verdict::TooFewSizes => {
            format!("cannot tell what {double} would bring: a curve needs four sizes (--sizes)")
        }
        Verdict::TooFewCases => {
            format!("cannot tell what {double} would bring: too few tested cases")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_evaluate::{Answer, Comparison, Distance, Truth};
    use pbt_volume::StructureKind;

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
    fn a_gain_is_told_with_what_was_compared() {
        // The hard case 9 is missed with five cases and far off later.
        let series = series(4, |size, case, _| {
            if case == 9 { (size > 0).then_some(30.0) } else { Some(4.0 / (1 << size) as f64) }
        });
        let text = shown(&series[0], LengthUnit::Mm);
        assert!(
            text.starts_with(
                "landmarks (errors of the 18 of 20 that were found at every size)\ncases  mean, mm"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "80 cases in place of 40 would lower the mean of 0.50 mm by about 0.25 mm"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_settled_is_not_promised() {
        let jumps =
            series(4, |size, case, _| Some(3.0 + [0.0, -1.0, 1.2, -0.4][size] + 0.1 * case as f64));
        assert!(
            shown(&jumps[0], LengthUnit::Mm).contains("cannot tell what 80 cases"),
            "{}",
            shown(&jumps[0], LengthUnit::Mm)
        );
        let three = series(3, |size, _, _| Some(4.0 / (1 << size) as f64));
        assert!(shown(&three[0], LengthUnit::Mm).contains("a curve needs four sizes"));
        let missed = series(4, |_, _, _| None);
        assert!(shown(&missed[0], LengthUnit::Mm).contains("too few tested cases"));
    }
}
