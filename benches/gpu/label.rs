//! Forests that label voxels on the GPU: time, floor and ratio by row.
//!
//! Channels and splits are timed from the host, with what travels; labels by device events round the
//! work, warm, median. Floors: bytes at the measured 4.3 TB/s of a large copy on an H200; reads of
//! integral volumes at 32 words a clock and multiprocessor, 8.36·10¹² a second; counts of samples at
//! 3.3·10¹² a second, the rate of atomic additions in shared memory.
//!
//! usage: cargo bench -p pbt-gpu --bench label [-- WORD …]    only what has one of the words in its
//! name

use pbt_cpu::Cpu;
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter};
use pbt_gpu::{Gpu, GpuChannels};
use pbt_tree::{
    Block, ChannelBank, Edges, LEAF, LEAF_ONE, LabelBackend, LabelBoostParams, LabelForest,
    LabelForestParams, LabelMatrix, LabelNode, LabelTree, LeafPrior, Outside, SplitTask, Splitter,
    Vote, boost_labels, grow_label_forest,
};
use pbt_volume::{Geometry, Random, Volume};
use rayon::prelude::*;
use std::error::Error;
use std::time::Instant;

const BYTES_PER_MS: f64 = 4.3e9;
const WORDS_PER_MS: f64 = 8.36e9;
const COUNTS_PER_MS: f64 = 3.3e9;

/// Whether the command line asks for work of this name.
fn wanted(name: &str) -> bool {
    let mut words = std::env::args().skip(1).filter(|a| !a.starts_with("--")).peekable();
    words.peek().is_none() || words.any(|word| name.contains(&word))
}

fn row(name: &str, ms: f64, floor_ms: f64) {
    println!("{name:<66} {ms:>9.3} ms  floor {floor_ms:>7.3}  x {:>5.2}", ms / floor_ms);
}

/// The median of the wall times of some runs after one other.
fn wall_ms(repeats: usize, mut action: impl FnMut()) -> f64 {
    action();
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let started = Instant::now();
            action();
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[repeats / 2]
}

/// Structure of many sizes with noise, 12 bits.
fn volume(n: usize, random: &mut Random) -> Volume<u16> {
    let wave = |length: f64| (0..n).map(|x| (x as f64 / length).sin()).collect::<Vec<_>>();
    let (along_i, along_j, along_k) = (wave(17.0), wave(23.0), wave(13.0));
    Volume::from_fn(Geometry::isotropic([n; 3], 1.0).expect("a grid"), |i, j, k| {
        let value = 800.0 * (along_i[i] + along_j[j] * along_k[k]) + 2000.0;
        (value + random.between(-200.0, 200.0)).clamp(0.0, 4095.0) as u16
    })
}

/// A full tree of `depth` levels of inner nodes with thresholds from responses, `[feature][…]`.
fn full_tree(depth: usize, responses: &[Vec<i64>], random: &mut Random) -> LabelTree {
    let inner = (1usize << depth) - 1;
    let node = |n: usize| {
        if n >= inner {
            return LabelNode { feature: LEAF, next: (n - inner) as u32, low: 0, high: 0 };
        }
        let feature = random.below(responses.len());
        let high = responses[feature][random.below(responses[feature].len())];
        LabelNode { feature: feature as u32, next: 2 * n as u32 + 1, low: i64::MIN + 1, high }
    };
    let nodes = (0..2 * inner + 1).map(node).collect();
    let one = LEAF_ONE as u16;
    let leaves = (0..=inner).flat_map(|n| {
        let first = n as u16 % one;
        [first, (one - first) / 2, one - first - (one - first) / 2]
    });
    LabelTree { nodes, leaves: leaves.collect() }
}

/// A bank of 12 channels and features of up to 16 voxels' distance.
fn bank(random: &mut Random) -> (ChannelBank, Vec<BoxMeanFeature>) {
    let filters = Filter::bank(&[1.0, 2.0, 4.0]);
    let pool = BoxMeanPool { radius: 16.0, edge: 9.0, channels: filters.len() };
    let features = pool.features(1000, random);
    let reach = features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0);
    (ChannelBank { filters, spacing_mm: 1.0, outside: Outside::Missing, reach }, features)
}

fn some_voxels(n: usize, count: usize, random: &mut Random) -> Vec<[usize; 3]> {
    (0..count).map(|_| [0; 3].map(|_: u8| random.below(n))).collect()
}

