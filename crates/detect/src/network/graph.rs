//! The network of structures: what the pose of one says about the others, and the choice of one
//! pose a structure that agree best.
//!
//! Nodes are structures, arcs carry Gaussian priors of the relative position in the frame of one of
//! the two (Sofka et al. 2010, section 3.1). Which arcs are kept is learned: the spanning tree with
//! the least entropy. On a tree the best joint choice is exact, by dynamic programming, so
//! look-alikes in a row (vertebrae) are settled together and not one by one.

use crate::pose::prior::Prior;
use crate::pose::step::Step;
use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_tree::{Score, best_indices};
use pbt_volume::{PointLps, Pose, positive, rotation_from_vector, rotation_to_vector};
use serde::{Deserialize, Serialize};

/// A normal distribution of a vector: of a position, mm, or of a rotation vector, radians.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gaussian {
    /// Mean.
    pub mean: [f64; 3],
    /// Inverse covariance, row-major.
    pub precision: [[f64; 3]; 3],
}

impl Gaussian {
    /// Fits the points; the covariance of few points is too small by about n/(n − 4), and never
    /// below `floor`².
    fn fit(points: &[Vector3<f64>], floor: f64) -> Option<(Self, f64)> {
        let n = points.len() as f64;
        if points.len() < FEWEST {
            return None;
        }
        let mean = points.iter().sum::<Vector3<f64>>() / n;
        let scatter =
            points.iter().map(|p| (p - mean) * (p - mean).transpose()).sum::<Matrix3<f64>>();
        let covariance = scatter / (n - 4.0) + Matrix3::identity() * (floor * floor);
        let precision = covariance.try_inverse()?;
        let entropy = 0.5 * libm::log(covariance.determinant());
        let row = |r: usize| [precision[(r, 0)], precision[(r, 1)], precision[(r, 2)]];
        Some((Self { mean: mean.into(), precision: [row(0), row(1), row(2)] }, entropy))
    }

    /// Log density relative to the mean's, not below [`FARTHEST`]: beyond, one position says
    /// nothing about the other.
    fn log_density(&self, point: &Vector3<f64>) -> f64 {
        let d = point - Vector3::from(self.mean);
        let p = &self.precision;
        let squared: f64 =
            (0..3).map(|r| d[r] * (p[r][0] * d.x + p[r][1] * d.y + p[r][2] * d.z)).sum();
        (-0.5 * squared).max(FARTHEST)
    }

    /// Log of the density at the mean, mm⁻³.
    fn log_peak(&self) -> f64 {
        let p = Matrix3::from_fn(|r, c| self.precision[r][c]);
        0.5 * libm::log(p.determinant().max(1e-30)) - 1.5 * libm::log(core::f64::consts::TAU)
    }

    /// Finite numbers that are no larger than [`MOST`], and a covariance that is one: symmetric,
    /// positive definite.
    pub(crate) fn is_valid(&self) -> bool {
        let precision = Matrix3::from_fn(|r, c| self.precision[r][c]);
        let small =
            self.mean.iter().chain(self.precision.iter().flatten()).all(|v| v.abs() <= MOST);
        let scale = (0..3).map(|a| precision[(a, a)]).fold(0.0, f64::max);
        let symmetric = (precision - precision.transpose()).abs().max() <= 1e-6 * scale;
        let minors = [
            precision[(0, 0)],
            precision.fixed_view::<2, 2>(0, 0).determinant(),
            precision.determinant(),
        ];
        small && symmetric && minors.iter().all(|&minor| minor > 0.0)
    }
}

/// No position, mm, and no precision is beyond this.
const MOST: f64 = 1e9;

/// Fewest cases with both structures that an arc is learned from.
const FEWEST: usize = 6;

/// A log density of 4½ standard deviations.
const FARTHEST: f64 = -10.0;

/// A place that is less likely than this, as a log density of 2.8 standard deviations, says that
/// the image is planned otherwise (cropped, say), and no more.
const OUT_OF_PLACE: f64 = -4.0;

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
    pub shift_mm: Gaussian,
    /// The orientation of `to` in the frame of `from`.
    #[serde(with = "crate::pose::quaternion")]
    pub rotation: UnitQuaternion<f64>,
    /// How orientations of `to` vary about that one: rotation vectors in the frame of `to`.
    pub turn_rad: Gaussian,
}

