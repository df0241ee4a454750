//! Whether structures that are about as large as each other also have one shape, as vertebrae do and
//! the wall and the ventricles of a heart do not.

use crate::data::training_data::{Annotated, TrainingData, is_flat};
use crate::masks::frame::FrameGrid;
use crate::masks::samples::classes_on;

/// Cases that are looked at.
const CASES: usize = 10;

/// Voxels along each edge of the grid about a box.
const VOXELS: usize = 24;

/// The least overlap of mean shapes that are alike. Those of vertebrae from T11 to L5 overlap by 0.74 to
/// 0.94, even in boxes along the axes of the image; a right ventricle and the wall of the left by 0.37.
const ALIKE: f64 = 0.7;

/// By structure, the share of cases in which each voxel about its box has its label.
pub(crate) struct MeanShapes(Vec<Vec<f64>>);

impl MeanShapes {
    /// `labels` are the numbers of the labels of each structure.
    pub(crate) fn new<D: TrainingData + ?Sized>(
        data: &D,
        structures: &[Annotated],
        labels: &[Vec<usize>],
    ) -> Result<Self, D::Error> {
        let layers = if is_flat(data) { 1 } else { VOXELS };
        let grid = FrameGrid { shape: [VOXELS, VOXELS, layers], voxel_mm: 1.0 };
        let mut shapes = vec![vec![0.0; grid.len()]; structures.len()];
        let mut counts = vec![0.0; structures.len()];
        let mut looked_at = 0;
        for case in 0..data.list().len() {
            if looked_at == CASES {
                break;
            }
            let Some(classes) = data.classes(case)? else { continue };
            looked_at += 1;
            for (structure, (_, poses)) in structures.iter().enumerate() {
                let Some(&(_, pose)) = poses.iter().find(|(c, _)| *c == case) else { continue };
                let Some(about) = grid.about(&pose) else { continue };
                let own = std::array::from_fn(|class| {
                    u8::from(class > 0 && labels[structure].contains(&(class - 1)))
                });
                counts[structure] += 1.0;
                let inside = classes_on(&classes, &about, &own);
                for (sum, inside) in shapes[structure].iter_mut().zip(inside) {
                    *sum += f64::from(inside);
                }
            }
        }
        for (shape, count) in shapes.iter_mut().zip(counts) {
            shape.iter_mut().for_each(|sum| *sum /= f64::max(count, 1.0));
        }
        Ok(Self(shapes))
    }

    /// Whether two structures have one shape: Dice's coefficient of their mean shapes.
    pub(crate) fn are_alike(&self, a: usize, b: usize) -> bool {
        let both = || self.0[a].iter().zip(&self.0[b]);
        let common: f64 = both().map(|(a, b)| a.min(*b)).sum();
        2.0 * common >= ALIKE * both().map(|(a, b)| a + b).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_not_a_ball_of_its_size() {
        let of = |inside: &dyn Fn(f64) -> bool| -> Vec<f64> {
            let place = |n: usize| (n as f64 + 0.5) / VOXELS as f64 - 0.5;
            let radius = |n: usize| {
                let at = [n % VOXELS, n / VOXELS % VOXELS, n / VOXELS / VOXELS].map(place);
                at.iter().map(|x| x * x).sum::<f64>().sqrt()
            };
            (0..VOXELS.pow(3)).map(|n| f64::from(u8::from(inside(radius(n))))).collect()
        };
        let shapes = MeanShapes(vec![
            of(&|r| r < 0.45),
            of(&|r| r < 0.42),
            of(&|r| (0.38..0.45).contains(&r)),
        ]);
        assert!(shapes.are_alike(0, 1) && shapes.are_alike(0, 0));
        assert!(!shapes.are_alike(0, 2) && !shapes.are_alike(2, 1));
    }
}
