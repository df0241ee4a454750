//! A trained model: what detection needs of every structure, and where it came from.

pub(crate) mod card;
pub(crate) mod checkpoint;
pub(crate) mod classifier_tables;
pub(crate) mod cost;
pub(crate) mod file;
pub(crate) mod label_forest_tables;
pub(crate) mod landmark_tables;
pub(crate) mod level_shift_tables;
pub(crate) mod limits;
pub(crate) mod map_tables;
pub(crate) mod mask_tables;
mod provenance;
pub(crate) mod region_tables;
mod regression_forest_tables;
pub(crate) mod seal;
pub(crate) mod structure_tables;
pub(crate) mod tables;
pub(crate) mod unfinished;

use crate::certainty::learned::Certainty;
use crate::config::TrainConfig;
use crate::landmarks::stage::LandmarkStage;
use crate::masks::stage::MaskStage;
use crate::network::graph::Network;
use crate::network::level_shift::LevelShiftTest;
use crate::network::row::Row;
use crate::pose::prior::Prior;
use crate::refine::refinement::Refinement;
use crate::segment::region_forest::RegionForest;
use crate::stages::orientation::OrientationStage;
use crate::stages::position::PositionStage;
use crate::stages::verification::VerificationStage;
use crate::working::spec::{ChannelSpec, WorkingSpec};

pub use provenance::Provenance;

/// A model: one or more structures.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Where the model came from.
    pub provenance: Provenance,
    /// The structures, in the order of detection results: those that occur once, then those that may
    /// occur several times.
    pub structures: Vec<StructureModel>,
    /// What the structures that occur once say about each other; none where there is one or they share
    /// too few cases.
    pub network: Option<Network>,
    /// Which level chains of look-alikes stand at.
    pub level_shifts: Vec<LevelShiftTest>,
    /// How sure and how near each structure is, where there were enough cases to tell; empty where that is
    /// so of none.
    pub certainty: Vec<Option<Certainty>>,
    /// What labels the voxels about boxes.
    pub masks: Vec<MaskStage>,
    /// What labels voxels; a model has either structures or this.
    pub regions: Option<RegionForest>,
}

impl Model {
    /// The channels that every image must have, in their order, where there are several; else none.
    pub fn channels(&self) -> &[ChannelSpec] {
        self.structures.first().map_or(&[], |structure| &structure.working.channels)
    }

    /// How many structures occur once. They come first.
    pub fn once(&self) -> usize {
        self.structures.iter().take_while(|structure| structure.most_instances().is_none()).count()
    }

    /// Whether no score of the model was measured on held-out cases: of few training cases, and where the
    /// configuration says so.
    pub fn scores_mean_little(&self) -> bool {
        !self.structures.is_empty() && self.certainty.iter().all(Option::is_none)
    }

    /// How sure and how near a structure is, by its index.
    pub fn certainty_of(&self, structure: usize) -> Option<&Certainty> {
        self.certainty.get(structure)?.as_ref()
    }
}

/// The detector of one structure.
#[derive(Debug, Clone, PartialEq)]
pub struct StructureModel {
    /// Name of the structure.
    pub name: String,
    /// Number of its training cases.
    pub cases: usize,
    /// How images are prepared.
    pub working: WorkingSpec,
    /// Size and orientation before any image is seen.
    pub prior: Prior,
    /// Where the centre may be.
    pub position: PositionStage,
    /// How the structure may be turned.
    pub orientation: OrientationStage,
    /// What brings modes to the structure.
    pub refinement: Refinement,
    /// Which converged pose is right.
    pub verification: VerificationStage,
    /// What is found in its frame.
    pub landmarks: Option<LandmarkStage>,
    /// Where its next instance is expected, if it may occur several times and its instances stand in a
    /// row.
    pub row: Option<Row>,
}

impl StructureModel {
    /// The landmarks that are found in its frame, in the order of results.
    pub fn landmarks(&self) -> &[crate::LandmarkPrior] {
        self.landmarks.as_ref().map_or(&[], |stage| &stage.landmarks)
    }

