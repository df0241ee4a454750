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

/// Sums of weights, and of weights times numbers of voxels, along the axes. They are whole numbers, which
/// can be added in any order; as a grid's edges have at most 10⁴ voxels, they fit.
struct Sums {
    mass: u64,
    first: [u64; 3],
    /// xx, yy, zz, xy, xz, yz.
    second: [u64; 6],
    along: [Vec<u64>; 3],
}

/// The numbers of a labelling: `shares` are the probabilities of the classes of each voxel of the
/// grid. They count as [`sharper`] than they are.
pub(crate) fn moments(grid: &FrameGrid, shares: &[u32], classes: usize) -> Vec<i16> {
    let labels = classes - 1;
    let on = (grid.shape, shares, classes);
    let all = Sums::new(on, |shares| sharper(LEAF_ONE - shares[0]));
    let whole = grid.len() as f64 * f64::from(LEAF_ONE);
    let mut numbers = vec![log_size(all.mass as f64 / whole)];
    numbers.extend(all.centre(grid).map(|c| c * UNITS));
    // Second moments of a box that is filled are a twelfth.
    numbers.extend(all.spread(grid).map(|m| 6.0 * m * UNITS));
    for (axis, along) in all.along.iter().enumerate() {
        let place = |voxel| grid.place(axis, voxel);
        numbers.extend(ENDS.map(|part| end(along, place, part * all.mass as f64) * UNITS));
    }
    for class in 1..=if labels > 1 { labels } else { 0 } {
        let own = Sums::new(on, |shares| sharper(shares[class]));
        numbers.push(log_size(own.mass as f64 / whole));
        numbers.extend(own.centre(grid).map(|c| c * UNITS));
    }
    numbers.iter().map(|&x| libm::round(x.clamp(-4095.0, 4095.0)) as i16).collect()
}

/// A probability with half as wide a border between no and yes: blurred borders would carry ends and tips
/// outwards, and hard ones know no parts of voxels.
pub(crate) fn sharper(share: u32) -> u32 {
    (2 * share).saturating_sub(LEAF_ONE / 2).min(LEAF_ONE)
}

/// A mask's part of the grid, in its logarithm.
fn log_size(part: f64) -> f64 {
    libm::log(part.max(1e-4)) * UNITS / 3.0
}

/// Where this much lies before, along an axis.
fn end(along: &[u64], place: impl Fn(usize) -> f64, before: f64) -> f64 {
    let step = REACH / along.len() as f64;
    let mut passed = 0.0;
    for (voxel, &here) in along.iter().enumerate() {
        let here = here as f64;
        if here > 0.0 && passed + here >= before {
            return place(voxel) - step / 2.0 + step * (before - passed) / here;
        }
        passed += here;
    }
    0.0
}

impl Sums {
    /// Of the weights that `weight` makes of the probabilities of the classes of each voxel.
    fn new(
        (shape, shares, classes): ([usize; 3], &[u32], usize),
        weight: impl Fn(&[u32]) -> u32,
    ) -> Self {
        let [nx, ny, _] = shape;
        let along = shape.map(|n| vec![0; n]);
        let mut sums = Self { mass: 0, first: [0; 3], second: [0; 6], along };
        for (row, shares) in shares.chunks_exact(nx * classes).enumerate() {
            if shares.chunks_exact(classes).all(|shares| shares[0] == LEAF_ONE) {
                continue;
            }
            let (mut mass, mut first) = (0, 0);
            let row_along = sums.along[0].iter_mut().zip(shares.chunks_exact(classes));
            for (i, (along, shares)) in (0..).zip(row_along) {
                let weight = u64::from(weight(shares));
                *along += weight;
                mass += weight;
                first += i * weight;
            }
            sums.add_row([row % ny, row / ny], mass, first);
        }
        for (along, squares) in sums.along.iter().zip(&mut sums.second) {
            *squares = (0..).zip(along).map(|(n, weight)| n * n * weight).sum();
        }
        sums
    }

    /// Adds a row of voxels: its mass, and the sum of its voxels' numbers.
    fn add_row(&mut self, at: [usize; 2], mass: u64, first: u64) {
        self.along[1][at[0]] += mass;
        self.along[2][at[1]] += mass;
        let [j, k] = at.map(|n| n as u64);
        self.mass += mass;
        let firsts = [first, j * mass, k * mass];
        self.first.iter_mut().zip(firsts).for_each(|(sum, own)| *sum += own);
        let products = [j * first, k * first, j * k * mass];
        self.second[3..].iter_mut().zip(products).for_each(|(sum, own)| *sum += own);
    }

    /// The mean number of a voxel, along each axis.
    fn mean(&self) -> [f64; 3] {
        self.first.map(|sum| sum as f64 / self.mass.max(1) as f64)
    }

    /// The centre, edges of the box; its middle where there is no mass.
    fn centre(&self, grid: &FrameGrid) -> [f64; 3] {
        let mean = self.mean();
        let place = |a: usize| ((mean[a] + 0.5) / grid.shape[a] as f64 - 0.5) * REACH;
        if self.mass == 0 { [0.0; 3] } else { [0, 1, 2].map(place) }
    }

    /// Second moments about the centre: xx, yy, zz, xy, xz, yz; squared edges of the box.
    fn spread(&self, grid: &FrameGrid) -> [f64; 6] {
        let mean = self.mean();
        let step = grid.shape.map(|n| REACH / n as f64);
        let axes = [(0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2)];
        std::array::from_fn(|n| {
            let (a, b) = axes[n];
            let about_zero = self.second[n] as f64 / self.mass.max(1) as f64;
            (about_zero - mean[a] * mean[b]) * step[a] * step[b]
        })
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

    /// A block of 10 × 10 × 10 voxels, and the same with a border that is blurred by one voxel on both sides.
    #[test]
    fn blurred_borders_leave_the_ends_where_they_are() {
        let grid = FrameGrid { shape: [20; 3], voxel_mm: 1.0 };
        let numbers = |share: &dyn Fn(usize) -> f64| {
            let inside = |n: usize| [n % 20, n / 20 % 20, n / 400].map(share);
            let own = |n: usize| inside(n).iter().product::<f64>() * f64::from(LEAF_ONE);
            let of = |n: usize| [LEAF_ONE - own(n) as u32, own(n) as u32];
            moments(&grid, &(0..grid.len()).flat_map(of).collect::<Vec<u32>>(), 2)
        };
        let hard = numbers(&|x| f64::from(u8::from((5..15).contains(&x))));
        let blurred = numbers(&|x| match x {
            4 | 15 => 0.25,
            5 | 14 => 0.75,
            x => f64::from(u8::from((5..15).contains(&x))),
        });
        // Less than a fiftieth of an edge.
        let differs = |n: usize| (hard[n] - blurred[n]).abs();
        assert!((1..22).all(|n| differs(n) < UNITS as i16 / 50), "{hard:?} {blurred:?}");
    }

    #[test]
    fn nothing_has_moments_too() {
        let grid = FrameGrid { shape: [6, 6, 6], voxel_mm: 1.0 };
        let shares: Vec<u32> = (0..216).flat_map(|_| [LEAF_ONE, 0]).collect();
        assert_eq!(moments(&grid, &shares, 2).len(), count(1));
    }
}
