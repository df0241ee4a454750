//! Markups and label maps against 3D Slicer itself: what we write it reads, what it writes we read,
//! and both put it at the same place of the same volume.

#[path = "support/slicer.rs"]
mod slicer;
#[allow(dead_code, reason = "real volumes are not needed here")]
mod support;

use nalgebra::{Matrix3, Vector3};
use pbt_io::{
    DetectionRecord, InputRecord, Landmark, LandmarkState, Look, RawImage, Shown, VoxelType,
    read_labels, read_markups, write_image, write_label_map, write_markups,
};
use pbt_volume::{
    Detection, Geometry, Location, PointLps, Pose, Status, VoxelIndex, rotation_from_vector,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What all formats promise together; NIfTI's 32 bits are the coarsest.
const SAME_MM: f64 = 1e-4;

const SHAPE: [usize; 3] = [7, 6, 5];

/// A volume, and what was found in it: a box about one voxel, a landmark at another, and a landmark
/// out of view.
struct Found {
    image: RawImage,
    pose: Pose,
    /// What the two voxels hold, and no others.
    values: [u8; 2],
    landmarks: [Landmark; 2],
}

/// Oblique and anisotropic volumes anywhere, some of them mirrored.
fn found() -> Vec<Found> {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut draw = |low: f64, high: f64| {
        low + (high - low) * f64::from(random.next_u32()) / f64::from(u32::MAX)
    };
    let one = |n: usize| {
        let axes = rotation_from_vector(Vector3::from_fn(|_, _| draw(-1.8, 1.8)))
            .to_rotation_matrix()
            .into_inner();
        let mut steps = Vector3::from_fn(|_, _| draw(0.3, 4.0));
        steps[0] *= if n % 3 == 2 { -1.0 } else { 1.0 };
        let origin = PointLps::new(draw(-300.0, 300.0), draw(-300.0, 300.0), draw(-300.0, 300.0));
        let geometry = Geometry::new(SHAPE, axes * Matrix3::from_diagonal(&steps), origin).unwrap();
        let voxels = [0, 1].map(|_| SHAPE.map(|n| draw(0.0, n as f64 - 1.0).round() as usize));
        let [center, tip] = voxels.map(|v| geometry.to_lps(VoxelIndex(v.map(|n| n as f64).into())));
        let values = voxels.map(|[i, j, k]| (i + SHAPE[0] * (j + SHAPE[1] * k)) as u8);
        let orientation = rotation_from_vector(Vector3::from_fn(|_, _| draw(-1.8, 1.8)));
        let pose = Pose { center, orientation, size_mm: [0, 1, 2].map(|_| draw(0.5, 200.0)) };
        let landmarks = [("tip", LandmarkState::At(tip)), ("gone", LandmarkState::OutOfView)];
        let landmarks = landmarks.map(|(name, state)| Landmark { name: name.to_owned(), state });
        let bytes = (0..SHAPE.iter().product::<usize>()).map(|n| n as u8).collect();
        Found {
            image: RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap(),
            pose,
            values,
            landmarks,
        }
    };
    (0..12).map(one).collect()
}

/// The box as Slicer holds it.
#[track_caller]
fn assert_box(held: &Value, pose: &Pose) {
    let (center, axes) = slicer::frame(&held["to_ras"]);
    assert!(
        center.distance_mm(&pose.center) < 1e-9 && (axes - pose.axes()).norm() < 1e-9,
        "{held} is not {pose:?}"
    );
    for (n, size_mm) in pose.size_mm.into_iter().enumerate() {
        assert!(
            (held["size_mm"][n].as_f64().unwrap() - size_mm).abs() < 1e-9,
            "{held} is not {pose:?}"
        );
    }
}

fn ras(point: PointLps) -> [f64; 3] {
    [-point.0.x, -point.0.y, point.0.z]
}

#[test]
fn slicer_reads_what_is_written_where_it_lies() {
    let Some(python) = support::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cases, mut read) = (found(), Vec::new());
    for (n, case) in cases.iter().enumerate() {
        let markups = folder.path().join(format!("{n}.mrk.json"));
        write_markups(
            &markups,
            &[("box".into(), case.pose), ("again".into(), case.pose)],
            &case.landmarks,
            |name| Shown {
                description: format!("about {name}"),
                look: if name == "box" { Look::Sure } else { Look::Doubtful },
            },
        )
        .unwrap();
        for format in ["nii", "nii.gz", "mha", "mhd", "nrrd", "nhdr"] {
            let volume = folder.path().join(format!("{n}-{}.{format}", format.replace('.', "")));
            write_image(&volume, &case.image).unwrap();
            read.push(json!({ "markups": markups, "volume": volume, "values": case.values }));
        }
    }
    let Some(answers) = slicer::ask(&python, folder.path(), &json!({ "read": read, "write": [] }))
    else {
        return;
    };
    assert_eq!(answers.len(), 6 * cases.len());
    for (n, held) in answers.iter().enumerate() {
        let case = &cases[n / 6];
        assert_eq!(held["complaints"], "");
        assert_eq!(
            (&held["boxes"][0]["name"], &held["boxes"][1]["name"]),
            (&json!("box"), &json!("again"))
        );
        assert_box(&held["boxes"][0], &case.pose);
        assert_box(&held["boxes"][1], &case.pose);
        let look = |n: usize| &held["boxes"][n]["look"];
        assert_ne!(look(0)["color"], look(1)["color"]);
        assert!(look(0)["visible"] == json!(true) && look(1)["visible"] == json!(true));
        assert_eq!((&look(0)["opacity"], &look(1)["opacity"]), (&json!(1.0), &json!(0.6)));
        assert_eq!(look(1)["color"], json!([1.0, 0.6, 0.0]));
        let (tip, gone) = (&held["points"][0], &held["points"][1]);
        assert_eq!((&tip["label"], &tip["status"]), (&json!("tip"), &json!("defined")));
        assert_eq!((&gone["label"], &gone["status"]), (&json!("gone"), &json!("missing")));
        // The voxels in which they were found lie there for Slicer, too.
        for (place, point) in [
            (&held["places"][0], case.pose.center),
            (&held["places"][1], slicer::point(&tip["ras"])),
        ] {
            let away_mm = slicer::point(place).distance_mm(&point);
            assert!(away_mm < SAME_MM, "{}: {away_mm} mm", read[n]["volume"]);
        }
    }
}

