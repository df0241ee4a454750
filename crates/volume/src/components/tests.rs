//! Components against a flood fill, the slow and plain way.

use super::*;
use crate::{Geometry, PointLps, Random, VoxelIndex};
use nalgebra::Matrix3;
use proptest::prelude::*;

const ALL: [Connectivity; 3] = [Connectivity::Six, Connectivity::Eighteen, Connectivity::TwentySix];

fn grid(shape: [usize; 3]) -> Geometry {
    let matrix = Matrix3::new(0.5, 0.1, 0.0, 0.0, -2.0, 0.3, 0.2, 0.0, 1.5);
    Geometry::new(shape, matrix, PointLps::new(-7.0, 3.0, 100.0)).unwrap()
}

fn volume<T: Copy>(shape: [usize; 3], mut f: impl FnMut([usize; 3]) -> T) -> Volume<T> {
    Volume::from_fn(grid(shape), |i, j, k| f([i, j, k]))
}

fn noise(shape: [usize; 3], seed: u64, values: usize, density: f64) -> Volume<u16> {
    let mut random = Random::from_seed(seed);
    volume(shape, |_| if random.uniform() < density { 1 + random.below(values) as u16 } else { 0 })
}

/// Every voxel's component by flood fill from the first voxel that has none.
fn flooded(labels: &Volume<u16>, connectivity: Connectivity, joining: &Joining) -> Vec<u32> {
    let shape = labels.shape();
    let farthest = match connectivity {
        Connectivity::Six => 1,
        Connectivity::Eighteen => 2,
        Connectivity::TwentySix => 3,
    };
    let joins = |a: usize, b: usize| {
        labels.data()[b] != 0
            && (!joining.same_label || labels.data()[a] == labels.data()[b])
            && joining.intensity.is_none_or(|(image, step)| {
                (f64::from(image.data()[a]) - f64::from(image.data()[b])).abs() <= step
            })
    };
    let mut found = vec![0; labels.data().len()];
    let mut count = 0;
    for start in 0..found.len() {
        if labels.data()[start] == 0 || found[start] != 0 {
            continue;
        }
        count += 1;
        found[start] = count;
        let mut open = vec![start];
        while let Some(n) = open.pop() {
            let at = [n % shape[0], n / shape[0] % shape[1], n / shape[0] / shape[1]];
            for step in 0..27usize {
                let steps = [step % 3, step / 3 % 3, step / 9];
                let next: Option<Vec<usize>> = (0..3)
                    .map(|a| (at[a] + steps[a]).checked_sub(1).filter(|&v| v < shape[a]))
                    .collect();
                let Some(next) =
                    next.filter(|_| steps.iter().filter(|&&s| s != 1).count() <= farthest)
                else {
                    continue;
                };
                let m = labels.offset(next[0], next[1], next[2]);
                if found[m] == 0 && joins(n, m) {
                    found[m] = count;
                    open.push(m);
                }
            }
        }
    }
    found
}

fn components(labels: &Volume<u16>, connectivity: Connectivity, joining: Joining) -> Components {
    Components::new(labels, |v| v != 0, connectivity, joining).unwrap()
}

#[track_caller]
fn check(labels: &Volume<u16>, joining: Joining) {
    for connectivity in ALL {
        let expected = flooded(labels, connectivity, &joining);
        let found = components(labels, connectivity, joining);
        let voxels = found.voxels(|label| label).unwrap();
        assert_eq!(*voxels, *expected, "{:?} {connectivity:?}", labels.shape());
        assert_eq!(found.len() as u32, expected.iter().copied().max().unwrap_or(0));
    }
}

