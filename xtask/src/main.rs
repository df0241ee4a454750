//! Tasks of the developers, run as `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod figures;
mod kernels;
mod models;
mod modules;
mod python;
mod steps;
mod test;
mod wheel;

use anyhow::bail;
use std::process::ExitCode;

const HELP: &str = "\
Tasks for developers of pbt.

Usage: cargo xtask <TASK>

Tasks:
  test           Everything that CI runs, in order: format, modules, lints, kernels, documentation,
                 the oracles' Python environment, the Python package, all tests. Stops at the first
                 failure.
  test --fast    Format, modules, lints, kernels and unit tests only.
  modules        Fails where more than two files of a crate name each other in a circle, and where a
                 crate depends on one that is not below it.
  kernels        Compiles kernels/*.cu to crates/gpu/kernels with a pinned compiler from PyPI;
                 neither a GPU nor a CUDA toolkit is needed. Commit what it writes.
  kernels --check
                 Fails where the committed kernels are not those of the sources.
  models [NAME]...
                 Trains the demo models of models/*.toml, evaluates them and writes model and card
                 beside each recipe. Those of phantoms need no data, the others PBT_DATA. Without
                 names, all of them, which takes hours.
  models --check [NAME]...
                 Fails where the committed files are not what the recipes make.
  wheel          Builds the Python package: target/wheels/*.whl. Takes maturin from the PATH, or
                 installs it in target/wheel-venv.
  wheel --jpeg-ls
                 The same with JPEG-LS in DICOM files; needs a C++ compiler and cmake.
  figures accuracy [NAME]...
                 The accuracy figures of docs/results.md on real volumes: trains and detects
                 in the test cases. Without names, all of them, some minutes each.
  figures cross-validation SET [OPTION]...
                 Trains and tests on the training cases of a set by turns, and compares
                 configurations; --help lists the options.
  figures absence MODEL DATASET SPLIT CROPS [DATASET]...
                 What a model says of structures that are not in the image.
  figures surroundings MODEL DATASET SPLIT
                 How much answers change where an image is cut or padded about its structures.
  help           This text.

Environment:
  PBT_DATA       Folder of real volumes (see data/README.md). Tests that need it are skipped
                 when it is not set; with CI=true they fail. `figures` needs it, and `models` for
                 models of real volumes.
  PROPTEST_RNG_SEED
                 Seed of the property tests' random cases; `test` sets 1 where it is not set.
  CI             `true` turns everything that would be skipped into a failure. Then the tests need
                 PBT_DATA, Python 3 with venv and pip, PyPI or what target/ keeps of it, and a C++
                 compiler. Tests on a GPU alone are skipped where there is none; PBT_REQUIRE_GPU=1
                 makes that a failure, too.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[&str]) -> anyhow::Result<()> {
    match arguments {
        ["test"] => test::run(test::Extent::Everything),
        ["test", "--fast"] => test::run(test::Extent::Fast),
        ["modules"] => modules::check(),
        ["kernels"] => kernels::build(),
        ["kernels", "--check"] => kernels::check(),
        ["wheel"] => wheel::run(&[]),
        ["wheel", "--jpeg-ls"] => wheel::run(&["jpeg-ls"]),
        ["models", arguments @ ..] => models::run(arguments),
        ["figures", names @ ..] => figures::run(names),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        other => bail!("`{}` is not a task (see `cargo xtask help`)", other.join(" ")),
    }
}
