//! Which labels belong to which boxes, which structures learn their masks together, and the parts of
//! cases that they learn from.

use crate::DetectError;
use crate::data::look_alikes::alike_in_size;
use crate::data::mirror_twins::is_on_one_side;
use crate::data::training_data::{Annotated, Subjects, TrainingData};
use crate::masks::held_out::HeldOutPose;
use crate::masks::mean_shapes::MeanShapes;
use crate::masks::samples::Instance;
use crate::model::Model;
use crate::segment::data::IGNORED;
use crate::working::spec::WorkingSpec;
use pbt_volume::{Geometry, Padding, Pose, Quantised, RealVolume, Source, Volume, VoxelIndex};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

/// By structure, the numbers of its labels: of its own name, or those without a structure of their
/// name that lie in its boxes for the most part, and there more than in others'.
pub(crate) fn labels_of<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
) -> Result<Vec<Vec<usize>>, D::Error> {
    /// Cases that are looked at.
    const CASES: usize = 10;
    let names = data.label_names();
    let mut labels = vec![Vec::new(); structures.len()];
    let mut open = Vec::new();
    for (n, label) in names.iter().enumerate() {
        match structures.iter().position(|(name, _)| *name == label.name) {
            Some(structure) => labels[structure].push(n),
            None => open.push(n),
        }
    }
    if open.is_empty() {
        return Ok(labels);
    }
    let mut voxels = vec![vec![Voxels::default(); structures.len()]; names.len()];
    let mut looked_at = 0;
    for case in 0..data.list().len() {
        if looked_at == CASES {
            break;
        }
        let Some(classes) = data.classes(case)? else { continue };
        looked_at += 1;
        let pose = |(_, poses): &Annotated| {
            poses.iter().find(|(other, _)| *other == case).map(|(_, pose)| *pose)
        };
        let boxes: Vec<Option<Pose>> = structures.iter().map(pose).collect();
        let own = voxels_of(&classes, &boxes, (names.len(), &open));
        voxels.iter_mut().flatten().zip(own.iter().flatten()).for_each(|(all, own)| all.add(*own));
    }
    for n in open {
        let most = (0..structures.len()).rev().max_by_key(|&s| voxels[n][s].inside);
        if let Some(structure) = most.filter(|&s| 2 * voxels[n][s].inside > voxels[n][s].all) {
            labels[structure].push(n);
        }
    }
    Ok(labels)
}

/// Voxels of a label in the cases that have a box: all of them, and those inside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Voxels {
    all: u64,
    inside: u64,
}

impl Voxels {
    fn add(&mut self, other: Self) {
        self.all += other.all;
        self.inside += other.inside;
    }
}

/// The voxels of some of the labels in a case's map, by label and box.
fn voxels_of(
    classes: &Volume<u8>,
    boxes: &[Option<Pose>],
    (labels, wanted): (usize, &[usize]),
) -> Vec<Vec<Voxels>> {
    let [nx, ny, nz] = classes.shape();
    let of_slice = |k: usize| {
        let mut voxels = vec![vec![Voxels::default(); boxes.len()]; labels];
        for (i, j) in (0..ny).flat_map(|j| (0..nx).map(move |i| (i, j))) {
            let Some(label) = usize::from(classes.at(i, j, k)).checked_sub(1) else { continue };
            if !wanted.contains(&label) {
                continue;
            }
            let at = classes.geometry().to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            for (count, pose) in voxels[label].iter_mut().zip(boxes) {
                let inside = pose.map(|pose| u64::from(pose.contains(at)));
                inside.into_iter().for_each(|inside| count.add(Voxels { all: 1, inside }));
            }
        }
        voxels
    };
    let none = || vec![vec![Voxels::default(); boxes.len()]; labels];
    (0..nz).into_par_iter().map(of_slice).reduce(none, |mut all, own| {
        all.iter_mut().flatten().zip(own.iter().flatten()).for_each(|(all, own)| all.add(*own));
        all
    })
}

