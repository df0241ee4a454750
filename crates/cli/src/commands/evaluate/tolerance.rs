//! How near a position must be to be right.

use pbt_io::{Annotations, Dataset, ResultFile, StructureKind, StructureSpec};

/// Training calls poses from 0.08 of the box's mean size on wrong (`VerificationStage`), so a score
/// speaks of about this distance; and errors of two voxels can hardly be told from those of
/// annotations.
const SHARE_OF_BOX: f64 = 0.1;
const VOXELS: f64 = 2.0;

/// What counts as right.
pub(in crate::commands) struct Tolerance {
    /// What the user wants for all structures, mm.
    fixed_mm: Option<f64>,
    /// The box of landmarks that name no parent.
    first_box: Option<String>,
}

impl Tolerance {
    /// The user's, or the rule.
    pub(in crate::commands) fn new(fixed_mm: Option<f64>, dataset: &Dataset) -> Self {
        let first_box = dataset
            .structures
            .iter()
            .find(|s| s.kind == StructureKind::Box)
            .map(|s| s.name.clone());
        Self { fixed_mm, first_box }
    }

    /// Up to which distance a structure of a case is right, mm: a tenth of the mean size (the
    /// geometric mean of the edges) of its own box or of the box in whose frame it is found, as
    /// annotated in this case, and two voxels of the image at least (their edge is the cube root of
    /// the volume). `None` where neither is known.
    pub(in crate::commands) fn of(
        &self,
        structure: &StructureSpec,
        annotations: &Annotations,
        result: Option<&ResultFile>,
    ) -> Option<f64> {
        if self.fixed_mm.is_some() {
            return self.fixed_mm;
        }
        let frame = match structure.kind {
            StructureKind::Box => Some(&structure.name),
            StructureKind::Landmark => structure.parent.as_ref().or(self.first_box.as_ref()),
        };
        let pose = frame.and_then(|name| annotations.pose(name));
        let of_box = pose.map(|pose| SHARE_OF_BOX * pose.size_mm.iter().product::<f64>().cbrt());
        let of_voxels =
            result.map(|result| VOXELS * result.input.spacing_mm.iter().product::<f64>().cbrt());
        of_box.into_iter().chain(of_voxels).reduce(f64::max)
    }
}
