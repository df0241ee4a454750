//! Label maps held against label maps, region by region.

use crate::overlap::Overlap;
use crate::surface::{Bounds, SurfaceDistances, nsd_tolerance_mm};
use pbt_volume::Geometry;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A region in one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionRecord {
    /// Name of the case.
    pub case: String,
    /// Name of the region.
    pub region: String,
    /// 2·|A ∩ B| / (|A| + |B|); `None` where neither has a voxel.
    pub dice: Option<f64>,
    /// [`SurfaceDistances::hd95_mm`]; `None` where one has no voxel.
    pub hd95_mm: Option<f64>,
    /// [`SurfaceDistances::mean_mm`]; `None` where one has no voxel.
    pub surface_mm: Option<f64>,
    /// [`SurfaceDistances::within_tolerance`]: 0 where only one has voxels, `None` where neither.
    pub nsd: Option<f64>,
    /// [`nsd_tolerance_mm`] of the grid.
    pub nsd_tolerance_mm: f64,
    /// Volume as annotated, millilitres.
    pub truth_ml: f64,
    /// Volume as found, millilitres.
    pub found_ml: f64,
    /// Found − annotated, millilitres.
    pub volume_error_ml: f64,
    /// (found − annotated)/annotated in percent; `None` where it is not annotated.
    pub volume_error_percent: Option<f64>,
}

/// A region in all cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegionSummary {
    /// Name of the region.
    pub region: String,
    /// Cases in which it is annotated or found.
    pub cases: usize,
    /// Cases in which it is both: those that have distances.
    pub cases_with_surfaces: usize,
    /// Mean of Dice's coefficients.
    pub mean_dice: Option<f64>,
    /// The smallest one.
    pub worst_dice: Option<f64>,
    /// The case that has it; of equals the first.
    pub worst_case: Option<String>,
    /// Mean of `hd95_mm`.
    pub mean_hd95_mm: Option<f64>,
    /// Mean of `surface_mm`.
    pub mean_surface_mm: Option<f64>,
    /// Mean of `nsd`.
    pub mean_nsd: Option<f64>,
    /// Mean of `volume_error_percent`.
    pub mean_volume_error_percent: Option<f64>,
}

/// Compares the classes of the voxels of a grid, region by region, in the order of their names; class
/// `n + 1` is the region `n`. Voxels whose true class is `ignored` belong to no region, neither true
/// nor found.
///
/// # Panics
/// When there are not as many classes as voxels.
pub fn compare_regions(
    case: &str,
    names: &[String],
    (truth, found): (&[u8], &[u8]),
    ignored: u8,
    grid: &Geometry,
) -> Vec<RegionRecord> {
    let (shape, spacing_mm) = (grid.shape(), grid.spacing_mm());
    assert!(truth.len() == grid.len() && found.len() == grid.len(), "a class for every voxel");
    let mut overlaps = [Overlap::default(); 256];
    let mut bounds: [Option<Bounds>; 256] = [None; 256];
    for (voxel, (&truth, &found)) in truth.iter().zip(found).enumerate() {
        if truth == ignored {
            continue;
        }
        overlaps[usize::from(truth)].truth += 1;
        overlaps[usize::from(found)].found += 1;
        overlaps[usize::from(found)].both += u64::from(truth == found);
        for class in [truth, found].into_iter().filter(|class| *class > 0) {
            bounds[usize::from(class)]
                .get_or_insert_with(|| Bounds::at(voxel, shape))
                .add(voxel, shape);
        }
    }
    let voxel_ml = grid.matrix().determinant().abs() / 1000.0;
    let tolerance_mm = nsd_tolerance_mm(spacing_mm);
    let record = |(class, region): (u8, &String)| {
        let overlap = overlaps[usize::from(class)];
        let distances = bounds[usize::from(class)].as_ref().and_then(|bounds| {
            let truly = |voxel: usize| truth[voxel] == class;
            let as_found = |voxel: usize| truth[voxel] != ignored && found[voxel] == class;
            SurfaceDistances::within(bounds, shape, spacing_mm, (&truly, &as_found))
        });
        let distances = distances.as_ref();
        let nsd = distances.map(|d| d.within_tolerance(tolerance_mm));
        let [truth_ml, found_ml] = [overlap.truth, overlap.found].map(|n| n as f64 * voxel_ml);
        RegionRecord {
            case: case.to_owned(),
            region: region.clone(),
            dice: overlap.dice(),
            hd95_mm: distances.map(SurfaceDistances::hd95_mm),
            surface_mm: distances.map(SurfaceDistances::mean_mm),
            nsd: nsd.or_else(|| overlap.dice().map(|_| 0.0)),
            nsd_tolerance_mm: tolerance_mm,
            truth_ml,
            found_ml,
            volume_error_ml: found_ml - truth_ml,
            volume_error_percent: overlap.volume_error_percent(),
        }
    };
    (1..).zip(names).map(record).collect()
}

