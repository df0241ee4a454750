//! The box of a set of landmarks where a data set has none: the mean shape of the landmarks, and
//! where it lies in each case. `docs/reference/boxes-from-points.md` states the rule.
//!
//! The mean shape is that of generalised Procrustes analysis (Gower 1975): all cases are brought onto
//! it by a rotation, one scale and a shift (Umeyama 1991), without reflections. Landmarks that a case
//! lacks are left out of its fit.

use crate::principal_axes::{TIE_RATIO, axes, frame_about, nearest_relabelling, principal};
use crate::similarity::{Similarity, mean, nearest_turn};
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, PointLps, Pose, working_geometry};
use std::fmt;

/// Most rounds of the alignment; some ten are enough.
const ROUNDS: usize = 100;

/// A mean shape of size 1 that moves by less than this in a round is final.
const SETTLED: f64 = 1e-10;

/// Cases that turn by no more than this from their mean agree on how the images are turned, degrees.
/// It is the same limit as for boxes that may lie in any orientation.
const AGREE_WITHIN_DEG: f64 = 75.0;

/// Points of a case fix its rotation if they spread by this share of what all landmarks do.
const ENOUGH_SPREAD: f64 = 0.1;

/// Landmarks lie in a line if they spread across it by less than this share.
const IN_A_LINE: f64 = 0.05;

/// How far a box reaches beyond the mean shape on each side, as a share of the longest extent.
const MARGIN: f64 = 0.1;

/// The shortest edge of a box, as a share of the longest: landmarks in a plane lie on something solid.
const THINNEST: f64 = 0.5;

/// Edge of the box about a single landmark, as a share of the images' mean edge.
const SHARE_OF_IMAGE: f64 = 0.25;

/// The landmarks of a case.
#[derive(Debug, Clone)]
pub struct PointsOfCase<'a> {
    /// By landmark of the data set, where it is.
    pub points: Vec<Option<PointLps>>,
    /// The image's grid.
    pub image: &'a Geometry,
}

/// Why the landmarks of a case give no box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointsFault {
    /// Landmarks that the case has.
    pub count: usize,
    /// Landmarks of the data set.
    pub of: usize,
}

impl fmt::Display for PointsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, of } = self;
        write!(f, "{count} of {of} landmarks do not tell how the structure is turned")
    }
}

