//! Forests that label voxels on the device against the CPU's on fresh random input: the same bits.

mod support;

use pbt_cpu::Cpu;
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter, MISSING, MeanBox};
use pbt_gpu::Gpu;
use pbt_tree::{
    Block, ChannelBank, Edges, LEAF, LEAF_ONE, LabelBackend, LabelBoostParams, LabelBooster,
    LabelForest, LabelForestParams, LabelMatrix, LabelNode, LabelTest, LabelTree, Layered,
    LeafPrior, Outside, SplitTask, Splitter, TreeTask, Vote, boost_labels, grow_label_forest,
};
use pbt_volume::{Geometry, Random, Volume};
use rand_chacha::rand_core::Rng;
use support::{WORKS, fresh_rng, gpu};

fn random() -> Random {
    Random::from_seed(fresh_rng().next_u64())
}

/// Noise of 12 bits with some structure.
fn volume(random: &mut Random, shape: [usize; 3]) -> Volume<u16> {
    let waves: [f64; 3] = std::array::from_fn(|_| random.between(0.05, 0.6));
    Volume::from_fn(Geometry::isotropic(shape, 1.0).expect("a grid"), |i, j, k| {
        let smooth =
            (i as f64 * waves[0]).sin() + (j as f64 * waves[1]).sin() * (k as f64 * waves[2]).cos();
        let value = 1300.0 * smooth + 2000.0 + random.between(-500.0, 500.0);
        value.clamp(0.0, 4095.0) as u16
    })
}

/// All filters at random scales.
fn bank(random: &mut Random, outside: Outside, reach: usize) -> ChannelBank {
    let mut filters = Filter::bank(&[0.3, 1.0, random.between(0.5, 3.0)]);
    filters.extend((0..3).map(|axis| Filter::Place { axis }));
    ChannelBank { filters, spacing_mm: random.between(0.6, 1.5), outside, reach }
}

fn reach(features: &[BoxMeanFeature]) -> usize {
    features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0)
}

/// A block of an image: the whole of it, or a random part.
fn block(random: &mut Random, shape: [usize; 3], whole: bool) -> Block {
    let mut block = Block::all(shape);
    if !whole {
        for (a, n) in shape.into_iter().enumerate() {
            block.min[a] = random.below(n);
            block.max[a] = block.min[a] + 1 + random.below(n - block.min[a]);
        }
    }
    block
}

/// A tree of at most `depth` levels whose thresholds are responses at some voxels, `[feature][…]`.
fn tree(random: &mut Random, depth: usize, classes: usize, responses: &[Vec<i64>]) -> LabelTree {
    let leaf = LabelNode { feature: LEAF, next: 0, low: 0, high: 0 };
    let mut tree = LabelTree { nodes: vec![leaf], leaves: Vec::new() };
    let mut open = vec![(0, 0)];
    while let Some((n, level)) = open.pop() {
        if level == depth || random.below(8) == 0 {
            tree.nodes[n].next = (tree.leaves.len() / classes) as u32;
            let mut left = LEAF_ONE;
            for class in 0..classes {
                let part = random.below(left as usize + 1) as u32;
                let part = if class + 1 == classes { left } else { part };
                tree.leaves.push(part as u16);
                left -= part;
            }
            continue;
        }
        let feature = random.below(responses.len());
        let mut response = || responses[feature][random.below(responses[feature].len())];
        let (a, b) = (response().max(MISSING + 1), response().max(MISSING + 1));
        let high = if random.below(2) == 0 { i64::MAX } else { a.max(b) };
        let next = tree.nodes.len();
        let (feature, next_node) = (feature as u32, next as u32);
        tree.nodes[n] = LabelNode { feature, next: next_node, low: a.min(b), high };
        tree.nodes.extend([leaf; 2]);
        open.extend([(next, level + 1), (next + 1, level + 1)]);
    }
    tree
}

fn responses<B: LabelBackend>(
    backend: &B,
    image: &Volume<u16>,
    bank: &ChannelBank,
    block: &Block,
    features: &[BoxMeanFeature],
    voxels: &[[usize; 3]],
) -> Vec<i64> {
    let channels = backend.channels(image.into(), bank, block).expect(WORKS);
    let mut out = vec![7; features.len() * voxels.len()];
    backend.respond(&channels, features, voxels, &mut out).expect(WORKS);
    out
}

