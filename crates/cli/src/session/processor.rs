//! The CPU or a GPU as one type, so that training and detection are compiled once and not once for
//! each: that halves the time of a build.

use pbt_cpu::{Cpu, CpuChannels, CpuImage};
use pbt_features::BoxMeanFeature;
use pbt_gpu::{Gpu, GpuBoosting, GpuChannels, GpuImage, GpuLabelMatrix};
use pbt_tree::{
    Backend, BinTree, BinnedMatrix, Block, BoostParams, BoostTask, Booster, ChannelBank,
    Classifier, Device, DeviceError, Edges, Evaluate, FeatureFamily, GrownNode, HostBoosting,
    ImageLayout, LabelBackend, LabelBooster, LabelForest, LabelMatrix, Layered, Patch, PoseSite,
    Score, Split, SplitTask, Splitter, TreeTask, Weak,
};
use pbt_volume::Level;

/// What computes.
pub(crate) enum Processor {
    Cpu(Cpu),
    Gpu(Box<Gpu>),
}

/// Something that lies where its processor can use it.
pub(crate) enum On<C, G> {
    Cpu(C),
    Gpu(G),
}

/// What becomes of an image or a matrix that is handed to another processor than its own, which no
/// caller does: each command opens one.
const ELSEWHERE: &str = "it is used by the processor that made it";

impl<C, G> On<C, G> {
    fn cpu(&self) -> &C {
        match self {
            Self::Cpu(here) => here,
            Self::Gpu(_) => unreachable!("{ELSEWHERE}"),
        }
    }

    fn gpu(&self) -> &G {
        match self {
            Self::Gpu(here) => here,
            Self::Cpu(_) => unreachable!("{ELSEWHERE}"),
        }
    }
}

/// An uploaded case.
type Image = On<CpuImage, GpuImage>;

fn on_cpu<'a>(images: &[&'a Image]) -> Vec<&'a CpuImage> {
    images.iter().map(|image| image.cpu()).collect()
}

fn on_gpu<'a>(images: &[&'a Image]) -> Vec<&'a GpuImage> {
    images.iter().map(|image| image.gpu()).collect()
}

impl Booster for Processor {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.boost(matrix, labels, weights, params),
            Self::Gpu(gpu) => gpu.boost(matrix, labels, weights, params),
        }
    }
}

impl Device for Processor {
    type Image = Image;

    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<Image, DeviceError> {
        Ok(match self {
            Self::Cpu(cpu) => On::Cpu(cpu.upload(levels, layout)?),
            Self::Gpu(gpu) => On::Gpu(gpu.upload(levels, layout)?),
        })
    }
}

impl<F: FeatureFamily> Evaluate<F> for Processor
where
    Cpu: Evaluate<F> + Device<Image = CpuImage>,
    Gpu: Evaluate<F> + Device<Image = GpuImage>,
{
    fn responses(
        &self,
        images: &[&Image],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.responses(&on_cpu(images), family, features, sites, out),
            Self::Gpu(gpu) => gpu.responses(&on_gpu(images), family, features, sites, out),
        }
    }

    fn score(
        &self,
        image: &Image,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
    ) -> Result<Vec<Score>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.score(image.cpu(), family, features, classifier, targets),
            Self::Gpu(gpu) => gpu.score(image.gpu(), family, features, classifier, targets),
        }
    }

    fn boost_node(
        &self,
        images: &[&Image],
        family: &F,
        features: &[F::Feature],
        sites: &[F::Site],
        task: &BoostTask<'_>,
    ) -> Result<Vec<Weak>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.boost_node(&on_cpu(images), family, features, sites, task),
            Self::Gpu(gpu) => gpu.boost_node(&on_gpu(images), family, features, sites, task),
        }
    }

    fn margins(
        &self,
        images: &[&Image],
        family: &F,
        features: &[F::Feature],
        weaks: &[Weak],
        sites: &[F::Site],
    ) -> Result<Vec<i32>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.margins(&on_cpu(images), family, features, weaks, sites),
            Self::Gpu(gpu) => gpu.margins(&on_gpu(images), family, features, weaks, sites),
        }
    }

    fn best(
        &self,
        image: &Image,
        family: &F,
        features: &[F::Feature],
        classifier: &Classifier,
        targets: &F::Targets,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.best(image.cpu(), family, features, classifier, targets, k),
            Self::Gpu(gpu) => gpu.best(image.gpu(), family, features, classifier, targets, k),
        }
    }
}

