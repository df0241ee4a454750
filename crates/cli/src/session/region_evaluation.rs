//! Cases of a data set of regions, each held against its label map.

use crate::session::result_source::{result_labels, result_name};
use crate::session::{
    Device, FailedCase, Failure, Source, VoxelOutput, Watcher, label_file, region_labels_path,
    there_is_no,
};
use pbt_detect::DetectError;
use pbt_evaluate::{RegionRecord, RegionSummary, compare_regions};
use pbt_io::{CaseSpec, Dataset, IGNORED_CLASS, LandmarkState, RegionLabels, read_labels_on};
use pbt_volume::{Geometry, LengthUnit, StructureKind, Volume};
use std::path::{Path, PathBuf};

/// What came out of some cases.
pub struct EvaluatedRegions {
    /// Of each region in each case, the worst first.
    pub records: Vec<RegionRecord>,
    /// Those that could not be evaluated.
    pub failed: Vec<FailedCase>,
    /// Of each region.
    pub summaries: Vec<RegionSummary>,
    /// Number of cases with a label map.
    pub cases: usize,
    /// What lengths are in.
    pub unit: LengthUnit,
}

/// Compares the labels of cases with their label maps. A case that cannot be read is told at once and
/// listed.
///
/// # Errors
/// A region without a value or that the results do not have, no case with a label map, no case with
/// labels in a folder of results, and no case that could be evaluated.
pub fn evaluate_regions(
    dataset: &Dataset,
    names: &[String],
    source: &Source,
    cases: Vec<CaseSpec>,
    device: &Device,
    watcher: &dyn Watcher,
) -> Result<EvaluatedRegions, Failure> {
    let labels = match dataset.labels_of(&dataset.box_names()) {
        // Of the only box, where labels have no names.
        Some(labels) if dataset.label_names.is_empty() => labels,
        _ => dataset.region_labels(names)?,
    };
    let (path, whose) = match source {
        Source::Model(model) => (&model.path, "model"),
        Source::Folder(folder) => (folder, "results"),
        Source::CrossValidation(_) => return Err(Failure::usage(NO_CROSS_VALIDATION)),
    };
    if let Some(known) = source.label_names(&cases)
        && let Some(name) = names.iter().find(|name| !known.contains(*name))
    {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let what = format!("structures: in the {whose} {}", there_is_no(name, &known));
        return Err(Failure::input(path, what));
    }
    let labelled: Vec<CaseSpec> = cases.into_iter().filter(|case| case.labels.is_some()).collect();
    if labelled.is_empty() {
        return Err(Failure::input(&dataset.path, "cases: none of them has a label map"));
    }
    if let Source::Folder(folder) = source
        && !labelled.iter().any(|case| labels_path(folder, case).is_file())
    {
        let what = format!(
            "cases: there are no labels of any of them: no {} (check the folder, and that its files are called \
             as the cases; `pbt batch --labels` writes them)",
            labels_path(folder, &labelled[0]).display()
        );
        return Err(Failure::input(&dataset.path, what));
    }
    let mut evaluated = EvaluatedRegions {
        records: Vec::new(),
        failed: Vec::new(),
        summaries: Vec::new(),
        cases: labelled.len(),
        unit: LengthUnit::default(),
    };
    let mut units = Vec::new();
    watcher.begin(labelled.len());
    for case in &labelled {
        if watcher.interrupted() {
            return Err(DetectError::Interrupted.into());
        }
        watcher.case(&case.id);
        match of_case((dataset, names), &labels, source, case, device) {
            Ok((compared, unit)) => {
                evaluated.records.extend(compared);
                units.push(unit);
            }
            Err(failure) if failure.is_input() => {
                watcher.failed(&case.id, &failure);
                let reason = failure.to_string();
                evaluated.failed.push(FailedCase { case: case.id.clone(), reason });
            }
            Err(failure) => return Err(failure),
        }
        watcher.done();
    }
    watcher.end();
    if evaluated.failed.len() == labelled.len() {
        let what = format!("cases: none of the {} could be evaluated (see above)", labelled.len());
        return Err(Failure::input(&dataset.path, what));
    }
    evaluated.unit = LengthUnit::of_all(units);
    evaluated.summaries =
        names.iter().map(|name| RegionSummary::new(name, &evaluated.records)).collect();
    evaluated.records.sort_by(RegionRecord::worse_first);
    Ok(evaluated)
}

