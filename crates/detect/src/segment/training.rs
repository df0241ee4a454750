//! Training of the forest that labels regions.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::config::regions::{RegionClassifier, RegionsConfig};
use crate::model::{Model, Provenance};
use crate::random::{Seeds, Stream};
use crate::segment::case_images::CaseImages;
use crate::segment::data::{LabelledImage, RegionData};
use crate::segment::matrix::{Sampled, matrix};
use crate::segment::region_forest::{RegionForest, working_image};
use crate::segment::samples::{CaseSamples, stratum_count, working_classes};
use crate::train::Trained;
use crate::train::observer::{Observer, StageFigure};
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter};
use pbt_tree::{
    ChannelBank, LabelBackend, LabelBooster, LabelForest, LabelMatrix, LabelTree, LeafPrior,
    MOST_CLASSES, Splitter, Vote, boost_labels, grow_label_forest, shift_scores,
};
use pbt_volume::{IntensityPolicy, Plane, memory_limit};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What observers call the forest.
const NAME: &str = "regions";

/// Trains a forest that labels the regions of the data.
///
/// # Errors
/// [`DetectError`] for data or configuration that cannot be used and for a device that fails, and
/// whatever reading an image gives.
pub fn train_regions<B: LabelBackend + LabelBooster + Splitter, D: RegionData>(
    backend: &B,
    data: &D,
    config: &TrainConfig,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Trained, D::Error> {
    // The rest is for the matrix of bins, trees, and images on their way.
    let bytes = memory_limit() / 4;
    train_with_images(backend, data, (config, bytes), seed, observer)
}

/// As [`train_regions`], with so many bytes of images in memory at a time.
pub(super) fn train_with_images<B: LabelBackend + LabelBooster + Splitter, D: RegionData>(
    backend: &B,
    data: &D,
    (config, image_bytes): (&TrainConfig, u64),
    seed: u64,
    observer: &dyn Observer,
) -> Result<Trained, D::Error> {
    config.check()?;
    accept(data)?;
    let (seeds, mut figures) = (Seeds::of_all(seed), Vec::new());
    let spacing_mm = config.working.spacing_mm.unwrap_or_else(|| middle_spacing_mm(data));
    let scales_mm = config.regions.scales_mm(spacing_mm)?;
    let intensity = match config.working.intensity {
        Some(policy) => policy,
        None => intensity(data)?,
    };

    observer.stage(NAME, "drawing voxels", 0.0);
    let started = Instant::now();
    let mut hash = Sha256::new();
    let mut cases: Vec<CaseSamples> = Vec::new();
    let mut twins: Vec<CaseSamples> = Vec::new();
    let mut images = CaseImages::new(data, &intensity, spacing_mm, image_bytes);
    let count = config.regions.samples.div_ceil(data.list().len());
    for n in 0..data.list().len() {
        interrupted(observer)?;
        let LabelledImage { image, classes } = data.load(n)?;
        hash.update(format!("case {} {}\n", data.list().id(n), data.list().cases[n].image_sha256));
        hash.update(classes.data());
        let about = |e: DetectError| {
            DetectError::training(format!("case {}", data.list().id(n)), e.to_string())
        };
        let image = working_image(&image, &intensity, spacing_mm).map_err(about)?;
        let classes = working_classes(&classes, image.geometry());
        let random = &mut seeds.random(Stream::RegionSamples, n);
        let class_count = data.regions().len() + 1;
        let sampling = config.regions.sampling;
        let wanted = (count, config.regions.near);
        let samples = CaseSamples::draw(&classes, class_count, wanted, sampling, random);
        if config.regions.mirrored {
            let partner_of = |class: u8| match class.checked_sub(1) {
                Some(region) => data.partner(region.into()) as u8 + 1,
                None => 0,
            };
            twins.push(samples.mirrored(image.shape()[0], partner_of));
        }
        cases.push(samples);
        images.push(image);
    }
    cases.append(&mut twins);
    accept_samples(data, &cases)?;
    let counts: Vec<f64> = cases.iter().map(|case| case.voxels.len() as f64).collect();
    figures.push(StageFigure::new(format!("{NAME}: voxels"), started, "voxels a case", &counts));

    let mut bank = ChannelBank {
        filters: filters(config, &scales_mm),
        spacing_mm,
        outside: config.regions.outside,
        reach: 0,
    };
    let flat = Plane::of(data.list().geometry(0)).is_some();
    let features = draw_features(config, spacing_mm, bank.filters.len(), seeds.in_plane(flat));
    bank.reach = features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0);
    observer.stage(NAME, "responses", 0.05);
    let started = Instant::now();
    let sampled: Vec<Sampled<'_>> =
        cases.iter().map(|case| Sampled { voxels: &case.voxels, classes: &case.classes }).collect();
    let classes = data.regions().len() + 1;
    let matrix = matrix(backend, (&sampled, &images), &bank, &features, classes, |done| {
        observer.stage(NAME, "responses", 0.1 + 0.4 * done);
        interrupted(observer)
    })?;
    let matrix = if config.regions.mirrored { matrix.with_twins() } else { matrix };
    drop(images);
    figures.push(StageFigure::new(
        format!("{NAME}: responses"),
        started,
        "features",
        &[features.len() as f64],
    ));

    observer.stage(NAME, "growing trees", 0.5);
    let started = Instant::now();
    let (trees, vote) = trees(backend, &matrix, config, &cases, (seeds, observer))?;
    interrupted(observer)?;
    let leaves: Vec<f64> =
        trees.iter().map(|tree| (tree.leaves.len() / matrix.classes()) as f64).collect();
    figures.push(StageFigure::new(format!("{NAME}: trees"), started, "leaves a tree", &leaves));

    let forest = LabelForest { classes: matrix.classes(), vote, features, trees };
    let forest = forest.without_unused_features();
    bank.reach = forest.reach();
    let regions = RegionForest {
        regions: data.regions().to_vec(),
        cases: data.list().len(),
        intensity,
        bank,
        forest,
    };
    let provenance = Provenance {
        coarsest_mm: None,
        unit: data.list().unit,
        label_shapes: BTreeMap::new(),
        pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
        dataset: data.list().name.clone(),
        modality: data.list().modality.clone(),
        training_sha256: pbt_volume::hex(&hash.finalize()),
        cases: data.list().len(),
        copies: usize::from(config.regions.mirrored),
        seed,
        config: config.clone(),
    };
    Ok(Trained {
        model: Model::of_regions(provenance, regions),
        figures,
        suspicions: Vec::new(),
        warnings: Vec::new(),
    })
}

