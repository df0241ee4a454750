//! What labels the voxels about the boxes of one structure, or of several that are alike in size and shape.

use crate::DetectError;
use crate::masks::decision::EVEN;
use crate::masks::frame::FrameGrid;
use crate::masks::landmarks::LabelledLandmark;
use crate::masks::places::LabelledVoxels;
use crate::masks::prior::candidates;
use crate::masks::quality::Quality;
use crate::masks::rounds::{MaskRound, layers};
use crate::segment::data::RegionName;
use pbt_tree::{LEAF_ONE, LabelBackend, Layered};
use pbt_volume::{Geometry, IntensityPolicy, Padding, PointLps, Pose, Source, Volume, resample};

/// Labels the voxels about boxes. Class 0 is whatever does not belong to the box's structure.
#[derive(Debug, Clone, PartialEq)]
pub struct MaskStage {
    /// Whose boxes, as places in the model.
    pub structures: Vec<usize>,
    /// By structure, the label of each class from 1 on.
    pub labels: Vec<Vec<RegionName>>,
    /// Number of boxes that it was trained on.
    pub cases: usize,
    /// How intensities become 12 bits.
    pub intensity: IntensityPolicy,
    /// What lies outside the image.
    pub padding: Padding,
    /// The grid about a box.
    pub grid: FrameGrid,
    /// By class from 1 on, log-odds of each voxel of the grid before the image is seen.
    pub prior: Vec<Volume<u16>>,
    /// The rounds, one after the other.
    pub rounds: Vec<MaskRound>,
    /// What a label's probability weighs against the background's, in quarters.
    pub label_weight: u32,
    /// Whether the box after the last round is the answer; else it is the frame of the labels only.
    pub moves_box: bool,
    /// Landmarks that the labels move.
    pub landmarks: Vec<LabelledLandmark>,
    /// What is known of its errors; none where there are too few cases.
    pub quality: Option<Quality>,
}

/// The labels about a box.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mask {
    /// Where the labels say that the box is.
    pub(crate) pose: Pose,
    /// Frame of the last round.
    pub(crate) frame: Pose,
    /// Its grid.
    pub(crate) grid: Geometry,
    /// How probable each class is at each voxel, classes together, sum [`LEAF_ONE`].
    pub(crate) shares: Vec<u32>,
}

/// Turns a share into the 12 bits of a layer.
const SHARE_SHIFT: u32 = LEAF_ONE.ilog2() - 12;

/// A layer each of the classes from 1 on.
pub(crate) fn share_layers(grid: &Geometry, shares: &[u32], classes: usize) -> Vec<Volume<u16>> {
    let layer = |class: usize| {
        let value = |shares: &[u32]| (shares[class] >> SHARE_SHIFT).min(4095) as u16;
        Volume::new(grid.clone(), shares.chunks_exact(classes).map(value).collect())
    };
    (1..classes).map(layer).collect()
}

impl MaskStage {
    /// Number of classes, the background among them.
    pub fn classes(&self) -> usize {
        self.prior.len() + 1
    }

    /// A voxel has a label where that, of it and the background, is more probable than this.
    pub fn label_threshold(&self) -> f64 {
        f64::from(EVEN) / f64::from(EVEN + self.label_weight)
    }

    /// Whether a detection needs the labels, be they asked for or not.
    pub fn moves(&self) -> bool {
        self.moves_box || !self.landmarks.is_empty()
    }

    /// Moves landmarks to where labels and search together put them.
    pub(crate) fn place_landmarks(&self, mask: &Mask, landmarks: &mut [PointLps]) {
        if self.landmarks.is_empty() {
            return;
        }
        let on = (&self.grid, &mask.frame);
        let voxels = LabelledVoxels::of_shares(on, &mask.shares, self.classes());
        for moved in &self.landmarks {
            if let Some(point) = landmarks.get_mut(moved.landmark) {
                *point = moved.place(mask.frame, &voxels, *point);
            }
        }
    }

