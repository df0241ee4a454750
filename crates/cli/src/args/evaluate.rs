//! `pbt evaluate`

use super::number::{from_one, positive_mm, seed};
use clap::Args;
use std::path::PathBuf;

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
    /// Cases of this split [default: test; with --folds train; with two reports to --compare theirs]
    #[arg(long, value_name = "NAME")]
    pub split: Option<String>,
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
    /// Divide the cases of the split into N folds by subject, and test each on a model trained on
    /// the others
    #[arg(long, value_name = "N", group = "trains", conflicts_with = "model", value_parser = clap::value_parser!(u16).range(2..=1000), allow_negative_numbers = true)]
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
    /// Distance up to which a position is right [default: a tenth of the mean size of the box that it belongs to,
    /// without boxes a fortieth of what the landmarks span; two voxels at least; in a report to --compare its own]
    #[arg(long, value_name = "MM", value_parser = positive_mm, allow_negative_numbers = true)]
    pub tolerance: Option<f64>,
    /// Settings of the trainings (TOML), as for `pbt train`
    #[arg(long, value_name = "FILE.toml", requires = "trains")]
    pub config: Option<PathBuf>,
    /// Seed of the trainings
    #[arg(long, value_name = "S", default_value_t = 0, requires = "trains", value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// Keep the models of the trainings in this folder, and train none again that is there: the same command goes on after
    /// an interruption
    #[arg(long, value_name = "FOLDER", requires = "trains")]
    pub models: Option<PathBuf>,
    /// Train quickly, as `pbt train --quick` does
    #[arg(long, requires = "trains")]
    pub quick: bool,
}

impl Evaluate {
    /// The split whose cases are tested; none where it is all cases.
    pub fn tested_split(&self) -> Option<&str> {
        let usual = if self.folds.is_some() { "train" } else { "test" };
        (!self.leave_one_out).then(|| self.split.as_deref().unwrap_or(usual))
    }
}
