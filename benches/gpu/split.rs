//! Pose hypotheses shared between CPU and GPU, as in the patent (15 : 85): whole detections with a
//! model, by the share that the CPU scores. An experiment: `docs/experiments/gpu-kernels.md` says why the
//! program does not do so.
//!
//! Printed is the time in `score`, frames and transfers included: the device computes its
//! part while all threads of the CPU score theirs. Sum over the calls of a detection, median of the
//! repeats, mean over the images.
//!
//! usage: cargo bench --bench split -- MODEL IMAGE…

use pbt::session::LoadedModel;
use pbt_cpu::{Cpu, CpuImage};
use pbt_features::{BoxMeanFeature, HaarFeature, SteerableFeature};
use pbt_gpu::{Gpu, GpuImage};
use pbt_io::read_image;
use pbt_tree::{
    Backend, BinnedMatrix, Block, BoostParams, Booster, ChannelBank, Classifier, Device,
    DeviceError, Edges, Evaluate, Haar, ImageLayout, LabelBackend, LabelForest, Layered, Patch,
    PoseSite, Score, Steerable, VoxelSite, Voxels, Weak,
};
use pbt_volume::{Level, Pose};
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

const SHARES: [f64; 6] = [0.0, 0.05, 0.1, 0.15, 0.3, 1.0];
const WARM_UP: usize = 2;
const REPEATS: usize = 9;

/// A GPU whose poses are partly scored by the CPU.
struct Split {
    gpu: Gpu,
    /// Of the poses, for the CPU.
    share: f64,
    /// Calls that score poses, poses and milliseconds.
    calls: Mutex<Vec<(usize, f64)>>,
}

/// An image on both devices.
struct Both {
    cpu: CpuImage,
    gpu: GpuImage,
}

fn on_gpu<'a>(images: &[&'a Both]) -> Vec<&'a GpuImage> {
    images.iter().map(|image| &image.gpu).collect()
}

impl Booster for Split {
    fn boost(
        &self,
        matrix: &BinnedMatrix,
        labels: &[bool],
        weights: &[u32],
        params: &BoostParams,
    ) -> Result<Vec<Weak>, DeviceError> {
        self.gpu.boost(matrix, labels, weights, params)
    }
}

impl Device for Split {
    type Image = Both;

    fn upload(&self, levels: &[Level], layout: &ImageLayout) -> Result<Both, DeviceError> {
        Ok(Both { cpu: Cpu.upload(levels, layout)?, gpu: self.gpu.upload(levels, layout)? })
    }
}

impl LabelBackend for Split {
    type Channels = <Gpu as LabelBackend>::Channels;

    fn channels(
        &self,
        image: Layered<'_>,
        bank: &ChannelBank,
        block: &Block,
    ) -> Result<Self::Channels, DeviceError> {
        self.gpu.channels(image, bank, block)
    }

    fn respond(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        voxels: &[[usize; 3]],
        out: &mut [i64],
    ) -> Result<(), DeviceError> {
        self.gpu.respond(channels, features, voxels, out)
    }

    fn bins(
        &self,
        channels: &Self::Channels,
        features: &[BoxMeanFeature],
        edges: &[Edges],
        voxels: &[[usize; 3]],
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        self.gpu.bins(channels, features, edges, voxels, out)
    }

    fn distributions(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
    ) -> Result<Vec<u32>, DeviceError> {
        self.gpu.distributions(channels, forest)
    }

    fn distributions_at(
        &self,
        channels: &Self::Channels,
        forest: &LabelForest,
        voxels: &[[usize; 3]],
    ) -> Result<Vec<u32>, DeviceError> {
        self.gpu.distributions_at(channels, forest, voxels)
    }
}

impl Evaluate<Haar> for Split {
    fn responses(
        &self,
        images: &[&Both],
        family: &Haar,
        features: &[HaarFeature],
        sites: &[VoxelSite],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        self.gpu.responses(&on_gpu(images), family, features, sites, out)
    }

    fn score(
        &self,
        image: &Both,
        family: &Haar,
        features: &[HaarFeature],
        classifier: &Classifier,
        targets: &Voxels,
    ) -> Result<Vec<Score>, DeviceError> {
        self.gpu.score(&image.gpu, family, features, classifier, targets)
    }

