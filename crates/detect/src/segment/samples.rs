//! Which voxels of a case are learned from.

use crate::config::regions::Sampling;
use crate::segment::data::IGNORED;
use pbt_volume::{Geometry, Random, Volume};

/// Voxels of a case that are learned from, in rising order of their place in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CaseSamples {
    /// Voxels of the working grid.
    pub(crate) voxels: Vec<[usize; 3]>,
    /// Their classes.
    pub(crate) classes: Vec<u8>,
    /// Their [strata](stratum_count).
    pub(crate) strata: Vec<u8>,
    /// How many voxels of each stratum the case has.
    pub(crate) voxels_by_stratum: Vec<u64>,
}

/// The class of each voxel of the working grid: that of the nearest voxel of the image.
pub(crate) fn working_classes(classes: &Volume<u8>, grid: &Geometry) -> Volume<u8> {
    let axes = classes.geometry().along(grid);
    let last = classes.shape().map(|n| n as f64 - 1.0);
    // By axis of the grid, the place of each of its voxels along one axis of the image.
    let places = [0, 1, 2].map(|a| -> Vec<usize> {
        let (t, first, step) = axes[a];
        let place = |n: usize| libm::round(first + step * n as f64).clamp(0.0, last[t]) as usize;
        (0..grid.shape()[a]).map(place).collect()
    });
    Volume::from_fn(grid.clone(), |i, j, k| {
        let mut at = [0; 3];
        for (a, n) in [i, j, k].into_iter().enumerate() {
            at[axes[a].0] = places[a][n];
        }
        classes.at(at[0], at[1], at[2])
    })
}

/// Groups of voxels of which each gives its own share of samples: the background far from regions,
/// that near to them, and each region.
pub(crate) fn stratum_count(class_count: usize) -> usize {
    class_count + 1
}

/// The stratum of each voxel; [`IGNORED`] as it is.
fn strata(classes: &Volume<u8>, near: usize) -> Vec<u8> {
    let mut regions: Vec<bool> =
        classes.data().iter().map(|&class| class != 0 && class != IGNORED).collect();
    let mut stride = 1;
    for n in classes.shape() {
        regions = widened(&regions, (n, stride), near);
        stride *= n;
    }
    let stratum = |(&class, near): (&u8, bool)| match class {
        IGNORED => IGNORED,
        0 => u8::from(near),
        region => region + 1,
    };
    classes.data().iter().zip(regions).map(stratum).collect()
}

/// Where something lies within so many voxels along an axis with `n` voxels that are `stride` apart.
fn widened(marked: &[bool], (n, stride): (usize, usize), by: usize) -> Vec<bool> {
    let mut out = vec![false; marked.len()];
    for (line, out) in marked.chunks_exact(n * stride).zip(out.chunks_exact_mut(n * stride)) {
        for at in (0..n * stride).filter(|&at| line[at]) {
            let (row, column) = (at / stride, at % stride);
            for near in row.saturating_sub(by)..(row + by + 1).min(n) {
                out[near * stride + column] = true;
            }
        }
    }
    out
}

impl CaseSamples {
    /// Draws up to `count` voxels of so many classes.
    pub(crate) fn draw(
        classes: &Volume<u8>,
        class_count: usize,
        (count, near): (usize, usize),
        sampling: Sampling,
        random: &mut Random,
    ) -> Self {
        let strata = strata(classes, near);
        let mut left = vec![0u64; stratum_count(class_count)];
        for &stratum in strata.iter().filter(|&&stratum| stratum != IGNORED) {
            left[usize::from(stratum)] += 1;
        }
        let voxels_by_stratum = left.clone();
        let mut wanted = match sampling {
            Sampling::ClassUniform => shared(count as u64, &left, &parts(class_count)),
            Sampling::VoxelUniform => vec![(count as u64).min(left.iter().sum())],
        };
        if sampling == Sampling::VoxelUniform {
            left = vec![left.iter().sum()];
        }
        // Selection sampling (Knuth, TAOCP 2, algorithm S): each voxel with the probability
        // wanted/left of its stratum.
        let mut drawn =
            Self { voxels: Vec::new(), classes: Vec::new(), strata: Vec::new(), voxels_by_stratum };
        let [nx, ny, _] = classes.shape();
        for (n, &stratum) in strata.iter().enumerate().filter(|(_, s)| **s != IGNORED) {
            let group = usize::from(stratum).min(left.len() - 1);
            if (random.below(left[group] as usize) as u64) < wanted[group] {
                wanted[group] -= 1;
                drawn.voxels.push([n % nx, n / nx % ny, n / nx / ny]);
                drawn.classes.push(classes.data()[n]);
                drawn.strata.push(stratum);
            }
            left[group] -= 1;
        }
        drawn
    }
}

