//! Summaries over the cases, and the table that shows them.

use super::compare::{Answer, Comparison, Distance, Truth};
use crate::table::{row, table};
use pbt_detect::{BoxError, Summary, success_rates};
use serde::Serialize;

/// Limits of the success detection rates, mm.
const LIMITS_MM: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// The figures of one structure, or of all.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Figures {
    /// The structure; null for all together.
    structure: Option<String>,
    /// Cases in which it is annotated and there.
    annotated: usize,
    /// Annotated ones that were found.
    found: usize,
    /// Annotated ones that were found with doubt.
    doubtful: usize,
    /// Annotated ones that were not found.
    missed: usize,
    /// Cases in which it was found although it is marked as outside the field of view.
    #[serde(rename = "false")]
    falsely_found: usize,
    /// Success detection rates.
    success_rates: SuccessRates,
    /// Distance of the centres, mm, over found and doubtful ones, as all that follow. Null where there are none.
    center_mm: Option<Summary>,
    /// Angle between the orientations, degrees.
    angle_deg: Option<Summary>,
    /// Mean error of the edge lengths, per cent.
    size_percent: Option<Summary>,
    /// Length of the difference of the size vectors, mm.
    size_mm: Option<Summary>,
    /// Largest distance of corresponding corners, mm.
    corner_mm: Option<Summary>,
    /// Largest distance of the end-points of the first axis, mm.
    line_mm: Option<Summary>,
}

/// Shares, 0 to 1, of the annotated structures whose centre was found within a distance; a missed one lies within none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct SuccessRates {
    within_1_mm: f64,
    within_2_mm: f64,
    within_3_mm: f64,
    within_4_mm: f64,
}

impl Figures {
    /// Figures of the comparisons of one structure, or of all where `structure` is `None`.
    pub(super) fn new(structure: Option<&str>, comparisons: &[Comparison]) -> Self {
        let mine: Vec<&Comparison> = comparisons.iter().filter(|c| structure.is_none_or(|s| s == c.structure)).collect();
        let present: Vec<&Comparison> = mine.iter().copied().filter(|c| c.truth == Truth::Present).collect();
        let answered = |answer: Answer| present.iter().filter(|c| c.answer == answer).count();
        let center = |c: &Comparison| c.error.as_ref().map(Distance::center_mm);
        let centers: Vec<f64> = present.iter().filter_map(|c| center(c)).collect();
        let with_missed: Vec<f64> = present.iter().map(|c| center(c).unwrap_or(f64::INFINITY)).collect();
        let rates = success_rates(&with_missed, &LIMITS_MM);
        let boxes: Vec<&BoxError> = present.iter().filter_map(|c| c.error.as_ref()?.of_box()).collect();
        let over_boxes = |measure: fn(&BoxError) -> f64| Summary::new(&boxes.iter().map(|b| measure(b)).collect::<Vec<_>>());
        Self {
            structure: structure.map(str::to_owned),
            annotated: present.len(),
            found: answered(Answer::Found),
            doubtful: answered(Answer::Doubtful),
            missed: present.iter().filter(|c| c.is_missed()).count(),
            falsely_found: mine.iter().filter(|c| c.is_false()).count(),
            success_rates: SuccessRates { within_1_mm: rates[0], within_2_mm: rates[1], within_3_mm: rates[2], within_4_mm: rates[3] },
            center_mm: Summary::new(&centers),
            angle_deg: over_boxes(|e| e.angle_deg),
            size_percent: over_boxes(|e| e.size_percent),
            size_mm: over_boxes(|e| e.size_mm),
            corner_mm: over_boxes(|e| e.corner_mm),
            line_mm: over_boxes(|e| e.line_mm),
        }
    }

    fn name(&self) -> &str {
        self.structure.as_deref().unwrap_or("(all)")
    }
}

/// The figures as two tables: errors, and what was found and missed.
pub(super) fn shown(figures: &[&Figures]) -> String {
    let mut errors = vec![row(["structure", "error", "n", "mean", "median", "P95", "max"])];
    for f in figures {
        let measures = [
            ("centre, mm", f.center_mm),
            ("angle, degrees", f.angle_deg),
            ("size, %", f.size_percent),
            ("corner, mm", f.corner_mm),
            ("line, mm", f.line_mm),
        ];
        let there = measures.into_iter().filter_map(|(what, summary)| Some((what, summary?)));
        for (n, (what, s)) in there.enumerate() {
            let name = if n == 0 { f.name() } else { "" };
            let mut cells = row([name, what]);
            cells.push(s.n.to_string());
            cells.extend([s.mean, s.median, s.p95, s.max].map(|v| format!("{v:.2}")));
            errors.push(cells);
        }
    }
    let head = ["structure", "annotated", "found", "doubtful", "missed", "false", "≤ 1 mm", "≤ 2 mm", "≤ 3 mm", "≤ 4 mm"];
    let mut counts = vec![row(head)];
    for f in figures {
        let mut cells = row([f.name()]);
        cells.extend([f.annotated, f.found, f.doubtful, f.missed, f.falsely_found].map(|n| n.to_string()));
        let r = &f.success_rates;
        // Without an annotated case there is no share.
        let percent = |share: f64| if f.annotated == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * share) };
        cells.extend([r.within_1_mm, r.within_2_mm, r.within_3_mm, r.within_4_mm].map(percent));
        counts.push(cells);
    }
    format!("{}\n{}", table(2, &errors), table(1, &counts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(structure: &str, truth: Truth, answer: Answer, center_mm: Option<f64>) -> Comparison {
        let error = center_mm.map(|center_mm| Distance::Point { center_mm });
        Comparison { case: "c".into(), structure: structure.into(), truth, answer, score: None, error }
    }

    #[test]
    fn missed_ones_count_against_the_rates_and_not_in_the_errors() {
        let all = [
            comparison("nose", Truth::Present, Answer::Found, Some(0.5)),
            comparison("nose", Truth::Present, Answer::Doubtful, Some(2.5)),
            comparison("nose", Truth::Present, Answer::Absent, None),
            comparison("nose", Truth::Present, Answer::NoResult, None),
            comparison("nose", Truth::Absent, Answer::Found, None),
            comparison("nose", Truth::Absent, Answer::Absent, None),
            comparison("ear", Truth::Present, Answer::Found, Some(3.5)),
        ];
        let nose = Figures::new(Some("nose"), &all);
        assert_eq!((nose.annotated, nose.found, nose.doubtful, nose.missed, nose.falsely_found), (4, 1, 1, 2, 1));
        let center = nose.center_mm.unwrap();
        assert_eq!((center.n, center.mean, center.max), (2, 1.5, 2.5));
        assert_eq!((nose.success_rates.within_1_mm, nose.success_rates.within_3_mm), (0.25, 0.5));
        assert!(nose.angle_deg.is_none());
        let both = Figures::new(None, &all);
        assert_eq!((both.annotated, both.success_rates.within_4_mm), (5, 0.6));
        let text = shown(&[&nose]);
        assert!(text.contains("nose       centre, mm  2  1.50    1.50  2.40  2.50"), "{text}");
        assert!(text.lines().last().unwrap().ends_with("25.0 %  25.0 %  50.0 %  50.0 %"), "{text}");
    }
}
