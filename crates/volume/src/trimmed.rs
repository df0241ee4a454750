//! An image without what only surrounds it.

use crate::RealVolume;
use crate::real_volume::{Row, word};
use std::ops::Range;

/// The image without its constant outer planes: what a program that padded, masked or resampled it
/// laid around it says nothing, and must not move what is measured from the image's middle or
/// counted in its percentiles. A constant image stays as it is.
///
/// Planes are taken off until every outer plane has two values. The order does not matter: what is
/// constant in a larger region is constant in a smaller one.
pub fn trimmed(image: &RealVolume) -> RealVolume {
    match region(image) {
        Some(region) => part(image, &region),
        None => image.clone(),
    }
}

/// The channels of one image without what only surrounds the first: it is [`trimmed`], channels on its
/// grid lose the same planes, and those on other grids stay as they are.
pub fn trimmed_channels(channels: &[RealVolume]) -> Vec<RealVolume> {
    let Some(first) = channels.first() else { return Vec::new() };
    let Some(region) = region(first) else { return channels.to_vec() };
    let cut = |channel: &RealVolume| match channel.geometry() == first.geometry() {
        true => part(channel, &region),
        false => channel.clone(),
    };
    channels.iter().map(cut).collect()
}

/// What is left of an image that is trimmed; `None` where that is all of it.
fn region(image: &RealVolume) -> Option<[Range<usize>; 3]> {
    let mut region = image.shape().map(|n| 0..n);
    loop {
        let before = region.clone();
        for a in 0..3 {
            while region[a].len() > 1 && is_constant(image, &plane(&region, a, region[a].start)) {
                region[a].start += 1;
            }
            while region[a].len() > 1 && is_constant(image, &plane(&region, a, region[a].end - 1)) {
                region[a].end -= 1;
            }
        }
        if region == before {
            break;
        }
    }
    let whole = region == image.shape().map(|n| 0..n) || is_constant(image, &region);
    (!whole).then_some(region)
}

fn part(image: &RealVolume, region: &[Range<usize>; 3]) -> RealVolume {
    let first = region.each_ref().map(|range| range.start);
    image.part(first, region.each_ref().map(ExactSizeIterator::len))
}

/// The part of a region at one index of an axis.
fn plane(region: &[Range<usize>; 3], axis: usize, index: usize) -> [Range<usize>; 3] {
    let mut plane = region.clone();
    plane[axis] = index..index + 1;
    plane
}

/// Whether all voxels of a region are one number, or none is a number.
fn is_constant(image: &RealVolume, [i, j, k]: &[Range<usize>; 3]) -> bool {
    let first = image.at(i.start, j.start, k.start);
    let same = |v: f32| v == first || v.is_nan() && first.is_nan();
    let table = image.table().unwrap_or_default();
    let mut rows = k.clone().flat_map(|k| j.clone().map(move |j| (j, k)));
    rows.all(|(j, k)| match image.part_of_row(i.clone(), j, k) {
        Row::Numbers(row) => row.iter().all(|&v| same(v)),
        Row::Bytes(row) => row.iter().all(|&code| same(table[usize::from(code)])),
        Row::Words(row) => row.chunks_exact(2).all(|code| same(table[word(code)])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::real_volume::tests::as_codes;
    use crate::{Geometry, Volume, VoxelIndex};
    use proptest::prelude::*;

    /// With voxels of one value before and after it along each axis.
    fn padded(image: &Volume<f32>, [before, after]: [[usize; 3]; 2], value: f32) -> Volume<f32> {
        let shape = [0, 1, 2].map(|a| before[a] + image.shape()[a] + after[a]);
        let first = before.map(|n| -(n as f64));
        let origin = image.geometry().to_lps(VoxelIndex::new(first[0], first[1], first[2]));
        let geometry = Geometry::new(shape, *image.geometry().matrix(), origin).unwrap();
        Volume::from_fn(geometry, |i, j, k| {
            let index = [i, j, k];
            let inside =
                (0..3).all(|a| (before[a]..before[a] + image.shape()[a]).contains(&index[a]));
            if inside { image.at(i - before[0], j - before[1], k - before[2]) } else { value }
        })
    }

    proptest! {
        #[test]
        fn padding_is_taken_off(
            before in prop::array::uniform3(0usize..4),
            after in prop::array::uniform3(0usize..4),
            value in prop_oneof![Just(0.0f32), Just(-1024.0), Just(f32::NAN)],
        ) {
            let geometry = Geometry::isotropic([4, 5, 6], 1.5).unwrap();
            let image = Volume::from_fn(geometry, |i, j, k| ((i * 7 + j * 5 + k * 3) % 11) as f32);
            let padded = padded(&padded(&image, [before, after], value), [after, before], 7.0);
            for padded in [padded.clone().into(), as_codes(&padded)] {
                let found = trimmed(&padded);
                let numbers = found.numbers();
                prop_assert_eq!(numbers.data(), image.data());
                prop_assert!(found.geometry().origin().distance_mm(&image.geometry().origin()) < 1e-9);
            }
        }
    }

    #[test]
    fn further_channels_lose_what_the_first_one_loses() {
        let geometry = Geometry::isotropic([4, 5, 6], 1.5).unwrap();
        let image =
            Volume::from_fn(geometry.clone(), |i, j, k| ((i * 7 + j * 5 + k * 3) % 11) as f32);
        let first = padded(&image, [[1, 2, 0], [3, 0, 1]], 0.0);
        let second =
            Volume::from_fn(first.geometry().clone(), |i, j, k| (i + 10 * j + 100 * k) as f32);
        let found = trimmed_channels(&[first, second, image.clone()].map(RealVolume::from));
        assert_eq!(found[0].numbers().data(), image.data());
        assert_eq!(found[1].geometry(), found[0].geometry());
        assert_eq!(found[1].at(0, 0, 0), 21.0);
        // On a grid of its own.
        assert_eq!(found[2].geometry(), &geometry);
    }

    #[test]
    fn what_is_constant_throughout_stays() {
        let geometry = Geometry::isotropic([3, 1, 2], 1.0).unwrap();
        for value in [0.0, f32::NAN] {
            assert_eq!(trimmed(&Volume::filled(geometry.clone(), value).into()).shape(), [3, 1, 2]);
        }
    }

    #[test]
    fn nothing_is_taken_off_where_one_value_would_be_left() {
        let mut image = Volume::filled(Geometry::isotropic([9, 9, 9], 1.0).unwrap(), 0.0);
        let at = image.offset(4, 5, 6);
        image.data_mut()[at] = 1.0;
        assert_eq!(trimmed(&image.into()).shape(), [9, 9, 9]);
    }
}
