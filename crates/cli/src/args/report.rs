//! `pbt report`

use super::number::whole;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `pbt report`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt evaluate -m liver.pbt -i my_scans -o report.json && pbt report report.json -o report.html
  pbt report found -o found.html --pictures 50
  pbt report found -o found.html --viewer niivue

The page is one file that loads nothing. It holds what the report or the results hold: names of cases, numbers, and, where --pictures or \
--viewer asks for them, voxels of the images.")]
pub struct Report {
    /// Report of `pbt evaluate`, or a folder that `pbt batch` or `pbt detect` wrote
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
    /// NiiVue, which needs WebGL2; about 8 MB at most
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
