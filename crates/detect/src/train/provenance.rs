//! Where a model comes from, so that a checkpoint is taken up only by the training that made it.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::data::training_data::{Annotated, TrainingData, is_flat};
use crate::model::Provenance;
use crate::model::checkpoint::finished_stages;
use sha2::{Digest, Sha256};

/// The provenance of a training.
pub(super) fn provenance<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
    config: &TrainConfig,
    copies: usize,
    seed: u64,
) -> Provenance {
    let mut label_shapes = data.list().label_shapes.clone();
    label_shapes.retain(|name, _| structures.iter().any(|(trained, _)| trained == name));
    Provenance {
        pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
        dataset: data.list().name.clone(),
        modality: data.list().modality.clone(),
        training_sha256: training_sha256(data, structures),
        cases: data.list().len(),
        copies,
        coarsest_mm: coarsest_mm(data),
        unit: data.list().unit,
        label_shapes,
        seed,
        config: config.clone(),
    }
}

/// In what the training of a model of this provenance differed from one with these data, settings and seed;
/// none where they are the same as far as that tells: label maps are not in it.
pub fn difference_from_training<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    seed: u64,
    found: &Provenance,
) -> Option<String> {
    // Whether there are copies may have been found out by a trial.
    let copies = config.augmentation.copies.unwrap_or(found.copies);
    found.difference_from(&provenance(data, &data.structures(), config, copies, seed))
}

/// Whether a training with these data, settings and seed can go on from a checkpoint.
///
/// # Errors
/// [`DetectError::Model`] for one of another training, or a damaged one.
pub fn check_checkpoint<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    seed: u64,
    bytes: &[u8],
) -> Result<(), DetectError> {
    let copies = config.augmentation.copies.unwrap_or(0);
    let expected = provenance(data, &data.structures(), config, copies, seed);
    finished_stages(bytes, &expected).map(drop)
}

/// The longest edge of a voxel of volumes.
fn coarsest_mm<D: TrainingData + ?Sized>(data: &D) -> Option<f64> {
    let edges = |case: usize| data.list().geometry(case).spacing_mm();
    let longest = (0..data.list().len()).flat_map(edges).reduce(f64::max);
    longest.filter(|_| !is_flat(data))
}

fn update_with_absent<D: TrainingData + ?Sized>(hash: &mut Sha256, data: &D, name: &str) {
    for case in data.absent(name) {
        hash.update(format!("absent {case}\n"));
    }
}

/// Hash over names, images and poses of the training cases.
fn training_sha256<D: TrainingData + ?Sized>(data: &D, structures: &[Annotated]) -> String {
    let mut hash = Sha256::new();
    for name in &data.list().channels {
        hash.update(format!("channel {name}\n"));
    }
    for case in &data.list().cases {
        hash.update(format!("case {} {}\n", case.id, case.image_sha256));
    }
    for (name, cases) in structures {
        hash.update(format!("structure {name}\n"));
        for (case, pose) in cases {
            let numbers = pose
                .center
                .0
                .iter()
                .chain(pose.orientation.coords.iter())
                .chain(&pose.size_mm)
                .copied()
                .collect::<Vec<f64>>();
            hash.update(format!("{case} {numbers:?}\n"));
        }
        for (landmark, points) in data.landmarks(name) {
            hash.update(format!("landmark {landmark}\n"));
            for (case, point) in points {
                hash.update(format!("{case} {:?}\n", point.0.coords.as_slice()));
            }
            update_with_absent(&mut hash, data, &landmark);
        }
        update_with_absent(&mut hash, data, name);
    }
    pbt_volume::hex(&hash.finalize())
}
