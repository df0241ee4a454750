//! `pbt tune`

use super::number::{from_one, seed};
use clap::Args;
use std::path::PathBuf;

/// `pbt tune`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  pbt tune -i my_scans -o tuned.toml --vary regions.forest.depth=12,16,20 --vary regions.radius_mm=8,16
  pbt train -i my_scans -o liver.pbt --config tuned.toml

The subjects of the split `train` are parted in folds. Fold by fold, every combination of values is trained on the other folds and labels this \
one; its figure is the mean Dice coefficient over cases and regions. One whose cases come out worse than the best one's, by more than 2.5 \
standard errors of the differences, is dropped, so that bad ones cost a training or two. The best one is written with the settings of --config; \
TUNED.json beside it has all figures. For data sets of regions.")]
pub struct Tune {
    /// Data set: a folder with dataset.json, or such a file
    #[arg(short, long, value_name = "DATASET")]
    pub input: PathBuf,
    /// Settings to write (TOML); the report goes beside them, with the extension json
    #[arg(short, long, value_name = "TUNED.toml")]
    pub output: PathBuf,
    /// A setting and the values to try, separated by commas (may be given several times)
    #[arg(long, required = true, value_name = "KEY=VALUE,VALUE,...")]
    pub vary: Vec<String>,
    /// Settings that all have in common (TOML)
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,
    /// Try so many of the combinations, drawn at random [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    pub draws: Option<u32>,
    /// Number of folds
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=100), allow_negative_numbers = true)]
    pub folds: u16,
    /// Only this region (may be given several times) [default: all]
    #[arg(long, value_name = "NAME")]
    pub structure: Vec<String>,
    /// Use the first N training cases only
    #[arg(long, value_name = "N", value_parser = from_one, allow_negative_numbers = true)]
    pub cases: Option<usize>,
    /// Seed of the trainings and of the draws
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
}
