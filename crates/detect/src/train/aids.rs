//! What helps a structure that its own detector takes for another in held-out cases: of one that is alone,
//! its place in the image; of each that stands in no row, its surroundings. Both hang on how images
//! are cut, so they count only where they make held-out cases surer of the right place.

use crate::data::augmentation::Augmented;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, TrainingData};
use crate::detect::detection::Detection;
use crate::model::Model;
use crate::network::choice::APART;
use crate::network::level_shift::LevelShiftTest;
use crate::network::surroundings;
use crate::random::Seeds;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// What helps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Aids {
    /// Whether the place in the image counts for a structure that is alone.
    pub(super) place: bool,
    /// The structures whose surroundings count.
    pub(super) surroundings: Vec<usize>,
}

/// By how much the mean loss of the place must fall for an aid to count, nats a case. Where the search
/// is never in doubt, aids gain nothing, and the answer does not hang on how the image is cut.
const GAIN: f64 = 0.05;

/// What settles the aids: the models without parts of the cases, and what can be asked of them.
pub(super) struct Trial<P, T, L> {
    /// What the models find in the cases that they have not seen.
    pub(super) pass: P,
    /// Tests of the surroundings of these structures, by model.
    pub(super) train: T,
    /// Of what a pass found, the mean loss of the place by structure.
    pub(super) losses: L,
}

impl<P, T, L> Trial<P, T, L> {
    /// The aids that pay, and what the models find with them.
    pub(super) fn settle<A, E>(&self, mut models: Vec<Model>) -> Result<(Aids, A), E>
    where
        P: Fn(&[Model]) -> Result<A, E>,
        T: Fn(&[Model], &[usize]) -> Result<Vec<Vec<LevelShiftTest>>, E>,
        L: Fn(&A) -> Vec<f64>,
    {
        let mut aids = Aids::default();
        let mut found = (self.pass)(&models)?;
        let mut losses = (self.losses)(&found);
        let alone = models.iter().any(Model::is_alone);
        if alone {
            let placeless: Vec<Model> = models.iter().cloned().map(Model::placeless).collect();
            let without = (self.pass)(&placeless)?;
            let loss = (self.losses)(&without);
            aids.place = losses[0] <= loss[0] - GAIN;
            if !aids.place {
                (found, losses) = (without, loss);
            }
        }
        let wanted: Vec<usize> = (0..losses.len())
            .filter(|&s| losses[s] > GAIN && models[0].may_look_about(s))
            .collect();
        if !wanted.is_empty() {
            let tests = (self.train)(&models, &wanted)?;
            for (model, tests) in models.iter_mut().zip(tests) {
                model.level_shifts.extend(tests);
            }
            let with = (self.pass)(&models)?;
            let after = (self.losses)(&with);
            let pays = |s: &usize| after[*s] <= losses[*s] - GAIN;
            aids.surroundings = wanted.iter().copied().filter(pays).collect();
            let all = aids.surroundings.len() == wanted.len();
            for model in models.iter_mut() {
                model.level_shifts.retain(|test| {
                    !test.is_of_one() || aids.surroundings.contains(&test.spec.members[0])
                });
            }
            if all {
                found = with;
            } else if !aids.surroundings.is_empty() {
                found = (self.pass)(&models)?;
            }
            aids.place |= alone && !aids.surroundings.is_empty();
        }
        Ok((aids, found))
    }
}

impl Model {
    /// Whether it has one structure, and knows where that lies in images.
    pub(super) fn is_alone(&self) -> bool {
        self.structures.len() == 1 && self.network.as_ref().is_some_and(|n| n.arcs.is_empty())
    }

    /// Without the place of a structure that is alone; others stay.
    pub(super) fn placeless(mut self) -> Self {
        if self.is_alone() {
            self.network = None;
        }
        self
    }

    /// Whether the surroundings of a structure may count: those of a row are looked at together.
    fn may_look_about(&self, s: usize) -> bool {
        self.network.is_some()
            && self.provenance.config.network.level_shift
            && !self.structures[s].prior.any_orientation
            && !self.level_shifts.iter().any(|test| test.spec.members.contains(&s))
    }

    /// Tests of the surroundings of these structures, learned from the cases that the model learned from.
    pub(super) fn learn_surroundings<B: Backend, D: TrainingData>(
        &self,
        backend: &B,
        (data, pyramids): (&D, &Pyramids),
        wanted: &[usize],
    ) -> Result<Vec<LevelShiftTest>, D::Error> {
        let provenance = &self.provenance;
        if provenance.copies == 0 {
            return self.learn_from(backend, (data, pyramids), &data.structures(), wanted);
        }
        let config = &provenance.config.augmentation;
        let copied = Augmented::new(data, provenance.copies, config, provenance.seed)?;
        self.learn_from(backend, (&copied, pyramids), &copied.structures(), wanted)
    }

    fn learn_from<B: Backend, D: TrainingData>(
        &self,
        backend: &B,
        data: (&D, &Pyramids),
        structures: &[Annotated],
        wanted: &[usize],
    ) -> Result<Vec<LevelShiftTest>, D::Error> {
        let mut tests = Vec::new();
        for &s in wanted {
            let seeds = Seeds::of_structure(self.provenance.seed, s);
            let structure = (s, &self.structures[s]);
            tests.extend(surroundings::train(backend, data, structure, &structures[s], seeds)?);
        }
        Ok(tests)
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
