//! The MR phantom: a bent, tapering grey structure beside a dark horn, in textured white matter,
//! with a bias field.

use crate::frame::Frame;
use crate::image::{edge_mm, render};
use crate::phantom::Phantom;
use crate::random::{Draws, gaussian, hash, smooth_noise};
use crate::scene::{Part, Scene, distractor_frames};
use crate::settings::PhantomSettings;
use crate::solid::{Scaled, Solid};
use nalgebra::Vector3;
use pbt_volume::Geometry;

// Signal relative to bright white matter, as in T1 weighting.
const SKULL: f64 = 0.06;
const FLUID: f64 = 0.16;
const GREY: f64 = 0.52;
const SCALP: f64 = 0.70;
const WHITE: f64 = 0.80;
const STEM: f64 = 0.86;
const VESSEL: f64 = 1.15;
const NOISE: f64 = 0.035;
/// Size of the texture's features.
const TEXTURE_MM: f64 = 7.0;

pub(super) fn make(
    geometry: Geometry,
    frame: Frame,
    settings: &PhantomSettings,
    draws: &mut Draws,
) -> Phantom {
    let s = Scaled(Vector3::from_fn(|_, _| draws.between(0.9, 1.1)));
    let mut tissue = Part::new(frame);
    let brain = s.ellipsoid([-34.0, 4.0, 20.0], [60.0, 74.0, 56.0]);
    tissue.paint(brain.grown(13.0), SCALP);
    tissue.paint(brain.grown(7.0), SKULL);
    tissue.paint(brain.grown(1.5), FLUID);
    tissue.paint_textured(brain, WHITE - 0.09, 0.16);

    let mut parts = vec![tissue];
    parts.extend(
        distractor_frames(&geometry, frame, settings, 27.0, draws)
            .into_iter()
            .map(|at| distractor(at, draws)),
    );
    let mut body = Part::new(frame);
    let (structure, landmarks) = paint_structure(&mut body, s, draws);
    parts.push(body);
    let scene = Scene { parts, edge_mm: edge_mm(&geometry) };

    // Scanners have no common scale: files range from 0–255 to 0–1,700,000.
    let scale = libm::pow(10.0, draws.between(2.3, 6.0));
    let bias = Bias::new(&geometry, draws);
    let (key, texture_key, noise) = (draws.key(), draws.key(), settings.noise * NOISE);
    let image = render(geometry, |p, n| {
        let texture = smooth_noise(texture_key, p.coords / TEXTURE_MM)[0];
        let signal = scene.value(p, 0.0, texture) * bias.at(p.coords);
        // Rician: the magnitude of a complex signal with Gaussian noise in both channels.
        let real = signal + noise * gaussian(hash(key, 2 * n));
        let imaginary = noise * gaussian(hash(key, 2 * n + 1));
        scale * (real * real + imaginary * imaginary).sqrt()
    });
    Phantom { image, pose: frame.pose_around(&structure), landmarks: frame.landmarks(&landmarks) }
}