/// Dense labels by a forest, on channels of all voxels.
fn time_labels(
    gpu: &Gpu,
    name: &str,
    n: usize,
    channels: &GpuChannels,
    forest: &LabelForest,
    depth: f64,
) -> Result<(), Box<dyn Error>> {
    let on_device = gpu.upload_label_forest(forest)?;
    let ms = gpu.median_ms(2, 7, || gpu.label_distributions(channels, &on_device).map(|_| ()))?;
    let steps = (n * n * n * forest.trees.len()) as f64 * depth;
    row(name, ms, steps * 14.0 / WORDS_PER_MS);
    Ok(())
}

/// Dense labels by full trees that ask random features with random thresholds.
fn labels(gpu: &Gpu, n: usize, trees: usize, depth: usize) -> Result<(), Box<dyn Error>> {
    let name = format!("labels of {n}^3, {trees} trees, {depth} levels, 12 channels");
    if !wanted(&name) {
        return Ok(());
    }
    let mut random = Random::from_seed(1);
    let image = volume(n, &mut random);
    let (bank, features) = bank(&mut random);
    let block = Block::all([n; 3]);
    let ms = wall_ms(5, || {
        gpu.label_channels((&image).into(), &bank, &block).expect("the device works");
        gpu.synchronize().expect("the device works");
    });
    let bytes = (n * n * n * bank.filters.len() * 6) as f64;
    row(&format!("channels of {n}^3, from the host"), ms, bytes / BYTES_PER_MS);
    let channels = gpu.label_channels((&image).into(), &bank, &block)?;
    let voxels = some_voxels(n, 64, &mut random);
    let mut all = vec![0; features.len() * voxels.len()];
    gpu.respond(&channels, &features, &voxels, &mut all)?;
    let by_feature: Vec<Vec<i64>> = all.chunks_exact(voxels.len()).map(<[i64]>::to_vec).collect();
    let trees = (0..trees).map(|_| full_tree(depth, &by_feature, &mut random)).collect();
    let forest = LabelForest { classes: 3, vote: Vote::Mean, features, trees };
    time_labels(gpu, &name, n, &channels, &forest, depth as f64)?;
    let ms = wall_ms(3, || drop(gpu.distributions(&channels, &forest).expect("the device works")));
    println!("{:<66} {ms:>9.3} ms", "    the same with the labels' way out");
    Ok(())
}

/// What a mask asks for: channels of a frame, and what a forest says of every fifth of its voxels.
fn frame(gpu: &Gpu, n: usize, trees: usize, depth: usize) -> Result<(), Box<dyn Error>> {
    let name = format!("a frame of {n}^3, {trees} trees, {depth} levels, 12 channels");
    if !wanted(&name) {
        return Ok(());
    }
    let mut random = Random::from_seed(3);
    let image = volume(n, &mut random);
    let (bank, features) = bank(&mut random);
    let block = Block::all([n; 3]);
    let make = || gpu.label_channels((&image).into(), &bank, &block).expect("the device works");
    let ms = wall_ms(21, || {
        make();
        gpu.synchronize().expect("the device works");
    });
    let bytes = (n * n * n * bank.filters.len() * 6) as f64;
    row(&format!("{name}: channels, from the host"), ms, bytes / BYTES_PER_MS);
    let channels = make();
    let some = some_voxels(n, 64, &mut random);
    let mut all = vec![0; features.len() * some.len()];
    gpu.respond(&channels, &features, &some, &mut all)?;
    let by_feature: Vec<Vec<i64>> = all.chunks_exact(some.len()).map(<[i64]>::to_vec).collect();
    let trees: Vec<LabelTree> =
        (0..trees).map(|_| full_tree(depth, &by_feature, &mut random)).collect();
    let forest = LabelForest { classes: 3, vote: Vote::Scores, features, trees };
    let place = |number: usize| [number % n, number / n % n, number / (n * n)];
    let voxels: Vec<[usize; 3]> =
        (0..n * n * n).filter(|number| number / 16 % 5 == 0).map(place).collect();
    let ms = wall_ms(21, || {
        drop(gpu.distributions_at(&channels, &forest, &voxels).expect("the device works"));
    });
    let steps = (voxels.len() * forest.trees.len() * depth) as f64;
    row(&format!("{name}: labels, to the host"), ms, steps * 14.0 / WORDS_PER_MS);
    Ok(())
}

