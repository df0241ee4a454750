//! Unit quaternions in model files: `[w, x, y, z]`, as they are, not normalised again, so that they
//! keep their bits.

use nalgebra::{Quaternion, UnitQuaternion};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<S: Serializer>(
    q: &UnitQuaternion<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    [q.w, q.i, q.j, q.k].serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<UnitQuaternion<f64>, D::Error> {
    let [w, i, j, k] = <[f64; 4]>::deserialize(deserializer)?;
    checked(w, i, j, k).ok_or_else(|| serde::de::Error::custom("not a unit quaternion"))
}

/// `None` unless the length is 1 within rounding.
pub(crate) fn checked(w: f64, i: f64, j: f64, k: f64) -> Option<UnitQuaternion<f64>> {
    let q = Quaternion::new(w, i, j, k);
    ((q.norm() - 1.0).abs() < 1e-9).then(|| UnitQuaternion::new_unchecked(q))
}