fn voxels(random: &mut Random, block: &Block, count: usize) -> Vec<[usize; 3]> {
    let mut at = |a: usize| block.min[a] + random.below(block.max[a] - block.min[a]);
    (0..count).map(|_| [at(0), at(1), at(2)]).collect()
}

const SHAPES: [[usize; 3]; 6] =
    [[1, 1, 1], [5, 1, 9], [33, 20, 7], [31, 65, 12], [70, 41, 50], [2, 90, 3]];

#[test]
fn responses_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for outside in [Outside::Missing, Outside::Edge, Outside::Zero] {
        for shape in SHAPES {
            let image = volume(&mut random, shape);
            let mut bank = bank(&mut random, outside, 0);
            let radius = random.between(0.0, 14.0);
            let pool = BoxMeanPool { radius, edge: 9.0, channels: bank.filters.len() };
            let features = pool.features(80, &mut random);
            bank.reach = reach(&features);
            for whole in [true, false] {
                let block = block(&mut random, shape, whole);
                let voxels = voxels(&mut random, &block, 150);
                let of = |gpu: &Gpu| responses(gpu, &image, &bank, &block, &features, &voxels);
                let expected = responses(&Cpu, &image, &bank, &block, &features, &voxels);
                let found = of(&gpu);
                if let Some(n) = (0..found.len()).find(|&n| found[n] != expected[n]) {
                    let feature = &features[n / voxels.len()];
                    let filter = &bank.filters[usize::from(feature.first.channel)];
                    panic!(
                        "{shape:?} {block:?} {outside:?} {feature:?} {filter:?} at {:?}: {} and not {}",
                        voxels[n % voxels.len()],
                        found[n],
                        expected[n]
                    );
                }
            }
        }
    }
}

/// A forest with thresholds from the image.
fn forest(
    random: &mut Random,
    image: &Volume<u16>,
    bank: &mut ChannelBank,
    (trees, depth, classes): (usize, usize, usize),
    vote: Vote,
) -> LabelForest {
    let pool = BoxMeanPool { radius: 10.0, edge: 7.0, channels: bank.filters.len() };
    let features = pool.features(60, random);
    bank.reach = reach(&features);
    let block = Block::all(image.shape());
    let voxels = voxels(random, &block, 40);
    let all = responses(&Cpu, image, bank, &block, &features, &voxels);
    let by_feature: Vec<Vec<i64>> = all.chunks_exact(voxels.len()).map(<[i64]>::to_vec).collect();
    let trees = (0..trees).map(|_| tree(random, depth, classes, &by_feature)).collect();
    let forest = LabelForest { classes, vote, features, trees };
    assert_eq!(forest.fault(bank.filters.len()), None);
    forest
}

#[test]
fn distributions_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (n, shape) in SHAPES.into_iter().enumerate() {
        for (classes, vote) in
            [(2, Vote::Mean), (3, Vote::Majority), (9, Vote::Mean), (64, Vote::Majority)]
        {
            let outside = [Outside::Missing, Outside::Edge, Outside::Zero][(n + classes) % 3];
            let image = volume(&mut random, shape);
            let mut bank = bank(&mut random, outside, 0);
            let forest = forest(&mut random, &image, &mut bank, (7, 9, classes), vote);
            for whole in [true, false] {
                let block = block(&mut random, shape, whole);
                let expected = {
                    let channels = Cpu.channels((&image).into(), &bank, &block).expect(WORKS);
                    Cpu.distributions(&channels, &forest).expect(WORKS)
                };
                let channels = gpu.channels((&image).into(), &bank, &block).expect(WORKS);
                let found = gpu.distributions(&channels, &forest).expect(WORKS);
                assert!(found == expected, "{shape:?} {block:?} {outside:?} {classes} {vote:?}");
            }
        }
    }
}

