//! How the landmarks of a data set usually lie to each other, and which of a case do not.
//!
//! The usual shape is that of generalised Procrustes analysis (Gower 1975) with medians in place of
//! means, so that a few wrong cases do not move it. A landmark is held against its neighbours: where
//! a nose is short, all of its landmarks are, and none of them is wrong. In each case the landmark
//! without which the rest fits best is blamed and left out, or two are exchanged, until the rest agrees.

use super::robust::{FEWEST_TO_COMPARE, Robust, UNSURE_CASES, median};
use nalgebra::Vector3;
use pbt_evaluate::quantile;
use pbt_io::Similarity;

/// A landmark that is off by fewer robust standard deviations than this is not worth a look …
const DEVIATIONS: f64 = 8.0;

/// … nor one that is off by less than this share of the shape's size.
const OFF: f64 = 0.15;

/// A deviation along an axis is at least so large, as a share of the shape's size: nobody places
/// points better.
const SMALLEST_DEVIATION: f64 = 0.01;

/// Of the landmarks of a case, one in so many may be blamed; where more would have to be, it is the
/// whole that does not fit.
const BLAMED_OF: usize = 3;

/// So many of the landmarks that fit least are tried when one is to be blamed.
const TRIED: usize = 10;

/// A landmark is held against so many others, those that usually are nearest.
const NEIGHBOURS: usize = 5;

/// Deviations are enlarged until nine in ten offsets are within this many of them: where offsets have
/// long tails, what stands out must be three times as far.
const NINE_IN_TEN: f64 = DEVIATIONS / 3.0;

/// Rounds of the alignment; medians settle soon.
const ROUNDS: usize = 10;

/// By landmark of the data set, where a case has it.
pub(super) type Points = Vec<Option<Vector3<f64>>>;

/// How the landmarks usually lie.
pub(super) struct UsualShape {
    /// Whether all points lie in the plane z = 0, and turn about z alone.
    flat: bool,
    /// By landmark, its usual place: centred, and of size 1, the root mean square distance from the
    /// centre. `None` where too few cases have it.
    points: Points,
    /// By landmark, the others, those that usually are nearest first.
    neighbours: Vec<Vec<usize>>,
    /// By landmark, the robust standard deviations from its neighbours along the axes of the shape.
    deviation: Vec<Vector3<f64>>,
}

/// A case on the usual shape.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// From the shape to the case, whose x has the other sign where it is mirrored.
    pub(super) fit: Similarity,
    pub(super) mirrored: bool,
    /// Why not all of its landmarks fit; `None` where too many do not.
    pub(super) misfits: Option<Misfits>,
}

/// What has to be wrong so that the rest of a case fits.
#[derive(Debug, Clone, Default)]
pub(super) struct Misfits {
    pub(super) off: Vec<Off>,
    pub(super) exchanged: Vec<[usize; 2]>,
}

/// A landmark that lies elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Off {
    pub(super) landmark: usize,
    /// How far, as a share of the shape's size in the case.
    pub(super) share: f64,
    pub(super) deviations: f64,
}