/// A grid of any shape, thin ones and ones wider than a word of bits among them.
fn shape() -> impl Strategy<Value = [usize; 3]> {
    let any = prop::array::uniform3(1usize..9);
    (any, 0..5usize, 60usize..140).prop_map(|(mut shape, axis, long)| {
        if axis < 3 {
            shape[axis] = long;
        }
        shape
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn masks_and_labels_are_those_of_a_flood_fill(
        shape in shape(), seed in any::<u64>(), density in 0.05f64..1.0, values in 1usize..5,
    ) {
        let labels = noise(shape, seed, values, density);
        check(&labels, Joining::default());
        check(&labels, Joining { same_label: true, intensity: None });
    }

    #[test]
    fn steps_of_intensity_are_those_of_a_flood_fill(
        shape in shape(), seed in any::<u64>(), density in 0.3f64..1.0, step in 0.0f64..4.0,
    ) {
        let labels = noise(shape, seed, 2, density);
        let mut random = Random::from_seed(!seed);
        let image = volume(shape, |_| match random.below(12) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            n => n as f32 * 0.75 - 3.0,
        });
        for same_label in [false, true] {
            check(&labels, Joining { same_label, intensity: Some((&image, step)) });
        }
    }
}

#[test]
fn shapes_that_join_late_are_one_component() {
    // A comb along each axis, whose teeth meet in the last plane; a square spiral in each plane of
    // every second k; a checkerboard; full and empty grids.
    for axis in 0..3 {
        check(
            &volume([9, 10, 11], |at| u16::from(at[(axis + 1) % 3] % 2 == 0 || at[axis] == 8)),
            Joining::default(),
        );
    }
    let spiral = |i: usize, j: usize| {
        let ring = i.min(j).min(20 - i).min(20 - j);
        u16::from(
            ring.is_multiple_of(2) && !(i == ring && j == ring + 1)
                || ring % 2 == 1 && i == ring && j == ring + 1,
        )
    };
    check(
        &volume([21, 21, 5], |[i, j, k]| if k % 2 == 0 { spiral(i, j) } else { 0 }),
        Joining::default(),
    );
    check(
        &volume([5, 21, 21], |[i, j, k]| if i % 2 == 0 { spiral(j, k) } else { 0 }),
        Joining::default(),
    );
    check(&volume([70, 12, 12], |[i, j, k]| u16::from((i + j + k) % 2 == 0)), Joining::default());
    for value in [0, 1] {
        for shape in [[1, 1, 1], [1, 300, 1], [130, 1, 1], [1, 1, 90], [64, 3, 3], [65, 40, 30]] {
            check(&volume(shape, |_| value), Joining::default());
        }
    }
}

/// The corner of a cell that a three-dimensional Hilbert curve visits n-th, by Skilling's transform
/// ("Programming the Hilbert curve", AIP Conference Proceedings 707, 2004).
fn hilbert(n: usize, bits: usize) -> [usize; 3] {
    let mut x = [0; 3];
    for bit in 0..3 * bits {
        x[(3 * bits - 1 - bit) % 3] |= (n >> bit & 1) << (bit / 3);
    }
    let t = x[2] >> 1;
    for a in [2, 1] {
        x[a] ^= x[a - 1];
    }
    x[0] ^= t;
    for q in 1..bits {
        let (q, p) = (1 << q, (1 << q) - 1);
        for a in [2, 1, 0] {
            if x[a] & q != 0 {
                x[0] ^= p;
            } else {
                let t = (x[0] ^ x[a]) & p;
                x[0] ^= t;
                x[a] ^= t;
            }
        }
    }
    x
}

#[test]
fn a_hilbert_curve_is_one_component_and_two_when_cut() {
    let bits = 4;
    let side = 2 * (1 << bits) - 1;
    let draw = |without: Option<usize>| {
        let mut labels = volume([side; 3], |_| 0u16);
        let mut mark = |at: [usize; 3]| {
            let n = labels.offset(at[0], at[1], at[2]);
            labels.data_mut()[n] = 1;
        };
        for n in 0..(1usize << (3 * bits)) {
            let here = hilbert(n, bits);
            if without != Some(n) {
                mark(here.map(|v| 2 * v));
            }
            if n > 0 && without.is_none_or(|w| w != n && w + 1 != n) {
                let before = hilbert(n - 1, bits);
                mark(std::array::from_fn(|a| here[a] + before[a]));
            }
        }
        labels
    };
    for (without, count) in [(None, 1), (Some(1777), 2)] {
        let labels = draw(without);
        check(&labels, Joining::default());
        assert_eq!(components(&labels, Connectivity::Six, Joining::default()).len(), count);
    }
}

#[test]
fn threads_change_nothing() {
    let labels = noise([70, 60, 90], 5, 3, 0.3);
    let image = volume(labels.shape(), |[i, j, k]| ((i * 7 + j * 5 + k * 3) % 11) as f32);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            ALL.map(|connectivity| {
                [
                    Joining::default(),
                    Joining { same_label: true, intensity: None },
                    Joining { same_label: false, intensity: Some((&image, 2.0)) },
                ]
                .map(|joining| {
                    let found = components(&labels, connectivity, joining);
                    let statistics = found.statistics(Some(&image)).unwrap();
                    (found.voxels(|label| label).unwrap().to_vec(), statistics)
                })
            })
        })
    };
    let one = with(1);
    for threads in [2, 3, 16] {
        assert!(with(threads) == one, "{threads} threads");
    }
}

