//! The result of one image.

use crate::failure::exception;
use crate::image::array;
use crate::work::{Interrupted, off_interpreter};
use nalgebra::Matrix4;
use numpy::PyArray3;
use pbt::Failure;
use pbt::session::write_results;
use pbt_io::{ResultFile, label_voxels};
use pbt_volume::Geometry;
use pyo3::prelude::*;
use std::path::PathBuf;

/// What was found in one image.
#[pyclass(frozen, name = "Result", module = "pbt._pbt")]
pub(crate) struct ImageResult {
    file: ResultFile,
}

impl ImageResult {
    pub(crate) fn new(file: ResultFile) -> Self {
        Self { file }
    }
}

#[pymethods]
impl ImageResult {
    /// The text of the result file.
    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        match serde_json::to_string_pretty(&self.file) {
            Ok(text) => Ok(text + "\n"),
            Err(error) => Err(exception(py, &Failure::other(error))),
        }
    }

    /// Writes the files that `pbt detect` writes.
    fn write(&self, py: Python<'_>, folder: PathBuf, labels: bool) -> PyResult<()> {
        let file = self.file.clone();
        let write = move |_: &_| write_results(&folder, &file, labels);
        off_interpreter(py, Interrupted::Left, None, write)
    }

    /// The number of the detection, from 1, that each voxel belongs to, or 0, indexed `[i, j, k]`.
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<u16>>> {
        let (input, detections) = (self.file.input.clone(), self.file.detections.clone());
        let rows = input.affine_lps;
        let draw = move |_: &_| {
            let affine = Matrix4::from_fn(|row, column| rows[row][column]);
            let geometry = Geometry::from_affine(input.shape, &affine).map_err(Failure::other)?;
            Ok(label_voxels(&geometry, &detections))
        };
        let voxels = off_interpreter(py, Interrupted::Left, None, draw)?;
        Ok(array(py, self.file.input.shape, voxels))
    }
}
