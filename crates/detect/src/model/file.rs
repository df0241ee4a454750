//! The model file: a safetensors file with a card (JSON) and one table for everything that is long.
//!
//! A checkpoint of an unfinished training is the same file with stages missing; it is refused as a
//! model.

use crate::DetectError;
use crate::certainty::learned::{Certainty, HeldOutErrors};
use crate::masks::stage::MaskStage;
use crate::model::card::{Card, FORMAT_VERSION, StructureCard};
use crate::model::cost::check_cost;
use crate::model::level_shift_tables;
use crate::model::limits::{
    MOST_CASES, MOST_LEVELS, check_calibration, check_label_shape, check_weights, within,
};
use crate::model::mask_tables;
use crate::model::region_tables;
use crate::model::seal;
use crate::model::structure_tables::{read_structure, structure_card};
use crate::model::tables::{TableReader, TableWriter};
use crate::model::unfinished::StructureCheckpoint;
use crate::model::{Model, Provenance, StructureModel};
use crate::network::graph::Network;
use crate::network::level_shift::LevelShiftTest;
use crate::segment::region_forest::RegionForest;
use pbt_volume::{MOST_CHANNELS, MOST_STRUCTURES};
use serde::Deserialize;

/// Models are a few MB; what is larger than this is not one.
const MOST_BYTES: usize = 1 << 30;

/// The bytes of a checkpoint.
///
/// # Errors
/// [`DetectError::Model`] when a table cannot be written.
pub(crate) fn checkpoint_bytes(
    provenance: &Provenance,
    checkpoints: &[StructureCheckpoint],
) -> Result<Vec<u8>, DetectError> {
    let mut tables = TableWriter::default();
    let structures = structure_cards(&mut tables, checkpoints);
    finish(tables, &Card { structures, unfinished: true, ..blank_card(provenance) })
}

fn structure_cards(
    tables: &mut TableWriter,
    checkpoints: &[StructureCheckpoint],
) -> Vec<StructureCard> {
    let numbered = checkpoints.iter().enumerate();
    numbered.map(|(n, checkpoint)| structure_card(tables, &format!("s{n}"), checkpoint)).collect()
}

/// The bytes of a model.
fn file_bytes(
    provenance: &Provenance,
    checkpoints: &[StructureCheckpoint],
    network: Option<&Network>,
    level_shifts: &[LevelShiftTest],
    certainty: &[Option<Certainty>],
    masks: &[MaskStage],
) -> Result<Vec<u8>, DetectError> {
    let mut tables = TableWriter::default();
    let structures = structure_cards(&mut tables, checkpoints);
    let level_shifts = level_shifts
        .iter()
        .enumerate()
        .map(|(n, test)| level_shift_tables::put(&mut tables, n, test))
        .collect();
    let masks = masks
        .iter()
        .enumerate()
        .map(|(n, stage)| mask_tables::put(&mut tables, n, stage))
        .collect();
    let card = Card {
        structures,
        network: network.cloned(),
        level_shifts,
        certainty: certainty.to_vec(),
        masks,
        ..blank_card(provenance)
    };
    finish(tables, &card)
}

/// A card of nothing but its provenance.
fn blank_card(provenance: &Provenance) -> Card {
    Card {
        format_version: FORMAT_VERSION,
        seal: seal::BLANK.to_owned(),
        unfinished: false,
        provenance: provenance.clone(),
        structures: Vec::new(),
        network: None,
        level_shifts: Vec::new(),
        certainty: Vec::new(),
        masks: Vec::new(),
        regions: None,
    }
}

fn finish(tables: TableWriter, card: &Card) -> Result<Vec<u8>, DetectError> {
    let card =
        serde_json::to_string(card).map_err(|e| DetectError::model("card", e.to_string()))?;
    seal::seal(tables.finish(card)?)
        .ok_or_else(|| DetectError::model("seal", "the card has no place for it"))
}

