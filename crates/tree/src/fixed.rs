//! Fixed-point logistic and logarithm: integer tables, so that every device computes the same bits.

use std::sync::LazyLock;

/// Fractional bits of probabilities and of path weights. 2048 trees of mass 2⁵² still add up in a
/// `u64`.
pub const MASS_BITS: u32 = 52;
/// Probability one, and the weight of the root.
pub const MASS_ONE: u64 = 1 << MASS_BITS;
/// Fractional bits of [`ln`].
pub const LN_BITS: u32 = 32;

/// Bits of the doubled margin inside one step of [`minor_table`]: steps of 1/256.
pub const MINOR_STEP_BITS: u32 = 8;
/// Largest doubled margin of the table, in steps: 32. Beyond, the probability stays at e⁻³² ≈
/// 1.3·10⁻¹⁴.
const STEPS: usize = 32 << MINOR_STEP_BITS;

/// 1/(1 + e^u) for u = i/256, in units of 2⁻⁵².
static MINOR: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let value =
        |i: usize| MASS_ONE as f64 / (1.0 + libm::exp(i as f64 / (1 << MINOR_STEP_BITS) as f64));
    (0..=STEPS).map(|i| value(i).round() as u64).collect()
});

/// ln(1 + i/1024) in units of 2⁻³².
static LN: LazyLock<Vec<i64>> = LazyLock::new(|| {
    (0..=1024)
        .map(|i| (libm::log1p(i as f64 / 1024.0) * (1u64 << LN_BITS) as f64).round() as i64)
        .collect()
});

/// The table behind [`minor_probability`]: 1/(1 + e^(i/256)) in units of 2⁻⁵², for i from 0 to
/// 8192. For backends that keep it on a device.
pub fn minor_table() -> &'static [u64] {
    &MINOR
}

/// The table behind [`ln`]: ln(1 + i/1024) in units of 2⁻³², for i from 0 to 1024. For backends
/// that keep it on a device.
pub fn ln_table() -> &'static [i64] {
    &LN
}

/// The probability of the less likely class at a margin H in units of 2⁻¹⁶: 1/(1 + e^(2|H|)) in
/// units of 2⁻⁵².
///
/// Linear interpolation in steps of 1/256 errs by at most 1.9·10⁻⁷, and by 1.9·10⁻⁶ relatively.
pub fn minor_probability(margin: i32) -> u64 {
    let doubled = 2 * margin.unsigned_abs() as u64;
    let fraction_bits = crate::weak::ALPHA_BITS - MINOR_STEP_BITS;
    let step = (doubled >> fraction_bits) as usize;
    let table: &[u64] = &MINOR;
    if step >= STEPS {
        return table[STEPS];
    }
    let fraction = doubled & ((1 << fraction_bits) - 1);
    table[step] - (((table[step] - table[step + 1]) * fraction) >> fraction_bits)
}

/// The product of a weight and a probability, both in units of 2⁻⁵², rounded down.
pub fn mass_product(a: u64, b: u64) -> u64 {
    ((a as u128 * b as u128) >> MASS_BITS) as u64
}

/// Natural logarithm of an integer in units of 2⁻³² (error below 2·10⁻⁷); that of 0 is taken as
/// that of 1.
pub fn ln(x: u64) -> i64 {
    let x = x.max(1);
    let exponent = 63 - x.leading_zeros();
    // The bits below the leading one, left-aligned: ten of them choose the table's step, 32 more
    // interpolate.
    let mantissa = if exponent == 0 { 0 } else { x << (64 - exponent) };
    let step = (mantissa >> 54) as usize;
    let fraction = ((mantissa << 10) >> 32) as i64;
    let table: &[i64] = &LN;
    let below = table[step];
    exponent as i64 * table[1024] + below + (((table[step + 1] - below) * fraction) >> 32)
}

/// Half the logit of a probability as a margin in units of 2⁻¹⁶, rounded; `i32::MAX` for p = 1.
pub fn margin_of_probability(p: f64) -> i32 {
    (0.5 * libm::log(p / (1.0 - p)) * (1u32 << crate::weak::ALPHA_BITS) as f64).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn logistic_is_close(margin in -1_100_000i32..1_100_000) {
            let h = (margin as f64 / 65536.0).abs();
            let exact = 1.0 / (1.0 + (2.0 * h).exp());
            let fixed = minor_probability(margin) as f64 / MASS_ONE as f64;
            if 2.0 * h < 32.0 {
                prop_assert!((fixed - exact).abs() < 2e-7 && (fixed - exact).abs() < 4e-6 * exact + 2f64.powi(-51), "{fixed} {exact}");
            }
        }

        #[test]
        fn logistic_falls_with_the_margin(margin in 0i32..i32::MAX) {
            prop_assert!(minor_probability(margin) >= minor_probability(margin + 1));
        }

        #[test]
        fn ln_is_close(x in 1u64.., shift in 0u32..64) {
            let x = (x >> shift).max(1);
            prop_assert!((ln(x) as f64 / 2f64.powi(32) - (x as f64).ln()).abs() < 3e-7);
            prop_assert!(ln(x) <= ln(x.saturating_add(1)));
        }
    }

    #[test]
    fn landmarks() {
        assert_eq!(minor_probability(0), MASS_ONE / 2);
        assert_eq!((ln(0), ln(1)), (0, 0));
        assert_eq!(minor_probability(i32::MIN), minor_table()[8192]);
        assert_eq!(margin_of_probability(0.5), 0);
        assert_eq!(margin_of_probability(1.0), i32::MAX);
    }
}
