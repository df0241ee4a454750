//! The result of one image.

use crate::failure::exception;
use crate::image::array;
use crate::work::{Interrupted, off_interpreter};
use nalgebra::Matrix4;
use numpy::PyArray3;
use pbt::Failure;
use pbt::session::{Found, LoadedModel, VoxelOutput, write_results};
use pbt_io::label_voxels;
use pbt_volume::Geometry;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// What was found in one image.
#[pyclass(frozen, name = "Result", module = "pbt._pbt")]
pub(crate) struct ImageResult {
    found: Arc<Found>,
    labels: Labels,
}

/// What a result can say of voxels.
#[derive(Clone, Copy)]
pub(crate) enum Labels {
    /// A model of regions always has them.
    Regions,
    /// The model has learned labels about boxes, and they were asked for or not.
    OfBoxes { asked: bool },
    /// There are boxes and landmarks alone, and they were asked for as labels or not.
    None { asked: bool },
}

impl Labels {
    pub(crate) fn new(model: &LoadedModel, asked: bool) -> Self {
        match (&model.model.regions, model.has_labels()) {
            (Some(_), _) => Self::Regions,
            (None, true) => Self::OfBoxes { asked },
            (None, false) => Self::None { asked },
        }
    }

    /// Whether files have them: where nothing is said, if they were asked for when the image was searched.
    fn written(self, wanted: Option<bool>) -> Result<bool, Failure> {
        match (self, wanted) {
            (Self::OfBoxes { asked: false }, Some(true)) => Err(Failure::usage(
                "labels: were not asked for when the image was searched (give detect labels=True)",
            )),
            (Self::Regions, _) => Ok(true),
            (Self::OfBoxes { asked } | Self::None { asked }, _) => Ok(wanted.unwrap_or(asked)),
        }
    }
}

impl ImageResult {
    pub(crate) fn new(found: Found, labels: Labels) -> Self {
        Self { found: Arc::new(found), labels }
    }
}

#[pymethods]
impl ImageResult {
    /// The text of the result file.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        match serde_json::to_string_pretty(&self.found.result) {
            Ok(text) => Ok(text + "\n"),
            Err(error) => Err(exception(py, &Failure::other(error))),
        }
    }

    /// Writes the files that `pbt detect` writes.
    #[pyo3(signature = (folder, labels, no_paths))]
    fn write(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        labels: Option<bool>,
        no_paths: bool,
    ) -> PyResult<()> {
        let (found, own) = (Arc::clone(&self.found), self.labels);
        let write = move |_: &_| {
            let labels = own.written(labels)?;
            let output = VoxelOutput::new(labels, false);
            if labels && !no_paths {
                return write_results(&folder, &found, output);
            }
            let mut found = Found::clone(&found);
            found.map = found.map.filter(|_| labels);
            if no_paths {
                found.result = found.result.without_paths();
            }
            write_results(&folder, &found, output)
        };
        off_interpreter(py, Interrupted::Left, None, write)
    }

    /// What each voxel belongs to, indexed `[i, j, k]`: the number of the detection, from 1, or of a
    /// model of regions the region's value; or 0.
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<u16>>> {
        let found = Arc::clone(&self.found);
        let draw = move |_: &_| {
            if let Some(map) = &found.map {
                return Ok(map.labels.data().to_vec());
            }
            let input = &found.result.input;
            let affine = Matrix4::from_fn(|row, column| input.affine_lps[row][column]);
            let geometry = Geometry::from_affine(input.shape, &affine).map_err(Failure::other)?;
            Ok(label_voxels(&geometry, &found.result.detections))
        };
        let voxels = off_interpreter(py, Interrupted::Left, None, draw)?;
        Ok(array(py, self.found.result.input.shape, voxels))
    }
}
