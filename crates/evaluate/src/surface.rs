//! How far the surfaces of two masks on one grid lie apart.

use crate::distance_transform::squared_distances;
use crate::summary::quantile;

/// Distances between the surfaces of two masks.
///
/// The surface of a mask are its voxels with at least one of 6 neighbours outside the mask; beyond
/// the image is outside. Each surface voxel of either mask has the distance, between voxel centres,
/// to the nearest surface voxel of the other; the distances of both directions are pooled. The axes
/// of the grid are taken as perpendicular.
#[derive(Debug, Clone, PartialEq)]
pub struct SurfaceDistances {
    /// Of both directions, ascending, mm.
    sorted_mm: Vec<f64>,
}

impl SurfaceDistances {
    /// Between two masks of one shape with `i` fastest. `None` where one of them is empty: there is
    /// no distance to nothing.
    ///
    /// # Panics
    /// When a mask does not have the shape's number of voxels.
    pub fn new(a: &[bool], b: &[bool], shape: [usize; 3], spacing_mm: [f64; 3]) -> Option<Self> {
        let voxels: usize = shape.iter().product();
        assert!(a.len() == voxels && b.len() == voxels, "masks have the shape of their grid");
        let bounds = Bounds::of((0..voxels).filter(|&n| a[n] || b[n]), shape)?;
        Self::within(&bounds, shape, spacing_mm, (&|n| a[n], &|n| b[n]))
    }

    /// The same for masks that are empty outside `bounds`. Beyond the bounds is outside of both
    /// masks, as beyond the image, so surfaces are the same.
    pub(crate) fn within(
        bounds: &Bounds,
        shape: [usize; 3],
        spacing_mm: [f64; 3],
        (a, b): (&dyn Fn(usize) -> bool, &dyn Fn(usize) -> bool),
    ) -> Option<Self> {
        let part = bounds.shape();
        let surfaces = [a, b].map(|mask| {
            let mask: Vec<bool> = bounds.voxels(shape).map(mask).collect();
            surface(&mask, part)
        });
        if surfaces.iter().any(|surface| !surface.contains(&true)) {
            return None;
        }
        let mut sorted_mm = Vec::new();
        for (from, to) in [(0, 1), (1, 0)] {
            let squared = squared_distances(&surfaces[to], part, spacing_mm);
            let own = surfaces[from].iter().zip(squared).filter(|(is_surface, _)| **is_surface);
            sorted_mm.extend(own.map(|(_, squared)| squared.sqrt()));
        }
        sorted_mm.sort_by(f64::total_cmp);
        Some(Self { sorted_mm })
    }

    /// 95th percentile of the pooled distances, linear between neighbours, mm: `hd95` of MedPy. Others
    /// take the larger of the percentiles of the two directions.
    pub fn hd95_mm(&self) -> f64 {
        quantile(&self.sorted_mm, 0.95)
    }

    /// Mean of the pooled distances, mm: the average symmetric surface distance (T. Heimann et al.:
    /// Comparison and evaluation of methods for liver segmentation from CT datasets. IEEE
    /// Transactions on Medical Imaging 28, 2009).
    pub fn mean_mm(&self) -> f64 {
        self.sorted_mm.iter().sum::<f64>() / self.sorted_mm.len() as f64
    }

    /// Share of the pooled distances that are at most `tolerance_mm`: the normalised surface Dice of
    /// S. Nikolov et al. (Clinically applicable segmentation of head and neck anatomy for
    /// radiotherapy. Journal of Medical Internet Research 23, 2021), counted in surface voxels and
    /// not in areas.
    pub fn within_tolerance(&self, tolerance_mm: f64) -> f64 {
        let within = self.sorted_mm.partition_point(|&mm| mm <= tolerance_mm);
        within as f64 / self.sorted_mm.len() as f64
    }
}

/// The tolerance of the normalised surface Dice on a grid: 2 mm, and 1 mm where the geometric mean
/// of the spacing is below 1.2 mm.
pub fn nsd_tolerance_mm(spacing_mm: [f64; 3]) -> f64 {
    if libm::cbrt(spacing_mm.iter().product()) < 1.2 { 1.0 } else { 2.0 }
}

/// A box of voxels, both ends inside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    first: [usize; 3],
    last: [usize; 3],
}

impl Bounds {
    /// Around one voxel.
    pub(crate) fn at(voxel: usize, shape: [usize; 3]) -> Self {
        let place = place(voxel, shape);
        Self { first: place, last: place }
    }

    /// Grows to hold a voxel.
    pub(crate) fn add(&mut self, voxel: usize, shape: [usize; 3]) {
        let place = place(voxel, shape);
        for ((first, last), place) in self.first.iter_mut().zip(&mut self.last).zip(place) {
            *first = (*first).min(place);
            *last = (*last).max(place);
        }
    }

    fn of(mut voxels: impl Iterator<Item = usize>, shape: [usize; 3]) -> Option<Self> {
        let mut bounds = Self::at(voxels.next()?, shape);
        voxels.for_each(|voxel| bounds.add(voxel, shape));
        Some(bounds)
    }

    fn shape(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.last[axis] - self.first[axis] + 1)
    }

    /// Numbers of the voxels inside in a grid of `shape`, `i` fastest.
    fn voxels(&self, shape: [usize; 3]) -> impl Iterator<Item = usize> {
        let ranges: [_; 3] = std::array::from_fn(|axis| self.first[axis]..=self.last[axis]);
        let [i, j, k] = ranges;
        k.flat_map(move |k| {
            let i = i.clone();
            j.clone().flat_map(move |j| i.clone().map(move |i| i + shape[0] * (j + shape[1] * k)))
        })
    }
}

