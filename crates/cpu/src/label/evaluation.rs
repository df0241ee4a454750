//! What a forest says of voxels, some at a time.

use crate::label::channels::{BoundFeature, CpuChannels};
use pbt_features::MISSING;
use pbt_tree::{LEAF, LabelForest, LabelNode, LabelTree};
use rayon::prelude::*;

/// The distribution of every voxel of the channels' block, i fastest, classes together.
pub(super) fn distributions(channels: &CpuChannels, forest: &LabelForest) -> Vec<u32> {
    let block = &channels.block;
    let evaluation = Evaluation::new(channels, forest);
    let [nx, ny, _] = block.shape();
    let mut out = vec![0; block.len() * forest.classes];
    let rows = out.par_chunks_mut(nx * forest.classes).enumerate();
    rows.for_each_init(Scratch::default, |scratch, (row, out)| {
        let [j, k] = [block.min[1] + row % ny, block.min[2] + row / ny];
        let voxels: Vec<_> = (block.min[0]..block.max[0]).map(|i| [i, j, k]).collect();
        let tiles = out.chunks_mut(TILE * forest.classes).zip(voxels.chunks(TILE));
        tiles.for_each(|(out, voxels)| evaluation.tile(voxels, scratch, out));
    });
    out
}

/// The same at some voxels.
pub(super) fn distributions_at(
    channels: &CpuChannels,
    forest: &LabelForest,
    voxels: &[[usize; 3]],
) -> Vec<u32> {
    let evaluation = Evaluation::new(channels, forest);
    let mut out = vec![0; voxels.len() * forest.classes];
    let tiles = out.par_chunks_mut(TILE * forest.classes).zip(voxels.par_chunks(TILE));
    tiles.for_each_init(Scratch::default, |scratch, (out, voxels)| {
        evaluation.tile(voxels, scratch, out);
    });
    out
}

/// Voxels that a thread goes through at a time: the responses of some hundred features there stay
/// in its cache.
const TILE: usize = 64;

/// What a thread uses again from tile to tile.
#[derive(Default)]
struct Scratch {
    runs: Vec<Run>,
    /// `[feature][voxel]`.
    responses: Vec<i64>,
}

/// Voxels of a tile that follow each other along i.
struct Run {
    /// The place of the first one in the tile.
    first: usize,
    count: usize,
    voxel: [usize; 3],
}

/// A forest made ready for the channels of a part.
struct Evaluation<'a> {
    channels: &'a CpuChannels,
    forest: &'a LabelForest,
    features: Vec<BoundFeature<'a>>,
    /// Where each feature is computed once a voxel, since a voxel meets more nodes than there are
    /// features; else none, and features are computed where a node asks.
    in_step: Option<Vec<InStep>>,
}

impl<'a> Evaluation<'a> {
    fn new(channels: &'a CpuChannels, forest: &'a LabelForest) -> Self {
        let levels = |nodes: usize| nodes.ilog2() as usize;
        let met: usize = forest.trees.iter().map(|tree| levels(tree.nodes.len())).sum();
        let repeats = met > forest.features.len();
        Self {
            channels,
            forest,
            features: forest.features.iter().map(|f| channels.bind(f)).collect(),
            in_step: repeats.then(|| forest.trees.iter().map(InStep::new).collect()),
        }
    }

    /// Writes the distributions of some voxels, at most [`TILE`].
    fn tile(&self, voxels: &[[usize; 3]], scratch: &mut Scratch, out: &mut [u32]) {
        let (forest, count) = (self.forest, voxels.len());
        let Some(trees) = &self.in_step else {
            for (sums, &voxel) in out.chunks_exact_mut(forest.classes).zip(voxels) {
                let base = self.channels.base(voxel);
                forest.distribution(|f| self.features[f as usize].response(voxel, base), sums);
            }
            return;
        };
        let Scratch { runs, responses } = scratch;
        runs.clear();
        for (first, &[i, j, k]) in voxels.iter().enumerate() {
            match runs.last_mut() {
                Some(run)
                    if [run.voxel[0] + run.count, run.voxel[1], run.voxel[2]] == [i, j, k] =>
                {
                    run.count += 1;
                }
                _ => runs.push(Run { first, count: 1, voxel: [i, j, k] }),
            }
        }
        responses.resize(self.features.len() * TILE, 0);
        for (row, feature) in responses.chunks_exact_mut(TILE).zip(&self.features) {
            for run in runs.iter() {
                let base = self.channels.base(run.voxel);
                feature.responses(run.voxel, base, &mut row[run.first..][..run.count]);
            }
        }
        out.fill(0);
        let mut at = [0; TILE];
        for (in_step, tree) in trees.iter().zip(&forest.trees) {
            in_step.leaves(responses, &mut at[..count]);
            for (&node, sums) in at.iter().zip(out.chunks_exact_mut(forest.classes)) {
                let leaf = tree.nodes[node as usize].next as usize;
                forest.add(&tree.leaves[leaf * forest.classes..][..forest.classes], sums);
            }
        }
    }
}

/// A tree through which voxels go side by side, a level at a time: so many answers are under way at
/// once, where one voxel after the other waits for each. Those that have arrived stay in their leaf.
struct InStep {
    nodes: Vec<Test>,
    levels: usize,
}

/// A [`LabelNode`] with the place of its feature's responses.
#[derive(Clone, Copy)]
struct Test {
    low: i64,
    high: i64,
    row: u32,
    next: u32,
}

impl InStep {
    fn new(tree: &LabelTree) -> Self {
        let mut depths = vec![0; tree.nodes.len()];
        let test = |(n, node): (usize, &LabelNode)| {
            if node.feature == LEAF {
                // Every response leads back here.
                return Test { low: MISSING, high: i64::MAX, row: 0, next: n as u32 };
            }
            let depth = depths[n] + 1;
            let children = &mut depths[node.next as usize..][..2];
            children.iter_mut().for_each(|child| *child = depth.max(*child));
            let LabelNode { low, high, .. } = *node;
            Test { low, high, row: node.feature * TILE as u32, next: node.next }
        };
        let nodes = tree.nodes.iter().enumerate().map(test).collect();
        Self { nodes, levels: depths.into_iter().max().unwrap_or(0) }
    }

    /// Writes the node of the leaf where each voxel arrives; `responses` are `[feature][voxel]`.
    fn leaves(&self, responses: &[i64], at: &mut [u32]) {
        at.fill(0);
        for _ in 0..self.levels {
            for (n, at) in at.iter_mut().enumerate() {
                let test = &self.nodes[*at as usize];
                let found = responses[test.row as usize + n];
                let is_no = (found < test.low) | (found >= test.high);
                *at = test.next + u32::from(is_no);
            }
        }
    }
}