impl UsualShape {
    /// `None` where too few cases have landmarks that tell a shape.
    pub(super) fn of(seen: &[Points], flat: bool) -> Option<Self> {
        let count = seen.first()?.len();
        let cases_with = |landmark: usize| seen.iter().filter(|p| p[landmark].is_some()).count();
        let is_known: Vec<bool> =
            (0..count).map(|landmark| cases_with(landmark) >= FEWEST_TO_COMPARE).collect();
        let known = |points: &Points| -> Points {
            points.iter().zip(&is_known).map(|(point, &known)| point.filter(|_| known)).collect()
        };
        let seen: Vec<Points> = seen.iter().map(known).collect();
        let fullest = seen.iter().rev().max_by_key(|points| points.iter().flatten().count())?;
        let points = normalised(fullest)?;
        let mut usual = Self { flat, points, neighbours: Vec::new(), deviation: Vec::new() };
        for _ in 0..ROUNDS {
            let residuals: Vec<Points> =
                seen.iter().filter_map(|p| Some(usual.residuals(p, &usual.fit(p, &[])?))).collect();
            let moved = |(n, old): (usize, &Option<Vector3<f64>>)| {
                let moved = middle(residuals.iter().filter_map(|r| r[n]))?;
                Some(old.unwrap_or_default() + moved)
            };
            let points: Points = usual.points.iter().enumerate().map(moved).collect();
            usual.points = normalised(&points)?;
        }
        usual.neighbours = (0..count).map(|landmark| usual.nearest(landmark)).collect();
        let unknown = Vector3::repeat(f64::INFINITY);
        let offsets: Vec<Points> =
            seen.iter().filter_map(|p| Some(usual.offsets(p, &[])?.1)).collect();
        let of = |n: usize| offsets.iter().filter_map(move |offsets| offsets[n]);
        usual.deviation = (0..count).map(|n| deviation(of(n)).unwrap_or(unknown)).collect();
        // Cases that fit nowhere say nothing of tails.
        let is_alike = |placed: &Placed| !placed.mirrored && placed.misfits.is_some();
        let alike = seen.iter().filter(|points| usual.place(points).is_some_and(|p| is_alike(&p)));
        let offs: Vec<Vec<Off>> =
            alike.filter_map(|points| Some(usual.offs(points, &[])?.1)).collect();
        let of = |n: usize| offs.iter().flatten().filter(move |off| off.landmark == n);
        let tails: Vec<f64> = (0..count).map(|n| tail(of(n).map(|off| off.deviations))).collect();
        for (deviation, tail) in usual.deviation.iter_mut().zip(tails) {
            *deviation *= tail;
        }
        Some(usual)
    }

    /// The landmarks that usually are nearest to one.
    fn nearest(&self, landmark: usize) -> Vec<usize> {
        let Some(own) = self.points[landmark] else { return Vec::new() };
        let distance = |n: usize| self.points[n].map(|point| (point - own).norm());
        let mut others: Vec<(f64, usize)> = (0..self.points.len())
            .filter(|&n| n != landmark)
            .filter_map(|n| Some((distance(n)?, n)))
            .collect();
        others.sort_by(|a, b| a.0.total_cmp(&b.0));
        others.into_iter().map(|(_, n)| n).collect()
    }

    /// By landmark, how far a case has it from its usual place, on the shape.
    fn residuals(&self, points: &Points, fit: &Similarity) -> Points {
        let residual = |(x, m): (&Option<Vector3<f64>>, &Option<Vector3<f64>>)| {
            x.as_ref().map(|x| fit.undo(x) - m.unwrap_or_default())
        };
        points.iter().zip(&self.points).map(residual).collect()
    }

    /// By landmark, how far a case has it from where its neighbours expect it, on the shape, and the
    /// fit. Landmarks that are left out expect nothing.
    fn offsets(&self, points: &Points, left_out: &[usize]) -> Option<(Similarity, Points)> {
        let fit = self.fit(points, left_out)?;
        let residuals = self.residuals(points, &fit);
        let offset = |n: usize| {
            let neighbours = self.neighbours[n].iter().filter(|m| !left_out.contains(m));
            let expected = middle(neighbours.filter_map(|&m| residuals[m]).take(NEIGHBOURS))?;
            self.points[n]?;
            Some(residuals[n]? - expected)
        };
        Some((fit, (0..points.len()).map(offset).collect()))
    }

