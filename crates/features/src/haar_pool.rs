//! The pool of Haar features that training chooses from: edges, lines, checkers, concentric boxes,
//! separated pairs and single boxes.

use crate::haar::{Cuboid, HaarFeature};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What the Haar pool holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HaarPoolConfig {
    /// Number of features, 100 to 100,000.
    pub features: usize,
    /// Features stay within this many voxels of the test voxel, 1 to 60.
    pub radius: usize,
    /// Edge lengths of the cuboids are multiples of this many voxels, at least 1.
    pub step: usize,
    /// Share of concentric (centre–surround) boxes, 0 to 1. On mouse skulls they took 83–90 % of
    /// the gain of the position stage.
    pub concentric: f64,
}

impl Default for HaarPoolConfig {
    fn default() -> Self {
        Self { features: 600, radius: 9, step: 1, concentric: 0.33 }
    }
}

/// Draws the pool: distinct features, the same ones for the same configuration and seed. Beside the
/// concentric share, the families edge, line, checker, separated pair and single box come equally
/// often, on every axis or plane.
pub fn haar_pool(config: &HaarPoolConfig, seed: u64) -> Vec<HaarFeature> {
    let mut draw = Draw {
        rng: ChaCha8Rng::seed_from_u64(seed),
        radius: config.radius as i64,
        step: config.step.max(1) as i64,
    };
    let mut seen = BTreeSet::new();
    let mut pool = Vec::with_capacity(config.features);
    let concentric = (config.features as f64 * config.concentric.clamp(0.0, 1.0)) as usize;
    // A small window has fewer distinct features than asked for: stop when draws stop finding new
    // ones.
    let mut misses = 0;
    while pool.len() < config.features && misses < 1000 {
        let cuboids =
            if pool.len() < concentric { draw.concentric() } else { draw.other(pool.len()) };
        match cuboids.and_then(|c| HaarFeature::new(&c).ok()) {
            Some(feature) if seen.insert(feature) => {
                pool.push(feature);
                misses = 0;
            }
            _ => misses += 1,
        }
    }
    pool
}

struct Draw {
    rng: ChaCha8Rng,
    radius: i64,
    step: i64,
}

impl Draw {
    /// Uniform in `low..=high` (the bias of the multiply-shift is below 2⁻²⁰ here).
    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + ((u64::from(self.rng.next_u32()) * (high - low + 1).max(1) as u64) >> 32) as i64
    }

    /// An edge length: a multiple of the step, at most `limit`. Squared deviates favour small
    /// boxes, of which more are distinct.
    fn length(&mut self, limit: i64) -> i64 {
        let most = (limit / self.step).max(1);
        let u = self.between(0, 1 << 16) as f64 / 65536.0;
        ((1.0 + u * u * most as f64) as i64).min(most) * self.step
    }

    fn lengths(&mut self) -> [i64; 3] {
        let limit = 2 * self.radius + 1;
        [0, 1, 2].map(|_| self.length(limit))
    }

    /// Low corner for boxes that together span `span`, anywhere in the window; `None` when they do
    /// not fit.
    fn place(&mut self, span: [i64; 3]) -> Option<[i64; 3]> {
        let window = 2 * self.radius + 1;
        if span.iter().any(|&s| s > window) {
            return None;
        }
        Some([0, 1, 2].map(|a| self.between(-self.radius, self.radius + 1 - span[a])))
    }

    /// An inner box against the larger box round it, weighted so that a constant image gives about
    /// zero.
    fn concentric(&mut self) -> Option<Vec<Cuboid>> {
        let outer = [0, 1, 2].map(|_| 2 * self.between(1, self.radius) + 1);
        let inner = outer.map(|o| (self.between(1, o - 1) | 1).min(o - 2).max(1));
        // Half of them centred on the test voxel, half a little beside it.
        let shift = if self.between(0, 1) == 0 {
            [0; 3]
        } else {
            outer.map(|o| {
                let room = (self.radius - o / 2).max(0);
                self.between(-room, room)
            })
        };
        let ratio = outer.iter().product::<i64>() as f64 / inner.iter().product::<i64>() as f64;
        if ratio > 2000.0 {
            return None;
        }
        let at = |size: [i64; 3], weight| {
            cuboid(std::array::from_fn(|a| shift[a] - size[a] / 2), size, weight)
        };
        Some(vec![at(inner, ratio.round() as i64), at(outer, -1)])
    }

    fn other(&mut self, n: usize) -> Option<Vec<Cuboid>> {
        let axis = self.between(0, 2) as usize;
        let size = self.lengths();
        let along = |a: usize, by: i64| -> [i64; 3] {
            std::array::from_fn(|b| if a == b { by } else { 0 })
        };
        let grown = |size: [i64; 3], a: usize, by: i64| -> [i64; 3] {
            std::array::from_fn(|b| if a == b { size[b] * by } else { size[b] })
        };
        let plus = |p: [i64; 3], q: [i64; 3]| -> [i64; 3] { std::array::from_fn(|a| p[a] + q[a]) };
        match n % 5 {
            0 => {
                let min = self.place(grown(size, axis, 2))?;
                Some(vec![
                    cuboid(min, size, 1),
                    cuboid(plus(min, along(axis, size[axis])), size, -1),
                ])
            }
            1 => {
                let min = self.place(grown(size, axis, 3))?;
                let whole = grown(size, axis, 3);
                Some(vec![
                    cuboid(min, whole, 1),
                    cuboid(plus(min, along(axis, size[axis])), size, -3),
                ])
            }
            2 => {
                let other = (axis + 1) % 3;
                let min = self.place(grown(grown(size, axis, 2), other, 2))?;
                let (u, v) = (along(axis, size[axis]), along(other, size[other]));
                Some(vec![
                    cuboid(min, size, 1),
                    cuboid(plus(min, u), size, -1),
                    cuboid(plus(min, v), size, -1),
                    cuboid(plus(min, plus(u, v)), size, 1),
                ])
            }
            3 => {
                let (first, second) = (self.place(size)?, self.place(size)?);
                (first != second).then(|| vec![cuboid(first, size, 1), cuboid(second, size, -1)])
            }
            _ => Some(vec![cuboid(self.place(size)?, size, 1)]),
        }
    }
}

fn cuboid(min: [i64; 3], size: [i64; 3], weight: i64) -> Cuboid {
    // The window is at most 60 voxels in radius, so that corners fit i8 and edges u8; weights are
    // at most 2,000.
    Cuboid { min: min.map(|v| v as i8), size: size.map(|v| v as u8), weight: weight as i16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_reproducible_distinct_and_inside_the_window() {
        for (features, radius) in [(1000, 9), (20_000, 16), (100_000, 60)] {
            let config = HaarPoolConfig { features, radius, ..HaarPoolConfig::default() };
            let pool = haar_pool(&config, 7);
            assert_eq!(pool.len(), features);
            assert_eq!(pool, haar_pool(&config, 7));
            assert_ne!(pool, haar_pool(&config, 8));
            assert!(pool.iter().all(|f| f.radius() <= radius));
        }
    }

    #[test]
    fn a_tiny_window_ends() {
        let pool = haar_pool(
            &HaarPoolConfig { features: 100_000, radius: 1, ..HaarPoolConfig::default() },
            0,
        );
        assert!(!pool.is_empty() && pool.len() < 100_000);
    }
}
