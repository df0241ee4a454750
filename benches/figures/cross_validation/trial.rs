//! One fold with one configuration: a training and an evaluation by `pbt`.

use super::set::files;
use anyhow::{Context, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The program and what it is told in every trial.
pub(super) struct Runner {
    pub(super) program: PathBuf,
    /// Hash of the program.
    pub(super) program_sha256: String,
    /// What says what is trained: structures, number of cases, seed.
    pub(super) training: Vec<String>,
    /// What does not change a result: device, threads.
    pub(super) computing: Vec<String>,
}

/// A training and an evaluation.
pub(super) struct Trial {
    /// Configuration and fold, for people.
    pub(super) title: String,
    /// The data set: the held-out cases have the split `test`.
    pub(super) dataset: Value,
    /// Settings of the training; the defaults where there are none.
    pub(super) config: Option<PathBuf>,
    /// The folder is this path with the hash of all inputs behind it.
    pub(super) folder: PathBuf,
}

impl Runner {
    /// The program in the folder that the variable PBT_BIN names, else the one that Cargo built
    /// beside this example.
    ///
    /// # Errors
    /// A program that is not there.
    pub(super) fn new(training: Vec<String>, computing: Vec<String>) -> anyhow::Result<Self> {
        let folder = match std::env::var_os("PBT_BIN").filter(|value| !value.is_empty()) {
            Some(folder) => PathBuf::from(folder),
            None => {
                let own = std::env::current_exe().context("this program's own path")?;
                own.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default()
            }
        };
        let program = folder.join(format!("pbt{}", std::env::consts::EXE_SUFFIX));
        let bytes = std::fs::read(&program)
            .with_context(|| format!("{} (set PBT_BIN to the folder of pbt)", program.display()))?;
        Ok(Self { program, program_sha256: hex(&Sha256::digest(bytes)), training, computing })
    }

    /// Runs a trial and returns the report of its evaluation. What an earlier run with the same
    /// inputs has finished is not done again, and a training that was interrupted goes on.
    ///
    /// # Errors
    /// Whatever keeps `pbt` from training or evaluating.
    pub(super) fn report(&self, trial: &Trial) -> anyhow::Result<Value> {
        let mut folder = trial.folder.clone().into_os_string();
        folder.push(format!("-{}", &self.inputs(trial)?[..16]));
        let folder = PathBuf::from(folder);
        let [dataset, model, partial, report] =
            ["dataset.json", "model.pbt", "model.partial", "report.json"].map(|f| folder.join(f));
        if !report.exists() {
            std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            std::fs::write(&dataset, serde_json::to_vec_pretty(&trial.dataset)?)
                .with_context(|| dataset.display().to_string())?;
            let begun = Instant::now();
            if !model.exists() {
                let mut train = self.pbt("train");
                train.arg("-i").arg(&dataset).arg("-o").arg(&model).args(&self.training);
                if let Some(config) = &trial.config {
                    train.arg("--config").arg(config);
                }
                if partial.exists() {
                    train.arg("--resume");
                }
                run(&trial.title, &mut train, &[0])?;
            }
            let trained = begun.elapsed().as_secs_f64();
            let mut evaluate = self.pbt("evaluate");
            evaluate.arg("-m").arg(&model).arg("-i").arg(&dataset).arg("-o").arg(&report);
            // 3: some cases could not be read; the report lists them.
            run(&trial.title, evaluate.args(["--split", "test"]), &[0, 3])?;
            let evaluated = begun.elapsed().as_secs_f64() - trained;
            eprintln!("{}: trained in {trained:.1} s, tested in {evaluated:.1} s", trial.title);
        } else {
            eprintln!("{}: done before, {}", trial.title, report.display());
        }
        let bytes = std::fs::read(&report).with_context(|| report.display().to_string())?;
        serde_json::from_slice(&bytes).with_context(|| report.display().to_string())
    }

    fn pbt(&self, command: &str) -> Command {
        let mut pbt = Command::new(&self.program);
        pbt.args([command, "-q"]).args(&self.computing);
        pbt
    }

    /// Hash of everything that a report depends on. Of the volumes, sizes and times of change stand
    /// for their content.
    fn inputs(&self, trial: &Trial) -> anyhow::Result<String> {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(self.program_sha256.as_bytes());
        self.training.iter().for_each(|argument| add(argument.as_bytes()));
        if let Some(config) = &trial.config {
            add(&std::fs::read(config).with_context(|| config.display().to_string())?);
        }
        add(trial.dataset.to_string().as_bytes());
        for file in trial.dataset["cases"].as_array().into_iter().flatten().flat_map(files) {
            let at = || file.display().to_string();
            let about = std::fs::metadata(&file).with_context(at)?;
            add(format!("{} {:?}", about.len(), about.modified().with_context(at)?).as_bytes());
        }
        Ok(hex(&hash.finalize()))
    }
}

fn run(title: &str, command: &mut Command, good: &[i32]) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{title}: {command:?}"))?;
    if !status.code().is_some_and(|code| good.contains(&code)) {
        bail!("{title}: {command:?} ended with {status}");
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
