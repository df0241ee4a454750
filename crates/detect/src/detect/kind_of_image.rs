//! Whether an image is of the kind that the model was trained on.

use crate::DetectError;
use crate::model::{Model, StructureModel};
use pbt_tree::Backend;
use pbt_volume::{Geometry, Pose};

/// Voxels may be so much longer than those of any training image.
const COARSER: f64 = 2.0;

/// What is said of an image against those of the training.
pub(super) struct KindOfImage<'a> {
    modality: &'a str,
    /// The longest edge of a voxel, and that in the training, where it is far longer.
    coarser_mm: Option<[f64; 2]>,
    /// Structures whose boxes show what no training image does.
    unlike: Vec<&'a str>,
    /// Structures whose labels are far worse than in training images, and the Dice coefficient to expect.
    contradicted: Vec<(&'a str, f64)>,
}

impl<'a> KindOfImage<'a> {
    pub(super) fn new(model: &'a Model, image: &Geometry) -> Self {
        let edge = image.spacing_mm().into_iter().fold(0.0, f64::max);
        let coarsest = model.provenance.coarsest_mm.filter(|coarsest| edge > COARSER * coarsest);
        Self {
            modality: &model.provenance.modality,
            coarser_mm: coarsest.map(|coarsest| [edge, coarsest]),
            unlike: Vec::new(),
            contradicted: Vec::new(),
        }
    }

    /// Whether the image has far larger voxels than any training image, or a box shows what none of them
    /// does: then it is not found for sure.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(super) fn is_other<B: Backend>(
        &mut self,
        backend: &B,
        image: &B::Image,
        structure: &'a StructureModel,
        pose: &Pose,
    ) -> Result<bool, DetectError> {
        let unlike = match &structure.verification.spec.contents {
            Some(contents) => contents.are_unlike(backend, image, pose)?,
            None => false,
        };
        if unlike && !self.unlike.contains(&&structure.name[..]) {
            self.unlike.push(&structure.name);
        }
        Ok(unlike || self.coarser_mm.is_some())
    }

    /// Notes that the labels of a structure say that its box is wrong.
    pub(super) fn note_contradicted(&mut self, structure: &'a StructureModel, dice: f64) {
        self.contradicted.push((&structure.name, dice));
    }

    /// For the result.
    pub(super) fn warnings(&self) -> Vec<String> {
        let coarser = self.coarser_mm.map(|[edge, coarsest]| {
            format!(
                "spacing: voxels are {} mm long, and {} mm at most in the training images, so nothing is `found`",
                edge as f32, coarsest as f32
            )
        });
        let unlike = (!self.unlike.is_empty()).then(|| {
            format!(
                "voxels: what the best box of {} shows is unlike the training images ({}): is the image of another kind, or not of this part of the body?",
                self.unlike.join(", "),
                self.modality
            )
        });
        let contradicted = self.contradicted.iter().map(|(name, dice)| {
            format!(
                "labels: those of the best box of {name} are far worse than in the training images (Dice {dice:.2} to expect): is it the right place?"
            )
        });
        coarser.into_iter().chain(unlike).chain(contradicted).collect()
    }
}
