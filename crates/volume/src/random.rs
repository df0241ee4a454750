//! Random numbers that are the same everywhere: ChaCha8 streams.

use crate::{positive, rotation_from_vector};
use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Random numbers of one stream; the same on every platform.
#[derive(Debug)]
pub struct Random {
    stream: ChaCha8Rng,
    in_plane: bool,
}

impl Random {
    /// The stream that starts from this seed.
    pub fn from_seed(seed: u64) -> Self {
        Self { stream: ChaCha8Rng::seed_from_u64(seed), in_plane: false }
    }

    /// The stream that starts from this hash of all that names it.
    pub fn from_hash(hash: [u8; 32]) -> Self {
        Self { stream: ChaCha8Rng::from_seed(hash), in_plane: false }
    }

    /// The same stream, whose moves and turns stay in the plane z = 0 where `in_plane` is set: for
    /// images of one slice.
    pub fn in_plane(self, in_plane: bool) -> Self {
        Self { in_plane, ..self }
    }

    /// Whether moves and turns stay in the plane.
    pub fn is_in_plane(&self) -> bool {
        self.in_plane
    }

    /// A move, or its part in the plane.
    pub fn moving(&self, shift: Vector3<f64>) -> Vector3<f64> {
        if self.in_plane { Vector3::new(shift.x, shift.y, 0.0) } else { shift }
    }

    /// A rotation vector, or its part in the plane.
    pub fn turning(&self, vector: Vector3<f64>) -> Vector3<f64> {
        if self.in_plane { Vector3::new(0.0, 0.0, vector.z) } else { vector }
    }

    /// Logarithms of edges, or those in the plane with their mean as the third: a plane has no
    /// thickness, and the mean edge must not hang on it.
    pub fn growing(&self, [x, y, z]: [f64; 3]) -> [f64; 3] {
        if self.in_plane { [x, y, (x + y) / 2.0] } else { [x, y, z] }
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Normal with mean 0 and standard deviation 1, nearly: twelve uniform numbers less six, so
    /// never beyond six.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// An axis to turn about, uniform on the sphere; in a plane one of the two across it.
    pub fn axis(&mut self) -> Vector3<f64> {
        let direction = self.direction();
        if self.in_plane { Vector3::new(0.0, 0.0, direction.z.signum()) } else { direction }
    }

    /// A direction, uniform on the sphere.
    pub fn direction(&mut self) -> Vector3<f64> {
        let z = self.between(-1.0, 1.0);
        let (sin, cos) = libm::sincos(self.between(0.0, core::f64::consts::TAU));
        let r = (1.0 - z * z).max(0.0).sqrt();
        Vector3::new(r * cos, r * sin, z)
    }

    /// A vector uniform in the ball of this radius; in a plane the foot of one.
    pub fn in_ball(&mut self, radius: f64) -> Vector3<f64> {
        let r = radius * libm::cbrt(self.uniform());
        let vector = self.direction() * r;
        self.moving(vector)
    }

    /// A rotation uniform in SO(3) (Shoemake 1992), or in a plane.
    pub fn rotation(&mut self) -> UnitQuaternion<f64> {
        if self.in_plane {
            return self.rotation_by(0.0, core::f64::consts::PI);
        }
        let (u, v, w) = (self.uniform(), self.uniform(), self.uniform());
        let (sin_v, cos_v) = libm::sincos(core::f64::consts::TAU * v);
        let (sin_w, cos_w) = libm::sincos(core::f64::consts::TAU * w);
        let (a, b) = ((1.0 - u).sqrt(), u.sqrt());
        positive(UnitQuaternion::new_normalize(Quaternion::new(
            b * cos_w,
            a * sin_v,
            a * cos_v,
            b * sin_w,
        )))
    }

    /// A rotation by an angle uniform in [low, high) radians about an axis as of [`Random::axis`].
    pub fn rotation_by(&mut self, low: f64, high: f64) -> UnitQuaternion<f64> {
        let angle = self.between(low, high);
        rotation_from_vector(self.axis() * angle)
    }
}