#[test]
fn what_slicer_writes_is_read() {
    let Some(python) = support::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (cases, mut write) = (found(), Vec::new());
    for (n, Found { pose, landmarks, .. }) in cases.iter().enumerate() {
        let axes = Matrix3::from_diagonal(&[-1.0, -1.0, 1.0].into()) * pose.axes();
        let center = ras(pose.center);
        let rows: Vec<[f64; 4]> = (0..3)
            .map(|r| [axes[(r, 0)], axes[(r, 1)], axes[(r, 2)], center[r]])
            .chain([[0.0, 0.0, 0.0, 1.0]])
            .collect();
        let boxes = json!([{ "name": "box", "to_ras": rows, "size_mm": pose.size_mm }]);
        let LandmarkState::At(tip) = landmarks[0].state else { unreachable!() };
        let points = json!([{ "label": "tip", "status": "defined", "ras": ras(tip) }, { "label": "gone", "status": "missing", "ras": [0.0, 0.0, 0.0] }]);
        for system in ["LPS", "RAS"] {
            let folder = folder.path().join(format!("{n}-{system}"));
            std::fs::create_dir(&folder).unwrap();
            write.push(
                json!({ "folder": folder, "system": system, "boxes": boxes, "points": points }),
            );
        }
    }
    if slicer::ask(&python, folder.path(), &json!({ "read": [], "write": write })).is_none() {
        return;
    }
    for (n, Found { pose, landmarks, .. }) in cases.iter().enumerate() {
        for system in ["LPS", "RAS"] {
            let read = |name: &str| {
                read_markups(&folder.path().join(format!("{n}-{system}/{name}.mrk.json"))).unwrap()
            };
            let (boxes, points) = (read("box"), read("points"));
            // The control point in the middle of Slicer's box is no landmark.
            assert_eq!(boxes.landmarks, []);
            let again = boxes.pose("box").unwrap();
            // Slicer keeps 32 bits of a box's centre.
            assert!(
                again.center.distance_mm(&pose.center) < SAME_MM && again.angle_to(pose) < 1e-9,
                "{again:?} is not {pose:?}"
            );
            assert!(
                (Vector3::from(again.size_mm) - Vector3::from(pose.size_mm)).norm() < 1e-9,
                "{again:?} is not {pose:?}"
            );
            let (LandmarkState::At(tip), Some(LandmarkState::At(again))) =
                (landmarks[0].state, points.landmark("tip"))
            else {
                panic!()
            };
            assert!(again.distance_mm(&tip) < 1e-9);
            assert_eq!(points.landmark("gone"), Some(LandmarkState::OutOfView));
        }
    }
}

