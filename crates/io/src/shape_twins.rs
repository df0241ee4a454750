//! Which structures in the label maps of a data set are mirror images of each other: the left and the
//! right one of a pair. Both then have one mean shape, so that their boxes are mirror images, too,
//! even where the rule of axes hangs on a hair.

use crate::boxes_from_labels::unit_covariance;
use crate::label_runs::LabelRuns;
use crate::principal_axes::across;
use nalgebra::{Matrix3, Vector3};

/// The mirror image of one structure's mean place is accepted this near to the other's, as a share of
/// the edge of a cube with the smaller one's moments.
const PLACE: f64 = 0.5;

/// Edges of cubes with the moments of twins differ by less than this, |ln|.
const SIZE: f64 = 0.2;

/// One structure in the label maps.
pub(crate) struct Shown<'a> {
    /// What the data set calls its mirror twin, by index.
    pub(crate) partner: Option<usize>,
    /// By label map; none where it is not shown, or where there may be several.
    pub(crate) masks: Vec<Option<&'a LabelRuns>>,
}

impl Shown<'_> {
    fn seen(&self) -> Vec<&LabelRuns> {
        self.masks.iter().flatten().copied().collect()
    }

    /// Edge of a cube with the same trace of covariance, mm, in the mean of all maps.
    fn edge_mm(&self) -> f64 {
        let edges = self.seen().into_iter().map(|mask| 2.0 * mask.covariance().trace().sqrt());
        edges.sum::<f64>() / self.seen().len().max(1) as f64
    }
}

