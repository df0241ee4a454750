//! Every instance of a structure that may occur several times in an image.

use super::{Asked, Results, is_pose};
use crate::DetectError;
use crate::certainty::evidence::Known;
use crate::certainty::learned::Certainty;
use crate::detect::clock::Clock;
use crate::detect::detection::{Detection, Trace};
use crate::detect::images::{Images, Prepared};
use crate::detect::kind_of_image::KindOfImage;
use crate::model::{Model, StructureModel};
use crate::network::row::Row;
use pbt_evaluate::{instance_tolerance_mm, is_same_instance};
use pbt_tree::Backend;
use pbt_volume::{Geometry, Pose, Precision, RealVolume, Status};

/// What is less likely than this to be an instance is not listed.
const LISTED_FROM: f64 = 0.2;

/// Rows are followed by so many steps beyond what the search finds.
const MOST_STEPS: usize = 4;

/// Poses whose centres are nearer than this, in D, have met.
const MEETING: f64 = 0.1;

/// Most instances that are listed.
const MOST_LISTED: usize = 1000;

impl Model {
    /// The structure of a model of nothing but one that may occur several times.
    pub(crate) fn of_instances(&self) -> Option<&StructureModel> {
        match &self.structures[..] {
            [only] if only.most_instances().is_some() => Some(only),
            _ => None,
        }
    }

    /// The instances of a structure, given with its index, the surest first; where there is none, the best
    /// guess, as absent.
    pub(super) fn list_instances<'a, B: Backend>(
        &'a self,
        backend: &B,
        (structure, index): (&'a StructureModel, usize),
        (images, kind): (&mut Images<'a, B>, &mut KindOfImage<'a>),
        asked: Asked,
        clock: &mut Clock,
    ) -> Result<Results, DetectError> {
        let n = images.for_structure(backend, structure, clock)?;
        let (on, image) = (&images.prepared[n], images.channels[0].geometry());
        let certainty = self.certainty_of(index);
        let all = structure.instances_on(backend, (on, image), certainty, clock)?;
        let is_listed = |detection: &&Detection| {
            detection.score >= LISTED_FROM && !image.is_outside(detection.pose.center)
        };
        let count = all.iter().take(MOST_LISTED).filter(is_listed).count();
        let mut detections = all;
        detections.truncate(count.max(1));
        if count == 0 {
            detections.iter_mut().for_each(|detection| detection.status = Status::Absent);
        }
        // Of those that are not found the surest tells.
        let tells = |n: usize, detection: &Detection| n == 0 || detection.status == Status::Found;
        for (_, detection) in detections.iter_mut().enumerate().filter(|(n, d)| tells(*n, d)) {
            if kind.is_other(backend, &on.image, structure, &detection.pose)? {
                detection.doubt();
            }
        }
        let mut explanations = Vec::new();
        if asked.explanations {
            for detection in &detections {
                explanations.push(structure.explain(backend, &on.image, detection)?);
            }
        }
        clock.stop("verification");
        let masks = vec![None; detections.len()];
        Ok(Results { detections, masks, explanations })
    }
}

impl StructureModel {
    /// Most instances in an image of the training, of a structure that may occur several times.
    pub fn most_instances(&self) -> Option<usize> {
        self.position.spec.most_instances
    }

    /// Everything that may be an instance, however unlikely, the surest first, by a model that knows
    /// nothing of its certainty yet.
    pub(crate) fn every_instance<B: Backend>(
        &self,
        backend: &B,
        channels: &[RealVolume],
    ) -> Result<Vec<Detection>, DetectError> {
        let (mut images, mut clock) = (Images::new(channels), Clock::default());
        let n = images.for_structure(backend, self, &mut clock)?;
        let image = channels[0].geometry();
        let on = (&images.prepared[n], image);
        let all = self.instances_on(backend, on, None, &mut clock)?;
        if all.iter().all(|detection| image.is_outside(detection.pose.center)) {
            return Err(nothing_found());
        }
        Ok(all)
    }