#[test]
fn a_label_map_is_a_segmentation_with_names() {
    let Some(python) = support::python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let cases = found();
    let paths: Vec<PathBuf> =
        (0..cases.len()).map(|n| folder.path().join(format!("{n}.seg.nrrd"))).collect();
    for (Found { image, pose, landmarks, .. }, path) in cases.iter().zip(&paths) {
        let LandmarkState::At(tip) = landmarks[0].state else { unreachable!() };
        let pose = Pose { size_mm: [8.0, 9.0, 10.0], ..*pose };
        let detections = [
            ("corpus 1", Status::Found, Location::Box(Some(pose))),
            ("gone", Status::Absent, Location::Box(None)),
            ("Spitze, \u{fc}ber", Status::Found, Location::Landmark(Some(tip))),
        ]
        .map(|(name, status, at)| {
            DetectionRecord::from(Detection::new(name.into(), status, 1.0, at))
        });
        write_label_map(path, &InputRecord::new(String::new(), image.geometry()), &detections)
            .unwrap();
    }
    let Some(answers) = slicer::ask(
        &python,
        folder.path(),
        &json!({ "read": [], "write": [], "segmentations": paths }),
    ) else {
        return;
    };
    assert_eq!(answers.len(), cases.len());
    for (path, held) in paths.iter().zip(&answers) {
        let map = read_labels(path).unwrap();
        for (n, name) in ["corpus 1", "gone", "Spitze, \u{fc}ber"].into_iter().enumerate() {
            let inside: Vec<usize> =
                (0..map.data().len()).filter(|&v| usize::from(map.data()[v]) == n + 1).collect();
            let segment = &held[n];
            assert_eq!(
                (segment["name"].as_str(), segment["voxels"].as_u64()),
                (Some(name), Some(inside.len() as u64)),
                "{held}"
            );
            assert_eq!(inside.is_empty(), segment["middle"].is_null());
            if !inside.is_empty() {
                let place = |&v: &usize| {
                    let [i, j, k] =
                        [v % SHAPE[0], v / SHAPE[0] % SHAPE[1], v / SHAPE[0] / SHAPE[1]]
                            .map(|n| n as f64);
                    map.geometry().to_lps(VoxelIndex::new(i, j, k)).0.coords
                };
                let middle = PointLps(
                    (inside.iter().map(place).sum::<Vector3<f64>>() / inside.len() as f64).into(),
                );
                let away_mm = slicer::point(&segment["middle"]).distance_mm(&middle);
                assert!(away_mm < SAME_MM, "{name}: {away_mm} mm");
            }
        }
    }
}
