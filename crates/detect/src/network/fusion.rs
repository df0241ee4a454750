//! What neighbours say of the orientation of a pose that was found.
//!
//! The refinement ends about the truth with the errors that [`PoseError`] has; a neighbour expects
//! the structure's orientation with the errors of its own and those of the arc between them. All are
//! taken as normal and independent, so the best estimate is the mean of what they say, weighted by the
//! inverse covariances (generalised least squares: Aitken 1936). A pose that its own detector doubts
//! weighs less. Of the place neighbours know too little: where it counted, too, heads and necks were
//! worse, and spines no better.

use crate::network::arc::Arc;
use crate::network::choice::TURNED;
use crate::network::gaussian::Gaussian;
use crate::network::graph::{BROKEN, Network};
use crate::pose::error::PoseError;
use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_volume::{Pose, positive, rotation_from_vector, rotation_to_vector};

/// A pose that was found, with the errors to be expected of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) pose: Pose,
    pub(crate) error: PoseError,
}

/// An orientation with the covariance of its rotation vector in its own frame, radians².
struct Estimate {
    orientation: UnitQuaternion<f64>,
    covariance: Matrix3<f64>,
}

impl Network {
    /// The poses of the structures that were found, each turned to where its neighbours say, too; by
    /// structure. Places and sizes stay.
    pub(crate) fn fused(&self, found: &[Option<Measured>]) -> Vec<Option<Pose>> {
        let mut estimates: Vec<Vec<Estimate>> = found.iter().map(|_| Vec::new()).collect();
        for arc in &self.arcs {
            let (Some(from), Some(to)) = (&found[arc.from], &found[arc.to]) else { continue };
            if arc.log_density(&from.pose, &to.pose) > BROKEN {
                // One that is turned is wrong, or the approximation of small angles fails.
                let agree = |own: &Measured, estimate: &Estimate| {
                    own.pose.orientation.angle_to(&estimate.orientation) < TURNED
                };
                estimates[arc.to]
                    .extend(arc.estimate_forth(from).filter(|estimate| agree(to, estimate)));
                estimates[arc.from]
                    .extend(arc.estimate_back(to).filter(|estimate| agree(from, estimate)));
            }
        }
        found
            .iter()
            .zip(&estimates)
            .map(|(own, estimates)| Some(own.as_ref()?.with(estimates)))
            .collect()
    }
}

impl Measured {
    /// What the structure's own detector and its neighbours say together.
    fn with(&self, estimates: &[Estimate]) -> Pose {
        let turned =
            |o: &Estimate| rotation_to_vector(&(self.pose.orientation.inverse() * o.orientation));
        let rotation = offset(
            &self.error.turn_covariance(),
            estimates.iter().map(|o| (turned(o), &o.covariance)),
        );
        let orientation = positive(self.pose.orientation * rotation_from_vector(rotation));
        Pose { orientation, ..self.pose }
    }
}

/// Offset from the own estimate to the mean weighted by precision; `others` are given as offsets.
/// Zero where the own covariance is singular.
fn offset<'a>(
    own: &Matrix3<f64>,
    others: impl Iterator<Item = (Vector3<f64>, &'a Matrix3<f64>)>,
) -> Vector3<f64> {
    let Some(mut weights) = own.try_inverse() else { return Vector3::zeros() };
    let mut sum = Vector3::zeros();
    for (value, covariance) in others {
        if let Some(weight) = covariance.try_inverse() {
            weights += weight;
            sum += weight * value;
        }
    }
    weights.try_inverse().map_or(Vector3::zeros(), |covariance| covariance * sum)
}

impl Arc {
    /// What the pose of `from` says of `to`.
    fn estimate_forth(&self, from: &Measured) -> Option<Estimate> {
        let relative = self.rotation.to_rotation_matrix().into_inner();
        let covariance = self.turn_rad.covariance()?
            + relative.transpose() * from.error.turn_covariance() * relative;
        Some(Estimate { orientation: from.pose.orientation * self.rotation, covariance })
    }

    /// What the pose of `to` says of `from`.
    fn estimate_back(&self, to: &Measured) -> Option<Estimate> {
        let relative = self.rotation.to_rotation_matrix().into_inner();
        let covariance = relative
            * (self.turn_rad.covariance()? + to.error.turn_covariance())
            * relative.transpose();
        Some(Estimate { orientation: to.pose.orientation * self.rotation.inverse(), covariance })
    }
}

impl Gaussian {
    /// `None` where some direction is not bounded.
    fn covariance(&self) -> Option<Matrix3<f64>> {
        Matrix3::from_fn(|r, c| self.precision[r][c]).try_inverse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pose::prior::Prior;
    use crate::pose::step::Step;
    use crate::random::test_random;
    use pbt_volume::PointLps;
    use pbt_volume::Random;

    const STEP_MM: f64 = 1.5;
    const STEP_ANGLE: f64 = 0.05;
    const ERROR: PoseError =
        PoseError { center_mm: [0.5, 1.0, 2.0], angle_rad: [0.06, 0.04, 0.04] };

    /// Three structures in a row, each a little turned against the one before, about 35 mm apart.
    fn row(random: &mut Random) -> Vec<Pose> {
        let mut pose = Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: random.rotation_by(0.0, 0.5),
            size_mm: [30.0; 3],
        };
        let mut row = vec![pose];
        for _ in 0..2 {
            let noise =
                |random: &mut Random, size: f64| Vector3::from_fn(|_, _| size * random.normal());
            let rotation = Vector3::new(0.1, 0.0, 0.0) + noise(random, STEP_ANGLE);
            let shift_mm = Vector3::new(0.0, 5.0, 35.0) + noise(random, STEP_MM);
            pose = Step { rotation, shift_mm, log_size: [0.0; 3] }.apply(&pose);
            row.push(pose);
        }
        row
    }

