//! The sampling grid of a phantom, and its voxels.

use crate::random::Draws;
use crate::settings::PhantomSettings;
use nalgebra::{Matrix3, Point3, Rotation3, Vector3};
use pbt_volume::{Geometry, PointLps, Volume};
use rayon::prelude::*;

/// The sampling grid of a case: its field of view is about the same cube whatever the spacings.
pub(crate) fn grid(settings: &PhantomSettings, draws: &mut Draws) -> Geometry {
    let view_mm = settings.voxels as f64 * settings.spacing_mm;
    let middle = draws.in_ball(80.0);
    let (spacing_mm, turn) = if draws.unit() < settings.oblique_share {
        let mut spacing = [0, 1, 2].map(|_| settings.spacing_mm * draws.between(0.85, 1.1));
        spacing[draws.below(3)] *= draws.between(1.0, 1.5);
        let mirror = Vector3::from_fn(|_, _| if draws.unit() < 0.5 { -1.0 } else { 1.0 });
        let tilt: Rotation3<f64> = draws.rotation_within(0.25).into();
        (spacing, tilt.into_inner() * Matrix3::from_diagonal(&mirror))
    } else {
        ([settings.spacing_mm; 3], Matrix3::identity())
    };
    let shape = spacing_mm.map(|s| ((view_mm / s).round() as usize).max(1));
    let matrix = turn * Matrix3::from_diagonal(&Vector3::from(spacing_mm));
    let last = Vector3::from(shape.map(|n| n as f64 - 1.0));
    Geometry::new(shape, matrix, PointLps(Point3::from(middle - matrix * last / 2.0)))
        .expect("a rotated grid of positive spacings is valid")
}

/// The volume whose voxel at the LPS point `p` is `value(p, n)`, `n` being the voxel's index in
/// memory; slices in parallel.
pub(crate) fn render(
    geometry: Geometry,
    value: impl Fn(Point3<f64>, u64) -> f64 + Sync,
) -> Volume<f32> {
    let [nx, ny, _] = geometry.shape();
    let (matrix, origin) = (*geometry.matrix(), geometry.origin().0);
    let mut data = vec![0.0f32; geometry.len()];
    data.par_chunks_mut(nx * ny).enumerate().for_each(|(k, slice)| {
        for (n, voxel) in slice.iter_mut().enumerate() {
            let p = origin + matrix * Vector3::new((n % nx) as f64, (n / nx) as f64, k as f64);
            *voxel = value(p, (k * nx * ny + n) as u64) as f32;
        }
    });
    Volume::new(geometry, data)
}

/// Edge over which a surface goes from outside to inside, mm: about one voxel, as partial volume
/// does.
pub(crate) fn edge_mm(geometry: &Geometry) -> f64 {
    geometry.spacing_mm().iter().sum::<f64>() / 3.0
}
