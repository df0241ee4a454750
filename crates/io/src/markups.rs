//! Markups of 3D Slicer, `.mrk.json`, schema v1.0.3: ROI boxes and fiducial points, in and out.
//! <https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json>

use crate::annotations::{Annotations, Landmark, LandmarkState};
use crate::file_names::ends_with_extension;
use crate::json::{Node, parse};
use crate::{IoError, names, write_atomically};
use nalgebra::{Matrix3, Point3, Vector3};
use pbt_volume::{LARGEST_EDGE_MM, PointLps, Pose, SMALLEST_EDGE_MM};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

const SCHEMA: &str = "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json#";

/// Reads a markups file: each `ROI` of type `Box` is a box named by its `name` (or `label`), each
/// control point of a `Fiducial` a landmark named by its `label`, each `Plane` a landmark at its
/// centre. Other kinds of markups (lines, curves, angles) are passed over. Slicer writes no names
/// of boxes and planes and takes them from the file's name; so does this. Several boxes may have
/// one name: whether that is right, the data set says.
///
/// # Errors
/// [`IoError`] naming file and field: no JSON, wrong types, a landmark twice, a coordinate system that
/// is neither LPS nor RAS, units other than mm, a size that is not positive, or an orientation that
/// is mirrored or not orthonormal.
pub fn read_markups(path: &Path) -> Result<Annotations, IoError> {
    let value = parse(path)?;
    let root = Node::root(path, &value);
    let mut annotations = Annotations::default();
    for markup in root.get("markups")?.items()? {
        let kind = markup.get("type")?;
        match kind.text()? {
            "ROI" => {
                let (name, pose) = read_box(path, &markup)?;
                names::check(&markup, &name, annotations.boxes.len())?;
                annotations.boxes.push((name, pose));
            }
            "Fiducial" => read_landmarks(&markup, &mut annotations.landmarks)?,
            "Plane" => read_plane(path, &markup, &mut annotations.landmarks)?,
            _ => {}
        }
    }
    Ok(annotations)
}

/// Signs that turn coordinates of a markup into LPS. Slicer has named the system since 4.11 and
/// numbered it (RAS 0, LPS 1) before.
fn to_lps(markup: &Node) -> Result<Vector3<f64>, IoError> {
    if let Some(units) = markup.optional("coordinateUnits")? {
        // A text, or a list of code, coding scheme and meaning.
        let code = units.raw().as_array().map_or(Some(units.raw()), |list| list.first());
        if code.is_none_or(|code| code != "mm") {
            return Err(units.error("is not mm", "convert the markups to millimetres"));
        }
    }
    // The schema's default is LPS.
    let Some(system) = markup.optional("coordinateSystem")? else {
        return Ok(Vector3::new(1.0, 1.0, 1.0));
    };
    match system.raw() {
        Value::String(text) if text == "LPS" || text == "1" => Ok(Vector3::new(1.0, 1.0, 1.0)),
        Value::String(text) if text == "RAS" || text == "0" => Ok(Vector3::new(-1.0, -1.0, 1.0)),
        Value::Number(number) if number.as_u64() == Some(1) => Ok(Vector3::new(1.0, 1.0, 1.0)),
        Value::Number(number) if number.as_u64() == Some(0) => Ok(Vector3::new(-1.0, -1.0, 1.0)),
        _ => Err(system.error("is neither LPS nor RAS", "save the markups in LPS")),
    }
}

/// The name that Slicer gives to what it reads from a file: the file's, without `.mrk.json`.
pub(crate) fn name_of_file(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending =
        [".mrk.json", ".json"].into_iter().find(|ending| ends_with_extension(&name, &ending[1..]));
    name[..name.len() - ending.map_or(0, str::len)].to_owned()
}

fn name(path: &Path, markup: &Node) -> Result<String, IoError> {
    match (markup.optional("name")?, markup.optional("label")?) {
        (Some(name), _) | (None, Some(name)) => Ok(name.text()?.to_owned()),
        (None, None) => Ok(name_of_file(path)),
    }
}

