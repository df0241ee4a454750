//! Label maps as classes of voxels: which region each voxel belongs to.

use crate::dataset::{CaseSpec, Dataset};
use crate::{IoError, read_labels};
use pbt_volume::{Geometry, StructureKind, Volume};
use std::path::Path;

/// The name of a label whose voxels are neither trained nor scored.
pub(crate) const IGNORE: &str = "ignore";

/// The class of such a voxel.
pub const IGNORED_CLASS: u8 = u8::MAX;

/// Most regions of a data set.
pub(crate) const MOST_REGIONS: usize = 63;

/// Which values of label maps belong to which region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionLabels {
    /// Name of each region and its value in label maps that are written, in the order of classes
    /// from 1 on.
    pub regions: Vec<(String, u16)>,
    /// Class by value.
    classes: Vec<u8>,
}

impl Dataset {
    /// Whether a structure is a region.
    pub fn is_region(&self, name: &str) -> bool {
        self.structures.iter().any(|s| s.name == name && s.kind == StructureKind::Region)
    }

    /// The values of these regions in label maps. Values of other names, and those without a name,
    /// are background.
    ///
    /// # Errors
    /// [`IoError`] when a region has no value under `labels`, or there are too many regions.
    pub fn region_labels(&self, names: &[String]) -> Result<RegionLabels, IoError> {
        let wrong = |problem: String, remedy: &str| {
            Err(IoError::input(&self.path, "labels", problem, remedy))
        };
        if names.len() > MOST_REGIONS {
            let problem = format!("{} regions are more than {MOST_REGIONS}", names.len());
            return wrong(problem, "train some of them with --structure");
        }
        let mut regions = Vec::new();
        let mut classes = vec![0; usize::from(u16::MAX) + 1];
        for (class, name) in (1u8..).zip(names) {
            let values: Vec<u16> = if self.every_label.as_ref() == Some(name) {
                (1..=u16::MAX).filter(|value| !self.label_names.contains_key(value)).collect()
            } else {
                let named = self.label_names.iter().filter(|(_, n)| *n == name);
                named.map(|(&value, _)| value).filter(|&value| value > 0).collect()
            };
            let Some(&first) = values.first() else {
                let problem = format!("no value above 0 is named `{name}`");
                return wrong(problem, "give the region its value, as in \"1\": \"NAME\"");
            };
            values.iter().for_each(|&value| classes[usize::from(value)] = class);
            regions.push((name.clone(), first));
        }
        for (&value, _) in self.label_names.iter().filter(|(_, name)| *name == IGNORE) {
            classes[usize::from(value)] = IGNORED_CLASS;
        }
        Ok(RegionLabels { regions, classes })
    }
}

impl Dataset {
    /// The names of the boxes.
    pub fn box_names(&self) -> Vec<String> {
        let boxes = self.structures.iter().filter(|s| s.kind == StructureKind::Box);
        boxes.map(|s| s.name.clone()).collect()
    }

    /// The labels of label maps that may lie in these boxes: of their names, and of names that are no
    /// structure's, unless these are too many; or, where none has a name and there is one box only,
    /// every value but 0 as that box's. `None` where there is nothing to go by.
    pub fn labels_of(&self, boxes: &[String]) -> Option<RegionLabels> {
        let mut names: Vec<String> = Vec::new();
        let others = |name: &String| {
            !boxes.contains(name) && self.structures.iter().any(|s| s.name == *name)
        };
        // 0 is the background, and may be named so.
        let named = self.label_names.iter().filter(|(value, _)| **value > 0).map(|(_, name)| name);
        for name in named.filter(|name| *name != IGNORE && !others(name)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        if names.len() > MOST_REGIONS {
            names.retain(|name| boxes.contains(name));
        }
        if !self.label_names.is_empty() {
            return if names.is_empty() { None } else { self.region_labels(&names).ok() };
        }
        let mut boxes = self.structures.iter().filter(|s| s.kind == StructureKind::Box);
        let (Some(only), None) = (boxes.next(), boxes.next()) else { return None };
        let mut classes = vec![1; usize::from(u16::MAX) + 1];
        classes[0] = 0;
        Some(RegionLabels { regions: vec![(only.name.clone(), 1)], classes })
    }
}

impl RegionLabels {
    /// The class of every voxel of a label map, on its own grid.
    ///
    /// # Errors
    /// [`IoError`] when the map cannot be read.
    pub fn read_classes(&self, path: &Path) -> Result<Volume<u8>, IoError> {
        let labels = read_labels(path)?;
        Ok(labels.map(|value| self.classes[usize::from(value)]))
    }

    /// The class of every voxel of a case's label map; `None` where it has no label map. Where one
    /// of these regions was not drawn, nobody knows what the background is, and it is ignored.
    ///
    /// # Errors
    /// [`IoError`] when the map cannot be read or lies on another grid than the image.
    pub fn read(&self, case: &CaseSpec, image: &Geometry) -> Result<Option<Volume<u8>>, IoError> {
        let Some(path) = case.labels.as_deref() else { return Ok(None) };
        let mut classes = self.read_file(path, image)?;
        if self.regions.iter().any(|(name, _)| case.not_drawn.contains(name)) {
            let background = classes.data_mut().iter_mut().filter(|class| **class == 0);
            background.for_each(|class| *class = IGNORED_CLASS);
        }
        Ok(Some(classes))
    }

    /// As [`RegionLabels::read`], of a file.
    ///
    /// # Errors
    /// Those of [`RegionLabels::read`].
    pub fn read_file(&self, path: &Path, image: &Geometry) -> Result<Volume<u8>, IoError> {
        Ok(read_labels_on(path, image)?.map(|value| self.classes[usize::from(value)]))
    }
}

/// The values of a label map that lies on the grid of an image.
///
/// # Errors
/// [`IoError`] when the map cannot be read or lies on another grid than the image.
pub fn read_labels_on(path: &Path, image: &Geometry) -> Result<Volume<u16>, IoError> {
    let labels = read_labels(path)?;
    if !labels.geometry().is_same_grid(image) {
        let ([a, b, c], [x, y, z]) = (labels.shape(), image.shape());
        let problem = if labels.shape() == image.shape() {
            "the voxels lie elsewhere than those of the image".to_owned()
        } else {
            format!("{a} x {b} x {c} voxels, where the image has {x} x {y} x {z}")
        };
        return Err(IoError::input(path, "grid", problem, "make it on the image's grid"));
    }
    Ok(Volume::new(image.clone(), labels.into_data()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The names of the classes in a box `liver`.
    fn in_liver(labels: &serde_json::Value) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let set = json!({
            "schema": "pbt-dataset/1", "name": "set", "modality": "CT", "labels": labels,
            "structures": [{ "name": "liver", "kind": "box" }, { "name": "kidney", "kind": "box" }],
            "cases": [{ "id": "a", "image": "image.nii", "split": "train" }],
        });
        std::fs::write(folder.path().join("image.nii"), "").unwrap();
        std::fs::write(folder.path().join("dataset.json"), set.to_string()).unwrap();
        let set = Dataset::load(folder.path()).unwrap();
        let labels = set.labels_of(&["liver".to_owned()]).unwrap();
        labels.regions.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn labels_in_a_box_are_its_own_and_those_of_its_parts() {
        let mut labels = json!({ "0": "background", "1": "liver", "2": "kidney", "3": "vein" });
        assert_eq!(in_liver(&labels), ["liver", "vein"]);
        for value in 4..=MOST_REGIONS + 4 {
            labels[value.to_string()] = json!(format!("part {value}"));
        }
        assert_eq!(in_liver(&labels), ["liver"], "there are too many parts");
    }
}
