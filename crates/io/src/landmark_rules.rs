//! Landmarks that follow from a label map by a rule that the data set states: where a point lies in
//! or between labelled voxels. `docs/reference/landmarks-from-labels.md` states the rules.
//!
//! Sums over voxels are integers, so their order does not matter.

use crate::label_runs::MapRuns;
use nalgebra::Vector3;
use pbt_volume::{PointLps, Volume, VoxelIndex};
use serde::Serialize;

/// The share of voxels that are the tip where the data set gives none.
pub(crate) const DEFAULT_SHARE: f64 = 0.05;

/// How a landmark follows from a label map. Labels are names under `labels` of the data set.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "lowercase")]
pub enum LandmarkRule {
    /// The mean of the voxel centres of these labels together.
    Centroid {
        /// At least one label.
        labels: Vec<String>,
    },
    /// The mean of the voxel centres that lie farthest in a direction.
    Tip {
        /// At least one label; they count as one.
        labels: Vec<String>,
        /// Which way.
        direction: Direction,
        /// The share of voxels that are the tip, above 0 and at most 1.
        share: f64,
    },
    /// The mean of the midpoints of all pairs of voxels with a common face, one of either label.
    Interface {
        /// Two labels without common voxels.
        between: [String; 2],
    },
}

/// Which way a tip points.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Direction {
    /// Along an axis of the patient.
    Patient(Side),
    /// From the centroid of one label to that of another.
    Labels {
        /// The label at the start.
        from: String,
        /// The label at the end.
        to: String,
    },
}

/// A side of the patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Side {
    Left,
    Right,
    Anterior,
    Posterior,
    Superior,
    Inferior,
}

impl Side {
    /// All of them, with the word that stands for each in files and the way there in LPS.
    pub(crate) const ALL: [(&'static str, Self, [f64; 3]); 6] = [
        ("left", Self::Left, [1.0, 0.0, 0.0]),
        ("right", Self::Right, [-1.0, 0.0, 0.0]),
        ("anterior", Self::Anterior, [0.0, -1.0, 0.0]),
        ("posterior", Self::Posterior, [0.0, 1.0, 0.0]),
        ("superior", Self::Superior, [0.0, 0.0, 1.0]),
        ("inferior", Self::Inferior, [0.0, 0.0, -1.0]),
    ];

    fn way(self) -> Vector3<f64> {
        Self::ALL[self as usize].2.into()
    }
}

impl LandmarkRule {
    /// The labels that the rule speaks of.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let (labels, others) = match self {
            Self::Centroid { labels }
            | Self::Tip { labels, direction: Direction::Patient(_), .. } => {
                (&labels[..], [None; 2])
            }
            Self::Tip { labels, direction: Direction::Labels { from, to }, .. } => {
                (&labels[..], [Some(from), Some(to)])
            }
            Self::Interface { between } => (&between[..], [None; 2]),
        };
        labels.iter().chain(others.into_iter().flatten()).map(String::as_str).collect()
    }

    /// The point in a label map; `None` where a label that it needs has no voxels. `values` tells, by
    /// value, which of them have a name.
    ///
    /// # Errors
    /// Why there is no point, although all labels are there.
    pub(crate) fn point(
        &self,
        map: &Volume<u16>,
        values: &dyn Fn(&str) -> Vec<bool>,
    ) -> Result<Option<PointLps>, String> {
        let all = MapRuns::new(map);
        let runs = |names: &[String]| {
            let tables: Vec<Vec<bool>> = names.iter().map(|name| values(name)).collect();
            all.of(|v| tables.iter().any(|table| table[usize::from(v)]))
        };
        let one = |name: &String| runs(std::slice::from_ref(name));
        let at = |mm: Vector3<f64>| PointLps((map.geometry().origin().0.coords + mm).into());
        match self {
            Self::Centroid { labels } => Ok(runs(labels).map(|runs| at(runs.centroid()))),
            Self::Tip { labels, direction, share } => {
                let Some(runs) = runs(labels) else { return Ok(None) };
                let way = match direction {
                    Direction::Patient(side) => side.way(),
                    Direction::Labels { from, to } => {
                        let (Some(start), Some(end)) = (one(from), one(to)) else {
                            return Ok(None);
                        };
                        let way = end.centroid() - start.centroid();
                        way.try_normalize(1e-6).ok_or_else(|| {
                            format!("the centroids of `{from}` and `{to}` are the same point")
                        })?
                    }
                };
                Ok(Some(at(runs.tip(&way, *share))))
            }
            Self::Interface { between: [a, b] } => {
                if one(a).is_none() || one(b).is_none() {
                    return Ok(None);
                }
                interface(map, &values(a), &values(b))
                    .map(|index| Some(map.geometry().to_lps(index)))
                    .ok_or_else(|| format!("`{a}` and `{b}` touch nowhere"))
            }
        }
    }
}

