//! What tests of whole trainings share: images of bright boxes, and settings of trainings in seconds.

use nalgebra::Vector3;
use pbt_detect::{CaseList, DetectError, ListedCase, Observer};
use pbt_volume::{Geometry, LengthUnit, Pose, RealVolume, Volume};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// So many cases with images of this shape and voxels of 1 mm.
pub(crate) fn listed(name: &str, cases: usize, shape: [usize; 3]) -> CaseList {
    let case = |n| ListedCase {
        id: format!("case {n}"),
        image_sha256: String::new(),
        geometry: Geometry::isotropic(shape, 1.0).expect("a grid"),
    };
    CaseList {
        name: name.to_owned(),
        modality: "CT".to_owned(),
        channels: Vec::new(),
        unit: LengthUnit::Mm,
        label_shapes: BTreeMap::new(),
        cases: (0..cases).map(case).collect(),
    }
}

/// Boxes, each with its brightness, in the noise of a case; of two in one place the first is seen.
pub(crate) fn drawn(grid: &Geometry, case: usize, boxes: &[(Pose, f32)]) -> RealVolume {
    Volume::from_fn(grid.clone(), |i, j, k| {
        let at = Vector3::new(i as f64, j as f64, k as f64);
        let holds = |pose: &Pose| {
            let inside = pose.orientation.inverse() * (at - pose.center.0.coords);
            (0..3).all(|a| inside[a].abs() <= pose.size_mm[a] / 2.0)
        };
        let noise = ((i * 7 + j * 13 + k * 29 + case * 31) % 17) as f32;
        noise + boxes.iter().find(|(pose, _)| holds(pose)).map_or(0.0, |(_, bright)| *bright)
    })
    .into()
}

/// Lets a training run and listens to nothing.
pub(crate) struct Silent;

impl Observer for Silent {
    fn stage(&self, _: &str, _: &str, _: f64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn checkpoint(&self, _: &[u8]) -> Result<(), DetectError> {
        Ok(())
    }
}

/// Keeps every checkpoint.
#[derive(Default)]
pub(crate) struct Keeping(pub(crate) Mutex<Vec<Vec<u8>>>);

impl Observer for Keeping {
    fn stage(&self, _: &str, _: &str, done: f64) {
        assert!((0.0..=1.0).contains(&done), "{done}");
    }

    fn interrupted(&self) -> bool {
        false
    }

    fn checkpoint(&self, bytes: &[u8]) -> Result<(), DetectError> {
        self.0.lock().expect("no thread panics").push(bytes.to_vec());
        Ok(())
    }
}

/// Settings of a training in seconds.
pub(crate) const SMALL: &str = "\
[position]
copies = 2
negatives = 40
keep = 4
haar = { features = 100, radius = 6 }
[classifier.pbt]
depth = 1
rounds_by_level = [5]
[orientation]
rotations = 10
points_across = 3.0
keep = 20
modes = 2
[refinement]
points_across = 3.0
perturbations = 10
";
