//! How the boxes of a structure spread: what a person should know before training on them.

use super::boxes::StructureBoxes;
use super::sizes::usual;
use crate::table::{row, table};
use pbt_evaluate::loose_axis;
use pbt_volume::{LengthUnit, Pose, angle_between};
use serde::Serialize;

/// How the boxes of a structure spread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct StructureSpread {
    name: String,
    /// Cases with its box.
    cases: usize,
    /// Median edge lengths along the box's axes, mm.
    median_size_mm: [f64; 3],
    /// Robust standard deviation of the log edge lengths, per cent.
    size_spread_percent: [f64; 3],
    /// Root mean square angle to the middle orientation, degrees.
    angle_spread_deg: f64,
    /// The axis, from 1, along which its ends are loose; null where they are not.
    loose_axis: Option<usize>,
    /// Of images of one slice, in which the third edge says nothing.
    #[serde(skip)]
    flat: bool,
}

impl StructureSpread {
    /// `None` without boxes. `flat` are those of images of one slice.
    pub(super) fn of(structure: &StructureBoxes, flat: bool) -> Option<Self> {
        let usual = usual(&structure.boxes)?;
        let orientations: Vec<_> = structure.boxes.iter().map(|(_, p)| p.orientation).collect();
        let squares =
            |middle: &_| orientations.iter().map(|q| angle_between(middle, q).powi(2)).sum::<f64>();
        let least = orientations.iter().take(100).map(squares).min_by(f64::total_cmp)?;
        let spread = usual.map(|axis| axis.deviation);
        let poses: Vec<Pose> = structure.boxes.iter().map(|(_, pose)| *pose).collect();
        Some(Self {
            name: structure.name.clone(),
            cases: orientations.len(),
            median_size_mm: usual.map(|axis| axis.median.exp()),
            size_spread_percent: spread.map(|s| 100.0 * s),
            angle_spread_deg: (least / orientations.len() as f64).sqrt().to_degrees(),
            loose_axis: loose_axis(&poses).map(|axis| axis + 1),
            flat,
        })
    }
}

/// A row a structure; lengths count `unit`.
pub(super) fn text(spreads: &[StructureSpread], unit: LengthUnit) -> String {
    if spreads.is_empty() {
        return String::new();
    }
    let size = format!("median size, {unit}");
    let header = row(["structure", "cases", &size, "spread, %", "angle, deg", "loose end"]);
    let edges = |of: &StructureSpread, values: &[f64; 3], digits: usize, between: &str| {
        let shown = &values[..if of.flat { 2 } else { 3 }];
        shown.iter().map(|v| format!("{v:.digits$}")).collect::<Vec<_>>().join(between)
    };
    let rows = spreads.iter().map(|s| {
        row([
            s.name.clone(),
            s.cases.to_string(),
            edges(s, &s.median_size_mm, 1, " x "),
            edges(s, &s.size_spread_percent, 0, " / "),
            format!("{:.0}", s.angle_spread_deg),
            s.loose_axis.map_or_else(|| "-".to_owned(), |axis| format!("e{axis}")),
        ])
    });
    table(1, &std::iter::once(header).chain(rows).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{upright, wobble};
    use nalgebra::Vector3;
    use pbt_volume::rotation_from_vector;

    fn boxes(vary: [f64; 3], turn_rad: f64) -> StructureBoxes {
        let pose = |n: usize| {
            let size =
                [0, 1, 2].map(|a| [20.0, 15.0, 80.0][a] * (vary[a] * wobble(3 * n + a)).exp());
            let turn =
                Vector3::new(turn_rad * if n.is_multiple_of(2) { 1.0 } else { -1.0 }, 0.0, 0.0);
            (n, Pose { orientation: rotation_from_vector(turn), ..upright([0.0; 3], size) })
        };
        // An upright one is the middle.
        let middle = (40, upright([0.0; 3], [20.0, 15.0, 80.0]));
        let boxes = std::iter::once(middle).chain((0..40).map(pose)).collect();
        StructureBoxes { name: "cord".into(), boxes }
    }

    #[test]
    fn a_loose_end_is_told() {
        let spread = StructureSpread::of(&boxes([0.1, 0.1, 0.9], 0.1), false).unwrap();
        assert_eq!((spread.cases, spread.loose_axis), (41, Some(3)));
        assert!((spread.angle_spread_deg - 0.1f64.to_degrees()).abs() < 0.1, "{spread:?}");
        assert!(spread.size_spread_percent[2] > 40.0 && spread.size_spread_percent[0] < 12.0);
        assert_eq!(
            StructureSpread::of(&boxes([0.2, 0.2, 0.1], 0.1), false).unwrap().loose_axis,
            None
        );
        assert!(text(&[spread], LengthUnit::Mm).contains("e3"));
        assert!(text(&[], LengthUnit::Mm).is_empty());
    }
}
