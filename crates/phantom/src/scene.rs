//! A scene: parts in their own frames, painted one over the other.

use crate::frame::Frame;
use crate::random::Draws;
use crate::settings::PhantomSettings;
use crate::solid::Solid;
use nalgebra::{Isometry3, Point3, Translation3, Vector3};
use pbt_volume::Geometry;

/// A solid filled with one tissue.
#[derive(Debug, Clone, Copy)]
struct Layer {
    solid: Solid,
    value: f64,
    /// How much of the texture field is added to the value.
    texture: f64,
    /// A ball around the solid: most voxels are far from most solids.
    middle: Vector3<f64>,
    reach_mm: f64,
}

/// Layers that move together; later layers cover earlier ones.
pub(super) struct Part {
    from_lps: Isometry3<f64>,
    layers: Vec<Layer>,
}

impl Part {
    pub(super) fn new(frame: Frame) -> Self {
        let to_lps =
            Isometry3::from_parts(Translation3::from(frame.origin.coords), frame.orientation);
        Self { from_lps: to_lps.inverse(), layers: Vec::new() }
    }

    pub(super) fn paint(&mut self, solid: Solid, value: f64) {
        self.paint_textured(solid, value, 0.0);
    }

    pub(super) fn paint_textured(&mut self, solid: Solid, value: f64, texture: f64) {
        let (low, high) = solid.bounds();
        self.layers.push(Layer {
            solid,
            value,
            texture,
            middle: (low + high) / 2.0,
            reach_mm: (high - low).norm() / 2.0,
        });
    }
}

/// All parts, in the order of painting.
pub(super) struct Scene {
    pub(super) parts: Vec<Part>,
    /// Width of the soft edge of every solid, mm.
    pub(super) edge_mm: f64,
}

impl Scene {
    /// Tissue value at an LPS point: `background` where no part is; `texture` is the texture field
    /// there.
    pub(super) fn value(&self, p: Point3<f64>, background: f64, texture: f64) -> f64 {
        let mut value = background;
        for part in &self.parts {
            let q = (part.from_lps * p).coords;
            for layer in &part.layers {
                let reach = layer.reach_mm + self.edge_mm;
                if (q - layer.middle).norm_squared() > reach * reach {
                    continue;
                }
                let inside = (0.5 - layer.solid.distance_mm(q) / self.edge_mm).clamp(0.0, 1.0);
                value += inside * (layer.value + layer.texture * texture - value);
            }
        }
        value
    }
}

/// Frames for the distractors: any orientation, somewhere in the field of view, at least `clear_mm`
/// from the structure's origin where a few attempts find such a place.
pub(super) fn distractor_frames(
    geometry: &Geometry,
    frame: Frame,
    settings: &PhantomSettings,
    clear_mm: f64,
    draws: &mut Draws,
) -> Vec<Frame> {
    let half_mm = settings.voxels as f64 * settings.spacing_mm / 2.0;
    (0..settings.distractors)
        .map(|_| {
            let mut place =
                || geometry.center().0 + Vector3::from_fn(|_, _| draws.between(-half_mm, half_mm));
            let mut origin = place();
            for _ in 0..50 {
                if (origin - frame.origin).norm() >= clear_mm {
                    break;
                }
                origin = place();
            }
            Frame { origin, orientation: draws.rotation() }
        })
        .collect()
}
