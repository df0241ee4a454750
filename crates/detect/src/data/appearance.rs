//! What structures look like: their mean image in the frame of their boxes, of several channels the first.
//!
//! Boxes of one size may hold quite different things: in a head the brainstem and both parotids are about
//! as large. Voxels count by their rank within a box, so that neither the scale of intensities nor metal
//! matters.

use crate::DetectError;
use crate::data::each_image::each_image;
use crate::data::training_data::{Annotated, TrainingData};
use nalgebra::Vector3;
use pbt_volume::{PointLps, Pose, RealVolume};

/// Cases of a structure that are looked at.
const CASES: usize = 10;

/// Samples along each edge.
const SAMPLES: usize = 12;

/// Edges of what is sampled over those of the box.
const REACH: f64 = 1.3;

/// Least correlation of mean images that are alike. With interpolated samples vertebrae from T11 to L5 have
/// 0.38 to 0.91, in T1 and T2 spines. The brainstem and a parotid have 0.13 and 0.14, both parotids, each a mirror image of
/// the other, −0.01, both parts of a hippocampus 0.08.
const ALIKE: f64 = 0.25;

/// The mean images of structures; empty of those that nobody asked for.
pub(crate) struct Appearances(Vec<Vec<f64>>);

impl Appearances {
    /// Of the structures that are `wanted`.
    ///
    /// # Errors
    /// [`DetectError::Interrupted`], and whatever reading an image gives.
    pub(crate) fn new<D: TrainingData + ?Sized>(
        data: &D,
        structures: &[Annotated],
        wanted: &[bool],
        interrupted: impl Fn() -> bool + Sync,
    ) -> Result<Self, D::Error> {
        let shown: Vec<&[(usize, Pose)]> = structures
            .iter()
            .zip(wanted)
            .map(
                |((_, poses), &wanted)| if wanted { &poses[..poses.len().min(CASES)] } else { &[] },
            )
            .collect();
        let cases = shown.iter().flat_map(|poses| poses.iter().map(|&(case, _)| case));
        let of_case = each_image(data, cases, |case| {
            if interrupted() {
                return Err(DetectError::Interrupted.into());
            }
            let image = data.image(case)?;
            let own = |poses: &&[(usize, Pose)]| -> Vec<Vec<f64>> {
                let here = poses.iter().filter(|(c, _)| *c == case);
                here.map(|(_, pose)| ranks(&seen(&image, pose))).collect()
            };
            Ok(shown.iter().map(own).collect::<Vec<_>>())
        })?;
        // A correlation does not ask by how many a sum is divided.
        let sum = |structure: usize| {
            let mut sum = vec![0.0; SAMPLES.pow(3)];
            for ranks in of_case.values().flat_map(|structures| &structures[structure]) {
                sum.iter_mut().zip(ranks).for_each(|(sum, rank)| *sum += rank);
            }
            sum
        };
        Ok(Self((0..structures.len()).map(sum).collect()))
    }

    /// Whether two structures look alike.
    pub(crate) fn are_alike(&self, a: usize, b: usize) -> bool {
        correlation(&self.0[a], &self.0[b]) >= ALIKE
    }
}

/// The voxels nearest to a grid about a box, along its axes. Outside the image its border goes on.
fn seen(image: &RealVolume, pose: &Pose) -> Vec<f32> {
    let geometry = image.geometry();
    let place = |n: usize| REACH * ((n as f64 + 0.5) / SAMPLES as f64 - 0.5);
    let at = |n: usize| {
        let steps = [n % SAMPLES, n / SAMPLES % SAMPLES, n / SAMPLES.pow(2)].map(place);
        let offset = Vector3::from_fn(|a, _| steps[a] * pose.size_mm[a]);
        let index = geometry.to_index(PointLps(pose.center.0 + pose.axes() * offset)).0;
        let [i, j, k] = [0, 1, 2]
            .map(|a| libm::round(index[a].clamp(0.0, geometry.shape()[a] as f64 - 1.0)) as usize);
        image.at(i, j, k)
    };
    (0..SAMPLES.pow(3)).map(at).collect()
}

/// The rank of each value, from −½ to ½; equal values share their mean rank.
fn ranks(values: &[f32]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let rank = (before as f64 + equal.len() as f64 / 2.0) / values.len() as f64 - 0.5;
        equal.iter().for_each(|&n| ranks[n] = rank);
        before += equal.len();
    }
    ranks
}

/// Pearson's; 0 where one of them does not vary.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum()
    };
    let (both, own) = (sum(&|a, b| a * b), sum(&|a, _| a * a) * sum(&|_, b| b * b));
    if own > 0.0 { both / own.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{Geometry, Volume};

    /// A box in the middle of an image of these voxels.
    fn about(voxel: impl Fn([f64; 3]) -> f32) -> Vec<f64> {
        let geometry = Geometry::isotropic([40; 3], 1.0).unwrap();
        let image = Volume::from_fn(geometry, |i, j, k| voxel([i, j, k].map(|n| n as f64 - 19.5)));
        let pose = Pose {
            center: PointLps::new(19.5, 19.5, 19.5),
            orientation: nalgebra::UnitQuaternion::identity(),
            size_mm: [24.0; 3],
        };
        ranks(&seen(&RealVolume::from(image), &pose))
    }

    #[test]
    fn a_ball_is_like_a_darker_one_and_a_slope_unlike_its_mirror_image() {
        let ball = |[x, y, z]: [f64; 3]| (12.0 - (x * x + y * y + z * z).sqrt()).max(0.0) as f32;
        let dark = about(|at| 7.0 + 0.1 * ball(at).powi(2));
        assert!(correlation(&about(ball), &dark) > 0.9);
        let (left, right) = (about(|[x, _, _]| x as f32), about(|[x, _, _]| -x as f32));
        assert!(correlation(&left, &right) < -0.9 && correlation(&about(ball), &left).abs() < 0.1);
        assert_eq!(correlation(&left, &about(|_| 3.0)), 0.0);
    }

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 9.0]), [0.0, -0.375, 0.0, 0.375]);
    }
}
