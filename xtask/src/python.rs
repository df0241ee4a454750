//! Python environments under `target/`.

use crate::steps::{in_ci, step, target_folder};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The interpreter of `target/NAME` with these packages, which is made unless it is there for just
/// them. `None` when it cannot be made on this machine: then what needs it is skipped, which CI does
/// not allow.
pub(crate) fn environment_or_skip(
    name: &str,
    requirements: &Path,
) -> anyhow::Result<Option<PathBuf>> {
    let text = std::fs::read_to_string(requirements)
        .with_context(|| requirements.display().to_string())?;
    match environment(name, &text) {
        Ok(python) => Ok(Some(python)),
        Err(error) if in_ci() => {
            bail!("{name}: {error:#}, and with CI=true no test may be skipped")
        }
        Err(error) => {
            println!("\n{name}: skipped: {error:#}");
            Ok(None)
        }
    }
}

/// The interpreter of `target/NAME` with the packages of this list, in the form of a requirements
/// file.
pub(crate) fn environment(name: &str, requirements: &str) -> anyhow::Result<PathBuf> {
    let folder = target_folder().join(name);
    let (python, stamp) = (folder.join("bin/python"), folder.join("requirements.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == requirements) {
        println!("\n{name}: {} is up to date", folder.display());
        return Ok(python);
    }
    let version = Command::new("python3").arg("--version").output();
    if !version.is_ok_and(|out| out.status.success()) {
        bail!("python3 not found");
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    step(&format!("{name}: environment"), make)?;
    let wanted = folder.join("wanted.txt");
    std::fs::write(&wanted, requirements).with_context(|| wanted.display().to_string())?;
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"])
        .arg("--requirement")
        .arg(&wanted);
    step(&format!("{name}: packages"), install)?;
    // Named last, so that an interrupted installation is made again.
    std::fs::rename(&wanted, &stamp).with_context(|| stamp.display().to_string())?;
    Ok(python)
}
