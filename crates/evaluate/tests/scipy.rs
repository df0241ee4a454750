//! Distances between surfaces against `scipy.ndimage.distance_transform_edt` and `binary_erosion`, in
//! the Python that PBT_ORACLE_PYTHON names.

use pbt_evaluate::SurfaceDistances;
use pbt_volume::Random;
use std::path::Path;
use std::process::Command;

/// Some ellipsoids in a grid, with rough edges; those at its border are cut off.
fn blobs(shape: [usize; 3], random: &mut Random) -> Vec<bool> {
    let mut mask = vec![false; shape.iter().product()];
    for _ in 0..1 + random.below(3) {
        let middle = shape.map(|n| random.between(0.0, (n - 1) as f64));
        let radius = shape.map(|n| random.between(0.8, 1.0 + n as f64 / 3.0));
        for (voxel, inside) in mask.iter_mut().enumerate() {
            let at = [voxel % shape[0], voxel / shape[0] % shape[1], voxel / shape[0] / shape[1]];
            let distance: f64 =
                (0..3).map(|axis| ((at[axis] as f64 - middle[axis]) / radius[axis]).powi(2)).sum();
            *inside |= distance < random.between(0.8, 1.2);
        }
        // At least the middle.
        let [i, j, k] = middle.map(|m| m.round() as usize);
        mask[i + shape[0] * (j + shape[1] * k)] = true;
    }
    mask
}

#[test]
fn agrees_with_scipy() {
    let Ok(python) = std::env::var("PBT_ORACLE_PYTHON") else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "PBT_ORACLE_PYTHON must be set in CI"
        );
        println!("skipped: PBT_ORACLE_PYTHON is not set");
        return;
    };
    let mut random = Random::from_seed(5);
    let (mut request, mut voxels, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..120 {
        let shape = [0; 3].map(|_| 1 + random.below(30));
        let spacing_mm = [0; 3].map(|_| random.between(0.3, 5.0));
        let tolerance_mm = random.between(0.5, 4.0);
        let masks = [0; 2].map(|_| blobs(shape, &mut random));
        request.push(serde_json::json!({
            "shape": shape, "spacing_mm": spacing_mm, "tolerance_mm": tolerance_mm,
        }));
        voxels.extend(masks.iter().flatten().map(|&inside| u8::from(inside)));
        let distances = SurfaceDistances::new(&masks[0], &masks[1], shape, spacing_mm).unwrap();
        found.push([
            ("hd95_mm", distances.hd95_mm()),
            ("surface_mm", distances.mean_mm()),
            ("nsd", distances.within_tolerance(tolerance_mm)),
        ]);
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("request.json", &serde_json::to_vec(&request).unwrap());
    write("masks.raw", &voxels);
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/surface_oracle.py");
    let status = Command::new(python).arg(script).arg(folder.path()).status();
    assert!(status.expect("PBT_ORACLE_PYTHON starts").success(), "the oracle failed");
    let answer = std::fs::read(folder.path().join("answer.json")).unwrap();
    let answer: Vec<serde_json::Value> = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer.len(), found.len());
    for ((expected, found), case) in answer.iter().zip(&found).zip(&request) {
        for (key, value) in found {
            let expected = expected[key].as_f64().unwrap();
            assert!((value - expected).abs() < 1e-9, "{key}: {value}, not {expected}: {case}");
        }
    }
}
