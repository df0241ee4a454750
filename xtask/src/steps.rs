//! What the tasks share: the folders, and commands run as named and timed steps.

use anyhow::{Context, bail};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// The folder in `PBT_DATA` as an absolute path: tests run in the folder of their crate, where a
/// relative one would point elsewhere.
pub(crate) fn data_folder() -> anyhow::Result<Option<PathBuf>> {
    let Some(folder) = env::var_os("PBT_DATA").filter(|v| !v.is_empty()) else { return Ok(None) };
    let folder = PathBuf::from(folder);
    let absolute =
        folder.canonicalize().with_context(|| format!("PBT_DATA: {}", folder.display()))?;
    if !absolute.is_dir() {
        bail!("PBT_DATA: {} is not a folder", absolute.display());
    }
    Ok(Some(absolute))
}

pub(crate) fn target_folder() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |folder| root().join(folder))
}

pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|v| v == "true")
}

pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs one command in the root of the checkout, with its output passed on.
pub(crate) fn step(name: &str, mut command: Command) -> anyhow::Result<()> {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let line = format!("{program} {}", arguments.join(" "));
    println!("\n{name}: {line}");
    let start = Instant::now();
    let status = command
        .current_dir(root())
        .status()
        .with_context(|| format!("{name}: cannot run `{line}`"))?;
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        bail!("{name} failed after {seconds:.1} s ({status}); to repeat: {line}");
    }
    println!("{name}: passed in {seconds:.1} s");
    Ok(())
}
