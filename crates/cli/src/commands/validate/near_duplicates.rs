//! Images that are nearly the same: one scan exported twice, in another format, with other
//! intensities or a little noise. In two splits such a pair makes tests too good.

use super::finding::Finding;
use super::images::{ImageFacts, few};
use super::pattern::Pattern;
use pbt_volume::Volume;
use rayon::prelude::*;

/// Edge of a thumbnail, in cells; fewer along an axis with fewer voxels, so that no cell is empty.
const CELLS: usize = 12;

/// Images whose thumbnails correlate more may be of one scan: a copy with noise of a twentieth of the
/// contrast is above 0.999. Different subjects reach 0.955 (sagittal spines), and 0.996 where they are
/// registered to one space and have nothing around them (brains without skull).
const SAME_THUMBNAIL: f64 = 0.985;

/// Places along an axis at which fine detail is looked at; no more than there are voxels.
const PLACES: usize = 24;

/// Voxels along an axis whose mean is the detail of a place, and around them what it is held against.
/// A single voxel would be more noise than detail.
const DETAIL: usize = 2;
const SURROUNDINGS: usize = 8;

/// Such images are of one scan where their details correlate more, too. Copies with noise of a
/// twentieth of the contrast, moved by half a voxel, clipped or in 8 bits are at 0.9 and above; brains
/// of different subjects, registered and without skull, at 0.4, and averages of many of them, one
/// week of growth apart, at 0.7.
const SAME_DETAIL: f64 = 0.85;

/// What an image looks like, up to brightness and contrast: coarsely and in its details.
#[derive(Debug, Clone, Default)]
pub(super) struct Looks {
    thumbnail: Pattern,
    details: Pattern,
}

impl Looks {
    pub(super) fn of(volume: &Volume<f32>) -> Self {
        Self { thumbnail: Pattern::of(&cells(volume)), details: Pattern::of(&details(volume)) }
    }

    /// Whether both are of one scan, which their thumbnails alone cannot tell where images are
    /// registered to one space.
    fn are_of_one_scan(&self, other: &Self) -> bool {
        self.thumbnail.correlation(&other.thumbnail) > SAME_THUMBNAIL
            && self.details.correlation(&other.details) > SAME_DETAIL
    }
}

/// Means of the intensities in a coarse grid along the voxel axes.
fn cells(volume: &Volume<f32>) -> Vec<f64> {
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
    sums.iter().zip(&counts).map(|(sum, &count)| sum / count.max(1) as f64).collect()
}

/// At places of a regular grid, by how much a few voxels differ from those around them.
fn details(volume: &Volume<f32>) -> Vec<f64> {
    let shape = volume.shape();
    let middles = shape.map(|n| {
        let places = n.min(PLACES);
        (0..places).map(|place| (2 * place + 1) * n / (2 * places)).collect::<Vec<_>>()
    });
    let mean = |middle: [usize; 3], width: usize| {
        let around = |axis: usize| {
            let middle = middle[axis];
            middle.saturating_sub(width / 2)..(middle + width.div_ceil(2)).min(shape[axis])
        };
        let (mut sum, mut count) = (0.0, 0usize);
        for k in around(2) {
            for j in around(1) {
                let row = shape[0] * (j + shape[1] * k);
                for value in &volume.data()[row + around(0).start..row + around(0).end] {
                    if value.is_finite() {
                        sum += f64::from(*value);
                        count += 1;
                    }
                }
            }
        }
        sum / count.max(1) as f64
    };
    let mut details = Vec::new();
    for &k in &middles[2] {
        for &j in &middles[1] {
            details.extend(
                middles[0].iter().map(|&i| mean([i, j, k], DETAIL) - mean([i, j, k], SURROUNDINGS)),
            );
        }
    }
    details
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
                && a.looks.are_of_one_scan(&b.looks)
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
        let original = Looks::of(&blobs(1, 1.0, 0.0));
        assert!(original.are_of_one_scan(&Looks::of(&blobs(1, 300.0, 0.05))));
        let other = Looks::of(&blobs(1000, 1.0, 0.0));
        assert!(original.thumbnail.correlation(&other.thumbnail) < 0.5);
        let flat =
            Looks::of(&Volume::new(Geometry::isotropic([4, 4, 4], 1.0).unwrap(), vec![3.0; 64]));
        assert_eq!(flat.thumbnail.correlation(&original.thumbnail), 0.0);
        assert_eq!(flat.details.correlation(&original.details), 0.0);
    }

    /// A head in the middle of nothing: the same outline in all subjects, soft as that of many is, with
    /// folds of their own.
    fn registered_head(subject: usize, noise_level: f32) -> Volume<f32> {
        let shape = [64, 60, 56];
        let geometry = Geometry::isotropic(shape, 1.0).unwrap();
        let value = |n: usize| {
            let at = [n % shape[0], n / shape[0] % shape[1], n / shape[0] / shape[1]];
            let radius = (0..3)
                .map(|a| ((at[a] as f32 + 0.5) / shape[a] as f32 - 0.5).powi(2))
                .sum::<f32>()
                .sqrt();
            let inside = ((0.5 - radius) / 0.3).clamp(0.0, 1.0);
            let fold = noise(subject + at[0] / 4 + 20 * (at[1] / 4) + 400 * (at[2] / 4)) - 0.5;
            inside * (100.0 + 24.0 * fold) + noise_level * (noise(n + 99) - 0.5)
        };
        Volume::new(geometry, (0..shape.iter().product()).map(value).collect())
    }

    #[test]
    fn subjects_registered_to_one_space_are_no_copies() {
        let one = Looks::of(&registered_head(0, 0.0));
        let other = Looks::of(&registered_head(5000, 0.0));
        assert!(one.thumbnail.correlation(&other.thumbnail) > SAME_THUMBNAIL);
        assert!(!one.are_of_one_scan(&other), "{}", one.details.correlation(&other.details));
        assert!(one.are_of_one_scan(&Looks::of(&registered_head(0, 5.0))));
    }
}
