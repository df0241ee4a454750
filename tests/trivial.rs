//! A detector that never looks at an image. It answers where structures lie in the training cases
//! on the average, from the middle of the image, turned as the middle one of them is. A detector
//! that is worth anything is clearly better.

use nalgebra::Vector3;
use pbt_io::{Annotations, Dataset, LandmarkState};
use pbt_volume::{PointLps, Pose};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Its mean errors for one structure.
#[derive(Debug, Default)]
pub(crate) struct Trivial {
    /// Distance of the centres or points, mm.
    pub(crate) center_mm: f64,
    /// Angle between the orientations, degrees; 0 of landmarks.
    #[allow(dead_code, reason = "the phantoms are compared by position alone")]
    pub(crate) angle_deg: f64,
}

/// Its errors in the first `test` test cases by structure, learned from the first `training`
/// training cases.
pub(crate) fn trivial(dataset: &Path, training: usize, test: usize) -> BTreeMap<String, Trivial> {
    let dataset = Dataset::load(dataset).expect("a data set");
    let read = |split: &str, count: usize| -> Vec<(Annotations, PointLps)> {
        let cases = dataset.split(split).take(count);
        cases
            .map(|case| {
                let middle = case.read_image().expect("an image").volume.geometry().center();
                (dataset.load_annotations(case).expect("annotations"), middle)
            })
            .collect()
    };
    let (learned, tested) = (read("train", training), read("test", test));
    let mut all = BTreeMap::new();
    for structure in &dataset.structures {
        let name = &structure.name;
        let offsets: Vec<Vector3<f64>> =
            learned.iter().filter_map(|(a, middle)| Some(point(a, name)?.0 - middle.0)).collect();
        let mean = offsets.iter().sum::<Vector3<f64>>() / offsets.len().max(1) as f64;
        let errors: Vec<f64> = tested
            .iter()
            .filter_map(|(a, middle)| Some(point(a, name)?.distance_mm(&PointLps(middle.0 + mean))))
            .collect();
        let poses: Vec<&Pose> = learned.iter().filter_map(|(a, _)| a.pose(name)).collect();
        let sum = |pose: &Pose| poses.iter().map(|other| other.angle_to(pose)).sum::<f64>();
        let middle = poses.iter().min_by(|a, b| sum(a).total_cmp(&sum(b)));
        let angles: Vec<f64> = tested
            .iter()
            .filter_map(|(a, _)| Some(middle?.angle_to(a.pose(name)?).to_degrees()))
            .collect();
        let average = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        if !errors.is_empty() {
            let errors = Trivial { center_mm: average(&errors), angle_deg: average(&angles) };
            all.insert(name.clone(), errors);
        }
    }
    all
}

/// Where a structure is, where it is in view.
fn point(annotations: &Annotations, name: &str) -> Option<PointLps> {
    match (annotations.pose(name), annotations.landmark(name)) {
        (Some(pose), _) => Some(pose.center),
        (None, Some(LandmarkState::At(point))) => Some(point),
        _ => None,
    }
}

/// Checks that the mean distance of each structure in a report of `pbt evaluate` is at most this
/// share of the trivial detector's, one share for boxes and one for landmarks, and prints both.
#[track_caller]
pub(crate) fn assert_beaten(
    report: &Value,
    trivial: &BTreeMap<String, Trivial>,
    boxes: f64,
    landmarks: f64,
) {
    for figures in report["summary"]["structures"].as_array().expect("a list") {
        let name = figures["structure"].as_str().expect("a name");
        let Some(mean) = figures["center_mm"]["mean"].as_f64() else { continue };
        let floor = trivial[name].center_mm;
        let share = if figures["kind"] == "landmark" { landmarks } else { boxes };
        println!(
            "{}: {name}: {mean:.2} mm, without a look {floor:.2} mm, {:.2} of it, at most {share}",
            report["dataset"],
            mean / floor
        );
        assert!(mean <= share * floor, "{name}: {mean} mm is not below {share} of {floor} mm");
    }
}