/// The trained network. Part of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Edges of a tree, from the root outwards; the first one starts at the root.
    pub arcs: Vec<Arc>,
    /// Where the centre of a structure lies from the middle of the image, LPS mm, by structure;
    /// none where it may lie anywhere.
    pub center_priors: Vec<Option<Gaussian>>,
    /// Mean size by structure, mm.
    pub sizes_mm: Vec<[f64; 3]>,
}

/// Poses that a structure may have, each with the log-odds of being right as its own detector sees
/// them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hypotheses {
    pub(crate) poses: Vec<Pose>,
    pub(crate) log_odds: Vec<f64>,
}

/// One structure's part of the best joint choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    /// Place in the structure's candidates.
    pub(crate) index: usize,
    /// By how much the best joint choice with this structure elsewhere is worse; infinite where
    /// there is none. Negative where even the best is less likely than not.
    pub(crate) lead: f64,
    /// Log of how much likelier the place is by where the chosen neighbours lie than anywhere in
    /// [`ANYWHERE`]; 0 without neighbours.
    pub(crate) support: f64,
}

impl Choice {
    /// The best of a structure that has no network.
    pub(crate) fn best(scores: &[Score]) -> Self {
        Self {
            index: best_indices(scores, 1).first().copied().unwrap_or(0),
            lead: f64::INFINITY,
            support: 0.0,
        }
    }

    /// Probability that the structure is there and here: its own detector's, with the neighbours'
    /// support, times the probability of this joint choice against the best one elsewhere.
    pub(crate) fn probability(&self, own: f64) -> f64 {
        let odds = own / (1.0 - own).max(1e-12) * libm::exp(self.support);
        odds / (1.0 + odds) / (1.0 + libm::exp(-self.lead))
    }
}