#[test]
fn statistics_are_those_of_the_voxels() {
    let labels = noise([67, 20, 13], 9, 1, 0.12);
    let image = volume(labels.shape(), |[i, j, k]| (i + 100 * j + 10_000 * k) as f32);
    let found = components(&labels, Connectivity::Eighteen, Joining::default());
    let voxels = found.voxels(|label| label).unwrap();
    for (n, component) in found.statistics(Some(&image)).unwrap().iter().enumerate() {
        let of_it: Vec<usize> =
            (0..voxels.len()).filter(|&v| voxels[v] as usize == n + 1).collect();
        let index = |v: usize| [v % 67, v / 67 % 20, v / 67 / 20];
        assert_eq!(component.voxels as usize, of_it.len());
        assert_eq!(component.first_voxel, index(of_it[0]));
        let mut mean = [0.0; 3];
        for (a, mean) in mean.iter_mut().enumerate() {
            let along = || of_it.iter().map(|&v| index(v)[a]);
            assert_eq!(Some(component.first[a]), along().min());
            assert_eq!(Some(component.last[a]), along().max());
            *mean = along().sum::<usize>() as f64 / of_it.len() as f64;
        }
        let centroid = VoxelIndex::new(mean[0], mean[1], mean[2]);
        assert_eq!(component.centroid, centroid);
        assert_eq!(component.centroid_lps, labels.geometry().to_lps(centroid));
        let sum: f64 = of_it.iter().map(|&v| f64::from(image.data()[v])).sum();
        assert_eq!(component.intensity_sum, sum);
    }
}

