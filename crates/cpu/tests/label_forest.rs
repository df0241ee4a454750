//! Forests that label voxels on the CPU, against brute force, against themselves with other blocks
//! and threads, and against scikit-learn in the Python that PBT_ORACLE_PYTHON names.

use pbt_cpu::Cpu;
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter, MISSING, MeanBox};
use pbt_tree::{
    Block, ChannelBank, Edges, Histogram, LABEL_BINS, LEAF, LabelBackend, LabelForest,
    LabelForestParams, LabelMatrix, LabelNode, LabelTest, LabelTree, Layered, LeafPrior, Outside,
    Split, SplitTask, Splitter, Vote, grow_label_forest,
};
use pbt_volume::{Geometry, Random, Volume};
use std::process::Command;

/// A bright ball (class 1) with a rim (class 2) in noise, so that neighbourhoods matter.
fn scene(side: usize, seed: u64) -> (Volume<u16>, Vec<u8>) {
    let mut random = Random::from_seed(seed);
    let middle = [0, 1, 2].map(|_| side as f64 * random.between(0.35, 0.65));
    let radius = side as f64 * random.between(0.2, 0.3);
    let mut classes = Vec::new();
    let image = Volume::from_fn(Geometry::isotropic([side; 3], 1.0).unwrap(), |i, j, k| {
        let at = [i, j, k].map(|n| n as f64);
        let distance = (0..3).map(|a| (at[a] - middle[a]).powi(2)).sum::<f64>().sqrt();
        let class = if distance < radius - 2.0 { 1 } else { 2 * u8::from(distance < radius) };
        classes.push(class);
        let bright = if class == 1 { 400.0 } else { 0.0 };
        (1800.0 + bright + 500.0 * random.normal()).clamp(0.0, 4095.0) as u16
    });
    (image, classes)
}

fn pool(channels: usize, count: usize, seed: u64) -> Vec<BoxMeanFeature> {
    let pool = BoxMeanPool { radius: 6.0, edge: 5.0, channels };
    pool.features(count, &mut Random::from_seed(seed))
}

fn bank(features: &[BoxMeanFeature], outside: Outside) -> ChannelBank {
    let filters = Filter::bank(&[1.0, 2.0]);
    let reach = features.iter().map(BoxMeanFeature::reach).max().unwrap();
    ChannelBank { filters, spacing_mm: 1.0, outside, reach }
}

fn voxels(block: &Block) -> Vec<[usize; 3]> {
    let mut all = Vec::new();
    for k in block.min[2]..block.max[2] {
        for j in block.min[1]..block.max[1] {
            all.extend((block.min[0]..block.max[0]).map(|i| [i, j, k]));
        }
    }
    all
}

fn responses(
    image: &Volume<u16>,
    bank: &ChannelBank,
    block: &Block,
    features: &[BoxMeanFeature],
) -> Vec<i64> {
    let channels = Cpu.channels(image.into(), bank, block).unwrap();
    let voxels = voxels(block);
    let mut out = vec![0; features.len() * voxels.len()];
    Cpu.respond(&channels, features, &voxels, &mut out).unwrap();
    out
}