    /// What brings the shape to the landmarks of a case, some left out. `None` where the rest does not
    /// tell how it is turned.
    fn fit(&self, points: &Points, left_out: &[usize]) -> Option<Similarity> {
        let both = |(landmark, (m, x)): (usize, (&Option<_>, &Option<_>))| {
            (!left_out.contains(&landmark)).then_some(((*m)?, (*x)?))
        };
        let (from, to): (Vec<Vector3<f64>>, Vec<Vector3<f64>>) =
            self.points.iter().zip(points).enumerate().filter_map(both).unzip();
        // Two points tell a rotation in a plane, three in space.
        (from.len() >= if self.flat { 2 } else { 3 })
            .then(|| Similarity::between(&from, &to, self.flat))?
    }

    /// How a case lies on the shape. `None` where its landmarks do not tell how it is turned.
    pub(super) fn place(&self, points: &Points) -> Option<Placed> {
        let flip = |point: &Option<Vector3<f64>>| point.map(|p| Vector3::new(-p.x, p.y, p.z));
        let mirrored: Points = points.iter().map(flip).collect();
        let as_it_is = self.explained(points.clone(), false)?;
        let Some(mirrored) = self.explained(mirrored, true) else { return Some(as_it_is) };
        // That it is mirrored is a fault, too.
        Some(if mirrored.faults() + 1 < as_it_is.faults() { mirrored } else { as_it_is })
    }

    /// A case with the landmarks to blame, so that the rest fits.
    fn explained(&self, mut points: Points, mirrored: bool) -> Option<Placed> {
        let (mut left_out, mut exchanged) = (Vec::new(), Vec::new());
        let count =
            (0..points.len()).filter(|&n| points[n].is_some() && self.points[n].is_some()).count();
        let whole = self.fit(&points, &[])?;
        loop {
            let offs = self.offs(&points, &left_out);
            let is_kept = |off: &&Off| !left_out.contains(&off.landmark);
            let Some((fit, offs)) = offs.filter(|(_, offs)| offs.iter().any(|o| is_kept(&o)))
            else {
                return Some(Placed { fit: whole, mirrored, misfits: None });
            };
            let kept: Vec<&Off> = offs.iter().filter(is_kept).collect();
            if kept[0].deviations < DEVIATIONS {
                let is_off = |off: &&Off| off.deviations >= DEVIATIONS && off.share >= OFF;
                let off = offs.iter().filter(|off| left_out.contains(&off.landmark));
                let off = off.filter(is_off).cloned().collect();
                return Some(Placed { fit, mirrored, misfits: Some(Misfits { off, exchanged }) });
            }
            if (left_out.len() + exchanged.len() + 1) * BLAMED_OF > count {
                return Some(Placed { fit: whole, mirrored, misfits: None });
            }
            let tried: Vec<usize> = kept.iter().take(TRIED).map(|off| off.landmark).collect();
            let mut best: (f64, Vec<usize>, Option<[usize; 2]>) = (f64::INFINITY, Vec::new(), None);
            for (n, &one) in tried.iter().enumerate() {
                let without = [&left_out[..], &[one]].concat();
                let cost = self.cost(&points, &without);
                if cost < best.0 {
                    best = (cost, without, None);
                }
                for &other in &tried[n + 1..] {
                    points.swap(one, other);
                    let cost = self.cost(&points, &left_out);
                    if cost < best.0 {
                        best = (cost, left_out.clone(), Some([one.min(other), one.max(other)]));
                    }
                    points.swap(one, other);
                }
            }
            left_out = best.1;
            if let Some([one, other]) = best.2 {
                points.swap(one, other);
                exchanged.push([one, other]);
            }
        }
    }

    /// The fit without some landmarks, and how far all are off, the farthest first.
    fn offs(&self, points: &Points, left_out: &[usize]) -> Option<(Similarity, Vec<Off>)> {
        let (fit, offsets) = self.offsets(points, left_out)?;
        let off = |(landmark, offset): (usize, Option<Vector3<f64>>)| {
            let offset = offset?;
            let deviations = offset.component_div(&self.deviation[landmark]).norm();
            Some(Off { landmark, share: offset.norm(), deviations })
        };
        let mut offs: Vec<Off> = offsets.into_iter().enumerate().filter_map(off).collect();
        offs.sort_by(|a, b| b.deviations.total_cmp(&a.deviations));
        Some((fit, offs))
    }

