//! The model file: a safetensors file with a card (JSON) and one table for everything that is long.
//!
//! A checkpoint of an unfinished training is the same file with stages missing; it is refused as a
//! model.

use crate::calibration::Calibration;
use crate::case::WorkingSpec;
use crate::classification::{Round, RoundSpec, Rounds};
use crate::classifier::{HaarClassifier, PoseClassifier};
use crate::finish::Finish;
use crate::landmark_file::{self, LandmarkCard};
use crate::level_file;
use crate::levels::{LevelSpec, LevelTest};
use crate::model::{Draft, Model, Provenance, StructureModel};
use crate::network::Network;
use crate::orientation::{OrientationSpec, OrientationStage};
use crate::position::{PositionSpec, PositionStage};
use crate::prior::Prior;
use crate::regression::{Cascade, OUTPUTS, Regressor, RegressorSpec};
use crate::tensors::{TableReader, TableWriter};
use crate::verification::{VerificationSpec, VerificationStage};
use crate::{DetectError, quaternion, seal};
use pbt_features::{BoxGrid, Channel, Cuboid, HaarFeature, Modifier, SteerableFeature};
use pbt_tree::{
    Bounds, Classifier, EvalParams, Evaluator, Haar, Node, Patch, Steerable, Tree, Weak,
};
use pbt_volume::{PointLps, Pose};
use serde::{Deserialize, Serialize};

/// Version of the file format; a newer one is refused.
const FORMAT_VERSION: u32 = 6;

/// Models are a few MB; what is larger than this is not one.
const MOST_BYTES: usize = 1 << 30;

