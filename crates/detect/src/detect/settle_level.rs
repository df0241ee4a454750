//! Decides, after the network's choice, at which level a chain of look-alikes (a spine) stands.

use crate::DetectError;
use crate::detect::detection::Trace;
use crate::log_odds::believed;
use crate::model::Model;
use crate::network::choice::Choice;
use crate::network::graph::Network;
use crate::network::level_shift::{LevelShiftTest, SHIFTS, ladder};
use pbt_tree::Backend;
use pbt_volume::{Geometry, Pose};

/// A chosen pose within this of a rung, in D, stands on it.
const SAME_RUNG: f64 = 0.35;

/// A score is the mean of what two classifiers say of a pose; of a level their sum counts. Two of 32
/// held-out spines that were a level off came to the right one with it, and none went wrong.
const CLASSIFIERS: f64 = 2.0;

impl Model {
    /// Shifts the names of a chain's members to the level best supported by context, place and the
    /// members' own detectors, if the test is the one for such an image.
    pub(super) fn settle_level<B: Backend>(
        &self,
        backend: &B,
        (on, view): (&B::Image, &Geometry),
        network: &Network,
        test: &LevelShiftTest,
        searches: &mut [(usize, Trace)],
        choices: &mut [Choice],
    ) -> Result<(), DetectError> {
        let (members, middle) = (&test.spec.members, view.center());
        let pose = |searches: &[(usize, Trace)], choices: &[Choice], s: usize| {
            searches[s].1.converged[choices[s].index]
        };
        let chosen: Vec<Pose> = members.iter().map(|&s| pose(searches, choices, s)).collect();
        if !test.serves(network.is_part(view, members, &chosen), &self.level_shifts) {
            return Ok(());
        }
        let rungs = ladder(
            backend,
            on,
            network,
            &self.structures[members[0]].refinement,
            members,
            &chosen,
        )?;
        // The best level is doubtful when the image does not support it by itself, or when another
        // level is nearly as good with image and place together.
        let mut seen = test.log_odds(backend, (on, view), &rungs)?;
        let mut places = vec![0.0; seen.len()];
        // The members' detectors learned from the same cases, so their log-odds are averaged, not
        // added.
        let share = 1.0 / members.len() as f64;
        for (n, &s) in members.iter().enumerate() {
            let here = &rungs[n..n + seen.len()];
            let scores = self.structures[s].scores(backend, on, here)?;
            let classifiers =
                if self.structures[s].prior.any_orientation { 1.0 } else { CLASSIFIERS };
            for (first, (score, pose)) in scores.into_iter().zip(here).enumerate() {
                // Nothing is known of what is out of view.
                if view.voxels_outside(pose.center) <= 0.0 {
                    seen[first] += share * classifiers * believed(score.log_odds());
                }
                // Nor of where somebody cut the image.
                if !test.spec.of_parts {
                    places[first] += share * network.center_log_density(s, pose, middle);
                }
            }
        }
        let totals: Vec<f64> = seen.iter().zip(&places).map(|(a, b)| a + b).collect();
        let best = (0..totals.len())
            .fold(SHIFTS, |best, n| if totals[n] > totals[best] { n } else { best });
        let second = (0..totals.len())
            .filter(|&n| n != best)
            .map(|n| totals[n])
            .fold(f64::NEG_INFINITY, f64::max);
        // What is out of view cannot speak for a level, so that in a part of a chain the others being
        // less likely has to do.
        let lead = match totals[best] - second {
            lead if test.spec.of_parts && seen[best] > 0.0 => lead,
            lead => lead.min(seen[best]),
        };
        for (n, &s) in members.iter().enumerate() {
            let (structure, trace) = (&self.structures[s], &mut searches[s].1);
            let there = rungs[best + n];
            if chosen[n].center.distance_mm(&there.center) > SAME_RUNG * test.spec.scale_mm {
                choices[s].index = trace.converged.len();
                trace.scores.extend(structure.scores(backend, on, &[there])?);
                trace.modes.push(there);
                trace.converged.push(there);
            }
            choices[s].lead = lead;
        }
        let poses: Vec<Pose> = (0..searches.len()).map(|s| pose(searches, choices, s)).collect();
        for &s in members {
            choices[s].support = network.support(s, |s| &poses[s]);
        }
        Ok(())
    }
}
