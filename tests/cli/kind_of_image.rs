//! Images of another kind than those of the training: the result says so, and nothing is found.

use crate::support::{pbt, read_json, scratch, text, tiny};
use pbt_io::{RawImage, VoxelType, read_image, write_image};
use pbt_volume::Geometry;
use serde_json::Value;
use std::path::Path;

/// Detects in the image of a test case, changed.
fn detected(
    out: &Path,
    grid: impl Fn(&Geometry) -> Geometry,
    voxel: impl Fn(f32) -> f32,
) -> (Value, String) {
    let image = read_image(&tiny().folder().join("c7.nii.gz")).unwrap().volume.numbers();
    let bytes = image.data().iter().flat_map(|&v| voxel(v).to_le_bytes()).collect();
    let changed = RawImage::new(grid(image.geometry()), VoxelType::F32, bytes, None).unwrap();
    write_image(&out.join("changed.nii"), &changed).unwrap();
    let (image, results) = (out.join("changed.nii"), out.join("results"));
    let outcome =
        pbt(["detect", "-m", text(&tiny().model()), "-i", text(&image), "-o", text(&results)])
            .exits_with(0);
    (read_json(&results.join("changed.json")), outcome.stderr)
}

#[test]
fn an_image_of_another_kind_is_told() {
    let out = scratch();
    let (result, _) = detected(out.path(), Geometry::clone, |v| v);
    assert_eq!(result["detections"][0]["status"], "found");
    assert_eq!(result["warnings"].as_array().unwrap().len(), 0, "{}", result["warnings"]);
    // Dark is bright.
    let (result, stderr) = detected(out.path(), Geometry::clone, |v| -v);
    assert_ne!(result["detections"][0]["status"], "found");
    let warning = result["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("voxels: what the best box of "), "{warning}");
    assert!(stderr.contains(warning), "{stderr}");
    // Voxels three times as large.
    let larger = |g: &Geometry| Geometry::new(g.shape(), g.matrix() * 3.0, g.origin()).unwrap();
    let (result, _) = detected(out.path(), larger, |v| v);
    assert_ne!(result["detections"][0]["status"], "found");
    let warning = result["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("spacing: voxels are ") && warning.contains("at most"),
        "{warning}"
    );
}
