//! Errors over the number of training cases, with the curves fitted to them, as SVG.

use crate::encode::escaped;
use pbt_evaluate::{CurveSize, PowerLaw, Series};
use std::fmt::Write;

/// One line of the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct CurveSeries {
    /// What it is about.
    pub name: String,
    /// What was measured, in ascending order of cases.
    pub points: Vec<CurvePoint>,
    /// The fitted curve as cases and mm, in ascending order of cases; empty where there is none.
    pub fitted: Vec<(f64, f64)>,
}

/// The error after a training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Training cases; above 0.
    pub cases: f64,
    /// Mean error, mm.
    pub error_mm: f64,
    /// Where it would lie with other test cases, mm.
    pub interval_mm: Option<(f64, f64)>,
}

/// With the curve up to twice the largest number of cases.
impl From<&Series> for CurveSeries {
    fn from(series: &Series) -> Self {
        let point = |size: &CurveSize| {
            let interval_mm = size.interval.map(|i| (i.low, i.high));
            Some(CurvePoint {
                cases: size.cases as f64,
                error_mm: size.center_mm?.mean,
                interval_mm,
            })
        };
        let points: Vec<CurvePoint> = series.sizes.iter().filter_map(point).collect();
        let ends = points.first().zip(points.last()).map(|(a, b)| (a.cases, 2.0 * b.cases));
        let curve = |law: PowerLaw, (low, high): (f64, f64)| {
            let at = |n: i32| low * (high / low).powf(f64::from(n) / 60.0);
            (0..=60).map(|n| (at(n), law.at(at(n)))).collect()
        };
        let fitted =
            series.outlook.fit.zip(ends).map_or(Vec::new(), |(law, ends)| curve(law, ends));
        Self { name: series.kind.plural().to_owned(), points, fitted }
    }
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 60.0;
const COLOURS: [&str; 4] = ["#2a6fb0", "#c8553d", "#3a7d44", "#7a4fa3"];

/// The picture: cases on a logarithmic axis, errors from 0 up, `mm` or whatever `unit` says; dots with their intervals, curves
/// dashed.
pub fn learning_curve(title: &str, series: &[CurveSeries], unit: &str) -> String {
    let points = || series.iter().flat_map(|s| &s.points);
    let all_cases = || {
        points().map(|p| p.cases).chain(series.iter().flat_map(|s| s.fitted.iter().map(|f| f.0)))
    };
    let (low, high) =
        (all_cases().fold(f64::INFINITY, f64::min).max(1.0), all_cases().fold(1.0, f64::max));
    // An outlier's interval may not flatten everything else.
    let top = points()
        .map(|p| p.interval_mm.map_or(p.error_mm, |i| i.1.min(1.5 * p.error_mm)).max(p.error_mm))
        .fold(0.0, f64::max);
    let step = round_step(top / 5.0);
    let top = ((top / step).ceil() * step).max(step);
    let width = (high / low).ln().max(1e-9);
    let place = |cases: f64, mm: f64| {
        let x = LEFT + (cases.max(low) / low).ln() / width * (WIDTH - LEFT - RIGHT);
        (x, HEIGHT - BOTTOM - mm.clamp(0.0, top) / top * (HEIGHT - TOP - BOTTOM))
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"17\" font-weight=\"600\">{}</text>\n",
        escaped(title)
    );
    let ends = series.iter().filter_map(|s| s.fitted.last()).map(|end| end.0);
    axes(&mut svg, points().map(|p| p.cases).chain(ends), (step, top, unit), &place);
    for (n, s) in series.iter().enumerate() {
        draw(&mut svg, s, (COLOURS[n % COLOURS.len()], unit), &place);
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
            WIDTH - RIGHT,
            TOP + 4.0 + 18.0 * n as f64,
            COLOURS[n % COLOURS.len()],
            escaped(&s.name)
        );
    }
    svg + "</svg>\n"
}

/// The least of 1, 2 and 5 times a power of ten that is not below.
pub(crate) fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    [1.0, 2.0, 5.0].map(|m| m * power).into_iter().find(|s| *s >= least).unwrap_or(10.0 * power)
}

fn axes(
    svg: &mut String,
    cases: impl Iterator<Item = f64>,
    (step, top, unit): (f64, f64, &str),
    place: &impl Fn(f64, f64) -> (f64, f64),
) {
    let bottom = HEIGHT - BOTTOM;
    for n in 0..=(top / step).round() as usize {
        let mm = n as f64 * step;
        let y = place(1.0, mm).1;
        let decimals = (-step.log10().floor()).max(0.0) as usize;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{mm:.decimals$}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.5
        );
    }
    let mut ticks: Vec<f64> = cases.map(f64::round).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for cases in ticks {
        let x = place(cases, 0.0).0;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{bottom:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#222\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{cases}</text>",
            bottom + 5.0,
            bottom + 20.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">training cases</text>\
         <text transform=\"translate(20 {:.1}) rotate(-90)\" text-anchor=\"middle\">mean error, {unit}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 16.0,
        (TOP + bottom) / 2.0
    );
}

