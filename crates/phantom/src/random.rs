//! Randomness: a stream for the parameters of a case, hashes for everything that is drawn by the
//! voxel.

use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// A stream of parameters.
pub(super) struct Draws(ChaCha8Rng);

impl Draws {
    pub(super) fn new(stream: u64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// A key for [`hash`].
    pub(super) fn key(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in 0..n for a small n.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Uniform in a ball, by rejection.
    pub(super) fn in_ball(&mut self, radius: f64) -> Vector3<f64> {
        loop {
            let v = Vector3::from_fn(|_, _| self.between(-1.0, 1.0));
            if v.norm_squared() <= 1.0 {
                return v * radius;
            }
        }
    }

    /// Uniform over all rotations (Shoemake 1992, "Uniform random rotations", Graphics Gems III).
    pub(super) fn rotation(&mut self) -> UnitQuaternion<f64> {
        let (u, a, b) = (self.unit(), self.unit(), self.unit());
        let (sine_a, cosine_a) = libm::sincos(std::f64::consts::TAU * a);
        let (sine_b, cosine_b) = libm::sincos(std::f64::consts::TAU * b);
        let (r, s) = ((1.0 - u).sqrt(), u.sqrt());
        UnitQuaternion::new_normalize(Quaternion::new(
            s * cosine_b,
            r * sine_a,
            r * cosine_a,
            s * sine_b,
        ))
    }

    /// A rotation by at most `radians`, its rotation vector uniform in the ball.
    pub(super) fn rotation_within(&mut self, radians: f64) -> UnitQuaternion<f64> {
        pbt_volume::rotation_from_vector(self.in_ball(radians))
    }
}

/// A well-mixed 64-bit value for `n` (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
pub(super) fn hash(key: u64, n: u64) -> u64 {
    let mut z = key.wrapping_add(n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Nearly Gaussian, mean 0 and variance 1, from 64 random bits: the sum of four uniform 16-bit
/// numbers. Exact, so the same anywhere.
pub(super) fn gaussian(bits: u64) -> f64 {
    let sum: u64 = (0..4).map(|n| bits >> (16 * n) & 0xffff).sum();
    // Four uniform numbers on [0, 65536) have mean 4·32767.5 and variance 4·65536²/12.
    (sum as f64 - 131_070.0) * (3f64.sqrt() / 65536.0)
}

/// Two smooth random fields at `p`, each about −1 to 1 with features of one unit: trilinear
/// interpolation of hashed lattice values.
pub(super) fn smooth_noise(key: u64, p: Vector3<f64>) -> [f64; 2] {
    let floor = p.map(f64::floor);
    let t = p - floor;
    let cell = floor.map(|v| v as i64 as u64);
    let mut fields = [0.0; 2];
    for corner in 0..8u64 {
        let bit = |a: usize| corner >> a & 1;
        let weight: f64 = (0..3).map(|a| if bit(a) == 1 { t[a] } else { 1.0 - t[a] }).product();
        // Large odd multipliers keep neighbouring cells apart before the hash mixes them.
        let n = (cell.x.wrapping_add(bit(0)).wrapping_mul(0x8da6_b343))
            ^ (cell.y.wrapping_add(bit(1)).wrapping_mul(0xd816_3841_0000_0001))
            ^ (cell.z.wrapping_add(bit(2)).wrapping_mul(0x0000_cb1a_b31f_0003));
        let bits = hash(key, n);
        for (field, half) in fields.iter_mut().zip([bits >> 32, bits & 0xffff_ffff]) {
            *field += weight * (half as f64 / (1u64 << 31) as f64 - 1.0);
        }
    }
    fields
}
