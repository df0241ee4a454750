//! How long a training will take, and how much memory: an estimate before it begins.
//!
//! The constants were fitted to the trainings in docs/how-to/train-on-your-data.md (How long it takes); the ranges
//! hold all of them.

use pbt_detect::{
    MaskNeed, TrainConfig, TrainingData, at_a_time, grid_demands, images_at_a_time, is_held,
};
use pbt_volume::{Plane, Pose, room_for_tables};

/// CPU seconds of one chain for a box with eight cases.
const CHAIN_SECONDS: f64 = 14.0;

/// What a training on so many cases is to one on eight: most of the work goes by samples, whose number is
/// limited.
fn by_cases(cases: f64) -> f64 {
    (cases / 8.0).cbrt()
}

/// CPU seconds of a landmark, in units of those of a box.
const LANDMARK: f64 = 0.05;

/// CPU seconds of masks for a sample that trees learn from, and for a voxel of a frame, which is labelled.
const MASK_SAMPLE_SECONDS: f64 = 2e-4;
const FRAME_VOXEL_SECONDS: f64 = 2e-6;

/// CPU seconds of a chain for a voxel of the working grids, which are searched: of large images most of it.
const VOXEL_SECONDS: f64 = 2e-8;

/// CPU seconds of a voxel of an image, which is read twice: to look at it, and to resample it. One
/// thread unpacks an image.
const READ_SECONDS: f64 = 3.5e-8;

/// Held-out cases take three more chains on two thirds of the cases.
const HELD_OUT_CHAINS: f64 = 2.0;

/// Mirrored copies, and the trial whether they help.
const TRIAL_CHAINS: f64 = 0.5;

/// Of `--quick`, what a chain takes.
const QUICK_CHAIN: f64 = 0.9;

/// With so many threads that much of their time is work.
fn speed(threads: usize) -> f64 {
    (threads as f64).powf(0.85)
}

/// The least and the most, as a factor of the estimate.
const SECONDS_RANGE: [f64; 2] = [0.5, 2.0];
const MEMORY_RANGE: [f64; 2] = [0.5, 2.2];

/// Bytes that every training takes, and beside them each chain, of which some may be trained at a time.
const BASE_BYTES: f64 = 1e8;
const CHAIN_BYTES: f64 = 2.5e8;

/// Parts without held-out cases, and where they are trained side by side, how much of what the whole
/// training holds each of them does.
const PARTS: usize = 3;
const PART_SHARE: f64 = 0.5;

/// Bytes of a voxel of the working grid, with all levels of its pyramid; and where the finest are in a
/// file.
const VOXEL_BYTES: f64 = 10.0;
const STORED_VOXEL_BYTES: f64 = 0.05;

/// Bytes of a voxel of the largest image, and of its working grid, while it is read.
const READ_BYTES: [f64; 2] = [2.5, 3.0];

/// What a training will take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrainingNeeds {
    /// From … to, on these threads.
    pub seconds: [f64; 2],
    /// From … to.
    pub memory_bytes: [f64; 2],
}