/// Most levels of a pyramid, points along a grid's axis and so on: limits far beyond any use, so
/// that a damaged file cannot ask for absurd amounts of memory.
const MOST_LEVELS: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Card {
    format_version: u32,
    /// Digest of the rest of the file.
    seal: String,
    provenance: Provenance,
    structures: Vec<StructureCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    levels: Vec<LevelSpec>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StructureCard {
    name: String,
    kind: String,
    cases: usize,
    working: WorkingSpec,
    prior: Prior,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    position: Option<StageCard<PositionSpec>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    orientation: Option<StageCard<OrientationSpec>>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    finish: Option<FinishCard>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    verification: Option<StageCard<VerificationSpec>>,
    /// Names of the landmarks that its frame is for; a file without the stage is unfinished.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    landmark_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    landmarks: Option<LandmarkCard>,
    /// Number of frames in the table of an unfinished training of landmarks.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    frames: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StageCard<S> {
    spec: S,
    classifier: ClassifierCard,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassifierCard {
    eval: EvalParams,
    /// Where steerable features sample the box; absent for Haar features.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    grid: Option<BoxGrid>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum FinishCard {
    Regression(Vec<RegressorSpec>),
    Classification(Vec<StageCard<RoundSpec>>),
}

/// The file of a finished model.
///
/// # Errors
/// [`DetectError::Model`] when a table cannot be written.
pub(crate) fn write_drafts(
    provenance: &Provenance,
    drafts: &[Draft],
    network: Option<&Network>,
    levels: &[LevelTest],
) -> Result<Vec<u8>, DetectError> {
    let mut tables = TableWriter::default();
    let structures = drafts
        .iter()
        .enumerate()
        .map(|(n, draft)| structure_card(&mut tables, &format!("s{n}"), draft))
        .collect();
    let levels =
        levels.iter().enumerate().map(|(n, test)| level_file::put(&mut tables, n, test)).collect();
    let card = Card {
        format_version: FORMAT_VERSION,
        seal: seal::BLANK.to_owned(),
        provenance: provenance.clone(),
        structures,
        network: network.cloned(),
        levels,
    };
    let card =
        serde_json::to_string(&card).map_err(|e| DetectError::model("card", e.to_string()))?;
    seal::seal(tables.finish(card)?)
        .ok_or_else(|| DetectError::model("seal", "the card has no place for it"))
}

/// The stages of a checkpoint, which must come from the same data, configuration, seed and version.
///
/// # Errors
/// [`DetectError::Model`] when it does not, or the file is damaged.
pub(crate) fn read_drafts(bytes: &[u8], expected: &Provenance) -> Result<Vec<Draft>, DetectError> {
    let (found, drafts, ..) = read(bytes)?;
    let what = if found.training_sha256 != expected.training_sha256 {
        "training cases"
    } else if found.config != expected.config {
        "configuration"
    } else if found.seed != expected.seed {
        "seed"
    } else if found != *expected {
        "version"
    } else {
        return Ok(drafts);
    };
    Err(DetectError::model(
        "provenance",
        format!("the checkpoint was made with another {what} (train without --resume)"),
    ))
}

impl Model {
    /// The model as a file.
    ///
    /// # Errors
    /// [`DetectError::Model`] when a table cannot be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, DetectError> {
        let drafts: Vec<Draft> = self.structures.iter().cloned().map(Draft::from).collect();
        write_drafts(&self.provenance, &drafts, self.network.as_ref(), &self.levels)
    }

    /// A model from a file's bytes, checked throughout: nothing that a damaged or hostile file
    /// holds can lead evaluation astray.
    ///
    /// # Errors
    /// [`DetectError::Model`] naming the part that is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DetectError> {
        let (provenance, drafts, network, levels) = read(bytes)?;
        let structures = drafts
            .into_iter()
            .map(|draft| {
                let name = draft.name.clone();
                draft.complete().ok_or_else(|| {
                    DetectError::model(
                        format!("structure {name}"),
                        "its training was not finished (go on with pbt train --resume)",
                    )
                })
            })
            .collect::<Result<Vec<StructureModel>, _>>()?;
        if structures.is_empty() {
            return Err(DetectError::model("structures", "the model has none"));
        }
        if network.as_ref().is_some_and(|n| !n.is_valid(structures.len())) {
            return Err(DetectError::model("network", "does not fit the structures"));
        }
        // Its members are scored in one image, so they must agree on how it is made ready.
        let fits = |test: &LevelTest| {
            let working = |&s: &usize| structures.get(s).map(|structure| &structure.working);
            let Some(first) = test.spec.members.first().and_then(working) else { return false };
            test.is_valid(structures.len(), first.levels)
                && test.spec.members.iter().all(|s| working(s) == Some(first))
        };
        if !levels.iter().all(|test| network.is_some() && fits(test)) {
            return Err(DetectError::model("levels", "do not fit the structures"));
        }
        Ok(Self { provenance, structures, network, levels })
    }
}

/// Everything in a file.
type Contents = (Provenance, Vec<Draft>, Option<Network>, Vec<LevelTest>);

fn read(bytes: &[u8]) -> Result<Contents, DetectError> {
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
        DetectError::model("card", format!("{e}; the model is damaged, train or copy it again"))
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
            "the file was changed or damaged after it was written; train or copy the model again",
        ));
    }
    let card: Card = serde_json::from_str(&card).map_err(unreadable)?;
    let drafts = card
        .structures
        .into_iter()
        .enumerate()
        .map(|(n, structure)| read_structure(&mut tables, &format!("s{n}"), structure))
        .collect::<Result<Vec<_>, _>>()?;
    let levels = card
        .levels
        .into_iter()
        .enumerate()
        .map(|(n, spec)| level_file::take(&mut tables, n, spec, MOST_LEVELS))
        .collect::<Result<Vec<_>, _>>()?;
    tables.finish()?;
    Ok((card.provenance, drafts, card.network, levels))
}

