//! Landmarks in the model file.

use crate::DetectError;
use crate::config::landmarks::{MOST_HALVINGS, MOST_LANDMARK_TREES, View};
use crate::landmarks::close_up::{CloseUp, MOST_BORDER};
use crate::landmarks::stage::{
    LandmarkGroup, LandmarkMap, LandmarkPrior, LandmarkRegressor, LandmarkRegressorSpec,
    LandmarkStage,
};
use crate::model::limits::check_patch;
use crate::model::map_tables::{put_maps, take_maps};
use crate::model::regression_forest_tables::{put_forests, take_forests};
use crate::model::tables::{TableReader, TableWriter};
use serde::{Deserialize, Serialize};

/// The part of a structure's card.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LandmarkCard {
    landmarks: Vec<LandmarkPrior>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    close_up: Option<CloseUp>,
    regressors: Vec<RegressorCard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RegressorCard {
    spec: LandmarkRegressorSpec,
    /// Indices of the landmarks that each map moves.
    groups: Vec<Vec<usize>>,
}

/// Far more than any data set has; keeps a damaged file from asking for absurd amounts.
const MOST: usize = 10_000;

pub(crate) fn put(tables: &mut TableWriter, prefix: &str, stage: &LandmarkStage) -> LandmarkCard {
    let regressors = stage.regressors.iter().enumerate().map(|(n, regressor)| {
        let name = format!("{prefix}.landmarks{n}");
        let linear = regressor.groups.iter().filter_map(|group| match &group.map {
            LandmarkMap::Linear(map) => Some(map),
            LandmarkMap::Forest(_) => None,
        });
        let forests = regressor.groups.iter().filter_map(|group| match &group.map {
            LandmarkMap::Linear(_) => None,
            LandmarkMap::Forest(forest) => Some(forest),
        });
        match regressor.spec.trees {
            0 => put_maps(tables, &name, regressor.spec.len(), linear),
            _ => put_forests(tables, &name, forests),
        }
        RegressorCard {
            spec: regressor.spec.clone(),
            groups: regressor.groups.iter().map(|g| g.landmarks.clone()).collect(),
        }
    });
    let regressors = regressors.collect();
    LandmarkCard {
        landmarks: stage.landmarks.clone(),
        close_up: stage.close_up.clone(),
        regressors,
    }
}

pub(crate) fn take(
    tables: &mut TableReader<'_>,
    prefix: &str,
    card: LandmarkCard,
    (levels, channels): (usize, usize),
) -> Result<LandmarkStage, DetectError> {
    let LandmarkCard { landmarks, close_up, regressors } = card;
    let valid = |l: &LandmarkPrior| {
        l.mean.iter().all(|m| m.abs() < 100.0)
            && (0.0..100.0).contains(&l.spread_d)
            && (0.0..100.0).contains(&l.farthest_d)
            && (0.0..=1.0).contains(&l.right)
            && l.stacking_weights.len() == regressors.len() + 1
            && l.stacking_weights.iter().all(|weight| weight.abs() < 100.0)
            && (l.stacking_weights.iter().sum::<f64>() - 1.0).abs() < 1e-6
    };
    if landmarks.is_empty() || landmarks.len() > MOST || !landmarks.iter().all(valid) {
        return Err(DetectError::model(
            format!("{prefix}.landmarks"),
            "there are none, too many, or one whose place or weights are out of range",
        ));
    }
    if close_up.as_ref().is_some_and(|c| {
        !(1..=MOST_HALVINGS).contains(&c.halvings) || !(0.0..=MOST_BORDER).contains(&c.border)
    }) {
        return Err(DetectError::model(
            format!("{prefix}.landmarks"),
            "the close-up's halvings or border are out of range",
        ));
    }
    let levels = levels + close_up.as_ref().map_or(0, |c| usize::from(c.halvings));
    let volumes = levels * channels;
    let regressors = regressors
        .into_iter()
        .enumerate()
        .map(|(n, regressor)| {
            take_regressor(
                tables,
                &format!("{prefix}.landmarks{n}"),
                regressor,
                landmarks.len(),
                volumes,
            )
        })
        .collect::<Result<_, _>>()?;
    Ok(LandmarkStage { landmarks, close_up, regressors })
}

fn take_regressor(
    tables: &mut TableReader<'_>,
    name: &str,
    RegressorCard { spec, groups }: RegressorCard,
    landmarks: usize,
    volumes: usize,
) -> Result<LandmarkRegressor, DetectError> {
    let wrong = |what: &str| Err(DetectError::model(name, what));
    for patch in &spec.patches {
        check_patch(name, patch, volumes)?;
    }
    if spec.trees > MOST_LANDMARK_TREES
        || spec.patches.is_empty()
        || spec.patches.len() > 8
        || !(0.0..100.0).contains(&spec.reach_d)
    {
        return wrong("trees, patches or reach are out of range");
    }
    let mut moved = vec![false; landmarks];
    for &l in groups.iter().flatten() {
        match moved.get_mut(l) {
            Some(seen) if !*seen => *seen = true,
            _ => return wrong("a landmark is moved twice, or does not exist"),
        }
    }
    let alone = spec.view == View::Box || groups.iter().all(|g| g.len() == 1);
    if !moved.iter().all(|&m| m) || !alone || groups.iter().any(Vec::is_empty) {
        return wrong("the groups do not fit the landmarks");
    }
    let outputs: Vec<usize> = groups.iter().map(|group| 3 * group.len()).collect();
    let maps: Vec<LandmarkMap> = match spec.trees {
        0 => {
            let maps = take_maps(tables, name, spec.len(), &outputs)?;
            maps.into_iter().map(LandmarkMap::Linear).collect()
        }
        trees => {
            let forests = take_forests(tables, name, (trees, spec.len()), &outputs)?;
            forests.into_iter().map(LandmarkMap::Forest).collect()
        }
    };
    let groups = groups.into_iter().zip(maps);
    let groups = groups.map(|(landmarks, map)| LandmarkGroup { landmarks, map }).collect();
    Ok(LandmarkRegressor { spec, groups })
}
