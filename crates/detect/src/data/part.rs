//! Some of the cases of a data set.

use crate::data::case_list::CaseList;
use crate::data::training_data::{Annotated, TrainingData};
use pbt_volume::{PointLps, RealVolume};

/// Data without the cases that are held out.
pub(crate) struct Part<'a, D> {
    data: &'a D,
    /// Indices of the cases that are left, ascending.
    kept: Vec<usize>,
    list: CaseList,
}

impl<'a, D: TrainingData> Part<'a, D> {
    pub(crate) fn new(data: &'a D, kept: Vec<usize>) -> Self {
        let mut list = data.list().clone();
        list.cases = kept.iter().map(|&case| list.cases[case].clone()).collect();
        Self { data, kept, list }
    }

    /// What is annotated in the cases that are left, by their new indices.
    fn of<T>(&self, annotated: Vec<(usize, T)>) -> Vec<(usize, T)> {
        let new = |case: usize| self.kept.binary_search(&case).ok();
        annotated.into_iter().filter_map(|(case, at)| Some((new(case)?, at))).collect()
    }
}

impl<D: TrainingData> TrainingData for Part<'_, D> {
    type Error = D::Error;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, D::Error> {
        self.data.image(self.kept[case])
    }

    fn channels(&self, case: usize) -> Result<Vec<RealVolume>, D::Error> {
        self.data.channels(self.kept[case])
    }

    fn structures(&self) -> Vec<Annotated> {
        let all = self.data.structures().into_iter();
        all.map(|(name, annotated)| (name, self.of(annotated))).collect()
    }

    fn landmarks(&self, structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        let all = self.data.landmarks(structure).into_iter();
        all.map(|(name, annotated)| (name, self.of(annotated))).collect()
    }

    fn absent(&self, name: &str) -> Vec<usize> {
        let all = self.data.absent(name).into_iter().map(|case| (case, ())).collect();
        self.of(all).into_iter().map(|(case, ())| case).collect()
    }

    fn is_many(&self, structure: &str) -> bool {
        self.data.is_many(structure)
    }

    fn partner(&self, structure: &str) -> Option<String> {
        self.data.partner(structure)
    }

    fn subject(&self, case: usize) -> Option<&str> {
        self.data.subject(self.kept[case])
    }
}
