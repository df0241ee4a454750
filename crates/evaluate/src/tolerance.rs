//! How near a position must be to be right.

use pbt_volume::{Instances, Location, StructureKind, StructureSpec};
use std::collections::BTreeSet;

/// Training calls poses from 0.08 of the box's mean size on wrong (`VerificationStage`), so a score
/// speaks of about this distance; and errors of two voxels can hardly be told from those of
/// annotations.
const SHARE_OF_BOX: f64 = 0.1;
const VOXELS: f64 = 2.0;

/// Up to which distance a position is right, mm: a tenth of the mean size (the geometric mean of
/// the edges, mm) of the box, and two voxels of the image at least (their edge is the cube root of
/// the volume).
pub fn tolerance_mm(size_mm: [f64; 3], spacing_mm: [f64; 3]) -> f64 {
    let mean = |edges: [f64; 3]| edges.iter().product::<f64>().cbrt();
    (SHARE_OF_BOX * mean(size_mm)).max(VOXELS * mean(spacing_mm))
}

/// What counts as right.
#[derive(Debug, Clone)]
pub struct Tolerance {
    /// What the user wants for all structures, mm.
    fixed_mm: Option<f64>,
    /// The box of landmarks that name no parent: the first that occurs once.
    first_box: Option<String>,
    /// Boxes that are judged across their longest edge only.
    loose: BTreeSet<String>,
}

impl Tolerance {
    /// The user's for all structures, mm, or the rule. `structures` are all of the data set.
    pub fn new(fixed_mm: Option<f64>, structures: &[StructureSpec]) -> Self {
        let may_be =
            |s: &&StructureSpec| s.kind == StructureKind::Box && s.instances == Instances::One;
        let first_box = structures.iter().find(may_be).map(|s| s.name.clone());
        Self { fixed_mm, first_box, loose: BTreeSet::new() }
    }

    /// The same, where boxes of these names have loose ends ([`has_loose_end`](crate::has_loose_end))
    /// and are judged across their longest edge only.
    pub fn with_loose_ends(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { loose: names.into_iter().collect(), ..self }
    }

    /// Whether a box is judged across its longest edge only.
    pub(crate) fn is_loose(&self, structure: &StructureSpec) -> bool {
        structure.kind == StructureKind::Box && self.loose.contains(&structure.name)
    }

    /// Up to which distance a structure of a case is right, mm: a tenth of the mean size (the
    /// geometric mean of the edges) of its own box or of the box in whose frame it is found, as
    /// annotated in this case, and two voxels of the image at least (their edge is the cube root of
    /// the volume). `None` where neither is known.
    pub fn of(
        &self,
        structure: &StructureSpec,
        annotated: &[(String, Location)],
        spacing_mm: Option<[f64; 3]>,
    ) -> Option<f64> {
        if self.fixed_mm.is_some() {
            return self.fixed_mm;
        }
        let frame = match structure.kind {
            StructureKind::Box => Some(&structure.name),
            StructureKind::Landmark => structure.parent.as_ref().or(self.first_box.as_ref()),
            StructureKind::Region => None,
        };
        let pose_of = |name: &String| {
            annotated.iter().filter(|(n, _)| n == name).find_map(|(_, at)| at.pose())
        };
        let pose = frame.and_then(pose_of);
        let of_box = pose.map(|pose| SHARE_OF_BOX * pose.size_mm.iter().product::<f64>().cbrt());
        let of_voxels = spacing_mm.map(|mm| VOXELS * mm.iter().product::<f64>().cbrt());
        of_box.into_iter().chain(of_voxels).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{PointLps, Pose, rotation_from_vector};

    #[test]
    fn a_landmark_has_the_tolerance_of_its_box() {
        let spec = |name: &str, kind, parent: Option<&str>| StructureSpec {
            name: name.into(),
            kind,
            parent: parent.map(str::to_owned),
            partner: None,
            instances: Instances::One,
        };
        let structures = [
            spec("skull", StructureKind::Box, None),
            spec("jaw", StructureKind::Box, None),
            spec("nose", StructureKind::Landmark, None),
            spec("chin", StructureKind::Landmark, Some("jaw")),
        ];
        let pose = |size_mm| Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: rotation_from_vector([0.0; 3].into()),
            size_mm,
        };
        let annotated = [
            ("skull".to_owned(), Location::Box(Some(pose([160.0, 80.0, 640.0])))),
            ("jaw".to_owned(), Location::Box(Some(pose([40.0; 3])))),
        ];
        let of = |n: usize, spacing_mm: Option<[f64; 3]>, fixed_mm: Option<f64>| {
            Tolerance::new(fixed_mm, &structures).of(&structures[n], &annotated, spacing_mm)
        };
        let near = |found: Option<f64>, mm: f64| assert!((found.unwrap() - mm).abs() < 1e-9);
        near(of(0, None, None), 8_192f64.cbrt());
        near(of(2, None, None), 8_192f64.cbrt());
        near(of(3, None, None), 4.0);
        // Two voxels at the least.
        near(of(3, Some([2.0, 2.0, 16.0]), None), 8.0);
        near(of(3, Some([9.0; 3]), Some(1.5)), 1.5);
        assert_eq!(Tolerance::new(None, &[]).of(&structures[2], &annotated, None), None);
    }
}
