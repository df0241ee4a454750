//! Marginal space learning: stages, training, detection and the model file, written once
//! against a `Backend`.
//!
//! An image is brought to a working pyramid ([`WorkingSpec`]). The position stage scores every
//! voxel of a coarse level, the orientation stage position candidates × rotations; the best
//! hypotheses are gathered into modes, the finish brings each mode to the structure, and the
//! verification stage picks one and says how sure it is.
#![forbid(unsafe_code)]

mod augmentation;
mod blend;
mod calibration;
mod case;
mod cholesky;
mod classification;
mod classifier;
mod close_up;
mod config;
mod cover;
mod detector;
mod error;
mod explain;
mod file;
mod finish;
mod finish_error;
mod fusion;
mod gram;
mod inner_products;
mod landmark_config;
mod landmark_file;
mod landmark_training;
mod landmarks;
mod level_file;
mod level_training;
mod levels;
mod linear;
mod mirror_choice;
mod model;
mod modes;
mod network;
mod orientation;
mod perturb;
mod position;
mod prior;
mod quaternion;
mod regression;
mod ridge;
mod samples;
mod seal;
mod stage_input;
mod symmetry;
mod tensors;
mod train;
mod trust;
mod verification;
mod working;

pub use augmentation::AugmentationConfig;
pub use calibration::Calibration;
pub use case::WorkingSpec;
pub use classification::{Round, RoundSpec, Rounds};
pub use classifier::{HaarClassifier, PoseClassifier};
pub use close_up::CloseUp;
pub use config::{
    FinishConfig, FinishKind, NetworkConfig, OrientationConfig, Orientations, PositionConfig,
    RoundConfig, TrainConfig, VerificationConfig, WorkingConfig,
};
pub use cover::rotation_cover;
pub use detector::{Detection, Detections, LandmarkDetection, Trace};
pub use error::DetectError;
pub use explain::{Explanation, TreePath, Vote};
pub use finish::Finish;
pub use finish_error::FinishError;
pub use landmark_config::{LandmarkPatchConfig, LandmarkRoundConfig, LandmarksConfig};
pub use landmarks::{
    FoundLandmark, LandmarkGroup, LandmarkPrior, LandmarkRound, LandmarkRoundSpec, LandmarkStage,
    View,
};
pub use levels::{LevelSpec, LevelTest};
pub use linear::LinearMap;
pub use model::{Model, Provenance, StructureModel};
pub use network::{Arc, Gaussian, Network};
pub use orientation::{OrientationSpec, OrientationStage};
pub use perturb::{Reach, Step};
pub use position::{Candidate, PositionSpec, PositionStage};
pub use prior::Prior;
pub use regression::{Cascade, OUTPUTS, Regressor, RegressorSpec};
pub use train::{FEWEST_CASES, Observer, StageFigure, Trained, TrainingData, train};
pub use trust::Trust;
pub use verification::{VerificationSpec, VerificationStage};
