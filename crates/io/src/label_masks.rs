//! Reads the label maps of a data set and asks `boxes_from_labels.rs`, which holds the rule, for their
//! boxes.

use crate::boxes_from_labels::MeanShape;
use crate::dataset::{CaseSpec, Dataset};
use crate::label_runs::{LabelRuns, MapRuns};
use crate::shape_twins::{Shown, twins};
use crate::{OpenImage, ReadOptions, read_side_by_side};
use pbt_volume::{Instances, LabelShape, Pose, StructureKind, StructureSpec, Volume};
use std::collections::BTreeMap;
use std::path::Path;

/// How the boxes of a data set follow from its label maps.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct LabelBoxes {
    /// By name of the structure.
    structures: BTreeMap<String, LabelBox>,
}

#[derive(Debug, Clone, PartialEq)]
struct LabelBox {
    /// By value, whether it is one of the structure's: those of its name, or all but 0 where none
    /// has its name.
    inside: Vec<bool>,
    /// Each value is an instance of its own.
    many: bool,
    /// `None` where no label map that could be read shows the structure.
    shape: Option<MeanShape>,
}

impl LabelBoxes {
    /// The mean shapes that are known, and those in the label maps of the cases for training, or of
    /// all where none of those has any. A map that cannot be read is left out here: reading its case
    /// says why.
    pub(crate) fn of(dataset: &Dataset, known: &BTreeMap<String, LabelShape>) -> Self {
        let mut structures = values_of_boxes(dataset);
        if !structures.keys().all(|name| known.contains_key(name)) {
            add_mean_shapes(dataset, &mut structures);
        }
        for (name, structure) in &mut structures {
            structure.shape = known.get(name).map(MeanShape::from).or(structure.shape.take());
        }
        Self { structures }
    }

    /// The mean shapes, by name of the structure.
    pub(crate) fn shapes(&self) -> BTreeMap<String, LabelShape> {
        let shape = |(name, structure): (&String, &LabelBox)| {
            Some((name.clone(), structure.shape.as_ref()?.into()))
        };
        self.structures.iter().filter_map(shape).collect()
    }

    /// The boxes of these structures in a label map; those without voxels are left out.
    pub(crate) fn in_map(&self, labels: &Volume<u16>, names: &[&str]) -> Vec<(String, Pose)> {
        let (runs, mut found) = (MapRuns::new(labels), Vec::new());
        for &name in names {
            let Some(structure) = self.structures.get(name) else { continue };
            for mask in structure.masks(&runs) {
                let pose = match &structure.shape {
                    Some(shape) => shape.pose(&mask),
                    None => MeanShape::new(std::slice::from_ref(&mask)).pose(&mask),
                };
                found.extend(pose.map(|pose| (name.to_owned(), pose)));
            }
        }
        found
    }
}

impl LabelBox {
    /// The voxels of the structure, of several instances one by one by rising value; none where it
    /// has no voxels.
    fn masks(&self, map: &MapRuns) -> Vec<LabelRuns> {
        let inside = |value: u16| self.inside[usize::from(value)];
        if self.many { map.by_value(inside) } else { map.of(inside).into_iter().collect() }
    }
}

/// The boxes that label maps can show, by name.
fn values_of_boxes(dataset: &Dataset) -> BTreeMap<String, LabelBox> {
    let boxes = dataset.structures.iter().filter(|s| s.kind == StructureKind::Box);
    let of = |spec: &StructureSpec| {
        let inside = dataset.values_of(&spec.name);
        let many = spec.instances == Instances::Many;
        let shown = inside.contains(&true);
        shown.then(|| (spec.name.clone(), LabelBox { inside, many, shape: None }))
    };
    boxes.filter_map(of).collect()
}

/// Gives the structures their mean shapes in the label maps of a data set.
fn add_mean_shapes(dataset: &Dataset, structures: &mut BTreeMap<String, LabelBox>) {
    let with_labels = |training: bool| -> Vec<&Path> {
        let wanted = |case: &&CaseSpec| !training || case.split == "train";
        dataset.cases.iter().filter(wanted).filter_map(|case| case.labels.as_deref()).collect()
    };
    let mut maps = with_labels(true);
    if maps.is_empty() {
        maps = with_labels(false);
    }
    let open = |path: &&Path| OpenImage::open(path, &ReadOptions::default());
    let masks = read_side_by_side(&maps, open, |_, map| {
        let Ok(labels) = map.and_then(OpenImage::read_narrow_labels) else { return Vec::new() };
        let runs = MapRuns::new(&labels);
        structures.values().map(|structure| structure.masks(&runs)).collect::<Vec<_>>()
    });
    for (n, structure) in structures.values_mut().enumerate() {
        let masks: Vec<LabelRuns> =
            masks.iter().filter_map(|masks| masks.get(n)).flatten().cloned().collect();
        structure.shape = (!masks.is_empty()).then(|| MeanShape::new(&masks));
    }
    share_with_twins(dataset, structures, &masks);
}

/// Gives each structure and its mirror twin one mean shape: of the masks of the one and of the mirrored
/// masks of the other. `masks` are by label map and structure.
fn share_with_twins(
    dataset: &Dataset,
    structures: &mut BTreeMap<String, LabelBox>,
    masks: &[Vec<Vec<LabelRuns>>],
) {
    let of = |n: usize| masks.iter().filter_map(move |masks| masks.get(n));
    let index = |name: &String| structures.keys().position(|other| other == name);
    let shown = structures.iter().enumerate().map(|(n, (name, structure))| Shown {
        partner: partner(dataset, name).and_then(index),
        masks: of(n).map(|masks| masks.first().filter(|_| !structure.many)).collect(),
    });
    let pairs = twins(&shown.collect::<Vec<_>>());
    let mut boxes: Vec<&mut LabelBox> = structures.values_mut().collect();
    for [a, b] in pairs {
        let mirrored = of(b).flatten().map(LabelRuns::mirrored);
        let both: Vec<LabelRuns> = of(a).flatten().cloned().chain(mirrored).collect();
        let shape = (!both.is_empty()).then(|| MeanShape::new(&both));
        boxes[b].shape = shape.as_ref().map(MeanShape::mirrored);
        boxes[a].shape = shape;
    }
}

/// The name of a structure's mirror twin, where the data set names it on either side.
fn partner<'a>(dataset: &'a Dataset, name: &String) -> Option<&'a String> {
    let spec = dataset.structures.iter().find(|spec| spec.name == *name)?;
    let other = dataset.structures.iter().find(|spec| spec.partner.as_ref() == Some(name));
    spec.partner.as_ref().or(other.map(|spec| &spec.name))
}