/// Grows the trees, as a forest or boosted, and says how they become one answer.
fn trees<B: LabelBooster + Splitter>(
    backend: &B,
    matrix: &LabelMatrix,
    config: &TrainConfig,
    cases: &[CaseSamples],
    (seeds, observer): (Seeds, &dyn Observer),
) -> Result<(Vec<LabelTree>, Vote), DetectError> {
    let RegionsConfig { classifier, forest, boosted, .. } = &config.regions;
    let seed = seeds.derive(Stream::RegionTrees, 0);
    let wrong = |e| DetectError::of_trees(NAME, e);
    let tell = |done: usize, all: usize| {
        observer.stage(NAME, "growing trees", 0.5 + 0.5 * done as f64 / all as f64);
    };
    match classifier {
        RegionClassifier::Forest => {
            let prior = leaf_prior(config, cases, matrix.classes());
            let done = AtomicUsize::new(0);
            let tick = || tell(done.fetch_add(1, Ordering::Relaxed) + 1, forest.trees);
            let trees = grow_label_forest(backend, matrix, &prior, forest, seed, tick);
            Ok((trees.map_err(wrong)?, forest.vote))
        }
        RegionClassifier::Boosted => {
            let mut done = 0;
            let tick = || {
                done += 1;
                tell(done, boosted.trees);
                !observer.interrupted()
            };
            let mut trees = boost_labels(backend, matrix, boosted, seed, tick).map_err(wrong)?;
            shift_scores(&mut trees, &shifts(config, cases, matrix.classes()));
            Ok((trees, Vote::Scores))
        }
    }
}

/// By how much the score of each region changes from the shares of classes among samples to those
/// among voxels near the regions, where decisions are close, nats.
fn shifts(config: &TrainConfig, cases: &[CaseSamples], classes: usize) -> Vec<f64> {
    let weights = weights_by_stratum(config, cases, classes);
    // Of two strata of the background the near one, unless there is none.
    let is_there = |stratum: usize| voxels_of(cases, |s| s == stratum) > 0;
    let background = weights[usize::from(is_there(1))];
    weights[2..].iter().map(|&w| libm::log(f64::from(w) / f64::from(background))).collect()
}

fn interrupted(observer: &dyn Observer) -> Result<(), DetectError> {
    if observer.interrupted() { Err(DetectError::Interrupted) } else { Ok(()) }
}

