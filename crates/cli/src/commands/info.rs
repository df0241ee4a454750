//! `pbt info`

mod masks;
mod network;
mod regions;
mod series;

use crate::Failure;
use crate::args::{Global, Info};
use crate::output::{Written, check_output, file_size, print, print_text, say};
use crate::session::{ListedDevice, LoadedModel, ModelCard, list_devices};
use crate::table::{row, table};
use pbt_detect::{
    Certainty, CloseUp, LandmarkPrior, Network, Prior, Provenance, Refinement, Shrinkage,
    StructureModel, WorkingSpec,
};
use pbt_io::{is_dicom_path, is_image_path, write_atomically};
use pbt_tree::{ALPHA_BITS, Classifier, Patch};
use pbt_volume::{IntensityPolicy, LengthUnit};
use serde::Serialize;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

/// So many features of a stage are shown.
const MOST_USED: usize = 10;

/// What `--json` prints, schema `pbt-info/1`.
#[derive(Serialize)]
struct InfoFile<'a> {
    schema: &'static str,
    pbt_version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelInfo<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    devices: Option<Vec<ListedDevice>>,
}

#[derive(Serialize)]
struct ModelInfo<'a> {
    path: String,
    bytes: usize,
    sha256: &'a str,
    /// The card that lies beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    card: Option<&'a Value>,
    /// The same for people.
    #[serde(skip)]
    card_text: Option<&'a str>,
    provenance: &'a Provenance,
    structures: Vec<StructureInfo<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masks: Vec<masks::MasksInfo<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    regions: Option<regions::RegionsInfo<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<&'a Network>,
    /// The network drawn as text.
    #[serde(skip)]
    drawing: Option<String>,
}

#[derive(Serialize)]
struct StructureInfo<'a> {
    name: &'a str,
    kind: &'static str,
    cases: usize,
    /// Of a structure that may occur several times.
    #[serde(skip_serializing_if = "Option::is_none")]
    most_instances: Option<usize>,
    working: &'a WorkingSpec,
    /// Of images of several channels the one that is searched for the position.
    #[serde(skip_serializing_if = "Option::is_none")]
    searched_channel: Option<&'a str>,
    prior: &'a Prior,
    /// Where cases were few.
    #[serde(skip_serializing_if = "Option::is_none")]
    shrinkage: Option<Shrinkage>,
    /// Where there were enough cases to hold some out.
    #[serde(skip_serializing_if = "Option::is_none")]
    certainty: Option<&'a Certainty>,
    stages: Vec<StageInfo>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    landmarks: &'a [LandmarkPrior],
    /// What landmarks are sought in, where it is finer than the working grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    close_up: Option<&'a CloseUp>,
}

/// A stage in the order of detection.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum StageInfo {
    /// Trees.
    Classifier {
        stage: String,
        trees: usize,
        nodes: usize,
        weak_classifiers: usize,
        features: usize,
        most_used: Vec<FeatureUse>,
    },
    /// Linear maps from image samples in the posed box to a step of the pose.
    Regression { stage: String, regressors: usize, features: usize },
}

#[derive(Serialize)]
struct FeatureUse {
    feature: String,
    /// Weak classifiers that use it.
    times: usize,
    /// Sum of their weights.
    alpha: f64,
}

