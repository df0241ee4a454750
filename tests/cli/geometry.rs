//! The same volume stored along any axes and in any format is the same volume.

#[path = "../../crates/io/tests/support/dicom.rs"]
#[allow(dead_code, reason = "not every test makes every file")]
mod made;
#[path = "../../crates/io/tests/support/slicer.rs"]
mod slicer;

use crate::support::{numbers, pbt, read_json, scratch, tiny};
use nalgebra::{Matrix3, Quaternion, UnitQuaternion, Vector3};
use pbt_io::{RawImage, VoxelType, read_raw, write_image};
use pbt_phantom::{PhantomModality, PhantomSettings, phantom};
use pbt_volume::{Geometry, PointLps, VoxelIndex, rotation_from_vector};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The six orders of the axes.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Every format that is written.
const FORMATS: [&str; 6] = ["nii", "nii.gz", "mha", "mhd", "nrrd", "nhdr"];

/// A gland in a plain grid of 1.75 mm, and the voxel in the middle of its box. The affine has few
/// bits, so that every format and every order of the axes holds it exactly.
fn gland() -> (RawImage, VoxelIndex) {
    let plain = PhantomSettings {
        voxels: 44,
        spacing_mm: 1.75,
        oblique_share: 0.0,
        ..PhantomSettings::new(PhantomModality::Ultrasound)
    };
    let made = phantom(PhantomModality::Ultrasound, &plain, 7);
    let grid = made.image.geometry();
    let origin = PointLps(grid.origin().0.map(|v| (4.0 * v).round() / 4.0));
    let geometry = Geometry::new(grid.shape(), *grid.matrix(), origin).unwrap();
    let bytes = made.image.data().iter().flat_map(|&v| (v as i16).to_le_bytes()).collect();
    (RawImage::new(geometry, VoxelType::I16, bytes, None).unwrap(), grid.to_index(made.pose.center))
}

/// The image with axis `order[a]` stored as axis `a`, backwards where `flips` says so; every voxel
/// stays where it is in the world.
fn stored_otherwise(image: &RawImage, order: [usize; 3], flips: [bool; 3]) -> RawImage {
    let (geometry, from, size) =
        (image.geometry(), image.geometry().shape(), image.voxel_type().size());
    let shape = order.map(|a| from[a]);
    let mut matrix = Matrix3::zeros();
    let mut origin = geometry.origin().0.coords;
    for a in 0..3 {
        let step = geometry.matrix().column(order[a]).into_owned();
        if flips[a] {
            origin += step * (shape[a] - 1) as f64;
        }
        matrix.set_column(a, &if flips[a] { -step } else { step });
    }
    let mut bytes = Vec::with_capacity(image.bytes().len());
    for k in 0..shape[2] {
        for j in 0..shape[1] {
            for i in 0..shape[0] {
                let mut old = [0; 3];
                for (a, n) in [i, j, k].into_iter().enumerate() {
                    old[order[a]] = if flips[a] { shape[a] - 1 - n } else { n };
                }
                let at = size * (old[0] + from[0] * (old[1] + from[1] * old[2]));
                bytes.extend_from_slice(&image.bytes()[at..at + size]);
            }
        }
    }
    let geometry =
        Geometry::new(shape, matrix, PointLps::new(origin.x, origin.y, origin.z)).unwrap();
    RawImage::new(geometry, image.voxel_type(), bytes, None).unwrap()
}

/// The image as a DICOM series; slices step along the third axis, which may be tilted.
fn write_series(folder: &Path, image: &RawImage) {
    std::fs::create_dir(folder).unwrap();
    let (geometry, [columns, rows, slices]) = (image.geometry(), image.geometry().shape());
    let spacing = geometry.spacing_mm();
    let (u, v) =
        (geometry.matrix().column(0) / spacing[0], geometry.matrix().column(1) / spacing[1]);
    for (k, pixels) in image.bytes().chunks_exact(2 * columns * rows).enumerate() {
        let position = geometry.to_lps(VoxelIndex::new(0.0, 0.0, k as f64)).0.coords;
        let directions = [u[0], u[1], u[2], v[0], v[1], v[2]];
        let size = [columns as u16, rows as u16];
        // Neither names nor instance numbers are in the order of the slices.
        let slice = made::slice(
            slices - k,
            position.as_slice(),
            &directions,
            &[spacing[1], spacing[0]],
            size,
            pixels,
        );
        std::fs::write(folder.join(format!("{}.dcm", (k * 7) % slices)), slice).unwrap();
    }
}

/// The files of a batch, and what was found in them.
struct Many {
    folder: tempfile::TempDir,
    manifest: String,
}

impl Many {
    fn new() -> Self {
        Self { folder: scratch(), manifest: "case_id,path\n".to_owned() }
    }

