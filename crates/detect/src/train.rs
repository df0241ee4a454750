//! Training: stage after stage, each on what the stages before it find in the training cases.

mod aids;
mod held_out_detections;
mod landmarks;
mod made_worse;
mod mirror_trial;
pub(crate) mod observer;
mod progress;
mod provenance;
mod refusals;
mod search_order;
mod settled;
mod start;
mod structure;

use self::held_out_detections::held_out_detections;
use self::observer::{BEFORE, BEFORE_MASKS, Observer, Share, StageFigure};
use self::progress::{Checkpoints, Progress};
pub use self::provenance::{check_checkpoint, difference_from_training};
pub use self::refusals::{GridDemand, Refusal, grid_demands, refusals};
use self::settled::Settled;
use self::structure::{StructureTraining, TrainedStructure};
use crate::DetectError;
use crate::certainty::suspicion::Suspicion;
use crate::config::TrainConfig;
use crate::data::augmentation::Augmented;
use crate::data::look_alikes::{alike_in_size, look_alikes};
use crate::data::part::Part;
use crate::data::pyramids::Pyramids;
use crate::data::training_data::{Annotated, AnyData, TrainingData};
use crate::masks;
use crate::memory_need::stored_levels;
use crate::model::unfinished::StructureCheckpoint;
use crate::model::{Model, Provenance};
use crate::network::graph::Network;
use crate::network::level_shift_training;
use crate::network::search_region::anchors;
use crate::pose::prior::Prior;
use crate::random::Seeds;
use crate::side_by_side;
use crate::working::choice::intensities;
use crate::working::spec::WorkingSpec;
use pbt_tree::{Backend, LabelBackend, LabelBooster};
use pbt_volume::{Geometry, PointLps, Pose};
use std::time::Instant;

/// A finished training.
#[derive(Debug)]
pub struct Trained {
    /// The model.
    pub model: Model,
    /// What each stage took and reached.
    pub figures: Vec<StageFigure>,
    /// Annotations that held-out detections contradict.
    pub suspicions: Vec<Suspicion>,
    /// What a person should look at: annotations that were left out since the others contradict
    /// them, stages that do harm, and annotations under suspicion, each with its case.
    pub warnings: Vec<String>,
}

/// Trains every structure of the data.
///
/// `resume` is a checkpoint of an earlier run with the same data, configuration and seed: its
/// finished stages are taken over.
///
/// # Errors
/// [`DetectError`] for data or configuration that cannot be used and for a device that fails, and
/// whatever reading an image gives.
pub fn train<B: Backend + LabelBackend + LabelBooster, E: Send + From<DetectError>>(
    backend: &B,
    data: &dyn TrainingData<Error = E>,
    config: &TrainConfig,
    seed: u64,
    resume: Option<&[u8]>,
    observer: &dyn Observer,
) -> Result<Trained, E> {
    config.check()?;
    accept(data, config)?;
    let structures = data.structures();
    let copies = config.augmentation.copies.unwrap_or(0);
    let provenance = provenance::provenance(data, &structures, config, copies, seed);
    let mut resumed = match resume {
        Some(bytes) => crate::model::checkpoint::finished_stages(bytes, &provenance)?,
        None => Vec::new(),
    };
    let groups = groups(data, &structures);
    if let [_] = groups[..] {
        let kept = Checkpoints { provenance: &provenance, before: &[] };
        return train_group(backend, data, config, seed, resumed, &kept, observer);
    }
    let (mut parts, mut before) = (Vec::new(), Vec::new());
    for names in groups {
        let share = names.len() as f64 / structures.len() as f64;
        let from = before.len() as f64 / structures.len() as f64;
        let own = resumed.drain(..names.len().min(resumed.len())).collect();
        let part: &AnyData<'_, E> = &Part::of_structures(data, names);
        let kept = Checkpoints { provenance: &provenance, before: &before };
        let observer = Share { outer: observer, from, share };
        let trained = train_group(backend, part, config, seed, own, &kept, &observer)?;
        before.extend(trained.model.structures.iter().cloned().map(StructureCheckpoint::from));
        parts.push(trained);
    }
    Ok(beside_each_other(provenance, parts))
}

/// The structures that are trained together, those that occur once, and each that may occur several times
/// by itself: nothing is learned of it from others, nor of others from it.
fn groups<D: TrainingData + ?Sized>(data: &D, structures: &[Annotated]) -> Vec<Vec<String>> {
    let names = structures.iter().map(|(name, _)| name.clone());
    let (many, once): (Vec<String>, Vec<String>) = names.partition(|name| data.is_many(name));
    let once = Some(once).filter(|once| !once.is_empty());
    once.into_iter().chain(many.into_iter().map(|name| vec![name])).collect()
}