impl Model {
    /// The model as a file.
    ///
    /// # Errors
    /// [`DetectError::Model`] when a table cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DetectError> {
        if let Some(regions) = &self.regions {
            let mut tables = TableWriter::default();
            let regions = Some(region_tables::put(&mut tables, regions));
            return finish(tables, &Card { regions, ..blank_card(&self.provenance) });
        }
        let checkpoints: Vec<StructureCheckpoint> =
            self.structures.iter().cloned().map(StructureCheckpoint::from).collect();
        file_bytes(
            &self.provenance,
            &checkpoints,
            self.network.as_ref(),
            &self.level_shifts,
            &self.certainty,
            &self.masks,
        )
    }

    /// A model from a file's bytes, checked throughout: nothing that a damaged or hostile file
    /// holds can lead evaluation astray.
    ///
    /// # Errors
    /// [`DetectError::Model`] naming the part that is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DetectError> {
        let Contents {
            provenance,
            unfinished,
            checkpoints,
            network,
            level_shifts,
            certainty,
            masks,
            regions,
        } = read(bytes)?;
        let not_finished = |part: String| {
            let what = "its training was not finished (go on with pbt train --resume)";
            DetectError::model(part, what)
        };
        if unfinished {
            return Err(not_finished("stages".into()));
        }
        let structures = checkpoints
            .into_iter()
            .map(|checkpoint| {
                let name = checkpoint.name.clone();
                checkpoint.complete().ok_or_else(|| not_finished(format!("structure {name}")))
            })
            .collect::<Result<Vec<StructureModel>, _>>()?;
        if structures.is_empty() == regions.is_none() {
            let what = if regions.is_none() {
                "the model has none"
            } else {
                "and regions exclude each other"
            };
            return Err(DetectError::model("structures", what));
        }
        let names = |s: &StructureModel| -> Vec<String> {
            s.working.channels.iter().map(|channel| channel.name.clone()).collect()
        };
        if structures.iter().any(|s| names(s) != names(&structures[0])) {
            return Err(DetectError::model("channels", "structures differ in their channels"));
        }
        let is_once = |s: &&StructureModel| s.most_instances().is_none();
        let once = structures.iter().filter(is_once).count();
        if !structures[..once].iter().all(|s| is_once(&s)) {
            let what = "one that may occur several times comes before one that occurs once";
            return Err(DetectError::model("structures", what));
        }
        if network.as_ref().is_some_and(|n| !n.is_valid(once)) {
            return Err(DetectError::model("network", "does not fit the structures"));
        }
        if !masks.iter().flat_map(|stage| &stage.structures).all(|&s| s < once) {
            return Err(DetectError::model("masks", "do not fit the structures"));
        }
        // Its members are scored in one image, so they must agree on how it is made ready.
        let fits = |test: &LevelShiftTest| {
            let working = |&s: &usize| structures.get(s).map(|structure| &structure.working);
            let Some(first) = test.spec.members.first().and_then(working) else { return false };
            test.is_valid(once, first.volumes().len())
                && test.spec.members.iter().all(|s| working(s) == Some(first))
        };
        if !level_shifts.iter().all(|test| network.is_some() && fits(test)) {
            return Err(DetectError::model("level_shifts", "do not fit the structures"));
        }
        let known = |(c, s): (&Option<Certainty>, &StructureModel)| {
            c.as_ref().is_none_or(|c| c.is_valid(s.landmarks().len()))
        };
        if !certainty.is_empty()
            && (certainty.len() != structures.len()
                || !certainty.iter().zip(&structures).all(known))
        {
            return Err(DetectError::model("certainty", "does not fit the structures"));
        }
        for (certainty, structure) in certainty.iter().zip(&structures) {
            if let Some(certainty) = certainty {
                check_certainty(certainty, &structure.name, provenance.cases)?;
            }
        }
        for test in &level_shifts {
            check_calibration("level_shifts", &test.spec.calibration)?;
        }
        let model =
            Self { provenance, structures, network, level_shifts, certainty, masks, regions };
        check_cost(&model)?;
        Ok(model)
    }
}