impl Backend for Processor {
    fn patches(
        &self,
        images: &[&Image],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.patches(&on_cpu(images), patch, sites, out),
            Self::Gpu(gpu) => gpu.patches(&on_gpu(images), patch, sites, out),
        }
    }

    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.ridge_solutions(vectors, ridges, right),
            Self::Gpu(gpu) => gpu.ridge_solutions(vectors, ridges, right),
        }
    }
}

impl LabelBackend for Processor {
    type Channels = On<CpuChannels, GpuChannels>;

    fn block_edge(&self, bank: &ChannelBank, classes: usize) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.block_edge(bank, classes),
            Self::Gpu(gpu) => gpu.block_edge(bank, classes),
        }
    }

    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<Self::Channels, DeviceError> {
        Ok(match self {
            Self::Cpu(cpu) => On::Cpu(cpu.channels(image, bank, block)?),
            Self::Gpu(gpu) => On::Gpu(gpu.channels(image, bank, block)?),
        })
    }

    fn respond(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.respond(channels.cpu(), features, voxels, out),
            Self::Gpu(gpu) => gpu.respond(channels.gpu(), features, voxels, out),
        }
    }

    fn bins(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.bins(channels.cpu(), features, edges, voxels, out),
            Self::Gpu(gpu) => gpu.bins(channels.gpu(), features, edges, voxels, out),
        }
    }

    fn distributions(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.distributions(channels.cpu(), forest),
            Self::Gpu(gpu) => gpu.distributions(channels.gpu(), forest),
        }
    }

    fn distributions_at(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.distributions_at(channels.cpu(), forest, voxels),
            Self::Gpu(gpu) => gpu.distributions_at(channels.gpu(), forest, voxels),
        }
    }
}

impl Splitter for Processor {
    type Matrix<'a> = On<&'a LabelMatrix, GpuLabelMatrix>;

    fn matrix<'a>(&self, matrix: &'a LabelMatrix) -> Result<Self::Matrix<'a>, DeviceError> {
        Ok(match self {
            Self::Cpu(cpu) => On::Cpu(cpu.matrix(matrix)?),
            Self::Gpu(gpu) => On::Gpu(gpu.matrix(matrix)?),
        })
    }

    fn best_splits(
        &self,
        matrix: &Self::Matrix<'_>,
        tasks: &[SplitTask<'_>],
        min_leaf: u32,
    ) -> Result<Vec<Option<Split>>, DeviceError> {
        match self {
            Self::Cpu(cpu) => cpu.best_splits(matrix.cpu(), tasks, min_leaf),
            Self::Gpu(gpu) => gpu.best_splits(matrix.gpu(), tasks, min_leaf),
        }
    }
}

impl LabelBooster for Processor {
    type Boosting<'a> = On<HostBoosting<'a>, GpuBoosting>;

    fn boosting<'a>(
        &self,
        matrix: &'a LabelMatrix,
        start: &[i32],
    ) -> Result<Self::Boosting<'a>, DeviceError> {
        Ok(match self {
            Self::Cpu(cpu) => On::Cpu(cpu.boosting(matrix, start)?),
            Self::Gpu(gpu) => On::Gpu(gpu.boosting(matrix, start)?),
        })
    }

    fn grow(
        &self,
        boosting: &mut Self::Boosting<'_>,
        task: &TreeTask<'_>,
    ) -> Result<Vec<Vec<GrownNode>>, DeviceError> {
        match (self, boosting) {
            (Self::Cpu(cpu), On::Cpu(boosting)) => cpu.grow(boosting, task),
            (Self::Gpu(gpu), On::Gpu(boosting)) => gpu.grow(boosting, task),
            _ => unreachable!("{ELSEWHERE}"),
        }
    }

    fn add(&self, boosting: &mut Self::Boosting<'_>, tree: &BinTree) -> Result<(), DeviceError> {
        match (self, boosting) {
            (Self::Cpu(cpu), On::Cpu(boosting)) => cpu.add(boosting, tree),
            (Self::Gpu(gpu), On::Gpu(boosting)) => gpu.add(boosting, tree),
            _ => unreachable!("{ELSEWHERE}"),
        }
    }
}
