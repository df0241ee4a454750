//! What `MODEL.train.json` tells of the cases that a model was trained on: which they are, and in
//! which of them a held-out detection contradicts the annotation.

use crate::session::{AnnotatedCase, LoadedModel, beside};
use pbt_detect::Suspicion;
use pbt_io::{DetectionRecord, FileKind, read_file};
use pbt_volume::{Detection, Location, Status};
use serde::{Deserialize, Serialize};

/// A case that a model was trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainingCase {
    /// Its name.
    pub case: String,
    /// Hash of its image file: another data set may have a case of the same name.
    pub image_sha256: String,
}

impl From<&AnnotatedCase> for TrainingCase {
    fn from(case: &AnnotatedCase) -> Self {
        Self { case: case.spec.id.clone(), image_sha256: case.sha256.clone() }
    }
}

/// A [`Suspicion`] as files have it: the held-out detection in the form of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SuspicionRecord {
    /// Name of the case.
    pub case: String,
    /// How far from its annotation, mm.
    pub off_mm: f64,
    /// What was found there.
    #[serde(flatten)]
    pub detection: DetectionRecord,
}

impl From<&Suspicion> for SuspicionRecord {
    fn from(suspicion: &Suspicion) -> Self {
        let Suspicion { case, structure, found, off_mm, score } = suspicion;
        let found = Location::Box(Some(*found));
        let detection = Detection::new(structure.clone(), Status::Found, *score, found);
        Self { case: case.clone(), off_mm: *off_mm, detection: detection.into() }
    }
}

/// The part of `MODEL.train.json` that is about held-out cases.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HeldOut {
    model_sha256: String,
    /// All cases of the training.
    pub training_cases: Vec<TrainingCase>,
    /// Annotations that held-out detections contradict.
    pub suspicions: Vec<SuspicionRecord>,
}

impl HeldOut {
    /// That of a model, from the file beside it.
    ///
    /// # Errors
    /// In a few words: there is no such file, it belongs to another model or an earlier version, or
    /// its training held no cases out.
    pub fn of(model: &LoadedModel) -> Result<Self, String> {
        if model.model.certainty.is_empty() {
            return Err("its training held no cases out".to_owned());
        }
        let path = beside(&model.path, "train.json");
        let name = path.display();
        let bytes = read_file(&path, FileKind::Document).map_err(|e| e.to_string())?;
        let held_out: Self = serde_json::from_slice(&bytes)
            .map_err(|_| format!("{name} does not say what was found in held-out cases"))?;
        if held_out.model_sha256 != model.sha256 {
            return Err(format!("{name} is of another model"));
        }
        if held_out.suspicions.iter().any(|s| !s.is_sound()) {
            return Err(format!("{name} has a box that is none"));
        }
        Ok(held_out)
    }
}

impl SuspicionRecord {
    fn is_sound(&self) -> bool {
        self.detection.pose().is_some_and(|pose| {
            let numbers = pose.center.0.iter().chain(pose.orientation.coords.iter());
            numbers.chain(&pose.size_mm).all(|v| v.is_finite())
                && pose.size_mm.iter().all(|mm| *mm > 0.0)
        })
    }
}
