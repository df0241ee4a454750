//! Images between numpy and `pbt`: arrays indexed `[i, j, k]` and the 4×4 affine to millimetres.

use crate::work::{Interrupted, off_interpreter};
use nalgebra::Matrix4;
use ndarray::{Array2, Array3, ShapeBuilder};
use numpy::{PyArray2, PyArray3, PyReadonlyArray3, ToPyArray};
use pbt::Failure;
use pbt_io::{ReadOptions, case_name as name_of_file, read_image_with};
use pbt_volume::{Geometry, GeometryError, Volume, check_memory};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// How results and errors call an image that is in no file.
pub(crate) const IN_MEMORY: &str = "array";

/// Rows of a 4×4 matrix from voxel index to millimetres.
pub(crate) type Affine = [[f64; 4]; 4];

/// Array and affine.
type Arrays<'py> = (Bound<'py, PyArray3<f32>>, Bound<'py, PyArray2<f64>>);

/// The voxels of an image file as `float32`, indexed `[i, j, k]` and i fastest in memory, and the
/// affine to LPS mm.
#[pyfunction]
#[pyo3(signature = (path, series=None, frame=None))]
pub(crate) fn read_image(
    py: Python<'_>,
    path: PathBuf,
    series: Option<String>,
    frame: Option<usize>,
) -> PyResult<Arrays<'_>> {
    let read = move |_: &_| {
        Ok(read_image_with(&path, &ReadOptions { series, frame, ..ReadOptions::default() })?.volume)
    };
    let volume = off_interpreter(py, Interrupted::Left, None, read)?;
    let affine = volume.geometry().affine();
    let affine = Array2::from_shape_fn((4, 4), |(row, column)| affine[(row, column)]);
    let shape = volume.shape();
    Ok((array(py, shape, volume.numbers().into_data()), affine.to_pyarray(py)))
}

/// How the commands call the case of a file.
#[pyfunction]
pub(crate) fn case_name(path: PathBuf) -> String {
    name_of_file(&path)
}

/// An array of these voxels, i fastest.
pub(crate) fn array<T: numpy::Element>(
    py: Python<'_>,
    shape: [usize; 3],
    voxels: Vec<T>,
) -> Bound<'_, PyArray3<T>> {
    let array = Array3::from_shape_vec(shape.f(), voxels).expect("as many voxels as the shape has");
    PyArray3::from_owned_array(py, array)
}

/// The image of an array, which is copied.
///
/// # Errors
/// Exit code 4 for a shape or an affine that makes no grid, or without memory for the copy.
pub(crate) fn image_of(
    array: &PyReadonlyArray3<'_, f32>,
    affine: &Affine,
    is_ras: bool,
) -> Result<Volume<f32>, Failure> {
    let input = |what: String| Failure::input(Path::new(IN_MEMORY), what);
    let view = array.as_array();
    let shape = [view.dim().0, view.dim().1, view.dim().2];
    // RAS and LPS differ in the signs of x and y.
    let sign = |row: usize| if is_ras && row < 2 { -1.0 } else { 1.0 };
    // A zero has no sign, so that the hash is the same from either space.
    let affine = Matrix4::from_fn(|row, column| sign(row) * affine[row][column] + 0.0);
    let geometry = Geometry::from_affine(shape, &affine).map_err(|error| {
        let field = match error {
            GeometryError::EmptyShape(_) | GeometryError::TooLarge(_) => "shape",
            _ => "affine",
        };
        input(format!("{field}: {error} (give the matrix from [i, j, k] to mm)"))
    })?;
    let bytes = geometry.len() as u64 * 4;
    check_memory(bytes).map_err(|error| input(format!("memory: {error} (crop the image)")))?;
    Ok(Volume::new(geometry, view.t().iter().copied().collect()))
}
