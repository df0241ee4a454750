//! Images that are nearly the same: one scan exported twice, in another format, with other
//! intensities or a little noise. In two splits such a pair makes tests too good.

use super::finding::Finding;
use super::images::{ImageFacts, few};
use pbt_volume::Volume;
use rayon::prelude::*;

/// Edge of a thumbnail, in cells; fewer along an axis with fewer voxels, so that no cell is empty.
const CELLS: usize = 12;

/// Thumbnails that correlate more are of one scan. Among the public sets of data/README.md the most
/// alike images of different subjects are at 0.955 (sagittal spines); a copy with noise of a
/// twentieth of the contrast is above 0.999.
pub(super) const SAME_SCAN: f64 = 0.985;

/// Means of the intensities in a coarse grid along the voxel axes, shifted and scaled to mean 0 and
/// length 1. Empty for an image without contrast.
#[derive(Debug, Clone, Default)]
pub(super) struct Thumbnail(Vec<f64>);

impl Thumbnail {
    pub(super) fn of(volume: &Volume<f32>) -> Self {
        let shape = volume.shape();
        let cells = shape.map(|n| n.min(CELLS));
        let cell_of = |index: usize, axis: usize| index * cells[axis] / shape[axis];
        let all = cells.iter().product();
        let (mut sums, mut counts) = (vec![0.0; all], vec![0usize; all]);
        let row_cells: Vec<usize> = (0..shape[0]).map(|i| cell_of(i, 0)).collect();
        for (n, row) in volume.data().chunks_exact(shape[0]).enumerate() {
            let base = cells[0] * (cell_of(n % shape[1], 1) + cells[1] * cell_of(n / shape[1], 2));
            for (&value, &cell) in row.iter().zip(&row_cells) {
                if value.is_finite() {
                    sums[base + cell] += f64::from(value);
                    counts[base + cell] += 1;
                }
            }
        }
        let mut means: Vec<f64> =
            sums.iter().zip(&counts).map(|(sum, &count)| sum / count.max(1) as f64).collect();
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        means.iter_mut().for_each(|v| *v -= mean);
        let length = means.iter().map(|v| v * v).sum::<f64>().sqrt();
        // Rounding leaves a little of a constant.
        if !(length.is_finite() && length > 1e-9 * mean.abs()) {
            return Self::default();
        }
        means.iter_mut().for_each(|v| *v /= length);
        Self(means)
    }

    /// From -1 to 1, 1 for images that are the same up to brightness and contrast.
    pub(super) fn correlation(&self, other: &Self) -> f64 {
        self.0.iter().zip(&other.0).map(|(a, b)| a * b).sum()
    }
}

/// Pairs of nearly the same images in different splits. Files with the same bytes are another
/// finding.
pub(super) fn near_duplicates(images: &[ImageFacts]) -> Vec<Finding> {
    let pairs: Vec<(usize, usize)> = (0..images.len())
        .into_par_iter()
        .flat_map_iter(|a| (a + 1..images.len()).map(move |b| (a, b)))
        .filter(|&(a, b)| {
            let (a, b) = (&images[a], &images[b]);
            a.split != b.split
                && a.sha256 != b.sha256
                && a.shape == b.shape
                && a.thumbnail.correlation(&b.thumbnail) > SAME_SCAN
        })
        .collect();
    let Some(&(a, b)) = pairs.first() else { return Vec::new() };
    let names: Vec<String> =
        pairs.iter().map(|&(a, b)| format!("{} and {}", images[a].case, images[b].case)).collect();
    vec![Finding::warning(format!(
        "{}: image: looks the same as {} of another split; {} such pair(s): {} (keep all images of one scan in one split, or tests mean nothing)",
        images[b].path,
        images[a].path,
        pairs.len(),
        few(names.iter().map(String::as_str))
    ))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;

    /// A pseudo-random number in [0, 1).
    fn noise(n: usize) -> f32 {
        (n as u32).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(2_246_822_519) as f32
            / 4_294_967_296.0
    }

    fn blobs(seed: usize, scale: f32, spread: f32) -> Volume<f32> {
        let geometry = Geometry::isotropic([40, 30, 20], 1.0).unwrap();
        let value = |n: usize| {
            scale
                * (noise(seed + n % 40 / 6 + 7 * (n / 40 % 30 / 5) + 49 * (n / 1200 / 4))
                    + spread * noise(n + 99))
        };
        Volume::new(geometry, (0..24_000).map(value).collect())
    }

    #[test]
    fn copies_are_told_from_others() {
        let original = Thumbnail::of(&blobs(1, 1.0, 0.0));
        assert!(original.correlation(&Thumbnail::of(&blobs(1, 300.0, 0.05))) > SAME_SCAN);
        assert!(original.correlation(&Thumbnail::of(&blobs(1000, 1.0, 0.0))) < 0.5);
        let flat = Thumbnail::of(&Volume::new(
            Geometry::isotropic([4, 4, 4], 1.0).unwrap(),
            vec![3.0; 64],
        ));
        assert_eq!(flat.correlation(&original), 0.0);
    }
}
