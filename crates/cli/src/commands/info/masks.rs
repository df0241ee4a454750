//! What a model knows of the labels about its boxes.

use crate::table::row;
use pbt_detect::{MaskStage, Model};
use pbt_volume::{IntensityPolicy, LengthUnit};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct MasksInfo<'a> {
    structures: Vec<&'a str>,
    /// Of each structure, its labels.
    labels: Vec<Vec<Label<'a>>>,
    /// Annotated boxes that it was trained on.
    cases: usize,
    /// Voxels of the grid about a box.
    grid: [usize; 3],
    /// Edge of a voxel in a box of the mean size.
    voxel_mm: f64,
    intensity: IntensityPolicy,
    /// Trees of each round.
    trees: Vec<usize>,
    /// A voxel has a label where that is more probable than this.
    label_threshold: f64,
    moves_box: bool,
    /// Shares of the shift, the rotation and the change of size that are taken in the last round.
    taken: [f64; 3],
    /// Landmarks that the labels move.
    moves_landmarks: Vec<&'a str>,
    /// A label is doubtful where less is to be expected of its Dice coefficient.
    doubtful_below: Option<f64>,
    /// A box is doubtful where less is to be expected of all its labels, if they move it or its landmarks.
    box_doubtful_below: Option<f64>,
}

#[derive(Serialize)]
struct Label<'a> {
    name: &'a str,
    value: u16,
}

impl<'a> MasksInfo<'a> {
    pub(super) fn new(model: &'a Model, stage: &'a MaskStage) -> Self {
        let own = |n: &usize| model.structures.get(*n);
        let landmarks = stage.structures.first().and_then(own).map_or(&[][..], |s| s.landmarks());
        let moved = stage.landmarks.iter().filter_map(|moved| landmarks.get(moved.landmark));
        let labels = stage.labels.iter().map(|own| {
            own.iter().map(|label| Label { name: &label.name, value: label.value }).collect()
        });
        Self {
            structures: stage.structures.iter().filter_map(own).map(|s| s.name.as_str()).collect(),
            labels: labels.collect(),
            cases: stage.cases,
            grid: stage.grid.shape,
            voxel_mm: stage.grid.voxel_mm,
            intensity: stage.intensity,
            trees: stage.rounds.iter().map(|round| round.forest.trees.len()).collect(),
            label_threshold: stage.label_threshold(),
            moves_box: stage.moves_box,
            taken: stage.rounds.last().map_or([0.0; 3], |round| round.refit.taken),
            moves_landmarks: moved.map(|landmark| landmark.name.as_str()).collect(),
            doubtful_below: stage.quality.as_ref().map(|quality| quality.doubtful_below),
            box_doubtful_below: stage
                .quality
                .as_ref()
                .map(|quality| quality.box_doubtful_below)
                .filter(|&dice| dice > 0.0 && stage.moves()),
        }
    }

    /// The same as rows of a table.
    pub(super) fn lines(&self, unit: LengthUnit) -> Vec<Vec<String>> {
        let labels = self.labels.iter().flatten();
        let labels: Vec<String> =
            labels.map(|label| format!("{} ({})", label.name, label.value)).collect();
        let [nx, ny, nz] = self.grid;
        let trees: Vec<String> = self.trees.iter().map(usize::to_string).collect();
        let mut moves = self.moves_landmarks.clone();
        let [shift, rotation, size] = self.taken;
        let whole = format!(
            "the box ({shift:.2} of the shift, {rotation:.2} of the rotation, {size:.2} of the size)"
        );
        if self.moves_box {
            moves.insert(0, &whole);
        }
        let moves = if moves.is_empty() { "nothing".to_owned() } else { moves.join(", ") };
        let mut lines = vec![
            row(["masks of".to_owned(), self.structures.join(", ")]),
            row(["labels".to_owned(), labels.join(", ")]),
            row(["cases".to_owned(), self.cases.to_string()]),
            row([
                "grid".to_owned(),
                format!("{nx} × {ny} × {nz} voxels of about {:.2} {unit}", self.voxel_mm),
            ]),
            row(["trees by round".to_owned(), trees.join(", ")]),
            row([
                "labelled".to_owned(),
                format!("where a label is more probable than {:.2}", self.label_threshold),
            ]),
            row(["labels move".to_owned(), moves]),
        ];
        if let Some(label) = self.doubtful_below {
            let whole = self.box_doubtful_below;
            let whole = whole.map_or_else(String::new, |dice| format!("; the box below {dice:.3}"));
            let dice = format!("a Dice of {label:.3} to expect{whole}");
            lines.push(row(["doubtful below".to_owned(), dice]));
        }
        lines
    }
}