impl RegionRecord {
    /// Puts the worse first: the smaller coefficient, then the larger distance. Where there is
    /// nothing to compare comes last.
    pub fn worse_first(&self, other: &Self) -> Ordering {
        let dice = |record: &Self| record.dice.unwrap_or(f64::INFINITY);
        let distance = |record: &Self| record.hd95_mm.unwrap_or(f64::INFINITY);
        dice(self).total_cmp(&dice(other)).then(distance(other).total_cmp(&distance(self)))
    }
}

impl RegionSummary {
    /// The summary of a region.
    pub fn new(region: &str, records: &[RegionRecord]) -> Self {
        let own: Vec<&RegionRecord> =
            records.iter().filter(|r| r.region == region && r.dice.is_some()).collect();
        let worst = own.iter().copied().reduce(|a, b| if b.dice < a.dice { b } else { a });
        let mean = |value: &dyn Fn(&RegionRecord) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|record| value(record)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            region: region.to_owned(),
            cases: own.len(),
            cases_with_surfaces: own.iter().filter(|r| r.surface_mm.is_some()).count(),
            mean_dice: mean(&|r| r.dice),
            worst_dice: worst.and_then(|r| r.dice),
            worst_case: worst.map(|r| r.case.clone()),
            mean_hd95_mm: mean(&|r| r.hd95_mm),
            mean_surface_mm: mean(&|r| r.surface_mm),
            mean_nsd: mean(&|r| r.nsd),
            mean_volume_error_percent: mean(&|r| r.volume_error_percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::PointLps;

    #[test]
    fn a_row_of_voxels_by_hand() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let truth = [0, 1, 1, 1, 2, 2, 255, 255, 0, 3];
        let found = [0, 1, 1, 0, 1, 2, 1, 2, 2, 0];
        let matrix = nalgebra::Matrix3::from_diagonal(&nalgebra::Vector3::new(5.0, 10.0, 10.0));
        let grid = Geometry::new([10, 1, 1], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        let all = compare_regions("x", &names, (&truth, &found), 255, &grid);
        let dice: Vec<Option<f64>> = all.iter().map(|r| r.dice).collect();
        assert_eq!(dice, [Some(4.0 / 6.0), Some(0.5), Some(0.0), None]);
        assert_eq!((all[0].truth_ml, all[0].found_ml), (1.5, 1.5));
        // 1 2 3 against 1 2 4: both ends are one voxel off; the ignored voxel 6 does not count.
        assert_eq!(all[0].surface_mm, Some(10.0 / 6.0));
        assert_eq!(all[0].nsd, Some(4.0 / 6.0));
        assert_eq!(all[0].nsd_tolerance_mm, 2.0);
        // 4 5 against 5 8.
        assert_eq!(all[1].surface_mm, Some((5.0 + 0.0 + 0.0 + 15.0) / 4.0));
        assert_eq!((all[2].hd95_mm, all[2].nsd), (None, Some(0.0)));
        assert_eq!((all[2].volume_error_ml, all[2].volume_error_percent), (-0.5, Some(-100.0)));
        assert_eq!((all[3].nsd, all[3].volume_error_percent), (None, None));
    }

    fn record(case: &str, dice: Option<f64>, hd95_mm: Option<f64>, found_ml: f64) -> RegionRecord {
        RegionRecord {
            case: case.into(),
            region: "a".into(),
            dice,
            hd95_mm,
            surface_mm: hd95_mm.map(|mm| mm / 2.0),
            nsd: dice,
            nsd_tolerance_mm: 2.0,
            truth_ml: 2.0,
            found_ml,
            volume_error_ml: found_ml - 2.0,
            volume_error_percent: Some(50.0 * (found_ml - 2.0)),
        }
    }

    #[test]
    fn the_summary_names_the_worst_case() {
        let mut all = [
            record("x", Some(0.9), Some(1.0), 2.0),
            record("y", Some(0.5), Some(3.0), 1.0),
            record("z", None, None, 2.0),
            record("w", Some(0.5), None, 3.0),
        ];
        let summary = RegionSummary::new("a", &all);
        assert_eq!((summary.cases, summary.worst_case.as_deref()), (3, Some("y")));
        assert!((summary.mean_dice.unwrap() - 1.9 / 3.0).abs() < 1e-12);
        assert_eq!((summary.cases_with_surfaces, summary.mean_hd95_mm), (2, Some(2.0)));
        assert_eq!(summary.mean_volume_error_percent, Some(0.0));
        assert_eq!(RegionSummary::new("b", &all).mean_dice, None);
        all.sort_by(RegionRecord::worse_first);
        assert_eq!(all.map(|r| r.case), ["w", "y", "x", "z"]);
    }
}
