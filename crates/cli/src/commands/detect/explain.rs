//! `pbt detect --explain`: why each detection came out as it did, as JSON and as a picture.

use crate::Failure;
use crate::session::{explanation_paths, write_json};
use nalgebra::UnitQuaternion;
use pbt_detect::{ChannelSpec, Detection, Explanation, Model, StructureModel, Trace};
use pbt_features::{Channel, Modifier, SteerableFeature};
use pbt_io::{InputRecord, ModelRecord, write_atomically};
use pbt_report::{Case, DrawnBox, DrawnPoint, Mark, sheet};
use pbt_tree::{ALPHA_BITS, Branch, PathStep, Threshold};
use pbt_volume::{PointLps, Pose, Status, Volume};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// So many weak classifiers are listed for each detection; the first few of them are drawn.
const LISTED_VOTES: usize = 40;
const DRAWN_VOTES: usize = 12;

/// `CASE.explain.json`, schema `pbt-explanation/1`: the same bytes for the same image and model.
#[derive(Serialize)]
struct ExplanationFile<'a> {
    schema: &'static str,
    case_id: &'a str,
    coordinate_system: &'a str,
    input: &'a InputRecord,
    model: &'a ModelRecord,
    detections: Vec<Explained<'a>>,
}

#[derive(Serialize)]
struct Explained<'a> {
    name: &'a str,
    status: Status,
    /// As in the result.
    score: f64,
    /// As in the result; the best guess of an absent structure, too.
    pose: PoseRecord,
    stages: Stages,
    verification: Verification,
    /// What speaks for the chosen pose, by kind.
    evidence: BTreeMap<&'static str, f64>,
    /// The most that can be said, whatever the score.
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<Status>,
    /// Of a model with several boxes that are chosen together.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<NetworkRecord>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    landmarks: Vec<LandmarkRecord<'a>>,
}

#[derive(Serialize)]
struct Stages {
    /// Position candidates, best first.
    position: Vec<CandidateRecord>,
    /// Modes, and where each converged.
    modes: Vec<ModeRecord>,
    /// Place of the chosen one among the modes.
    chosen: usize,
}

#[derive(Serialize)]
struct CandidateRecord {
    position_lps_mm: [f64; 3],
    log_odds: f64,
}

#[derive(Serialize)]
struct ModeRecord {
    /// `orientation`, `expected` or `neighbour`.
    from: &'static str,
    /// By the orientation classifier.
    log_odds: f64,
    pose: PoseRecord,
    converged: PoseRecord,
    /// By the verification classifier, of the converged pose.
    converged_log_odds: f64,
}

#[derive(Serialize)]
struct PoseRecord {
    position_lps_mm: [f64; 3],
    quaternion_wxyz: [f64; 4],
    size_mm: [f64; 3],
}

#[derive(Serialize)]
struct Verification {
    /// The pose that was verified.
    pose: PoseRecord,
    log_odds: f64,
    /// The same as a probability, before the orientation's classifier and the neighbours have their say.
    probability: f64,
    trees: Vec<TreeRecord>,
    votes: Vec<VoteRecord>,
    /// Weak classifiers on the paths; the list holds those with the largest weights.
    votes_in_all: usize,
}

#[derive(Serialize)]
struct TreeRecord {
    posterior: f64,
    path: Vec<StepRecord>,
}

#[derive(Serialize)]
struct StepRecord {
    node: usize,
    margin: f64,
    probability: f64,
    empirical: f64,
    branch: Branch,
}

#[derive(Serialize)]
struct VoteRecord {
    tree: usize,
    node: usize,
    /// What is measured, in words.
    measures: String,
    channel: Channel,
    modifier: Modifier,
    position_lps_mm: [f64; 3],
    level: usize,
    /// Of images of several channels the one in which it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_channel: Option<String>,
    level_spacing_mm: f64,
    response: i32,
    /// Null where the vote depends on several ranges of the response.
    threshold: Option<ThresholdRecord>,
    /// α·h: above 0 it speaks for the structure, below against it.
    contribution: f64,
}

/// The vote speaks for the structure where (response ≥ first) is the same as `above`.
#[derive(Serialize)]
struct ThresholdRecord {
    first: i32,
    above: bool,
}

#[derive(Serialize)]
struct NetworkRecord {
    /// By how much the best choice with this structure elsewhere is worse; null where there is
    /// none.
    lead: Option<f64>,
    /// Log of how much likelier the place is by where its neighbours lie.
    support: f64,
}

#[derive(Serialize)]
struct LandmarkRecord<'a> {
    name: &'a str,
    score: f64,
    /// Its mean place in the box.
    expected_lps_mm: [f64; 3],
    position_lps_mm: [f64; 3],
    moved_mm: f64,
}

