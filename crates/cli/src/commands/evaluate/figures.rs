//! Summaries over the cases, and the table that shows them.

use super::comparison::{Answer, Comparison, Distance, Truth};
use crate::table::{row, table};
use pbt_detect::{BoxError, Confidence, Summary, success_rates};
use pbt_io::DetectionKind;
use serde::Serialize;

/// Limits of the success detection rates, mm.
const LIMITS_MM: [f64; 4] = [1.0, 2.0, 3.0, 4.0];

/// All figures of an evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Summaries {
    /// Of all structures together.
    overall: Figures,
    /// Of all boxes, and of all landmarks; null where there is only one of the kinds.
    boxes: Option<Figures>,
    landmarks: Option<Figures>,
    /// Of each structure, in the data set's order.
    structures: Vec<Figures>,
    /// The least and the largest distance up to which a position is right.
    #[serde(skip)]
    tolerances_mm: Option<[f64; 2]>,
}

impl Summaries {
    /// Figures of the comparisons; `structures` are the names in the order of the table.
    pub(in crate::commands) fn new<'a>(
        structures: impl Iterator<Item = &'a str>,
        comparisons: &[Comparison],
    ) -> Self {
        let of = |what: Group<'_>| Figures::new(what, comparisons);
        let kinds = [DetectionKind::Box, DetectionKind::Landmark]
            .map(|kind| comparisons.iter().any(|c| c.kind == kind));
        let of_kind = |kind| (kinds == [true, true]).then(|| of(Group::Kind(kind)));
        Self {
            overall: of(Group::All),
            boxes: of_kind(DetectionKind::Box),
            landmarks: of_kind(DetectionKind::Landmark),
            structures: structures.map(|name| of(Group::Structure(name))).collect(),
            tolerances_mm: comparisons
                .iter()
                .filter_map(|c| c.tolerance_mm)
                .map(|mm| [mm, mm])
                .reduce(|[a, b], [c, d]| [a.min(c), b.max(d)]),
        }
    }

    /// The figures as tables.
    pub(in crate::commands) fn shown(&self) -> String {
        let mut figures: Vec<&Figures> = self.structures.iter().collect();
        if figures.len() > 1 {
            // One structure alone is its kind.
            let several =
                |f: &&Figures| self.structures.iter().filter(|s| s.kind == f.kind).count() > 1;
            figures.extend(self.boxes.iter().chain(&self.landmarks).filter(several));
            figures.push(&self.overall);
        }
        let mut text = shown(&figures);
        if let Some(confidence) = &self.overall.confidence {
            text.push('\n');
            text.push_str(&shown_confidence(confidence, self.tolerances_mm));
        }
        text
    }
}

/// Which comparisons figures are about.
#[derive(Debug, Clone, Copy)]
enum Group<'a> {
    All,
    Kind(DetectionKind),
    Structure(&'a str),
}

/// The figures of one structure, or of several.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::commands) struct Figures {
    /// How the table names them.
    #[serde(skip)]
    title: String,
    /// The structure; null for several together.
    structure: Option<String>,
    /// Box or landmark; null for both together, and of a structure in no case.
    kind: Option<DetectionKind>,
    /// Cases in which it is annotated and there.
    annotated: usize,
    /// Annotated ones that were found.
    found: usize,
    /// Annotated ones that were found with doubt.
    doubtful: usize,
    /// Annotated ones that were not found.
    missed: usize,
    /// Cases in which it is marked as outside the field of view.
    out_of_view: usize,
    /// Those of them in which it was found all the same.
    #[serde(rename = "false")]
    falsely_found: usize,
    /// Those of them in which it was found with doubt.
    doubtful_out_of_view: usize,
    /// Success detection rates.
    success_rates: SuccessRates,
    /// Whether it was taken for another one; null where there is no other one of its kind.
    identification: Option<Identification>,
    /// Whether its scores can be believed; null without scores.
    confidence: Option<Confidence>,
    /// Distance of the centres, mm, over found and doubtful ones, as all that follow. Null where
    /// there are none.
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

/// Shares, 0 to 1, of the annotated structures whose centre was found within a distance; a missed
/// one lies within none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct SuccessRates {
    within_1_mm: f64,
    within_2_mm: f64,
    within_3_mm: f64,
    within_4_mm: f64,
}

