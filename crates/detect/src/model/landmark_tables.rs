//! Landmarks in the model file.

use crate::DetectError;
use crate::config::landmarks::MOST_HALVINGS;
use crate::config::landmarks::View;
use crate::landmarks::close_up::{CloseUp, MOST_MARGIN};
use crate::landmarks::regressors::{
    LandmarkGroup, LandmarkPrior, LandmarkRound, LandmarkRoundSpec, LandmarkStage,
};
use crate::linear::map::LinearMap;
use crate::model::tables::{TableReader, TableWriter};
use serde::{Deserialize, Serialize};

/// The part of a structure's card.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LandmarkCard {
    landmarks: Vec<LandmarkPrior>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    close_up: Option<CloseUp>,
    rounds: Vec<RoundCard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundCard {
    spec: LandmarkRoundSpec,
    /// Places of the landmarks that each map moves.
    groups: Vec<Vec<usize>>,
}

/// Far more than any data set has; keeps a damaged file from asking for absurd amounts.
const MOST: usize = 10_000;

pub(crate) fn put(tables: &mut TableWriter, prefix: &str, stage: &LandmarkStage) -> LandmarkCard {
    let rounds = stage.rounds.iter().enumerate().map(|(n, round)| {
        let (name, length) = (format!("{prefix}.landmarks{n}"), round.spec.len());
        let maps = || round.groups.iter().map(|g| &g.map);
        tables.put(format!("{name}.means"), length, maps().flat_map(|m| m.means.iter().copied()));
        tables.put(
            format!("{name}.weights"),
            length,
            maps().flat_map(|m| m.weights.iter().copied()),
        );
        tables.put(
            format!("{name}.outputs"),
            2,
            maps().flat_map(|m| {
                m.weight_bits.iter().zip(&m.bias).flat_map(|(&bits, &bias)| [bits, bias])
            }),
        );
        RoundCard {
            spec: round.spec.clone(),
            groups: round.groups.iter().map(|g| g.landmarks.clone()).collect(),
        }
    });
    let rounds = rounds.collect();
    LandmarkCard { landmarks: stage.landmarks.clone(), close_up: stage.close_up.clone(), rounds }
}

pub(crate) fn take(
    tables: &mut TableReader<'_>,
    prefix: &str,
    card: LandmarkCard,
    levels: usize,
) -> Result<LandmarkStage, DetectError> {
    let LandmarkCard { landmarks, close_up, rounds } = card;
    let valid = |l: &LandmarkPrior| {
        l.mean.iter().all(|m| m.abs() < 100.0)
            && (0.0..100.0).contains(&l.spread)
            && (0.0..100.0).contains(&l.farthest)
            && (0.0..=1.0).contains(&l.right)
            && l.blend.len() == rounds.len() + 1
            && l.blend.iter().all(|weight| weight.abs() < 100.0)
            && (l.blend.iter().sum::<f64>() - 1.0).abs() < 1e-6
    };
    if landmarks.is_empty() || landmarks.len() > MOST || !landmarks.iter().all(valid) {
        return Err(DetectError::model(
            format!("{prefix}.landmarks"),
            "there are none, too many, or one with a place or a blend that is none",
        ));
    }
    if close_up.as_ref().is_some_and(|c| {
        !(1..=MOST_HALVINGS).contains(&c.halvings) || !(0.0..=MOST_MARGIN).contains(&c.margin)
    }) {
        return Err(DetectError::model(
            format!("{prefix}.landmarks"),
            "the close-up's halvings or margin are out of range",
        ));
    }
    let levels = levels + close_up.as_ref().map_or(0, |c| usize::from(c.halvings));
    let rounds = rounds
        .into_iter()
        .enumerate()
        .map(|(n, round)| {
            take_round(tables, &format!("{prefix}.landmarks{n}"), round, landmarks.len(), levels)
        })
        .collect::<Result<_, _>>()?;
    Ok(LandmarkStage { landmarks, close_up, rounds })
}

fn take_round(
    tables: &mut TableReader<'_>,
    name: &str,
    RoundCard { spec, groups }: RoundCard,
    landmarks: usize,
    levels: usize,
) -> Result<LandmarkRound, DetectError> {
    let wrong = |what: &str| Err(DetectError::model(name, what));
    for patch in &spec.patches {
        crate::model::file::check_patch(name, patch, levels)?;
    }
    if spec.patches.is_empty() || spec.patches.len() > 8 || !(0.0..100.0).contains(&spec.reach) {
        return wrong("patches or reach are out of range");
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
    let length = spec.len();
    let means: Vec<i16> = tables.take(&format!("{name}.means"), length)?;
    let weights: Vec<i16> = tables.take(&format!("{name}.weights"), length)?;
    let outputs: Vec<i32> = tables.take(&format!("{name}.outputs"), 2)?;
    if means.len() != groups.len() * length
        || weights.len() != 3 * landmarks * length
        || outputs.len() != 6 * landmarks
    {
        return wrong("the tables do not fit the groups");
    }
    if outputs.chunks_exact(2).any(|o| !(0..=60).contains(&o[0]))
        || means.iter().any(|m| !(-4095..=4095).contains(m))
    {
        return wrong("fractional bits or means are out of range");
    }
    let mut first = 0;
    let groups = groups
        .into_iter()
        .zip(means.chunks_exact(length))
        .map(|(group, means)| {
            let rows = first..first + 3 * group.len();
            first = rows.end;
            let outputs = &outputs[2 * rows.start..2 * rows.end];
            let map = LinearMap {
                means: means.to_vec(),
                weights: weights[rows.start * length..rows.end * length].to_vec(),
                weight_bits: outputs.iter().step_by(2).copied().collect(),
                bias: outputs.iter().skip(1).step_by(2).copied().collect(),
            };
            LandmarkGroup { landmarks: group, map }
        })
        .collect();
    Ok(LandmarkRound { spec, groups })
}
