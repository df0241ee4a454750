//! Whether a component may be one solid thing: the three tests of the method's paper, which had them
//! for 2D images (size, filling, extents), in 3D.

use super::labelled::Components;
use crate::{NotEnoughMemory, try_zeroed};

/// What the tests look at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plausibility {
    /// Volume of the voxels.
    pub volume_mm3: f64,
    /// 3n / (Vᵢ + Vⱼ + Vₖ) for n voxels, where Vₐ counts the voxels between the first and the last
    /// of the component on each grid line along axis a, these two included: 1 for what is convex along
    /// the axes, less with holes, gaps and branches.
    pub filling: f64,
    /// Vₐ divided by the number of grid lines along a that meet the component, in mm: how far it
    /// reaches along i, j and k in the mean.
    pub mean_extent_mm: [f64; 3],
}

/// The least that a plausible component has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlausibilityLimits {
    /// Volume.
    pub volume_mm3: f64,
    /// Filling, up to 1; the paper has 0.75.
    pub filling: f64,
    /// Mean extent along every axis.
    pub extent_mm: f64,
}

impl Plausibility {
    /// Whether all three tests are passed.
    pub fn passes(&self, limits: &PlausibilityLimits) -> bool {
        self.volume_mm3 >= limits.volume_mm3
            && self.filling >= limits.filling
            && self.mean_extent_mm.iter().all(|&mm| mm >= limits.extent_mm)
    }
}

/// Parallel grid lines, each with the first and the last place on it where the component was seen.
struct Lines {
    /// Places from 1; 0 for a line that does not meet the component.
    ends: Vec<[u32; 2]>,
    /// Of the lines that were closed: how many, and the places from first to last.
    count: u64,
    places: u64,
}

impl Lines {
    fn new(count: usize) -> Result<Self, NotEnoughMemory> {
        Ok(Self { ends: try_zeroed(count)?, count: 0, places: 0 })
    }

    /// Marks a place on neighbouring lines; places come in rising order.
    fn see(&mut self, lines: std::ops::RangeInclusive<usize>, place: usize) {
        let place = place as u32 + 1;
        for [first, last] in &mut self.ends[lines] {
            if *first == 0 {
                *first = place;
            }
            *last = place;
        }
    }

    /// Counts the lines and forgets what was seen on them.
    fn close(&mut self) {
        for ends in &mut self.ends {
            let [first, last] = std::mem::take(ends);
            if first > 0 {
                self.count += 1;
                self.places += u64::from(last - first) + 1;
            }
        }
    }
}

impl Components {
    /// The plausibility of one component, by index from 0. Goes through all runs: meant for the few
    /// largest.
    ///
    /// # Errors
    /// When there is no memory for eight bytes a voxel of two planes.
    ///
    /// # Panics
    /// When there are not so many components.
    pub fn plausibility(&self, component: usize) -> Result<Plausibility, NotEnoughMemory> {
        assert!(component < self.len(), "no component {component}");
        let [nx, ny, _] = self.geometry().shape();
        // Lines along j of one plane, lines along k of the whole grid.
        let (mut along_j, mut along_k) = (Lines::new(nx)?, Lines::new(nx * ny)?);
        let (mut voxels, mut along_i) = (0, Lines::new(0)?);
        let mut last_place = [usize::MAX; 2];
        let mut reach: Option<[u32; 2]> = None;
        let mut close_row = |reach: &mut Option<[u32; 2]>| {
            if let Some([first, last]) = reach.take() {
                along_i.count += 1;
                along_i.places += u64::from(last - first) + 1;
            }
        };
        for (run, label, [j, k]) in self.all_runs() {
            if label as usize != component + 1 {
                continue;
            }
            if last_place != [j, k] {
                close_row(&mut reach);
            }
            if last_place[1] != k {
                along_j.close();
            }
            last_place = [j, k];
            reach = Some([reach.map_or(run.first, |[first, _]| first), run.last]);
            voxels += run.len();
            let (first, last) = (run.first as usize, run.last as usize);
            along_j.see(first..=last, j);
            along_k.see(first + nx * j..=last + nx * j, k);
        }
        close_row(&mut reach);
        along_j.close();
        along_k.close();
        let lines = [along_i, along_j, along_k];
        let spacing_mm = self.geometry().spacing_mm();
        let places: u64 = lines.iter().map(|lines| lines.places).sum();
        Ok(Plausibility {
            volume_mm3: voxels as f64 * self.voxel_mm3(),
            filling: 3.0 * voxels as f64 / places as f64,
            mean_extent_mm: std::array::from_fn(|a| {
                lines[a].places as f64 / lines[a].count as f64 * spacing_mm[a]
            }),
        })
    }
}