/// Says what cannot be trained before an image is read.
fn accept<D: RegionData>(data: &D) -> Result<(), DetectError> {
    let wrong = |field: &str, what: String| Err(DetectError::training(field, what));
    if data.list().is_empty() {
        return wrong("cases", "there is no training case".to_owned());
    }
    if data.regions().is_empty() {
        return wrong("structures", "there is no region to train".to_owned());
    }
    let most = MOST_CLASSES - 1;
    if data.regions().len() > most {
        let what = format!("{} regions are more than {most}", data.regions().len());
        return wrong("structures", what);
    }
    Ok(())
}

/// Voxels of some strata in all training cases.
fn voxels_of(cases: &[CaseSamples], wanted: impl Fn(usize) -> bool) -> u64 {
    let own = |case: &CaseSamples| {
        let all = case.voxels_by_stratum.iter().enumerate();
        all.filter(|(stratum, _)| wanted(*stratum)).map(|(_, voxels)| voxels).sum::<u64>()
    };
    cases.iter().map(own).sum()
}

/// Fewest voxels of a region in all training cases.
const FEWEST_VOXELS: u64 = 50;

fn accept_samples<D: RegionData>(data: &D, cases: &[CaseSamples]) -> Result<(), DetectError> {
    let regions = data.regions().iter().enumerate().map(|(n, r)| (&r.name[..], vec![n + 2]));
    for (name, strata) in std::iter::once(("the background", vec![0, 1])).chain(regions) {
        let voxels = voxels_of(cases, |stratum| strata.contains(&stratum));
        if voxels < FEWEST_VOXELS {
            let what = format!(
                "{voxels} voxels in all training cases; at least {FEWEST_VOXELS} are needed (draw it, or \
                 check the values under `labels`)"
            );
            return Err(DetectError::training(format!("structures: {name}"), what));
        }
    }
    Ok(())
}

/// The edge of a cube with the volume of a voxel, the middle one of all images, mm.
fn middle_spacing_mm<D: RegionData>(data: &D) -> f64 {
    let mean = |case| libm::cbrt(data.list().geometry(case).spacing_mm().iter().product());
    let mut means: Vec<f64> = (0..data.list().len()).map(mean).collect();
    means.sort_by(f64::total_cmp);
    means[means.len() / 2]
}

/// Cases that a window is learned from.
const CASES_FOR_WINDOW: usize = 10;

/// Percentiles of each image, or for CT one window: the middle ones of such percentiles.
fn intensity<D: RegionData>(data: &D) -> Result<IntensityPolicy, D::Error> {
    let percentiles = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 };
    if !data.list().is_ct() {
        return Ok(percentiles);
    }
    let (mut lows, mut highs) = (Vec::new(), Vec::new());
    for case in 0..data.list().len().min(CASES_FOR_WINDOW) {
        let range = percentiles.range(&data.load(case)?.image).map_err(|e| {
            DetectError::training(format!("case {}", data.list().id(case)), e.to_string())
        })?;
        lows.push(range.low);
        highs.push(range.high);
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Ok(IntensityPolicy::Window { low: middle(lows), high: middle(highs) })
}

fn filters(config: &TrainConfig, scales_mm: &[f64]) -> Vec<Filter> {
    let mut filters = Filter::bank(scales_mm);
    if config.regions.place {
        filters.extend((0..3).map(|axis| Filter::Place { axis }));
    }
    filters
}

/// Boxes reach so far unless the configuration says otherwise, voxels.
const RADIUS: f64 = 16.0;
const EDGE: f64 = 9.0;

fn draw_features(
    config: &TrainConfig,
    spacing_mm: f64,
    channels: usize,
    seeds: Seeds,
) -> Vec<BoxMeanFeature> {
    let pool = BoxMeanPool {
        radius: config.regions.radius_mm.map_or(RADIUS, |mm| mm / spacing_mm),
        edge: config.regions.edge_mm.map_or(EDGE, |mm| mm / spacing_mm),
        channels,
    };
    let mut random = seeds.random(Stream::RegionFeatures, 0);
    pool.features(config.regions.features, &mut random)
}

/// Fractional bits of the number of voxels that a sample stands for.
const WEIGHT_BITS: u32 = 8;

