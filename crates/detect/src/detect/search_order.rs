//! In which order structures are searched for, and where: first one that says where the others lie.

use crate::DetectError;
use crate::detect::clock::Clock;
use crate::detect::detection::Trace;
use crate::detect::images::Prepared;
use crate::model::StructureModel;
use crate::network::graph::Network;
use crate::network::search_region::{Anchor, Region};
use crate::side_by_side;
use crate::stages::voxel_search::ALL;
use pbt_tree::Backend;
use pbt_volume::Pose;

/// From this probability on a structure is found for sure, and the others are searched for about it.
pub(crate) const SURE: f64 = 0.9;

/// What is found in a region counts from this probability on; else the whole image is searched.
const LIKELY: f64 = 0.5;

/// Regions are worth while where they are smaller than this share of the image.
pub(crate) const SMALLER: f64 = 0.5;

/// Structures that are searched for before the others, at most: the second where the first is not sure.
pub(crate) const ANCHORS: usize = 2;

/// Searches for every structure by itself, in the image that `on` gives it; so many at a time.
pub(super) fn search_together<'a, B: Backend + 'a>(
    backend: &B,
    structures: &[StructureModel],
    on: impl Fn(usize) -> &'a Prepared<'a, B> + Sync,
    network: Option<&Network>,
    at_a_time: usize,
    clock: &mut Clock,
) -> Result<Vec<Trace>, DetectError> {
    let mut traces: Vec<Option<Trace>> = vec![None; structures.len()];
    let anchors = network.map_or(&[][..], |network| &network.anchors);
    let is_large =
        |anchor: &&Anchor| on(anchor.structure).level(&structures[anchor.structure]).len() > ALL;
    let mut found: Option<(&Anchor, Pose)> = None;
    for anchor in anchors.iter().take(ANCHORS).filter(is_large) {
        let structure = &structures[anchor.structure];
        let trace = structure.search(backend, on(anchor.structure), None, clock)?;
        let (pose, probability) = best(structure, &trace);
        traces[anchor.structure] = Some(trace);
        if probability >= SURE {
            found = Some((anchor, pose));
            break;
        }
    }
    let region = |s: usize| -> Option<Region> {
        let (anchor, pose) = found.as_ref()?;
        let grid = on(s).level(&structures[s]);
        let region = anchor.region(s, pose, (grid, structures[s].prior.scale_mm))?;
        let is_smaller = (region.len() as f64) < SMALLER * grid.len() as f64;
        (grid.len() > ALL && is_smaller).then_some(region)
    };
    let left: Vec<usize> = (0..structures.len()).filter(|&s| traces[s].is_none()).collect();
    let searched = side_by_side::each(left.len(), at_a_time, |n| {
        let (s, mut own) = (left[n], Clock::default());
        if let Some(region) = region(s) {
            let trace = structures[s].search(backend, on(s), Some(&region), &mut own)?;
            if best(&structures[s], &trace).1 >= LIKELY {
                return Ok((trace, own));
            }
        }
        let trace = structures[s].search(backend, on(s), None, &mut own)?;
        Ok::<_, DetectError>((trace, own))
    })?;
    let (own, clocks): (Vec<Trace>, Vec<Clock>) = searched.into_iter().unzip();
    clock.share(&clocks);
    for (s, trace) in left.into_iter().zip(own) {
        traces[s] = Some(trace);
    }
    Ok(traces.into_iter().flatten().collect())
}

/// The best pose of the structure's own search, and how probable it is by its own detector.
pub(crate) fn best(structure: &StructureModel, trace: &Trace) -> (Pose, f64) {
    let order = |&a: &usize, &b: &usize| trace.scores[a].cmp(&trace.scores[b]).then(b.cmp(&a));
    let best = (0..trace.own_modes).max_by(order).unwrap_or(0);
    (trace.converged[best], structure.verification.probability(trace.scores[best]))
}