    /// Where to write the image of a case, which is then part of the batch.
    fn path(&mut self, case: &str, file: &str) -> PathBuf {
        let path = self.folder.path().join(file);
        self.manifest.push_str(&format!("{case},{}\n", path.display()));
        path
    }

    /// The image in every format that is written: cases `NAME-FORMAT`.
    fn add(&mut self, name: &str, image: &RawImage) {
        for format in FORMATS {
            // A header and a whole file of one name would share their data file.
            let file = format!("{name}-{}.{format}", format.replace('.', ""));
            write_image(&self.path(&format!("{name}-{format}"), &file), image).unwrap();
        }
    }

    /// Detects in all of them. The results hold one structure.
    fn detect(&self) -> impl Fn(&str) -> Value {
        let (list, out) = (self.folder.path().join("list.csv"), self.folder.path().join("out"));
        std::fs::write(&list, &self.manifest).unwrap();
        let model = tiny().model();
        let [model, list, folder] = [&model, &list, &out].map(|path| path.to_str().unwrap());
        pbt(["batch", "-q", "-m", model, "-i", list, "-o", folder]).exits_with(0);
        move |case| {
            let found = read_json(&out.join(format!("{case}.json")))["detections"][0].clone();
            // What Slicer reads is the same.
            let markup = read_json(&out.join(format!("{case}.mrk.json")))["markups"][0].clone();
            assert_eq!(
                (&markup["center"], &markup["size"]),
                (&found["position_lps_mm"], &found["size_mm"]),
                "{case}"
            );
            assert_eq!(markup["coordinateSystem"], "LPS");
            let told = markup["controlPoints"][0]["description"].as_str().unwrap();
            assert!(told.starts_with("found, score 0."), "{told}");
            found
        }
    }
}

fn orientation(detection: &Value) -> UnitQuaternion<f64> {
    let q = &detection["orientation"]["quaternion_wxyz"];
    let [w, i, j, k] = std::array::from_fn(|n| q[n].as_f64().unwrap());
    UnitQuaternion::new_normalize(Quaternion::new(w, i, j, k))
}

fn distance_mm(a: [f64; 3], b: [f64; 3]) -> f64 {
    (Vector3::from(a) - Vector3::from(b)).norm()
}

/// Centre, size and axes are the same, the axes' ends to the same distance as the centre.
#[track_caller]
fn assert_same(a: &Value, b: &Value, within_mm: f64, what: &str) {
    assert_eq!(a["status"], b["status"], "{what}");
    for field in ["position_lps_mm", "size_mm"] {
        let apart = distance_mm(numbers(&a[field]), numbers(&b[field]));
        assert!(apart < within_mm, "{what}: {field} differs by {apart:.1e} mm");
    }
    let reach_mm = numbers(&a["size_mm"]).into_iter().fold(0.0, f64::max) / 2.0;
    let angle = orientation(a).angle_to(&orientation(b));
    assert!(angle * reach_mm < within_mm, "{what}: turned by {:.1e} degrees", angle.to_degrees());
}

/// One file of an orientation has the same bits in every format; other orientations differ by the
/// rounding of 64-bit numbers.
#[test]
fn all_48_ways_to_store_a_volume_give_one_pose_in_every_format() {
    let (image, middle) = gland();
    let mut many = Many::new();
    let mut names = Vec::new();
    for (n, order) in ORDERS.into_iter().enumerate() {
        for flips in 0..8 {
            let (name, other) = (
                format!("v{n}{flips}"),
                stored_otherwise(&image, order, [0, 1, 2].map(|a| flips >> a & 1 == 1)),
            );
            many.add(&name, &other);
            write_series(&many.path(&format!("{name}-dicom"), &name), &other);
            names.push(name);
        }
    }
    assert_eq!(names.len(), 48);
    let found = many.detect();
    let first = found("v00-nrrd");
    let truth = image.geometry().to_lps(middle).0;
    assert!(distance_mm(numbers(&first["position_lps_mm"]), truth.coords.into()) < 5.0, "{first}");
    for name in names {
        let here = found(&format!("{name}-nrrd"));
        assert_same(&first, &here, 1e-6, &name);
        for format in FORMATS {
            let detection = found(&format!("{name}-{format}"));
            // MetaImage keeps directions and spacings, whose product is exact for these.
            assert_eq!(detection, here, "{name}: {format}");
        }
        // A series is read with its slices along their normal, whatever the order in which it was
        // written.
        assert_same(&first, &found(&format!("{name}-dicom")), 1e-6, &format!("{name}: DICOM"));
    }
}

