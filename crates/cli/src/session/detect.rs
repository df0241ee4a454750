//! Detection in one image.

use crate::session::channels::Reading;
use crate::session::{Device, Failure, LoadedModel, VoxelOutput};
use pbt_detect::{
    Detections, Explanation, FoundComponent, FoundRegion, LabelFound, LabelOutput,
    LabelProbability, Labelling,
};
use pbt_io::{
    CaseSpec, ComponentRecord, DetectionRecord, DeviceRecord, Image, InputRecord, IoError,
    LabelRecord, OpenImage, ReadOptions, RegionMap, ResultFile, RunRecord,
};
use pbt_volume::{
    Detection, LengthUnit, Location, Plane, Status, Volume, check_memory, check_memory_limit,
};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

/// The image of a case.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Name of the case.
    pub case_id: &'a str,
    /// The image's file or DICOM folder.
    pub path: &'a Path,
    /// Which of its volumes.
    pub options: &'a ReadOptions,
}

impl<'a> From<&'a CaseSpec> for Input<'a> {
    fn from(case: &'a CaseSpec) -> Self {
        Self { case_id: &case.id, path: &case.image, options: &case.options }
    }
}

/// An image whose header says that it can be searched, and what that takes.
pub struct Admitted<'a> {
    image: OpenImage,
    /// The channels that the model takes.
    taken: Vec<usize>,
    input: Input<'a>,
    /// The most bytes that are held at a time until its result is there.
    pub memory_bytes: u64,
}

/// Reads the header of an image and holds it against model and memory; no voxel is read.
///
/// # Errors
/// Exit code 4 when the image cannot be read or used, or needs more memory than there is.
pub fn admit<'a>(model: &LoadedModel, input: Input<'a>) -> Result<Admitted<'a>, Failure> {
    let Reading { options, taken } = Reading::new(model, input)?;
    let image = OpenImage::open(input.path, &options)?;
    let searching = model
        .memory_bytes(image.geometry(), image.voxel_bytes())
        .map_err(|e| e.about(input.path))?;
    let memory_bytes = image.memory_bytes().max(searching);
    check_memory_limit(memory_bytes).map_err(|e| IoError::memory(input.path, &e))?;
    Ok(Admitted { image, taken, input, memory_bytes })
}

impl Admitted<'_> {
    /// Reads the voxels.
    ///
    /// # Errors
    /// Exit code 4 when they cannot be read, or there is no memory at this moment for all that
    /// follows.
    pub fn read(self) -> Result<Image, Failure> {
        check_memory(self.memory_bytes).map_err(|e| IoError::memory(self.input.path, &e))?;
        Ok(self.image.read()?.with_channels(&self.taken))
    }
}

/// Detects in one image file and returns its result, with nothing written.
///
/// # Errors
/// Exit code 4 when the image cannot be read or used.
pub fn detect_file(
    model: &LoadedModel,
    input: Input<'_>,
    device: &Device,
) -> Result<ResultFile, Failure> {
    let started = Instant::now();
    let image = admit(model, input)?.read()?;
    detect_image(model, input, &image, started.elapsed().as_secs_f64() * 1e3, device)
}

/// Detects in an image that was read from `input` in `load_ms` milliseconds.
///
/// # Errors
/// Exit code 4 when the image cannot be used.
pub fn detect_image(
    model: &LoadedModel,
    input: Input<'_>,
    image: &Image,
    load_ms: f64,
    device: &Device,
) -> Result<ResultFile, Failure> {
    Ok(label_image(model, input, image, load_ms, (device, VoxelOutput::default()))?.result)
}

/// A result and, of a model of regions or where labels are wanted, the label of every voxel.
#[derive(Clone)]
pub struct Found {
    /// The result.
    pub result: ResultFile,
    /// The labels; `None` where the model has none, too.
    pub map: Option<RegionMap>,
    /// How probable each label is at every voxel, by rising value; empty where that is not wanted.
    pub probabilities: Vec<LabelProbability>,
    /// The leaf of each tree that each voxel arrives at; empty where that is not wanted.
    pub leaves: Vec<Volume<u32>>,
}

impl From<ResultFile> for Found {
    fn from(result: ResultFile) -> Self {
        Self { result, map: None, probabilities: Vec::new(), leaves: Vec::new() }
    }
}

/// As [`detect_file`], with the labels of regions, and those about boxes where they are wanted.
///
/// # Errors
/// Those of [`detect_file`].
pub fn label_file(
    model: &LoadedModel,
    input: Input<'_>,
    device: &Device,
    output: VoxelOutput,
) -> Result<Found, Failure> {
    let started = Instant::now();
    model.check_output(output)?;
    let image = admit(model, input)?.read()?;
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    label_image(model, input, &image, load_ms, (device, output))
}

