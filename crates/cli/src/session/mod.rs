//! What the commands do, without arguments and without printing: whoever drives `pbt` from another
//! language builds on this, too.
//!
//! A session opens a [`Device`] and a [`LoadedModel`] and detects in images ([`detect_file`]), or
//! reads the cases of a data set ([`read_cases`]) and trains on them ([`Training`]). What takes
//! long tells a [`Watcher`] how far it is. Every error is a [`Failure`]: one line and an exit code.

mod built_in_models;
mod cases;
mod channels;
mod crop;
mod cross_validation;
mod detect;
mod device;
mod evaluate;
mod failure;
mod find_model;
mod label_grid;
mod model;
mod model_card;
mod names;
mod processor;
mod region_cases;
mod region_evaluation;
mod result_source;
mod results;
mod subjects;
mod threads;
mod train;
mod training_needs;
mod training_report;
mod voxel_output;
mod watcher;

pub use built_in_models::{BUILT_IN_MODELS, BuiltInModel};
pub use cases::{AnnotatedCase, TrainingCases, Wanted, misfits, read_cases};
pub use crop::{Crops, Cut, crop_path};
pub use cross_validation::{CrossValidation, Folds};
pub use detect::{
    Admitted, Explained, Found, Input, admit, chosen, detect_file, detect_image, explain_file,
    label_file, label_image,
};
pub use device::{Device, DeviceChoice, ListedDevice, list_devices};
pub use evaluate::{Evaluated, FailedCase, StageTime, evaluate_cases};
pub use failure::Failure;
pub use find_model::{ModelPlace, find_model};
pub use label_grid::GridDifference;
pub use model::LoadedModel;
pub use model_card::{CARD_SCHEMA, ModelCard};
pub use names::{check_names, no_case_of_split, there_is_no};
pub use region_cases::{RegionCases, train_regions};
pub use region_evaluation::{EvaluatedRegions, evaluate_regions};
pub use result_source::Source;
pub use results::{
    LeafFile, label_map_path, leaves_path, make_folder, probabilities_path, region_labels_path,
    write_json, write_results,
};
pub(crate) use results::{check_explanation, explanation_paths, mark_unfinished};
pub use subjects::{divide_subjects, hold_back};
pub use threads::install_threads;
pub use train::{Resume, TrainedModel, Training, beside, checkpoint_of, read_config};
pub use training_needs::TrainingNeeds;
pub use training_report::{HeldOut, SuspicionRecord, TrainedOn, TrainingReport};
pub use voxel_output::{VoxelFile, VoxelOutput};
pub use watcher::{Silent, Watcher};
