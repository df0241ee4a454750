//! In a large image one structure is found first, and the others are searched for about it.

use crate::support::{Silent, drawn, listed};
use nalgebra::UnitQuaternion;
use pbt_cpu::Cpu;
use pbt_detect::{CaseList, DetectError, Detection, Model, TrainConfig, TrainingData, train};
use pbt_volume::{Geometry, PointLps, Pose, RealVolume};

const CASES: usize = 7;
const SIDE: usize = 72;

/// Where the structures lie about the first, their sizes, mm, and how bright they are.
const STRUCTURES: [(&str, [f64; 3], [f64; 3], f32); 3] = [
    ("slab", [0.0, 0.0, 0.0], [16.0, 13.0, 9.0], 90.0),
    ("rod", [17.0, 4.0, 6.0], [9.0, 9.0, 22.0], 120.0),
    ("cube", [-4.0, 17.0, -8.0], [12.0, 12.0, 13.0], 150.0),
];

/// Boxes that keep together, anywhere in the image.
struct Groups(CaseList);

impl Groups {
    fn new() -> Self {
        Self(listed("groups", CASES, [SIDE; 3]))
    }

    fn pose(case: usize, structure: usize) -> Pose {
        let place = |factor: usize| 24.0 + (case * factor % 7) as f64 * 3.0;
        let (_, [x, y, z], size_mm, _) = STRUCTURES[structure];
        let off = |factor: usize| ((case + structure) * factor % 5) as f64 * 0.4 - 0.8;
        let center = [place(1) + x + off(1), place(2) + y + off(2), place(3) + z + off(3)];
        Pose {
            center: PointLps::new(center[0], center[1], center[2]),
            orientation: UnitQuaternion::from_euler_angles(0.0, 0.0, 0.04 * off(4)),
            size_mm,
        }
    }

    /// The image of a case with these structures alone.
    fn drawn(case: usize, shown: &[usize]) -> RealVolume {
        let boxes: Vec<(Pose, f32)> =
            shown.iter().map(|&s| (Self::pose(case, s), STRUCTURES[s].3)).collect();
        drawn(&Geometry::isotropic([SIDE; 3], 1.0).expect("a grid"), case, &boxes)
    }
}

impl TrainingData for Groups {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.0
    }

    fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
        Ok(Self::drawn(case, &[0, 1, 2]))
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let of = |s: usize| (0..CASES).map(|case| (case, Self::pose(case, s))).collect();
        (0..3).map(|s| (STRUCTURES[s].0.to_owned(), of(s))).collect()
    }
}

const SETTINGS: &str = "\
[position]
copies = 2
negatives = 100
haar = { features = 200, radius = 7 }
[classifier.pbt]
depth = 2
rounds_by_level = [10, 10]
[orientation]
rotations = 10
points_across = 4.0
keep = 20
modes = 2
[refinement]
points_across = 5.0
perturbations = 30
[augmentation]
copies = 0
[certainty]
measured = false
[working]
spacing_mm = 1.0
";

fn detections(model: &Model, image: &RealVolume, threads: usize) -> Vec<Detection> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let found = || model.detect(&Cpu, std::slice::from_ref(image)).expect("detections").detections;
    pool.install(found)
}

fn off_mm(found: &Detection, structure: usize) -> f64 {
    found.pose.center.distance_mm(&Groups::pose(4, structure).center)
}

#[test]
fn the_others_are_found_about_the_first_and_without_it() {
    let config = TrainConfig::from_toml(SETTINGS).expect("settings");
    let model = train(&Cpu, &Groups::new(), &config, 1, None, &Silent).expect("a model").model;
    let anchors = &model.network.as_ref().expect("a network").anchors;
    assert_eq!(anchors.len(), 2);
    let again = Model::from_bytes(&model.to_bytes().expect("bytes")).expect("the same model");
    assert!(again == model);

    let whole = Groups::drawn(4, &[0, 1, 2]);
    let found = detections(&again, &whole, 1);
    assert!(found == detections(&again, &whole, 3), "three threads");
    let first = anchors[0].structure;
    let reach = |s: usize| {
        let at = Groups::pose(4, s).center;
        let far = found[s].trace.candidates.iter().map(|c| c.point.distance_mm(&at));
        far.fold(0.0, f64::max)
    };
    for s in 0..3 {
        assert!(off_mm(&found[s], s) < 2.0, "{}: {}", STRUCTURES[s].0, off_mm(&found[s], s));
        // Half of D and four deviations on either side.
        assert!(s == first || reach(s) < 25.0, "{}: {}", STRUCTURES[s].0, reach(s));
    }
    // Where the first is not there, nothing says where the others are.
    let others: Vec<usize> = (0..3).filter(|&s| s != first).collect();
    let found = detections(&again, &Groups::drawn(4, &others), 2);
    for s in others {
        assert!(off_mm(&found[s], s) < 2.0, "{}: {}", STRUCTURES[s].0, off_mm(&found[s], s));
    }
}
