//! A classifier with the features that it uses: Haar at voxels, steerable in posed boxes.

use crate::DetectError;
use crate::stages::samples::{HaarSamples, PoseSamples};
use pbt_features::{BoxGrid, HaarFeature, SteerableFeature};
use pbt_tree::{
    Backend, Classifier, ClassifierParams, PoseSite, SampleSource, TrainingSet, VoxelSite,
    train_classifier, used_features,
};

/// Training samples with their labels and cases.
#[derive(Debug, Clone)]
pub(crate) struct Labelled<S> {
    pub(crate) sites: Vec<S>,
    pub(crate) labels: Vec<bool>,
    /// The case of each sample: what forests bootstrap.
    pub(crate) groups: Vec<u32>,
}

impl<S> Labelled<S> {
    pub(crate) fn new() -> Self {
        Self { sites: Vec::new(), labels: Vec::new(), groups: Vec::new() }
    }

    pub(crate) fn push(&mut self, site: S, label: bool, group: usize) {
        self.sites.push(site);
        self.labels.push(label);
        self.groups.push(group as u32);
    }

    /// All samples of several lists, in their order.
    pub(crate) fn concat(lists: impl IntoIterator<Item = Self>) -> Self {
        lists.into_iter().fold(Self::new(), |mut all, list| {
            all.extend(list);
            all
        })
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.sites.extend(more.sites);
        self.labels.extend(more.labels);
        self.groups.extend(more.groups);
    }
}

/// A classifier over Haar features.
#[derive(Debug, Clone, PartialEq)]
pub struct HaarClassifier {
    /// The features that the trees refer to.
    pub features: Vec<HaarFeature>,
    /// The trees.
    pub classifier: Classifier,
}

/// A classifier over steerable features on a grid in a posed box.
#[derive(Debug, Clone, PartialEq)]
pub struct PoseClassifier {
    /// Where the box is sampled.
    pub grid: BoxGrid,
    /// The features that the trees refer to.
    pub features: Vec<SteerableFeature>,
    /// The trees.
    pub classifier: Classifier,
}

impl HaarClassifier {
    /// Trains on voxels of several images; the image is the group that forests draw.
    pub(crate) fn train<B: Backend>(
        backend: &B,
        images: &[&B::Image],
        pool: &[HaarFeature],
        samples: &Labelled<VoxelSite>,
        config: &ClassifierParams,
        seed: u64,
    ) -> Result<Self, DetectError> {
        let source = HaarSamples { backend, images, pool, sites: &samples.sites };
        let (classifier, used) = train(&source, samples, backend, config, seed)?;
        Ok(Self { features: used.into_iter().map(|f| pool[f as usize]).collect(), classifier })
    }
}

impl PoseClassifier {
    /// Trains on poses in several images; the case is the group that forests draw.
    pub(crate) fn train<B: Backend>(
        backend: &B,
        images: &[&B::Image],
        grid: BoxGrid,
        pool: &[SteerableFeature],
        samples: &Labelled<PoseSite>,
        config: &ClassifierParams,
        seed: u64,
    ) -> Result<Self, DetectError> {
        let source = PoseSamples { backend, images, grid: &grid, pool, sites: &samples.sites };
        let (classifier, used) = train(&source, samples, backend, config, seed)?;
        Ok(Self {
            grid,
            features: used.into_iter().map(|f| pool[f as usize]).collect(),
            classifier,
        })
    }
}

/// Trains, and numbers the features anew so that only those in use are left.
fn train<B: Backend, S>(
    source: &dyn SampleSource,
    samples: &Labelled<S>,
    backend: &B,
    config: &ClassifierParams,
    seed: u64,
) -> Result<(Classifier, Vec<u32>), DetectError> {
    let set = TrainingSet { source, labels: &samples.labels, groups: &samples.groups };
    let mut classifier = train_classifier(&set, backend, config, seed)
        .map_err(|e| DetectError::training("classifier", e.to_string()))?;
    let used = used_features(&mut classifier.trees);
    Ok((classifier, used))
}
