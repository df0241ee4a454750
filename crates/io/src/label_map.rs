//! Detections as a label map: an NRRD file that 3D Slicer reads as a segmentation with names, and
//! any other reader as voxels.

use crate::result::{DetectionRecord, InputRecord};
use crate::write_image::{KeyValue, write_nrrd};
use crate::{IoError, RawImage, VoxelType};
use nalgebra::{Matrix3, Matrix4, Vector3};
use pbt_volume::{Geometry, PointLps, Pose};
use rayon::prelude::*;
use std::ops::RangeInclusive;
use std::path::Path;

/// Most detections of a label map: with names of some length their fields still fit the header that
/// readers accept, our own a megabyte.
const MOST: usize = 2000;

/// Writes what was found in an image as voxels of its grid, gzip-compressed NRRD. Voxels hold the
/// number of their detection in the list, from 1; others hold 0. A box is all voxels whose centre
/// lies in it; where boxes overlap, the one whose middle is nearer in units of its edges has the
/// voxel. A landmark is all voxels within a voxel's longest diagonal of it, over any box. What is
/// absent has no voxels, but keeps its number and its entry among the segments (`Segment0_Name:=…`
/// and so on, Slicer's `vtkMRMLSegmentationStorageNode`).
///
/// # Errors
/// [`IoError`] when the grid is none, the detections are more than 2,000, or the file cannot be
/// written; an older file of that name is then untouched.
pub fn write_label_map(
    path: &Path,
    input: &InputRecord,
    detections: &[DetectionRecord],
) -> Result<(), IoError> {
    let invalid =
        |field: &str, problem: String| IoError::unwritable(path, field, problem, "detect again");
    let rows = input.affine_lps;
    let geometry =
        Geometry::from_affine(input.shape, &Matrix4::from_fn(|row, column| rows[row][column]))
            .map_err(|e| invalid("input.affine_lps", e.to_string()))?;
    let count = detections.len();
    if count > MOST {
        return Err(invalid(
            "detections",
            format!("{count} are more than the {MOST} that the header of a label map holds"),
        ));
    }
    let labels = label_voxels(&geometry, detections);
    let (voxel_type, bytes) = if count <= usize::from(u8::MAX) {
        (VoxelType::U8, labels.iter().map(|&label| label as u8).collect())
    } else {
        (VoxelType::U16, labels.iter().flat_map(|label| label.to_le_bytes()).collect())
    };
    let image = RawImage::new(geometry, voxel_type, bytes, None)
        .ok_or_else(|| invalid("input.shape", "is too large".to_owned()))?;
    let name = |d: &DetectionRecord| match d.instance {
        Some(n) => format!("{} {n}", d.name),
        None => d.name.clone(),
    };
    let names: Vec<String> = detections.iter().map(name).collect();
    let numbered = names.iter().map(String::as_str).zip(1..);
    write_nrrd(path, &image, &segments(image.geometry(), numbered))
}

/// The voxels that may belong to a detection, and how far inside each is.
struct Shape {
    label: u16,
    /// Along i, j and k.
    range: [RangeInclusive<usize>; 3],
    /// From a voxel's index to the box's frame, in half edges, or to the landmark's, in radii.
    matrix: Matrix3<f64>,
    shift: Vector3<f64>,
    is_box: bool,
}

impl Shape {
    /// `None` where it lies outside the image.
    fn new(geometry: &Geometry, label: u16, detection: &DetectionRecord) -> Option<Self> {
        let pose = detection.pose();
        let is_box = pose.is_some();
        let pose = match pose {
            Some(pose) => pose,
            None => ball(geometry, detection.position()?),
        };
        let corners = pose.corners().map(|corner| geometry.to_index(corner).0);
        let mut range = [0..=0, 0..=0, 0..=0];
        for (a, range) in range.iter_mut().enumerate() {
            let low = corners.iter().map(|c| c[a]).fold(f64::INFINITY, f64::min).ceil().max(0.0);
            let high = corners
                .iter()
                .map(|c| c[a])
                .fold(f64::NEG_INFINITY, f64::max)
                .floor()
                .min(geometry.shape()[a] as f64 - 1.0);
            // A grid and a pose are finite, so that their order is total.
            if low > high {
                return None;
            }
            *range = low as usize..=high as usize;
        }
        let to_frame = Matrix3::from_diagonal(&Vector3::from(pose.size_mm.map(|s| 2.0 / s)))
            * pose.axes().transpose();
        let shift = to_frame * (geometry.origin().0 - pose.center.0);
        Some(Self { label, range, matrix: to_frame * geometry.matrix(), shift, is_box })
    }

