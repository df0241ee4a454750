//! Connected components on the device against the CPU's, which are held against flood fill and scipy.

mod support;

use pbt_gpu::Gpu;
use pbt_volume::{Components, Connectivity, Geometry, Joining, Random, Volume};
use rand_chacha::rand_core::Rng;
use support::{WORKS, fresh_rng, gpu};

const ALL: [Connectivity; 3] = [Connectivity::Six, Connectivity::Eighteen, Connectivity::TwentySix];

fn check(gpu: &Gpu, mask: &Volume<u8>, what: &str) {
    for connectivity in ALL {
        let expected = Components::new(mask, |v| v != 0, connectivity, Joining::default())
            .expect("there is memory");
        let voxels = gpu.upload_mask(mask.data()).expect(WORKS);
        let found = gpu.components(&voxels, mask.shape(), connectivity).expect(WORKS);
        let (labels, count) = gpu.read_components(&found).expect(WORKS);
        let shape = mask.shape();
        assert_eq!(count as usize, expected.len(), "{what} {shape:?} {connectivity:?}");
        let expected = expected.voxels(|label| label).expect("there is memory");
        assert!(labels == expected, "{what} {shape:?} {connectivity:?}");
    }
}

fn mask(shape: [usize; 3], mut inside: impl FnMut([usize; 3]) -> bool) -> Volume<u8> {
    let geometry = Geometry::isotropic(shape, 1.0).expect("a grid");
    Volume::from_fn(geometry, |i, j, k| if inside([i, j, k]) { 1 + (i % 200) as u8 } else { 0 })
}

const SHAPES: [[usize; 3]; 12] = [
    [1, 1, 1],
    [1, 70, 1],
    [3, 1, 40],
    [31, 3, 3],
    [32, 2, 5],
    [33, 7, 4],
    [64, 9, 9],
    [65, 30, 31],
    [96, 17, 2],
    [100, 40, 41],
    [128, 64, 33],
    [257, 51, 20],
];

#[test]
fn little_masks_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random::from_seed(fresh_rng().next_u64());
    for shape in SHAPES {
        for density in [0.05, 0.2, 0.3, 0.5, 0.7, 0.97] {
            let noise = mask(shape, |_| random.uniform() < density);
            check(&gpu, &noise, &format!("noise {density}"));
        }
    }
}

#[test]
fn shapes_that_join_late_cuda() {
    let Some(gpu) = gpu() else { return };
    for shape in SHAPES {
        let [nx, ny, nz] = shape;
        check(&gpu, &mask(shape, |_| true), "full");
        check(&gpu, &mask(shape, |_| false), "empty");
        check(&gpu, &mask(shape, |[i, j, k]| (i + j + k) % 2 == 0), "checkerboard");
        check(&gpu, &mask(shape, |[i, ..]| i % 2 == 0), "planes");
        check(&gpu, &mask(shape, |[_, j, k]| j % 2 == 0 && k % 2 == 0), "rods");
        let comb = |[i, _, k]: [usize; 3]| i % 2 == 0 || k + 1 == nz;
        check(&gpu, &mask(shape, comb), "comb, joined in the last plane");
        let comb = |[i, j, k]: [usize; 3]| j % 2 == 0 && k % 2 == 0 || i + 1 == nx || j + ny == k;
        check(&gpu, &mask(shape, comb), "comb, joined at the end of rows");
        // A way to and fro through all planes.
        let turn = |n: usize, at: usize, last: usize| if n % 4 == 1 { at == 0 } else { at == last };
        let snake = |[i, j, k]: [usize; 3]| match (j % 2, k % 2) {
            (0, 0) => true,
            (1, 0) => turn(j, i, nx - 1),
            (_, _) => j == 0 && turn(k, i, nx - 1),
        };
        check(&gpu, &mask(shape, snake), "snake");
    }
}

/// Whatever order threads come in, labels are the same.
#[test]
fn larger_masks_are_labelled_alike_every_time_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random::from_seed(fresh_rng().next_u64());
    let shape = [160, 150, 140];
    for density in [0.1, 0.25, 0.5] {
        let noise = mask(shape, |_| random.uniform() < density);
        check(&gpu, &noise, "noise");
        let voxels = gpu.upload_mask(noise.data()).expect(WORKS);
        let labels = || {
            let found = gpu.components(&voxels, shape, Connectivity::TwentySix).expect(WORKS);
            gpu.read_components(&found).expect(WORKS)
        };
        let first = labels();
        assert!((0..10).all(|_| labels() == first));
    }
}
