//! Trainings on all cases but those of one subject.

use crate::session::{
    AnnotatedCase, Device, Failure, LoadedModel, Training, Wanted, Watcher, read_cases,
};
use pbt_detect::TrainConfig;
use pbt_io::{CaseSpec, Dataset, ResultFile};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// What trainings on all cases but those of one subject need.
pub struct LeaveOneOut {
    config: TrainConfig,
    seed: u64,
    wanted: Wanted,
    cases: Vec<AnnotatedCase>,
    /// The last case that was left out, and the model: another case of its subject needs the same.
    last: RefCell<Option<(CaseSpec, Rc<LoadedModel>)>>,
}

impl LeaveOneOut {
    /// With these cases; `structures` are the names of those wanted, all where it is empty. A case
    /// that cannot be read is reported when its turn comes, and no training uses it.
    ///
    /// # Errors
    /// A structure that cannot be used.
    pub fn new(
        dataset: &Dataset,
        cases: &[CaseSpec],
        structures: &[String],
        config: TrainConfig,
        seed: u64,
    ) -> Result<Self, Failure> {
        let wanted =
            Wanted::new(dataset, structures)?.without_regions(dataset, "--leave-one-out")?;
        let read = |case: &CaseSpec| read_cases(dataset, std::slice::from_ref(case), &wanted).ok();
        let cases = cases.iter().filter_map(read).flatten().collect();
        Ok(Self { config, seed, wanted, cases, last: RefCell::new(None) })
    }

    /// Names of the structures.
    pub fn structures(&self) -> impl Iterator<Item = &str> {
        self.wanted.names()
    }

    /// The result of a case by a model that has seen no case of its subject.
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

    fn model_without(
        &self,
        dataset: &Dataset,
        case: &CaseSpec,
        device: &Device,
        watcher: &dyn Watcher,
    ) -> Result<Rc<LoadedModel>, Failure> {
        if let Some((left_out, model)) = &*self.last.borrow()
            && left_out.has_subject_of(case)
        {
            return Ok(Rc::clone(model));
        }
        let others = self.cases.iter().filter(|c| !c.spec.has_subject_of(case)).cloned().collect();
        let what = format!("without {}", case.subject.as_ref().unwrap_or(&case.id));
        let training = Training {
            dataset,
            cases: others,
            wanted: &self.wanted,
            config: &self.config,
            seed: self.seed,
            resume: None,
        };
        let trained = training.run(device, &*watcher.training(&what))?;
        let model = Rc::new(trained.loaded(PathBuf::from(format!("trained {what}"))));
        *self.last.borrow_mut() = Some((case.clone(), Rc::clone(&model)));
        Ok(model)
    }
}
