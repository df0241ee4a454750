//! Work that reads the images of cases.

use crate::data::training_data::TrainingData;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Images of more voxels are read one after the other: side by side, threads would hold as many at a
/// time.
const LARGE: usize = 1 << 26;

/// What `of` makes of each of these cases, each of which may come several times.
///
/// # Errors
/// Whatever `of` gives for one of them.
pub(crate) fn each_image<D: TrainingData, T: Send>(
    data: &D,
    cases: impl Iterator<Item = usize>,
    of: impl Fn(usize) -> Result<T, D::Error> + Sync,
) -> Result<BTreeMap<usize, T>, D::Error> {
    let is_large = |case: &usize| data.list().geometry(*case).len() > LARGE;
    let cases: BTreeSet<usize> = cases.collect();
    let (large, small): (Vec<usize>, Vec<usize>) = cases.into_iter().partition(is_large);
    let made = |case: usize| Ok((case, of(case)?));
    let mut all: BTreeMap<usize, T> =
        small.into_par_iter().map(made).collect::<Result<_, D::Error>>()?;
    for case in large {
        all.extend([made(case)?]);
    }
    Ok(all)
}
