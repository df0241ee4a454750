//! The files of a result.

use crate::session::{Failure, Found, VoxelOutput};
use pbt_io::{
    DetectionRecord, FileKind, IoError, Landmark, LandmarkState, Look, ResultFile, Shown,
    read_file, write_atomically, write_label_map, write_leaves, write_markups_as,
    write_probabilities, write_result,
};
use pbt_volume::{LengthUnit, Status, StructureKind};
use serde::Serialize;
use std::fs::Metadata;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// How names of label maps end: Slicer knows segmentations by `.seg.nrrd`, and what a user made
/// with it is not called `.pbt`.
const LABEL_MAP: &str = ".pbt.seg.nrrd";

/// Where the label map of a case goes.
pub fn label_map_path(folder: &Path, case_id: &str) -> PathBuf {
    folder.join(format!("{case_id}{LABEL_MAP}"))
}

/// How names of the labels of regions end.
const REGION_LABELS: &str = ".labels.nii.gz";

/// Where the labels of regions of a case go.
pub fn region_labels_path(folder: &Path, case_id: &str) -> PathBuf {
    folder.join(format!("{case_id}{REGION_LABELS}"))
}

/// How names of probabilities end.
const PROBABILITIES: &str = ".probabilities.nii.gz";

/// Where how probable labels are goes for a case.
pub fn probabilities_path(folder: &Path, case_id: &str) -> PathBuf {
    folder.join(format!("{case_id}{PROBABILITIES}"))
}

/// A file of the leaves that voxels arrive at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeafFile {
    /// Those of all trees.
    All,
    /// Those of the first.
    First,
}

impl LeafFile {
    /// How the names of such files end.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::All => ".leaves.nii.gz",
            Self::First => ".first-tree-leaf.nii.gz",
        }
    }
}

/// Where the leaves that voxels arrive at go for a case.
pub fn leaves_path(folder: &Path, case_id: &str, file: LeafFile) -> PathBuf {
    folder.join(format!("{case_id}{}", file.ending()))
}

/// Whether a file is one of those in which a result of the case has voxels.
pub(crate) fn is_voxel_file(folder: &Path, case_id: &str, path: &Path) -> bool {
    let leaves = [LeafFile::All, LeafFile::First].map(|file| leaves_path(folder, case_id, file));
    let of_labels = [label_map_path, region_labels_path, probabilities_path];
    of_labels.map(|place| place(folder, case_id)).iter().chain(&leaves).any(|own| own == path)
}

/// Where the explanation of a case goes: JSON and a picture.
pub(crate) fn explanation_paths(folder: &Path, case_id: &str) -> [PathBuf; 2] {
    ["json", "svg"].map(|kind| folder.join(format!("{case_id}.explain.{kind}")))
}

