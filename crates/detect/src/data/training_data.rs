//! The data of a training: images, annotated structures and landmarks, copies and subjects.

use crate::DetectError;
use crate::data::case_list::CaseList;
use crate::segment::data::RegionName;
use pbt_volume::{Plane, PointLps, Pose, RealVolume, Volume};
use std::collections::BTreeMap;

/// Fewest annotated cases of a structure.
pub const FEWEST_CASES: usize = 2;

/// The data of a training, as the shells read them.
pub trait TrainingData: Sync {
    /// What can go wrong on reading.
    type Error: Send + From<DetectError>;

    /// The cases, each with the grid of its image as [`TrainingData::image`] reads it.
    fn list(&self) -> &CaseList;

    /// Reads the image of a case without what only surrounds it: [`pbt_volume::trimmed`]. An image of
    /// one slice is laid flat: [`pbt_volume::Plane`]. Of an image of several channels this is the first.
    ///
    /// # Errors
    /// Whatever the reader says.
    fn image(&self, case: usize) -> Result<RealVolume, Self::Error>;

    /// Reads all channels of the image of a case, in the order of [`CaseList::channels`], the first as
    /// [`TrainingData::image`] has it and the others without the same planes
    /// ([`pbt_volume::trimmed_channels`]).
    ///
    /// # Errors
    /// Whatever the reader says.
    fn channels(&self, case: usize) -> Result<Vec<RealVolume>, Self::Error> {
        Ok(vec![self.image(case)?])
    }

    /// The structures to train, each with the cases that have it.
    fn structures(&self) -> Vec<Annotated>;

    /// The landmarks to train in the frame of a structure, each with the cases that have it.
    fn landmarks(&self, _structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        Vec::new()
    }

    /// The cases that are said not to have a structure or landmark, ascending: it is outside the image, or
    /// the patient has none. Of all others without its annotation nothing is known.
    fn absent(&self, _name: &str) -> Vec<usize> {
        Vec::new()
    }

    /// Whether a structure may occur several times in an image. Its cases then come once an instance.
    fn is_many(&self, _structure: &str) -> bool {
        false
    }

    /// The mirror twin of a structure or landmark, where the data name one.
    fn partner(&self, _structure: &str) -> Option<String> {
        None
    }

    /// The person or animal of a case, where the data name one: its cases are never divided between
    /// those that are learned from and those that are held out.
    fn subject(&self, _case: usize) -> Option<&str> {
        None
    }

    /// Whether a copy has the voxels of its case as they are, only placed elsewhere.
    fn shows_its_origin(&self, _case: usize) -> bool {
        true
    }

    /// The labels of label maps.
    fn label_names(&self) -> &[RegionName] {
        &[]
    }

    /// Whether a case has a label map.
    fn has_classes(&self, _case: usize) -> bool {
        false
    }

    /// The class of each voxel of a case's label map, on a grid of its own: `n + 1` for the label
    /// `n`, 0 for none, [`crate::IGNORED`] for what does not count.
    ///
    /// # Errors
    /// Whatever the reader says.
    fn classes(&self, _case: usize) -> Result<Option<Volume<u8>>, Self::Error> {
        Ok(None)
    }

    /// The case that a case is a copy of, or itself.
    fn origin(&self, case: usize) -> usize {
        case
    }
}

/// Data of any kind. A training that takes them so is compiled once, not again for copies of them and parts.
pub(crate) type AnyData<'a, E> = dyn TrainingData<Error = E> + 'a;

/// Name of a structure, and the cases that have it with its pose.
pub(crate) type Annotated = (String, Vec<(usize, Pose)>);

/// Name of a landmark, and the cases that have it with its place.
pub(crate) type Points = (String, Vec<(usize, PointLps)>);

/// Whether the images have one slice, laid flat in z = 0.
pub(crate) fn is_flat<D: TrainingData + ?Sized>(data: &D) -> bool {
    !data.list().is_empty() && Plane::of(data.list().geometry(0)).is_some()
}

/// Which of the annotated cases of a structure belong together.
pub(crate) struct Subjects {
    /// By annotated case, the number of its subject.
    subjects: Vec<usize>,
    /// By annotated case, the number of the case that it is or is a copy of.
    origins: Vec<usize>,
}

impl Subjects {
    /// Copies belong to the subject of what they are copies of; a case without a named subject is
    /// a subject of its own.
    pub(crate) fn new<D: TrainingData + ?Sized, T>(data: &D, annotated: &[(usize, T)]) -> Self {
        let origins: Vec<usize> = annotated.iter().map(|&(case, _)| data.origin(case)).collect();
        // The first case with the same subject stands for it.
        let first = |&origin: &usize| match data.subject(origin) {
            None => origin,
            Some(own) => origins
                .iter()
                .copied()
                .filter(|&other| data.subject(other) == Some(own))
                .min()
                .unwrap_or(origin),
        };
        let firsts: Vec<usize> = origins.iter().map(first).collect();
        Self { subjects: numbered(&firsts), origins: numbered(&origins) }
    }

    /// The subject of an annotated case, numbered from 0.
    pub(crate) fn subject(&self, n: usize) -> usize {
        self.subjects[n]
    }

    /// The case that an annotated case is or is a copy of, numbered from 0.
    pub(crate) fn origin(&self, n: usize) -> usize {
        self.origins[n]
    }

    /// Number of subjects.
    pub(crate) fn count(&self) -> usize {
        self.subjects.iter().max().map_or(0, |last| last + 1)
    }

    /// Number of cases without copies.
    pub(crate) fn originals(&self) -> usize {
        self.origins.iter().max().map_or(0, |last| last + 1)
    }
}

/// Each value's rank among the distinct values.
fn numbered(values: &[usize]) -> Vec<usize> {
    let mut ranks: BTreeMap<usize, usize> = values.iter().map(|&value| (value, 0)).collect();
    ranks.values_mut().enumerate().for_each(|(n, rank)| *rank = n);
    values.iter().map(|value| ranks[value]).collect()
}
