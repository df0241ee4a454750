//! `cargo xtask models`: the demo models of `models/`, each with its card, from their recipes
//! `models/NAME.toml`.

use crate::steps::{cargo, data_folder, root, step, target_folder};
use anyhow::{Context, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::Table;

/// What a model consists of, beside its recipe.
const FILES: [&str; 3] = ["pbt", "md", "json"];

/// What is committed of every model. The card holds the model's hash, so that it stands for the
/// model where that is not committed.
const CARD: [&str; 2] = ["md", "json"];

/// Trains the models of these names, or all, into `models/`; or, to check them, elsewhere, and
/// compares with those that are there.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (check, names) = match arguments {
        ["--check", names @ ..] => (true, names),
        names => (false, names),
    };
    let known = recipes()?;
    if let Some(name) = names.iter().find(|name| !known.iter().any(|k| k == *name)) {
        bail!("models: `{name}` is none of {}", known.join(", "));
    }
    let wanted = |name: &&String| match names {
        [] => !check || is_there(name),
        names => names.contains(&name.as_str()),
    };
    step("build", cargo(&["build", "--release", "--bins", "--example", "figures"]))?;
    for name in known.iter().filter(wanted) {
        let made = target_folder().join("models");
        std::fs::create_dir_all(&made).with_context(|| made.display().to_string())?;
        make(name, &made)?;
        if check {
            compare(name, &made)?;
        } else {
            FILES.iter().try_for_each(|extension| copy(name, &made, extension))?;
        }
    }
    Ok(())
}

/// Whether the model itself is in `models/`: most need data that are not at hand.
fn is_there(name: &str) -> bool {
    folder().join(name).with_extension("pbt").is_file()
}

fn folder() -> PathBuf {
    root().join("models")
}

/// The names of all recipes, sorted.
fn recipes() -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder()).with_context(|| folder().display().to_string())?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let recipes = paths.filter(|path| path.extension() == Some(OsStr::new("toml")));
    let mut names: Vec<String> =
        recipes.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Trains, evaluates and writes the card, all into a folder.
fn make(name: &str, made: &Path) -> anyhow::Result<()> {
    let recipe = folder().join(name).with_extension("toml");
    let text = std::fs::read_to_string(&recipe).with_context(|| recipe.display().to_string())?;
    let table: Table = text.parse().with_context(|| recipe.display().to_string())?;
    let part = |key: &str| table.get(key).and_then(|value| value.as_table());
    let (Some(data), Some(training)) = (part("data"), part("training")) else {
        bail!("{}: needs the tables `data` and `training`", recipe.display());
    };
    let dataset = dataset(name, data, made)?;
    let model = made.join(name).with_extension("pbt");
    let options = training.get("options").and_then(|value| value.as_array());
    let mut train = pbt("train");
    train.arg("-i").arg(&dataset).arg("-o").arg(&model);
    train.args(options.into_iter().flatten().filter_map(|option| option.as_str()));
    step(&format!("{name}: training"), train)?;

    let report = |kind: &str| made.join(format!("{name}.{kind}.json"));
    let evaluate = |kind: &str, more: &[&str]| {
        let mut evaluate = pbt("evaluate");
        evaluate.arg("-m").arg(&model).arg("-i").arg(&dataset);
        step(&format!("{name}: {kind}"), {
            evaluate.arg("-o").arg(report(kind)).args(more);
            evaluate
        })
    };
    evaluate("report", &[])?;
    let mut card = Command::new(target_folder().join("release/examples/figures"));
    card.arg("card").args([&recipe, &model, &report("report")]).arg("-o").arg(made);
    if training.get("labels").and_then(|value| value.as_bool()).unwrap_or(false) {
        evaluate("labels", &["--labels"])?;
        card.arg("--labels").arg(report("labels"));
    }
    step(&format!("{name}: card"), card)
}

/// Phantoms are made; real volumes must be there.
fn dataset(name: &str, data: &Table, made: &Path) -> anyhow::Result<PathBuf> {
    let text = |key: &str| data.get(key).and_then(|value| value.as_str());
    if let Some(modality) = text("phantom") {
        let phantoms = made.join("phantoms");
        let mut demo = pbt("demo");
        demo.args(["--data-only", "--modality", modality, "-o"]).arg(&phantoms);
        if let Some(unseen) = data.get("unseen") {
            demo.arg("--unseen").arg(unseen.to_string());
        }
        step(&format!("{name}: phantoms"), demo)?;
        return Ok(phantoms.join(modality));
    }
    let Some(dataset) = text("dataset") else {
        bail!("{name}: data: needs either `phantom` or `dataset`");
    };
    let volumes = data_folder()?.with_context(|| {
        format!("{name}: PBT_DATA is not set (data/README.md says where to get the volumes)")
    })?;
    Ok(volumes.join(dataset))
}

fn pbt(command: &str) -> Command {
    let mut pbt = Command::new(target_folder().join("release/pbt"));
    pbt.arg(command);
    pbt
}

fn copy(name: &str, made: &Path, extension: &str) -> anyhow::Result<()> {
    let [from, to] = [made, &folder()].map(|folder| folder.join(name).with_extension(extension));
    std::fs::copy(&from, &to).with_context(|| to.display().to_string())?;
    println!("{}", to.display());
    Ok(())
}

/// Fails where a card, or a model that is there, is not what the recipe makes.
fn compare(name: &str, made: &Path) -> anyhow::Result<()> {
    let model = is_there(name).then_some("pbt");
    for extension in CARD.into_iter().chain(model) {
        let [made, committed] =
            [made, &folder()].map(|folder| folder.join(name).with_extension(extension));
        let read = |path: &Path| std::fs::read(path).with_context(|| path.display().to_string());
        if read(&made)? != read(&committed)? {
            bail!(
                "models: {} is not what its recipe makes (run `cargo xtask models {name}` and commit what it writes)",
                committed.display()
            );
        }
    }
    println!("\n{name}: the committed files are those of the recipe");
    Ok(())
}
