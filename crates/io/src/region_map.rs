//! Regions that were found, as files: a label map as NIfTI for programs, and a segmentation with
//! names for 3D Slicer.

use crate::label_map::segments;
use crate::write_image::{write_label_nifti, write_nrrd};
use crate::{IoError, RawImage, VoxelType};
use pbt_volume::Volume;
use std::path::Path;

/// The label of every voxel of an image and what the labels are.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionMap {
    /// Values on the image's grid; 0 for none.
    pub labels: Volume<u16>,
    /// Name and value of each region.
    pub regions: Vec<(String, u16)>,
}

impl RegionMap {
    /// Writes the labels as NIfTI (`.nii.gz`) with the intent of labels.
    ///
    /// # Errors
    /// [`IoError`] when a dimension does not fit the format or the file cannot be written; an older
    /// file of that name is then untouched.
    pub fn write_labels(&self, path: &Path) -> Result<(), IoError> {
        write_label_nifti(path, &self.raw(path)?)
    }

    /// Writes the labels as NRRD (`.seg.nrrd`) with the fields that Slicer reads about segments.
    ///
    /// # Errors
    /// [`IoError`] when the file cannot be written; an older file of that name is then untouched.
    pub fn write_segmentation(&self, path: &Path) -> Result<(), IoError> {
        let image = self.raw(path)?;
        let named = self.regions.iter().map(|(name, value)| (name.as_str(), *value));
        write_nrrd(path, &image, &segments(image.geometry(), named))
    }

    /// As many bytes a voxel as the values of the regions need.
    fn raw(&self, path: &Path) -> Result<RawImage, IoError> {
        let wide = self.regions.iter().any(|(_, value)| *value > u16::from(u8::MAX));
        let values = self.labels.data().iter();
        let (voxel_type, bytes) = if wide {
            (VoxelType::U16, values.flat_map(|value| value.to_le_bytes()).collect())
        } else {
            (VoxelType::U8, values.map(|&value| value as u8).collect())
        };
        RawImage::new(self.labels.geometry().clone(), voxel_type, bytes, None).ok_or_else(|| {
            IoError::unwritable(path, "shape", "is too large", "label a part of the image")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_labels;
    use pbt_volume::{Geometry, PointLps};

    #[test]
    fn both_files_hold_the_labels_on_the_images_grid() {
        let folder = tempfile::tempdir().unwrap();
        let matrix = nalgebra::Matrix3::new(0.5, 0.1, 0.0, -0.1, 0.0, 2.0, 0.0, -0.7, 0.3);
        let geometry = Geometry::new([7, 5, 3], matrix, PointLps::new(1.0, -2.0, 30.0)).unwrap();
        for (low, high) in [(1, 2), (7, 300)] {
            let labels = Volume::from_fn(geometry.clone(), |i, j, k| match (i * j + k) % 3 {
                0 => 0,
                1 => low,
                _ => high,
            });
            let map = RegionMap {
                labels,
                regions: vec![("bone".into(), low), ("soft tissue".into(), high)],
            };
            let (nifti, nrrd) = (folder.path().join("a.nii.gz"), folder.path().join("a.seg.nrrd"));
            map.write_labels(&nifti).unwrap();
            map.write_segmentation(&nrrd).unwrap();
            for path in [&nifti, &nrrd] {
                let again = read_labels(path).unwrap();
                assert_eq!(again.data(), map.labels.data());
                let apart = (again.geometry().affine() - geometry.affine()).abs().max();
                assert!(apart < 1e-5, "{apart}");
            }
            let header = String::from_utf8_lossy(&std::fs::read(&nrrd).unwrap()).into_owned();
            for field in [
                "Segment1_Name:=soft tissue\n".to_owned(),
                format!("Segment1_LabelValue:={high}\n"),
                "Segment0_Layer:=0\n".to_owned(),
            ] {
                assert!(header.contains(&field), "{field}");
            }
        }
    }
}
