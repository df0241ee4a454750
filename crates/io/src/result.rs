//! The result of one image, schema `pbt-result/1`. Everything but `run` is the same bytes for the
//! same input and model.

use crate::json::{Node, parse_bytes};
use crate::regular_file::{FileKind, read_file, read_start};
use crate::{IoError, write_atomically};
use pbt_volume::{
    Detection, Geometry, LARGEST_EDGE_MM, LengthUnit, Location, PointLps, Pose, Precision,
    SMALLEST_EDGE_MM, Status, StructureKind,
};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;

const SCHEMA: &str = "pbt-result/1";

/// Whether a file begins as a result does.
pub(crate) fn is_result(path: &Path) -> bool {
    let start = read_start(path, 64).unwrap_or_default();
    String::from_utf8_lossy(&start).contains(&format!("\"{SCHEMA}\""))
}

/// Of millimetres in the patient, and of pixels of a 2D image without a scale.
const COORDINATE_SYSTEMS: [&str; 2] = ["LPS", "pixel"];

/// The result of one image. Fields are written in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    schema: String,
    /// Name of the case.
    pub case_id: String,
    coordinate_system: String,
    /// The image.
    pub input: InputRecord,
    /// The model.
    pub model: ModelRecord,
    /// One entry for each structure of the model, in its order; several of one that may occur several
    /// times.
    pub detections: Vec<DetectionRecord>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// How this run went: the only part that differs between runs.
    pub run: RunRecord,
}

/// The image of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputRecord {
    /// SHA-256 of the file's bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Voxels along i, j, k.
    pub shape: [usize; 3],
    /// Distance between voxel centres along i, j, k, mm.
    pub spacing_mm: [f64; 3],
    /// Voxel index to LPS mm, row-major.
    pub affine_lps: [[f64; 4]; 4],
}

/// The model of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Its name.
    pub name: String,
    /// SHA-256 of the file's bytes, lower-case hexadecimal.
    pub sha256: String,
    /// The version of its format.
    pub version: String,
}

/// What was found of one structure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DetectionRecord {
    /// Name of the structure.
    pub name: String,
    /// Box, landmark or region.
    pub kind: StructureKind,
    /// Found, doubtful, outside (a landmark) or absent.
    pub status: Status,
    /// Probability that the detection is right, 0 to 1.
    pub score: f64,
    /// Centre of the box, or the landmark, LPS mm; null when absent.
    pub position_lps_mm: Option<[f64; 3]>,
    /// Orientation of the box; null for landmarks and when absent.
    pub orientation: Option<OrientationRecord>,
    /// Full edge lengths of the box, mm; null for landmarks and when absent.
    pub size_mm: Option<[f64; 3]>,
    /// How near it is, as keys of the detection; without them where the model does not say.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// Share of the box that lies inside the image, 0 to 1; without the key for landmarks and when
    /// absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visible: Option<f64>,
    /// Which of several instances of the structure, from 1; without the key for one that occurs once,
    /// and when absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instance: Option<usize>,
    /// Volume of a region, or of the labels about a box where they were asked for, millilitres.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub volume_ml: Option<f64>,
    /// Number of connected components of a region.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub components: Option<usize>,
    /// The largest of them, the largest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub largest_components: Vec<ComponentRecord>,
    /// The Dice coefficient to expect of the labels about a box, the mean of several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub predicted_dice: Option<f64>,
    /// The labels about a box.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub labels: Vec<LabelRecord>,
}

/// A connected component of a region.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComponentRecord {
    /// Number of voxels.
    pub voxels: u64,
    /// Their volume, millilitres.
    pub volume_ml: f64,
    /// The least voxel index along i, j, k.
    pub first_voxel: [usize; 3],
    /// The greatest one.
    pub last_voxel: [usize; 3],
    /// Mean of the voxel centres, LPS mm.
    pub centroid_lps_mm: [f64; 3],
    /// Mean probability of the region over the voxels.
    pub score: f64,
}