/// On the intensity channel, where the image and its padding are all that there is to know.
#[test]
fn responses_are_differences_of_sums() {
    let (image, _) = scene(13, 1);
    let features: Vec<BoxMeanFeature> = pool(1, 60, 2);
    let block = Block::all(image.shape());
    for outside in [Outside::Missing, Outside::Edge, Outside::Zero] {
        let found = responses(&image, &bank(&features, outside), &block, &features);
        let value = |at: [i64; 3]| {
            let inside = at.iter().all(|&n| (0..13).contains(&n));
            match outside {
                Outside::Missing if !inside => None,
                Outside::Zero if !inside => Some(0),
                _ => Some(i64::from(image.at_clamped(at[0], at[1], at[2]))),
            }
        };
        let sum = |b: &MeanBox, voxel: [usize; 3]| {
            let mut sum = 0;
            for n in 0..b.voxels() {
                let [x, y] = [b.size[0], b.size[1]].map(i64::from);
                let within = [n % x, n / x % y, n / x / y];
                sum += value([0, 1, 2].map(|a| voxel[a] as i64 + i64::from(b.min[a]) + within[a]))?;
            }
            Some(sum)
        };
        let mut missing = 0;
        for (feature, row) in features.iter().zip(found.chunks_exact(block.len())) {
            for (&voxel, &found) in voxels(&block).iter().zip(row).step_by(7) {
                let expected = match &feature.second {
                    None => sum(&feature.first, voxel),
                    Some(second) => sum(&feature.first, voxel)
                        .zip(sum(second, voxel))
                        .map(|(a, b)| a * second.voxels() - b * feature.first.voxels()),
                };
                assert_eq!(found, expected.unwrap_or(MISSING), "{outside:?} {feature:?} {voxel:?}");
                missing += usize::from(expected.is_none());
            }
        }
        assert_eq!(missing > 0, outside == Outside::Missing);
    }
}

#[test]
fn a_block_sees_what_the_whole_does() {
    let (image, _) = scene(24, 3);
    let features = pool(10, 40, 4);
    for outside in [Outside::Missing, Outside::Edge, Outside::Zero] {
        let bank = bank(&features, outside);
        let all = Block::all(image.shape());
        let whole = responses(&image, &bank, &all, &features);
        for block in [
            Block { min: [0, 0, 0], max: [5, 24, 3] },
            Block { min: [7, 9, 11], max: [8, 13, 24] },
            Block { min: [20, 2, 0], max: [24, 4, 9] },
        ] {
            let part = responses(&image, &bank, &block, &features);
            let voxels = voxels(&block);
            for f in 0..features.len() {
                for (n, [i, j, k]) in voxels.iter().enumerate() {
                    let place = f * all.len() + (k * 24 + j) * 24 + i;
                    assert_eq!(
                        part[f * voxels.len() + n],
                        whole[place],
                        "{outside:?} {f} {block:?}"
                    );
                }
            }
        }
    }
}

/// Bins of every voxel of some scenes.
fn matrix(scenes: &[u64], features: &[BoxMeanFeature], edges: Option<&[Edges]>) -> LabelMatrix {
    let mut rows: Vec<Vec<i64>> = vec![Vec::new(); features.len()];
    let mut labels = Vec::new();
    for &seed in scenes {
        let (image, classes) = scene(20, seed);
        let block = Block::all(image.shape());
        let found = responses(&image, &bank(features, Outside::Missing), &block, features);
        rows.iter_mut().zip(found.chunks_exact(block.len())).for_each(|(row, r)| row.extend(r));
        labels.extend(classes);
    }
    let own: Vec<Edges>;
    let edges = match edges {
        Some(edges) => edges,
        None => {
            own = rows.iter().cloned().map(Edges::of_responses).collect();
            &own
        }
    };
    let bin =
        |(row, edges): (&Vec<i64>, &Edges)| row.iter().map(|&r| edges.bin(r)).collect::<Vec<u8>>();
    let bins = rows.iter().zip(edges).flat_map(bin).collect();
    LabelMatrix::new(3, labels, edges.to_vec(), bins)
}

fn params(test: LabelTest) -> LabelForestParams {
    LabelForestParams { trees: 5, depth: 8, features_per_node: 0.3, test, ..Default::default() }
}

fn grown(matrix: &LabelMatrix, params: &LabelForestParams) -> Vec<LabelTree> {
    let prior = LeafPrior { weights: vec![1; matrix.labels().len()], bias: 0 };
    grow_label_forest(&Cpu, matrix, &prior, params, 9, || ()).unwrap()
}

