//! What a person (or a detector) marked in an image, and whether it lies in there.

use crate::IoError;
use nalgebra::Vector3;
use pbt_volume::{
    Geometry, LARGEST_EDGE_MM, LengthUnit, Plane, PointLps, Pose, SMALLEST_EDGE_MM, positive,
    rotation_from_vector,
};
use std::path::Path;

/// Farther than this from the outer voxel centres, a point is a mistake; nearer it is used, with a
/// warning.
const MAX_VOXELS_OUTSIDE: f64 = 2.0;

/// The outer voxels reach half a voxel beyond their centres: up to there a point is in the image.
const FACE_VOXELS_OUTSIDE: f64 = 0.5;

/// The boxes and landmarks of one image. A structure that is in neither list is unlabelled.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Annotations {
    /// Name and pose of each annotated box; a name is there several times where its structure occurs
    /// several times.
    pub boxes: Vec<(String, Pose)>,
    /// Landmarks, names unique.
    pub landmarks: Vec<Landmark>,
    /// Whether places are pixels of a 2D image that has no scale.
    pub in_pixels: bool,
    /// Landmarks that should follow from the label map and do not, a line each.
    pub warnings: Vec<String>,
}

impl Annotations {
    /// The pose of the box of that name, of several the first.
    pub fn pose(&self, name: &str) -> Option<&Pose> {
        self.boxes.iter().find(|(n, _)| n == name).map(|(_, pose)| pose)
    }

    /// Brings boxes into the plane of an image of one slice, as [`Plane::brought_into`] does; those of a volume
    /// stay as they are.
    pub fn bring_into_slice(&mut self, image: &Geometry) {
        let Some(plane) = Plane::of(image) else { return };
        for (_, pose) in &mut self.boxes {
            *pose = plane.brought_into(pose);
        }
    }

    /// The landmark of that name; `None` when it is unlabelled.
    pub fn landmark(&self, name: &str) -> Option<LandmarkState> {
        self.landmarks.iter().find(|landmark| landmark.name == name).map(|landmark| landmark.state)
    }
}

/// A box in a 2D image without a scale: pixels, y downwards, turned from x towards y; `None` where the edges are none.
pub(crate) fn pixel_box(center: [f64; 2], size: [f64; 2], degrees: f64) -> Option<Pose> {
    let is_edge = |edge: &f64| (SMALLEST_EDGE_MM..=LARGEST_EDGE_MM).contains(edge);
    let [a, b] = size;
    size.iter().all(is_edge).then(|| Pose {
        center: PointLps::new(center[0], center[1], 0.0),
        orientation: positive(rotation_from_vector(Vector3::new(0.0, 0.0, degrees.to_radians()))),
        size_mm: [a, b, (a * b).sqrt()],
    })
}

/// A landmark that somebody looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Landmark {
    /// Name of the structure.
    pub name: String,
    /// Where it is.
    pub state: LandmarkState,
}

/// Where a landmark is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LandmarkState {
    /// At a point.
    At(PointLps),
    /// Looked for, and known to be outside the field of view.
    OutOfView,
}

/// Compares annotations with the image that they belong to: the centres of boxes and the landmarks
/// (corners of boxes often lie outside). `file` is the file of the annotations, for the messages, and
/// `unit` is what lengths in the image count. Returns one warning for each point that lies a little
/// outside.
///
/// # Errors
/// [`IoError`] naming file and structure when a point lies more than 2 voxels outside the outer
/// voxel centres, as it does where image and annotations belong to different cases or coordinate
/// systems; and when landmarks are in pixels, but the image is in millimetres.
pub fn check_annotations(
    file: &Path,
    (geometry, unit): (&Geometry, LengthUnit),
    annotations: &Annotations,
) -> Result<Vec<String>, IoError> {
    if annotations.in_pixels && unit.is_mm() {
        let problem = "the landmarks are in pixels, and the image is in millimetres";
        return Err(IoError::input(file, "columns", problem, "give x, y and z in mm"));
    }
    let centers =
        annotations.boxes.iter().map(|(name, pose)| (name, "the centre of the box", pose.center));
    let points = annotations.landmarks.iter().filter_map(|landmark| match landmark.state {
        LandmarkState::At(point) => Some((&landmark.name, "the landmark", point)),
        LandmarkState::OutOfView => None,
    });
    let (unit, advice) = match annotations.in_pixels {
        true => {
            ("pixels", "check that image and annotations belong together and y points downwards")
        }
        false => (
            "voxels",
            "check that image and annotations belong together and say LPS or RAS rightly",
        ),
    };
    let mut warnings = Vec::new();
    for (name, what, point) in centers.chain(points) {
        let finite = point.0.iter().all(|v| v.is_finite());
        let outside = if finite { geometry.voxels_outside(point) } else { f64::INFINITY };
        if outside > MAX_VOXELS_OUTSIDE {
            let problem = format!("{what} lies {outside:.1} {unit} outside the image");
            return Err(IoError::input(file, name, problem, advice));
        }
        if outside > FACE_VOXELS_OUTSIDE {
            warnings.push(format!(
                "{}: {name}: {what} lies {outside:.1} {unit} outside the image and is used",
                file.display()
            ));
        }
    }
    Ok(warnings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nalgebra::UnitQuaternion;

    #[test]
    fn points_far_outside_are_errors_and_near_ones_warnings() {
        let geometry = Geometry::isotropic([10, 10, 10], 2.0).unwrap();
        let check = |x: f64| {
            let landmarks = vec![
                Landmark {
                    name: "tip".into(),
                    state: LandmarkState::At(PointLps::new(x, 5.0, 5.0)),
                },
                Landmark { name: "gone".into(), state: LandmarkState::OutOfView },
            ];
            check_annotations(
                Path::new("a.mrk.json"),
                (&geometry, LengthUnit::Mm),
                &Annotations { landmarks, ..Annotations::default() },
            )
        };
        assert!(check(18.9).unwrap().is_empty());
        assert_eq!(check(19.1).unwrap().len(), 1);
        assert_eq!(check(21.9).unwrap().len(), 1);
        let error = check(22.1).unwrap_err().to_string();
        assert!(error.starts_with("a.mrk.json: tip: the landmark lies"), "{error}");
        assert!(check(f64::NAN).is_err());

        let center = PointLps::new(-4.5, 5.0, 5.0);
        let pose = Pose { center, orientation: UnitQuaternion::identity(), size_mm: [30.0; 3] };
        let annotations =
            Annotations { boxes: vec![("skull".into(), pose)], ..Annotations::default() };
        assert!(
            check_annotations(Path::new("a"), (&geometry, LengthUnit::Mm), &annotations)
                .unwrap_err()
                .to_string()
                .contains("skull")
        );
    }
}
