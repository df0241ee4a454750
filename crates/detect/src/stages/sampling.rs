//! How a posed box is sampled: the grid, the pyramid levels, and patches brought to one scale.

use crate::pose::prior::Prior;
use crate::working::spec::{WorkingSpec, level_for};
use nalgebra::Vector3;
use pbt_features::BoxGrid;
use pbt_tree::Patch;
use pbt_volume::{Geometry, Pose};

/// Points along each axis in proportion to the edge lengths, about `across` along D; the grid
/// reaches `border_mm` beyond the box. In a plane all points lie in it.
pub(crate) fn grid_for(prior: &Prior, across: f64, border_mm: f64) -> BoxGrid {
    let longer = prior.mean_size_mm.map(|s| (s + 2.0 * border_mm).max(THINNEST * s));
    let scale = libm::cbrt(longer.iter().product());
    let across = if prior.flat { in_plane(across) } else { across };
    // The power below 1 keeps thin directions sampled.
    let mut points =
        longer.map(|s| libm::round(across * libm::pow(s / scale, 0.7)).clamp(3.0, 32.0) as u8);
    if prior.flat {
        points[2] = 1;
    }
    BoxGrid { points, extent: std::array::from_fn(|a| longer[a] / prior.mean_size_mm[a]) }
}

/// A border inwards leaves this share of an edge: all of a plate may be thinner than the border.
const THINNEST: f64 = 0.02;

/// Points along an axis in a plane where there would be `across` in space.
pub(crate) fn in_plane(across: f64) -> f64 {
    libm::pow(across, IN_PLANE_POWER).min(32.0)
}

/// At 1.5 there would be as many points in a plane as in space. From 1.25 to 1.5 held-out parts of the
/// training images of fly wings differ by less than 3 %.
const IN_PLANE_POWER: f64 = 1.4;

/// Distinct pyramid levels on which the structure has about so many voxels across, all channels of
/// each.
pub(crate) fn levels_for(prior: &Prior, working: &WorkingSpec, voxels_across: &[f64]) -> Vec<u8> {
    let level = |&across: &f64| {
        level_for(prior.scale_mm, working.spacing_mm, across).min(working.levels - 1) as u8
    };
    let mut levels: Vec<u8> = voxels_across.iter().map(level).collect();
    levels.sort_unstable_by(|a, b| b.cmp(a));
    levels.dedup();
    working.volumes_of(&levels)
}

/// Mean of normalised edge strengths.
const MEAN_EDGE: i16 = 1280;

/// Brings the values of a pose to one scale, for images without an absolute one: intensities of a
/// level to mean 0 and standard deviation 512, edge strengths to mean 1280. Values end within
/// ±4095.
pub(crate) fn normalise(patch: &Patch, values: &mut [i16]) {
    for (n, block) in values.chunks_mut(patch.grid.len()).enumerate() {
        match is_of_edges(patch, n) {
            true => normalise_edges(block),
            false => normalise_intensities(block),
        }
    }
}

/// Whether a block of values is of edge strengths.
fn is_of_edges(patch: &Patch, block: usize) -> bool {
    patch.edges && block % 2 == 1
}

/// Points of a grid that lie outside what is in view, in the order of their values.
pub(crate) fn hidden(grid: &BoxGrid, pose: &Pose, view: &Geometry) -> Vec<bool> {
    let is_hidden = |point| {
        let share = grid.place(point);
        view.is_outside(pose.to_lps(Vector3::from_fn(|a, _| share[a] * pose.size_mm[a])))
    };
    grid.iter().map(is_hidden).collect()
}

/// Makes each hidden point the mean of those in view, of its level and kind: what lies outside an image
/// is not what its border shows. Values of images without an absolute scale (`relative`) are
/// [normalised](normalise) by the points in view alone.
pub(crate) fn hide(patch: &Patch, values: &mut [i16], hidden: &[bool], relative: bool) {
    if !hidden.contains(&true) {
        if relative {
            normalise(patch, values);
        }
        return;
    }
    for (n, block) in values.chunks_mut(patch.grid.len()).enumerate() {
        let in_view = block.iter().zip(hidden).filter(|(_, hidden)| !**hidden);
        let mut shown: Vec<i16> = in_view.map(|(value, _)| *value).collect();
        let mean = match (relative, is_of_edges(patch, n)) {
            (true, true) => {
                normalise_edges(&mut shown);
                MEAN_EDGE
            }
            (true, false) => {
                normalise_intensities(&mut shown);
                0
            }
            // Nothing is known of what could be there.
            (false, _) if shown.is_empty() => continue,
            (false, _) => {
                let sum: i64 = shown.iter().map(|&v| i64::from(v)).sum();
                sum.div_euclid(shown.len() as i64) as i16
            }
        };
        let mut shown = shown.into_iter();
        for (value, hidden) in block.iter_mut().zip(hidden) {
            *value = if *hidden { mean } else { shown.next().unwrap_or(mean) };
        }
    }
}

