//! A structure in training, as checkpoints keep it. `checkpoint.rs` reads one back, `train/structure.rs`
//! skips the stages that are there.

use crate::landmarks::stage::LandmarkStage;
use crate::model::StructureModel;
use crate::network::level_shift_training::ChainDetector;
use crate::network::row::Row;
use crate::pose::prior::Prior;
use crate::refine::refinement::Refinement;
use crate::stages::orientation::OrientationStage;
use crate::stages::position::PositionStage;
use crate::stages::verification::VerificationStage;
use crate::working::spec::WorkingSpec;
use pbt_volume::Pose;

/// A structure in training: stages appear one after another.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StructureCheckpoint {
    pub(crate) name: String,
    pub(crate) cases: usize,
    pub(crate) working: WorkingSpec,
    pub(crate) prior: Prior,
    pub(crate) position: Option<PositionStage>,
    pub(crate) orientation: Option<OrientationStage>,
    pub(crate) refinement: Option<Refinement>,
    pub(crate) verification: Option<VerificationStage>,
    /// Landmarks to train in its frame.
    pub(crate) landmark_names: Vec<String>,
    /// Poses as detection would find them, by training case; while landmarks are being trained.
    pub(crate) frames: Option<Vec<Pose>>,
    pub(crate) landmarks: Option<LandmarkStage>,
    pub(crate) row: Option<Row>,
}

impl StructureCheckpoint {
    /// A structure of which no stage is trained.
    pub(crate) fn new(
        name: &str,
        cases: usize,
        working: WorkingSpec,
        prior: Prior,
        landmark_names: Vec<String>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            cases,
            working,
            prior,
            position: None,
            orientation: None,
            refinement: None,
            verification: None,
            landmark_names,
            frames: None,
            landmarks: None,
            row: None,
        }
    }

    /// Whether no stage is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.verification.is_some() && (self.landmark_names.is_empty() || self.landmarks.is_some())
    }

    /// What the level shift test needs; `None` before refinement is trained.
    pub(crate) fn chain_detector(&self) -> Option<ChainDetector<'_>> {
        Some(ChainDetector {
            refinement: self.refinement.as_ref()?,
            working: &self.working,
            scale_mm: self.prior.scale_mm,
        })
    }

    /// The finished structure; `None` while a stage is missing.
    pub(crate) fn complete(self) -> Option<StructureModel> {
        let Self {
            name,
            cases,
            working,
            prior,
            position,
            orientation,
            refinement,
            verification,
            landmark_names,
            landmarks,
            row,
            ..
        } = self;
        if landmarks.is_none() && !landmark_names.is_empty() {
            return None;
        }
        Some(StructureModel {
            name,
            cases,
            working,
            prior,
            position: position?,
            orientation: orientation?,
            refinement: refinement?,
            verification: verification?,
            landmarks,
            row,
        })
    }
}

impl From<StructureModel> for StructureCheckpoint {
    fn from(s: StructureModel) -> Self {
        Self {
            name: s.name,
            cases: s.cases,
            working: s.working,
            prior: s.prior,
            position: Some(s.position),
            orientation: Some(s.orientation),
            refinement: Some(s.refinement),
            verification: Some(s.verification),
            landmark_names: s
                .landmarks
                .iter()
                .flat_map(|l| &l.landmarks)
                .map(|l| l.name.clone())
                .collect(),
            frames: None,
            landmarks: s.landmarks,
            row: s.row,
        }
    }
}