/// Pairs of twins: those that the data set names; then those of which each lies where the mirror image
/// of the other does, with about its size, and with a mean shape that differs from the mirrored one of
/// the other by no more than masks do.
pub(crate) fn twins(structures: &[Shown<'_>]) -> Vec<[usize; 2]> {
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    let named = |pairs: &[[usize; 2]], n: usize| pairs.iter().any(|pair| pair.contains(&n));
    for (n, structure) in structures.iter().enumerate() {
        let Some(partner) = structure.partner.filter(|&partner| partner != n) else { continue };
        if !named(&pairs, n) && !named(&pairs, partner) {
            pairs.push([n.min(partner), n.max(partner)]);
        }
    }
    let places = mean_places(structures);
    let edges: Vec<f64> = structures.iter().map(Shown::edge_mm).collect();
    let apart = |a: usize, b: usize| match (places[a], places[b]) {
        (Some(a), Some(b)) => (across() * a - b).norm(),
        _ => f64::INFINITY,
    };
    let free: Vec<usize> = (0..structures.len()).filter(|&n| !named(&pairs, n)).collect();
    let nearest =
        |n: usize| free.iter().copied().min_by(|&a, &b| apart(n, a).total_cmp(&apart(n, b)));
    for &n in &free {
        let Some(other) = nearest(n).filter(|&other| other > n) else { continue };
        let fits = nearest(other) == Some(n)
            && apart(n, other) <= PLACE * edges[n].min(edges[other])
            && libm::log(edges[n] / edges[other]).abs() < SIZE
            && alike(&structures[n], &structures[other]);
        if fits {
            pairs.push([n, other]);
        }
    }
    pairs
}

/// Whether the mean shape of the one is the mirror image of the other's, as nearly as single masks show
/// their own. Shapes are covariances of trace 1, distances are Frobenius norms, that of masks is the
/// root of the mean square.
fn alike(a: &Shown<'_>, b: &Shown<'_>) -> bool {
    let shapes = |shown: &Shown<'_>| shown.seen().into_iter().map(unit_covariance).collect();
    let (a, b): (Vec<Matrix3<f64>>, Vec<Matrix3<f64>>) = (shapes(a), shapes(b));
    let mean =
        |shapes: &[Matrix3<f64>]| shapes.iter().sum::<Matrix3<f64>>() / shapes.len().max(1) as f64;
    let spread = |shapes: &[Matrix3<f64>]| {
        let mean = mean(shapes);
        let squares = shapes.iter().map(|shape| (shape - mean).norm_squared());
        (squares.sum::<f64>() / shapes.len().max(1) as f64).sqrt()
    };
    (mean(&a) - across() * mean(&b) * across()).norm() <= spread(&a).max(spread(&b))
}

/// By structure, where it lies from the middle of all structures of its map, mm; the mean of all maps
/// that show at least one other structure.
fn mean_places(structures: &[Shown<'_>]) -> Vec<Option<Vector3<f64>>> {
    let mut sums = vec![(Vector3::zeros(), 0usize); structures.len()];
    for map in 0..structures.iter().map(|s| s.masks.len()).max().unwrap_or(0) {
        let place = |structure: &Shown<'_>| {
            structure.masks.get(map).copied().flatten().map(|mask| mask.origin() + mask.centroid())
        };
        let places: Vec<Option<Vector3<f64>>> = structures.iter().map(place).collect();
        let seen = places.iter().flatten().count();
        if seen < 2 {
            continue;
        }
        let middle = places.iter().flatten().sum::<Vector3<f64>>() / seen as f64;
        for (sum, place) in sums.iter_mut().zip(&places) {
            if let Some(place) = place {
                *sum = (sum.0 + place - middle, sum.1 + 1);
            }
        }
    }
    sums.into_iter().map(|(sum, n)| (n > 0).then(|| sum / n as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boxes_from_labels::MeanShape;
    use pbt_volume::{Geometry, PointLps, Pose, Volume, VoxelIndex, rotation_from_vector};

    fn mask(center: [f64; 3], turn: [f64; 3], size: [f64; 3]) -> LabelRuns {
        let origin = PointLps::new(-40.0, -40.0, -40.0);
        let grid = Geometry::new([80, 80, 80], Matrix3::identity(), origin).unwrap();
        let inverse = rotation_from_vector(Vector3::from(turn)).inverse();
        let labels = Volume::from_fn(grid.clone(), |i, j, k| {
            let point = grid.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            let local = inverse * (point.0.coords - Vector3::from(center));
            u16::from((0..3).map(|a| (2.0 * local[a] / size[a]).powi(2)).sum::<f64>() <= 1.0)
        });
        LabelRuns::new(&labels, |value| value == 1).unwrap()
    }

    /// A left and a right one, tilted by about 45 degrees, so that noise decides which patient axis
    /// their long one is nearest to, and a third one on the midline.
    fn structures() -> [Vec<LabelRuns>; 3] {
        let noise = [0.06, -0.03, 0.05, -0.06, 0.02];
        let of = |make: &dyn Fn(f64, f64) -> LabelRuns| {
            (0..5).map(|n| make(noise[n], noise[(n * 2 + 1) % 5])).collect::<Vec<_>>()
        };
        let tilt = std::f64::consts::FRAC_PI_4;
        [
            of(&|a, b| {
                mask([18.0 + a, b, 3.0], [0.0, 0.0, tilt - 0.03 + a], [30.0 + 9.0 * a, 11.0, 14.0])
            }),
            of(&|a, b| {
                mask(
                    [-18.0 + b, a, 3.0],
                    [0.0, 0.0, -tilt - 0.03 + b],
                    [30.0 + 9.0 * b, 11.0, 14.0],
                )
            }),
            of(&|a, _| mask([a, 20.0, -10.0], [0.0; 3], [12.0, 14.0, 30.0])),
        ]
    }

    fn pairs_of(masks: &[Vec<LabelRuns>], partner: Option<usize>) -> Vec<[usize; 2]> {
        let shown = masks.iter().enumerate().map(|(n, masks)| Shown {
            partner: partner.filter(|_| n == 0),
            masks: masks.iter().map(Some).collect(),
        });
        twins(&shown.collect::<Vec<_>>())
    }

    #[test]
    fn twins_are_found_by_place_size_and_shape() {
        let masks = structures();
        assert_eq!(pairs_of(&masks, None), [[0, 1]]);
        // What the data set says goes before.
        assert_eq!(pairs_of(&masks, Some(2)), [[0, 2]]);
        // Of another shape, elsewhere, or of another size: no twins.
        let other = |center, turn, size| {
            let mut masks = structures();
            masks[1] = (0..5).map(|_| mask(center, turn, size)).collect();
            pairs_of(&masks, None)
        };
        let (place, turn, size) = ([-18.0, 0.0, 3.0], [0.0, 0.0, -0.79], [30.0, 11.0, 14.0]);
        assert_eq!(other(place, turn, size), [[0, 1]]);
        assert!(other(place, [0.0; 3], size).is_empty());
        assert!(other([-18.0, 0.0, 20.0], turn, size).is_empty());
        assert!(other(place, turn, size.map(|s| 0.7 * s)).is_empty());
    }

    #[test]
    fn boxes_of_twins_are_mirror_images() {
        let [left, right, _] = structures();
        let both: Vec<LabelRuns> =
            left.iter().cloned().chain(right.iter().map(LabelRuns::mirrored)).collect();
        let shape = MeanShape::new(&both);
        for mask in &left {
            let (pose, other): (Pose, Pose) =
                (shape.pose(mask).unwrap(), shape.mirrored().pose(&mask.mirrored()).unwrap());
            let mirror = across();
            assert!((mirror * pose.axes() * mirror - other.axes()).norm() < 1e-9);
            assert!((mirror * pose.center.0.coords - other.center.0.coords).norm() < 1e-9);
            assert!((0..3).all(|a| (pose.size_mm[a] - other.size_mm[a]).abs() < 1e-9));
        }
    }
}
