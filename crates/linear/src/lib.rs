//! Ridge regression with exact sums, and the linear maps that it gives.
//!
//! A crate of its own because a training spends most of its time here: it is compiled as one unit, without which
//! the inner loops are several times slower.

pub mod cholesky;
pub mod gram;
mod inner_products;
pub mod map;
mod ridge;

pub use inner_products::SUMS;
pub use map::{LinearMap, RegressionProblem, Weight};
pub use ridge::solutions;

#[cfg(test)]
fn test_random(seed: u8) -> pbt_volume::Random {
    pbt_volume::Random::from_hash([seed; 32])
}
