//! The learner: AdaBoost nodes, probabilistic boosting trees, forests, and their evaluation.
//!
//! Samples are known through feature *ids* and integer responses only ([`SampleSource`]), so a new
//! family of features needs no change here. Whatever decides anything is an integer: bins, weights,
//! alphas, margins, masses and scores are the same bits on every machine.
#![forbid(unsafe_code)]

mod backend;
mod bins;
mod block;
mod boost;
mod branch;
mod classifier;
mod device_error;
mod draw;
mod family;
pub mod fixed;
mod grow;
mod label;
mod masses;
mod node;
mod path;
mod posterior;
mod random_forest;
mod reached;
mod reference;
mod regression_forest;
mod score;
mod source;
mod weak;

pub use backend::{Backend, Device, Evaluate, ImageLayout, Patch};
pub use bins::{BIN_MULTIPLIER_BITS, BINS, BinnedMatrix, Bounds};
pub use boost::{
    BoostParams, BoostTask, Booster, Candidate, WEIGHT_TOTAL, WeakKind, accepts, adaboost,
    alpha_of_error, best_of_feature, output_bins, reweight,
};
pub use branch::Branch;
pub use classifier::{
    Classifier, ClassifierError, ClassifierKind, ClassifierParams, Grower, MAX_TREES,
    PbtForestParams, TrainingSet, train_classifier,
};
pub use device_error::DeviceError;
pub use family::{FeatureFamily, Haar, PoseSite, Steerable, VoxelSite, Voxels};
pub use grow::{PbtParams, TrainError, grow_pbt};
pub use label::backend::{
    BLOCK_EDGE, Block, ChannelBank, LabelBackend, Layered, MOST_SUM_BYTES, Outside, Split,
    SplitTask, Splitter,
};
pub use label::boosted_host::HostBoosting;
pub use label::booster::{BinNode, BinTree, GrownNode, LabelBooster, NodeTest, TreeTask};
pub use label::boosting::{LabelBoostParams, boost_labels, shift_scores};
pub use label::edges::{Edges, LABEL_BINS, MISSING_BIN};
pub use label::forest::{LEAF, LabelForest, LabelNode, LabelTree, MOST_CLASSES, Vote};
pub use label::gain::{
    ALL_ENDS, BinTest, Ends, Gain, Histogram, LEAST_GAIN, MOST_LABEL_SAMPLES, SplitRule,
};
pub use label::growth::{LabelForestParams, LabelTest, Shape, grow_label_forest};
pub use label::leaves::{LEAF_ONE, LeafPrior};
pub use label::matrix::LabelMatrix;
pub use label::part::{ChannelPart, VoxelRange, shape_of};
pub use label::slopes::{LEAST_FALL, SLOPE_BITS};
pub use label::softmax::exp_table;
pub use label::splits::splits_on_host;
pub use masses::Masses;
pub use node::{MAX_ALPHA_SUM, MAX_DEPTH, Node, Tree, TreeError, used_features};
pub use path::PathStep;
pub use posterior::{EvalParams, Evaluator};
pub use random_forest::{RandomForestParams, grow_random_tree};
pub use reference::ReferenceBooster;
pub use regression_forest::{
    REGRESSION_LEAF, RegressionForest, RegressionForestParams, RegressionNode, RegressionTree,
};
pub use score::{LOG_ODDS_BITS, Score, best_indices};
pub use source::{SampleSource, margins_from_responses};
pub use weak::{ALPHA_BITS, Threshold, Weak};
