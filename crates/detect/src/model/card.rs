//! The card of a model file: everything that is short, as JSON.

use crate::certainty::learned::Certainty;
use crate::model::Provenance;
use crate::model::landmark_tables::LandmarkCard;
use crate::model::mask_tables::MaskCard;
use crate::model::region_tables::RegionCard;
use crate::network::graph::Network;
use crate::network::level_shift::LevelShiftSpec;
use crate::network::row::Row;
use crate::pose::prior::Prior;
use crate::refine::classification::PassSpec;
use crate::refine::regressor::RegressorSpec;
use crate::stages::orientation::OrientationSpec;
use crate::stages::position::PositionSpec;
use crate::stages::verification::VerificationSpec;
use crate::working::spec::WorkingSpec;
use pbt_features::BoxGrid;
use pbt_tree::EvalParams;
use serde::{Deserialize, Serialize};

/// Version of the file format; a newer one is refused.
pub(super) const FORMAT_VERSION: u32 = 11;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Card {
    pub(super) format_version: u32,
    /// Digest of the rest of the file.
    pub(super) seal: String,
    /// Stages of a training that goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub(super) unfinished: bool,
    pub(super) provenance: Provenance,
    pub(super) structures: Vec<StructureCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) network: Option<Network>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) level_shifts: Vec<LevelShiftSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) certainty: Vec<Option<Certainty>>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) masks: Vec<MaskCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) regions: Option<RegionCard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StructureCard {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) cases: usize,
    pub(super) working: WorkingSpec,
    pub(super) prior: Prior,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) position: Option<StageCard<PositionSpec>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) orientation: Option<StageCard<OrientationSpec>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) refinement: Option<RefinementCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) verification: Option<StageCard<VerificationSpec>>,
    /// Names of the landmarks that its frame is for; a file without the stage is unfinished.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(super) landmark_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) landmarks: Option<LandmarkCard>,
    /// Number of frames in the table of an unfinished training of landmarks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) frames: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) row: Option<Row>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StageCard<S> {
    pub(super) spec: S,
    pub(super) classifier: ClassifierCard,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassifierCard {
    pub(super) eval: EvalParams,
    /// Where steerable features sample the box; absent for Haar features.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) grid: Option<BoxGrid>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum RefinementCard {
    Regression(Vec<RegressorSpec>),
    Classification(Vec<StageCard<PassSpec>>),
}
