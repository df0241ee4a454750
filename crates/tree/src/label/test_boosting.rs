//! What tests of boosted trees share.

use crate::device_error::DeviceError;
use crate::label::boosted_host::HostBoosting;
use crate::label::booster::{BinTree, GrownNode, LabelBooster, TreeTask};
use crate::label::edges::{Edges, MISSING_BIN};
use crate::label::matrix::LabelMatrix;

/// The host as a device.
pub(crate) struct Host;

impl LabelBooster for Host {
    type Boosting<'a> = HostBoosting<'a>;

    fn boosting<'a>(
        &self,
        matrix: &'a LabelMatrix,
        start: &[i32],
    ) -> Result<HostBoosting<'a>, DeviceError> {
        Ok(HostBoosting::new(matrix, start))
    }

    fn grow(
        &self,
        boosting: &mut HostBoosting<'_>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError> {
        Ok(boosting.grow(task))
    }

    fn add(&self, boosting: &mut HostBoosting<'_>, tree: &BinTree) -> Result<(), DeviceError> {
        boosting.add(tree);
        Ok(())
    }
}

/// Samples whose class follows from two features together, with some that are missing.
pub(crate) fn matrix(samples: usize, classes: usize, seed: u64) -> LabelMatrix {
    let mut random = crate::draw::stream(seed, 0, 0);
    let mut draw = |n: u64| crate::draw::below(&mut random, n) as i64;
    let responses: Vec<Vec<i64>> =
        (0..5).map(|_| (0..samples).map(|_| draw(1000)).collect()).collect();
    let class = |s: usize, noise: i64| {
        let high = |f: usize| usize::from(responses[f][s] > 500);
        // Neither feature alone says anything.
        let class = if noise == 0 { 0 } else { high(0) ^ high(1) };
        (class + if class > 0 { high(2) * (classes - 2).min(1) } else { 0 }) as u8
    };
    let labels: Vec<u8> = (0..samples).map(|s| class(s, draw(10))).collect();
    let edges: Vec<Edges> = responses.iter().cloned().map(Edges::of_responses).collect();
    let mut bins = Vec::new();
    for (edges, responses) in edges.iter().zip(&responses) {
        let bin = |&r: &i64| if r % 97 == 0 { MISSING_BIN } else { edges.bin(r) };
        bins.extend(responses.iter().map(bin));
    }
    LabelMatrix::new(classes, labels, edges, bins)
}
