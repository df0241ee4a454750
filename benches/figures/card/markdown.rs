//! A card as a page for people.

use super::Card;
use super::accuracy::{Accuracy, OfStructures, Share, WithInterval};
use pbt_evaluate::{Answer, Interval};
use std::fmt::Write as _;

pub(super) fn text(card: &Card) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "# {}\n\n{}\n\n**{}**\n",
        card.name, card.intended_use, card.not_a_medical_device
    );
    let (model, data, training) = (&card.model, &card.data, &card.training);
    let _ = write!(
        text,
        "\n## Model\n\n| | |\n|---|---|\n\
         | file | `{}`, {:.0} kB, SHA-256 `{}` |\n| licence | {} |\n\
         | trained by | pbt {}, seed {} |\n| training | `{}` |\n",
        model.file,
        model.bytes as f64 / 1e3,
        model.sha256,
        model.licence,
        training.pbt_version,
        training.seed,
        training.command,
    );
    let _ = write!(
        text,
        "\n## Data\n\n| | |\n|---|---|\n| data set | {} ({}) |\n| source | {} |\n| licence | {} |\n",
        data.source.name, data.modality, data.source.source, data.source.licence,
    );
    if let Some(references) = &data.source.references {
        let _ = writeln!(text, "| references | {references} |");
    }
    let _ = write!(
        text,
        "| training cases | {}, hash over names, images and poses `{}` |\n\
         | test cases | {}, split `{}`, not trained on |\n",
        data.training_cases, data.training_sha256, card.accuracy.cases, card.accuracy.split,
    );
    let _ = write!(text, "\n## Structures\n\n| structure | kind | what it is |\n|---|---|---|\n");
    for s in &card.structures {
        let _ = writeln!(text, "| {} | {} | {} |", s.name, s.kind, s.definition);
    }
    let unit = data.source.unit.as_deref().unwrap_or("mm");
    accuracy(&mut text, &card.accuracy, unit);
    if !card.labels.is_empty() {
        let _ = write!(
            text,
            "\nLabels of voxels (`--labels`):\n\n| label | cases | mean Dice | worst | 95 % of the surface within, {unit} |\n|---|---|---|---|---|\n"
        );
        for l in &card.labels {
            let [dice, worst] = [l.mean_dice, l.worst_dice].map(|x| number(x, 3));
            let surface = number(l.mean_hd95_mm, 2);
            let _ = writeln!(text, "| {} | {} | {dice} | {worst} | {surface} |", l.region, l.cases);
        }
    }
    calibration(&mut text, &card.accuracy, unit);
    let _ = write!(text, "\n## Failures\n\nThe largest errors of the test cases:\n\n");
    let _ = write!(
        text,
        "| case | structure | answer | score | centre, {unit} | right |\n|---|---|---|---|---|---|\n"
    );
    for w in &card.accuracy.worst {
        let answer = match w.answer {
            Answer::Found => "found",
            Answer::Doubtful => "doubtful",
            Answer::Absent => "absent",
            Answer::NoResult => "no result",
        };
        let (score, mm) = (number(w.score, 2), number(w.center_mm, 2));
        let right = if w.right { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {} | {answer} | {score} | {mm} | {right} |",
            w.case, w.structure
        );
    }
    text.push('\n');
    list(&mut text, &card.failures);
    text.push_str("\n## Limits\n\n");
    list(&mut text, &card.limits);
    text
}

fn accuracy(text: &mut String, accuracy: &Accuracy, unit: &str) {
    let _ = write!(
        text,
        "\n## Accuracy\n\n`{}`: {} cases. Brackets hold 95 % intervals: of shares the exact ones, of means those over \
         resampled cases.\n\n",
        accuracy.command, accuracy.cases
    );
    let _ = writeln!(
        text,
        "| structure | found | doubtful | missed | right | centre, {unit}: mean | median | 95 % | largest | angle, degrees | size, % |"
    );
    text.push_str("|---|---|---|---|---|---|---|---|---|---|---|\n");
    for s in &accuracy.structures {
        let OfStructures { structures, found, doubtful, missed, right, center_mm, .. } = s;
        let (found, right) = (share(found), share(right));
        let center = mean(center_mm.as_ref(), 2);
        let of = |get: fn(&WithInterval) -> f64| number(center_mm.as_ref().map(get), 2);
        let (median, p95, max) =
            (of(|c| c.summary.median), of(|c| c.summary.p95), of(|c| c.summary.max));
        let (angle, size) = (mean(s.angle_deg.as_ref(), 1), mean(s.size_percent.as_ref(), 1));
        let _ = writeln!(
            text,
            "| {structures} | {found} | {doubtful} | {missed} | {right} | {center} | {median} | {p95} | {max} | {angle} | {size} |"
        );
    }
}

fn calibration(text: &mut String, accuracy: &Accuracy, unit: &str) {
    text.push_str("\n## Calibration\n\n");
    match &accuracy.confidence {
        Some(c) => {
            let _ = writeln!(
                text,
                "A score is the probability of being right. Of {} detections {:.1} % are right; Brier score {:.3}, \
                 calibration error {:.3}.",
                c.n,
                100.0 * c.share_right,
                c.brier,
                c.calibration_error
            );
        }
        None => text.push_str("There are no scores to judge.\n"),
    }
    if let Some(c) = &accuracy.coverage {
        let [low, high] = c.interval.map(|x| 100.0 * x);
        let _ = writeln!(
            text,
            "{} of {} found ones lie within `radius_90_mm`, {:.2} {unit} on average ({low:.0} to {high:.0} % by the 95 % interval).",
            c.within, c.n, c.mean_radius_mm
        );
    }
}

fn share(share: &Share) -> String {
    let [low, high] = share.interval.map(|x| 100.0 * x);
    format!("{} of {} [{low:.0} to {high:.0} %]", share.n, share.of)
}

fn mean(of: Option<&WithInterval>, decimals: usize) -> String {
    of.map_or("–".to_owned(), |w| {
        let (mean, Interval { low, high }) = (w.summary.mean, w.interval);
        format!("{mean:.decimals$} [{low:.decimals$} to {high:.decimals$}]")
    })
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("–".to_owned(), |x| format!("{x:.decimals$}"))
}

fn list(text: &mut String, lines: &[String]) {
    for line in lines {
        let _ = writeln!(text, "- {line}");
    }
}
