//! `cargo xtask test`: what CI runs, as named and timed steps.

use crate::python::environment_or_skip;
use crate::steps::{cargo, data_folder, in_ci, root, step};
use anyhow::bail;
use std::ffi::OsString;
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
    let lints = || {
        step("lints", cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    };
    let mut environments = Environments::default();
    match extent {
        Extent::Fast => lints()?,
        // Packages come over the network while lints keep the processor busy.
        Extent::Everything => std::thread::scope(|scope| {
            let making = scope.spawn(Environments::make);
            lints()?;
            environments = making.join().expect("no thread panics")?;
            anyhow::Ok(())
        })?,
    }
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
            let mut tools = None;
            if let Some(python) = environments.oracles {
                tools = with_jpeg_ls(&mut tests, &python)?;
                tests.env("PBT_ORACLE_PYTHON", python);
            }
            if let Some(python) = environments.package {
                install_package(&python, tools)?;
                tests.env("PBT_PYTHON", python);
            }
            step("tests", tests)?;
        }
    }
    println!("\nall passed in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Turns on JPEG-LS, whose decoder is C++: where there is a compiler for that, which CI must have.
/// The other thing it needs, cmake, comes with the oracles. Returns the `PATH` that has it.
fn with_jpeg_ls(tests: &mut Command, python: &Path) -> anyhow::Result<Option<OsString>> {
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
        return Ok(None);
    }
    let mut path = tools.as_os_str().to_owned();
    if let Some(rest) = std::env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    tests.env("PATH", &path).args(["--features", "pbt/jpeg-ls"]);
    Ok(Some(path))
}

/// Interpreters for tests that run Python; without one its tests are skipped.
#[derive(Default)]
struct Environments {
    /// With what the oracles need.
    oracles: Option<PathBuf>,
    /// With what tests of the Python package need.
    package: Option<PathBuf>,
}

impl Environments {
    fn make() -> anyhow::Result<Self> {
        let of = |name, requirements| environment_or_skip(name, &root().join(requirements));
        Ok(Self {
            oracles: of("oracle-venv", "tests/oracles/requirements.txt")?,
            package: of("python-venv", "crates/py/tests/requirements.txt")?,
        })
    }
}

/// Installs the Python package, built with the profile and the features of the tests; `path` is where cmake
/// is, if these have JPEG-LS.
fn install_package(python: &Path, path: Option<OsString>) -> anyhow::Result<()> {
    let mut features = vec!["shared-with-tests"];
    features.extend(path.is_some().then_some("jpeg-ls"));
    let wheel = crate::wheel::build(&python.with_file_name("maturin"), "dev", &features, path)?;
    let mut install = Command::new(python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-deps", "--force-reinstall"]).arg(wheel);
    step("wheel: installation", install)
}
