//! What `pbt train` would refuse, and which other images a model trained so would refuse.

use super::finding::Finding;
use crate::session::{AnnotatedCase, RegionCases, TrainingCases, Wanted};
use pbt_detect::{TrainConfig, TrainingData, grid_demands, refusals};
use pbt_io::{CaseSpec, Dataset};
use pbt_volume::{Geometry, StructureKind};

/// All that the training with the default configuration would refuse. `training` are the cases of
/// the split `train` that could be read, `others` those of other splits. Without any training case,
/// nothing is asked.
pub(super) fn what_training_refuses(
    dataset: &Dataset,
    training: Vec<AnnotatedCase>,
    others: &[(&CaseSpec, &Geometry)],
) -> Vec<Finding> {
    if dataset.structures.iter().all(|s| s.kind == StructureKind::Region) {
        return what_regions_refuse(dataset);
    }
    if training.is_empty() {
        return Vec::new();
    }
    let wanted = match Wanted::new(dataset, &[]) {
        Ok(wanted) => wanted,
        Err(failure) => return vec![Finding::error(failure)],
    };
    let config = TrainConfig::default();
    let (data, faults) = TrainingCases::new(dataset, training, wanted);
    let mut findings = Vec::new();
    let mut refused = Vec::new();
    for (case, fault) in faults {
        let id = data.list().id(case).to_owned();
        findings.push(Finding::error(fault).in_cases([id.as_str()]));
        refused.push(case);
    }
    for refusal in refusals(&data, &config) {
        // One structure that refuses a case is enough.
        if refusal.case.is_some_and(|case| refused.contains(&case)) {
            continue;
        }
        refused.extend(refusal.case);
        let ids = refusal.case.map(|case| data.list().id(case));
        let message = Finding::of(&dataset.path, &refusal.error);
        findings.push(Finding::error(message).in_cases(ids));
    }
    let demands = grid_demands(&data, &config);
    for (case, geometry) in others {
        if let Some(error) = demands.iter().find_map(|demand| demand.check(geometry).err()) {
            let message = Finding::of(&case.image, error);
            findings.push(Finding::error(message).in_cases([case.id.as_str()]));
        }
    }
    findings
}

/// The first label map that cannot be used, or region without a value.
fn what_regions_refuse(dataset: &Dataset) -> Vec<Finding> {
    let cases: Vec<CaseSpec> = dataset.split("train").cloned().collect();
    if cases.is_empty() {
        return Vec::new();
    }
    let read = Wanted::new(dataset, &[]).and_then(|w| RegionCases::read(dataset, &cases, &w));
    read.err().map(Finding::error).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{dataset, upright};
    use nalgebra::{Matrix3, Vector3};
    use pbt_volume::{LengthUnit, PointLps};

    fn slices(count: usize) -> Geometry {
        let matrix = Matrix3::from_diagonal(&Vector3::new(1.5, 1.5, 2.0));
        Geometry::new([64, 64, count], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap()
    }

    fn findings(kind: StructureKind, training: &[usize], others: &[usize]) -> Vec<Finding> {
        let dataset = dataset(&[("heart", kind)], training.len() + others.len());
        let made = |(spec, &count): (&CaseSpec, &usize)| AnnotatedCase {
            spec: spec.clone(),
            boxes: vec![("heart".into(), upright([48.0, 48.0, 40.0], [60.0; 3]))],
            landmarks: Vec::new(),
            absent: Vec::new(),
            sha256: String::new(),
            geometry: slices(count),
            unit: LengthUnit::Mm,
            plane: None,
            warnings: Vec::new(),
        };
        let cases = dataset.cases.iter().zip(training).map(made).collect();
        let grids: Vec<Geometry> = others.iter().map(|&count| slices(count)).collect();
        let others: Vec<_> = dataset.cases[training.len()..].iter().zip(&grids).collect();
        what_training_refuses(&dataset, cases, &others)
    }

    #[test]
    fn every_refused_case_is_named() {
        assert!(findings(StructureKind::Box, &[80, 80, 80], &[80]).is_empty());
        let found = findings(StructureKind::Box, &[80, 4, 80, 3], &[4, 80]);
        let cases: Vec<&str> = found.iter().flat_map(|f| &f.cases).map(String::as_str).collect();
        assert_eq!(cases, ["c1", "c3", "c4"]);
        assert!(
            found[0].message.starts_with("dataset.json: case c1: shape: the image is"),
            "{found:?}"
        );
        assert!(found[2].message.starts_with("c4.nii.gz: shape: the image is"), "{found:?}");
    }

    #[test]
    fn too_few_cases_are_named() {
        let found = findings(StructureKind::Box, &[20], &[]);
        assert!(
            found.len() == 1
                && found[0].message.contains("heart: 1 annotated training case(s)")
                && found[0].message.matches('(').count() == 2,
            "{found:?}"
        );
        let found = findings(StructureKind::Landmark, &[20, 20], &[]);
        assert!(found[0].message.contains("0 annotated training case(s)"), "{found:?}");
        assert!(findings(StructureKind::Box, &[], &[]).is_empty());
    }
}
