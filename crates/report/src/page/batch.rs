//! The page of a folder that `pbt batch` wrote.

use crate::page::chart::histogram;
use crate::page::view::{CaseView, Cell, Fact, PageError, Table, VIEWER_BYTES, View, Viewer};
use crate::scene::PackedScene;
use pbt_volume::{Precision, Status};
use std::cmp::Ordering;

/// The results of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Name of the folder.
    pub name: String,
    /// Name of the model and the beginning of its hash.
    pub model: String,
    /// Version of the program that wrote the results.
    pub version: String,
    /// The cases, in any order.
    pub cases: Vec<BatchCase>,
}

/// A case of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchCase {
    /// Its name.
    pub name: String,
    /// Why there is no result.
    pub failure: Option<String>,
    /// What the reader of the image had to say.
    pub warnings: Vec<String>,
    /// The structures.
    pub detections: Vec<BatchDetection>,
    /// Whether lengths are pixels of an image without a scale.
    pub in_pixels: bool,
    /// Slices through the image with what was found, as SVG of this crate.
    pub picture: Option<String>,
    /// The case for the viewer.
    pub scene: Option<PackedScene>,
}

/// A structure in a case.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchDetection {
    /// Its name.
    pub name: String,
    /// Whether it was found.
    pub status: Status,
    /// The probability that the position is right.
    pub score: f64,
    /// LPS, mm.
    pub position_mm: Option<[f64; 3]>,
    /// How near the truth is.
    pub precision: Option<Precision>,
    /// Volume of a region or of labels, millilitres.
    pub volume_ml: Option<f64>,
    /// The Dice coefficient to expect of its labels.
    pub predicted_dice: Option<f64>,
    /// Whether one of its labels is doubtful, and it is not.
    pub has_doubtful_labels: bool,
}

/// A page with a viewer has about so many bytes at most.
const PAGE_BYTES: usize = 8_000_000;

/// Scenes get so many bytes together, however large the rest of the page is.
const LEAST_SCENE_BYTES: usize = 2_000_000;

impl Batch {
    /// No page has more scenes.
    pub const MOST_SCENES: usize = 32;

    /// How many bytes a scene may have in a page of so many cases: those that deserve a look share what
    /// the page may hold, but no more than eight of them do, since a volume of a few voxels shows
    /// nothing.
    pub fn scene_bytes(cases: usize) -> usize {
        (PAGE_BYTES - VIEWER_BYTES) / cases.clamp(1, 8)
    }

    /// The page: failed and doubtful cases first. It holds the scenes of the first cases that have
    /// one, as many as fit.
    ///
    /// # Errors
    /// [`PageError`] when the template cannot be filled in.
    pub fn page(&self, viewer: Viewer) -> Result<String, PageError> {
        let mut cases: Vec<&BatchCase> = self.cases.iter().collect();
        cases.sort_by(|a, b| BatchCase::order(a, b));
        let mut view = self.view(&cases);
        if viewer == Viewer::None {
            return view.html();
        }
        let rest = view.html()?.len() + VIEWER_BYTES;
        let mut left = PAGE_BYTES.saturating_sub(rest).max(LEAST_SCENE_BYTES);
        for (case, shown) in cases.iter().zip(&mut view.cases) {
            let Some(scene) = &case.scene else { continue };
            let Some(less) = left.checked_sub(scene.bytes()) else { break };
            left = less;
            shown.scene = Some(scene.json.clone());
            shown.picture.get_or_insert_with(|| scene.slices.clone());
        }
        let scenes = view.cases.iter().filter(|case| case.scene.is_some()).count();
        view.viewer = Some(match scenes {
            0 => "No viewer: no image could be shown; the cases say why.".to_owned(),
            _ if scenes == cases.len() => {
                "Each case can be opened in the viewer, NiiVue.".to_owned()
            }
            _ => format!(
                "{scenes} of {} cases, marked “in the viewer”, can be opened in NiiVue; the others have no volume in this page.",
                cases.len()
            ),
        });
        view.html()
    }

    fn view(&self, cases: &[&BatchCase]) -> View {
        let failed = cases.iter().filter(|c| c.failure.is_some()).count();
        let doubtful = cases.iter().filter(|c| c.failure.is_none() && c.is_doubtful()).count();
        let fact =
            |value: usize, name: &str| Fact { value: value.to_string(), name: name.to_owned() };
        let shared = self.shared_warnings();
        let scores: Vec<f64> = self.detections().map(|d| d.score).collect();
        View {
            title: format!("Batch {}", self.name),
            about: [("model", &self.model), ("pbt", &self.version)]
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .into(),
            notes: shared.clone(),
            facts: vec![
                fact(self.cases.len(), "cases"),
                fact(self.cases.len() - failed - doubtful, "without doubt"),
                fact(doubtful, "with something doubtful"),
                fact(failed, "failed"),
            ],
            tables: vec![self.structures()],
            charts: histogram("Scores", &scores, "score", true).into_iter().collect(),
            cases: cases.iter().map(|case| case.view(&shared)).collect(),
            order: "Failed ones first, then those with something doubtful, the lowest score first."
                .to_owned(),
            viewer: None,
        }
    }

