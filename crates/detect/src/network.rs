//! The network of structures: what the pose of one says about the others, and the choice of one pose a structure that agree best.
//!
//! Nodes are structures, arcs carry Gaussian priors of the relative position in the frame of one of the two (Sofka et al. 2010, section
//! 3.1). Which arcs are kept is learned: the spanning tree with the least entropy. On a tree the best joint choice is exact, by dynamic
//! programming, so look-alikes in a row (vertebrae) are settled together and not one by one.

use crate::perturb::Step;
use crate::position::best_indices;
use crate::prior::Prior;
use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_tree::Score;
use pbt_volume::{PointLps, Pose, positive};
use serde::{Deserialize, Serialize};

/// A normal distribution of a position, mm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaussian {
    /// Mean, mm.
    pub mean_mm: [f64; 3],
    /// Inverse covariance, mm⁻², row-major.
    pub precision: [[f64; 3]; 3],
}

impl Gaussian {
    /// Fits the points; the covariance of few points is too small by about n/(n − 4), and never below `floor_mm`².
    fn fit(points: &[Vector3<f64>], floor_mm: f64) -> Option<(Self, f64)> {
        let n = points.len() as f64;
        if points.len() < FEWEST {
            return None;
        }
        let mean = points.iter().sum::<Vector3<f64>>() / n;
        let scatter = points.iter().map(|p| (p - mean) * (p - mean).transpose()).sum::<Matrix3<f64>>();
        let covariance = scatter / (n - 4.0) + Matrix3::identity() * (floor_mm * floor_mm);
        let precision = covariance.try_inverse()?;
        let entropy = 0.5 * libm::log(covariance.determinant());
        let row = |r: usize| [precision[(r, 0)], precision[(r, 1)], precision[(r, 2)]];
        Some((Self { mean_mm: mean.into(), precision: [row(0), row(1), row(2)] }, entropy))
    }

    /// Log density relative to the mean's, not below [`FARTHEST`]: beyond, one position says nothing about the other.
    fn log_density(&self, point: &Vector3<f64>) -> f64 {
        let d = point - Vector3::from(self.mean_mm);
        let p = &self.precision;
        let squared: f64 = (0..3).map(|r| d[r] * (p[r][0] * d.x + p[r][1] * d.y + p[r][2] * d.z)).sum();
        (-0.5 * squared).max(FARTHEST)
    }

    pub(crate) fn is_valid(&self) -> bool {
        let p = &self.precision;
        self.mean_mm.iter().chain(p.iter().flatten()).all(|v| v.is_finite()) && (0..3).all(|r| p[r][r] >= 0.0)
    }
}

/// Fewest cases with both structures that an arc is learned from.
const FEWEST: usize = 6;

/// A log density of 4½ standard deviations.
const FARTHEST: f64 = -10.0;

/// Log-odds beyond this tell no more: classifiers are surest of what they were trained on.
const SUREST: f64 = 5.0;

/// What the pose of one structure says about another's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arc {
    /// Place of the structure in whose frame the other lies.
    pub from: usize,
    /// Place of the other structure.
    pub to: usize,
    /// Where the centre of `to` lies in the frame of `from`, mm.
    pub shift: Gaussian,
    /// The orientation of `to` in the frame of `from`.
    #[serde(with = "crate::quaternion")]
    pub rotation: UnitQuaternion<f64>,
}

/// The trained network. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Edges of a tree, from the root outwards; the first one starts at the root.
    pub arcs: Vec<Arc>,
    /// Where the centre of a structure lies from the middle of the image, LPS mm, by structure; none where it may lie anywhere.
    pub places: Vec<Option<Gaussian>>,
    /// Mean size by structure, mm.
    pub sizes_mm: Vec<[f64; 3]>,
}

/// Poses that a structure may have, each with the log-odds of being right as its own detector sees them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Candidates {
    pub(crate) poses: Vec<Pose>,
    pub(crate) log_odds: Vec<f64>,
}

/// One structure's part of the best joint choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    /// Place in the structure's candidates.
    pub(crate) index: usize,
    /// By how much the best joint choice with this structure elsewhere is worse; infinite where there is none.
    pub(crate) margin: f64,
}

