//! A structure that may occur several times, trained beside one that occurs once: both are what they are by
//! themselves, however often the training was interrupted.

use crate::support::{Keeping, SMALL, drawn, listed};
use nalgebra::UnitQuaternion;
use pbt_cpu::Cpu;
use pbt_detect::{CaseList, DetectError, Detection, Model, TrainConfig, TrainingData, train};
use pbt_volume::{PointLps, Pose, RealVolume};

const CASES: usize = 7;

/// A case that says nothing of cells.
const WITHOUT_CELLS: usize = 3;

/// A bright slab and three smaller and brighter cells in noise.
struct Scene {
    list: CaseList,
    /// The structures that are wanted.
    names: Vec<&'static str>,
    /// Numbers of the cases.
    cases: Vec<usize>,
}

impl Scene {
    /// Of the cases that tell of one of these structures.
    fn of(names: &[&'static str]) -> Self {
        let tells = |case: &usize| names != ["cell"] || *case != WITHOUT_CELLS;
        let numbers: Vec<usize> = (0..CASES).filter(tells).collect();
        let list = listed("scenes", numbers.len(), [30, 30, 40]);
        Self { list, names: names.to_vec(), cases: numbers }
    }

    fn pose(case: usize, at: [f64; 3], size_mm: [f64; 3]) -> Pose {
        let off = |factor: usize| (case * factor % 5) as f64 * 0.7 - 1.4;
        let orientation = UnitQuaternion::from_euler_angles(0.0, 0.0, 0.05 * off(7));
        let center = PointLps::new(at[0] + off(1), at[1] + off(2), at[2] + off(3));
        Pose { center, orientation, size_mm }
    }

    fn slab(case: usize) -> Pose {
        Self::pose(case, [14.0, 15.0, 29.0], [13.0, 11.0, 9.0])
    }

    fn cells(case: usize) -> [Pose; 3] {
        let z = 9.0 + (case % 3) as f64;
        [[8.0, 8.0, z], [22.0, 9.0, z + 2.0], [14.0, 22.0, z - 1.0]]
            .map(|at| Self::pose(case, at, [8.0, 7.0, 6.0]))
    }
}

impl TrainingData for Scene {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
        let (grid, case) = (self.list.geometry(case), self.cases[case]);
        let cells = Self::cells(case).map(|pose| (pose, 150.0));
        Ok(drawn(grid, case, &[cells.to_vec(), vec![(Self::slab(case), 90.0)]].concat()))
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let of = |name: &&str| {
            let own = |number: usize| match *name {
                "slab" => vec![Self::slab(number)],
                _ if number == WITHOUT_CELLS => Vec::new(),
                _ => Self::cells(number).to_vec(),
            };
            let poses = self.cases.iter().map(|&number| own(number)).enumerate();
            let all = poses.flat_map(|(case, own)| own.into_iter().map(move |pose| (case, pose)));
            (name.to_string(), all.collect())
        };
        self.names.iter().map(of).collect()
    }

    fn is_many(&self, structure: &str) -> bool {
        structure == "cell"
    }
}

fn trained(data: &Scene, resume: Option<&[u8]>) -> (Model, Vec<Vec<u8>>) {
    let config =
        TrainConfig::from_toml(&format!("{SMALL}[augmentation]\ncopies = 0\n")).expect("settings");
    let keeping = Keeping::default();
    let trained = train(&Cpu, data, &config, 1, resume, &keeping).expect("a model");
    (trained.model, keeping.0.into_inner().expect("no thread panics"))
}

fn detections(model: &Model) -> Vec<Detection> {
    let image = Scene::of(&[]).image(4).expect("an image");
    model.detect(&Cpu, &[image]).expect("detections").detections
}

#[test]
fn each_is_what_it_is_by_itself() {
    // What occurs once comes first, whatever the order of the data.
    let (model, checkpoints) = trained(&Scene::of(&["cell", "slab"]), None);
    let alone = ["slab", "cell"].map(|name| Scene::of(&[name]));
    let [(slab, _), (cell, _)] = alone.map(|data| trained(&data, None));
    assert!(model.structures == [&slab.structures[..], &cell.structures].concat());
    assert!(model.certainty == [&slab.certainty[..], &cell.certainty].concat());
    let both = [detections(&slab), detections(&cell)].concat();
    assert!(detections(&model) == both);
    let places: Vec<PointLps> = both[1..].iter().map(|found| found.pose.center).collect();
    let found = |truth: &Pose| places.iter().any(|place| place.distance_mm(&truth.center) < 2.0);
    assert!(Scene::cells(4).iter().filter(|truth| found(truth)).count() >= 2, "{places:?}");
    assert!(both[0].pose.center.distance_mm(&Scene::slab(4).center) < 2.0, "{:?}", both[0].pose);

    let bytes = model.to_bytes().expect("bytes");
    assert!(Model::from_bytes(&bytes).expect("a model") == model);
    // Four stages of each.
    assert_eq!(checkpoints.len(), 8);
    // Within the first, and within the second.
    for checkpoint in [&checkpoints[1], &checkpoints[5]] {
        let (again, left) = trained(&Scene::of(&["cell", "slab"]), Some(checkpoint));
        assert!(again == model && left.len() < checkpoints.len());
    }
}
