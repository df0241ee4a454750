//! Resampling against SimpleITK, and world coordinates and axes against nibabel, in the Python that
//! PBT_ORACLE_PYTHON names.

use nalgebra::{Matrix3, Matrix4, Vector3};
use pbt_volume::{
    Geometry, Padding, PointLps, Volume, VoxelIndex, resample, rotation_from_vector,
    working_geometry,
};
use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// What the oracle says about one case.
#[derive(Deserialize)]
struct Answer {
    /// Rows of the step matrix of nibabel's canonical image, turned to LPS.
    axes_lps: [[f64; 3]; 3],
    shape: [usize; 3],
    last_voxel_lps: [f64; 3],
}

/// An image and the grid to bring it to.
struct Case {
    image: Volume<u16>,
    target: Geometry,
}

/// Smooth structure over the whole range of 12 bits, different along every axis.
fn formula(i: usize, j: usize, k: usize) -> u16 {
    let [x, y, z] = [i, j, k].map(|n| n as f64);
    let waves = (0.31 * x + 0.1).sin() + (0.23 * y - 0.4).sin() + (0.27 * z + 0.2 * x).sin();
    (2047.5 + 680.0 * waves) as u16
}

/// Oblique, anisotropic and mirrored images, each with an oblique and a parallel target, none of
/// them coarser than the image: SimpleITK has no anti-aliasing.
fn cases() -> Vec<Case> {
    let rotations = [[0.0, 0.0, 0.0], [0.3, -0.4, 0.2], [-0.2, 0.1, 2.9], [1.5, 0.2, -0.1]];
    let mirrors = [[1.0, 1.0, 1.0], [-1.0, 1.0, 1.0]];
    let mut cases = Vec::new();
    for (n, turn) in rotations.into_iter().enumerate() {
        for mirror in mirrors {
            let axes = rotation_from_vector(Vector3::from(turn)).to_rotation_matrix().into_inner();
            let steps = Vector3::new(0.8 * mirror[0], 1.1, 2.4);
            let geometry = Geometry::new(
                [23, 19, 15],
                axes * Matrix3::from_diagonal(&steps),
                PointLps::new(-11.0, 40.0, -260.0),
            )
            .unwrap();
            let image = Volume::from_fn(geometry.clone(), formula);
            let oblique = rotation_from_vector(Vector3::new(0.2, 0.1 * n as f64, -0.3))
                .to_rotation_matrix()
                .into_inner()
                * axes;
            for (axes, spacing_mm) in [(oblique, 0.75), (axes, 0.7)] {
                let matrix = axes * spacing_mm;
                let origin = PointLps(geometry.center().0 - matrix * Vector3::new(10.0, 11.0, 9.0));
                cases.push(Case {
                    image: image.clone(),
                    target: Geometry::new([20, 22, 18], matrix, origin).unwrap(),
                });
            }
        }
    }
    cases
}

fn rows(affine: &Matrix4<f64>) -> [[f64; 4]; 4] {
    affine.transpose().into()
}

fn ask(python: &str, folder: &Path, cases: &[Case]) -> Vec<Answer> {
    let request: Vec<_> = cases
        .iter()
        .map(|case| {
            serde_json::json!({
                "shape": case.image.shape(), "affine_lps": rows(&case.image.geometry().affine()),
                "target_shape": case.target.shape(), "target_affine_lps": rows(&case.target.affine()),
            })
        })
        .collect();
    std::fs::write(folder.join("request.json"), serde_json::to_vec(&request).unwrap()).unwrap();
    for (n, case) in cases.iter().enumerate() {
        let bytes: Vec<u8> = case.image.data().iter().flat_map(|v| v.to_le_bytes()).collect();
        std::fs::write(folder.join(format!("image-{n}.raw")), bytes).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/volume_oracle.py");
    let status =
        Command::new(python).arg(script).arg(folder).status().expect("PBT_ORACLE_PYTHON starts");
    assert!(status.success(), "the oracle failed");
    serde_json::from_slice(&std::fs::read(folder.join("answer.json")).unwrap()).unwrap()
}

#[test]
fn agrees_with_simpleitk_and_nibabel() {
    let Ok(python) = std::env::var("PBT_ORACLE_PYTHON") else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "PBT_ORACLE_PYTHON must be set in CI"
        );
        println!("skipped: PBT_ORACLE_PYTHON is not set");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let cases = cases();
    let answers = ask(&python, folder.path(), &cases);
    assert_eq!(answers.len(), cases.len());
    for (n, (case, answer)) in cases.iter().zip(&answers).enumerate() {
        let geometry = case.image.geometry();
        let bytes = std::fs::read(folder.path().join(format!("expected-{n}.raw"))).unwrap();
        let expected: Vec<f64> =
            bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        let ours = resample(&case.image, &case.target, Padding::Zero);
        let (mut compared, mut total) = (0, 0.0);
        Volume::from_fn(case.target.clone(), |i, j, k| {
            let at = case.target.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
            // Beyond the outer voxel centres SimpleITK repeats the border for half a voxel, which
            // is neither of our paddings.
            if geometry.voxels_outside(at) == 0.0 {
                let difference =
                    (f64::from(ours.at(i, j, k)) - expected[ours.offset(i, j, k)]).abs();
                // Up to 300 units a voxel along each axis, positions rounded by at most 1/512
                // voxel, and up to three roundings.
                assert!(difference < 2.5, "case {n}, voxel {i} {j} {k}: {difference}");
                compared += 1;
                total += difference;
            }
            0u8
        });
        assert!(compared > 2000, "case {n}: only {compared} voxels lie inside");
        assert!(
            total / f64::from(compared) < 0.5,
            "case {n}: mean difference {}",
            total / f64::from(compared)
        );

        let [nx, ny, nz] = case.image.shape().map(|n| (n - 1) as f64);
        let [x, y, z] = answer.last_voxel_lps;
        assert!(
            geometry.to_lps(VoxelIndex::new(nx, ny, nz)).distance_mm(&PointLps::new(x, y, z))
                < 1e-9,
            "case {n}"
        );

        // A fine working grid has the axes of nibabel's canonical image, covers it, and begins less
        // than a block of eight voxels before it.
        let working = working_geometry(geometry, 0.01, 0);
        let canonical = Matrix3::from_fn(|row, column| answer.axes_lps[row][column]);
        for a in 0..3 {
            let step = canonical.column(a);
            assert!(
                (working.matrix().column(a).normalize() - step.normalize()).norm() < 1e-9,
                "case {n}, axis {a}"
            );
            let extent_mm = (working.shape()[a] - 1) as f64 * 0.01;
            let beyond_mm = extent_mm - (answer.shape[a] - 1) as f64 * step.norm();
            assert!((-0.0001..0.0901).contains(&beyond_mm), "case {n}, axis {a}: {beyond_mm} mm");
        }
    }
}
