//! `pbt learning-curve`

use super::number::{from_one, seed};
use clap::Args;
use std::path::PathBuf;

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
    /// Numbers of training cases [default: 5, 10, 20 ... and all; of fewer than 25, halves of all]
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
