//! The voxels of one structure in a label map, as runs along the first axis: a few bytes a row where
//! the map has bytes a voxel, so that the structures of a whole data set fit in memory.

use crate::principal_axes::across;
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, PointLps, Volume};
use std::collections::BTreeMap;

/// Voxels whose distances along a direction differ by less than this share of the mean spacing lie in
/// one plane: headers hold axes with rounding errors.
const SAME_PLANE: f64 = 1e-3;

/// A share of the voxels that is a whole number but for its own rounding error is that number.
const ROUNDING: f64 = 1e-6;

/// Voxels `first..=last` of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    first: u32,
    last: u32,
    row: [u32; 2],
}

/// The voxels of a structure.
#[derive(Debug, Clone)]
pub(crate) struct LabelRuns {
    geometry: Geometry,
    runs: Vec<Run>,
}

/// All voxels of a label map, as runs of one value.
pub(crate) struct MapRuns {
    geometry: Geometry,
    runs: Vec<(u16, Run)>,
}

impl MapRuns {
    pub(crate) fn new(labels: &Volume<u16>) -> Self {
        let [nx, ny, _] = labels.shape();
        let mut runs = Vec::new();
        for (n, values) in labels.data().chunks_exact(nx).enumerate() {
            let row = [(n % ny) as u32, (n / ny) as u32];
            let mut first = 0;
            for same in values.chunk_by(|a, b| a == b) {
                let last = first + same.len() as u32 - 1;
                runs.push((same[0], Run { first, last, row }));
                first = last + 1;
            }
        }
        Self { geometry: labels.geometry().clone(), runs }
    }

    /// The voxels whose value is `inside`; `None` when there are none.
    pub(crate) fn of(&self, inside: impl Fn(u16) -> bool) -> Option<LabelRuns> {
        let mut runs: Vec<Run> = Vec::new();
        for &(_, next) in self.runs.iter().filter(|(value, _)| inside(*value)) {
            match runs.last_mut() {
                Some(run) if run.row == next.row && run.last + 1 == next.first => {
                    run.last = next.last;
                }
                _ => runs.push(next),
            }
        }
        (!runs.is_empty()).then(|| LabelRuns { geometry: self.geometry.clone(), runs })
    }

    /// The voxels of each value that is `inside`, by rising value; values without voxels are left out.
    pub(crate) fn by_value(&self, inside: impl Fn(u16) -> bool) -> Vec<LabelRuns> {
        let mut of_value: BTreeMap<u16, Vec<Run>> = BTreeMap::new();
        for &(value, run) in self.runs.iter().filter(|(value, _)| inside(*value)) {
            of_value.entry(value).or_default().push(run);
        }
        let of = |runs| LabelRuns { geometry: self.geometry.clone(), runs };
        of_value.into_values().map(of).collect()
    }
}

impl LabelRuns {
    /// The voxels whose value is `inside`; `None` when there are none.
    pub(crate) fn new(labels: &Volume<u16>, inside: impl Fn(u16) -> bool) -> Option<Self> {
        MapRuns::new(labels).of(inside)
    }

    /// The mean of the three voxel spacings, mm.
    pub(crate) fn mean_spacing_mm(&self) -> f64 {
        self.geometry.spacing_mm().iter().sum::<f64>() / 3.0
    }

    /// Origin of the grid, LPS mm.
    pub(crate) fn origin(&self) -> Vector3<f64> {
        self.geometry.origin().0.coords
    }

    /// The mirror image across the patient's sagittal plane.
    pub(crate) fn mirrored(&self) -> Self {
        let (shape, origin) = (self.geometry.shape(), self.geometry.origin().0.coords);
        let origin = PointLps((across() * origin).into());
        let geometry = Geometry::new(shape, across() * self.geometry.matrix(), origin);
        // A mirror leaves lengths and angles of the axes.
        let geometry = geometry.unwrap_or_else(|_| self.geometry.clone());
        Self { geometry, runs: self.runs.clone() }
    }

