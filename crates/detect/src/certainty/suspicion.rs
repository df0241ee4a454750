//! Annotations that a sure detection contradicts: often they are wrong.

use crate::model::StructureModel;
use pbt_evaluate::{BoxError, tolerance_mm};
use pbt_volume::{LengthUnit, Pose};
use std::fmt;

/// A detection this many tolerances from its annotation, and sure, asks for a look at the
/// annotation.
const FAR: f64 = 2.0;

/// A sure detection that is far from its annotation.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspicion {
    /// Name of the case.
    pub case: String,
    /// Name of the structure.
    pub structure: String,
    /// Where it was found, LPS mm.
    pub found: Pose,
    /// How far from its annotation, mm: [`StructureModel::far_mm`].
    pub off_mm: f64,
    /// What lengths count.
    pub unit: LengthUnit,
    /// The score of the detection, 0 to 1.
    pub score: f64,
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, structure, off_mm, unit, score, .. } = self;
        write!(
            f,
            "{case}: {structure}: found {off_mm:.1} {unit} from its annotation with a score of \
             {score:.2} (look at the annotation)"
        )
    }
}

impl StructureModel {
    /// How far a detection is from its annotation, mm, where that is more than two tolerances in an
    /// image of this spacing, mm: the distance of the centres, or the part of it across the longest
    /// edge of a box with loose ends.
    ///
    /// The tolerance is that of the mean box of the training, since the annotated one may be wrong.
    pub fn far_mm(
        &self,
        found: &Pose,
        annotated: &Pose,
        spacing_mm: [f64; 3],
        loose_ends: bool,
    ) -> Option<f64> {
        let tolerance_mm = tolerance_mm(self.prior.mean_size_mm, spacing_mm);
        beyond(&BoxError::new(found, annotated), tolerance_mm, loose_ends)
    }
}

fn beyond(error: &BoxError, tolerance_mm: f64, loose_ends: bool) -> Option<f64> {
    let off_mm = error.off_mm(loose_ends);
    (off_mm > FAR * tolerance_mm).then_some(off_mm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{PointLps, rotation_from_vector};

    #[test]
    fn loose_ends_are_judged_across_their_axis() {
        let pose = |x: f64, z: f64| Pose {
            center: PointLps::new(x, 0.0, z),
            orientation: rotation_from_vector([0.0; 3].into()),
            size_mm: [10.0, 10.0, 80.0],
        };
        let far = |x, z, loose_ends| {
            beyond(&BoxError::new(&pose(x, z), &pose(0.0, 0.0)), 3.0, loose_ends)
        };
        assert_eq!([far(0.0, 8.0, false), far(0.0, 8.0, true)], [Some(8.0), None]);
        assert_eq!([far(8.0, 30.0, true), far(5.0, 0.0, false)], [Some(8.0), None]);
    }

    #[test]
    fn a_suspicion_says_where_to_look() {
        let found = Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: rotation_from_vector([0.0; 3].into()),
            size_mm: [1.0; 3],
        };
        let (case, structure) = ("c7".to_owned(), "gland".to_owned());
        let unit = LengthUnit::Pixels;
        assert_eq!(
            Suspicion { case, structure, found, off_mm: 23.06, unit, score: 0.914 }.to_string(),
            "c7: gland: found 23.1 pixels from its annotation with a score of 0.91 (look at the annotation)"
        );
    }
}
