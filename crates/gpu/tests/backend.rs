//! Every call of the backend on the device against the CPU's on fresh random input: the same bits.

mod support;

use nalgebra::{Matrix3, Vector3};
use pbt_cpu::Cpu;
use pbt_features::{BoxGrid, HaarPoolConfig, SteerableSet, haar_pool, steerable_pool};
use pbt_gpu::{Gpu, GpuError, Strategy, devices};
use pbt_tree::{
    Backend, Bounds, Classifier, Device, EvalParams, Evaluate, Evaluator, Haar, ImageLayout, Node,
    Patch, PoseSite, Score, Steerable, Tree, VoxelSite, Voxels, Weak, best_indices,
};
use pbt_volume::{
    Geometry, IntegralVolume, Level, MOST_CHANNELS, Padding, PointLps, Pose, Pyramid, Volume,
    rotation_from_vector,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use support::{WORKS, fresh_rng, gpu};

/// Uniform in `0..n`.
fn below(rng: &mut ChaCha8Rng, n: usize) -> usize {
    ((u64::from(rng.next_u32()) * n as u64) >> 32) as usize
}

/// Uniform in `low..high`.
fn between(rng: &mut ChaCha8Rng, low: f64, high: f64) -> f64 {
    low + (high - low) * f64::from(rng.next_u32()) / 2f64.powi(32)
}

/// Noise of 12 bits with some structure, so that neighbouring voxels go the same way through a
/// tree.
fn volume(rng: &mut ChaCha8Rng, shape: [usize; 3]) -> Volume<u16> {
    thick_volume(rng, shape, [0.7; 3])
}

/// The same with voxels of this size, mm.
fn thick_volume(rng: &mut ChaCha8Rng, shape: [usize; 3], mm: [f64; 3]) -> Volume<u16> {
    let rotation =
        rotation_from_vector(Vector3::new(0.2, -0.4, 0.3)).to_rotation_matrix().into_inner();
    let matrix = rotation * Matrix3::from_diagonal(&mm.into());
    let geometry = Geometry::new(shape, matrix, PointLps::new(-3.0, 4.0, 5.0)).expect("a grid");
    let waves: [f64; 3] = std::array::from_fn(|_| between(rng, 0.05, 0.4));
    Volume::from_fn(geometry, |i, j, k| {
        let smooth = 1500.0
            * ((i as f64 * waves[0]).sin()
                + (j as f64 * waves[1]).sin() * (k as f64 * waves[2]).cos())
            + 2000.0;
        (smooth as i64 + i64::from(rng.next_u32() >> 22)).clamp(0, 4095) as u16
    })
}

/// A random valid tree of at most `depth` levels whose weak classifiers use features below
/// `features`; `range` bounds their responses.
fn tree(
    rng: &mut ChaCha8Rng,
    depth: usize,
    weaks_a_node: usize,
    features: usize,
    range: i32,
) -> Tree {
    let mut tree = Tree::default();
    let positive = |rng: &mut ChaCha8Rng| rng.next_u32().max(1);
    tree.nodes.push(Node {
        first_weak: 0,
        weak_count: 0,
        left: 0,
        right: 0,
        positive: positive(rng),
    });
    let mut open = vec![(0, 0)];
    while let Some((n, level)) = open.pop() {
        if level == depth || (level > 0 && below(rng, 5) == 0) {
            continue;
        }
        let first_weak = tree.weaks.len() as u32;
        for _ in 0..weaks_a_node {
            let (a, b) = (
                below(rng, 2 * range as usize) as i32 - range,
                below(rng, 2 * range as usize) as i32 - range,
            );
            let edge = below(rng, 65) as u32;
            let upper = u64::MAX.checked_shl(edge).unwrap_or(0);
            let votes =
                [upper, !upper, u64::from(rng.next_u32()) << 32 | u64::from(rng.next_u32())]
                    [below(rng, 3)];
            let alpha = below(rng, 30_000) as i32;
            tree.weaks.push(Weak {
                feature: below(rng, features) as u32,
                bounds: Bounds::new(a, b),
                votes,
                alpha,
            });
        }
        let left = tree.nodes.len() as u32;
        for _ in 0..2 {
            tree.nodes.push(Node {
                first_weak: 0,
                weak_count: 0,
                left: 0,
                right: 0,
                positive: positive(rng),
            });
        }
        tree.nodes[n] = Node {
            first_weak,
            weak_count: weaks_a_node as u32,
            left,
            right: left + 1,
            ..tree.nodes[n]
        };
        open.extend([(left as usize, level + 1), (left as usize + 1, level + 1)]);
    }
    tree
}

fn classifier(
    rng: &mut ChaCha8Rng,
    trees: usize,
    depth: usize,
    weaks_a_node: usize,
    features: usize,
    range: i32,
    eval: EvalParams,
) -> Classifier {
    let trees = (0..trees).map(|_| tree(rng, depth, weaks_a_node, features, range)).collect();
    let classifier = Classifier { trees, eval: Evaluator::new(eval) };
    classifier.validate(features).expect("a valid classifier");
    classifier
}

/// Bytes for the images' tables: for all, for one or two, and for one at a time.
const IMAGE_LIMITS: [usize; 3] = [usize::MAX, 700_000, 1];

const EVALS: [EvalParams; 4] = [
    EvalParams { e1: 1e-6, e2: 0.1 },
    EvalParams::HARD,
    EvalParams { e1: 0.2, e2: 0.25 },
    EvalParams { e1: 0.0, e2: 0.5 },
];

#[test]
fn integral_volumes_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    let shapes = [
        [1, 1, 1],
        [3, 2, 1],
        [31, 17, 9],
        [64, 64, 64],
        [33, 130, 40],
        [257, 5, 70],
        [1030, 20, 6],
        [2, 3, 300],
        [128, 48, 100],
        [2060, 3, 2],
    ];
    for shape in shapes {
        for pad in [0, 1, 9] {
            for padding in [Padding::Zero, Padding::Edge] {
                let v = volume(&mut rng, shape);
                let expected = IntegralVolume::new(&v, pad, padding);
                let layout = ImageLayout { padding, haar: Some((0, pad)), channels: vec![] };
                let image = gpu.upload(&[v.clone().into()], &layout).expect(WORKS);
                let found = gpu.read_table(&image).expect("a table");
                assert!(found == expected.table(), "{shape:?}, pad {pad}, {padding:?}");
            }
        }
    }
}

