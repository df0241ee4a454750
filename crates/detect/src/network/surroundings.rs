//! Training of a test that tells a structure which is alone from its look-alikes by what lies about it,
//! farther than its own detector sees: the level shift test for a chain of one.

use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Subjects, TrainingData};
use crate::model::StructureModel;
use crate::network::choice::APART;
use crate::network::level_shift::{LevelShiftSpec, LevelShiftTest};
use crate::network::level_shift_training::{FEWEST_CASES, JITTER, POINTS, Samples};
use crate::pose::step::{Reach, perturbed_normally};
use crate::random::{Seeds, Stream};
use pbt_tree::{Backend, PoseSite};
use pbt_volume::Pose;
use std::collections::BTreeSet;

/// What is looked at: a cube of this edge, in D. On 20 lone vertebrae, each left out once, the right
/// one of the places where the search ended looks best in 13 cases with 2.4 D, in 16 with 3.6 D, in
/// 18 with 6 D, and in 11 to the vertebra's own detector.
const EXTENT: f64 = 6.0;

/// Jittered copies of the truth in each case, shared with its copies, and as many of the other places.
/// With a quarter of them the jitter decides whether the test helps.
const EACH: usize = 64;

/// Learns to tell the structure from the other places where its search ends in the training images.
/// `None` where there are too few of these.
///
/// # Errors
/// Whatever reading an image gives; [`DetectError::Device`](crate::DetectError::Device) when the device fails.
pub(crate) fn train<B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    structure: &StructureModel,
    seeds: Seeds,
) -> Result<Option<LevelShiftTest>, D::Error> {
    let (working, scale_mm) = (&structure.working, structure.prior.scale_mm);
    let spec = LevelShiftSpec::new(vec![0], (EXTENT, POINTS), working, scale_mm);
    let (_, annotated) = &data.structures()[0];
    let subjects = Subjects::new(data, annotated);
    let each = (EACH * subjects.originals() / annotated.len()).max(1);
    let jitter = Reach { center_mm: JITTER.center_mm * scale_mm, ..JITTER };
    let shown = pyramids.get_all(data, annotated.iter().map(|a| a.0), working, || false)?;
    let mut samples = Samples::default();
    for (n, (case, truth)) in annotated.iter().enumerate() {
        let middle = data.list().geometry(*case).center();
        let (image, ends) = structure.ends(backend, (&shown[case], middle))?;
        let is_elsewhere = |end: &Pose| end.center.distance_mm(&truth.center) > APART * scale_mm;
        let others: Vec<Pose> = ends.into_iter().filter(is_elsewhere).collect();
        if others.is_empty() {
            continue;
        }
        let mut random = seeds.random(Stream::LevelShiftPoses, n);
        let right = std::iter::repeat_n(truth, each);
        let poses: Vec<Pose> = right
            .chain(others.iter().cycle().take(each))
            .map(|pose| perturbed_normally(pose, &jitter, &mut random))
            .collect();
        let sites: Vec<PoseSite> =
            (0..poses.len()).flat_map(|first| spec.sites(0, &poses, first)).collect();
        samples.seen.extend(spec.see(backend, &[&image], &sites, None)?);
        samples.right.extend((0..poses.len()).map(|n| n < each));
        samples.cases.extend(std::iter::repeat_n(n, poses.len()));
    }
    let with_others: BTreeSet<usize> = samples.cases.iter().map(|&n| subjects.subject(n)).collect();
    let enough = with_others.len() >= FEWEST_CASES;
    Ok(enough.then(|| samples.learn(spec, &subjects)))
}
