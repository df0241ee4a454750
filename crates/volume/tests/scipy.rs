//! Connected components against `scipy.ndimage.label`, numbers included, in the Python that
//! PBT_ORACLE_PYTHON names.

use pbt_volume::{Components, Connectivity, Geometry, Joining, Random, Volume};
use std::path::Path;
use std::process::Command;

const CONNECTIVITIES: [(u8, Connectivity); 3] =
    [(6, Connectivity::Six), (18, Connectivity::Eighteen), (26, Connectivity::TwentySix)];

/// Masks of random shapes, thin ones among them, from nearly empty to nearly full; of single voxels
/// or of small cuboids.
fn masks() -> Vec<Volume<u8>> {
    let mut random = Random::from_seed(11);
    let mut masks = Vec::new();
    for n in 0..240 {
        let mut shape = [0; 3].map(|_| 1 + random.below(24));
        shape[n % 3] = [1 + random.below(5), 1 + random.below(200)][n / 3 % 2];
        let (density, cell) = (random.between(0.05, 0.9), 1 + n % 4 % 3);
        let seed = random.below(1 << 30) as u64;
        let geometry = Geometry::isotropic(shape, 1.0).unwrap();
        masks.push(Volume::from_fn(geometry, |i, j, k| {
            let cell = [i, j, k].map(|v| (v / cell) as u64);
            let name = seed + cell[0] + 1_000 * cell[1] + 1_000_000 * cell[2];
            u8::from(Random::from_seed(name).uniform() < density)
        }));
    }
    masks
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
    let folder = tempfile::tempdir().unwrap();
    let (mut request, mut voxels, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    for mask in &masks() {
        for (number, connectivity) in CONNECTIVITIES {
            request.push(serde_json::json!({ "shape": mask.shape(), "connectivity": number }));
            voxels.extend_from_slice(mask.data());
            let found =
                Components::new(mask, |v| v != 0, connectivity, Joining::default()).unwrap();
            labels.push((mask.shape(), number, found.voxels(|label| label).unwrap()));
        }
    }
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("request.json", &serde_json::to_vec(&request).unwrap());
    write("voxels.raw", &voxels);
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/components_oracle.py");
    let status = Command::new(python).arg(script).arg(folder.path()).status();
    assert!(status.expect("PBT_ORACLE_PYTHON starts").success(), "the oracle failed");
    let expected = std::fs::read(folder.path().join("expected.raw")).unwrap();
    let (expected, _) = expected.as_chunks::<4>();
    let mut expected = expected.iter().map(|&bytes| u32::from_le_bytes(bytes));
    for (shape, connectivity, labels) in labels {
        let of_scipy: Vec<u32> = expected.by_ref().take(labels.len()).collect();
        assert_eq!(*labels, *of_scipy, "{shape:?}, {connectivity} neighbours");
    }
    assert!(expected.next().is_none());
}
