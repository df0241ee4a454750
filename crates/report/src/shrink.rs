//! A volume with fewer voxels over the same extent, for a page that must stay small.

use nalgebra::{Matrix3, Point3};
use pbt_volume::{Geometry, IntensityRange, MAX_INTENSITY, Padding, Volume, VoxelIndex, resample};

/// No edge has more voxels: a browser may refuse a larger volume.
const MOST_ALONG_EDGE: usize = 1024;

/// The grid with at most `most_voxels` voxels over the extent of `geometry`: as near to cubes as voxels
/// can be where none is smaller than the image's. At least one voxel.
pub(crate) fn smaller_grid(geometry: &Geometry, most_voxels: usize) -> Geometry {
    let (shape, spacing_mm) = (geometry.shape(), geometry.spacing_mm());
    let coarser = |edge_mm: f64| {
        [0, 1, 2].map(|axis| {
            let voxels = (shape[axis] as f64 * spacing_mm[axis] / edge_mm).round() as usize;
            voxels.clamp(1, shape[axis].min(MOST_ALONG_EDGE))
        })
    };
    // Small steps rather than a root: which axes are shrunk at all changes on the way.
    let mut edge_mm = spacing_mm.into_iter().fold(f64::INFINITY, f64::min);
    while coarser(edge_mm).iter().product::<usize>() > most_voxels.max(1) {
        edge_mm *= 1.02;
    }
    with_shape(geometry, coarser(edge_mm))
}

/// A grid of other voxels over the same extent.
fn with_shape(geometry: &Geometry, shape: [usize; 3]) -> Geometry {
    let factors = [0, 1, 2].map(|axis| geometry.shape()[axis] as f64 / shape[axis] as f64);
    let matrix = geometry.matrix() * Matrix3::from_diagonal(&factors.into());
    let first = VoxelIndex(Point3::from(factors.map(|factor| (factor - 1.0) / 2.0)));
    // Sums of valid steps may only be too long by far, and then the image itself is no use.
    Geometry::new(shape, matrix, geometry.to_lps(first)).unwrap_or_else(|_| geometry.clone())
}

/// An image of 12 bits on a coarser grid of the same extent, in 8 bits.
pub(crate) fn shrunk_image(image: &Volume<u16>, to: &Geometry) -> Volume<u8> {
    let most = u32::from(MAX_INTENSITY);
    let byte = |value: u16| ((u32::from(value) * 255 + most / 2) / most) as u8;
    resample(image, to, Padding::Edge).map(byte)
}

/// Labels on a coarser grid of the same extent: that of the voxel in the middle.
pub(crate) fn shrunk_labels(labels: &Volume<u16>, to: &Geometry) -> Volume<u16> {
    let (from, shape) = (labels.shape(), to.shape());
    let middle = |n: usize, axis: usize| (2 * n + 1) * from[axis] / (2 * shape[axis]);
    Volume::from_fn(to.clone(), |i, j, k| labels.at(middle(i, 0), middle(j, 1), middle(k, 2)))
}

/// The intensities that become black and white, without which an image would have no contrast.
pub(crate) fn range((low, high): (f64, f64)) -> IntensityRange {
    IntensityRange { low, high: if high > low { high } else { low + 1.0 } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::PointLps;

    fn oblique() -> Geometry {
        let matrix = Matrix3::new(-0.8, 0.3, 0.0, -0.3, -0.8, 0.0, 0.0, 0.0, 3.0);
        Geometry::new([90, 61, 20], matrix, PointLps::new(5.0, -7.0, 100.0)).unwrap()
    }

    /// Where the outer faces of a grid meet, as voxels of another.
    fn ends(of: &Geometry, on: &Geometry) -> [VoxelIndex; 2] {
        let far = of.shape().map(|n| n as f64 - 0.5);
        [[-0.5; 3], far].map(|at| on.to_index(of.to_lps(VoxelIndex(Point3::from(at)))))
    }

    #[test]
    fn a_smaller_grid_has_the_same_extent_and_shrinks_the_finest_axes_first() {
        let full = oblique();
        let small = smaller_grid(&full, 20_000);
        assert!(small.len() <= 20_000 && small.len() > 15_000, "{:?}", small.shape());
        assert_eq!(small.shape()[2], 20);
        for (found, expected) in ends(&small, &full).iter().zip(ends(&full, &full)) {
            assert!((found.0 - expected.0).norm() < 1e-9);
        }
        assert!(smaller_grid(&full, usize::MAX).is_same_grid(&full));
        assert_eq!(smaller_grid(&full, 0).len(), 1);
    }

    #[test]
    fn what_is_in_the_image_stays_where_it_is() {
        let full = oblique();
        let at = full.to_lps(VoxelIndex::new(60.0, 20.0, 8.0));
        let near = |i: usize, j: usize, k: usize| {
            let here = full.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            here.distance_mm(&at) < 9.0
        };
        let image =
            Volume::from_fn(full.clone(), |i, j, k| if near(i, j, k) { MAX_INTENSITY } else { 0 });
        let labels = image.map(|value| u16::from(value > 0) * 700);
        let small = smaller_grid(&full, 20_000);
        let (image, labels) = (shrunk_image(&image, &small), shrunk_labels(&labels, &small));
        let index = small.to_index(at).0.map(|x| x.round() as usize);
        assert_eq!(image.at(index.x, index.y, index.z), 255);
        assert_eq!(labels.at(index.x, index.y, index.z), 700);
        // The middles of both agree with it.
        let middle = |weight: &dyn Fn(usize) -> f64| {
            let (mut sum, mut all) = (nalgebra::Vector3::zeros(), 0.0);
            for n in 0..small.len() {
                let [w, h, _] = small.shape();
                let here = [n % w, n / w % h, n / (w * h)].map(|x| x as f64);
                sum += small.to_lps(VoxelIndex(Point3::from(here))).0.coords * weight(n);
                all += weight(n);
            }
            PointLps(Point3::from(sum / all))
        };
        assert!(middle(&|n| f64::from(image.data()[n])).distance_mm(&at) < 0.3);
        assert!(middle(&|n| f64::from(labels.data()[n])).distance_mm(&at) < 0.6);
    }
}
