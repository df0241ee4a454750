//! The page of `pbt evaluate -o REPORT.json`.

use crate::page::chart::{Bin, calibration, histogram};
use crate::page::view::{CaseView, Cell, Fact, PageError, Table, View, Viewer};
use pbt_evaluate::{Answer, Comparison, Figures, Summaries, Truth};
use pbt_volume::LengthUnit;
use serde::Deserialize;

/// What the page needs of a report of the schema `pbt-evaluation/1`.
#[derive(Debug, Deserialize)]
pub struct Evaluation {
    pbt_version: String,
    dataset: String,
    split: Option<String>,
    mode: String,
    models: Vec<Model>,
    device: Device,
    seconds: f64,
    #[serde(default)]
    length_unit: LengthUnit,
    summary: Summaries,
    failed: Vec<Failed>,
    records: Vec<Comparison>,
}

/// A model as reports name it.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) sha256: String,
}

/// A device as reports name it.
#[derive(Debug, Deserialize)]
pub(crate) struct Device {
    pub(crate) name: String,
}

/// A case without a result, and why.
#[derive(Debug, Deserialize)]
pub(crate) struct Failed {
    pub(crate) case: String,
    pub(crate) reason: String,
}

/// Structures with a histogram of their own; those beyond share that of all.
const HISTOGRAMS: usize = 8;

impl Evaluation {
    /// The page. It has no scenes for a viewer, since a report has none.
    ///
    /// # Errors
    /// [`PageError`] when the template cannot be filled in.
    pub fn page(&self, viewer: Viewer) -> Result<String, PageError> {
        let overall = &self.summary.overall;
        let mut charts = Vec::new();
        if let Some(confidence) = &overall.confidence {
            let bin = |b: &pbt_evaluate::Bin| {
                Some(Bin { n: b.n, mean_score: b.mean_score?, share_right: b.share_right? })
            };
            charts.push(calibration(
                &confidence.reliability.iter().filter_map(bin).collect::<Vec<_>>(),
            ));
        }
        let names: Vec<Option<&str>> = match self.summary.structures.len() {
            0..=HISTOGRAMS => {
                self.summary.structures.iter().map(|s| s.structure.as_deref()).collect()
            }
            _ => vec![None],
        };
        for name in names {
            let own = |r: &&Comparison| name.is_none_or(|name| r.structure == name);
            let errors: Vec<f64> = (self.records.iter().filter(own))
                .filter_map(|r| Some(r.error.as_ref()?.center_mm()))
                .collect();
            let title = format!("Error of the centre: {}", name.unwrap_or("all structures"));
            charts.extend(histogram(&title, &errors, self.length_unit.name(), true));
        }
        View {
            title: format!("Evaluation of {}", self.dataset),
            about: about(&self.models, &self.device, &self.mode, &self.pbt_version, self.seconds)
                .chain(self.split.iter().map(|split| ("split".to_owned(), split.clone())))
                .collect(),
            notes: Vec::new(),
            facts: facts(overall, &self.records, self.length_unit),
            tables: vec![self.structures()],
            charts,
            cases: self.cases(),
            order: "The worst first: by the largest error over its tolerance.".to_owned(),
            viewer: no_scenes(viewer),
        }
        .html()
    }

    fn structures(&self) -> Table {
        let row = |f: &Figures| {
            let mean = |s: &Option<pbt_evaluate::Summary>| s.map(|s| s.mean);
            let confidence = f.confidence.as_ref();
            let right = (f.annotated > 0).then(|| 100.0 * f.right as f64 / f.annotated as f64);
            let coverage = f.coverage.map(|c| {
                let [low, high] = c.interval.map(|share| 100.0 * share);
                format!("{} of {} ({low:.0}–{high:.0} %)", c.within, c.n)
            });
            vec![
                Cell::text(match f.structure.as_deref() {
                    Some(name) if self.records.iter().any(|r| r.across && r.structure == name) => {
                        format!("{name} (loose ends)")
                    }
                    name => name.unwrap_or("all").to_owned(),
                }),
                Cell::count(f.annotated),
                Cell::count(f.found),
                Cell::count(f.doubtful),
                Cell::count(f.missed),
                Cell::number(right, 0),
                Cell::number(mean(&f.center_mm), 2),
                Cell::number(f.center_mm.map(|s| s.median), 2),
                Cell::number(f.center_mm.map(|s| s.p95), 2),
                Cell::number(f.center_mm.map(|s| s.max), 2),
                Cell::number(mean(&f.angle_deg), 1),
                Cell::number(mean(&f.size_percent), 1),
                Cell::number(confidence.map(|c| c.brier), 3),
                Cell::text(coverage.unwrap_or_else(|| "–".to_owned())),
            ]
        };
        let all = (self.summary.structures.len() > 1).then_some(&self.summary.overall);
        Table {
            title: "Structures".to_owned(),
            columns: vec![
                "structure",
                "annotated",
                "found",
                "doubtful",
                "missed",
                "right, %",
                match self.length_unit {
                    LengthUnit::Mm => "centre, mm",
                    LengthUnit::Pixels => "centre, pixels",
                },
                "median",
                "95 %",
                "largest",
                "angle, °",
                "size, %",
                "Brier",
                "within radius",
            ],
            rows: self.summary.structures.iter().chain(all).map(row).collect(),
        }
    }

