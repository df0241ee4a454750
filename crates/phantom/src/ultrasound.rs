//! The ultrasound phantom: a pear-shaped gland with a bright capsule, seen by a probe through
//! speckle, attenuation and shadow.

use crate::frame::Frame;
use crate::image::{edge_mm, render};
use crate::phantom::Phantom;
use crate::random::{Draws, smooth_noise};
use crate::scene::{Part, Scene, distractor_frames};
use crate::settings::PhantomSettings;
use crate::solid::{Scaled, Solid};
use nalgebra::{Point3, Vector3};
use pbt_volume::{Geometry, PointLps};

// Echo strength relative to a bright interface.
const FLUID: f64 = 0.03;
const GLAND: f64 = 0.20;
const CORE: f64 = 0.34;
const VESICLE: f64 = 0.10;
const TISSUE: f64 = 0.45;
const CAPSULE: f64 = 1.0;
const STONE: f64 = 1.8;
/// Size of the background texture's features.
const TEXTURE_MM: f64 = 9.0;
/// Radius of the stone that casts the shadow.
const STONE_MM: f64 = 2.4;
/// How much of the echo is left in the shadow.
const SHADOW: f64 = 0.18;
/// Brings the variance of `smooth_noise`, 8/81 over all positions, to about 1.
const SPECKLE_SCALE: f64 = 3.2;
/// Mean of a Rayleigh variable of unit scale is √(π/2).
const RAYLEIGH_MEAN: f64 = 1.253_314_137_315_5;

pub(super) fn make(
    geometry: Geometry,
    frame: Frame,
    settings: &PhantomSettings,
    draws: &mut Draws,
) -> Phantom {
    let s = Scaled(Vector3::from_fn(|_, _| draws.between(0.9, 1.1)));
    let mut parts: Vec<Part> = distractor_frames(&geometry, frame, settings, 30.0, draws)
        .into_iter()
        .map(|at| distractor(at, draws))
        .collect();
    let mut body = Part::new(frame);
    let anatomy = paint_gland(&mut body, s, draws);
    parts.push(body);
    let scene = Scene { parts, edge_mm: edge_mm(&geometry) };

    let view_mm = settings.voxels as f64 * settings.spacing_mm;
    let probe = Probe::new(&geometry, view_mm, frame.to_lps(anatomy.stone), draws);
    let (texture_key, speckle_key, noise) = (draws.key(), draws.key(), settings.noise);
    let image = render(geometry, |p, _| {
        let Some(beam) = probe.beam(p) else { return 0.0 };
        let texture = smooth_noise(texture_key, p.coords / TEXTURE_MM)[0];
        // Where no part is, loose tissue with lumps of fat.
        let tissue = scene.value(p, TISSUE * (1.0 + 0.6 * texture), 0.0);
        // The magnitude of a complex sum of scatterers; cells grow with depth, as the beam does.
        let [real, imaginary] = smooth_noise(speckle_key, beam.cell).map(|v| v * SPECKLE_SCALE);
        let speckle = (real * real + imaginary * imaginary).sqrt() / RAYLEIGH_MEAN;
        let echo = (tissue + beam.wall) * (1.0 + noise * (speckle - 1.0)) * beam.strength;
        // Compression of the dynamic range, then the scale of the display.
        (255.0 * (echo.max(0.0) / 1.6).sqrt()).min(255.0).round()
    });
    Phantom {
        image,
        pose: frame.pose_around(&anatomy.gland),
        landmarks: frame.landmarks(&anatomy.landmarks),
    }
}

