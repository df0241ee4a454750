//! The CT phantom: a head with skull, jaw, ear bones, airways and neck, on a table, with limbs and
//! a hollow bone nearby.

use crate::frame::Frame;
use crate::image::{edge_mm, render};
use crate::phantom::Phantom;
use crate::random::{Draws, gaussian, hash};
use crate::scene::{Part, Scene, distractor_frames};
use crate::settings::PhantomSettings;
use crate::solid::{Scaled, Solid};
use nalgebra::{UnitQuaternion, Vector3};
use pbt_volume::Geometry;

// Hounsfield units, rounded from what CT of a head shows.
const AIR: f64 = -1000.0;
const FOAM: f64 = -850.0;
const SOFT: f64 = 50.0;
const BRAIN: f64 = 35.0;
const FLUID: f64 = 5.0;
const SPONGY_BONE: f64 = 420.0;
const BONE: f64 = 950.0;
const EAR_BONE: f64 = 1800.0;
const TOOTH: f64 = 2200.0;
const NOISE: f64 = 40.0;

pub(super) fn make(
    geometry: Geometry,
    frame: Frame,
    settings: &PhantomSettings,
    draws: &mut Draws,
) -> Phantom {
    let scaled = Scaled(Vector3::from_fn(|_, _| draws.between(0.9, 1.1)));
    let mut head = Part::new(frame);
    let (skull, landmarks) = paint_head(&mut head, scaled, draws);

    let mut parts = vec![table(&geometry, settings)];
    parts.extend(
        distractor_frames(&geometry, frame, settings, 46.0, draws)
            .into_iter()
            .map(|at| distractor(at, draws)),
    );
    parts.push(head);
    let scene = Scene { parts, edge_mm: edge_mm(&geometry) };

    let (key, noise) = (draws.key(), settings.noise * NOISE);
    let image = render(geometry, |p, n| {
        (scene.value(p, AIR, 0.0) + noise * gaussian(hash(key, n))).round()
    });
    Phantom { image, pose: frame.pose_around(&skull), landmarks: frame.landmarks(&landmarks) }
}