/// Levels of a pyramid, of slices up to eight times as thick as their voxels are wide.
fn levels(rng: &mut ChaCha8Rng, shape: [usize; 3]) -> Vec<Level> {
    let mm = std::array::from_fn(|_| 0.7 * f64::from(1 << below(rng, 4)));
    Pyramid::new(thick_volume(rng, shape, mm), 3).volumes().to_vec()
}

fn poses(rng: &mut ChaCha8Rng, geometry: &Geometry, n: usize) -> Vec<Pose> {
    let center = geometry.center().0;
    (0..n)
        .map(|n| Pose {
            center: PointLps(center + Vector3::from_fn(|_, _| between(rng, -14.0, 14.0))),
            orientation: rotation_from_vector(Vector3::from_fn(|_, _| between(rng, -2.5, 2.5))),
            // Some are far larger than the image.
            size_mm: if n % 50 == 7 {
                [1e5; 3]
            } else {
                std::array::from_fn(|_| between(rng, 4.0, 25.0))
            },
        })
        .collect()
}

#[test]
fn haar_responses_cuda() {
    let Some(mut gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (radius, count) in [(1, 20), (9, 300), (16, 77)] {
        let features = haar_pool(
            &HaarPoolConfig { features: count, radius, ..HaarPoolConfig::default() },
            rng.next_u64(),
        );
        let volumes: Vec<_> = [[30, 20, 25], [17, 40, 9], [30, 20, 25]]
            .into_iter()
            .map(|s| volume(&mut rng, s))
            .collect();
        let layout =
            ImageLayout { padding: Padding::Edge, haar: Some((0, radius)), channels: vec![] };
        let sites: Vec<VoxelSite> = (0..1000)
            .map(|_| {
                let image = below(&mut rng, volumes.len());
                VoxelSite {
                    image: image as u32,
                    voxel: volumes[image].shape().map(|n| below(&mut rng, n) as i32),
                }
            })
            .collect();
        let respond = |out: &mut Vec<i32>, which: &dyn Fn(&mut [i32])| {
            out.clear();
            out.resize(features.len() * sites.len(), -1);
            which(out);
        };
        let cpu_images: Vec<_> = volumes
            .iter()
            .map(|v| Cpu.upload(&[v.clone().into()], &layout).expect(WORKS))
            .collect();
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        respond(&mut expected, &|out| {
            Cpu.responses(&cpu_images.iter().collect::<Vec<_>>(), &Haar, &features, &sites, out)
                .expect(WORKS)
        });
        for limit in IMAGE_LIMITS {
            gpu = gpu.with_image_limit(limit);
            let gpu_images: Vec<_> = volumes
                .iter()
                .map(|v| gpu.upload(&[v.clone().into()], &layout).expect(WORKS))
                .collect();
            respond(&mut found, &|out| {
                gpu.responses(&gpu_images.iter().collect::<Vec<_>>(), &Haar, &features, &sites, out)
                    .expect(WORKS)
            });
            assert!(found == expected, "radius {radius}, {limit} bytes of images");
        }
    }
}

#[test]
fn dense_scores_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    // Trees, depth, weak classifiers a node, radius.
    for (trees, depth, weaks, radius, shape) in [
        (1, 1, 40, 6, [64, 40, 30]),
        (1, 6, 12, 9, [45, 33, 21]),
        (3, 5, 7, 9, [70, 9, 30]),
        (10, 10, 1, 9, [40, 41, 42]),
        (1, 0, 3, 4, [10, 10, 10]),
        (2, 4, 40, 20, [33, 40, 17]),
        (1, 24, 2, 3, [35, 34, 3]),
    ] {
        let features = haar_pool(
            &HaarPoolConfig { features: 60, radius, ..HaarPoolConfig::default() },
            rng.next_u64(),
        );
        let v = volume(&mut rng, shape);
        let padding = if radius % 2 == 0 { Padding::Zero } else { Padding::Edge };
        let layout = ImageLayout { padding, haar: Some((0, radius)), channels: vec![] };
        let (cpu_image, gpu_image) = (
            Cpu.upload(&[v.clone().into()], &layout).expect(WORKS),
            gpu.upload(&[v.clone().into()], &layout).expect(WORKS),
        );
        for eval in EVALS {
            // A tree that sends everything both ways has 2^depth leaves a sample.
            let depth = if eval.e2 == 0.5 { depth.min(6) } else { depth };
            let c = classifier(&mut rng, trees, depth.min(12), weaks, features.len(), 60_000, eval);
            let expected = Cpu.score(&cpu_image, &Haar, &features, &c, &Voxels::All).expect(WORKS);
            assert!(
                gpu.score(&gpu_image, &Haar, &features, &c, &Voxels::All).expect(WORKS) == expected,
                "{trees} {depth} {weaks} {radius} {eval:?}"
            );
            let listed: Vec<usize> = (0..500).map(|_| below(&mut rng, expected.len())).collect();
            let [nx, ny, _] = shape;
            let at = |n: &usize| [n % nx, n / nx % ny, n / nx / ny].map(|v| v as i32);
            let voxels = Voxels::At(listed.iter().map(at).collect());
            let of_listed: Vec<Score> = listed.iter().map(|&n| expected[n]).collect();
            assert!(
                Cpu.score(&cpu_image, &Haar, &features, &c, &voxels).expect(WORKS) == of_listed
                    && gpu.score(&gpu_image, &Haar, &features, &c, &voxels).expect(WORKS)
                        == of_listed,
                "listed voxels: {trees} {depth} {weaks} {radius} {eval:?}"
            );
            for strategy in
                [Strategy::Walks, Strategy::Waves, Strategy::TiledWaves, Strategy::Paths]
            {
                let Some(scores) =
                    gpu.voxel_scores(&gpu_image, &features, &c, strategy).expect("scores")
                else {
                    println!("radius {radius}: {strategy:?} does not serve");
                    continue;
                };
                let found: Vec<Score> = gpu.read_scores(&scores).expect("scores");
                let wrong = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
                assert!(
                    wrong == 0,
                    "{wrong} wrong: {strategy:?} {trees} {depth} {weaks} {radius} {eval:?}"
                );
            }
        }
    }
}

