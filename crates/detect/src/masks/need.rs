//! What the training of a structure's masks takes, told from its boxes before a voxel is read.

use crate::config::segmentation::SegmentationConfig;
use crate::data::folds::Folds;
use crate::masks::frame::FrameGrid;
use crate::masks::samples::frames_of_a_box;
use pbt_volume::Pose;

/// Features of single voxels: the image, what rounds say, priors.
const OF_SINGLE_VOXELS: usize = 10;

/// Bytes of a voxel of a frame with one label: 12 bits of each channel, a class, and a share of either class;
/// in the second round there are the frames of the first beside it, and a layer of what that said.
const CHANNEL_BYTES: usize = 2;
const FRAME_BYTES: usize = 2 * (1 + 2 * 4) + 2;

/// What the training of a structure's masks takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MaskNeed {
    /// Voxels of all frames, each of which is labelled by both rounds.
    pub frame_voxels: usize,
    /// Voxels that trees learn from.
    pub samples: usize,
    /// Bytes that it holds at most, of label maps and images that are read apart.
    pub bytes: usize,
}

impl MaskNeed {
    /// Of a structure with these boxes, each with the finest spacing of its image in mm, in images of so
    /// many channels and, where `flat` is set, of one slice; `threads` train trees on the parts of the cases at
    /// a time.
    pub fn new(
        boxes: &[(f64, Pose)],
        config: &SegmentationConfig,
        (channels, flat): (usize, bool),
        threads: usize,
    ) -> Self {
        if boxes.is_empty() {
            return Self { frame_voxels: 0, samples: 0, bytes: 0 };
        }
        let frame_voxels =
            boxes.len() * frames_of_a_box(boxes.len()) * FrameGrid::of_boxes(boxes, flat).len();
        let samples = config.samples_of(boxes.len()).min(frame_voxels);
        let matrix = samples * (config.features + OF_SINGLE_VOXELS);
        let folds = Folds::new(boxes.len()).count();
        // Beside the matrix of all samples those of the parts, each without one of them.
        let parts = matrix * folds.saturating_sub(1) / folds * folds.min(threads);
        let frames = frame_voxels * (FRAME_BYTES + 2 * CHANNEL_BYTES * channels);
        Self { frame_voxels, samples, bytes: matrix + parts + frames }
    }
}
