//! A data set as training and evaluation use it.

use crate::Failure;
use pbt_detect::TrainingData;
use pbt_io::{CaseSpec, Dataset, StructureKind, check_annotations};
use pbt_volume::{Geometry, Pose, Volume};
use rayon::prelude::*;

/// The boxes of a case, with what was checked when it was read.
#[derive(Debug, Clone)]
pub struct AnnotatedCase {
    /// The case.
    pub spec: CaseSpec,
    /// Structure and pose; only what the case has.
    pub boxes: Vec<(String, Pose)>,
    /// Hash of the image file.
    pub sha256: String,
    /// Grid of the image.
    pub geometry: Geometry,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Names of the boxes that are wanted: those named, or all of the data set.
///
/// # Errors
/// A name that the data set does not have, or a landmark, which this version does not train.
pub fn wanted_boxes(dataset: &Dataset, named: &[String]) -> Result<Vec<String>, Failure> {
    for name in named {
        match dataset.structures.iter().find(|s| &s.name == name) {
            None => {
                let known: Vec<&str> = dataset.structures.iter().map(|s| s.name.as_str()).collect();
                return Err(Failure::input(&dataset.path, format!("structures: there is no `{name}` (there are: {})", known.join(", "))));
            }
            Some(s) if s.kind == StructureKind::Landmark => {
                return Err(Failure::input(&dataset.path, format!("structures: `{name}` is a landmark; this version trains boxes only")));
            }
            Some(_) => {}
        }
    }
    let boxes: Vec<String> = dataset
        .structures
        .iter()
        .filter(|s| s.kind == StructureKind::Box && (named.is_empty() || named.contains(&s.name)))
        .map(|s| s.name.clone())
        .collect();
    if boxes.is_empty() {
        return Err(Failure::input(&dataset.path, "structures: there is no structure of the kind `box` to train"));
    }
    Ok(boxes)
}

/// Reads images and annotations of cases and checks that they belong together.
///
/// # Errors
/// The first case, in the file's order, that cannot be read or whose annotations lie outside its image.
pub fn read_cases(dataset: &Dataset, cases: &[CaseSpec], boxes: &[String]) -> Result<Vec<AnnotatedCase>, Failure> {
    let read = |spec: &CaseSpec| -> Result<AnnotatedCase, Failure> {
        let image = spec.read_image()?;
        let mut annotations = dataset.load_annotations(spec)?;
        annotations.boxes.retain(|(name, _)| boxes.contains(name));
        annotations.landmarks.clear();
        let file = spec.annotations.as_deref().or(spec.labels.as_deref()).unwrap_or(&spec.image);
        let mut warnings = image.warnings.clone();
        warnings.extend(check_annotations(file, image.volume.geometry(), &annotations)?);
        Ok(AnnotatedCase {
            spec: spec.clone(),
            boxes: annotations.boxes,
            sha256: image.sha256,
            geometry: image.volume.geometry().clone(),
            warnings,
        })
    };
    let all: Vec<Result<AnnotatedCase, Failure>> = cases.par_iter().map(read).collect();
    all.into_iter().collect()
}

/// Training cases of a data set.
pub struct TrainingCases {
    name: String,
    modality: String,
    ids: Vec<String>,
    structures: Vec<String>,
    cases: Vec<AnnotatedCase>,
}

impl TrainingCases {
    /// The cases of a data set with the wanted boxes.
    pub fn new(dataset: &Dataset, cases: Vec<AnnotatedCase>, structures: Vec<String>) -> Self {
        Self {
            name: dataset.name.clone(),
            modality: dataset.modality.to_string(),
            ids: cases.iter().map(|c| c.spec.id.clone()).collect(),
            structures,
            cases,
        }
    }
}

impl TrainingData for TrainingCases {
    type Error = Failure;

    fn name(&self) -> &str {
        &self.name
    }

    fn modality(&self) -> &str {
        &self.modality
    }

    fn cases(&self) -> &[String] {
        &self.ids
    }

    fn image_sha256(&self, case: usize) -> &str {
        &self.cases[case].sha256
    }

    fn geometry(&self, case: usize) -> &Geometry {
        &self.cases[case].geometry
    }

    fn image(&self, case: usize) -> Result<Volume<f32>, Failure> {
        Ok(self.cases[case].spec.read_image()?.volume)
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let pose = |case: &AnnotatedCase, name: &str| case.boxes.iter().find(|(n, _)| n == name).map(|&(_, pose)| pose);
        self.structures
            .iter()
            .map(|name| (name.clone(), self.cases.iter().enumerate().filter_map(|(n, c)| Some((n, pose(c, name)?))).collect()))
            .collect()
    }
}