    fn best(
        &self,
        image: &Both,
        family: &Haar,
        features: &[HaarFeature],
        classifier: &Classifier,
        targets: &Voxels,
        k: usize,
    ) -> Result<Vec<(usize, Score)>, DeviceError> {
        self.gpu.best(&image.gpu, family, features, classifier, targets, k)
    }
}

impl Evaluate<Steerable> for Split {
    fn responses(
        &self,
        images: &[&Both],
        family: &Steerable,
        features: &[SteerableFeature],
        sites: &[PoseSite],
        out: &mut [i32],
    ) -> Result<(), DeviceError> {
        self.gpu.responses(&on_gpu(images), family, features, sites, out)
    }

    fn score(
        &self,
        image: &Both,
        family: &Steerable,
        features: &[SteerableFeature],
        classifier: &Classifier,
        poses: &[Pose],
    ) -> Result<Vec<Score>, DeviceError> {
        let start = Instant::now();
        let (for_cpu, for_gpu) = poses.split_at((self.share * poses.len() as f64).round() as usize);
        // The launch returns before the device is done.
        let launched = (!for_gpu.is_empty()).then(|| {
            let frames = self.gpu.pose_frames(&image.gpu, &family.grid, for_gpu).expect("frames");
            self.gpu.pose_scores(&image.gpu, features, classifier, &frames).expect("scores")
        });
        let mut scores = Cpu.score(&image.cpu, family, features, classifier, for_cpu)?;
        scores.extend(
            launched.iter().flat_map(|scores| self.gpu.read_scores(scores).expect("scores")),
        );
        self.calls
            .lock()
            .expect("one thread")
            .push((poses.len(), start.elapsed().as_secs_f64() * 1e3));
        Ok(scores)
    }
}

impl Backend for Split {
    fn patches(
        &self,
        images: &[&Both],
        patch: &Patch,
        sites: &[PoseSite],
        out: &mut [i16],
    ) -> Result<(), DeviceError> {
        self.gpu.patches(&on_gpu(images), patch, sites, out)
    }

    fn ridge_solutions(
        &self,
        vectors: (&[i16], usize),
        ridges: &[f64],
        right: &[Vec<f64>],
    ) -> Result<Vec<Vec<Vec<f64>>>, DeviceError> {
        self.gpu.ridge_solutions(vectors, ridges, right)
    }
}

fn main() -> anyhow::Result<()> {
    let paths: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let [model, images @ ..] = paths.as_slice() else {
        println!("skipped: no model and no images are named");
        return Ok(());
    };
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    let model = LoadedModel::open(Path::new(model)).map_err(|f| anyhow::anyhow!("{f}"))?.model;
    let images = images
        .iter()
        .map(|path| Ok(read_image(Path::new(path))?.volume))
        .collect::<anyhow::Result<Vec<_>>>()?;
    println!(
        "{}, {} threads, {} images",
        gpu.info().name,
        rayon::current_num_threads(),
        images.len()
    );
    let mut split = Split { gpu, share: 0.0, calls: Mutex::default() };
    let mut expected = Vec::new();
    for share in SHARES {
        split.share = share;
        let (mut sum_ms, mut calls, mut poses) = (0.0, 0, 0);
        for (n, image) in images.iter().enumerate() {
            let mut times = Vec::with_capacity(REPEATS);
            for repeat in 0..WARM_UP + REPEATS {
                split.calls.lock().expect("one thread").clear();
                let found = model.detect(&split, std::slice::from_ref(image))?.detections;
                if expected.len() == n {
                    expected.push(found.clone());
                }
                anyhow::ensure!(
                    found == expected[n],
                    "share {share}: other detections in image {n}"
                );
                let own = split.calls.lock().expect("one thread");
                (calls, poses) = (own.len(), own.iter().map(|c| c.0).sum());
                if repeat >= WARM_UP {
                    times.push(own.iter().map(|c| c.1).sum::<f64>());
                }
            }
            times.sort_by(f64::total_cmp);
            sum_ms += times[REPEATS / 2];
        }
        println!(
            "share {share:.2}: {:.3} ms in {calls} calls, {poses} poses (last image)",
            sum_ms / images.len() as f64
        );
    }
    Ok(())
}