    /// How near to the middle a voxel lies: up to 1 within a box, up to 0, nearer than any box,
    /// within a landmark's ball. `None` outside.
    fn depth(&self, index: [usize; 3]) -> Option<f64> {
        let place = self.matrix * Vector3::from(index.map(|n| n as f64)) + self.shift;
        let depth = if self.is_box { place.amax() } else { place.norm() - 1.0 };
        (depth <= if self.is_box { 1.0 } else { 0.0 }).then_some(depth)
    }
}

/// The cube around the ball that stands for a landmark: a voxel's longest diagonal in any
/// direction, so that some voxel is always in it.
fn ball(geometry: &Geometry, center: PointLps) -> Pose {
    let step = |a: usize| geometry.matrix().column(a).into_owned();
    let diagonals = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]
        .map(|[v, w]| (step(0) + step(1) * v + step(2) * w).norm());
    let radius = diagonals.into_iter().fold(0.0, f64::max);
    Pose { center, orientation: nalgebra::UnitQuaternion::identity(), size_mm: [2.0 * radius; 3] }
}

/// What [`write_label_map`] gives every voxel of a grid, i fastest, of at most 65,535 detections.
pub fn label_voxels(geometry: &Geometry, detections: &[DetectionRecord]) -> Vec<u16> {
    let shapes: Vec<Shape> =
        (1u16..).zip(detections).filter_map(|(label, d)| Shape::new(geometry, label, d)).collect();
    let [width, height, _] = geometry.shape();
    let mut labels = vec![0; geometry.len()];
    labels.par_chunks_mut(width * height).enumerate().for_each(|(k, slice)| {
        let mut nearest = vec![f64::INFINITY; slice.len()];
        for shape in shapes.iter().filter(|s| s.range[2].contains(&k)) {
            for j in shape.range[1].clone() {
                for i in shape.range[0].clone() {
                    let place = i + width * j;
                    if let Some(depth) =
                        shape.depth([i, j, k]).filter(|&depth| depth < nearest[place])
                    {
                        (nearest[place], slice[place]) = (depth, shape.label);
                    }
                }
            }
        }
    });
    labels
}

/// What Slicer reads about segments, of which each has a name and a value.
pub(crate) fn segments<'a>(
    geometry: &Geometry,
    named: impl Iterator<Item = (&'a str, u16)>,
) -> Vec<KeyValue> {
    let [width, height, depth] = geometry.shape().map(|n| n - 1);
    let extent = format!("0 {width} 0 {height} 0 {depth}");
    let mut fields = vec![
        ("Segmentation_MasterRepresentation".to_owned(), "Binary labelmap".to_owned()),
        ("Segmentation_ContainedRepresentationNames".to_owned(), "Binary labelmap|".to_owned()),
        ("Segmentation_ReferenceImageExtentOffset".to_owned(), "0 0 0".to_owned()),
    ];
    for (n, (name, value)) in named.enumerate() {
        let [red, green, blue] = color(n);
        let mut put = |key: &str, value: String| fields.push((format!("Segment{n}_{key}"), value));
        put("ID", format!("Segment_{}", n + 1));
        put("Name", name.to_owned());
        put("LabelValue", value.to_string());
        put("Layer", "0".to_owned());
        put("Extent", extent.clone());
        put("Color", format!("{red:.3} {green:.3} {blue:.3}"));
    }
    fields
}

