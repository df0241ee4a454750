//! Made cases with a region, for tests.

use crate::DetectError;
use crate::data::case_list::CaseList;
use crate::segment::data::{LabelledImage, RegionData, RegionName};
use crate::train::observer::Observer;
use nalgebra::{Matrix3, Vector3};
use pbt_volume::{Geometry, PointLps, Random, Volume};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bright balls in noise, of one grid.
pub(super) struct Balls {
    pub(super) list: CaseList,
    pub(super) regions: Vec<RegionName>,
    /// How often a case was read.
    pub(super) loads: AtomicUsize,
}

impl Balls {
    pub(super) fn new(count: usize) -> Self {
        let matrix = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.6));
        let origin = PointLps::new(9.0, 0.0, -4.0);
        let geometry = Geometry::new([24, 22, 15], matrix, origin).unwrap();
        Self {
            list: CaseList::made("MR", std::iter::repeat_n(geometry, count)),
            regions: vec![RegionName { name: "ball".into(), value: 300 }],
            loads: AtomicUsize::new(0),
        }
    }
}

impl RegionData for Balls {
    type Error = DetectError;

    fn list(&self) -> &CaseList {
        &self.list
    }

    fn regions(&self) -> &[RegionName] {
        &self.regions
    }

    fn load(&self, case: usize) -> Result<LabelledImage, DetectError> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let mut random = Random::from_seed(case as u64);
        let middle = [12.0, 11.0, 11.0].map(|m| m + random.between(-3.0, 3.0));
        let inside = |i: usize, j: usize, k: usize| {
            let at = [i as f64, j as f64, k as f64 * 1.6];
            (0..3).map(|a| (at[a] - middle[a]).powi(2)).sum::<f64>() < 30.0
        };
        let classes =
            Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| u8::from(inside(i, j, k)));
        let image = Volume::from_fn(self.list.geometry(case).clone(), |i, j, k| {
            (100.0 * f64::from(classes.at(i, j, k)) + 40.0 * random.normal()) as f32
        });
        Ok(LabelledImage { image: image.into(), classes })
    }
}

/// Neither listens nor interrupts.
pub(super) struct Silent;

impl Observer for Silent {
    fn stage(&self, _structure: &str, _stage: &str, _done: f64) {}

    fn interrupted(&self) -> bool {
        false
    }

    fn checkpoint(&self, _bytes: &[u8]) -> Result<(), DetectError> {
        Ok(())
    }
}