    /// How badly a case fits without some landmarks.
    fn cost(&self, points: &Points, left_out: &[usize]) -> f64 {
        let Some((_, offs)) = self.offs(points, left_out) else { return f64::INFINITY };
        let kept = offs.iter().filter(|off| !left_out.contains(&off.landmark));
        kept.map(|off| off.deviations * off.deviations).sum()
    }
}

impl Placed {
    /// How many things are wrong with the landmarks.
    fn faults(&self) -> usize {
        self.misfits.as_ref().map_or(usize::MAX - 1, |m| m.off.len() + m.exchanged.len())
    }
}

/// The median along each axis; `None` without points.
fn middle(points: impl Iterator<Item = Vector3<f64>>) -> Option<Vector3<f64>> {
    let points: Vec<Vector3<f64>> = points.collect();
    let along = |a: usize| median(points.iter().map(|point| point[a]));
    Some(Vector3::new(along(0)?, along(1)?, along(2)?))
}

/// The robust standard deviations of offsets along each axis; `None` without any.
fn deviation(offsets: impl Iterator<Item = Vector3<f64>>) -> Option<Vector3<f64>> {
    let offsets: Vec<Vector3<f64>> = offsets.collect();
    let along = |a: usize| Robust::of(offsets.iter().map(|offset| offset[a]));
    let axes = [along(0)?, along(1)?, along(2)?];
    let unsure = 1.0 + UNSURE_CASES / offsets.len() as f64;
    Some(Vector3::from(axes.map(|axis| unsure * axis.deviation.max(SMALLEST_DEVIATION))))
}

/// By how much to enlarge robust standard deviations, from how many of them the cases are off.
fn tail(deviations: impl Iterator<Item = f64>) -> f64 {
    let mut deviations: Vec<f64> = deviations.collect();
    deviations.sort_by(f64::total_cmp);
    if deviations.is_empty() { 1.0 } else { (quantile(&deviations, 0.9) / NINE_IN_TEN).max(1.0) }
}

