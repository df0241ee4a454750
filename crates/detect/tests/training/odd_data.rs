//! Data and settings at the ends of what is allowed are trained, too.

use crate::support::{SMALL, Silent, drawn, listed};
use nalgebra::UnitQuaternion;
use pbt_cpu::Cpu;
use pbt_detect::{CaseList, DetectError, TrainConfig, Trained, TrainingData, train};
use pbt_volume::{PointLps, Pose, RealVolume};

/// One box with a landmark in the middle of a face; cases in a row show one subject.
struct Scene {
    list: CaseList,
    size_mm: [f64; 3],
    subjects: usize,
}

impl Scene {
    fn new(cases: usize, size_mm: [f64; 3], subjects: usize) -> Self {
        let shape = size_mm.map(|edge_mm| edge_mm as usize + 16);
        Self { list: listed("scenes", cases, shape), size_mm, subjects }
    }

    fn pose(&self, case: usize) -> Pose {
        let middle = self.list.geometry(case).center().0;
        let off = |factor: usize| (case * factor % 5) as f64 * 0.5 - 1.0;
        Pose {
            center: PointLps::new(middle.x + off(1), middle.y + off(2), middle.z + off(3)),
            orientation: UnitQuaternion::from_euler_angles(0.0, 0.0, 0.05 * off(4)),
            size_mm: self.size_mm.map(|edge_mm| edge_mm * (1.0 + 0.02 * off(2))),
        }
    }
}

impl TrainingData for Scene {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
        Ok(drawn(self.list.geometry(case), case, &[(self.pose(case), 100.0)]))
    }

    fn structures(&self) -> Vec<(String, Vec<(usize, Pose)>)> {
        let poses = (0..self.list.len()).map(|case| (case, self.pose(case)));
        vec![("box".to_owned(), poses.collect())]
    }

    fn landmarks(&self, _: &str) -> Vec<(String, Vec<(usize, PointLps)>)> {
        let tip = |case: usize| {
            let pose = self.pose(case);
            (case, PointLps(pose.center.0 + pose.axes().column(0) * (pose.size_mm[0] / 2.0)))
        };
        vec![("tip".to_owned(), (0..self.list.len()).map(tip).collect())]
    }

    fn subject(&self, case: usize) -> Option<&str> {
        Some(["a", "b", "c", "d"][case * self.subjects / self.list.len()])
    }
}

fn trained(scene: &Scene, settings: &str) -> Trained {
    let config = TrainConfig::from_toml(&format!("{settings}{SMALL}")).expect("settings");
    train(&Cpu, scene, &config, 1, None, &Silent).expect("a model")
}

#[test]
fn few_subjects_with_many_cases_are_trained() {
    let of = |subjects: usize| trained(&Scene::new(4, [12.0, 10.0, 9.0], subjects), "");
    assert!([1, 2].iter().all(|&subjects| of(subjects).model.structures.len() == 1));
}

#[test]
fn plates_are_trained() {
    assert_eq!(trained(&Scene::new(3, [30.0, 30.0, 1.0], 3), "").model.structures.len(), 1);
}

#[test]
fn a_copy_in_the_place_of_its_case_has_its_own_contrast() {
    let scene = Scene::new(4, [12.0, 10.0, 9.0], 4);
    let figures = |gamma: f64| {
        let copies = format!("[augmentation]\ncopies = 1\nflips = false\ngamma = {gamma:?}\n");
        let means =
            trained(&scene, &copies).figures.into_iter().map(|figure| figure.mean.to_bits());
        means.collect::<Vec<u64>>()
    };
    assert_ne!(figures(0.0), figures(3.0));
}
