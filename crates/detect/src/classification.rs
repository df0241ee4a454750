//! The classification finish, the patent's way: size hypotheses, then rounds of finer and finer
//! pose hypotheses round every mode.

use crate::DetectError;
use crate::classifier::{Labelled, PoseClassifier};
use crate::cover::Random;
use crate::modes::mean;
use crate::orientation::{grid_for, levels_for};
use crate::perturb::{Reach, perturbed};
use crate::stage_input::StageInput;
use pbt_features::steerable_pool;
use pbt_tree::{Backend, PoseSite, Steerable, best_indices};
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// Which hypotheses a round draws round each mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoundSpec {
    /// How far hypotheses lie from the mode.
    pub reach: Reach,
    /// Hypotheses a mode.
    pub hypotheses: usize,
    /// Share of them, the best, whose mean goes on.
    pub best: f64,
    /// How often the round is run.
    pub repeats: usize,
    /// Seed of the draw, so that a model always tries the same steps.
    pub seed: u64,
}

/// One round: draw, score, average.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// What it draws.
    pub spec: RoundSpec,
    /// What scores the hypotheses.
    pub classifier: PoseClassifier,
}

/// The trained rounds; the first varies mostly the size, the size stage of marginal space learning.
#[derive(Debug, Clone, PartialEq)]
pub struct Rounds {
    /// In the order in which they are run.
    pub rounds: Vec<Round>,
}

impl Rounds {
    /// Trains rounds of shrinking reach.
    pub(crate) fn train<B: Backend>(input: &StageInput<'_, B>) -> Result<Self, DetectError> {
        let &StageInput { backend, cases, images, working, prior, .. } = input;
        let (config, orientation, classifier) =
            (&input.config.finish, &input.config.orientation, &input.config.classifier);
        let seed = input.seed ^ 0x30;
        let d = prior.scale_mm;
        // Structures beyond the training sizes must be within reach too.
        let size = (4.0 * prior.log_size_spread).clamp(0.15, 0.4);
        let grid = grid_for(prior, orientation.points_across * 1.2, 0.1 * d);
        let mut rounds = Vec::new();
        for (n, round) in config.rounds.iter().enumerate() {
            let reach = Reach {
                angle: round.degrees.to_radians(),
                center_mm: round.shift * d,
                log_size: size * round.size,
            };
            let pool = steerable_pool(
                &grid,
                orientation.features,
                &levels_for(prior, working, &round.voxels_across),
            );
            let seed = seed.wrapping_add(n as u64);
            let samples = Labelled::concat(
                cases
                    .iter()
                    .enumerate()
                    .map(|(n, case)| draw(n, &case.pose, &reach, cases.len(), seed)),
            );
            let classifier = PoseClassifier::train(
                backend,
                images,
                Steerable { grid },
                &pool,
                &samples,
                classifier,
                seed,
            )?;
            rounds.push(Round {
                spec: RoundSpec {
                    reach,
                    hypotheses: config.hypotheses,
                    best: 0.125,
                    repeats: round.repeats,
                    seed,
                },
                classifier,
            });
        }
        Ok(Self { rounds })
    }

    /// Each pose brought to the mean of the best hypotheses round it, round by round.
    pub fn apply<B: Backend>(&self, backend: &B, image: &B::Image, poses: &[Pose]) -> Vec<Pose> {
        let run = |pose: &Pose, round: &Round| {
            (0..round.spec.repeats).fold(*pose, |p, _| round.apply(backend, image, &p))
        };
        self.rounds
            .iter()
            .fold(poses.to_vec(), |poses, round| poses.iter().map(|p| run(p, round)).collect())
    }
}

impl Round {
    fn apply<B: Backend>(&self, backend: &B, image: &B::Image, pose: &Pose) -> Pose {
        let mut random = Random::new(self.spec.seed, 6, 0);
        // Beyond the outer hypotheses there is nothing to average on their far side: draw a little
        // wider than trained.
        let hypotheses: Vec<Pose> = (0..self.spec.hypotheses)
            .map(|_| perturbed(pose, &self.spec.reach, &mut random))
            .collect();
        let scores = self.classifier.score(backend, image, &hypotheses);
        let best = ((self.spec.hypotheses as f64 * self.spec.best) as usize).max(1);
        mean(best_indices(&scores, best).into_iter().map(|n| &hypotheses[n])).unwrap_or(*pose)
    }
}

/// Positives within a third of the reach, negatives from there out to its whole.
fn draw(n: usize, truth: &Pose, reach: &Reach, cases: usize, seed: u64) -> Labelled<PoseSite> {
    let mut random = Random::new(seed, 5, n as u64);
    let mut samples = Labelled::new();
    let each = (6000 / cases).clamp(20, 200);
    let inner = reach.scaled(0.35);
    for _ in 0..each {
        samples.push(
            PoseSite { image: n as u32, pose: perturbed(truth, &inner, &mut random) },
            true,
            n,
        );
    }
    for m in 0..4 * each {
        let outer = reach.scaled(if m % 2 == 0 { 1.0 } else { 1.6 });
        let pose = perturbed(truth, &outer, &mut random);
        if !reach.scaled(0.5).holds(truth, &pose) {
            samples.push(PoseSite { image: n as u32, pose }, false, n);
        }
    }
    samples
}