    fn cases(&self) -> Vec<CaseView> {
        let mut names: Vec<&str> = Vec::new();
        for record in &self.records {
            if !names.contains(&record.case.as_str()) {
                names.push(&record.case);
            }
        }
        let mut cases: Vec<(f64, CaseView)> = names
            .into_iter()
            .map(|name| {
                let mut own: Vec<&Comparison> =
                    self.records.iter().filter(|r| r.case == name).collect();
                own.sort_by(|a, b| badness(b).total_cmp(&badness(a)));
                (own.first().map_or(0.0, |r| badness(r)), case(name, &own, self.length_unit))
            })
            .collect();
        cases.sort_by(|a, b| b.0.total_cmp(&a.0));
        let failed = self.failed.iter().map(failed_case);
        failed.chain(cases.into_iter().map(|(_, case)| case)).collect()
    }
}

/// What every report says of how it was made.
pub(crate) fn about(
    models: &[Model],
    device: &Device,
    mode: &str,
    version: &str,
    seconds: f64,
) -> impl Iterator<Item = (String, String)> {
    let model = |m: &Model| format!("{} ({})", m.name, m.sha256.get(..12).unwrap_or(&m.sha256));
    let models: Vec<String> = models.iter().take(3).map(model).collect();
    [
        ("model", models.join(", ")),
        ("mode", mode.to_owned()),
        ("device", device.name.clone()),
        ("time", format!("{seconds:.1} s")),
        ("pbt", version.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
}

/// What a page about a report says where a viewer was asked for.
pub(crate) fn no_scenes(viewer: Viewer) -> Option<String> {
    let why = "No viewer: a report says neither where images are nor where structures were found. \
               Make a page of a folder of pbt batch.";
    (viewer != Viewer::None).then(|| why.to_owned())
}

pub(crate) fn failed_case(failed: &Failed) -> CaseView {
    CaseView {
        name: failed.case.clone(),
        class: "bad",
        summary: "failed".to_owned(),
        notes: vec![failed.reason.clone()],
        table: Table { title: String::new(), columns: Vec::new(), rows: Vec::new() },
        picture: None,
        scene: None,
    }
}

fn facts(f: &Figures, records: &[Comparison], unit: LengthUnit) -> Vec<Fact> {
    let fact = |value: String, name: &str| Fact { value, name: name.to_owned() };
    let mut facts = vec![
        fact(format!("{} of {}", f.found, f.annotated), "found"),
        fact(f.doubtful.to_string(), "doubtful"),
        fact(f.missed.to_string(), "missed"),
        fact(format!("{} of {}", f.right, f.annotated), "right"),
    ];
    let errors: Vec<f64> = records.iter().filter_map(Comparison::counted_mm).collect();
    if let Some(largest) = errors.iter().copied().reduce(f64::max) {
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let across = match records.iter().any(|r| r.across) {
            true => " (of loose ends across the length)",
            false => "",
        };
        facts.push(fact(format!("{mean:.2} {unit}"), &format!("mean error{across}")));
        facts.push(fact(format!("{largest:.2} {unit}"), "largest"));
    }
    if let Some(confidence) = &f.confidence {
        facts.push(fact(format!("{:.3}", confidence.brier), "Brier score"));
        facts.push(fact(format!("{:.3}", confidence.calibration_error), "calibration error"));
    }
    if let Some(c) = f.coverage {
        facts.push(fact(format!("{} of {}", c.within, c.n), "within their radius of 90 %"));
    }
    facts
}

/// How bad a record is: errors over tolerances; what is missed or falsely found is worse than all.
fn badness(record: &Comparison) -> f64 {
    if record.is_missed() || record.is_false() {
        return f64::MAX;
    }
    let off = record.counted_mm().unwrap_or(0.0);
    off / record.tolerance_mm.unwrap_or(1.0).max(1e-9) + if is_wrong(record) { 1e3 } else { 0.0 }
}

/// What is there is not right, or something is seen where there is nothing.
fn is_wrong(record: &Comparison) -> bool {
    match record.truth {
        Truth::Present => !record.right,
        Truth::Absent => record.answer != Answer::Absent,
    }
}

fn verdict(record: &Comparison) -> Cell {
    match (record.truth, is_wrong(record)) {
        (Truth::Present, false) => Cell::text("right").of_class("good"),
        (Truth::Present, true) => Cell::text("wrong").of_class("bad"),
        (Truth::Absent, false) => Cell::text("rightly absent").of_class("good"),
        (Truth::Absent, true) => Cell::text("not there").of_class("bad"),
    }
}

fn answer(answer: Answer) -> (&'static str, &'static str) {
    match answer {
        Answer::Found => ("found", "good"),
        Answer::Doubtful => ("doubtful", "unsure"),
        Answer::Absent => ("absent", ""),
        Answer::NoResult => ("no result", "bad"),
    }
}

fn case(name: &str, records: &[&Comparison], unit: LengthUnit) -> CaseView {
    let wrong = records.iter().filter(|r| is_wrong(r)).count();
    let doubtful = records.iter().filter(|r| r.answer == Answer::Doubtful).count();
    let sure_and_wrong = records.iter().any(|r| is_wrong(r) && r.answer == Answer::Found);
    let worst = records.iter().find_map(|r| Some((r, r.counted_mm()?)));
    let mut parts = vec![format!("{} of {} right", records.len() - wrong, records.len())];
    if doubtful > 0 {
        parts.push(format!("{doubtful} doubtful"));
    }
    if let Some((record, mm)) = worst {
        let across = if record.across { " across its length" } else { "" };
        parts.push(format!("worst: {}, {mm:.1} {unit}{across}", record.structure));
    }
    let row = |r: &&Comparison| {
        let error = r.error.as_ref();
        let of_box = error.and_then(|error| error.of_box());
        let (text, class) = answer(r.answer);
        // A detection too many of a structure with many instances is nowhere outside.
        let out_of_view = r.truth == Truth::Absent && r.instance.is_none();
        let truth = if out_of_view { " (outside the view)" } else { "" };
        vec![
            Cell::text(format!("{}{truth}", r.structure)),
            Cell::text(text).of_class(class),
            Cell::number(r.score, 2),
            error_of(r),
            tolerance(r),
            verdict(r),
            Cell::number(of_box.map(|b| b.angle_deg), 1),
            Cell::number(of_box.map(|b| b.size_percent), 1),
            Cell::number(r.radius_90_mm, 2),
        ]
    };
    let [error, radius] = match unit {
        LengthUnit::Mm => ["error, mm", "radius 90 %, mm"],
        LengthUnit::Pixels => ["error, pixels", "radius 90 %, pixels"],
    };
    CaseView {
        name: name.to_owned(),
        class: match (sure_and_wrong, wrong + doubtful) {
            (true, _) => "bad",
            (false, 0) => "good",
            _ => "unsure",
        },
        summary: parts.join(", "),
        notes: Vec::new(),
        table: Table {
            title: String::new(),
            columns: vec![
                "structure",
                "answer",
                "score",
                error,
                "tolerance",
                "",
                "angle, °",
                "size, %",
                radius,
            ],
            rows: records.iter().map(row).collect(),
        },
        picture: None,
        scene: None,
    }
}

/// The error of the centre, and what counts of it where ends are loose.
fn error_of(record: &Comparison) -> Cell {
    let cell = Cell::number(record.error.as_ref().map(|error| error.center_mm()), 2);
    match record.counted_mm().filter(|_| record.across) {
        Some(across) => Cell { text: format!("{}, {across:.2} across", cell.text), ..cell },
        None => cell,
    }
}

/// Of a box with loose ends only the distance across its longest edge counts.
fn tolerance(record: &Comparison) -> Cell {
    let cell = Cell::number(record.tolerance_mm, 2);
    if record.across {
        Cell { text: format!("{} across its length", cell.text), ..cell }
    } else {
        cell
    }
}