/// One label about a box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LabelRecord {
    /// Its name.
    pub name: String,
    /// Its value in the label map.
    pub value: u16,
    /// Found, or doubtful where so low a Dice coefficient is expected as of few training cases.
    pub status: Status,
    /// Its volume, millilitres.
    pub volume_ml: f64,
    /// Between these the true volume lies in 90 % of cases; null where the model was trained on too
    /// few to tell.
    pub volume_90_ml: Option<[f64; 2]>,
    /// The Dice coefficient to expect; null where the model was trained on too few to tell.
    pub predicted_dice: Option<f64>,
}

/// The orientation of a box, twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OrientationRecord {
    /// Row-major; the columns are the box's axes in LPS.
    pub matrix: [[f64; 3]; 3],
    /// The same rotation as a unit quaternion, w ≥ 0.
    pub quaternion_wxyz: [f64; 4],
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of the program.
    pub pbt_version: String,
    /// What it ran on.
    pub device: DeviceRecord,
    /// The image's path as given.
    pub input_path: String,
    /// The model's path as given.
    pub model_path: String,
    /// Options that differ from the defaults, by name.
    pub options: BTreeMap<String, Value>,
    /// Milliseconds of each stage, in the order in which they ran, and `total`.
    #[serde(serialize_with = "write_pairs", deserialize_with = "read_pairs")]
    pub timing_ms: Vec<(String, f64)>,
}

/// What a run ran on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    /// `cpu` or `gpu`.
    pub kind: String,
    /// The processor's name.
    pub name: String,
    /// CPU threads.
    pub threads: usize,
}

impl ResultFile {
    /// The same without the paths of image and model, which may name a patient: both are empty.
    pub fn without_paths(mut self) -> Self {
        self.run.input_path.clear();
        self.run.model_path.clear();
        self.run.options.remove("further");
        self
    }

    /// Whether it names none of them.
    pub fn has_no_paths(&self) -> bool {
        let RunRecord { input_path, model_path, options, .. } = &self.run;
        input_path.is_empty() && model_path.is_empty() && !options.contains_key("further")
    }

    /// The same where lengths count this, also those that are called mm.
    pub fn counting(mut self, unit: LengthUnit) -> Self {
        self.coordinate_system = COORDINATE_SYSTEMS[usize::from(!unit.is_mm())].into();
        self
    }

    /// Of its positions: `LPS`, or `pixel` of a 2D image without a scale.
    pub fn coordinate_system(&self) -> &str {
        &self.coordinate_system
    }

    /// What lengths count, also those that are called mm: pixels of a 2D image without a scale.
    pub fn unit(&self) -> LengthUnit {
        match self.coordinate_system == COORDINATE_SYSTEMS[1] {
            true => LengthUnit::Pixels,
            false => LengthUnit::Mm,
        }
    }

    /// A result of this schema.
    pub fn new(
        case_id: String,
        input: InputRecord,
        model: ModelRecord,
        detections: Vec<DetectionRecord>,
        warnings: Vec<String>,
        run: RunRecord,
    ) -> Self {
        Self {
            schema: SCHEMA.into(),
            case_id,
            coordinate_system: COORDINATE_SYSTEMS[0].into(),
            input,
            model,
            detections,
            warnings,
            run,
        }
    }

