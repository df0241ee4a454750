//! Working pyramids of training cases, kept while structures that ask for the same grid are in training.
//! Where they are large, their finest levels are kept in a temporary file: of these a training sees
//! little. Such pyramids are kept until the training ends, since they take little memory, and reading
//! an image anew takes longer than anything else that is done with it.

use crate::DetectError;
use crate::data::each_image::each_image;
use crate::data::training_data::TrainingData;
use crate::memory_need::stored_levels;
use crate::working::spec::WorkingSpec;
use pbt_volume::{Geometry, Pyramid, Scratch};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// The pyramids of the working grid that was asked for last, of those that a structure in training holds
/// anyway, and those in the temporary file.
pub(crate) struct Pyramids {
    /// Where the temporary file may be.
    folder: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The one that was asked for last is the last.
    grids: Vec<OfGrid>,
    /// Holds the finest levels of large pyramids.
    scratch: Option<Arc<Scratch>>,
}

/// The pyramids of a working grid.
struct OfGrid {
    working: WorkingSpec,
    /// Whether their finest levels are in the file.
    stored: bool,
    /// By name of the case: the grids on which it was placed, by itself and as copies.
    by_case: BTreeMap<String, Vec<(Geometry, Arc<Pyramid>)>>,
}

impl OfGrid {
    /// Whether a structure is in training on it, maybe beside the one that asks.
    fn is_in_use(&self) -> bool {
        self.by_case.values().flatten().any(|(_, pyramid)| Arc::strong_count(pyramid) > 1)
    }
}

impl Kept {
    /// The pyramids of a grid, which is the last then. Of the others those that nobody else holds in
    /// memory are dropped.
    fn of_grid(&mut self, working: &WorkingSpec) -> &mut OfGrid {
        if !self.grids.last().is_some_and(|last| last.working.is_same_grid(working)) {
            let known = self.grids.iter().position(|grid| grid.working.is_same_grid(working));
            let grid = match known {
                Some(n) => self.grids.remove(n),
                None => {
                    let by_case = BTreeMap::new();
                    OfGrid { working: working.clone(), stored: false, by_case }
                }
            };
            self.grids.retain(|other| other.stored || other.is_in_use());
            self.grids.push(grid);
        }
        let last = self.grids.len() - 1;
        &mut self.grids[last]
    }
}

