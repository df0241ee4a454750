//! Masks in the model file: a card each, their prior, and the forest and the map of each round.

use crate::DetectError;
use crate::masks::decision::EVEN;
use crate::masks::frame::FrameGrid;
use crate::masks::landmarks::LabelledLandmark;
use crate::masks::moments;
use crate::masks::places::Place;
use crate::masks::quality::{Quality, SIGNS};
use crate::masks::rounds::{MaskRound, Refit};
use crate::masks::stage::MaskStage;
use crate::model::label_forest_tables::{self, MOST_CHANNELS};
use crate::model::limits::{MOST_CASES, check_edge, check_intensity, check_name, within};
use crate::model::map_tables::{put_maps, take_maps};
use crate::model::tables::{TableReader, TableWriter};
use crate::segment::data::RegionName;
use pbt_features::{Filter, MAX_CHANNEL};
use pbt_tree::{ChannelBank, MOST_CLASSES, Outside, Vote};
use pbt_volume::{IntensityPolicy, Padding, Volume};
use serde::{Deserialize, Serialize};

/// What is short.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MaskCard {
    structures: Vec<usize>,
    /// Name and value of the labels, by structure.
    labels: Vec<Vec<(String, u16)>>,
    cases: usize,
    intensity: IntensityPolicy,
    padding: Padding,
    grid: FrameGrid,
    rounds: Vec<RoundCard>,
    #[serde(skip_serializing_if = "is_even", default = "even")]
    label_weight: u32,
    moves_box: bool,
    /// Landmarks of the structure that the labels move.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    landmarks: Vec<LandmarkCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    quality: Option<QualityCard>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundCard {
    channels: Vec<Filter>,
    outside: Outside,
    taken: [f64; 3],
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LandmarkCard {
    landmark: usize,
    places: Vec<Place>,
    lean: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QualityCard {
    doubtful_below: f64,
    #[serde(default)]
    box_doubtful_below: f64,
    log_volume_90: Vec<Option<f64>>,
}

/// Largest weight of labels, in quarters: far beyond any that is chosen, and products stay small.
const MOST_WEIGHT: f64 = 1024.0;

fn even() -> u32 {
    EVEN
}

fn is_even(weight: &u32) -> bool {
    *weight == EVEN
}

/// Numbers of the step to a better frame.
const STEP: usize = 9;

/// Most rounds.
const MOST_ROUNDS: usize = 8;

/// Most voxels of a grid about a box.
const MOST_VOXELS: f64 = 1e8;

pub(super) fn put(tables: &mut TableWriter, n: usize, stage: &MaskStage) -> MaskCard {
    let name = format!("masks.{n}");
    let prior = stage.prior.iter().flat_map(|layer| layer.data().iter().copied());
    tables.put(format!("{name}.prior"), stage.grid.len(), prior);
    for (r, round) in stage.rounds.iter().enumerate() {
        label_forest_tables::put(tables, &format!("{name}.{r}"), &round.forest);
    }
    let length = moments::count(stage.prior.len());
    let maps = stage.rounds.iter().map(|round| &round.refit.map);
    put_maps(tables, &format!("{name}.refit"), length, maps);
    for (l, landmark) in stage.landmarks.iter().enumerate() {
        let numbers = 3 * landmark.places.len();
        let map = std::iter::once(&landmark.map);
        put_maps(tables, &format!("{name}.landmark.{l}"), numbers, map);
    }
    if let Some(quality) = &stage.quality {
        put_maps(tables, &format!("{name}.dice"), SIGNS, std::iter::once(&quality.dice));
    }
    let label = |label: &RegionName| (label.name.clone(), label.value);
    let round = |round: &MaskRound| RoundCard {
        channels: round.bank.filters.clone(),
        outside: round.bank.outside,
        taken: round.refit.taken,
    };
    MaskCard {
        structures: stage.structures.clone(),
        labels: stage.labels.iter().map(|own| own.iter().map(label).collect()).collect(),
        cases: stage.cases,
        intensity: stage.intensity,
        padding: stage.padding,
        grid: stage.grid.clone(),
        rounds: stage.rounds.iter().map(round).collect(),
        label_weight: stage.label_weight,
        moves_box: stage.moves_box,
        landmarks: stage
            .landmarks
            .iter()
            .map(|l| LandmarkCard { landmark: l.landmark, places: l.places.clone(), lean: l.lean })
            .collect(),
        quality: stage.quality.as_ref().map(|quality| QualityCard {
            doubtful_below: quality.doubtful_below,
            box_doubtful_below: quality.box_doubtful_below,
            log_volume_90: quality.log_volume_90.clone(),
        }),
    }
}

/// Everything is checked, so that labelling with a damaged or hostile file ends, and stays within its
/// tables. `further` has, by structure of the model, how many channels its images have beside the
/// first.
pub(super) fn take(
    tables: &mut TableReader<'_>,
    n: usize,
    card: MaskCard,
    further: &[usize],
) -> Result<MaskStage, DetectError> {
    let name = format!("masks.{n}");
    let wrong = |what: &str| {
        DetectError::model(&name, format!("{what}; the model is damaged (train or copy it again)"))
    };
    let labels = card.labels.first().map_or(0, Vec::len);
    let classes = labels + 1;
    within(&name, "labels", labels as f64, (1.0, (MOST_CLASSES - 1) as f64))?;
    within(&name, "cases", card.cases as f64, (0.0, MOST_CASES as f64))?;
    within(&name, "rounds", card.rounds.len() as f64, (1.0, MOST_ROUNDS as f64))?;
    within(&name, "label_weight", f64::from(card.label_weight), (1.0, MOST_WEIGHT))?;
    check_intensity(&name, &card.intensity)?;
    check_edge(&name, "voxel_mm", card.grid.voxel_mm)?;
    let voxels: f64 = card.grid.shape.iter().map(|&n| n as f64).product();
    within(&name, "grid", voxels, (8.0, MOST_VOXELS))?;
    let fits = card.structures.len() == card.labels.len()
        && card.structures.iter().all(|&s| s < further.len())
        && card.labels.iter().all(|own| own.len() == labels && own.iter().all(|l| l.1 > 0))
        && card.grid.shape[..2].iter().all(|&n| n >= 2)
        && card.grid.shape[2] >= 1;
    if !fits {
        return Err(wrong("structures and labels do not fit"));
    }
    card.labels.iter().flatten().try_for_each(|(label, _)| check_name(&name, label))?;
    let prior: Vec<u16> = tables.take(&format!("{name}.prior"), card.grid.len())?;
    if prior.len() != labels * card.grid.len() || prior.iter().any(|&value| value > MAX_CHANNEL) {
        return Err(wrong("the prior does not fit the grid"));
    }
    // Only the shape counts: where the grid lies depends on the box.
    let geometry = card.grid.geometry().ok_or_else(|| wrong("the grid is none"))?;
    let layer = |values: &[u16]| Volume::new(geometry.clone(), values.to_vec());
    let prior = prior.chunks_exact(card.grid.len()).map(layer).collect();
    let outputs = vec![STEP; card.rounds.len()];
    let length = moments::count(labels);
    let mut rounds = Vec::new();
    for (r, round) in card.rounds.into_iter().enumerate() {
        let channels = round.channels.len();
        within(&name, "channels", channels as f64, (1.0, (MOST_CHANNELS + 2 * labels) as f64))?;
        let further = card.structures.first().map_or(0, |&s| further[s]);
        let layers = further + if r == 0 { labels } else { 2 * labels };
        let known = |filter: &Filter| match *filter {
            Filter::Layer { layer } => usize::from(layer) < layers,
            _ => filter.is_valid(card.grid.voxel_mm),
        };
        if !round.channels.iter().all(known) {
            return Err(wrong("a channel has no meaning"));
        }
        let of = (classes, Vote::Scores);
        let forest = label_forest_tables::take(tables, &format!("{name}.{r}"), of, channels)?;
        let bank = ChannelBank {
            filters: round.channels,
            spacing_mm: card.grid.voxel_mm,
            outside: round.outside,
            reach: forest.reach(),
        };
        for share in round.taken {
            within(&name, "taken", share, (0.0, 1.0))?;
        }
        rounds.push((bank, forest, round.taken));
    }
    let maps = take_maps(tables, &format!("{name}.refit"), length, &outputs)?;
    let rounds = rounds.into_iter().zip(maps).map(|((bank, forest, taken), map)| MaskRound {
        bank,
        forest,
        refit: Refit { map, taken },
    });
    let rounds = rounds.collect();
    let mut landmarks = Vec::new();
    for (l, LandmarkCard { landmark, places, lean }) in card.landmarks.into_iter().enumerate() {
        if places.is_empty() || !places.iter().all(|place| place.is_valid(labels)) {
            return Err(wrong("the places of a landmark are none"));
        }
        within(&name, "lean", lean, (0.0, 1.0))?;
        let table = format!("{name}.landmark.{l}");
        let mut maps = take_maps(tables, &table, 3 * places.len(), &[3])?;
        let Some(map) = maps.pop() else { return Err(wrong("a landmark has no map")) };
        landmarks.push(LabelledLandmark { landmark, places, lean, map });
    }
    let quality = match card.quality {
        Some(quality) => {
            let mut maps = take_maps(tables, &format!("{name}.dice"), SIGNS, &[1])?;
            let (Some(dice), true) = (maps.pop(), quality.log_volume_90.len() == labels) else {
                return Err(wrong("its quality does not fit the labels"));
            };
            within(&name, "doubtful_below", quality.doubtful_below, (0.0, 1.0))?;
            within(&name, "box_doubtful_below", quality.box_doubtful_below, (0.0, 1.0))?;
            for &log in quality.log_volume_90.iter().flatten() {
                within(&name, "log_volume_90", log, (0.0, 50.0))?;
            }
            let QualityCard { doubtful_below, box_doubtful_below, log_volume_90 } = quality;
            Some(Quality { dice, doubtful_below, box_doubtful_below, log_volume_90 })
        }
        None => None,
    };
    let region = |(name, value): (String, u16)| RegionName { name, value };
    Ok(MaskStage {
        structures: card.structures,
        labels: card.labels.into_iter().map(|own| own.into_iter().map(region).collect()).collect(),
        cases: card.cases,
        intensity: card.intensity,
        padding: card.padding,
        grid: card.grid,
        prior,
        rounds,
        label_weight: card.label_weight,
        moves_box: card.moves_box,
        landmarks,
        quality,
    })
}
