//! Connected components on the device against the CPU's, which are held against flood fill and scipy.

mod support;

use pbt_gpu::Gpu;
use pbt_io::read_image;
use pbt_volume::{Components, Connectivity, Geometry, Joining, Random, Volume};
use rand_chacha::rand_core::Rng;
use std::path::{Path, PathBuf};
use support::{WORKS, fresh_rng, gpu};

const ALL: [Connectivity; 3] = [Connectivity::Six, Connectivity::Eighteen, Connectivity::TwentySix];

fn check(gpu: &Gpu, mask: &Volume<u8>, what: &str) {
    for connectivity in ALL {
        let expected = Components::new(mask, |v| v != 0, connectivity, Joining::default())
            .expect("there is memory");
        let count = expected.len();
        let expected = expected.voxels(|label| label).expect("there is memory");
        let voxels = gpu.upload_mask(mask.data()).expect(WORKS);
        let shape = mask.shape();
        for found in [
            gpu.components(&voxels, shape, connectivity),
            gpu.components_by_label_equivalence(&voxels, shape, connectivity),
        ] {
            let (labels, found) = gpu.read_components(&found.expect(WORKS)).expect(WORKS);
            assert_eq!(found as usize, count, "{what} {shape:?} {connectivity:?}");
            assert!(labels == *expected, "{what} {shape:?} {connectivity:?}");
        }
    }
}

fn mask(shape: [usize; 3], mut inside: impl FnMut([usize; 3]) -> bool) -> Volume<u8> {
    let geometry = Geometry::isotropic(shape, 1.0).expect("a grid");
    Volume::from_fn(geometry, |i, j, k| if inside([i, j, k]) { 1 + (i % 200) as u8 } else { 0 })
}

/// About the limits of words, of lines and of tiles along each axis.
const SHAPES: [[usize; 3]; 18] = [
    [1, 1, 1],
    [1, 70, 1],
    [1, 1, 3000],
    [2, 2100, 1],
    [700, 1, 1],
    [512, 17, 17],
    [528, 16, 9],
    [1030, 5, 6],
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
        // Spirals in every other plane, joined at their beginnings; the same across rows.
        let (along, across) = (spiral(nx, ny), spiral(ny, nz));
        let spirals = |[i, j, k]: [usize; 3]| if k % 2 == 0 { along(i, j) } else { i + j == 0 };
        check(&gpu, &mask(shape, spirals), "spirals");
        let spirals = |[i, j, k]: [usize; 3]| if i % 2 == 0 { across(j, k) } else { j + k == 0 };
        check(&gpu, &mask(shape, spirals), "spirals across rows");
    }
}

/// A way of one pixel from the corner of a plane inwards, with a gap of one between its turns.
fn spiral(nx: usize, ny: usize) -> impl Fn(usize, usize) -> bool {
    let mut way = vec![false; nx * ny];
    let place = |[x, y]: [i64; 2]| {
        let inside = (0..nx as i64).contains(&x) && (0..ny as i64).contains(&y);
        inside.then(|| y as usize * nx + x as usize)
    };
    let (mut at, mut step, mut turned) = ([0, 0], [1, 0], false);
    loop {
        way[place(at).expect("the way stays inside")] = true;
        let ahead = |n: i64| place([at[0] + n * step[0], at[1] + n * step[1]]);
        let free = ahead(1).is_some() && !ahead(2).is_some_and(|beyond| way[beyond]);
        if free {
            at = [at[0] + step[0], at[1] + step[1]];
        } else if turned {
            return move |x, y| way[y * nx + x];
        } else {
            step = [-step[1], step[0]];
        }
        turned = !free;
    }
}

/// A mask with structure of all sizes, as images have it, in all parts of a grid of many tiles.
#[test]
fn a_mask_of_many_tiles_cuda() {
    let Some(gpu) = gpu() else { return };
    let mut random = Random::from_seed(fresh_rng().next_u64());
    let waves: [f64; 6] = std::array::from_fn(|_| random.between(0.02, 0.9));
    for shape in [[300, 70, 65], [544, 35, 51], [96, 130, 128]] {
        for above in [-0.5, 0.4, 1.0] {
            let structure = |at: [usize; 3]| {
                let [x, y, z] = at.map(|n| n as f64);
                let [a, b, c, d, e, f] = waves;
                (a * x + b * y).sin() + (c * y - d * z).sin() + (e * z + f * x).cos() > above
            };
            check(&gpu, &mask(shape, structure), &format!("structure above {above}"));
        }
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

/// What real images have above a share of their voxels.
#[test]
fn masks_of_real_images_cuda() {
    let Some(gpu) = gpu() else { return };
    let Ok(data) = std::env::var("PBT_DATA") else {
        println!("skipped: PBT_DATA is not set");
        return;
    };
    let data = Path::new(&data);
    let mut images: Vec<PathBuf> = std::fs::read_dir(data.join("hippocampus/images"))
        .expect("the data set is there")
        .map(|entry| entry.expect("a file").path())
        .collect();
    images.sort();
    images.truncate(5);
    for path in images {
        let image = read_image(&path).expect("an image").volume;
        let shape @ [nx, ny, nz] = image.shape();
        let mut values = Vec::new();
        (0..ny * nz).for_each(|row| image.extend_with_row(&mut values, row % ny, row / ny));
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        for share in [0.3, 0.6, 0.9] {
            let above = sorted[(sorted.len() as f64 * share) as usize];
            let inside = |[i, j, k]: [usize; 3]| values[(k * ny + j) * nx + i] > above;
            check(&gpu, &mask(shape, inside), &path.display().to_string());
        }
    }
}