/// Hues that neighbours in the list do not share: each a golden angle from the one before.
fn color(n: usize) -> [f64; 3] {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let hue = (n as f64 * GOLDEN).fract();
    // From hue at 60 % saturation and 90 % value; the other channels lag by a third of a turn each.
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|lag| {
        0.9 * (1.0 - 0.6 * (2.0 - (6.0 * ((hue + lag).fract() - 0.5)).abs()).clamp(0.0, 1.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{box_from_labels, read_labels};
    use pbt_volume::{Detection, Location, Status, VoxelIndex, rotation_from_vector};
    use proptest::prelude::*;

    fn record(name: &str, status: Status, location: Location) -> DetectionRecord {
        Detection::new(name.into(), status, 0.5, location).into()
    }

    fn found_box(pose: Pose) -> DetectionRecord {
        record("a", Status::Found, Location::Box(Some(pose)))
    }

    fn found_landmark(point: PointLps) -> DetectionRecord {
        record("tip", Status::Found, Location::Landmark(Some(point)))
    }

    fn written(
        geometry: &Geometry,
        detections: &[DetectionRecord],
    ) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("case.seg.nrrd");
        write_label_map(&path, &InputRecord::new(String::new(), geometry), detections).unwrap();
        (folder, path)
    }

    /// An oblique grid and two boxes and a landmark somewhere in and about it.
    fn scene(
        v: [f64; 3],
        steps: [f64; 3],
        places: [[f64; 3]; 3],
        sizes: [[f64; 3]; 2],
    ) -> (Geometry, Vec<DetectionRecord>) {
        let matrix = rotation_from_vector(Vector3::from(v)).to_rotation_matrix()
            * Matrix3::from_diagonal(&Vector3::from(steps));
        let geometry =
            Geometry::new([18, 15, 12], matrix, PointLps::new(-40.0, 7.0, 90.0)).unwrap();
        let at = |place: [f64; 3]| {
            let index = Vector3::from_fn(|a, _| place[a] * geometry.shape()[a] as f64);
            geometry.to_lps(VoxelIndex(index.into()))
        };
        let pose = |n: usize| {
            let orientation = rotation_from_vector(Vector3::new(v[2], v[0], v[1] + n as f64));
            Pose { center: at(places[n]), orientation, size_mm: sizes[n] }
        };
        let detections = vec![
            found_box(pose(0)),
            record("gone", Status::Absent, Location::Box(None)),
            record("b", Status::Doubtful, Location::Box(Some(pose(1)))),
            found_landmark(at(places[2])),
        ];
        (geometry, detections)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn every_voxel_has_the_label_of_what_it_lies_in(
            v in prop::array::uniform3(-2.0f64..2.0), steps in prop::array::uniform3(0.4f64..3.0), mirrored in any::<bool>(),
            places in prop::array::uniform3(prop::array::uniform3(-0.2f64..1.2)), sizes in prop::array::uniform2(prop::array::uniform3(0.5f64..25.0)),
        ) {
            let steps = if mirrored { [-steps[0], steps[1], steps[2]] } else { steps };
            let (grid, detections) = scene(v, steps, places, sizes);
            let (_folder, path) = written(&grid, &detections);
            let map = read_labels(&path).unwrap();
            let geometry = map.geometry();
            let diagonal = Vector3::from(geometry.spacing_mm()).norm();
            let [nx, ny, _] = map.shape();
            for (n, &label) in map.data().iter().enumerate() {
                let point = geometry.to_lps(VoxelIndex::new((n % nx) as f64, (n / nx % ny) as f64, (n / nx / ny) as f64));
                // How far inside, 1 at the surface.
                let within = |d: &DetectionRecord| {
                    let pose = d.pose().unwrap();
                    let local = pose.orientation.inverse() * (point.0 - pose.center.0);
                    (0..3).map(|a| 2.0 * local[a].abs() / pose.size_mm[a]).fold(0.0, f64::max)
                };
                let (a, b) = (within(&detections[0]), within(&detections[2]));
                let tip = point.distance_mm(&detections[3].position().unwrap()) / diagonal;
                // On a surface rounding decides.
                if [a - 1.0, b - 1.0, tip - 1.0, if a < 1.0 && b < 1.0 { a - b } else { 1.0 }].iter().any(|d| d.abs() < 1e-6) {
                    continue;
                }
                let expected = if tip < 1.0 { 4 } else if a < 1.0 && a < b { 1 } else if b < 1.0 { 3 } else { 0 };
                prop_assert_eq!(label, expected, "voxel {}", n);
            }
        }
    }

    #[test]
    fn the_box_of_the_voxels_is_the_detections() {
        let geometry = Geometry::isotropic([60, 60, 60], 0.7).unwrap();
        let pose = Pose {
            center: PointLps::new(20.0, 21.0, 22.5),
            orientation: rotation_from_vector([0.3, -0.2, 0.5].into()),
            size_mm: [24.0, 15.0, 9.0],
        };
        let (_folder, path) = written(&geometry, &[found_box(pose)]);
        let again = box_from_labels(&read_labels(&path).unwrap(), |label| label == 1).unwrap();
        assert!(again.center.distance_mm(&pose.center) < 0.35, "{again:?}");
        let sizes = |p: &Pose| {
            let mut s = p.size_mm;
            s.sort_by(f64::total_cmp);
            s
        };
        assert!(
            sizes(&again).iter().zip(sizes(&pose)).all(|(a, b)| (a - b).abs() < 1.4),
            "{again:?}"
        );
    }

    #[test]
    fn a_landmark_between_voxels_has_some() {
        let matrix = Matrix3::new(1.0, 0.3, 0.0, 0.0, 2.0, -0.4, 0.0, 0.0, 5.0);
        let geometry = Geometry::new([9, 9, 9], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        let point = geometry.to_lps(VoxelIndex::new(4.5, 4.5, 4.5));
        let (_folder, path) = written(&geometry, &[found_landmark(point)]);
        let marked = read_labels(&path).unwrap().data().iter().filter(|&&label| label == 1).count();
        assert!((8..200).contains(&marked), "{marked}");
    }

    #[test]
    fn many_detections_are_read_again_and_too_many_refused() {
        let geometry = Geometry::isotropic([5, 5, 5], 1.0).unwrap();
        let point = geometry.to_lps(VoxelIndex::new(2.0, 2.0, 2.0));
        let detections = |count: usize| -> Vec<DetectionRecord> {
            let gone = (1..count).map(|n| {
                let name = format!("landmark number {n} of many");
                record(&name, Status::Absent, Location::Landmark(None))
            });
            gone.chain([found_landmark(point)]).collect()
        };
        let (_folder, path) = written(&geometry, &detections(MOST));
        assert_eq!(read_labels(&path).unwrap().data().iter().max(), Some(&(MOST as u16)));
        let error = write_label_map(
            &path,
            &InputRecord::new(String::new(), &geometry),
            &detections(MOST + 1),
        )
        .unwrap_err();
        assert!(error.field() == "detections" && !error.is_input(), "{error}");
    }

    #[test]
    fn any_name_is_one_line_of_the_header() {
        let geometry = Geometry::isotropic([4, 4, 4], 1.0).unwrap();
        let name = "left\nSegment7_Name:=x \\ ";
        let (_folder, path) =
            written(&geometry, &[record(name, Status::Absent, Location::Box(None))]);
        let bytes = std::fs::read(&path).unwrap();
        let header = String::from_utf8_lossy(&bytes);
        assert!(header.contains("\nSegment0_Name:=left\\nSegment7_Name:=x \\\\ \n"), "{header}");
        assert_eq!(read_labels(&path).unwrap().shape(), [4, 4, 4]);
    }

    #[test]
    fn colors_are_colors() {
        let colors: Vec<[f64; 3]> = (0..50).map(color).collect();
        assert!(colors.iter().flatten().all(|c| (0.3..=0.9001).contains(c)));
        assert!(
            colors.windows(2).all(|w| (0..3).map(|c| (w[0][c] - w[1][c]).abs()).sum::<f64>() > 0.3),
            "{colors:?}"
        );
    }
}