/// Look-alikes told apart, as vertebra by vertebra, over cases in which another structure of the
/// same kind is annotated.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Identification {
    /// Structures that are annotated.
    annotated: usize,
    /// Share of them that was found less than 20 mm away and nearer to itself than to any other
    /// annotated one of its kind: the identification rate of Sekuboyina et al. 2021 (VerSe). A
    /// missed one counts against it.
    rate: f64,
    /// Share of those found, with or without doubt, that are nearer to themselves than to any
    /// other; null where none was found.
    nearest_is_right: Option<f64>,
    /// Those that were found without doubt where another one is.
    wrong_without_doubt: usize,
}

impl Identification {
    fn new(comparisons: &[&Comparison]) -> Option<Self> {
        let identified: Vec<bool> = comparisons.iter().filter_map(|c| c.is_identified()).collect();
        let nearest: Vec<bool> = comparisons.iter().filter_map(|c| c.is_nearest_right()).collect();
        let share = |list: &[bool]| {
            (!list.is_empty())
                .then(|| list.iter().filter(|&&yes| yes).count() as f64 / list.len() as f64)
        };
        Some(Self {
            annotated: identified.len(),
            rate: share(&identified)?,
            nearest_is_right: share(&nearest),
            wrong_without_doubt: comparisons
                .iter()
                .filter(|c| c.answer == Answer::Found && c.is_nearest_right() == Some(false))
                .count(),
        })
    }
}

impl Figures {
    fn new(group: Group<'_>, comparisons: &[Comparison]) -> Self {
        let is_mine = |c: &&Comparison| match group {
            Group::All => true,
            Group::Kind(kind) => c.kind == kind,
            Group::Structure(name) => c.structure == name,
        };
        let (title, structure) = match group {
            Group::All => ("(all)", None),
            Group::Kind(DetectionKind::Box) => ("(boxes)", None),
            Group::Kind(DetectionKind::Landmark) => ("(landmarks)", None),
            Group::Structure(name) => (name, Some(name.to_owned())),
        };
        let mine: Vec<&Comparison> = comparisons.iter().filter(is_mine).collect();
        let present: Vec<&Comparison> =
            mine.iter().copied().filter(|c| c.truth == Truth::Present).collect();
        let answered = |answer: Answer| present.iter().filter(|c| c.answer == answer).count();
        let center = |c: &Comparison| c.error.as_ref().map(Distance::center_mm);
        let centers: Vec<f64> = present.iter().filter_map(|c| center(c)).collect();
        let with_missed: Vec<f64> =
            present.iter().map(|c| center(c).unwrap_or(f64::INFINITY)).collect();
        let rates = success_rates(&with_missed, &LIMITS_MM);
        let boxes: Vec<&BoxError> =
            present.iter().filter_map(|c| c.error.as_ref()?.of_box()).collect();
        let over_boxes = |measure: fn(&BoxError) -> f64| {
            Summary::new(&boxes.iter().map(|b| measure(b)).collect::<Vec<_>>())
        };
        let kind = match group {
            Group::All => None,
            Group::Kind(kind) => Some(kind),
            Group::Structure(_) => mine.first().map(|c| c.kind),
        };
        let absent = || mine.iter().filter(|c| c.truth == Truth::Absent);
        let judged: Vec<_> = mine.iter().filter_map(|c| c.judged()).collect();
        Self {
            title: title.to_owned(),
            structure,
            kind,
            annotated: present.len(),
            found: answered(Answer::Found),
            doubtful: answered(Answer::Doubtful),
            missed: present.iter().filter(|c| c.is_missed()).count(),
            out_of_view: absent().count(),
            falsely_found: absent().filter(|c| c.is_false()).count(),
            doubtful_out_of_view: absent().filter(|c| c.answer == Answer::Doubtful).count(),
            success_rates: SuccessRates {
                within_1_mm: rates[0],
                within_2_mm: rates[1],
                within_3_mm: rates[2],
                within_4_mm: rates[3],
            },
            identification: Identification::new(&mine),
            confidence: Confidence::new(&judged),
            center_mm: Summary::new(&centers),
            angle_deg: over_boxes(|e| e.angle_deg),
            size_percent: over_boxes(|e| e.size_percent),
            size_mm: over_boxes(|e| e.size_mm),
            corner_mm: over_boxes(|e| e.corner_mm),
            line_mm: over_boxes(|e| e.line_mm),
        }
    }
}

