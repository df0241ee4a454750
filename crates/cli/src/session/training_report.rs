//! `MODEL.train.json`: how a training went, which cases a model was trained on, and in which of them
//! a held-out detection contradicts the annotation.

use crate::session::{AnnotatedCase, LoadedModel, TrainedModel, beside};
use pbt_detect::{StageFigure, Suspicion};
use pbt_io::{Dataset, DetectionRecord, DeviceRecord, FileKind, read_file};
use pbt_volume::{Detection, Location, Status};
use serde::{Deserialize, Serialize};

/// `MODEL.train.json`, schema `pbt-training/1`.
#[derive(Serialize)]
pub struct TrainingReport<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    dataset: &'a str,
    cases: usize,
    seed: u64,
    model_sha256: &'a str,
    training_sha256: &'a str,
    device: &'a DeviceRecord,
    seconds: f64,
    /// Errors on the training cases themselves: they say whether a stage works, not how well it
    /// does on new cases.
    stages: &'a [StageFigure],
    training_cases: &'a [TrainedOn],
    #[serde(skip_serializing_if = "Option::is_none")]
    labels_sha256: Option<&'a str>,
    suspicions: Vec<SuspicionRecord>,
    warnings: &'a [String],
}

impl<'a> TrainingReport<'a> {
    /// The report of a training; `warnings` are all that the user was told,
    /// `seconds` those of reading, training and writing.
    pub fn new(
        trained: &'a TrainedModel,
        dataset: &'a Dataset,
        seed: u64,
        device: &'a DeviceRecord,
        warnings: &'a [String],
        seconds: f64,
    ) -> Self {
        let provenance = &trained.model.provenance;
        Self {
            schema: "pbt-training/1",
            pbt_version: env!("CARGO_PKG_VERSION"),
            dataset: &dataset.name,
            cases: provenance.cases,
            seed,
            model_sha256: &trained.sha256,
            training_sha256: &provenance.training_sha256,
            device,
            seconds,
            stages: &trained.figures,
            training_cases: &trained.cases,
            labels_sha256: trained.labels_sha256.as_deref(),
            suspicions: trained.suspicions.iter().map(SuspicionRecord::from).collect(),
            warnings,
        }
    }
}

/// A case that a model was trained on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainedOn {
    /// Its name.
    pub case: String,
    /// Hash of its image file: another data set may have a case of the same name.
    pub image_sha256: String,
}

impl From<&AnnotatedCase> for TrainedOn {
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
        let Suspicion { case, structure, found, off_mm, score, .. } = suspicion;
        let found = Location::Box(Some(*found));
        let detection = Detection::new(structure.clone(), Status::Found, *score, found);
        Self { case: case.clone(), off_mm: *off_mm, detection: detection.into() }
    }
}

/// The hash of the label maps that a model has learned from, by the file beside it.
pub(super) fn learned_labels_sha256(model: &LoadedModel) -> Option<String> {
    let bytes = read_file(&beside(&model.path, "train.json"), FileKind::Document).ok()?;
    let report: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let is_its_own = report["model_sha256"].as_str() == Some(&model.sha256);
    report["labels_sha256"].as_str().filter(|_| is_its_own).map(str::to_owned)
}

/// The part of `MODEL.train.json` that is about held-out cases.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct HeldOut {
    model_sha256: String,
    /// All cases of the training.
    pub training_cases: Vec<TrainedOn>,
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
