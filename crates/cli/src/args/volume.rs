//! Which volume of an image.

use crate::Failure;
use clap::Args;
use pbt_io::ReadOptions;
use std::path::Path;

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
    /// Of what is not one image, whose volume could be chosen.
    ///
    /// # Errors
    /// Exit code 2 where one is chosen nevertheless.
    pub fn refuse(&self, path: &Path, kind: &str) -> Result<(), Failure> {
        let chosen = [("--series", self.series.is_some()), ("--frame", self.frame.is_some())];
        match chosen.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{}: {option}: chooses a volume of an image, and this is a {kind} (leave it out)",
                path.display()
            ))),
            None => Ok(()),
        }
    }

    /// As the reader takes it.
    pub fn options(&self) -> ReadOptions {
        ReadOptions { series: self.series.clone(), frame: self.frame, ..ReadOptions::default() }
    }
}

/// The number of a time point.
fn time_point(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected the number of a time point, from 0 on".to_owned())
}
