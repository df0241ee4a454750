//! The image that a result is about, read again for a page, with the labels beside the result.

use crate::Failure;
use crate::session::{label_map_path, region_labels_path};
use pbt_io::{ReadOptions, ResultFile, read_image_with, read_labels, segment_names};
use pbt_report::{Scene, SceneStructure};
use pbt_volume::{IntensityPolicy, Volume};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// An image and its labels, which scenes borrow.
pub(super) struct ShownImage {
    image: Volume<f32>,
    labels: Option<Volume<u16>>,
    label_names: BTreeMap<u16, String>,
    note: Option<String>,
}

impl ShownImage {
    /// The image of the result in the file `path`, and its labels where there are any.
    ///
    /// # Errors
    /// [`Failure`] where the image is no longer there, cannot be read, or is another by now.
    pub(super) fn read(path: &Path, result: &ResultFile) -> Result<Self, Failure> {
        let input = Path::new(&result.run.input_path);
        if result.run.input_path.is_empty() {
            return Err(Failure::other("the result does not say where its image is"));
        }
        let option = |key: &str| result.run.options.get(key);
        let texts = |key: &str| -> Vec<String> {
            let list = option(key).and_then(|v| v.as_array()).into_iter().flatten();
            list.filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let options = ReadOptions {
            channels: texts("channels"),
            further: texts("further").into_iter().map(PathBuf::from).collect(),
            series: option("series").and_then(|v| v.as_str()).map(str::to_owned),
            frame: option("frame").and_then(serde_json::Value::as_u64).map(|n| n as usize),
        };
        let image = read_image_with(input, &options)?;
        if image.sha256 != result.input.sha256 {
            return Err(Failure::input(input, "is not the image that the result is about"));
        }
        let mut shown = Self {
            image: image.volume.numbers(),
            labels: None,
            label_names: BTreeMap::new(),
            note: None,
        };
        shown.read_labels(path);
        Ok(shown)
    }

    /// Labels lie beside the result and have its name; what is wrong with them becomes a note.
    fn read_labels(&mut self, result: &Path) {
        let folder = result.parent().unwrap_or(Path::new("."));
        let Some(stem) = result.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"))
        else {
            return;
        };
        let file = region_labels_path(folder, stem);
        if !file.is_file() {
            return;
        }
        match read_labels(&file) {
            Ok(labels) if labels.geometry().is_same_grid(self.image.geometry()) => {
                self.labels = Some(labels);
                self.label_names = segment_names(&label_map_path(folder, stem));
            }
            Ok(_) => self.note = Some("labels not shown: they are on another grid".to_owned()),
            Err(error) => self.note = Some(format!("labels not shown: {error}")),
        }
    }

    /// Why labels are not shown although there are some.
    pub(super) fn note(&self) -> Option<String> {
        self.note.clone()
    }

    /// The image with what the result found in it, seen through its least sure structure.
    pub(super) fn scene(&self, result: &ResultFile) -> Scene<'_> {
        let policy = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.5 };
        let range = policy
            .range(&self.image.clone().into())
            .map_or((0.0, 1.0), |range| (range.low, range.high));
        let structures: Vec<SceneStructure> = (result.detections.iter())
            .filter_map(|d| {
                Some(SceneStructure {
                    name: match d.instance {
                        Some(number) => format!("{} {number}", d.name),
                        None => d.name.clone(),
                    },
                    status: d.status,
                    score: d.score,
                    position: d.position()?,
                    pose: d.pose(),
                })
            })
            .collect();
        let least = structures.iter().min_by(|a, b| a.score.total_cmp(&b.score));
        Scene {
            image: &self.image,
            window: range,
            labels: self.labels.as_ref(),
            label_names: self.label_names.clone(),
            through: least.map_or_else(|| self.image.geometry().center(), |s| s.position),
            structures,
            in_pixels: !result.unit().is_mm(),
        }
    }
}
