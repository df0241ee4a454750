//! The network of structures: what the pose of one says about the others.
//!
//! Nodes are structures, arcs carry Gaussian priors of the relative position in the frame of one of
//! the two (Sofka et al. 2010, section 3.1). Which arcs are kept is learned: the spanning tree with
//! the least entropy. On a tree the best joint choice is exact (`choice.rs`), so look-alikes in a
//! row (vertebrae) are settled together and not one by one.

use crate::network::arc::Arc;
use crate::network::center_prior::{CenterPrior, center_priors};
use crate::network::choice::Hypotheses;
use crate::network::search_region::Anchor;
use crate::pose::prior::Prior;
use pbt_volume::{Geometry, PointLps, Pose};
use serde::{Deserialize, Serialize};

/// The trained network. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Edges of a tree, from the root outwards; the first one starts at the root. None where a
    /// structure is alone.
    pub arcs: Vec<Arc>,
    /// By structure; none where it may lie anywhere.
    pub center_priors: Vec<Option<CenterPrior>>,
    /// Mean size by structure, mm.
    pub sizes_mm: Vec<[f64; 3]>,
    /// Least length of a training image along L, P and S, mm; older models have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortest_mm: Option<[f64; 3]>,
    /// What is searched for first, in large images, the one that tells most first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub anchors: Vec<Anchor>,
}

