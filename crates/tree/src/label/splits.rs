//! The best splits of the nodes of a level, on the host: what the CPU's backend finds, and for any
//! device what only the host knows, other gains, drawn thresholds and tests that nodes share.

use crate::label::backend::{Split, SplitTask};
use crate::label::edges::LABEL_BINS;
use crate::label::gain::{ALL_ENDS, BinTest, Ends, Histogram, LEAST_GAIN, SplitRule, TestGain};
use crate::label::matrix::LabelMatrix;
use rayon::prelude::*;

/// Candidates that a thread goes through at a time.
const TILE: usize = 16;

/// Memory that a thread uses again and again.
struct Scratch {
    counts: Vec<[u32; LABEL_BINS]>,
    left: Vec<u32>,
}

impl Scratch {
    fn new(classes: usize) -> Self {
        Self { counts: vec![[0; LABEL_BINS]; classes], left: vec![0; classes] }
    }

    /// Counts the samples of a node by class and bin of a feature.
    fn count(&mut self, matrix: &LabelMatrix, task: &SplitTask<'_>, feature: u32) {
        let row = matrix.row(feature);
        let mut rest = task.samples;
        for (counts, &count) in self.counts.iter_mut().zip(task.counts) {
            let (of_class, others) = rest.split_at(count as usize);
            rest = others;
            counts.fill(0);
            for &sample in of_class {
                // Bins are below 64; the mask saves a test of bounds.
                counts[usize::from(row[sample as usize]) % LABEL_BINS] += 1;
            }
        }
    }
}

/// The best split of each node by a rule, of equals the one on the lower feature, then the one that
/// ends lower. `ends` has for each task the bins at which the tests of its candidates may end; none
/// for all bins.
pub fn splits_on_host(
    matrix: &LabelMatrix,
    tasks: &[SplitTask<'_>],
    ends: &[Vec<Ends>],
    rule: &SplitRule,
) -> Vec<Option<Split>> {
    let tiles: Vec<(usize, usize)> = tasks
        .iter()
        .enumerate()
        .flat_map(|(n, task)| (0..task.candidates.len()).step_by(TILE).map(move |c| (n, c)))
        .collect();
    let of_tile = |scratch: &mut Scratch, &(n, first): &(usize, usize)| {
        let candidates = &tasks[n].candidates[first..];
        let of = |(c, &(feature, begin)): (usize, &(u32, u8))| {
            let ends = ends.get(n).and_then(|ends| ends.get(first + c)).copied();
            scratch.count(matrix, &tasks[n], feature);
            let bins = matrix.edges(feature).bins();
            let histogram = Histogram { bins, counts: &scratch.counts, totals: tasks[n].counts };
            let test = (usize::from(begin), ends.unwrap_or(ALL_ENDS));
            let test = histogram.best(test, rule, &mut scratch.left)?;
            Some(Split { feature, test })
        };
        candidates.iter().take(TILE).enumerate().filter_map(of).reduce(Split::better)
    };
    let scratch = || Scratch::new(matrix.classes());
    let found: Vec<Option<Split>> = tiles.par_iter().map_init(scratch, of_tile).collect();
    let mut best = vec![None; tasks.len()];
    for ((n, _), split) in tiles.into_iter().zip(found) {
        best[n] = match (best[n], split) {
            (Some(before), Some(split)) => Some(Split::better(before, split)),
            (before, split) => before.or(split),
        };
    }
    best
}

/// The best split that nodes share, all with the candidates of the first one: that with the highest
/// gain over all nodes. A node that it would leave fewer than `min_leaf` samples on a side gains
/// nothing by it.
pub(crate) fn shared_split(
    matrix: &LabelMatrix,
    tasks: &[SplitTask<'_>],
    ends: &[Ends],
    rule: &SplitRule,
) -> Option<Split> {
    let samples: i64 = tasks.iter().map(|task| task.samples.len() as i64).sum();
    let of = |scratch: &mut Scratch, (c, &(feature, begin)): (usize, &(u32, u8))| {
        let (first, bins) = (usize::from(begin), matrix.edges(feature).bins());
        let test = (first, ends.get(c).copied().unwrap_or(ALL_ENDS));
        let mut all = [TestGain::default(); LABEL_BINS];
        let mut classes = 0;
        for task in tasks {
            scratch.count(matrix, task, feature);
            let histogram = Histogram { bins, counts: &scratch.counts, totals: task.counts };
            classes += histogram.class_entropy();
            histogram.each_test(test, rule.min_leaf, &mut scratch.left, |last, of| {
                all[last].information += of.information;
                all[last].sides += of.sides;
            });
        }
        let mut best: Option<BinTest> = None;
        for (last, of) in all.into_iter().enumerate() {
            let gain = rule.gain.worth(&TestGain { classes, ..of });
            let enough = of.information > LEAST_GAIN * samples;
            if enough && best.is_none_or(|best| gain > best.gain) {
                best = Some(BinTest { gain, first: begin, last: last as u8 });
            }
        }
        best.map(|test| Split { feature, test })
    };
    let candidates = tasks.first()?.candidates.par_iter().enumerate();
    let found: Vec<Option<Split>> =
        candidates.map_init(|| Scratch::new(matrix.classes()), of).collect();
    found.into_iter().flatten().reduce(Split::better)
}
