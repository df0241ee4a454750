//! How accurate a model is on its test cases: means with intervals, calibration, and the worst cases.

use pbt_evaluate::{
    Answer, BoxError, CaseSum, Comparison, Confidence, Coverage, Figures, Interval, Proportion,
    Summaries, Summary, Truth, resampled_means,
};
use pbt_volume::StructureKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// So many of the worst are listed.
const WORST: usize = 5;

#[derive(Serialize)]
pub(super) struct Accuracy {
    pub(super) command: String,
    pub(super) split: String,
    pub(super) cases: usize,
    pub(super) structures: Vec<OfStructures>,
    /// Of all scores together; null without scores.
    pub(super) confidence: Option<Confidence>,
    /// Whether radii hold what they say; null without radii.
    pub(super) coverage: Option<Coverage>,
    /// Those with the largest errors, missed ones first.
    pub(super) worst: Vec<Worst>,
}

/// A box, or all landmarks together.
#[derive(Serialize)]
pub(super) struct OfStructures {
    pub(super) structures: String,
    pub(super) kind: StructureKind,
    pub(super) annotated: usize,
    pub(super) found: Share,
    pub(super) doubtful: usize,
    pub(super) missed: usize,
    /// Found or doubtful, and within the tolerance.
    pub(super) right: Share,
    /// Over found and doubtful ones, as the next two.
    pub(super) center_mm: Option<WithInterval>,
    pub(super) angle_deg: Option<WithInterval>,
    pub(super) size_percent: Option<WithInterval>,
}

/// A share with its exact 95 % interval (Clopper and Pearson), of independent ones.
#[derive(Serialize)]
pub(super) struct Share {
    pub(super) n: usize,
    pub(super) of: usize,
    pub(super) interval: [f64; 2],
}

/// An error, and the 95 % interval of its mean over resampled cases.
#[derive(Serialize)]
pub(super) struct WithInterval {
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) interval: Interval,
}

#[derive(Serialize)]
pub(super) struct Worst {
    pub(super) case: String,
    pub(super) structure: String,
    pub(super) answer: Answer,
    pub(super) score: Option<f64>,
    pub(super) center_mm: Option<f64>,
    pub(super) right: bool,
}

impl Accuracy {
    pub(super) fn new(
        command: String,
        split: String,
        records: &[Comparison],
        summary: &Summaries,
    ) -> Self {
        let overall = &summary.overall;
        let boxes = summary.structures.iter().filter(|f| f.kind == Some(StructureKind::Box));
        let mut structures: Vec<OfStructures> = boxes
            .map(|figures| {
                let name = figures.structure.clone().unwrap_or_default();
                OfStructures::new(&name, StructureKind::Box, records, |r| r.structure == name)
            })
            .collect();
        let landmarks: Vec<&Figures> =
            summary.structures.iter().filter(|f| f.kind == Some(StructureKind::Landmark)).collect();
        if !landmarks.is_empty() {
            let name = format!("{} landmarks", landmarks.len());
            let kind = StructureKind::Landmark;
            structures.push(OfStructures::new(&name, kind, records, |r| r.kind == kind));
        }
        Self {
            command,
            split,
            cases: by_case(records, |_| Some(0.0)).len(),
            structures,
            confidence: overall.confidence.clone(),
            coverage: overall.coverage,
            worst: worst(records),
        }
    }
}

impl OfStructures {
    fn new(
        structures: &str,
        kind: StructureKind,
        records: &[Comparison],
        is_mine: impl Fn(&Comparison) -> bool,
    ) -> Self {
        let mine: Vec<Comparison> =
            records.iter().filter(|r| is_mine(r) && r.truth == Truth::Present).cloned().collect();
        let count = |is: &dyn Fn(&Comparison) -> bool| mine.iter().filter(|r| is(r)).count();
        let share = |is: &dyn Fn(&Comparison) -> bool| {
            let (good, all) = (count(is), mine.len());
            Share { n: good, of: all, interval: Proportion { good, all }.interval() }
        };
        let of_box = |measure: fn(&BoxError) -> f64| {
            WithInterval::new(&mine, move |r| Some(measure(r.error.as_ref()?.of_box()?)))
        };
        Self {
            structures: structures.to_owned(),
            kind,
            annotated: mine.len(),
            found: share(&|r| r.answer == Answer::Found),
            doubtful: count(&|r| r.answer == Answer::Doubtful),
            missed: count(&Comparison::is_missed),
            right: share(&|r| r.right),
            center_mm: WithInterval::new(&mine, |r| Some(r.error.as_ref()?.center_mm())),
            angle_deg: of_box(|e| e.angle_deg),
            size_percent: of_box(|e| e.size_percent),
        }
    }
}

impl WithInterval {
    /// `None` where no record has the measure.
    fn new(records: &[Comparison], measure: impl Fn(&Comparison) -> Option<f64>) -> Option<Self> {
        let values: Vec<f64> = records.iter().filter_map(&measure).collect();
        let cases = by_case(records, measure).into_values().collect();
        let means = resampled_means(&[cases], 0);
        let interval = Interval::of(means.into_iter().flatten().flatten())?;
        Some(Self { summary: Summary::new(&values)?, interval })
    }
}

/// What each case adds to a mean.
fn by_case(
    records: &[Comparison],
    measure: impl Fn(&Comparison) -> Option<f64>,
) -> BTreeMap<&str, CaseSum> {
    let mut sums: BTreeMap<&str, CaseSum> = BTreeMap::new();
    for record in records {
        let sum = sums.entry(&record.case).or_default();
        if let Some(value) = measure(record) {
            sum.add(value);
        }
    }
    sums
}

fn worst(records: &[Comparison]) -> Vec<Worst> {
    let center_mm = |r: &Comparison| r.error.as_ref().map(|e| e.center_mm());
    let mut order: Vec<&Comparison> =
        records.iter().filter(|r| r.truth == Truth::Present).collect();
    let size = |r: &Comparison| center_mm(r).unwrap_or(f64::INFINITY);
    order.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let of = |r: &Comparison| Worst {
        case: r.case.clone(),
        structure: r.structure.clone(),
        answer: r.answer,
        score: r.score,
        center_mm: center_mm(r),
        right: r.right,
    };
    order.into_iter().take(WORST).map(of).collect()
}
