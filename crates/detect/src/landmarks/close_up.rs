//! The surroundings of a box, finer than its search needs: landmarks are smaller than what they lie
//! on.

use crate::DetectError;
use crate::working::spec::WorkingSpec;
use pbt_tree::ImageLayout;
use pbt_volume::{Pose, Pyramid, RealVolume};
use serde::{Deserialize, Serialize};

/// What is seen of the surroundings of a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseUp {
    /// How often the working spacing is halved.
    pub halvings: u8,
    /// How far it reaches beyond the box on each side, in D.
    pub border: f64,
}

/// In D.
pub(crate) const MOST_BORDER: f64 = 2.0;

impl CloseUp {
    /// How an image is prepared for it.
    pub fn working(&self, of_box: &WorkingSpec) -> WorkingSpec {
        let spacing_mm = libm::ldexp(of_box.spacing_mm, -i32::from(self.halvings));
        WorkingSpec {
            spacing_mm,
            levels: of_box.levels + usize::from(self.halvings),
            ..of_box.clone()
        }
    }

    /// The tables that it needs.
    pub(crate) fn layout(&self, of_box: &WorkingSpec) -> ImageLayout {
        let working = self.working(of_box);
        ImageLayout { padding: working.padding, haar: None, channels: working.volumes() }
    }

    /// The surroundings of these boxes, which overlap.
    ///
    /// # Errors
    /// Those of [`WorkingSpec::pyramid`].
    pub(crate) fn pyramid(
        &self,
        of_box: &WorkingSpec,
        channels: &[RealVolume],
        boxes: &[Pose],
    ) -> Result<Pyramid, DetectError> {
        let wider = |pose: &Pose| {
            let more = 2.0 * self.border * pose.mean_size_mm();
            Pose { size_mm: pose.size_mm.map(|edge| edge + more), ..*pose }
        };
        self.working(of_box).pyramid_of(channels, &boxes.iter().map(wider).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::test_random;
    use pbt_volume::{Geometry, IntensityPolicy, Padding, PointLps, Random, Volume, VoxelIndex};

    fn spec() -> WorkingSpec {
        let intensity = IntensityPolicy::Window { low: 0.0, high: 100.0 };
        WorkingSpec {
            spacing_mm: 2.0,
            levels: 2,
            padding: Padding::Edge,
            intensity,
            channels: Vec::new(),
        }
    }

    fn noise(shape: [usize; 3]) -> RealVolume {
        noise_of(shape, [1.0; 3])
    }

    fn noise_of(shape: [usize; 3], mm: [f64; 3]) -> RealVolume {
        let mut random = test_random(4);
        let matrix = nalgebra::Matrix3::from_diagonal(&mm.into());
        let geometry = Geometry::new(shape, matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        Volume::from_fn(geometry, |_, _, _| random.between(0.0, 100.0) as f32).into()
    }

    fn pose(random: &mut Random, center: [f64; 3]) -> Pose {
        Pose {
            center: PointLps::new(center[0], center[1], center[2]),
            orientation: random.rotation(),
            size_mm: [6.0, 9.0, 5.0],
        }
    }

    #[test]
    fn its_voxels_are_those_of_the_whole_image_and_hold_the_box() {
        are_those_of_the_whole(&noise([41, 38, 35]), [1.0; 3]);
        are_those_of_the_whole(&noise_of([41, 7, 35], [1.0, 6.5, 1.0]), [1.0, 2.0, 1.0]);
    }

    fn are_those_of_the_whole(image: &RealVolume, finest_mm: [f64; 3]) {
        let close_up = CloseUp { halvings: 1, border: 0.2 };
        let whole = close_up.working(&spec()).pyramid(std::slice::from_ref(image)).unwrap();
        assert_eq!(whole.geometry(0).spacing_mm(), finest_mm);
        let mut random = test_random(5);
        for _ in 0..20 {
            let center = [0, 1, 2].map(|_| random.between(8.0, 28.0));
            let pose = pose(&mut random, center);
            let part = close_up.pyramid(&spec(), std::slice::from_ref(image), &[pose]).unwrap();
            assert!(part.geometry(0).len() < whole.geometry(0).len());
            for corner in pose.corners() {
                assert!(
                    part.geometry(0).voxels_outside(corner)
                        <= whole.geometry(0).voxels_outside(corner)
                );
            }
            assert_eq!(part.levels(), 3);
            for (part, whole) in part.volumes().iter().zip(whole.volumes()) {
                let (part, whole) = (part.volume(), whole.volume());
                let [ni, nj, nk] = part.shape();
                let first = whole
                    .geometry()
                    .to_index(part.geometry().to_lps(VoxelIndex::new(0.0, 0.0, 0.0)))
                    .0;
                let at = |n: usize, a: usize| (first[a] + n as f64).round() as usize;
                for (i, j, k) in
                    (0..nk).flat_map(|k| (0..nj).flat_map(move |j| (0..ni).map(move |i| (i, j, k))))
                {
                    assert_eq!(part.at(i, j, k), whole.at(at(i, 0), at(j, 1), at(k, 2)));
                }
            }
        }
    }

    #[test]
    fn an_absurd_spacing_is_refused() {
        let (image, pose) = (noise([12, 12, 12]), pose(&mut test_random(6), [5.0; 3]));
        for spacing_mm in [1e-9, 1e-4, 1e9] {
            let spec = WorkingSpec { spacing_mm, ..spec() };
            assert!(spec.pyramid(std::slice::from_ref(&image)).is_err());
            assert!(
                CloseUp { halvings: 4, border: 0.0 }
                    .pyramid(&spec, std::slice::from_ref(&image), &[pose])
                    .is_err()
            );
        }
    }

    #[test]
    fn a_box_beside_the_image_gives_what_is_nearest() {
        let mut random = test_random(6);
        let close_up = CloseUp { halvings: 1, border: 0.0 };
        let found = close_up
            .pyramid(&spec(), &[noise([12, 12, 12])], &[pose(&mut random, [-500.0, 5.0, 900.0])])
            .unwrap();
        assert!(found.geometry(0).shape().iter().all(|n| (1..=12).contains(n)));
    }
}
