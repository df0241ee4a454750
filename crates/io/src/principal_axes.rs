//! The axes of a shape from its covariance: principal axes that are named after the patient's, and
//! the rotation nearest to a matrix.

use nalgebra::{Matrix3, SymmetricEigen, UnitQuaternion, Vector3};

/// Two principal axes of the mean shape whose standard deviations differ by less than this ratio are
/// tied: the outline is nearly round there.
pub(crate) const TIE_RATIO: f64 = 0.75;

/// Principal axes and the standard deviations along them, the largest first.
pub(crate) fn principal(covariance: &Matrix3<f64>) -> ([Vector3<f64>; 3], [f64; 3]) {
    let eigen = SymmetricEigen::new((covariance + covariance.transpose()) * 0.5);
    let mut order = [0, 1, 2];
    order.sort_by(|&a, &b| eigen.eigenvalues[b].total_cmp(&eigen.eigenvalues[a]));
    let deviations = order.map(|a| eigen.eigenvalues[a].max(0.0).sqrt());
    (order.map(|a| eigen.eigenvectors.column(a).into_owned()), deviations)
}

/// What mirrors vectors across the patient's sagittal plane.
pub(crate) fn across() -> Matrix3<f64> {
    Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0))
}

/// The rotation R with the largest tr(R Bᵀ) (Kabsch 1976).
pub(crate) fn nearest_rotation(b: &Matrix3<f64>) -> Option<Matrix3<f64>> {
    let svd = b.svd(true, true);
    let (u, v_t) = (svd.u?, svd.v_t?);
    let sign = (u * v_t).determinant().signum();
    // Singular values are in falling order.
    Some(u * Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, sign)) * v_t)
}

/// The box's axes as columns: of all frames that fit the principal axes, the one nearest to the
/// patient's left, posterior, superior.
pub(crate) fn axes(covariance: &Matrix3<f64>) -> Matrix3<f64> {
    let (axis, deviation) = principal(covariance);
    let tied = |a: usize, b: usize| deviation[b] >= TIE_RATIO * deviation[a];
    match (tied(0, 1), tied(1, 2)) {
        _ if tied(0, 2) => Matrix3::identity(),
        (false, false) => nearest_relabelling(&axis),
        (true, true) if deviation[1] * deviation[1] > deviation[0] * deviation[2] => {
            frame_about(&axis[2])
        }
        (false, true) | (true, true) => frame_about(&axis[0]),
        (true, false) => frame_about(&axis[2]),
    }
}

/// Of the 24 right-handed frames on the three lines, the one with the smallest rotation from the
/// identity, which has the largest trace.
pub(crate) fn nearest_relabelling(lines: &[Vector3<f64>; 3]) -> Matrix3<f64> {
    let orders = [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]];
    let mut best = (f64::NEG_INFINITY, Matrix3::identity());
    for order in orders {
        for signs in 0..8u8 {
            let sign = |a: usize| if signs >> a & 1 == 1 { -1.0 } else { 1.0 };
            let frame = Matrix3::from_columns(&[0, 1, 2].map(|a| lines[order[a]] * sign(a)));
            if frame.determinant() > 0.0 && frame.trace() > best.0 {
                best = (frame.trace(), frame);
            }
        }
    }
    best.1
}

/// The frame nearest to the identity that has `line` on one of its axes: the shortest rotation that
/// brings the patient axis nearest to `line` onto it.
pub(crate) fn frame_about(line: &Vector3<f64>) -> Matrix3<f64> {
    let a = line.iamax();
    let direction = line.normalize() * line[a].signum();
    let patient_axis = Vector3::ith(a, 1.0);
    // The angle is below 55 degrees, so the shortest rotation is unique.
    UnitQuaternion::rotation_between(&patient_axis, &direction)
        .unwrap_or_default()
        .to_rotation_matrix()
        .into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::rotation_from_vector;

    #[test]
    fn the_relabelling_is_the_nearest_of_all() {
        let frame =
            rotation_from_vector(Vector3::new(1.4, -0.3, 2.0)).to_rotation_matrix().into_inner();
        let lines = [0, 1, 2].map(|a| frame.column(a).into_owned());
        let best = nearest_relabelling(&lines);
        assert!((best.determinant() - 1.0).abs() < 1e-12);
        // No rotation group element of the cube leads nearer: 54.74 degrees about a diagonal is the
        // worst case of all frames.
        assert!(best.trace() > 1.0 + 2.0 * 62.8f64.to_radians().cos());
    }
}
