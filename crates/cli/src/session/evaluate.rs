//! Cases of a data set, each held against its annotations.

use crate::session::cases::box_of_points;
use crate::session::result_source::result_path;
use crate::session::{Device, Failure, Source, Watcher, check_names};
use nalgebra::Matrix4;
use pbt_detect::{DetectError, UNMEASURED};
use pbt_evaluate::{CaseResult, Comparison, Tolerance, compare, is_annotated, loose_axis};
use pbt_io::{
    Annotations, CaseSpec, Dataset, InputRecord, LandmarkState, ModelRecord, ResultFile,
    check_annotations, read_side_by_side,
};
use pbt_volume::{
    Detection, Geometry, GeometryError, LengthUnit, Location, Plane, Pose, StructureKind,
    StructureSpec,
};
use rayon::prelude::*;
use serde::Serialize;

/// What came out of some cases.
pub struct Evaluated {
    /// Of each case, structure by structure.
    pub records: Vec<Comparison>,
    /// Of each case that has one.
    pub results: Vec<ResultFile>,
    /// Those that could not be evaluated.
    pub failed: Vec<FailedCase>,
    /// Names of the structures, in the data set's order.
    pub structures: Vec<String>,
    /// Names of the cases that have annotations, the failed ones too.
    pub cases: Vec<String>,
}

/// A case that could not be evaluated.
#[derive(Serialize)]
pub struct FailedCase {
    /// Its name.
    pub case: String,
    /// Why.
    pub reason: String,
}

impl Evaluated {
    /// The models of the results, each once, in the order of the cases.
    pub fn models(&self) -> Vec<ModelRecord> {
        let mut models: Vec<ModelRecord> = Vec::new();
        for result in &self.results {
            if !models.contains(&result.model) {
                models.push(result.model.clone());
            }
        }
        models
    }

    /// What lengths are in.
    pub fn unit(&self) -> LengthUnit {
        LengthUnit::of_all(self.results.iter().map(ResultFile::unit))
    }

    /// Whether a result says that its scores were not measured.
    pub fn has_unmeasured_scores(&self) -> bool {
        let says = |result: &ResultFile| result.warnings.iter().any(|w| w == UNMEASURED);
        self.results.iter().any(says)
    }

    /// Mean and maximum by stage, in the order in which the first result names them.
    pub fn stage_times(&self) -> Vec<StageTime> {
        let mut stages: Vec<(&str, Vec<f64>)> = Vec::new();
        for (stage, ms) in self.results.iter().flat_map(|r| &r.run.timing_ms) {
            match stages.iter_mut().find(|(name, _)| name == stage) {
                Some((_, all)) => all.push(*ms),
                None => stages.push((stage, vec![*ms])),
            }
        }
        let time = |(stage, all): (&str, Vec<f64>)| StageTime {
            stage: stage.to_owned(),
            mean: all.iter().sum::<f64>() / all.len() as f64,
            max: all.iter().copied().fold(0.0, f64::max),
        };
        stages.into_iter().map(time).collect()
    }
}

/// Milliseconds of a stage of detection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageTime {
    /// The stage.
    pub stage: String,
    /// Mean over the cases.
    pub mean: f64,
    /// The longest.
    pub max: f64,
}

/// Compares the results of cases with their annotations. `named` are the structures that are
/// wanted, all where it is empty. A case that cannot be read is told at once and listed.
///
/// # Errors
/// Names that are no structures, nothing to compare, no case that could be evaluated, and whatever
/// ends a detection.
pub fn evaluate_cases(
    dataset: &Dataset,
    named: &[String],
    source: &Source,
    cases: Vec<CaseSpec>,
    tolerance: &Tolerance,
    device: &Device,
    watcher: &dyn Watcher,
) -> Result<Evaluated, Failure> {
    let dataset = &source.data_set_as_learned(dataset);
    let structures = wanted_structures(dataset, named, source, &cases)?;
    let asked = cases.len();
    let cases = annotated_cases(dataset, &structures, cases)?;
    if cases.len() < asked {
        watcher.note(&format!("{} cases without annotations are left out", asked - cases.len()));
    }
    let mut evaluated = Evaluated {
        records: Vec::new(),
        results: Vec::new(),
        failed: Vec::new(),
        structures: structures.iter().map(|s| s.name.clone()).collect(),
        cases: cases.iter().map(|(case, _)| case.id.clone()).collect(),
    };
    watcher.begin(cases.len());
    watcher.trainings(source.trainings());
    let tolerance = &tolerance.clone().with_loose_ends(loose_ends(dataset, &cases, source));
    let turn = Turn { dataset, structures: &structures, source, tolerance, device, watcher };
    for (case, annotations) in &cases {
        if watcher.interrupted() {
            return Err(DetectError::Interrupted.into());
        }
        watcher.case(&case.id);
        match turn.evaluate(case, annotations) {
            Ok((compared, result)) => {
                evaluated.records.extend(compared);
                evaluated.results.extend(result);
            }
            Err(failure) if failure.is_input() => {
                watcher.failed(&case.id, &failure);
                evaluated
                    .failed
                    .push(FailedCase { case: case.id.clone(), reason: failure.to_string() });
            }
            Err(failure) => return Err(failure),
        }
        watcher.done();
    }
    watcher.end();
    if evaluated.failed.len() == cases.len() {
        return Err(Failure::input(
            &dataset.path,
            format!("cases: none of the {} could be evaluated (see above)", cases.len()),
        ));
    }
    Ok(evaluated)
}

