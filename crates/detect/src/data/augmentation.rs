//! More training cases from the ones at hand: mirrored, turned, scaled, with another contrast.
//!
//! A copy is the same voxels with another geometry, so nothing is resampled twice; its annotations
//! move with it. In a mirrored copy a structure is where its mirror twin was: the left one where
//! the right one was, and one of the midline where it was itself.

use crate::DetectError;
use crate::config::augmentation::AugmentationConfig;
use crate::data::case_list::{CaseList, ListedCase};
use crate::data::mirror_twins::{Mirror, twins};
use crate::data::training_data::{Annotated, Points, TrainingData, is_flat};
use crate::random::{Seeds, Stream};
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};
use pbt_volume::{Geometry, IntensityPolicy, PointLps, Pose, RealVolume, positive};

/// Data with copies: the cases themselves, then the first copy of each, and so on.
pub(crate) struct Augmented<'a, D: ?Sized> {
    data: &'a D,
    list: CaseList,
    copies: Vec<Copy>,
    structures: Vec<Annotated>,
    /// By structure.
    landmarks: Vec<Vec<Points>>,
    symmetric: Option<bool>,
}

/// A case under a similarity about the middle of its image.
struct Copy {
    origin: usize,
    middle: PointLps,
    mirrored: bool,
    rotation: UnitQuaternion<f64>,
    scale: f64,
    gamma: f64,
}

impl Copy {
    fn draw<D: TrainingData + ?Sized>(
        data: &D,
        origin: usize,
        number: usize,
        config: &AugmentationConfig,
        seed: u64,
    ) -> Self {
        let random = Seeds::of_all(seed).random(Stream::Augmentation { copy: number }, origin);
        let mut random = random.in_plane(is_flat(data));
        let mut power = |most: f64| libm::exp(libm::log(1.0 + most) * random.between(-1.0, 1.0));
        let (scale, gamma) = (power(config.scale), power(config.gamma));
        Self {
            origin,
            middle: data.list().geometry(origin).center(),
            mirrored: config.flips && number.is_multiple_of(2),
            rotation: random.rotation_by(0.0, config.degrees.to_radians()),
            scale,
            gamma,
        }
    }

    /// The matrix of the similarity.
    fn matrix(&self) -> Matrix3<f64> {
        let x = if self.mirrored { -1.0 } else { 1.0 };
        self.rotation.to_rotation_matrix()
            * Matrix3::from_diagonal(&Vector3::new(x, 1.0, 1.0))
            * self.scale
    }

    fn point(&self, point: PointLps) -> PointLps {
        PointLps(self.middle.0 + self.matrix() * (point.0 - self.middle.0))
    }

    fn geometry(&self, geometry: &Geometry) -> Result<Geometry, DetectError> {
        Geometry::new(
            geometry.shape(),
            self.matrix() * geometry.matrix(),
            self.point(geometry.origin()),
        )
        .map_err(|e| DetectError::config("augmentation", e.to_string()))
    }

    /// A pose of the twin (of the structure itself in a copy that is not mirrored) as the
    /// structure's own.
    fn pose(&self, pose: &Pose, mirror: &Mirror) -> Pose {
        let size_mm = pose.size_mm.map(|s| s * self.scale);
        if !self.mirrored {
            return Pose {
                center: self.point(pose.center),
                orientation: positive(self.rotation * pose.orientation),
                size_mm,
            };
        }
        // Mirrored in space and once more along one of the box's axes, so that its axes are
        // right-handed again.
        let mut axes = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0)) * pose.axes();
        axes.column_mut(mirror.axis).neg_mut();
        let flipped = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(axes));
        let orientation = self.rotation * flipped * mirror.rotation.inverse();
        let center =
            PointLps(self.point(pose.center).0 - orientation * mirror.shift_mm * self.scale);
        Pose { center, orientation: positive(orientation), size_mm }
    }

    /// An image, or a channel of one, as it is in the copy.
    fn image(&self, of: RealVolume) -> Result<RealVolume, DetectError> {
        let geometry = self.geometry(of.geometry())?;
        let image = of.on(geometry);
        Ok(if self.gamma == 1.0 { image } else { self.contrast(&image) })
    }

    fn contrast(&self, image: &RealVolume) -> RealVolume {
        let Ok(range) =
            (IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 }).range(image)
        else {
            return image.clone();
        };
        let (low, width) = (range.low, range.high - range.low);
        image.map(|value| {
            let share = (f64::from(value) - low) / width;
            let inside = share > 0.0 && share < 1.0;
            if inside { (low + width * libm::pow(share, self.gamma)) as f32 } else { value }
        })
    }
}