/// Forests whose nodes have one threshold, with margins that differ and thresholds that all
/// responses or none reach.
#[test]
fn hard_forests_of_thresholds_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (trees, depth, radius, shape) in [
        (10, 10, 9, [40, 41, 42]),
        (1, 3, 4, [65, 9, 5]),
        (3, 0, 2, [5, 6, 7]),
        (2, 12, 6, [33, 8, 70]),
    ] {
        let features = haar_pool(
            &HaarPoolConfig { features: 80, radius, ..HaarPoolConfig::default() },
            rng.next_u64(),
        );
        let v = volume(&mut rng, shape);
        let layout =
            ImageLayout { padding: Padding::Edge, haar: Some((0, radius)), channels: vec![] };
        let (cpu_image, gpu_image) = (
            Cpu.upload(&[v.clone().into()], &layout).expect(WORKS),
            gpu.upload(&[v.clone().into()], &layout).expect(WORKS),
        );
        let mut c = classifier(&mut rng, trees, depth, 1, features.len(), 60_000, EvalParams::HARD);
        for weak in c.trees.iter_mut().flat_map(|t| &mut t.weaks) {
            let upper = u64::MAX.checked_shl(below(&mut rng, 65) as u32).unwrap_or(0);
            weak.votes = if below(&mut rng, 2) == 0 { upper } else { !upper };
        }
        let expected = Cpu.score(&cpu_image, &Haar, &features, &c, &Voxels::All).expect(WORKS);
        let by_paths =
            gpu.voxel_scores(&gpu_image, &features, &c, Strategy::Paths).expect("scores");
        match by_paths {
            Some(scores) => assert!(
                gpu.read_scores(&scores).expect("scores") == expected,
                "{trees} {depth} {radius}"
            ),
            None => println!("{trees} {depth} {radius}: the device has too little shared memory"),
        }
        assert!(
            gpu.score(&gpu_image, &Haar, &features, &c, &Voxels::All).expect(WORKS) == expected,
            "{trees} {depth} {radius}"
        );
        let best = Cpu.best(&cpu_image, &Haar, &features, &c, &Voxels::All, 300).expect(WORKS);
        assert!(
            gpu.best(&gpu_image, &Haar, &features, &c, &Voxels::All, 300).expect(WORKS) == best,
            "the best of {trees} {depth} {radius}"
        );
    }
}

