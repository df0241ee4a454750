//! Connected components of a mask or label map on a 3D grid.
//!
//! Rows become bits, bits become runs, and runs that touch are joined by union-find: slabs of rows
//! side by side, then the contacts between slabs (He, Chao and Suzuki, "A run-based two-scan labeling
//! algorithm", IEEE Transactions on Image Processing 17, 2008; here in 3D). Voxels are looked at once
//! and labels written once; all between works on runs, and for 26 neighbours in a mask on runs of
//! bundles of rows.

mod beams;
mod bits;
mod contacts;
mod labelled;
mod plausibility;
mod rule;
mod runs;
mod slabs;
mod statistics;
#[cfg(test)]
mod tests;
mod union_find;

pub use labelled::Components;
pub use plausibility::{Plausibility, PlausibilityLimits};
pub use statistics::Component;

use crate::{Geometry, NotEnoughMemory, Volume, check_memory};
use beams::Beams;
use bits::BitRows;
use contacts::Contacts;
use rule::{Mask, Rule, SameLabel, WithinStep};
use runs::Runs;

/// Grids of so many voxels and more are refused: numbers of runs are 32 bits wide.
pub const TOO_MANY_VOXELS: usize = 1 << 31;

/// Which voxels are neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connectivity {
    /// Those that share a face.
    Six,
    /// Those that share a face or an edge.
    Eighteen,
    /// Those that share a face, an edge or a corner.
    TwentySix,
}

/// What neighbours in the foreground must have in common to be of one component.
#[derive(Debug, Clone, Copy, Default)]
pub struct Joining<'a> {
    /// The same value.
    pub same_label: bool,
    /// Intensities, on the same grid, that differ by at most a step. It holds between neighbours
    /// only: over many voxels a component may cover any range. A voxel that is no number, or
    /// infinite, is alone.
    pub intensity: Option<(&'a Volume<f32>, f64)>,
}

/// Why components were not labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ComponentsError {
    /// The grid is too large.
    #[error("{0:?} are 2^31 voxels or more")]
    TooLarge([usize; 3]),
    /// There is no memory for the runs or what follows from them.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
}

impl Components {
    /// The components of the voxels whose values are foreground. They are numbered from 1 in the
    /// order of their first voxels in memory (i fastest), as `scipy.ndimage.label` does. Labels do
    /// not depend on the number of threads.
    ///
    /// # Errors
    /// [`ComponentsError`] for 2³¹ voxels and more, and when there is no memory: a quarter of a byte a
    /// voxel, and 12 bytes a run.
    ///
    /// # Panics
    /// When the intensities have another shape: a programming error.
    pub fn new<T: Copy + PartialEq + Sync>(
        volume: &Volume<T>,
        foreground: impl Fn(T) -> bool + Sync,
        connectivity: Connectivity,
        joining: Joining,
    ) -> Result<Self, ComponentsError> {
        let mask = Mask { values: volume.data(), foreground };
        let geometry = volume.geometry();
        match (joining.same_label, joining.intensity) {
            (false, None) => labelled(geometry, &mask, connectivity),
            (true, None) => labelled(geometry, &SameLabel(mask), connectivity),
            (false, Some(limit)) => {
                labelled(geometry, &within_step(mask, geometry, limit), connectivity)
            }
            (true, Some(limit)) => {
                labelled(geometry, &within_step(SameLabel(mask), geometry, limit), connectivity)
            }
        }
    }
}

fn within_step<'a, R>(
    rule: R,
    geometry: &Geometry,
    (image, step): (&'a Volume<f32>, f64),
) -> WithinStep<'a, R> {
    assert_eq!(image.shape(), geometry.shape(), "intensities have another shape");
    WithinStep { rule, intensity: image.data(), step }
}

fn labelled<R: Rule>(
    geometry: &Geometry,
    rule: &R,
    connectivity: Connectivity,
) -> Result<Components, ComponentsError> {
    let shape = geometry.shape();
    if geometry.len() >= TOO_MANY_VOXELS {
        return Err(ComponentsError::TooLarge(shape));
    }
    check_memory(BitRows::bytes(shape) + Beams::bytes(shape))?;
    let bits = BitRows::new(shape, rule)?;
    let runs = Runs::new(&bits, shape[1] * shape[2])?;
    let (label_of_run, count) = if R::ALWAYS && connectivity == Connectivity::TwentySix {
        Beams::new(&bits, shape)?.labels(&runs)?
    } else {
        Contacts { shape, runs: &runs, rule, connectivity }.labels()?
    };
    Ok(Components::new_labelled(geometry.clone(), runs, label_of_run, count as usize))
}
