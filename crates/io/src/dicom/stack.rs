//! From planes in any order to a regular grid: sorted by position along the normal, never by name
//! or number, and refused when it is none.

use super::plane::Plane;
use super::series::Series;
use crate::IoError;
use nalgebra::{Matrix3, Point3, Vector3};
use pbt_volume::{Geometry, PointLps};
use std::path::Path;

/// Planes nearer than this part of a pixel are at one place.
const SAME_PLACE: f64 = 0.01;

/// How far a plane may lie from where an even stack has it: what rounding in files makes of it, in
/// mm and as a part of the step.
const UNEVEN_MM: f64 = 0.05;
const UNEVEN_PART: f64 = 0.1;

/// What is worth a word, as a part of the step.
const NOTED_PART: f64 = 0.01;

/// Planes at the same place, in the order in which they were taken.
type Place = Vec<Plane>;

/// The planes of one time point, first slice first, and the grid on which they lie.
pub(super) fn stack(
    path: &Path,
    series: Series,
    frame: Option<usize>,
    notes: &mut Vec<String>,
) -> Result<(Vec<Plane>, Geometry), IoError> {
    let refused = |problem: String, advice: &str| {
        IoError::input(path, format!("series {}", series.label), problem, advice.to_owned())
    };
    let places = places(series.planes, notes);
    let times = places[0].len();
    if let Some(other) = places.iter().find(|place| place.len() != times) {
        let problem = format!("has {times} image(s) at one place and {} at another", other.len());
        return Err(refused(problem, "remove the copies, or complete the series"));
    }
    if times > 1 {
        ordered(&places).map_err(|problem| refused(problem, "remove the copies"))?;
    }
    let planes: Vec<Plane> = match (times, frame) {
        (1, None | Some(0)) => places.into_iter().flatten().collect(),
        (times, Some(frame)) if frame < times => {
            places.into_iter().map(|mut place| place.swap_remove(frame)).collect()
        }
        (times, Some(frame)) => {
            return Err(refused(
                format!("there is no frame {frame}"),
                &if times == 1 {
                    "it has one, 0".to_owned()
                } else {
                    format!("it has the frames 0 to {}", times - 1)
                },
            ));
        }
        (times, None) => {
            let named = |plane: &Plane| match (plane.time.temporal_position, plane.time.acquisition)
            {
                (0, acquisition) => format!("acquisition {acquisition}"),
                (position, _) => format!("temporal position {position}"),
            };
            let list: Vec<String> = places[0]
                .iter()
                .take(8)
                .enumerate()
                .map(|(n, plane)| format!("{n}: {}", named(plane)))
                .collect();
            let more = if times > list.len() { ", ..." } else { "" };
            let problem = format!(
                "has {times} images at each of {} places: {}{more}",
                places.len(),
                list.join(", ")
            );
            return Err(refused(
                problem,
                &format!("choose a time point with --frame 0 to {}", times - 1),
            ));
        }
    };
    let geometry = geometry(path, &series.label, &planes, notes)?;
    Ok((planes, geometry))
}

/// Planes sorted along the normal, those at one place together. Exact copies of a file are left
/// out.
fn places(mut planes: Vec<Plane>, notes: &mut Vec<String>) -> Vec<Place> {
    let normal = planes[0].placement.normal();
    let along = |plane: &Plane| plane.placement.position.dot(&normal);
    let same_mm = SAME_PLACE * planes[0].placement.spacing_mm[0].min(1.0);
    planes.sort_by(|a, b| along(a).total_cmp(&along(b)));
    let mut places: Vec<Place> = Vec::new();
    for plane in planes {
        match places.last_mut() {
            Some(place) if along(&plane) - along(&place[0]) < same_mm => place.push(plane),
            _ => places.push(vec![plane]),
        }
    }
    let mut copies = 0;
    for place in &mut places {
        place.sort_by(|a, b| {
            (&a.time, &a.instance_uid, a.frame).cmp(&(&b.time, &b.instance_uid, b.frame))
        });
        let before = place.len();
        place.dedup_by(|a, b| {
            !a.instance_uid.is_empty() && (&a.instance_uid, a.frame) == (&b.instance_uid, b.frame)
        });
        copies += before - place.len();
    }
    if copies > 0 {
        notes.push(format!("series: {copies} copies of images left out (the same SOP instance)"));
    }
    places
}