fn draw(
    svg: &mut String,
    series: &CurveSeries,
    (colour, unit): (&str, &str),
    place: &impl Fn(f64, f64) -> (f64, f64),
) {
    if !series.fitted.is_empty() {
        let points: Vec<String> = series
            .fitted
            .iter()
            .map(|&(n, mm)| place(n, mm))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"6 4\"/>",
            points.join(" ")
        );
    }
    for point in &series.points {
        let (x, y) = place(point.cases, point.error_mm);
        if let Some((low, high)) = point.interval_mm {
            let (y1, y2) = (place(point.cases, low).1, place(point.cases, high).1);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"2\" stroke-opacity=\"0.5\"/>"
            );
        }
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\" fill=\"{colour}\"><title>{} cases: {:.3} {unit}</title></circle>",
            point.cases, point.error_mm
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_evaluate::{Outlook, Summary, Verdict};
    use pbt_volume::StructureKind;

    fn series(name: &str) -> CurveSeries {
        let point = |cases: f64, error_mm: f64| CurvePoint {
            cases,
            error_mm,
            interval_mm: Some((error_mm - 0.2, error_mm + 0.3)),
        };
        CurveSeries {
            name: name.into(),
            points: vec![point(5.0, 4.0), point(10.0, 3.0), point(20.0, 2.5)],
            fitted: vec![(5.0, 4.0), (10.0, 3.1), (40.0, 2.2)],
        }
    }

    /// The numbers of an attribute, in order.
    fn numbers(svg: &str, tag: &str, attribute: &str) -> Vec<f64> {
        let of = |part: &str| {
            part.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?.parse().ok()
        };
        svg.split(&format!("<{tag}")).skip(1).filter_map(of).collect()
    }

    #[test]
    fn more_cases_lie_to_the_right_and_larger_errors_above() {
        let svg = learning_curve("a < b", &[series("boxes"), series("landmarks")], "mm");
        assert!(
            svg.contains("a &lt; b")
                && svg.contains(">landmarks</text>")
                && svg.matches("<polyline ").count() == 2
        );
        let (x, y) = (numbers(&svg, "circle", "cx"), numbers(&svg, "circle", "cy"));
        assert_eq!(x.len(), 6);
        assert!(x[0] < x[1] && x[1] < x[2] && y[0] < y[1] && y[1] < y[2]);
        // Doublings are equally far apart.
        assert!((x[1] - x[0] - (x[2] - x[1])).abs() < 0.2);
        assert!(
            x.iter().all(|&x| (LEFT..=WIDTH - RIGHT).contains(&x))
                && y.iter().all(|&y| (TOP..=HEIGHT - BOTTOM).contains(&y))
        );
    }

    #[test]
    fn a_series_is_drawn_to_twice_its_largest_size() {
        let sizes = [(5, 4.0), (10, 2.0), (20, 1.0)].map(|(cases, mm)| CurveSize {
            cases,
            center_mm: Summary::new(&[mm]),
            interval: None,
            right: 1.0,
            missed: 0.0,
        });
        let outlook = Outlook {
            fit: Some(PowerLaw { a: 0.0, b: 20.0, c: 1.0 }),
            residual_mm: None,
            gain_mm: None,
            interval: None,
            verdict: Verdict::CannotTell,
        };
        let series = Series {
            kind: StructureKind::Landmark,
            annotated: 1,
            compared: 1,
            sizes: sizes.to_vec(),
            outlook,
        };
        let drawn = CurveSeries::from(&series);
        assert_eq!((drawn.points.len(), drawn.name.as_str()), (3, "landmarks"));
        let last = drawn.fitted[60];
        assert!((last.0 - 40.0).abs() < 1e-9 && (last.1 - 0.5).abs() < 1e-9, "{last:?}");
        let nowhere = Series {
            sizes: vec![CurveSize { center_mm: None, ..series.sizes[0].clone() }],
            ..series
        };
        let drawn = CurveSeries::from(&nowhere);
        assert!(drawn.points.is_empty() && drawn.fitted.is_empty());
    }

    #[test]
    fn a_single_point_and_none_are_drawn() {
        let one = CurveSeries {
            points: vec![CurvePoint { cases: 2.0, error_mm: 0.0, interval_mm: None }],
            ..series("x")
        };
        for svg in [
            learning_curve("", &[CurveSeries { fitted: Vec::new(), ..one }], "mm"),
            learning_curve("", &[], "mm"),
        ] {
            assert!(
                svg.starts_with("<svg ") && !svg.contains("NaN") && !svg.contains("inf"),
                "{svg}"
            );
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([0.9, 1.0, 1.1, 3.0, 7.0].map(round_step), [1.0, 1.0, 2.0, 5.0, 10.0]);
    }
}