#[test]
fn what_is_not_wanted_is_taken_away_and_the_rest_numbered_anew() {
    // Sizes 1, 3, 2, 3 along one row.
    let row = [1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1];
    let labels = volume([12, 1, 1], |[i, ..]| row[i]);
    let all = components(&labels, Connectivity::Six, Joining::default());
    let kept = |keep: &dyn Fn(&mut Components)| {
        let mut some = all.clone();
        keep(&mut some);
        let labels = some.voxels(|label| label as u8).unwrap();
        assert_eq!(some.len(), usize::from(*labels.iter().max().unwrap()));
        assert_eq!(some.statistics(None).unwrap().len(), some.len());
        labels.to_vec()
    };
    let voxel_mm3 = all.voxel_mm3();
    assert_eq!(kept(&|c| c.keep_largest(1).unwrap()), [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(kept(&|c| c.keep_largest(3).unwrap()), [0, 0, 1, 1, 1, 0, 2, 2, 0, 3, 3, 3]);
    assert_eq!(kept(&|c| c.keep_largest(9).unwrap()), [1, 0, 2, 2, 2, 0, 3, 3, 0, 4, 4, 4]);
    assert_eq!(kept(&|c| c.keep_largest(0).unwrap()), [0; 12]);
    let from = |voxels: f64| kept(&|c| c.keep_from_mm3(voxels * voxel_mm3).unwrap());
    assert_eq!(from(2.5), [0, 0, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2]);
    // The bound itself is inside.
    assert_eq!(from(2.0), [0, 0, 1, 1, 1, 0, 2, 2, 0, 3, 3, 3]);
    let mut used = vec![9u8; 12];
    all.fill(&mut used, |label| label as u8);
    assert_eq!(used, [1, 0, 2, 2, 2, 0, 3, 3, 0, 4, 4, 4]);
}

#[test]
fn plausibility_is_that_of_the_voxels() {
    let labels = noise([14, 11, 9], 3, 1, 0.2);
    let found = components(&labels, Connectivity::TwentySix, Joining::default());
    let voxels = found.voxels(|label| label).unwrap();
    let shape = labels.shape();
    let spacing = labels.geometry().spacing_mm();
    for n in 0..found.len() {
        let (mut count, mut places, mut lines) = (0usize, [0usize; 3], [0usize; 3]);
        for a in 0..3 {
            let (b, c) = ((a + 1) % 3, (a + 2) % 3);
            for at_b in 0..shape[b] {
                for at_c in 0..shape[c] {
                    let on: Vec<usize> = (0..shape[a])
                        .filter(|&at_a| {
                            let mut at = [0; 3];
                            (at[a], at[b], at[c]) = (at_a, at_b, at_c);
                            voxels[labels.offset(at[0], at[1], at[2])] as usize == n + 1
                        })
                        .collect();
                    if let (Some(first), Some(last)) = (on.first(), on.last()) {
                        places[a] += last - first + 1;
                        lines[a] += 1;
                    }
                    count += on.len();
                }
            }
        }
        let found = found.plausibility(n).unwrap();
        // Each voxel was counted along three axes.
        assert!((found.filling - count as f64 / places.iter().sum::<usize>() as f64).abs() < 1e-12);
        for a in 0..3 {
            let expected = places[a] as f64 / lines[a] as f64 * spacing[a];
            assert!((found.mean_extent_mm[a] - expected).abs() < 1e-12);
        }
    }
}

#[test]
fn a_cuboid_is_plausible_and_a_frame_is_not() {
    let cuboid = volume([9, 9, 9], |at| u16::from(at.iter().all(|&v| (2..7).contains(&v))));
    let frame = volume([9, 9, 9], |at| {
        let edge = |v: usize| v == 2 || v == 6;
        let inside = at.iter().all(|&v| (2..7).contains(&v));
        u16::from(inside && at.iter().filter(|&&v| edge(v)).count() >= 2)
    });
    let of = |labels: &Volume<u16>| {
        components(labels, Connectivity::Six, Joining::default()).plausibility(0).unwrap()
    };
    let spacing = grid([9; 3]).spacing_mm();
    assert_eq!((of(&cuboid).filling, of(&cuboid).mean_extent_mm), (1.0, spacing.map(|s| 5.0 * s)));
    let limits = PlausibilityLimits { volume_mm3: 20.0, filling: 0.75, extent_mm: 2.0 };
    assert!(of(&cuboid).passes(&limits));
    // 44 of 80 voxels along each axis.
    assert!((of(&frame).filling - 0.55).abs() < 1e-12 && !of(&frame).passes(&limits));
    let thick = PlausibilityLimits { extent_mm: 5.0 * spacing[0] + 0.1, ..limits };
    let large = PlausibilityLimits { volume_mm3: 1e4, ..limits };
    assert!(!of(&cuboid).passes(&thick) && !of(&cuboid).passes(&large));
}
