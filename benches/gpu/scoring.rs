//! Images and scoring on the GPU: time, floor and ratio by row.
//!
//! Times are of device events round the work, warm, median; input and output stay on the device.
//! Floors: bytes at the measured 4.3 TB/s of a large copy on an H200; reads of the integral volume
//! at 32 words a clock and multiprocessor, 8.36·10¹² a second; scattered samples at a line of
//! memory a clock and multiprocessor, 2.61·10¹¹ a second.
//!
//! usage: cargo bench -p pbt-gpu --bench scoring [-- WORD …]    only what has one of the words in
//! its name

use nalgebra::Vector3;
use pbt_features::{BoxGrid, HaarFeature, HaarPoolConfig, SteerableSet, haar_pool, steerable_pool};
use pbt_gpu::{Gpu, Strategy};
use pbt_tree::{
    Bounds, Classifier, Device, EvalParams, Evaluate, Evaluator, Haar, ImageLayout, Node, Score,
    Tree, VoxelSite, Weak,
};
use pbt_volume::{Geometry, Padding, PointLps, Pose, Volume, rotation_from_vector};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::error::Error;

const WARM_UP: usize = 3;
const REPEATS: usize = 11;
const BYTES_PER_MS: f64 = 4.3e9;
const WORDS_PER_MS: f64 = 8.36e9;
const LINES_PER_MS: f64 = 2.61e8;

/// Structure of many sizes with noise, 12 bits.
fn volume(shape: [usize; 3]) -> Volume<u16> {
    let geometry = Geometry::isotropic(shape, 1.0).expect("a grid");
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let wave = |n: usize, length: f64, phase: f64| {
        (0..n).map(|x| (x as f64 / length + phase).sin()).collect::<Vec<_>>()
    };
    let [along_i, along_j, along_k] = [
        wave(shape[0], 17.0, 0.0),
        wave(shape[1], 23.0, std::f64::consts::FRAC_PI_2),
        wave(shape[2], 13.0, 0.0),
    ];
    let across = wave(shape[0] + shape[1], 41.0, 0.0);
    Volume::from_fn(geometry, |i, j, k| {
        let value = 600.0 * (along_i[i] + along_j[j] * along_k[k] + across[i + j]) + 2000.0;
        (value as i64 + i64::from(rng.next_u32() >> 23)).clamp(0, 4095) as u16
    })
}

/// Whether the command line asks for work of this name.
fn wanted(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

fn row(name: &str, ms: f64, floor_ms: f64) {
    println!("{name:<66} {ms:>9.3} ms  floor {floor_ms:>7.3}  x {:>5.2}", ms / floor_ms);
}

/// Weak classifiers that split at the middle of a sample of the responses, a run of them for each
/// of `nodes` inner nodes.
fn median_weaks(
    gpu: &Gpu,
    image: &pbt_gpu::GpuImage,
    shape: [usize; 3],
    features: &[HaarFeature],
    count: usize,
    alpha: i32,
) -> Vec<Weak> {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    let mut voxel = || shape.map(|n| ((u64::from(rng.next_u32()) * n as u64) >> 32) as i32);
    let sites: Vec<VoxelSite> = (0..501).map(|_| VoxelSite { image: 0, voxel: voxel() }).collect();
    let mut responses = vec![0; features.len() * sites.len()];
    gpu.responses(&[image], &Haar, features, &sites, &mut responses).expect("the device works");
    let mut of_feature = responses.chunks_exact_mut(sites.len());
    let middles: Vec<i32> = of_feature.by_ref().map(|r| *r.select_nth_unstable(250).1).collect();
    (0..count)
        .map(|n| {
            let feature = n % features.len();
            let bounds = Bounds::new(middles[feature] - 32_000, middles[feature] + 31_999);
            Weak {
                feature: feature as u32,
                bounds,
                votes: if n % 3 == 0 { !(!0 << 32) } else { !0 << 32 },
                alpha,
            }
        })
        .collect()
}

/// A full tree of `depth` levels of inner nodes.
fn full_tree(depth: usize, weaks_a_node: usize, weaks: &[Weak]) -> Tree {
    let inner = (1usize << depth) - 1;
    let nodes = (0..2 * inner + 1).map(|n| {
        let positive = 0x1000_0000u32.wrapping_mul(n as u32 * 2 + 1) | 1;
        match n < inner {
            true => Node {
                first_weak: (n * weaks_a_node) as u32,
                weak_count: weaks_a_node as u32,
                left: 2 * n as u32 + 1,
                right: 2 * n as u32 + 2,
                positive,
            },
            false => Node { first_weak: 0, weak_count: 0, left: 0, right: 0, positive },
        }
    });
    Tree { nodes: nodes.collect(), weaks: weaks[..inner * weaks_a_node].to_vec() }
}

/// What is scored: a row's name, the volume, how far features reach, and how many weak classifiers
/// the classifier needs.
struct Work<'a> {
    name: &'a str,
    shape: [usize; 3],
    radius: usize,
    features: &'a [HaarFeature],
    weaks: usize,
    floor_ms: f64,
}

