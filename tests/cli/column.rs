//! A made column of four look-alikes in a row, as small as the whole chain allows: several boxes in
//! a network, a test of the level that they stand at, landmarks in the frame of one of them.

use crate::support::lasting;
use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_io::{
    Landmark, LandmarkState, RawImage, VoxelType, read_markups, write_image, write_markups,
};
use pbt_volume::{Geometry, PointLps, Pose, VoxelIndex, positive};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Its structures, from the lowest to the highest.
pub(crate) const MEMBERS: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// Arcs between structures and the test of the level need six training cases; [`wobble`] needs
/// eight.
pub(crate) const TRAINING: usize = 8;
pub(crate) const TEST: usize = 2;

const SPACING_MM: f64 = 2.0;
const SHAPE: [usize; 3] = [30, 30, 52];

/// Slices of a part.
const PART: usize = 35;

/// Edges of a member and the distance of neighbours, mm.
const SIZE_MM: [f64; 3] = [20.0, 16.0, 13.0];
const STEP_MM: f64 = 17.0;

/// Settings of a training in seconds, without mirrored copies.
const SETTINGS: &str = "\
[augmentation]
copies = 0
[position]
copies = 2
negatives = 40
haar.features = 150
[classifier.pbt]
depth = 2
rounds_by_level = [10, 10]
[orientation]
rotations = 20
points_across = 4.0
[refinement]
points_across = 5.0
perturbations = 30
border = 0.1
ridge = 1.0
[landmarks]
perturbations = 8
";

/// The data set and the settings. Read only.
pub(crate) struct Column {
    folder: TempDir,
}

impl Column {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder().join("small.toml")
    }

    /// Images of the test cases.
    pub(crate) fn images(&self) -> [PathBuf; TEST] {
        std::array::from_fn(|n| self.folder().join(format!("c{}.nii.gz", TRAINING + n)))
    }

    /// The lower two thirds of the first of them: three members, and what is below.
    pub(crate) fn part(&self) -> PathBuf {
        self.folder().join(format!("c{TRAINING}.part.nii.gz"))
    }

    /// The truth about an image.
    pub(crate) fn boxes(&self, image: &Path) -> Vec<(String, Pose)> {
        let name = image.file_name().and_then(|n| n.to_str()).expect("a name");
        let markups = self.folder().join(name.replace("nii.gz", "mrk.json"));
        read_markups(&markups).expect("the markups are there").boxes
    }
}

/// The data set, made once.
pub(crate) fn column() -> &'static Column {
    static COLUMN: OnceLock<Column> = OnceLock::new();
    COLUMN.get_or_init(|| {
        let column = Column { folder: lasting() };
        std::fs::write(column.config(), SETTINGS).expect("the configuration is written");
        let cases = (0..TRAINING + TEST).map(|n| {
            let id = format!("c{n}");
            write_case(column.folder(), &id, n);
            let split = if n < TRAINING { "train" } else { "test" };
            let [image, markups] = ["nii.gz", "mrk.json"].map(|end| format!("{id}.{end}"));
            json!({ "id": id, "image": image, "annotations": markups, "split": split })
        });
        let cases = cases.collect::<Vec<_>>();
        let structures = MEMBERS
            .map(|name| json!({ "name": name, "kind": "box" }))
            .into_iter()
            .chain([json!({ "name": "tip", "kind": "landmark", "parent": "v2" })]);
        let dataset = json!({
            "schema": "pbt-dataset/1", "name": "column", "modality": "MR",
            "structures": structures.collect::<Vec<_>>(), "cases": cases,
        });
        std::fs::write(column.folder().join("dataset.json"), dataset.to_string())
            .expect("the data set is written");
        column
    })
}

