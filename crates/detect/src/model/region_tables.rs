//! The forest of regions in the model file: a card, and the forest's tables.

use crate::DetectError;
use crate::model::label_forest_tables::{self, MOST_CHANNELS};
use crate::model::limits::{MOST_CASES, check_intensity, check_name, within};
use crate::model::tables::{TableReader, TableWriter};
use crate::segment::data::RegionName;
use crate::segment::region_forest::RegionForest;
use pbt_features::Filter;
use pbt_tree::{ChannelBank, MOST_CLASSES, Outside, Vote};
use pbt_volume::{IntensityPolicy, LARGEST_EDGE_MM};
use serde::{Deserialize, Serialize};

/// What is short.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RegionCard {
    names: Vec<String>,
    /// Values in label maps.
    values: Vec<u16>,
    cases: usize,
    intensity: IntensityPolicy,
    spacing_mm: f64,
    channels: Vec<Filter>,
    outside: Outside,
    vote: Vote,
}

/// What tables of the forest are called.
const NAME: &str = "regions";

pub(super) fn put(tables: &mut TableWriter, regions: &RegionForest) -> RegionCard {
    let RegionForest { bank, forest, .. } = regions;
    label_forest_tables::put(tables, NAME, forest);
    RegionCard {
        names: regions.regions.iter().map(|r| r.name.clone()).collect(),
        values: regions.regions.iter().map(|r| r.value).collect(),
        cases: regions.cases,
        intensity: regions.intensity,
        spacing_mm: bank.spacing_mm,
        channels: bank.filters.clone(),
        outside: bank.outside,
        vote: forest.vote,
    }
}

/// Everything is checked, so that labelling with a damaged or hostile file ends, and stays within its
/// tables and the memory that it says.
pub(super) fn take(
    tables: &mut TableReader<'_>,
    card: RegionCard,
) -> Result<RegionForest, DetectError> {
    let wrong = |what: String| {
        DetectError::model(
            "regions",
            format!("{what}; the model is damaged (train or copy it again)"),
        )
    };
    let count = card.names.len();
    within("regions", "names", count as f64, (1.0, (MOST_CLASSES - 1) as f64))?;
    within("regions", "cases", card.cases as f64, (0.0, MOST_CASES as f64))?;
    within("regions", "spacing_mm", card.spacing_mm, (1e-4, LARGEST_EDGE_MM))?;
    within("regions", "channels", card.channels.len() as f64, (1.0, MOST_CHANNELS as f64))?;
    check_intensity("regions", &card.intensity)?;
    card.names.iter().try_for_each(|name| check_name("regions", name))?;
    let mut values = card.values.clone();
    values.sort_unstable();
    values.dedup();
    if values.len() != count || values.first() == Some(&0) {
        return Err(wrong("the label values are not one for each name, from 1 on".to_owned()));
    }
    let known = |filter: &Filter| {
        filter.is_valid(card.spacing_mm) && !matches!(filter, Filter::Layer { .. })
    };
    if !card.channels.iter().all(known) {
        return Err(wrong("a channel has no meaning".to_owned()));
    }
    let classes = count + 1;
    let channels = card.channels.len();
    let forest = label_forest_tables::take(tables, NAME, (classes, card.vote), channels)?;
    let bank = ChannelBank {
        filters: card.channels,
        spacing_mm: card.spacing_mm,
        outside: card.outside,
        reach: forest.reach(),
    };
    let name = |(name, value)| RegionName { name, value };
    let regions = card.names.into_iter().zip(card.values).map(name).collect();
    Ok(RegionForest { regions, cases: card.cases, intensity: card.intensity, bank, forest })
}