/// As [`detect_image`], with the labels of regions, and those about boxes where they are wanted.
///
/// # Errors
/// Those of [`detect_image`].
pub fn label_image(
    model: &LoadedModel,
    input: Input<'_>,
    image: &Image,
    load_ms: f64,
    (device, output): (&Device, VoxelOutput),
) -> Result<Found, Failure> {
    let started = Instant::now();
    let total_ms = |started: Instant| load_ms + started.elapsed().as_secs_f64() * 1e3;
    let Some(regions) = &model.model.regions else {
        let found = device
            .detect(&model.model, &image.channels(), output.labels())
            .map_err(|e| e.about(input.path))?;
        let times = [load_ms, total_ms(started)];
        return with_voxels(model, input, image, &found, times, (device, output));
    };
    let wanted =
        LabelOutput { probabilities: output.probabilities(), leaves_of_trees: output.trees() };
    let mut labelling =
        device.label(regions, &image.volume, wanted).map_err(|e| e.about(input.path))?;
    let mut timing_ms = vec![("load".to_owned(), load_ms)];
    timing_ms.append(&mut labelling.timing_ms);
    timing_ms.push(("total".to_owned(), total_ms(started)));
    let records = labelling.regions.iter().map(region_record).collect();
    let result = written(model, input, image, records, timing_ms, device.record.clone())?;
    let named = labelling.regions.iter().map(|region| (region.name.clone(), region.value));
    let map = RegionMap { labels: labelling.labels, regions: named.collect() };
    let Labelling { probabilities, leaves, .. } = labelling;
    Ok(Found { result, map: Some(map), probabilities, leaves })
}

/// The result of boxes and landmarks with what is wanted of the voxels about them.
fn with_voxels(
    model: &LoadedModel,
    input: Input<'_>,
    image: &Image,
    found: &Detections,
    times: [f64; 2],
    (device, output): (&Device, VoxelOutput),
) -> Result<Found, Failure> {
    let geometry = image.volume.geometry();
    let labels = output.labels().then(|| model.model.label_map(geometry, found));
    let probabilities = if output.probabilities() {
        let of = model.model.label_probabilities(geometry, found);
        of.map_err(|e| Failure::from(e).about(input.path))?
    } else {
        Vec::new()
    };
    let mut result = result_of(model, input, image, found, times, device)?;
    let map = labels.flatten().map(|map| {
        let about = found.detections.iter().zip(&map.found);
        about.for_each(|(d, labels)| add_labels(&mut result, &d.name, labels));
        RegionMap { labels: map.labels, regions: label_values(&map.found) }
    });
    Ok(Found { result, map, probabilities, leaves: Vec::new() })
}

/// What there is to say of the labels about a box, in its record.
fn add_labels(result: &mut ResultFile, name: &str, labels: &[LabelFound]) {
    let Some(record) = result.detections.iter_mut().find(|d| d.name == name) else { return };
    if labels.is_empty() {
        return;
    }
    let of_box = record.status;
    let label = |found: &LabelFound| LabelRecord {
        name: found.name.clone(),
        value: found.value,
        status: if found.doubtful { Status::Doubtful } else { of_box },
        volume_ml: found.volume_ml,
        volume_90_ml: found.volume_90_ml,
        predicted_dice: found.predicted_dice,
    };
    let dices: Option<Vec<f64>> = labels.iter().map(|found| found.predicted_dice).collect();
    record.volume_ml = Some(labels.iter().map(|found| found.volume_ml).sum());
    record.predicted_dice = dices.map(|all| all.iter().sum::<f64>() / all.len() as f64);
    record.labels = labels.iter().map(label).collect();
}

/// Name and value of every label.
fn label_values(found: &[Vec<LabelFound>]) -> Vec<(String, u16)> {
    found.iter().flatten().map(|label| (label.name.clone(), label.value)).collect()
}

fn region_record(region: &FoundRegion) -> DetectionRecord {
    let (name, status) = (region.name.clone(), region.status);
    let detection = Detection::new(name, status, region.score, Location::Region);
    DetectionRecord {
        volume_ml: Some(region.volume_ml),
        components: Some(region.components),
        largest_components: region.largest.iter().map(component_record).collect(),
        ..detection.into()
    }
}