fn read_box(path: &Path, markup: &Node) -> Result<(String, Pose), IoError> {
    let name = name(path, markup)?;
    if let Some(shape) = markup.optional("roiType")?.filter(|shape| shape.raw() != "Box") {
        return Err(shape.error("is not Box", "change the ROI's type in Slicer"));
    }
    let to_lps = to_lps(markup)?;
    let center = Vector3::from(markup.get("center")?.numbers()?).component_mul(&to_lps);
    let size = markup.get("size")?;
    let size_mm: [f64; 3] = size.numbers()?;
    if !size_mm.iter().all(|edge| (SMALLEST_EDGE_MM..=LARGEST_EDGE_MM).contains(edge)) {
        return Err(size.error(
            format!(
                "is {size_mm:?}; a box has three positive edges, each of {SMALLEST_EDGE_MM} to \
                 {LARGEST_EDGE_MM} mm"
            ),
            "draw the box again",
        ));
    }
    let given = match markup.optional("orientation")? {
        Some(orientation) => Matrix3::from_row_slice(&orientation.numbers::<9>()?),
        None => Matrix3::identity(),
    };
    // Two sign changes are a half turn, so a right-handed box stays right-handed.
    let axes = Matrix3::from_diagonal(&to_lps) * given;
    let pose =
        Pose::from_axes(PointLps(Point3::from(center)), &axes, size_mm).ok_or_else(|| {
            let problem = if given.determinant() < 0.0 {
                "is left-handed"
            } else {
                "has columns that are not unit vectors at right angles"
            };
            markup.child_error(
                "orientation",
                problem,
                "give three orthonormal columns, the third the cross product of the others",
            )
        })?;
    Ok((name, pose))
}

/// The centre of a plane, where the file states it (Slicer 5; older versions keep three points).
fn read_plane(path: &Path, markup: &Node, landmarks: &mut Vec<Landmark>) -> Result<(), IoError> {
    let Some(center) = markup.optional("center")? else { return Ok(()) };
    let position = Vector3::from(center.numbers()?).component_mul(&to_lps(markup)?);
    let name = name(path, markup)?;
    names::check(markup, &name, landmarks.len())?;
    if landmarks.iter().any(|landmark| landmark.name == name) {
        return Err(
            markup.error(format!("the landmark `{name}` is there twice"), "remove or rename one")
        );
    }
    landmarks.push(Landmark { name, state: LandmarkState::At(PointLps(Point3::from(position))) });
    Ok(())
}

fn read_landmarks(markup: &Node, landmarks: &mut Vec<Landmark>) -> Result<(), IoError> {
    let to_lps = to_lps(markup)?;
    let Some(points) = markup.optional("controlPoints")? else { return Ok(()) };
    for point in points.items()? {
        let state = match point
            .optional("positionStatus")?
            .map(|status| status.text().map(|text| (text, status)))
            .transpose()?
        {
            None | Some(("defined", _)) => {
                let position =
                    Vector3::from(point.get("position")?.numbers()?).component_mul(&to_lps);
                LandmarkState::At(PointLps(Point3::from(position)))
            }
            Some(("missing", _)) => LandmarkState::OutOfView,
            // Placed by nobody yet: the same as not listed.
            Some(("undefined" | "preview", _)) => continue,
            Some((_, status)) => {
                return Err(status.error(
                    "is not defined, undefined, preview or missing",
                    "place the point again",
                ));
            }
        };
        let label = point.get("label")?;
        let name = label.text()?.to_owned();
        names::check(&label, &name, landmarks.len())?;
        if landmarks.iter().any(|landmark| landmark.name == name) {
            return Err(label
                .error(format!("the landmark `{name}` is there twice"), "remove or rename one"));
        }
        landmarks.push(Landmark { name, state });
    }
    Ok(())
}

/// How Slicer shows a structure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    /// A text beside its point.
    pub description: String,
    /// How a box looks.
    pub look: Look,
}

/// How a box looks in Slicer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Look {
    /// As Slicer has it.
    #[default]
    Plain,
    /// Green: it was found.
    Sure,
    /// Orange, and half transparent: a person should look at it.
    Doubtful,
}

impl From<String> for Shown {
    fn from(description: String) -> Self {
        Self { description, look: Look::Plain }
    }
}

impl Look {
    /// What Slicer keeps in a display node; none leaves it as Slicer has it. Its points count as selected, so
    /// that both colours are one.
    fn display(self) -> Option<Value> {
        let (color, opacity) = match self {
            Self::Plain => return None,
            Self::Sure => ([0.3, 0.85, 0.4], 1.0),
            Self::Doubtful => ([1.0, 0.6, 0.0], 0.6),
        };
        let (color, selected) = (json!(color), json!(color));
        Some(json!({
            "visibility": true, "opacity": opacity, "color": color, "selectedColor": selected
        }))
    }
}

/// Writes boxes and landmarks for Slicer, in LPS millimetres: one `ROI` each, and one `Fiducial`
/// list when there are landmarks. `show` says how Slicer shows the structure of a name.
///
/// # Errors
/// [`IoError`] (an output error) when the file cannot be written; an older file of that name is
/// then untouched.
pub fn write_markups<S: Into<Shown>>(
    path: &Path,
    boxes: &[(String, Pose)],
    landmarks: &[Landmark],
    show: impl Fn(&str) -> S,
) -> Result<(), IoError> {
    let shown: Vec<Shown> = boxes.iter().map(|(name, _)| show(name).into()).collect();
    write_markups_as(path, boxes, &shown, landmarks, |name| show(name).into().description)
}

