//! Forests that label voxels in the model file: five tables.

use crate::DetectError;
use crate::model::tables::{TableReader, TableWriter};
use pbt_features::{BoxMeanFeature, MeanBox};
use pbt_tree::{LabelForest, LabelNode, LabelTree, Vote};

/// Most channels: those of the default bank at 16 scales, and the place.
pub(super) const MOST_CHANNELS: usize = 64;

/// Corner, size and channel of a box.
fn box_row(b: &MeanBox) -> [i16; 7] {
    let [i, j, k] = b.min;
    let [x, y, z] = b.size.map(|n| n as i16);
    [i, j, k, x, y, z, i16::from(b.channel)]
}

/// Puts a forest into tables of this name.
pub(super) fn put(tables: &mut TableWriter, name: &str, forest: &LabelForest) {
    let second = |f: &BoxMeanFeature| f.second.as_ref().map_or([0; 7], box_row);
    let row = |f: &BoxMeanFeature| [box_row(&f.first), second(f)].concat();
    tables.put(format!("{name}.features"), 14, forest.features.iter().flat_map(row));
    let leaves = |t: &LabelTree| t.leaves.len() / forest.classes;
    let lengths = forest.trees.iter().flat_map(|t| [t.nodes.len() as u32, leaves(t) as u32]);
    tables.put(format!("{name}.trees"), 2, lengths);
    let nodes = || forest.trees.iter().flat_map(|t| &t.nodes);
    tables.put(format!("{name}.nodes"), 2, nodes().flat_map(|n| [n.feature, n.next]));
    tables.put(format!("{name}.bounds"), 2, nodes().flat_map(|n| [n.low, n.high]));
    let leaves = forest.trees.iter().flat_map(|t| t.leaves.iter().copied());
    tables.put(format!("{name}.leaves"), forest.classes, leaves);
}

/// Takes a forest, and checks that evaluation ends and stays within its tables.
pub(super) fn take(
    tables: &mut TableReader<'_>,
    name: &str,
    (classes, vote): (usize, Vote),
    channels: usize,
) -> Result<LabelForest, DetectError> {
    let wrong = |what: &str| {
        DetectError::model(name, format!("{what}; the model is damaged (train or copy it again)"))
    };
    let features = features(&tables.take(&format!("{name}.features"), 14)?)
        .ok_or_else(|| wrong("a feature's size is negative"))?;
    let trees = trees(tables, name, classes)?.ok_or_else(|| wrong("the tables disagree"))?;
    let forest = LabelForest { classes, vote, features, trees };
    match forest.fault(channels) {
        Some(fault) => Err(wrong(&format!("the forest {fault}"))),
        None => Ok(forest),
    }
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
    name: &str,
    classes: usize,
) -> Result<Option<Vec<LabelTree>>, DetectError> {
    let lengths: Vec<u32> = tables.take(&format!("{name}.trees"), 2)?;
    let nodes: Vec<u32> = tables.take(&format!("{name}.nodes"), 2)?;
    let bounds: Vec<i64> = tables.take(&format!("{name}.bounds"), 2)?;
    let leaves: Vec<u16> = tables.take(&format!("{name}.leaves"), classes)?;
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