/// Paints the structure with its neighbours and gives its solids and the landmarks.
fn paint_structure(
    body: &mut Part,
    s: Scaled,
    draws: &mut Draws,
) -> (Vec<Solid>, Vec<(&'static str, Vector3<f64>)>) {
    let bend_mm = draws.between(5.0, 9.0);
    let rise_mm = draws.between(5.0, 9.0);
    let thickness = draws.between(0.88, 1.12);
    // From head (anterior) to tail along a parabola that opens to the midline and rises at the
    // back.
    let spine: Vec<([f64; 3], f64)> = (0..8)
        .map(|n| {
            let t = f64::from(n) / 7.0;
            let arc = (2.0 * t - 1.0) * (2.0 * t - 1.0);
            (
                [bend_mm * (0.5 - arc), -17.0 + 35.0 * t, rise_mm * (t * t - 0.4)],
                thickness * (6.6 - 6.2 * t + 2.8 * t * t),
            )
        })
        .collect();
    let mut structure: Vec<Solid> =
        spine.windows(2).map(|w| s.rod(w[0].0, w[0].1, w[1].0, w[1].1)).collect();
    let (head, head_mm) = spine[0];
    let (tail, tail_mm) = spine[7];
    // The hook at the head points to the midline.
    structure.push(s.rod(head, head_mm * 0.8, [head[0] - 8.0, head[1] + 3.0, head[2] + 2.0], 3.2));

    // The brain stem and a cistern on the midline side, the horn of the ventricle on the other, a
    // round grey neighbour in front.
    body.paint(s.rod([-27.0, 12.0, -34.0], 11.5, [-25.0, 0.0, 16.0], 9.5), FLUID);
    body.paint(s.rod([-27.0, 12.0, -36.0], 9.5, [-25.0, 0.0, 14.0], 7.5), STEM);
    for w in spine.windows(2).skip(1) {
        let beside = |(c, _): ([f64; 3], f64)| [c[0] + 6.5, c[1], c[2] + 2.5];
        body.paint(s.rod(beside(w[0]), 3.0, beside(w[1]), 3.4), FLUID);
    }
    body.paint(s.ellipsoid([head[0] - 1.0, head[1] - 14.0, head[2] + 4.0], [6.5, 6.0, 6.5]), GREY);
    for solid in &structure {
        body.paint(solid.grown(1.3), FLUID + 0.08);
    }
    for &solid in &structure {
        body.paint(solid, GREY);
    }
    // One vessel runs below, on the outer side only.
    body.paint(s.rod([11.0, -14.0, -9.0], 1.6, [13.0, 14.0, -7.0], 1.6), VESSEL);

    let landmarks = vec![
        ("head_tip", s.point(head[0], head[1], head[2]) - Vector3::y() * (head_mm * s.0.mean())),
        ("tail_tip", s.point(tail[0], tail[1], tail[2]) + Vector3::y() * (tail_mm * s.0.mean())),
        ("hook", s.point(head[0] - 8.0, head[1] + 3.0, head[2] + 2.0)),
    ];
    (structure, landmarks)
}

/// A grey lump with a dark rim, now and then long and bent like the structure.
fn distractor(frame: Frame, draws: &mut Draws) -> Part {
    let s = Scaled(Vector3::from_fn(|_, _| draws.between(0.8, 1.2)));
    let mut part = Part::new(frame);
    let solids = if draws.unit() < 0.5 {
        vec![s.ellipsoid([0.0; 3], [6.0, 8.5, 5.0])]
    } else {
        vec![
            s.rod([0.0, -10.0, 0.0], 5.0, [4.0, 0.0, 0.0], 4.5),
            s.rod([4.0, 0.0, 0.0], 4.5, [0.0, 10.0, 0.0], 5.0),
        ]
    };
    for solid in &solids {
        part.paint(solid.grown(1.3), FLUID + 0.08);
    }
    for &solid in &solids {
        part.paint(solid, GREY);
    }
    part
}

/// A smooth multiplicative field: 1 in the middle of the volume, ±30 % at its ends.
struct Bias {
    middle: Vector3<f64>,
    slope: Vector3<f64>,
    curve: Vector3<f64>,
}

impl Bias {
    fn new(geometry: &Geometry, draws: &mut Draws) -> Self {
        let [first, last] = [geometry.origin().0, geometry.center().0];
        let half_mm = (last - first).norm() / 3f64.sqrt();
        let slope = draws.in_ball(0.2) / half_mm;
        Self { middle: last.coords, slope, curve: draws.in_ball(0.15) / (half_mm * half_mm) }
    }

    fn at(&self, p: Vector3<f64>) -> f64 {
        let d = p - self.middle;
        (1.0 + self.slope.dot(&d) + self.curve.dot(&d.component_mul(&d))).max(0.2)
    }
}