/// The structures of the data set that the results speak of, in its order.
fn wanted_structures<'a>(
    dataset: &'a Dataset,
    named: &[String],
    source: &Source,
    cases: &[CaseSpec],
) -> Result<Vec<&'a StructureSpec>, Failure> {
    check_names(dataset, named)?;
    let found = source.structures(cases);
    let wanted = |s: &&StructureSpec| {
        found.contains(&s.name) && (named.is_empty() || named.contains(&s.name))
    };
    let structures: Vec<&StructureSpec> = dataset.structures.iter().filter(wanted).collect();
    if structures.is_empty() {
        let names: Vec<String> = found.into_iter().collect();
        let what = match (names.is_empty(), source, cases) {
            (true, Source::Folder(folder), [first, ..]) => format!(
                "cases: there is no result for any of them: no {} (check the folder, and that its files \
                 are called as the cases)",
                result_path(folder, first).display()
            ),
            (true, ..) => "cases: there is no result for any of them".to_owned(),
            _ => {
                let all: Vec<&str> = dataset.structures.iter().map(|s| s.name.as_str()).collect();
                let (whose, wanted) = match named {
                    [] => ("the data set has", all),
                    named => ("are asked for", named.iter().map(String::as_str).collect()),
                };
                let advice = match (named, source) {
                    ([_, ..], _) => "name one of these",
                    (_, Source::Folder(_)) => "are these results of this data set?",
                    _ => "is this the model of this data set?",
                };
                format!(
                    "structures: none of those that {whose} ({}) is among what was detected: {} ({advice})",
                    wanted.join(", "),
                    names.join(", ")
                )
            }
        };
        return Err(Failure::input(&dataset.path, what));
    }
    Ok(structures)
}

/// A case with its annotations, or why they cannot be read.
type AnnotatedCase = (CaseSpec, Result<Annotations, String>);

/// The cases of which something is known or whose annotations cannot be read, which is reported
/// when their turn comes.
fn annotated_cases(
    dataset: &Dataset,
    structures: &[&StructureSpec],
    cases: Vec<CaseSpec>,
) -> Result<Vec<AnnotatedCase>, Failure> {
    let count = cases.len();
    let mut annotated = Vec::new();
    dataset.read_label_boxes(&cases);
    let read =
        read_side_by_side(&cases, CaseSpec::open_image, |case, _| dataset.load_annotations(case));
    for (case, annotations) in cases.into_iter().zip(read) {
        match annotations {
            Ok(annotations) => {
                let at = locations(dataset, &annotations);
                if structures.iter().any(|s| is_annotated(s, &at)) {
                    annotated.push((case, Ok(annotations)));
                }
            }
            Err(error) => annotated.push((case, Err(error.to_string()))),
        }
    }
    if annotated.is_empty() {
        let names: Vec<&str> = structures.iter().map(|s| s.name.as_str()).collect();
        return Err(Failure::input(
            &dataset.path,
            format!("cases: none of the {count} has annotations of {}", names.join(", ")),
        ));
    }
    Ok(annotated)
}