/// Times a classifier in every way, on a smooth volume.
fn strategies(
    gpu: &Gpu,
    work: &Work<'_>,
    make: impl Fn(&[Weak]) -> Classifier,
) -> Result<(), Box<dyn Error>> {
    let &Work { name, shape, radius, features, weaks, floor_ms: floor } = work;
    if !wanted(name) {
        return Ok(());
    }
    let v = volume(shape);
    let layout = ImageLayout { padding: Padding::Edge, haar: Some((0, radius)), channels: vec![] };
    let image = gpu.upload(&[v.clone().into()], &layout)?;
    let classifier = make(&median_weaks(gpu, &image, shape, features, weaks, 20_000));
    let mut expected = None;
    for strategy in [Strategy::Walks, Strategy::Waves, Strategy::TiledWaves, Strategy::Paths] {
        let Some(scores) = gpu.voxel_scores(&image, features, &classifier, strategy)? else {
            println!("{name}, {strategy:?}: does not serve");
            continue;
        };
        let scores = gpu.read_scores(&scores)?;
        assert!(
            expected.get_or_insert_with(|| scores.clone()) == &scores,
            "{name}: {strategy:?} gives other scores"
        );
        let ms = gpu.median_ms(WARM_UP, REPEATS, || {
            gpu.voxel_scores(&image, features, &classifier, strategy).map(|_| ())
        })?;
        row(&format!("{name}, {strategy:?}"), ms, floor);
    }
    Ok(())
}

