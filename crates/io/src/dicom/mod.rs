//! DICOM: a file, a folder with all below it, or a zip archive, to one volume.
//!
//! `dicom-rs` parses data sets and decodes pixels; which files belong together, in which order and
//! where they lie in the patient is decided here. Nothing that identifies a patient leaves this
//! module: names, identifiers and dates are not even read.

mod codestream;
mod content;
mod damage;
mod file;
mod functional_groups;
mod mosaic;
mod pixel_data;
mod pixels;
mod plane;
mod rle;
mod series;
mod source;
mod stack;
mod unknown_kind;
mod values;
mod walk;

use crate::IoError;
use crate::loaded::{Loaded, ReadOptions};
use crate::memory_plan::MemoryPlan;
use content::{Content, LeftOut};
use pbt_volume::{Geometry, hex, sha256, try_zeroed};
use plane::Plane;
use rayon::prelude::*;
use series::Series;
use source::Source;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use file::is_dicom;

/// A series that [`list_series`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesInfo {
    /// What [`ReadOptions::series`] takes.
    pub label: String,
    /// `CT`, `MR`, …; empty where the files do not say.
    pub modality: String,
    /// The series' description, which is free text: show it only to who asks.
    pub description: String,
    /// Number of images.
    pub images: usize,
    /// Columns and rows of each image.
    pub matrix: [usize; 2],
}

/// Everything that was found, sorted out.
struct Found {
    series: Vec<Series>,
    left_out: BTreeMap<LeftOut, usize>,
    /// Images that cannot be used, with their series' UID.
    unusable: Vec<(String, IoError)>,
}

/// The series of a DICOM file, folder or zip archive, in the order of their numbers.
///
/// # Errors
/// [`IoError`] (an input error) when there is no DICOM file, or one is damaged.
pub fn list_series(path: &Path) -> Result<Vec<SeriesInfo>, IoError> {
    let found = find(&Source::open(path)?)?;
    let info = |series: Series| {
        let first = &series.planes[0];
        SeriesInfo {
            modality: first.key.modality.clone(),
            description: first.description.clone(),
            images: series.planes.len(),
            matrix: [first.tile.columns, first.tile.rows],
            label: series.label,
        }
    };
    Ok(found.series.into_iter().map(info).collect())
}

/// A volume of which the headers were read and the pixels were not.
pub(crate) struct DicomImage {
    path: PathBuf,
    source: Source,
    planes: Vec<Plane>,
    geometry: Geometry,
    notes: Vec<String>,
}

/// Reads the headers of one volume.
pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<DicomImage, IoError> {
    let source = Source::open(path)?;
    let mut found = find(&source)?;
    let mut notes: Vec<String> = found
        .left_out
        .iter()
        .map(|(why, count)| format!("files: {count} {} left out", why.what()))
        .collect();
    if source.others > 0 {
        notes.push(format!("files: {} that are not DICOM left out", source.others));
    }
    if found.series.is_empty() {
        return Err(match (found.unusable.pop(), found.left_out.keys().next()) {
            (Some((_, error)), _) => error,
            (None, Some(why)) => {
                let problem = format!("holds no image that can be used, only {}", why.what());
                IoError::input(
                    path,
                    "DICOM",
                    problem,
                    "one value a pixel and a place in the patient are needed",
                )
            }
            (None, None) => IoError::input(path, "DICOM", "holds no image", "give a DICOM series"),
        });
    }
    let series = series::choose(path, found.series, options.series.as_deref(), &mut notes)?;
    let uid = &series.planes[0].key.uid;
    // A slice that is passed over would shorten the volume without a trace.
    if let Some(at) = found.unusable.iter().position(|(of, _)| of == uid) {
        return Err(found.unusable.swap_remove(at).1);
    }
    if !found.unusable.is_empty() {
        notes.push(format!(
            "files: {} image(s) of other series that cannot be used left out",
            found.unusable.len()
        ));
    }
    let (planes, geometry) = stack::stack(path, series, options.frame, &mut notes)?;
    if planes.iter().any(|plane| plane.inverted) {
        notes
            .push("(0028,0004) PhotometricInterpretation: is MONOCHROME1, low values are meant to look bright; values are kept".to_owned());
    }
    Ok(DicomImage { path: path.to_path_buf(), source, planes, geometry, notes })
}

impl DicomImage {
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn plan(&self) -> MemoryPlan {
        let voxels = self.geometry.len() as u64;
        let stored = voxels.saturating_mul(values::stored_type(&self.planes[0]).size() as u64);
        // Values that are mapped plane by plane stand beside the stored ones.
        let mapped = voxels.saturating_mul(values::mapped_size(&self.planes) as u64);
        MemoryPlan { voxels, stored: stored.max(mapped), beside: mapped + self.source.held_bytes() }
    }

