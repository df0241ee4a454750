//! The same volume stored along any axes is the same volume.

use crate::support::{numbers, pbt, read_json, scratch, tiny};
use nalgebra::{Matrix3, Quaternion, UnitQuaternion};
use pbt_io::{RawImage, VoxelType, read_raw, write_image};
use pbt_volume::{Geometry, PointLps};
use serde_json::Value;

/// The six orders of the axes.
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// The image with axis `order[a]` stored as axis `a`, backwards where `flips` says so; every voxel stays where it is in the world.
fn stored_otherwise(image: &RawImage, order: [usize; 3], flips: [bool; 3]) -> RawImage {
    assert_eq!(image.voxel_type(), VoxelType::U8);
    let (geometry, from) = (image.geometry(), image.geometry().shape());
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
                bytes.push(image.bytes()[old[0] + from[0] * (old[1] + from[1] * old[2])]);
            }
        }
    }
    let geometry = Geometry::new(shape, matrix, PointLps::new(origin.x, origin.y, origin.z)).unwrap();
    RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap()
}

fn orientation(detection: &Value) -> UnitQuaternion<f64> {
    let q = &detection["orientation"]["quaternion_wxyz"];
    let [w, i, j, k] = std::array::from_fn(|n| q[n].as_f64().unwrap());
    UnitQuaternion::new_normalize(Quaternion::new(w, i, j, k))
}

#[test]
fn all_48_ways_to_store_a_volume_give_one_pose() {
    let (images, out) = (scratch(), scratch());
    let original = read_raw(&tiny().folder().join("c7.nii.gz")).unwrap().raw;
    for (n, order) in ORDERS.into_iter().enumerate() {
        for flips in 0..8 {
            let other = stored_otherwise(&original, order, [0, 1, 2].map(|a| flips >> a & 1 == 1));
            // NRRD keeps every bit of the affine.
            write_image(&images.path().join(format!("v{n}{flips}.nrrd")), &other).unwrap();
        }
    }
    let model = tiny().model();
    let folders = [images.path(), out.path()].map(|path| path.to_str().unwrap().to_owned());
    pbt(["batch", "-q", "-m", model.to_str().unwrap(), "-i", &folders[0], "-o", &folders[1]]).exits_with(0);
    let found = |name: &str| read_json(&out.path().join(format!("{name}.json")))["detections"][0].clone();
    let first = found("v00");
    for (n, flips) in (0..6).flat_map(|n| (0..8).map(move |flips| (n, flips))) {
        let other = found(&format!("v{n}{flips}"));
        assert_eq!(other["status"], first["status"]);
        for field in ["position_lps_mm", "size_mm"] {
            let (a, b) = (numbers(&first[field]), numbers(&other[field]));
            let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(apart < 1e-6, "order {:?}, flips {flips:03b}: {field} differs by {apart:.1e} mm", ORDERS[n]);
        }
        let angle = orientation(&first).angle_to(&orientation(&other)).to_degrees();
        assert!(angle < 1e-5, "order {:?}, flips {flips:03b}: turned by {angle:.1e} degrees", ORDERS[n]);
    }
}