/// Features with so large boxes that responses need more than 32 bits, and so many features that they
/// do not fit into shared memory, at shapes about the limits of what a block and a chunk take.
#[test]
fn distributions_of_large_boxes_and_many_features_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (shape, edge, count) in
        [([65, 33, 40], 40.0, 60), ([31, 66, 9], 60.0, 20), ([64, 32, 33], 5.0, 3600)]
    {
        for classes in [2, 3, 12, 30] {
            let image = volume(&mut random, shape);
            let mut bank = bank(&mut random, Outside::Edge, 0);
            let pool = BoxMeanPool { radius: 9.0, edge, channels: bank.filters.len() };
            let mut features = pool.features(count, &mut random);
            if edge > 30.0 {
                let large = |size| MeanBox { min: [-30; 3], size, channel: 0 };
                let second = Some(large([64, 63, 62]));
                features[0] = BoxMeanFeature { first: large([61, 60, 59]), second };
            }
            bank.reach = reach(&features);
            let block = Block::all(shape);
            let voxels = voxels(&mut random, &block, 20);
            let all = responses(&Cpu, &image, &bank, &block, &features, &voxels);
            let by_feature: Vec<Vec<i64>> =
                all.chunks_exact(voxels.len()).map(<[i64]>::to_vec).collect();
            let mut trees: Vec<LabelTree> =
                (0..5).map(|_| tree(&mut random, 11, classes, &by_feature)).collect();
            trees.push(tree(&mut random, 0, classes, &by_feature));
            let forest = LabelForest { classes, vote: Vote::Mean, features, trees };
            assert_eq!(forest.fault(bank.filters.len()), None);
            let on_cpu = Cpu.channels((&image).into(), &bank, &block).expect(WORKS);
            let expected = Cpu.distributions(&on_cpu, &forest).expect(WORKS);
            let on_gpu = gpu.channels((&image).into(), &bank, &block).expect(WORKS);
            let found = gpu.distributions(&on_gpu, &forest).expect(WORKS);
            assert!(found == expected, "{shape:?} {edge} {count} {classes}");
        }
    }
}

/// Boosted trees on an image with layers, at all voxels and at some.
#[test]
fn layers_and_scores_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (n, shape) in SHAPES.into_iter().enumerate() {
        let outside = [Outside::Missing, Outside::Edge, Outside::Zero][n % 3];
        let images = [0; 3].map(|_| volume(&mut random, shape));
        let mut bank = bank(&mut random, outside, 0);
        let forest = forest(&mut random, &images[0], &mut bank, (7, 9, 3), Vote::Scores);
        bank.filters[1] = Filter::Layer { layer: 1 };
        bank.filters[2] = Filter::Layer { layer: 0 };
        let layered = Layered { image: &images[0], layers: &[&images[1], &images[2]] };
        let block = block(&mut random, shape, n % 2 == 0);
        let some = voxels(&mut random, &block, 200);
        let on_cpu = Cpu.channels(layered, &bank, &block).expect(WORKS);
        let on_gpu = gpu.channels(layered, &bank, &block).expect(WORKS);
        let expected = Cpu.distributions(&on_cpu, &forest).expect(WORKS);
        assert!(gpu.distributions(&on_gpu, &forest).expect(WORKS) == expected, "{shape:?}");
        let expected = Cpu.distributions_at(&on_cpu, &forest, &some).expect(WORKS);
        let found = gpu.distributions_at(&on_gpu, &forest, &some).expect(WORKS);
        assert!(found == expected, "{shape:?}");
    }
}

/// Channels are made together as far as they fit: those of a large image are not.
#[test]
fn channels_made_by_turns_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    let shape = [131, 117, 100];
    let image = volume(&mut random, shape);
    let mut bank = bank(&mut random, Outside::Missing, 0);
    assert!(bank.filters.len() * shape.iter().product::<usize>() * 6 > 64 << 20);
    let pool = BoxMeanPool { radius: 9.0, edge: 9.0, channels: bank.filters.len() };
    let features = pool.features(100, &mut random);
    bank.reach = reach(&features);
    let block = Block::all(shape);
    let voxels = voxels(&mut random, &block, 1000);
    let expected = responses(&Cpu, &image, &bank, &block, &features, &voxels);
    assert!(responses(&gpu, &image, &bank, &block, &features, &voxels) == expected);
}