fn of_case(
    (dataset, names): (&Dataset, &[String]),
    labels: &RegionLabels,
    source: &Source,
    case: &CaseSpec,
    device: &Device,
) -> Result<(Vec<RegionRecord>, LengthUnit), Failure> {
    let (found, unit): (Volume<u8>, LengthUnit) = match source {
        Source::Model(model) => {
            let found = label_file(model, case.into(), device, VoxelOutput::new(true, false))?;
            let unit = found.result.unit();
            let Some(map) = found.map else {
                return Err(Failure::model(&model.path, "structures: the model labels no voxels"));
            };
            let named = map.regions.iter().map(|(name, value)| (name.as_str(), *value));
            (classes_by_name(&map.labels, named, names), unit)
        }
        Source::Folder(folder) => {
            let image = case.read_image()?;
            let geometry = image.volume.geometry();
            (classes_of_result(folder, case, (names, labels), geometry)?, image.unit)
        }
        Source::CrossValidation(_) => return Err(Failure::usage(NO_CROSS_VALIDATION)),
    };
    let Some(path) = &case.labels else { return Ok((Vec::new(), unit)) };
    let truth = labels.read_file(path, found.geometry())?;
    let classes = (truth.data(), found.data());
    let mut compared = compare_regions(&case.id, names, classes, IGNORED_CLASS, found.geometry());
    compared.retain(|record| !case.not_drawn.contains(&record.region));
    // As of boxes: one that the case neither shows nor marks as missing was not annotated.
    let is_region = |name: &String| {
        dataset.structures.iter().any(|s| s.kind == StructureKind::Region && s.name == *name)
    };
    let shown = |record: &RegionRecord| record.truth_ml > 0.0 || is_region(&record.region);
    if !compared.iter().all(shown) {
        let annotations = dataset.load_annotations(case)?;
        let missing = |name: &String| annotations.landmark(name) == Some(LandmarkState::OutOfView);
        compared.retain(|record| shown(record) || missing(&record.region));
    }
    Ok((compared, unit))
}

const NO_CROSS_VALIDATION: &str = "cross-validation takes boxes and landmarks, not regions";

/// Where a folder of results has the labels of a case.
fn labels_path(folder: &Path, case: &CaseSpec) -> PathBuf {
    region_labels_path(folder, &result_name(folder, case))
}

/// The classes of the voxels of an earlier result. Without labels nothing was found; where nothing says what
/// their values mean, they are those of the data set.
fn classes_of_result(
    folder: &Path,
    case: &CaseSpec,
    (names, labels): (&[String], &RegionLabels),
    image: &Geometry,
) -> Result<Volume<u8>, Failure> {
    let path = labels_path(folder, case);
    if !path.is_file() {
        return Ok(Volume::filled(image.clone(), 0));
    }
    let named = result_labels(folder, case);
    if named.is_empty() {
        return Ok(labels.read_file(&path, image)?);
    }
    let named = named.iter().map(|(value, name)| (name.as_str(), *value));
    Ok(classes_by_name(&read_labels_on(&path, image)?, named, names))
}

/// The classes of labels whose values may not be those of the data set: names decide. All values that are named
/// otherwise are background.
fn classes_by_name<'a>(
    labels: &Volume<u16>,
    named: impl Iterator<Item = (&'a str, u16)>,
    names: &[String],
) -> Volume<u8> {
    let mut classes = vec![0; usize::from(u16::MAX) + 1];
    for (name, value) in named {
        for (class, _) in (1..).zip(names).filter(|(_, known)| *known == name) {
            classes[usize::from(value)] = class;
        }
    }
    labels.map(|value| classes[usize::from(value)])
}
