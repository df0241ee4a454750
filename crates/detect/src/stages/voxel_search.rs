//! The best voxels of an image: every voxel is scored where they are few, else a lattice first and
//! then what lies around its best points.

use crate::DetectError;
use crate::network::search_region::Region;
use crate::stages::classifier::HaarClassifier;
use pbt_tree::{Backend, Score, Voxels};

/// Most voxels that are all scored; a larger image costs an eighth with little lost, since a
/// classifier that tells the structure within a voxel or two ranks the next lattice point high too.
pub(crate) const ALL: usize = 1 << 18;

/// Distance of the points of the lattice, voxels.
const STEP: usize = 2;

/// The `count` best voxels of the level with the integral volume, or of a region of it, the best first;
/// where scores tie, the first in the order of the voxels.
///
/// # Errors
/// [`DetectError::Device`] when the device fails.
pub(crate) fn best_voxels<B: Backend>(
    classifier: &HaarClassifier,
    backend: &B,
    image: &B::Image,
    (shape, region): ([usize; 3], Option<&Region>),
    count: usize,
) -> Result<Vec<([i32; 3], Score)>, DetectError> {
    if let Some(region) = region.filter(|region| region.len() <= ALL) {
        return best_of(classifier, backend, image, region.voxels(1), count);
    }
    if shape.iter().product::<usize>() <= ALL {
        let at = |n: usize| [n % shape[0], n / shape[0] % shape[1], n / shape[0] / shape[1]];
        let best = classifier.best(backend, image, &Voxels::All, count)?;
        return Ok(best.into_iter().map(|(n, score)| (at(n).map(|v| v as i32), score)).collect());
    }
    let points = region.map_or_else(|| lattice(shape, STEP, [0; 3]), |region| region.voxels(STEP));
    let best = best_of(classifier, backend, image, points, count)?;
    let around = neighbourhoods(best.iter().map(|&(voxel, _)| voxel), shape);
    best_of(classifier, backend, image, around, count)
}

/// The `count` best of these voxels, the best first.
///
/// # Errors
/// [`DetectError::Device`] when the device fails.
pub(crate) fn best_of<B: Backend>(
    classifier: &HaarClassifier,
    backend: &B,
    image: &B::Image,
    voxels: Vec<[i32; 3]>,
    count: usize,
) -> Result<Vec<([i32; 3], Score)>, DetectError> {
    let voxels = Voxels::At(voxels);
    let best = classifier.best(backend, image, &voxels, count)?;
    let Voxels::At(voxels) = voxels else { unreachable!("just made") };
    Ok(best.into_iter().map(|(n, score)| (voxels[n], score)).collect())
}

/// Every `step`-th voxel on each axis from `first` on, i fastest.
pub(crate) fn lattice(shape: [usize; 3], step: usize, first: [usize; 3]) -> Vec<[i32; 3]> {
    let [low, high] = [first, shape].map(|corner| corner.map(|v| v as i32));
    Region { low, high }.voxels(step)
}

/// The voxels within a lattice step of the points, each once, i fastest.
fn neighbourhoods(
    points: impl Iterator<Item = [i32; 3]>,
    shape @ [nx, ny, _]: [usize; 3],
) -> Vec<[i32; 3]> {
    let reach = STEP - 1;
    // A bit a voxel: in the order of the voxels without sorting them.
    let mut wanted = vec![0u64; shape.iter().product::<usize>().div_ceil(64)];
    for point in points {
        let near = |a: usize| {
            let at = point[a] as usize;
            at.saturating_sub(reach)..(at + reach + 1).min(shape[a])
        };
        for k in near(2) {
            for j in near(1) {
                for i in near(0) {
                    let n = (k * ny + j) * nx + i;
                    wanted[n / 64] |= 1 << (n % 64);
                }
            }
        }
    }
    let mut voxels = Vec::new();
    for (word, mut bits) in wanted.into_iter().enumerate() {
        while bits != 0 {
            let n = 64 * word + bits.trailing_zeros() as usize;
            voxels.push([n % nx, n / nx % ny, n / (nx * ny)].map(|v| v as i32));
            bits &= bits - 1;
        }
    }
    voxels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lattice_and_its_neighbourhoods_cover_the_image() {
        let shape = [7, 4, 5];
        let points = lattice(shape, STEP, [0; 3]);
        assert_eq!(points.len(), 4 * 2 * 3);
        assert_eq!(points[..2], [[0, 0, 0], [2, 0, 0]]);
        assert_eq!(neighbourhoods(points.into_iter(), shape), lattice(shape, 1, [0; 3]));
        let corner = neighbourhoods([[0, 0, 0], [0, 0, 0]].into_iter(), shape);
        assert_eq!(corner, lattice([2; 3], 1, [0; 3]));
    }
}