/// The figures as two tables: errors, and what was found and missed.
fn shown(figures: &[&Figures]) -> String {
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
            let name = if n == 0 { f.title.as_str() } else { "" };
            let mut cells = row([name, what]);
            cells.push(s.n.to_string());
            cells.extend([s.mean, s.median, s.p95, s.max].map(|v| format!("{v:.2}")));
            errors.push(cells);
        }
    }
    // Columns about what does not occur would only be in the way.
    let absences = figures.iter().any(|f| f.out_of_view > 0);
    let rivals = figures.iter().any(|f| f.identification.is_some());
    let mut head = row(["structure", "annotated", "found", "doubtful", "missed"]);
    head.extend(row(["out of view", "false"].into_iter().filter(|_| absences)));
    head.extend(row(["≤ 1 mm", "≤ 2 mm", "≤ 3 mm", "≤ 4 mm"]));
    head.extend(row(["identified", "found elsewhere"].into_iter().filter(|_| rivals)));
    let mut counts = vec![head];
    for f in figures {
        let mut cells = row([f.title.as_str()]);
        cells.extend([f.annotated, f.found, f.doubtful, f.missed].map(|n| n.to_string()));
        cells.extend(
            [f.out_of_view, f.falsely_found]
                .into_iter()
                .filter(|_| absences)
                .map(|n| n.to_string()),
        );
        let r = &f.success_rates;
        // Without an annotated case there is no share.
        let share = |share: f64| if f.annotated == 0 { "-".to_owned() } else { percent(share) };
        cells.extend([r.within_1_mm, r.within_2_mm, r.within_3_mm, r.within_4_mm].map(share));
        let identified = match f.identification {
            Some(i) => [percent(i.rate), i.wrong_without_doubt.to_string()],
            None => ["-", "-"].map(str::to_owned),
        };
        cells.extend(identified.into_iter().filter(|_| rivals));
        counts.push(cells);
    }
    format!("{}\n{}", table(2, &errors), table(1, &counts))
}

/// Coverages of the risk–coverage curve that are shown.
const SHOWN_COVERAGES: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 1.0];