pub(super) fn run(args: &Info, global: &Global) -> Result<ExitCode, Failure> {
    if let Some(path) = args.model.as_deref().filter(|path| path.is_dir() || is_dicom_path(path)) {
        for (option, is_given) in [("--svg", args.svg.is_some()), ("--devices", args.devices)] {
            if is_given {
                return Err(Failure::usage(format!(
                    "{}: {option}: goes with a model, and this is looked at for series of DICOM (leave it out)",
                    path.display()
                )));
            }
        }
        return series::run(path, args.json);
    }
    if let Some(path) = args.model.as_deref().filter(|path| is_image_path(path) && path.is_file()) {
        return Err(Failure::input(
            path,
            "file: is an image, not a model (`pbt validate` looks at images)",
        ));
    }
    let model = args.model.as_deref().map(LoadedModel::open).transpose()?;
    let card = model.as_ref().and_then(|loaded| match ModelCard::of(loaded) {
        Ok(card) => card,
        Err(why) => {
            say(global.quiet, format_args!("warning: {why}"));
            None
        }
    });
    let (devices, no_gpu) =
        if args.devices { list_devices(global.threads) } else { (Vec::new(), None) };
    let devices = args.devices.then_some(devices);
    if let Some(reason) = no_gpu {
        say(global.quiet, format_args!("no GPU: {reason}"));
    }
    if let Some(path) = &args.svg {
        let Some(loaded) = &model else {
            return Err(Failure::usage("--svg draws the network of a model (name the model)"));
        };
        check_output(path, Written::Network)?;
        let network = loaded.model.network.as_ref().filter(|network| !network.arcs.is_empty());
        let Some(network) = network else {
            return Err(Failure::usage(format!(
                "--svg: {} has no network: it needs two or more boxes",
                loaded.path.display()
            )));
        };
        let svg = network::svg(&loaded.model, network);
        write_atomically(path, |writer| writer.write_all(svg.as_bytes()))?;
    }
    let info = InfoFile {
        schema: "pbt-info/1",
        pbt_version: env!("CARGO_PKG_VERSION"),
        model: model.as_ref().map(|loaded| model_info(loaded, card.as_ref())),
        devices,
    };
    if args.json {
        print((serde_json::to_string_pretty(&info).map_err(Failure::other)? + "\n").as_bytes())?;
    } else {
        print_text(&text(&info, global.verbose))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn model_info<'a>(loaded: &'a LoadedModel, card: Option<&'a ModelCard>) -> ModelInfo<'a> {
    ModelInfo {
        path: loaded.path.display().to_string(),
        bytes: loaded.bytes,
        sha256: &loaded.sha256,
        card: card.map(|card| &card.record),
        card_text: card.map(|card| card.text.as_str()),
        provenance: &loaded.model.provenance,
        structures: loaded
            .model
            .structures
            .iter()
            .enumerate()
            .map(|(n, s)| structure_info(s, loaded.model.certainty_of(n)))
            .collect(),
        masks: loaded
            .model
            .masks
            .iter()
            .map(|stage| masks::MasksInfo::new(&loaded.model, stage))
            .collect(),
        regions: loaded.model.regions.as_ref().map(regions::RegionsInfo::new),
        network: loaded.model.network.as_ref(),
        drawing: loaded.model.network.as_ref().map(|network| network::text(&loaded.model, network)),
    }
}

fn structure_info<'a>(
    s: &'a StructureModel,
    certainty: Option<&'a Certainty>,
) -> StructureInfo<'a> {
    let mut stages: Vec<StageInfo> = s
        .classifiers()
        .into_iter()
        .map(|(stage, c, features)| classifier_info(stage, c, &features))
        .collect();
    if let Refinement::Regression(cascade) = &s.refinement {
        // The refinement is the last but one.
        let features = cascade.regressors.iter().map(|r| r.spec.patch.len()).sum();
        let refinement = StageInfo::Regression {
            stage: "refinement".to_owned(),
            regressors: cascade.regressors.len(),
            features,
        };
        stages.insert(stages.len() - 1, refinement);
    }
    if let Some(landmarks) = &s.landmarks {
        stages.extend(landmarks.regressors.iter().enumerate().map(|(n, regressor)| {
            StageInfo::Regression {
                stage: format!("landmarks {}", n + 1),
                regressors: regressor.groups.len(),
                features: regressor.groups.len()
                    * regressor.spec.patches.iter().map(Patch::len).sum::<usize>(),
            }
        }));
    }
    StructureInfo {
        name: &s.name,
        kind: "box",
        cases: s.cases,
        most_instances: s.most_instances(),
        working: &s.working,
        searched_channel: s
            .working
            .channels
            .get(s.position.spec.channel)
            .map(|channel| channel.name.as_str()),
        prior: &s.prior,
        shrinkage: s.verification.spec.shrinkage,
        certainty,
        stages,
        landmarks: s.landmarks(),
        close_up: s.landmarks.as_ref().and_then(|l| l.close_up.as_ref()),
    }
}

fn classifier_info(stage: String, classifier: &Classifier, features: &[String]) -> StageInfo {
    let weaks = || classifier.trees.iter().flat_map(|tree| &tree.weaks);
    let mut used: Vec<(usize, usize, i64)> = (0..features.len()).map(|f| (f, 0, 0)).collect();
    for weak in weaks() {
        // Loading has checked that every feature is there.
        if let Some((_, times, alpha)) = used.get_mut(weak.feature as usize) {
            *times += 1;
            *alpha += i64::from(weak.alpha);
        }
    }
    used.sort_by_key(|&(feature, _, alpha)| (std::cmp::Reverse(alpha), feature));
    let most_used = used.into_iter().take(MOST_USED).map(|(feature, times, alpha)| FeatureUse {
        feature: features[feature].clone(),
        times,
        alpha: alpha as f64 / f64::from(1u32 << ALPHA_BITS),
    });
    StageInfo::Classifier {
        stage,
        trees: classifier.trees.len(),
        nodes: classifier.trees.iter().map(|tree| tree.nodes.len()).sum(),
        weak_classifiers: weaks().count(),
        features: features.len(),
        most_used: most_used.collect(),
    }
}