/// A flat block becomes 0.
fn normalise_intensities(block: &mut [i16]) {
    let n = block.len() as i64;
    let sum: i64 = block.iter().map(|&v| i64::from(v)).sum();
    let squares: i64 = block.iter().map(|&v| i64::from(v) * i64::from(v)).sum();
    // n²·variance, so that the mean needs no rounding.
    let deviation = (n * squares - sum * sum).max(0).isqrt();
    for value in block {
        let centred = n * i64::from(*value) - sum;
        *value = if deviation == 0 {
            0
        } else {
            (centred * 512).div_euclid(deviation).clamp(-4095, 4095) as i16
        };
    }
}

/// A block without edges stays 0.
fn normalise_edges(block: &mut [i16]) {
    let n = block.len() as i64;
    let sum: i64 = block.iter().map(|&v| i64::from(v)).sum();
    for value in block {
        *value = if sum == 0 {
            0
        } else {
            (i64::from(*value) * n * i64::from(MEAN_EDGE) / sum).min(4095) as i16
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_are_normalised_to_mean_0_and_deviation_512() {
        let mut patch: Vec<i16> = (0..1000).map(|n| (n * 37 % 4096) as i16).collect();
        normalise_intensities(&mut patch);
        let mean = patch.iter().map(|&v| f64::from(v)).sum::<f64>() / 1000.0;
        let variance = patch.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!(mean.abs() < 1.0 && (variance.sqrt() - 512.0).abs() < 2.0);
        let mut flat = [77i16; 8];
        normalise_intensities(&mut flat);
        assert_eq!(flat, [0; 8]);
    }

    #[test]
    fn what_is_out_of_view_counts_as_the_mean_of_the_rest() {
        let grid = BoxGrid { points: [4, 4, 8], extent: [2.0; 3] };
        let patch = Patch { grid, levels: vec![0], edges: true };
        let values: Vec<i16> = (0..patch.len()).map(|n| (n * 37 % 1000) as i16).collect();
        let view = Geometry::isotropic([40, 40, 20], 1.0).unwrap();
        let pose = Pose {
            center: view.center(),
            orientation: nalgebra::UnitQuaternion::identity(),
            size_mm: [16.0; 3],
        };
        let out = hidden(&grid, &pose, &view);
        // Eight layers of points, 4.6 mm apart; 6.5 mm beyond the first and the last slice at the ends.
        let is_out = |n: usize| !(2..6).contains(&(n / 16));
        assert!(out.iter().enumerate().all(|(n, &out)| out == is_out(n)), "{out:?}");
        let hide = |relative: bool, change: i16| {
            let mut seen = values.clone();
            seen.iter_mut()
                .enumerate()
                .filter(|(n, _)| is_out(n % 128))
                .for_each(|(_, v)| *v += change);
            hide(&patch, &mut seen, &out, relative);
            seen
        };
        for (relative, means) in [
            (true, [0, 1280]),
            (
                false,
                [0, 128].map(|first| {
                    let shown =
                        (0..128).filter(|&n| !is_out(n)).map(|n| i64::from(values[first + n]));
                    (shown.sum::<i64>() / 64) as i16
                }),
            ),
        ] {
            let seen = hide(relative, 0);
            assert_eq!(seen, hide(relative, 900), "what is hidden tells");
            for (block, mean) in seen.chunks_exact(128).zip(means) {
                assert!((0..128).filter(|&n| is_out(n)).all(|n| block[n] == mean));
                let shown: i64 =
                    (0..128).filter(|&n| !is_out(n)).map(|n| i64::from(block[n])).sum();
                assert!((shown / 64 - i64::from(mean)).abs() <= 1, "{shown} {mean}");
            }
        }
        // All in view: as ever.
        let (mut some, mut all) = (values.clone(), values.clone());
        super::hide(&patch, &mut some, &[false; 128], true);
        normalise(&patch, &mut all);
        assert_eq!(some, all);
    }
}
