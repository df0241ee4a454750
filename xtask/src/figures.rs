//! `cargo xtask figures`: the figures of `docs/results.md`, measured by the example `figures`.
//! Those of accuracy are a training and a detection in the test cases each.

use crate::steps::{cargo, data_folder, step, target_folder};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

/// One line of the table.
struct Figure {
    name: &'static str,
    /// Below the folder of real volumes.
    dataset: &'static str,
    /// Options of the training beside data set and model.
    training: &'static [&'static str],
    /// Resampled copies of each test volume in random orientations, beside the volume itself.
    rotations: &'static str,
}

const FIGURES: [Figure; 22] = [
    Figure {
        name: "mouse",
        dataset: "mouse_skull",
        training: &["--structure", "skull"],
        rotations: "4",
    },
    Figure {
        name: "mouse-10-cases",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--cases", "10"],
        rotations: "4",
    },
    Figure {
        name: "hippocampus",
        dataset: "hippocampus",
        training: &["--structure", "hippocampus"],
        rotations: "0",
    },
    Figure { name: "mouse-landmarks", dataset: "mouse_skull", training: &[], rotations: "4" },
    Figure {
        name: "mouse-landmarks-10-cases",
        dataset: "mouse_skull",
        training: &["--cases", "10"],
        rotations: "4",
    },
    Figure { name: "hippocampus-landmarks", dataset: "hippocampus", training: &[], rotations: "0" },
    Figure {
        name: "hippocampus-landmarks-10-cases",
        dataset: "hippocampus",
        training: &["--cases", "10"],
        rotations: "0",
    },
    Figure { name: "lumbar", dataset: "lumbar_spine_mr", training: &[], rotations: "0" },
    Figure {
        name: "lumbar-10-cases",
        dataset: "lumbar_spine_mr",
        training: &["--cases", "10"],
        rotations: "0",
    },
    Figure {
        name: "lumbar-any-place",
        dataset: "lumbar_spine_mr",
        training: &["--config", "benches/figures/configs/any-place.toml"],
        rotations: "0",
    },
    Figure {
        name: "prostate-us",
        dataset: "prostate_us_mr/us.json",
        training: &[],
        rotations: "0",
    },
    Figure {
        name: "prostate-mr",
        dataset: "prostate_us_mr/mr.json",
        training: &[],
        rotations: "0",
    },
    Figure {
        name: "mouse-classification",
        dataset: "mouse_skull",
        training: &[
            "--structure",
            "skull",
            "--config",
            "benches/figures/configs/classification.toml",
        ],
        rotations: "4",
    },
    Figure {
        name: "mouse-one-tree",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/one-tree.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-hard-tree",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/hard-tree.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-forest-10",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/forest-10.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-forest-30",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/forest-30.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-random-forest",
        dataset: "mouse_skull",
        training: &[
            "--structure",
            "skull",
            "--config",
            "benches/figures/configs/random-forest.toml",
        ],
        rotations: "4",
    },
    Figure {
        name: "mouse-coarse-only",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/coarse-only.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-coarse-and-middle",
        dataset: "mouse_skull",
        training: &[
            "--structure",
            "skull",
            "--config",
            "benches/figures/configs/coarse-and-middle.toml",
        ],
        rotations: "4",
    },
    Figure {
        name: "mouse-no-edges",
        dataset: "mouse_skull",
        training: &["--structure", "skull", "--config", "benches/figures/configs/no-edges.toml"],
        rotations: "4",
    },
    Figure {
        name: "mouse-no-bootstrap",
        dataset: "mouse_skull",
        training: &[
            "--structure",
            "skull",
            "--config",
            "benches/figures/configs/no-bootstrap.toml",
        ],
        rotations: "4",
    },
];

/// Measures what these arguments say.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    match arguments {
        ["accuracy", names @ ..] => accuracy(names),
        ["absence" | "cross-validation" | "surroundings", ..] => {
            build()?;
            let mut figures = example();
            figures.args(arguments);
            step("figures", figures)
        }
        _ => bail!(
            "figures: say accuracy, absence, cross-validation or surroundings (see `cargo xtask help`)"
        ),
    }
}

/// Measures the accuracy figures of these names, or all.
fn accuracy(names: &[&str]) -> anyhow::Result<()> {
    if let Some(name) = names.iter().find(|name| FIGURES.iter().all(|f| f.name != **name)) {
        let known: Vec<&str> = FIGURES.iter().map(|f| f.name).collect();
        bail!("figures: `{name}` is none of {}", known.join(", "));
    }
    let data = data_folder()?
        .context("figures: PBT_DATA is not set (data/README.md says where to get the volumes)")?;
    build()?;
    let models = target_folder().join("figures");
    std::fs::create_dir_all(&models).with_context(|| models.display().to_string())?;
    for figure in FIGURES.iter().filter(|f| names.is_empty() || names.contains(&f.name)) {
        measure(
            figure,
            &data.join(figure.dataset),
            &models.join(figure.name).with_extension("pbt"),
        )?;
    }
    Ok(())
}

fn build() -> anyhow::Result<()> {
    step("build", cargo(&["build", "--release", "--bins", "--example", "figures"]))
}

fn example() -> Command {
    Command::new(target_folder().join("release/examples/figures"))
}

fn measure(figure: &Figure, dataset: &Path, model: &Path) -> anyhow::Result<()> {
    let mut train = Command::new(target_folder().join("release/pbt"));
    train.args(["train", "-i"]).arg(dataset).arg("-o").arg(model).args(figure.training);
    step(&format!("{}: training", figure.name), train)?;
    let mut detect = example();
    detect.arg("accuracy").arg(model).arg(dataset).args(["test", figure.rotations]);
    step(&format!("{}: test cases", figure.name), detect)
}