#[test]
fn best_scores_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for count in [1, 2, 1000, 16_384, 16_385, 100_001, 700_000, 3_000_000] {
        let random =
            |rng: &mut ChaCha8Rng| i64::from(rng.next_u32()) << 32 | i64::from(rng.next_u32());
        let place = below(&mut rng, count) as i64;
        let kinds: [(&str, Vec<i64>); 5] = [
            ("random", (0..count).map(|_| random(&mut rng)).collect()),
            ("few values", (0..count).map(|_| below(&mut rng, 7) as i64 - 3).collect()),
            ("one value", vec![-5; count]),
            ("a peak", (0..count as i64).map(|n| -(n - place).abs()).collect()),
            ("the ends of the range", (0..count).map(|n| [i64::MIN, i64::MAX, 0][n % 3]).collect()),
        ];
        for (name, values) in kinds {
            let scores: Vec<Score> = values.into_iter().map(Score).collect();
            let on_device = gpu.upload_scores(&scores).expect("scores");
            for k in [0, 1, 680, 2048, 2049] {
                let expected: Vec<(usize, Score)> =
                    best_indices(&scores, k).into_iter().map(|n| (n, scores[n])).collect();
                assert!(
                    gpu.best_scores(&on_device, k).expect("the best") == expected,
                    "{name}, {k} of {count}"
                );
            }
        }
    }
}

