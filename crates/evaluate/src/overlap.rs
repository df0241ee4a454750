//! How well regions of voxels agree: Dice's coefficient.

use serde::Serialize;

/// A region in one case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionOverlap {
    /// Name of the case.
    pub case: String,
    /// Name of the region.
    pub region: String,
    /// 2·|A ∩ B| / (|A| + |B|); `None` where neither has a voxel.
    pub dice: Option<f64>,
    /// Volume as annotated, millilitres.
    pub truth_ml: f64,
    /// Volume as found, millilitres.
    pub found_ml: f64,
}

/// A region in all cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RegionSummary {
    /// Name of the region.
    pub region: String,
    /// Cases in which it is annotated or found.
    pub cases: usize,
    /// Mean of Dice's coefficients.
    pub mean_dice: Option<f64>,
    /// The smallest one.
    pub worst_dice: Option<f64>,
    /// The case that has it; of equals the first.
    pub worst_case: Option<String>,
    /// Mean of (found − annotated)/annotated where it is annotated.
    pub mean_volume_error: Option<f64>,
}

/// Compares the classes of voxels, region by region; class `n + 1` is the region `n`. Voxels whose
/// true class is `ignored` do not count. `voxel_ml` is the volume of a voxel.
pub fn overlaps(
    case: &str,
    regions: &[String],
    (truth, found): (&[u8], &[u8]),
    ignored: u8,
    voxel_ml: f64,
) -> Vec<RegionOverlap> {
    let mut counts = vec![[0u64; 3]; usize::from(u8::MAX) + 1];
    for (&truth, &found) in truth.iter().zip(found).filter(|(truth, _)| **truth != ignored) {
        counts[usize::from(truth)][0] += 1;
        counts[usize::from(found)][1] += 1;
        counts[usize::from(found)][2] += u64::from(truth == found);
    }
    let of = |(n, region): (usize, &String)| {
        let [truth, found, both] = counts[n + 1];
        let dice = 2.0 * both as f64 / (truth + found).max(1) as f64;
        RegionOverlap {
            case: case.to_owned(),
            region: region.clone(),
            dice: (truth + found > 0).then_some(dice),
            truth_ml: truth as f64 * voxel_ml,
            found_ml: found as f64 * voxel_ml,
        }
    };
    regions.iter().enumerate().map(of).collect()
}

impl RegionSummary {
    /// The summary of a region.
    pub fn new(region: &str, overlaps: &[RegionOverlap]) -> Self {
        let own = || overlaps.iter().filter(|o| o.region == region);
        let dice: Vec<(&str, f64)> =
            own().filter_map(|o| Some((o.case.as_str(), o.dice?))).collect();
        let worst = dice.iter().copied().reduce(|a, b| if b.1 < a.1 { b } else { a });
        let errors: Vec<f64> = own()
            .filter(|o| o.truth_ml > 0.0)
            .map(|o| (o.found_ml - o.truth_ml) / o.truth_ml)
            .collect();
        let mean = |values: &[f64]| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            region: region.to_owned(),
            cases: dice.len(),
            mean_dice: mean(&dice.iter().map(|(_, dice)| *dice).collect::<Vec<_>>()),
            worst_dice: worst.map(|(_, dice)| dice),
            worst_case: worst.map(|(case, _)| case.to_owned()),
            mean_volume_error: mean(&errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_by_hand() {
        let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let truth = [0, 1, 1, 1, 2, 2, 255, 255, 0, 0];
        let found = [0, 1, 1, 0, 1, 2, 1, 2, 2, 0];
        let all = overlaps("x", &names, (&truth, &found), 255, 0.5);
        let dice: Vec<Option<f64>> = all.iter().map(|o| o.dice).collect();
        assert_eq!(dice, [Some(4.0 / 6.0), Some(0.5), None]);
        assert_eq!((all[0].truth_ml, all[0].found_ml), (1.5, 1.5));
    }

    #[test]
    fn the_summary_names_the_worst_case() {
        let overlap = |case: &str, dice, found_ml| RegionOverlap {
            case: case.into(),
            region: "a".into(),
            dice,
            truth_ml: 2.0,
            found_ml,
        };
        let all = [
            overlap("x", Some(0.9), 2.0),
            overlap("y", Some(0.5), 1.0),
            overlap("z", None, 2.0),
            overlap("w", Some(0.5), 3.0),
        ];
        let summary = RegionSummary::new("a", &all);
        assert_eq!((summary.cases, summary.worst_case.as_deref()), (3, Some("y")));
        assert!((summary.mean_dice.unwrap() - 1.9 / 3.0).abs() < 1e-12);
        assert_eq!(summary.mean_volume_error, Some(0.0));
        assert_eq!(RegionSummary::new("b", &all).mean_dice, None);
    }
}
