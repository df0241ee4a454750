//! The figures of an evaluation as tables.

use crate::table::{row, table};
use pbt_evaluate::{Confidence, Figures, Summaries};

/// The figures as tables; `unit` is that of lengths, `mm` or `pixels`.
pub(crate) fn tables(summaries: &Summaries, unit: &str) -> String {
    let mut figures: Vec<&Figures> = summaries.structures.iter().collect();
    if figures.len() > 1 {
        // One structure alone is its kind.
        let several =
            |f: &&Figures| summaries.structures.iter().filter(|s| s.kind == f.kind).count() > 1;
        figures.extend(summaries.boxes.iter().chain(&summaries.landmarks).filter(several));
        figures.push(&summaries.overall);
    }
    let mut text = of_figures(&figures, unit);
    if figures.iter().any(|f| f.instances.is_some()) {
        text.push('\n');
        text.push_str(&of_instances(&figures));
    }
    if let Some(confidence) = &summaries.overall.confidence {
        text.push('\n');
        text.push_str(&of_scores(confidence, &right_words(summaries, unit), unit));
    }
    if summaries.overall.coverage.is_some() {
        text.push('\n');
        text.push_str(&of_radii(&figures, unit));
    }
    text
}

/// The figures as two tables: errors, and what was found and missed.
fn of_figures(figures: &[&Figures], unit: &str) -> String {
    let mut errors = vec![row(["structure", "error", "n", "mean", "median", "P95", "max"])];
    for f in figures {
        let measures = [
            (format!("centre, {unit}"), f.center_mm),
            ("angle, degrees".to_owned(), f.angle_deg),
            ("size, %".to_owned(), f.size_percent),
            (format!("corner, {unit}"), f.corner_mm),
            (format!("line, {unit}"), f.line_mm),
        ];
        let there = measures.into_iter().filter_map(|(what, summary)| Some((what, summary?)));
        for (n, (what, s)) in there.enumerate() {
            let name = if n == 0 { title(f) } else { String::new() };
            let mut cells = row([name, what]);
            cells.push(s.n.to_string());
            cells.extend([s.mean, s.median, s.p95, s.max].map(|v| format!("{v:.2}")));
            errors.push(cells);
        }
    }
    // Columns about what does not occur would only be in the way.
    let absences = figures.iter().any(|f| f.out_of_view > 0);
    let rivals = figures.iter().any(|f| f.identification.is_some());
    let mut head =
        row(["structure", "annotated", "found", "doubtful", "missed", "right", "right of found"]);
    head.extend(row(["out of view", "false"].into_iter().filter(|_| absences)));
    head.extend((1..=4).map(|n| format!("≤ {n} {unit}")));
    head.extend(row(["identified", "found elsewhere"].into_iter().filter(|_| rivals)));
    let mut counts = vec![head];
    for f in figures {
        let mut cells = row([title(f)]);
        let answers = [f.annotated, f.found, f.doubtful, f.missed];
        cells.extend(answers.into_iter().chain([f.right, f.found_right]).map(|n| n.to_string()));
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

/// How well instances were counted.
fn of_instances(figures: &[&Figures]) -> String {
    let mut head = row(["instances", "annotated", "counted", "recall", "precision", "F1"]);
    head.extend(row(["false an image", "count error", "average precision", "panoptic quality"]));
    let mut rows = vec![head];
    let mut curve = vec![row(["false an image, at most", "recall"])];
    for f in figures {
        let Some(i) = &f.instances else { continue };
        let some = |share: Option<f64>| share.map_or("-".to_owned(), percent);
        rows.push(vec![
            title(f),
            i.annotated.to_string(),
            i.counted.to_string(),
            percent(i.recall),
            some(i.precision),
            format!("{:.3}", i.f1),
            format!("{:.2}", i.false_an_image),
            some(i.count_error_percent.map(|percent| percent / 100.0)),
            format!("{:.3}", i.average_precision),
            format!("{:.3}", i.panoptic_quality),
        ]);
        curve.extend(i.froc.iter().map(|p| row([p.false_an_image.to_string(), percent(p.recall)])));
    }
    format!("{}\n{}", table(1, &rows), table(1, &curve))
}

/// The structure, or which ones are summed up.
fn title(figures: &Figures) -> String {
    match (&figures.structure, figures.kind) {
        (Some(name), _) => name.clone(),
        (None, Some(kind)) => format!("({})", kind.plural()),
        (None, None) => "(all)".to_owned(),
    }
}

/// Coverages of the risk–coverage curve that are shown.
const SHOWN_COVERAGES: [f64; 5] = [0.5, 0.8, 0.9, 0.95, 1.0];

/// What counts as right, in brackets.
fn right_words(summaries: &Summaries, unit: &str) -> String {
    let Some([least, most]) = summaries.tolerances_mm else { return String::new() };
    let within = match (format!("{least:.1}"), format!("{most:.1}")) {
        (a, b) if a == b => format!("within {a} {unit}"),
        (a, b) => format!("within {a} to {b} {unit}"),
    };
    match summaries.across.join(", ") {
        names if names.is_empty() => format!(" ({within})"),
        names => format!(" ({within}; of {names}, whose ends are loose, across the length)"),
    }
}

/// Reliability and risk–coverage of scores, each as a table; `within` says what counts as right.
fn of_scores(confidence: &Confidence, within: &str, unit: &str) -> String {
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
    let mut curve = vec![row(["kept", "score from", &format!("mean error, {unit}"), "wrong"])];
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

/// Whether the radii hold 90 % of what was found.
fn of_radii(figures: &[&Figures], unit: &str) -> String {
    let radius = format!("mean radius, {unit}");
    let mut rows =
        vec![row(["radius of 90 %", "found", "within it", "share", "95 % interval", &radius])];
    for f in figures {
        let Some(c) = f.coverage else { continue };
        let [low, high] = c.interval.map(percent);
        rows.push(row([
            title(f),
            c.n.to_string(),
            c.within.to_string(),
            percent(c.within as f64 / c.n as f64),
            format!("{low} to {high}"),
            format!("{:.2}", c.mean_radius_mm),
        ]));
    }
    table(1, &rows)
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_evaluate::{Answer, Comparison, Distance, Truth};
    use pbt_volume::{LengthUnit, StructureKind};

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
            kind: StructureKind::Landmark,
            truth,
            answer,
            score: None,
            error,
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
    fn columns_are_about_what_occurs() {
        let all = example();
        let text = tables(&Summaries::new(["nose"].into_iter(), &all, LengthUnit::Mm), "mm");
        assert!(text.contains("nose       centre, mm  2  1.50    1.50  2.40  2.50"), "{text}");
        assert!(text.contains("out of view  false") && !text.contains("identified"), "{text}");
        // The doubtful one is right, too.
        let counts = text.lines().last().unwrap().split_whitespace().collect::<Vec<_>>();
        assert_eq!(counts[..9], ["nose", "4", "1", "1", "2", "2", "1", "3", "1"], "{text}");
        assert!(text.lines().last().unwrap().ends_with("25.0 %  25.0 %  50.0 %  50.0 %"), "{text}");
    }

    #[test]
    fn look_alikes_have_columns_of_their_own() {
        let mut all = vec![
            comparison("L1", Truth::Present, Answer::Found, Some(2.0)),
            comparison("L2", Truth::Present, Answer::Found, Some(33.0)),
        ];
        for (c, nearest) in all.iter_mut().zip(["L1", "L1"]) {
            (c.rivals, c.nearest) = (1, Some(nearest.to_owned()));
        }
        let text = tables(&Summaries::new(["L1", "L2"].into_iter(), &all, LengthUnit::Mm), "mm");
        assert!(text.contains("50.0 %                1\n"), "{text}");
    }

    #[test]
    fn kinds_are_shown_where_several_structures_are_of_one() {
        let mut all = example();
        all[7].kind = StructureKind::Box;
        let both = tables(&Summaries::new(["nose", "ear"].into_iter(), &all, LengthUnit::Mm), "mm");
        // The ear is the only box, and the nose the only landmark.
        assert!(!both.contains("(boxes)") && !both.contains("(landmarks)"), "{both}");
        all.push(Comparison {
            kind: StructureKind::Box,
            ..comparison("chin", Truth::Present, Answer::Found, Some(1.0))
        });
        let text = tables(
            &Summaries::new(["nose", "ear", "chin"].into_iter(), &all, LengthUnit::Mm),
            "mm",
        );
        assert!(text.contains("(boxes)") && !text.contains("(landmarks)"), "{text}");
    }

    #[test]
    fn scores_are_shown_where_there_are_some() {
        let mut all = example();
        for (c, score) in all.iter_mut().zip([0.95, 0.7]) {
            c.score = Some(score);
        }
        let text = tables(&Summaries::new(["nose"].into_iter(), &all, LengthUnit::Mm), "mm");
        assert!(text.contains("scores of 2 detections, 100.0 % right (within 3.0 mm)"), "{text}");
        assert!(text.contains("0.7–0.8  1        0.70  100.0 %"), "{text}");
        assert!(text.contains("100.0 %       0.700            1.50  0.0 %"), "{text}");
        all.push(Comparison {
            across: true,
            ..comparison("cord", Truth::Present, Answer::Found, Some(2.5))
        });
        let text =
            tables(&Summaries::new(["nose", "cord"].into_iter(), &all, LengthUnit::Mm), "mm");
        let right = "(within 3.0 mm; of cord, whose ends are loose, across the length)";
        assert!(text.contains(right), "{text}");
    }
}