/// Features of `taps` taps.
fn features_of(taps: usize, count: usize, radius: usize) -> Vec<HaarFeature> {
    let pool = haar_pool(
        &HaarPoolConfig {
            features: 20 * count,
            radius,
            concentric: 0.0,
            ..HaarPoolConfig::default()
        },
        5,
    );
    pool.into_iter().filter(|f| f.taps().len() == taps).take(count).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let gpu = match Gpu::open(0) {
        Ok(gpu) => gpu,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    println!("{}", gpu.info().name);

    for n in [64, 128, 256, 512] {
        let name = format!("integral volume {n}^3, 12 bits to u32");
        if !wanted(&name) {
            continue;
        }
        let v = volume([n; 3]);
        let voxels = gpu.upload_voxels(&v)?;
        let ms = gpu.median_ms(WARM_UP, REPEATS, || {
            gpu.integral(&voxels, &v, 0, Padding::Edge).map(|_| ())
        })?;
        row(&name, ms, (8 * n * n * n) as f64 / BYTES_PER_MS);
    }
    if wanted("upload and channels") {
        let v = volume([256; 3]);
        let layout = ImageLayout { padding: Padding::Edge, haar: None, channels: vec![0] };
        let ms = gpu.median_ms(WARM_UP, REPEATS, || {
            gpu.upload(&[v.clone().into()], &layout).expect("the device works");
            Ok(())
        })?;
        row(
            "upload and channels 256^3, from the host",
            ms,
            (10 * 256usize.pow(3)) as f64 / BYTES_PER_MS,
        );
    }

    for n in [256usize, 512] {
        let name = format!("best 1000 of {n}^3 scores");
        if !wanted(&name) {
            continue;
        }
        let mut state = 1u64;
        let scores = (0..n * n * n).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Score(state as i64)
        });
        let scores = gpu.upload_scores(&scores.collect::<Vec<_>>())?;
        let ms = gpu.median_ms(WARM_UP, REPEATS, || gpu.find_best(&scores, 1000).map(|_| ()))?;
        row(&name, ms, (8 * n * n * n) as f64 / BYTES_PER_MS);
    }

    let voxels = 256f64.powi(3);
    for radius in [6, 9, 16] {
        let features = features_of(18, 40, radius);
        let node = |weaks: &[Weak]| Classifier {
            trees: vec![full_tree(1, 40, weaks)],
            eval: Evaluator::new(EvalParams::default()),
        };
        let floor_ms = voxels * 40.0 * 18.0 / WORDS_PER_MS;
        let name = &format!("node of 40 weak, 18 taps, radius {radius}, 256^3");
        strategies(
            &gpu,
            &Work { name, shape: [256; 3], radius, features: &features, weaks: 40, floor_ms },
            node,
        )?;
    }
    {
        let features = features_of(18, 200, 9);
        let tree = |weaks: &[Weak]| Classifier {
            trees: vec![full_tree(6, 40, weaks)],
            eval: Evaluator::new(EvalParams::default()),
        };
        let floor_ms = voxels * 6.0 * 40.0 * 18.0 / WORDS_PER_MS;
        let name = "PBT of depth 6, 40 weak a node, radius 9, 256^3";
        strategies(
            &gpu,
            &Work {
                name,
                shape: [256; 3],
                radius: 9,
                features: &features,
                weaks: 63 * 40,
                floor_ms,
            },
            tree,
        )?;
    }
    {
        let features =
            haar_pool(&HaarPoolConfig { features: 600, radius: 9, ..HaarPoolConfig::default() }, 5);
        let shape = [96, 97, 175];
        let forest = |weaks: &[Weak]| Classifier {
            trees: (0..10).map(|t| full_tree(10, 1, &weaks[t * 1023..])).collect(),
            eval: Evaluator::new(EvalParams::HARD),
        };
        let floor_ms = (96 * 97 * 175) as f64 * 100.0 * 32.0 / WORDS_PER_MS;
        let name = "forest of 10 trees, depth 10, 96x97x175";
        strategies(
            &gpu,
            &Work { name, shape, radius: 9, features: &features, weaks: 10_230, floor_ms },
            forest,
        )?;
    }

    if !wanted("poses") {
        return Ok(());
    }
    let v = volume([256; 3]);
    let layout = ImageLayout { padding: Padding::Edge, haar: None, channels: vec![0] };
    let image = gpu.upload(&[v.clone().into()], &layout)?;
    let grid = BoxGrid { points: [5, 5, 5], extent: [1.2; 3] };
    let features: Vec<_> = steerable_pool(&grid, SteerableSet::Compact, &[0])
        .into_iter()
        .step_by(15)
        .take(40)
        .collect();
    let weak = |n: usize| Weak {
        feature: n as u32,
        bounds: Bounds::new(-1000, 20_000),
        votes: !0 << (n % 64),
        alpha: 9000,
    };
    let weaks: Vec<Weak> = (0..40).map(weak).collect();
    let classifier = Classifier {
        trees: vec![full_tree(1, 40, &weaks)],
        eval: Evaluator::new(EvalParams::default()),
    };
    for (name, at, poses) in [
        ("scattered", 80.0, 1usize << 20),
        ("1000 places x 1000 turns", 0.0, 1 << 20),
        ("scattered", 80.0, 1 << 15),
        ("scattered", 80.0, 500),
        ("scattered", 80.0, 10),
    ] {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut number = |scale: f64| scale * (f64::from(rng.next_u32()) / 2f64.powi(31) - 1.0);
        let mut center = v.geometry().center();
        let poses: Vec<Pose> = (0..poses)
            .map(|n| {
                if at > 0.0 || n % 1000 == 0 {
                    center = PointLps(
                        v.geometry().center().0
                            + Vector3::new(number(80.0), number(80.0), number(80.0)),
                    );
                }
                let orientation =
                    rotation_from_vector(Vector3::new(number(2.0), number(2.0), number(2.0)));
                Pose { center, orientation, size_mm: [40.0, 30.0, 20.0] }
            })
            .collect();
        let start = std::time::Instant::now();
        let frames = gpu.pose_frames(&image, &grid, &poses)?;
        println!(
            "frames of {} poses on the host: {:.1} ms",
            poses.len(),
            start.elapsed().as_secs_f64() * 1e3
        );
        let ms = gpu.median_ms(WARM_UP, REPEATS, || {
            gpu.pose_scores(&image, &features, &classifier, &frames).map(|_| ())
        })?;
        row(
            &format!("{} poses x 40 weak steerable, {name}", poses.len()),
            ms,
            poses.len() as f64 * 40.0 * 4.0 / LINES_PER_MS,
        );
    }
    Ok(())
}
