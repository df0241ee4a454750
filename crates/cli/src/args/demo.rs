//! `pbt demo`

use clap::{Args, ValueEnum};
use std::path::PathBuf;

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
    /// Number of training cases of each modality, 2 to 500
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..=500), allow_negative_numbers = true)]
    pub cases: u16,
    /// Number of unseen cases of each modality, 1 to 500
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=500), allow_negative_numbers = true)]
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