impl CaseSamples {
    /// The same voxels in the mirrored image of `nx` columns, where each class is the one that
    /// `partner_of` says.
    pub(crate) fn mirrored(&self, nx: usize, partner_of: impl Fn(u8) -> u8) -> Self {
        let partner_stratum = |stratum: u8| match stratum {
            background @ 0..=1 => background,
            region => partner_of(region - 1) + 1,
        };
        let mut voxels_by_stratum = self.voxels_by_stratum.clone();
        for (stratum, &voxels) in (0..).zip(&self.voxels_by_stratum) {
            voxels_by_stratum[usize::from(partner_stratum(stratum))] = voxels;
        }
        Self {
            voxels: self.voxels.iter().map(|&[i, j, k]| [nx - 1 - i, j, k]).collect(),
            classes: self.classes.iter().map(|&class| partner_of(class)).collect(),
            strata: self.strata.iter().map(|&stratum| partner_stratum(stratum)).collect(),
            voxels_by_stratum,
        }
    }
}

/// In what proportion strata give samples.
fn parts(class_count: usize) -> Vec<u64> {
    let regions = class_count as u64 - 1;
    [regions, 2 * regions].into_iter().chain((0..regions).map(|_| 2)).collect()
}

/// `count` shared among strata of these sizes in these proportions, as far as they have so many; what
/// small ones leave goes to the others.
fn shared(count: u64, sizes: &[u64], parts: &[u64]) -> Vec<u64> {
    // Those that have the least for their part come first.
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by(|&a, &b| (sizes[a] * parts[b]).cmp(&(sizes[b] * parts[a])));
    let mut shares = vec![0; sizes.len()];
    let (mut left, mut parts_left) = (count, parts.iter().sum::<u64>());
    for n in order {
        shares[n] = (left * parts[n] / parts_left.max(1)).min(sizes[n]);
        left -= shares[n];
        parts_left -= parts[n];
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use pbt_volume::VoxelIndex;

    #[test]
    fn shares_are_in_proportion_where_they_can_be() {
        assert_eq!(shared(90, &[1000, 1000, 1000], &[1, 1, 1]), [30, 30, 30]);
        assert_eq!(shared(90, &[1000, 0, 10], &[1, 1, 1]), [80, 0, 10]);
        assert_eq!(shared(90, &[5, 6, 7], &[1, 2, 1]), [5, 6, 7]);
        // 95 in the proportion 2 : 4 : 2, the second first, which has the least for its part.
        assert_eq!(shared(100, &[1000, 1000, 1000, 5], &parts(3)), [24, 47, 24, 5]);
    }

    #[test]
    fn background_is_near_within_so_many_voxels() {
        let geometry = Geometry::isotropic([9, 8, 7], 1.0).unwrap();
        let classes = Volume::from_fn(geometry, |i, j, k| match [i, j, k] {
            [4, 1, 5] => 1,
            [8, 7, 0] => IGNORED,
            _ => 0,
        });
        let found = Volume::new(classes.geometry().clone(), strata(&classes, 2));
        Volume::from_fn(classes.geometry().clone(), |i, j, k| {
            let apart = i.abs_diff(4).max(j.abs_diff(1)).max(k.abs_diff(5));
            let expected = match ([i, j, k], apart) {
                ([8, 7, 0], _) => IGNORED,
                (_, 0) => 2,
                (_, 1..=2) => 1,
                _ => 0,
            };
            assert_eq!(found.at(i, j, k), expected, "{i} {j} {k}");
            0u8
        });
    }

    #[test]
    fn draws_are_of_the_class_and_never_of_what_is_ignored() {
        let geometry = Geometry::isotropic([20, 20, 20], 1.0).unwrap();
        let classes = Volume::from_fn(geometry, |i, j, k| match i + j + k {
            0..=5 => 1,
            6..=8 => IGNORED,
            _ => 0,
        });
        let total = |class| classes.data().iter().filter(|&&c| c == class).count() as u64;
        let draw = |count, sampling| {
            CaseSamples::draw(&classes, 2, (count, 4), sampling, &mut test_random(3))
        };
        for sampling in [Sampling::ClassUniform, Sampling::VoxelUniform] {
            let drawn = draw(100, sampling);
            assert_eq!(drawn.voxels.len(), 100);
            let by_stratum = &drawn.voxels_by_stratum;
            assert_eq!([by_stratum[0] + by_stratum[1], by_stratum[2]], [total(0), total(1)]);
            for (&[i, j, k], &class) in drawn.voxels.iter().zip(&drawn.classes) {
                assert_eq!(classes.at(i, j, k), class);
            }
            let ones = drawn.classes.iter().filter(|&&c| c == 1).count();
            match sampling {
                Sampling::ClassUniform => assert_eq!(ones, 40),
                Sampling::VoxelUniform => assert!(ones < 10, "{ones}"),
            }
            assert!(drawn.voxels.is_sorted_by_key(|v| [v[2], v[1], v[0]]));
        }
        let all = draw(1 << 20, Sampling::ClassUniform);
        assert_eq!(all.voxels.len() as u64, total(0) + total(1));
    }

    #[test]
    fn mirrored_samples_are_of_the_partner() {
        let geometry = Geometry::isotropic([9, 5, 4], 1.0).unwrap();
        // Two regions on either side, the first larger, and a third in the middle.
        let classes = Volume::from_fn(geometry.clone(), |i, _, _| [1, 1, 0, 0, 3, 0, 0, 0, 2][i]);
        let turned =
            Volume::from_fn(geometry, |i, j, k| [0, 2, 1, 3][usize::from(classes.at(8 - i, j, k))]);
        let partner_of = |class: u8| [0, 2, 1, 3][usize::from(class)];
        let drawn =
            CaseSamples::draw(&classes, 4, (100, 2), Sampling::ClassUniform, &mut test_random(5));
        let twins = drawn.mirrored(9, partner_of);
        for (&[i, j, k], &class) in twins.voxels.iter().zip(&twins.classes) {
            assert_eq!(turned.at(i, j, k), class);
        }
        let all = |classes: &Volume<u8>| {
            let sampling = Sampling::ClassUniform;
            CaseSamples::draw(classes, 4, (10_000, 2), sampling, &mut test_random(5))
        };
        assert_eq!(all(&turned).voxels_by_stratum, twins.voxels_by_stratum);
        let strata = |samples: &CaseSamples| {
            let mut all: Vec<([usize; 3], u8)> =
                samples.voxels.iter().copied().zip(samples.strata.iter().copied()).collect();
            all.sort();
            all
        };
        assert_eq!(strata(&all(&classes).mirrored(9, partner_of)), strata(&all(&turned)));
    }

    #[test]
    fn classes_follow_the_axes() {
        use nalgebra::Matrix3;
        use pbt_volume::{PointLps, canonical_geometry};
        // Axis i points to S, j to R, k to P.
        let matrix = Matrix3::new(0.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0);
        let geometry = Geometry::new([4, 5, 6], matrix, PointLps::new(1.0, 2.0, 3.0)).unwrap();
        let classes = Volume::from_fn(geometry, |i, j, k| (i + 4 * j + 20 * k) as u8);
        let grid = canonical_geometry(classes.geometry(), 1.0);
        let found = working_classes(&classes, &grid);
        assert_eq!(found.shape(), [5, 6, 4]);
        for (i, j, k) in [(0, 0, 0), (4, 2, 1), (1, 5, 3)] {
            let point = grid.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            let at = classes.geometry().to_index(point).0.map(|v| v.round() as usize);
            assert_eq!(found.at(i, j, k), classes.at(at[0], at[1], at[2]));
        }
    }
}
