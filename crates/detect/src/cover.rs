//! Rotations to try: an even cover of SO(3), and draws from it.

use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use pbt_volume::{positive, rotation_from_vector};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// `n` rotations spread evenly over SO(3): super-Fibonacci spirals (Alexa, CVPR 2022, algorithm 1).
/// The nearest of 600 lies 14° away on average and 26° at most.
pub fn rotation_cover(n: usize) -> Vec<UnitQuaternion<f64>> {
    // φ = √2 and the positive root ψ of ψ⁴ = ψ + 4, section 4 of the paper.
    const PHI: f64 = core::f64::consts::SQRT_2;
    const PSI: f64 = 1.533_751_168_755_204_3;
    (0..n)
        .map(|i| {
            let s = i as f64 + 0.5;
            let (inner, outer) = ((s / n as f64).sqrt(), (1.0 - s / n as f64).sqrt());
            let (sin_a, cos_a) = libm::sincos(core::f64::consts::TAU * s / PHI);
            let (sin_b, cos_b) = libm::sincos(core::f64::consts::TAU * s / PSI);
            positive(UnitQuaternion::new_normalize(Quaternion::new(
                outer * cos_b,
                inner * sin_a,
                inner * cos_a,
                outer * sin_b,
            )))
        })
        .collect()
}

/// Random numbers of one stream; the same on every platform.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) ChaCha8Rng);

impl Random {
    /// The stream of a seed, a stage's number and an item's number within the stage.
    pub(crate) fn new(seed: u64, stage: u64, item: u64) -> Self {
        use rand_chacha::rand_core::SeedableRng;
        // The golden ratio's odd multiples spread stages over the key space; the item is ChaCha's
        // own stream number.
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ stage.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        rng.set_stream(item);
        Self(rng)
    }

    /// Uniform in [0, 1) with 53 bits.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Normal with mean 0 and standard deviation 1, nearly: twelve uniform numbers less six, so
    /// never beyond six.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }

    /// Uniform in `0..n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// A direction, uniform on the sphere.
    pub(crate) fn direction(&mut self) -> Vector3<f64> {
        let z = self.between(-1.0, 1.0);
        let (sin, cos) = libm::sincos(self.between(0.0, core::f64::consts::TAU));
        let r = (1.0 - z * z).max(0.0).sqrt();
        Vector3::new(r * cos, r * sin, z)
    }

    /// A vector uniform in the ball of this radius.
    pub(crate) fn in_ball(&mut self, radius: f64) -> Vector3<f64> {
        let r = radius * libm::cbrt(self.uniform());
        self.direction() * r
    }

    /// A rotation uniform in SO(3) (Shoemake 1992).
    pub(crate) fn rotation(&mut self) -> UnitQuaternion<f64> {
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

    /// A rotation by an angle uniform in [low, high) radians about a uniform axis.
    pub(crate) fn rotation_by(&mut self, low: f64, high: f64) -> UnitQuaternion<f64> {
        let angle = self.between(low, high);
        rotation_from_vector(self.direction() * angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::angle_between;

    /// The figures of `reference` for 600 and 2,000 rotations: 14°/26° and 9.6°/16°, measured with
    /// random rotations.
    #[test]
    fn the_cover_is_as_dense_as_published() {
        for (n, mean, most) in [(600, 14.5, 28.0), (2000, 10.0, 18.0)] {
            let cover = rotation_cover(n);
            let mut random = Random::new(1, 2, 3);
            let mut distances: Vec<f64> = (0..500)
                .map(|_| {
                    let q = random.rotation();
                    cover
                        .iter()
                        .map(|c| angle_between(c, &q).to_degrees())
                        .fold(f64::INFINITY, f64::min)
                })
                .collect();
            distances.sort_by(f64::total_cmp);
            assert!(distances.iter().sum::<f64>() / 500.0 < mean);
            assert!(distances[499] < most, "{}", distances[499]);
        }
    }
}