    /// What every result warns of, where there are several: it is about the model, and is said once.
    fn shared_warnings(&self) -> Vec<String> {
        let mut results = self.cases.iter().filter(|case| case.failure.is_none());
        let Some(first) = results.next() else { return Vec::new() };
        let others: Vec<&BatchCase> = results.collect();
        let is_shared = |warning: &&String| others.iter().all(|o| o.warnings.contains(warning));
        let shared = if others.is_empty() { &[] } else { &first.warnings[..] };
        shared.iter().filter(is_shared).cloned().collect()
    }

    fn detections(&self) -> impl Iterator<Item = &BatchDetection> {
        self.cases.iter().flat_map(|case| &case.detections)
    }

    fn structures(&self) -> Table {
        let mut names: Vec<&str> = Vec::new();
        for detection in self.detections() {
            if !names.contains(&detection.name.as_str()) {
                names.push(&detection.name);
            }
        }
        let row = |name: &str| {
            let own: Vec<&BatchDetection> = self.detections().filter(|d| d.name == name).collect();
            let count = |status: Status| own.iter().filter(|d| d.status == status).count();
            let mean = |values: Vec<f64>| {
                (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
            };
            let radii = own.iter().filter_map(|d| d.precision?.radius_90_mm);
            vec![
                Cell::text(name),
                Cell::count(own.len()),
                Cell::count(count(Status::Found)),
                Cell::count(count(Status::Doubtful)),
                Cell::count(count(Status::Absent)),
                Cell::count(count(Status::Outside)),
                Cell::number(mean(own.iter().map(|d| d.score).collect()), 2),
                Cell::number(mean(radii.collect()), 2),
                Cell::number(mean(own.iter().filter_map(|d| d.volume_ml).collect()), 2),
            ]
        };
        // Of those without a result nothing is known.
        let mut with_results = self.cases.iter().filter(|case| case.failure.is_none()).peekable();
        let in_pixels = with_results.peek().is_some() && with_results.all(|case| case.in_pixels);
        let (radius, volume) = match in_pixels {
            true => ("mean radius 90 %, pixels", "mean area, thousand pixels"),
            false => ("mean radius 90 %, mm", "mean volume, ml"),
        };
        Table {
            title: "Structures".to_owned(),
            columns: vec![
                "structure",
                "cases",
                "found",
                "doubtful",
                "absent",
                "outside",
                "mean score",
                radius,
                volume,
            ],
            rows: names.into_iter().map(row).collect(),
        }
        .without_empty(&[volume])
    }
}

impl BatchCase {
    /// Failed ones come first, then those with something doubtful, the lowest score first.
    pub fn order(a: &Self, b: &Self) -> Ordering {
        let key = |c: &Self| (c.failure.is_none(), !c.is_doubtful());
        (key(a).cmp(&key(b)))
            .then(a.least_score().total_cmp(&b.least_score()))
            .then(a.name.cmp(&b.name))
    }

    fn is_doubtful(&self) -> bool {
        self.detections.iter().any(|d| d.status == Status::Doubtful)
    }

    fn least_score(&self) -> f64 {
        self.detections.iter().map(|d| d.score).fold(1.0, f64::min)
    }

    /// The case without what is said of all.
    fn view(&self, shared: &[String]) -> CaseView {
        let count = |status: Status| self.detections.iter().filter(|d| d.status == status).count();
        let counts = [Status::Found, Status::Doubtful, Status::Absent, Status::Outside]
            .map(|status| (count(status), name(status).0));
        let counts: Vec<String> = (counts.iter().filter(|(count, _)| *count > 0))
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let row = |d: &BatchDetection| {
            let (text, class) = name(d.status);
            let place = d.position_mm.map(|p| p.map(|mm| format!("{mm:.1}")).join(", "));
            vec![
                Cell::text(d.name.clone()),
                Cell::text(text).of_class(class),
                Cell::number(Some(d.score), 2),
                Cell::text(place.unwrap_or_else(|| "–".to_owned())),
                Cell::number(d.precision.and_then(|p| p.radius_90_mm), 2),
                Cell::number(d.volume_ml, 2),
                Cell::number(d.predicted_dice, 2).of_class(if d.has_doubtful_labels {
                    "unsure"
                } else {
                    ""
                }),
            ]
        };
        let volume = if self.in_pixels { "area, thousand pixels" } else { "volume, ml" };
        let own = self.warnings.iter().filter(|warning| !shared.contains(warning));
        CaseView {
            name: self.name.clone(),
            class: match (self.failure.is_some(), self.is_doubtful()) {
                (true, _) => "bad",
                (false, true) => "unsure",
                (false, false) => "good",
            },
            summary: if self.failure.is_some() { "failed".to_owned() } else { counts.join(", ") },
            notes: self.failure.iter().chain(own).cloned().collect(),
            table: Table {
                title: String::new(),
                columns: vec![
                    "structure",
                    "status",
                    "score",
                    if self.in_pixels { "position, pixels" } else { "position (LPS), mm" },
                    if self.in_pixels { "radius 90 %, pixels" } else { "radius 90 %, mm" },
                    volume,
                    "Dice to expect",
                ],
                rows: self.detections.iter().map(row).collect(),
            }
            // Without masks there are none.
            .without_empty(&[volume, "Dice to expect"]),
            picture: self.picture.clone(),
            scene: None,
        }
    }
}

fn name(status: Status) -> (&'static str, &'static str) {
    match status {
        Status::Found => ("found", "good"),
        Status::Doubtful => ("doubtful", "unsure"),
        Status::Absent => ("absent", ""),
        Status::Outside => ("outside", ""),
    }
}