    /// The first field that breaks a promise of the schema, and how.
    fn fault(&self) -> Option<(String, String)> {
        let finite = |values: &[f64]| values.iter().all(|v| v.is_finite());
        let fault = |field: String, problem: &str| Some((field, problem.to_owned()));
        if !finite(&self.input.spacing_mm) || !finite(self.input.affine_lps.as_flattened()) {
            return fault("input".into(), "has a number that is not finite");
        }
        for (n, d) in self.detections.iter().enumerate() {
            let at = |field: &str| format!("detections[{n}].{field}");
            if !(0.0..=1.0).contains(&d.score) {
                return fault(at("score"), "is not from 0 to 1");
            }
            let position = d.position_lps_mm.as_ref().is_none_or(|v| finite(v));
            let orientation = d
                .orientation
                .as_ref()
                .is_none_or(|o| finite(o.matrix.as_flattened()) && finite(&o.quaternion_wxyz));
            if !position || !orientation || !d.size_mm.as_ref().is_none_or(|v| finite(v)) {
                return fault(
                    at("position_lps_mm, orientation, size_mm"),
                    "have a number that is not finite",
                );
            }
            let edges = d.size_mm.iter().flatten();
            if edges.into_iter().any(|mm| !(SMALLEST_EDGE_MM..=LARGEST_EDGE_MM).contains(mm)) {
                return fault(at("size_mm"), "has an edge that no box has");
            }
            let millimetres = d.precision.iter().flat_map(|p| {
                [Some(p.tolerance_mm), p.radius_90_mm, p.corner_radius_90_mm].into_iter().flatten()
            });
            if millimetres.into_iter().any(|mm| !(mm.is_finite() && mm >= 0.0)) {
                return fault(
                    at("tolerance_mm, radius_90_mm, corner_radius_90_mm"),
                    "have a number that is no length",
                );
            }
            if d.visible.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
                return fault(at("visible"), "is not from 0 to 1");
            }
            if d.instance.is_some_and(|n| n == 0 || d.kind != StructureKind::Box) {
                return fault(at("instance"), "does not number boxes from 1");
            }
            if d.status == Status::Outside && d.kind != StructureKind::Landmark {
                return fault(at("status"), "is `outside`, which only landmarks are");
            }
            let present = d.status != Status::Absent && d.kind != StructureKind::Region;
            let is_volume = |ml: f64| ml.is_finite() && ml >= 0.0;
            let is_share = |share: f64| (0.0..=1.0).contains(&share);
            let volume_fits = match (d.kind, d.volume_ml) {
                (StructureKind::Region, None) | (StructureKind::Landmark, Some(_)) => false,
                (_, volume_ml) => volume_ml.is_none_or(is_volume),
            };
            if !volume_fits {
                return fault(at("volume_ml"), "is not the volume of a region or a box's labels");
            }
            let label_fits = |label: &LabelRecord| {
                is_volume(label.volume_ml)
                    && label.volume_90_ml.iter().flatten().all(|&ml| is_volume(ml))
                    && label.predicted_dice.is_none_or(is_share)
            };
            if !d.predicted_dice.is_none_or(is_share) || !d.labels.iter().all(label_fits) {
                return fault(at("labels"), "have a volume or a Dice coefficient that cannot be");
            }
            let is_box = d.kind == StructureKind::Box && present;
            if (d.position_lps_mm.is_some(), d.orientation.is_some(), d.size_mm.is_some())
                != (present, is_box, is_box)
            {
                return fault(at("status"), "and kind do not fit the geometry that is there");
            }
        }
        let slow = self.run.timing_ms.iter().find(|(_, ms)| !ms.is_finite());
        slow.and_then(|(stage, _)| fault(format!("run.timing_ms.{stage}"), "is not finite"))
    }
}

impl InputRecord {
    /// The record of an image.
    pub fn new(sha256: String, geometry: &Geometry) -> Self {
        let affine = geometry.affine();
        let affine_lps =
            std::array::from_fn(|row| std::array::from_fn(|column| affine[(row, column)]));
        Self { sha256, shape: geometry.shape(), spacing_mm: geometry.spacing_mm(), affine_lps }
    }
}

impl From<Detection> for DetectionRecord {
    fn from(detection: Detection) -> Self {
        let Detection { name, status, score, location, precision, visible, instance } = detection;
        let pose = location.pose();
        let orientation = |pose: &Pose| {
            let axes = pose.axes();
            let q = pbt_volume::positive(pose.orientation);
            OrientationRecord {
                matrix: std::array::from_fn(|row| {
                    std::array::from_fn(|column| axes[(row, column)])
                }),
                quaternion_wxyz: [q.w, q.i, q.j, q.k],
            }
        };
        Self {
            name,
            kind: location.kind(),
            status,
            score,
            position_lps_mm: location.point().map(|point| point.0.coords.into()),
            orientation: pose.as_ref().map(orientation),
            size_mm: pose.map(|pose| pose.size_mm),
            precision,
            visible,
            instance,
            volume_ml: None,
            components: None,
            largest_components: Vec::new(),
            predicted_dice: None,
            labels: Vec::new(),
        }
    }
}