impl<'a, D: TrainingData + ?Sized> Augmented<'a, D> {
    /// # Errors
    /// [`DetectError::Config`] where a copy's geometry cannot be had.
    pub(crate) fn new(
        data: &'a D,
        copies: usize,
        config: &AugmentationConfig,
        seed: u64,
    ) -> Result<Self, DetectError> {
        let count = data.list().len();
        let own_structures = data.structures();
        let own_landmarks: Vec<Vec<Points>> =
            own_structures.iter().map(|(name, _)| data.landmarks(name)).collect();
        let twins = twins(data, &own_structures);
        let mirrors: Vec<Mirror> = twins
            .iter()
            .enumerate()
            .map(|(n, &twin)| Mirror::new(data, &own_structures, &own_landmarks, n, twin))
            .collect();
        let copies: Vec<Copy> = (0..copies)
            .flat_map(|number| (0..count).map(move |case| (number, case)))
            .map(|(number, case)| Copy::draw(data, case, number, config, seed))
            .collect();
        let mut list = data.list().clone();
        for copy in &copies {
            // A copy bears the name of its case, so that an error in it names what the user knows.
            let case = &data.list().cases[copy.origin];
            let geometry = copy.geometry(&case.geometry)?;
            list.cases.push(ListedCase { geometry, ..case.clone() });
        }
        let (mut structures, mut landmarks) = (own_structures.clone(), own_landmarks.clone());
        for (n, mirror) in mirrors.iter().enumerate() {
            for (number, copy) in copies.iter().enumerate() {
                let case = count + number;
                let Some(from) = (if copy.mirrored { mirror.twin } else { Some(n) }) else {
                    continue;
                };
                let of_case = own_structures[from].1.iter().filter(|(c, _)| *c == copy.origin);
                structures[n].1.extend(of_case.map(|(_, pose)| (case, copy.pose(pose, mirror))));
                for (l, (_, points)) in landmarks[n].iter_mut().enumerate() {
                    let source = if copy.mirrored { mirror.landmarks[l] } else { Some(l) };
                    let source = source.map(|source| &own_landmarks[from][source].1);
                    if let Some(&(_, point)) =
                        source.and_then(|points| points.iter().find(|(c, _)| *c == copy.origin))
                    {
                        points.push((case, copy.point(point)));
                    }
                }
            }
        }
        let with_landmarks = mirrors.iter().filter(|mirror| !mirror.landmarks.is_empty());
        let symmetric = with_landmarks.map(|mirror| mirror.symmetric).reduce(|a, b| a && b);
        Ok(Self { data, list, copies, structures, landmarks, symmetric })
    }

    /// Whether the landmarks come in left–right pairs, where there are any.
    pub(crate) fn symmetric(&self) -> Option<bool> {
        self.symmetric
    }

    fn copy(&self, case: usize) -> Option<&Copy> {
        self.copies.get(case.checked_sub(self.data.list().len())?)
    }
}

