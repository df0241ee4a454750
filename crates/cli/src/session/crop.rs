//! Parts of images that hold a structure, for other tools.

use crate::session::results::{has_result, is_voxel_file, refuse_others};
use crate::session::{Failure, Found, Input, LoadedModel, there_is_no};
use pbt_io::{DetectionRecord, IoError, RawImage, read_raw_with, write_image};
use pbt_volume::{Geometry, PointLps, Status, Volume};
use std::path::{Path, PathBuf};

/// What to cut out.
#[derive(Debug, Clone, Default)]
pub struct Crops {
    /// Names of structures.
    pub names: Vec<String>,
    /// So much around them, mm.
    pub margin_mm: f64,
}

impl Crops {
    /// Whether a model finds all of these structures, and each has a file of its own.
    ///
    /// # Errors
    /// Exit code 4 for the first that it does not, exit code 2 for the first whose file is that of another.
    pub fn check(&self, model: &LoadedModel) -> Result<(), Failure> {
        let boxes = model.model.structures.iter();
        let mut known: Vec<&str> = boxes.clone().map(|s| s.name.as_str()).collect();
        known.extend(boxes.flat_map(|s| s.landmarks()).map(|l| l.name.as_str()));
        let regions = model.model.regions.iter().flat_map(|forest| &forest.regions);
        known.extend(regions.map(|region| region.name.as_str()));
        if !self.names.is_empty() && !model.model.channels().is_empty() {
            let what = "--crop: takes images of one channel (cut the files of the channels with other tools)";
            return Err(Failure::input(&model.path, what));
        }
        let unknown = self.names.iter().find(|name| !known.contains(&name.as_str()));
        if let Some(name) = unknown {
            let what = format!("--crop: {}", there_is_no(name, &known));
            return Err(Failure::input(&model.path, what));
        }
        self.check_files()
    }

    /// Whether no structure's file is one of the result or of another structure.
    fn check_files(&self) -> Result<(), Failure> {
        let case = |name: &String| crop_path(Path::new(""), "CASE", name);
        for (n, name) in self.names.iter().enumerate() {
            let path = case(name);
            let of_another = self.names[..n].iter().find(|&o| o != name && case(o) == path);
            let whose = match of_another {
                Some(other) => format!("`{other}`"),
                None if is_voxel_file(Path::new(""), "CASE", &path) => "the result".to_owned(),
                None => continue,
            };
            return Err(Failure::usage(format!(
                "--crop: the file of `{name}` would be {}, which is that of {whose} (leave one out)",
                path.display()
            )));
        }
        Ok(())
    }

    /// Before the result of a case is written: whether its crops may be.
    ///
    /// # Errors
    /// Exit code 2 when a file of that name is there and no result of the case beside it.
    pub fn check_places(&self, folder: &Path, case_id: &str) -> Result<(), Failure> {
        if has_result(folder, case_id) {
            return Ok(());
        }
        let paths: Vec<PathBuf> =
            self.names.iter().map(|name| crop_path(folder, case_id, name)).collect();
        refuse_others(paths.iter().map(PathBuf::as_path))
    }

    /// Cuts out each structure that was found, with the voxels of the file as they are. Nothing is written
    /// yet, so that a case that cannot be cut has no result, either.
    ///
    /// # Errors
    /// Exit code 4 for an image without a scale, or one that can no longer be read.
    pub fn cut(&self, folder: &Path, input: Input<'_>, found: &Found) -> Result<Cut, Failure> {
        let mut cut = Cut::default();
        if self.names.is_empty() {
            return Ok(cut);
        }
        if !found.result.unit().is_mm() {
            let what = "--crop: takes volumes, not 2D images in pixels (leave it out)";
            return Err(Failure::input(input.path, what));
        }
        let image = read_raw_with(input.path, input.options)?.raw;
        for name in &self.names {
            let path = crop_path(folder, input.case_id, name);
            let record = found.result.detections.iter().find(|d| d.name == *name);
            let part = record.and_then(|record| self.part(record, found, image.geometry()));
            let status = record.map_or(Status::Absent, |record| record.status);
            let Some((first, shape)) = part else {
                let why = match status {
                    Status::Found | Status::Doubtful => "lies outside the image".to_owned(),
                    other => format!("is {other}"),
                };
                cut.notes.push(format!("{name} {why}: there is nothing to cut out"));
                cut.files.push((path, None));
                continue;
            };
            let several = found.result.detections.iter().filter(|d| d.name == *name).count();
            if several > 1 {
                cut.notes.push(format!("{name}: of {several} the surest is cut out"));
            }
            if status == Status::Doubtful {
                let file = path.display();
                cut.notes.push(format!("{name} is doubtful: look at {file} first"));
            }
            cut.files.push((path, Some(image.part(first, shape))));
        }
        Ok(cut)
    }