fn component_record(component: &FoundComponent) -> ComponentRecord {
    ComponentRecord {
        voxels: component.voxels,
        volume_ml: component.volume_ml,
        first_voxel: component.first,
        last_voxel: component.last,
        centroid_lps_mm: component.centroid.0.coords.into(),
        score: component.score,
    }
}

/// A result and why it came out so.
pub struct Explained {
    /// The result, with the labels about boxes where they are wanted.
    pub found: Found,
    /// The image.
    pub image: Image,
    /// What every stage found.
    pub detections: Vec<pbt_detect::Detection>,
    /// Of each detection.
    pub explanations: Vec<Explanation>,
}

/// As [`label_file`] for a model of boxes, with explanations.
///
/// # Errors
/// Those of [`detect_file`].
pub fn explain_file(
    model: &LoadedModel,
    input: Input<'_>,
    device: &Device,
    output: VoxelOutput,
) -> Result<Explained, Failure> {
    let started = Instant::now();
    model.check_output(output)?;
    let image = admit(model, input)?.read()?;
    let load_ms = started.elapsed().as_secs_f64() * 1e3;
    let (detections, explanations) = device
        .explain(&model.model, &image.channels(), output.labels())
        .map_err(|e| e.about(input.path))?;
    let times = [load_ms, started.elapsed().as_secs_f64() * 1e3];
    let mut found = with_voxels(model, input, &image, &detections, times, (device, output))?;
    found.result.run.options.insert("explain".to_owned(), true.into());
    Ok(Explained { found, image, detections: detections.detections, explanations })
}

/// The result of an image in which this was found.
fn result_of(
    model: &LoadedModel,
    input: Input<'_>,
    image: &Image,
    found: &Detections,
    [load_ms, total_ms]: [f64; 2],
    device: &Device,
) -> Result<ResultFile, Failure> {
    let mut timing_ms = vec![("load".to_owned(), load_ms)];
    timing_ms.extend(found.timing_ms.iter().cloned());
    timing_ms.push(("total".to_owned(), total_ms));
    let slice = Plane::of(image.volume.geometry());
    let mut plain: Vec<_> = found.detections.iter().flat_map(|d| d.plain()).collect();
    for detection in &mut plain {
        if let (Location::Box(Some(pose)), Some(slice)) = (&mut detection.location, &slice) {
            pose.size_mm[2] = slice.thickness_mm();
        }
    }
    let records = plain.into_iter().map(DetectionRecord::from).collect();
    let mut result = written(model, input, image, records, timing_ms, device.record.clone())?;
    result.warnings.extend(found.warnings.iter().cloned());
    Ok(result)
}

/// A warning where lengths of the image and of the training images do not count the same.
fn other_unit(model: &LoadedModel, image: &Image) -> Option<String> {
    let what = match (model.model.provenance.unit, image.unit) {
        (LengthUnit::Mm, LengthUnit::Pixels) => {
            "the training images had a scale and the file has none; a pixel counts as 1 mm"
        }
        (LengthUnit::Pixels, LengthUnit::Mm) => {
            "the training images had no scale; 1 mm counts as one of their pixels"
        }
        _ => return None,
    };
    Some(format!("spacing: {what}"))
}

/// A result of what was found.
fn written(
    model: &LoadedModel,
    input: Input<'_>,
    image: &Image,
    detections: Vec<DetectionRecord>,
    timing_ms: Vec<(String, f64)>,
    device: DeviceRecord,
) -> Result<ResultFile, Failure> {
    let result = ResultFile::new(
        input.case_id.to_owned(),
        InputRecord::new(image.sha256.clone(), image.volume.geometry()),
        model.record(),
        detections,
        image.warnings.iter().cloned().chain(other_unit(model, image)).collect(),
        RunRecord {
            pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
            device,
            input_path: input.path.display().to_string(),
            model_path: model.path.display().to_string(),
            options: chosen(&Reading::new(model, input)?.options),
            timing_ms,
        },
    );
    Ok(result.counting(image.unit))
}

/// Which volume of the input was chosen, and its channels where there are several, as results note it.
pub fn chosen(options: &ReadOptions) -> BTreeMap<String, Value> {
    let series = options.series.iter().map(|series| ("series".to_owned(), series.clone().into()));
    let frame = options.frame.map(|frame| ("frame".to_owned(), frame.into()));
    let list = |key: &str, all: Vec<Value>| (!all.is_empty()).then(|| (key.to_owned(), all.into()));
    let names = options.channels.iter().map(|name| name.clone().into()).collect();
    let paths = options.further.iter().map(|path| path.display().to_string().into()).collect();
    let channels = list("channels", names).into_iter().chain(list("further", paths));
    series.chain(frame).chain(channels).collect()
}