#[test]
fn the_number_of_threads_does_not_show() {
    let features = pool(10, 30, 5);
    let matrix = matrix(&[1, 2], &features, None);
    let (image, _) = scene(20, 8);
    let of = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let trees = grown(&matrix, &params(LabelTest::Interval));
            let forest =
                LabelForest { classes: 3, vote: Vote::Mean, features: features.clone(), trees };
            let bank = bank(&features, Outside::Missing);
            let channels =
                Cpu.channels((&image).into(), &bank, &Block::all(image.shape())).unwrap();
            let sums = Cpu.distributions(&channels, &forest).unwrap();
            (forest, sums)
        })
    };
    let one = of(1);
    assert!(one == of(2) && one == of(7));
    assert_eq!(one.0.fault(10), None);
}

/// A layer is as good as an image, with any padding; and some voxels have what all have.
#[test]
fn layers_are_read_as_they_are_and_voxels_one_by_one() {
    let ((image, _), (layer, _)) = (scene(12, 3), scene(12, 4));
    let features = pool(1, 40, 6);
    let block = Block::all(image.shape());
    for outside in [Outside::Missing, Outside::Edge, Outside::Zero] {
        let mut of_layer = bank(&features, outside);
        of_layer.filters = vec![Filter::Layer { layer: 1 }];
        let layers = [&image, &layer];
        let channels =
            Cpu.channels(Layered { image: &image, layers: &layers }, &of_layer, &block).unwrap();
        let all = voxels(&block);
        let mut found = vec![0; features.len() * all.len()];
        Cpu.respond(&channels, &features, &all, &mut found).unwrap();
        let mut of_image = of_layer.clone();
        of_image.filters = vec![Filter::Intensity];
        assert!(found == responses(&layer, &of_image, &block, &features), "{outside:?}");

        let leaf = |next| LabelNode { feature: LEAF, next, low: 0, high: 0 };
        let test = LabelNode { feature: 7, next: 1, low: found[7 * all.len()], high: i64::MAX };
        let tree = LabelTree {
            nodes: vec![test, leaf(0), leaf(1)],
            leaves: vec![32_768, 35_000, 32_768, 1000],
        };
        let (features, trees) = (features.clone(), vec![tree]);
        let forest = LabelForest { classes: 2, vote: Vote::Scores, features, trees };
        let whole = Cpu.distributions(&channels, &forest).unwrap();
        let some: Vec<[usize; 3]> = all.iter().copied().step_by(7).collect();
        let picked = Cpu.distributions_at(&channels, &forest, &some).unwrap();
        let expected: Vec<u32> = whole.chunks_exact(2).step_by(7).flatten().copied().collect();
        assert_eq!(picked, expected);
    }
}

/// Few features in many trees are computed once a voxel, many in few trees where they are met.
#[test]
fn forests_say_what_their_definition_says() {
    let (image, _) = scene(21, 5);
    let block = Block { min: [1, 0, 2], max: [image.shape()[0], 9, 11] };
    for (features, trees) in [(12, 40), (60, 3)] {
        let features = pool(10, features, 8);
        let (bank, matrix) = (bank(&features, Outside::Missing), matrix(&[1, 2], &features, None));
        let trees = (0..trees).flat_map(|_| grown(&matrix, &params(LabelTest::Interval))).collect();
        let forest = LabelForest { classes: 3, vote: Vote::Mean, features, trees };
        let channels = Cpu.channels((&image).into(), &bank, &block).unwrap();
        let found = Cpu.distributions(&channels, &forest).unwrap();
        let all = voxels(&block);
        let rows = responses(&image, &bank, &block, &forest.features);
        let mut expected = vec![0; 3];
        for (n, found) in found.chunks_exact(3).enumerate() {
            forest.distribution(|f| rows[f as usize * all.len() + n], &mut expected);
            assert_eq!(found, expected, "{n}");
        }
    }
}