/// What an explanation is about.
pub(super) struct About<'a> {
    pub(super) case_id: &'a str,
    pub(super) coordinate_system: &'a str,
    pub(super) input: &'a InputRecord,
    pub(super) record: &'a ModelRecord,
    pub(super) model: &'a Model,
    pub(super) image: &'a Volume<f32>,
}

/// Writes `FOLDER/<case>.explain.json` and `FOLDER/<case>.explain.svg`.
///
/// # Errors
/// A file that cannot be written, or a picture that is too large.
pub(super) fn write(
    folder: &Path,
    about: &About<'_>,
    detections: &[Detection],
    explanations: &[Explanation],
) -> Result<(), Failure> {
    let structures = &about.model.structures;
    let structure = |d: &Detection| structures.iter().find(|s| s.name == d.name);
    let explained = detections.iter().zip(explanations);
    let explained = explained.filter_map(|both| Some((structure(both.0)?, both)));
    let network = about.model.network.is_some();
    let file = ExplanationFile {
        schema: "pbt-explanation/1",
        case_id: about.case_id,
        coordinate_system: about.coordinate_system,
        input: about.input,
        model: about.record,
        detections: explained
            .clone()
            .map(|(structure, (d, e))| Explained::new(structure, d, e, network))
            .collect(),
    };
    let [json, picture] = explanation_paths(folder, about.case_id);
    write_json(&json, &file)?;
    let rows: Vec<Row> =
        explained.map(|(structure, (d, e))| Row::new(structure, about.image, d, e)).collect();
    let cases: Vec<Case<'_>> = rows.iter().map(|row| row.case(about.image)).collect();
    let svg = sheet(&format!("{}: why", about.case_id), &cases).map_err(Failure::other)?;
    write_atomically(&picture, |w| w.write_all(svg.as_bytes()))?;
    Ok(())
}

impl<'a> Explained<'a> {
    fn new(
        structure: &StructureModel,
        detection: &'a Detection,
        explanation: &Explanation,
        network: bool,
    ) -> Self {
        let Trace {
            candidates,
            modes,
            converged,
            scores,
            own_modes,
            chosen,
            lead,
            support,
            evidence,
            at_most,
            there: _,
        } = &detection.trace;
        let expected = !structure.prior.any_orientation;
        let from = |n: usize| match n {
            n if n >= *own_modes => "neighbour",
            n if expected && n + 1 == *own_modes => "expected",
            _ => "orientation",
        };
        let mode =
            |(n, ((mode, end), score)): (usize, ((&Pose, &Pose), &pbt_tree::Score))| ModeRecord {
                from: from(n),
                log_odds: explanation.mode_log_odds[n],
                pose: PoseRecord::new(mode),
                converged: PoseRecord::new(end),
                converged_log_odds: score.log_odds(),
            };
        let candidate = |c: &pbt_detect::Candidate| CandidateRecord {
            position_lps_mm: lps(c.point),
            log_odds: c.score.log_odds(),
        };
        let landmark =
            |(l, start): (&'a pbt_detect::LandmarkDetection, &PointLps)| LandmarkRecord {
                name: &l.name,
                score: l.score,
                expected_lps_mm: lps(*start),
                position_lps_mm: lps(l.point),
                moved_mm: start.distance_mm(&l.point),
            };
        Self {
            name: &detection.name,
            status: detection.status,
            score: detection.score,
            pose: PoseRecord::new(&detection.pose),
            stages: Stages {
                position: candidates.iter().map(candidate).collect(),
                modes: modes.iter().zip(converged).zip(scores).enumerate().map(mode).collect(),
                chosen: *chosen,
            },
            verification: Verification::new(explanation, &structure.working.channels),
            evidence: pbt_detect::EVIDENCE.into_iter().zip(*evidence).collect(),
            at_most: *at_most,
            network: network.then(|| NetworkRecord {
                lead: Some(*lead).filter(|m| m.is_finite()),
                support: *support,
            }),
            landmarks: detection
                .landmarks
                .iter()
                .zip(&explanation.landmark_starts)
                .map(landmark)
                .collect(),
        }
    }
}

