//! Masks of held-out cases against the truth, on the grids of their images.

use crate::data::training_data::TrainingData;
use crate::masks::groups::{Group, LoadedCases};
use crate::masks::labelling::Labelling;
use crate::masks::samples::Instance;
use crate::masks::training_frames::Frame;
use crate::segment::data::IGNORED;
use pbt_volume::Volume;
use rayon::prelude::*;

/// How many voxels of the image have a class, by class, the background's first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Overlap {
    /// In the mask.
    pub(crate) found: Vec<u64>,
    /// In truth.
    pub(crate) truth: Vec<u64>,
    /// In both.
    pub(crate) both: Vec<u64>,
}

impl Overlap {
    fn new(classes: usize) -> Self {
        let none = vec![0; classes];
        Self { found: none.clone(), truth: none.clone(), both: none }
    }

    /// The Dice coefficient of a class; `None` where the truth has none of it.
    pub(crate) fn dice(&self, class: usize) -> Option<f64> {
        let (found, truth) = (self.found[class], self.truth[class]);
        (truth > 0).then(|| 2.0 * self.both[class] as f64 / (found + truth) as f64)
    }

    /// Of all labels as one.
    fn dice_of_all(&self) -> f64 {
        let sum = |counts: &[u64]| counts[1..].iter().sum::<u64>() as f64;
        2.0 * sum(&self.both) / (sum(&self.found) + sum(&self.truth)).max(1.0)
    }
}

/// Of the mask of each frame.
pub(crate) fn overlaps<D: TrainingData + ?Sized>(
    group: &Group<'_, D>,
    instances: &[Instance],
    loaded: &LoadedCases,
    (frames, classes): (&[Frame], usize),
    label_weight: u32,
) -> Vec<Overlap> {
    let values: Vec<u16> = (1..classes as u16).collect();
    let of = |frame: &Frame| {
        let mut overlap = Overlap::new(classes);
        let instance = &instances[frame.instance];
        let Some(shown) = loaded.get(&instance.case) else { return overlap };
        let own = group.own_classes(instance.structure);
        let mut labelling = Labelling::new(shown.classes.geometry());
        labelling.add((&frame.grid, &frame.shares), &values, label_weight);
        let labels: Volume<u16> = labelling.finish();
        for (&mask, &truth) in labels.data().iter().zip(shown.classes.data()) {
            let truth = own[usize::from(truth)];
            if truth == IGNORED {
                continue;
            }
            overlap.found[usize::from(mask)] += 1;
            overlap.truth[usize::from(truth)] += 1;
            overlap.both[usize::from(mask)] += u64::from(mask == u16::from(truth));
        }
        overlap
    };
    frames.par_iter().map(of).collect()
}

/// The mean Dice coefficient of a label.
pub(crate) fn mean_dice_of_a_label(overlaps: &[Overlap]) -> f64 {
    let dices = || overlaps.iter().flat_map(|o| (1..o.truth.len()).filter_map(|c| o.dice(c)));
    dices().sum::<f64>() / dices().count().max(1) as f64
}

/// The mean Dice coefficient, all labels as one.
pub(crate) fn mean_dice(overlaps: &[Overlap]) -> f64 {
    overlaps.iter().map(Overlap::dice_of_all).sum::<f64>() / overlaps.len().max(1) as f64
}
