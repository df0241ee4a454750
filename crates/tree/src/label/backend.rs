//! What a device computes for forests that label voxels: few, coarse calls, so that the CPU's answers
//! are the reference of every other device.

use crate::device_error::DeviceError;
use crate::label::edges::Edges;
use crate::label::forest::LabelForest;
use crate::label::gain::BinTest;
use crate::label::matrix::LabelMatrix;
use pbt_features::{BoxMeanFeature, Filter};
use pbt_volume::Volume;
use serde::{Deserialize, Serialize};

/// What lies outside an image for boxes that reach there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outside {
    /// Nothing: the response is missing, and every test is false.
    #[default]
    Missing,
    /// The border voxels go on.
    Edge,
    /// Zeros.
    Zero,
}

/// The channels of a forest and how far around a voxel they are read.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelBank {
    /// One filter a channel.
    pub filters: Vec<Filter>,
    /// Distance between voxels of the working grid, mm.
    pub spacing_mm: f64,
    /// What lies outside the image.
    pub outside: Outside,
    /// No box reaches farther from its voxel, voxels.
    pub reach: usize,
}

impl ChannelBank {
    /// How many voxels the filters look away from their own.
    pub fn support(&self) -> usize {
        self.filters.iter().map(|f| f.support(self.spacing_mm)).max().unwrap_or(0)
    }
}

/// What channels are made of: an image of 12 bits, and layers of 12 bits on its grid, which
/// [`Filter::Layer`] counts from 0.
#[derive(Debug, Clone, Copy)]
pub struct Layered<'a> {
    /// The image.
    pub image: &'a Volume<u16>,
    /// What is known beforehand of each of its voxels.
    pub layers: &'a [&'a Volume<u16>],
}

impl<'a> From<&'a Volume<u16>> for Layered<'a> {
    fn from(image: &'a Volume<u16>) -> Self {
        Self { image, layers: &[] }
    }
}

/// Voxels of an image from `min` up to but not including `max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// First voxel.
    pub min: [usize; 3],
    /// Beyond the last voxel, on each axis.
    pub max: [usize; 3],
}

impl Block {
    /// All voxels of an image of this shape.
    pub fn all(shape: [usize; 3]) -> Self {
        Self { min: [0; 3], max: shape }
    }

    /// Number of voxels along each axis.
    pub fn shape(&self) -> [usize; 3] {
        [0, 1, 2].map(|a| self.max[a] - self.min[a])
    }

    /// Number of voxels.
    pub fn len(&self) -> usize {
        self.shape().iter().product()
    }

    /// Whether it has no voxel.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A node that is to be split.
#[derive(Debug, Clone, Copy)]
pub struct SplitTask<'a> {
    /// Its samples, those of each class together, the classes in order.
    pub samples: &'a [u32],
    /// Number of samples of each class.
    pub counts: &'a [u32],
    /// The features that it looks at, rising, and the first bin of the test on each.
    pub candidates: &'a [(u32, u8)],
}

/// The best test of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The feature.
    pub feature: u32,
    /// The test on it.
    pub test: BinTest,
}

impl Split {
    /// The better of two of one node, given in the order of the candidates: of equals the first.
    pub fn better(self, later: Self) -> Self {
        if later.test.gain > self.test.gain { later } else { self }
    }
}

/// Voxels along the edge of a block unless a device knows better. Channels are made for so many and
/// the boxes' reach on either side: some 100 MB for the filters of the default configuration.
pub const BLOCK_EDGE: usize = 96;

/// Most bytes of the distributions of a larger block.
pub const MOST_SUM_BYTES: usize = 320 << 20;

/// A device that labels voxels.
pub trait LabelBackend: Sync {
    /// The channels of a part of an image.
    type Channels: Send + Sync;

    /// Edge of the blocks that an image is best cut into for a forest with so many classes, voxels.
    /// Distributions of a block, and of a layer of voxels beyond its ends, take at most
    /// [`MOST_SUM_BYTES`] unless the edge is [`BLOCK_EDGE`].
    fn block_edge(&self, _bank: &ChannelBank, _classes: usize) -> usize {
        BLOCK_EDGE
    }

    /// Computes the channels of an image for all that boxes about the voxels of
    /// `block` can read. What is computed at a voxel does not depend on the block.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<Self::Channels, DeviceError>;

    /// Writes the responses of `features` at voxels of the block to
    /// `out[feature * voxels.len() + voxel]`; [`pbt_features::MISSING`] where there is none.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn respond(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError>;

    /// Writes the bins of the responses of features at voxels of the block to
    /// `out[feature * voxels.len() + voxel]`; the features have these edges.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn bins(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError>;

    /// The forest's [distribution](LabelForest::distribution) at every voxel of the block, i fastest,
    /// classes together; [`LabelForest::shares`] makes probabilities of them.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn distributions(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError>;

    /// The same at some voxels of the block only, in this order.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn distributions_at(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError>;
}

/// A device that finds the splits of nodes.
pub trait Splitter: Sync {
    /// A matrix that is ready for it.
    type Matrix<'a>: Sync;

    /// Makes a matrix ready.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails or its memory is full.
    fn matrix<'a>(&self, matrix: &'a LabelMatrix) -> Result<Self::Matrix<'a>, DeviceError>;

    /// The test of the highest information gain of each node, of equals the one on the lower
    /// feature, then the one that ends lower. `None` where none leaves `min_leaf` samples on both
    /// sides and gains anything.
    ///
    /// # Errors
    /// [`DeviceError`] when the device fails.
    fn best_splits(
        &self,
        matrix: &Self::Matrix<'_>,
        tasks: &[SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, DeviceError>;
}
