//! Transforms of 12-bit values and angles as tables made once, so that no transcendental function
//! runs on a decision path.

use std::sync::OnceLock;

/// Transforms of `v` in 0..=4095.
pub(crate) struct Tables {
    pub(crate) sqrt: Vec<i32>,
    pub(crate) cbrt: Vec<i32>,
    pub(crate) square: Vec<i32>,
    pub(crate) cube: Vec<i32>,
    pub(crate) log: Vec<i32>,
    /// Angle by cosine: entry `n` is `acos((n − 1024) / 1024)`, π = 4095.
    pub(crate) angle: Vec<i32>,
}

/// The transforms √, ∛, square, cube and log of 0 to 4095, one table after the other in the order
/// of [`Modifier`](crate::Modifier), for backends that keep them on a device.
pub fn transform_tables() -> Vec<i32> {
    let tables = Tables::get();
    [&tables.sqrt, &tables.cbrt, &tables.square, &tables.cube, &tables.log]
        .into_iter()
        .flatten()
        .copied()
        .collect()
}

/// The angle of a cosine: entry `n` is `acos((n − 1024) / 1024)`, π = 4095, for backends that keep
/// it on a device.
pub fn angle_table() -> &'static [i32] {
    &Tables::get().angle
}

impl Tables {
    /// The tables, made at first use.
    pub(crate) fn get() -> &'static Self {
        static TABLES: OnceLock<Tables> = OnceLock::new();
        TABLES.get_or_init(Self::new)
    }

    fn new() -> Self {
        // Scaled so that 64 equal-width bins resolve each; rounded from libm, the same on every
        // platform.
        let of = |f: &dyn Fn(f64) -> f64| {
            (0..4096).map(|v| libm::round(f(f64::from(v))) as i32).collect()
        };
        Self {
            sqrt: of(&|v| 256.0 * libm::sqrt(v)),
            cbrt: of(&|v| 1024.0 * libm::cbrt(v)),
            square: of(&|v| v * v),
            cube: of(&|v| v * v * v / 64.0),
            // The patent floors the argument of the logarithm at 1e-4, the paper at 1e-3; of
            // integers it is 1 + v.
            log: of(&|v| 2048.0 * libm::log(1.0 + v)),
            angle: (0..=2048)
                .map(|n| {
                    libm::round(
                        libm::acos((f64::from(n) - 1024.0) / 1024.0) * 4095.0
                            / core::f64::consts::PI,
                    ) as i32
                })
                .collect(),
        }
    }
}