    fn network(random: &mut Random) -> Network {
        let cases: Vec<Vec<Pose>> = (0..60).map(|_| row(random)).collect();
        let poses: Vec<Vec<Option<Pose>>> =
            (0..3).map(|s| cases.iter().map(|case| Some(case[s])).collect()).collect();
        let middles = vec![PointLps::new(0.0, 0.0, 0.0); cases.len()];
        let prior = |s: usize| {
            Prior::new(
                &cases.iter().map(|case| case[s]).collect::<Vec<_>>(),
                &middles,
                crate::Orientations::Training,
            )
        };
        let priors = [prior(0), prior(1), prior(2)];
        Network::train(&poses, &middles, &priors.iter().collect::<Vec<_>>(), false).unwrap()
    }

    fn found(truth: &Pose, random: &mut Random) -> Measured {
        let noise = |deviations: [f64; 3], random: &mut Random| {
            Vector3::from_fn(|a, _| deviations[a] * random.normal())
        };
        let shift_mm = noise(ERROR.center_mm, random);
        let rotation = noise(ERROR.angle_rad, random);
        Measured {
            pose: Step { rotation, shift_mm, log_size: [0.0; 3] }.apply(truth),
            error: ERROR,
        }
    }

    /// Poses as they are, said to have these errors.
    fn measured(truths: &[Pose], error: PoseError) -> Vec<Option<Measured>> {
        truths.iter().map(|&pose| Some(Measured { pose, error })).collect()
    }

    #[test]
    fn neighbours_make_errors_smaller() {
        let mut random = test_random(4);
        let network = network(&mut random);
        let (mut before, mut after) = (0.0, 0.0);
        for _ in 0..300 {
            let truths = row(&mut random);
            let measured: Vec<Option<Measured>> =
                truths.iter().map(|truth| Some(found(truth, &mut random))).collect();
            for ((truth, own), fused) in truths.iter().zip(&measured).zip(network.fused(&measured))
            {
                let (own, fused) = (own.unwrap().pose, fused.unwrap());
                assert_eq!((own.center, own.size_mm), (fused.center, fused.size_mm));
                before += own.angle_to(truth).powi(2);
                after += fused.angle_to(truth).powi(2);
            }
        }
        assert!(after < 0.85 * before, "{before} {after}");
    }

    #[test]
    fn a_structure_that_is_turned_is_turned_back() {
        let mut random = test_random(4);
        let network = network(&mut random);
        let truths = row(&mut random);
        let mut measured = measured(&truths, ERROR);
        let off = truths[2].orientation * rotation_from_vector(Vector3::new(0.4, 0.0, 0.0));
        measured[2] = Some(Measured { pose: Pose { orientation: off, ..truths[2] }, error: ERROR });
        assert!(network.fused(&measured)[2].unwrap().angle_to(&truths[2]) < 0.33);
    }

    #[test]
    fn who_doubts_follows_the_neighbours() {
        let mut random = test_random(4);
        let network = network(&mut random);
        let rows: Vec<Vec<Pose>> = (0..30).map(|_| row(&mut random)).collect();
        let turn = Step {
            rotation: Vector3::new(0.2, 0.0, 0.0),
            shift_mm: Vector3::zeros(),
            log_size: [0.0; 3],
        };
        // Sums over the rows of what is left of the turn.
        let left = |probability: f64| -> f64 {
            let of_row = |truths: &Vec<Pose>| {
                let mut measured = measured(truths, ERROR);
                let error = ERROR.doubted(probability);
                measured[1] = Some(Measured { pose: turn.apply(&truths[1]), error });
                network.fused(&measured)[1].unwrap().angle_to(&truths[1])
            };
            rows.iter().map(of_row).sum()
        };
        let (sure, unsure) = (left(1.0), left(0.01));
        assert!(unsure < 0.7 * sure, "{sure} {unsure}");
    }

    #[test]
    fn a_neighbour_that_lies_on_its_side_is_not_asked() {
        let mut random = test_random(4);
        let network = network(&mut random);
        let truths = row(&mut random);
        let mut measured = measured(&truths, ERROR);
        let alone = network.fused(&[measured[0], measured[1], None])[1].unwrap();
        let off = truths[2].orientation * rotation_from_vector(Vector3::new(0.0, 1.5, 0.0));
        measured[2] = Some(Measured { pose: Pose { orientation: off, ..truths[2] }, error: ERROR });
        assert_eq!(network.fused(&measured)[1].unwrap(), alone);
    }

    #[test]
    fn who_is_missing_or_elsewhere_says_nothing() {
        let mut random = test_random(4);
        let network = network(&mut random);
        let alone = found(&row(&mut random)[1], &mut random);
        let far = Measured {
            pose: Pose { center: PointLps::new(500.0, 0.0, 0.0), ..alone.pose },
            ..alone
        };
        for neighbour in [None, Some(far)] {
            let fused = network.fused(&[neighbour, Some(alone), neighbour])[1].unwrap();
            assert!(fused.angle_to(&alone.pose) < 1e-7);
        }
        // A detector that is never wrong needs no advice.
        let sure = PoseError { center_mm: [0.0; 3], angle_rad: [0.0; 3] };
        let truths = row(&mut random);
        let fused = network.fused(&measured(&truths, sure));
        assert!(
            truths.iter().zip(fused).all(|(truth, fused)| fused.unwrap().angle_to(truth) < 1e-7)
        );
    }
}
