//! What a user may type.

mod crop;
mod doctor;
mod init;
mod merge;
mod tune;

pub use crop::CropChoice;
pub use doctor::Doctor;
pub use init::Init;
pub use merge::Merge;
pub use tune::Tune;

use crate::host::Host;
use crate::session::{self, Failure, VoxelOutput};
use clap::{Args, Parser, Subcommand, ValueEnum};
use pbt_io::ReadOptions;
use pbt_tree::ClassifierKind;
use std::path::PathBuf;
use std::sync::Arc;

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

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Print errors only
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more: why no GPU is used
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// Where to compute: `auto`, `cpu`, `gpu` or `gpu:N`
    #[arg(long, global = true, default_value = "auto", value_name = "DEVICE")]
    pub device: crate::session::DeviceChoice,
    /// Number of CPU threads [default: all cores]; results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), allow_negative_numbers = true)]
    pub threads: Option<u16>,
    /// Most memory to take, as in `8G` [default: what the machine or its control group has left];
    /// images that need more are refused
    #[arg(long, global = true, value_name = "SIZE", value_parser = bytes)]
    pub memory: Option<u64>,
    /// The program that the command runs within, if it is not its own
    #[arg(skip)]
    pub host: Option<Arc<dyn Host>>,
}

/// A number of bytes: `8G`, `500M`, `1.5GiB`. Letters stand for powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let unit = text[end..].trim().to_ascii_uppercase();
    let power = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => -1,
    };
    let number = text[..end].parse().ok().filter(|n: &f64| power >= 0 && n.is_finite());
    let bytes = number.map(|n| n * 1024f64.powi(power)).filter(|b| *b >= 1.0);
    bytes.map(|b| b as u64).ok_or_else(|| "expected a size, as in 8G or 500M".to_owned())
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

/// `pbt train`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Example:\n  pbt train -i my_scans -o liver.pbt\n\nThe data set is described in docs/reference/dataset.md. \
Beside MODEL.pbt this writes MODEL.train.toml (every setting, as resolved) and MODEL.train.json (figures by stage, times, hashes)."
)]
pub struct Train {
    /// Data set: a folder with dataset.json, such a file, or a folder of nnU-Net or BIDS
    #[arg(short, long, value_name = "DATASET")]
    pub input: PathBuf,
    /// Model file to write; its folder is made if missing
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub output: PathBuf,
    /// Train only this structure (may be given several times) [default: all]
    #[arg(long, value_name = "NAME")]
    pub structure: Vec<String>,
    /// Settings that differ from the defaults (TOML); MODEL.train.toml of an earlier training shows
    /// all keys
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Classifier of all stages, in place of the configuration's
    #[arg(long, value_name = "KIND")]
    pub classifier: Option<Classifier>,
    /// Seed of all random choices
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Train on the first N training cases only
    #[arg(long, value_name = "N", value_parser = from_one, allow_negative_numbers = true)]
    pub cases: Option<usize>,
    /// Go on after the last finished stage of an interrupted training
    #[arg(long)]
    pub resume: bool,
    /// Learn boxes and landmarks only, although cases have label maps
    #[arg(long)]
    pub no_segmentation: bool,
    /// A first model in a fraction of the time: no masks, no calibrated scores and radii, no mirrored
    /// copies, less to learn from
    #[arg(long)]
    pub quick: bool,
}

/// Which classifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Classifier {
    /// One probabilistic boosting tree
    Pbt,
    /// A forest of them
    PbtForest,
    /// A random forest
    RandomForest,
}

impl From<Classifier> for ClassifierKind {
    fn from(kind: Classifier) -> Self {
        match kind {
            Classifier::Pbt => Self::Pbt,
            Classifier::PbtForest => Self::PbtForest,
            Classifier::RandomForest => Self::RandomForest,
        }
    }
}