impl Network {
    /// Learns from the poses of each structure by case (`poses[structure][case]`) and the middles
    /// of the cases' images. `None` with fewer than two structures, or where no arc can be learned.
    pub(crate) fn train(
        poses: &[Vec<Option<Pose>>],
        middles: &[PointLps],
        priors: &[&Prior],
        use_center_priors: bool,
    ) -> Option<Self> {
        let count = poses.len();
        let pair = |a: usize, b: usize| -> Option<(Arc, f64)> {
            let steps: Vec<Step> = poses[a]
                .iter()
                .zip(&poses[b])
                .filter_map(|(a, b)| Some(Step::between(a.as_ref()?, b.as_ref()?)))
                .collect();
            let shifts: Vec<Vector3<f64>> = steps.iter().map(|s| s.shift_mm).collect();
            let (shift, entropy) = Gaussian::fit(&shifts, FLOOR * priors[a].scale_mm)?;
            let turns: Vec<Vector3<f64>> = steps.iter().map(|s| s.rotation).collect();
            let rotation =
                rotation_from_vector(turns.iter().sum::<Vector3<f64>>() / turns.len() as f64);
            let about = |turn: &Vector3<f64>| {
                rotation_to_vector(&(rotation.inverse() * rotation_from_vector(*turn)))
            };
            let (turn, _) =
                Gaussian::fit(&turns.iter().map(about).collect::<Vec<_>>(), TURN_FLOOR)?;
            Some((Arc { from: a, to: b, shift_mm: shift, rotation, turn_rad: turn }, entropy))
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
        if arcs.is_empty() {
            return None;
        }
        let center_prior = |s: usize| {
            let offsets: Vec<Vector3<f64>> = poses[s]
                .iter()
                .zip(middles)
                .filter_map(|(p, m)| Some(p.as_ref()?.center.0 - m.0))
                .collect();
            let usable = use_center_priors && !priors[s].any_orientation;
            if usable {
                Gaussian::fit(&offsets, FLOOR * priors[s].scale_mm).map(|(g, _)| g)
            } else {
                None
            }
        };
        Some(Self {
            arcs,
            center_priors: (0..count).map(center_prior).collect(),
            sizes_mm: priors.iter().map(|p| p.mean_size_mm).collect(),
        })
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

    /// The candidates that agree best: the sum of their log-odds and of the log densities of places
    /// and relative poses. Every structure must have a candidate.
    pub(crate) fn choose(&self, found: &[Hypotheses], middle: PointLps) -> Vec<Choice> {
        let unary: Vec<Vec<f64>> = found
            .iter()
            .enumerate()
            .map(|(s, c)| {
                c.poses
                    .iter()
                    .zip(&c.log_odds)
                    .map(|(p, odds)| sure(*odds) + self.center_log_density(s, p, middle))
                    .collect()
            })
            .collect();
        let arc_terms: Vec<Vec<Vec<f64>>> = self
            .arcs
            .iter()
            .map(|arc| {
                found[arc.from]
                    .poses
                    .iter()
                    .map(|a| {
                        found[arc.to].poses.iter().map(|b| arc.log_density_of_poses(a, b)).collect()
                    })
                    .collect()
            })
            .collect();
        // What lies behind each arc, seen from its start and from its end; arcs are ordered from
        // the root outwards.
        let mut below = unary.clone();
        let mut up = vec![Vec::new(); self.arcs.len()];
        for (n, arc) in self.arcs.iter().enumerate().rev() {
            up[n] = (0..unary[arc.from].len())
                .map(|a| {
                    best_of((0..unary[arc.to].len()).map(|b| arc_terms[n][a][b] + below[arc.to][b]))
                })
                .collect();
            for (sum, message) in below[arc.from].iter_mut().zip(&up[n]) {
                *sum += message;
            }
        }
        // Max-marginals: the best total with a structure at each of its candidates.
        let mut total = below.clone();
        for (n, arc) in self.arcs.iter().enumerate() {
            let from: Vec<f64> =
                (0..unary[arc.from].len()).map(|a| total[arc.from][a] - up[n][a]).collect();
            total[arc.to] = (0..unary[arc.to].len())
                .map(|b| {
                    below[arc.to][b]
                        + best_of((0..from.len()).map(|a| arc_terms[n][a][b] + from[a]))
                })
                .collect();
        }
        let index: Vec<usize> = total
            .iter()
            .map(|total| {
                (0..total.len())
                    .max_by(|&a, &b| total[a].total_cmp(&total[b]).then(b.cmp(&a)))
                    .unwrap_or(0)
            })
            .collect();
        (0..found.len())
            .map(|s| {
                let d = libm::cbrt(self.sizes_mm[s].iter().product());
                let support = self.support(s, |s| &found[s].poses[index[s]]);
                let index = index[s];
                let apart = APART * d;
                let chosen = &found[s].poses[index];
                let elsewhere = (0..total[s].len())
                    .filter(|&n| found[s].poses[n].center.distance_mm(&chosen.center) > apart);
                Choice {
                    index,
                    lead: total[s][index] - best_of(elsewhere.map(|n| total[s][n])),
                    support,
                }
            })
            .collect()
    }

    /// Log of how much likelier the place of a structure is by where its neighbours lie than
    /// anywhere in [`ANYWHERE`], mean over its arcs; 0 without neighbours. `pose` gives the poses
    /// of all structures.
    pub(crate) fn support<'a>(&self, s: usize, pose: impl Fn(usize) -> &'a Pose) -> f64 {
        let d = libm::cbrt(self.sizes_mm[s].iter().product());
        let arcs = || self.arcs.iter().filter(|arc| arc.from == s || arc.to == s);
        let supports = arcs().map(|arc| {
            arc.log_density(pose(arc.from), pose(arc.to))
                + arc.shift_mm.log_peak()
                + 3.0 * libm::log(ANYWHERE * d)
        });
        (supports.sum::<f64>() / arcs().count().max(1) as f64).clamp(-SUREST, SUREST)
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

    /// Where a neighbour of a structure that lies here is expected; `None` where no arc joins them.
    pub(crate) fn beside(&self, from: usize, to: usize, pose: &Pose) -> Option<Pose> {
        let size_mm = self.sizes_mm[to];
        self.arcs.iter().find_map(|arc| match (arc.from, arc.to) {
            ends if ends == (from, to) => Some(arc.forth(pose, size_mm)),
            ends if ends == (to, from) => Some(arc.back(pose, size_mm)),
            _ => None,
        })
    }

    /// Log density of a structure's place in the image against that of the mean's; 0 where it may
    /// lie anywhere.
    pub(crate) fn center_log_density(&self, s: usize, pose: &Pose, middle: PointLps) -> f64 {
        self.center_priors[s]
            .as_ref()
            .map_or(0.0, |g| g.log_density(&(pose.center.0 - middle.0)).max(OUT_OF_PLACE))
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
            from && !std::mem::replace(&mut inside[arc.to], true)
                && arc.shift_mm.is_valid()
                && arc.turn_rad.is_valid()
        });
        tree && self.center_priors.len() == structures
            && self.sizes_mm.len() == structures
            && self.center_priors.iter().flatten().all(Gaussian::is_valid)
            && self.sizes_mm.iter().flatten().all(|s| s.is_finite() && *s > 0.0)
    }
}