/// Whatever fits, an image is labelled.
#[test]
fn little_memory_gives_small_blocks_cuda() {
    let Some(gpu) = gpu() else { return };
    let bank = ChannelBank {
        filters: Filter::bank(&[1.0, 2.0]),
        spacing_mm: 1.0,
        outside: Outside::Missing,
        reach: 20,
    };
    let whole = gpu.block_edge(&bank, 2);
    assert!(whole >= gpu.block_edge(&bank, 64));
    let small = gpu.with_memory_limit(100 << 20);
    assert_eq!(small.block_edge(&bank, 2), Cpu.block_edge(&bank, 2));
}

/// Edges from responses, then bins on both devices.
#[test]
fn bins_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (shape, outside) in SHAPES.into_iter().zip([Outside::Missing, Outside::Edge].repeat(3)) {
        let image = volume(&mut random, shape);
        let mut bank = bank(&mut random, outside, 0);
        let pool = BoxMeanPool { radius: 6.0, edge: 5.0, channels: bank.filters.len() };
        let features = pool.features(90, &mut random);
        bank.reach = reach(&features);
        let block = Block::all(shape);
        let voxels = voxels(&mut random, &block, 500);
        let all = responses(&Cpu, &image, &bank, &block, &features, &voxels);
        // Of some of the voxels, so that the others lie beyond the outermost edges, too.
        let of = |row: &[i64]| Edges::of_responses(row[..200].to_vec());
        let edges: Vec<Edges> = all.chunks_exact(voxels.len()).map(of).collect();
        let bins = |out: &mut Vec<u8>, on_gpu: bool| {
            out.resize(features.len() * voxels.len(), 99);
            if on_gpu {
                let channels = gpu.channels((&image).into(), &bank, &block).expect(WORKS);
                gpu.bins(&channels, &features, &edges, &voxels, out).expect(WORKS);
            } else {
                let channels = Cpu.channels((&image).into(), &bank, &block).expect(WORKS);
                Cpu.bins(&channels, &features, &edges, &voxels, out).expect(WORKS);
            }
        };
        let (mut expected, mut found) = (Vec::new(), Vec::new());
        bins(&mut expected, false);
        bins(&mut found, true);
        assert!(found == expected, "{shape:?}");
    }
}

/// A matrix whose features say something of the class.
fn matrix(random: &mut Random, samples: usize, features: usize, classes: usize) -> LabelMatrix {
    let labels: Vec<u8> = (0..samples).map(|_| random.below(classes) as u8).collect();
    let (mut edges, mut bins) = (Vec::new(), Vec::new());
    for _ in 0..features {
        let (scale, noise) = (random.between(-9.0, 9.0), random.between(1.0, 60.0));
        let mut response = |label: u8| match random.below(30) {
            0 => MISSING,
            _ => (scale * f64::from(label) + noise * random.normal()) as i64,
        };
        let responses: Vec<i64> = labels.iter().map(|&label| response(label)).collect();
        let own = Edges::of_responses(responses.iter().step_by(3).copied().collect());
        bins.extend(responses.iter().map(|&response| own.bin(response)));
        edges.push(own);
    }
    LabelMatrix::new(classes, labels, edges, bins)
}

/// Samples by class, how many of each, and candidates.
type Node = (Vec<u32>, Vec<u32>, Vec<(u32, u8)>);

#[test]
fn splits_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (samples, classes) in [(1, 2), (60, 3), (5000, 2), (9000, 7), (20_000, 64), (90_000, 3)] {
        let matrix = matrix(&mut random, samples, 70, classes);
        let on_device = gpu.matrix(&matrix).expect(WORKS);
        // Nodes of all sizes, each a random part of the samples, some of them twice.
        let nodes: Vec<Node> = (0..120)
            .map(|n| {
                let count =
                    if n == 0 { samples } else { 1 + random.below(samples.min(20 << (n % 9))) };
                let mut drawn: Vec<u32> =
                    (0..count).map(|_| random.below(samples) as u32).collect();
                drawn.sort_by_key(|&s| (matrix.labels()[s as usize], s));
                let mut counts = vec![0; classes];
                drawn.iter().for_each(|&s| counts[usize::from(matrix.labels()[s as usize])] += 1);
                let mut candidates: Vec<(u32, u8)> = Vec::new();
                for feature in (0..70).filter(|_| n % 10 != 9) {
                    if random.below(3) == 0 {
                        let bins = matrix.edges(feature).bins();
                        candidates
                            .push((feature, random.below(2 * bins).saturating_sub(bins) as u8));
                    }
                }
                (drawn, counts, candidates)
            })
            .collect();
        let tasks: Vec<SplitTask<'_>> = nodes
            .iter()
            .map(|(samples, counts, candidates)| SplitTask { samples, counts, candidates })
            .collect();
        for min_leaf in [1, 4, 50] {
            let expected = Cpu.best_splits(&&matrix, &tasks, min_leaf).expect(WORKS);
            let found = gpu.best_splits(&on_device, &tasks, min_leaf).expect(WORKS);
            assert_eq!(found, expected, "{samples} {classes} {min_leaf}");
            assert!(samples == 1 || min_leaf > 1 || found.iter().any(Option::is_some));
        }
    }
}