/// How many voxels a sample of each stratum stands for: as many as the stratum has for each that was
/// drawn.
fn weights_by_stratum(config: &TrainConfig, cases: &[CaseSamples], classes: usize) -> Vec<u32> {
    let weight = |stratum: usize| {
        let voxels = voxels_of(cases, |s| s == stratum);
        let strata = cases.iter().flat_map(|case| &case.strata);
        let drawn = strata.filter(|&&s| usize::from(s) == stratum).count().max(1);
        let each = if config.regions.label_prior { voxels as f64 / drawn as f64 } else { 1.0 };
        (each * f64::from(1 << WEIGHT_BITS) + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
    };
    (0..stratum_count(classes)).map(weight).collect()
}

/// What turns the samples of a leaf into probabilities.
fn leaf_prior(config: &TrainConfig, cases: &[CaseSamples], classes: usize) -> LeafPrior {
    let weights = weights_by_stratum(config, cases, classes);
    let strata = cases.iter().flat_map(|case| &case.strata);
    LeafPrior {
        weights: strata.map(|&stratum| weights[usize::from(stratum)]).collect(),
        bias: (config.regions.forest.histogram_bias * 65536.0) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::labelling::LabelOutput;
    use crate::segment::test_data::{Balls, Silent};
    use pbt_cpu::Cpu;

    const SMALL: &str = "working.spacing_mm = 1.25\n[regions]\nfeatures = 60\nsamples = 3000\n";

    fn trained(settings: &str, image_bytes: u64) -> (Model, usize) {
        let config = TrainConfig::from_toml(&format!("{SMALL}{settings}")).unwrap();
        let balls = Balls::new(3);
        let model =
            train_with_images(&Cpu, &balls, (&config, image_bytes), 0, &Silent).unwrap().model;
        let again = Model::from_bytes(&model.to_bytes().unwrap()).unwrap();
        assert_eq!(again, model);
        (model, balls.loads.load(Ordering::Relaxed))
    }

    /// Dice's coefficient in a case that was not trained on.
    fn dice(model: &Model) -> f64 {
        let new = Balls::new(8).load(7).unwrap();
        let forest = model.regions.as_ref().unwrap();
        let found = forest.label(&Cpu, &new.image, LabelOutput::default()).unwrap();
        let pairs = found.labels.data().iter().zip(new.classes.data());
        let both = pairs.filter(|(label, class)| **label == 300 && **class == 1).count();
        let truth = new.classes.data().iter().filter(|&&class| class == 1).count();
        2.0 * both as f64 / (truth as u64 + found.regions[0].voxels) as f64
    }

    #[test]
    fn images_that_do_not_fit_are_read_again_for_the_same_model() {
        for settings in ["", "mirrored = true\n"] {
            let small =
                format!("{settings}forest = {{ trees = 4, depth = 6, features_per_node = 0.2 }}");
            let (all, loads) = trained(&small, u64::MAX);
            assert_eq!(loads, 3);
            // Of one image, which takes some 13,000 bytes, and of none.
            let one = 20_000;
            for (bytes, more) in [(one, 3 + 4), (0, 3 + 6)] {
                let (model, loads) = trained(&small, bytes);
                assert_eq!(model.to_bytes().unwrap(), all.to_bytes().unwrap());
                let more = if settings.is_empty() { more } else { more + more - 3 };
                assert!(loads > 3 && loads <= more, "{bytes}: {loads}");
            }
        }
    }

    #[test]
    fn every_way_to_train_finds_the_ball() {
        let forest = "trees = 6, depth = 7, features_per_node = 0.2";
        let plain = trained(&format!("forest = {{ {forest} }}"), u64::MAX).0;
        let mut seen = vec![plain.to_bytes().unwrap()];
        for settings in [
            format!("forest = {{ {forest}, gain = \"normalised\" }}"),
            format!("forest = {{ {forest}, thresholds = 5 }}"),
            format!("forest = {{ {forest}, thresholds = 5, test = \"interval\" }}"),
            format!("forest = {{ {forest}, shape = \"fern\" }}"),
            format!(
                "forest = {{ {forest}, shape = \"fern\", gain = \"normalised\", thresholds = 9 }}"
            ),
            format!("mirrored = true\nforest = {{ {forest} }}"),
            "classifier = \"boosted\"\nboosted = { trees = 30, depth = 3 }".to_owned(),
            "classifier = \"boosted\"\nmirrored = true\nboosted = { trees = 30, depth = 3 }"
                .to_owned(),
        ] {
            let (model, _) = trained(&settings, u64::MAX);
            let dice = dice(&model);
            assert!(dice > 0.75, "{settings}: {dice}");
            let bytes = model.to_bytes().unwrap();
            assert!(!seen.contains(&bytes), "{settings}");
            seen.push(bytes);
        }
    }

    /// What was not chosen is not in the card, so that models of earlier versions are the same bytes.
    #[test]
    fn settings_that_were_not_chosen_are_not_in_the_card() {
        let text = toml::to_string(&TrainConfig::default()).unwrap();
        for key in ["mirrored", "gain", "thresholds", "shape"] {
            assert!(!text.contains(&format!("\n{key} =")), "{key}");
        }
        assert!(!text.contains("boosted"));
    }
}