/// Whether the time points can be told apart, and mean the same at each place.
fn ordered(places: &[Place]) -> Result<(), String> {
    for place in places {
        if let Some(pair) = place.windows(2).find(|pair| pair[0].time == pair[1].time) {
            return Err(format!(
                "has two images at one place with the same instance number {}",
                pair[0].time.instance
            ));
        }
        let positions = |place: &Place| {
            place.iter().map(|plane| plane.time.temporal_position).collect::<Vec<_>>()
        };
        if positions(place) != positions(&places[0]) {
            return Err("has other temporal positions at one place than at another".to_owned());
        }
    }
    Ok(())
}

fn geometry(
    path: &Path,
    label: &str,
    planes: &[Plane],
    notes: &mut Vec<String>,
) -> Result<Geometry, IoError> {
    let refused = |problem: String, advice: &str| {
        IoError::input(path, format!("series {label}"), problem, advice.to_owned())
    };
    let count = planes.len();
    let position = |n: usize| planes[n].placement.position;
    let normal = planes[0].placement.normal();
    let step = match count {
        1 => {
            notes.push("series: is a single slice, read as a 2D image".to_owned());
            // A slice alone has no distance to the next; nothing hangs on this one.
            normal * planes[0].placement.spacing_mm.iter().product::<f64>().sqrt()
        }
        _ => (position(count - 1) - position(0)) / (count - 1) as f64,
    };
    let off: Vec<f64> =
        (0..count).map(|n| (position(n) - position(0) - step * n as f64).norm()).collect();
    let worst_mm = off.iter().copied().fold(0.0, f64::max);
    let step_mm = step.norm();
    if worst_mm > (UNEVEN_PART * step_mm).min(UNEVEN_MM.max(NOTED_PART * step_mm)) {
        return Err(refused(
            uneven(planes, &normal),
            "complete the series, or resample it to even distances",
        ));
    }
    if worst_mm > NOTED_PART * step_mm {
        notes.push(format!("series: slices lie up to {worst_mm:.3} mm from an even distance of {step_mm:.3} mm, which is used"));
    }
    let tilt_degrees = (step.dot(&normal) / step_mm).clamp(-1.0, 1.0).acos().to_degrees();
    if tilt_degrees > 0.1 {
        notes.push(format!(
            "series: slices are shifted against each other by a tilt of {tilt_degrees:.2} degrees; the sheared grid is kept"
        ));
    }
    let placement = &planes[0].placement;
    let [row_mm, column_mm] = placement.spacing_mm;
    let matrix = Matrix3::from_columns(&[
        placement.along_row * column_mm,
        placement.along_column * row_mm,
        step,
    ]);
    let shape = [planes[0].tile.columns, planes[0].tile.rows, count];
    Geometry::new(shape, matrix, PointLps(Point3::from(position(0))))
        .map_err(|error| refused(error.to_string(), "export the series again"))
}

/// What is uneven: a gap that a missing slice would leave, or distances in general.
fn uneven(planes: &[Plane], normal: &Vector3<f64>) -> String {
    let along: Vec<f64> = planes.iter().map(|plane| plane.placement.position.dot(normal)).collect();
    let gaps: Vec<f64> = along.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(f64::total_cmp);
    let (least, median, most) = (sorted[0], sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
    let missing = |gap: f64| ((gap / median).round() - 1.0).max(0.0) as usize;
    let whole = |gap: f64| (gap / median - (gap / median).round()).abs() < 0.05;
    let count: usize = gaps.iter().map(|&gap| missing(gap)).sum();
    if count > 0 && gaps.iter().all(|&gap| whole(gap)) {
        let at = gaps.iter().position(|&gap| missing(gap) > 0).unwrap_or(0);
        return format!(
            "lacks {count} slice(s): slices are {median:.3} mm apart, but {:.3} mm after slice {} of {}",
            gaps[at],
            at + 1,
            planes.len()
        );
    }
    if most - least < UNEVEN_MM {
        return "has slices that are shifted against each other unevenly".to_owned();
    }
    format!("has uneven distances between slices, {least:.3} to {most:.3} mm")
}
