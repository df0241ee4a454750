//! Cross-validation: each case is tested by a model that has seen no case of its subject.

use crate::session::{
    AnnotatedCase, Device, Failure, LoadedModel, Resume, Training, TrainingReport, Wanted, Watcher,
    beside, read_cases, write_json,
};
use pbt_detect::TrainConfig;
use pbt_io::{CaseSpec, Dataset, IoError, ResultFile, check_writable, remove_leftovers};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

/// How cases are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folds {
    /// One fold a subject.
    LeaveOneOut,
    /// So many folds, as equal in subjects as can be.
    Of(usize),
}

/// The trainings of a cross-validation and what they need.
pub struct CrossValidation {
    folds: Folds,
    config: TrainConfig,
    seed: u64,
    wanted: Wanted,
    cases: Vec<AnnotatedCase>,
    /// The fold of each case, by its name.
    fold_of: BTreeMap<String, usize>,
    /// Where the models are kept, if they are.
    kept: Option<PathBuf>,
    /// Models by the fold that they have not seen; of single subjects only the last one.
    models: RefCell<BTreeMap<usize, Rc<LoadedModel>>>,
}

impl CrossValidation {
    /// With these cases; `structures` are the names of those wanted, all where it is empty. A case
    /// that cannot be read is reported when its turn comes, and no training uses it.
    ///
    /// # Errors
    /// A structure that cannot be used, or fewer subjects than folds.
    pub fn new(
        dataset: &Dataset,
        cases: &[CaseSpec],
        structures: &[String],
        folds: Folds,
        config: TrainConfig,
        seed: u64,
    ) -> Result<Self, Failure> {
        let wanted = Wanted::new(dataset, structures)?.without_regions(dataset, folds.option())?;
        let (fold_of, subjects) = folds_of(cases, folds);
        if let Folds::Of(count) = folds
            && subjects < count
        {
            let what = format!(
                "cases: {subjects} subject(s) cannot be divided into {count} folds (choose fewer)"
            );
            return Err(Failure::input(&dataset.path, what));
        }
        let read = |case: &CaseSpec| read_cases(dataset, std::slice::from_ref(case), &wanted).ok();
        let cases = cases.iter().filter_map(read).flatten().collect();
        let models = RefCell::default();
        Ok(Self { folds, config, seed, wanted, cases, fold_of, kept: None, models })
    }

    /// The same with models kept in a folder, which is made: what an interrupted run finished there is not
    /// trained again.
    ///
    /// # Errors
    /// Exit code 2 when it is a file or holds a model of another training, 5 for a damaged model and for a
    /// checkpoint that is damaged or of another training, 4 for a case or a file that cannot be read, 1 when the
    /// folder cannot be made or written.
    pub fn keeping(self, dataset: &Dataset, folder: Option<&Path>) -> Result<Self, Failure> {
        let Some(folder) = folder else { return Ok(self) };
        if folder.is_file() {
            let what = format!("{}: --models: is a file (give a folder)", folder.display());
            return Err(Failure::usage(what));
        }
        std::fs::create_dir_all(folder).map_err(|e| IoError::output(folder, &e))?;
        remove_leftovers(folder);
        let this = Self { kept: Some(folder.to_owned()), ..self };
        // Before hours of training.
        for fold in this.fold_of.values().copied().collect::<BTreeSet<_>>() {
            let Some(path) = this.kept_model(fold) else { continue };
            let checkpoint = beside(&path, "partial");
            if path.exists() {
                this.check_kept(dataset, fold, &path)?;
                // Of a process that was killed once the model was there.
                let _ = std::fs::remove_file(checkpoint);
                continue;
            }
            check_writable(&path)?;
            if let Some(resume) = Resume::from(&checkpoint)? {
                this.training(dataset, Some(fold)).check(&resume)?;
            }
        }
        Ok(this)
    }

    /// Whether a model that is there is what the training without this fold would make.
    fn check_kept(&self, dataset: &Dataset, fold: usize, path: &Path) -> Result<(), Failure> {
        let kept = LoadedModel::open(path)?;
        let Some(what) = self.training(dataset, Some(fold)).difference_from(&kept)? else {
            return Ok(());
        };
        let name = path.file_name().unwrap_or_default().display();
        let advice = format!("give another folder, or remove {name} to train it again");
        let path = path.display();
        Err(Failure::usage(format!("{path}: --models: was made with {what} ({advice})")))
    }

    /// The training on all cases but those of a fold.
    fn training<'a>(&'a self, dataset: &'a Dataset, fold: Option<usize>) -> Training<'a> {
        let others = self.cases.iter().filter(|c| self.fold(&c.spec.id) != fold).cloned();
        Training {
            dataset,
            cases: others.collect(),
            wanted: &self.wanted,
            config: &self.config,
            seed: self.seed,
            resume: None,
        }
    }

    /// How cases are divided.
    pub fn folds(&self) -> Folds {
        self.folds
    }

    /// How many models are left to train for all cases.
    pub fn trainings(&self) -> usize {
        let folds: BTreeSet<usize> = self.fold_of.values().copied().collect();
        let is_left = |&fold: &usize| self.kept_model(fold).is_none_or(|path| !path.exists());
        folds.into_iter().filter(is_left).count()
    }