impl Pyramids {
    /// None yet.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, kept: Mutex::default() }
    }

    /// What goes wrong while voxels are read from the temporary file is told here, not where they are
    /// sampled: nothing that was learned since the last time counts then.
    ///
    /// # Errors
    /// [`DetectError::Output`].
    pub(crate) fn check(&self) -> Result<(), DetectError> {
        let scratch = self.lock().scratch.clone();
        scratch.map_or(Ok(()), |scratch| scratch.check()).map_err(|e| self.failed(&e))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> DetectError {
        let what = format!("a temporary file: {error} (is the disk full?)");
        DetectError::Output(format!("{}: {what}", self.folder.display()))
    }

    /// The file of finest levels, which is made where there is none.
    fn scratch(&self) -> Result<Arc<Scratch>, DetectError> {
        let mut kept = self.lock();
        if let Some(scratch) = &kept.scratch {
            return Ok(scratch.clone());
        }
        let scratch = Arc::new(Scratch::new(&self.folder).map_err(|e| self.failed(&e))?);
        kept.scratch = Some(scratch.clone());
        Ok(scratch)
    }

    /// The working pyramids of these cases, each of which may come several times.
    ///
    /// # Errors
    /// Whatever reading an image gives, an image that cannot be used, and [`DetectError::Interrupted`]
    /// where that is so.
    pub(crate) fn get_all<D: TrainingData + ?Sized>(
        &self,
        data: &D,
        cases: impl Iterator<Item = usize>,
        working: &WorkingSpec,
        interrupted: impl Fn() -> bool + Sync,
    ) -> Result<BTreeMap<usize, Arc<Pyramid>>, D::Error> {
        each_image(data, cases, |case| {
            if interrupted() {
                return Err(DetectError::Interrupted.into());
            }
            self.get(data, case, working)
        })
    }

    /// The working pyramid of a case.
    ///
    /// # Errors
    /// Whatever reading the image gives, and an image that cannot be used.
    fn get<D: TrainingData + ?Sized>(
        &self,
        data: &D,
        case: usize,
        working: &WorkingSpec,
    ) -> Result<Arc<Pyramid>, D::Error> {
        let (name, geometry) = (data.list().id(case), data.list().geometry(case));
        // A copy with a contrast of its own may lie where the case does.
        let is_kept = data.shows_its_origin(case);
        let kept = || self.kept(name, geometry, working).filter(|_| is_kept);
        if let Some(kept) = kept() {
            return Ok(kept);
        }
        let unusable =
            |e: DetectError| DetectError::training(format!("case {name}"), e.to_string());
        let mut pyramid = working.pyramid(&data.channels(case)?).map_err(unusable)?;
        let list = data.list();
        let stored = stored_levels((0..list.len()).map(|case| list.geometry(case)), working);
        if stored > 0 {
            pyramid = pyramid.stored(stored, &self.scratch()?).map_err(|e| self.failed(&e))?;
        }
        let pyramid = Arc::new(pyramid);
        // Another thread may have been faster.
        if let Some(kept) = kept() {
            return Ok(kept);
        }
        let mut kept = self.lock();
        let grid = kept.of_grid(working);
        grid.stored |= stored > 0;
        if is_kept {
            let placed = (geometry.clone(), pyramid.clone());
            grid.by_case.entry(name.to_owned()).or_default().push(placed);
        }
        drop(kept);
        Ok(pyramid)
    }

    /// What is kept of the case on this grid, with as many levels as are asked for: images that are
    /// sampled together have the same number.
    fn kept(&self, name: &str, geometry: &Geometry, working: &WorkingSpec) -> Option<Arc<Pyramid>> {
        let kept = self.placed(name, geometry, working)?;
        if kept.levels() == working.levels {
            return Some(kept);
        }
        // Not while the lock is held: whoever halves a volume waits for other threads, and meanwhile
        // takes up other tasks, which may ask for pyramids themselves.
        let pyramid = Arc::new(kept.with_levels(working.levels));
        let placed = (geometry.clone(), pyramid.clone());
        self.lock().of_grid(working).by_case.entry(name.to_owned()).or_default().push(placed);
        Some(pyramid)
    }

    /// What is kept of the case on this grid: with as many levels as are asked for, or else the one with the
    /// most.
    fn placed(
        &self,
        name: &str,
        geometry: &Geometry,
        working: &WorkingSpec,
    ) -> Option<Arc<Pyramid>> {
        let mut kept = self.lock();
        let of_case = kept.of_grid(working).by_case.get(name)?;
        let same = |(other, pyramid): &&(Geometry, Arc<Pyramid>)| {
            other == geometry && working.has_finest(geometry, pyramid)
        };
        let levels = |pyramid: &Pyramid| (pyramid.levels() == working.levels, pyramid.levels());
        let all = of_case.iter().filter(same);
        all.max_by_key(|(_, pyramid)| levels(pyramid)).map(|(_, pyramid)| pyramid.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::case_list::CaseList;
    use pbt_volume::{IntensityPolicy, Padding, RealVolume, Volume};

    /// Images of 64³ voxels without annotations.
    struct Images {
        list: CaseList,
    }

    impl TrainingData for Images {
        type Error = DetectError;

        fn list(&self) -> &CaseList {
            &self.list
        }

        fn image(&self, case: usize) -> Result<RealVolume, DetectError> {
            Ok(Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
                ((i ^ j ^ k) + case) as f32
            })
            .into())
        }

        fn structures(&self) -> Vec<crate::data::training_data::Annotated> {
            Vec::new()
        }
    }

    fn working(levels: usize) -> WorkingSpec {
        WorkingSpec {
            channels: Vec::new(),
            spacing_mm: 1.0,
            levels,
            padding: Padding::Zero,
            intensity: IntensityPolicy::Window { low: 0.0, high: 100.0 },
        }
    }

    /// Slices stay as thick as the coarsest level allows, whichever structure is the first.
    #[test]
    fn thick_slices_have_a_grid_for_each_number_of_levels() {
        let matrix = nalgebra::Matrix3::from_diagonal(&nalgebra::Vector3::new(1.0, 1.0, 12.0));
        let origin = pbt_volume::PointLps::new(0.0, 0.0, 0.0);
        let geometry = Geometry::new([40, 40, 5], matrix, origin).unwrap();
        let data = Images { list: CaseList::made("CT", std::iter::once(geometry)) };
        let expected = [(1, 1.0), (2, 2.0), (3, 4.0), (4, 4.0)];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let pyramids = Pyramids::new(std::env::temp_dir());
            for (levels, step_mm) in order.map(|n| expected[n]) {
                let all = pyramids.get_all(&data, 0..1, &working(levels), || false).unwrap();
                assert_eq!(all[&0].geometry(0).spacing_mm(), [1.0, 1.0, step_mm]);
                assert_eq!(all[&0].levels(), levels);
                let edge_mm = f64::from(1 << (levels - 1));
                assert_eq!(all[&0].geometry(levels - 1).spacing_mm(), [edge_mm; 3]);
            }
        }
    }

    /// One structure wants more levels than the one before, in all cases at the same time. A lock
    /// that is held while threads wait for each other stops them for good.
    #[test]
    fn threads_that_want_more_levels_do_not_wait_for_ever() {
        let geometry = Geometry::isotropic([64; 3], 1.0).unwrap();
        let data = Images { list: CaseList::made("CT", std::iter::repeat_n(geometry, 24)) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build().unwrap();
        for _ in 0..8 {
            let pyramids = Pyramids::new(std::env::temp_dir());
            let levels = |wanted: usize| -> Vec<usize> {
                let all = pyramids.get_all(&data, 0..24, &working(wanted), || false).unwrap();
                all.values().map(|pyramid| pyramid.levels()).collect()
            };
            assert_eq!(pool.install(|| levels(1)), [1; 24]);
            assert_eq!(pool.install(|| levels(4)), [4; 24]);
            assert_eq!(pool.install(|| levels(2)), [2; 24]);
        }
    }
}