/// Scores say no more than so many cases can: a model is never surer than its training allows.
fn check_certainty(certainty: &Certainty, name: &str, cases: usize) -> Result<(), DetectError> {
    let name = format!("certainty of {name}");
    check_weights(&name, &certainty.weights, certainty.intercept)?;
    let subjects = |held_out: &HeldOutErrors| {
        within(&name, "subjects", held_out.subjects as f64, (0.0, cases as f64))
    };
    subjects(&certainty.held_out)?;
    if let Some(presence) = &certainty.presence {
        check_weights(&name, &presence.weights, presence.intercept)?;
        let subjects = (presence.with + presence.without) as f64;
        within(&name, "subjects", subjects, (0.0, cases as f64))?;
    }
    for landmark in &certainty.landmarks {
        check_weights(&name, &landmark.weights, landmark.intercept)?;
        subjects(&landmark.held_out)?;
    }
    Ok(())
}

/// Everything in a file.
pub(super) struct Contents {
    pub(super) provenance: Provenance,
    unfinished: bool,
    pub(super) checkpoints: Vec<StructureCheckpoint>,
    network: Option<Network>,
    level_shifts: Vec<LevelShiftTest>,
    certainty: Vec<Option<Certainty>>,
    masks: Vec<MaskStage>,
    regions: Option<RegionForest>,
}

pub(super) fn read(bytes: &[u8]) -> Result<Contents, DetectError> {
    if bytes.len() > MOST_BYTES {
        return Err(DetectError::model(
            "size",
            format!("{} bytes are too many for a model", bytes.len()),
        ));
    }
    let (mut tables, card) = TableReader::new(bytes)?;
    // The version first, so that a newer file says so whatever else it has.
    #[derive(Deserialize)]
    struct Version {
        format_version: u32,
    }
    let unreadable = |e: serde_json::Error| {
        DetectError::model("card", format!("{e}; the model is damaged (train or copy it again)"))
    };
    let Version { format_version } = serde_json::from_str(&card).map_err(unreadable)?;
    if format_version != FORMAT_VERSION {
        let what = format!(
            "version {format_version}; this pbt reads version {FORMAT_VERSION} (update pbt, or train again)"
        );
        return Err(DetectError::model("format_version", what));
    }
    if !seal::is_intact(bytes) {
        return Err(DetectError::model(
            "seal",
            "the file was changed or damaged after it was written (train or copy the model again)",
        ));
    }
    let card: Card = serde_json::from_str(&card).map_err(unreadable)?;
    within("card", "structures", card.structures.len() as f64, (0.0, MOST_STRUCTURES as f64))?;
    within("provenance", "cases", card.provenance.cases as f64, (0.0, MOST_CASES as f64))?;
    for (structure, shape) in &card.provenance.label_shapes {
        check_label_shape(structure, shape)?;
    }
    card.provenance
        .config
        .check()
        .map_err(|e| DetectError::model("provenance", format!("config: {e}")))?;
    let checkpoints = card
        .structures
        .into_iter()
        .enumerate()
        .map(|(n, structure)| read_structure(&mut tables, &format!("s{n}"), structure))
        .collect::<Result<Vec<_>, _>>()?;
    let level_shifts = card
        .level_shifts
        .into_iter()
        .enumerate()
        .map(|(n, spec)| {
            level_shift_tables::take(&mut tables, n, spec, MOST_LEVELS * MOST_CHANNELS)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let further: Vec<usize> =
        checkpoints.iter().map(|c: &StructureCheckpoint| c.working.channel_count() - 1).collect();
    let masks = card.masks.into_iter().enumerate();
    let masks = masks
        .map(|(n, card)| mask_tables::take(&mut tables, n, card, &further))
        .collect::<Result<Vec<_>, _>>()?;
    let regions =
        card.regions.map(|regions| region_tables::take(&mut tables, regions)).transpose()?;
    tables.finish()?;
    Ok(Contents {
        provenance: card.provenance,
        unfinished: card.unfinished,
        checkpoints,
        network: card.network,
        level_shifts,
        certainty: card.certainty,
        masks,
        regions,
    })
}
