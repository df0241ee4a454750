//! Where the results that are evaluated come from: a model, a folder, or a model trained for each
//! case.

use crate::Failure;
use crate::args::Evaluate;
use crate::commands::detect::{LoadedModel, detect_file};
use crate::commands::train::{hex, read_config};
use crate::dataset::{AnnotatedCase, TrainingCases, Wanted, read_cases};
use crate::device::Device;
use crate::progress::TrainingProgress;
use pbt_detect::TrainConfig;
use pbt_io::{CaseSpec, Dataset, ResultFile, read_result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where results come from.
pub(in crate::commands) enum Source {
    /// Detection with a model.
    Model(LoadedModel),
    /// Files `FOLDER/<case>.json`.
    Folder(PathBuf),
    /// Detection with a model trained on all other cases.
    LeaveOneOut(LeaveOneOut),
}

/// What trainings on all cases but one need.
pub(in crate::commands) struct LeaveOneOut {
    config: TrainConfig,
    seed: u64,
    quiet: bool,
    wanted: Wanted,
    cases: Vec<AnnotatedCase>,
}

impl Source {
    /// What the arguments ask for; `cases` are those that will be evaluated.
    ///
    /// # Errors
    /// A model, folder, configuration or structure that cannot be used.
    pub(in crate::commands) fn open(
        args: &Evaluate,
        dataset: &Dataset,
        cases: &[CaseSpec],
        quiet: bool,
    ) -> Result<Self, Failure> {
        if args.leave_one_out {
            let config = read_config(args.config.as_deref())?;
            let wanted = Wanted::new(dataset, &args.structure)?;
            // A case that cannot be read is reported when its turn comes, and no training uses it.
            let read =
                |case: &CaseSpec| read_cases(dataset, std::slice::from_ref(case), &wanted).ok();
            let cases = cases.iter().filter_map(read).flatten().collect();
            return Ok(Self::LeaveOneOut(LeaveOneOut {
                config,
                seed: args.seed,
                quiet,
                wanted,
                cases,
            }));
        }
        match (&args.results, &args.model) {
            (Some(folder), _) if !folder.is_dir() => Err(Failure::input(
                folder,
                "--results: is not a folder (give one with result files)",
            )),
            (Some(folder), _) => Ok(Self::Folder(folder.clone())),
            (None, Some(path)) => Ok(Self::Model(LoadedModel::open(path)?)),
            (None, None) => {
                Err(Failure::usage("give a model, --results, --compare or --leave-one-out"))
            }
        }
    }

    /// A folder with results, or a model.
    ///
    /// # Errors
    /// A model that cannot be read.
    pub(in crate::commands) fn of_path(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            Ok(Self::Folder(path.to_path_buf()))
        } else {
            Ok(Self::Model(LoadedModel::open(path)?))
        }
    }

    /// Names of the structures that the results speak of.
    pub(in crate::commands) fn structures(&self, cases: &[CaseSpec]) -> BTreeSet<String> {
        match self {
            Self::Model(model) => {
                let structures = &model.model.structures;
                let landmarks =
                    structures.iter().flat_map(|s| s.landmarks()).map(|l| l.name.clone());
                structures.iter().map(|s| s.name.clone()).chain(landmarks).collect()
            }
            Self::Folder(folder) => {
                let read =
                    cases.iter().filter_map(|case| read_result(&result_path(folder, case)).ok());
                read.flat_map(|result| result.detections).map(|d| d.name).collect()
            }
            Self::LeaveOneOut(turns) => turns.wanted.names().map(str::to_owned).collect(),
        }
    }

    /// The result of a case; `None` when a folder has none.
    ///
    /// # Errors
    /// An image or a result file that cannot be read, and whatever ends a training.
    pub(in crate::commands) fn result(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
    ) -> Result<Option<ResultFile>, Failure> {
        match self {
            Self::Model(model) => {
                detect_file(model, &case.image, &case.options, &case.id, device).map(Some)
            }
            Self::Folder(folder) => {
                let path = result_path(folder, case);
                if path.exists() { Ok(Some(read_result(&path)?)) } else { Ok(None) }
            }
            Self::LeaveOneOut(turns) => {
                let model = turns.train_without(dataset, case, device)?;
                detect_file(&model, &case.image, &case.options, &case.id, device).map(Some)
            }
        }
    }
}

impl LeaveOneOut {
    fn train_without(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
    ) -> Result<LoadedModel, Failure> {
        let others = self.cases.iter().filter(|c| c.spec.id != case.id).cloned().collect();
        let data = TrainingCases::new(dataset, others, self.wanted.clone());
        let progress =
            TrainingProgress::without_checkpoint(self.quiet, &format!("without {}", case.id));
        let trained = device.train(&data, &self.config, self.seed, None, &progress);
        progress.finish();
        let model = trained.map_err(|failure| failure.about(&dataset.path))?.model;
        let sha256 = hex(&model.to_bytes()?);
        Ok(LoadedModel {
            model,
            path: PathBuf::from(format!("trained without {}", case.id)),
            sha256,
        })
    }
}

fn result_path(folder: &Path, case: &CaseSpec) -> PathBuf {
    folder.join(format!("{}.json", case.id))
}
