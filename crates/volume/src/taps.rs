//! Filters along one axis with integer weights.

use crate::Padding;
use rayon::prelude::*;
use std::ops::Range;

/// Weights are multiples of 2⁻¹⁴ and sum to exactly one.
const WEIGHT_BITS: u32 = 14;

/// Positions are rounded to multiples of 2⁻²⁰ voxel, so that grids that differ by rounding errors
/// of their affines only get the same weights.
const POSITION_STEPS: f64 = (1u32 << 20) as f64;

/// For each voxel of the result along an axis, which voxels of the source it is made of and their
/// weights.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Taps {
    outputs: Vec<Run>,
    weights: Vec<u16>,
}

/// Consecutive source voxels from `first` on, with the weights from `begin` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Run {
    first: usize,
    begin: usize,
    end: usize,
}

impl Taps {
    /// Result voxel `m` lies at position `start + m·step` (index units of the source, which has `n`
    /// voxels; `step > 0`). The filter is a triangle reaching `max(1, step)` to both sides: linear
    /// interpolation, or its anti-aliased form on a coarser grid.
    pub(crate) fn resize(
        start: f64,
        step: f64,
        outputs: usize,
        n: usize,
        padding: Padding,
    ) -> Self {
        Self::triangles((0..outputs).map(|m| start + m as f64 * step), step.max(1.0), n, padding)
    }

    /// Smoothing of the voxels in `outputs` by a triangle that reaches `reach > 1` to both sides.
    pub(crate) fn smooth(reach: f64, outputs: Range<usize>, n: usize, padding: Padding) -> Self {
        Self::triangles(outputs.map(|m| m as f64), reach, n, padding)
    }

    fn triangles(
        positions: impl Iterator<Item = f64>,
        reach: f64,
        n: usize,
        padding: Padding,
    ) -> Self {
        // Bounds the work where the whole source is far smaller than one voxel of the result.
        let reach = reach.min(64.0 * n as f64);
        let mut taps = Self { outputs: Vec::new(), weights: Vec::new() };
        let mut shares = Vec::new();
        for position in positions {
            // Further away than the filter reaches, nothing changes any more.
            let position = position.clamp(-reach - 1.0, n as f64 + reach);
            let position = libm::floor(position * POSITION_STEPS + 0.5) / POSITION_STEPS;
            let (from, to) =
                (libm::ceil(position - reach) as i64, libm::floor(position + reach) as i64);
            let inside = |i: i64| i.clamp(0, n as i64 - 1) as usize;
            let first = inside(from);
            shares.clear();
            shares.resize(inside(to) - first + 1, 0.0);
            let mut total = 0.0;
            for i in from..=to {
                let share = 1.0 - (i as f64 - position).abs() / reach;
                total += share;
                if padding == Padding::Edge || (0..n as i64).contains(&i) {
                    shares[inside(i) - first] += share;
                }
            }
            taps.push(first, &shares, total);
        }
        taps
    }

    /// One result voxel. Rounding the running sum of the shares makes the weights of a whole filter
    /// sum to exactly one.
    fn push(&mut self, first: usize, shares: &[f64], total: f64) {
        let begin = self.weights.len();
        let (mut sum, mut spent) = (0.0, 0);
        for share in shares {
            sum += share;
            let upto = libm::floor(sum / total * f64::from(1u32 << WEIGHT_BITS) + 0.5) as u16;
            self.weights.push(upto - spent);
            spent = upto;
        }
        let used = self.weights[begin..].iter();
        let leading = used.clone().take_while(|&&w| w == 0).count();
        let trailing = used.rev().take_while(|&&w| w == 0).count();
        if leading == shares.len() {
            // Nothing but zero padding in reach: no tap at all.
            self.weights.truncate(begin);
            self.outputs.push(Run { first: 0, begin, end: begin });
        } else {
            self.weights.truncate(self.weights.len() - trailing);
            self.weights.drain(begin..begin + leading);
            self.outputs.push(Run { first: first + leading, begin, end: self.weights.len() });
        }
    }

