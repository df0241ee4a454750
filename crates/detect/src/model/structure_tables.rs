//! A structure in the model file.

use crate::DetectError;
use crate::model::card::{RefinementCard, StageCard, StructureCard};
use crate::model::classifier_tables::{put_haar, put_pose, take_haar, take_pose};
use crate::model::landmark_tables;
use crate::model::limits::{
    MOST_CASES, check_calibration, check_edge, check_name, check_patch, check_prior, check_reach,
    check_working, within,
};
use crate::model::map_tables::{put_maps, take_maps};
use crate::model::tables::{TableReader, TableWriter};
use crate::model::unfinished::StructureCheckpoint;
use crate::pose::quaternion;
use crate::refine::cascade::Cascade;
use crate::refine::classification::{ClassificationPass, ClassificationPasses};
use crate::refine::refinement::Refinement;
use crate::refine::regressor::{OUTPUTS, Regressor, RegressorSpec};
use crate::stages::orientation::OrientationStage;
use crate::stages::position::PositionStage;
use crate::stages::verification::VerificationStage;
use pbt_volume::{LARGEST_EDGE_MM, PointLps, Pose};

pub(super) fn structure_card(
    tables: &mut TableWriter,
    prefix: &str,
    checkpoint: &StructureCheckpoint,
) -> StructureCard {
    let position = checkpoint.position.as_ref().map(|stage| StageCard {
        spec: stage.spec.clone(),
        classifier: put_haar(tables, &format!("{prefix}.position"), &stage.classifier),
    });
    let orientation = checkpoint.orientation.as_ref().map(|stage| {
        let name = format!("{prefix}.orientation");
        tables.put(
            format!("{name}.rotations"),
            4,
            stage.rotations.iter().flat_map(|q| [q.w, q.i, q.j, q.k]),
        );
        StageCard {
            spec: stage.spec.clone(),
            classifier: put_pose(tables, &name, &stage.classifier),
        }
    });
    let refinement = checkpoint.refinement.as_ref().map(|refinement| match refinement {
        Refinement::Regression(cascade) => RefinementCard::Regression(
            cascade
                .regressors
                .iter()
                .enumerate()
                .map(|(n, r)| {
                    let name = format!("{prefix}.regressor{n}");
                    put_maps(tables, &name, r.spec.patch.len(), std::iter::once(&r.map));
                    r.spec.clone()
                })
                .collect(),
        ),
        Refinement::Classification(passes) => RefinementCard::Classification(
            passes
                .passes
                .iter()
                .enumerate()
                .map(|(n, pass)| StageCard {
                    spec: pass.spec.clone(),
                    classifier: put_pose(tables, &format!("{prefix}.pass{n}"), &pass.classifier),
                })
                .collect(),
        ),
    });
    let verification = checkpoint.verification.as_ref().map(|stage| StageCard {
        spec: stage.spec.clone(),
        classifier: put_pose(tables, &format!("{prefix}.verification"), &stage.classifier),
    });
    let landmarks =
        checkpoint.landmarks.as_ref().map(|stage| landmark_tables::put(tables, prefix, stage));
    let frames = checkpoint.frames.as_ref().map(|frames| {
        let numbers = |pose: &Pose| {
            let (c, q, [x, y, z]) = (pose.center.0, pose.orientation, pose.size_mm);
            [c.x, c.y, c.z, q.w, q.i, q.j, q.k, x, y, z]
        };
        tables.put(format!("{prefix}.frames"), 10, frames.iter().flat_map(numbers));
        frames.len()
    });
    StructureCard {
        name: checkpoint.name.clone(),
        kind: "box".to_owned(),
        cases: checkpoint.cases,
        working: checkpoint.working.clone(),
        prior: checkpoint.prior.clone(),
        position,
        orientation,
        refinement,
        verification,
        landmark_names: checkpoint.landmark_names.clone(),
        landmarks,
        frames,
        row: checkpoint.row.clone(),
    }
}