struct Anatomy {
    gland: Vec<Solid>,
    stone: Vector3<f64>,
    landmarks: Vec<(&'static str, Vector3<f64>)>,
}

/// Paints the gland with bladder and vesicles.
fn paint_gland(body: &mut Part, s: Scaled, draws: &mut Draws) -> Anatomy {
    let core = draws.between(0.8, 1.2);
    let apex_z = draws.between(-24.0, -20.0);
    let cyst_mm = draws.between(3.4, 4.8);
    let gland = vec![
        s.ellipsoid([0.0, 0.0, 2.0], [21.0, 14.5, 17.0]),
        s.rod([0.0, 1.0, -4.0], 13.0, [0.0, 4.0, apex_z], 5.5),
    ];

    let bladder = s.ellipsoid([0.0, -14.0, 31.0], [19.0, 14.0, 13.0]);
    body.paint(bladder.grown(2.0), CAPSULE * 0.8);
    body.paint(bladder, FLUID);
    for side in [1.0, -1.0] {
        body.paint(s.rod([side * 4.0, 11.0, 18.0], 3.2, [side * 17.0, 13.0, 23.0], 4.5), VESICLE);
    }
    for solid in &gland {
        body.paint(solid.grown(0.7), CAPSULE);
    }
    for solid in &gland {
        body.paint(solid.grown(-1.4), GLAND);
    }
    body.paint(s.ellipsoid([0.0, -4.0, 5.0], [13.0 * core, 8.0 * core, 10.0]), CORE);
    body.paint(s.rod([0.0, -6.0, 19.0], 1.9, [0.0, 3.0, apex_z + 2.0], 1.9), FLUID);
    // A cyst on the left and a stone on the right.
    body.paint(s.ellipsoid([11.0, 2.0, -2.0], [cyst_mm; 3]), FLUID);
    let stone = s.point(-9.0, 0.0, 6.0);
    body.paint(Solid::Ellipsoid { center: stone, radii: Vector3::repeat(STONE_MM) }, STONE);

    let landmarks = vec![
        ("apex", s.point(0.0, 4.0, apex_z) - Vector3::z() * (5.5 * s.0.mean())),
        ("base", s.point(0.0, -6.0, 19.0)),
        ("cyst", s.point(11.0, 2.0, -2.0)),
    ];
    Anatomy { gland, stone, landmarks }
}

/// A dark lump with a bright rim.
fn distractor(frame: Frame, draws: &mut Draws) -> Part {
    let s = Scaled(Vector3::from_fn(|_, _| draws.between(0.7, 1.2)));
    let lump = s.ellipsoid([0.0; 3], [11.0, 9.0, 8.0]);
    let mut part = Part::new(frame);
    part.paint(lump.grown(0.7), CAPSULE * 0.9);
    part.paint(lump.grown(-1.2), if draws.unit() < 0.5 { GLAND } else { VESICLE });
    part
}

/// The probe lies behind the volume and looks forward, fixed to the volume's field of view and not
/// to the gland.
struct Probe {
    origin: Point3<f64>,
    near_mm: f64,
    far_mm: f64,
    /// Tangents of half the opening, left–right and up–down.
    opening: [f64; 2],
    stone: Vector3<f64>,
}

/// What the probe makes of a point.
struct Beam {
    /// Position in speckle cells.
    cell: Vector3<f64>,
    /// Echo left after attenuation and shadow, 0 to 1.
    strength: f64,
    /// Extra echo of the wall in front of the probe.
    wall: f64,
}

impl Probe {
    fn new(geometry: &Geometry, view_mm: f64, stone: PointLps, draws: &mut Draws) -> Self {
        let shift =
            Vector3::new(draws.between(-4.0, 4.0), 0.62 * view_mm, draws.between(-4.0, 4.0));
        let origin = geometry.center().0 + shift;
        let opening = [draws.between(0.75, 0.9), draws.between(0.7, 0.85)];
        Self {
            origin,
            near_mm: 0.15 * view_mm,
            far_mm: draws.between(1.02, 1.1) * view_mm,
            opening,
            stone: stone.0 - origin,
        }
    }

    fn beam(&self, p: Point3<f64>) -> Option<Beam> {
        let d = p - self.origin;
        let forward = -d.y;
        let depth_mm = d.norm();
        if forward <= 0.0 || depth_mm < self.near_mm || depth_mm > self.far_mm {
            return None;
        }
        let (across, along) = (d.x / forward, d.z / forward);
        if across.abs() > self.opening[0] || along.abs() > self.opening[1] {
            return None;
        }
        let stone_mm = self.stone.norm();
        let behind = d.dot(&self.stone) / stone_mm;
        let off_axis = (d * (stone_mm / behind) - self.stone).norm();
        let shadow = if behind > stone_mm + STONE_MM && off_axis < STONE_MM { SHADOW } else { 1.0 };
        let deep = (depth_mm - self.near_mm) / (self.far_mm - self.near_mm);
        let wall = if (depth_mm - self.near_mm - 4.0).abs() < 1.2 { 0.7 } else { 0.0 };
        Some(Beam {
            cell: Vector3::new(across / 0.04, depth_mm / 1.5, along / 0.04),
            strength: shadow * (1.0 - 0.45 * deep),
            wall,
        })
    }
}