/// Writes `FOLDER/<case>.json` and `FOLDER/<case>.mrk.json`, and `FOLDER/<case>.pbt.seg.nrrd` where
/// labels are wanted. With a map of labels that file holds them, and `FOLDER/<case>.labels.nii.gz`
/// does, too; `FOLDER/<case>.probabilities.nii.gz` holds the probabilities, if there are any, and
/// `FOLDER/<case>.leaves.nii.gz` and `FOLDER/<case>.first-tree-leaf.nii.gz` the leaves that are
/// wanted. Files of an earlier result of the case are replaced, and removed where this one has none.
///
/// # Errors
/// Exit code 1 when a file cannot be written, and 2 when one of that name is there and no result beside
/// it says that it belongs to one: it may be somebody's annotation.
pub fn write_results(
    folder: &Path,
    Found { result, map, probabilities, leaves }: &Found,
    output: VoxelOutput,
) -> Result<(), Failure> {
    make_folder(folder)?;
    let segmentation = label_map_path(folder, &result.case_id);
    let label_map = region_labels_path(folder, &result.case_id);
    let probable = probabilities_path(folder, &result.case_id);
    let markups = folder.join(format!("{}.mrk.json", result.case_id));
    let json = folder.join(format!("{}.json", result.case_id));
    // A result is whole or not there: none of its files when another cannot be written.
    let all_leaves = leaves_path(folder, &result.case_id, LeafFile::All);
    let first_leaves = leaves_path(folder, &result.case_id, LeafFile::First);
    let voxels = [&segmentation, &label_map, &probable, &all_leaves, &first_leaves];
    let all: Vec<&PathBuf> = voxels.into_iter().chain([&markups, &json]).collect();
    all.iter().try_for_each(|path| check_place(path))?;
    let has_earlier = has_result(folder, &result.case_id);
    if !has_earlier {
        let labels =
            [(&segmentation, map.is_some() || output.labels()), (&label_map, map.is_some())];
        let wanted = [
            (&probable, !probabilities.is_empty()),
            (&all_leaves, output.leaves() && !leaves.is_empty()),
            (&first_leaves, output.first_tree_leaf() && !leaves.is_empty()),
            (&markups, true),
            (&json, true),
        ];
        let written = labels.into_iter().chain(wanted).filter(|(_, is_written)| *is_written);
        refuse_others(written.map(|(path, _)| path.as_path()))?;
    }
    // The result itself comes last, and says whose the others are: without it they must not stay.
    let new = NewFiles(all.into_iter().filter(|path| !path.exists()).cloned().collect());
    if !has_earlier {
        write_atomically(&json, |writer| writer.write_all(UNFINISHED))?;
    }
    let remove_earlier = |path: &Path| if has_earlier { remove_file(path) } else { Ok(()) };
    match map {
        Some(map) => {
            map.write_segmentation(&segmentation)?;
            map.write_labels(&label_map)?;
        }
        None if output.labels() => {
            write_label_map(&segmentation, &result.input, &result.detections)?
        }
        None => remove_earlier(&segmentation)?,
    }
    if map.is_none() {
        remove_earlier(&label_map)?;
    }
    if probabilities.is_empty() {
        remove_earlier(&probable)?;
    } else {
        let volumes: Vec<_> = probabilities.iter().map(|of| &of.voxels).collect();
        write_probabilities(&probable, &volumes)?;
    }
    let first = leaves.get(..1).unwrap_or_default();
    for (path, wanted, leaves) in [
        (&all_leaves, output.leaves(), &leaves[..]),
        (&first_leaves, output.first_tree_leaf(), first),
    ] {
        if wanted && !leaves.is_empty() {
            write_leaves(path, leaves)?;
        } else {
            remove_earlier(path)?;
        }
    }
    let unit = result.unit();
    let with_box = result.detections.iter().filter_map(|d| Some((d, d.pose()?)));
    let (boxes, looks): (Vec<_>, Vec<_>) =
        with_box.map(|(d, pose)| ((d.name.clone(), pose), shown(d, unit))).unzip();
    let describe = |name: &str| {
        let found = result.detections.iter().find(|d| d.name == name);
        found.map_or_else(String::new, |d| shown(d, unit).description)
    };
    for path in explanation_paths(folder, &result.case_id) {
        remove_earlier(&path)?;
    }
    write_markups_as(&markups, &boxes, &looks, &landmarks(result), describe)?;
    write_result(&json, result)?;
    new.keep();
    Ok(())
}

/// A result that is being written, and counts as a cut one: should the process be ended in the middle, the
/// files beside it are not taken for somebody's, and the case is done again.
const UNFINISHED: &[u8] = b"{\n";

/// What came after the result could not be written: it counts as a cut one from now on, so that the case is
/// done again.
pub(crate) fn mark_unfinished(folder: &Path, case_id: &str) {
    // Where this fails, too, the result remains: its numbers are right.
    let _ = std::fs::write(folder.join(format!("{case_id}.json")), UNFINISHED);
}

/// Files that are removed again, unless they are to be kept.
struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        // One that was not written is not there.
        self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