fn place(voxel: usize, shape: [usize; 3]) -> [usize; 3] {
    [voxel % shape[0], voxel / shape[0] % shape[1], voxel / shape[0] / shape[1]]
}

/// Voxels of the mask with at least one of 6 neighbours outside of it.
fn surface(mask: &[bool], shape: [usize; 3]) -> Vec<bool> {
    let strides = [1, shape[0], shape[0] * shape[1]];
    let is_inner = |voxel: usize| {
        let place = place(voxel, shape);
        (0..3).all(|axis| {
            place[axis] > 0
                && place[axis] + 1 < shape[axis]
                && mask[voxel - strides[axis]]
                && mask[voxel + strides[axis]]
        })
    };
    (0..mask.len()).map(|voxel| mask[voxel] && !is_inner(voxel)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every distance, by looking at all pairs of surface voxels.
    fn brute_force(
        a: &[bool],
        b: &[bool],
        shape: [usize; 3],
        spacing_mm: [f64; 3],
    ) -> Option<Vec<f64>> {
        let points = |mask: &[bool]| -> Vec<[f64; 3]> {
            let is_set = |at: [i64; 3]| {
                (0..3).all(|axis| (0..shape[axis] as i64).contains(&at[axis]))
                    && mask
                        [at[0] as usize + shape[0] * (at[1] as usize + shape[1] * at[2] as usize)]
            };
            let mut points = Vec::new();
            for (voxel, &inside) in mask.iter().enumerate() {
                let at = place(voxel, shape).map(|n| n as i64);
                let open = (0..6).any(|side| {
                    let mut beside = at;
                    beside[side / 2] += [-1, 1][side % 2];
                    !is_set(beside)
                });
                if inside && open {
                    points.push(std::array::from_fn(|axis| at[axis] as f64 * spacing_mm[axis]));
                }
            }
            points
        };
        let (a, b) = (points(a), points(b));
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let distance = |p: &[f64; 3], q: &[f64; 3]| {
            (0..3).map(|axis| (p[axis] - q[axis]).powi(2)).sum::<f64>().sqrt()
        };
        let to = |from: &[[f64; 3]], to: &[[f64; 3]]| -> Vec<f64> {
            from.iter()
                .map(|p| to.iter().map(|q| distance(p, q)).fold(f64::INFINITY, f64::min))
                .collect()
        };
        let mut all = [to(&a, &b), to(&b, &a)].concat();
        all.sort_by(f64::total_cmp);
        Some(all)
    }

    fn masks() -> impl Strategy<Value = ([usize; 3], [f64; 3], Vec<bool>, Vec<bool>)> {
        let shape = prop::array::uniform3(1usize..7);
        let spacing = prop::array::uniform3(0.2f64..5.0);
        (shape, spacing, 0.0f64..=1.0, 0.0f64..=1.0).prop_flat_map(|(shape, spacing, p, q)| {
            let n = shape.iter().product::<usize>();
            let mask = |p| prop::collection::vec(prop::bool::weighted(p), n);
            (Just(shape), Just(spacing), mask(p), mask(q))
        })
    }

    proptest! {
        #[test]
        fn agrees_with_brute_force((shape, spacing, a, b) in masks()) {
            let found = SurfaceDistances::new(&a, &b, shape, spacing).map(|d| d.sorted_mm);
            let expected = brute_force(&a, &b, shape, spacing);
            prop_assert_eq!(found.is_some(), expected.is_some());
            for (x, y) in found.iter().flatten().zip(expected.iter().flatten()) {
                prop_assert!((x - y).abs() < 1e-9, "{} {}", x, y);
            }
            prop_assert_eq!(found.map(|d| d.len()), expected.map(|d| d.len()));
        }

        #[test]
        fn is_symmetric_and_zero_for_equal_masks((shape, spacing, a, b) in masks()) {
            let distances = |a, b| SurfaceDistances::new(a, b, shape, spacing);
            prop_assert_eq!(distances(&a, &b), distances(&b, &a));
            if let Some(same) = distances(&a, &a) {
                prop_assert_eq!((same.hd95_mm(), same.mean_mm()), (0.0, 0.0));
                prop_assert_eq!(same.within_tolerance(0.0), 1.0);
            }
        }
    }

    #[test]
    fn two_voxels_by_hand() {
        let (mut a, mut b) = (vec![false; 60], vec![false; 60]);
        (a[0], b[59]) = (true, true);
        // 3 steps of 1 mm, 4 of 1 mm, 2 of 6 mm.
        let distances = SurfaceDistances::new(&a, &b, [4, 5, 3], [1.0, 1.0, 6.0]).unwrap();
        assert_eq!((distances.hd95_mm(), distances.mean_mm()), (13.0, 13.0));
        assert_eq!([12.9, 13.0].map(|mm| distances.within_tolerance(mm)), [0.0, 1.0]);
        assert_eq!(SurfaceDistances::new(&a, &[false; 60], [4, 5, 3], [1.0; 3]), None);
    }

    #[test]
    fn the_tolerance_follows_the_spacing() {
        assert_eq!(nsd_tolerance_mm([1.0; 3]), 1.0);
        assert_eq!(nsd_tolerance_mm([0.5, 0.5, 4.0]), 1.0);
        assert_eq!(nsd_tolerance_mm([1.2, 1.2, 1.25]), 2.0);
    }
}