    /// The voxels of a detection with the margin: the first one and how many along each axis.
    fn part(
        &self,
        record: &DetectionRecord,
        found: &Found,
        image: &Geometry,
    ) -> Option<([usize; 3], [usize; 3])> {
        if let Some(pose) = record.pose() {
            return voxels_about(&pose.corners(), self.margin_mm, image);
        }
        if let Some(point) = record.position() {
            return voxels_about(&[point], self.margin_mm, image);
        }
        let map = found.map.as_ref()?;
        let (_, value) = map.regions.iter().find(|(name, _)| *name == record.name)?;
        voxels_about(&corners_of_label(&map.labels, *value)?, self.margin_mm, image)
    }
}

/// What was cut out of an image.
#[derive(Default)]
pub struct Cut {
    /// Where it goes; none for a structure that was not found.
    files: Vec<(PathBuf, Option<RawImage>)>,
    /// Which structures have none, and which are doubtful.
    notes: Vec<String>,
}

impl Cut {
    /// Writes the files, and removes what an earlier run has left of structures that were not found. Returns
    /// what to tell.
    ///
    /// # Errors
    /// Exit code 1 when a file cannot be written.
    pub fn write(self) -> Result<Vec<String>, Failure> {
        for (path, part) in &self.files {
            match part {
                Some(part) => write_image(path, part)?,
                None if path.is_file() => {
                    std::fs::remove_file(path).map_err(|e| IoError::output(path, &e))?;
                }
                None => {}
            }
        }
        Ok(self.notes)
    }
}

/// Where the part of a case's image with a structure goes.
pub fn crop_path(folder: &Path, case_id: &str, name: &str) -> PathBuf {
    let name = name.replace(|c: char| c.is_control() || matches!(c, '/' | '\\' | ':'), "_");
    folder.join(format!("{case_id}.{name}.nii.gz"))
}

/// The voxels of an image that a block about points touches; none where that lies outside. A margin is kept
/// in all directions, however the grid is turned.
fn voxels_about(
    points: &[PointLps],
    margin_mm: f64,
    image: &Geometry,
) -> Option<([usize; 3], [usize; 3])> {
    let (mut first, mut shape) = ([0; 3], [0; 3]);
    for axis in 0..3 {
        // So many voxels a mm at most, along any direction.
        let margin = margin_mm * image.inverse().row(axis).norm();
        let places = points.iter().map(|&point| image.to_index(point).0[axis]);
        let (low, high) = places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| {
            (low.min(at), high.max(at))
        });
        // A voxel reaches half a voxel to both sides of its centre.
        let begin = (low - margin + 0.5).floor().max(0.0);
        let end = (high + margin - 0.5).ceil().max((low - margin + 0.5).floor());
        let end = end.min(image.shape()[axis] as f64 - 1.0);
        if begin > end {
            return None;
        }
        (first[axis], shape[axis]) = (begin as usize, (end - begin) as usize + 1);
    }
    Some((first, shape))
}

