//! Whether an image is a label map in disguise.

use pbt_volume::Volume;
use std::collections::BTreeSet;

/// More values than this are an image's.
const MOST_VALUES: usize = 256;

/// At least this share of the voxels of a label map is background, …
const BACKGROUND: f64 = 0.5;

/// … and of neighbours that are both not background, at least this share is alike. Of the sets in
/// `data/README.md`, label maps have 0.96 to 1, images with their noise at most 0.66.
const ALIKE: f64 = 0.9;

/// The values of a volume that looks like a label map: integers from 0 on, few of them, most voxels 0
/// and the others in patches of one value.
pub(super) fn values_of_label_map(volume: &Volume<f32>) -> Option<BTreeSet<u32>> {
    let data = volume.data();
    let mut values = BTreeSet::new();
    let mut last = f32::NAN;
    let mut background = 0;
    for &value in data {
        background += usize::from(value == 0.0);
        if value == last {
            continue;
        }
        last = value;
        // Above, 32-bit floating-point numbers have gaps between integers.
        if !(0.0..=16_777_216.0).contains(&value) || value.fract() != 0.0 {
            return None;
        }
        values.insert(value as u32);
        if values.len() > MOST_VALUES {
            return None;
        }
    }
    let row = volume.shape()[0];
    let (mut pairs, mut alike) = (0, 0);
    for pair in data.chunks(row).flat_map(|row| row.windows(2)) {
        let inside = pair[0] != 0.0 && pair[1] != 0.0;
        pairs += usize::from(inside);
        alike += usize::from(inside && pair[0] == pair[1]);
    }
    let most = background as f64 >= BACKGROUND * data.len() as f64;
    (most && pairs > 0 && alike as f64 >= ALIKE * pairs as f64).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;

    fn volume(value: impl Fn([usize; 3]) -> f32) -> Option<usize> {
        let geometry = Geometry::isotropic([24, 24, 24], 1.0).unwrap();
        let volume = Volume::from_fn(geometry, |i, j, k| value([i, j, k]));
        values_of_label_map(&volume).map(|values| values.len())
    }

    /// Whether a voxel lies in a cube of the middle.
    fn inside(index: [usize; 3]) -> bool {
        index.iter().all(|i| (5..19).contains(i))
    }

    #[test]
    fn patches_of_few_values_are_a_label_map_and_grey_values_are_an_image() {
        let parts =
            |index: [usize; 3]| if inside(index) { 1.0 + (index[1] / 9) as f32 } else { 0.0 };
        assert_eq!(volume(parts), Some(4));
        assert_eq!(volume(|index| 0.5 * parts(index)), None, "no integers");
        assert_eq!(volume(|index| parts(index) - 1.0), None, "below 0");
        assert_eq!(volume(|index| parts(index) + 1.0), None, "no background");
        // Eight grey values in a dark field, as in an ultrasound image.
        let noise = |[i, j, k]: [usize; 3]| ((i * 2_654_435 + j * 40_503 + k * 977) / 7 % 8) as f32;
        assert_eq!(volume(|index| if inside(index) { 1.0 + noise(index) } else { 0.0 }), None);
    }
}