/// `pbt detect`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  pbt detect -m liver.pbt -i scan.nii.gz -o found\n  pbt detect -m liver.pbt -i scan.nii.gz -o found --explain\n  pbt detect -m brain.pbt -i t1.nii.gz -i t2.nii.gz -o found\n\n\
Writes found/scan.json (the result) and found/scan.mrk.json (for 3D Slicer); --labels adds found/scan.pbt.seg.nrrd, a label map that Slicer \
opens as a segmentation; --explain adds found/scan.explain.json (what every stage \
considered, the path through the verification trees, the features that decided) and found/scan.explain.svg, which draws it."
)]
pub struct Detect {
    /// Model: a file, or the name of one in the folder `models` or in the program
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub model: PathBuf,
    /// Image: a NIfTI, MetaImage or NRRD file, or a DICOM file, folder or zip archive. For a model of
    /// several channels a 4D file, nnU-Net's CASE_0000 with the others beside it, or -i for each
    #[arg(short, long, value_name = "IMAGE", required = true)]
    pub input: Vec<PathBuf>,
    /// Which volume of the image
    #[command(flatten)]
    pub volume: VolumeChoice,
    /// Folder for the results; made if missing
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Write a label map, too, on the image's grid: the labels that the model has learned, else boxes
    /// and landmarks as numbered voxels
    #[arg(long)]
    pub labels: bool,
    /// Write how probable each label is at each voxel, too: FOLDER/CASE.probabilities.nii.gz, with a
    /// fourth axis; with labels
    #[arg(long)]
    pub probabilities: bool,
    /// Files of voxels to write, separated by commas: labels and probabilities as above; of a model
    /// of regions, leaves, the leaf of each tree that a voxel arrives at, and that of the first tree
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "FILES",
        conflicts_with = "explain"
    )]
    pub voxel_output: Vec<VoxelFile>,
    /// Leave the paths of image and model out of the result
    #[arg(long)]
    pub no_paths: bool,
    /// Write why each structure was found where it was, too: FOLDER/CASE.explain.json and .svg
    #[arg(long)]
    pub explain: bool,
    /// What is cut out.
    #[command(flatten)]
    pub crop: CropChoice,
}

impl Detect {
    /// What is wanted of the voxels.
    pub fn voxels(&self) -> VoxelOutput {
        let files = self.voxel_output.iter().map(|&file| file.into());
        VoxelOutput::new(self.labels, self.probabilities).with(files)
    }
}

impl Batch {
    /// What is wanted of the voxels.
    pub fn voxels(&self) -> VoxelOutput {
        let files = self.voxel_output.iter().map(|&file| file.into());
        VoxelOutput::new(self.labels, self.probabilities).with(files)
    }
}

/// A file of `--voxel-output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VoxelFile {
    /// FOLDER/CASE.labels.nii.gz and FOLDER/CASE.pbt.seg.nrrd
    Labels,
    /// FOLDER/CASE.probabilities.nii.gz, with a fourth axis; with labels
    Probabilities,
    /// FOLDER/CASE.leaves.nii.gz, whose fourth axis runs over the trees
    Leaves,
    /// FOLDER/CASE.first-tree-leaf.nii.gz
    FirstTreeLeaf,
}

impl From<VoxelFile> for session::VoxelFile {
    fn from(file: VoxelFile) -> Self {
        match file {
            VoxelFile::Labels => Self::Labels,
            VoxelFile::Probabilities => Self::Probabilities,
            VoxelFile::Leaves => Self::Leaves,
            VoxelFile::FirstTreeLeaf => Self::FirstTreeLeaf,
        }
    }
}

/// Which of several volumes of an input is meant.
#[derive(Debug, Clone, Default, Args)]
pub struct VolumeChoice {
    /// The series of a DICOM folder or zip archive with several; `pbt info FOLDER` lists them
    #[arg(long, value_name = "SERIES")]
    pub series: Option<String>,
    /// The time point, from 0, of a file or series with several
    #[arg(long, value_name = "N", value_parser = time_point, allow_negative_numbers = true)]
    pub frame: Option<usize>,
}

impl VolumeChoice {
    /// As the reader takes it.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { series: self.series.clone(), frame: self.frame, ..ReadOptions::default() }
    }
}

/// `pbt batch`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt batch -m liver.pbt -i scans -o found
  pbt batch -m liver.pbt -i list.csv -o found --resume
  pbt batch -m liver.pbt -i scans -o found --shard 2/4