/// As [`write_markups`], where boxes of one name look different: `shown` is of each box.
///
/// # Errors
/// Those of [`write_markups`].
pub fn write_markups_as(
    path: &Path,
    boxes: &[(String, Pose)],
    shown: &[Shown],
    landmarks: &[Landmark],
    describe: impl Fn(&str) -> String,
) -> Result<(), IoError> {
    let rois = boxes.iter().zip(shown).map(|((name, pose), shown)| roi(name, pose, shown));
    let mut markups: Vec<Value> = rois.collect();
    if !landmarks.is_empty() {
        markups.push(fiducials(landmarks, describe));
    }
    let file = json!({ "@schema": SCHEMA, "markups": markups });
    write_atomically(path, |writer| {
        serde_json::to_writer_pretty(&mut *writer, &file)?;
        writer.write_all(b"\n")
    })
}

/// A box. Its centre is a control point, too, as Slicer writes it: without one Slicer loads the box
/// with no size, whatever `size` says.
fn roi(name: &str, pose: &Pose, shown: &Shown) -> Value {
    let center = pose.center.0.coords;
    // The transpose of a matrix stored by columns, read on, is the matrix by rows.
    let by_rows: Vec<f64> = pose.axes().transpose().iter().copied().collect();
    let mut markup = json!({
        "type": "ROI", "coordinateSystem": "LPS", "coordinateUnits": "mm", "locked": false, "labelFormat": "%N-%d",
        "name": name, "label": name, "roiType": "Box", "insideOut": false,
        "center": center.as_slice(), "orientation": by_rows, "size": pose.size_mm,
        "controlPoints": [{
            "id": "1", "label": format!("{name}-1"), "description": shown.description,
            "position": center.as_slice(), "positionStatus": "defined"
        }]
    });
    if let Some(display) = shown.look.display() {
        markup["display"] = display;
    }
    markup
}