/// The image with voxels of one value before and after it along each axis.
fn padded(image: &RawImage, before: [usize; 3], after: [usize; 3], value: i16) -> RawImage {
    let (geometry, from) = (image.geometry(), image.geometry().shape());
    let shape = [0, 1, 2].map(|a| before[a] + from[a] + after[a]);
    let [x, y, z] = before.map(|n| -(n as f64));
    let origin = geometry.to_lps(VoxelIndex::new(x, y, z));
    let [columns, rows, slices] = shape;
    let mut bytes: Vec<u8> = value.to_le_bytes().repeat(columns * rows * slices);
    for (line, row) in image.bytes().chunks_exact(2 * from[0]).enumerate() {
        let [j, k] = [line % from[1] + before[1], line / from[1] + before[2]];
        let at = 2 * (before[0] + columns * (j + rows * k));
        bytes[at..at + row.len()].copy_from_slice(row);
    }
    let geometry = Geometry::new(shape, *geometry.matrix(), origin).unwrap();
    RawImage::new(geometry, image.voxel_type(), bytes, None).unwrap()
}

#[test]
fn what_surrounds_an_image_does_not_show() {
    let (image, _) = gland();
    let mut many = Many::new();
    let mut add = |name: &str, image: &RawImage| {
        write_image(&many.path(name, &format!("{name}.nrrd")), image).unwrap();
    };
    add("plain", &image);
    add("framed", &padded(&image, [5, 5, 5], [5, 5, 5], 0));
    add("above", &padded(&image, [0; 3], [0, 0, 26], 0));
    add("left", &padded(&image, [26, 0, 0], [0; 3], 0));
    add("corner", &padded(&image, [0; 3], [7, 11, 3], -1024));
    add("twice", &padded(&padded(&image, [3, 0, 2], [1; 3], -1), [2; 3], [0, 9, 0], 0));
    let shape = image.geometry().shape();
    add("cut", &part(&image, [3, 2, 2], [shape[0] - 2, shape[1] - 3, shape[2] - 2]));
    let found = many.detect();
    let plain = found("plain");
    for name in ["framed", "above", "left", "corner", "twice"] {
        assert_eq!(found(name), plain, "{name}");
    }
    // What a cut takes away is lost; a hundredth of D is 0.4 mm.
    assert_same(&plain, &found("cut"), 0.8, "cut");
    let score = |detection: &Value| detection["score"].as_f64().unwrap();
    assert!((score(&plain) - score(&found("cut"))).abs() < 0.02);
}

/// The voxels from one index up to another.
pub(crate) fn part(image: &RawImage, from: [usize; 3], to: [usize; 3]) -> RawImage {
    let ([nx, ny, _], size) = (image.geometry().shape(), image.voxel_type().size());
    let mut bytes = Vec::new();
    for k in from[2]..to[2] {
        for j in from[1]..to[1] {
            let line = nx * (j + ny * k);
            bytes.extend_from_slice(&image.bytes()[size * (line + from[0])..size * (line + to[0])]);
        }
    }
    let geometry = image.geometry().part(from, [0, 1, 2].map(|a| to[a] - from[a]));
    RawImage::new(geometry, image.voxel_type(), bytes, None).unwrap()
}

/// The whole way, from an oblique image in any format to the box that Slicer shows: it has the
/// place and the size of the result, and the image has the same voxels there.
#[test]
fn slicer_shows_the_box_where_it_was_found() {
    let Ok(python) = std::env::var("PBT_ORACLE_PYTHON") else {
        assert!(
            !std::env::var("CI").is_ok_and(|v| v == "true"),
            "PBT_ORACLE_PYTHON is not set, and CI must not skip"
        );
        println!("skipped: PBT_ORACLE_PYTHON is not set");
        return;
    };
    let (image, _) = gland();
    // A voxel that only one has, so that Slicer can say where it lies.
    const MARK: i16 = 30_000;
    let marked = VoxelIndex::new(3.0, 5.0, 2.0);
    let mut many = Many::new();
    let (mut cases, mut read) = (Vec::new(), Vec::new());
    for (n, turn) in [[0.1, -0.2, 0.15], [-0.2, 0.1, 0.0], [0.0, 0.2, -0.1]].into_iter().enumerate()
    {
        let axes = rotation_from_vector(Vector3::from(turn)).to_rotation_matrix().into_inner();
        let matrix = axes * Matrix3::from_diagonal(&Vector3::new(1.7, 1.85, 1.75));
        let geometry = Geometry::new(
            image.geometry().shape(),
            matrix,
            PointLps::new(-120.0, 95.5, 310.25 * n as f64),
        )
        .unwrap();
        let place = geometry.to_lps(marked);
        let mut bytes = image.bytes().to_vec();
        let [nx, ny, _] = geometry.shape();
        let at = 2 * (3 + nx * (5 + ny * 2));
        bytes[at..at + 2].copy_from_slice(&MARK.to_le_bytes());
        let exact = RawImage::new(geometry, VoxelType::I16, bytes, None).unwrap();
        let (order, flips) = (ORDERS[2 * n], [0, 1, 2].map(|a| n >> a & 1 == 1));
        many.add(&format!("s{n}"), &stored_otherwise(&exact, order, flips));
        cases.extend(FORMATS.map(|format| {
            (format!("s{n}-{format}"), format!("s{n}-{}.{format}", format.replace('.', "")), place)
        }));
    }
    let found = many.detect();
    for (case, file, _) in &cases {
        let markups = many.folder.path().join(format!("out/{case}.mrk.json"));
        read.push(json!({ "markups": markups, "volume": many.folder.path().join(file), "values": [MARK] }));
    }
    let Some(answers) =
        slicer::ask(&python, many.folder.path(), &json!({ "read": read, "write": [] }))
    else {
        return;
    };
    assert_eq!(answers.len(), 18);
    for ((case, _, place), held) in cases.iter().zip(&answers) {
        let (found, shown) = (found(case), &held["boxes"][0]);
        assert_eq!(shown["name"], found["name"], "{case}");
        let (center, axes) = slicer::frame(&shown["to_ras"]);
        assert!(
            distance_mm(center.0.coords.into(), numbers(&found["position_lps_mm"])) < 1e-9,
            "{case}: {shown}"
        );
        assert!(
            (axes - orientation(&found).to_rotation_matrix().into_inner()).norm() < 1e-9,
            "{case}: {shown}"
        );
        assert!(
            distance_mm(numbers(&shown["size_mm"]), numbers(&found["size_mm"])) < 1e-9,
            "{case}: {shown}"
        );
        assert!(slicer::point(&held["places"][0]).distance_mm(place) < 1e-4, "{case}: {held}");
    }
}