/// Structures whose masks are learned together: those that are alike in size and shape and have one
/// label each, and do not lie on one side, where the other side's twin is turned round; every other by
/// itself.
pub(crate) fn groups<D: TrainingData + ?Sized>(
    data: &D,
    structures: &[Annotated],
    labels: &[Vec<usize>],
) -> Result<Vec<Vec<usize>>, D::Error> {
    let alike = alike_in_size(structures);
    let shapes = MeanShapes::new(data, structures, labels)?;
    let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (n, (_, poses)) in structures.iter().enumerate().filter(|(n, _)| !labels[*n].is_empty()) {
        let alone =
            labels[n].len() > 1 || is_on_one_side(data, poses) || !shapes.are_alike(n, alike[n]);
        let own = if alone { n + 1 } else { 0 };
        groups.entry((alike[n], own)).or_default().push(n);
    }
    let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
    groups.sort();
    Ok(groups)
}

/// Structures whose masks are learned together.
pub(crate) struct Group<'a, D: ?Sized> {
    pub(crate) data: &'a D,
    pub(crate) model: &'a Model,
    pub(crate) structures: &'a [Annotated],
    pub(crate) labels: &'a [Vec<usize>],
    pub(crate) members: Vec<usize>,
}

/// The part of a case that counts: the channels of its image in 12 bits and its label map.
pub(crate) struct Loaded {
    pub(crate) channels: Vec<Volume<u16>>,
    pub(crate) classes: Volume<u8>,
}

/// By number of the case.
pub(crate) type LoadedCases = BTreeMap<usize, Loaded>;

impl<D: TrainingData + ?Sized> Group<'_, D> {
    /// All boxes of cases with labels.
    pub(crate) fn instances(&self, found: &[HeldOutPose]) -> Vec<Instance> {
        let cases: Vec<(usize, ())> = (0..self.data.list().len()).map(|case| (case, ())).collect();
        let subjects = Subjects::new(self.data, &cases);
        let mut instances = Vec::new();
        for &structure in &self.members {
            let poses = &self.structures[structure].1;
            for &(case, truth) in poses.iter().filter(|(case, _)| self.data.has_classes(*case)) {
                let own = |f: &&HeldOutPose| f.structure == structure && f.case == case;
                instances.push(Instance {
                    structure,
                    case,
                    subject: subjects.subject(case),
                    truth,
                    found: found.iter().find(own).map(|f| f.pose),
                    landmarks: found
                        .iter()
                        .find(own)
                        .map_or_else(Vec::new, |f| f.landmarks.clone()),
                });
            }
        }
        instances
    }

    /// The parts of a case about some frames. `None` where it has no label map after all.
    pub(crate) fn load(
        &self,
        case: usize,
        frames: &[Geometry],
    ) -> Result<Option<Loaded>, D::Error> {
        let Some(classes) = self.data.classes(case)? else { return Ok(None) };
        let channels = self.data.channels(case)?;
        let shown = |(quantised, channel): (Quantised<'_>, &RealVolume)| {
            let (part, ranges) = reached(channel.geometry(), frames);
            Volume::new(part, quantised.block(ranges).into_owned())
        };
        let channels =
            self.quantised(case, &channels)?.into_iter().zip(&channels).map(shown).collect();
        let (part, [i, j, k]) = reached(classes.geometry(), frames);
        let class =
            |x: usize, y: usize, z: usize| classes.at(i.start + x, j.start + y, k.start + z);
        Ok(Some(Loaded { channels, classes: Volume::from_fn(part, class) }))
    }

    /// The channels of a case's image in 12 bits.
    pub(crate) fn quantised<'a>(
        &self,
        case: usize,
        channels: &'a [RealVolume],
    ) -> Result<Vec<Quantised<'a>>, DetectError> {
        let quantised = |(n, channel)| self.working().quantised(n, channel);
        let all = channels.iter().enumerate().map(quantised).collect::<Result<_, _>>();
        all.map_err(|e| {
            DetectError::training(format!("case {}", self.data.list().id(case)), e.to_string())
        })
    }

    /// How images are prepared.
    pub(crate) fn working(&self) -> &WorkingSpec {
        &self.model.structures[self.members[0]].working
    }

    /// What lies outside images.
    pub(crate) fn padding(&self) -> Padding {
        self.working().padding
    }

    /// The class of this group of each class of a label map, for one of its structures.
    pub(crate) fn own_classes(&self, structure: usize) -> [u8; 256] {
        let mut own = [0; 256];
        for (n, &label) in self.labels[structure].iter().enumerate() {
            own[label + 1] = n as u8 + 1;
        }
        own[usize::from(IGNORED)] = IGNORED;
        own
    }
}

