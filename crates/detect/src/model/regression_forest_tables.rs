//! Forests that move landmarks in the model file: sizes of trees, nodes and leaves.

use crate::DetectError;
use crate::model::tables::{TableReader, TableWriter};
use pbt_tree::{RegressionForest, RegressionNode, RegressionTree};

/// Forests of as many trees each, one after another.
pub(super) fn put_forests<'a>(
    tables: &mut TableWriter,
    name: &str,
    forests: impl Iterator<Item = &'a RegressionForest> + Clone,
) {
    let trees = || forests.clone().flat_map(|forest| &forest.trees);
    let nodes = || trees().flat_map(|tree| &tree.nodes);
    let sizes = trees().flat_map(|tree| [tree.nodes.len() as u32, tree.leaves.len() as u32]);
    tables.put(format!("{name}.trees"), 2, sizes);
    tables.put(format!("{name}.values"), 1, nodes().map(|node| node.value));
    tables.put(format!("{name}.bounds"), 1, nodes().map(|node| node.bound));
    tables.put(format!("{name}.next"), 1, nodes().map(|node| node.next));
    tables.put(format!("{name}.leaves"), 1, trees().flat_map(|tree| tree.leaves.iter().copied()));
}

/// As many forests as `outputs` has entries, each of so many trees, that look at patches of so many
/// values. Checks that their evaluation ends and stays within the tables.
pub(super) fn take_forests(
    tables: &mut TableReader<'_>,
    name: &str,
    (trees, length): (usize, usize),
    outputs: &[usize],
) -> Result<Vec<RegressionForest>, DetectError> {
    let wrong = || {
        DetectError::model(
            name,
            "the tables of a forest disagree; the model is damaged (train or copy it again)",
        )
    };
    let sizes: Vec<u32> = tables.take(&format!("{name}.trees"), 2)?;
    let values: Vec<u16> = tables.take(&format!("{name}.values"), 1)?;
    let bounds: Vec<i16> = tables.take(&format!("{name}.bounds"), 1)?;
    let next: Vec<u32> = tables.take(&format!("{name}.next"), 1)?;
    let leaves: Vec<i16> = tables.take(&format!("{name}.leaves"), 1)?;
    let total =
        |n: usize| sizes.iter().skip(n).step_by(2).map(|&size| size as usize).sum::<usize>();
    if sizes.len() != 2 * trees * outputs.len()
        || [values.len(), bounds.len(), next.len()] != [total(0); 3]
        || leaves.len() != total(1)
    {
        return Err(wrong());
    }
    let node = |((&value, &bound), &next)| RegressionNode { value, bound, next };
    let mut nodes = values.iter().zip(&bounds).zip(&next).map(node);
    let mut leaves = leaves.into_iter();
    let tree = |sizes: &[u32]| RegressionTree {
        nodes: nodes.by_ref().take(sizes[0] as usize).collect(),
        leaves: leaves.by_ref().take(sizes[1] as usize).collect(),
    };
    let mut grown = sizes.chunks_exact(2).map(tree);
    let forest = |&outputs: &usize| {
        let forest = RegressionForest { outputs, trees: grown.by_ref().take(trees).collect() };
        forest.is_valid(length).then_some(forest).ok_or_else(wrong)
    };
    outputs.iter().map(forest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_tree::{REGRESSION_LEAF, RegressionForestParams};

    const TREES: usize = 3;

    fn forests() -> Vec<RegressionForest> {
        let patches: Vec<i16> = (0..200).map(|n| (n * 37 % 101) as i16).collect();
        let params = RegressionForestParams { trees: TREES, min_leaf: 2, looks: 2 };
        let grown = |outputs: usize| {
            let target = |o: usize| (0..50).map(|n| (n + o) as f64 / 60.0).collect();
            let targets: Vec<Vec<f64>> = (0..outputs).map(target).collect();
            RegressionForest::grow(&patches, 4, &targets, &params, outputs as u64)
        };
        vec![grown(3), grown(6)]
    }

    /// What is read of what was written, as a patch of so many values and so many outputs.
    fn read(
        forests: &[RegressionForest],
        trees: usize,
        length: usize,
        outputs: &[usize],
    ) -> Result<Vec<RegressionForest>, DetectError> {
        let mut tables = TableWriter::default();
        put_forests(&mut tables, "f", forests.iter());
        let bytes = tables.finish(String::new()).unwrap();
        let (mut tables, _) = TableReader::new(&bytes).unwrap();
        take_forests(&mut tables, "f", (trees, length), outputs)
    }

    #[test]
    fn forests_come_back_as_they_were() {
        assert_eq!(read(&forests(), TREES, 4, &[3, 6]).unwrap(), forests());
    }

    #[test]
    fn tables_that_disagree_are_refused() {
        let sound = forests();
        let highest = sound.iter().flat_map(|f| &f.trees).flat_map(|t| &t.nodes).map(|n| n.value);
        let highest = highest.filter(|&value| value != REGRESSION_LEAF).max().unwrap();
        for refused in [
            read(&sound, TREES, usize::from(highest), &[3, 6]),
            read(&sound, TREES + 1, 4, &[3, 6]),
            read(&sound, TREES, 4, &[3]),
            read(&sound, TREES, 4, &[3, 7]),
        ] {
            assert!(refused.unwrap_err().to_string().contains("the tables of a forest disagree"));
        }
    }
}