/// Oblique, anisotropic and tilted grids, stored along any axes: what is found lies at the same
/// place in the world whatever the format.
#[test]
fn every_format_leads_to_the_same_world_point() {
    let (image, middle) = gland();
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let mut draw = |low: f64, high: f64| {
        low + (high - low) * f64::from(random.next_u32()) / f64::from(u32::MAX)
    };
    let mut many = Many::new();
    let mut truths = Vec::new();
    for n in 0..12 {
        let axes = rotation_from_vector(Vector3::from_fn(|_, _| draw(-0.2, 0.2)))
            .to_rotation_matrix()
            .into_inner();
        let mut matrix = axes * Matrix3::from_diagonal(&Vector3::from_fn(|_, _| draw(1.6, 1.9)));
        // A gantry tilt of up to three degrees.
        let step = matrix.column(2) + axes.column(1) * draw(-0.1, 0.1);
        matrix.set_column(2, &step);
        let origin = PointLps::new(draw(-300.0, 300.0), draw(-300.0, 300.0), draw(-300.0, 300.0));
        let geometry = Geometry::new(image.geometry().shape(), matrix, origin).unwrap();
        truths.push(geometry.to_lps(middle).0.coords);
        let exact = RawImage::new(geometry, VoxelType::I16, image.bytes().to_vec(), None).unwrap();
        let (order, flips) = (ORDERS[n % 6], [0, 1, 2].map(|a| n >> a & 1 == 1));
        let exact = stored_otherwise(&exact, order, flips);
        write_image(&many.path(&format!("exact{n}"), &format!("exact{n}.nrrd")), &exact).unwrap();
        // All formats hold the affine that NIfTI's 32 bits leave of it.
        let rounded = many.folder.path().join(format!("rounded{n}.nii"));
        write_image(&rounded, &exact).unwrap();
        let rounded = read_raw(&rounded).unwrap().raw;
        many.add(&format!("r{n}"), &rounded);
        // The slices of a series lie along the axis that is tilted.
        let back = [0, 1, 2].map(|a| order.into_iter().position(|old| old == a).unwrap());
        let slices = stored_otherwise(&rounded, back, back.map(|a| flips[a]));
        write_series(&many.path(&format!("r{n}-dicom"), &format!("r{n}")), &slices);
    }
    let found = many.detect();
    for (n, truth) in truths.into_iter().enumerate() {
        let first = found(&format!("r{n}-nrrd"));
        assert!(
            distance_mm(numbers(&first["position_lps_mm"]), truth.into()) < 5.0,
            "r{n}: {first}"
        );
        for format in FORMATS.into_iter().chain(["dicom"]) {
            assert_same(
                &first,
                &found(&format!("r{n}-{format}")),
                1e-4,
                &format!("r{n}: {format}"),
            );
        }
        // The rounding moves voxels by 1e-5 mm, which now and then changes the last of the 12 bits
        // of an intensity.
        assert_same(
            &found(&format!("exact{n}")),
            &first,
            0.05,
            &format!("r{n}: 32 bits for the affine"),
        );
    }
}