Of a folder, every image file, every zip archive and every folder that holds DICOM files is a case. The list is a CSV file with the columns \
case_id and path (relative to the list), and, where they are needed, series and frame. For each case this writes FOLDER/CASE.json (the result) \
and FOLDER/CASE.mrk.json (for 3D Slicer); for all of them FOLDER/detections.csv and FOLDER/detections.parquet, one row a detection, and \
FOLDER/run.json. A case that cannot be read or used is a row with the status `failed` and the reason, and the exit code is 3 at the end.

Parts (--shard) may share one folder; the tables then show what all parts have found so far. After the last one, --resume without \
--shard tries failed cases once more and writes the tables of the whole list.")]
pub struct Batch {
    /// Model: a file, or the name of one in the folder `models` or in the program
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub model: PathBuf,
    /// Folder, of which all images are taken, those in folders within too; or a CSV file with the
    /// columns case_id and path
    #[arg(short, long, value_name = "MANIFEST_OR_FOLDER")]
    pub input: PathBuf,
    /// Folder for the results; made if missing
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Only the i-th of n parts of the list, to share the work among machines
    #[arg(long, value_name = "i/n")]
    pub shard: Option<crate::shard::Shard>,
    /// Leave out cases that have a result of this very model
    #[arg(long)]
    pub resume: bool,
    /// Write a label map of each case, too: the labels that the model has learned, else boxes and
    /// landmarks as numbered voxels
    #[arg(long)]
    pub labels: bool,
    /// Write how probable each label is at each voxel, too: FOLDER/CASE.probabilities.nii.gz; with
    /// labels
    #[arg(long)]
    pub probabilities: bool,
    /// Files of voxels to write, separated by commas: labels and probabilities as above; of a model
    /// of regions, leaves, the leaf of each tree that a voxel arrives at, and that of the first tree
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FILES")]
    pub voxel_output: Vec<VoxelFile>,
    /// Leave paths out of results and tables: of a file that is named after a patient, only what the
    /// list calls it remains
    #[arg(long)]
    pub no_paths: bool,
    /// What is cut out.
    #[command(flatten)]
    pub crop: CropChoice,
}

/// `pbt evaluate`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt evaluate -m liver.pbt -i my_scans --split test -o report.json
  pbt evaluate --results found -i my_scans --split test -o report.json
  pbt evaluate --folds 5 -i my_scans -o report.json
  pbt evaluate --leave-one-out -i my_scans --structure liver -o report.json
  pbt evaluate --compare old.pbt new.pbt -i my_scans --split test -o comparison.json

The table goes to stdout and everything, case by case, into the report. Errors are those of found and doubtful structures; the shares \
within 1, 2, 3 and 4 mm are of all annotated ones, so that a missed structure counts against them. Scores are compared with what was right: \
the centre within the tolerance, a box less than 45 degrees off.")]
pub struct Evaluate {
    /// Model: a file, or the name of one in the folder `models` or in the program
    #[arg(short, long, value_name = "MODEL.pbt", required_unless_present_any = ["results", "leave_one_out", "folds", "compare"])]
    pub model: Option<PathBuf>,
    /// Data set with annotations
    #[arg(short, long, value_name = "DATASET")]
    pub input: PathBuf,
    /// Cases of this split
    #[arg(long, value_name = "NAME", default_value = "test")]
    pub split: String,
    /// Report to write (JSON)
    #[arg(short, long, value_name = "REPORT.json")]
    pub output: Option<PathBuf>,
    /// Compare results made earlier: a folder with FOLDER/CASE.json; a case without a file counts
    /// as missed
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["model", "leave_one_out", "folds"])]
    pub results: Option<PathBuf>,
    /// Test two on the same cases: each a model, a folder with results or a report of an evaluation
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["model", "results", "leave_one_out", "folds"])]
    pub compare: Vec<PathBuf>,
    /// Train on all cases but one and test on that one, by turns, with the cases of all splits;
    /// other cases of its subject are left out, too
    #[arg(long, group = "trains", conflicts_with_all = ["model", "split"])]
    pub leave_one_out: bool,
    /// Divide the cases of the split `train` into N folds by subject, and test each on a model
    /// trained on the others
    #[arg(long, value_name = "N", group = "trains", conflicts_with_all = ["model", "split"], value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub folds: Option<u16>,
    /// Compare the labels of voxels, not boxes and landmarks
    #[arg(long, conflicts_with_all = ["leave_one_out", "folds", "compare"])]
    pub labels: bool,
    /// Only this structure (may be given several times) [default: all that are found and annotated]
    #[arg(long, value_name = "NAME")]
    pub structure: Vec<String>,
    /// Only the first N cases
    #[arg(long, value_name = "N", value_parser = from_one, allow_negative_numbers = true)]
    pub cases: Option<usize>,
    /// Distance up to which a position is right [default: a tenth of the mean size of the box that
    /// it belongs to, two voxels at least]
    #[arg(long, value_name = "MM", value_parser = positive_mm, allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// Settings of the trainings (TOML), as for `pbt train`
    #[arg(long, value_name = "FILE.toml", requires = "trains")]
    pub config: Option<PathBuf>,
    /// Seed of the trainings
    #[arg(long, value_name = "S", default_value_t = 0, requires = "trains", value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Train quickly, as `pbt train --quick` does
    #[arg(long, requires = "trains")]
    pub quick: bool,
}

