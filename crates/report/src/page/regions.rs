//! The page of `pbt evaluate --labels -o REPORT.json`.

use crate::page::chart::histogram;
use crate::page::evaluation::{Device, Failed, Model, about, failed_case, no_scenes};
use crate::page::view::{CaseView, Cell, Fact, PageError, Table, View, Viewer};
use pbt_evaluate::{RegionRecord, RegionSummary};
use pbt_volume::LengthUnit;
use serde::Deserialize;

/// What the page needs of a report of the schema `pbt-region-evaluation/1`.
#[derive(Debug, Deserialize)]
pub struct RegionEvaluation {
    pbt_version: String,
    dataset: String,
    split: Option<String>,
    mode: String,
    models: Vec<Model>,
    device: Device,
    seconds: f64,
    #[serde(default)]
    length_unit: LengthUnit,
    summary: Vec<RegionSummary>,
    failed: Vec<Failed>,
    records: Vec<RegionRecord>,
}

/// Labels with a lower Dice coefficient deserve a look.
const LOW_DICE: f64 = 0.7;

impl RegionEvaluation {
    /// The page. It has no scenes for a viewer, since a report has none.
    ///
    /// # Errors
    /// [`PageError`] when the template cannot be filled in.
    pub fn page(&self, viewer: Viewer) -> Result<String, PageError> {
        let dices = |name: &str| -> Vec<f64> {
            let own = self.records.iter().filter(|r| r.region == name);
            own.filter_map(|r| r.dice).collect()
        };
        let fact = |s: &RegionSummary| {
            Some(Fact {
                value: format!("{:.3}", s.mean_dice?),
                name: format!("Dice of {}", s.region),
            })
        };
        View {
            title: format!("Labels of {}", self.dataset),
            about: about(&self.models, &self.device, &self.mode, &self.pbt_version, self.seconds)
                .chain(self.split.iter().map(|split| ("split".to_owned(), split.clone())))
                .collect(),
            notes: Vec::new(),
            facts: self.summary.iter().filter_map(fact).collect(),
            tables: vec![self.regions()],
            charts: self
                .summary
                .iter()
                .filter_map(|s| {
                    let title = format!("Dice: {}", s.region);
                    histogram(&title, &dices(&s.region), "Dice coefficient", false)
                })
                .collect(),
            cases: self.cases(),
            order: "The lowest Dice coefficient first.".to_owned(),
            viewer: no_scenes(viewer),
        }
        .html()
    }

    fn regions(&self) -> Table {
        let row = |s: &RegionSummary| {
            vec![
                Cell::text(s.region.clone()),
                Cell::count(s.cases),
                Cell::number(s.mean_dice, 3),
                Cell::number(s.worst_dice, 3),
                Cell::text(s.worst_case.clone().unwrap_or_default()),
                Cell::number(s.mean_hd95_mm, 2),
                Cell::number(s.mean_surface_mm, 2),
                Cell::number(s.mean_nsd, 3),
                Cell::number(s.mean_volume_error_percent, 1),
            ]
        };
        let [hd95, surface, ..] = heads(self.length_unit);
        Table {
            title: "Labels".to_owned(),
            columns: vec![
                "label",
                "cases",
                "Dice",
                "worst",
                "in",
                hd95,
                surface,
                "NSD",
                "volume, %",
            ],
            rows: self.summary.iter().map(row).collect(),
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
                let mut own: Vec<&RegionRecord> =
                    self.records.iter().filter(|r| r.case == name).collect();
                own.sort_by(|a, b| dice(a).total_cmp(&dice(b)));
                (own.first().map_or(1.0, |r| dice(r)), case(name, &own, self.length_unit))
            })
            .collect();
        cases.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.failed.iter().map(failed_case).chain(cases.into_iter().map(|(_, case)| case)).collect()
    }
}

/// Heads of the columns of both distances and both volumes, which are areas in pixels.
fn heads(unit: LengthUnit) -> [&'static str; 4] {
    match unit {
        LengthUnit::Mm => ["HD95, mm", "surface, mm", "true, ml", "found, ml"],
        LengthUnit::Pixels => {
            ["HD95, pixels", "surface, pixels", "true, thousand pixels", "found, thousand pixels"]
        }
    }
}

/// What is neither annotated nor found agrees.
fn dice(record: &RegionRecord) -> f64 {
    record.dice.unwrap_or(1.0)
}

fn case(name: &str, records: &[&RegionRecord], unit: LengthUnit) -> CaseView {
    let lowest = records.first().map_or(1.0, |r| dice(r));
    let row = |r: &&RegionRecord| {
        vec![
            Cell::text(r.region.clone()),
            Cell::number(r.dice, 3),
            Cell::number(r.hd95_mm, 2),
            Cell::number(r.surface_mm, 2),
            Cell::number(r.nsd, 3),
            Cell::number(Some(r.truth_ml), 2),
            Cell::number(Some(r.found_ml), 2),
            Cell::number(r.volume_error_percent, 1),
        ]
    };
    let [hd95, surface, truth, found] = heads(unit);
    CaseView {
        name: name.to_owned(),
        class: if lowest < LOW_DICE { "unsure" } else { "good" },
        summary: records
            .first()
            .map_or_else(String::new, |r| format!("lowest: {}, Dice {lowest:.3}", r.region)),
        notes: Vec::new(),
        table: Table {
            title: String::new(),
            columns: vec!["label", "Dice", hd95, surface, "NSD", truth, found, "volume, %"],
            rows: records.iter().map(row).collect(),
        },
        picture: None,
        scene: None,
    }
}