/// One model of several groups. Only the first has structures that occur once, and what there is between
/// them.
fn beside_each_other(provenance: Provenance, groups: Vec<Trained>) -> Trained {
    let known = groups.iter().any(|group| !group.model.certainty.is_empty());
    let together = |mut all: Trained, group: Trained| {
        all.model.structures.extend(group.model.structures);
        all.model.certainty.extend(group.model.certainty);
        all.figures.extend(group.figures);
        all.suspicions.extend(group.suspicions);
        all.warnings.extend(group.warnings);
        all
    };
    let complete = |mut group: Trained| {
        if known {
            group.model.certainty.resize(group.model.structures.len(), None);
        }
        group
    };
    let all = groups.into_iter().map(complete).reduce(together);
    let mut all = all.expect("there is a structure to train");
    all.model.provenance = Provenance { copies: all.model.provenance.copies, ..provenance };
    all
}

/// Trains the structures of a group, going on from `checkpoints`.
fn train_group<B: Backend + LabelBackend + LabelBooster, D: TrainingData + ?Sized>(
    backend: &B,
    data: &D,
    config: &TrainConfig,
    seed: u64,
    checkpoints: Vec<StructureCheckpoint>,
    kept: &Checkpoints<'_>,
    observer: &dyn Observer,
) -> Result<Trained, D::Error> {
    let structures = data.structures();
    observer.stage(&structures[0].0, "reading", 0.0);
    let intensities = intensities(data, config)?;
    let alike_in_size = alike_in_size(&structures);
    let interrupted = || observer.interrupted();
    let look_alikes = look_alikes(data, &structures, &alike_in_size, interrupted)?;
    let settled = Settled {
        intensities: &intensities,
        alike_in_size: &alike_in_size,
        look_alikes: &look_alikes,
        whole: None,
    };
    let pyramids = Pyramids::new(observer.scratch_folder());
    let grids = start::all(data, &structures, config, settled, Vec::new());
    let at_a_time = match any_stored(data, grids.iter().map(|structure| &structure.working)) {
        true => 1,
        false => side_by_side::at_a_time(structures.len(), rayon::current_num_threads()),
    };
    let mut figures = Vec::new();
    let copies = match config.augmentation.copies {
        Some(copies) => copies,
        // What occurs in many places is shown often enough.
        None if structures.iter().any(|(name, _)| data.is_many(name)) => 0,
        None => {
            let started = Instant::now();
            let images = (data, &pyramids);
            let watched = (observer, at_a_time);
            let trial = mirror_trial::trial(backend, images, settled, config, seed, watched)?;
            figures.extend(trial.gain.map(|gain| StageFigure::of_mirror_trial(started, &gain)));
            usize::from(trial.helps)
        }
    };
    let provenance = provenance::provenance(data, &structures, config, copies, seed);
    let before_masks = if masks::training::is_wanted(data, config) { BEFORE_MASKS } else { 1.0 };
    let until = if config.certainty.measured { BEFORE } else { 1.0 } * before_masks;
    let first = Share { outer: observer, from: 0.0, share: until };
    let (checkpoints, watched) = ((checkpoints, Some(kept)), (&first as &dyn Observer, at_a_time));
    let mut trained = match copies {
        0 => {
            let images = (data, &pyramids);
            train_on(backend, images, settled, provenance, checkpoints, watched)?
        }
        _ => {
            let copied = Augmented::new(data, copies, &config.augmentation, seed)?;
            let copied: &AnyData<'_, D::Error> = &copied;
            accept(copied, config)?;
            let images = (copied, &pyramids);
            train_on(backend, images, settled, provenance, checkpoints, watched)?
        }
    };
    let mut held_out =
        held_out_detections(backend, (data, &pyramids), (&trained.model, settled), observer)?;
    trained.model = trained.model.with_aids(held_out.aids, backend, (data, &pyramids))?;
    search_order::settle(&mut trained.model, data, &held_out.alone);
    let masks = masks::training::train(
        backend,
        data,
        &trained.model,
        &held_out.poses,
        (observer, BEFORE_MASKS),
    )?;
    pyramids.check()?;
    trained.model.masks = masks.stages;
    trained.figures.extend(masks.figures);
    trained.warnings.extend(masks.warnings);
    held_out.moved(&masks.moved);
    let (certainty, suspicions) = held_out.certainty(data, &trained.model);
    trained.model.certainty = certainty.into_iter().map(Some).collect();
    trained.warnings.extend(held_out.warnings);
    trained.warnings.extend(suspicions.iter().map(ToString::to_string));
    trained.suspicions = suspicions;
    figures.append(&mut trained.figures);
    Ok(Trained { figures, ..trained })
}

/// Says at once what the training would refuse later: the first of the [`refusals()`].
fn accept<D: TrainingData + ?Sized>(data: &D, config: &TrainConfig) -> Result<(), DetectError> {
    refusals(data, config).into_iter().next().map_or(Ok(()), |refusal| Err(refusal.error))
}