#[test]
fn forests_grow_alike_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (classes, test) in [(2, LabelTest::Threshold), (5, LabelTest::Interval)] {
        let matrix = matrix(&mut random, 30_000, 120, classes);
        let prior = LeafPrior { weights: vec![3; 30_000], bias: 900 };
        let params =
            LabelForestParams { trees: 3, depth: 12, test, ..LabelForestParams::default() };
        let expected = grow_label_forest(&Cpu, &matrix, &prior, &params, 5, || ()).expect(WORKS);
        let found = grow_label_forest(&gpu, &matrix, &prior, &params, 5, || ()).expect(WORKS);
        assert!(expected.iter().all(|tree| tree.nodes.len() > 100));
        assert!(found == expected, "{classes} {test:?}");
    }
}

/// Node by node, from scores far apart and on other samples than all.
#[test]
fn boosted_nodes_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    let mut splits = 0;
    for (samples, classes) in
        [(1, 2), (31, 2), (1000, 3), (1025, 9), (9000, 10), (20_000, 64), (200_000, 2)]
    {
        let matrix = matrix(&mut random, samples, 40, classes);
        for (depth, min_leaf, ridge) in [(0, 1, 1.0), (1, 30, 0.0), (5, 3, 0.5), (13, 1, 0.0)] {
            let start: Vec<i32> =
                (1..classes).map(|_| random.between(-40_000.0, 40_000.0) as i32).collect();
            let mut on_cpu = Cpu.boosting(&matrix, &start).expect(WORKS);
            let mut on_gpu = gpu.boosting(&matrix, &start).expect(WORKS);
            for part in [1, 3] {
                let drawn = (0..samples as u32).filter(|s| s.is_multiple_of(part));
                let drawn: Vec<u32> = drawn.collect();
                let features: Vec<u32> = (0..40).filter(|_| random.below(3) > 0).collect();
                let features = if features.is_empty() { vec![7] } else { features };
                let task =
                    TreeTask { features: &features, samples: &drawn, depth, min_leaf, ridge };
                let expected = Cpu.grow(&mut on_cpu, &task).expect(WORKS);
                let found = gpu.grow(&mut on_gpu, &task).expect(WORKS);
                assert!(found == expected, "{samples} {classes} {depth} {min_leaf} {part}");
                splits += expected.iter().flatten().filter(|node| node.test.is_some()).count();
            }
        }
    }
    assert!(splits > 1000, "{splits}");
}

/// Tree after tree, on scores that the trees before moved.
#[test]
fn boosted_trees_grow_alike_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = random();
    for (samples, classes, depth) in [(40_000, 2, 8), (30_000, 5, 6), (12_000, 20, 4)] {
        let matrix = matrix(&mut random, samples, 60, classes);
        let params = LabelBoostParams { trees: 20, depth, ..LabelBoostParams::default() };
        for twins in [false, true] {
            let matrix = if twins { matrix.clone().with_twins() } else { matrix.clone() };
            let expected = boost_labels(&Cpu, &matrix, &params, 3, || true).expect(WORKS);
            let found = boost_labels(&gpu, &matrix, &params, 3, || true).expect(WORKS);
            assert!(expected.iter().map(|tree| tree.nodes.len()).sum::<usize>() > 100);
            assert!(found == expected, "{classes} {twins}");
        }
    }
}
