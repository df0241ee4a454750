//! The working grid of a structure: what the configuration sets, the rest from the training cases.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::data::each_image::each_image;
use crate::data::training_data::{Annotated, TrainingData};
use crate::pose::prior::Prior;
use crate::working::spec::{ChannelSpec, WorkingSpec, level_for};
use pbt_volume::{IntensityPolicy, Padding, PointLps, Pose, RealVolume};

/// The working grid: what the configuration sets, the rest from the training cases. `intensities` are
/// those of [`intensities()`].
pub(crate) fn working_spec<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    prior: &Prior,
    intensities: &[IntensityPolicy],
) -> WorkingSpec {
    let (spacing_mm, levels) = spacing_and_levels(data, config, prior);
    let names = &data.list().channels;
    let channel = |(name, &intensity): (&String, _)| ChannelSpec { name: name.clone(), intensity };
    WorkingSpec {
        spacing_mm,
        levels,
        padding: match config.working.padding {
            // What repeats its border is the same all across a plane.
            _ if prior.flat => Padding::Edge,
            Some(padding) => padding,
            None if data.list().is_ct() => Padding::Zero,
            None => Padding::Edge,
        },
        intensity: intensities[0],
        channels: names.iter().zip(intensities).map(channel).collect(),
    }
}

/// How the intensities of each channel become 12 bits, the same for all structures: what the
/// configuration sets, the rest from the training cases, whose images are read where it takes that.
///
/// # Errors
/// Whatever reading an image gives.
pub(crate) fn intensities<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
) -> Result<Vec<IntensityPolicy>, D::Error> {
    let channels = data.list().channels.len().max(1);
    (0..channels).map(|channel| policy(data, config, channel)).collect()
}

/// How intensities of a channel become 12 bits.
fn policy<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    channel: usize,
) -> Result<IntensityPolicy, D::Error> {
    let name = data.list().channels.get(channel);
    let own = name.and_then(|name| config.working.channels.get(name));
    match own.or(config.working.intensity.as_ref()) {
        Some(policy) => Ok(*policy),
        None if data.list().is_ct_channel(channel) => window(data, channel),
        None => Ok(PERCENTILES),
    }
}

/// What intensities without an absolute scale are brought to 12 bits by.
const PERCENTILES: IntensityPolicy =
    IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 };

/// Spacing in mm of the finest level of the working pyramid, and the number of levels.
pub(crate) fn spacing_and_levels<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    prior: &Prior,
) -> (f64, usize) {
    let spacing_mm = config.working.spacing_mm.unwrap_or_else(|| {
        let smallest = smallest_spacing_mm(data);
        // Levels are halvings, so that the finest is the image's own grid or a whole power of two
        // coarser: no blur from resampling by odd factors.
        let wanted = prior.scale_mm / VOXELS_ACROSS;
        smallest * libm::exp2(libm::round(libm::log2((wanted / smallest).max(1.0))))
    });
    let coarsest = level_for(prior.scale_mm, spacing_mm, config.position.voxels_across);
    (spacing_mm, coarsest + 1)
}

/// The smallest spacing of an image as it was given, the middle one of all images: a single one that
/// is finer than the others would make the grid of all finer than what they show.
pub(crate) fn smallest_spacing_mm<D: TrainingData + ?Sized>(data: &D) -> f64 {
    let mut smallest: Vec<f64> = (0..data.list().len())
        .filter(|&case| data.origin(case) == case)
        .map(|case| {
            data.list().geometry(case).spacing_mm().into_iter().fold(f64::INFINITY, f64::min)
        })
        .collect();
    smallest.sort_by(f64::total_cmp);
    smallest.get(smallest.len() / 2).copied().unwrap_or(1.0)
}

/// Cases that a window is learned from.
const CASES_FOR_WINDOW: usize = 10;

/// A window for images with an absolute scale, the same for all structures, so that they share what
/// is made of an image: from the images' 1st percentile to the 99.5th of what lies in the boxes of
/// the brightest structure, medians over at most ten cases.
fn window<D: TrainingData + ?Sized>(data: &D, channel: usize) -> Result<IntensityPolicy, D::Error> {
    let structures = data.structures();
    let originals = (0..data.list().len()).filter(|&case| data.origin(case) == case);
    let of_case = |case: usize| {
        let image = data.channels(case)?.swap_remove(channel);
        let all = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 100.0 };
        let range = all.range(&image).map_err(|e| {
            DetectError::training(format!("case {}", data.list().id(case)), e.to_string())
        })?;
        let high = |(_, annotated): &Annotated| {
            let (_, pose) = annotated.iter().find(|(c, _)| *c == case)?;
            let mut inside = inside_box(&image, pose);
            let place = inside.len().checked_sub(1)? * 995 / 1000;
            let (_, high, _) = inside.select_nth_unstable_by(place, f32::total_cmp);
            Some(f64::from(*high))
        };
        Ok::<_, D::Error>((range.low, structures.iter().map(high).collect::<Vec<_>>()))
    };
    let by_case = each_image(data, originals.take(CASES_FOR_WINDOW), of_case)?;
    let mut lows: Vec<f64> = by_case.values().map(|(low, _)| *low).collect();
    let mut highs: Vec<Vec<f64>> = (0..structures.len())
        .map(|n| by_case.values().filter_map(|(_, highs)| highs[n]).collect())
        .collect();
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let high = highs.iter_mut().filter_map(median).reduce(f64::max);
    match (median(&mut lows), high) {
        (Some(low), Some(high)) if low < high => Ok(IntensityPolicy::Window { low, high }),
        _ => Ok(PERCENTILES),
    }
}

/// Voxels across D on the finest level.
const VOXELS_ACROSS: f64 = 46.0;

/// The finite voxels of every other row and plane inside a box.
fn inside_box(image: &RealVolume, pose: &Pose) -> Vec<f32> {
    let geometry = image.geometry();
    let shape = image.shape();
    let corners = pose.corners().map(|c| geometry.to_index(c).0);
    let range = |a: usize| {
        let low =
            corners.iter().map(|c| c[a]).fold(f64::INFINITY, f64::min).floor().max(0.0) as usize;
        let high =
            corners.iter().map(|c| c[a]).fold(f64::NEG_INFINITY, f64::max).ceil().max(0.0) as usize;
        low..(high + 1).min(shape[a])
    };
    let mut values = Vec::new();
    for k in range(2).step_by(2) {
        for j in range(1).step_by(2) {
            for i in range(0) {
                let point: PointLps =
                    geometry.to_lps(pbt_volume::VoxelIndex::new(i as f64, j as f64, k as f64));
                let in_box = pose.orientation.inverse() * (point.0 - pose.center.0);
                let value = image.at(i, j, k);
                if (0..3).all(|a| in_box[a].abs() <= pose.size_mm[a] / 2.0) && value.is_finite() {
                    values.push(value);
                }
            }
        }
    }
    values
}
