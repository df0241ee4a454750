//! A whole image resampled in another orientation, as if the head had lain otherwise in the scanner.

use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_volume::{Geometry, PointLps, Pose, Volume, VoxelIndex, positive};
use rayon::prelude::*;

/// The image turned by `rotation` about its middle and shifted, on an axis-aligned cube of the finest spacing that holds the structure
/// with its surroundings; zero outside. The pose goes along.
pub(crate) fn rotated(image: &Volume<f32>, pose: &Pose, rotation: UnitQuaternion<f64>, shift_mm: Vector3<f64>) -> (Volume<f32>, Pose) {
    let geometry = image.geometry();
    let spacing = geometry.spacing_mm().into_iter().fold(f64::INFINITY, f64::min);
    let extent = (0..3).map(|a| geometry.shape()[a] as f64 * geometry.spacing_mm()[a]).fold(0.0, f64::max);
    let side = (extent / spacing).ceil() as usize;
    // The new world: x' = R (x − c), voxel grid centred on the turned pose's centre within the shift, so that the structure is in view.
    let turned = rotation * (pose.center.0 - geometry.center().0);
    let half = Vector3::repeat((side as f64 - 1.0) / 2.0 * spacing);
    let origin = PointLps((turned + shift_mm - half).into());
    let grid = Geometry::new([side; 3], Matrix3::identity() * spacing, origin).expect("a cube is a geometry");
    let inverse = rotation.inverse();
    let mut data = vec![0.0f32; grid.len()];
    data.par_chunks_mut(side * side).enumerate().for_each(|(k, plane)| {
        for (n, value) in plane.iter_mut().enumerate() {
            let there = grid.to_lps(VoxelIndex::new((n % side) as f64, (n / side) as f64, k as f64));
            let here = PointLps(geometry.center().0 + inverse * there.0.coords);
            *value = trilinear(image, geometry.to_index(here));
        }
    });
    let pose = Pose { center: PointLps(turned.into()), orientation: positive(rotation * pose.orientation), size_mm: pose.size_mm };
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
