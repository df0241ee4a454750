//! Training cases that are said not to have a structure.

use crate::support::{VOXELS, pbt, read_json, text, tiny_copy, train};
use pbt_io::{RawImage, VoxelType, write_image};
use pbt_volume::Geometry;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::json;
use std::path::Path;

/// An image of noise.
pub(crate) fn write_noise(path: &Path, geometry: Geometry, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let bytes = (0..geometry.len()).map(|_| (40 + random.next_u32() % 120) as u8).collect();
    let image = RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap();
    write_image(path, &image).unwrap();
}

#[test]
fn what_cases_are_said_not_to_have_is_absent_elsewhere() {
    let folder = tiny_copy();
    let at = |name: &str| folder.path().join(name);
    let mut set = read_json(&at("dataset.json"));
    let missing = json!({ "markups": [{ "type": "Fiducial", "coordinateSystem": "LPS",
        "controlPoints": [{ "label": "gland", "positionStatus": "missing" }] }] });
    std::fs::write(at("missing.mrk.json"), missing.to_string()).unwrap();
    for n in 0..6 {
        let id = format!("e{n}");
        let geometry = Geometry::isotropic([VOXELS; 3], 1.8).unwrap();
        write_noise(&at(&format!("{id}.nii.gz")), geometry, 70 + n);
        let split = if n < 5 { "train" } else { "test" };
        set["cases"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "id": id, "image": format!("{id}.nii.gz"),
            "annotations": "missing.mrk.json", "split": split }));
    }
    std::fs::write(at("dataset.json"), set.to_string()).unwrap();
    let validated = pbt(["validate", text(folder.path())]).exits_with(0);
    let line = "gland: marked as missing in 5 training case(s) of 5 subject(s)";
    assert!(validated.stdout.contains(line), "{}", validated.stdout);

    let model = at("without.pbt");
    train(folder.path(), &model, &["-q"]).exits_with(0);
    let shown = pbt(["info", text(&model)]).exits_with(0);
    assert!(
        shown.stdout.contains("5 of 5 without it called absent, 0 of 6 with it"),
        "{}",
        shown.stdout
    );
    let status = |id: &str| {
        let image = at(&format!("{id}.nii.gz"));
        let out = at("out");
        pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(&out)]).exits_with(0);
        read_json(&out.join(format!("{id}.json")))["detections"][0].clone()
    };
    assert_eq!(status("e5")["status"], "absent");
    for id in ["c6", "c7", "c8"] {
        assert_ne!(status(id)["status"], "absent", "{id}");
    }
}