/// Ellipsoids in a row, with a large bright one below the first and a small one
/// beside the last: what tells where a chain begins and ends.
fn write_case(folder: &Path, id: &str, number: usize) {
    let mut random = ChaCha8Rng::seed_from_u64(number as u64);
    // From −1 to 1.
    let mut draw = move || f64::from(random.next_u32()) / f64::from(u32::MAX) * 2.0 - 1.0;
    let extent = SHAPE.map(|n| n as f64 * SPACING_MM);
    let origin = PointLps(extent.map(|mm| -0.5 * mm).into());
    let geometry = Geometry::new(SHAPE, Matrix3::identity() * SPACING_MM, origin)
        .expect("an upright grid is a geometry");

    let start = Vector3::new(4.0 * draw(), 4.0 * draw(), -1.5 * STEP_MM + 4.0 * draw());
    let lean = UnitQuaternion::from_scaled_axis(Vector3::new(0.1 * draw(), 0.0, 0.0));
    let mut center = start;
    let poses: Vec<Pose> = (0..MEMBERS.len())
        .map(|n| {
            if n > 0 {
                center += lean * (Vector3::new(0.0, 0.0, STEP_MM) + wobble(number, n));
            }
            let turn = UnitQuaternion::from_scaled_axis(Vector3::new(0.0, 0.03 * draw(), 0.0));
            Pose {
                center: PointLps(center.into()),
                orientation: positive(lean * turn),
                size_mm: SIZE_MM.map(|mm| mm * (1.0 + 0.04 * draw())),
            }
        })
        .collect();
    let first = poses[0];
    let last = poses[poses.len() - 1];
    // Solids: pose and brightness. Each member has a dark spot on one side.
    let mut solids: Vec<(Pose, f64)> = vec![
        (
            Pose {
                center: first.to_lps(Vector3::new(0.0, 0.0, -19.0)),
                size_mm: [34.0, 26.0, 20.0],
                ..first
            },
            130.0,
        ),
        (
            Pose { center: last.to_lps(Vector3::new(16.0, 0.0, 8.0)), size_mm: [10.0; 3], ..last },
            150.0,
        ),
    ];
    for pose in &poses {
        solids.push((*pose, 110.0));
        let spot = pose.to_lps(Vector3::new(5.0, 2.0, 0.0));
        solids.push((Pose { center: spot, size_mm: [7.0; 3], ..*pose }, -60.0));
    }
    let mut bytes = Vec::with_capacity(SHAPE.iter().product());
    for k in 0..SHAPE[2] {
        for j in 0..SHAPE[1] {
            for i in 0..SHAPE[0] {
                let at = geometry.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
                let sum: f64 = solids.iter().map(|(pose, value)| value * inside(pose, at)).sum();
                bytes.push((60.0 + sum + 5.0 * draw()).clamp(0.0, 255.0) as u8);
            }
        }
    }
    let write = |end: &str, slices: usize| {
        let shape = [SHAPE[0], SHAPE[1], slices];
        let bytes = bytes[..shape.iter().product()].to_vec();
        let image = RawImage::new(geometry.part([0; 3], shape), VoxelType::U8, bytes, None)
            .expect("a byte a voxel");
        write_image(&folder.join(format!("{id}{end}")), &image).expect("the image is written");
    };
    write(".nii.gz", SHAPE[2]);
    if number == TRAINING {
        write(".part.nii.gz", PART);
    }
    let tip = poses[1].to_lps(Vector3::new(0.5 * poses[1].size_mm[0], 0.0, 0.0));
    let boxes: Vec<(String, Pose)> = MEMBERS.map(str::to_owned).into_iter().zip(poses).collect();
    let landmark = Landmark { name: "tip".to_owned(), state: LandmarkState::At(tip) };
    write_markups(&folder.join(format!("{id}.mrk.json")), &boxes, &[landmark], |_| String::new())
        .expect("the markups are written");
}

/// By how much a step from one member to the next differs from the usual, mm. Over eight cases the
/// steps are independent (Walsh functions of the case's number), so that what is learned joins
/// neighbours, and no member with the next but one.
fn wobble(case: usize, step: usize) -> Vector3<f64> {
    let walsh = |k: usize| if (k & case).count_ones().is_multiple_of(2) { 1.5 } else { -1.5 };
    Vector3::from_fn(|axis, _| walsh((3 * (step - 1) + axis) % 7 + 1))
}

/// 1 well inside the ellipsoid of a box, 0 outside, with a soft edge.
fn inside(pose: &Pose, at: PointLps) -> f64 {
    let local = pose.orientation.inverse() * (at.0 - pose.center.0);
    let radius = (0..3).map(|a| (2.0 * local[a] / pose.size_mm[a]).powi(2)).sum::<f64>().sqrt();
    ((1.1 - radius) / 0.2).clamp(0.0, 1.0)
}
