//! What is searched for first: learned from held-out cases, greedily (Sofka et al. 2010).

use crate::data::training_data::TrainingData;
use crate::detect::detection::Detection;
use crate::detect::search_order::{ANCHORS, SMALLER, SURE, best};
use crate::model::{Model, StructureModel};
use crate::network::search_region::Anchor;
use pbt_volume::{Geometry, PointLps, Pose};

/// A structure as its own detector finds it in a held-out case.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundAlone {
    structure: usize,
    pose: Pose,
    probability: f64,
    /// Where it truly is.
    center: PointLps,
}

impl FoundAlone {
    /// What the detector of structure `structure` said before its neighbours spoke.
    pub(super) fn new(
        (structure, detector): (usize, &StructureModel),
        detection: &Detection,
        center: PointLps,
    ) -> Self {
        let (pose, probability) = best(detector, &detection.trace);
        Self { structure, pose, probability, center }
    }
}

/// Leaves the model the few anchors that save most of the search in the held-out cases. Where there are
/// none, those that tell most of where the others lie.
pub(super) fn settle<D: TrainingData + ?Sized>(
    model: &mut Model,
    data: &D,
    held_out: &[(usize, Vec<FoundAlone>)],
) {
    let Some(network) = &mut model.network else { return };
    if held_out.is_empty() {
        network.anchors.truncate(ANCHORS);
        return;
    }
    let cases: Vec<(&Geometry, &[FoundAlone])> =
        held_out.iter().map(|(case, found)| (data.list().geometry(*case), &found[..])).collect();
    let scales_mm: Vec<f64> = model.structures.iter().map(|s| s.prior.scale_mm).collect();
    network.anchors = best_order(std::mem::take(&mut network.anchors), cases, &scales_mm);
}

/// The anchor that saves most, then the one that saves most where the first one is not sure.
fn best_order(
    mut anchors: Vec<Anchor>,
    mut cases: Vec<(&Geometry, &[FoundAlone])>,
    scales_mm: &[f64],
) -> Vec<Anchor> {
    let mut chosen = Vec::new();
    while chosen.len() < ANCHORS {
        let gain = |anchor: &Anchor| -> f64 {
            cases.iter().map(|&(image, found)| saved(anchor, image, found, scales_mm)).sum()
        };
        let gains: Vec<f64> = anchors.iter().map(gain).collect();
        let order = |&a: &usize, &b: &usize| gains[a].total_cmp(&gains[b]).then(b.cmp(&a));
        let most = (0..anchors.len()).max_by(order).filter(|&a| gains[a] > 0.0);
        let Some(most) = most else { break };
        let anchor = anchors.remove(most);
        cases.retain(|&(image, found)| saved(&anchor, image, found, scales_mm) == 0.0);
        chosen.push(anchor);
    }
    chosen
}

/// How much of an image need not be searched, in images, where this anchor is searched for first: nothing
/// unless it is sure; then what is outside the region of each structure that lies in it.
fn saved(anchor: &Anchor, image: &Geometry, found: &[FoundAlone], scales_mm: &[f64]) -> f64 {
    let own = found.iter().find(|f| f.structure == anchor.structure && f.probability >= SURE);
    let Some(own) = own else { return 0.0 };
    let outside = |other: &FoundAlone| {
        let scale_mm = scales_mm[other.structure];
        let region = anchor.region(other.structure, &own.pose, (image, scale_mm))?;
        let share = region.len() as f64 / image.len() as f64;
        let is_inside = region.holds(image.to_index(other.center).0.into());
        (is_inside && share < SMALLER).then_some(1.0 - share)
    };
    found.iter().filter_map(outside).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Orientations;
    use crate::network::search_region::anchors;
    use crate::pose::prior::Prior;
    use crate::random::test_random;
    use nalgebra::UnitQuaternion;

    /// Three structures in twelve images of 200 mm, 30 mm apart; `probability` is what the detector of
    /// each says.
    fn order(probability: [f64; 3], off_mm: f64) -> Vec<usize> {
        let mut random = test_random(5);
        let image = Geometry::isotropic([100; 3], 2.0).unwrap();
        let mut at = |x: f64, spread: f64| {
            let center = PointLps::new(x + spread * random.normal(), 100.0, 100.0);
            Pose { center, orientation: UnitQuaternion::identity(), size_mm: [20.0; 3] }
        };
        let row = |_| [at(70.0, 1.0), at(100.0, 2.0), at(130.0, 4.0)];
        let rows: Vec<[Pose; 3]> = (0..12).map(row).collect();
        let poses: Vec<Vec<Option<Pose>>> =
            (0..3).map(|s| rows.iter().map(|row| Some(row[s])).collect()).collect();
        let priors: Vec<Prior> = (0..3)
            .map(|s| {
                let own: Vec<Pose> = rows.iter().map(|row| row[s]).collect();
                Prior::new(&own, &[image.center(); 12], Orientations::default())
            })
            .collect();
        let priors: Vec<&Prior> = priors.iter().collect();
        let all = anchors(&poses, &priors, |_| true);
        assert_eq!(all.len(), 3);
        let alone = |row: &[Pose; 3]| -> Vec<FoundAlone> {
            let one = |s: usize| {
                let mut pose = row[s];
                pose.center.0.x += off_mm;
                let center = row[s].center;
                FoundAlone { structure: s, pose, probability: probability[s], center }
            };
            (0..3).map(one).collect()
        };
        let found: Vec<Vec<FoundAlone>> = rows.iter().map(alone).collect();
        let cases = found.iter().map(|found| (&image, &found[..])).collect();
        best_order(all, cases, &[20.0; 3]).iter().map(|anchor| anchor.structure).collect()
    }

    #[test]
    fn what_is_sure_comes_first_and_one_that_is_always_sure_is_enough() {
        assert_eq!(order([0.4, 0.3, 0.95], 0.0), [2]);
        assert_eq!(order([0.99, 0.3, 0.2], 0.0), [0]);
        assert!(order([0.8; 3], 0.0).is_empty());
    }

    #[test]
    fn what_is_sure_of_a_wrong_place_saves_nothing() {
        assert!(order([1.0; 3], 80.0).is_empty());
    }
}