fn structure_card(tables: &mut TableWriter, prefix: &str, draft: &Draft) -> StructureCard {
    let position = draft.position.as_ref().map(|stage| StageCard {
        spec: stage.spec.clone(),
        classifier: put_haar(tables, &format!("{prefix}.position"), &stage.classifier),
    });
    let orientation = draft.orientation.as_ref().map(|stage| {
        let name = format!("{prefix}.orientation");
        tables.put(
            format!("{name}.rotations"),
            4,
            stage.rotations.iter().flat_map(|q| [q.w, q.i, q.j, q.k]),
        );
        StageCard {
            spec: stage.spec.clone(),
            classifier: put_pose(tables, &name, &stage.classifier),
        }
    });
    let finish = draft.finish.as_ref().map(|finish| match finish {
        Finish::Regression(cascade) => FinishCard::Regression(
            cascade
                .regressors
                .iter()
                .enumerate()
                .map(|(n, r)| {
                    let name = format!("{prefix}.regressor{n}");
                    tables.put(format!("{name}.means"), 1, r.means.iter().copied());
                    tables.put(format!("{name}.weights"), r.means.len(), r.weights.iter().copied());
                    r.spec.clone()
                })
                .collect(),
        ),
        Finish::Classification(rounds) => FinishCard::Classification(
            rounds
                .rounds
                .iter()
                .enumerate()
                .map(|(n, round)| StageCard {
                    spec: round.spec.clone(),
                    classifier: put_pose(tables, &format!("{prefix}.round{n}"), &round.classifier),
                })
                .collect(),
        ),
    });
    let verification = draft.verification.as_ref().map(|stage| StageCard {
        spec: stage.spec.clone(),
        classifier: put_pose(tables, &format!("{prefix}.verification"), &stage.classifier),
    });
    let landmarks = draft.landmarks.as_ref().map(|stage| landmark_file::put(tables, prefix, stage));
    let frames = draft.frames.as_ref().map(|frames| {
        let numbers = |pose: &Pose| {
            let (c, q, [x, y, z]) = (pose.center.0, pose.orientation, pose.size_mm);
            [c.x, c.y, c.z, q.w, q.i, q.j, q.k, x, y, z]
        };
        tables.put(format!("{prefix}.frames"), 10, frames.iter().flat_map(numbers));
        frames.len()
    });
    StructureCard {
        name: draft.name.clone(),
        kind: "box".to_owned(),
        cases: draft.cases,
        working: draft.working.clone(),
        prior: draft.prior.clone(),
        position,
        orientation,
        finish,
        verification,
        landmark_names: draft.landmark_names.clone(),
        landmarks,
        frames,
    }
}

