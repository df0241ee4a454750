//! What a user may type: the commands, with a file for the options of each.

mod batch;
mod components;
mod convert;
mod crop;
mod demo;
mod detect;
mod doctor;
mod error;
mod evaluate;
mod global;
mod info;
mod init;
mod learning_curve;
mod merge;
mod number;
mod report;
mod shell;
mod train;
mod tune;
mod validate;
mod volume;
mod voxel_file;

pub use batch::Batch;
pub use components::{Components, Connectivity};
pub use convert::Convert;
pub use crop::CropChoice;
pub use demo::{Demo, DemoModality};
pub use detect::Detect;
pub use doctor::Doctor;
pub use evaluate::Evaluate;
pub use global::Global;
pub use info::Info;
pub use init::Init;
pub use learning_curve::LearningCurve;
pub use merge::Merge;
pub use report::{PageViewer, Report};
pub use shell::{Completions, Man};
pub use train::{Classifier, Train};
pub use tune::Tune;
pub use validate::Validate;
pub use volume::VolumeChoice;
pub use voxel_file::VoxelFile;

use clap::{Parser, Subcommand};

/// Finds anatomy in 3D medical volumes.
///
/// Train on a few dozen annotated CT, MR or ultrasound scans in minutes, then get position,
/// orientation and size of the structure in new ones. Start with `pbt demo`.
#[derive(Debug, Parser)]
#[command(name = "pbt", version, propagate_version = true, max_term_width = 110)]
#[command(after_help = crate::exit::HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
}

/// Trains a model: the same as `pbt train`.
#[derive(Debug, Parser)]
#[command(name = "train-pbt", version, max_term_width = 110)]
pub struct TrainPbt {
    /// Options of training.
    #[command(flatten)]
    pub train: Train,
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make phantoms, train on some and find the structures in the others: see what pbt does,
    /// without data
    Demo(Demo),
    /// Write dataset.json for a folder of images with masks or annotations
    Init(Init),
    /// Train a model on the cases of a data set whose split is `train`
    Train(Train),
    /// Find the structures of a model in one image
    Detect(Detect),
    /// Find the structures of a model in many images: a folder of them, or a list
    Batch(Batch),
    /// Make one table of the results that the parts of a batch have left in their folders
    Merge(Merge),
    /// Detect in the cases of a split and compare with the annotations
    Evaluate(Evaluate),
    /// Try settings on parts of the training cases by turns and write the best ones
    Tune(Tune),
    /// Train on more and more cases and say what still more would bring
    LearningCurve(LearningCurve),
    /// Show what a model holds, or which devices can compute
    Info(Info),
    /// Look at this machine: threads, GPU, memory, and what is in the way
    Doctor(Doctor),
    /// Check a data set, an image or another file and say all that is wrong with it
    Validate(Validate),
    /// Write an image in another format, voxels and affine exact
    Convert(Convert),
    /// Number the connected components of a mask or label map
    Components(Components),
    /// Write a page for a browser about an evaluation or a batch
    Report(Report),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Print the manual page, or write those of all commands
    Man(Man),
}