/// The corners of the smallest block of voxels that holds a label, as LPS points of voxel centres.
fn corners_of_label(labels: &Volume<u16>, value: u16) -> Option<[PointLps; 2]> {
    let [width, height, _] = labels.shape();
    let (mut low, mut high) = ([usize::MAX; 3], [0; 3]);
    for (n, _) in labels.data().iter().enumerate().filter(|&(_, &label)| label == value) {
        let at = [n % width, n / width % height, n / (width * height)];
        for axis in 0..3 {
            low[axis] = low[axis].min(at[axis]);
            high[axis] = high[axis].max(at[axis]);
        }
    }
    let point = |at: [usize; 3]| {
        let [i, j, k] = at.map(|n| n as f64);
        labels.geometry().to_lps(pbt_volume::VoxelIndex::new(i, j, k))
    };
    (low[0] != usize::MAX).then(|| [point(low), point(high)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Matrix3;

    #[test]
    fn every_crop_has_a_file_of_its_own() {
        let check = |names: &[&str]| {
            let names = names.iter().map(|&name| name.to_owned()).collect();
            Crops { names, margin_mm: 0.0 }.check_files().map_err(|failure| failure.to_string())
        };
        assert_eq!(check(&["gland", "label", "gland"]), Ok(()));
        for (names, part) in [
            (&["labels"][..], "CASE.labels.nii.gz, which is that of the result"),
            (&["gland", "first-tree-leaf"], "`first-tree-leaf` would be"),
            (&["a/b", "a_b"], "CASE.a_b.nii.gz, which is that of `a/b`"),
        ] {
            let line = check(names).unwrap_err();
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_block_is_all_voxels_that_are_touched() {
        let image = Geometry::isotropic([10, 10, 10], 2.0).unwrap();
        let about = |x: [f64; 2], margin_mm| {
            let points = x.map(|x| PointLps::new(x, 8.0, 8.0));
            voxels_about(&points, margin_mm, &image).map(|(first, shape)| (first[0], shape[0]))
        };
        // Voxel n reaches from 2n - 1 to 2n + 1 mm.
        assert_eq!(about([4.0, 8.0], 0.0), Some((2, 3)));
        assert_eq!(about([4.9, 5.1], 0.0), Some((2, 2)));
        assert_eq!(about([4.0, 4.0], 0.0), Some((2, 1)));
        assert_eq!(about([5.0, 5.0], 0.0), Some((3, 1)));
        assert_eq!(about([4.0, 8.0], 2.0), Some((1, 5)));
        assert_eq!(about([-50.0, 8.0], 0.0), Some((0, 5)));
        assert_eq!(about([4.0, 80.0], 0.0), Some((2, 8)));
        assert_eq!(about([30.0, 40.0], 0.0), None);
        assert_eq!(about([-40.0, -30.0], 0.0), None);
    }

    #[test]
    fn the_margin_is_kept_on_a_turned_grid() {
        // Columns of the matrix are the steps of i, j and k; i and j stand at 45 degrees in the plane.
        let s = std::f64::consts::FRAC_1_SQRT_2;
        let turned = Matrix3::new(s, -s, 0.0, s, s, 0.0, 0.0, 0.0, 3.0);
        let image = Geometry::new([40, 40, 10], turned, PointLps::new(0.0, -20.0, 0.0)).unwrap();
        let center = image.to_lps(pbt_volume::VoxelIndex::new(20.0, 20.0, 5.0));
        let (first, shape) = voxels_about(&[center], 6.0, &image).unwrap();
        assert_eq!((first, shape), ([14, 14, 3], [13, 13, 5]));
    }

    #[test]
    fn a_label_has_corners() {
        let image = Geometry::isotropic([4, 5, 6], 1.0).unwrap();
        let labels = Volume::from_fn(image, |i, j, k| u16::from(i > 1 && j == 3 && k < 4) * 7);
        let [low, high] = corners_of_label(&labels, 7).unwrap();
        assert_eq!((low, high), (PointLps::new(2.0, 3.0, 0.0), PointLps::new(3.0, 3.0, 3.0)));
        assert_eq!(corners_of_label(&labels, 1), None);
        assert_eq!(crop_path(Path::new("o"), "c", "a/b").to_str(), Some("o/c.a_b.nii.gz"));
    }
}
