//! The demo's data sets: phantoms written as a user's own scans would lie in a folder.

use crate::Failure;
use crate::args::DemoModality;
use crate::contents::Content;
use pbt_io::{RawImage, Scaling, VoxelType, write_atomically, write_image, write_markups};
use pbt_phantom::{PhantomModality, PhantomSettings, phantom};
use pbt_volume::{MAX_INTENSITY, Volume};
use rayon::prelude::*;
use serde_json::json;
use std::io::Write;
use std::path::Path;

const DATASET_FILE: &str = "dataset.json";

/// What a modality of the demo imitates, and its names.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    pub(super) modality: PhantomModality,
    /// In tables: `CT`.
    pub(super) title: &'static str,
    /// In file names: `ct`.
    pub(super) file: &'static str,
}

impl From<DemoModality> for Subject {
    fn from(modality: DemoModality) -> Self {
        let (modality, file) = match modality {
            DemoModality::Ct => (PhantomModality::Ct, "ct"),
            DemoModality::Mr => (PhantomModality::Mr, "mr"),
            DemoModality::Us => (PhantomModality::Ultrasound, "us"),
        };
        Self { modality, title: modality.modality(), file }
    }
}

/// What its data set says it is.
const SCHEMA: &str = "pbt-dataset/1";

impl Subject {
    /// The name of the data set.
    fn data_set(self) -> String {
        format!("{} phantoms", self.title)
    }
}

/// What lies where a demo's data set will be written is replaced only if it is one.
///
/// # Errors
/// Exit code 2 where `dataset.json` is somebody else's.
pub(super) fn refuse_another_dataset(folder: &Path, subject: Subject) -> Result<(), Failure> {
    let file = folder.join(DATASET_FILE);
    let Ok(bytes) = std::fs::read(&file) else { return Ok(()) };
    let there = Content::of_file(&file);
    let is_ours = serde_json::from_slice::<serde_json::Value>(&bytes)
        .is_ok_and(|there| there["schema"] == SCHEMA && there["name"] == subject.data_set());
    if is_ours || there == Content::Empty {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{}: --output: is {} already, and not of phantoms (choose another folder)",
        file.display(),
        there.name()
    )))
}

/// Makes the phantoms and writes images, annotations and `dataset.json` into a folder: `training`
/// cases, then `unseen` more.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write_dataset(
    folder: &Path,
    subject: Subject,
    training: usize,
    unseen: usize,
) -> Result<(), Failure> {
    for name in ["images", "annotations"] {
        crate::session::make_folder(&folder.join(name))?;
    }
    let cases = (0..training + unseen)
        .into_par_iter()
        .map(|n| {
            // Unseen cases keep their seeds, whatever the number of training cases.
            let (split, seed, id) = match n.checked_sub(training) {
                None => ("train", 1000 + n, format!("{}-train-{:02}", subject.file, n + 1)),
                Some(n) => ("test", n, format!("{}-test-{:02}", subject.file, n + 1)),
            };
            let made =
                phantom(subject.modality, &PhantomSettings::new(subject.modality), seed as u64);
            let (image, annotations) =
                (format!("images/{id}.nii.gz"), format!("annotations/{id}.mrk.json"));
            let raw = stored(&made.image, subject.modality).ok_or_else(|| {
                Failure::other(format!("{id}: the phantom has no voxels of its own grid"))
            })?;
            write_image(&folder.join(&image), &raw)?;
            write_markups(
                &folder.join(&annotations),
                &[(subject.modality.structure().to_owned(), made.pose)],
                &[],
                |_| String::new(),
            )?;
            Ok(json!({ "id": id, "image": image, "split": split, "annotations": annotations }))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    let dataset = json!({
        "schema": SCHEMA,
        "name": subject.data_set(),
        "modality": subject.title,
        "structures": [{ "name": subject.modality.structure(), "kind": "box" }],
        "cases": cases,
    });
    write_atomically(&folder.join(DATASET_FILE), |w| {
        serde_json::to_writer_pretty(&mut *w, &dataset)?;
        w.write_all(b"\n")
    })?;
    Ok(())
}

/// The image as a scanner would store it: Hounsfield units as 16 bits, MR as 12 bits with a factor,
/// ultrasound as bytes.
fn stored(image: &Volume<f32>, modality: PhantomModality) -> Option<RawImage> {
    let geometry = image.geometry().clone();
    let values = image.data().iter().map(|&v| f64::from(v));
    let (voxel_type, bytes, scaling) = match modality {
        PhantomModality::Ct => {
            (VoxelType::I16, values.flat_map(|v| (v.round() as i16).to_le_bytes()).collect(), None)
        }
        PhantomModality::Ultrasound => {
            (VoxelType::U8, values.map(|v| v.round() as u8).collect(), None)
        }
        PhantomModality::Mr => {
            let highest = values.clone().fold(f64::MIN_POSITIVE, f64::max);
            let slope = highest / f64::from(MAX_INTENSITY);
            let bytes = values.flat_map(|v| ((v / slope).round() as i16).to_le_bytes()).collect();
            (VoxelType::I16, bytes, Some(Scaling { slope, intercept: 0.0 }))
        }
    };
    RawImage::new(geometry, voxel_type, bytes, scaling)
}