/// Least standard deviation of a relative orientation, radians.
const TURN_FLOOR: f64 = 0.06;

/// Least standard deviation of a relative position, in D.
const FLOOR: f64 = 0.06;

/// Hypotheses of a structure that propose poses of its neighbours.
const PROPOSERS: usize = 4;

/// Neighbours whose relative position is less likely than this, as a log density against the
/// mean's, do not belong together: 3½ standard deviations.
pub(crate) const BROKEN: f64 = -6.0;

/// Edge of the cube, in D, in which a structure may lie by chance.
const ANYWHERE: f64 = 4.0;

/// Farther than this from the chosen one, in D, a candidate is another place.
const APART: f64 = 0.4;

/// Log-odds as far as they are believed.
pub(crate) fn sure(log_odds: f64) -> f64 {
    log_odds.clamp(-SUREST, SUREST)
}

fn best_of(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

impl Arc {
    /// The position's alone.
    pub(crate) fn log_density(&self, from: &Pose, to: &Pose) -> f64 {
        self.shift_mm.log_density(&Step::between(from, to).shift_mm)
    }

    /// The position's and the orientation's.
    fn log_density_of_poses(&self, from: &Pose, to: &Pose) -> f64 {
        let step = Step::between(from, to);
        let turn =
            rotation_to_vector(&(self.rotation.inverse() * rotation_from_vector(step.rotation)));
        self.shift_mm.log_density(&step.shift_mm) + self.turn_rad.log_density(&turn)
    }

    /// Where `to` is expected of a pose of `from`.
    pub(crate) fn forth(&self, from: &Pose, size_mm: [f64; 3]) -> Pose {
        Pose {
            center: PointLps(from.center.0 + from.orientation * Vector3::from(self.shift_mm.mean)),
            orientation: positive(from.orientation * self.rotation),
            size_mm,
        }
    }

    /// Where `from` is expected of a pose of `to`.
    pub(crate) fn back(&self, to: &Pose, size_mm: [f64; 3]) -> Pose {
        let orientation = to.orientation * self.rotation.inverse();
        Pose {
            center: PointLps(to.center.0 - orientation * Vector3::from(self.shift_mm.mean)),
            orientation: positive(orientation),
            size_mm,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const D: f64 = 30.0;

    fn pose(x: f64, y: f64, z: f64) -> Pose {
        Pose {
            center: PointLps::new(x, y, z),
            orientation: UnitQuaternion::identity(),
            size_mm: [D; 3],
        }
    }

    /// Three structures in a column 35 mm apart, `shift` above the middle of the image.
    fn column(random: &mut Random, spread: f64) -> Vec<Pose> {
        let mut at = Vector3::new(
            random.normal() * spread,
            random.normal() * spread,
            random.normal() * spread,
        );
        (0..3)
            .map(|_| {
                let p = pose(at.x, at.y, at.z);
                at += Vector3::new(random.normal(), random.normal(), 35.0 + random.normal());
                p
            })
            .collect()
    }

    fn trained(places: bool) -> Network {
        let mut random = Random::for_test(3);
        let cases: Vec<Vec<Pose>> = (0..30).map(|_| column(&mut random, 8.0)).collect();
        let poses: Vec<Vec<Option<Pose>>> =
            (0..3).map(|s| cases.iter().map(|c| Some(c[s])).collect()).collect();
        let middles = vec![PointLps::new(0.0, 0.0, 0.0); 30];
        let priors: Vec<Prior> = (0..3)
            .map(|s| {
                Prior::new(
                    &cases.iter().map(|c| c[s]).collect::<Vec<_>>(),
                    &middles,
                    crate::Orientations::Training,
                )
            })
            .collect();
        Network::train(&poses, &middles, &priors.iter().collect::<Vec<_>>(), places).unwrap()
    }

    fn candidates(list: &[(Pose, f64)]) -> Hypotheses {
        Hypotheses {
            poses: list.iter().map(|l| l.0).collect(),
            log_odds: list.iter().map(|l| l.1).collect(),
        }
    }

    #[test]
    fn neighbours_outvote_a_detector_that_is_one_level_off() {
        let network = trained(false);
        // The tree joins neighbours, not the ends.
        assert!(
            network.is_valid(3) && network.arcs.iter().all(|a| a.from.abs_diff(a.to) == 1),
            "{:?}",
            network.arcs
        );
        let column = [
            pose(0.0, 0.0, 0.0),
            pose(0.0, 0.0, 35.0),
            pose(0.0, 0.0, 70.0),
            pose(0.0, 0.0, 105.0),
        ];
        let found = [
            candidates(&[(column[0], 1.0), (column[1], -1.0)]),
            candidates(&[(column[2], 1.5), (column[1], 1.0)]),
            candidates(&[(column[3], 0.0), (column[2], 1.0)]),
        ];
        let choices = network.choose(&found, PointLps::new(0.0, 0.0, 0.0));
        assert_eq!(choices.iter().map(|c| c.index).collect::<Vec<_>>(), [0, 1, 1]);
        // Elsewhere: the whole column one level further, 1 + 1 + 1 against -1 + 1.5 + 0.
        assert!(
            choices.iter().all(|c| (c.lead - 2.5).abs() < 0.3 && c.support > 3.0),
            "{choices:?}"
        );
        // Sure neighbours make up for a doubtful detector, but not for a joint choice that has a
        // rival.
        assert!(choices[0].probability(0.1) > 0.6 && choices[0].probability(0.999) < 0.95);
    }

    #[test]
    fn the_place_in_the_image_settles_what_looks_alike() {
        let column = [
            pose(0.0, 0.0, 0.0),
            pose(0.0, 0.0, 35.0),
            pose(0.0, 0.0, 70.0),
            pose(0.0, 0.0, 105.0),
        ];
        let found: Vec<Hypotheses> =
            (0..3).map(|s| candidates(&[(column[s + 1], 0.1), (column[s], 0.0)])).collect();
        for (places, expected) in [(false, 0), (true, 1)] {
            let choices = trained(places).choose(&found, PointLps::new(0.0, 0.0, 0.0));
            assert!(choices.iter().all(|c| c.index == expected), "{choices:?}");
        }
    }

    /// All combinations are the oracle of the dynamic programming.
    #[test]
    fn the_choice_is_the_best_of_all_combinations() {
        let network = trained(true);
        let mut random = Random::for_test(9);
        for _ in 0..50 {
            let found: Vec<Hypotheses> = (0..3)
                .map(|s| {
                    let near = |random: &mut Random| {
                        pose(
                            random.normal() * 6.0,
                            random.normal() * 6.0,
                            35.0 * s as f64 + random.normal() * 20.0,
                        )
                    };
                    candidates(
                        &(0..4)
                            .map(|_| (near(&mut random), random.normal() * 2.0))
                            .collect::<Vec<_>>(),
                    )
                })
                .collect();
            let total = |choice: [usize; 3]| -> f64 {
                let unary: f64 = (0..3)
                    .map(|s| {
                        let (c, place) = (&found[s], network.center_priors[s].as_ref().unwrap());
                        let density = place
                            .log_density(&c.poses[choice[s]].center.0.coords)
                            .max(OUT_OF_PLACE);
                        c.log_odds[choice[s]].clamp(-SUREST, SUREST) + density
                    })
                    .sum();
                let arc = |a: &Arc| {
                    a.log_density_of_poses(
                        &found[a.from].poses[choice[a.from]],
                        &found[a.to].poses[choice[a.to]],
                    )
                };
                unary + network.arcs.iter().map(arc).sum::<f64>()
            };
            let best = (0..64)
                .map(|n| [n % 4, n / 4 % 4, n / 16])
                .max_by(|&a, &b| total(a).total_cmp(&total(b)))
                .unwrap();
            let choices = network.choose(&found, PointLps::new(0.0, 0.0, 0.0));
            assert_eq!([0, 1, 2].map(|s| choices[s].index), best);
        }
    }

    #[test]
    fn proposals_lie_where_neighbours_expect_them() {
        let network = trained(false);
        let found: Vec<Hypotheses> =
            (0..3).map(|s| candidates(&[(pose(0.0, 0.0, 35.0 * s as f64), 1.0)])).collect();
        for (s, proposed) in network.proposals(&found).iter().enumerate() {
            assert!(!proposed.is_empty());
            assert!(
                proposed.iter().all(|p| p.center.distance_mm(&found[s].poses[0].center) < 2.0),
                "{proposed:?}"
            );
        }
    }
}