/// Trains every structure, then what they say about each other. So many structures are trained `at_a_time`;
/// without `kept` there are no checkpoints.
fn train_on<B: Backend, D: TrainingData + ?Sized>(
    backend: &B,
    (data, pyramids): (&D, &Pyramids),
    settled: Settled<'_>,
    provenance: Provenance,
    (checkpoints, kept): (Vec<StructureCheckpoint>, Option<&Checkpoints<'_>>),
    (observer, at_a_time): (&dyn Observer, usize),
) -> Result<Trained, D::Error> {
    let Settled { look_alikes, whole, .. } = settled;
    let (config, seed, structures) = (&provenance.config, provenance.seed, data.structures());
    let started = start::all(data, &structures, config, settled, checkpoints);
    let progress = Progress::new(observer, kept, started.clone());
    let mut trained: Vec<Option<TrainedStructure>> = structures.iter().map(|_| None).collect();
    for turn in turns(look_alikes, at_a_time) {
        let one = |n: usize| {
            let index = turn[n];
            let whole = whole.map(|whole| &whole.structures[index]);
            let settled = whole.map(|whole| held_out_detections::settled(config, whole));
            let training = StructureTraining {
                backend,
                data,
                pyramids,
                config: settled.as_ref().unwrap_or(config),
                seeds: Seeds::of_structure(seed, index),
                progress: &progress,
                whole,
                structures: &structures,
                index,
                look_alikes,
                first: trained[look_alikes[index]].as_ref().map(|first| &first.checkpoint),
                checkpoint: started[index].clone(),
                figures: Vec::new(),
                warnings: Vec::new(),
            };
            training.run()
        };
        let done = side_by_side::each(turn.len(), at_a_time, one)?;
        turn.iter().zip(done).for_each(|(&index, done)| trained[index] = Some(done));
    }
    let (mut checkpoints, mut figures, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    for structure in trained.into_iter().flatten() {
        checkpoints.push(structure.checkpoint);
        figures.extend(structure.figures);
        warnings.extend(structure.warnings);
    }
    let many = structures.iter().any(|(name, _)| data.is_many(name));
    let network =
        if many { None } else { network(data, config, (&structures, look_alikes), &checkpoints) };
    let level_shifts = match &network {
        Some(network) if config.network.level_shift => level_shift_training::train(
            backend,
            (data, pyramids),
            network,
            &structures,
            look_alikes,
            &|s| checkpoints[s].chain_detector(),
            Seeds::of_all(seed),
        )?,
        _ => Vec::new(),
    };
    let structures = checkpoints.into_iter().filter_map(StructureCheckpoint::complete).collect();
    Ok(Trained {
        model: Model {
            provenance,
            structures,
            network,
            level_shifts,
            certainty: Vec::new(),
            masks: Vec::new(),
            regions: None,
        },
        figures,
        suspicions: Vec::new(),
        warnings,
    })
}

/// The order of the structures, those that may be trained at a time together: the first of look-alikes
/// before the others, which take over what it has learned. One at a time they keep their own order, in which
/// neighbours often share images.
fn turns(look_alikes: &[usize], at_a_time: usize) -> Vec<Vec<usize>> {
    let all = 0..look_alikes.len();
    if at_a_time == 1 {
        return all.map(|index| vec![index]).collect();
    }
    let (first, others) = all.partition(|&index| look_alikes[index] == index);
    vec![first, others]
}

/// Whether images are so large on one of these grids that a training keeps parts of them in a file: then there
/// is memory for one training at a time.
fn any_stored<'a, D: TrainingData + ?Sized>(
    data: &D,
    mut workings: impl Iterator<Item = &'a WorkingSpec>,
) -> bool {
    let list = data.list();
    let geometries = || (0..list.len()).map(|case| list.geometry(case));
    workings.any(|working| stored_levels(geometries(), working) > 0)
}

/// What the structures say about each other.
fn network<D: TrainingData + ?Sized>(
    data: &D,
    config: &TrainConfig,
    (structures, look_alikes): (&[Annotated], &[usize]),
    checkpoints: &[StructureCheckpoint],
) -> Option<Network> {
    let cases = 0..data.list().len();
    let poses: Vec<Vec<Option<Pose>>> = structures
        .iter()
        .map(|(_, annotated)| {
            cases
                .clone()
                .map(|case| annotated.iter().find(|(c, _)| *c == case).map(|&(_, pose)| pose))
                .collect()
        })
        .collect();
    let images: Vec<&Geometry> = cases.map(|case| data.list().geometry(case)).collect();
    let middles: Vec<PointLps> = images.iter().map(|image| image.center()).collect();
    let priors: Vec<&Prior> = checkpoints.iter().map(|d| &d.prior).collect();
    let network = Network::train(&poses, &middles, &priors, config.network.center_prior)?;
    // Which of several look-alikes one is, the others say.
    let is_alone =
        |s: usize| look_alikes.iter().filter(|&&first| first == look_alikes[s]).count() == 1;
    let anchors = anchors(&poses, &priors, |s| config.network.search_regions && is_alone(s));
    let shortest =
        |a: usize| images.iter().map(|image| image.lengths_mm()[a]).fold(f64::INFINITY, f64::min);
    Some(Network { shortest_mm: Some(std::array::from_fn(shortest)), anchors, ..network })
}
