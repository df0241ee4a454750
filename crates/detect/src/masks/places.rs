//! Places that labels tell: their middles, their tips, and where they meet. Landmarks are often
//! defined by them.

use crate::masks::frame::FrameGrid;
use crate::masks::moments::sharper;
use pbt_tree::LEAF_ONE;
use pbt_volume::Pose;
use serde::{Deserialize, Serialize};

/// A place that follows from labels, which are counted from 0; where a label is `None`, all of them
/// together are meant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// The middle of a label.
    Centroid {
        /// Whose.
        of: Option<usize>,
    },
    /// The middle of the part of a label that lies farthest along a way.
    Tip {
        /// Whose.
        of: Option<usize>,
        /// Which way.
        way: Way,
        /// How large a part.
        share: f64,
    },
    /// The middle of the voxels of a label that touch another one.
    Interface {
        /// Whose voxels.
        of: usize,
        /// What they touch.
        with: usize,
    },
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// Up an axis of the box.
    Up(usize),
    /// Down an axis of the box.
    Down(usize),
    /// From the middle of the first label to that of the second.
    FromTo(usize, usize),
}

/// How large a part of a label its tip may be.
const TIPS: [f64; 3] = [0.02, 0.05, 0.1];

/// So many labels have tips of their own, and tips and borders towards each other: the number of places
/// grows with their square.
const MOST_PAIRED: usize = 6;

impl Place {
    /// Those that so many labels tell.
    pub(crate) fn all(labels: usize) -> Vec<Self> {
        let paired = || 0..labels.min(MOST_PAIRED);
        let whose = |labels: usize| std::iter::once(None).chain((0..labels).map(Some));
        // A single label is all of them.
        let own = if labels > 1 { labels } else { 0 };
        let mut places: Vec<Self> = whose(own).map(|of| Self::Centroid { of }).collect();
        let mut tips = |of: Option<usize>, way: Way| {
            places.extend(TIPS.map(|share| Self::Tip { of, way, share }));
        };
        for of in whose(own.min(MOST_PAIRED)) {
            for axis in 0..3 {
                tips(of, Way::Up(axis));
                tips(of, Way::Down(axis));
            }
        }
        let pairs = || paired().flat_map(|a| paired().map(move |b| (a, b))).filter(|(a, b)| a != b);
        pairs().for_each(|(from, to)| tips(None, Way::FromTo(from, to)));
        places.extend(pairs().map(|(of, with)| Self::Interface { of, with }));
        places
    }

    /// Whether it is one of so many labels.
    pub(crate) fn is_valid(&self, labels: usize) -> bool {
        let is_label = |of: &Option<usize>| of.is_none_or(|of| of < labels);
        match self {
            Self::Centroid { of } => is_label(of),
            Self::Tip { of, way, share } => {
                let is_way = match *way {
                    Way::Up(axis) | Way::Down(axis) => axis < 3,
                    Way::FromTo(from, to) => from < labels && to < labels,
                };
                is_label(of) && is_way && *share > 0.0 && *share <= 1.0
            }
            Self::Interface { of, with } => *of < labels && *with < labels,
        }
    }
}

/// The voxels of a grid about a box that have labels.
pub(crate) struct LabelledVoxels {
    size_mm: [f64; 3],
    /// From the middle of the box along its axes, mm.
    at: Vec<[f64; 3]>,
    /// By label: how much each voxel belongs to it, from 0 to 1. All of them together come first.
    weights: Vec<Vec<f64>>,
    /// By label: how much a neighbour does at most.
    beside: Vec<Vec<f64>>,
}

impl LabelledVoxels {
    /// `shares` are the probabilities of the classes of each voxel of the grid about a box; the
    /// background comes first.
    pub(crate) fn of_shares(
        (grid, frame): (&FrameGrid, &Pose),
        shares: &[u32],
        classes: usize,
    ) -> Self {
        let weight = |share: u32| f64::from(sharper(share)) / f64::from(LEAF_ONE);
        Self::new((grid, frame), classes - 1, |n, label| {
            let of = &shares[n * classes..(n + 1) * classes];
            weight(label.map_or(LEAF_ONE - of[0], |label| of[label + 1]))
        })
    }

    /// `classes` are those of the voxels, from 1 on for labels.
    pub(crate) fn of_classes(
        (grid, frame): (&FrameGrid, &Pose),
        classes: &[u8],
        labels: usize,
    ) -> Self {
        Self::new((grid, frame), labels, |n, label| {
            let is_it = match label {
                None => classes[n] > 0,
                Some(label) => usize::from(classes[n]) == label + 1,
            };
            f64::from(u8::from(is_it))
        })
    }