/// Centred, and scaled so that the root mean square distance from the centre is 1. `None` where all
/// points are one.
fn normalised(points: &Points) -> Option<Points> {
    let known = || points.iter().flatten();
    let count = known().count() as f64;
    let middle = known().sum::<Vector3<f64>>() / count;
    let size = (known().map(|point| (point - middle).norm_squared()).sum::<f64>() / count).sqrt();
    let is_a_shape = size > 1e-9 * known().map(|point| point.norm()).fold(1e-300, f64::max);
    is_a_shape.then(|| points.iter().map(|point| point.map(|p| (p - middle) / size)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::wobble;
    use pbt_volume::rotation_from_vector;

    const PLACES: [[f64; 2]; 9] = [
        [0.0, 0.0],
        [90.0, 5.0],
        [95.0, 20.0],
        [88.0, 34.0],
        [40.0, 70.0],
        [-20.0, 62.0],
        [-35.0, 20.0],
        [30.0, -25.0],
        [10.0, 35.0],
    ];

    /// Twelve cases, turned by up to 0.3 and scaled by up to a tenth, with landmarks that wobble by a
    /// pixel along each axis; a deep one of other depth in space.
    fn cases(flat: bool) -> Vec<Points> {
        let case = |n: usize| -> Points {
            let reach = Vector3::new(f64::from(!flat) * 0.3, f64::from(!flat) * 0.3, 0.3);
            let turn = Vector3::from_fn(|a, _| reach[a] * wobble(500 + 3 * n + a));
            let scale = 1.0 + 0.1 * wobble(900 + n);
            let place = |(landmark, [x, y]): (usize, [f64; 2])| {
                let off = |a: usize| wobble(31 * n + 3 * landmark + a);
                let depth = 40.0 * wobble(7000 + landmark) + off(2);
                let place = Vector3::new(x + off(0), y + off(1), if flat { 0.0 } else { depth });
                Some(rotation_from_vector(turn) * place * scale + Vector3::new(200.0, 150.0, 0.0))
            };
            PLACES.into_iter().enumerate().map(place).collect()
        };
        (0..12).map(case).collect()
    }

    /// How a case lies that was changed, among the others.
    fn placed(flat: bool, change: impl Fn(&mut Points)) -> Placed {
        let mut cases = cases(flat);
        change(&mut cases[11]);
        let usual = UsualShape::of(&cases, flat).unwrap();
        for points in &cases[..11] {
            let sound = usual.place(points).unwrap();
            assert!(!sound.mirrored && sound.faults() == 0, "{sound:?}");
        }
        usual.place(&cases[11]).unwrap()
    }

    fn move_by(points: &mut Points, landmark: usize, x: f64, y: f64) {
        *points[landmark].as_mut().unwrap() += Vector3::new(x, y, 0.0);
    }

    #[test]
    fn the_landmark_that_was_moved_is_blamed_alone() {
        for flat in [true, false] {
            for landmark in 0..PLACES.len() {
                for (x, y) in [(25.0, 0.0), (-300.0, 200.0)] {
                    let found = placed(flat, |points| move_by(points, landmark, x, y));
                    let misfits = found.misfits.unwrap();
                    let [off] = &misfits.off[..] else { panic!("{flat} {landmark}: {misfits:?}") };
                    assert_eq!(off.landmark, landmark);
                    let far = off.share * found.fit.scale;
                    assert!((far - f64::hypot(x, y)).abs() < 6.0, "{flat} {landmark}: {far}");
                    assert!(misfits.exchanged.is_empty() && !found.mirrored);
                }
            }
        }
    }

    #[test]
    fn two_that_are_exchanged_are_told_as_that() {
        for flat in [true, false] {
            // Neighbours, and two at opposite ends.
            for (one, other) in [(1, 3), (1, 6)] {
                let found = placed(flat, |points| points.swap(one, other));
                let misfits = found.misfits.unwrap();
                assert!(misfits.exchanged == [[one, other]] && misfits.off.is_empty());
            }
        }
    }

    #[test]
    fn a_mirrored_case_is_mirrored_and_nothing_else() {
        for flat in [true, false] {
            let found = placed(flat, |points| {
                points.iter_mut().flatten().for_each(|point| point.y = 300.0 - point.y);
            });
            assert!(found.mirrored && found.faults() == 0, "{found:?}");
        }
    }

    #[test]
    fn landmarks_in_another_order_fit_nowhere() {
        let found = placed(true, |points| points.rotate_left(4));
        assert!(found.misfits.is_none(), "{found:?}");
    }

    /// A short nose is no fault of one of its landmarks, and a landmark that varies much may.
    #[test]
    fn what_moves_together_or_often_is_left_in_peace() {
        let found = placed(true, |points| (1..4).for_each(|n| move_by(points, n, -14.0, 0.0)));
        assert_eq!(found.faults(), 0, "{found:?}");
        let mut cases = cases(true);
        for (n, points) in cases.iter_mut().enumerate().filter(|(n, _)| n % 4 == 0) {
            move_by(points, 5, 10.0 + n as f64, 20.0);
        }
        let usual = UsualShape::of(&cases, true).unwrap();
        assert!(cases.iter().all(|points| usual.place(points).unwrap().faults() == 0));
    }

    #[test]
    fn too_few_cases_or_landmarks_tell_no_shape() {
        assert!(UsualShape::of(&cases(true)[..4], true).is_none());
        let one: Vec<Points> = cases(true).into_iter().map(|points| points[..1].to_vec()).collect();
        assert!(UsualShape::of(&one, true).is_none());
        assert!(UsualShape::of(&[], true).is_none());
    }
}
