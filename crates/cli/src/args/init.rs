//! `pbt init`

use clap::Args;
use std::path::PathBuf;

/// `pbt init`
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  pbt init my_scans && pbt validate my_scans && pbt train -i my_scans -o my_scans.pbt
  pbt init my_scans --modality MR --structure liver
  pbt init my_scans -o liver.json --label 1=liver --label 2=spleen
  pbt init my_scans --only liver --only 7

Files belong together by their names. For scan.nii.gz these are found: scan_seg.nii.gz (also _mask, _label, .seg.nrrd), labels/scan.nii.gz beside \
images/scan.nii.gz, scan_liver_mask.nii.gz (one mask a structure), scan.mrk.json or scan.csv with boxes or points; and one folder a scan, as in \
scan/ct.nii.gz with scan/segmentations/liver.nii.gz or scan/left kidney.mrk.json. Folders of nnU-Net and BIDS are read as these are. One table may \
hold the boxes or points of all scans: columns case, name, x, y, z and, for boxes, size_x, size_y, size_z; of 2D images case, name, x, y, or a row for each image with nose_x, nose_y, or a TPS file. Several masks of a scan become one label \
map, in dataset-files/ beside dataset.json. Every fifth subject is for tests, unless folders (train, test) or a table (case, subject, split) say otherwise.

Nothing is asked: what was found, assumed and left out goes to stdout.")]
pub struct Init {
    /// Folder with images and masks or annotations
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// File to write [default: FOLDER/dataset.json]
    #[arg(short, long, value_name = "dataset.json")]
    pub output: Option<PathBuf>,
    /// Name of the data set [default: that of the folder]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// What made the images: CT, MR, US or another word [default: guessed]
    #[arg(long, value_name = "MODALITY")]
    pub modality: Option<String>,
    /// Name of the only structure, where files give none
    #[arg(long, value_name = "NAME")]
    pub structure: Option<String>,
    /// Name of a label value (may be given several times; values of one name are one structure)
    #[arg(long, value_name = "VALUE=NAME", value_parser = label)]
    pub label: Vec<(u16, String)>,
    /// Structure to take, by name or by value of label maps; others are left out (may be given several times)
    #[arg(long, value_name = "NAME|VALUE")]
    pub only: Vec<String>,
    /// Coordinates of tables that do not say it: LPS (DICOM, ITK) or RAS (NIfTI)
    #[arg(long, value_name = "LPS|RAS", value_parser = ["LPS", "RAS"], ignore_case = true)]
    pub space: Option<String>,
    /// Replace the data set that an earlier run has written
    #[arg(long)]
    pub force: bool,
}

/// `1=liver`
fn label(text: &str) -> Result<(u16, String), String> {
    let pair = text.split_once('=').and_then(|(value, name)| {
        let value = value.trim().parse().ok().filter(|value| *value > 0)?;
        Some((value, name.trim().to_owned())).filter(|(_, name)| !name.is_empty())
    });
    pair.ok_or_else(|| "expected a value from 1 on and a name, as in 1=liver".to_owned())
}