/// `pbt learning-curve`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt learning-curve -i my_scans -o curve.json
  pbt learning-curve -i my_scans --sizes 5,10,20,40 --structure liver

Trains one model a size, each on the first cases of the split `train`, and tests it on every fifth training case, which is held back from \
all trainings. The table goes to stdout; -o writes everything as JSON and, beside it, the curve as SVG. \
Errors are those of structures that were found at every size.")]
pub struct LearningCurve {
    /// Data set: a folder with dataset.json, or such a file
    #[arg(short, long, value_name = "DATASET")]
    pub input: PathBuf,
    /// Report to write (JSON); the picture goes beside it, with the extension svg
    #[arg(short, long, value_name = "REPORT.json")]
    pub output: Option<PathBuf>,
    /// Numbers of training cases [default: 5, 10, 20 ... and all]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = from_one, allow_negative_numbers = true)]
    pub sizes: Vec<usize>,
    /// Test on the cases of this split in place of held-back training cases, which then are trained
    /// on, too
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
    /// Only this structure (may be given several times) [default: all]
    #[arg(long, value_name = "NAME")]
    pub structure: Vec<String>,
    /// Settings of the trainings (TOML), as for `pbt train`
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Seed of the trainings
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
}

/// A whole number from 1 on.
fn from_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|&number: &usize| number > 0);
    number.ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

/// A whole number from 0 on.
fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number from 0 on".to_owned())
}

/// The number of a time point.
fn time_point(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected the number of a time point, from 0 on".to_owned())
}

/// What random choices begin with.
fn seed(text: &str) -> Result<u64, String> {
    let what = "a seed is a whole number from 0 to 18446744073709551615, and each gives its own \
                random choices";
    text.parse().map_err(|_| what.to_owned())
}

/// A length above 0.
fn positive_mm(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|mm: &f64| mm.is_finite() && *mm > 0.0)
        .ok_or_else(|| "expected a length in mm above 0".to_owned())
}

/// `pbt info`
#[derive(Debug, Clone, Args)]
#[command(arg_required_else_help = true)]
#[command(
    after_help = "Examples:\n  pbt info liver.pbt\n  pbt info dicom_folder\n  pbt info --devices --json"
)]
pub struct Info {
    /// Model, by file or name: its card, sizes, and the features that it uses most; or a DICOM file,
    /// folder or zip archive: its series
    #[arg(value_name = "PATH", required_unless_present = "devices")]
    pub model: Option<PathBuf>,
    /// The devices that can compute
    #[arg(long)]
    pub devices: bool,
    /// Write the network of the model as a picture
    #[arg(long, value_name = "FILE.svg")]
    pub svg: Option<PathBuf>,
    /// JSON on stdout in place of text
    #[arg(long)]
    pub json: bool,
}

/// `pbt validate`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt validate my_scans
  pbt validate my_scans --picture odd.svg
  pbt validate my_scans --model liver.pbt --picture odd.svg
  pbt validate scan.nii.gz --json

