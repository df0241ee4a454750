//! Labels of voxels over the slices of a picture, and the names of their colours.

use crate::encode::png_data_uri;
use crate::picture::PictureError;
use crate::plane::Plane;
use pbt_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};

/// Labels to draw over an image.
#[derive(Debug, Clone, Copy)]
pub struct DrawnLabels<'a> {
    /// Labels on the image's grid, 0 for none.
    pub map: &'a Volume<u16>,
    /// Names of values.
    pub names: &'a BTreeMap<u16, String>,
}

impl DrawnLabels<'_> {
    /// The labels of a slice as a PNG, transparent where there are none, and which values it has.
    pub(crate) fn overlay(
        &self,
        plane: &Plane,
        [width, height]: [u32; 2],
    ) -> Result<Option<(String, BTreeSet<u16>)>, PictureError> {
        let values = plane.nearest(self.map);
        let occurring: BTreeSet<u16> = values.iter().copied().filter(|&value| value > 0).collect();
        if occurring.is_empty() {
            return Ok(None);
        }
        let pixel = |value: u16| match value {
            0 => [0; 4],
            _ => {
                let [red, green, blue] = colour(value);
                [red, green, blue, u8::MAX]
            }
        };
        let pixels: Vec<u8> = values.into_iter().flat_map(pixel).collect();
        let uri = png_data_uri([width, height], png::ColorType::Rgba, &pixels)?;
        Ok(Some((uri, occurring)))
    }
}

/// What a value is called.
pub(crate) fn name(names: &BTreeMap<u16, String>, value: u16) -> String {
    names.get(&value).cloned().unwrap_or_else(|| format!("label {value}"))
}

/// The colour of a value: that of `labelColour` in `viewer.js`. Far apart for neighbours, the same for the
/// same value in every case.
pub(crate) fn colour(value: u16) -> [u8; 3] {
    // The golden angle.
    let hue = (f64::from(value) * 137.508 + 160.0) % 360.0;
    // From hue, saturation 0.8 and lightness 0.6 to red, green and blue.
    [0.0, 8.0, 4.0].map(|n| {
        let k = (n + hue / 30.0) % 12.0;
        (255.0 * (0.6 - 0.32 * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0))).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Case, three_slices};
    use crate::plane::planes;
    use pbt_volume::Geometry;

    /// From Python's `colorsys.hls_to_rgb`.
    #[test]
    fn colours_are_those_of_hue_saturation_and_lightness() {
        let expected =
            [(1, [228, 71, 235]), (2, [194, 235, 71]), (5, [71, 235, 92]), (300, [235, 105, 71])];
        assert_eq!(expected.map(|(value, _)| (value, colour(value))), expected);
    }

    /// One voxel at the patient's left, front and top of a grid whose first axis runs to the right.
    #[test]
    fn a_label_is_drawn_where_its_voxel_is_and_named() {
        let step = nalgebra::Matrix3::from_diagonal(&nalgebra::Vector3::new(-1.0, 1.0, 1.0));
        let origin = pbt_volume::PointLps::new(0.0, 0.0, 0.0);
        let geometry = Geometry::new([4, 5, 6], step, origin).unwrap();
        let image = Volume::filled(geometry.clone(), 1.0f32);
        let map = Volume::from_fn(
            geometry.clone(),
            |i, j, k| {
                if (i, j, k) == (0, 0, 5) { 300 } else { 0 }
            },
        );
        let through = geometry.to_lps(pbt_volume::VoxelIndex::new(0.4, 0.4, 4.6));
        let names = BTreeMap::from([(300, "<left> & more of a long name".to_owned())]);
        let drawn = DrawnLabels { map: &map, names: &names };
        // Axial, coronal and sagittal, row by row: the left is at the right, front and top are at the top;
        // of the sagittal plane the front is at the left.
        let at = planes(&geometry, through).map(|plane| {
            let values = plane.nearest(&map);
            (values.iter().position(|&v| v > 0), values.iter().filter(|&&v| v > 0).count())
        });
        assert_eq!(at, [(Some(3), 1), (Some(3), 1), (Some(0), 1)]);
        let mut case = Case {
            image: &image,
            window: (0.0, 1.0),
            labels: Some(drawn),
            through,
            boxes: &[],
            points: &[],
            title: "",
            note: "",
        };
        let svg = three_slices(&case).unwrap();
        assert_eq!(svg.matches("<image ").count(), 6);
        let [red, green, blue] = colour(300);
        assert!(svg.contains(&format!("fill=\"#{red:02x}{green:02x}{blue:02x}\"")), "{svg}");
        assert!(svg.contains(">&lt;left&gt; &amp; more of a l…<"), "{svg}");
        // Elsewhere there is nothing to draw or to name.
        case.through = geometry.to_lps(pbt_volume::VoxelIndex::new(2.0, 2.0, 2.0));
        let svg = three_slices(&case).unwrap();
        assert_eq!((svg.matches("<image ").count(), svg.contains("&lt;left")), (3, false));
    }
}