/// Paints the head and gives the solids of the skull, jaw included, and the landmarks.
fn paint_head(
    head: &mut Part,
    s: Scaled,
    draws: &mut Draws,
) -> (Vec<Solid>, Vec<(&'static str, Vector3<f64>)>) {
    let jaw_drop = draws.between(-1.5, 3.0);
    let snout = draws.between(0.88, 1.12);
    let wall_mm = draws.between(2.6, 3.6);
    let ear_mm = draws.between(3.8, 5.0);
    let chin_z = -18.0 - jaw_drop;
    let sides = [1.0, -1.0];

    let cranium = s.ellipsoid([0.0, 4.0, 4.0], [21.0, 26.0, 20.0]);
    let face = s.rod([0.0, -13.0, -5.0], 11.5, [0.0, -33.0 * snout, -9.0], 6.5);
    let cheek = |side: f64| s.rod([side * 15.5, -17.0, -5.0], 2.0, [side * 19.5, 3.0, -8.0], 2.4);
    let jaw = |side: f64| {
        [
            s.rod([side * 16.0, 4.0, -8.0], 2.6, [side * 13.0, -3.0, chin_z], 3.4),
            s.rod([side * 13.0, -3.0, chin_z], 3.4, [0.0, -30.0 * snout, chin_z], 3.0),
        ]
    };
    let mut skull = vec![cranium, face];
    for side in sides {
        skull.push(cheek(side));
        skull.extend(jaw(side));
    }

    // Skin, muscles, neck with spine and windpipe.
    head.paint(s.rod([0.0, 15.0, -6.0], 18.0, [0.0, 38.0, -80.0], 17.0), SOFT);
    for n in 0..5 {
        let (y, z) = (19.0 + 3.4 * f64::from(n), -21.0 - 11.5 * f64::from(n));
        head.paint(s.ellipsoid([0.0, y, z], [7.0, 6.0, 4.4]), SPONGY_BONE);
        head.paint(s.rod([0.0, y + 5.0, z], 2.0, [0.0, y + 12.0, z - 3.0], 1.6), BONE);
    }
    head.paint(s.rod([0.0, 4.0, -24.0], 3.6, [0.0, 25.0, -80.0], 3.6), AIR);
    for solid in &skull {
        head.paint(solid.grown(3.2), SOFT);
    }
    head.paint(s.rod([0.0, -2.0, -11.0], 13.0, [0.0, -26.0 * snout, -13.0], 7.0), SOFT);

    // Bone, then what is hollowed out of it.
    head.paint(face, BONE);
    for side in sides {
        head.paint(cheek(side), BONE);
        jaw(side).iter().for_each(|&part| head.paint(part, BONE));
        head.paint(
            s.rod(
                [side * 10.5, -8.0, chin_z + 4.2],
                1.5,
                [side * 3.5, -27.0 * snout, chin_z + 4.2],
                1.5,
            ),
            TOOTH,
        );
        head.paint(
            s.rod([side * 8.0, -17.0, -13.5], 1.5, [side * 3.0, -31.0 * snout, -14.0], 1.5),
            TOOTH,
        );
    }
    head.paint(cranium, BONE);
    head.paint(cranium.grown(-wall_mm), BRAIN);
    head.paint(s.ellipsoid([0.0, 17.0, -13.5], [5.5, 6.0, 5.0]), SOFT);
    for side in sides {
        head.paint(s.rod([side * 3.0, -6.0, 8.0], 2.2, [side * 6.0, 14.0, 8.0], 2.8), FLUID);
        head.paint(s.ellipsoid([side * 10.5, -18.5, 1.5], [6.2, 8.0, 6.0]), SOFT);
        head.paint(s.ellipsoid([side * 10.5, -22.5, 1.5], [2.4, 1.6, 2.4]), 120.0);
        head.paint(
            s.ellipsoid([side * 15.5, 8.0, -10.0], [ear_mm, ear_mm * 1.25, ear_mm]),
            EAR_BONE,
        );
        head.paint(s.rod([side * 20.0, 7.0, -10.0], 1.4, [side * 28.0, 6.0, -10.0], 1.8), AIR);
        head.paint(s.ellipsoid([side * 3.4, -25.0 * snout, -7.0], [2.4, 9.0, 4.6]), AIR);
    }
    head.paint(s.rod([0.0, -14.0, -12.0], 2.6, [0.0, 4.0, -24.0], 3.4), AIR);

    // Left only: a calcified ball beside the midline and one frontal sinus.
    head.paint(s.ellipsoid([9.5, 10.0, 12.0], [3.8, 3.8, 3.8]), BONE);
    head.paint(s.ellipsoid([5.5, -18.0, 10.5], [4.5, 3.2, 3.8]), AIR);

    let landmarks = vec![
        ("nose", s.point(0.0, -33.0 * snout - 6.0, -9.0)),
        ("chin", s.point(0.0, -30.0 * snout, chin_z)),
        ("ear_left", s.point(15.5, 8.0, -10.0)),
        ("ear_right", s.point(-15.5, 8.0, -10.0)),
    ];
    (skull, landmarks)
}

/// A padded plate behind the patient, fixed to the scanner: it says nothing about how the head
/// lies.
fn table(geometry: &Geometry, settings: &PhantomSettings) -> Part {
    let view_mm = settings.voxels as f64 * settings.spacing_mm;
    let mut table =
        Part::new(Frame { origin: geometry.center().0, orientation: UnitQuaternion::identity() });
    let plate = Solid::Cuboid {
        center: Vector3::new(0.0, 0.44 * view_mm, 0.0),
        half: Vector3::new(0.36 * view_mm, 4.5, view_mm),
    };
    table.paint(plate, 150.0);
    table.paint(plate.grown(-1.8), FOAM);
    table
}

/// A limb with a bone in it, or a hollow bone that resembles a skull without a face.
fn distractor(frame: Frame, draws: &mut Draws) -> Part {
    let s = Scaled(Vector3::from_fn(|_, _| draws.between(0.8, 1.2)));
    let mut part = Part::new(frame);
    if draws.unit() < 0.6 {
        part.paint(s.rod([0.0, 0.0, -24.0], 9.0, [0.0, 0.0, 24.0], 7.0), SOFT);
        part.paint(s.rod([0.0, 0.0, -22.0], 3.8, [0.0, 0.0, 22.0], 2.6), BONE);
        part.paint(s.rod([0.0, 0.0, -18.0], 1.8, [0.0, 0.0, 18.0], 1.0), SPONGY_BONE);
    } else {
        let shell = s.ellipsoid([0.0; 3], [12.0, 14.0, 11.0]);
        part.paint(shell.grown(3.0), SOFT);
        part.paint(shell, BONE);
        part.paint(shell.grown(-3.0), BRAIN);
        part.paint(s.ellipsoid([4.0, 5.0, 9.0], [2.0, 2.0, 2.0]), EAR_BONE);
    }
    part
}