impl DetectionRecord {
    /// What is said, as plain data.
    pub fn detection(&self) -> Detection {
        let location = match self.kind {
            StructureKind::Box => Location::Box(self.pose()),
            StructureKind::Landmark => Location::Landmark(self.position()),
            StructureKind::Region => Location::Region,
        };
        let &Self { status, score, precision, visible, instance, .. } = self;
        Detection { name: self.name.clone(), status, score, location, precision, visible, instance }
    }

    /// The position; `None` when absent.
    pub fn position(&self) -> Option<PointLps> {
        self.position_lps_mm.map(|[x, y, z]| PointLps::new(x, y, z))
    }

    /// The box's pose; `None` for landmarks and when absent.
    pub fn pose(&self) -> Option<Pose> {
        let [w, i, j, k] = self.orientation.as_ref()?.quaternion_wxyz;
        let orientation =
            nalgebra::UnitQuaternion::new_normalize(nalgebra::Quaternion::new(w, i, j, k));
        Some(Pose { center: self.position()?, orientation, size_mm: self.size_mm? })
    }
}

/// Writes a result.
///
/// # Errors
/// [`IoError`] (an output error) when the file cannot be written, or when a number is not finite, a
/// score not a probability, or geometry missing or superfluous; an older file of that name is then
/// untouched.
pub fn write_result(path: &Path, result: &ResultFile) -> Result<(), IoError> {
    if let Some((field, problem)) = result.fault() {
        return Err(IoError::unwritable(
            path,
            field,
            problem,
            "this is a mistake of the program; please report it",
        ));
    }
    write_atomically(path, |writer| {
        serde_json::to_writer_pretty(&mut *writer, result)?;
        writer.write_all(b"\n")
    })
}

/// Reads a result.
///
/// # Errors
/// [`IoError`] naming file and field when it is no result, one of another schema, or one that
/// breaks the schema's promises.
pub fn read_result(path: &Path) -> Result<ResultFile, IoError> {
    let bytes = read_file(path, FileKind::Document)?;
    let value = parse_bytes(path, &bytes)?;
    let root = Node::root(path, &value);
    for (key, expected) in [("schema", &[SCHEMA][..]), ("coordinate_system", &COORDINATE_SYSTEMS)] {
        let node = root.get(key)?;
        if expected.iter().all(|expected| node.raw() != expected) {
            return Err(node.error(
                format!("is not `{}`", expected.join("` or `")),
                "give a result of `pbt detect` or `pbt batch`",
            ));
        }
    }
    // From the text, not from `value`, whose keys are in alphabetical order: the stages keep
    // theirs.
    let result: ResultFile = serde_json::from_slice(&bytes).map_err(|error| {
        root.error(error.to_string(), "make the result again with `pbt detect`")
    })?;
    match result.fault() {
        None => Ok(result),
        Some((field, problem)) => {
            Err(IoError::input(path, field, problem, "make the result again with `pbt detect`"))
        }
    }
}

fn write_pairs<S: Serializer>(pairs: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (key, value) in pairs {
        map.serialize_entry(key, value)?;
    }
    map.end()
}

