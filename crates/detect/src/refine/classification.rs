//! The classification refinement, the patent's way: size hypotheses, then passes of finer and finer
//! pose hypotheses about every mode.

use crate::DetectError;
use crate::pose::modes::mean;
use crate::pose::step::{Reach, perturbed};
use crate::random::Stream;
use crate::stages::classifier::{Labelled, PoseClassifier};
use crate::stages::input::StageInput;
use crate::stages::sampling::{grid_for, levels_for};
use pbt_features::steerable_pool;
use pbt_tree::{Backend, PoseSite, Steerable, best_indices};
use pbt_volume::Pose;
use pbt_volume::Random;
use serde::{Deserialize, Serialize};

/// Which hypotheses a pass draws around each mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PassSpec {
    /// How far hypotheses lie from the mode.
    pub reach: Reach,
    /// Hypotheses a mode.
    pub hypotheses: usize,
    /// Share of them, the best, whose mean goes on.
    pub best: f64,
    /// How often the pass is run.
    pub repeats: usize,
    /// Seed of the draw, so that a model always tries the same steps.
    pub seed: u64,
}

/// One pass: draw, score, average.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassificationPass {
    /// What it draws.
    pub spec: PassSpec,
    /// What scores the hypotheses.
    pub classifier: PoseClassifier,
}

/// The trained passes; the first varies mostly the size, the size stage of marginal space learning.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassificationPasses {
    /// In the order in which they are run.
    pub passes: Vec<ClassificationPass>,
}

impl ClassificationPasses {
    /// Trains passes of shrinking reach.
    pub(crate) fn train<B: Backend>(input: &StageInput<'_, B>) -> Result<Self, DetectError> {
        let &StageInput { backend, cases, images, working, prior, .. } = input;
        let (config, orientation, classifier) =
            (&input.config.refinement, &input.config.orientation, &input.config.classifier);
        let d = prior.scale_mm;
        // Structures beyond the training sizes must be within reach too.
        let size = (4.0 * prior.log_size_spread).clamp(0.15, 0.4);
        let grid = grid_for(prior, orientation.points_across * 1.2, 0.1 * d);
        let mut passes = Vec::new();
        for (n, pass) in config.passes.iter().enumerate() {
            let reach = Reach {
                angle_rad: pass.degrees.to_radians(),
                center_mm: pass.shift * d,
                log_size: size * pass.size,
            };
            let pool = steerable_pool(
                &grid,
                orientation.features,
                &levels_for(prior, working, &pass.voxels_across),
            );
            let seed = input.seeds.derive(Stream::PassClassifier, n);
            let poses = Stream::PassPoses { pass: n };
            let samples = Labelled::concat(cases.iter().enumerate().map(|(n, case)| {
                draw(n, &case.pose, &reach, cases.len(), &mut input.seeds.random(poses, n))
            }));
            let classifier = PoseClassifier::train(
                backend,
                images,
                Steerable { grid },
                &pool,
                &samples,
                classifier,
                seed,
            )?;
            passes.push(ClassificationPass {
                spec: PassSpec {
                    reach,
                    hypotheses: config.hypotheses,
                    best: 0.125,
                    repeats: pass.repeats,
                    seed: input.seeds.derive(Stream::PassHypotheses, n),
                },
                classifier,
            });
        }
        Ok(Self { passes })
    }

    /// Each pose brought to the mean of the best hypotheses around it, pass by pass.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub fn apply<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        poses: &[Pose],
    ) -> Result<Vec<Pose>, DetectError> {
        let run = |pose: &Pose, pass: &ClassificationPass| {
            (0..pass.spec.repeats).try_fold(*pose, |p, _| pass.apply(backend, image, &p))
        };
        self.passes
            .iter()
            .try_fold(poses.to_vec(), |poses, pass| poses.iter().map(|p| run(p, pass)).collect())
    }
}

impl ClassificationPass {
    fn apply<B: Backend>(
        &self,
        backend: &B,
        image: &B::Image,
        pose: &Pose,
    ) -> Result<Pose, DetectError> {
        let mut random = Random::from_seed(self.spec.seed);
        let hypotheses: Vec<Pose> = (0..self.spec.hypotheses)
            .map(|_| perturbed(pose, &self.spec.reach, &mut random))
            .collect();
        let scores = self.classifier.score(backend, image, &hypotheses)?;
        let best = ((self.spec.hypotheses as f64 * self.spec.best) as usize).max(1);
        Ok(mean(best_indices(&scores, best).into_iter().map(|n| &hypotheses[n])).unwrap_or(*pose))
    }
}

/// Positives within a third of the reach, negatives from there out to its whole.
fn draw(
    n: usize,
    truth: &Pose,
    reach: &Reach,
    cases: usize,
    random: &mut Random,
) -> Labelled<PoseSite> {
    let mut samples = Labelled::new();
    let each = (6000 / cases).clamp(20, 200);
    let inner = reach.scaled(0.35);
    for _ in 0..each {
        samples.push(PoseSite { image: n as u32, pose: perturbed(truth, &inner, random) }, true, n);
    }
    for m in 0..4 * each {
        let outer = reach.scaled(if m % 2 == 0 { 1.0 } else { 1.6 });
        let pose = perturbed(truth, &outer, random);
        if !reach.scaled(0.5).holds(truth, &pose) {
            samples.push(PoseSite { image: n as u32, pose }, false, n);
        }
    }
    samples
}
