//! The table of components: one row each, as CSV.

use crate::Failure;
use pbt_io::write_atomically;
use pbt_volume::{Component, Volume};
use std::path::Path;

/// Boxes are voxel indices from 0, both ends inside; centroids are LPS mm. Numbers have as many
/// digits as it takes to read the same `f64`; cells of what was not asked for, or is not finite, are
/// empty. There is no text, so nothing that a spreadsheet could take for a formula.
const COLUMNS: [&str; 15] = [
    "label",
    "value",
    "voxels",
    "volume_mm3",
    "i_min",
    "i_max",
    "j_min",
    "j_max",
    "k_min",
    "k_max",
    "x_lps_mm",
    "y_lps_mm",
    "z_lps_mm",
    "intensity_sum",
    "intensity_mean",
];

/// What the rows say beside the components' own statistics.
pub(super) struct Columns<'a> {
    pub(super) voxel_mm3: f64,
    /// The labels that components were made from, where each has one.
    pub(super) values: Option<&'a Volume<u32>>,
    pub(super) with_intensity: bool,
}

impl Columns<'_> {
    /// Writes the table.
    ///
    /// # Errors
    /// A file that cannot be written; the older one is then untouched.
    pub(super) fn write(&self, path: &Path, components: &[Component]) -> Result<(), Failure> {
        write_atomically(path, |file| {
            let mut writer = csv::Writer::from_writer(file);
            writer.write_record(COLUMNS)?;
            for (label, component) in (1..).zip(components) {
                writer.write_record(self.row(label, component))?;
            }
            writer.flush()
        })?;
        Ok(())
    }

    fn row(&self, label: usize, component: &Component) -> [String; COLUMNS.len()] {
        let [i, j, k] = component.first_voxel;
        let value = self.values.map_or_else(String::new, |values| values.at(i, j, k).to_string());
        let ends = |a: usize| [component.first[a].to_string(), component.last[a].to_string()];
        let ([i_min, i_max], [j_min, j_max], [k_min, k_max]) = (ends(0), ends(1), ends(2));
        let voxels = component.voxels as f64;
        let centroid = component.centroid_lps.0;
        let intensity = |number: f64| {
            let shown = self.with_intensity && number.is_finite();
            if shown { number.to_string() } else { String::new() }
        };
        [
            label.to_string(),
            value,
            component.voxels.to_string(),
            (voxels * self.voxel_mm3).to_string(),
            i_min,
            i_max,
            j_min,
            j_max,
            k_min,
            k_max,
            centroid.x.to_string(),
            centroid.y.to_string(),
            centroid.z.to_string(),
            intensity(component.intensity_sum),
            intensity(component.intensity_sum / voxels),
        ]
    }
}
