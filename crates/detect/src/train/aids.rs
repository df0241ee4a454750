//! What tells a structure that is alone from look-alikes that nobody annotated: its place in the image,
//! and its surroundings. Both hang on how images are cut, so they count only where they make held-out
//! cases surer of the right place.

use crate::data::augmentation::Augmented;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{AnyData, TrainingData};
use crate::detect::detection::Detection;
use crate::model::Model;
use crate::network::choice::APART;
use crate::network::surroundings;
use crate::random::Seeds;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// What helps, each with what stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Aids {
    #[default]
    Nothing,
    Place,
    Surroundings,
}

/// By how much the mean loss of the place must fall for an aid to count, nats a case. Where the search
/// is never in doubt, aids gain nothing, and the answer does not hang on how the image is cut.
const GAIN: f64 = 0.05;

/// The aids that pay in the cases that models have not seen, and what the models find with them.
/// `pass` finds, `learn` adds the test of surroundings, and `loss` is the mean loss of the place in
/// what was found. Models of several structures are left as they are.
pub(super) fn settle<A, E>(
    models: Vec<Model>,
    pass: impl Fn(&[Model]) -> Result<A, E>,
    learn: impl Fn(Vec<Model>) -> Result<Vec<Model>, E>,
    loss: impl Fn(&A) -> f64,
) -> Result<(Aids, A), E> {
    // With few cases some of the models may not know the place, and are as they would be without.
    if !models.iter().any(Model::is_alone) {
        return Ok((Aids::Nothing, pass(&models)?));
    }
    let placeless: Vec<Model> = models.iter().cloned().map(Model::placeless).collect();
    let (mut aids, mut found) = (Aids::Nothing, pass(&placeless)?);
    let with = pass(&models)?;
    if loss(&with) <= loss(&found) - GAIN {
        (aids, found) = (Aids::Place, with);
    }
    if loss(&found) > GAIN {
        let with = pass(&learn(models)?)?;
        if loss(&with) <= loss(&found) - GAIN {
            (aids, found) = (Aids::Surroundings, with);
        }
    }
    Ok((aids, found))
}

impl Model {
    /// Whether it has one structure, and knows where that lies in images.
    fn is_alone(&self) -> bool {
        self.structures.len() == 1 && self.network.as_ref().is_some_and(|n| n.arcs.is_empty())
    }

    /// Without the place of a structure that is alone; others stay.
    fn placeless(mut self) -> Self {
        if self.is_alone() {
            self.network = None;
        }
        self
    }

    /// With these aids, learned from the cases that the model learned from.
    pub(super) fn with_aids<B: Backend, D: TrainingData + ?Sized>(
        self,
        aids: Aids,
        backend: &B,
        data: (&D, &Pyramids),
    ) -> Result<Self, D::Error> {
        match aids {
            Aids::Nothing => Ok(self.placeless()),
            Aids::Place => Ok(self),
            Aids::Surroundings => self.with_surroundings(backend, data),
        }
    }

    /// With the test of the surroundings of its structure, which is alone, where that is wanted.
    pub(super) fn with_surroundings<B: Backend, D: TrainingData + ?Sized>(
        mut self,
        backend: &B,
        (data, pyramids): (&D, &Pyramids),
    ) -> Result<Self, D::Error> {
        let provenance = &self.provenance;
        if self.network.is_none() || !provenance.config.network.level_shift {
            return Ok(self);
        }
        let (seeds, only) = (Seeds::of_structure(provenance.seed, 0), &self.structures[0]);
        let test = match provenance.copies {
            0 => surroundings::train(backend, (data, pyramids), only, seeds)?,
            copies => {
                let config = &provenance.config.augmentation;
                let copied = Augmented::new(data, copies, config, provenance.seed)?;
                let copied: &AnyData<'_, D::Error> = &copied;
                surroundings::train(backend, (copied, pyramids), only, seeds)?
            }
        };
        self.level_shifts.extend(test);
        Ok(self)
    }
}

/// Log loss of the place of a detection, nats: its lead over the best other place, as log-odds, against
/// whether the structure is there.
pub(super) fn place_loss(detection: &Detection, truth: &Pose) -> f64 {
    let [_, rival, network, ..] = detection.trace.evidence;
    // Without a network the lead over other places is that of the detector.
    let lead = if detection.trace.lead.is_finite() { network } else { rival };
    let off_mm = detection.pose.center.distance_mm(&truth.center);
    let right = off_mm <= APART * truth.mean_size_mm();
    libm::log1p(libm::exp(if right { -lead } else { lead }))
}
