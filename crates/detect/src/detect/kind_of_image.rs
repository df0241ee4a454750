//! Whether an image is of the kind that the model was trained on.

use crate::DetectError;
use crate::detect::Detection;
use crate::model::{Model, StructureModel};
use pbt_tree::Backend;
use pbt_volume::{Geometry, Status};

/// Voxels may be so much longer than those of any training image.
const COARSER: f64 = 2.0;

impl Model {
    /// Makes a detection doubtful where the image has far larger voxels than any training image, or where
    /// its box shows what none of them does; `warnings` say so, once each.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(super) fn doubt_kind<B: Backend>(
        &self,
        backend: &B,
        (image, grid): (&B::Image, &Geometry),
        structure: &StructureModel,
        detection: &mut Detection,
        warnings: &mut Vec<String>,
    ) -> Result<(), DetectError> {
        if detection.status != Status::Found {
            return Ok(());
        }
        let contents = structure.verification.spec.contents.as_ref();
        let unlike = match self.coarser(grid) {
            Some(coarser) => coarser,
            None => match contents {
                Some(contents) if contents.are_unlike(backend, image, &detection.pose)? => {
                    format!(
                        "voxels: what the box of {} shows is unlike its training images ({}), so it is doubtful (is the image of another kind?)",
                        structure.name, self.provenance.modality
                    )
                }
                _ => return Ok(()),
            },
        };
        detection.doubt();
        if !warnings.contains(&unlike) {
            warnings.push(unlike);
        }
        Ok(())
    }

    /// Says that voxels are far larger than in any training image.
    fn coarser(&self, grid: &Geometry) -> Option<String> {
        let coarsest = self.provenance.coarsest_mm?;
        let edge = grid.spacing_mm().into_iter().fold(0.0, f64::max);
        (edge > COARSER * coarsest).then(|| {
            format!(
                "spacing: voxels are {} mm long, and {} mm at most in the training images, so nothing is found for sure",
                edge as f32, coarsest as f32
            )
        })
    }
}
