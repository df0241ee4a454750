//! `pbt info`

use clap::Args;
use std::path::PathBuf;

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
