//! A voxel lies at one place in the world, whatever format its image is stored in, and a box drawn
//! there stays there.

#[path = "support/dicom.rs"]
#[allow(dead_code, reason = "not every test makes every file")]
mod made;

use nalgebra::{Matrix3, Vector3};
use pbt_io::{RawImage, VoxelType, read_image, read_markups, read_raw, write_image, write_markups};
use pbt_volume::{Geometry, PointLps, Pose, VoxelIndex, rotation_from_vector};
use proptest::prelude::*;
use std::path::Path;

/// What the formats promise together; NIfTI's 32 bits are the coarsest, and leave 300 mm with 3e-5.
const SAME_MM: f64 = 1e-4;

const SHAPE: [usize; 3] = [5, 4, 3];

/// Voxel values that tell each voxel apart.
fn values() -> Vec<i16> {
    (0..60).map(|n| n * 301 - 9000).collect()
}

/// An orthogonal grid as scanners make it, sheared along the slices by a gantry tilt.
fn grid(turn: [f64; 3], spacing_mm: [f64; 3], tilt_mm: f64, origin: [f64; 3]) -> Geometry {
    let axes = rotation_from_vector(Vector3::from(turn)).to_rotation_matrix().into_inner();
    let mut matrix = axes * Matrix3::from_diagonal(&Vector3::from(spacing_mm));
    let step = matrix.column(2) + axes.column(1) * tilt_mm;
    matrix.set_column(2, &step);
    Geometry::new(SHAPE, matrix, PointLps::new(origin[0], origin[1], origin[2])).expect("a grid")
}

/// The same volume with its axes in another order and direction.
fn reoriented(
    geometry: &Geometry,
    values: &[i16],
    order: [usize; 3],
    flips: [bool; 3],
) -> RawImage {
    let shape = order.map(|axis| SHAPE[axis]);
    let first = Vector3::from_fn(|a, _| if flips[a] { SHAPE[a] as f64 - 1.0 } else { 0.0 });
    let columns: Vec<Vector3<f64>> = order
        .iter()
        .map(|&axis| geometry.matrix().column(axis) * if flips[axis] { -1.0 } else { 1.0 })
        .collect();
    let origin = geometry.to_lps(VoxelIndex(first.into()));
    let turned = Geometry::new(shape, Matrix3::from_columns(&columns), origin).expect("a grid");
    let mut bytes = Vec::new();
    for n in 0..60 {
        let index = [n % shape[0], n / shape[0] % shape[1], n / shape[0] / shape[1]];
        let mut old = [0; 3];
        for (a, &axis) in order.iter().enumerate() {
            old[axis] = if flips[axis] { SHAPE[axis] - 1 - index[a] } else { index[a] };
        }
        bytes.extend(values[old[0] + SHAPE[0] * (old[1] + SHAPE[1] * old[2])].to_le_bytes());
    }
    RawImage::new(turned, VoxelType::I16, bytes, None).expect("60 voxels")
}

fn write_dicom(folder: &Path, geometry: &Geometry, values: &[i16]) {
    std::fs::create_dir(folder).unwrap();
    let (matrix, spacing) = (geometry.matrix(), geometry.spacing_mm());
    let (u, v) = (matrix.column(0) / spacing[0], matrix.column(1) / spacing[1]);
    for k in 0..SHAPE[2] {
        let position = geometry.to_lps(VoxelIndex::new(0.0, 0.0, k as f64)).0;
        let pixels: Vec<u8> =
            values[20 * k..20 * (k + 1)].iter().flat_map(|v| v.to_le_bytes()).collect();
        let orientation = [u[0], u[1], u[2], v[0], v[1], v[2]];
        let file = made::slice(
            9 - k,
            position.coords.as_slice(),
            &orientation,
            &[spacing[1], spacing[0]],
            [5, 4],
            &pixels,
        );
        std::fs::write(folder.join(format!("{}.dcm", (k + 1) % SHAPE[2])), file).unwrap();
    }
}

/// The world point of the voxel with this value.
fn place_of(path: &Path, value: i16) -> PointLps {
    let image = read_image(path).unwrap();
    let [nx, ny, _] = image.volume.shape();
    let n = image
        .volume
        .numbers()
        .data()
        .iter()
        .position(|&v| v == f32::from(value))
        .expect("the value is there");
    image.volume.geometry().to_lps(VoxelIndex::new(
        (n % nx) as f64,
        (n / nx % ny) as f64,
        (n / nx / ny) as f64,
    ))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_format_names_the_same_point(
        turn in prop::array::uniform3(-1.8f64..1.8), spacing in prop::array::uniform3(0.2f64..4.0), tilt in -0.5f64..0.5,
        origin in prop::array::uniform3(-300.0f64..300.0), voxel in 0usize..60, order in 0usize..6, flips in prop::array::uniform3(any::<bool>()),
    ) {
        let order = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order];
        let geometry = grid(turn, spacing, tilt * spacing[2], origin);
        let (values, folder) = (values(), tempfile::tempdir().unwrap());
        let truth = geometry.to_lps(VoxelIndex::new((voxel % 5) as f64, (voxel / 5 % 4) as f64, (voxel / 20) as f64));
        write_dicom(&folder.path().join("series"), &geometry, &values);
        let turned = reoriented(&geometry, &values, order, flips);
        let mut paths = vec![folder.path().join("series")];
        for name in ["a.nii", "a.nii.gz", "a.mha", "a.mhd", "a.nrrd", "a.nhdr"] {
            paths.push(folder.path().join(name));
            write_image(&paths[paths.len() - 1], &turned).unwrap();
        }
        // DICOM, converted.
        paths.push(folder.path().join("b.nii.gz"));
        write_image(&paths[7], &read_raw(&paths[0]).unwrap().raw).unwrap();
        let markups = folder.path().join("a.mrk.json");
        for path in &paths {
            let point = place_of(path, values[voxel]);
            prop_assert!(point.distance_mm(&truth) < SAME_MM, "{}: {point:?} is not {truth:?}", path.display());
            // A box drawn there, written for Slicer.
            let pose = Pose { center: point, orientation: rotation_from_vector(Vector3::from(turn)), size_mm: spacing };
            write_markups(&markups, &[("box".into(), pose)], &[], |_| String::new()).unwrap();
            prop_assert!(read_markups(&markups).unwrap().pose("box").unwrap().center.distance_mm(&truth) < SAME_MM);
        }
    }
}
