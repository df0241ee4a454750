//! Every instance of a structure that may occur several times in an image.

use super::{Asked, Clock, Detections, Prepared, is_pose};
use crate::DetectError;
use crate::certainty::evidence::Known;
use crate::certainty::learned::Certainty;
use crate::detect::{Detection, Trace};
use crate::explain::Explanation;
use crate::model::{Model, StructureModel};
use pbt_evaluate::{instance_tolerance_mm, is_same_instance};
use pbt_tree::{Backend, best_indices};
use pbt_volume::{Geometry, Pose, Precision, Status, Volume};

/// What is less likely than this to be an instance is not listed.
const LISTED_FROM: f64 = 0.2;

/// Most instances that are listed.
const MOST_LISTED: usize = 1000;

impl Model {
    /// The structure of a model for one that may occur several times.
    pub fn of_instances(&self) -> Option<&StructureModel> {
        match &self.structures[..] {
            [only] if only.most_instances().is_some() => Some(only),
            _ => None,
        }
    }

    /// The instances of the model's only structure, the surest first; where there is none, the best
    /// guess, as absent.
    pub(super) fn list_instances<B: Backend>(
        &self,
        backend: &B,
        structure: &StructureModel,
        image: &Volume<f32>,
        asked: Asked,
    ) -> Result<(Detections, Vec<Explanation>), DetectError> {
        let mut clock = Clock::default();
        let on = structure.prepared(backend, image, &mut clock)?;
        let all = self.instances_on(backend, structure, (&on, image.geometry()), &mut clock)?;
        let is_listed = |detection: &&Detection| detection.score >= LISTED_FROM;
        let count = all.iter().take(MOST_LISTED).filter(is_listed).count();
        let mut detections = all;
        detections.truncate(count.max(1));
        if count == 0 {
            detections.iter_mut().for_each(|detection| detection.status = Status::Absent);
        }
        let mut explanations = Vec::new();
        if asked.explanations {
            let spacing_mm = structure.working.spacing_mm;
            for detection in &detections {
                explanations.push(structure.explain(backend, &on.image, spacing_mm, detection)?);
            }
        }
        clock.stop("verification");
        let masks = vec![None; detections.len()];
        Ok((Detections { detections, masks, timing_ms: clock.stages }, explanations))
    }

    /// Everything that may be an instance, however unlikely, the surest first.
    pub(crate) fn every_instance<B: Backend>(
        &self,
        backend: &B,
        structure: &StructureModel,
        image: &Volume<f32>,
    ) -> Result<Vec<Detection>, DetectError> {
        let mut clock = Clock::default();
        let on = structure.prepared(backend, image, &mut clock)?;
        self.instances_on(backend, structure, (&on, image.geometry()), &mut clock)
    }

    fn instances_on<B: Backend>(
        &self,
        backend: &B,
        structure: &StructureModel,
        (on, image): (&Prepared<'_, B>, &Geometry),
        clock: &mut Clock,
    ) -> Result<Vec<Detection>, DetectError> {
        let trace = structure.search(backend, on, clock)?;
        let found = structure.instances(&trace, self.certainty.first(), image);
        clock.stop("verification");
        if found.is_empty() {
            return Err(DetectError::image("voxels", "no candidate position in the image"));
        }
        Ok(found)
    }
}

impl StructureModel {
    /// Most instances in an image of the training, of a structure that may occur several times.
    pub fn most_instances(&self) -> Option<usize> {
        self.position.spec.most_instances
    }

    fn prepared<B: Backend>(
        &self,
        backend: &B,
        image: &Volume<f32>,
        clock: &mut Clock,
    ) -> Result<Prepared<'_, B>, DetectError> {
        let pyramid = self.working.pyramid(image)?;
        Prepared::new(backend, self, (&pyramid, image.geometry().center()), clock)
    }

    /// Of the converged poses those that no better one takes for the same instance, as detections;
    /// those whose centre lies outside the image are left out.
    fn instances(
        &self,
        trace: &Trace,
        certainty: Option<&Certainty>,
        image: &Geometry,
    ) -> Vec<Detection> {
        let mut chosen: Vec<(usize, Pose)> = Vec::new();
        for n in best_indices(&trace.scores, trace.scores.len()) {
            let pose = self.verification.settle(&trace.converged, n, &self.prior);
            let is_taken = |(_, other): &(usize, Pose)| {
                is_same_instance(other, pose.center) || is_same_instance(&pose, other.center)
            };
            if is_pose(&pose) && !image.is_outside(pose.center) && !chosen.iter().any(is_taken) {
                chosen.push((n, pose));
            }
        }
        let log_odds: Vec<f64> = trace.scores.iter().map(|score| score.log_odds()).collect();
        let detection = |(n, pose): (usize, Pose)| {
            let known = Known {
                converged: &trace.converged,
                log_odds: &log_odds,
                own_modes: trace.own_modes,
                chosen: n,
                lead: f64::INFINITY,
                support: 0.0,
            };
            let evidence = known.evidence_for_instance(&trace.modes, &self.prior);
            let score = match certainty {
                Some(certainty) => certainty.score(&evidence),
                None => self.verification.probability(trace.scores[n]),
            };
            let precision = certainty.map(|certainty| Precision {
                tolerance_mm: instance_tolerance_mm(pose.size_mm),
                ..certainty.precision(pose.size_mm, image.spacing_mm())
            });
            Detection {
                name: self.name.clone(),
                instance: None,
                status: self.status(score),
                score,
                pose,
                visible: pose.visible_share(image),
                precision,
                trace: Trace { chosen: n, evidence, ..trace.clone() },
                landmarks: Vec::new(),
            }
        };
        let mut found: Vec<Detection> = chosen.into_iter().map(detection).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        for (n, detection) in found.iter_mut().enumerate() {
            detection.instance = Some(n + 1);
        }
        found
    }
}
