//! With many threads structures are trained side by side, to the same model, and go on where they were.

use crate::support::{Keeping, SMALL, drawn, listed};
use nalgebra::UnitQuaternion;
use pbt_cpu::Cpu;
use pbt_detect::{CaseList, DetectError, Model, TrainConfig, TrainingData, train};
use pbt_volume::{PointLps, Pose, RealVolume};

const CASES: usize = 7;

/// Place and size, mm, and brightness. The first two are look-alikes, of which the second takes over what
/// the first has learned; the third has another working grid.
const STRUCTURES: [(&str, [f64; 3], [f64; 3], f32); 4] = [
    ("left", [9.0, 10.0, 10.0], [9.0, 8.0, 7.0], 100.0),
    ("right", [25.0, 10.0, 10.0], [9.0, 8.0, 7.0], 100.0),
    ("slab", [17.0, 16.0, 31.0], [20.0, 18.0, 15.0], 160.0),
    ("rod", [17.0, 27.0, 11.0], [7.0, 6.0, 11.0], 60.0),
];

struct Scene(CaseList);

impl Scene {
    fn pose(case: usize, structure: usize) -> Pose {
        let (_, at, size_mm, _) = STRUCTURES[structure];
        let off = |factor: usize| ((case + structure) * factor % 5) as f64 * 0.5 - 1.0;
        Pose {
            center: PointLps::new(at[0] + off(1), at[1] + off(2), at[2] + off(3)),
            orientation: UnitQuaternion::from_euler_angles(0.0, 0.0, 0.05 * off(4)),
            size_mm,
        }
    }
}

impl TrainingData for Scene {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.0
    }

    fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
        let boxes = [0, 1, 2, 3].map(|s| (Self::pose(case, s), STRUCTURES[s].3));
        Ok(drawn(self.0.geometry(case), case, &boxes))
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let of = |s: usize| (0..CASES).map(|case| (case, Self::pose(case, s))).collect();
        (0..4).map(|s| (STRUCTURES[s].0.to_owned(), of(s))).collect()
    }
}

/// The model, and all checkpoints on the way.
fn trained(threads: usize, resume: Option<&[u8]>) -> (Model, Vec<Vec<u8>>) {
    let config = TrainConfig::from_toml(SMALL).expect("settings");
    let (data, keeping) = (Scene(listed("scenes", CASES, [34, 36, 42])), Keeping::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    let trained = pool.install(|| train(&Cpu, &data, &config, 1, resume, &keeping));
    (trained.expect("a model").model, keeping.0.into_inner().expect("no thread panics"))
}

#[test]
fn structures_side_by_side_are_what_they_are_one_after_the_other() {
    let (model, _) = trained(1, None);
    // The comparison means something.
    let grid = |s: usize| &model.structures[s].working;
    assert!(grid(0) == grid(1) && grid(0) != grid(2), "{:?}, {:?}", grid(0), grid(2));
    assert!(model.structures[0].refinement == model.structures[1].refinement);
    assert!(model.structures[0].refinement != model.structures[3].refinement);
    // Look-alikes share what held-out cases say of their refinement, too.
    let measured = |s: usize| {
        let spec = &model.structures[s].verification.spec;
        (spec.shrinkage.expect("measured"), spec.error.expect("measured"))
    };
    assert!(measured(0) == measured(1) && measured(0) != measured(3));

    let (again, checkpoints) = trained(9, None);
    assert!(again == model, "another model with nine threads");
    // Four stages of each structure.
    assert_eq!(checkpoints.len(), 16);
    for (threads, kept) in [(9, 0), (1, 5), (9, 9), (9, 15)] {
        let (again, left) = trained(threads, Some(&checkpoints[kept]));
        assert!(again == model, "another model after checkpoint {kept} with {threads} threads");
        assert_eq!(left.len(), checkpoints.len() - kept - 1);
    }
}
