//! A whole image resampled in another orientation, as if the head had lain otherwise in the
//! scanner.

use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_volume::{Geometry, PointLps, Pose, Volume, VoxelIndex, positive};
use rayon::prelude::*;

/// The image turned by `rotation` about its middle, on an axis-aligned grid of its finest spacing
/// that holds all of it; zero outside. The middle of the grid lies `shift_mm` beside the structure.
/// The pose goes along.
pub(crate) fn rotated(
    image: &Volume<f32>,
    pose: &Pose,
    rotation: UnitQuaternion<f64>,
    shift_mm: Vector3<f64>,
) -> (Volume<f32>, Pose) {
    let geometry = image.geometry();
    let spacing = geometry.spacing_mm().into_iter().fold(f64::INFINITY, f64::min);
    // The new world: x' = R (x − c).
    let turned = |point: PointLps| rotation * (point.0 - geometry.center().0);
    let center = turned(pose.center);
    let middle = center + shift_mm;
    let last = geometry.shape().map(|n| n as f64 - 1.0);
    let corners = (0..8usize).map(|corner| {
        let index: [f64; 3] =
            std::array::from_fn(|a| if corner >> a & 1 == 1 { last[a] } else { 0.0 });
        turned(geometry.to_lps(VoxelIndex::new(index[0], index[1], index[2]))) - middle
    });
    let half = corners.fold(Vector3::zeros(), |half: Vector3<f64>, corner| half.sup(&corner.abs()));
    let shape: [usize; 3] = std::array::from_fn(|a| (2.0 * half[a] / spacing).ceil() as usize + 1);
    let origin = PointLps((middle - half).into());
    let grid = Geometry::new(shape, Matrix3::identity() * spacing, origin)
        .expect("an upright grid is a geometry");
    let inverse = rotation.inverse();
    let mut data = vec![0.0f32; grid.len()];
    let [width, height, _] = shape;
    data.par_chunks_mut(width * height).enumerate().for_each(|(k, plane)| {
        for (n, value) in plane.iter_mut().enumerate() {
            let there =
                grid.to_lps(VoxelIndex::new((n % width) as f64, (n / width) as f64, k as f64));
            let here = PointLps(geometry.center().0 + inverse * there.0.coords);
            *value = trilinear(image, geometry.to_index(here));
        }
    });
    let pose = Pose {
        center: PointLps(center.into()),
        orientation: positive(rotation * pose.orientation),
        size_mm: pose.size_mm,
    };
    (Volume::new(grid, data), pose)
}

fn trilinear(image: &Volume<f32>, at: VoxelIndex) -> f32 {
    let shape = image.shape();
    let floor = at.0.map(f64::floor);
    let mut sum = 0.0;
    for corner in 0..8usize {
        let mut weight = 1.0;
        let mut index = [0usize; 3];
        let mut inside = true;
        for a in 0..3 {
            let up = (corner >> a & 1) as f64;
            let f = at.0[a] - floor[a];
            weight *= if up == 1.0 { f } else { 1.0 - f };
            let i = floor[a] + up;
            inside &= i >= 0.0 && i < shape[a] as f64;
            index[a] = i.max(0.0) as usize;
        }
        if inside && weight > 0.0 {
            sum += weight * f64::from(image.at(index[0], index[1], index[2]));
        }
    }
    sum as f32
}