fn fiducials(landmarks: &[Landmark], describe: impl Fn(&str) -> String) -> Value {
    let points = landmarks.iter().enumerate().map(|(n, landmark)| {
        let (position, status) = match landmark.state {
            LandmarkState::At(point) => (point.0.coords, "defined"),
            LandmarkState::OutOfView => (Vector3::zeros(), "missing"),
        };
        json!({
            "id": (n + 1).to_string(), "label": landmark.name, "description": describe(&landmark.name),
            "position": position.as_slice(), "positionStatus": status
        })
    });
    json!({
        "type": "Fiducial", "coordinateSystem": "LPS", "coordinateUnits": "mm", "locked": false, "labelFormat": "%N-%d",
        "name": "landmarks", "controlPoints": points.collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::rotation_from_vector;
    use proptest::prelude::*;

    fn read_text(text: &str) -> Result<Annotations, IoError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.mrk.json");
        std::fs::write(&path, text).unwrap();
        read_markups(&path)
    }

    fn roi_text(extra: &str) -> String {
        format!(
            r#"{{"markups": [{{"type": "ROI", "name": "a", "center": [1, 2, 3], "size": [4, 5, 6] {extra}}}]}}"#
        )
    }

    #[test]
    fn ras_boxes_turn_by_half_about_z() {
        let ras = r#", "coordinateSystem": "RAS", "orientation": [0, -1, 0, 1, 0, 0, 0, 0, 1]"#;
        for text in [
            roi_text(ras),
            roi_text(&ras.replace("\"RAS\"", "0")),
            roi_text(&ras.replace("RAS", "0")),
        ] {
            let annotations = read_text(&text).unwrap();
            let pose = annotations.pose("a").unwrap();
            assert_eq!(pose.center, PointLps::new(-1.0, -2.0, 3.0));
            // In RAS the box's first axis is anterior; in LPS that is -y.
            assert!((pose.axes().column(0) - Vector3::new(0.0, -1.0, 0.0)).norm() < 1e-12);
            assert!((pose.axes().column(2) - Vector3::z()).norm() < 1e-12);
            assert_eq!(pose.size_mm, [4.0, 5.0, 6.0]);
        }
        for extra in [
            "",
            r#", "coordinateUnits": "mm""#,
            r#", "coordinateUnits": ["mm", "UCUM", "millimeter"]"#,
        ] {
            assert_eq!(
                read_text(&roi_text(extra)).unwrap().pose("a").unwrap().center,
                PointLps::new(1.0, 2.0, 3.0)
            );
        }
    }

    #[test]
    fn states_of_points() {
        let text = r#"{"markups": [{"type": "Fiducial", "coordinateSystem": "LPS", "controlPoints": [
            {"label": "a", "position": [1, 2, 3]}, {"label": "b", "positionStatus": "missing"},
            {"label": "c", "positionStatus": "undefined"}]}, {"type": "Line"},
            {"type": "Plane", "name": "d", "coordinateSystem": "RAS", "center": [1, 2, 3], "normal": [0, 0, 1]}]}"#;
        let annotations = read_text(text).unwrap();
        assert_eq!(
            annotations.landmark("a"),
            Some(LandmarkState::At(PointLps::new(1.0, 2.0, 3.0)))
        );
        assert_eq!(annotations.landmark("b"), Some(LandmarkState::OutOfView));
        assert_eq!(annotations.landmark("c"), None);
        assert_eq!(
            annotations.landmark("d"),
            Some(LandmarkState::At(PointLps::new(-1.0, -2.0, 3.0)))
        );
    }

    #[test]
    fn mistakes_are_named() {
        let twice = r#"{"markups": [{"type": "Fiducial", "controlPoints": [
            {"label": "a", "position": [1, 2, 3]}, {"label": "a", "position": [1, 2, 3]}]}]}"#;
        for (text, field) in [
            ("{", "JSON"),
            ("[]", "JSON"),
            ("{}", "markups"),
            (r#"{"markups": [{}]}"#, "markups[0].type"),
            (&roi_text("").replace("[1, 2, 3]", "[1, 2]"), "markups[0].center"),
            (&roi_text("").replace("[1, 2, 3]", "[1, 2, 1e999]"), "JSON"),
            (&roi_text("").replace("4,", "0,"), "markups[0].size"),
            (&roi_text("").replace("4,", "1e-308,"), "markups[0].size"),
            (&roi_text("").replace("4,", "1e300,"), "markups[0].size"),
            (&roi_text(r#", "coordinateSystem": "XYZ""#), "markups[0].coordinateSystem"),
            (&roi_text(r#", "coordinateUnits": "m""#), "markups[0].coordinateUnits"),
            (
                &roi_text(r#", "coordinateUnits": ["um", "UCUM", "micrometer"]"#),
                "markups[0].coordinateUnits",
            ),
            (&roi_text(r#", "roiType": "Sphere""#), "markups[0].roiType"),
            (
                &roi_text(r#", "orientation": [1, 0, 0, 0, 1, 0, 0, 0, -1]"#),
                "markups[0].orientation",
            ),
            (
                &roi_text(r#", "orientation": [1, 0, 0, 0, 2, 0, 0, 0, 1]"#),
                "markups[0].orientation",
            ),
            (twice, "markups[0].controlPoints[1].label"),
        ] {
            assert_eq!(read_text(text).unwrap_err().field(), field, "{text}");
        }
    }

    #[test]
    fn doubtful_boxes_look_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.mrk.json");
        let center = PointLps::new(1.0, 2.0, 3.0);
        let pose = Pose {
            center,
            orientation: rotation_from_vector(Vector3::zeros()),
            size_mm: [4.0, 5.0, 6.0],
        };
        let boxes = ["sure", "unsure", "plain"].map(|name| (name.to_owned(), pose));
        let show = |name: &str| Shown {
            description: format!("it is {name}"),
            look: match name {
                "sure" => Look::Sure,
                "unsure" => Look::Doubtful,
                _ => Look::Plain,
            },
        };
        write_markups(&path, &boxes, &[], show).unwrap();
        let file = parse(&path).unwrap();
        let display = |n: usize| &file["markups"][n]["display"];
        assert_ne!(display(0)["selectedColor"], display(1)["selectedColor"]);
        for n in 0..2 {
            assert_eq!(display(n)["color"], display(n)["selectedColor"]);
        }
        assert_eq!(*display(2), Value::Null);
        assert_eq!(file["markups"][1]["controlPoints"][0]["description"], "it is unsure");
        assert_eq!(read_markups(&path).unwrap().boxes.len(), 3);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            v in prop::array::uniform3(-1.8f64..1.8), c in prop::array::uniform3(-300.0f64..300.0), s in prop::array::uniform3(0.1f64..300.0),
        ) {
            let center = PointLps::new(c[0], c[1], c[2]);
            let pose = Pose { center, orientation: rotation_from_vector(Vector3::from(v)), size_mm: s };
            let landmarks = vec![
                Landmark { name: "p".into(), state: LandmarkState::At(center) },
                Landmark { name: "q".into(), state: LandmarkState::OutOfView },
            ];
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("case.mrk.json");
            write_markups(&path, &[("box".into(), pose)], &landmarks, str::to_owned).unwrap();
            let again = read_markups(&path).unwrap();
            prop_assert_eq!(&again.landmarks, &landmarks);
            let read = again.pose("box").unwrap();
            prop_assert_eq!((read.center, read.size_mm), (center, s));
            prop_assert!(read.angle_to(&pose) < 1e-12);
        }
    }
}
