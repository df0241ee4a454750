//! Left–right pairs among points, and the alignment that shows them.
//!
//! Mirror twins are pairs of points of which each is the nearest one to the other's mirror image. A
//! box is seldom annotated exactly about the plane of symmetry, so the mirrored points are aligned
//! to the others before they are compared, and the mirrored box is turned with them.

use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};

/// A mirror image of points, in the frame of a box.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Symmetry {
    /// By point, the one whose mirror image comes to lie on it; none where there is none.
    pub(crate) twins: Vec<Option<usize>>,
    /// What brings a mirrored point to its twin: turned, then shifted.
    pub(crate) rotation: UnitQuaternion<f64>,
    /// The same unit as the points.
    pub(crate) shift: Vector3<f64>,
    /// Mean distance of the twins after that.
    pub(crate) residual: f64,
}

/// Rounds of matching and aligning; they settle after two or three.
const ROUNDS: usize = 5;

/// Fewest points with a twin: three fix a rotation, a fourth can contradict.
const FEWEST: usize = 4;

/// Share of the points that need a twin.
const MOST: f64 = 0.8;

impl Symmetry {
    /// What a mirror across `axis` through the frame's origin makes of `others` to resemble
    /// `points`: of the twins that are given, or of those found. `None` where fewer than four in
    /// five points have a twin, or where twins stay farther apart than `reach` in the mean.
    pub(crate) fn between(
        points: &[Vector3<f64>],
        others: &[Vector3<f64>],
        given: Option<&[Option<usize>]>,
        axis: usize,
        reach: f64,
    ) -> Option<Self> {
        let mirrored: Vec<Vector3<f64>> = others.iter().map(|p| across(p, axis)).collect();
        let (mut rotation, mut shift) = (UnitQuaternion::identity(), Vector3::zeros());
        let mut twins = Vec::new();
        for round in 1..=ROUNDS {
            // Wide while the points are not yet aligned.
            let wide = if round < ROUNDS { 10.0 } else { 3.0 };
            twins = given.map_or_else(
                || {
                    mutual(
                        points,
                        &mirrored.iter().map(|p| rotation * p + shift).collect::<Vec<_>>(),
                        wide * reach,
                    )
                },
                <[Option<usize>]>::to_vec,
            );
            let pairs: Vec<(Vector3<f64>, Vector3<f64>)> =
                paired(points, &mirrored, &twins).collect();
            if pairs.len() < FEWEST {
                return None;
            }
            (rotation, shift) = aligned(&pairs)?;
        }
        let distances: Vec<f64> = paired(points, &mirrored, &twins)
            .map(|(to, from)| (rotation * from + shift - to).norm())
            .collect();
        let residual = distances.iter().sum::<f64>() / distances.len() as f64;
        let enough = distances.len() as f64 >= MOST * points.len() as f64;
        (enough && residual <= reach).then_some(Self { twins, rotation, shift, residual })
    }
}

/// The mirror image of a vector.
pub(crate) fn across(vector: &Vector3<f64>, axis: usize) -> Vector3<f64> {
    let mut mirrored = *vector;
    mirrored[axis] = -mirrored[axis];
    mirrored
}

/// By point, which of the others is nearest to it, where it is nearest to that one as well and not
/// beyond `reach`.
pub(crate) fn mutual(
    points: &[Vector3<f64>],
    others: &[Vector3<f64>],
    reach: f64,
) -> Vec<Option<usize>> {
    let nearest = |from: &Vector3<f64>, among: &[Vector3<f64>]| {
        (0..among.len())
            .min_by(|&a, &b| (among[a] - from).norm().total_cmp(&(among[b] - from).norm()))
    };
    let twin = |n: usize| {
        let other = nearest(&points[n], others)?;
        (nearest(&others[other], points) == Some(n) && (others[other] - points[n]).norm() <= reach)
            .then_some(other)
    };
    (0..points.len()).map(twin).collect()
}

fn paired<'a>(
    points: &'a [Vector3<f64>],
    mirrored: &'a [Vector3<f64>],
    twins: &'a [Option<usize>],
) -> impl Iterator<Item = (Vector3<f64>, Vector3<f64>)> {
    points.iter().zip(twins).filter_map(|(point, twin)| Some((*point, mirrored[(*twin)?])))
}