    /// Takes the voxels out.
    pub(crate) fn load(self) -> Result<Loaded, IoError> {
        let Self { path, source, planes, geometry, notes } = self;
        let (stored, sha256) = load(&source, &planes, geometry.len())?;
        let raw = values::image(geometry, &planes, stored).ok_or_else(|| {
            IoError::input(
                &path,
                "DICOM",
                "asks for more voxels than memory can hold",
                "crop or downsample the volume first",
            )
        })?;
        Ok(Loaded { raw, sha256, warnings: notes })
    }
}

/// Reads the headers of all files.
fn find(source: &Source) -> Result<Found, IoError> {
    let contents: Vec<Result<Content, IoError>> = (0..source.len())
        .into_par_iter()
        .map(|n| content::read(source.path(n), n, &source.bytes(n)?))
        .collect();
    let (mut planes, mut left_out, mut unusable) = (Vec::new(), BTreeMap::new(), Vec::new());
    for content in contents {
        match content? {
            Content::Planes(of_file) => planes.extend(of_file),
            Content::Left(why) => *left_out.entry(why).or_default() += 1,
            Content::Unusable { series_uid, error } => unusable.push((series_uid, error)),
        }
    }
    Ok(Found { series: series::group(planes), left_out, unusable })
}

/// The stored values of all planes in their order, and the hash of the files: that of the one file,
/// or of the list of the files' hashes in the order of their slices, which is the same for a folder
/// and a zip archive and whatever the files are called.
fn load(source: &Source, planes: &[Plane], voxels: usize) -> Result<(Vec<u8>, String), IoError> {
    let size = voxels.saturating_mul(values::stored_type(&planes[0]).size());
    let mut stored =
        try_zeroed(size).map_err(|error| IoError::memory(source.path(planes[0].file), &error))?;
    // Each file is read once and gives the planes that it holds.
    let mut of_file: Vec<(usize, Vec<Slot>)> = Vec::new();
    let mut place_of: BTreeMap<usize, usize> = BTreeMap::new();
    for (plane, out) in planes.iter().zip(stored.chunks_exact_mut(size / planes.len())) {
        let at = *place_of.entry(plane.file).or_insert_with(|| {
            of_file.push((plane.file, Vec::new()));
            of_file.len() - 1
        });
        of_file[at].1.push((plane, out));
    }
    let hashes: Vec<[u8; 32]> = of_file
        .into_par_iter()
        .map(|(file, slots)| load_file(source, file, slots))
        .collect::<Result<_, _>>()?;
    let hash = if let [one] = hashes[..] { one } else { sha256(&[&hashes.concat()]) };
    Ok((stored, hex(&hash)))
}

/// A plane and where its voxels go.
type Slot<'a> = (&'a Plane, &'a mut [u8]);

fn load_file(source: &Source, file: usize, slots: Vec<Slot>) -> Result<[u8; 32], IoError> {
    let path = source.path(file);
    let content = source.bytes(file)?;
    let layout = file::Layout::of(path, &content, walk::Values::PassedOver)?;
    // The file was read before; should it have changed since, its ranges no longer hold.
    if layout.pixel_data.as_ref() != Some(&slots[0].0.format.data) {
        return Err(IoError::input(
            path,
            "file",
            "changed while it was read",
            "try again when nothing writes to it",
        ));
    }
    let mut of_frame: BTreeMap<usize, Vec<Slot>> = BTreeMap::new();
    slots
        .into_iter()
        .for_each(|(plane, out)| of_frame.entry(plane.frame).or_default().push((plane, out)));
    of_frame.into_par_iter().try_for_each(|(frame, slots)| {
        let format = &slots[0].0.format;
        let stored = pixels::frame(format, &layout.bytes, frame).map_err(|problem| {
            let field = format!("(7FE0,0010) PixelData, frame {frame}");
            IoError::input(
                path,
                field,
                problem,
                "export the series again, uncompressed, or convert it with dcm2niix",
            )
        })?;
        slots.into_iter().for_each(|(plane, out)| copy_tile(plane, &stored, out));
        Ok(())
    })?;
    Ok(sha256(&[&content]))
}

fn copy_tile(plane: &Plane, frame: &[u8], out: &mut [u8]) {
    let voxel_bytes = values::stored_type(plane).size();
    let (width, row_bytes) = (plane.format.columns * voxel_bytes, plane.tile.columns * voxel_bytes);
    for (n, row) in out.chunks_exact_mut(row_bytes).enumerate() {
        let at = (plane.tile.row + n) * width + plane.tile.column * voxel_bytes;
        row.copy_from_slice(&frame[at..at + row_bytes]);
    }
}