/// The structures whose boxes end anywhere: as the model learned, whose scores rest on it; else by the cases for
/// training, or by those that are evaluated where there are fewer for training.
fn loose_ends(dataset: &Dataset, cases: &[AnnotatedCase], source: &Source) -> Vec<String> {
    let training: Vec<&CaseSpec> = dataset.split("train").collect();
    let telling = match training.len() >= cases.len() {
        true => training,
        false => cases.iter().map(|(case, _)| case).collect(),
    };
    let annotations = |case: &&CaseSpec| {
        let mut annotations = dataset.load_annotations(case).ok()?;
        if let Ok(image) = case.open_image() {
            annotations.bring_into_slice(image.geometry());
        }
        Some(annotations)
    };
    let read: Vec<Annotations> = telling.par_iter().filter_map(annotations).collect();
    let loose = |name: &String| {
        let boxes: Vec<Pose> = read.iter().filter_map(|a| a.pose(name)).copied().collect();
        !dataset.is_many(name) && loose_axis(&boxes).is_some()
    };
    let loose = |name: &String| source.has_loose_ends(name).unwrap_or_else(|| loose(name));
    dataset.structures.iter().map(|s| s.name.clone()).filter(loose).collect()
}

/// What the turn of a case needs.
struct Turn<'a> {
    dataset: &'a Dataset,
    structures: &'a [&'a StructureSpec],
    source: &'a Source,
    tolerance: &'a Tolerance,
    device: &'a Device,
    watcher: &'a dyn Watcher,
}

impl Turn<'_> {
    fn evaluate(
        &self,
        case: &CaseSpec,
        annotations: &Result<Annotations, String>,
    ) -> Result<(Vec<Comparison>, Option<ResultFile>), Failure> {
        let annotations = annotations.as_ref().map_err(Failure::complete_input)?;
        let result = self.source.result(self.dataset, case, self.device, self.watcher)?;
        let mut annotations = annotations.clone();
        let (mut frame, mut plane, mut spacing_mm) = (None, None, [0.0; 3]);
        if let Some(result) = &result {
            let geometry = geometry(&result.input)
                .map_err(|e| Failure::input(&case.image, format!("affine: {e}")))?;
            annotations.bring_into_slice(&geometry);
            let is_wanted = |name: &str| self.structures.iter().any(|s| s.name == name);
            let mut wanted = annotations.clone();
            wanted.boxes.retain(|(name, _)| is_wanted(name));
            wanted.landmarks.retain(|landmark| is_wanted(&landmark.name));
            let unit = result.unit();
            check_annotations(case.annotated_in(), (&geometry, unit), &wanted)?;
            // A slice is as thick as its pixels are wide, as in the training.
            plane = Plane::of(&geometry);
            spacing_mm = plane.as_ref().map_or(&geometry, Plane::geometry).spacing_mm();
            frame = box_of_points(self.dataset, (case, &annotations), (geometry, unit));
        }
        let mut annotated = locations(self.dataset, &annotations);
        annotated.extend(frame.map(|(name, pose)| (name, Location::Box(Some(pose)))));
        let mut detections: Vec<Detection> =
            result.iter().flat_map(|r| &r.detections).map(|d| d.detection()).collect();
        if let Some(plane) = plane {
            for detection in &mut detections {
                if let Location::Box(Some(pose)) = &mut detection.location {
                    *pose = plane.brought_into(pose);
                }
            }
        }
        let found = result.as_ref().map(|_| CaseResult { detections: &detections, spacing_mm });
        let compared = compare(&case.id, self.structures, &annotated, found, self.tolerance)
            .map_err(|what| Failure::input(&case.image, what))?;
        Ok((compared, result))
    }
}

/// All that is annotated, as plain data. A box has a point only where that says that it is out of
/// view.
fn locations(dataset: &Dataset, annotations: &Annotations) -> Vec<(String, Location)> {
    let is_box = |name: &str| {
        dataset.structures.iter().any(|s| s.name == name && s.kind == StructureKind::Box)
    };
    let boxes =
        annotations.boxes.iter().map(|(name, pose)| (name.clone(), Location::Box(Some(*pose))));
    let points = annotations.landmarks.iter().map(|landmark| {
        let at = match landmark.state {
            _ if is_box(&landmark.name) => Location::Box(None),
            LandmarkState::At(point) => Location::Landmark(Some(point)),
            LandmarkState::OutOfView => Location::Landmark(None),
        };
        (landmark.name.clone(), at)
    });
    boxes.chain(points).collect()
}

/// The grid of the image that a result is about.
fn geometry(input: &InputRecord) -> Result<Geometry, GeometryError> {
    Geometry::from_affine(
        input.shape,
        &Matrix4::from_fn(|row, column| input.affine_lps[row][column]),
    )
}