    fn new(
        (grid, frame): (&FrameGrid, &Pose),
        labels: usize,
        weight: impl Fn(usize, Option<usize>) -> f64,
    ) -> Self {
        let [nx, ny, nz] = grid.shape;
        let mut all = Self {
            size_mm: frame.size_mm,
            at: Vec::new(),
            weights: vec![Vec::new(); labels + 1],
            beside: vec![Vec::new(); labels.min(MOST_PAIRED)],
        };
        for n in 0..grid.len() {
            let own = weight(n, None);
            if own == 0.0 {
                continue;
            }
            let voxel = [n % nx, n / nx % ny, n / (nx * ny)];
            all.at.push([0, 1, 2].map(|a| grid.place(a, voxel[a]) * frame.size_mm[a]));
            all.weights[0].push(own);
            for (label, weights) in all.weights[1..].iter_mut().enumerate() {
                weights.push(weight(n, Some(label)));
            }
            let steps = [1, nx, nx * ny];
            let ends = [nx, ny, nz];
            for (label, beside) in all.beside.iter_mut().enumerate() {
                let of = |a: usize| {
                    let below = (voxel[a] > 0).then(|| n - steps[a]);
                    let above = (voxel[a] + 1 < ends[a]).then(|| n + steps[a]);
                    below.into_iter().chain(above).map(|n| weight(n, Some(label)))
                };
                beside.push((0..3).flat_map(of).fold(0.0, f64::max));
            }
        }
        all
    }

    /// A place, in edges of the box from its middle; the middle where nothing tells it.
    pub(crate) fn place(&self, place: &Place) -> [f64; 3] {
        let mm = match *place {
            Place::Centroid { of } => self.centroid_mm(of),
            Place::Tip { of, way, share } => self.tip_mm(of, way, share),
            Place::Interface { of, with } => {
                let weights = self.weights_of(Some(of)).iter().zip(&self.beside[with]);
                Weighted::sum(self.at.iter().zip(weights.map(|(own, beside)| own * beside)))
            }
        };
        [0, 1, 2].map(|a| mm[a] / self.size_mm[a])
    }

    fn weights_of(&self, of: Option<usize>) -> &[f64] {
        &self.weights[of.map_or(0, |label| label + 1)]
    }

    fn centroid_mm(&self, of: Option<usize>) -> [f64; 3] {
        Weighted::sum(self.at.iter().zip(self.weights_of(of).iter().copied()))
    }

