//! The solids that phantoms are built from, as signed distance functions.

use nalgebra::Vector3;

/// A solid in the frame of its part, mm.
#[derive(Debug, Clone, Copy)]
pub(super) enum Solid {
    /// An ellipsoid along the axes of the frame.
    Ellipsoid { center: Vector3<f64>, radii: Vector3<f64> },
    /// A rod with round ends whose radius changes linearly from `a` to `b`.
    Rod { a: Vector3<f64>, b: Vector3<f64>, radius_a: f64, radius_b: f64 },
    /// A cuboid along the axes of the frame, `half` its half edges.
    Cuboid { center: Vector3<f64>, half: Vector3<f64> },
}

impl Solid {
    /// Distance to the surface in mm, negative inside. Exact for cuboids outside and for rods of
    /// one radius, else first-order near the surface, which is all that a soft edge of a voxel
    /// needs.
    pub(super) fn distance_mm(&self, p: Vector3<f64>) -> f64 {
        match *self {
            Self::Ellipsoid { center, radii } => {
                // k·(k − 1)/|∇k²/2| (I. Quilez, "Ellipsoids - SDF").
                let scaled = (p - center).component_div(&radii);
                let k = scaled.norm();
                let slope = scaled.component_div(&radii).norm();
                if slope == 0.0 { -radii.min() } else { k * (k - 1.0) / slope }
            }
            Self::Rod { a, b, radius_a, radius_b } => {
                let axis = b - a;
                let t = ((p - a).dot(&axis) / axis.norm_squared()).clamp(0.0, 1.0);
                (p - a - axis * t).norm() - (radius_a + (radius_b - radius_a) * t)
            }
            Self::Cuboid { center, half } => {
                let d = (p - center).abs() - half;
                d.sup(&Vector3::zeros()).norm() + d.max().min(0.0)
            }
        }
    }

    /// Lowest and highest coordinates of the solid along the axes of its frame.
    pub(super) fn bounds(&self) -> (Vector3<f64>, Vector3<f64>) {
        match *self {
            Self::Ellipsoid { center, radii: half } | Self::Cuboid { center, half } => {
                (center - half, center + half)
            }
            Self::Rod { a, b, radius_a, radius_b } => {
                let (at_a, at_b) = (Vector3::repeat(radius_a), Vector3::repeat(radius_b));
                ((a - at_a).inf(&(b - at_b)), (a + at_a).sup(&(b + at_b)))
            }
        }
    }

    /// The solid with its surface moved outwards by `by_mm` (inwards when negative).
    pub(super) fn grown(&self, by_mm: f64) -> Self {
        let by = Vector3::repeat(by_mm);
        match *self {
            Self::Ellipsoid { center, radii } => Self::Ellipsoid { center, radii: radii + by },
            Self::Rod { a, b, radius_a, radius_b } => {
                Self::Rod { a, b, radius_a: radius_a + by_mm, radius_b: radius_b + by_mm }
            }
            Self::Cuboid { center, half } => Self::Cuboid { center, half: half + by },
        }
    }
}

/// Builds the solids of one case from those of the average one: coordinates are scaled along each
/// axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scaled(pub(super) Vector3<f64>);

impl Scaled {
    pub(super) fn point(&self, x: f64, y: f64, z: f64) -> Vector3<f64> {
        Vector3::new(x, y, z).component_mul(&self.0)
    }

    pub(super) fn ellipsoid(&self, center: [f64; 3], radii: [f64; 3]) -> Solid {
        Solid::Ellipsoid {
            center: Vector3::from(center).component_mul(&self.0),
            radii: Vector3::from(radii).component_mul(&self.0),
        }
    }

    /// A rod; its radii take the mean of the three scales, so that it stays round.
    pub(super) fn rod(&self, a: [f64; 3], radius_a: f64, b: [f64; 3], radius_b: f64) -> Solid {
        let scale = self.0.mean();
        Solid::Rod {
            a: Vector3::from(a).component_mul(&self.0),
            b: Vector3::from(b).component_mul(&self.0),
            radius_a: radius_a * scale,
            radius_b: radius_b * scale,
        }
    }
}