/// The box of each case; `None` for a case without landmarks. `twins` are pairs of landmarks that
/// are mirror images of each other. In a `flat` data set all images lie in the plane z = 0, and boxes
/// turn about z alone.
///
/// # Errors
/// By case: landmarks that are too few, or too near to a line, to tell how they are turned.
pub fn boxes_from_points(
    cases: &[PointsOfCase<'_>],
    twins: &[[usize; 2]],
    flat: bool,
) -> Vec<Result<Option<Pose>, PointsFault>> {
    let seen: Vec<Seen> = cases.iter().map(|case| Seen::new(case, flat)).collect();
    let Some(shape) = MeanShape::new(&seen, twins, flat) else {
        return single_points(cases, &seen, flat);
    };
    seen.iter().map(|seen| shape.pose(seen)).collect()
}

/// The landmarks of a case along the axes of its image.
struct Seen {
    /// The image's axes, named after the patient's, as columns.
    axes: Matrix3<f64>,
    points: Vec<Option<Vector3<f64>>>,
}

impl Seen {
    fn new(case: &PointsOfCase<'_>, flat: bool) -> Self {
        let axes =
            if flat { Matrix3::identity() } else { *working_geometry(case.image, 1.0, 0).matrix() };
        let along = |point: &PointLps| axes.transpose() * point.0.coords;
        let points = case.points.iter().map(|point| point.as_ref().map(along)).collect();
        Self { axes, points }
    }

    fn count(&self) -> usize {
        self.points.iter().flatten().count()
    }
}

/// Boxes of one size about points: with the axes of the image, since nothing says more.
fn single_points(
    cases: &[PointsOfCase<'_>],
    seen: &[Seen],
    flat: bool,
) -> Vec<Result<Option<Pose>, PointsFault>> {
    let edge_mm = |image: &Geometry| {
        let edges = (0..if flat { 2 } else { 3 })
            .map(|a| image.spacing_mm()[a] * image.shape()[a] as f64)
            .collect::<Vec<f64>>();
        libm::pow(edges.iter().product(), 1.0 / edges.len() as f64)
    };
    let mut edges: Vec<f64> = cases.iter().map(|case| edge_mm(case.image)).collect();
    edges.sort_by(f64::total_cmp);
    let size_mm = [SHARE_OF_IMAGE * edges.get(edges.len() / 2).copied().unwrap_or(1.0); 3];
    let pose = |seen: &Seen| match seen.points[..] {
        [place] => Ok(place.and_then(|place| {
            Pose::from_axes(PointLps((seen.axes * place).into()), &seen.axes, size_mm)
        })),
        _ if seen.count() == 0 => Ok(None),
        _ => Err(PointsFault { count: seen.count(), of: seen.points.len() }),
    };
    seen.iter().map(pose).collect()
}

/// The mean shape of the landmarks.
struct MeanShape {
    /// By landmark, where it is; centred and of size 1. `None` where no case tells.
    points: Vec<Option<Vector3<f64>>>,
    flat: bool,
    /// Axes of the box, as columns.
    axes: Matrix3<f64>,
    center: Vector3<f64>,
    /// Full edges of the box along its axes.
    edges: Vector3<f64>,
}

impl MeanShape {
    /// `None` where no case has two landmarks at different places.
    fn new(seen: &[Seen], twins: &[[usize; 2]], flat: bool) -> Option<Self> {
        let fullest = seen.iter().rev().max_by_key(|seen| seen.count())?;
        let mut points = normalised(&fullest.points)?;
        for _ in 0..ROUNDS {
            let next = normalised(&mean_of_fitted(&points, seen, flat))?;
            let moved =
                |(old, new): (&Option<Vector3<f64>>, &Option<Vector3<f64>>)| match (old, new) {
                    (Some(old), Some(new)) => (old - new).norm(),
                    (None, None) => 0.0,
                    _ => f64::INFINITY,
                };
            let change = points.iter().zip(&next).map(moved).fold(0.0, f64::max);
            points = next;
            if change < SETTLED {
                break;
            }
        }
        let turns: Vec<Matrix3<f64>> =
            seen.iter().filter_map(|seen| Some(fit(&points, seen, flat)?.rotation)).collect();
        let mean_turn = nearest_turn(&turns.iter().sum(), flat)?;
        let angle = |turn: &Matrix3<f64>| {
            let cosine = ((mean_turn.transpose() * turn).trace() - 1.0) / 2.0;
            libm::acos(cosine.clamp(-1.0, 1.0)).to_degrees()
        };
        let upright = turns.iter().all(|turn| angle(turn) <= AGREE_WITHIN_DEG);
        if upright {
            points.iter_mut().flatten().for_each(|point| *point = mean_turn * *point);
        }
        let pairs = pairs(&points, twins);
        let axes = box_axes(&points, &pairs, upright, flat);
        let (center, edges) = extents(&points, &pairs, &axes, flat);
        Some(Self { points, flat, axes, center, edges })
    }

    /// The box in a case.
    fn pose(&self, seen: &Seen) -> Result<Option<Pose>, PointsFault> {
        if seen.count() == 0 {
            return Ok(None);
        }
        let fault = PointsFault { count: seen.count(), of: seen.points.len() };
        let fit = fit(&self.points, seen, self.flat).ok_or_else(|| fault.clone())?;
        let center = seen.axes * fit.apply(&self.center);
        let axes = seen.axes * fit.rotation * self.axes;
        Pose::from_axes(PointLps(center.into()), &axes, (self.edges * fit.scale).into())
            .map(Some)
            .ok_or(fault)
    }
}

/// The least-squares fit of a shape to the landmarks that a case has; `None` where these do not tell
/// how it is turned.
fn fit(shape: &[Option<Vector3<f64>>], seen: &Seen, flat: bool) -> Option<Similarity> {
    let (from, to): (Vec<Vector3<f64>>, Vec<Vector3<f64>>) =
        shape.iter().zip(&seen.points).filter_map(|(m, x)| Some(((*m)?, (*x)?))).unzip();
    if !tells_rotation(shape, &from, flat) {
        return None;
    }
    Similarity::between(&from, &to, flat)
}

/// Whether some points of a shape spread enough to tell its rotation: in a plane along one axis, in
/// space along two, unless all of the shape lies in a line.
fn tells_rotation(shape: &[Option<Vector3<f64>>], some: &[Vector3<f64>], flat: bool) -> bool {
    if some.is_empty() {
        return false;
    }
    let all: Vec<Vector3<f64>> = shape.iter().flatten().copied().collect();
    let (all, some) = (principal(&covariance(&all)).1, principal(&covariance(some)).1);
    let needed = usize::from(!flat && all[1] > IN_A_LINE * all[0]);
    some[needed] > ENOUGH_SPREAD * all[needed]
}

/// By landmark, the mean of where the cases have it, each brought back onto the shape.
fn mean_of_fitted(
    shape: &[Option<Vector3<f64>>],
    seen: &[Seen],
    flat: bool,
) -> Vec<Option<Vector3<f64>>> {
    let mut sums = vec![(Vector3::zeros(), 0.0); shape.len()];
    for case in seen {
        let Some(fit) = fit(shape, case, flat) else { continue };
        for ((sum, count), point) in sums.iter_mut().zip(&case.points) {
            let Some(point) = point else { continue };
            *sum += fit.undo(point);
            *count += 1.0;
        }
    }
    sums.into_iter().map(|(sum, count)| (count > 0.0).then(|| sum / count)).collect()
}

/// Centred, and scaled so that the root mean square distance from the centre is 1. `None` where all
/// points are one.
fn normalised(points: &[Option<Vector3<f64>>]) -> Option<Vec<Option<Vector3<f64>>>> {
    let known: Vec<Vector3<f64>> = points.iter().flatten().copied().collect();
    let middle = mean(&known);
    let size = covariance(&known).trace().sqrt();
    let far = known.iter().map(|point| point.norm()).fold(1e-300, f64::max);
    (known.len() > 1 && size > 1e-9 * far)
        .then(|| points.iter().map(|point| point.map(|p| (p - middle) / size)).collect())
}

fn covariance(points: &[Vector3<f64>]) -> Matrix3<f64> {
    let middle = mean(points);
    let outer = |point: &Vector3<f64>| (point - middle) * (point - middle).transpose();
    points.iter().map(outer).sum::<Matrix3<f64>>() / points.len().max(1) as f64
}

/// The mirror twins of which both are known.
fn pairs(
    points: &[Option<Vector3<f64>>],
    twins: &[[usize; 2]],
) -> Vec<(Vector3<f64>, Vector3<f64>)> {
    twins.iter().filter_map(|&[a, b]| Some((points[a]?, points[b]?))).collect()
}

/// The box's axes as columns. One of them is given in a plane (its normal) and where there are mirror
/// twins (from twin to twin); the others are principal axes. Where the cases agree on how they are
/// turned, axes are named after those of the image.
fn box_axes(
    points: &[Option<Vector3<f64>>],
    pairs: &[(Vector3<f64>, Vector3<f64>)],
    upright: bool,
    flat: bool,
) -> Matrix3<f64> {
    let known: Vec<Vector3<f64>> = points.iter().flatten().copied().collect();
    let covariance = covariance(&known);
    let across = |(a, b): &(Vector3<f64>, Vector3<f64>)| (a - b) * (a - b).transpose();
    let between = principal(&pairs.iter().map(across).sum::<Matrix3<f64>>()).0[0];
    let given = match (flat, pairs.is_empty()) {
        (true, _) => Vector3::z(),
        (false, false) => between,
        (false, true) if upright => return axes(&covariance),
        (false, true) => principal(&covariance).0[0],
    };
    let in_plane = Matrix3::identity() - given * given.transpose();
    let second = match (flat, pairs.is_empty()) {
        // In a plane the twins tell one of the two axes.
        (true, false) => (in_plane * between).normalize(),
        _ => principal(&(in_plane * covariance * in_plane)).0[0],
    };
    // In a plane to the last bit.
    let second = if flat { Vector3::new(second.x, second.y, 0.0).normalize() } else { second };
    let third = given.cross(&second);
    if upright {
        let along = |axis: &Vector3<f64>| axis.dot(&(covariance * axis)).max(0.0).sqrt();
        let round = along(&third) >= TIE_RATIO * along(&second);
        return if round && (!flat || pairs.is_empty()) {
            frame_about(&given)
        } else {
            nearest_relabelling(&[given, second, third])
        };
    }
    // The normal of a plane stays the third axis.
    if flat {
        Matrix3::from_columns(&[second, third, given])
    } else {
        Matrix3::from_columns(&[given, second, third])
    }
}

/// Centre and edges of the box: the shape with a margin; in the middle of mirror twins.
fn extents(
    points: &[Option<Vector3<f64>>],
    pairs: &[(Vector3<f64>, Vector3<f64>)],
    axes: &Matrix3<f64>,
    flat: bool,
) -> (Vector3<f64>, Vector3<f64>) {
    let along: Vec<Vector3<f64>> =
        points.iter().flatten().map(|point| axes.transpose() * point).collect();
    let end = |a: usize, sign: f64| {
        sign * along.iter().map(|p| sign * p[a]).fold(f64::NEG_INFINITY, f64::max)
    };
    let (mut center, mut edges) = (Vector3::zeros(), Vector3::zeros());
    for a in 0..3 {
        let (low, high) = (end(a, -1.0), end(a, 1.0));
        let apart = |&(one, other): &(Vector3<f64>, Vector3<f64>)| {
            axes.column(a).dot(&(one - other)).abs() > 0.5 * (one - other).norm()
        };
        let middles: Vec<f64> = pairs
            .iter()
            .filter(|pair| apart(pair))
            .map(|(one, other)| axes.column(a).dot(&(one + other)) / 2.0)
            .collect();
        center[a] = match middles.len() {
            0 => (low + high) / 2.0,
            n => middles.iter().sum::<f64>() / n as f64,
        };
        edges[a] = 2.0 * (high - center[a]).max(center[a] - low);
    }
    let longest = edges.max();
    let edges = edges.map(|edge| (edge + 2.0 * MARGIN * longest).max(THINNEST * longest));
    if flat {
        // A plane has no third edge; this one leaves the mean edge as it is.
        return (axes * center, Vector3::new(edges.x, edges.y, (edges.x * edges.y).sqrt()));
    }
    (axes * center, edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_volume::{Random, angle_between, rotation_from_vector};

    /// Three pairs of twins about x = 0 and two points on that plane, longest along y.
    const SHAPE: [[f64; 3]; 8] = [
        [6.0, 20.0, 1.0],
        [-6.0, 20.0, 1.0],
        [9.0, -14.0, 3.0],
        [-9.0, -14.0, 3.0],
        [4.0, 0.0, -5.0],
        [-4.0, 0.0, -5.0],
        [0.0, 25.0, 2.0],
        [0.0, -22.0, -1.0],
    ];
    const TWINS: [[usize; 2]; 3] = [[0, 1], [2, 3], [4, 5]];

    fn image() -> Geometry {
        Geometry::isotropic([100, 100, 100], 1.0).unwrap()
    }

    /// The shape turned, scaled and moved.
    fn posed(
        shape: &[[f64; 3]],
        turn: &UnitQuaternion<f64>,
        scale: f64,
        shift: Vector3<f64>,
    ) -> Vec<Option<PointLps>> {
        let point = |p: &[f64; 3]| PointLps((turn * Vector3::from(*p) * scale + shift).into());
        shape.iter().map(|p| Some(point(p))).collect()
    }

    fn boxes(
        cases: &[Vec<Option<PointLps>>],
        twins: &[[usize; 2]],
        flat: bool,
    ) -> Vec<Result<Option<Pose>, PointsFault>> {
        let image = image();
        let cases: Vec<PointsOfCase<'_>> = cases
            .iter()
            .map(|points| PointsOfCase { points: points.clone(), image: &image })
            .collect();
        boxes_from_points(&cases, twins, flat)
    }

    fn vectors(seed: u64, reach: f64) -> Vec<Vector3<f64>> {
        let mut random = Random::from_seed(seed);
        (0..6).map(|_| Vector3::from_fn(|_, _| random.between(-reach, reach))).collect()
    }

    #[test]
    fn boxes_lie_where_the_shape_was_put() {
        for (twins, reach) in [(&TWINS[..], 0.3), (&[][..], 0.3), (&TWINS[..], 2.0), (&[][..], 2.0)]
        {
            let turns: Vec<UnitQuaternion<f64>> =
                vectors(5, reach).into_iter().map(rotation_from_vector).collect();
            let shifts = vectors(6, 30.0);
            let scale = |n: usize| 0.8 + 0.1 * n as f64;
            let cases: Vec<_> =
                (0..6).map(|n| posed(&SHAPE, &turns[n], scale(n), shifts[n])).collect();
            let found: Vec<Pose> =
                boxes(&cases, twins, false).into_iter().map(|b| b.unwrap().unwrap()).collect();
            for n in 0..6 {
                // One frame of the shape, wherever it lies.
                let own = |n: usize| turns[n].inverse() * found[n].orientation;
                assert!(angle_between(&own(n), &own(0)) < 1e-6);
                let center = |n: usize| {
                    turns[n].inverse() * (found[n].center.0.coords - shifts[n]) / scale(n)
                };
                assert!((center(n) - center(0)).norm() < 1e-6);
                // The plane of the twins halves the box, and the shape lies inside.
                if !twins.is_empty() {
                    assert!(center(n).x.abs() < 1e-6);
                }
                for point in cases[n].iter().flatten() {
                    let inside = found[n].orientation.inverse() * (point.0 - found[n].center.0);
                    assert!((0..3).all(|a| inside[a].abs() < 0.46 * found[n].size_mm[a]));
                }
                let ratio = found[n].mean_size_mm() / found[0].mean_size_mm();
                assert!((ratio - scale(n) / scale(0)).abs() < 1e-6);
            }
            if reach < 1.0 {
                // Left to right, front to back: the axes keep the names of the image's.
                assert!(found.iter().all(|pose| (0..3).all(|a| pose.axes()[(a, a)] > 0.75)));
            }
        }
    }

    #[test]
    fn missing_landmarks_do_not_move_the_box() {
        let turns: Vec<_> = vectors(7, 0.4).into_iter().map(rotation_from_vector).collect();
        let shifts = vectors(8, 30.0);
        let mut cases: Vec<_> = (0..6).map(|n| posed(&SHAPE, &turns[n], 1.0, shifts[n])).collect();
        let whole = boxes(&cases, &TWINS, false);
        for (n, case) in cases.iter_mut().enumerate() {
            case[n] = None;
            case[(n + 3) % 8] = None;
        }
        cases.push(vec![None; 8]);
        let some = boxes(&cases, &TWINS, false);
        for (whole, some) in whole.iter().zip(&some) {
            let (whole, some) = (whole.clone().unwrap().unwrap(), some.clone().unwrap().unwrap());
            assert!(whole.center.distance_mm(&some.center) < 1e-6, "{whole:?} {some:?}");
            assert!(whole.angle_to(&some) < 1e-6);
        }
        assert_eq!(some[6], Ok(None));
    }

    #[test]
    fn too_few_landmarks_are_a_fault_of_the_case() {
        let mut cases = vec![posed(&SHAPE, &UnitQuaternion::identity(), 1.0, Vector3::zeros()); 4];
        cases[2][1..].fill(None);
        // Two points leave a rotation open.
        cases[3][2..].fill(None);
        let found = boxes(&cases, &[], false);
        assert!(found[0].is_ok() && found[1].is_ok());
        assert_eq!(found[2], Err(PointsFault { count: 1, of: 8 }));
        let text = found[3].clone().unwrap_err().to_string();
        assert_eq!(text, "2 of 8 landmarks do not tell how the structure is turned");
    }

    #[test]
    fn one_point_is_a_position_and_two_are_a_direction() {
        let place = |x: f64| vec![Some(PointLps::new(x, 2.0, 3.0))];
        let found = boxes(&[place(1.0), place(9.0)], &[], false);
        let pose = found[1].clone().unwrap().unwrap();
        assert_eq!(pose.center, PointLps::new(9.0, 2.0, 3.0));
        assert!(pose.orientation.angle() < 1e-12);
        assert!((pose.size_mm[0] - 25.0).abs() < 1e-9 && pose.size_mm == [pose.size_mm[0]; 3]);

        let line = [[0.0, 0.0, -10.0], [0.0, 0.0, 10.0]];
        let tilt = rotation_from_vector(Vector3::new(0.3, 0.0, 0.0));
        let cases = [
            posed(&line, &UnitQuaternion::identity(), 1.0, Vector3::zeros()),
            posed(&line, &tilt, 1.0, Vector3::zeros()),
        ];
        let found = boxes(&cases, &[], false);
        let [a, b] = [0, 1].map(|n| found[n].clone().unwrap().unwrap());
        assert!((angle_between(&a.orientation, &b.orientation) - 0.3).abs() < 1e-3);
        // Nobody annotated anything.
        assert_eq!(boxes(&[vec![None, None]], &[], false), [Ok(None)]);
    }

    /// In a plane a mirrored shape is not turned over, which would fit it better.
    #[test]
    fn in_a_plane_nothing_turns_out_of_it() {
        let wing = [[0.0, 0.0, 0.0], [30.0, 2.0, 0.0], [28.0, 11.0, 0.0], [5.0, 9.0, 0.0]];
        let mirrored = wing.map(|[x, y, z]| [-x, y, z]);
        let turned = |angle: f64| rotation_from_vector(Vector3::new(0.0, 0.0, angle));
        let mut cases: Vec<_> = [0.0, 0.2, 2.6, -2.0]
            .iter()
            .map(|&angle| posed(&wing, &turned(angle), 1.0, Vector3::new(4.0, angle, 0.0)))
            .collect();
        cases.push(posed(&mirrored, &turned(0.1), 1.0, Vector3::zeros()));
        // Two landmarks tell a rotation in a plane.
        cases[1][2..].fill(None);
        let in_place = |p: &PointLps| PointLps::new(p.0.x, p.0.y, 0.0);
        cases.iter_mut().flatten().flatten().for_each(|point| *point = in_place(point));
        for found in boxes(&cases, &[], true) {
            let pose = found.unwrap().unwrap();
            let q = pose.orientation;
            assert!(q.i == 0.0 && q.j == 0.0 && pose.center.0.z == 0.0, "{pose:?}");
            let [x, y, z] = pose.size_mm;
            assert!((z * z - x * y).abs() < 1e-6);
        }
    }
}
