//! A classifier with the features that it uses: Haar at voxels, steerable in posed boxes.

use crate::DetectError;
use crate::stages::sample_source::Samples;
use pbt_tree::{
    Classifier, ClassifierParams, Evaluate, FeatureFamily, Haar, Score, Steerable, TrainingSet,
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

/// A classifier over a family of features.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyClassifier<F: FeatureFamily> {
    /// The family: what its features need beside themselves.
    pub family: F,
    /// The features that the trees refer to.
    pub features: Vec<F::Feature>,
    /// The trees.
    pub classifier: Classifier,
}

/// A classifier over Haar features at voxels.
pub type HaarClassifier = FamilyClassifier<Haar>;

/// A classifier over steerable features on a grid in a posed box.
pub type PoseClassifier = FamilyClassifier<Steerable>;

impl<F: FeatureFamily> FamilyClassifier<F> {
    /// Trains on sites in several images; the case is the group that forests draw. Features are
    /// numbered anew, so that only those in use are left.
    pub(crate) fn train<B: Evaluate<F>>(
        backend: &B,
        images: &[&B::Image],
        family: F,
        pool: &[F::Feature],
        samples: &Labelled<F::Site>,
        config: &ClassifierParams,
        seed: u64,
    ) -> Result<Self, DetectError> {
        let source = Samples { backend, images, family: &family, pool, sites: &samples.sites };
        let set = TrainingSet { source: &source, labels: &samples.labels, groups: &samples.groups };
        let mut classifier = train_classifier(&set, backend, config, seed)
            .map_err(|e| DetectError::of_trees("classifier", e))?;
        let used = used_features(&mut classifier.trees);
        let features = used.into_iter().map(|f| pool[f as usize].clone()).collect();
        Ok(Self { family, features, classifier })
    }

    /// Scores of the targets in an image, in their order.
    pub(crate) fn score<B: Evaluate<F>>(
        &self,
        backend: &B,
        image: &B::Image,
        targets: &F::Targets,
    ) -> Result<Vec<Score>, DetectError> {
        Ok(backend.score(image, &self.family, &self.features, &self.classifier, targets)?)
    }

    /// The `k` best targets, by their index, with their scores, the best first.
    pub(crate) fn best<B: Evaluate<F>>(
        &self,
        backend: &B,
        image: &B::Image,
        targets: &F::Targets,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, DetectError> {
        Ok(backend.best(image, &self.family, &self.features, &self.classifier, targets, k)?)
    }
}
