//! Names in annotations and values in label maps that do not fit a data set: the likeliest reason
//! that a structure is annotated nowhere.

use crate::dataset::{CaseSpec, Dataset};
use crate::region_labels::IGNORE;
use crate::{Annotations, read_annotations};
use pbt_volume::StructureKind;
use std::collections::BTreeSet;

/// So many names or values are listed in a line.
const LISTED: usize = 5;

impl Dataset {
    /// Boxes and points in the annotations of cases whose names the data set does not have, a line
    /// each for both kinds. Cases that lack no structure of the kind are left out: there, other names
    /// are no slips. So are files that cannot be read.
    pub fn unknown_names<'a>(&self, cases: impl Iterator<Item = &'a CaseSpec>) -> Vec<String> {
        let (mut boxes, mut points) = (Vec::new(), Vec::new());
        for case in cases {
            let (mut known, mut strange) = (Annotations::default(), Vec::new());
            for path in &case.annotations {
                let Ok(all) = read_annotations(path) else { continue };
                let Ok(own) = self.of_structures(path, all.clone()) else { continue };
                let is_strange = |name: &String| self.structures.iter().all(|s| s.name != *name);
                // The only box may have been given its structure's name.
                let renamed = own.boxes.len() == all.boxes.len();
                let names = all.boxes.into_iter().map(|(name, _)| name);
                let odd_boxes: Vec<_> = names.filter(|n| is_strange(n) && !renamed).collect();
                let names = all.landmarks.into_iter().map(|landmark| landmark.name);
                strange.push((path, odd_boxes, names.filter(is_strange).collect::<Vec<_>>()));
                known.boxes.extend(own.boxes);
                known.landmarks.extend(own.landmarks);
            }
            let lacks = |kind: StructureKind| {
                self.structures
                    .iter()
                    .filter(|s| s.kind == kind)
                    .any(|s| known.pose(&s.name).is_none() && known.landmark(&s.name).is_none())
            };
            let lacks_box = lacks(StructureKind::Box) && case.labels.is_none();
            let lacks_point = lacks(StructureKind::Landmark);
            for (path, odd_boxes, odd_points) in strange {
                if lacks_box && !odd_boxes.is_empty() {
                    boxes.push((path, odd_boxes));
                }
                if lacks_point && !odd_points.is_empty() {
                    points.push((path, odd_points));
                }
            }
        }
        let line = |what: [&str; 2], kind: StructureKind, found: Vec<(_, Vec<String>)>| {
            let (path, names): &(&std::path::PathBuf, Vec<String>) = found.first()?;
            let of_kind = self.structures.iter().filter(|s| s.kind == kind);
            let structures = listed(of_kind.map(|s| format!("`{}`", s.name)));
            let names = match &names[..] {
                [one] => format!("a {} `{one}`", what[0]),
                all => format!("{} {}", what[1], listed(all.iter().map(|n| format!("`{n}`")))),
            };
            let others = match found.len() - 1 {
                0 => String::new(),
                1 => ", and so it is in 1 more file".to_owned(),
                n => format!(", and so it is in {n} more files"),
            };
            Some(format!(
                "{}: names: holds {names}; the data set has no such structure{others} (name it as the \
                 data set does: {structures}; or add it there)",
                path.display()
            ))
        };
        let boxes = line(["box", "boxes"], StructureKind::Box, boxes);
        let points = line(["point", "points"], StructureKind::Landmark, points);
        boxes.into_iter().chain(points).collect()
    }

    /// Values that the data set gives a name and that occur in no label map, where `held` are those
    /// that occur, as a line.
    pub fn unused_labels(&self, held: &BTreeSet<u16>) -> Option<String> {
        let named = self.label_names.iter().filter(|(_, name)| *name != IGNORE);
        let values = named.map(|(&value, _)| value).filter(|&value| value > 0);
        let unused: Vec<u16> = values.filter(|value| !held.contains(value)).collect();
        if unused.is_empty() {
            return None;
        }
        let verb = if unused.len() == 1 { "occurs" } else { "occur" };
        let values = held.iter().filter(|&&value| value > 0);
        let hold = match held.iter().any(|&value| value > 0) {
            true => listed(values.map(u16::to_string)),
            false => "only 0".to_owned(),
        };
        Some(format!(
            "{}: labels: {} {verb} in no label map; they hold {hold} (give every structure the value that \
             its voxels have)",
            self.path.display(),
            listed(unused.iter().map(u16::to_string)),
        ))
    }
}

/// The first few of a list.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut items: Vec<String> = items.take(LISTED + 1).collect();
    if items.len() > LISTED {
        items[LISTED] = "...".to_owned();
    }
    items.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_markups;
    use nalgebra::UnitQuaternion;
    use pbt_volume::{PointLps, Pose};
    use serde_json::json;

    fn dataset(structures: &[&str], drawn: &[&[&str]]) -> (tempfile::TempDir, Dataset) {
        let folder = tempfile::tempdir().unwrap();
        let pose = Pose {
            center: PointLps::new(0.0, 0.0, 0.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [9.0; 3],
        };
        let cases = drawn.iter().enumerate().map(|(n, names)| {
            let boxes: Vec<_> = names.iter().map(|name| ((*name).to_owned(), pose)).collect();
            let file = format!("p{n}.mrk.json");
            write_markups(&folder.path().join(&file), &boxes, &[], |_| String::new()).unwrap();
            std::fs::write(folder.path().join("image.nii"), "").unwrap();
            json!({ "id": format!("p{n}"), "image": "image.nii", "annotations": file, "split": "train" })
        });
        let structures = structures.iter().map(|name| json!({ "name": name, "kind": "box" }));
        let made = json!({
            "schema": "pbt-dataset/1", "name": "set", "modality": "CT",
            "structures": structures.collect::<Vec<_>>(), "cases": cases.collect::<Vec<_>>(),
            "labels": { "0": "air", "5": "liver", "9": "ignore" },
        });
        std::fs::write(folder.path().join("dataset.json"), made.to_string()).unwrap();
        let dataset = Dataset::load(folder.path()).unwrap();
        (folder, dataset)
    }

    #[test]
    fn names_that_the_data_set_lacks_are_told_once() {
        let (_folder, set) =
            dataset(&["liver"], &[&["liver", "aorta"], &["skull"], &["skull", "aorta"], &["p3"]]);
        let lines = set.unknown_names(set.cases.iter());
        // The first lacks nothing, and the last is named after its file.
        assert!(
            lines.len() == 1
                && lines[0].contains(
                    "p1.mrk.json: names: holds a box `skull`; the data set has no such structure, and \
                     so it is in 1 more file (name it as the data set does: `liver`"
                ),
            "{lines:?}"
        );
        let (_folder, set) = dataset(&["liver"], &[&["liver"]]);
        assert!(set.unknown_names(set.cases.iter()).is_empty());
    }

    #[test]
    fn values_of_no_label_map_are_told() {
        let (_folder, set) = dataset(&["liver"], &[&["liver"]]);
        let line = set.unused_labels(&BTreeSet::from([0, 1, 2])).unwrap();
        assert!(line.contains("labels: 5 occurs in no label map; they hold 1, 2 ("), "{line}");
        assert!(set.unused_labels(&BTreeSet::from([0])).unwrap().contains("hold only 0"));
        assert!(set.unused_labels(&BTreeSet::from([5])).is_none());
    }
}
