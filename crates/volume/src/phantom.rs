//! Phantoms: made volumes that look like CT, MR and ultrasound, with a structure whose pose is
//! known exactly.
//!
//! They serve the demo and every test that must run without data. Each case has its own shape (size
//! ±10 % an axis, bend, feature sizes), pose, position, neighbours of similar brightness, noise and
//! sampling grid; only the anatomy gives the pose away. No rotation maps a structure onto itself,
//! and each has a mark on one side, so that left and right differ too.
//!
//! Solids with signed distances are painted voxel by voxel. Shapes come from a ChaCha8 stream,
//! noise from a hash of the voxel's index, so that a phantom has the same bits with any number of
//! threads.

mod ct;
mod mr;
mod random;
mod scene;
mod solid;
mod ultrasound;

use crate::{Geometry, PointLps, Pose, Volume, positive};
use nalgebra::{Matrix3, Point3, Rotation3, UnitQuaternion, Vector3};
use random::Draws;
use rayon::prelude::*;
use solid::Solid;

/// What a phantom imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhantomModality {
    /// A head with skull, jaw, ear bones and neck beside a table, in Hounsfield units.
    Ct,
    /// A bent grey structure, as a hippocampus, in textured white matter with a bias field, in
    /// units that differ by case.
    Mr,
    /// A gland with capsule, cyst and a calcification that casts a shadow, in speckle inside a
    /// fan-shaped field of view, 0 to 255.
    Ultrasound,
}

impl PhantomModality {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ct, Self::Mr, Self::Ultrasound];

    /// The modality as `dataset.json` writes it: `CT`, `MR` or `US`.
    pub fn modality(self) -> &'static str {
        match self {
            Self::Ct => "CT",
            Self::Mr => "MR",
            Self::Ultrasound => "US",
        }
    }

    /// Name of the structure that [`Phantom::pose`] encloses.
    pub fn structure(self) -> &'static str {
        match self {
            Self::Ct => "skull",
            Self::Mr => "hippocampus",
            Self::Ultrasound => "gland",
        }
    }
}

/// How phantoms are made; [`PhantomSettings::new`] gives good values for a modality.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhantomSettings {
    /// Edge of the cubic field of view in voxels of `spacing_mm`.
    pub voxels: usize,
    /// Spacing of a plain grid, mm.
    pub spacing_mm: f64,
    /// Orientation uniform over all rotations; otherwise at most `max_tilt_deg` from the LPS axes.
    pub any_orientation: bool,
    /// Largest rotation from the LPS axes in degrees when `any_orientation` is false.
    pub max_tilt_deg: f64,
    /// Largest distance from the middle of the field of view to the middle of the structure's
    /// frame, mm.
    pub max_shift_mm: f64,
    /// Number of neighbours that look a little like the structure.
    pub distractors: usize,
    /// Strength of the noise; 1 is usual for the modality, 0 is none.
    pub noise: f64,
    /// Share of cases, 0 to 1, whose grid is oblique, anisotropic and mirrored at random; the
    /// others are plain LPS grids.
    pub oblique_share: f64,
}

impl PhantomSettings {
    /// Good values: CT in any orientation, MR and ultrasound within 25° of the LPS axes; 64 to 76
    /// voxels a side.
    pub fn new(modality: PhantomModality) -> Self {
        let common = Self {
            voxels: 64,
            spacing_mm: 1.2,
            any_orientation: false,
            max_tilt_deg: 25.0,
            max_shift_mm: 12.0,
            distractors: 4,
            noise: 1.0,
            oblique_share: 0.3,
        };
        match modality {
            PhantomModality::Ct => Self {
                voxels: 76,
                spacing_mm: 1.7,
                any_orientation: true,
                max_shift_mm: 14.0,
                ..common
            },
            PhantomModality::Mr => common,
            PhantomModality::Ultrasound => Self { spacing_mm: 1.25, max_shift_mm: 8.0, ..common },
        }
    }
}

/// A made volume and the truth about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Phantom {
    /// The image.
    pub image: Volume<f32>,
    /// The smallest box, in the structure's own frame, that encloses the structure. Upright, the
    /// box's axes are the LPS axes.
    pub pose: Pose,
    /// Points on the structure, in an order that depends on the modality only.
    pub landmarks: Vec<(String, PointLps)>,
}

/// The phantom of one case; equal arguments give equal bits.
///
/// # Panics
/// When `settings` has no voxels or a spacing that is not positive: a programming error.
pub fn phantom(modality: PhantomModality, settings: &PhantomSettings, seed: u64) -> Phantom {
    assert!(
        settings.voxels > 0 && settings.spacing_mm > 0.0,
        "a phantom needs voxels and a positive spacing"
    );
    let mut draws = Draws::new(modality as u64, seed);
    let geometry = grid(settings, &mut draws);
    let orientation = if settings.any_orientation {
        draws.rotation()
    } else {
        draws.rotation_within(settings.max_tilt_deg.to_radians())
    };
    let frame = Frame {
        origin: geometry.center().0 + draws.in_ball(settings.max_shift_mm),
        orientation: positive(orientation),
    };
    match modality {
        PhantomModality::Ct => ct::make(geometry, frame, settings, &mut draws),
        PhantomModality::Mr => mr::make(geometry, frame, settings, &mut draws),
        PhantomModality::Ultrasound => ultrasound::make(geometry, frame, settings, &mut draws),
    }
}

/// A structure's own frame: at rest x is left, y posterior, z superior, as in LPS.
#[derive(Debug, Clone, Copy)]
struct Frame {
    origin: Point3<f64>,
    orientation: UnitQuaternion<f64>,
}

impl Frame {
    fn to_lps(self, point: Vector3<f64>) -> PointLps {
        PointLps(self.origin + self.orientation * point)
    }

    /// The smallest box in this frame around all the solids.
    fn pose_around(self, solids: &[Solid]) -> Pose {
        let (low, high) = solids
            .iter()
            .map(Solid::bounds)
            .reduce(|a, b| (a.0.inf(&b.0), a.1.sup(&b.1)))
            .unwrap_or_default();
        Pose {
            center: self.to_lps((low + high) / 2.0),
            orientation: self.orientation,
            size_mm: (high - low).into(),
        }
    }

    fn landmarks(self, points: &[(&str, Vector3<f64>)]) -> Vec<(String, PointLps)> {
        points.iter().map(|&(name, point)| (name.to_owned(), self.to_lps(point))).collect()
    }
}

/// The sampling grid of a case: its field of view is about the same cube whatever the spacings.
fn grid(settings: &PhantomSettings, draws: &mut Draws) -> Geometry {
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

/// The volume whose voxel at the LPS point `p` is `value(p, n)`, `n` being the voxel's place in
/// memory; slices in parallel.
fn render(geometry: Geometry, value: impl Fn(Point3<f64>, u64) -> f64 + Sync) -> Volume<f32> {
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
fn edge_mm(geometry: &Geometry) -> f64 {
    geometry.spacing_mm().iter().sum::<f64>() / 3.0
}

#[cfg(test)]
mod tests;