impl Choice {
    /// The best of a structure that has no network.
    pub(crate) fn best(scores: &[Score]) -> Self {
        Self { index: best_indices(scores, 1).first().copied().unwrap_or(0), margin: f64::INFINITY }
    }

    /// Probability of this choice against the best one elsewhere, as far as the network sees it.
    pub(crate) fn probability(&self) -> f64 {
        1.0 / (1.0 + libm::exp(-self.margin))
    }
}

impl Network {
    /// Learns from the poses of each structure by case (`poses[structure][case]`) and the middles of the cases' images. `None` with fewer
    /// than two structures, or where no arc can be learned.
    pub(crate) fn train(poses: &[Vec<Option<Pose>>], middles: &[PointLps], priors: &[&Prior], use_places: bool) -> Option<Self> {
        let count = poses.len();
        let pair = |a: usize, b: usize| -> Option<(Arc, f64)> {
            let steps: Vec<Step> =
                poses[a].iter().zip(&poses[b]).filter_map(|(a, b)| Some(Step::between(a.as_ref()?, b.as_ref()?))).collect();
            let shifts: Vec<Vector3<f64>> = steps.iter().map(|s| s.shift_mm).collect();
            let (shift, entropy) = Gaussian::fit(&shifts, FLOOR * priors[a].scale_mm)?;
            let turns: Vec<Vector3<f64>> = steps.iter().map(|s| s.rotation).collect();
            let rotation = pbt_volume::rotation_from_vector(turns.iter().sum::<Vector3<f64>>() / turns.len() as f64);
            Some((Arc { from: a, to: b, shift, rotation }, entropy))
        };
        let pairs: Vec<Vec<Option<(Arc, f64)>>> =
            (0..count).map(|a| (0..count).map(|b| if a == b { None } else { pair(a, b) }).collect()).collect();
        // The root is the structure that says most about all others.
        let sum = |a: usize| pairs[a].iter().flatten().map(|(_, entropy)| entropy).sum::<f64>();
        let known = |a: usize| pairs[a].iter().flatten().count();
        let root = (0..count).min_by(|&a, &b| known(b).cmp(&known(a)).then(sum(a).total_cmp(&sum(b))))?;
        // Prim's algorithm; ties go to the lower places.
        let mut inside = vec![root];
        let mut arcs = Vec::new();
        loop {
            let next = inside
                .iter()
                .flat_map(|&a| pairs[a].iter().flatten())
                .filter(|(arc, _)| !inside.contains(&arc.to))
                .min_by(|x, y| x.1.total_cmp(&y.1).then((x.0.from, x.0.to).cmp(&(y.0.from, y.0.to))));
            let Some((arc, _)) = next else { break };
            inside.push(arc.to);
            arcs.push(arc.clone());
        }
        if arcs.is_empty() {
            return None;
        }
        let place = |s: usize| {
            let offsets: Vec<Vector3<f64>> = poses[s].iter().zip(middles).filter_map(|(p, m)| Some(p.as_ref()?.center.0 - m.0)).collect();
            let usable = use_places && !priors[s].any_orientation;
            if usable { Gaussian::fit(&offsets, FLOOR * priors[s].scale_mm).map(|(g, _)| g) } else { None }
        };
        Some(Self { arcs, places: (0..count).map(place).collect(), sizes_mm: priors.iter().map(|p| p.mean_size_mm).collect() })
    }

    /// Where the best few candidates of each structure's neighbours expect it.
    pub(crate) fn proposals(&self, found: &[Candidates]) -> Vec<Vec<Pose>> {
        let mut proposed = vec![Vec::new(); found.len()];
        let best = |s: usize| {
            let mut order: Vec<usize> = (0..found[s].poses.len()).collect();
            order.sort_by(|&a, &b| found[s].log_odds[b].total_cmp(&found[s].log_odds[a]).then(a.cmp(&b)));
            order.truncate(PROPOSERS);
            order.into_iter().map(move |n| &found[s].poses[n])
        };
        for arc in &self.arcs {
            proposed[arc.to].extend(best(arc.from).map(|pose| arc.forth(pose, self.sizes_mm[arc.to])));
            proposed[arc.from].extend(best(arc.to).map(|pose| arc.back(pose, self.sizes_mm[arc.from])));
        }
        proposed
    }