/// Whether the folder has a result of a case, which then owns the files beside it. A cut one counts.
pub(crate) fn has_result(folder: &Path, case_id: &str) -> bool {
    let json = folder.join(format!("{case_id}.json"));
    let Ok(bytes) = read_file(&json, FileKind::Document) else { return false };
    match serde_json::from_slice::<serde_json::Value>(&bytes) {
        Ok(value) => value["schema"].as_str().is_some_and(|name| name.starts_with("pbt-result/")),
        Err(_) => bytes.trim_ascii_start().starts_with(b"{"),
    }
}

/// Before the explanation of a case is written: whether it may be.
///
/// # Errors
/// Exit code 2 when a file of its name is there and no result of the case beside it.
pub(crate) fn check_explanation(folder: &Path, case_id: &str) -> Result<(), Failure> {
    if has_result(folder, case_id) {
        return Ok(());
    }
    let paths = explanation_paths(folder, case_id);
    refuse_others(paths.iter().map(PathBuf::as_path))
}

/// Nothing is written over files that no result claims.
///
/// # Errors
/// Exit code 2 for the first that is there.
pub(crate) fn refuse_others<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    // Devices and empty files have nothing to lose.
    let has_content =
        |path: &&Path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    let Some(path) = paths.into_iter().find(has_content) else { return Ok(()) };
    let what = "--output: is there already and belongs to no result (choose another folder, or move it away)";
    Err(Failure::usage(what).about(path))
}

/// A file of an earlier run, perhaps of another model, would not belong to this result.
fn remove_file(path: &Path) -> Result<(), IoError> {
    if path.is_file() {
        std::fs::remove_file(path).map_err(|e| IoError::output(path, &e))?;
    }
    Ok(())
}

/// How Slicer shows a structure, and, beside it, how sure it is, and how near.
fn shown(found: &DetectionRecord, unit: LengthUnit) -> Shown {
    let radius = found.precision.and_then(|precision| precision.radius_90_mm);
    let near = radius.map_or_else(String::new, |mm| format!(", 90 % within {mm:.1} {unit}"));
    let description = format!("{}, score {:.2}{near}", found.status, found.score);
    let look = if found.status == Status::Found { Look::Sure } else { Look::Doubtful };
    Shown { description, look }
}

/// Whether there is something to replace, or nothing, under a name that the system takes.
fn check_place(path: &Path) -> Result<(), IoError> {
    let error = match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => ErrorKind::IsADirectory.into(),
        // Opening it would wait for who reads.
        Ok(meta) if is_pipe(&meta) => std::io::Error::other("there is a pipe of that name"),
        Err(error) if error.kind() != ErrorKind::NotFound => error,
        _ => return Ok(()),
    };
    Err(IoError::output(path, &error))
}

#[cfg(unix)]
fn is_pipe(meta: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&meta.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &Metadata) -> bool {
    false
}

/// The landmarks with a position.
fn landmarks(result: &ResultFile) -> Vec<Landmark> {
    let landmarks = result.detections.iter().filter(|d| d.kind == StructureKind::Landmark);
    landmarks
        .filter_map(|d| {
            Some(Landmark { name: d.name.clone(), state: LandmarkState::At(d.position()?) })
        })
        .collect()
}

/// Makes the folder of results, unless it is there.
///
/// # Errors
/// Exit code 1 when it cannot be made.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    if folder.is_file() {
        return Err(Failure::other("--output: is a file (give a folder)").about(folder));
    }
    std::fs::create_dir_all(folder).map_err(|e| {
        let what = format!("--output: the folder cannot be made: {e} (choose another)");
        Failure::other(what).about(folder)
    })
}

/// Writes a report as indented JSON.
///
/// # Errors
/// Exit code 1 when it cannot be written; an older file of that name is then untouched.
pub fn write_json(path: &Path, report: &impl Serialize) -> Result<(), Failure> {
    write_atomically(path, |w| {
        serde_json::to_writer_pretty(&mut *w, report)?;
        w.write_all(b"\n")
    })?;
    Ok(())
}
