//! What the demo measured, as tables and as a picture.

use super::phantoms::Subject;
use crate::Failure;
use crate::table::{row, table};
use pbt_evaluate::{BoxError, Summary};
use pbt_io::{CaseSpec, ResultFile};
use pbt_phantom::PhantomModality;
use pbt_report::{Case, DrawnBox, Mark, sheet};
use pbt_volume::{IntensityPolicy, Pose, Status, Volume};
use std::time::Duration;

/// One unseen case.
pub(super) struct Unseen {
    pub(super) case: CaseSpec,
    pub(super) truth: Pose,
    pub(super) result: ResultFile,
}

/// What came out for a modality.
pub(super) struct Outcome {
    pub(super) subject: Subject,
    pub(super) training_cases: usize,
    pub(super) training: Duration,
    pub(super) model_bytes: usize,
    pub(super) unseen: Vec<Unseen>,
}

impl Unseen {
    fn found(&self) -> Option<Pose> {
        self.result.detections.first()?.pose()
    }

    fn error(&self) -> Option<BoxError> {
        Some(BoxError::new(&self.found()?, &self.truth))
    }

    fn is_found(&self) -> bool {
        self.result.detections.first().is_some_and(|d| d.status == Status::Found)
    }
}

impl Outcome {
    fn over(&self, measure: impl Fn(&BoxError) -> f64) -> Option<Summary> {
        Summary::new(
            &self.unseen.iter().filter_map(Unseen::error).map(|e| measure(&e)).collect::<Vec<_>>(),
        )
    }

    /// Mean milliseconds by stage over the unseen cases.
    fn stage_ms(&self) -> Vec<(&str, f64)> {
        let Some(first) = self.unseen.first() else { return Vec::new() };
        let mean = |n: usize| {
            self.unseen.iter().filter_map(|u| Some(u.result.run.timing_ms.get(n)?.1)).sum::<f64>()
                / self.unseen.len() as f64
        };
        first
            .result
            .run
            .timing_ms
            .iter()
            .enumerate()
            .map(|(n, (stage, _))| (stage.as_str(), mean(n)))
            .collect()
    }
}

/// Errors in the unseen cases and times of training; then times of detection by stage.
pub(super) fn tables(outcomes: &[Outcome]) -> String {
    let head = [
        "",
        "structure",
        "found",
        "centre, mm",
        "angle, °",
        "size, %",
        "trained on",
        "in",
        "model",
    ];
    let mut errors = vec![row(head)];
    for o in outcomes {
        let found = o.unseen.iter().filter(|u| u.is_found()).count();
        let mean_and_max = |s: Option<Summary>| {
            s.map_or("-".to_owned(), |s| format!("{:.2} ({:.2})", s.mean, s.max))
        };
        errors.push(vec![
            o.subject.title.to_owned(),
            o.subject.modality.structure().to_owned(),
            format!("{found} of {}", o.unseen.len()),
            mean_and_max(o.over(|e| e.center_mm)),
            mean_and_max(o.over(|e| e.angle_deg)),
            mean_and_max(o.over(|e| e.size_percent)),
            format!("{} cases", o.training_cases),
            format!("{:.1} s", o.training.as_secs_f64()),
            format!("{:.0} kB", o.model_bytes as f64 / 1e3),
        ]);
    }
    let mut times: Vec<Vec<String>> = Vec::new();
    for o in outcomes {
        let stages = o.stage_ms();
        if times.is_empty() {
            times.push(
                std::iter::once(String::new())
                    .chain(stages.iter().map(|(stage, _)| (*stage).to_owned()))
                    .collect(),
            );
        }
        times.push(
            std::iter::once(o.subject.title.to_owned())
                .chain(stages.iter().map(|(_, ms)| format!("{ms:.1}")))
                .collect(),
        );
    }
    let unseen = outcomes.first().map_or(0, |o| o.unseen.len());
    format!(
        "Errors in {unseen} unseen cases of each kind, mean (largest)\n\n{}\nDetection, mean time of each stage, ms\n\n{}",
        table(2, &errors),
        table(1, &times)
    )
}

/// Three slices through the truth of one unseen case of each modality: the one with the median
/// error, so that the picture flatters nobody.
///
/// # Errors
/// An image that cannot be read again.
pub(super) fn picture(outcomes: &[Outcome]) -> Result<String, Failure> {
    struct Row {
        image: Volume<f32>,
        window: (f64, f64),
        truth: Pose,
        boxes: Vec<DrawnBox>,
        title: String,
        note: String,
    }
    let mut rows = Vec::new();
    for o in outcomes {
        let mut order: Vec<&Unseen> = o.unseen.iter().collect();
        let error = |u: &Unseen| u.error().map_or(f64::INFINITY, |e| e.corner_mm);
        order.sort_by(|a, b| error(a).total_cmp(&error(b)));
        let Some(middle) = order.get(order.len() / 2) else { continue };
        let image = middle.case.read_image()?.volume.numbers();
        let name = o.subject.modality.structure();
        let drawn = |pose: Pose, mark: Mark| DrawnBox { name: name.to_owned(), pose, mark };
        let mut boxes = vec![drawn(middle.truth, Mark::True)];
        boxes.extend(middle.found().map(|pose| drawn(pose, Mark::Found)));
        let note = match middle.error() {
            Some(e) => format!(
                "centre {:.2} mm, angle {:.1}°, size {:.1} %",
                e.center_mm, e.angle_deg, e.size_percent
            ),
            None => "not found".to_owned(),
        };
        let title = format!("{}: {name}, case {}", o.subject.title, middle.case.id);
        rows.push(Row {
            window: window(&image, o.subject.modality),
            image,
            truth: middle.truth,
            boxes,
            title,
            note,
        });
    }
    let cases: Vec<Case<'_>> = rows
        .iter()
        .map(|r| Case {
            image: &r.image,
            window: r.window,
            through: r.truth.center,
            boxes: &r.boxes,
            labels: None,
            points: &[],
            title: &r.title,
            note: &r.note,
        })
        .collect();
    sheet("pbt demo: phantoms that training never saw", &cases).map_err(Failure::other)
}

/// Intensities shown black and white: bone and soft tissue in CT, nearly all of the image
/// otherwise.
fn window(image: &Volume<f32>, modality: PhantomModality) -> (f64, f64) {
    if modality == PhantomModality::Ct {
        return (-400.0, 1400.0);
    }
    let policy = IntensityPolicy::Percentiles { low_percent: 0.5, high_percent: 99.8 };
    policy.range(&image.clone().into()).map_or((0.0, 255.0), |range| (range.low, range.high))
}
