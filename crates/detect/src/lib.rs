//! Marginal space learning: stages, training, detection and the model file, written once
//! against a `Backend`.
//!
//! An image is brought to a working pyramid ([`WorkingSpec`]). The position stage searches a coarse
//! level, the orientation stage scores position candidates × rotations; the best
//! hypotheses are gathered into modes, the refinement brings each mode to the structure, and the
//! verification stage picks one and says how sure it is.
#![forbid(unsafe_code)]

mod certainty;
mod config;
mod data;
mod detect;
mod error;
mod explain;
mod landmarks;
mod log_odds;
mod masks;
mod memory_need;
mod model;
mod network;
mod pose;
mod random;
mod refine;
mod segment;
mod side_by_side;
mod stages;
mod train;
mod working;

pub use certainty::evidence::{Evidence, NAMES as EVIDENCE};
pub use certainty::learned::{Certainty, HeldOutErrors, LandmarkCertainty};
pub use certainty::presence::{FEWEST_WITHOUT, Presence};
pub use certainty::suspicion::Suspicion;
pub use config::augmentation::AugmentationConfig;
pub use config::landmarks::{LandmarkPatchConfig, LandmarkRegressorConfig, LandmarksConfig, View};
pub use config::regions::{RegionClassifier, RegionsConfig, Sampling};
pub use config::segmentation::SegmentationConfig;
pub use config::{
    CertaintyConfig, NetworkConfig, OrientationConfig, Orientations, PassConfig, PositionConfig,
    RefinementConfig, RefinementKind, ShrinkageConfig, TrainConfig, VerificationConfig,
    WorkingConfig,
};
pub use data::case_list::{CaseList, ListedCase};
pub use data::each_image::images_at_a_time;
pub use data::training_data::{FEWEST_CASES, TrainingData};
pub use detect::UNMEASURED;
pub use detect::detection::{Detection, Detections, LandmarkDetection, Trace};
pub use detect::label_boxes::LabelMap;
pub use error::DetectError;
pub use explain::{Explanation, TreePath, Vote};
pub use landmarks::close_up::CloseUp;
pub use landmarks::stage::{
    FoundLandmark, LandmarkGroup, LandmarkMap, LandmarkPrior, LandmarkRegressor,
    LandmarkRegressorSpec, LandmarkStage,
};
pub use masks::frame::FrameGrid;
pub use masks::labelling::LabelFound;
pub use masks::landmarks::LabelledLandmark;
pub use masks::need::MaskNeed;
pub use masks::places::{Place, Way};
pub use masks::quality::Quality;
pub use masks::rounds::{MaskRound, Refit};
pub use masks::stage::MaskStage;
pub use memory_need::is_held;
pub use model::{Model, Provenance, StructureModel};
pub use network::arc::Arc;
pub use network::gaussian::Gaussian;
pub use network::graph::Network;
pub use network::level_shift::{LevelShiftSpec, LevelShiftTest};
pub use network::search_region::Anchor;
pub use pbt_linear::{LinearMap, Weight};
pub use pose::error::PoseError;
pub use pose::prior::Prior;
pub use pose::rotation_cover::rotation_cover;
pub use pose::shrinkage::Shrinkage;
pub use pose::step::{Reach, Step};
pub use refine::cascade::Cascade;
pub use refine::classification::{ClassificationPass, ClassificationPasses, PassSpec};
pub use refine::refinement::Refinement;
pub use refine::regressor::{OUTPUTS, Regressor, RegressorSpec};
pub use segment::components::FoundComponent;
pub use segment::data::{IGNORED, LabelledImage, RegionData, RegionName};
pub use segment::labelling::{FoundRegion, LabelOutput, Labelling};
pub use segment::probability::LabelProbability;
pub use segment::region_forest::RegionForest;
pub use segment::training::train_regions;
pub use side_by_side::at_a_time;
pub use stages::classifier::{FamilyClassifier, HaarClassifier, PoseClassifier};
pub use stages::orientation::{OrientationSpec, OrientationStage};
pub use stages::platt_scaling::Calibration;
pub use stages::position::{Candidate, PositionSpec, PositionStage};
pub use stages::verification::{VerificationSpec, VerificationStage};
pub use train::observer::{Observer, StageFigure};
pub use train::{
    GridDemand, Refusal, Trained, check_checkpoint, difference_from_training, grid_demands,
    refusals, train,
};
pub use working::spec::{ChannelSpec, WorkingSpec};
