//! The connected components of each region.

use crate::DetectError;
use pbt_volume::{Components, Connectivity, Joining, PointLps, Volume};

/// A component of a region.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoundComponent {
    /// Number of voxels.
    pub voxels: u64,
    /// Their volume, millilitres.
    pub volume_ml: f64,
    /// The least voxel index along each axis of the image.
    pub first: [usize; 3],
    /// The greatest one.
    pub last: [usize; 3],
    /// Mean of the voxel centres.
    pub centroid: PointLps,
    /// Mean probability of its region over its voxels.
    pub score: f64,
}

/// Components of each region that are described.
const DESCRIBED: usize = 10;

/// For each of these values the number of its components in a label map, with 26 neighbours, and
/// the largest of them, of equals the one that comes first. `posteriors` says how probable the label
/// of each voxel is.
///
/// # Errors
/// [`DetectError::Image`] where the image has 2³¹ voxels or more, or there is no memory.
pub(super) fn components_of(
    labels: &Volume<u16>,
    posteriors: &Volume<f32>,
    values: &[u16],
) -> Result<Vec<(usize, Vec<FoundComponent>)>, DetectError> {
    let joining = Joining { same_label: true, intensity: None };
    let components = Components::new(labels, |value| value != 0, Connectivity::TwentySix, joining)
        .map_err(|e| DetectError::image("components", e.to_string()))?;
    let all = components
        .statistics(Some(posteriors))
        .map_err(|e| DetectError::image("memory", e.to_string()))?;
    let voxel_ml = components.voxel_mm3() / 1000.0;
    let of_value = |&value: &u16| {
        let is_own = |c: &&pbt_volume::Component| {
            let [i, j, k] = c.first_voxel;
            labels.at(i, j, k) == value
        };
        let mut own: Vec<_> = all.iter().filter(is_own).collect();
        own.sort_by_key(|c| std::cmp::Reverse(c.voxels));
        let described = own.iter().take(DESCRIBED).map(|c| FoundComponent {
            voxels: c.voxels,
            volume_ml: c.voxels as f64 * voxel_ml,
            first: c.first,
            last: c.last,
            centroid: c.centroid_lps,
            score: (c.intensity_sum / c.voxels as f64).min(1.0),
        });
        (own.len(), described.collect())
    };
    Ok(values.iter().map(of_value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;

    #[test]
    fn regions_are_apart_and_the_largest_come_first() {
        let geometry = Geometry::isotropic([9, 4, 3], 2.0).unwrap();
        // Two parts of 5, the second larger, and one of 3 that touches both.
        let labels = Volume::from_fn(geometry.clone(), |i, j, _| match (i, j) {
            (0, 0) | (4..=5, 0) => 5,
            (1..=3, 0) => 3,
            _ => 0,
        });
        let posteriors =
            Volume::from_fn(geometry, |i, _, k| if i == 4 { 0.25 * k as f32 } else { 1.0 });
        let found = components_of(&labels, &posteriors, &[5, 3, 9]).unwrap();
        assert_eq!(
            found.iter().map(|(n, all)| (*n, all.len())).collect::<Vec<_>>(),
            [(2, 2), (1, 1), (0, 0)]
        );
        let [first, second] = found[0].1[..] else { panic!() };
        assert_eq!((first.voxels, first.first, first.last), (6, [4, 0, 0], [5, 0, 2]));
        assert_eq!(first.score, (3.0 + 0.75) / 6.0);
        assert_eq!((first.volume_ml, second.voxels, second.score), (0.048, 3, 1.0));
        let middle = labels.geometry().to_lps(pbt_volume::VoxelIndex::new(4.5, 0.0, 1.0));
        assert!((first.centroid.0 - middle.0).norm() < 1e-9);
    }
}