/// Dense labels by a forest that was trained: a class for each of two structures, of which one is a
/// surface, in the noise of [`volume`].
fn trained_labels(gpu: &Gpu, n: usize, samples: usize) -> Result<(), Box<dyn Error>> {
    let name = format!("labels of {n}^3, 20 trees trained on {samples} voxels");
    if !wanted(&name) {
        return Ok(());
    }
    let mut random = Random::from_seed(2);
    let image = volume(n, &mut random);
    let (bank, features) = bank(&mut random);
    let channels = gpu.label_channels((&image).into(), &bank, &Block::all([n; 3]))?;
    let voxels = some_voxels(n, samples, &mut random);
    let class = |&[i, j, k]: &[usize; 3]| {
        let [x, y, z] = [i, j, k].map(|v| v as f64);
        let shape = (x / 17.0).sin() + (y / 23.0).sin() * (z / 13.0).sin();
        let other = (x / 31.0 + y / 19.0).sin() + (z / 29.0).cos();
        if shape.abs() < 0.12 { 2 } else { u8::from(shape + 0.3 * other > 0.0) }
    };
    let classes: Vec<u8> = voxels.iter().map(class).collect();
    let some = &voxels[..2000];
    let mut responses = vec![0; features.len() * some.len()];
    gpu.respond(&channels, &features, some, &mut responses)?;
    let edges: Vec<Edges> =
        responses.chunks_exact(some.len()).map(|row| Edges::of_responses(row.to_vec())).collect();
    let mut bins = vec![0; features.len() * samples];
    gpu.bins(&channels, &features, &edges, &voxels, &mut bins)?;
    let matrix = LabelMatrix::new(3, classes, edges, bins);
    let prior = LeafPrior { weights: vec![256; samples], bias: 0 };
    let params = LabelForestParams { trees: 20, depth: 16, ..LabelForestParams::default() };
    let trees = grow_label_forest(gpu, &matrix, &prior, &params, 1, || ())?;
    let forest = LabelForest { classes: 3, vote: Vote::Mean, features, trees };
    // Levels that a sample passes, the mean.
    let (mut inner, mut nodes) = (0.0, 0);
    let some = &voxels[..1000];
    let mut own = vec![0; forest.features.len() * some.len()];
    gpu.respond(&channels, &forest.features, some, &mut own)?;
    for tree in &forest.trees {
        nodes += tree.nodes.len();
        for n in 0..some.len() {
            tree.leaf(|feature| {
                inner += 1.0;
                own[feature as usize * some.len() + n]
            });
        }
    }
    let depth = inner / (some.len() * forest.trees.len()) as f64;
    let name = format!("{name}: {nodes} nodes, {depth:.1} levels");
    time_labels(gpu, &name, n, &channels, &forest, depth)
}

/// Bins that say a little of the class; of ten labels, `wrong` are then drawn anew.
fn matrix(samples: usize, features: usize, classes: usize, wrong: u64) -> LabelMatrix {
    let noise = |seed: u64| {
        let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
    };
    let labels: Vec<u8> = (0..samples as u64).map(|n| (noise(n) % classes as u64) as u8).collect();
    let edges = Edges::of_responses((0..6300).collect());
    let mut bins = vec![0; samples * features];
    bins.par_chunks_exact_mut(samples).enumerate().for_each(|(number, row)| {
        let feature = number as u64 + 1;
        let shift = |label: u8| feature % 7 * u64::from(label) % 7;
        for ((bin, &label), n) in row.iter_mut().zip(&labels).zip(feature << 32..) {
            *bin = (noise(n) % 56 + shift(label)) as u8;
        }
    });
    let swapped = |n: u64| noise(n | 1 << 62) % 10 < wrong;
    let other = |n: u64| (noise(n | 1 << 63) % classes as u64) as u8;
    let labels = (0..).zip(labels).map(|(n, label)| if swapped(n) { other(n) } else { label });
    let labels = labels.collect();
    LabelMatrix::new(classes, labels, vec![edges; features], bins)
}

/// One level of a tree.
fn level(gpu: &Gpu, matrix: &LabelMatrix, nodes: usize) -> Result<(), Box<dyn Error>> {
    let samples = matrix.labels().len();
    let name = format!("splits of {samples} samples in {nodes} nodes, 100 features each");
    if !wanted(&name) {
        return Ok(());
    }
    let on_device = gpu.matrix(matrix)?;
    let mut parts = vec![(Vec::new(), vec![0u32; matrix.classes()]); nodes];
    for class in 0..matrix.classes() {
        for (n, &label) in matrix.labels().iter().enumerate() {
            if usize::from(label) == class {
                let (samples, counts) = &mut parts[(n * 40_503) % nodes];
                samples.push(n as u32);
                counts[class] += 1;
            }
        }
    }
    let step = matrix.features() / 100;
    let candidates: Vec<(u32, u8)> = (0..100).map(|f| ((f * step) as u32, 0)).collect();
    let tasks: Vec<SplitTask<'_>> = parts
        .iter()
        .map(|(samples, counts)| SplitTask { samples, counts, candidates: &candidates })
        .collect();
    let ms = wall_ms(5, || drop(gpu.best_splits(&on_device, &tasks, 4).expect("the device works")));
    row(&name, ms, (samples * 100) as f64 / COUNTS_PER_MS);
    Ok(())
}

