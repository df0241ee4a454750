//! `cargo xtask modules`: no circle of more than two files in a target, and packages that depend
//! downwards only.

mod dependencies;
mod scan;
mod tree;

use crate::steps::{cargo, root};
use anyhow::{Context, bail};
use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tree::{ModuleTree, circles};

/// Checks all packages of the workspace. Prints what is wrong, and fails when anything is.
pub(crate) fn check() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let mut complaints = Vec::new();
    let (mut targets, mut packages) = (0, 0);
    for package in list(&metadata["packages"]) {
        let name = text(&package["name"])?;
        packages += 1;
        complaints.extend(dependencies::upward(name, local_dependencies(package)));
        for target in list(&package["targets"]) {
            targets += 1;
            complaints.extend(circles_of(Path::new(text(&target["src_path"])?))?);
        }
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("modules: {} to mend", complaints.len());
    }
    println!(
        "modules: no circle of more than two files in {targets} targets, no dependency upwards in {packages} packages"
    );
    Ok(())
}

/// What Cargo knows of the workspace's own packages.
fn metadata() -> anyhow::Result<Value> {
    let output = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("cannot run `cargo metadata`")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// The packages of the workspace that a package uses outside its tests.
fn local_dependencies(package: &Value) -> impl Iterator<Item = &str> {
    list(&package["dependencies"])
        .iter()
        .filter(|dependency| dependency["path"].is_string() && dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
}

/// The circles of the target whose root is this file, each as lines for people.
fn circles_of(file: &Path) -> anyhow::Result<Vec<String>> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let edges = ModuleTree::new(file, &read)?.edges();
    let folder = file.parent().unwrap_or(Path::new(""));
    let inside = |path: &Path| path.strip_prefix(folder).unwrap_or(path).display().to_string();
    let describe = |circle: &std::collections::BTreeSet<&Path>| {
        let mut lines = format!("{}: circle of {} files", shown(file).display(), circle.len());
        for (from, targets) in edges.iter().filter(|(from, _)| circle.contains(from.as_path())) {
            for (to, path) in targets.iter().filter(|(to, _)| circle.contains(to.as_path())) {
                // Writing to a string cannot fail.
                let _ = write!(lines, "\n  {} -> {} ({path})", inside(from), inside(to));
            }
        }
        lines
    };
    Ok(circles(&edges).iter().map(describe).collect())
}

/// The path as seen from the root of the checkout.
fn shown(path: &Path) -> PathBuf {
    path.strip_prefix(root()).unwrap_or(path).to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> anyhow::Result<&str> {
    value.as_str().context("cargo metadata: a field is missing")
}
