//! Charts of a page as SVG. Colours come from the page's style sheet.

use crate::learning_curve::round_step;
use crate::page::view::Chart;
use pbt_evaluate::Proportion;
use std::fmt::Write;

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 36.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 34.0;

/// Fewest and most bars of a histogram; between them twice the root of the number of values.
const BARS: [f64; 2] = [6.0, 20.0];

fn begin() -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">"
    )
}

fn bottom() -> f64 {
    HEIGHT - BOTTOM
}

/// From a share of the chart's width and height to a place in it.
fn place(x: f64, y: f64) -> (f64, f64) {
    (LEFT + x * (WIDTH - LEFT - RIGHT), bottom() - y * (bottom() - TOP))
}

fn frame(svg: &mut String, ticks_x: &[(f64, String)], ticks_y: &[(f64, String)], name_x: &str) {
    for (share, text) in ticks_y {
        let (x, y) = place(0.0, *share);
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            WIDTH - RIGHT,
            x - 5.0,
            y + 4.0
        );
    }
    for (share, text) in ticks_x {
        let (x, y) = place(*share, 0.0);
        let _ = write!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            y + 14.0
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name_x}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 4.0
    );
}

/// A number without needless zeros.
fn short(value: f64) -> String {
    format!("{:.3}", value).trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// How many of the values lie where, from 0 or from the least on; `unit` names the values. `None`
/// without any.
pub(crate) fn histogram(title: &str, values: &[f64], unit: &str, from_zero: bool) -> Option<Chart> {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !(least.is_finite() && most.is_finite()) {
        return None;
    }
    let low = if from_zero { 0.0 } else { least };
    let bars = (2.0 * (values.len() as f64).sqrt()).clamp(BARS[0], BARS[1]);
    let step = round_step(((most - low) / bars).max(1e-6));
    let low = (low / step).floor() * step;
    let bars = ((most - low) / step).floor() as usize + 1;
    let mut counts = vec![0usize; bars];
    for value in values {
        counts[(((value - low) / step).floor() as usize).min(bars - 1)] += 1;
    }
    let highest = counts.iter().copied().max().unwrap_or(1).max(1);
    let tick = round_step(highest as f64 / 4.0).max(1.0);
    let top = (highest as f64 / tick).ceil() * tick;
    let mut svg = begin();
    let ticks_y: Vec<(f64, String)> = (0..=(top / tick) as usize)
        .map(|n| (n as f64 * tick / top, short(n as f64 * tick)))
        .collect();
    let every = bars.div_ceil(6);
    let ticks_x: Vec<(f64, String)> = (0..=bars)
        .step_by(every)
        .map(|n| (n as f64 / bars as f64, short(low + n as f64 * step)))
        .collect();
    frame(&mut svg, &ticks_x, &ticks_y, unit);
    for (n, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (x, y) = place(n as f64 / bars as f64, count as f64 / top);
        let (next, base) = place((n + 1) as f64 / bars as f64, 0.0);
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} to {}: {count}</title></rect>",
            x + 0.5,
            (next - x - 1.0).max(0.5),
            base - y,
            short(low + n as f64 * step),
            short(low + (n + 1) as f64 * step)
        );
    }
    svg.push_str("</svg>");
    Some(Chart { title: title.to_owned(), svg, note: format!("{} in all", values.len()) })
}

/// One of the ten bins of scores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bin {
    pub(crate) n: usize,
    pub(crate) mean_score: f64,
    pub(crate) share_right: f64,
}

/// The share that is right over the score, with the exact 95 % interval of each share; on the dashed
/// line scores are probabilities.
pub(crate) fn calibration(bins: &[Bin]) -> Chart {
    let mut svg = begin();
    let ticks: Vec<(f64, String)> =
        (0..=5).map(|n| (f64::from(n) / 5.0, short(f64::from(n) / 5.0))).collect();
    frame(&mut svg, &ticks, &ticks, "score");
    let ((x1, y1), (x2, y2)) = (place(0.0, 0.0), place(1.0, 1.0));
    let _ = write!(
        svg,
        "<line class=\"ideal\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
    );
    for bin in bins.iter().filter(|bin| bin.n > 0) {
        let (x, y) = place(bin.mean_score, bin.share_right);
        let right = (bin.share_right * bin.n as f64).round() as usize;
        if bin.n > 0 {
            let [low, high] = Proportion { good: right, all: bin.n }.interval();
            let (_, y1) = place(0.0, low);
            let (_, y2) = place(0.0, high);
            let _ = write!(
                svg,
                "<line class=\"interval\" x1=\"{x:.1}\" y1=\"{y1:.1}\" x2=\"{x:.1}\" y2=\"{y2:.1}\"/>"
            );
        }
        let _ = write!(
            svg,
            "<circle class=\"bar\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{} of {} right at a mean score of {:.2}</title></circle>",
            right, bin.n, bin.mean_score
        );
    }
    svg.push_str("</svg>");
    Chart {
        title: "Share that is right by score".to_owned(),
        svg,
        note: "On the dashed line a score is the probability to be right; bars are exact 95 % intervals.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bar() {
        let values: Vec<f64> = (0..57).map(|n| f64::from(n) * 0.37).collect();
        let svg = histogram("errors", &values, "mm", true).unwrap().svg;
        let counts = svg
            .split("</title>")
            .filter_map(|part| part.rsplit(": ").next()?.parse::<usize>().ok());
        assert_eq!(counts.sum::<usize>(), 57);
        assert!(histogram("none", &[], "mm", true).is_none());
        // All alike, and with a value at the end of the last bar.
        assert!(histogram("one", &[3.0; 4], "mm", true).unwrap().svg.contains(": 4</title>"));
        assert!(histogram("dice", &[1.0, 0.5], "Dice", false).is_some());
    }
}
