//! `cargo xtask wheel`: the Python package as a wheel.

use crate::python::environment;
use crate::steps::{root, step, target_folder};
use anyhow::{Context, bail};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What builds wheels, where there is none on the `PATH`.
const MATURIN: &str = "maturin==1.16.0\n";

/// Builds the wheel that is handed out, and says where it is.
pub(crate) fn run(features: &[&str]) -> anyhow::Result<()> {
    let wheel = build(&find_maturin()?, "release", features, None)?;
    println!("\npip install {}", wheel.display());
    Ok(())
}

/// Maturin on the `PATH`, or one that is installed in `target/wheel-venv`.
fn find_maturin() -> anyhow::Result<PathBuf> {
    let there = Command::new("maturin").arg("--version").output();
    if there.is_ok_and(|out| out.status.success()) {
        return Ok("maturin".into());
    }
    let python = environment("wheel-venv", MATURIN).context(
        "maturin is not on the PATH, and cannot be installed (it takes Python 3 with venv and pip, and PyPI)",
    )?;
    Ok(python.with_file_name("maturin"))
}

/// Builds the wheel with this maturin and this profile of Cargo; `path` replaces the `PATH`.
pub(crate) fn build(
    maturin: &Path,
    profile: &str,
    features: &[&str],
    path: Option<OsString>,
) -> anyhow::Result<PathBuf> {
    // Of each profile its own, so that one for tests is never handed out.
    let folder = match profile {
        "release" => target_folder().join("wheels"),
        _ => target_folder().join("wheels").join(profile),
    };
    let manifest = root().join("crates/py/Cargo.toml");
    let mut build = Command::new(maturin);
    build.args(["build", "--locked", "--profile", profile, "--manifest-path"]).arg(manifest);
    build.arg("--out").arg(&folder);
    if !features.is_empty() {
        build.arg("--features").arg(features.join(","));
    }
    if let Some(path) = path {
        build.env("PATH", path);
    }
    if let Ok(old) = wheel_in(&folder) {
        std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
    }
    step("wheel", build)?;
    wheel_in(&folder)
}

/// The wheel in a folder.
fn wheel_in(folder: &Path) -> anyhow::Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|e| e == "whl");
    match entries.filter_map(|entry| Some(entry.ok()?.path())).find(is_wheel) {
        Some(wheel) => Ok(wheel),
        None => bail!("{}: there is no wheel", folder.display()),
    }
}
