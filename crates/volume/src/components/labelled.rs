//! Components as labelled runs.

use super::runs::{Run, Runs};
use super::statistics::Component;
use crate::{Geometry, LargePages, NotEnoughMemory, Volume};
use bytemuck::Pod;
use rayon::prelude::*;

/// Voxels of one task; any value gives the same result.
const TASK: usize = 1 << 16;

/// The connected components of a grid, numbered from 1. They are kept as runs along i, some bytes a
/// run; [`Components::voxels`] makes a label map of them.
#[derive(Debug, Clone)]
pub struct Components {
    geometry: Geometry,
    runs: Runs,
    /// By run; 0 for those of components that were taken away.
    label_of_run: Vec<u32>,
    count: usize,
}

impl Components {
    pub(super) fn new_labelled(
        geometry: Geometry,
        runs: Runs,
        label_of_run: Vec<u32>,
        count: usize,
    ) -> Self {
        Self { geometry, runs, label_of_run, count }
    }

    /// Number of components.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Shape and placement of the grid.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Volume of one voxel, mm³.
    pub fn voxel_mm3(&self) -> f64 {
        self.geometry.matrix().determinant().abs()
    }

    /// Takes away components that are not wanted, by index from 0; the others are numbered anew in
    /// the same order.
    ///
    /// # Errors
    /// When there is no memory for a number a component.
    pub fn keep(&mut self, wanted: impl Fn(usize) -> bool) -> Result<(), NotEnoughMemory> {
        let mut new_label: Vec<u32> = crate::try_zeroed(self.count + 1)?;
        let mut kept = 0;
        for n in (0..self.count).filter(|&n| wanted(n)) {
            kept += 1;
            new_label[n + 1] = kept;
        }
        self.label_of_run.par_iter_mut().for_each(|label| *label = new_label[*label as usize]);
        self.count = kept as usize;
        Ok(())
    }

    /// Keeps the components with the most voxels; of two with as many, the one that comes first.
    ///
    /// # Errors
    /// When there is no memory for the statistics.
    pub fn keep_largest(&mut self, count: usize) -> Result<(), NotEnoughMemory> {
        if count >= self.count {
            return Ok(());
        }
        let sizes = self.sizes()?;
        let mut order: Vec<u32> = crate::try_zeroed(self.count)?;
        order.iter_mut().zip(0..).for_each(|(place, n)| *place = n);
        order.sort_unstable_by_key(|&n| (std::cmp::Reverse(sizes[n as usize]), n));
        let mut wanted: Vec<bool> = crate::try_zeroed(self.count)?;
        order[..count].iter().for_each(|&n| wanted[n as usize] = true);
        self.keep(|n| wanted[n])
    }

    /// Keeps the components of at least so many mm³.
    ///
    /// # Errors
    /// When there is no memory for the statistics.
    pub fn keep_from_mm3(&mut self, least_mm3: f64) -> Result<(), NotEnoughMemory> {
        let (sizes, voxel_mm3) = (self.sizes()?, self.voxel_mm3());
        self.keep(|n| sizes[n] as f64 * voxel_mm3 >= least_mm3)
    }

    /// Voxels by component.
    fn sizes(&self) -> Result<Vec<u64>, NotEnoughMemory> {
        let mut sizes = crate::try_zeroed(self.count + 1)?;
        for (run, &label) in self.runs.all.iter().zip(&self.label_of_run) {
            sizes[label as usize] += run.len();
        }
        sizes.remove(0);
        Ok(sizes)
    }

    /// Every voxel's label through `of_label`, i fastest; background and what was taken away are 0.
    ///
    /// # Errors
    /// When there is no memory for the voxels.
    pub fn voxels<L: Pod + Send + Sync>(
        &self,
        of_label: impl Fn(u32) -> L + Sync,
    ) -> Result<LargePages<L>, NotEnoughMemory> {
        let mut voxels = LargePages::zeroed(self.geometry.len())?;
        // What is 0 already stays untouched.
        self.by_rows(&mut voxels, |row, voxels| self.paint(row, voxels, &of_label));
        Ok(voxels)
    }

    /// As [`Components::voxels`], into memory that holds anything.
    ///
    /// # Panics
    /// When there are not as many places as voxels.
    pub fn fill<L: Copy + Default + Send>(
        &self,
        voxels: &mut [L],
        of_label: impl Fn(u32) -> L + Sync,
    ) {
        assert_eq!(voxels.len(), self.geometry.len(), "voxels and shape disagree");
        self.by_rows(voxels, |row, voxels| {
            voxels.fill(L::default());
            self.paint(row, voxels, &of_label);
        });
    }

    /// Calls `f` with each row's number and voxels.
    fn by_rows<L: Send>(&self, voxels: &mut [L], f: impl Fn(usize, &mut [L]) + Sync) {
        let [nx, ..] = self.geometry.shape();
        let rows_per_task = (TASK / nx).max(1);
        voxels.par_chunks_mut(rows_per_task * nx).enumerate().for_each(|(task, rows)| {
            for (row, voxels) in (task * rows_per_task..).zip(rows.chunks_exact_mut(nx)) {
                f(row, voxels);
            }
        });
    }

    fn paint<L: Copy>(&self, row: usize, voxels: &mut [L], of_label: impl Fn(u32) -> L) {
        for (run, label) in self.labelled_runs(row) {
            voxels[run.first as usize..=run.last as usize].fill(of_label(label));
        }
    }

    /// Runs of row `j + ny·k` with their labels, without those taken away.
    pub(super) fn labelled_runs(&self, row: usize) -> impl Iterator<Item = (Run, u32)> {
        let numbers = self.runs.of_row(row);
        let runs = self.runs.all[numbers.clone()].iter().copied();
        runs.zip(self.label_of_run[numbers].iter().copied()).filter(|&(_, label)| label != 0)
    }

    /// Runs of all rows in raster order, each with its label, j and k.
    pub(super) fn all_runs(&self) -> impl Iterator<Item = (Run, u32, [usize; 2])> {
        let [_, ny, _] = self.geometry.shape();
        (0..self.runs.rows()).flat_map(move |row| {
            self.labelled_runs(row).map(move |(run, label)| (run, label, [row % ny, row / ny]))
        })
    }

    /// Size, box and centroid of each component, in their order; with an image of the same grid, the
    /// sum of its intensities, too.
    ///
    /// # Errors
    /// When there is no memory for them.
    ///
    /// # Panics
    /// When the image has another shape: a programming error.
    pub fn statistics(
        &self,
        image: Option<&Volume<f32>>,
    ) -> Result<Vec<Component>, NotEnoughMemory> {
        if let Some(image) = image {
            assert_eq!(image.shape(), self.geometry.shape(), "the image has another shape");
        }
        super::statistics::statistics(self, image)
    }
}