    fn instances_on<B: Backend>(
        &self,
        backend: &B,
        (on, image): (&Prepared<'_, B>, &Geometry),
        certainty: Option<&Certainty>,
        clock: &mut Clock,
    ) -> Result<Vec<Detection>, DetectError> {
        let mut trace = self.search(backend, on, None, clock)?;
        if let Some(row) = &self.row {
            self.go_on(backend, &on.image, row, &mut trace)?;
            clock.stop("row");
        }
        let found = self.instances(&trace, certainty, image);
        clock.stop("verification");
        if found.is_empty() {
            return Err(nothing_found());
        }
        Ok(found)
    }

    /// Looks for the neighbours of instances that are likely, where none was found yet, and for
    /// theirs; what comes of it is appended to the trace.
    fn go_on<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        row: &Row,
        trace: &mut Trace,
    ) -> Result<(), DetectError> {
        let mut asked: Vec<Pose> = Vec::new();
        for _ in 0..MOST_STEPS {
            let apart = self.apart(trace);
            let likely = || apart.iter().filter(|(n, _)| trace.scores[*n].log_odds() > 0.0);
            let mut starts: Vec<Pose> = Vec::new();
            for expected in likely().flat_map(|(_, pose)| row.beside(pose)) {
                let is_there = |pose: &Pose| is_same_instance(pose, expected.center);
                let known = likely().any(|(_, pose)| is_there(pose));
                if !known && !asked.iter().chain(&starts).any(is_there) {
                    starts.push(expected);
                }
            }
            if starts.is_empty() {
                break;
            }
            self.converge(backend, image, &starts, trace)?;
            asked.extend(starts);
        }
        Ok(())
    }

    /// The converged poses that no better one takes for the same instance, settled, each with its
    /// index.
    fn apart(&self, trace: &Trace) -> Vec<(usize, Pose)> {
        let mut chosen: Vec<(usize, Pose)> = Vec::new();
        for n in self.ranked(trace) {
            let pose = self.verification.settle(
                &trace.converged,
                |n| trace.scores[n].log_odds(),
                n,
                &self.prior,
            );
            let is_taken = |(_, other): &(usize, Pose)| {
                is_same_instance(other, pose.center) || is_same_instance(&pose, other.center)
            };
            if is_pose(&pose) && !chosen.iter().any(is_taken) {
                chosen.push((n, pose));
            }
        }
        chosen
    }

    /// The converged poses, the best first: by log-odds, and by how many starts ended there. Where
    /// many meet an instance is, and a pose that lies beside it ends there alone.
    fn ranked(&self, trace: &Trace) -> Vec<usize> {
        let near_mm = MEETING * self.prior.scale_mm;
        let same = |a: &Pose| {
            let meets = |b: &&Pose| a.center.distance_mm(&b.center) <= near_mm;
            trace.converged.iter().filter(meets).count()
        };
        let rank =
            |n: usize| trace.scores[n].log_odds() + libm::log(same(&trace.converged[n]) as f64);
        let mut ranked: Vec<(f64, usize)> = (0..trace.scores.len()).map(|n| (rank(n), n)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().map(|(_, n)| n).collect()
    }

    /// What may be instances, as detections, the surest first; what has its centre outside the image
    /// is left out, but for the best guess where nothing else is left.
    fn instances(
        &self,
        trace: &Trace,
        certainty: Option<&Certainty>,
        image: &Geometry,
    ) -> Vec<Detection> {
        let mut chosen = self.apart(trace);
        let is_inside = |(_, pose): &(usize, Pose)| !image.is_outside(pose.center);
        if chosen.iter().any(is_inside) {
            chosen.retain(is_inside);
        } else {
            chosen.truncate(1);
        }
        let log_odds: Vec<f64> = trace.scores.iter().map(|score| score.log_odds()).collect();
        let likely = || chosen.iter().filter(|(n, _)| log_odds[*n] > 0.0);
        let detection = |&(n, pose): &(usize, Pose)| {
            let others = likely().filter(|(m, _)| *m != n).map(|(_, pose)| pose);
            let support = self.row.as_ref().map_or(0.0, |row| row.support(&pose, others));
            let known = Known {
                converged: &trace.converged,
                log_odds: &log_odds,
                own_modes: trace.own_modes,
                chosen: n,
                lead: f64::INFINITY,
                support,
            };
            let evidence = known.evidence_for_instance(&trace.modes, &self.prior);
            let score = match certainty {
                Some(certainty) => certainty.score_of_instance(&evidence),
                None => self.verification.probability(trace.scores[n]),
            };
            let visible = pose.visible_share(image);
            let precision = certainty.map(|certainty| Precision {
                tolerance_mm: instance_tolerance_mm(pose.size_mm),
                ..certainty.precision(pose.size_mm, image.spacing_mm(), visible)
            });
            Detection {
                name: self.name.clone(),
                instance: None,
                status: self.status(score),
                score,
                pose,
                visible,
                precision,
                trace: Trace { chosen: n, support, evidence, ..trace.clone() },
                landmarks: Vec::new(),
            }
        };
        let mut found: Vec<Detection> = chosen.iter().map(detection).collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        for (n, detection) in found.iter_mut().enumerate() {
            detection.instance = Some(n + 1);
        }
        found
    }
}

fn nothing_found() -> DetectError {
    DetectError::image("voxels", "no candidate position in the image")
}