#[test]
fn pose_responses_scores_and_patches_cuda() {
    let Some(mut gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    let grid = BoxGrid { points: [5, 4, 3], extent: [1.2, 1.0, 1.5] };
    let family = Steerable { grid };
    for (padding, limit) in [
        (Padding::Zero, usize::MAX),
        (Padding::Edge, usize::MAX),
        (Padding::Zero, 1),
        (Padding::Edge, 1),
    ] {
        gpu = gpu.with_image_limit(limit);
        let cases: Vec<_> =
            [[40, 30, 20], [25, 36, 31]].into_iter().map(|s| levels(&mut rng, s)).collect();
        let count = cases[0].len();
        let layout = ImageLayout { padding, haar: None, channels: (0..count).collect() };
        let cpu_images: Vec<_> =
            cases.iter().map(|l| Cpu.upload(l, &layout).expect(WORKS)).collect();
        let gpu_images: Vec<_> =
            cases.iter().map(|l| gpu.upload(l, &layout).expect(WORKS)).collect();
        let (cpu_refs, gpu_refs): (Vec<_>, Vec<_>) =
            (cpu_images.iter().collect(), gpu_images.iter().collect());
        let chosen = poses(&mut rng, cases[0][0].geometry(), 700);
        let sites: Vec<PoseSite> = chosen
            .iter()
            .enumerate()
            .map(|(n, &pose)| PoseSite { image: (n * 2 / 700) as u32, pose })
            .collect();
        let level_numbers: Vec<u8> = (0..count as u8).collect();
        for set in [SteerableSet::Complete, SteerableSet::Patent, SteerableSet::Compact] {
            let features = steerable_pool(&grid, set, &level_numbers);
            let mut expected = vec![0; features.len() * sites.len()];
            let mut found = vec![-1; expected.len()];
            Cpu.responses(&cpu_refs, &family, &features, &sites, &mut expected).expect(WORKS);
            gpu.responses(&gpu_refs, &family, &features, &sites, &mut found).expect(WORKS);
            let first = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert!(
                first.is_none(),
                "{set:?}: {:?}",
                first.map(|n| (
                    features[n / sites.len()],
                    sites[n % sites.len()],
                    found[n],
                    expected[n]
                ))
            );
            for eval in EVALS {
                let c = classifier(&mut rng, 2, 4, 9, features.len(), 20_000, eval);
                let expected =
                    Cpu.score(&cpu_images[0], &family, &features, &c, &chosen[..]).expect(WORKS);
                assert!(
                    gpu.score(&gpu_images[0], &family, &features, &c, &chosen[..]).expect(WORKS)
                        == expected,
                    "{set:?} {eval:?}"
                );
            }
        }
        for edges in [false, true] {
            let patch = Patch { grid, levels: level_numbers.clone(), edges };
            let mut expected = vec![0; patch.len() * sites.len()];
            let mut found = vec![-1; expected.len()];
            Cpu.patches(&cpu_refs, &patch, &sites, &mut expected).expect(WORKS);
            gpu.patches(&gpu_refs, &patch, &sites, &mut found).expect(WORKS);
            assert!(found == expected, "patches, edges {edges}");
        }
    }
}

/// Patches and scores of few poses, asked for by many threads at the same time.
#[test]
fn few_poses_of_many_threads_cuda() {
    let Some(mut gpu) = gpu() else { return };
    let seed = fresh_rng().next_u64();
    for limit in [usize::MAX, 1] {
        gpu = gpu.with_image_limit(limit);
        std::thread::scope(|scope| {
            for thread in 0..12 {
                let gpu = &gpu;
                scope.spawn(move || {
                    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ thread);
                    let pyramid = levels(&mut rng, [20 + thread as usize, 33, 26]);
                    let padding = [Padding::Zero, Padding::Edge][thread as usize % 2];
                    let channels = (0..pyramid.len()).collect();
                    let layout = ImageLayout { padding, haar: None, channels };
                    let on_cpu = Cpu.upload(&pyramid, &layout).expect(WORKS);
                    let on_gpu = gpu.upload(&pyramid, &layout).expect(WORKS);
                    let grid = BoxGrid { points: [9, 8, 3 + thread as u8], extent: [1.1; 3] };
                    let all: Vec<u8> = (0..pyramid.len() as u8).collect();
                    let family = Steerable { grid };
                    let features = steerable_pool(&grid, SteerableSet::Compact, &all);
                    let c = classifier(&mut rng, 2, 4, 9, features.len(), 20_000, EVALS[0]);
                    let patch = Patch { grid, levels: all, edges: thread % 3 == 0 };
                    for count in [1, 3, 10, 200, 7] {
                        let chosen = poses(&mut rng, pyramid[0].geometry(), count);
                        let site = |&pose| PoseSite { image: 0, pose };
                        let sites: Vec<PoseSite> = chosen.iter().map(site).collect();
                        let mut expected = vec![0; patch.len() * sites.len()];
                        let mut found = vec![-1; expected.len()];
                        Cpu.patches(&[&on_cpu], &patch, &sites, &mut expected).expect(WORKS);
                        gpu.patches(&[&on_gpu], &patch, &sites, &mut found).expect(WORKS);
                        assert!(found == expected, "thread {thread}, {count} patches");
                        let score = |scores: Result<_, _>| scores.expect(WORKS);
                        let expected =
                            score(Cpu.score(&on_cpu, &family, &features, &c, &chosen[..]));
                        let found = score(gpu.score(&on_gpu, &family, &features, &c, &chosen[..]));
                        assert!(found == expected, "thread {thread}, {count} scores");
                    }
                });
            }
        });
    }
}