fn text(info: &InfoFile<'_>, features: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if let Some(model) = &info.model {
        if let Some(card) = model.card_text {
            let _ = writeln!(text, "{card}");
        }
        let _ = write!(text, "{}", model_text(model, features));
    }
    for device in info.devices.iter().flatten() {
        let _ = match device.memory_bytes {
            Some(bytes) => writeln!(
                text,
                "{}: {}, {:.0} GB",
                device.device,
                device.record.name,
                bytes as f64 / 1e9
            ),
            None => writeln!(
                text,
                "{}: {}, {} threads",
                device.device, device.record.name, device.record.threads
            ),
        };
    }
    text
}

/// `features`: with those that stages use most; of a model of one structure always.
fn model_text(model: &ModelInfo<'_>, features: bool) -> String {
    let p = model.provenance;
    let copies = match p.copies {
        0 => String::new(),
        1 => ", each with a copy".to_owned(),
        copies => format!(", each with {copies} copies"),
    };
    let mut lines = vec![
        row(["model", &model.path]),
        row(["size".to_owned(), file_size(model.bytes)]),
        row(["sha256", model.sha256]),
        row(["trained by".to_owned(), format!("pbt {}, seed {}", p.pbt_version, p.seed)]),
        row([
            "trained on".to_owned(),
            format!("{} ({}), {} cases{copies}", p.dataset, p.modality, p.cases),
        ]),
        row(["training hash", &p.training_sha256]),
    ];
    for s in &model.structures {
        lines.push(Vec::new());
        lines.extend(structure_lines(s, p.unit));
    }
    for masks in &model.masks {
        lines.push(Vec::new());
        lines.extend(masks.lines(p.unit));
    }
    if let Some(regions) = &model.regions {
        lines.push(Vec::new());
        lines.extend(regions.lines(p.unit));
    }
    let mut text = table(2, &lines);
    if let Some(drawing) = &model.drawing {
        let _ = write!(text, "\n{drawing}");
    }
    let features = features || model.structures.len() == 1;
    for s in &model.structures {
        let _ =
            write!(text, "\n{}: stages\n{}", s.name, indented(&table(1, &stage_rows(&s.stages))));
        for stage in s.stages.iter().filter(|_| features) {
            let StageInfo::Classifier { stage, most_used, .. } = stage else { continue };
            let mut rows = vec![row(["alpha", "times", "feature"])];
            rows.extend(
                most_used.iter().map(|u| {
                    row([format!("{:.2}", u.alpha), u.times.to_string(), u.feature.clone()])
                }),
            );
            // The last column is text: flush left without blanks after it.
            rows.iter_mut().for_each(|r| r[0] = format!("{:>7}", r[0]));
            rows.iter_mut().for_each(|r| r[1] = format!("{:>5}", r[1]));
            let _ = write!(
                text,
                "\n{}: {stage}: features used most\n{}",
                s.name,
                indented(&table(3, &rows))
            );
        }
    }
    if !features && !model.structures.is_empty() {
        text.push_str("\nwith -v: the features that each stage uses most\n");
    }
    text
}

