//! The card of a model: what people and programs should know before they use it. Its words come from
//! the recipe `models/NAME.toml`, its numbers from the model and from a report of `pbt evaluate`.

mod accuracy;
mod markdown;

use accuracy::Accuracy;
use anyhow::{Context, bail};
use pbt::session::{CARD_SCHEMA, LoadedModel};
use pbt_evaluate::{Comparison, RegionSummary};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Makes the card of a model.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Recipe
    recipe: PathBuf,
    /// Model
    model: PathBuf,
    /// Report of `pbt evaluate`
    report: PathBuf,
    /// Report of `pbt evaluate --labels`
    #[arg(long)]
    labels: Option<PathBuf>,
    /// Folder for NAME.json and NAME.md
    #[arg(short, long)]
    output: PathBuf,
}

/// `models/NAME.toml`: how a model is made, and what is said of it that no program can measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    intended_use: String,
    data: Data,
    training: TrainingRecipe,
    structures: Vec<StructureWords>,
    /// What the cases with the largest errors show.
    failures: Vec<String>,
    limits: Vec<String>,
}

/// Where the data come from.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Data {
    name: String,
    source: String,
    licence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    references: Option<String>,
    /// Of phantoms: the modality of `pbt demo`, and the number of test cases.
    #[serde(skip_serializing)]
    phantom: Option<String>,
    #[serde(skip_serializing)]
    #[expect(dead_code, reason = "read by `cargo xtask models`")]
    unseen: Option<u16>,
    /// Of real volumes: the data set below `PBT_DATA`.
    #[serde(skip_serializing)]
    dataset: Option<String>,
    /// What lengths are counted in, if not mm.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TrainingRecipe {
    /// Options of `pbt train`, beside data set and model.
    options: Vec<String>,
    /// Licence of the model.
    licence: String,
    #[expect(dead_code, reason = "read by `cargo xtask models`")]
    labels: Option<bool>,
}

/// Structures that share a definition.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct StructureWords {
    name: String,
    kind: String,
    definition: String,
}

/// `NAME.json`. Names are those of a MONAI bundle's metadata where there is one for it.
#[derive(Serialize)]
struct Card {
    schema: &'static str,
    name: String,
    intended_use: String,
    not_a_medical_device: &'static str,
    model: ModelFacts,
    data: DataFacts,
    training: Training,
    structures: Vec<StructureWords>,
    accuracy: Accuracy,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    labels: Vec<RegionSummary>,
    failures: Vec<String>,
    limits: Vec<String>,
}

const NOT_A_DEVICE: &str = "Not a medical device. For research only: nothing here is validated for diagnosis, \
                            treatment or any other clinical use.";

#[derive(Serialize)]
struct ModelFacts {
    file: String,
    bytes: usize,
    sha256: String,
    licence: String,
}

#[derive(Serialize)]
struct DataFacts {
    #[serde(flatten)]
    source: Data,
    modality: String,
    training_cases: usize,
    /// Over names, images and poses of the training cases.
    training_sha256: String,
}

#[derive(Serialize)]
struct Training {
    command: String,
    pbt_version: String,
    seed: u64,
}

/// What is needed of a report.
#[derive(Deserialize)]
struct Report {
    split: Option<String>,
    failed: Vec<serde_json::Value>,
    records: Vec<Comparison>,
    summary: pbt_evaluate::Summaries,
}

#[derive(Deserialize)]
struct LabelsReport {
    summary: Vec<RegionSummary>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let path = &arguments.recipe;
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let recipe: Recipe = toml::from_str(&text).with_context(|| path.display().to_string())?;
    let loaded = LoadedModel::open(&arguments.model).map_err(|f| anyhow::anyhow!("{f}"))?;
    let report: Report = read_json(&arguments.report)?;
    if !report.failed.is_empty() {
        bail!("{}: failed: some cases could not be read", arguments.report.display());
    }
    let labels = match &arguments.labels {
        Some(path) => read_json::<LabelsReport>(path)?.summary,
        None => Vec::new(),
    };
    let card = card(recipe, &loaded, report, labels)?;
    let write = |extension: &str, text: &str| {
        let path = arguments.output.join(&card.name).with_extension(extension);
        std::fs::write(&path, text).with_context(|| path.display().to_string())
    };
    write("json", &(serde_json::to_string_pretty(&card)? + "\n"))?;
    write("md", &markdown::text(&card))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> anyhow::Result<T> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    serde_json::from_slice(&bytes).with_context(|| path.display().to_string())
}

fn card(
    recipe: Recipe,
    loaded: &LoadedModel,
    report: Report,
    labels: Vec<RegionSummary>,
) -> anyhow::Result<Card> {
    let name = loaded.record().name;
    let provenance = &loaded.model.provenance;
    let from = match (&recipe.data.phantom, &recipe.data.dataset) {
        (Some(_), None) => recipe.data.source.trim_matches('`').to_owned() + " && ",
        (None, Some(_)) => String::new(),
        _ => bail!("{name}: data: needs either `phantom` or `dataset`"),
    };
    let dataset = match (&recipe.data.phantom, &recipe.data.dataset) {
        (Some(phantom), _) => format!("pbt-demo/{phantom}"),
        (_, dataset) => format!("$PBT_DATA/{}", dataset.as_deref().unwrap_or_default()),
    };
    let options: String =
        recipe.training.options.iter().map(|option| format!(" {option}")).collect();
    let known = |s: &StructureWords| {
        report.summary.structures.iter().any(|f| f.structure.as_deref() == Some(&s.name))
    };
    if let Some(unknown) = recipe.structures.iter().find(|s| s.kind == "box" && !known(s)) {
        bail!("{name}: structures: the report has no `{}`", unknown.name);
    }
    Ok(Card {
        schema: CARD_SCHEMA,
        intended_use: recipe.intended_use,
        not_a_medical_device: NOT_A_DEVICE,
        model: ModelFacts {
            file: format!("{name}.pbt"),
            bytes: loaded.bytes,
            sha256: loaded.sha256.clone(),
            licence: recipe.training.licence,
        },
        data: DataFacts {
            source: recipe.data,
            modality: provenance.modality.clone(),
            training_cases: provenance.cases,
            training_sha256: provenance.training_sha256.clone(),
        },
        training: Training {
            command: format!("{from}pbt train -i {dataset} -o {name}.pbt{options}"),
            pbt_version: provenance.pbt_version.clone(),
            seed: provenance.seed,
        },
        structures: recipe.structures,
        accuracy: Accuracy::new(
            format!("pbt evaluate -m {name}.pbt -i {dataset}"),
            report.split.unwrap_or_default(),
            &report.records,
            &report.summary,
        ),
        labels,
        failures: recipe.failures,
        limits: recipe.limits,
        name,
    })
}