    /// Covariance in mm² of the voxel centres. The sums are integers, so their order does not
    /// matter.
    pub(crate) fn covariance(&self) -> Matrix3<f64> {
        let mut n = 0u64;
        let mut first = [0u64; 3];
        let mut second = [[0u128; 3]; 3];
        for index in self.indices() {
            n += 1;
            for a in 0..3 {
                first[a] += index[a];
                for b in a..3 {
                    second[a][b] += u128::from(index[a] * index[b]);
                }
            }
        }
        // n²·covariance = n·Σab − Σa·Σb is exact in i128: below 2¹²⁷ up to 2³⁴ voxels of a side of
        // 2²⁰.
        let scaled = |a: usize, b: usize| {
            let (a, b) = (a.min(b), a.max(b));
            let exact =
                i128::from(n) * second[a][b] as i128 - i128::from(first[a]) * i128::from(first[b]);
            exact as f64 / (n as f64 * n as f64)
        };
        let steps = self.geometry.matrix();
        steps * Matrix3::from_fn(scaled) * steps.transpose()
    }

    /// The mean of the voxel centres, mm from the origin of the grid.
    pub(crate) fn centroid(&self) -> Vector3<f64> {
        self.mean_of(self.indices())
    }

    /// The mean of some voxel centres, mm from the origin of the grid.
    fn mean_of(&self, indices: impl Iterator<Item = [u64; 3]>) -> Vector3<f64> {
        let (mut n, mut sum) = (0u64, [0u64; 3]);
        for index in indices {
            n += 1;
            sum = std::array::from_fn(|a| sum[a] + index[a]);
        }
        self.geometry.matrix() * Vector3::from(sum.map(|s| s as f64 / n as f64))
    }

    /// The mean of the voxel centres that lie farthest along a unit vector, mm from the origin of the
    /// grid: of this share of all voxels, rounded up, and of those that lie as far as the last of
    /// them, so that no plane is divided.
    pub(crate) fn tip(&self, way: &Vector3<f64>, share: f64) -> Vector3<f64> {
        let step = self.geometry.matrix().transpose() * way;
        let far = |index: [u64; 3]| step.dot(&Vector3::from(index.map(|i| i as f64)));
        let mut all: Vec<f64> = self.indices().map(far).collect();
        let wanted = (share * all.len() as f64 - ROUNDING).ceil() as usize;
        let last = wanted.clamp(1, all.len()) - 1;
        let (_, edge, _) = all.select_nth_unstable_by(last, |a, b| b.total_cmp(a));
        let edge = *edge - SAME_PLANE * self.mean_spacing_mm();
        self.mean_of(self.indices().filter(|&index| far(index) >= edge))
    }

    /// Where the voxel centres lie along each column of `axes`, mm from the origin of the grid, so
    /// that nothing cancels.
    pub(crate) fn along(&self, axes: &Matrix3<f64>) -> [Vec<f64>; 3] {
        let steps = axes.transpose() * self.geometry.matrix();
        let mut along: [Vec<f64>; 3] = Default::default();
        for index in self.indices() {
            let at = steps * Vector3::from(index.map(|i| i as f64));
            for (values, value) in along.iter_mut().zip(at.iter()) {
                values.push(*value);
            }
        }
        along
    }

    fn indices(&self) -> impl Iterator<Item = [u64; 3]> {
        self.runs.iter().flat_map(|run| {
            (run.first..=run.last).map(|i| [i, run.row[0], run.row[1]].map(u64::from))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_the_voxels() {
        let geometry = Geometry::isotropic([5, 3, 2], 2.0).unwrap();
        let labels =
            Volume::from_fn(geometry, |i, j, k| u16::from((i * 7 + j * 3 + k) % 3 != 0 || k == 1));
        let runs = LabelRuns::new(&labels, |v| v == 1).unwrap();
        let voxels: Vec<[u64; 3]> = runs.indices().collect();
        let mut expected = Vec::new();
        for k in 0..2 {
            for j in 0..3 {
                for i in 0..5 {
                    if labels.data()[labels.offset(i, j, k)] == 1 {
                        expected.push([i as u64, j as u64, k as u64]);
                    }
                }
            }
        }
        assert_eq!(voxels, expected);
        // Rows are not joined across their ends: the last plane is full.
        assert_eq!(runs.runs.iter().filter(|r| r.row[1] == 1).count(), 3);
        assert!(LabelRuns::new(&labels, |v| v == 9).is_none());
    }
}
