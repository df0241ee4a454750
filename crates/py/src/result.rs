//! The result of one image.

use crate::failure::exception;
use crate::image::array;
use crate::work::{Interrupted, off_interpreter};
use nalgebra::Matrix4;
use numpy::PyArray3;
use pbt::Failure;
use pbt::session::{Found, VoxelOutput, write_results};
use pbt_io::label_voxels;
use pbt_volume::Geometry;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// What was found in one image.
#[pyclass(frozen, name = "Result", module = "pbt._pbt")]
pub(crate) struct ImageResult {
    found: Arc<Found>,
}

impl ImageResult {
    pub(crate) fn new(found: Found) -> Self {
        Self { found: Arc::new(found) }
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
    fn write(&self, py: Python<'_>, folder: PathBuf, labels: bool, no_paths: bool) -> PyResult<()> {
        let found = Arc::clone(&self.found);
        let output = VoxelOutput::new(labels, false);
        let write = move |_: &_| {
            if no_paths {
                let result = found.result.clone().without_paths();
                return write_results(&folder, &Found { result, ..Found::clone(&found) }, output);
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