A data set is read whole: every image must be readable and show something, every annotation must lie in its image, every structure must \
be annotated in at least two training cases, no image may be in two splits, and nothing may be what `pbt train` refuses. Warnings name what a \
person should look at: spacings and orientations that differ from the rest, structures that are not annotated, names of splits that look like \
slips, boxes whose size, place or axes do not fit the others, masks in pieces or on another grid than their image; --picture draws \
the oddest boxes. With --model they also name boxes that the model is sure to find elsewhere; for the cases that it was trained on it \
takes what its training found when they were held out, from MODEL.train.json beside it. Warnings leave the exit code at 0; errors make it 4, and 5 for a model.")]
pub struct Validate {
    /// Data set (folder or file), image, folder of images, DICOM folder, Slicer markups, result or
    /// model
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Which volume of an image
    #[command(flatten)]
    pub volume: VolumeChoice,
    /// Name the boxes of a data set that this model is sure to find elsewhere
    #[arg(short, long, value_name = "MODEL.pbt")]
    pub model: Option<PathBuf>,
    /// Draw the oddest boxes of a data set, at most twelve, and where the others, or the model,
    /// would expect them
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,
    /// JSON on stdout in place of text
    #[arg(long)]
    pub json: bool,
}

/// `pbt report`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt evaluate -m liver.pbt -i my_scans -o report.json && pbt report report.json -o report.html
  pbt report found -o found.html --pictures 50
  pbt report found -o found.html --viewer niivue

The page is one file that loads nothing. It holds what the report or the results hold: names of cases, numbers, and, where --pictures or \
--viewer asks for them, voxels of the images.")]
pub struct Report {
    /// Report of `pbt evaluate`, or a folder that `pbt batch` wrote
    #[arg(value_name = "REPORT.json|FOLDER")]
    pub input: PathBuf,
    /// Page to write
    #[arg(short, long, value_name = "PAGE.html")]
    pub output: PathBuf,
    /// Of a folder: draw slices of so many cases, those to look at first, from the images where they
    /// were
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole, allow_negative_numbers = true)]
    pub pictures: usize,
    /// Of a folder: put the images of the cases to look at first into the page, made smaller until they
    /// fit, with a viewer that shows them with boxes, landmarks and labels
    #[arg(long, value_enum, value_name = "VIEWER", default_value = "none")]
    pub viewer: PageViewer,
}

/// What shows images in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PageViewer {
    /// No voxels but those of --pictures
    None,
    /// NiiVue, which needs WebGL2; about 8 MB
    Niivue,
}

impl From<PageViewer> for pbt_report::Viewer {
    fn from(viewer: PageViewer) -> Self {
        match viewer {
            PageViewer::None => Self::None,
            PageViewer::Niivue => Self::NiiVue,
        }
    }
}

/// `pbt convert`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt convert scan.mha scan.nii.gz
  pbt convert dicom_folder scan.nrrd --series 3

Reads .nii, .nii.gz, .hdr with .img, .mha, .mhd, .nrrd, .nhdr and DICOM files, folders and zip archives; writes .nii, .nii.gz, .mha, .mhd \
(with .raw), .nrrd and .nhdr (with .raw). The voxel type and its bits stay; \
voxels with a scaling become 64-bit numbers in MetaImage and NRRD, which have no field for it. NIfTI keeps 32 bits of each number of the \
affine; a warning says when that moves voxels.")]
pub struct Convert {
    /// Image to read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Image to write; the extension says the format
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Which volume of the input
    #[command(flatten)]
    pub volume: VolumeChoice,
}

/// `pbt components`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt components nuclei.nii.gz numbered.nii.gz --min-mm3 50 --table nuclei.csv
  pbt components bones.nii.gz largest.nii.gz --largest 1
  pbt components vessels.nrrd parts.nrrd --connectivity 6 --intensity ct.nrrd --step 40