    /// The same filter on a source of `n` voxels whose axis is stored in the other direction.
    pub(crate) fn flipped(mut self, n: usize) -> Self {
        for run in &mut self.outputs {
            self.weights[run.begin..run.end].reverse();
            run.first = n - (run.first + run.end - run.begin);
        }
        self
    }

    /// Whether the result is the source, of `n` voxels, itself.
    pub(crate) fn is_identity(&self, n: usize) -> bool {
        let one = 1 << WEIGHT_BITS;
        self.outputs.len() == n
            && self
                .outputs
                .iter()
                .enumerate()
                .all(|(m, run)| run.first == m && self.weights[run.begin..run.end] == [one])
    }

    /// Number of voxels of the result.
    pub(crate) fn len(&self) -> usize {
        self.outputs.len()
    }

    /// The voxels of the source that count, at least one.
    fn source(&self) -> Range<usize> {
        let used = || self.outputs.iter().filter(|run| run.begin < run.end);
        let first = used().map(|run| run.first).min().unwrap_or(0);
        let last = used().map(|run| run.first + run.end - run.begin).max();
        first..last.unwrap_or(first + 1)
    }

    /// Some voxels of the result, and the voxels of the source that they take, which the taps of the
    /// part count from the first of them.
    pub(crate) fn part(&self, outputs: Range<usize>) -> (Range<usize>, Self) {
        let mut part = Self { outputs: Vec::with_capacity(outputs.len()), weights: Vec::new() };
        for run in &self.outputs[outputs] {
            let begin = part.weights.len();
            part.weights.extend_from_slice(&self.weights[run.begin..run.end]);
            part.outputs.push(Run { first: run.first, begin, end: part.weights.len() });
        }
        let source = part.source();
        for run in &mut part.outputs {
            // What takes nothing may begin anywhere.
            run.first = if run.begin < run.end { run.first - source.start } else { 0 };
        }
        (source, part)
    }

    /// Filters an array (i fastest) along one axis, and rounds to the nearest integer.
    pub(crate) fn apply(&self, data: &[u16], shape: [usize; 3], axis: usize) -> Vec<u16> {
        let n = shape[axis];
        let inner: usize = shape[..axis].iter().product();
        let mut out = vec![0u16; data.len() / n * self.outputs.len()];
        if axis == 0 {
            out.par_chunks_mut(self.outputs.len())
                .zip(data.par_chunks(n))
                .for_each(|(to, from)| self.filter_row(from, to));
        } else {
            out.par_chunks_mut(inner).enumerate().for_each(|(line, to)| {
                let (outer, m) = (line / self.outputs.len(), line % self.outputs.len());
                let run = self.outputs[m];
                let from = &data[(outer * n + run.first) * inner..];
                blend(from, inner, &self.weights[run.begin..run.end], to);
            });
        }
        out
    }

    fn filter_row(&self, from: &[u16], to: &mut [u16]) {
        for (to, run) in to.iter_mut().zip(&self.outputs) {
            let weights = &self.weights[run.begin..run.end];
            let sum: u32 = weights
                .iter()
                .zip(&from[run.first..])
                .map(|(&w, &v)| u32::from(w) * u32::from(v))
                .sum();
            *to = rounded(sum);
        }
    }
}

/// Weighted sum of lines that lie `inner` apart, a block at a time so that the sums stay in the
/// nearest cache.
fn blend(from: &[u16], inner: usize, weights: &[u16], to: &mut [u16]) {
    const BLOCK: usize = 1024;
    let mut sums = [0u32; BLOCK];
    for (block, to) in to.chunks_mut(BLOCK).enumerate() {
        let sums = &mut sums[..to.len()];
        sums.fill(0);
        for (n, &weight) in weights.iter().enumerate() {
            let line = &from[n * inner + block * BLOCK..][..to.len()];
            sums.iter_mut()
                .zip(line)
                .for_each(|(sum, &v)| *sum += u32::from(weight) * u32::from(v));
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = rounded(*sum));
    }
}

