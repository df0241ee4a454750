//! A model, and detection with it.

use crate::device::open;
use crate::failure::exception;
use crate::image::{Affine, IN_MEMORY, image_of};
use crate::result::{ImageResult, Labels};
use crate::work::{Interrupted, off_interpreter};
use numpy::PyReadonlyArray3;
use pbt::Failure;
use pbt::session::{Input, LoadedModel, VoxelOutput, admit, label_image};
use pbt_io::{Image, IoError, ReadOptions, case_name};
use pbt_volume::{Volume, check_memory_limit};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A trained model.
#[pyclass(frozen, module = "pbt._pbt")]
pub(crate) struct Model {
    loaded: Arc<LoadedModel>,
}

#[pymethods]
impl Model {
    /// Reads and checks a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let load = move |_: &_| LoadedModel::open(&path);
        let loaded = Arc::new(off_interpreter(py, Interrupted::Left, None, load)?);
        Ok(Self { loaded })
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.loaded.path.clone()
    }

    #[getter]
    fn name(&self) -> String {
        self.loaded.record().name
    }

    #[getter]
    fn sha256(&self) -> &str {
        &self.loaded.sha256
    }

    #[getter]
    fn version(&self) -> String {
        self.loaded.record().version
    }

    /// Boxes, and the landmarks found in the frame of each.
    #[getter]
    fn structures(&self) -> Vec<(String, Vec<String>)> {
        let structure = |s: &pbt_detect::StructureModel| {
            (s.name.clone(), s.landmarks().iter().map(|l| l.name.clone()).collect())
        };
        self.loaded.model.structures.iter().map(structure).collect()
    }

    /// The channels that images must have; none where there is only one.
    #[getter]
    fn channels(&self) -> Vec<String> {
        self.loaded.model.channels().iter().map(|channel| channel.name.clone()).collect()
    }

    /// Regions, in the order of results.
    #[getter]
    fn regions(&self) -> Vec<String> {
        let regions = self.loaded.model.regions.iter().flat_map(|forest| &forest.regions);
        regions.map(|region| region.name.clone()).collect()
    }

    /// Detects in an image file or a DICOM folder; `further` are those of further channels.
    #[pyo3(signature = (path, further, case_id, series, frame, labels, device, threads))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn detect_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        further: Vec<PathBuf>,
        case_id: Option<String>,
        series: Option<String>,
        frame: Option<usize>,
        labels: bool,
        device: String,
        threads: Option<u16>,
    ) -> PyResult<ImageResult> {
        let (model, asked) = (Arc::clone(&self.loaded), Labels::new(&self.loaded, labels));
        let options = ReadOptions { series, frame, further, ..ReadOptions::default() };
        let detect = move |_: &_| {
            let case_id = case_id.unwrap_or_else(|| case_name(&path));
            let input = Input { case_id: &case_id, path: &path, options: &options };
            let device = open(&device, threads)?;
            let started = Instant::now();
            let image = admit(&model, input)?.read()?;
            let load_ms = started.elapsed().as_secs_f64() * 1e3;
            // While one caller has the GPU, others read their images.
            let (device, _turn) = device.turn();
            label_image(&model, input, &image, load_ms, (device, VoxelOutput::new(labels, false)))
        };
        let found = off_interpreter(py, Interrupted::Left, None, detect)?;
        Ok(ImageResult::new(found, asked))
    }

    /// Detects in an array indexed `[i, j, k]`, or in one for each channel.
    #[pyo3(signature = (arrays, affine, is_ras, case_id, labels, device, threads))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn detect_array(
        &self,
        py: Python<'_>,
        arrays: Vec<PyReadonlyArray3<'_, f32>>,
        affine: Affine,
        is_ras: bool,
        case_id: Option<String>,
        labels: bool,
        device: String,
        threads: Option<u16>,
    ) -> PyResult<ImageResult> {
        let (model, asked) = (Arc::clone(&self.loaded), Labels::new(&self.loaded, labels));
        let channel = |array| image_of(array, &affine, is_ras);
        let channels: Vec<Volume<f32>> = arrays
            .iter()
            .map(channel)
            .collect::<Result<_, Failure>>()
            .map_err(|failure| exception(py, &failure))?;
        let detect = move |_: &_| {
            let path = Path::new(IN_MEMORY);
            let Some(first) = channels.first() else {
                return Err(Failure::input(path, "channel: there is none (give an array)"));
            };
            let bytes = model.memory_bytes(first.geometry(), 4).map_err(|e| e.about(path))?;
            check_memory_limit(bytes).map_err(|e| IoError::memory(path, &e))?;
            let case_id = case_id.as_deref().unwrap_or(IN_MEMORY);
            let input = Input { case_id, path, options: &ReadOptions::default() };
            let device = open(&device, threads)?;
            let (device, _turn) = device.turn();
            label_image(
                &model,
                input,
                &Image::of_channels(channels.into_iter().map(Into::into).collect(), Vec::new()),
                0.0,
                (device, VoxelOutput::new(labels, false)),
            )
        };
        let found = off_interpreter(py, Interrupted::Left, None, detect)?;
        Ok(ImageResult::new(found, asked))
    }
}