impl Network {
    /// Learns from the poses of each structure by case (`poses[structure][case]`) and the middles
    /// of the cases' images. A single structure has no arcs, but its place in the image tells it from
    /// look-alikes. `None` where neither an arc nor a place can be learned.
    pub(crate) fn train(
        poses: &[Vec<Option<Pose>>],
        middles: &[PointLps],
        priors: &[&Prior],
        use_center_priors: bool,
    ) -> Option<Self> {
        let count = poses.len();
        let pair = |a: usize, b: usize| -> Option<(Arc, f64)> {
            let both = poses[a].iter().zip(&poses[b]);
            let both = both.filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)));
            Arc::train([a, b], both, priors[a].scale_mm)
        };
        let pairs: Vec<Vec<Option<(Arc, f64)>>> = (0..count)
            .map(|a| (0..count).map(|b| if a == b { None } else { pair(a, b) }).collect())
            .collect();
        // The root is the structure that says most about all others.
        let sum = |a: usize| pairs[a].iter().flatten().map(|(_, entropy)| entropy).sum::<f64>();
        let known = |a: usize| pairs[a].iter().flatten().count();
        let root =
            (0..count).min_by(|&a, &b| known(b).cmp(&known(a)).then(sum(a).total_cmp(&sum(b))))?;
        // Prim's algorithm; ties go to the lower places.
        let mut inside = vec![root];
        let mut arcs = Vec::new();
        loop {
            let next = inside
                .iter()
                .flat_map(|&a| pairs[a].iter().flatten())
                .filter(|(arc, _)| !inside.contains(&arc.to))
                .min_by(|x, y| {
                    x.1.total_cmp(&y.1).then((x.0.from, x.0.to).cmp(&(y.0.from, y.0.to)))
                });
            let Some((arc, _)) = next else { break };
            inside.push(arc.to);
            arcs.push(arc.clone());
        }
        let center_priors = center_priors(poses, middles, priors, use_center_priors);
        if arcs.is_empty() && center_priors.iter().all(Option::is_none) {
            return None;
        }
        let sizes_mm = priors.iter().map(|p| p.mean_size_mm).collect();
        Some(Self { arcs, center_priors, sizes_mm, shortest_mm: None, anchors: Vec::new() })
    }

    /// The network with the centre priors that an image allows: wider ones, where it is shorter than any
    /// image of the training.
    pub(crate) fn in_image(&self, image: &Geometry) -> Self {
        let shorter_mm = self.shorter_mm(image);
        if shorter_mm == [0.0; 3] {
            return self.clone();
        }
        let wider = |prior: &Option<CenterPrior>| Some(prior.as_ref()?.in_part(shorter_mm));
        Self { center_priors: self.center_priors.iter().map(wider).collect(), ..self.clone() }
    }

    /// By how much an image is shorter than any of the training, along L, P and S, mm.
    fn shorter_mm(&self, image: &Geometry) -> [f64; 3] {
        let lengths_mm = image.lengths_mm();
        match self.shortest_mm {
            Some(shortest) => std::array::from_fn(|a| (shortest[a] - lengths_mm[a]).max(0.0)),
            None => [0.0; 3],
        }
    }

    /// Whether an image ends early along a row of structures: by half of one.
    pub(crate) fn is_part(&self, image: &Geometry, members: &[usize], poses: &[Pose]) -> bool {
        let (Some(first), Some(last)) = (poses.first(), poses.last()) else { return false };
        let along = (last.center.0 - first.center.0).normalize();
        let shorter_mm: f64 =
            self.shorter_mm(image).iter().zip(along.iter()).map(|(mm, a)| mm * a.abs()).sum();
        let d = |&s: &usize| libm::cbrt(self.sizes_mm[s].iter().product());
        let mean = members.iter().map(d).sum::<f64>() / members.len().max(1) as f64;
        shorter_mm > 0.5 * mean
    }

    /// Where the best few candidates of each structure's neighbours expect it.
    pub(crate) fn proposals(&self, found: &[Hypotheses]) -> Vec<Vec<Pose>> {
        let mut proposed = vec![Vec::new(); found.len()];
        let best = |s: usize| {
            let mut order: Vec<usize> = (0..found[s].poses.len()).collect();
            order.sort_by(|&a, &b| {
                found[s].log_odds[b].total_cmp(&found[s].log_odds[a]).then(a.cmp(&b))
            });
            order.truncate(PROPOSERS);
            order.into_iter().map(move |n| &found[s].poses[n])
        };
        for arc in &self.arcs {
            proposed[arc.to]
                .extend(best(arc.from).map(|pose| arc.forth(pose, self.sizes_mm[arc.to])));
            proposed[arc.from]
                .extend(best(arc.to).map(|pose| arc.back(pose, self.sizes_mm[arc.from])));
        }
        proposed
    }

    /// Log density of the relative position of two neighbours against that of the mean's; `None`
    /// where no arc joins them.
    pub(crate) fn log_density(&self, a: usize, b: usize, at_a: &Pose, at_b: &Pose) -> Option<f64> {
        self.arcs.iter().find_map(|arc| match (arc.from, arc.to) {
            (from, to) if (from, to) == (a, b) => Some(arc.log_density(at_a, at_b)),
            (from, to) if (from, to) == (b, a) => Some(arc.log_density(at_b, at_a)),
            _ => None,
        })
    }

    /// Log density of a structure's place in the image against that of the mean's; 0 where it may
    /// lie anywhere.
    pub(crate) fn center_log_density(&self, s: usize, pose: &Pose, middle: PointLps) -> f64 {
        self.center_priors[s].as_ref().map_or(0.0, |prior| prior.log_density(pose, middle))
    }

    /// Where a neighbour of a structure that lies here is expected; `None` where no arc joins them.
    pub(crate) fn beside(&self, from: usize, to: usize, pose: &Pose) -> Option<Pose> {
        let size_mm = self.sizes_mm[to];
        self.arcs.iter().find_map(|arc| match (arc.from, arc.to) {
            ends if ends == (from, to) => Some(arc.forth(pose, size_mm)),
            ends if ends == (to, from) => Some(arc.back(pose, size_mm)),
            _ => None,
        })
    }

    /// Whether a file's numbers make sense for so many structures.
    pub(crate) fn is_valid(&self, structures: usize) -> bool {
        let mut inside = vec![false; structures];
        let tree = self.arcs.iter().enumerate().all(|(n, arc)| {
            if arc.from >= structures || arc.to >= structures || arc.from == arc.to {
                return false;
            }
            let from = n == 0 || inside[arc.from];
            inside[arc.from] = true;
            from && !std::mem::replace(&mut inside[arc.to], true) && arc.is_valid()
        });
        tree && self.anchors.iter().all(|anchor| anchor.is_valid(structures))
            && self.center_priors.len() == structures
            && self.sizes_mm.len() == structures
            && self.center_priors.iter().flatten().all(CenterPrior::is_valid)
            && self
                .sizes_mm
                .iter()
                .chain(&self.shortest_mm)
                .flatten()
                .all(|s| s.is_finite() && *s > 0.0)
    }
}

/// Candidates of a structure that propose poses of its neighbours.
const PROPOSERS: usize = 4;

/// Neighbours whose relative position is less likely than this, as a log density against the
/// mean's, do not belong together: 3½ standard deviations.
pub(crate) const BROKEN: f64 = -6.0;