fn read_structure(
    tables: &mut TableReader<'_>,
    prefix: &str,
    card: StructureCard,
) -> Result<Draft, DetectError> {
    let StructureCard {
        name,
        kind,
        cases,
        working,
        prior,
        position,
        orientation,
        finish,
        verification,
        landmark_names,
        landmarks,
        frames,
    } = card;
    let wrong = |field: &str, what: &str| {
        Err(DetectError::model(format!("structure {name}: {field}"), what))
    };
    if kind != "box" {
        return wrong("kind", "only boxes are known to this version");
    }
    if !(working.spacing_mm > 0.0 && working.spacing_mm.is_finite())
        || working.levels == 0
        || working.levels > MOST_LEVELS
    {
        return wrong("working", "spacing or levels are out of range");
    }
    let [x, y, z] = prior.mean_size_mm;
    if ![x, y, z, prior.scale_mm].iter().all(|&s| s > 0.0 && s.is_finite())
        || !prior.spread.is_finite()
        || !prior.log_size_spread.is_finite()
    {
        return wrong("prior", "a size is not positive and finite");
    }
    let levels = working.levels;
    let position = match position {
        None => None,
        Some(StageCard { spec, classifier }) => {
            if spec.level >= levels || spec.radius > 1000 || spec.keep == 0 || spec.keep > 1_000_000
            {
                return wrong("position", "level, radius or number of candidates is out of range");
            }
            let classifier =
                take_haar(tables, &format!("{prefix}.position"), &classifier, spec.radius)?;
            Some(PositionStage { spec, classifier })
        }
    };
    let orientation = match orientation {
        None => None,
        Some(StageCard { spec, classifier }) => {
            let name = format!("{prefix}.orientation");
            let values: Vec<f64> = tables.take(&format!("{name}.rotations"), 4)?;
            let rotations: Option<Vec<_>> = values
                .chunks_exact(4)
                .map(|q| quaternion::checked(q[0], q[1], q[2], q[3]))
                .collect();
            match rotations {
                Some(rotations) if !rotations.is_empty() && spec.keep > 0 && spec.modes > 0 => {
                    Some(OrientationStage {
                        spec,
                        rotations,
                        classifier: take_pose(tables, &name, &classifier, levels)?,
                    })
                }
                _ => return wrong("orientation", "no rotations, or one that is none"),
            }
        }
    };
    let finish = match finish {
        None => None,
        Some(FinishCard::Regression(specs)) => Some(Finish::Regression(Cascade {
            regressors: specs
                .into_iter()
                .enumerate()
                .map(|(n, spec)| {
                    take_regressor(tables, &format!("{prefix}.regressor{n}"), spec, levels)
                })
                .collect::<Result<_, _>>()?,
        })),
        Some(FinishCard::Classification(rounds)) => Some(Finish::Classification(Rounds {
            rounds: rounds
                .into_iter()
                .enumerate()
                .map(|(n, StageCard { spec, classifier })| {
                    let name = format!("{prefix}.round{n}");
                    if spec.repeats > 1000
                        || spec.hypotheses == 0
                        || spec.hypotheses > 10_000_000
                        || !(0.0..=1.0).contains(&spec.best)
                    {
                        return Err(DetectError::model(
                            name,
                            "the number of hypotheses is out of range",
                        ));
                    }
                    Ok(Round { spec, classifier: take_pose(tables, &name, &classifier, levels)? })
                })
                .collect::<Result<_, _>>()?,
        })),
    };
    let verification = match verification {
        None => None,
        Some(StageCard { spec, classifier }) => {
            let Calibration { slope, intercept } = spec.calibration;
            let invalid = spec.trust.is_some_and(|t| !t.is_valid())
                || spec.error.is_some_and(|e| !e.is_valid());
            if invalid || !(slope >= 0.0 && slope.is_finite() && intercept.is_finite()) {
                return wrong("verification", "trust, error or calibration is out of range");
            }
            let classifier =
                take_pose(tables, &format!("{prefix}.verification"), &classifier, levels)?;
            Some(VerificationStage { spec, classifier })
        }
    };
    let landmarks =
        landmarks.map(|card| landmark_file::take(tables, prefix, card, levels)).transpose()?;
    if landmarks
        .as_ref()
        .is_some_and(|stage| !stage.landmarks.iter().map(|l| &l.name).eq(&landmark_names))
    {
        return wrong("landmarks", "the names disagree");
    }
    let frames = match frames {
        None => None,
        Some(count) => {
            let values: Vec<f64> = tables.take(&format!("{prefix}.frames"), 10)?;
            let pose = |v: &[f64]| {
                let orientation = quaternion::checked(v[3], v[4], v[5], v[6])?;
                let positive = v[7..].iter().all(|&s| s > 0.0 && s.is_finite())
                    && v[..3].iter().all(|c| c.is_finite());
                positive.then(|| Pose {
                    center: PointLps::new(v[0], v[1], v[2]),
                    orientation,
                    size_mm: [v[7], v[8], v[9]],
                })
            };
            match values.chunks_exact(10).map(pose).collect::<Option<Vec<Pose>>>() {
                Some(frames) if frames.len() == count => Some(frames),
                _ => return wrong("frames", "a pose that is none"),
            }
        }
    };
    Ok(Draft {
        name,
        cases,
        working,
        prior,
        position,
        orientation,
        finish,
        verification,
        landmark_names,
        frames,
        landmarks,
    })
}

fn put_haar(tables: &mut TableWriter, name: &str, c: &HaarClassifier) -> ClassifierCard {
    let row = |f: &HaarFeature| -> Vec<i16> {
        let mut row: Vec<i16> = f
            .cuboids()
            .flat_map(|c| {
                let [i, j, k] = c.min.map(i16::from);
                let [x, y, z] = c.size.map(i16::from);
                [i, j, k, x, y, z, c.weight]
            })
            .collect();
        // Unused places of four are all zero.
        row.resize(28, 0);
        row
    };
    tables.put(format!("{name}.features"), 28, c.features.iter().flat_map(row));
    put_trees(tables, name, &c.classifier);
    ClassifierCard { eval: c.classifier.eval.params(), grid: None }
}