impl TrainingNeeds {
    /// Of a training on the CPU; none for 2D images, whose trainings take seconds to minutes.
    pub fn of<D: TrainingData>(data: &D, config: &TrainConfig, threads: usize) -> Option<Self> {
        let demands = grid_demands(data, config);
        if demands.iter().any(|demand| demand.flat) {
            return None;
        }
        let list = data.list();
        let quick = if *config == config.clone().quick() { QUICK_CHAIN } else { 1.0 };
        let mut chains = 1.0;
        if config.certainty.measured {
            chains += HELD_OUT_CHAINS;
        }
        if config.augmentation.copies.is_none() {
            chains += TRIAL_CHAINS;
        }
        let copies = config.augmentation.copies.unwrap_or(0) as f64;
        let channels = list.channels.len().max(1);
        let flat = !list.is_empty() && Plane::of(list.geometry(0)).is_some();
        let finest_mm =
            |case| list.geometry(case).spacing_mm().into_iter().fold(f64::INFINITY, f64::min);
        let (mut seconds, mut landmarks, mut mask_seconds) = (0.0, 0, 0.0);
        let mut masks: Vec<usize> = Vec::new();
        let structures = data.structures();
        for (name, annotated) in &structures {
            let cases = annotated.len() as f64;
            let points = data.landmarks(name).len();
            landmarks += points;
            let of_box = (1.0 + LANDMARK * points as f64) * by_cases(cases * (1.0 + copies));
            seconds += CHAIN_SECONDS * quick * chains * of_box;
            if config.segmentation.trained {
                let labelled = annotated.iter().filter(|&&(case, _)| data.has_classes(case));
                let boxes: Vec<(f64, Pose)> =
                    labelled.map(|&(case, pose)| (finest_mm(case), pose)).collect();
                let need = MaskNeed::new(&boxes, &config.segmentation, (channels, flat), threads);
                mask_seconds += MASK_SAMPLE_SECONDS * need.samples as f64
                    + FRAME_VOXEL_SECONDS * need.frame_voxels as f64;
                masks.push(need.bytes);
            }
        }
        // Each channel of an image is sampled, and has a pyramid.
        let channels = channels as f64;
        // One working grid serves structures of one size; landmarks are sought on the image's own.
        let of_case = |case: usize| {
            let geometry = list.geometry(case);
            let mm3 = geometry.spacing_mm().iter().product::<f64>() * geometry.len() as f64;
            let voxel_mm3 = demands.iter().map(|demand| demand.voxel_mm3(geometry));
            let (own, working) =
                (geometry.len() as f64, mm3 / voxel_mm3.fold(f64::INFINITY, f64::min));
            [own, if landmarks > 0 { working.max(own) } else { working }]
        };
        let [own, voxels] =
            [0, 1].map(|n| (0..list.len()).map(|case| of_case(case)[n]).sum::<f64>());
        let read = |case| (0..2).map(|n| READ_BYTES[n] * of_case(case)[n]).sum::<f64>();
        let largest = (0..list.len()).map(|case| list.geometry(case).len()).max().unwrap_or(0);
        let read_at_a_time =
            images_at_a_time(largest * channels as usize, threads).min(list.len()) as f64;
        let read = (0..list.len()).map(read).fold(0.0, f64::max) * channels * read_at_a_time;
        let seconds = (seconds + mask_seconds + VOXEL_SECONDS * chains * voxels) / speed(threads)
            + READ_SECONDS * own / read_at_a_time.max(1.0);
        let seconds = seconds * channels;
        let voxels = voxels * channels * (1.0 + copies);
        let held = is_held((2.0 * voxels) as u64);
        let bytes = match held {
            true => VOXEL_BYTES * voxels,
            // Tables that can be made again are given up where there is no room.
            false => STORED_VOXEL_BYTES * voxels + read.max(room_for_tables() as f64),
        };
        // Images in files are too large for trainings side by side.
        let chains = if held { at_a_time(structures.len(), threads) as f64 } else { 1.0 };
        let parts = at_a_time(PARTS, threads);
        let parts = match config.certainty.measured && held && parts > 1 {
            true => PART_SHARE * VOXEL_BYTES * voxels * parts as f64,
            false => 0.0,
        };
        masks.sort_unstable_by(|a, b| b.cmp(a));
        let masks: usize = masks[..at_a_time(masks.len(), threads)].iter().sum();
        // One comes after the other.
        let bytes = BASE_BYTES + bytes + (CHAIN_BYTES * chains + parts).max(masks as f64);
        Some(Self {
            seconds: SECONDS_RANGE.map(|factor| factor * seconds),
            memory_bytes: MEMORY_RANGE.map(|factor| factor * bytes),
        })
    }
}
