//! What tells a structure that is alone from look-alikes that nobody annotated: one vertebra, where
//! the data set has no other. Its place in the image may, and what lies about it, farther than its
//! own detector sees. Both hang on how images are cut, so they count only where they make
//! held-out cases surer of the right place (`train/held_out_detections.rs`).

use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, Subjects, TrainingData};
use crate::detect::detection::Detection;
use crate::model::{Model, StructureModel};
use crate::network::choice::APART;
use crate::network::level_shift::{LevelShiftSpec, LevelShiftTest};
use crate::network::level_shift_training::{COPIES, FEWEST_CASES, JITTER, POINTS, Samples};
use crate::pose::step::{Reach, perturbed_normally};
use crate::random::{Seeds, Stream};
use crate::stages::platt_scaling::Calibration;
use pbt_features::BoxGrid;
use pbt_tree::{Backend, Patch, PoseSite};
use pbt_volume::Pose;
use std::collections::BTreeSet;

/// What is looked at: a cube of this edge, in D. On 20 lone vertebrae, each left out once, the right
/// one of the places where the search ended looks best in 13 cases with 2.4 D, in 16 with 3.6 D, in
/// 18 with 6 D, and in 11 to the vertebra's own detector.
const EXTENT: f64 = 6.0;

/// What helps a structure that is alone, each including those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Default)]
pub(crate) enum Aids {
    #[default]
    Nothing,
    Place,
    Surroundings,
}

impl Model {
    /// Whether it has a structure that is alone, and something to help it.
    pub(crate) fn has_aids(&self) -> bool {
        self.structures.len() == 1 && self.network.as_ref().is_some_and(|n| n.arcs.is_empty())
    }

    /// With no more than these aids; a model of several structures stays as it is.
    pub(crate) fn with_aids(mut self, aids: Aids) -> Self {
        if self.has_aids() {
            if aids < Aids::Surroundings {
                self.level_shifts.clear();
            }
            if aids < Aids::Place {
                self.network = None;
            }
        }
        self
    }
}

/// By how much the mean loss of the place must fall for an aid to count, nats a case. Where the search
/// is never in doubt, aids gain nothing, and the answer does not hang on how the image is cut.
const GAIN: f64 = 0.05;

/// The aids that pay, from none on; `loss` says how wrong held-out cases are with some of them.
pub(crate) fn best_aids<E>(loss: impl Fn(Aids) -> Result<f64, E>) -> Result<Aids, E> {
    let (mut best, mut least) = (Aids::Nothing, loss(Aids::Nothing)?);
    for aids in [Aids::Place, Aids::Surroundings] {
        let with = loss(aids)?;
        if with <= least - GAIN {
            (best, least) = (aids, with);
        }
    }
    Ok(best)
}

/// Log loss of the place of a detection, nats: its lead over the best other place, as log-odds, against
/// whether the structure is there.
pub(crate) fn place_loss(detection: &Detection, truth: &Pose) -> f64 {
    let [_, rival, network, ..] = detection.trace.evidence;
    // Without a network the lead over other places is that of the detector.
    let lead = if detection.trace.lead.is_finite() { network } else { rival };
    let off_mm = detection.pose.center.distance_mm(&truth.center);
    let right = off_mm <= APART * truth.mean_size_mm();
    libm::log1p(libm::exp(if right { -lead } else { lead }))
}

/// Learns to tell the structure from the other places where its search ends in the training images.
/// `None` where there are too few of these.
///
/// # Errors
/// Whatever reading an image gives; [`DetectError::Device`](crate::DetectError::Device) when the device fails.
pub(crate) fn train<B: Backend, D: TrainingData>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    structure: &StructureModel,
    (_, annotated): &Annotated,
    seeds: Seeds,
) -> Result<Option<LevelShiftTest>, D::Error> {
    let (working, scale_mm) = (&structure.working, structure.prior.scale_mm);
    let spec = LevelShiftSpec {
        members: vec![0],
        patch: Patch {
            grid: BoxGrid { points: [POINTS; 3], extent: [EXTENT; 3] },
            levels: working.volumes_of(&[(working.levels - 1) as u8]),
            edges: true,
        },
        normalise: working.is_relative(),
        scale_mm,
        calibration: Calibration { slope: 1.0, intercept: 0.0 },
    };
    let subjects = Subjects::new(data, annotated);
    let each = (2 * COPIES * subjects.originals() / annotated.len()).max(1);
    let jitter = Reach { center_mm: JITTER.center_mm * scale_mm, ..JITTER };
    let shown = pyramids.get_all(data, annotated.iter().map(|a| a.0), working, || false)?;
    let mut samples = Samples::default();
    for (n, (case, truth)) in annotated.iter().enumerate() {
        let middle = data.list().geometry(*case).center();
        let (image, ends) = structure.ends(backend, (&shown[case], middle))?;
        let is_elsewhere = |end: &Pose| end.center.distance_mm(&truth.center) > APART * scale_mm;
        let others: Vec<Pose> = ends.into_iter().filter(is_elsewhere).collect();
        if others.is_empty() {
            continue;
        }
        let mut random = seeds.random(Stream::LevelShiftPoses, n);
        let right = std::iter::repeat_n(truth, each);
        let poses: Vec<Pose> = right
            .chain(others.iter().cycle().take(each))
            .map(|pose| perturbed_normally(pose, &jitter, &mut random))
            .collect();
        let sites: Vec<PoseSite> =
            (0..poses.len()).flat_map(|first| spec.sites(0, &poses, first)).collect();
        samples.seen.extend(spec.see(backend, &[&image], &sites)?);
        samples.right.extend((0..poses.len()).map(|n| n < each));
        samples.cases.extend(std::iter::repeat_n(n, poses.len()));
    }
    let with_others: BTreeSet<usize> = samples.cases.iter().map(|&n| subjects.subject(n)).collect();
    let enough = with_others.len() >= FEWEST_CASES;
    Ok(enough.then(|| samples.learn(spec, &subjects)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aids_must_pay() {
        let best = |losses: [f64; 3]| {
            let loss = |aids| Ok::<_, std::convert::Infallible>(losses[aids as usize]);
            best_aids(loss).unwrap()
        };
        assert_eq!(best([0.01, 0.01, 0.0]), Aids::Nothing);
        assert_eq!(best([1.2, 0.4, 0.38]), Aids::Place);
        assert_eq!(best([1.2, 0.4, 0.2]), Aids::Surroundings);
        // The place misleads, the surroundings make up for it.
        assert_eq!(best([1.2, 1.5, 0.2]), Aids::Surroundings);
        assert_eq!(best([0.3, 1.5, 0.4]), Aids::Nothing);
    }
}
