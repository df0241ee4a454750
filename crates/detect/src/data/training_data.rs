//! The data of a training: images, annotated structures and landmarks, copies and look-alikes.

use crate::DetectError;
use pbt_volume::{Geometry, PointLps, Pose, Volume};
use std::collections::{BTreeMap, BTreeSet};

/// Fewest annotated cases of a structure.
pub const FEWEST_CASES: usize = 2;

/// The data of a training, as the shells read them.
pub trait TrainingData: Sync {
    /// What can go wrong on reading.
    type Error: Send + From<DetectError>;

    /// Name of the data set.
    fn name(&self) -> &str;

    /// `CT`, `MR`, `US` or another word.
    fn modality(&self) -> &str;

    /// Names of the cases.
    fn cases(&self) -> &[String];

    /// Hash of a case's image file.
    fn image_sha256(&self, case: usize) -> &str;

    /// Grid of a case's image.
    fn geometry(&self, case: usize) -> &Geometry;

    /// Reads the image of a case.
    ///
    /// # Errors
    /// Whatever the reader says.
    fn image(&self, case: usize) -> Result<Volume<f32>, Self::Error>;

    /// The structures to train, each with the cases that have it.
    fn structures(&self) -> Vec<Annotated>;

    /// The landmarks to train in the frame of a structure, each with the cases that have it.
    fn landmarks(&self, _structure: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        Vec::new()
    }

    /// The mirror twin of a structure or landmark, where the data name one.
    fn partner(&self, _structure: &str) -> Option<String> {
        None
    }

    /// The case that a case is a copy of, or itself.
    fn origin(&self, case: usize) -> usize {
        case
    }
}

/// Name of a structure, and the cases that have it with its pose.
pub(crate) type Annotated = (String, Vec<(usize, Pose)>);

/// By annotated case, the number of the case that it is a copy of among those that have copies or
/// are none.
pub(crate) fn groups<D: TrainingData, T>(data: &D, annotated: &[(usize, T)]) -> Vec<usize> {
    let origins: BTreeSet<usize> = annotated.iter().map(|&(case, _)| data.origin(case)).collect();
    let numbers: BTreeMap<usize, usize> =
        origins.into_iter().enumerate().map(|(n, origin)| (origin, n)).collect();
    annotated.iter().map(|&(case, _)| numbers[&data.origin(case)]).collect()
}

/// Mean edge lengths of look-alikes differ by less than this, |ln|.
const ALIKE: f64 = 0.3;

/// Place of the first structure whose mean edge lengths are about those of structure `n`:
/// vertebrae, ribs, teeth.
pub(crate) fn leader(structures: &[Annotated], n: usize) -> usize {
    let mean = |m: usize| -> [f64; 3] {
        let poses = &structures[m].1;
        std::array::from_fn(|a| {
            poses.iter().map(|(_, p)| libm::log(p.size_mm[a])).sum::<f64>() / poses.len() as f64
        })
    };
    let own = mean(n);
    let alike = |m: usize| mean(m).iter().zip(&own).all(|(a, b)| (a - b).abs() < ALIKE);
    // A leader leads itself, so that groups do not chain.
    (0..n).find(|&m| alike(m) && leader(structures, m) == m).unwrap_or(n)
}

/// The poses of other structures of a case that look like structure `n`.
pub(crate) fn look_alikes(structures: &[Annotated], n: usize, case: usize) -> Vec<Pose> {
    let first = leader(structures, n);
    let others = (0..structures.len()).filter(|&m| m != n && leader(structures, m) == first);
    others
        .flat_map(|m| structures[m].1.iter().filter(|(c, _)| *c == case).map(|&(_, pose)| pose))
        .collect()
}
