//! The joint choice of one pose for each structure, those that agree best: exact on a tree, by dynamic programming.

use crate::log_odds::{SUREST, believed};
use crate::network::graph::Network;
use pbt_tree::{Score, best_indices};
use pbt_volume::{PointLps, Pose};

/// Poses that a structure may have, each with the log-odds of being right as its own detector sees
/// them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hypotheses {
    pub(crate) poses: Vec<Pose>,
    pub(crate) log_odds: Vec<f64>,
    /// Log-odds by what lies about them; empty where nobody looked.
    pub(crate) surroundings: Vec<f64>,
}

/// One structure's part of the best joint choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    /// Index in the structure's candidates.
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
    /// The places that agree best, by the sum of the candidates' log-odds and of the log densities of
    /// places and relative poses, and in each the candidate that its own detector likes best. Every
    /// structure must have a candidate.
    pub(crate) fn choose(&self, found: &[Hypotheses], middle: PointLps) -> Vec<Choice> {
        let unary: Vec<Vec<f64>> = found
            .iter()
            .enumerate()
            .map(|(s, c)| {
                let about = |n: usize| c.surroundings.get(n).map_or(0.0, |odds| believed(*odds));
                c.poses
                    .iter()
                    .zip(&c.log_odds)
                    .enumerate()
                    .map(|(n, (p, odds))| {
                        believed(*odds) + about(n) + self.center_log_density(s, p, middle)
                    })
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
        let place: Vec<usize> =
            total.iter().map(|total| best_index(0..total.len(), |n| total[n])).collect();
        // Neighbours tell which place it is, and which way up; of the pose there its own detector tells more.
        let is_there = |s: usize, n: usize| {
            let d = libm::cbrt(self.sizes_mm[s].iter().product());
            let poses = &found[s].poses;
            poses[n].center.distance_mm(&poses[place[s]].center) <= APART * d
        };
        let index: Vec<usize> = (0..found.len())
            .map(|s| {
                let Hypotheses { poses, log_odds, .. } = &found[s];
                let is_turned = |n: usize| poses[n].angle_to(&poses[place[s]]) > TURNED;
                let there = (0..poses.len()).filter(|&n| is_there(s, n) && !is_turned(n));
                best_index(there, |n| log_odds[n])
            })
            .collect();
        (0..found.len())
            .map(|s| {
                let elsewhere = (0..total[s].len()).filter(|&n| !is_there(s, n));
                Choice {
                    index: index[s],
                    lead: total[s][place[s]] - best_of(elsewhere.map(|n| total[s][n])),
                    support: self.support(s, |s| &found[s].poses[index[s]]),
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
}

/// Edge of the cube, in D, in which a structure may lie by chance.
pub(super) const ANYWHERE: f64 = 4.0;

/// Farther than this from the chosen place, in D, a candidate is another place.
pub(crate) const APART: f64 = 0.4;

/// Rotated by more than this, radians, two poses of one place are not the same box a little off.
pub(super) const TURNED: f64 = 1.0;

/// The first of those with the largest value; 0 without any.
fn best_index(among: impl Iterator<Item = usize>, value: impl Fn(usize) -> f64) -> usize {
    among.max_by(|&a, &b| value(a).total_cmp(&value(b)).then(b.cmp(&a))).unwrap_or(0)
}

fn best_of(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::arc::Arc;
    use crate::network::center_prior::OUT_OF_PLACE;
    use crate::network::fusion::Measured;
    use crate::pose::error::PoseError;
    use crate::pose::prior::Prior;
    use crate::random::test_random;
    use nalgebra::{UnitQuaternion, Vector3};
    use pbt_volume::Random;

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
        learned(3, places).unwrap()
    }

    /// Of so many of the three.
    fn learned(structures: usize, places: bool) -> Option<Network> {
        let mut random = test_random(3);
        let cases: Vec<Vec<Pose>> = (0..30).map(|_| column(&mut random, 8.0)).collect();
        let poses: Vec<Vec<Option<Pose>>> =
            (0..structures).map(|s| cases.iter().map(|c| Some(c[s])).collect()).collect();
        let middles = vec![PointLps::new(0.0, 0.0, 0.0); 30];
        let priors: Vec<Prior> = (0..structures)
            .map(|s| {
                Prior::new(
                    &cases.iter().map(|c| c[s]).collect::<Vec<_>>(),
                    &middles,
                    crate::Orientations::Training,
                )
            })
            .collect();
        Network::train(&poses, &middles, &priors.iter().collect::<Vec<_>>(), places)
    }

    fn candidates(list: &[(Pose, f64)]) -> Hypotheses {
        Hypotheses {
            poses: list.iter().map(|l| l.0).collect(),
            log_odds: list.iter().map(|l| l.1).collect(),
            surroundings: Vec::new(),
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

    #[test]
    fn one_alone_is_told_from_look_alikes_by_its_place() {
        assert!(learned(1, false).is_none());
        let network = learned(1, true).unwrap();
        assert!(network.is_valid(1) && network.arcs.is_empty());
        let alike =
            [(pose(0.0, 0.0, 35.0), 4.0), (pose(0.0, 0.0, 0.0), 3.5), (pose(0.0, 1.0, 0.0), 3.4)];
        let chosen = network.choose(&[candidates(&alike)], PointLps::new(0.0, 0.0, 0.0))[0];
        // Half a unit less by the detector, and up to 4 more by the place.
        assert!(chosen.index == 1 && (2.0..3.5).contains(&chosen.lead), "{chosen:?}");
        assert_eq!(chosen.support, 0.0);
        // Where the image is cut so that the place tells nothing, the choice is left in doubt.
        let chosen = network.choose(&[candidates(&alike)], PointLps::new(300.0, 0.0, 0.0))[0];
        assert!(chosen.index == 0 && (chosen.lead - 0.5).abs() < 1e-9, "{chosen:?}");
        // Nobody says more.
        assert!(network.proposals(&[candidates(&alike)])[0].is_empty());
        let error = PoseError { center_mm: [1.0; 3], angle_rad: [0.1; 3] };
        let measured = Measured { pose: alike[0].0, error };
        let fused = network.fused(&[Some(measured)])[0].unwrap();
        assert!(fused.angle_to(&alike[0].0) < 1e-9);
    }

    /// All combinations are the oracle of the dynamic programming.
    #[test]
    fn the_choice_is_the_best_of_all_combinations() {
        let network = trained(true);
        let mut random = test_random(9);
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
                            .0
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
            // At the best place, what the structure's own detector likes best.
            let own = |s: usize| {
                let Hypotheses { poses, log_odds, .. } = &found[s];
                let at = &poses[best[s]].center;
                (0..4)
                    .filter(|&n| poses[n].center.distance_mm(at) <= APART * D)
                    .max_by(|&a, &b| log_odds[a].total_cmp(&log_odds[b]))
                    .unwrap()
            };
            let choices = network.choose(&found, PointLps::new(0.0, 0.0, 0.0));
            assert_eq!([0, 1, 2].map(|s| choices[s].index), [0, 1, 2].map(own));
        }
    }

    #[test]
    fn a_box_that_is_turned_over_is_not_taken_for_its_score() {
        let network = trained(false);
        let over = Pose {
            orientation: UnitQuaternion::from_axis_angle(&Vector3::x_axis(), core::f64::consts::PI),
            ..pose(0.0, 0.0, 36.0)
        };
        let middle = [(pose(0.0, 0.0, 35.0), 1.0), (over, 3.0), (pose(0.0, 0.0, 37.0), 2.0)];
        let at = |z: f64| candidates(&[(pose(0.0, 0.0, z), 3.0)]);
        let found = [at(0.0), candidates(&middle), at(70.0)];
        // Of the two that stand upright the one that its own detector likes better.
        assert_eq!(network.choose(&found, PointLps::new(0.0, 0.0, 0.0))[1].index, 2);
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