/// The rotation and shift that bring the second of each pair nearest to the first, least squares
/// (Kabsch 1976; Umeyama 1991, section 3).
fn aligned(pairs: &[(Vector3<f64>, Vector3<f64>)]) -> Option<(UnitQuaternion<f64>, Vector3<f64>)> {
    let n = pairs.len() as f64;
    let (to, from) = pairs
        .iter()
        .fold((Vector3::zeros(), Vector3::zeros()), |(a, b), (to, from)| (a + to, b + from));
    let (to, from) = (to / n, from / n);
    let covariance: Matrix3<f64> =
        pairs.iter().map(|(a, b)| (a - to) * (b - from).transpose()).sum();
    let svd = covariance.svd(true, true);
    let (u, v) = (svd.u?, svd.v_t?.transpose());
    let handed =
        Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, (u * v.transpose()).determinant().signum()));
    let rotation = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(
        u * handed * v.transpose(),
    ));
    Some((rotation, to - rotation * from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: &Vector3<f64>, b: &Vector3<f64>) -> bool {
        (a - b).norm() < 1e-9
    }

    proptest! {
        /// Points in pairs and on the plane, seen from a frame that is off the plane of symmetry.
        #[test]
        fn pairs_are_found_from_a_tilted_frame(
            angles in prop::array::uniform3(-0.08f64..0.08),
            offset in prop::array::uniform3(-0.3f64..0.3),
            middle in prop::collection::vec((-8.0f64..8.0, -4.0f64..4.0), 2..4),
        ) {
            let pairs = [[3.0, 6.0, 1.0], [4.0, -5.0, 2.0], [2.5, 1.0, -3.0], [5.0, 2.0, 0.0], [4.0, -1.0, -1.5]];
            let mut points: Vec<Vector3<f64>> = Vec::new();
            for p in pairs {
                points.push(Vector3::from(p));
                points.push(across(&Vector3::from(p), 0));
            }
            points.extend(middle.iter().map(|&(y, z)| Vector3::new(0.0, y, z)));
            // Points of the plane that nearly coincide have no clear twins.
            prop_assume!(middle.iter().enumerate().all(|(n, a)| middle[..n].iter().all(|b| (a.0 - b.0).abs() > 3.0)));
            let (tilt, shift) = (UnitQuaternion::from_euler_angles(angles[0], angles[1], angles[2]), Vector3::from(offset));
            let seen: Vec<Vector3<f64>> = points.iter().map(|p| tilt * p + shift).collect();
            let symmetry = Symmetry::between(&seen, &seen, None, 0, 0.5).unwrap();
            for n in 0..pairs.len() {
                prop_assert_eq!((symmetry.twins[2 * n], symmetry.twins[2 * n + 1]), (Some(2 * n + 1), Some(2 * n)));
            }
            prop_assert!((10..points.len()).all(|n| symmetry.twins[n] == Some(n)));
            prop_assert!(symmetry.residual < 1e-9);
            for (n, twin) in symmetry.twins.iter().enumerate() {
                let moved = symmetry.rotation * across(&seen[twin.unwrap()], 0) + symmetry.shift;
                prop_assert!(near(&moved, &seen[n]));
            }
        }
    }

    #[test]
    fn a_helix_has_no_symmetry() {
        let helix: Vec<Vector3<f64>> = (0..12)
            .map(|n| f64::from(n) * 0.7)
            .map(|t| Vector3::new(5.0 * t.cos(), 5.0 * t.sin(), 2.0 * t))
            .collect();
        assert!((0..3).all(|axis| Symmetry::between(&helix, &helix, None, axis, 0.3).is_none()));
    }

    #[test]
    fn a_point_without_a_twin_has_none() {
        let mut points: Vec<Vector3<f64>> = [
            [3.0, 6.0, 1.0],
            [-3.0, 6.0, 1.0],
            [4.0, -5.0, 2.0],
            [-4.0, -5.0, 2.0],
            [0.0, 1.0, 5.0],
        ]
        .map(Vector3::from)
        .to_vec();
        points.push(Vector3::new(6.0, 0.0, -3.0));
        assert_eq!(
            Symmetry::between(&points, &points, None, 0, 0.3).unwrap().twins,
            [Some(1), Some(0), Some(3), Some(2), Some(4), None]
        );
    }
}
