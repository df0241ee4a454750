//! Cases of a data set of regions, and training on them.

use crate::session::{Failure, TrainedModel, TrainedOn, Wanted};
use pbt_cpu::Cpu;
use pbt_detect::{IGNORED, LabelledImage, Observer, RegionData, RegionName, TrainConfig, Trained};
use pbt_io::{CaseSpec, Dataset, IGNORED_CLASS, RegionLabels};
use pbt_volume::{Geometry, sha256_hex};
use rayon::prelude::*;

// Both crates leave such voxels out; neither knows the other.
const _: () = assert!(IGNORED == IGNORED_CLASS);

/// Training cases with label maps.
pub struct RegionCases {
    name: String,
    modality: String,
    regions: Vec<RegionName>,
    labels: RegionLabels,
    ids: Vec<String>,
    cases: Vec<RegionCase>,
}

struct RegionCase {
    spec: CaseSpec,
    sha256: String,
    geometry: Geometry,
    warnings: Vec<String>,
}

impl RegionCases {
    /// Reads images and label maps of cases once, to know that all can be used. Cases without a label
    /// map are left out.
    ///
    /// # Errors
    /// A region without a value, and the first case, in the file's order, that cannot be read.
    pub fn read(dataset: &Dataset, cases: &[CaseSpec], wanted: &Wanted) -> Result<Self, Failure> {
        let labels = dataset.region_labels(&wanted.regions)?;
        let read = |spec: &CaseSpec| -> Result<RegionCase, Failure> {
            let image = spec.read_image()?;
            let geometry = image.volume.geometry().clone();
            labels.read(spec, &geometry)?;
            let warnings = image.warnings;
            Ok(RegionCase { spec: spec.clone(), sha256: image.sha256, geometry, warnings })
        };
        let labelled: Vec<&CaseSpec> = cases.iter().filter(|case| case.labels.is_some()).collect();
        if labelled.is_empty() {
            let what = "cases: none of those for training has a label map (give `labels`)";
            return Err(Failure::input(&dataset.path, what));
        }
        let all: Vec<Result<RegionCase, Failure>> = labelled.into_par_iter().map(read).collect();
        let cases = all.into_iter().collect::<Result<Vec<RegionCase>, Failure>>()?;
        let region =
            |(name, value): &(String, u16)| RegionName { name: name.clone(), value: *value };
        Ok(Self {
            name: dataset.name.clone(),
            modality: dataset.modality.to_string(),
            regions: labels.regions.iter().map(region).collect(),
            labels,
            ids: cases.iter().map(|case| case.spec.id.clone()).collect(),
            cases,
        })
    }

    /// What the user should know, each with its case.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let of = |case: &RegionCase| {
            case.warnings.iter().map(|w| format!("{}: {w}", case.spec.id)).collect::<Vec<_>>()
        };
        self.cases.iter().flat_map(of)
    }
}

impl RegionData for RegionCases {
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

    fn regions(&self) -> &[RegionName] {
        &self.regions
    }

    fn load(&self, case: usize) -> Result<LabelledImage, Failure> {
        let spec = &self.cases[case].spec;
        let image = spec.read_image()?.volume;
        match self.labels.read(spec, image.geometry())? {
            Some(classes) => Ok(LabelledImage { image, classes }),
            None => Err(Failure::input(&spec.image, "labels: the case has none")),
        }
    }
}

/// Trains a forest of regions, on the CPU. `observer` is told of every stage.
///
/// # Errors
/// Exit code 4 for data or settings that cannot be used, 130 when the observer interrupts.
pub fn train_regions(
    dataset: &Dataset,
    cases: &RegionCases,
    config: &TrainConfig,
    seed: u64,
    observer: &dyn Observer,
) -> Result<TrainedModel, Failure> {
    let Trained { model, figures, suspicions, warnings } =
        pbt_detect::train_regions(&Cpu, cases, config, seed, observer)
            .map_err(|failure| failure.about(&dataset.path))?;
    let bytes = model.to_bytes()?;
    let known = |case: &RegionCase| TrainedOn {
        case: case.spec.id.clone(),
        image_sha256: case.sha256.clone(),
    };
    Ok(TrainedModel {
        sha256: sha256_hex(&[&bytes]),
        model,
        bytes,
        figures,
        cases: cases.cases.iter().map(known).collect(),
        suspicions,
        warnings,
    })
}