    /// Where the model of a fold is kept, if it is.
    fn kept_model(&self, fold: usize) -> Option<PathBuf> {
        let folder = self.kept.as_ref()?;
        Some(folder.join(format!("fold-{}.pbt", fold + 1)))
    }

    /// Names of the structures.
    pub fn structures(&self) -> impl Iterator<Item = &str> {
        self.wanted.names()
    }

    /// The result of a case by a model that has seen no case of its fold.
    ///
    /// # Errors
    /// Whatever ends a training, and those of [`crate::session::detect_file`].
    pub fn result(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
        watcher: &dyn Watcher,
    ) -> Result<ResultFile, Failure> {
        let model = self.model_without(dataset, case, device, watcher)?;
        crate::session::detect_file(&model, case.into(), device)
    }

    fn fold(&self, case: &str) -> Option<usize> {
        self.fold_of.get(case).copied()
    }

    fn model_without(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
        watcher: &dyn Watcher,
    ) -> Result<Rc<LoadedModel>, Failure> {
        let fold = self.fold(&case.id);
        if let Some(model) = fold.and_then(|fold| self.models.borrow().get(&fold).cloned()) {
            return Ok(model);
        }
        let what = match (self.folds, fold) {
            (Folds::Of(count), Some(fold)) => format!("without fold {} of {count}", fold + 1),
            _ => format!("without {}", case.subject.as_ref().unwrap_or(&case.id)),
        };
        let kept = fold.and_then(|fold| self.kept_model(fold));
        let name = PathBuf::from(format!("trained {what}"));
        let model = match kept {
            Some(path) if path.exists() => LoadedModel { path: name, ..LoadedModel::open(&path)? },
            kept => {
                let started = Instant::now();
                let checkpoint = kept.as_ref().map(|path| beside(path, "partial"));
                let resume = match &checkpoint {
                    Some(path) => Resume::from(path)?,
                    None => None,
                };
                if let Some(resume) = &resume {
                    let name = resume.path.display();
                    watcher.note(&format!("{name}: resuming from its finished stages"));
                }
                let training = Training { resume: resume.as_ref(), ..self.training(dataset, fold) };
                let observer = watcher.training(&what, checkpoint.as_deref());
                let trained = training.run(device, &*observer)?;
                drop(observer);
                if let (Some(path), Some(checkpoint)) = (kept, checkpoint) {
                    let seconds = started.elapsed().as_secs_f64();
                    let (record, warnings) = (&device.record, &trained.warnings);
                    let report = TrainingReport::new(
                        &trained, dataset, self.seed, record, warnings, seconds,
                    );
                    write_json(&beside(&path, "train.json"), &report)?;
                    trained.write_settings(&path)?;
                    // Last, since it says that all is there.
                    trained.write(&path)?;
                    let _ = std::fs::remove_file(checkpoint);
                }
                trained.loaded(name)
            }
        };
        let model = Rc::new(model);
        let mut models = self.models.borrow_mut();
        if self.folds == Folds::LeaveOneOut {
            models.clear();
        }
        if let Some(fold) = fold {
            models.insert(fold, Rc::clone(&model));
        }
        Ok(model)
    }
}

impl Folds {
    /// What the command line calls it.
    fn option(self) -> &'static str {
        match self {
            Self::LeaveOneOut => "--leave-one-out",
            Self::Of(_) => "--folds",
        }
    }
}

/// The fold of each case by its name, and the number of subjects. Subjects are dealt to the folds by turns
/// in the order of their first cases; a case without a subject is its own.
fn folds_of(cases: &[CaseSpec], folds: Folds) -> (BTreeMap<String, usize>, usize) {
    let mut firsts: Vec<&CaseSpec> = Vec::new();
    let mut fold_of = BTreeMap::new();
    for case in cases {
        let subject = firsts.iter().position(|first| first.has_subject_of(case));
        let subject = subject.unwrap_or_else(|| {
            firsts.push(case);
            firsts.len() - 1
        });
        let fold = match folds {
            Folds::LeaveOneOut => subject,
            Folds::Of(count) => subject % count,
        };
        fold_of.insert(case.id.clone(), fold);
    }
    (fold_of, firsts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_io::ReadOptions;

    #[test]
    fn subjects_are_dealt_to_folds_by_turns() {
        let case = |(n, subject): (usize, &Option<&str>)| CaseSpec {
            id: n.to_string(),
            image: "a.nii".into(),
            options: ReadOptions::default(),
            split: "train".into(),
            subject: subject.map(str::to_owned),
            annotations: Vec::new(),
            labels: None,
            not_drawn: Vec::new(),
        };
        let (a, b) = (Some("a"), Some("b"));
        let cases: Vec<CaseSpec> =
            [a, b, a, None, None, b, None].iter().enumerate().map(case).collect();
        let folds = |folds| {
            let (fold_of, subjects) = folds_of(&cases, folds);
            assert_eq!(subjects, 5);
            fold_of.into_values().collect::<Vec<_>>()
        };
        assert_eq!(folds(Folds::Of(2)), [0, 1, 0, 0, 1, 1, 0]);
        assert_eq!(folds(Folds::LeaveOneOut), [0, 1, 0, 2, 3, 1, 4]);
    }
}
