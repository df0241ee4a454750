//! Training of the forest that labels regions.

use crate::DetectError;
use crate::config::TrainConfig;
use crate::model::{Model, Provenance};
use crate::random::{Seeds, Stream};
use crate::segment::data::{LabelledImage, RegionData};
use crate::segment::matrix::{Sampled, matrix};
use crate::segment::region_forest::{RegionForest, working_image};
use crate::segment::samples::{CaseSamples, stratum_count, working_classes};
use crate::train::Trained;
use crate::train::observer::{Observer, StageFigure};
use pbt_features::{BoxMeanFeature, BoxMeanPool, Filter};
use pbt_tree::{
    ChannelBank, LabelBackend, LabelForest, LeafPrior, MOST_CLASSES, Splitter, grow_label_forest,
};
use pbt_volume::{IntensityPolicy, Volume};
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// What observers call the forest.
const NAME: &str = "regions";

/// A case made ready.
struct Case {
    image: Volume<u16>,
    samples: CaseSamples,
}

/// Trains a forest that labels the regions of the data.
///
/// # Errors
/// [`DetectError`] for data or configuration that cannot be used and for a device that fails, and
/// whatever reading an image gives.
pub fn train_regions<B: LabelBackend + Splitter, D: RegionData>(
    backend: &B,
    data: &D,
    config: &TrainConfig,
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
    let mut cases = Vec::new();
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
        cases.push(Case { image, samples });
    }
    accept_samples(data, &cases)?;
    let counts: Vec<f64> = cases.iter().map(|case| case.samples.voxels.len() as f64).collect();
    figures.push(StageFigure::new(format!("{NAME}: voxels"), started, "voxels a case", &counts));

    let mut bank = ChannelBank {
        filters: filters(config, &scales_mm),
        spacing_mm,
        outside: config.regions.outside,
        reach: 0,
    };
    let features = draw_features(config, spacing_mm, bank.filters.len(), seeds);
    bank.reach = features.iter().map(BoxMeanFeature::reach).max().unwrap_or(0);
    observer.stage(NAME, "responses", 0.05);
    let started = Instant::now();
    let sampled: Vec<Sampled<'_>> = cases
        .iter()
        .map(|case| Sampled {
            image: (&case.image).into(),
            voxels: &case.samples.voxels,
            classes: &case.samples.classes,
        })
        .collect();
    let classes = data.regions().len() + 1;
    let matrix = matrix(backend, &sampled, &bank, &features, classes, |done| {
        observer.stage(NAME, "responses", 0.1 + 0.4 * done);
        interrupted(observer)
    })?;
    figures.push(StageFigure::new(
        format!("{NAME}: responses"),
        started,
        "features",
        &[features.len() as f64],
    ));

    observer.stage(NAME, "growing trees", 0.5);
    let started = Instant::now();
    let prior = leaf_prior(config, &cases, matrix.classes());
    let params = &config.regions.forest;
    let done = AtomicUsize::new(0);
    let tick = || {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        observer.stage(NAME, "growing trees", 0.5 + 0.5 * done as f64 / params.trees as f64);
    };
    let seed_of_trees = seeds.derive(Stream::RegionTrees, 0);
    let trees = grow_label_forest(backend, &matrix, &prior, params, seed_of_trees, tick)
        .map_err(|e| DetectError::training(NAME, e.to_string()))?;
    interrupted(observer)?;
    let leaves: Vec<f64> =
        trees.iter().map(|tree| (tree.leaves.len() / matrix.classes()) as f64).collect();
    figures.push(StageFigure::new(format!("{NAME}: trees"), started, "leaves a tree", &leaves));

    let forest = LabelForest { classes: matrix.classes(), vote: params.vote, features, trees };
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
        pbt_version: env!("CARGO_PKG_VERSION").to_owned(),
        dataset: data.list().name.clone(),
        modality: data.list().modality.clone(),
        training_sha256: pbt_volume::hex(&hash.finalize()),
        cases: data.list().len(),
        copies: 0,
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
fn voxels_of(cases: &[Case], wanted: impl Fn(usize) -> bool) -> u64 {
    let own = |case: &Case| {
        let all = case.samples.voxels_by_stratum.iter().enumerate();
        all.filter(|(stratum, _)| wanted(*stratum)).map(|(_, voxels)| voxels).sum::<u64>()
    };
    cases.iter().map(own).sum()
}

/// Fewest voxels of a region in all training cases.
const FEWEST_VOXELS: u64 = 50;

fn accept_samples<D: RegionData>(data: &D, cases: &[Case]) -> Result<(), DetectError> {
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

/// How many voxels each sample stands for: as many as its stratum has for each that was drawn.
fn leaf_prior(config: &TrainConfig, cases: &[Case], classes: usize) -> LeafPrior {
    let weight = |stratum: usize| {
        let voxels = voxels_of(cases, |s| s == stratum);
        let strata = cases.iter().flat_map(|case| &case.samples.strata);
        let drawn = strata.filter(|&&s| usize::from(s) == stratum).count().max(1);
        let each = if config.regions.label_prior { voxels as f64 / drawn as f64 } else { 1.0 };
        (each * f64::from(1 << WEIGHT_BITS) + 0.5).clamp(1.0, f64::from(u32::MAX)) as u32
    };
    let weights: Vec<u32> = (0..stratum_count(classes)).map(weight).collect();
    let strata = cases.iter().flat_map(|case| &case.samples.strata);
    LeafPrior {
        weights: strata.map(|&stratum| weights[usize::from(stratum)]).collect(),
        bias: (config.regions.forest.histogram_bias * 65536.0) as u32,
    }
}
