//! `pbt train`

use super::number::{from_one, seed};
use clap::{Args, ValueEnum};
use pbt_tree::ClassifierKind;
use std::path::PathBuf;

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