/// As many channels and levels as a model may have, and positions searched in one that is not the
/// first.
#[test]
fn images_of_several_channels_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut rng = fresh_rng();
    for (channels, levels) in [(2, 3), (3, 4), (MOST_CHANNELS, 8)] {
        let finest: Vec<_> = (0..channels).map(|_| volume(&mut rng, [40, 33, 26])).collect();
        let pyramid = Pyramid::of_channels(finest, levels);
        let volumes = pyramid.volumes();
        let searched = channels + 1;
        let layout = ImageLayout {
            padding: Padding::Edge,
            haar: Some((searched, 4)),
            channels: (0..volumes.len()).collect(),
        };
        let on_cpu = Cpu.upload(volumes, &layout).expect(WORKS);
        let on_gpu = gpu.upload(volumes, &layout).expect(WORKS);
        assert_eq!(volumes[searched].shape(), [20, 17, 13], "channel 1 of level 1");

        let pool = HaarPoolConfig { features: 60, radius: 4, ..HaarPoolConfig::default() };
        let features = haar_pool(&pool, rng.next_u64());
        let c = classifier(&mut rng, 2, 3, 9, features.len(), 20_000, EVALS[0]);
        let expected = Cpu.score(&on_cpu, &Haar, &features, &c, &Voxels::All).expect(WORKS);
        assert_eq!(expected.len(), 20 * 17 * 13);
        let found = gpu.score(&on_gpu, &Haar, &features, &c, &Voxels::All).expect(WORKS);
        assert!(found == expected, "{channels} channels: voxels");

        let grid = BoxGrid { points: [5, 4, 3], extent: [1.2, 1.0, 1.5] };
        let family = Steerable { grid };
        let all: Vec<u8> = (0..volumes.len() as u8).collect();
        let features = steerable_pool(&grid, SteerableSet::Compact, &all);
        let chosen = poses(&mut rng, volumes[0].geometry(), 500);
        let c = classifier(&mut rng, 2, 4, 9, features.len(), 20_000, EVALS[0]);
        let expected = Cpu.score(&on_cpu, &family, &features, &c, &chosen[..]).expect(WORKS);
        let found = gpu.score(&on_gpu, &family, &features, &c, &chosen[..]).expect(WORKS);
        assert!(found == expected, "{channels} channels: poses");

        let sites: Vec<PoseSite> = chosen.iter().map(|&pose| PoseSite { image: 0, pose }).collect();
        let patch = Patch { grid, levels: all, edges: true };
        let mut expected = vec![0; patch.len() * sites.len()];
        let mut found = vec![-1; expected.len()];
        Cpu.patches(&[&on_cpu], &patch, &sites, &mut expected).expect(WORKS);
        gpu.patches(&[&on_gpu], &patch, &sites, &mut found).expect(WORKS);
        assert!(found == expected, "{channels} channels: patches");
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    match devices() {
        Ok(found) => {
            assert!(!found.is_empty());
            assert_eq!(
                Gpu::open(99).err(),
                Some(GpuError::NotThere { ordinal: 99, count: found.len() as u32 })
            );
        }
        Err(error) => {
            assert!(error.is_unavailable(), "{error}");
            assert_eq!(Gpu::open(99).err(), Some(error));
        }
    }
}

#[test]
fn full_memory_ends_the_computation_cuda() {
    let Some(gpu) = gpu() else { return };
    let gpu = gpu.with_memory_limit(1 << 16);
    let v = volume(&mut fresh_rng(), [64, 64, 64]);
    let layout = ImageLayout { padding: Padding::Edge, haar: Some((0, 3)), channels: vec![] };
    let ended = gpu.upload(&[v.clone().into()], &layout).err();
    match ended.as_ref().and_then(|error| error.get_ref().downcast_ref()) {
        Some(GpuError::OutOfMemory { asked, free }) => assert!(asked > free && *free <= 1 << 16),
        other => panic!("{other:?}"),
    }
}
