//! Ridge regression with exact sums, and the linear maps that it gives.

pub(crate) mod cholesky;
pub(crate) mod gram;
pub(crate) mod inner_products;
pub(crate) mod map;
pub(crate) mod ridge;