/// The mean of the midpoints of all pairs of voxels with a common face, one `a` and one `b`.
fn interface(map: &Volume<u16>, a: &[bool], b: &[bool]) -> Option<VoxelIndex> {
    let shape = map.shape();
    let steps = [1, shape[0], shape[0] * shape[1]];
    let values = map.data();
    let (mut pairs, mut twice) = (0u64, [0u64; 3]);
    for (n, &value) in values.iter().enumerate() {
        let value = usize::from(value);
        if !a[value] && !b[value] {
            continue;
        }
        let index = [n % shape[0], n / shape[0] % shape[1], n / steps[2]];
        for axis in (0..3).filter(|&axis| index[axis] + 1 < shape[axis]) {
            let next = usize::from(values[n + steps[axis]]);
            if (a[value] && b[next]) || (b[value] && a[next]) {
                pairs += 1;
                for other in 0..3 {
                    twice[other] += 2 * index[other] as u64 + u64::from(other == axis);
                }
            }
        }
    }
    let [i, j, k] = twice.map(|sum| sum as f64 / (2.0 * pairs as f64));
    (pairs > 0).then(|| VoxelIndex::new(i, j, k))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Matrix3;
    use pbt_volume::{Geometry, rotation_from_vector};
    use proptest::prelude::*;

    /// Two labels, some voxels of a third, in a grid that is oblique, mirrored and uneven.
    fn map(seed: u64, oblique: bool) -> Volume<u16> {
        let turn = if oblique { [0.3, -0.5, 0.2] } else { [0.0; 3] };
        let rotation = rotation_from_vector(Vector3::from(turn)).to_rotation_matrix().into_inner();
        let matrix = rotation * Matrix3::from_diagonal(&Vector3::new(-1.1, 0.7, 2.0));
        let geometry = Geometry::new([9, 8, 6], matrix, PointLps::new(-20.0, 40.0, 7.0)).unwrap();
        let mut state = seed;
        Volume::from_fn(geometry, |_, _, _| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            [0, 0, 0, 1, 1, 2, 2, 3][(state >> 61) as usize]
        })
    }

    fn values(name: &str) -> Vec<bool> {
        let value = ["", "head", "tail", "rest"].iter().position(|n| *n == name).unwrap();
        (0..=usize::from(u16::MAX)).map(|v| v == value).collect()
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// Index and place of every voxel with one of these values.
    fn voxels(map: &Volume<u16>, wanted: &[u16]) -> Vec<([i64; 3], Vector3<f64>)> {
        let [nx, ny, nz] = map.shape();
        let all = (0..nx * ny * nz).map(|n| [n % nx, n / nx % ny, n / nx / ny]);
        all.filter(|&[i, j, k]| wanted.contains(&map.data()[map.offset(i, j, k)]))
            .map(|index| {
                let [i, j, k] = index.map(|n| n as f64);
                let place = map.geometry().to_lps(VoxelIndex::new(i, j, k));
                (index.map(|n| n as i64), place.0.coords)
            })
            .collect()
    }

    fn mean(points: &[Vector3<f64>]) -> Vector3<f64> {
        points.iter().sum::<Vector3<f64>>() / points.len() as f64
    }

    fn places(map: &Volume<u16>, wanted: &[u16]) -> Vec<Vector3<f64>> {
        voxels(map, wanted).into_iter().map(|(_, place)| place).collect()
    }

    fn off(rule: &LandmarkRule, map: &Volume<u16>, expected: Vector3<f64>) -> f64 {
        (rule.point(map, &values).unwrap().unwrap().0.coords - expected).norm()
    }

    fn tip(direction: Direction, share: f64) -> LandmarkRule {
        LandmarkRule::Tip { labels: names(&["head", "tail"]), direction, share }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn centroids_are_means_of_places(seed: u64, oblique: bool) {
            let map = map(seed, oblique);
            let one = LandmarkRule::Centroid { labels: names(&["tail"]) };
            prop_assert!(off(&one, &map, mean(&places(&map, &[2]))) < 1e-9);
            let two = LandmarkRule::Centroid { labels: names(&["tail", "rest"]) };
            prop_assert!(off(&two, &map, mean(&places(&map, &[2, 3]))) < 1e-9);
        }

        /// Sorts all voxels by how far they lie in the direction.
        #[test]
        fn tips_are_the_outermost_voxels(seed: u64, oblique: bool, share in 0.001f64..=1.0, side in 0usize..7) {
            let map = map(seed, oblique);
            let (direction, way) = match Side::ALL.get(side) {
                Some(&(_, side, way)) => (Direction::Patient(side), Vector3::from(way)),
                None => {
                    let way = mean(&places(&map, &[1])) - mean(&places(&map, &[2]));
                    let [to, from] = ["head", "tail"].map(str::to_owned);
                    (Direction::Labels { from, to }, way.normalize())
                }
            };
            let mut sorted = places(&map, &[1, 2]);
            sorted.sort_by(|a, b| b.dot(&way).total_cmp(&a.dot(&way)));
            let last = (share * sorted.len() as f64).ceil() as usize - 1;
            let edge = sorted[last].dot(&way) - 1e-3 * (1.1 + 0.7 + 2.0) / 3.0;
            // Not where rounding decides.
            prop_assume!(sorted.iter().all(|p| (p.dot(&way) - edge).abs() > 1e-9));
            sorted.retain(|p| p.dot(&way) > edge);
            prop_assert!(off(&tip(direction, share), &map, mean(&sorted)) < 1e-9);
        }

        /// All voxels of one label against all of the other.
        #[test]
        fn interfaces_are_means_of_midpoints(seed: u64, oblique: bool) {
            let map = map(seed, oblique);
            let mut midpoints = Vec::new();
            for (a, place_a) in voxels(&map, &[1]) {
                for (b, place_b) in voxels(&map, &[2]) {
                    if (0..3).map(|n| (a[n] - b[n]).abs()).sum::<i64>() == 1 {
                        midpoints.push((place_a + place_b) / 2.0);
                    }
                }
            }
            prop_assume!(!midpoints.is_empty());
            for between in [["head", "tail"], ["tail", "head"]] {
                let rule = LandmarkRule::Interface { between: between.map(str::to_owned) };
                prop_assert!(off(&rule, &map, mean(&midpoints)) < 1e-9);
            }
        }
    }

    /// A cone of planes of 1, 4, 9, ... voxels: a tip never holds a part of a plane.
    #[test]
    fn tips_end_with_a_plane() {
        let geometry = Geometry::isotropic([6, 6, 6], 1.0).unwrap();
        let map = Volume::from_fn(geometry, |i, j, k| u16::from(i <= k && j <= k));
        let z = |side: Side, share: f64| {
            let rule = LandmarkRule::Tip {
                labels: names(&["head"]),
                direction: Direction::Patient(side),
                share,
            };
            rule.point(&map, &values).unwrap().unwrap().0.z
        };
        // Of 91 voxels: one; two, and so the plane with the second one; and 36 in the last plane.
        assert_eq!(z(Side::Inferior, 1.0 / 91.0), 0.0);
        assert_eq!(z(Side::Inferior, 1.1 / 91.0), 4.0 / 5.0);
        assert_eq!(z(Side::Superior, 1.0 / 91.0), 5.0);
        assert_eq!(z(Side::Superior, 36.0 / 91.0), 5.0);
        assert_eq!(z(Side::Superior, 1.0), z(Side::Inferior, 1.0));
    }

    #[test]
    fn each_side_is_where_it_is_in_lps() {
        for (n, (word, side, _)) in Side::ALL.into_iter().enumerate() {
            assert_eq!(side as usize, n);
            assert_eq!(serde_json::to_value(side).unwrap(), word);
        }
        assert_eq!(Side::Left.way(), -Side::Right.way());
        assert_eq!(Side::Posterior.way(), Vector3::y());
        assert_eq!(Side::Superior.way(), Vector3::z());
    }

    #[test]
    fn no_voxels_no_point_and_no_contact_says_so() {
        let geometry = Geometry::isotropic([5, 4, 4], 1.0).unwrap();
        // Corners and edges do not touch: only faces do.
        let apart = Volume::from_fn(geometry, |i, j, k| match (i, j, k) {
            (0, 0, 0) => 1,
            (1, 1, 0) => 2,
            _ => 0,
        });
        let interface =
            |b: &str| LandmarkRule::Interface { between: ["head".to_owned(), b.to_owned()] };
        let told = interface("tail").point(&apart, &values).unwrap_err();
        assert_eq!(told, "`head` and `tail` touch nowhere");
        assert_eq!(interface("rest").point(&apart, &values), Ok(None));
        let rest = LandmarkRule::Centroid { labels: names(&["rest"]) };
        assert_eq!(rest.point(&apart, &values), Ok(None));
        let both = LandmarkRule::Centroid { labels: names(&["rest", "head"]) };
        assert_eq!(both.point(&apart, &values), Ok(Some(PointLps::new(0.0, 0.0, 0.0))));
        let to =
            |to: &str| tip(Direction::Labels { from: "head".to_owned(), to: to.to_owned() }, 0.5);
        assert_eq!(to("rest").point(&apart, &values), Ok(None));
        assert!(to("head").point(&apart, &values).unwrap_err().contains("are the same point"));
        assert_eq!(to("tail").point(&apart, &values), Ok(Some(PointLps::new(1.0, 1.0, 0.0))));
    }
}