    /// The candidates that agree best: the sum of their log-odds and of the log densities of places and relative positions.
    /// Every structure must have a candidate.
    pub(crate) fn choose(&self, found: &[Candidates], middle: PointLps) -> Vec<Choice> {
        let unary: Vec<Vec<f64>> = found
            .iter()
            .zip(&self.places)
            .map(|(c, place)| {
                let place = |p: &Pose| place.as_ref().map_or(0.0, |g| g.log_density(&(p.center.0 - middle.0)));
                c.poses.iter().zip(&c.log_odds).map(|(p, odds)| odds.clamp(-SUREST, SUREST) + place(p)).collect()
            })
            .collect();
        let arc_terms: Vec<Vec<Vec<f64>>> = self
            .arcs
            .iter()
            .map(|arc| found[arc.from].poses.iter().map(|a| found[arc.to].poses.iter().map(|b| arc.log_density(a, b)).collect()).collect())
            .collect();
        // What lies behind each arc, seen from its start and from its end; arcs are ordered from the root outwards.
        let mut below = unary.clone();
        let mut up = vec![Vec::new(); self.arcs.len()];
        for (n, arc) in self.arcs.iter().enumerate().rev() {
            up[n] = (0..unary[arc.from].len())
                .map(|a| best_of((0..unary[arc.to].len()).map(|b| arc_terms[n][a][b] + below[arc.to][b])))
                .collect();
            for (sum, message) in below[arc.from].iter_mut().zip(&up[n]) {
                *sum += message;
            }
        }
        // Max-marginals: the best total with a structure at each of its candidates.
        let mut total = below.clone();
        for (n, arc) in self.arcs.iter().enumerate() {
            let from: Vec<f64> = (0..unary[arc.from].len()).map(|a| total[arc.from][a] - up[n][a]).collect();
            total[arc.to] = (0..unary[arc.to].len())
                .map(|b| below[arc.to][b] + best_of((0..from.len()).map(|a| arc_terms[n][a][b] + from[a])))
                .collect();
        }
        (0..found.len())
            .map(|s| {
                let index = (0..total[s].len()).max_by(|&a, &b| total[s][a].total_cmp(&total[s][b]).then(b.cmp(&a))).unwrap_or(0);
                let apart = APART * libm::cbrt(self.sizes_mm[s].iter().product());
                let chosen = &found[s].poses[index];
                let elsewhere = (0..total[s].len()).filter(|&n| found[s].poses[n].center.distance_mm(&chosen.center) > apart);
                Choice { index, margin: total[s][index] - best_of(elsewhere.map(|n| total[s][n])) }
            })
            .collect()
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
            from && !std::mem::replace(&mut inside[arc.to], true) && arc.shift.is_valid()
        });
        tree && self.places.len() == structures
            && self.sizes_mm.len() == structures
            && self.places.iter().flatten().all(Gaussian::is_valid)
            && self.sizes_mm.iter().flatten().all(|s| s.is_finite() && *s > 0.0)
    }
}

/// Least standard deviation of a relative position, in D.
const FLOOR: f64 = 0.06;

/// Candidates of a structure that propose poses of its neighbours.
const PROPOSERS: usize = 4;

/// Farther than this from the chosen one, in D, a candidate is another place.
const APART: f64 = 0.4;

fn best_of(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

impl Arc {
    fn log_density(&self, from: &Pose, to: &Pose) -> f64 {
        self.shift.log_density(&Step::between(from, to).shift_mm)
    }

    fn forth(&self, from: &Pose, size_mm: [f64; 3]) -> Pose {
        Pose {
            center: PointLps(from.center.0 + from.orientation * Vector3::from(self.shift.mean_mm)),
            orientation: positive(from.orientation * self.rotation),
            size_mm,
        }
    }

    fn back(&self, to: &Pose, size_mm: [f64; 3]) -> Pose {
        let orientation = to.orientation * self.rotation.inverse();
        Pose {
            center: PointLps(to.center.0 - orientation * Vector3::from(self.shift.mean_mm)),
            orientation: positive(orientation),
            size_mm,
        }
    }
}
