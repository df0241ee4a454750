//! Work that reads the images of cases.

use crate::data::training_data::TrainingData;
use crate::side_by_side;
use pbt_volume::memory_limit;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that are held for a voxel of an image while it is read and resampled.
const VOXEL_BYTES: u64 = 8;

/// What images that are read side by side may hold together, as a part of the memory that may be
/// taken.
const PART: u64 = 4;

/// How many images of so many voxels are read at a time: as many as there are threads, and memory
/// for.
pub fn images_at_a_time(voxels: usize, threads: usize) -> usize {
    let fit = memory_limit() / PART / (VOXEL_BYTES * voxels as u64).max(1);
    threads.min(usize::try_from(fit).unwrap_or(usize::MAX)).max(1)
}

/// What `of` makes of each of these cases, each of which may come several times.
///
/// # Errors
/// Whatever `of` gives for one of them.
pub(crate) fn each_image<D: TrainingData + ?Sized, T: Send>(
    data: &D,
    cases: impl Iterator<Item = usize>,
    of: impl Fn(usize) -> Result<T, D::Error> + Sync,
) -> Result<BTreeMap<usize, T>, D::Error> {
    let cases: Vec<usize> = cases.collect::<BTreeSet<usize>>().into_iter().collect();
    let at_a_time = cases_at_a_time(data, &cases, rayon::current_num_threads());
    let all = side_by_side::each(cases.len(), at_a_time, |n| of(cases[n]))?;
    Ok(cases.into_iter().zip(all).collect())
}

/// How many of these cases' images are read at a time.
pub(crate) fn cases_at_a_time<D: TrainingData + ?Sized>(
    data: &D,
    cases: &[usize],
    threads: usize,
) -> usize {
    let voxels =
        |&case: &usize| data.list().geometry(case).len() * data.list().channels.len().max(1);
    images_at_a_time(cases.iter().map(voxels).max().unwrap_or(0), threads)
}
