//! The labels about the boxes that were found.

use crate::DetectError;
use crate::detect::detection::{Detection, Detections};
use crate::masks::labelling::{LabelFound, Labelling, add_probabilities};
use crate::masks::stage::{Mask, MaskStage};
use crate::model::Model;
use crate::segment::probability::LabelProbability;
use crate::working::spec::WorkingSpec;
use pbt_tree::LabelBackend;
use pbt_volume::{Geometry, Plane, Quantised, RealVolume, Status, Volume};
use rayon::prelude::*;

/// The labels of an image.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelMap {
    /// The value of each voxel, 0 for none.
    pub labels: Volume<u16>,
    /// By detection, what there is to say of its labels; empty where it has none.
    pub found: Vec<Vec<LabelFound>>,
}

impl Model {
    /// The masks that label about a structure, and its place among their structures.
    pub(super) fn masks_of(&self, structure: usize) -> Option<(&MaskStage, usize)> {
        self.masks
            .iter()
            .find_map(|stage| Some((stage, stage.structures.iter().position(|&s| s == structure)?)))
    }

    /// Labels about every box that is not absent, where that is wanted or moves the box or its
    /// landmarks; and moves these boxes.
    pub(super) fn find_masks<B: LabelBackend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
        boxes: Vec<&mut Detection>,
        wanted: bool,
    ) -> Result<Vec<Option<Mask>>, DetectError> {
        let stages: Vec<Option<&MaskStage>> = boxes
            .iter()
            .enumerate()
            .map(|(structure, detection)| {
                let (stage, _) = self.masks_of(structure)?;
                let asked = wanted || stage.moves();
                (detection.status != Status::Absent && asked).then_some(stage)
            })
            .collect();
        let spec = |stage: &MaskStage| {
            let working = self.structures[stage.structures[0]].working.clone();
            WorkingSpec { intensity: stage.intensity, ..working }
        };
        // The stages of a model may share how images are prepared.
        let mut quantised: Vec<(WorkingSpec, Vec<Quantised<'_>>)> = Vec::new();
        for working in stages.iter().flatten().map(|stage| spec(stage)) {
            if quantised.iter().any(|(other, _)| other.has_same_intensities(&working)) {
                continue;
            }
            let all = channels.iter().enumerate().map(|(n, channel)| working.quantised(n, channel));
            let all = all.collect::<Result<_, _>>()?;
            quantised.push((working, all));
        }
        // Side by side: a device then seldom waits for the host.
        let find = |(detection, stage): (&mut Detection, Option<&MaskStage>)| {
            let Some(stage) = stage else { return Ok(None) };
            let working = spec(stage);
            let shown = quantised.iter().find(|(other, _)| other.has_same_intensities(&working));
            let mask = match shown {
                Some((_, shown)) => stage.find(backend, shown, &detection.pose)?,
                None => None,
            };
            if let Some(mask) = mask.as_ref().filter(|_| stage.moves_box) {
                detection.pose = mask.pose;
            }
            Ok(mask)
        };
        boxes.into_par_iter().zip(stages).map(find).collect()
    }

    /// The label map of [`Model::detect_with_masks`] on the grid of the image. `None` where the
    /// model has no masks.
    pub fn label_map(&self, image: &Geometry, found: &Detections) -> Option<LabelMap> {
        if self.masks.is_empty() {
            return None;
        }
        let mut labelling = Labelling::new(&flat(image));
        let of = |n: usize| Some((self.masks_of(n)?, found.masks.get(n)?.as_ref()?));
        for ((stage, own), mask) in (0..found.detections.len()).filter_map(of) {
            let values: Vec<u16> = stage.labels[own].iter().map(|label| label.value).collect();
            labelling.add((&mask.grid, &mask.shares), &values, stage.label_weight);
        }
        let labels = labelling.finish();
        let of =
            |n| of(n).map_or_else(Vec::new, |((stage, own), mask)| stage.found(own, mask, &labels));
        let found = (0..found.detections.len()).map(of).collect();
        let labels = Volume::new(image.clone(), labels.into_data());
        Some(LabelMap { labels, found })
    }

    /// How probable each label is at each voxel of the image, by value, rising; 255 is sure. Without
    /// masks there is none.
    ///
    /// # Errors
    /// [`DetectError::Image`] where there is not as much memory.
    pub fn label_probabilities(
        &self,
        image: &Geometry,
        found: &Detections,
    ) -> Result<Vec<LabelProbability>, DetectError> {
        let names = self.masks.iter().flat_map(|stage| stage.labels.iter().flatten());
        let mut probabilities = LabelProbability::of_nothing(&flat(image), names)?;
        let of = |n: usize| Some((self.masks_of(n)?, found.masks.get(n)?.as_ref()?));
        for ((stage, own), mask) in (0..found.detections.len()).filter_map(of) {
            for (n, label) in stage.labels[own].iter().enumerate() {
                let Some(of) = probabilities.iter_mut().find(|of| of.value == label.value) else {
                    continue;
                };
                let mask = (&mask.grid, &mask.shares[..]);
                add_probabilities(&mut of.voxels, mask, (n + 1, stage.classes()));
            }
        }
        let in_place = |LabelProbability { name, value, voxels }| {
            let voxels = Volume::new(image.clone(), voxels.into_data());
            LabelProbability { name, value, voxels }
        };
        Ok(probabilities.into_iter().map(in_place).collect())
    }
}

/// The grid of an image where frames lie: of an image of one slice in the plane's own coordinates.
fn flat(image: &Geometry) -> Geometry {
    Plane::of(image).map_or_else(|| image.clone(), |plane| plane.geometry().clone())
}