Every voxel that is not 0 is foreground. Components are numbered from 1 in the order of their first voxels (i fastest, then j, then k), as \
scipy does, after what is not kept was left out. OUT has the grid of IN and as many bits a voxel as the numbers need (8, 16 or 32). The table \
has a row a component: voxels, volume, box, centroid, with --labels the label, with --intensity sum and mean of the intensities.")]
pub struct Components {
    /// Mask or label map: an image whose voxels are integers from 0 on
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// Label map to write; the extension says the format, as for `pbt convert`
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Which volume of the input
    #[command(flatten)]
    pub volume: VolumeChoice,
    /// Which voxels are neighbours
    #[arg(long, value_name = "N", default_value = "26")]
    pub connectivity: Connectivity,
    /// Join only voxels of the same label [default: all that are not 0]
    #[arg(long)]
    pub labels: bool,
    /// Join only neighbours whose intensities in this image, on the same grid, differ by at most
    /// --step
    #[arg(long, value_name = "IMAGE", requires = "step")]
    pub intensity: Option<PathBuf>,
    /// Largest difference of intensity between neighbours of one component
    #[arg(long, value_name = "X", requires = "intensity", value_parser = from_zero, allow_negative_numbers = true)]
    pub step: Option<f64>,
    /// Keep the N components with the most voxels
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub largest: Option<u32>,
    /// Keep components of at least V mm³
    #[arg(long, value_name = "V", value_parser = from_zero, allow_negative_numbers = true)]
    pub min_mm3: Option<f64>,
    /// Write a table with a row a component, too
    #[arg(long, value_name = "T.csv")]
    pub table: Option<PathBuf>,
}

/// Which voxels are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Connectivity {
    /// Those that share a face
    #[value(name = "6")]
    Six,
    /// Those that share a face or an edge
    #[value(name = "18")]
    Eighteen,
    /// Those that share a face, an edge or a corner
    #[value(name = "26")]
    TwentySix,
}

impl From<Connectivity> for pbt_volume::Connectivity {
    fn from(connectivity: Connectivity) -> Self {
        match connectivity {
            Connectivity::Six => Self::Six,
            Connectivity::Eighteen => Self::Eighteen,
            Connectivity::TwentySix => Self::TwentySix,
        }
    }
}

/// A number from 0 on.
fn from_zero(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "expected a number from 0 on".to_owned())
}

/// `pbt completions`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt completions bash > ~/.local/share/bash-completion/completions/pbt
  pbt completions zsh > ~/.zfunc/_pbt
  pbt completions fish > ~/.config/fish/completions/pbt.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// `pbt man`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt man | man -l -
  pbt man -o ~/.local/share/man/man1")]
pub struct Man {
    /// Folder for the pages of all commands; made if missing [default: the main page goes to
    /// stdout]
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
}

/// `pbt demo`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Examples:\n  pbt demo -o try\n  pbt demo -o try --data-only && pbt detect -m phantom-ct -i try/ct/images/ct-test-01.nii.gz -o found\n\n\
The folder gets, for each modality, a data set (try/ct, ...) and the model trained \
on it (try/ct.pbt), and try/results with what was found in the unseen cases and the picture try/demo.svg. Nothing is downloaded."
)]
pub struct Demo {
    /// Folder to write; made if missing
    #[arg(short, long, value_name = "FOLDER", default_value = "pbt-demo")]
    pub output: PathBuf,
    /// Only this modality (may be given several times) [default: all]
    #[arg(long, value_name = "MODALITY", ignore_case = true)]
    pub modality: Vec<DemoModality>,
    /// Number of training cases of each modality
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..=500), allow_negative_numbers = true)]
    pub cases: u16,
    /// Number of unseen cases of each modality
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub unseen: u16,
    /// Make the data sets only: images and annotations, to detect in, train on or play with
    #[arg(long)]
    pub data_only: bool,
}

/// What the phantoms of the demo imitate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoModality {
    /// Computed tomography of a head
    Ct,
    /// Magnetic resonance of a hippocampus
    Mr,
    /// Ultrasound of a gland
    Us,
}

impl From<clap::Error> for Failure {
    /// What is wrong with the arguments, and the one that was probably meant, without the reminder
    /// of the usage.
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        let lines: Vec<&str> =
            text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage: ")).collect();
        let meant = lines
            .iter()
            .find_map(|line| line.strip_prefix("tip: ").filter(|tip| tip.contains("similar")));
        let wrong: Vec<&str> = lines.iter().copied().take_while(|line| !line.is_empty()).collect();
        let wrong = match &wrong[..] {
            [what, list @ ..] if what.ends_with(':') => format!("{what} {}", list.join(", ")),
            all => all.join(" "),
        };
        let wrong = wrong.strip_prefix("error: ").unwrap_or(&wrong);
        Self::usage(format!("{wrong} ({})", meant.unwrap_or("see --help")))
    }
}
