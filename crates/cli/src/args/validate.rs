//! `pbt validate`

use super::volume::VolumeChoice;
use clap::Args;
use std::path::{Path, PathBuf};

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
    #[arg(value_name = "PATH", required_unless_present = "input")]
    pub path: Option<PathBuf>,
    /// The same as PATH, as other commands have it
    #[arg(short, long, value_name = "PATH", conflicts_with = "path")]
    pub input: Option<PathBuf>,
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

impl Validate {
    /// What to look at.
    pub fn path(&self) -> &Path {
        self.path.as_deref().or(self.input.as_deref()).unwrap_or(Path::new(""))
    }
}
