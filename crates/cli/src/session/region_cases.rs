//! Cases of a data set of regions, and training on them.

use crate::session::cases::case_list;
use crate::session::{Device, Failure, TrainedModel, TrainedOn, Wanted};
use pbt_detect::{
    CaseList, IGNORED, LabelledImage, ListedCase, Observer, RegionData, RegionName, TrainConfig,
    Trained,
};
use pbt_io::{
    CaseSpec, Dataset, IGNORED_CLASS, IoError, OpenImage, RegionLabels, read_side_by_side,
};
use pbt_volume::{LengthUnit, sha256_hex};

// Both crates leave such voxels out; neither knows the other.
const _: () = assert!(IGNORED == IGNORED_CLASS);

/// Training cases with label maps.
pub struct RegionCases {
    list: CaseList,
    regions: Vec<RegionName>,
    /// By region, its partner or itself.
    partners: Vec<usize>,
    labels: RegionLabels,
    cases: Vec<RegionCase>,
}

struct RegionCase {
    spec: CaseSpec,
    unit: LengthUnit,
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
        let read = |spec: &&CaseSpec, image: Result<OpenImage, IoError>| {
            let image = image?.read()?;
            let geometry = image.volume.geometry().clone();
            labels.read(spec, &geometry)?;
            let listed = ListedCase { id: spec.id.clone(), image_sha256: image.sha256, geometry };
            let (unit, warnings) = (image.unit, image.warnings);
            Ok((listed, RegionCase { spec: (*spec).clone(), unit, warnings }))
        };
        let labelled: Vec<&CaseSpec> = cases.iter().filter(|case| case.labels.is_some()).collect();
        if labelled.is_empty() {
            let what = "cases: none of those for training has a label map (give `labels`)";
            return Err(Failure::input(&dataset.path, what));
        }
        let all = read_side_by_side(&labelled, |spec| spec.open_image(), read);
        let all = all.into_iter().collect::<Result<Vec<_>, Failure>>()?;
        let (listed, cases): (Vec<ListedCase>, Vec<RegionCase>) = all.into_iter().unzip();
        let unit = LengthUnit::of_all(cases.iter().map(|case| case.unit));
        let region =
            |(name, value): &(String, u16)| RegionName { name: name.clone(), value: *value };
        Ok(Self {
            list: case_list(dataset, unit, listed.into_iter()),
            regions: labels.regions.iter().map(region).collect(),
            partners: partners(dataset, &labels),
            labels,
            cases,
        })
    }

    /// What the user should know, each with its case.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let of = |case: &RegionCase| {
            case.warnings.iter().map(|w| format!("{}: {w}", case.spec.id)).collect::<Vec<_>>()
        };
        let unused = self.list.channels.first().map(|first| {
            format!("channels: regions are labelled by the first channel, `{first}`, alone")
        });
        unused.into_iter().chain(self.cases.iter().flat_map(of))
    }
}

impl RegionData for RegionCases {
    type Error = Failure;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn regions(&self) -> &[RegionName] {
        &self.regions
    }

    fn partner(&self, region: usize) -> usize {
        self.partners[region]
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

/// By region, the one that is its mirror twin, or itself.
fn partners(dataset: &Dataset, labels: &RegionLabels) -> Vec<usize> {
    let place = |name: &str| labels.regions.iter().position(|(known, _)| known == name);
    let partner = |name: &String| {
        let structure = dataset.structures.iter().find(|s| s.name == *name)?;
        let other = structure.partner.as_deref()?;
        place(other)
    };
    let of = |(n, (name, _)): (usize, &(String, u16))| partner(name).unwrap_or(n);
    labels.regions.iter().enumerate().map(of).collect()
}

/// Trains a forest of regions. `observer` is told of every stage.
///
/// # Errors
/// Exit code 4 for data or settings that cannot be used, 130 when the observer interrupts.
pub fn train_regions(
    dataset: &Dataset,
    cases: &RegionCases,
    config: &TrainConfig,
    seed: u64,
    device: &Device,
    observer: &dyn Observer,
) -> Result<TrainedModel, Failure> {
    let Trained { model, figures, suspicions, warnings } = device
        .train_regions(cases, config, seed, observer)
        .map_err(|failure| failure.about(&dataset.path))?;
    let bytes = model.to_bytes()?;
    let known = |case: &ListedCase| TrainedOn {
        case: case.id.clone(),
        image_sha256: case.image_sha256.clone(),
    };
    Ok(TrainedModel {
        sha256: sha256_hex(&[&bytes]),
        model,
        bytes,
        figures,
        cases: cases.list.cases.iter().map(known).collect(),
        labels_sha256: None,
        suspicions,
        warnings,
    })
}