/// Reliability and risk–coverage of scores, each as a table; `tolerances_mm` is what counts as
/// right.
fn shown_confidence(confidence: &Confidence, tolerances_mm: Option<[f64; 2]>) -> String {
    let Confidence { n, share_right, brier, calibration_error, reliability, risk_coverage } =
        confidence;
    let mut bins = vec![row(["score", "n", "mean score", "right"])];
    for bin in reliability {
        let (Some(score), Some(right)) = (bin.mean_score, bin.share_right) else { continue };
        bins.push(row([
            format!("{:.1}–{:.1}", bin.low, bin.high),
            bin.n.to_string(),
            format!("{score:.2}"),
            percent(right),
        ]));
    }
    let mut curve = vec![row(["kept", "score from", "mean error, mm", "wrong"])];
    let mut last = None;
    for coverage in SHOWN_COVERAGES {
        let Some(point) = risk_coverage.points.iter().find(|p| p.coverage >= coverage - 1e-9)
        else {
            continue;
        };
        if last.replace(point) != Some(point) {
            let error = point.mean_error_mm.map_or("-".to_owned(), |mm| format!("{mm:.2}"));
            curve.push(row([
                percent(point.coverage),
                format!("{:.3}", point.score),
                error,
                percent(point.share_wrong),
            ]));
        }
    }
    let within = tolerances_mm.map_or_else(String::new, |[least, most]| {
        match (format!("{least:.1}"), format!("{most:.1}")) {
            (a, b) if a == b => format!(" (within {a} mm)"),
            (a, b) => format!(" (within {a} to {b} mm)"),
        }
    });
    format!(
        "scores of {n} detections, {} right{within}: Brier score {brier:.3}, calibration error {calibration_error:.3}\n{}\n\
         risk–coverage: area {:.4}, {:.4} at the least\n{}",
        percent(*share_right),
        table(1, &bins),
        risk_coverage.area,
        risk_coverage.least_area,
        table(0, &curve)
    )
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(
        structure: &str,
        truth: Truth,
        answer: Answer,
        center_mm: Option<f64>,
    ) -> Comparison {
        let error = center_mm.map(|center_mm| Distance::Point { center_mm });
        Comparison {
            case: "c".into(),
            structure: structure.into(),
            kind: DetectionKind::Landmark,
            truth,
            answer,
            score: None,
            error,
            tolerance_mm: Some(3.0),
            right: center_mm.is_some_and(|mm| mm <= 3.0),
            rivals: 0,
            nearest: None,
        }
    }

    fn example() -> Vec<Comparison> {
        vec![
            comparison("nose", Truth::Present, Answer::Found, Some(0.5)),
            comparison("nose", Truth::Present, Answer::Doubtful, Some(2.5)),
            comparison("nose", Truth::Present, Answer::Absent, None),
            comparison("nose", Truth::Present, Answer::NoResult, None),
            comparison("nose", Truth::Absent, Answer::Found, None),
            comparison("nose", Truth::Absent, Answer::Doubtful, None),
            comparison("nose", Truth::Absent, Answer::Absent, None),
            comparison("ear", Truth::Present, Answer::Found, Some(3.5)),
        ]
    }

    #[test]
    fn missed_ones_count_against_the_rates_and_not_in_the_errors() {
        let all = example();
        let nose = Figures::new(Group::Structure("nose"), &all);
        assert_eq!((nose.annotated, nose.found, nose.doubtful, nose.missed), (4, 1, 1, 2));
        assert_eq!((nose.out_of_view, nose.falsely_found, nose.doubtful_out_of_view), (3, 1, 1));
        let center = nose.center_mm.unwrap();
        assert_eq!((center.n, center.mean, center.max), (2, 1.5, 2.5));
        assert_eq!((nose.success_rates.within_1_mm, nose.success_rates.within_3_mm), (0.25, 0.5));
        assert!(
            nose.angle_deg.is_none() && nose.identification.is_none() && nose.confidence.is_none()
        );
        let both = Figures::new(Group::All, &all);
        assert_eq!((both.annotated, both.success_rates.within_4_mm), (5, 0.6));
        let text = shown(&[&nose]);
        assert!(text.contains("nose       centre, mm  2  1.50    1.50  2.40  2.50"), "{text}");
        assert!(text.contains("out of view  false") && !text.contains("identified"), "{text}");
        assert!(text.lines().last().unwrap().ends_with("25.0 %  25.0 %  50.0 %  50.0 %"), "{text}");
    }

    #[test]
    fn identification_counts_the_missed_and_what_is_elsewhere() {
        let mut all = vec![
            comparison("L1", Truth::Present, Answer::Found, Some(2.0)),
            comparison("L2", Truth::Present, Answer::Found, Some(33.0)),
            comparison("L3", Truth::Present, Answer::Doubtful, Some(34.0)),
            comparison("L4", Truth::Present, Answer::Absent, None),
            // Nearest to itself, but 20 mm and more away.
            comparison("L5", Truth::Present, Answer::Found, Some(20.0)),
        ];
        for (c, nearest) in
            all.iter_mut().zip([Some("L1"), Some("L3"), Some("L2"), None, Some("L5")])
        {
            (c.rivals, c.nearest) = (4, nearest.map(str::to_owned));
        }
        let i = Figures::new(Group::All, &all).identification.unwrap();
        assert_eq!(
            (i.annotated, i.rate, i.nearest_is_right, i.wrong_without_doubt),
            (5, 0.2, Some(0.5), 1)
        );
        assert!(shown(&[&Figures::new(Group::All, &all)]).contains("20.0 %                1\n"));
    }

    #[test]
    fn kinds_are_summed_up_where_there_are_both() {
        let mut all = example();
        let landmarks = Summaries::new(["nose", "ear"].into_iter(), &all);
        assert!(landmarks.boxes.is_none() && landmarks.landmarks.is_none());
        all[7].kind = DetectionKind::Box;
        let both = Summaries::new(["nose", "ear"].into_iter(), &all);
        assert_eq!(
            (both.boxes.as_ref().unwrap().annotated, both.landmarks.as_ref().unwrap().annotated),
            (1, 4)
        );
        // The ear is the only box, and the nose the only landmark.
        assert!(!both.shown().contains("(boxes)") && !both.shown().contains("(landmarks)"));
        all.push(Comparison {
            kind: DetectionKind::Box,
            ..comparison("chin", Truth::Present, Answer::Found, Some(1.0))
        });
        let text = Summaries::new(["nose", "ear", "chin"].into_iter(), &all).shown();
        assert!(text.contains("(boxes)") && !text.contains("(landmarks)"), "{text}");
    }

    #[test]
    fn scores_are_shown_where_there_are_some() {
        let mut all = example();
        for (c, score) in all.iter_mut().zip([0.95, 0.7]) {
            c.score = Some(score);
        }
        let text = Summaries::new(["nose"].into_iter(), &all).shown();
        assert!(text.contains("scores of 2 detections, 100.0 % right (within 3.0 mm)"), "{text}");
        assert!(text.contains("0.7–0.8  1        0.70  100.0 %"), "{text}");
        assert!(text.contains("100.0 %       0.700            1.50  0.0 %"), "{text}");
    }
}