fn read_pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, f64)>, D::Error> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, f64)>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("milliseconds by stage")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    deserializer.deserialize_map(Pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::Vector3;

    fn example() -> ResultFile {
        let geometry = Geometry::isotropic([3, 4, 5], 0.5).unwrap();
        let orientation = pbt_volume::rotation_from_vector(Vector3::new(0.1, 3.0, -0.4));
        let pose =
            Pose { center: PointLps::new(1.0, 2.0, 3.0), orientation, size_mm: [4.0, 5.0, 6.0] };
        let nose = PointLps::new(-0.1, 0.2, 1.0 / 3.0);
        ResultFile::new(
            "case".into(),
            InputRecord::new("00".into(), &geometry),
            ModelRecord { name: "skull".into(), sha256: "11".into(), version: "1".into() },
            [
                ("skull", Status::Found, 0.99, Location::Box(Some(pose))),
                ("nose", Status::Doubtful, 0.4, Location::Landmark(Some(nose))),
                ("tail", Status::Absent, 0.0, Location::Landmark(None)),
            ]
            .map(|(name, status, score, location)| {
                Detection::new(name.into(), status, score, location).into()
            })
            .to_vec(),
            vec![],
            RunRecord {
                pbt_version: "0.1.0".into(),
                device: DeviceRecord { kind: "cpu".into(), name: "x".into(), threads: 2 },
                input_path: "case.nii".into(),
                model_path: "skull.pbt".into(),
                options: BTreeMap::from([("rotate".into(), Value::Bool(true))]),
                timing_ms: vec![
                    ("load".into(), 1.5),
                    ("prepare".into(), 2.5),
                    ("aggregate".into(), 0.1),
                    ("total".into(), 4.1),
                ],
            },
        )
    }

    #[test]
    fn what_is_written_is_read_and_is_the_documented_shape() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.json");
        write_result(&path, &example()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        // Order of the fields as in the interface description.
        let keys = [
            "schema",
            "case_id",
            "coordinate_system",
            "input",
            "sha256",
            "shape",
            "spacing_mm",
            "affine_lps",
            "model",
            "detections",
        ];
        let places: Vec<usize> =
            keys.iter().map(|key| text.find(&format!("\"{key}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{places:?}");
        assert!(
            text.contains("\"coordinate_system\": \"LPS\"")
                && text.contains("\"status\": \"doubtful\"")
                && text.contains("\"kind\": \"box\"")
        );
        assert!(text.find("\"prepare\"").unwrap() < text.find("\"aggregate\"").unwrap());
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(
            value["detections"][2]["position_lps_mm"].is_null()
                && value["detections"][1]["orientation"].is_null()
        );
        assert!(
            value["detections"][0]["orientation"]["quaternion_wxyz"][0].as_f64().unwrap() >= 0.0
        );

        let again = read_result(&path).unwrap();
        assert_eq!(again.detections, example().detections);
        assert_eq!(again.run.timing_ms, example().run.timing_ms, "the stages in their order");
        let pose = again.detections[0].pose().unwrap();
        for row in 0..3 {
            for column in 0..3 {
                let matrix = again.detections[0].orientation.as_ref().unwrap().matrix;
                assert!((pose.axes()[(row, column)] - matrix[row][column]).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn what_breaks_the_schema_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.json");
        let refuse = |edit: &dyn Fn(&mut ResultFile), field: &str| {
            let mut result = example();
            edit(&mut result);
            let error = write_result(&path, &result).unwrap_err();
            assert!(!error.is_input() && error.field() == field, "{error}");
        };
        refuse(&|r| r.detections[1].score = f64::NAN, "detections[1].score");
        refuse(&|r| r.detections[1].score = 1.5, "detections[1].score");
        refuse(&|r| r.detections[0].size_mm = None, "detections[0].status");
        refuse(&|r| r.detections[2].position_lps_mm = Some([0.0; 3]), "detections[2].status");
        refuse(
            &|r| r.detections[0].size_mm = Some([f64::INFINITY; 3]),
            "detections[0].position_lps_mm, orientation, size_mm",
        );
        refuse(&|r| r.run.timing_ms[0].1 = f64::NAN, "run.timing_ms.load");
        refuse(&|r| r.input.affine_lps[0][0] = f64::NAN, "input");
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_result_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.json");
        write_result(&path, &example()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for (from, to, field) in [
            ("pbt-result/1", "pbt-result/2", "schema"),
            ("\"LPS\"", "\"RAS\"", "coordinate_system"),
            ("doubtful", "perhaps", "JSON"),
            ("\"score\": 0.4", "\"score\": 4", "detections[1].score"),
        ] {
            std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let error = read_result(&path).unwrap_err();
            assert!(error.is_input() && error.field() == field, "{error}");
        }
    }
}
