//! Where labels lie in their frame, in numbers that a linear map makes the frame's error of.

use crate::masks::frame::{FrameGrid, REACH};
use pbt_tree::LEAF_ONE;

/// Parts of a mask that lie before its measured ends, the tails of boxes from label maps among them.
const ENDS: [f64; 4] = [0.02, 0.1, 0.9, 0.98];

/// Units of a number to an edge of the box.
pub(crate) const UNITS: f64 = 1500.0;

/// How many numbers there are for so many labels: of all labels together the centre, six second
/// moments and the ends along each axis, and of each label of several its size and centre.
pub(crate) fn count(labels: usize) -> usize {
    let each = if labels > 1 { 4 * labels } else { 0 };
    1 + 3 + 6 + 3 * ENDS.len() + each
}

/// Sums of weights along an axis, and weighted sums of places.
#[derive(Clone)]
struct Sums {
    mass: f64,
    first: [f64; 3],
    second: [f64; 6],
    along: [Vec<f64>; 3],
}

/// The numbers of a labelling: `shares` are the probabilities of the classes of each voxel of the
/// grid.
pub(crate) fn moments(grid: &FrameGrid, shares: &[u32], classes: usize) -> Vec<i16> {
    let labels = classes - 1;
    let empty = Sums {
        mass: 0.0,
        first: [0.0; 3],
        second: [0.0; 6],
        along: grid.shape.map(|n| vec![0.0; n]),
    };
    let mut all = empty.clone();
    let mut each = vec![empty; if labels > 1 { labels } else { 0 }];
    let places = [0, 1, 2]
        .map(|a| -> Vec<f64> { (0..grid.shape[a]).map(|voxel| grid.place(a, voxel)).collect() });
    let [nx, ny, _] = grid.shape;
    for (n, shares) in shares.chunks_exact(classes).enumerate() {
        if shares[0] == LEAF_ONE {
            continue;
        }
        let at = [n % nx, n / nx % ny, n / (nx * ny)];
        all.add(at, &places, f64::from(LEAF_ONE - shares[0]));
        for (sums, &share) in each.iter_mut().zip(&shares[1..]) {
            sums.add(at, &places, f64::from(share));
        }
    }
    let whole = grid.len() as f64 * f64::from(LEAF_ONE);
    let mut numbers = vec![log_size(all.mass / whole)];
    numbers.extend(all.centre().map(|c| c * UNITS));
    // Second moments of a box that is filled are a twelfth.
    numbers.extend(all.spread().map(|m| 6.0 * m * UNITS));
    for (along, places) in all.along.iter().zip(&places) {
        numbers.extend(ENDS.map(|part| end(along, places, part * all.mass) * UNITS));
    }
    for sums in &each {
        numbers.push(log_size(sums.mass / whole));
        numbers.extend(sums.centre().map(|c| c * UNITS));
    }
    numbers.iter().map(|&x| libm::round(x.clamp(-4095.0, 4095.0)) as i16).collect()
}

/// A mask's part of the grid, in its logarithm.
fn log_size(part: f64) -> f64 {
    libm::log(part.max(1e-4)) * UNITS / 3.0
}

/// Where this much lies before, along an axis.
fn end(along: &[f64], places: &[f64], before: f64) -> f64 {
    let step = REACH / along.len() as f64;
    let mut passed = 0.0;
    for (&here, &place) in along.iter().zip(places) {
        if here > 0.0 && passed + here >= before {
            return place - step / 2.0 + step * (before - passed) / here;
        }
        passed += here;
    }
    0.0
}

impl Sums {
    fn add(&mut self, at: [usize; 3], places: &[Vec<f64>; 3], weight: f64) {
        let [x, y, z] = [0, 1, 2].map(|a| places[a][at[a]]);
        self.mass += weight;
        for (sum, place) in self.first.iter_mut().zip([x, y, z]) {
            *sum += weight * place;
        }
        let products = [x * x, y * y, z * z, x * y, x * z, y * z];
        for (sum, product) in self.second.iter_mut().zip(products) {
            *sum += weight * product;
        }
        for (along, voxel) in self.along.iter_mut().zip(at) {
            along[voxel] += weight;
        }
    }

    fn centre(&self) -> [f64; 3] {
        let mass = self.mass.max(1.0);
        self.first.map(|sum| sum / mass)
    }

    /// Second moments about the centre: xx, yy, zz, xy, xz, yz.
    fn spread(&self) -> [f64; 6] {
        let mass = self.mass.max(1.0);
        let [x, y, z] = self.centre();
        let products = [x * x, y * y, z * z, x * y, x * z, y * z];
        std::array::from_fn(|n| self.second[n] / mass - products[n])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_part_of_the_grid_has_its_known_moments() {
        let grid = FrameGrid { shape: [28, 14, 14], voxel_mm: 1.0 };
        // Voxels 7 to 20 along x, all along the others: half of the grid, of two labels.
        let mut shares = Vec::new();
        for n in 0..grid.len() {
            let x = n % 28;
            let label = if (7..14).contains(&x) { 1 } else { 2 };
            let mut own = [0, 0, 0];
            own[if (7..21).contains(&x) { label } else { 0 }] = LEAF_ONE;
            shares.extend(own);
        }
        let found = moments(&grid, &shares, 3);
        assert_eq!(found.len(), count(2));
        let unit = |x: f64| x * UNITS;
        let near = |n: usize, x: f64| {
            assert!((f64::from(found[n]) - x).abs() < 3.0, "{n}: {} {x}", found[n]);
        };
        near(0, libm::log(0.5) * UNITS / 3.0);
        (1..4).for_each(|n| near(n, 0.0));
        // Voxels count at their centres: n of them spread by 1 - 1 / n² of what they fill.
        let centres = 1.0 - 1.0 / (14.0 * 14.0);
        near(4, 6.0 * unit(0.7 * 0.7 / 12.0 * centres));
        near(5, 6.0 * unit(1.4 * 1.4 / 12.0 * centres));
        // The ends along x.
        near(10, unit(-0.35 + 0.02 * 0.7));
        near(13, unit(0.35 - 0.02 * 0.7));
        // The first label's centre.
        near(23, unit(-0.175));
        near(27, unit(0.175));
    }

    #[test]
    fn nothing_has_moments_too() {
        let grid = FrameGrid { shape: [6, 6, 6], voxel_mm: 1.0 };
        let shares: Vec<u32> = (0..216).flat_map(|_| [LEAF_ONE, 0]).collect();
        assert_eq!(moments(&grid, &shares, 2).len(), count(1));
    }
}
