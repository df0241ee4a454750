//! Samples as bins: what trees grow on.

use crate::label::edges::{Edges, MISSING_BIN};
use rayon::prelude::*;

/// Bins of every feature at every sample, and each sample's class.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelMatrix {
    /// Number of classes.
    classes: usize,
    /// Class of each sample.
    labels: Vec<u8>,
    /// Edges of each feature.
    edges: Vec<Edges>,
    /// Bin of each feature at each sample, `[feature][sample]`.
    bins: Vec<u8>,
    /// How often each sample is there, under other geometries: all first copies, then all second.
    copies: usize,
}

impl LabelMatrix {
    /// A matrix from its parts; `bins` has a row of `labels.len()` for each of the `edges`, each a bin
    /// of those or [`MISSING_BIN`].
    ///
    /// # Panics
    /// When the lengths disagree, a class is out of range, or a bin is none of its feature: a
    /// programming error.
    pub fn new(classes: usize, labels: Vec<u8>, edges: Vec<Edges>, bins: Vec<u8>) -> Self {
        assert_eq!(bins.len(), labels.len() * edges.len(), "bins, samples and features disagree");
        assert!(labels.iter().all(|&label| usize::from(label) < classes), "a class out of range");
        let known = |(edges, row): (&Edges, &[u8])| {
            let count = edges.bins() as u8;
            row.iter().all(|&bin| bin < count || bin == MISSING_BIN)
        };
        assert!(
            edges.iter().zip(bins.chunks_exact(labels.len().max(1))).all(known),
            "a bin that its feature does not have"
        );
        Self { classes, labels, edges, bins, copies: 1 }
    }

    /// The matrix of some of the samples, in this order.
    pub fn of_samples(&self, samples: &[u32]) -> Self {
        let count = self.labels.len();
        let mut bins = vec![0; samples.len() * self.edges.len()];
        let rows =
            bins.par_chunks_mut(samples.len().max(1)).zip(self.bins.par_chunks(count.max(1)));
        rows.for_each(|(own, row)| {
            own.iter_mut().zip(samples).for_each(|(own, &s)| *own = row[s as usize]);
        });
        Self {
            classes: self.classes,
            labels: samples.iter().map(|&s| self.labels[s as usize]).collect(),
            edges: self.edges.clone(),
            bins,
            copies: 1,
        }
    }

    /// The same, whose second half are the mirrored twins of the first: trees draw both or none.
    ///
    /// # Panics
    /// When the number of samples is odd: a programming error.
    pub fn with_twins(self) -> Self {
        assert!(self.labels.len().is_multiple_of(2), "a sample without a twin");
        Self { copies: 2, ..self }
    }

    /// How often each sample is there: 2 where there are mirrored twins, else 1.
    pub(crate) fn copies(&self) -> usize {
        self.copies
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Class of each sample.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Number of features.
    pub fn features(&self) -> usize {
        self.edges.len()
    }

    /// Edges of a feature.
    pub fn edges(&self, feature: u32) -> &Edges {
        &self.edges[feature as usize]
    }

    /// Bins of all features, `[feature][sample]`.
    pub fn bins(&self) -> &[u8] {
        &self.bins
    }

    /// Bins of a feature, sample by sample.
    pub fn row(&self, feature: u32) -> &[u8] {
        &self.bins[feature as usize * self.labels.len()..][..self.labels.len()]
    }
}