fn structure_lines(s: &StructureInfo<'_>, unit: LengthUnit) -> Vec<Vec<String>> {
    let (w, prior) = (s.working, s.prior);
    let intensity = match &w.channels[..] {
        [] => policy_words(&w.intensity),
        several => format!("{} channels", several.len()),
    };
    let orientation = match prior.any_orientation {
        true => "any".to_owned(),
        false => format!(
            "as in training, {:.1} degrees from the middle one (root mean square)",
            prior.spread_rad.to_degrees()
        ),
    };
    // In a plane the third edge says nothing.
    let edges = prior.mean_size_mm.iter().take(if prior.flat { 2 } else { 3 });
    let edges: Vec<String> = edges.map(|mm| format!("{mm:.1}")).collect();
    let size = format!("{} {unit}", edges.join(" x "));
    let mut lines = vec![
        row([
            "structure".to_owned(),
            match s.most_instances {
                None => format!("{} ({}), {} cases", s.name, s.kind, s.cases),
                Some(most) => format!(
                    "{} ({}, many instances, up to {most} in a training image), {} cases",
                    s.name, s.kind, s.cases
                ),
            },
        ]),
        row([
            "working grid".to_owned(),
            format!("{:.3} {unit}, {} levels, {intensity}", w.spacing_mm, w.levels),
        ]),
        row(["mean size".to_owned(), size]),
        row(["orientation".to_owned(), orientation]),
    ];
    for (n, channel) in w.channels.iter().enumerate() {
        let searched = s.searched_channel.filter(|name| *name == channel.name);
        let searched = searched.map_or("", |_| ", searched for the position");
        let words = policy_words(&channel.intensity);
        lines.push(row([
            format!("channel {}", n + 1),
            format!("{}: {words}{searched}", channel.name),
        ]));
    }
    if let Some(s) = &s.shrinkage {
        lines.push(row([
            "shrinkage".to_owned(),
            format!(
                "keeps {:.0} % of the rotation and {:.0} % of the size change from the mean; \
                 draws by {:.1} degrees and {:.0} % at most",
                100.0 * s.rotation,
                100.0 * s.size,
                s.most().angle_rad.to_degrees(),
                100.0 * s.most().log_size,
            ),
        ]));
    }
    if s.certainty.is_none() {
        let what = "nothing: scores were not measured, and mean little".to_owned();
        lines.push(row(["held out".to_owned(), what]));
    }
    if let Some(Certainty { held_out, loose_ends, presence, .. }) = s.certainty {
        let radius = held_out.radius_90_mm.map_or_else(
            || "too few for a radius".to_owned(),
            |mm| format!("90 % of those found within {mm:.2} {unit}"),
        );
        let ends =
            if *loose_ends { "; its ends are loose: right means across its length" } else { "" };
        lines.push(row([
            "held out".to_owned(),
            format!(
                "{} of {} right, {} found, {radius}; scores up to {:.2}{ends}",
                held_out.right,
                held_out.subjects,
                held_out.found,
                held_out.highest_score(),
            ),
        ]));
        if let Some(presence) = presence {
            lines.push(row([
                "absence".to_owned(),
                format!(
                    "held out, {} of {} without it called absent, {} of {} with it",
                    presence.absent, presence.without, presence.missed, presence.with,
                ),
            ]));
        }
    }
    if !s.landmarks.is_empty() {
        lines.push(row(["landmarks".to_owned(), landmark_names(s.landmarks)]));
        if let Some(close_up) = s.close_up {
            let spacing_mm = close_up.working(s.working).spacing_mm;
            lines.push(row([
                "close-up".to_owned(),
                format!("{spacing_mm:.3} {unit}, {:.2} D about the box", close_up.border),
            ]));
        }
    }
    lines
}

/// How intensities become 12 bits.
fn policy_words(policy: &IntensityPolicy) -> String {
    match policy {
        IntensityPolicy::Window { low, high } => format!("window {low:.0} to {high:.0}"),
        IntensityPolicy::Percentiles { low_percent, high_percent } => {
            format!("percentiles {low_percent} to {high_percent}")
        }
    }
}

/// The first names, and how many there are in all.
fn landmark_names(landmarks: &[LandmarkPrior]) -> String {
    let names: Vec<&str> = landmarks.iter().take(12).map(|l| l.name.as_str()).collect();
    let more = if landmarks.len() > names.len() { ", …" } else { "" };
    format!("{}: {}{more}", landmarks.len(), names.join(", "))
}

fn stage_rows(stages: &[StageInfo]) -> Vec<Vec<String>> {
    let mut rows = vec![row(["stage", "trees", "nodes", "weak classifiers", "features"])];
    rows.extend(stages.iter().map(|stage| match stage {
        StageInfo::Classifier { stage, trees, nodes, weak_classifiers, features, .. } => {
            let mut cells = row([stage.as_str()]);
            cells.extend([trees, nodes, weak_classifiers, features].map(|n| n.to_string()));
            cells
        }
        StageInfo::Regression { stage, regressors, features } => {
            let mut cells =
                row([format!("{stage} ({regressors} regressors)").as_str(), "-", "-", "-"]);
            cells.push(features.to_string());
            cells
        }
    }));
    rows
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
