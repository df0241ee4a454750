//! `pbt merge`

use clap::Args;
use std::path::PathBuf;

/// `pbt merge`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:
  pbt batch -m liver.pbt -i list.csv -o part1 --shard 1/2     # on one machine
  pbt batch -m liver.pbt -i list.csv -o part2 --shard 2/2     # on another
  pbt merge -i list.csv -o found part1 part2

The list is that of the parts, and gives the order. Of each case, the first folder with a result counts; a case without one counts as failed \
where a folder's run.json says so. This writes FOLDER/detections.csv, FOLDER/detections.parquet and FOLDER/run.json; results and markups stay \
where they are, and no image is read. Failed cases and cases without a result make the exit code 3.")]
pub struct Merge {
    /// The folder or the list that the parts went through
    #[arg(short, long, value_name = "MANIFEST_OR_FOLDER")]
    pub input: PathBuf,
    /// Folder for the tables; made if missing; may be one of the others
    #[arg(short, long, value_name = "FOLDER")]
    pub output: PathBuf,
    /// Folders with the results of the parts
    #[arg(required = true, value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
}