#[test]
fn the_best_split_is_the_best_of_all() {
    let features = pool(10, 12, 6);
    let matrix = matrix(&[3], &features, None);
    let mut samples: Vec<u32> = (0..matrix.labels().len() as u32).step_by(11).collect();
    samples.sort_by_key(|&s| matrix.labels()[s as usize]);
    let mut counts = [0; 3];
    samples.iter().for_each(|&s| counts[usize::from(matrix.labels()[s as usize])] += 1);
    let candidates: Vec<(u32, u8)> = (0..12).map(|f| (f, (f % 4) as u8 * 5)).collect();
    let task = SplitTask { samples: &samples, counts: &counts, candidates: &candidates };
    let found = Cpu.best_splits(&&matrix, &[task], 3).unwrap();
    // One feature after the other, from plain counting.
    let mut best: Option<Split> = None;
    for (feature, first) in candidates.iter().copied() {
        let mut histogram = vec![[0; LABEL_BINS]; 3];
        for &sample in &samples {
            let class = usize::from(matrix.labels()[sample as usize]);
            histogram[class][usize::from(matrix.row(feature)[sample as usize])] += 1;
        }
        let bins = matrix.edges(feature).bins();
        let histogram = Histogram { bins, counts: &histogram, totals: &counts };
        if let Some(test) = histogram.best_from(usize::from(first), 3, &mut [0; 3])
            && best.is_none_or(|best| test.gain > best.test.gain)
        {
            best = Some(Split { feature, test });
        }
    }
    assert!(best.is_some());
    assert_eq!(found, [best]);
}

/// Share of samples whose most probable class is theirs.
fn accuracy(forest: &LabelForest, matrix: &LabelMatrix) -> f64 {
    let mut sums = [0; 3];
    let right = (0..matrix.labels().len()).filter(|&s| {
        // The lowest response of a bin stands for the bin.
        let response = |f: u32| match matrix.row(f)[s] {
            pbt_tree::MISSING_BIN => MISSING,
            bin => matrix.edges(f).range(bin.into(), bin.into())[0],
        };
        forest.distribution(response, &mut sums);
        let best = (0..3).fold(0, |best, c| if sums[c] > sums[best] { c } else { best });
        best == usize::from(matrix.labels()[s])
    });
    right.count() as f64 / matrix.labels().len() as f64
}

#[test]
fn as_accurate_as_scikit_learn() {
    let features = pool(10, 120, 7);
    let training = matrix(&[11, 12, 13], &features, None);
    let edges: Vec<Edges> = (0..120).map(|f| training.edges(f).clone()).collect();
    let test = matrix(&[21, 22], &features, Some(&edges));
    let params = LabelForestParams {
        trees: 20,
        depth: 12,
        min_leaf: 4,
        features_per_node: 0.1,
        ..LabelForestParams::default()
    };
    let trees = grown(&training, &params);
    let forest = LabelForest { classes: 3, vote: Vote::Mean, features: features.clone(), trees };
    let ours = accuracy(&forest, &test);
    let plain = test.labels().iter().filter(|&&label| label == 0).count() as f64;
    let plain = plain / test.labels().len() as f64;
    assert!(ours > plain + 0.005, "{ours} {plain}");
    let Ok(python) = std::env::var("PBT_ORACLE_PYTHON") else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "PBT_ORACLE_PYTHON must be set in CI"
        );
        println!("skipped: PBT_ORACLE_PYTHON is not set");
        return;
    };
    let folder = std::env::temp_dir().join(format!("pbt-label-forest-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, matrix) in [("training", &training), ("test", &test)] {
        let rows = (0..120).flat_map(|f| matrix.row(f).iter().copied());
        let bytes: Vec<u8> = rows.chain(matrix.labels().iter().copied()).collect();
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/label_forest_oracle.py");
    let output = Command::new(python).arg(script).arg(&folder).arg("120").output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    println!("accuracy {ours:.4}, scikit-learn {theirs:.4}");
    assert!(ours > theirs - 0.005, "{ours} {theirs}");
}
