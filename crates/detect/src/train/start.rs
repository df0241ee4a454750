//! Structures before any stage is trained: how images are prepared, and what poses say.

use super::settled::Settled;
use crate::config::TrainConfig;
use crate::data::training_data::{Annotated, Subjects, TrainingData, is_flat};
use crate::model::unfinished::StructureCheckpoint;
use crate::network::row::Row;
use crate::pose::prior::Prior;
use crate::working::choice::working_spec;
use pbt_volume::{PointLps, Pose};

/// All structures of a group. Those of `checkpoints`, which are the first ones, are taken over.
pub(super) fn all<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
    config: &TrainConfig,
    settled: Settled<'_>,
    checkpoints: Vec<StructureCheckpoint>,
) -> Vec<StructureCheckpoint> {
    let mut all = checkpoints;
    for index in all.len()..structures.len() {
        let checkpoint = start(data, structures, index, config, settled, &all);
        all.push(checkpoint);
    }
    all
}

/// A structure; `before` are those before it.
fn start<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
    index: usize,
    config: &TrainConfig,
    settled: Settled<'_>,
    before: &[StructureCheckpoint],
) -> StructureCheckpoint {
    let (name, annotated) = &structures[index];
    let poses: Vec<Pose> = annotated.iter().map(|&(_, pose)| pose).collect();
    let middles: Vec<PointLps> =
        annotated.iter().map(|&(case, _)| data.list().geometry(case).center()).collect();
    let prior =
        Prior::new(&poses, &middles, config.orientation.orientations).of_slices(is_flat(data));
    let working = match (settled.whole, before.get(settled.alike_in_size[index])) {
        (Some(whole), _) => whole.structures[index].working.clone(),
        (None, Some(first)) => first.working.clone(),
        (None, None) => working_spec(data, config, &prior, settled.intensities),
    };
    let landmarks = data.landmarks(name).into_iter().map(|(name, _)| name).collect();
    let row = match data.is_many(name) {
        true => Row::train(&poses_of_images(annotated), prior.mean_size_mm),
        false => None,
    };
    let cases = Subjects::new(data, annotated).originals();
    StructureCheckpoint { row, ..StructureCheckpoint::new(name, cases, working, prior, landmarks) }
}

/// The poses of each image.
fn poses_of_images(annotated: &[(usize, Pose)]) -> Vec<Vec<Pose>> {
    let images = annotated.chunk_by(|a, b| a.0 == b.0);
    images.map(|of_image| of_image.iter().map(|&(_, pose)| pose).collect()).collect()
}