    /// Labels the voxels about a box in an image of 12 bits, given by its channels. `None` where the
    /// box has no grid: it is absurdly small.
    ///
    /// # Errors
    /// [`DetectError::Device`] when the device fails.
    pub(crate) fn find<B: LabelBackend>(
        &self,
        backend: &B,
        channels: &[impl Source],
        pose: &Pose,
    ) -> Result<Option<Mask>, DetectError> {
        let candidates = candidates(&self.prior);
        let mut found: Option<Mask> = None;
        for round in &self.rounds {
            let pose = found.as_ref().map_or(*pose, |mask| mask.pose);
            let Some(grid) = self.grid.about(&pose) else { return Ok(None) };
            let frames: Vec<Volume<u16>> =
                channels.iter().map(|channel| resample(channel, &grid, self.padding)).collect();
            let before = found.as_ref().map_or_else(Vec::new, |mask| {
                let layers = share_layers(&mask.grid, &mask.shares, self.classes());
                layers.iter().map(|layer| resample(layer, &grid, Padding::Zero)).collect()
            });
            let layers = layers(&before, &self.prior, &frames[1..]);
            let layered = Layered { image: &frames[0], layers: &layers };
            let shares = round.shares(backend, layered, &candidates)?;
            let step = round.refit.step(&self.grid, &pose, &shares, self.classes());
            found = Some(Mask { pose: step.apply(&pose), frame: pose, grid, shares });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::masks::moments;
    use crate::masks::quality::HeldOutMask;
    use crate::masks::rounds::Refit;
    use pbt_cpu::Cpu;
    use pbt_features::{BoxMeanFeature, Filter, MeanBox};
    use pbt_linear::LinearMap;
    use pbt_tree::{ChannelBank, LEAF, LabelForest, LabelNode, LabelTree, Outside, Vote};

    /// Scores of a leaf, 3 nats for the label or against it.
    const FOR: [u16; 2] = [1 << 15, (1 << 15) + 3 * 2048];
    const AGAINST: [u16; 2] = [1 << 15, (1 << 15) - 3 * 2048];

    fn round(filters: Vec<Filter>, nodes: Vec<LabelNode>, leaves: &[[u16; 2]]) -> MaskRound {
        let first = MeanBox { min: [0; 3], size: [1; 3], channel: 0 };
        let length = moments::count(1);
        MaskRound {
            bank: ChannelBank { filters, spacing_mm: 1.0, outside: Outside::Missing, reach: 1 },
            forest: LabelForest {
                classes: 2,
                vote: Vote::Scores,
                features: vec![BoxMeanFeature { first, second: None }],
                trees: vec![LabelTree { nodes, leaves: leaves.concat() }],
            },
            refit: Refit {
                map: LinearMap {
                    means: vec![0; length],
                    weights: vec![0; 9 * length],
                    weight_bits: vec![0; 9],
                    bias: vec![0; 9],
                },
                taken: [0.0; 3],
            },
        }
    }

    fn leaf(next: u32) -> LabelNode {
        LabelNode { feature: LEAF, next, low: 0, high: 0 }
    }

    /// With a prior of a half everywhere.
    fn stage(rounds: Vec<MaskRound>) -> MaskStage {
        let grid = FrameGrid::new([10.0; 3], 1.0);
        let half = Volume::from_fn(grid.geometry().unwrap(), |_, _, _| 2048);
        MaskStage {
            structures: vec![0],
            labels: vec![vec![RegionName { name: "label".into(), value: 1 }]],
            cases: 1,
            intensity: IntensityPolicy::Window { low: 0.0, high: 1.0 },
            padding: Padding::Zero,
            grid,
            prior: vec![half],
            rounds,
            label_weight: EVEN,
            moves_box: false,
            landmarks: Vec::new(),
            quality: None,
        }
    }

    /// The labels about a box in the middle of an image with these channels.
    fn found(stage: &MaskStage, channels: &[u16]) -> Mask {
        let channel =
            |&v: &u16| Volume::from_fn(Geometry::isotropic([30; 3], 1.0).unwrap(), |_, _, _| v);
        let channels: Vec<Volume<u16>> = channels.iter().map(channel).collect();
        let center = PointLps::new(15.0, 15.0, 15.0);
        let pose =
            Pose { center, orientation: nalgebra::UnitQuaternion::identity(), size_mm: [10.0; 3] };
        stage.find(&Cpu, &channels, &pose).unwrap().unwrap()
    }

    #[test]
    fn further_channels_follow_the_prior() {
        // One label: its prior is layer 0, the second channel layer 1.
        let bright = LabelNode { feature: 0, next: 1, low: 3000, high: 4096 };
        let filters = vec![Filter::Layer { layer: 1 }];
        let stage = stage(vec![round(filters, vec![bright, leaf(0), leaf(1)], &[FOR, AGAINST])]);
        let is_label = |channels: [u16; 2]| {
            let mask = found(&stage, &channels);
            let inside = mask.shares.chunks_exact(2).map(|shares| shares[1] > LEAF_ONE / 2);
            let all: Vec<bool> = inside.collect();
            assert!(all.iter().all(|&label| label == all[0]));
            all[0]
        };
        assert!(is_label([0, 4000]) && !is_label([4000, 0]));
    }

    #[test]
    fn labels_that_are_hardly_seen_contradict_their_box() {
        // Held-out masks whose first sign is their Dice coefficient, 0.85 to 0.94.
        let held_out: Vec<HeldOutMask> = (0..20u32)
            .map(|n| {
                let dice = 0.85 + 0.005 * f64::from(n);
                let signs = vec![(2000.0 * dice) as i16, 0, 0];
                HeldOutMask { subject: n as usize, class: 1, signs, dice, log_volume: 0.0 }
            })
            .collect();
        let of = |leaf_scores: [u16; 2]| {
            let mut stage =
                stage(vec![round(vec![Filter::Intensity], vec![leaf(0)], &[leaf_scores])]);
            stage.quality = Quality::new(&held_out, 1);
            let mask = found(&stage, &[0]);
            (stage.contradicts(&mask.shares), stage.evidence(&mask.shares))
        };
        assert_eq!(of(FOR).0, None);
        assert!(of(AGAINST).0.is_some_and(|dice| dice < 0.1));
        assert!(of(FOR).1 > 3.0 && of(AGAINST).1 < -4.0);
        // Without held-out masks nothing is known.
        let unknown = stage(vec![round(vec![Filter::Intensity], vec![leaf(0)], &[AGAINST])]);
        let Mask { shares, .. } = found(&unknown, &[0]);
        assert_eq!((unknown.contradicts(&shares), unknown.evidence(&shares)), (None, 0.0));
    }

    #[test]
    fn the_first_layers_of_the_second_round_are_what_the_first_said() {
        // The prior is a half everywhere, and the first round is nearly sure: 3,900 of 4,095.
        let sure = LabelNode { feature: 0, next: 1, low: 3000, high: 4096 };
        let first = round(vec![Filter::Intensity], vec![leaf(0)], &[FOR]);
        let filters = vec![Filter::Layer { layer: 0 }, Filter::Layer { layer: 1 }];
        let second = round(filters, vec![sure, leaf(0), leaf(1)], &[FOR, AGAINST]);
        let mask = found(&stage(vec![first, second]), &[0]);
        assert!(mask.shares.chunks_exact(2).all(|shares| shares[1] > LEAF_ONE / 2));
    }
}
