//! Slices that are many times as thick as their voxels are wide: trained on and searched without
//! becoming cubes.

use crate::support::{numbers, pbt, read_json, scratch, text, tiny};
use pbt_io::{RawImage, VoxelType, write_image, write_markups};
use pbt_phantom::{PhantomModality, PhantomSettings, phantom};
use pbt_volume::{Geometry, PointLps, VoxelIndex};
use serde_json::json;
use std::path::Path;

/// Slices together.
const THICK: usize = 6;
const CASES: usize = 10;

/// A phantom whose slices are means of six, along the first axis, and where its gland is.
fn write_case(folder: &Path, n: usize) -> PointLps {
    let settings = PhantomSettings {
        voxels: 48,
        spacing_mm: 1.75,
        oblique_share: 0.0,
        ..PhantomSettings::new(PhantomModality::Ultrasound)
    };
    let made = phantom(PhantomModality::Ultrasound, &settings, 100 + n as u64);
    let (image, grid) = (&made.image, made.image.geometry());
    let [nx, ny, nz] = grid.shape();
    let mut matrix = *grid.matrix();
    let wide = matrix.column(0) * THICK as f64;
    matrix.set_column(0, &wide);
    let first = grid.to_lps(VoxelIndex::new((THICK - 1) as f64 / 2.0, 0.0, 0.0));
    let geometry = Geometry::new([nx / THICK, ny, nz], matrix, first).unwrap();
    let mut bytes = Vec::new();
    for (k, j) in (0..nz).flat_map(|k| (0..ny).map(move |j| (k, j))) {
        for i in 0..nx / THICK {
            let sum: f32 = (0..THICK).map(|di| image.at(i * THICK + di, j, k)).sum();
            bytes.extend_from_slice(&((sum / THICK as f32) as i16).to_le_bytes());
        }
    }
    let raw = RawImage::new(geometry, VoxelType::I16, bytes, None).unwrap();
    write_image(&folder.join(format!("c{n}.nii.gz")), &raw).unwrap();
    let boxes = [("gland".to_owned(), made.pose)];
    write_markups(&folder.join(format!("c{n}.mrk.json")), &boxes, &[], |_| String::new()).unwrap();
    made.pose.center
}

#[test]
fn a_structure_in_thick_slices_is_learned_and_found() {
    let folder = scratch();
    let truths: Vec<PointLps> = (0..CASES).map(|n| write_case(folder.path(), n)).collect();
    let cases: Vec<_> = (0..CASES)
        .map(|n| {
            let (image, markups) = (format!("c{n}.nii.gz"), format!("c{n}.mrk.json"));
            let split = if n < 7 { "train" } else { "test" };
            json!({"id": format!("c{n}"), "image": image, "annotations": markups, "split": split})
        })
        .collect();
    let dataset = json!({
        "schema": "pbt-dataset/1", "name": "thick", "modality": "US",
        "structures": [{"name": "gland", "kind": "box"}], "cases": cases,
    });
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();

    let out = scratch();
    let config = tiny().quick_config();
    let models = ["1", "3"].map(|threads| {
        let model = out.path().join(format!("{threads}.pbt"));
        let arguments = ["train", "-i", text(folder.path()), "-o", text(&model), "--config"];
        pbt([&arguments[..], &[text(&config), "--threads", threads]].concat()).exits_with(0);
        std::fs::read(model).unwrap()
    });
    assert!(models[0] == models[1], "threads decide");
    // With slices of six times the spacing and two levels, the grid has longer steps across them.
    let info = pbt(["info", text(&out.path().join("1.pbt"))]).exits_with(0).stdout;
    assert!(info.contains("working grid   1.750 mm, 2 levels"), "{info}");

    for (n, truth) in truths.iter().enumerate().skip(7) {
        let image = folder.path().join(format!("c{n}.nii.gz"));
        let model = out.path().join("1.pbt");
        let found = ["1", "3"].map(|threads| {
            let results = out.path().join(threads);
            let arguments =
                ["detect", "-m", text(&model), "-i", text(&image), "-o", text(&results)];
            pbt([&arguments[..], &["--threads", threads]].concat()).exits_with(0);
            let result = read_json(&results.join(format!("c{n}.json")));
            numbers(&result["detections"][0]["position_lps_mm"])
        });
        assert_eq!(found[0], found[1]);
        let [x, y, z] = found[0];
        let off_mm = (PointLps::new(x, y, z).0 - truth.0).norm();
        assert!(off_mm < THICK as f64 * 1.75 / 2.0, "case {n}: {off_mm:.1} mm off");
    }
}