    fn tip_mm(&self, of: Option<usize>, way: Way, share: f64) -> [f64; 3] {
        let mut towards = [0.0; 3];
        match way {
            Way::Up(axis) => towards[axis] = 1.0,
            Way::Down(axis) => towards[axis] = -1.0,
            Way::FromTo(from, to) => {
                let [from, to] = [from, to].map(|label| self.centroid_mm(Some(label)));
                towards = [0, 1, 2].map(|a| to[a] - from[a]);
            }
        }
        let along = |at: &[f64; 3]| (0..3).map(|a| at[a] * towards[a]).sum::<f64>();
        let weights = self.weights_of(of);
        let mut voxels: Vec<(f64, usize)> =
            self.at.iter().map(along).zip(0..).filter(|&(_, n)| weights[n] > 0.0).collect();
        if voxels.is_empty() {
            return [0.0; 3];
        }
        let farthest_first =
            |a: &(f64, usize), b: &(f64, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let mut left = share * weights.iter().sum::<f64>();
        // Most voxels are not in the tip and need no order.
        let mut many = voxels.len() / 8 + 1;
        while many < voxels.len() {
            voxels.select_nth_unstable_by(many - 1, farthest_first);
            if voxels[..many].iter().map(|&(_, n)| weights[n]).sum::<f64>() >= left {
                break;
            }
            many *= 2;
        }
        voxels.truncate(many);
        voxels.sort_unstable_by(farthest_first);
        let part = voxels.iter().map(|&(_, n)| {
            let taken = weights[n].min(left);
            left -= taken;
            (&self.at[n], taken)
        });
        Weighted::sum(part)
    }
}

/// A sum of weights, and of weighted places.
#[derive(Default)]
struct Weighted {
    mass: f64,
    first: [f64; 3],
}

impl Weighted {
    /// The middle of weighted places; that of the box where there is nothing.
    fn sum<'a>(all: impl Iterator<Item = (&'a [f64; 3], f64)>) -> [f64; 3] {
        let mut sum = Self::default();
        for (at, weight) in all {
            sum.mass += weight;
            sum.first.iter_mut().zip(at).for_each(|(sum, at)| *sum += weight * at);
        }
        sum.first.map(|first| if sum.mass > 0.0 { first / sum.mass } else { 0.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;
    use pbt_volume::PointLps;

    const GRID: FrameGrid = FrameGrid { shape: [40, 20, 20], voxel_mm: 1.0 };

    fn frame() -> Pose {
        Pose {
            center: PointLps::new(1.0, 2.0, 3.0),
            orientation: UnitQuaternion::identity(),
            size_mm: [40.0, 20.0, 20.0],
        }
    }

    /// 40 voxels of 1.4 mm along x: label 0 in 10 to 19, label 1 in 20 to 29 and higher in y.
    fn classes() -> Vec<u8> {
        let class = |n: usize| {
            let (x, y, z) = (n % 40, n / 40 % 20, n / 800);
            let inside = (10..30).contains(&x) && (5..9).contains(&z);
            let y_of = if x < 20 { 5..10 } else { 9..15 };
            if inside && y_of.contains(&y) { 1 + u8::from(x >= 20) } else { 0 }
        };
        (0..GRID.len()).map(class).collect()
    }

    fn in_voxels(place: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|a| (place[a] - GRID.place(a, 0)) * GRID.shape[a] as f64 / 1.4)
    }

    fn check(voxels: &LabelledVoxels, place: Place, expected: [f64; 3]) {
        let found = in_voxels(voxels.place(&place));
        (0..3).for_each(|a| {
            assert!((found[a] - expected[a]).abs() < 1e-9, "{place:?} {found:?} {expected:?}");
        });
    }

    #[test]
    fn middles_tips_and_borders_of_two_blocks_are_where_they_were_put() {
        let of = (&GRID, &frame());
        let classes = classes();
        let shares: Vec<u32> = classes
            .iter()
            .flat_map(|&class| [0, 1, 2].map(|c| if c == class { LEAF_ONE } else { 0 }))
            .collect();
        for voxels in
            [LabelledVoxels::of_classes(of, &classes, 2), LabelledVoxels::of_shares(of, &shares, 3)]
        {
            let check = |place, expected| check(&voxels, place, expected);
            check(Place::Centroid { of: Some(0) }, [14.5, 7.0, 6.5]);
            check(Place::Centroid { of: Some(1) }, [24.5, 11.5, 6.5]);
            // 200 voxels of the first, 240 of the second.
            check(Place::Centroid { of: None }, [440.0_f64.recip() * 8780.0, 4160.0 / 440.0, 6.5]);
            // The ends have 20 and 24 voxels.
            let tip = |of, way, share| Place::Tip { of, way, share };
            check(tip(Some(0), Way::Down(0), 0.1), [10.0, 7.0, 6.5]);
            check(tip(Some(1), Way::Up(0), 0.1), [29.0, 11.5, 6.5]);
            // Only row 9 of the second touches the first.
            check(Place::Interface { of: 1, with: 0 }, [20.0, 9.0, 6.5]);
            check(Place::Interface { of: 0, with: 1 }, [19.0, 9.0, 6.5]);
            // The farthest voxel from the first label towards the second is its far corner.
            let [x, y, _] = in_voxels(voxels.place(&tip(None, Way::FromTo(0, 1), 0.005)));
            assert!((29.0 - x).abs() < 1e-9 && y > 13.9, "{x} {y}");
        }
    }

    /// A block whose border is blurred by one voxel on both sides.
    #[test]
    fn blurred_borders_do_not_move_tips() {
        let share = |n: usize| {
            let x = (n % 40) as f64;
            let inside = ((x - 9.0) / 4.0 + 0.5).min((29.0 - x) / 4.0 + 0.5).clamp(0.0, 1.0);
            let row = (5..9).contains(&(n / 800)) && (5..10).contains(&(n / 40 % 20));
            (if row { inside } else { 0.0 } * f64::from(LEAF_ONE)) as u32
        };
        let shares: Vec<u32> =
            (0..GRID.len()).map(share).flat_map(|one| [LEAF_ONE - one, one]).collect();
        let voxels = LabelledVoxels::of_shares((&GRID, &frame()), &shares, 2);
        let tip = Place::Tip { of: None, way: Way::Up(0), share: 0.1 };
        // Of 20 mm between the borders, the outermost 2.
        let [x, ..] = in_voxels(voxels.place(&tip));
        assert!((x - 28.0).abs() < 0.35, "{x}");
    }

    #[test]
    fn places_are_those_of_the_labels() {
        for labels in 1..10 {
            let places = Place::all(labels);
            assert!(places.iter().all(|place| place.is_valid(labels)), "{labels}");
            let twice = |n: usize| places[n + 1..].contains(&places[n]);
            assert!(!(0..places.len()).any(twice), "{labels}");
        }
        assert_eq!(Place::all(1).len(), 1 + 6 * 3);
        assert!(!Place::Centroid { of: Some(2) }.is_valid(2));
        let tip = |share| Place::Tip { of: None, way: Way::Up(0), share };
        assert!(tip(1.0).is_valid(1) && !tip(0.0).is_valid(1) && !tip(f64::NAN).is_valid(1));
    }

    #[test]
    fn nothing_has_all_its_places_in_the_middle() {
        let none = vec![0; GRID.len()];
        let voxels = LabelledVoxels::of_classes((&GRID, &frame()), &none, 2);
        assert!(Place::all(2).iter().all(|place| voxels.place(place) == [0.0; 3]));
    }
}
