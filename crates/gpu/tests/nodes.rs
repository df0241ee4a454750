//! Nodes boosted and split on images, all on the device, against the CPU's: the same weak
//! classifiers and margins, bit for bit.

mod support;

use nalgebra::Vector3;
use pbt_cpu::Cpu;
use pbt_features::{BoxGrid, HaarPoolConfig, SteerableSet, haar_pool, steerable_pool};
use pbt_gpu::{Gpu, GpuImage};
use pbt_tree::{
    BoostParams, BoostTask, Device, Evaluate, Haar, ImageLayout, PoseSite, Steerable, VoxelSite,
    WEIGHT_TOTAL, WeakKind,
};
use pbt_volume::{Geometry, Padding, PointLps, Pose, Pyramid, Volume, rotation_from_vector};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use support::{WORKS, fresh_rng, gpu};

struct Random(ChaCha8Rng);

impl Random {
    fn fresh() -> Self {
        Self(fresh_rng())
    }

    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.0.next_u32()) * n as u64) >> 32) as usize
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * f64::from(self.0.next_u32()) / 2f64.powi(32)
    }

    /// Bright balls on noise.
    fn pyramid(&mut self) -> Pyramid {
        let shape: [usize; 3] = std::array::from_fn(|_| 20 + self.below(20));
        let geometry = Geometry::isotropic(shape, 0.7).expect("a geometry");
        let centre: [f64; 3] = std::array::from_fn(|a| self.between(0.0, shape[a] as f64));
        let volume = Volume::from_fn(geometry, |i, j, k| {
            let squared: f64 =
                [i, j, k].iter().zip(centre).map(|(&x, c)| (x as f64 - c).powi(2)).sum();
            (if squared < 60.0 { 2500 } else { 300 }) + self.below(1200) as u16
        });
        Pyramid::new(volume, 2)
    }

    fn labels(&mut self, n: usize) -> Vec<bool> {
        (0..n).map(|_| self.below(3) == 0).collect()
    }
}

/// Bytes for the images' tables: for all, for one or two, and for one at a time.
const IMAGE_LIMITS: [usize; 3] = [usize::MAX, 700_000, 1];

/// Calls `check` with the images on a device that holds few of them at a time.
fn for_limits(
    mut gpu: Gpu,
    pyramids: &[Pyramid],
    layout: &ImageLayout,
    mut check: impl FnMut(&Gpu, &[&GpuImage], usize),
) {
    for limit in IMAGE_LIMITS {
        gpu = gpu.with_image_limit(limit);
        let images: Vec<_> =
            pyramids.iter().map(|p| gpu.upload(p.volumes(), layout).expect(WORKS)).collect();
        check(&gpu, &images.iter().collect::<Vec<_>>(), limit);
    }
}

const KINDS: [WeakKind; 3] =
    [WeakKind::Threshold, WeakKind::Histogram { bins: 16 }, WeakKind::Best];

/// Calls `check` with a task of every kind of weak classifiers.
fn for_tasks(labels: &[bool], mut check: impl FnMut(&BoostTask<'_>)) {
    let weights = vec![WEIGHT_TOTAL / labels.len() as u32; labels.len()];
    for weak in KINDS {
        for cut_percent in [0.0, 0.5] {
            let params = BoostParams { rounds: 20, max_error: 0.49, weak };
            check(&BoostTask { labels, weights: &weights, params: &params, cut_percent });
        }
    }
}

#[test]
fn nodes_on_voxels_equal_the_cpus_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random::fresh();
    let layout = ImageLayout { padding: Padding::Edge, haar: Some((0, 6)), channels: vec![] };
    let pyramids: Vec<Pyramid> = (0..3).map(|_| random.pyramid()).collect();
    let on_cpu: Vec<_> =
        pyramids.iter().map(|p| Cpu.upload(p.volumes(), &layout).expect(WORKS)).collect();
    let on_cpu: Vec<_> = on_cpu.iter().collect();
    let features =
        haar_pool(&HaarPoolConfig { features: 500, radius: 6, ..HaarPoolConfig::default() }, 1);
    let mut sites: Vec<VoxelSite> = (0..3000)
        .map(|_| {
            let image = random.below(3);
            let shape = pyramids[image].geometry(0).shape();
            VoxelSite {
                image: image as u32,
                voxel: std::array::from_fn(|a| random.below(shape[a]) as i32),
            }
        })
        .collect();
    sites.sort_by_key(|s| s.image);
    let labels = random.labels(sites.len());
    for_limits(gpu, &pyramids, &layout, |gpu, on_gpu, limit| {
        for_tasks(&labels, |task| {
            let expected = Cpu.boost_node(&on_cpu, &Haar, &features, &sites, task).expect(WORKS);
            assert!(!expected.is_empty(), "noise can be learnt a little");
            assert_eq!(
                gpu.boost_node(on_gpu, &Haar, &features, &sites, task).expect(WORKS),
                expected,
                "{limit} {task:?}"
            );
            let expected_margins =
                Cpu.margins(&on_cpu, &Haar, &features, &expected, &sites).expect(WORKS);
            assert_eq!(
                gpu.margins(on_gpu, &Haar, &features, &expected, &sites).expect(WORKS),
                expected_margins,
                "{limit}"
            );
        });
    });
}

#[test]
fn nodes_on_poses_equal_the_cpus_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random::fresh();
    let layout = ImageLayout { padding: Padding::Edge, haar: None, channels: vec![0, 1] };
    let pyramids: Vec<Pyramid> = (0..3).map(|_| random.pyramid()).collect();
    let on_cpu: Vec<_> =
        pyramids.iter().map(|p| Cpu.upload(p.volumes(), &layout).expect(WORKS)).collect();
    let on_cpu: Vec<_> = on_cpu.iter().collect();
    let grid = BoxGrid { points: [4, 3, 5], extent: [1.1; 3] };
    let family = Steerable { grid };
    let features = steerable_pool(&grid, SteerableSet::Complete, &[0, 1]);
    let mut sites: Vec<PoseSite> = (0..700)
        .map(|_| {
            let centre: [f64; 3] = std::array::from_fn(|_| random.between(-2.0, 25.0));
            let turn = Vector3::from_fn(|_, _| random.between(-2.0, 2.0));
            let size_mm = std::array::from_fn(|_| random.between(3.0, 12.0));
            let pose = Pose {
                center: PointLps::new(centre[0], centre[1], centre[2]),
                orientation: rotation_from_vector(turn),
                size_mm,
            };
            PoseSite { image: random.below(3) as u32, pose }
        })
        .collect();
    sites.sort_by_key(|s| s.image);
    let labels = random.labels(sites.len());
    for_limits(gpu, &pyramids, &layout, |gpu, on_gpu, limit| {
        for_tasks(&labels, |task| {
            let expected = Cpu.boost_node(&on_cpu, &family, &features, &sites, task).expect(WORKS);
            assert!(!expected.is_empty(), "noise can be learnt a little");
            assert_eq!(
                gpu.boost_node(on_gpu, &family, &features, &sites, task).expect(WORKS),
                expected,
                "{limit} {task:?}"
            );
            let expected_margins =
                Cpu.margins(&on_cpu, &family, &features, &expected, &sites).expect(WORKS);
            assert_eq!(
                gpu.margins(on_gpu, &family, &features, &expected, &sites).expect(WORKS),
                expected_margins,
                "{limit}"
            );
        });
    });
}
