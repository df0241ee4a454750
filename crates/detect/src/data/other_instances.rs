//! Where else in an image a structure lies that occurs several times.

use crate::data::training_data::Annotated;
use pbt_evaluate::{is_same_instance, is_unknown, row_ends};
use pbt_volume::{PointLps, Pose};

/// The instances beside the one that a training case is about. What lies there is no example of what
/// the structure does not look like.
#[derive(Debug, Clone)]
pub(crate) struct OtherInstances {
    /// Whether the case is the first one of its image.
    pub(crate) first: bool,
    /// The other annotated ones.
    pub(crate) instances: Vec<Pose>,
    /// Where their row would go on: perhaps nobody annotated the next one.
    pub(crate) unknown: Vec<Pose>,
}

impl OtherInstances {
    /// Those beside entry `n` of a structure's annotations.
    pub(crate) fn of((_, annotated): &Annotated, n: usize) -> Self {
        let case = annotated[n].0;
        let in_image = || annotated.iter().enumerate().filter(move |(_, (c, _))| *c == case);
        let all: Vec<Pose> = in_image().map(|(_, &(_, pose))| pose).collect();
        Self {
            first: in_image().all(|(m, _)| m >= n),
            instances: in_image().filter(|(m, _)| *m != n).map(|(_, &(_, pose))| pose).collect(),
            unknown: row_ends(&all),
        }
    }

    /// Whether there may be one that nobody annotated.
    pub(crate) fn is_unknown(&self, center: PointLps) -> bool {
        is_unknown(&self.unknown, center)
    }

    /// Whether an instance lies there, or may lie there.
    pub(crate) fn holds(&self, center: PointLps) -> bool {
        self.instances.iter().any(|pose| is_same_instance(pose, center)) || self.is_unknown(center)
    }
}

/// What was found in an image, divided among the instances that the image shows: each goes to the
/// nearest. `centers` are those of the instances, `place` says where something lies.
pub(crate) fn divided<T: Clone>(
    found: &[T],
    place: impl Fn(&T) -> PointLps,
    centers: &[PointLps],
) -> Vec<Vec<T>> {
    let mut parts = vec![Vec::new(); centers.len()];
    for one in found {
        let off = |n: usize| centers[n].distance_mm(&place(one));
        let nearest = (0..centers.len()).min_by(|&a, &b| off(a).total_cmp(&off(b)));
        if let Some(nearest) = nearest {
            parts[nearest].push(one.clone());
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;

    fn pose(x: f64) -> Pose {
        Pose {
            center: PointLps::new(x, 0.0, 0.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [10.0; 3],
        }
    }

    #[test]
    fn the_others_of_an_image_are_held() {
        let annotated: Annotated = (
            "cell".into(),
            vec![(0, pose(0.0)), (1, pose(50.0)), (0, pose(20.0)), (0, pose(40.0))],
        );
        let others = OtherInstances::of(&annotated, 2);
        assert!(!others.first && OtherInstances::of(&annotated, 0).first);
        let held = |x: f64| others.holds(PointLps::new(x, 0.0, 0.0));
        // Its own place is not, that of the second image is not; where the row goes on is.
        assert!(held(3.0) && held(40.0) && !held(20.0) && !held(50.0) && held(60.0) && held(-40.0));
    }

    #[test]
    fn everything_goes_to_the_nearest() {
        let centers = [0.0, 10.0].map(|x| pose(x).center);
        let found = [1.0, 9.0, 30.0, -5.0, 5.0];
        let parts = divided(&found, |&x| pose(x).center, &centers);
        assert_eq!(parts, [vec![1.0, -5.0, 5.0], vec![9.0, 30.0]]);
    }
}