/// Whole trees.
fn forest(gpu: &Gpu, matrix: &LabelMatrix, with: &str) -> Result<(), Box<dyn Error>> {
    let (trees, depth) = (20, 16);
    let (samples, features) = (matrix.labels().len(), matrix.features());
    let name = format!("forest on {samples} x {features}, {trees} trees, {depth} levels{with}");
    if !wanted(&name) {
        return Ok(());
    }
    let params =
        LabelForestParams { trees, depth, bootstrap: true, ..LabelForestParams::default() };
    let prior = LeafPrior { weights: vec![256; samples], bias: 0 };
    let ms = wall_ms(3, || drop(gpu.matrix(matrix).expect("a matrix")));
    println!("{:<66} {ms:>9.3} ms", format!("the matrix of {samples} x {features} on its way in"));
    let mut nodes = 0;
    let ms = wall_ms(3, || {
        let trees = grow_label_forest(gpu, matrix, &prior, &params, 1, || ()).expect("it works");
        nodes = trees.iter().map(|tree| tree.nodes.len()).sum();
    });
    let name = format!("{name} ({nodes} nodes)");
    let tried = (features as f64 * params.features_per_node).ceil();
    row(&name, ms, samples as f64 * tried * (trees * depth) as f64 / COUNTS_PER_MS);
    Ok(())
}

/// Boosted trees, on the device and on the host; four boostings side by side, as masks have them.
fn boosted(gpu: &Gpu, samples: usize, features: usize, trees: usize) -> Result<(), Box<dyn Error>> {
    let name = format!("boosted trees on {samples} x {features}, {trees} trees, 8 levels");
    if !wanted(&name) {
        return Ok(());
    }
    let matrix = matrix(samples, features, 2, 0);
    let params = LabelBoostParams { trees, depth: 8, ..LabelBoostParams::default() };
    let drawn = samples as f64 * params.samples_per_tree;
    let tried = (features as f64 * params.features_per_tree).ceil();
    // Every sample of a tree, by every feature of it, once a level: a count and two slopes.
    let additions = 3.0 * drawn * tried * (trees * params.depth) as f64;
    let timed = |times: u64, grow: &(dyn Fn(u64) -> Vec<LabelTree> + Sync)| {
        let started = Instant::now();
        let all: Vec<Vec<LabelTree>> = (0..times).into_par_iter().map(grow).collect();
        (started.elapsed().as_secs_f64() * 1e3, all)
    };
    let on_gpu = |seed| boost_labels(gpu, &matrix, &params, seed, || true).expect("it works");
    let on_cpu = |seed| boost_labels(&Cpu, &matrix, &params, seed, || true).expect("it works");
    timed(1, &on_gpu);
    for times in [1, 4] {
        let (ms, found) = timed(times, &on_gpu);
        row(&format!("{name}, {times} at a time"), ms, times as f64 * additions / COUNTS_PER_MS);
        let (ms, expected) = timed(times, &on_cpu);
        println!("{:<66} {ms:>9.3} ms", "    the same on the host");
        assert!(found == expected, "the device's trees are not the host's");
    }
    Ok(())
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
    frame(&gpu, 62, 100, 8)?;
    labels(&gpu, 128, 20, 16)?;
    labels(&gpu, 256, 20, 12)?;
    labels(&gpu, 256, 20, 16)?;
    trained_labels(&gpu, 256, 200_000)?;
    trained_labels(&gpu, 256, 1_000_000)?;
    boosted(&gpu, 200_000, 220, 20)?;
    for wrong in [0, 3] {
        let with = if wrong == 0 { "" } else { ", 3 in 10 labels drawn anew" };
        if ["splits of", "forest on"].into_iter().any(wanted) {
            let matrix = matrix(1_000_000, 2000, 3, wrong);
            if wrong == 0 {
                for nodes in [1, 64, 4096] {
                    level(&gpu, &matrix, nodes)?;
                }
            }
            forest(&gpu, &matrix, with)?;
        }
    }
    Ok(())
}
