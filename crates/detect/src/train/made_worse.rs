//! Whether a stage leaves cases that it has not seen farther off than it found them.

use crate::detect::detection::Detection;
use crate::pose::shrinkage::upper_median;
use pbt_evaluate::BoxError;
use pbt_volume::{LengthUnit, Pose};

/// A stage that makes things worse by less than this is not worth a warning: medians of a few dozen
/// cases vary by more.
const CLEARLY: f64 = 1.1;

/// Fewest held-out cases that tell, as of radii.
const FEWEST: usize = 9;

/// Errors of the chosen pose of one structure in held-out cases, on its way through the last
/// stages: the error of its farthest corner, mm.
#[derive(Default)]
pub(super) struct LastStages {
    /// As the orientation stage found it.
    mode_mm: Vec<f64>,
    /// Where the refinement brought it.
    refined_mm: Vec<f64>,
    /// As it was answered, after shrinkage and what neighbours say.
    answered_mm: Vec<f64>,
}

impl LastStages {
    /// Adds a held-out case.
    pub(super) fn add(&mut self, detection: &Detection, truth: &Pose) {
        let corner_mm = |pose: &Pose| BoxError::new(pose, truth).corner_mm;
        let trace = &detection.trace;
        self.mode_mm.push(corner_mm(&trace.modes[trace.chosen]));
        self.refined_mm.push(corner_mm(&trace.converged[trace.chosen]));
        self.answered_mm.push(corner_mm(&detection.pose));
    }

    /// A warning for each stage that does harm, where there are enough cases to tell; `alone` where
    /// there are no neighbours.
    pub(super) fn warnings(&self, structure: &str, alone: bool, unit: LengthUnit) -> Vec<String> {
        if self.mode_mm.len() < FEWEST {
            return Vec::new();
        }
        let median = |errors: &[f64]| upper_median(errors.iter().copied());
        let [mode, refined, answered] =
            [&self.mode_mm, &self.refined_mm, &self.answered_mm].map(|errors| median(errors));
        let last = if alone { "shrinkage" } else { "shrinkage and what its neighbours say" };
        // What the last stage mends was no harm: a ring that refinement turns is turned back.
        let stages = [("refinement", mode, refined.min(answered)), (last, refined, answered)];
        let warning = |(stage, before, after): (&str, f64, f64)| {
            (after > CLEARLY * before).then(|| {
                format!(
                    "{structure}: {stage} made {} unseen cases worse: corners are {after:.2} {unit} off, and were \
                     {before:.2} {unit} before (median; annotate more cases, or check the annotations)",
                    self.mode_mm.len()
                )
            })
        };
        stages.into_iter().filter_map(warning).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clear_harm_is_told() {
        let stages = |mode_mm: f64, refined_mm: f64, answered_mm: f64| {
            let thrice = |mm: f64| [mm / 2.0, mm, 9.0 * mm].repeat(3);
            LastStages {
                mode_mm: thrice(mode_mm),
                refined_mm: thrice(refined_mm),
                answered_mm: thrice(answered_mm),
            }
            .warnings("L3", false, LengthUnit::Mm)
        };
        let few = LastStages {
            mode_mm: vec![1.0; 8],
            refined_mm: vec![9.0; 8],
            answered_mm: vec![9.0; 8],
        };
        assert!(few.warnings("L3", true, LengthUnit::Mm).is_empty());
        assert!(stages(4.0, 2.0, 2.0).is_empty() && stages(2.0, 2.1, 2.2).is_empty());
        assert!(stages(4.0, 6.0, 4.1).is_empty());
        let [refinement] = &stages(4.0, 6.0, 5.0)[..] else { panic!("one stage does harm") };
        assert!(
            refinement
                .starts_with("L3: refinement made 9 unseen cases worse: corners are 5.00 mm off"),
            "{refinement}"
        );
        let [answer] = &stages(4.0, 1.7, 6.1)[..] else { panic!("one stage does harm") };
        assert!(answer.starts_with("L3: shrinkage"), "{answer}");
    }
}
