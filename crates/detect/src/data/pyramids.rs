//! Working pyramids of training cases, kept while structure after structure asks for the same grid.

use crate::DetectError;
use crate::data::training_data::TrainingData;
use crate::working::spec::WorkingSpec;
use pbt_volume::{Geometry, Pyramid};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The pyramids of one working grid: those of the structure in training, which holds them anyway.
#[derive(Default)]
pub(crate) struct Pyramids {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    working: Option<WorkingSpec>,
    /// By name of the case: the grids on which it was placed, by itself and as copies.
    by_case: BTreeMap<String, Vec<(Geometry, Arc<Pyramid>)>>,
}

impl Pyramids {
    /// The working pyramid of a case.
    ///
    /// # Errors
    /// Whatever reading the image gives, and an image that cannot be used.
    pub(crate) fn get<D: TrainingData>(
        &self,
        data: &D,
        case: usize,
        working: &WorkingSpec,
    ) -> Result<Arc<Pyramid>, D::Error> {
        let (name, geometry) = (&data.cases()[case], data.geometry(case));
        if let Some(kept) = self.kept(name, geometry, working) {
            return Ok(kept);
        }
        let unusable =
            |e: DetectError| DetectError::training(format!("case {name}"), e.to_string());
        let pyramid = Arc::new(working.pyramid(&data.image(case)?).map_err(unusable)?);
        if data.shows_its_origin(case) {
            let placed = (geometry.clone(), pyramid.clone());
            self.lock().by_case.entry(name.clone()).or_default().push(placed);
        }
        Ok(pyramid)
    }

    /// What is kept of the case on this grid, with as many levels as are asked for.
    fn kept(&self, name: &str, geometry: &Geometry, working: &WorkingSpec) -> Option<Arc<Pyramid>> {
        let mut kept = self.lock();
        if !kept.working.as_ref().is_some_and(|other| other.is_same_grid(working)) {
            *kept = Kept { working: Some(working.clone()), by_case: BTreeMap::new() };
        }
        let placed = kept.by_case.get_mut(name)?;
        let (_, pyramid) = placed.iter_mut().find(|(other, _)| other == geometry)?;
        if pyramid.levels().len() < working.levels {
            *pyramid = Arc::new(pyramid.with_levels(working.levels));
        }
        Some(pyramid.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
