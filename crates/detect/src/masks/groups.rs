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
use pbt_volume::{Geometry, Padding, Pose, RealVolume, Source, Volume, VoxelIndex};
use std::collections::BTreeMap;
use std::ops::Range;

/// By structure, the numbers of its labels: of its own name, or those without a structure of their
/// name that lie in its boxes for the most part, and there more than in others'.
pub(crate) fn labels_of<D: TrainingData>(
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
    let mut voxels = vec![LabelVoxels::new(structures.len()); names.len()];
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
        for (all, own) in voxels.iter_mut().zip(voxels_of(&classes, &boxes, names.len())) {
            all.add(&own);
        }
    }
    for n in open {
        let LabelVoxels { all, inside } = &voxels[n];
        let most = (0..structures.len()).rev().max_by_key(|&s| inside[s]);
        if let Some(structure) = most.filter(|&s| 2 * inside[s] > *all) {
            labels[structure].push(n);
        }
    }
    Ok(labels)
}

/// How many voxels of a label there are, and how many of them in the box of each structure.
#[derive(Clone)]
struct LabelVoxels {
    all: u64,
    inside: Vec<u64>,
}

impl LabelVoxels {
    fn new(structures: usize) -> Self {
        Self { all: 0, inside: vec![0; structures] }
    }

    fn add(&mut self, other: &Self) {
        self.all += other.all;
        self.inside.iter_mut().zip(&other.inside).for_each(|(all, own)| *all += own);
    }
}

/// The voxels of each label in a case's map, against the boxes of the case.
fn voxels_of(classes: &Volume<u8>, boxes: &[Option<Pose>], labels: usize) -> Vec<LabelVoxels> {
    let [nx, ny, nz] = classes.shape();
    let mut voxels = vec![LabelVoxels::new(boxes.len()); labels];
    for (k, j) in (0..nz).flat_map(|k| (0..ny).map(move |j| (k, j))) {
        for i in 0..nx {
            let class = classes.at(i, j, k);
            if class == 0 || class == IGNORED {
                continue;
            }
            let at = classes.geometry().to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            let label = &mut voxels[usize::from(class) - 1];
            label.all += 1;
            for (count, pose) in label.inside.iter_mut().zip(boxes) {
                *count += u64::from(pose.is_some_and(|pose| pose.contains(at)));
            }
        }
    }
    voxels
}

/// Structures whose masks are learned together: those that are alike in size and shape and have one
/// label each, and do not lie on one side, where the other side's twin is turned round; every other by
/// itself.
pub(crate) fn groups<D: TrainingData>(
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
pub(crate) struct Group<'a, D> {
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

impl<D: TrainingData> Group<'_, D> {
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
        let quantised = |(n, channel): (usize, &RealVolume)| {
            let (part, ranges) = reached(channel.geometry(), frames);
            Ok(Volume::new(part, self.working().quantised(n, channel)?.block(ranges).into_owned()))
        };
        let channels = channels.iter().enumerate().map(quantised).collect::<Result<_, _>>();
        let channels = channels.map_err(|e: DetectError| {
            DetectError::training(format!("case {}", self.data.list().id(case)), e.to_string())
        })?;
        let (part, [i, j, k]) = reached(classes.geometry(), frames);
        let class =
            |x: usize, y: usize, z: usize| classes.at(i.start + x, j.start + y, k.start + z);
        Ok(Some(Loaded { channels, classes: Volume::from_fn(part, class) }))
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
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    #[test]
    fn voxels_are_counted_in_the_boxes_that_hold_them() {
        let grid = Geometry::isotropic([10, 4, 4], 2.0).unwrap();
        // Label 1 from i = 0 to 5, label 2 from there on but one row that says nothing.
        let classes = Volume::from_fn(grid, |i, j, _| match (i, j) {
            (_, 3) => IGNORED,
            (6.., _) => 2,
            _ => 1,
        });
        let pose = |x: f64, edge: f64| Pose {
            center: PointLps::new(x, 3.0, 3.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [edge, 20.0, 20.0],
        };
        // To i = 3; everything; nothing annotated.
        let boxes = [Some(pose(0.0, 13.0)), Some(pose(9.0, 30.0)), None];
        let voxels = voxels_of(&classes, &boxes, 2);
        assert_eq!((voxels[0].all, &voxels[0].inside[..]), (6 * 12, &[4 * 12, 6 * 12, 0][..]));
        assert_eq!((voxels[1].all, &voxels[1].inside[..]), (4 * 12, &[0, 4 * 12, 0][..]));
    }
}