/// The voxels of an image that some grids reach, and as many again on either side, so that frames may
/// move: their own grid, and which they are.
fn reached(image: &Geometry, grids: &[Geometry]) -> (Geometry, [Range<usize>; 3]) {
    let corners: Vec<VoxelIndex> = grids
        .iter()
        .flat_map(|grid| grid.corners().map(|corner| image.to_index(grid.to_lps(corner))))
        .collect();
    let ranges = [0, 1, 2].map(|a| {
        let last = image.shape()[a] as f64 - 1.0;
        let low = corners.iter().fold(f64::INFINITY, |low, c| low.min(c.0[a]));
        let high = corners.iter().fold(f64::NEG_INFINITY, |high, c| high.max(c.0[a]));
        let spare = (high - low) / 4.0;
        let (low, high) = ((low - spare).clamp(0.0, last), (high + spare).clamp(0.0, last));
        low as usize..high.ceil() as usize + 1
    });
    let first = ranges.each_ref().map(|range| range.start);
    (image.part(first, ranges.each_ref().map(ExactSizeIterator::len)), ranges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::case_list::CaseList;
    use crate::segment::data::RegionName;
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    const GRID: [usize; 3] = [10, 4, 4];

    fn pose(x: f64, edge: f64) -> Pose {
        Pose {
            center: PointLps::new(x, 3.0, 3.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [edge, 20.0, 20.0],
        }
    }

    /// Label 1 from i = 0 to 5, label 2 from there on, but one row that says nothing.
    fn classes() -> Volume<u8> {
        let grid = Geometry::isotropic(GRID, 2.0).unwrap();
        Volume::from_fn(grid, |i, j, _| match (i, j) {
            (_, 3) => IGNORED,
            (6.., _) => 2,
            _ => 1,
        })
    }

    #[test]
    fn voxels_are_counted_in_the_boxes_that_hold_them() {
        // To i = 3; everything; nothing annotated.
        let boxes = [Some(pose(0.0, 13.0)), Some(pose(9.0, 30.0)), None];
        let voxels = voxels_of(&classes(), &boxes, (2, &[0, 1]));
        let of = |all: u64, inside: u64| Voxels { all: 12 * all, inside: 12 * inside };
        assert_eq!(voxels[0], [of(6, 4), of(6, 6), of(0, 0)]);
        assert_eq!(voxels[1], [of(4, 0), of(4, 4), of(0, 0)]);
        // A label that has its box already is not looked at.
        assert_eq!(voxels_of(&classes(), &boxes, (2, &[1]))[0], [of(0, 0); 3]);
    }

    /// Cases with the same label map, of which the first alone has boxes.
    struct Data {
        list: CaseList,
        names: Vec<RegionName>,
    }

    impl TrainingData for Data {
        type Error = DetectError;

        fn list(&self) -> &CaseList {
            &self.list
        }

        fn image(&self, _case: usize) -> Result<RealVolume, DetectError> {
            Ok(classes().map(f32::from).into())
        }

        fn structures(&self) -> Vec<Annotated> {
            Vec::new()
        }

        fn label_names(&self) -> &[RegionName] {
            &self.names
        }

        fn classes(&self, _case: usize) -> Result<Option<Volume<u8>>, DetectError> {
            Ok(Some(classes()))
        }
    }

    #[test]
    fn a_label_belongs_to_the_box_that_holds_more_than_half_of_it() {
        let grid = Geometry::isotropic(GRID, 2.0).unwrap();
        let name = |name: &str| RegionName { name: name.to_owned(), value: 1 };
        let data = Data {
            list: CaseList::made("MR", std::iter::repeat_n(grid, 3)),
            names: vec![name("a"), name("b")],
        };
        let of = |boxes: &[(&str, Pose)]| {
            let structures: Vec<Annotated> =
                boxes.iter().map(|(name, pose)| ((*name).to_owned(), vec![(0, *pose)])).collect();
            labels_of(&data, &structures).unwrap()
        };
        assert_eq!(of(&[("whole", pose(9.0, 30.0))]), [[0, 1]]);
        // 4 of 6, and 2 of 6.
        assert_eq!(of(&[("part", pose(0.0, 13.0))]), [vec![0]]);
        assert_eq!(of(&[("less", pose(0.0, 6.0))]), [Vec::<usize>::new()]);
        // One of its name holds it, wherever it lies.
        assert_eq!(of(&[("a", pose(0.0, 6.0)), ("whole", pose(9.0, 30.0))]), [vec![0], vec![1]]);
    }
}
