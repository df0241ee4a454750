//! Places that labels tell: their middles, their ends, and where they meet. Landmarks are often
//! defined by them.

use crate::masks::frame::FrameGrid;
use pbt_tree::LEAF_ONE;

/// This part of a mask is an end of it.
const END: f64 = 0.05;

/// How many places there are for so many labels: the middle of all, of both ends along each axis, of
/// each label, and of where it meets the next one.
pub(crate) fn count(labels: usize) -> usize {
    1 + 6 + labels + labels - 1
}

/// Each in edges of the box, from its middle. `shares` are the probabilities of the classes of each
/// voxel of the grid.
pub(crate) fn places(grid: &FrameGrid, shares: &[u32], classes: usize) -> Vec<[f64; 3]> {
    let mut layers = grid.shape.map(|n| vec![Weighted::default(); n]);
    let mut labels = vec![Weighted::default(); classes - 1];
    let mut meetings = vec![Weighted::default(); classes - 2];
    let [nx, ny, _] = grid.shape;
    for (n, shares) in shares.chunks_exact(classes).enumerate() {
        if shares[0] == LEAF_ONE {
            continue;
        }
        let voxel = [n % nx, n / nx % ny, n / (nx * ny)];
        let place = [0, 1, 2].map(|a| grid.place(a, voxel[a]));
        for (layers, at) in layers.iter_mut().zip(voxel) {
            layers[at].add(place, f64::from(LEAF_ONE - shares[0]));
        }
        for (label, &share) in labels.iter_mut().zip(&shares[1..]) {
            label.add(place, f64::from(share));
        }
        for (meeting, pair) in meetings.iter_mut().zip(shares[1..].windows(2)) {
            meeting.add(place, f64::from(pair[0]) * f64::from(pair[1]));
        }
    }
    let mut places = vec![first(1.0, layers[0].iter())];
    for layers in &layers {
        places.push(first(END, layers.iter()));
        places.push(first(END, layers.iter().rev()));
    }
    places.extend(labels.iter().chain(&meetings).map(Weighted::middle));
    places
}

/// The middle of the first part of a mask that comes in layers.
fn first<'a>(part: f64, layers: impl Iterator<Item = &'a Weighted> + Clone) -> [f64; 3] {
    let mut left = part * layers.clone().map(|layer| layer.mass).sum::<f64>();
    let mut all = Weighted::default();
    for layer in layers.filter(|layer| layer.mass > 0.0) {
        let part = (left / layer.mass).min(1.0);
        all.mass += part * layer.mass;
        all.first.iter_mut().zip(layer.first).for_each(|(sum, first)| *sum += part * first);
        left -= part * layer.mass;
        if part < 1.0 {
            break;
        }
    }
    all.middle()
}

/// A sum of weights, and of weighted places.
#[derive(Debug, Clone, Copy, Default)]
struct Weighted {
    mass: f64,
    first: [f64; 3],
}

impl Weighted {
    fn add(&mut self, place: [f64; 3], weight: f64) {
        self.mass += weight;
        self.first.iter_mut().zip(place).for_each(|(sum, place)| *sum += weight * place);
    }

    /// The middle of the frame where there is nothing.
    fn middle(&self) -> [f64; 3] {
        self.first.map(|sum| if self.mass > 0.0 { sum / self.mass } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_meetings_of_two_blocks_are_where_they_were_put() {
        // 40 voxels of 0.035 edges along x: label 1 in 10 to 19, label 2 in 20 to 29 and higher in y;
        // half and half in layer 20.
        let grid = FrameGrid { shape: [40, 20, 20], voxel_mm: 1.0 };
        let mut shares = Vec::new();
        for n in 0..grid.len() {
            let (x, y, z) = (n % 40, n / 40 % 20, n / 800);
            let inside = (10..30).contains(&x) && (5..9).contains(&z);
            let label = if x < 20 { (5..10).contains(&y) } else { (10..15).contains(&y) };
            shares.extend(match (inside && label, x) {
                (false, _) => [LEAF_ONE, 0, 0],
                (true, 20) => [0, LEAF_ONE / 2, LEAF_ONE / 2],
                (true, 0..20) => [0, LEAF_ONE, 0],
                (true, _) => [0, 0, LEAF_ONE],
            });
        }
        let found = places(&grid, &shares, 3);
        assert_eq!(found.len(), count(2));
        // 5 % of 20 layers is one layer.
        let near = |n: usize, [x, y, z]: [f64; 3]| {
            let place = [grid.place(0, 0) + x * 0.035, y * 0.07 - 0.665, z * 0.07 - 0.665];
            (0..3).for_each(|a| assert!((found[n][a] - place[a]).abs() < 1e-9, "{n} {a}"));
        };
        near(1, [10.0, 7.0, 6.5]);
        near(2, [29.0, 12.0, 6.5]);
        near(0, [19.5, 9.5, 6.5]);
        // Along z both labels count alike.
        near(5, [19.5, 9.5, 5.0]);
        near(7, [155.0 / 10.5, 76.0 / 10.5, 6.5]);
        near(9, [20.0, 12.0, 6.5]);
    }

    #[test]
    fn nothing_has_its_ends_in_the_middle() {
        let grid = FrameGrid { shape: [6; 3], voxel_mm: 1.0 };
        let none: Vec<u32> = (0..grid.len()).flat_map(|_| [LEAF_ONE, 0]).collect();
        assert_eq!(places(&grid, &none, 2), vec![[0.0; 3]; count(1)]);
    }
}