impl<D: TrainingData + ?Sized> TrainingData for Augmented<'_, D> {
    type Error = D::Error;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, D::Error> {
        let Some(copy) = self.copy(case) else { return self.data.image(case) };
        Ok(copy.image(self.data.image(copy.origin)?)?)
    }

    fn channels(&self, case: usize) -> Result<Vec<RealVolume>, D::Error> {
        let Some(copy) = self.copy(case) else { return self.data.channels(case) };
        let channels = self.data.channels(copy.origin)?.into_iter();
        Ok(channels.map(|channel| copy.image(channel)).collect::<Result<_, DetectError>>()?)
    }

    fn structures(&self) -> Vec<Annotated> {
        self.structures.clone()
    }

    fn landmarks(&self, structure: &str) -> Vec<Points> {
        let place = self.structures.iter().position(|(name, _)| name == structure);
        place.map_or_else(Vec::new, |n| self.landmarks[n].clone())
    }

    /// Of the cases themselves; nobody asks it of copies.
    fn absent(&self, name: &str) -> Vec<usize> {
        self.data.absent(name)
    }

    fn is_many(&self, structure: &str) -> bool {
        self.data.is_many(structure)
    }

    fn partner(&self, structure: &str) -> Option<String> {
        self.data.partner(structure)
    }

    fn subject(&self, case: usize) -> Option<&str> {
        self.data.subject(self.origin(case))
    }

    fn shows_its_origin(&self, case: usize) -> bool {
        self.copy(case).is_none_or(|copy| copy.gamma == 1.0)
    }

    fn origin(&self, case: usize) -> usize {
        self.copy(case).map_or(case, |copy| copy.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::pyramids::Pyramids;
    use crate::working::spec::WorkingSpec;
    use pbt_volume::{Padding, Volume, VoxelIndex};

    /// Boxes and landmarks in images of 20 x 24 x 30 voxels.
    struct Cases {
        list: CaseList,
        structures: Vec<Annotated>,
        /// By structure.
        landmarks: Vec<Vec<Points>>,
        partners: Vec<(String, String)>,
    }

    impl TrainingData for Cases {
        type Error = DetectError;

        fn list(&self) -> &CaseList {
            &self.list
        }

        fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
            Ok(Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
                (case * 1000 + i + 20 * j + 480 * k) as f32
            })
            .into())
        }

        fn structures(&self) -> Vec<Annotated> {
            self.structures.clone()
        }

        fn landmarks(&self, structure: &str) -> Vec<Points> {
            let place = self.structures.iter().position(|(name, _)| name == structure);
            place.and_then(|n| self.landmarks.get(n).cloned()).unwrap_or_default()
        }

        fn partner(&self, structure: &str) -> Option<String> {
            self.partners
                .iter()
                .find(|(name, _)| name == structure)
                .map(|(_, partner)| partner.clone())
        }
    }

    fn pose(at: [f64; 3], turned: [f64; 3]) -> Pose {
        Pose {
            center: PointLps::new(at[0], at[1], at[2]),
            orientation: positive(UnitQuaternion::from_euler_angles(
                turned[0], turned[1], turned[2],
            )),
            size_mm: [8.0, 12.0, 10.0],
        }
    }

    fn grid() -> Geometry {
        let matrix = UnitQuaternion::from_euler_angles(0.1, -0.05, 0.2).to_rotation_matrix()
            * Matrix3::from_diagonal_element(1.5);
        Geometry::new([20, 24, 30], matrix, PointLps::new(-10.0, 5.0, -20.0)).unwrap()
    }

    fn cases(structures: Vec<Annotated>, landmarks: Vec<Vec<Points>>) -> Cases {
        let count = structures[0].1.len();
        Cases {
            list: CaseList::made("CT", std::iter::repeat_n(grid(), count)),
            structures,
            landmarks,
            partners: Vec::new(),
        }
    }

    /// A structure of pairs and a midline in two cases, in any orientation, annotated in a frame
    /// that is off the plane of symmetry.
    fn skulls() -> Cases {
        let frame = pose([0.3, 0.1, -0.2], [0.03, 0.05, -0.04]);
        let shape = [
            [3.0, 5.0, 1.0],
            [-3.0, 5.0, 1.0],
            [2.0, -5.0, 2.0],
            [-2.0, -5.0, 2.0],
            [0.0, 1.0, 4.0],
            [0.0, -2.0, -4.0],
        ];
        let heads =
            [pose([1.0, 20.0, 0.0], [0.1, 0.0, -0.1]), pose([-2.0, 18.0, 3.0], [2.0, 0.7, 1.5])];
        // The frame as annotated, in the head that is symmetric.
        let annotated = |head: &Pose| Pose {
            center: PointLps(head.center.0 + head.orientation * frame.center.0.coords),
            orientation: positive(head.orientation * frame.orientation),
            ..*head
        };
        let landmark = |n: usize| -> Points {
            let points = heads
                .iter()
                .enumerate()
                .map(|(case, head)| (case, head.to_lps(Vector3::from(shape[n]))));
            (format!("{n}"), points.collect())
        };
        cases(
            vec![("skull".into(), heads.iter().map(annotated).enumerate().collect())],
            vec![(0..shape.len()).map(landmark).collect()],
        )
    }

    #[test]
    fn copies_keep_what_is_where() {
        let data = skulls();
        let config =
            AugmentationConfig { degrees: 20.0, scale: 0.2, ..AugmentationConfig::default() };
        let augmented = Augmented::new(&data, 3, &config, 7).unwrap();
        assert_eq!(augmented.symmetric(), Some(true));
        assert_eq!(augmented.list.id(5), "case 1");
        let landmarks = augmented.landmarks("skull");
        for case in 2..8 {
            let (origin, mirrored) = (augmented.origin(case), [2, 3, 6, 7].contains(&case));
            assert_eq!(origin, case % 2);
            assert_eq!(augmented.list.geometry(case).matrix().determinant() < 0.0, mirrored);
            let voxels = |image: RealVolume| image.numbers().into_data();
            let [copy, original] =
                [augmented.image(case), data.image(origin)].map(|image| voxels(image.unwrap()));
            assert_eq!(copy, original);
            for (l, (_, points)) in landmarks.iter().enumerate() {
                // The voxel under a landmark is that of its twin.
                let twin = if mirrored { [1, 0, 3, 2, 4, 5][l] } else { l };
                let (_, before) = data.landmarks[0][twin].1[origin];
                let (_, after) = points.iter().find(|(c, _)| *c == case).unwrap();
                let (a, b): (VoxelIndex, VoxelIndex) = (
                    data.list.geometry(0).to_index(before),
                    augmented.list.geometry(case).to_index(*after),
                );
                assert!((a.0 - b.0).norm() < 1e-9);
            }
        }
    }

    #[test]
    fn a_mirrored_box_is_annotated_as_the_others_are() {
        let data = skulls();
        let augmented = Augmented::new(&data, 1, &AugmentationConfig::default(), 0).unwrap();
        let (structures, landmarks) = (augmented.structures(), augmented.landmarks("skull"));
        let in_box = |case: usize, l: usize| {
            let pose = structures[0].1.iter().find(|(c, _)| *c == case).unwrap().1;
            let point = landmarks[l].1.iter().find(|(c, _)| *c == case).unwrap().1;
            pose.orientation.inverse() * (point.0 - pose.center.0)
        };
        for l in 0..6 {
            let places: Vec<Vector3<f64>> = (0..4).map(|case| in_box(case, l)).collect();
            assert!(
                places.iter().all(|p| (p - places[0]).norm() < 1e-6),
                "landmark {l}: {places:?}"
            );
        }
    }

    #[test]
    fn left_becomes_right_and_a_row_stays_in_order() {
        let at = |x: f64, z: f64| -> Vec<(usize, Pose)> {
            (0..3).map(|case| (case, pose([x + 0.2 * case as f64, 20.0, z], [0.0; 3]))).collect()
        };
        let names = ["left", "right", "upper", "lower"].map(String::from);
        let places = [(9.0, 0.0), (-9.0, 0.5), (0.2, 14.0), (0.0, -14.0)];
        let data =
            cases(names.into_iter().zip(places.map(|(x, z)| at(x, z))).collect(), Vec::new());
        assert_eq!(twins(&data, &data.structures), [1, 0, 2, 3].map(Some));
        let augmented = Augmented::new(&data, 1, &AugmentationConfig::default(), 0).unwrap();
        assert_eq!(augmented.symmetric(), None);
        let middle = data.list.geometry(0).center().0.x;
        let (left, right) = (&augmented.structures()[0].1[3].1, &data.structures[1].1[0].1);
        assert!(
            (left.center.0.x - (2.0 * middle - right.center.0.x)).abs() < 1e-9
                && left.center.0.z == right.center.0.z
        );
        assert!(left.orientation.angle() < 1e-9);
        // What the data say goes before what their places say.
        let named = Cases {
            partners: vec![("upper".into(), "lower".into()), ("lower".into(), "upper".into())],
            ..data
        };
        assert_eq!(twins(&named, &named.structures), [1, 0, 3, 2].map(Some));
    }

    /// Boxes are 8 mm wide.
    #[test]
    fn a_structure_of_one_side_is_no_twin_of_itself() {
        let middle = grid().center().0.x;
        let at = |off: f64, z: f64| -> Vec<(usize, Pose)> {
            (0..3)
                .map(|case| (case, pose([middle + off, 20.0 + case as f64, z], [0.0; 3])))
                .collect()
        };
        let parotid = || ("right parotid".to_owned(), at(-9.0, 0.0));
        let alone = cases(vec![parotid(), ("mandible".into(), at(1.0, 14.0))], Vec::new());
        assert_eq!(twins(&alone, &alone.structures), [None, Some(1)]);
        let copied = Augmented::new(&alone, 1, &AugmentationConfig::default(), 0).unwrap();
        let annotated = |n: usize| copied.structures()[n].1.len();
        assert_eq!((annotated(0), annotated(1)), (3, 6));
        // One whose partner is not trained, wherever the image was cut.
        let partners = vec![("right parotid".into(), "left parotid".into())];
        let named = Cases { partners, ..cases(vec![parotid()], Vec::new()) };
        assert_eq!(twins(&named, &named.structures), [None]);
        let middle = cases(vec![("prostate".to_owned(), at(3.0, 0.0))], Vec::new());
        assert_eq!(twins(&middle, &middle.structures), [Some(0)]);
    }

    #[test]
    fn landmarks_of_left_and_right_boxes_are_pairs_where_one_structure_mirrors_the_other() {
        let shape = [
            [3.0, 5.0, 1.0],
            [1.0, -5.0, 2.0],
            [-2.0, 1.0, 4.0],
            [-3.0, -2.0, -4.0],
            [0.5, 3.0, -3.0],
        ];
        let boxes = |x: f64| -> Vec<(usize, Pose)> {
            (0..3).map(|case| (case, pose([x, 20.0 + case as f64, 0.0], [0.0; 3]))).collect()
        };
        let points = |x: f64, sign: f64| -> Vec<Points> {
            let place = |(case, pose): &(usize, Pose), p: [f64; 3]| {
                (*case, pose.to_lps(Vector3::new(sign * p[0], p[1], p[2])))
            };
            shape
                .iter()
                .enumerate()
                .map(|(l, &p)| (format!("{x} {l}"), boxes(x).iter().map(|b| place(b, p)).collect()))
                .collect()
        };
        let sides = || vec![("left".to_owned(), boxes(9.0)), ("right".to_owned(), boxes(-9.0))];
        let symmetric = |data: &Cases| {
            Augmented::new(data, 1, &AugmentationConfig::default(), 0).unwrap().symmetric()
        };
        assert_eq!(
            symmetric(&cases(sides(), vec![points(9.0, 1.0), points(-9.0, -1.0)])),
            Some(true)
        );
        // Both as they are, not as a mirror shows them.
        assert_eq!(
            symmetric(&cases(sides(), vec![points(9.0, 1.0), points(-9.0, 1.0)])),
            Some(false)
        );
    }

    /// What is kept of a case must not stand in for its mirror image, nor the other way round.
    #[test]
    fn the_pyramid_of_a_copy_is_that_of_its_image() {
        let data = skulls();
        let augmented = Augmented::new(&data, 2, &AugmentationConfig::default(), 0).unwrap();
        let pyramids = Pyramids::new(std::env::temp_dir());
        for levels in [1, 2] {
            let working = WorkingSpec {
                channels: Vec::new(),
                spacing_mm: 1.7,
                levels,
                padding: Padding::Edge,
                intensity: IntensityPolicy::Window { low: 0.0, high: 16_000.0 },
            };
            for case in (0..6).chain(0..6) {
                let expected = working.pyramid(&augmented.channels(case).unwrap()).unwrap();
                let all = pyramids.get_all(&augmented, case..case + 1, &working, || false);
                let found = all.unwrap().remove(&case).unwrap();
                assert_eq!(*found, expected, "case {case}, {levels} levels");
            }
        }
    }

    #[test]
    fn contrast_changes_the_middle_and_not_the_ends() {
        let data = skulls();
        let augmented = Augmented::new(
            &data,
            1,
            &AugmentationConfig { gamma: 0.5, ..AugmentationConfig::default() },
            3,
        )
        .unwrap();
        let (before, after) =
            (data.image(0).unwrap().numbers(), augmented.image(2).unwrap().numbers());
        let n = before.data().len();
        assert_eq!(
            (before.data()[0], before.data()[n - 1]),
            (after.data()[0], after.data()[n - 1])
        );
        assert!((before.data()[n / 2] - after.data()[n / 2]).abs() > 10.0);
        assert!(after.data().windows(2).all(|w| w[0] <= w[1]));
    }
}
