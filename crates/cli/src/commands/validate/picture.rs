//! The oddest boxes of a data set as a picture: as annotated, and as the others would have them.

use super::suspect::Suspect;
use crate::Failure;
use nalgebra::Vector3;
use pbt_io::write_atomically;
use pbt_report::{Case, DrawnBox, DrawnPoint, Mark, sheet};
use pbt_volume::{IntensityPolicy, Pose, Volume};
use rayon::prelude::*;
use std::io::Write;
use std::path::Path;

/// So many cases are drawn.
const MOST: usize = 12;

/// Boxes whose axes point this much elsewhere, degrees, get a mark at the end of one: a cube of
/// other axes looks the same.
const MARKED_BEYOND: f64 = 30.0;

/// A case of the picture.
struct Tile {
    image: Volume<f32>,
    window: (f64, f64),
    boxes: Vec<DrawnBox>,
    points: Vec<DrawnPoint>,
    through: Pose,
    title: String,
    note: String,
}

/// Draws the oddest box of each case, the oddest first, as SVG; those that are in order fill up.
/// `false` where there is no box to draw.
///
/// # Errors
/// A picture that is too large or cannot be written.
pub(super) fn draw(path: &Path, name: &str, suspects: &[Suspect]) -> Result<bool, Failure> {
    // A case whose image cannot be read has a finding.
    let tiles: Vec<Tile> =
        suspects[..suspects.len().min(MOST)].par_iter().filter_map(Tile::of).collect();
    if tiles.is_empty() {
        return Ok(false);
    }
    let cases: Vec<Case<'_>> = tiles.iter().map(Tile::case).collect();
    let named = suspects.iter().filter(|s| s.is_named()).count();
    let title = match named {
        0 => format!("{name}: no box is odd; the {} least usual", tiles.len()),
        _ => format!("{name}: {named} case(s) to look at"),
    };
    let svg = sheet(&title, &cases).map_err(Failure::other)?;
    write_atomically(path, |w| w.write_all(svg.as_bytes()))?;
    Ok(true)
}

impl Tile {
    fn of(suspect: &Suspect) -> Option<Self> {
        let image = suspect.case.read_image().ok()?.volume;
        let policy = IntensityPolicy::Percentiles { low_percent: 1.0, high_percent: 99.0 };
        let window = policy.range(&image).map_or((0.0, 1.0), |range| (range.low, range.high));
        let drawn = |pose: Pose, mark| DrawnBox { name: suspect.structure.clone(), pose, mark };
        let mut boxes = vec![drawn(suspect.annotated, Mark::Annotated)];
        boxes.extend(suspect.expected.map(|pose| drawn(pose, Mark::Expected)));
        let points =
            suspect.expected.map_or_else(Vec::new, |pose| ends_of_axis(&suspect.annotated, &pose));
        Some(Self {
            image: image.numbers(),
            window,
            boxes,
            points,
            through: suspect.annotated,
            title: format!("{}: {}", suspect.case.id, suspect.structure),
            note: if suspect.is_named() {
                suspect.why.clone()
            } else {
                format!("not unusual: {}", suspect.why)
            },
        })
    }

    fn case(&self) -> Case<'_> {
        let Self { image, window, boxes, points, through, title, note } = self;
        let through = through.center;
        Case { image, window: *window, labels: None, through, boxes, points, title, note }
    }
}

/// Marks at the ends of the axis that points most elsewhere in the expected box.
fn ends_of_axis(annotated: &Pose, expected: &Pose) -> Vec<DrawnPoint> {
    let angle = |a: usize| {
        let [here, there] =
            [annotated, expected].map(|pose| pose.orientation * Vector3::ith(a, 1.0));
        here.angle(&there).to_degrees()
    };
    let axis = (1..3).fold(0, |most, a| if angle(a) > angle(most) { a } else { most });
    if angle(axis) < MARKED_BEYOND {
        return Vec::new();
    }
    let end = |pose: &Pose, mark| DrawnPoint {
        name: format!("end of e{}", axis + 1),
        point: pose.to_lps(Vector3::ith(axis, pose.size_mm[axis] / 2.0)),
        mark,
    };
    vec![end(annotated, Mark::Annotated), end(expected, Mark::Expected)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::boxes::made::{case, upright};
    use pbt_volume::rotation_from_vector;
    use std::f64::consts::FRAC_PI_2;

    #[test]
    fn the_axis_that_points_elsewhere_is_marked() {
        let annotated = upright([10.0, 20.0, 30.0], [8.0, 6.0, 4.0]);
        let about_x = rotation_from_vector(Vector3::new(FRAC_PI_2, 0.0, 0.0));
        let expected = Pose { orientation: about_x, ..annotated };
        let marks = ends_of_axis(&annotated, &expected);
        assert_eq!(marks[0].name, "end of e2");
        assert!(
            (marks[0].point.0.y - 23.0).abs() < 1e-9 && (marks[1].point.0.z - 33.0).abs() < 1e-9
        );
        assert!(ends_of_axis(&annotated, &annotated).is_empty());
    }

    #[test]
    fn without_images_nothing_is_drawn() {
        let suspect = Suspect {
            case: case(0),
            structure: "a".into(),
            annotated: upright([0.0; 3], [1.0; 3]),
            expected: None,
            score: 2.0,
            why: "odd".into(),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("odd.svg");
        assert!(!draw(&path, "made", &[suspect]).unwrap() && !path.exists());
    }
}
