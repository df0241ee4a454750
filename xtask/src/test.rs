//! `cargo xtask test`: what CI runs, as named and timed steps.

use crate::steps::{cargo, data_folder, in_ci, root, step, target_folder};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The seed of the property tests' random cases, a variable that `proptest` reads. The same on
/// every run here, so that one commit always gives one answer; `cargo test` alone draws fresh
/// cases.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";

/// How much to test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Format, lints and unit tests.
    Fast,
    /// All that CI runs.
    Everything,
}

/// Runs the steps in order and stops at the first that fails.
pub(crate) fn run(extent: Extent) -> anyhow::Result<()> {
    let start = Instant::now();
    let data = data_folder()?;
    match &data {
        Some(folder) => println!("PBT_DATA is {}", folder.display()),
        None if in_ci() => bail!("PBT_DATA is not set, and with CI=true no test may be skipped"),
        None => println!(
            "PBT_DATA is not set: tests on real volumes are skipped (data/README.md says where to get the volumes)"
        ),
    }

    step("format", cargo(&["fmt", "--all", "--check"]))?;
    crate::modules::check()?;
    step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let mut tests = cargo(&["test", "--workspace"]);
    if std::env::var_os(PROPTEST_SEED).is_none() {
        tests.env(PROPTEST_SEED, "1");
    }
    if let Some(folder) = data {
        tests.env("PBT_DATA", folder);
    }
    crate::kernels::check()?;
    match extent {
        Extent::Fast => {
            tests.args(["--lib", "--bins"]);
            step("unit tests", tests)?;
        }
        Extent::Everything => {
            let mut documentation = cargo(&["doc", "--workspace", "--no-deps"]);
            documentation.env("RUSTDOCFLAGS", "-D warnings");
            step("documentation", documentation)?;
            if let Some(python) = oracle_python()? {
                with_jpeg_ls(&mut tests, &python)?;
                tests.env("PBT_ORACLE_PYTHON", python);
            }
            step("tests", tests)?;
        }
    }
    println!("\nall passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Turns on JPEG-LS, whose decoder is C++: where there is a compiler for that, which CI must have.
/// The other thing it needs, cmake, comes with the oracles.
fn with_jpeg_ls(tests: &mut Command, python: &Path) -> anyhow::Result<()> {
    let works = |program: &Path| {
        Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success())
    };
    let tools = python.parent().unwrap_or(Path::new(""));
    if !works(Path::new("c++")) || !works(&tools.join("cmake")) {
        if in_ci() {
            bail!(
                "JPEG-LS: needs a C++ compiler and cmake, and with CI=true nothing may be skipped"
            );
        }
        println!("\nJPEG-LS: left out: needs a C++ compiler and cmake");
        return Ok(());
    }
    let mut path = tools.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    tests.env("PATH", path).args(["--features", "pbt/jpeg-ls"]);
    Ok(())
}

/// The interpreter of the environment in which the oracles (nibabel, SimpleITK and others) are
/// installed. `None` when there is nothing to install, or when it cannot be made on this machine:
/// then the tests that need it are skipped, which CI does not allow.
fn oracle_python() -> anyhow::Result<Option<PathBuf>> {
    let requirements = root().join("tests/oracles/requirements.txt");
    if !requirements.exists() {
        return Ok(None);
    }
    let reason = if Command::new("python3")
        .arg("--version")
        .output()
        .is_ok_and(|out| out.status.success())
    {
        match install_oracles(&requirements) {
            Ok(python) => return Ok(Some(python)),
            Err(error) => format!("{error:#}"),
        }
    } else {
        "python3 not found".to_owned()
    };
    if in_ci() {
        bail!("oracles: {reason}, and with CI=true no test may be skipped");
    }
    println!("\noracles: skipped: {reason}");
    Ok(None)
}

/// Makes the environment, unless it is there for just these requirements.
fn install_oracles(requirements: &Path) -> anyhow::Result<PathBuf> {
    let folder = target_folder().join("oracle-venv");
    let (python, stamp) = (folder.join("bin/python"), folder.join("requirements.txt"));
    let wanted = std::fs::read(requirements).with_context(|| requirements.display().to_string())?;
    if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        println!("\noracles: {} is up to date", folder.display());
        return Ok(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&folder);
    step("oracles: environment", make)?;
    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements);
    step("oracles: packages", install)?;
    // Written last, so that an interrupted installation is made again.
    std::fs::write(&stamp, wanted).with_context(|| stamp.display().to_string())?;
    Ok(python)
}
