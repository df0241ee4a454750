//! Some of the cases of a data set, or some of its structures.

use crate::data::case_list::CaseList;
use crate::data::training_data::{Annotated, TrainingData};
use crate::segment::data::RegionName;
use pbt_volume::{PointLps, RealVolume, Volume};

/// Data without the cases that are held out, or without the structures that are trained apart.
pub(crate) struct Part<'a, D: ?Sized> {
    data: &'a D,
    /// Indices of the cases that are left, ascending.
    kept: Vec<usize>,
    /// Names of the structures that are left, in the order of the data.
    structures: Vec<String>,
    list: CaseList,
}

impl<'a, D: TrainingData + ?Sized> Part<'a, D> {
    /// All structures in these cases.
    pub(crate) fn new(data: &'a D, kept: Vec<usize>) -> Self {
        let structures = data.structures().into_iter().map(|(name, _)| name).collect();
        Self::of_both(data, kept, structures)
    }

    /// These structures in the cases that tell of one of them.
    pub(crate) fn of_structures(data: &'a D, structures: Vec<String>) -> Self {
        let mut kept: Vec<usize> = structures.iter().flat_map(|name| data.absent(name)).collect();
        let annotated = data.structures().into_iter().filter(|(name, _)| structures.contains(name));
        kept.extend(annotated.flat_map(|(_, cases)| cases).map(|(case, _)| case));
        kept.sort_unstable();
        kept.dedup();
        Self::of_both(data, kept, structures)
    }

    fn of_both(data: &'a D, kept: Vec<usize>, structures: Vec<String>) -> Self {
        let mut list = data.list().clone();
        list.cases = kept.iter().map(|&case| list.cases[case].clone()).collect();
        Self { data, kept, structures, list }
    }

    /// What is annotated in the cases that are left, by their new indices.
    fn of<T>(&self, annotated: Vec<(usize, T)>) -> Vec<(usize, T)> {
        let new = |case: usize| self.kept.binary_search(&case).ok();
        annotated.into_iter().filter_map(|(case, at)| Some((new(case)?, at))).collect()
    }
}

impl<D: TrainingData + ?Sized> TrainingData for Part<'_, D> {
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
        let left = all.filter(|(name, _)| self.structures.contains(name));
        left.map(|(name, annotated)| (name, self.of(annotated))).collect()
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

    fn label_names(&self) -> &[RegionName] {
        self.data.label_names()
    }

    fn has_classes(&self, case: usize) -> bool {
        self.data.has_classes(self.kept[case])
    }

    fn classes(&self, case: usize) -> Result<Option<Volume<u8>>, D::Error> {
        self.data.classes(self.kept[case])
    }
}
