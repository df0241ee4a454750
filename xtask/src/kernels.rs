//! `cargo xtask kernels`: CUDA sources in `kernels/` to the PTX that lies in `crates/gpu/kernels/`,
//! with a pinned compiler from PyPI.

use crate::steps::{in_ci, root, step, target_folder};
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const COMPILER: &str = "nvidia-cuda-nvrtc-cu12==12.4.127";
/// Any device since Turing; no contraction and IEEE rounding, so that floats have the CPU's bits.
const OPTIONS: [&str; 6] = [
    "--gpu-architecture=compute_75",
    "--std=c++17",
    "-fmad=false",
    "-ftz=false",
    "-prec-div=true",
    "-prec-sqrt=true",
];

/// Compiles all kernels and writes the lock.
pub(crate) fn build() -> anyhow::Result<()> {
    let folder = committed();
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    for old in files(&folder, &["ptx"])? {
        std::fs::remove_file(&old).with_context(|| old.display().to_string())?;
    }
    compile(&folder)?;
    let lock = lock(&folder)?;
    let path = folder.join("kernels.lock");
    std::fs::write(&path, lock).with_context(|| path.display().to_string())
}

/// Checks that the committed kernels are those of the sources: by hash always, and by compiling
/// again where Python is at hand.
pub(crate) fn check() -> anyhow::Result<()> {
    let folder = committed();
    let path = folder.join("kernels.lock");
    let locked = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    if locked != lock(&folder)? {
        bail!(
            "kernels: crates/gpu/kernels is not what kernels/ gives (run `cargo xtask kernels` and commit)"
        );
    }
    if !in_ci()
        && !Command::new("python3").arg("--version").output().is_ok_and(|out| out.status.success())
    {
        println!("\nkernels: not compiled again: python3 not found");
        return Ok(());
    }
    let again = target_folder().join("kernels");
    std::fs::create_dir_all(&again).with_context(|| again.display().to_string())?;
    compile(&again)?;
    for file in files(&folder, &["ptx"])? {
        let name = file.file_name().unwrap_or_default();
        if std::fs::read(&file)? != std::fs::read(again.join(name))? {
            bail!(
                "kernels: compiled again, {} differs (run `cargo xtask kernels` and commit)",
                name.to_string_lossy()
            );
        }
    }
    Ok(())
}

fn committed() -> PathBuf {
    root().join("crates/gpu/kernels")
}

/// The files with one of the extensions, by name.
fn files(folder: &Path, extensions: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let paths: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<std::io::Result<_>>()?;
    let wanted = |p: &PathBuf| p.extension().is_some_and(|e| extensions.iter().any(|x| e == *x));
    let mut chosen: Vec<PathBuf> = paths.into_iter().filter(wanted).collect();
    chosen.sort();
    Ok(chosen)
}

/// What the compiled kernels in `folder` are made of: compiler, options, and the hashes of all
/// files.
fn lock(folder: &Path) -> anyhow::Result<String> {
    let mut text = format!("compiler {COMPILER}\noptions {}\n", OPTIONS.join(" "));
    for path in
        files(&root().join("kernels"), &["cu", "cuh"])?.into_iter().chain(files(folder, &["ptx"])?)
    {
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        writeln!(
            text,
            "sha256 {:x} {}",
            Sha256::digest(bytes),
            path.file_name().unwrap_or_default().to_string_lossy()
        )?;
    }
    Ok(text)
}

fn compile(folder: &Path) -> anyhow::Result<()> {
    let python = compiler()?;
    let sources = root().join("kernels");
    let mut command = Command::new(python);
    command
        .arg(sources.join("nvrtc.py"))
        .arg(folder)
        .args(files(&sources, &["cu"])?)
        .arg("--")
        .args(OPTIONS);
    step("kernels", command)
}

/// The interpreter of a virtual environment with the pinned compiler, made where it is not there
/// yet.
fn compiler() -> anyhow::Result<PathBuf> {
    let folder = target_folder().join("kernels-venv");
    let (python, stamp) = (folder.join("bin/python"), folder.join("compiler.txt"));
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == COMPILER) {
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    step("kernels: environment", make)?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", COMPILER]);
    step("kernels: compiler", install)?;
    std::fs::write(&stamp, COMPILER).with_context(|| stamp.display().to_string())?;
    Ok(python)
}