    /// Every classifier of the model with the name of its stage and descriptions of the features
    /// that it uses.
    pub fn classifiers(&self) -> Vec<(String, &pbt_tree::Classifier, Vec<String>)> {
        let pose = |c: &'_ crate::PoseClassifier| {
            c.features.iter().map(|f| describe_steerable(f, &self.working)).collect::<Vec<_>>()
        };
        let mut all = vec![
            (
                "position".to_owned(),
                &self.position.classifier.classifier,
                self.position.classifier.features.iter().map(describe_haar).collect(),
            ),
            (
                "orientation".to_owned(),
                &self.orientation.classifier.classifier,
                pose(&self.orientation.classifier),
            ),
        ];
        if let Refinement::Classification(passes) = &self.refinement {
            for (n, pass) in passes.passes.iter().enumerate() {
                all.push((
                    format!("pass {}", n + 1),
                    &pass.classifier.classifier,
                    pose(&pass.classifier),
                ));
            }
        }
        all.push((
            "verification".to_owned(),
            &self.verification.classifier.classifier,
            pose(&self.verification.classifier),
        ));
        all
    }
}

fn describe_haar(feature: &pbt_features::HaarFeature) -> String {
    let cuboids: Vec<String> = feature
        .cuboids()
        .map(|c| {
            let [x, y, z] = c.size;
            let [i, j, k] = c.min;
            format!("{:+} x {x}x{y}x{z} at ({i}, {j}, {k})", c.weight)
        })
        .collect();
    format!("Haar {}", cuboids.join(", "))
}

fn describe_steerable(feature: &pbt_features::SteerableFeature, working: &WorkingSpec) -> String {
    let [i, j, k] = feature.point;
    let (level, channel) = working.level_and_channel(feature.level);
    let channel = working.channels.get(channel);
    let channel = channel.map_or_else(String::new, |channel| format!(", channel {}", channel.name));
    format!(
        "{:?} {:?} at point ({i}, {j}, {k}), level {level}{channel}",
        feature.channel, feature.modifier
    )
}

impl Model {
    /// A model that labels voxels.
    pub(crate) fn of_regions(provenance: Provenance, regions: RegionForest) -> Self {
        Self {
            provenance,
            structures: Vec::new(),
            network: None,
            level_shifts: Vec::new(),
            certainty: Vec::new(),
            masks: Vec::new(),
            regions: Some(regions),
        }
    }

    /// The names of all labels that it gives to voxels.
    pub fn label_names(&self) -> impl Iterator<Item = &str> {
        let of_boxes = self.masks.iter().flat_map(|stage| stage.labels.iter().flatten());
        let of_regions = self.regions.iter().flat_map(|forest| &forest.regions);
        of_boxes.chain(of_regions).map(|label| label.name.as_str())
    }

    /// The configuration with everything that was automatic as it was resolved for the first
    /// structure: training with it again gives the same model where there is one structure.
    pub fn resolved_config(&self) -> TrainConfig {
        let mut config = self.provenance.config.clone();
        config.augmentation.copies = Some(self.provenance.copies);
        if let Some(regions) = &self.regions {
            config.working.spacing_mm = Some(regions.bank.spacing_mm);
            config.working.intensity = Some(regions.intensity);
        }
        if let Some(s) = self.structures.first() {
            config.working.spacing_mm = Some(s.working.spacing_mm);
            config.working.intensity = Some(s.working.intensity);
            config.working.padding = Some(s.working.padding);
            if let Refinement::Regression(cascade) = &s.refinement {
                config.refinement.border = cascade.regressors.first().map(|r| r.spec.border);
                config.refinement.ridge = cascade.regressors.first().map(|r| r.spec.ridge);
            }
            if let Some(stage) = &s.landmarks {
                config.landmarks.halvings =
                    Some(stage.close_up.as_ref().map_or(0, |close_up| close_up.halvings));
            }
            config.orientation.orientations = if s.prior.any_orientation {
                crate::Orientations::Any
            } else {
                crate::Orientations::Training
            };
        }
        config
    }
}