pub(super) fn read_structure(
    tables: &mut TableReader<'_>,
    prefix: &str,
    card: StructureCard,
) -> Result<StructureCheckpoint, DetectError> {
    let StructureCard {
        name,
        kind,
        cases,
        working,
        prior,
        position,
        orientation,
        refinement,
        verification,
        landmark_names,
        landmarks,
        frames,
        row,
    } = card;
    let wrong = |field: &str, what: &str| {
        Err(DetectError::model(format!("structure {name}: {field}"), what))
    };
    if kind != "box" {
        return wrong("kind", "only boxes are known to this version");
    }
    for name in std::iter::once(&name).chain(&landmark_names) {
        check_name("structures", name)?;
    }
    let part = |field: &str| format!("structure {name}: {field}");
    within(&part("cases"), "cases", cases as f64, (0.0, MOST_CASES as f64))?;
    check_working(&part("working"), &working)?;
    check_prior(&part("prior"), &prior)?;
    let (levels, channels) = (working.levels, working.channel_count());
    let volumes = levels * channels;
    let position = match position {
        None => None,
        Some(StageCard { spec, classifier }) => {
            let part = part("position");
            within(&part, "level", spec.level as f64, (0.0, (levels - 1) as f64))?;
            within(&part, "channel", spec.channel as f64, (0.0, (channels - 1) as f64))?;
            within(&part, "radius", spec.radius as f64, (1.0, 127.0))?;
            within(&part, "keep", spec.keep as f64, (1.0, 1e4))?;
            let most = spec.most_instances.unwrap_or(1);
            within(&part, "most_instances", most as f64, (1.0, 1e4))?;
            let classifier =
                take_haar(tables, &format!("{prefix}.position"), &classifier, spec.radius)?;
            Some(PositionStage { spec, classifier })
        }
    };
    let orientation = match orientation {
        None => None,
        Some(StageCard { spec, classifier }) => {
            let (part, name) = (part("orientation"), format!("{prefix}.orientation"));
            within(&part, "keep", spec.keep as f64, (1.0, 1e5))?;
            within(&part, "modes", spec.modes as f64, (1.0, 1e3))?;
            within(&part, "apart_rad", spec.apart_rad, (0.0, 10.0))?;
            within(&part, "apart_mm", spec.apart_mm, (0.0, LARGEST_EDGE_MM))?;
            let values: Vec<f64> = tables.take(&format!("{name}.rotations"), 4)?;
            let rotations: Option<Vec<_>> = values
                .chunks_exact(4)
                .map(|q| quaternion::checked(q[0], q[1], q[2], q[3]))
                .collect();
            match rotations {
                Some(rotations) if !rotations.is_empty() => Some(OrientationStage {
                    spec,
                    rotations,
                    classifier: take_pose(tables, &name, &classifier, volumes)?,
                }),
                _ => return wrong("orientation", "no rotations, or one that is none"),
            }
        }
    };
    let refinement = match refinement {
        None => None,
        Some(RefinementCard::Regression(specs)) => Some(Refinement::Regression(Cascade {
            regressors: specs
                .into_iter()
                .enumerate()
                .map(|(n, spec)| {
                    take_regressor(tables, &format!("{prefix}.regressor{n}"), spec, volumes)
                })
                .collect::<Result<_, _>>()?,
        })),
        Some(RefinementCard::Classification(passes)) => {
            Some(Refinement::Classification(ClassificationPasses {
                passes: passes
                    .into_iter()
                    .enumerate()
                    .map(|(n, StageCard { spec, classifier })| {
                        let name = format!("{prefix}.pass{n}");
                        check_reach(&name, &spec.reach)?;
                        within(&name, "hypotheses", spec.hypotheses as f64, (1.0, 1e5))?;
                        within(&name, "best", spec.best, (0.0, 1.0))?;
                        within(&name, "repeats", spec.repeats as f64, (1.0, 100.0))?;
                        Ok(ClassificationPass {
                            spec,
                            classifier: take_pose(tables, &name, &classifier, volumes)?,
                        })
                    })
                    .collect::<Result<_, DetectError>>()?,
            }))
        }
    };
    let verification = match verification {
        None => None,
        Some(StageCard { spec, classifier }) => {
            let part = part("verification");
            within(&part, "doubtful_below", spec.doubtful_below, (0.0, 1.0))?;
            within(&part, "absent_below", spec.absent_below, (0.0, 1.0))?;
            check_reach(&part, &spec.same)?;
            check_calibration(&part, &spec.calibration)?;
            if spec.shrinkage.is_some_and(|t| !t.is_valid())
                || spec.error.is_some_and(|e| !e.is_valid())
            {
                return wrong("verification", "shrinkage or error is out of range");
            }
            if let Some(contents) = &spec.contents {
                check_patch(&part, &contents.patch, volumes)?;
                if !contents.is_valid() {
                    return wrong("verification", "contents are out of range");
                }
            }
            let classifier =
                take_pose(tables, &format!("{prefix}.verification"), &classifier, volumes)?;
            Some(VerificationStage { spec, classifier })
        }
    };
    let landmarks = landmarks
        .map(|card| landmark_tables::take(tables, prefix, card, (levels, channels)))
        .transpose()?;
    if landmarks
        .as_ref()
        .is_some_and(|stage| !stage.landmarks.iter().map(|l| &l.name).eq(&landmark_names))
    {
        return wrong("landmarks", "the names disagree");
    }
    let frames = match frames {
        None => None,
        Some(count) => {
            let values: Vec<f64> = tables.take(&format!("{prefix}.frames"), 10)?;
            let pose = |v: &[f64]| {
                let orientation = quaternion::checked(v[3], v[4], v[5], v[6])?;
                let positive = v[7..].iter().all(|&s| s > 0.0 && s.is_finite())
                    && v[..3].iter().all(|c| c.is_finite());
                positive.then(|| Pose {
                    center: PointLps::new(v[0], v[1], v[2]),
                    orientation,
                    size_mm: [v[7], v[8], v[9]],
                })
            };
            match values.chunks_exact(10).map(pose).collect::<Option<Vec<Pose>>>() {
                Some(frames) if frames.len() == count => Some(frames),
                _ => return wrong("frames", "a pose that is none"),
            }
        }
    };
    let may_have = position.as_ref().is_none_or(|stage| stage.spec.most_instances.is_some());
    if row.as_ref().is_some_and(|row| !may_have || !row.is_valid()) {
        return wrong("row", "is out of range, or of a structure that occurs once");
    }
    Ok(StructureCheckpoint {
        name,
        cases,
        working,
        prior,
        position,
        orientation,
        refinement,
        verification,
        landmark_names,
        frames,
        landmarks,
        row,
    })
}

fn take_regressor(
    tables: &mut TableReader<'_>,
    name: &str,
    spec: RegressorSpec,
    volumes: usize,
) -> Result<Regressor, DetectError> {
    check_patch(name, &spec.patch, volumes)?;
    check_reach(name, &spec.reach)?;
    check_edge(name, "scale_mm", spec.scale_mm)?;
    within(name, "border", spec.border, (-0.5, 10.0))?;
    within(name, "ridge", spec.ridge, (0.0, 1e3))?;
    within(name, "repeats", spec.repeats as f64, (1.0, 100.0))?;
    let map = take_maps(tables, name, spec.patch.len(), &[OUTPUTS])?.remove(0);
    Ok(Regressor { spec, map })
}