/// Weights sum to at most one and voxels have 16 bits, so a sum has at most 30.
fn rounded(sum: u32) -> u16 {
    ((sum + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn weights_sum_to_one_and_center_on_the_position(
            start in -3.0f64..60.0,
            step in 0.05f64..9.0,
            outputs in 1usize..40,
            n in 1usize..50,
        ) {
            let taps = Taps::resize(start, step, outputs, n, Padding::Edge);
            for (m, run) in taps.outputs.iter().enumerate() {
                let weights = &taps.weights[run.begin..run.end];
                prop_assert_eq!(weights.iter().map(|&w| u32::from(w)).sum::<u32>(), 1 << WEIGHT_BITS);
                prop_assert!(run.first + weights.len() <= n);
                let position = start + m as f64 * step;
                let reach = step.max(1.0);
                if position - reach >= 0.0 && position + reach <= (n - 1) as f64 {
                    let middle: f64 = weights.iter().enumerate().map(|(q, &w)| (run.first + q) as f64 * f64::from(w)).sum();
                    // Between samples the widened triangle is not balanced to the last digit.
                    let tolerance = if step <= 1.0 { 1e-4 } else { 0.3 / reach };
                    prop_assert!((middle / 16384.0 - position).abs() < tolerance, "{} {}", middle / 16384.0, position);
                }
            }
            // With zeros around it, the same filter loses what lies outside and gains nothing.
            let zero = Taps::resize(start, step, outputs, n, Padding::Zero);
            for (run, with_edge) in zero.outputs.iter().zip(&taps.outputs) {
                let total = |taps: &Taps, run: &Run| taps.weights[run.begin..run.end].iter().map(|&w| u32::from(w)).sum::<u32>();
                prop_assert!(total(&zero, run) <= total(&taps, with_edge));
            }
        }
    }

    #[test]
    fn known_filters() {
        let weights = |taps: &Taps, m: usize| {
            (
                taps.outputs[m].first,
                taps.weights[taps.outputs[m].begin..taps.outputs[m].end].to_vec(),
            )
        };
        assert!(Taps::resize(0.0, 1.0, 9, 9, Padding::Zero).is_identity(9));
        assert!(!Taps::resize(0.0, 1.0, 8, 9, Padding::Zero).is_identity(9));
        assert_eq!(
            weights(&Taps::resize(2.25, 1.0, 1, 9, Padding::Zero), 0),
            (2, vec![12288, 4096])
        );
        // Half the resolution, between two voxels: 1/8, 3/8, 3/8, 1/8, as PIL's bilinear reduction
        // has it.
        assert_eq!(
            weights(&Taps::resize(4.5, 2.0, 1, 9, Padding::Zero), 0),
            (3, vec![2048, 6144, 6144, 2048])
        );
        assert_eq!(weights(&Taps::resize(-0.5, 1.0, 1, 9, Padding::Zero), 0), (0, vec![8192]));
        assert_eq!(weights(&Taps::resize(-0.5, 1.0, 1, 9, Padding::Edge), 0), (0, vec![16384]));
        assert_eq!(weights(&Taps::resize(-7.0, 1.0, 1, 9, Padding::Zero), 0), (0, vec![]));
        assert_eq!(weights(&Taps::resize(1e300, 1.0, 1, 9, Padding::Edge), 0), (8, vec![16384]));
        assert_eq!(
            weights(&Taps::resize(2.25, 1.0, 1, 9, Padding::Zero).flipped(9), 0),
            (5, vec![4096, 12288])
        );
    }

    #[test]
    fn an_absurd_reduction_ends_and_is_the_mean() {
        let taps = Taps::resize(1.0, 1e12, 2, 3, Padding::Edge);
        assert_eq!(taps.apply(&[0, 3000, 6000], [3, 1, 1], 0)[0], 3000);
    }
}