impl Verification {
    fn new(explanation: &Explanation, channels: &[ChannelSpec]) -> Self {
        let step = |s: &PathStep| StepRecord {
            node: s.node,
            margin: f64::from(s.margin) / f64::from(1u32 << ALPHA_BITS),
            probability: s.probability,
            empirical: s.empirical,
            branch: s.branch,
        };
        let vote = |v: &pbt_detect::Vote| VoteRecord {
            tree: v.tree,
            node: v.node,
            measures: words(&v.feature),
            channel: v.feature.channel,
            modifier: v.feature.modifier,
            position_lps_mm: lps(v.point),
            level: v.level,
            image_channel: channels.get(v.channel).map(|channel| channel.name.clone()),
            level_spacing_mm: v.level_spacing_mm,
            response: v.response,
            threshold: v
                .threshold
                .map(|Threshold { first, above }| ThresholdRecord { first, above }),
            contribution: if v.speaks_for { v.alpha } else { -v.alpha },
        };
        Self {
            pose: PoseRecord::new(&explanation.verified),
            log_odds: explanation.log_odds,
            probability: explanation.probability,
            trees: explanation
                .trees
                .iter()
                .map(|t| TreeRecord {
                    posterior: t.posterior,
                    path: t.steps.iter().map(step).collect(),
                })
                .collect(),
            votes: explanation.votes.iter().take(LISTED_VOTES).map(vote).collect(),
            votes_in_all: explanation.votes.len(),
        }
    }
}

impl PoseRecord {
    fn new(pose: &Pose) -> Self {
        let q: UnitQuaternion<f64> = pbt_volume::positive(pose.orientation);
        Self {
            position_lps_mm: lps(pose.center),
            quaternion_wxyz: [q.w, q.i, q.j, q.k],
            size_mm: pose.size_mm,
        }
    }
}

fn lps(point: PointLps) -> [f64; 3] {
    point.0.coords.into()
}

/// What a feature measures.
fn words(feature: &SteerableFeature) -> String {
    let what = match feature.channel {
        Channel::Intensity => "intensity",
        Channel::GradientI => "gradient along the image's first axis",
        Channel::GradientJ => "gradient along the image's second axis",
        Channel::GradientK => "gradient along the image's third axis",
        Channel::Along0 => "gradient along the box's first axis",
        Channel::Along1 => "gradient along the box's second axis",
        Channel::Along2 => "gradient along the box's third axis",
        Channel::Magnitude => "strength of the gradient",
        Channel::Across0 => "gradient across the box's first axis",
        Channel::Angle0 => "angle of the gradient to the box's first axis",
        Channel::Angle1 => "angle of the gradient to the box's second axis",
        Channel::Angle2 => "angle of the gradient to the box's third axis",
    };
    let how = match feature.modifier {
        Modifier::Value => return what.to_owned(),
        Modifier::Absolute => "absolute value",
        Modifier::Sqrt => "square root",
        Modifier::Cbrt => "cube root",
        Modifier::Square => "square",
        Modifier::Cube => "cube",
        Modifier::Log => "logarithm",
    };
    format!("{how} of the {what}")
}

/// One detection of the picture.
struct Row {
    window: (f64, f64),
    through: PointLps,
    boxes: Vec<DrawnBox>,
    points: Vec<DrawnPoint>,
    title: String,
    note: String,
}

impl Row {
    fn new(
        structure: &StructureModel,
        image: &Volume<f32>,
        detection: &Detection,
        explanation: &Explanation,
    ) -> Self {
        let trace = &detection.trace;
        let pose = |pose: &Pose, mark, name: String| DrawnBox { name, pose: *pose, mark };
        let point = |point: PointLps, mark, name: String| DrawnPoint { name, point, mark };
        let mut boxes: Vec<DrawnBox> = trace
            .modes
            .iter()
            .enumerate()
            .map(|(n, mode)| pose(mode, Mark::Mode, format!("mode {n} of {}", detection.name)))
            .collect();
        boxes.push(pose(&detection.pose, Mark::Found, detection.name.clone()));
        let candidates = trace.candidates.iter().enumerate();
        let mut points: Vec<DrawnPoint> = candidates
            .map(|(n, c)| point(c.point, Mark::Candidate, format!("position candidate {}", n + 1)))
            .collect();
        points.extend(explanation.votes.iter().take(DRAWN_VOTES).map(|vote| {
            let mark = if vote.speaks_for { Mark::For } else { Mark::Against };
            point(vote.point, mark, format!("{}, weight {:.2}", words(&vote.feature), vote.alpha))
        }));
        points.extend(
            detection.landmarks.iter().map(|l| point(l.point, Mark::Found, l.name.clone())),
        );
        // As the stages see the image.
        let window = structure
            .working
            .intensity
            .range(&image.clone().into())
            .map_or((0.0, 1.0), |range| (range.low, range.high));
        let speaking = explanation.votes.iter().filter(|v| v.speaks_for).count();
        Self {
            window,
            through: detection.pose.center,
            boxes,
            points,
            title: detection.name.clone(),
            note: format!(
                "{}, score {:.3}; {speaking} of {} weak classifiers speak for it",
                detection.status,
                detection.score,
                explanation.votes.len()
            ),
        }
    }

    fn case<'a>(&'a self, image: &'a Volume<f32>) -> Case<'a> {
        let Self { window, through, boxes, points, title, note } = self;
        Case { image, window: *window, labels: None, through: *through, boxes, points, title, note }
    }
}
