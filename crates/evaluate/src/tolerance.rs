//! How near a position must be to be right.

use crate::instances::instance_tolerance_mm;
use pbt_volume::{
    Instances, LANDMARKS_BOX, Location, StructureKind, StructureSpec, box_of_landmarks,
};
use std::collections::BTreeSet;

/// Training calls poses from 0.08 of the box's mean size on wrong (`VerificationStage`), so a score
/// speaks of about this distance; and errors of two voxels can hardly be told from those of
/// annotations.
const SHARE_OF_BOX: f64 = 0.1;
const VOXELS: f64 = 2.0;

/// A box that follows from several landmarks spans them all, and is no structure. The box about a single
/// landmark has an edge of a quarter of the image's, so that a tenth of it is a fortieth of the image:
/// where landmarks span what the image shows, they have the same tolerance.
const SHARE_OF_LANDMARKS: f64 = 0.025;

/// Up to which distance a position is right, mm: a tenth of the mean size (the geometric mean of
/// the edges, mm) of the box, and two voxels of the image at least (their edge is the cube root of
/// the volume).
pub fn tolerance_mm(size_mm: [f64; 3], spacing_mm: [f64; 3]) -> f64 {
    (SHARE_OF_BOX * mean_edge(size_mm)).max(VOXELS * mean_edge(spacing_mm))
}

/// The same of a landmark in the frame of the box `parent`: as of the box, but a fortieth of the mean size of
/// one that follows from several landmarks ([`LANDMARKS_BOX`]).
pub fn landmark_tolerance_mm(parent: &str, size_mm: [f64; 3], spacing_mm: [f64; 3]) -> f64 {
    (share_of(parent) * mean_edge(size_mm)).max(VOXELS * mean_edge(spacing_mm))
}

fn share_of(parent: &str) -> f64 {
    if parent == LANDMARKS_BOX { SHARE_OF_LANDMARKS } else { SHARE_OF_BOX }
}

fn mean_edge(edges_mm: [f64; 3]) -> f64 {
    edges_mm.iter().product::<f64>().cbrt()
}

/// What counts as right.
#[derive(Debug, Clone)]
pub struct Tolerance {
    /// What the user wants for all structures, mm.
    fixed_mm: Option<f64>,
    /// The box of landmarks that name no parent: the first that occurs once, or where there is none the one
    /// that follows from the landmarks.
    first_box: String,
    /// Boxes that are judged across their longest edge only.
    loose: BTreeSet<String>,
}

impl Tolerance {
    /// The user's for all structures, mm, or the rule. `structures` are all of the data set.
    pub fn new(fixed_mm: Option<f64>, structures: &[StructureSpec]) -> Self {
        let may_be =
            |s: &&StructureSpec| s.kind == StructureKind::Box && s.instances == Instances::One;
        let first = structures.iter().find(may_be).map(|s| s.name.as_str());
        let first_box = first.unwrap_or_else(|| box_of_landmarks(structures)).to_owned();
        Self { fixed_mm, first_box, loose: BTreeSet::new() }
    }

    /// The same, where boxes of these names have loose ends ([`loose_axis`](crate::loose_axis))
    /// and are judged across their longest edge only.
    pub fn with_loose_ends(self, names: impl IntoIterator<Item = String>) -> Self {
        Self { loose: names.into_iter().collect(), ..self }
    }

    /// Whether a box is judged across its longest edge only.
    pub(crate) fn is_loose(&self, structure: &StructureSpec) -> bool {
        structure.kind == StructureKind::Box && self.loose.contains(&structure.name)
    }

    /// Up to which distance a detection is an instance of this size, mm.
    pub(crate) fn of_instance(&self, size_mm: [f64; 3]) -> f64 {
        self.fixed_mm.unwrap_or_else(|| instance_tolerance_mm(size_mm))
    }

    /// Up to which distance a structure of a case is right, mm: a tenth of the mean size (the
    /// geometric mean of the edges) of its own box or of the box in whose frame it is found, as
    /// annotated in this case (a fortieth of one that follows from several landmarks), and two voxels of the
    /// image at least (their edge is the cube root of the volume). `None` where neither is known.
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
            StructureKind::Landmark => Some(structure.parent.as_ref().unwrap_or(&self.first_box)),
            StructureKind::Region => None,
        };
        let pose_of = |name: &String| {
            annotated.iter().filter(|(n, _)| n == name).find_map(|(_, at)| at.pose())
        };
        let of_box =
            frame.and_then(|name| Some(share_of(name) * mean_edge(pose_of(name)?.size_mm)));
        let of_voxels = spacing_mm.map(|mm| VOXELS * mean_edge(mm));
        of_box.into_iter().chain(of_voxels).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::{LANDMARK_BOX, PointLps, Pose, rotation_from_vector};

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
        // Without boxes, of the box that follows from the landmarks.
        let points = [spec("nose", StructureKind::Landmark, None), structures[3].clone()];
        let found = Tolerance::new(None, &points).of(
            &points[0],
            &[(LANDMARKS_BOX.to_owned(), Location::Box(Some(pose([160.0, 80.0, 640.0]))))],
            Some([1.0; 3]),
        );
        near(found, landmark_tolerance_mm(LANDMARKS_BOX, [160.0, 80.0, 640.0], [1.0; 3]));
        near(found, 0.25 * 8_192f64.cbrt());
        let one = Tolerance::new(None, &points[..1]).of(
            &points[0],
            &[(LANDMARK_BOX.to_owned(), Location::Box(Some(pose([40.0; 3]))))],
            Some([1.0; 3]),
        );
        near(one, 4.0);
        // Two voxels at the least.
        near(of(3, Some([2.0, 2.0, 16.0]), None), 8.0);
        near(of(3, Some([9.0; 3]), Some(1.5)), 1.5);
        assert_eq!(Tolerance::new(None, &[]).of(&structures[2], &annotated, None), None);
    }
}