fn take_haar(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    radius: usize,
) -> Result<HaarClassifier, DetectError> {
    let field = format!("{name}.features");
    let wrong = |what: String| DetectError::model(field.clone(), what);
    let values: Vec<i16> = tables.take(&field, 28)?;
    let features = values
        .chunks_exact(28)
        .map(|row| {
            let cuboids = row
                .chunks_exact(7)
                .filter(|c| c.iter().any(|&v| v != 0))
                .map(|c| {
                    let min = [c[0], c[1], c[2]].map(i8::try_from);
                    let size = [c[3], c[4], c[5]].map(u8::try_from);
                    match (min, size) {
                        ([Ok(i), Ok(j), Ok(k)], [Ok(x), Ok(y), Ok(z)]) => {
                            Ok(Cuboid { min: [i, j, k], size: [x, y, z], weight: c[6] })
                        }
                        _ => Err(wrong("a cuboid is out of range".to_owned())),
                    }
                })
                .collect::<Result<Vec<_>, _>>()?;
            let feature = HaarFeature::new(&cuboids).map_err(|e| wrong(e.to_string()))?;
            if feature.radius() > radius {
                return Err(wrong(format!(
                    "a feature reaches {} voxels, the window {radius}",
                    feature.radius()
                )));
            }
            Ok(feature)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let classifier = take_trees(tables, name, card, features.len())?;
    Ok(HaarClassifier { family: Haar, features, classifier })
}

fn put_pose(tables: &mut TableWriter, name: &str, c: &PoseClassifier) -> ClassifierCard {
    let row = |f: &SteerableFeature| {
        let [i, j, k] = f.point;
        [i, j, k, f.level, f.channel as u8, f.modifier as u8]
    };
    tables.put(format!("{name}.features"), 6, c.features.iter().flat_map(row));
    put_trees(tables, name, &c.classifier);
    ClassifierCard { eval: c.classifier.eval.params(), grid: Some(c.family.grid) }
}

fn take_pose(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    levels: usize,
) -> Result<PoseClassifier, DetectError> {
    let Some(grid) = card.grid else {
        return Err(DetectError::model(name, "the card has no grid"));
    };
    check_grid(name, &grid)?;
    let field = format!("{name}.features");
    let values: Vec<u8> = tables.take(&field, 6)?;
    let features = values
        .chunks_exact(6)
        .map(|row| {
            let point = [row[0], row[1], row[2]];
            let inside = (0..3).all(|a| point[a] < grid.points[a]) && usize::from(row[3]) < levels;
            match (Channel::from_u8(row[4]), Modifier::from_u8(row[5])) {
                (Some(channel), Some(modifier)) if inside => {
                    Ok(SteerableFeature { point, level: row[3], channel, modifier })
                }
                _ => Err(DetectError::model(
                    field.clone(),
                    "a feature lies outside the grid or is of an unknown type",
                )),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    let classifier = take_trees(tables, name, card, features.len())?;
    Ok(PoseClassifier { family: Steerable { grid }, features, classifier })
}

fn check_grid(name: &str, grid: &BoxGrid) -> Result<(), DetectError> {
    let points = grid.points.iter().all(|p| (1..=32).contains(p));
    if points && grid.extent.iter().all(|e| (0.01..=100.0).contains(e)) {
        return Ok(());
    }
    Err(DetectError::model(name, "the grid has no points, too many, or no extent"))
}

/// Checks what regression samples: its grid and its pyramid levels.
pub(crate) fn check_patch(name: &str, patch: &Patch, levels: usize) -> Result<(), DetectError> {
    check_grid(name, &patch.grid)?;
    if patch.levels.is_empty()
        || patch.levels.len() > MOST_LEVELS
        || patch.levels.iter().any(|&l| usize::from(l) >= levels)
    {
        return Err(DetectError::model(name, "a pyramid level is out of range"));
    }
    Ok(())
}

fn put_trees(tables: &mut TableWriter, name: &str, c: &Classifier) {
    let lengths = c.trees.iter().flat_map(|t| [t.nodes.len() as u32, t.weaks.len() as u32]);
    tables.put(format!("{name}.trees"), 2, lengths);
    let node = |n: &Node| [n.first_weak, n.weak_count, n.left, n.right, n.positive];
    tables.put(format!("{name}.nodes"), 5, c.trees.iter().flat_map(|t| &t.nodes).flat_map(node));
    let weaks = || c.trees.iter().flat_map(|t| &t.weaks);
    tables.put(
        format!("{name}.weak"),
        4,
        weaks().flat_map(|w| [w.feature as i32, w.bounds.lo, w.bounds.hi, w.alpha]),
    );
    tables.put(format!("{name}.votes"), 1, weaks().map(|w| w.votes));
}

fn take_trees(
    tables: &mut TableReader<'_>,
    name: &str,
    card: &ClassifierCard,
    features: usize,
) -> Result<Classifier, DetectError> {
    let lengths: Vec<u32> = tables.take(&format!("{name}.trees"), 2)?;
    let nodes: Vec<u32> = tables.take(&format!("{name}.nodes"), 5)?;
    let weaks: Vec<i32> = tables.take(&format!("{name}.weak"), 4)?;
    let votes: Vec<u64> = tables.take(&format!("{name}.votes"), 1)?;
    let wrong = |what: String| {
        DetectError::model(name, format!("{what}; the model is damaged, train or copy it again"))
    };
    let total = |n: usize| lengths.iter().skip(n).step_by(2).map(|&l| l as usize).sum::<usize>();
    if total(0) != nodes.len() / 5 || total(1) != weaks.len() / 4 || total(1) != votes.len() {
        return Err(wrong("the tables of the trees disagree in length".to_owned()));
    }
    let mut nodes = nodes.chunks_exact(5).map(|n| Node {
        first_weak: n[0],
        weak_count: n[1],
        left: n[2],
        right: n[3],
        positive: n[4],
    });
    let mut weaks = weaks.chunks_exact(4).zip(votes).map(|(w, votes)| {
        // A feature below zero becomes far too large and is refused with the others.
        Weak { feature: w[0] as u32, bounds: Bounds { lo: w[1], hi: w[2] }, votes, alpha: w[3] }
    });
    let trees = lengths
        .chunks_exact(2)
        .map(|l| Tree {
            nodes: nodes.by_ref().take(l[0] as usize).collect(),
            weaks: weaks.by_ref().take(l[1] as usize).collect(),
        })
        .collect();
    if !card.eval.is_valid() {
        return Err(wrong("e1 or e2 is out of range".to_owned()));
    }
    let classifier = Classifier { trees, eval: Evaluator::new(card.eval) };
    classifier.validate(features).map_err(|e| wrong(e.to_string()))?;
    Ok(classifier)
}

fn take_regressor(
    tables: &mut TableReader<'_>,
    name: &str,
    spec: RegressorSpec,
    levels: usize,
) -> Result<Regressor, DetectError> {
    let wrong = |what: &str| Err(DetectError::model(name, what));
    check_patch(name, &spec.patch, levels)?;
    if spec.repeats > 1000
        || spec.weight_bits.iter().any(|b| !(0..=60).contains(b))
        || !(spec.scale_mm > 0.0 && spec.scale_mm.is_finite())
    {
        return wrong("repeats, scale or fractional bits are out of range");
    }
    let means: Vec<i16> = tables.take(&format!("{name}.means"), 1)?;
    let weights: Vec<i32> = tables.take(&format!("{name}.weights"), means.len())?;
    if means.len() != spec.patch.len() || weights.len() != OUTPUTS * means.len() {
        return wrong("the tables do not fit the grid");
    }
    Ok(Regressor { spec, means, weights })
}
