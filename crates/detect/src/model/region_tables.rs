//! The forest of regions in the model file: a card and five tables.

use crate::DetectError;
use crate::model::limits::{MOST_CASES, check_intensity, check_name, within};
use crate::model::tables::{TableReader, TableWriter};
use crate::segment::data::RegionName;
use crate::segment::region_forest::RegionForest;
use pbt_features::{BoxMeanFeature, Filter, MeanBox};
use pbt_tree::{ChannelBank, LabelForest, LabelNode, LabelTree, MOST_CLASSES, Outside, Vote};
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

const FEATURES: &str = "regions.features";
const TREES: &str = "regions.trees";
const NODES: &str = "regions.nodes";
const BOUNDS: &str = "regions.bounds";
const LEAVES: &str = "regions.leaves";

/// Corner, size and channel of a box.
fn box_row(b: &MeanBox) -> [i16; 7] {
    let [i, j, k] = b.min;
    let [x, y, z] = b.size.map(|n| n as i16);
    [i, j, k, x, y, z, i16::from(b.channel)]
}

pub(super) fn put(tables: &mut TableWriter, regions: &RegionForest) -> RegionCard {
    let RegionForest { bank, forest, .. } = regions;
    let second = |f: &BoxMeanFeature| f.second.as_ref().map_or([0; 7], box_row);
    let row = |f: &BoxMeanFeature| [box_row(&f.first), second(f)].concat();
    tables.put(FEATURES.to_owned(), 14, forest.features.iter().flat_map(row));
    let leaves = |t: &LabelTree| t.leaves.len() / forest.classes;
    let lengths = forest.trees.iter().flat_map(|t| [t.nodes.len() as u32, leaves(t) as u32]);
    tables.put(TREES.to_owned(), 2, lengths);
    let nodes = || forest.trees.iter().flat_map(|t| &t.nodes);
    tables.put(NODES.to_owned(), 2, nodes().flat_map(|n| [n.feature, n.next]));
    tables.put(BOUNDS.to_owned(), 2, nodes().flat_map(|n| [n.low, n.high]));
    let leaves = forest.trees.iter().flat_map(|t| t.leaves.iter().copied());
    tables.put(LEAVES.to_owned(), forest.classes, leaves);
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

/// Most channels: those of the default bank at 16 scales, and the place.
const MOST_CHANNELS: usize = 64;

/// Everything is checked, so that labelling with a damaged or hostile file ends, and stays within its
/// tables and the memory that it says.
pub(super) fn take(
    tables: &mut TableReader<'_>,
    card: RegionCard,
) -> Result<RegionForest, DetectError> {
    let wrong = |what: String| {
        DetectError::model(
            "regions",
            format!("{what}; the model is damaged, train or copy it again"),
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
    if !card.channels.iter().all(|filter| filter.is_valid(card.spacing_mm)) {
        return Err(wrong("a channel has no meaning".to_owned()));
    }
    let classes = count + 1;
    let features = features(&tables.take(FEATURES, 14)?)
        .ok_or_else(|| wrong("a feature's size is negative".to_owned()))?;
    let trees = trees(tables, classes)?.ok_or_else(|| wrong("the tables disagree".to_owned()))?;
    let forest = LabelForest { classes, vote: card.vote, features, trees };
    if let Some(fault) = forest.fault(card.channels.len()) {
        return Err(wrong(format!("the forest {fault}")));
    }
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

fn features(values: &[i16]) -> Option<Vec<BoxMeanFeature>> {
    let mean_box = |row: &[i16]| {
        let size = |n: usize| u16::try_from(row[n]).ok();
        Some(MeanBox {
            min: [row[0], row[1], row[2]],
            size: [size(3)?, size(4)?, size(5)?],
            channel: u8::try_from(row[6]).ok()?,
        })
    };
    let feature = |row: &[i16]| {
        let second = &row[7..];
        let second = if second == [0; 7] { None } else { Some(mean_box(second)?) };
        Some(BoxMeanFeature { first: mean_box(&row[..7])?, second })
    };
    values.chunks_exact(14).map(feature).collect()
}

/// `None` where the lengths of the tables disagree.
fn trees(
    tables: &mut TableReader<'_>,
    classes: usize,
) -> Result<Option<Vec<LabelTree>>, DetectError> {
    let lengths: Vec<u32> = tables.take(TREES, 2)?;
    let nodes: Vec<u32> = tables.take(NODES, 2)?;
    let bounds: Vec<i64> = tables.take(BOUNDS, 2)?;
    let leaves: Vec<u16> = tables.take(LEAVES, classes)?;
    let total = |n: usize| lengths.iter().skip(n).step_by(2).map(|&l| l as usize).sum::<usize>();
    if nodes.len() != bounds.len()
        || total(0) * 2 != nodes.len()
        || total(1) * classes != leaves.len()
    {
        return Ok(None);
    }
    let node = |(node, bounds): (&[u32], &[i64])| LabelNode {
        feature: node[0],
        next: node[1],
        low: bounds[0],
        high: bounds[1],
    };
    let mut nodes = nodes.chunks_exact(2).zip(bounds.chunks_exact(2)).map(node);
    let mut leaves = leaves.chunks_exact(classes);
    let tree = |lengths: &[u32]| LabelTree {
        nodes: nodes.by_ref().take(lengths[0] as usize).collect(),
        leaves: leaves.by_ref().take(lengths[1] as usize).flatten().copied().collect(),
    };
    Ok(Some(lengths.chunks_exact(2).map(tree).collect()))
}
