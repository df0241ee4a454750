//! Which planes belong together, and which of several series is wanted.

use super::plane::{Plane, SeriesKey};
use crate::IoError;
use std::collections::BTreeMap;
use std::path::Path;

/// Two directions or two spacings that differ by less are one, written with rounding.
const SAME_DIRECTION: f64 = 1e-3;
const SAME_SPACING: f64 = 1e-4;

/// Planes that may be one volume: one series, one kind of image, one orientation and one matrix
/// size.
#[derive(Debug)]
pub(super) struct Series {
    /// What `--series` takes: the series' number, with `.1`, `.2` … behind it where several share
    /// it.
    pub(super) label: String,
    pub(super) planes: Vec<Plane>,
}

/// Sorts planes into series, in the order of their numbers.
pub(super) fn group(planes: Vec<Plane>) -> Vec<Series> {
    let mut groups: BTreeMap<SeriesKey, Vec<Vec<Plane>>> = BTreeMap::new();
    for plane in planes {
        let of_key = groups.entry(plane.key.clone()).or_default();
        match of_key.iter_mut().find(|group| alike(&group[0], &plane)) {
            Some(group) => group.push(plane),
            None => of_key.push(vec![plane]),
        }
    }
    let mut shared: BTreeMap<i64, usize> = BTreeMap::new();
    groups.iter().for_each(|(key, of_key)| *shared.entry(key.number).or_default() += of_key.len());
    let mut given: BTreeMap<i64, usize> = BTreeMap::new();
    let mut series = Vec::new();
    for (key, mut of_key) in groups {
        // The order of files must not decide which part has which label.
        of_key.sort_by(|a, b| order_of(a).total_cmp(&order_of(b)));
        for planes in of_key {
            let n = given.entry(key.number).or_default();
            *n += 1;
            let label = if shared[&key.number] > 1 {
                format!("{}.{n}", key.number)
            } else {
                key.number.to_string()
            };
            series.push(Series { label, planes });
        }
    }
    series
}

fn alike(a: &Plane, b: &Plane) -> bool {
    let (p, q) = (&a.placement, &b.placement);
    (a.tile.rows, a.tile.columns) == (b.tile.rows, b.tile.columns)
        && (a.format.bits_allocated, a.format.signed) == (b.format.bits_allocated, b.format.signed)
        && (p.along_row - q.along_row).norm() < SAME_DIRECTION
        && (p.along_column - q.along_column).norm() < SAME_DIRECTION
        && p.spacing_mm.iter().zip(q.spacing_mm).all(|(s, t)| (s / t - 1.0).abs() < SAME_SPACING)
}

/// A number that tells the orientations of one series apart, whatever the order of its files.
fn order_of(planes: &[Plane]) -> f64 {
    let instance = planes.iter().map(|plane| plane.time.instance).min().unwrap_or(0);
    let frame = planes.iter().map(|plane| plane.frame).min().unwrap_or(0);
    instance as f64 + frame as f64 * 1e-6
}

impl Series {
    fn uid(&self) -> &str {
        &self.planes[0].key.uid
    }

    /// `3 (MR, 256 x 256, 5 images)`: nothing that could name a patient.
    fn summary(&self) -> String {
        let Plane { key, tile, .. } = &self.planes[0];
        let modality =
            if key.modality.is_empty() { String::new() } else { format!("{}, ", key.modality) };
        format!(
            "{} ({modality}{} x {}, {} images)",
            self.label,
            tile.columns,
            tile.rows,
            self.planes.len()
        )
    }
}

/// The series that is wanted: the named one, or the only one that may be a volume. What is passed
/// over for that is noted.
pub(super) fn choose(
    path: &Path,
    mut all: Vec<Series>,
    wanted: Option<&str>,
    notes: &mut Vec<String>,
) -> Result<Series, IoError> {
    let list = |all: &[Series]| all.iter().map(Series::summary).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = wanted {
        let found: Vec<usize> =
            (0..all.len()).filter(|&n| all[n].label == wanted || all[n].uid() == wanted).collect();
        return match found[..] {
            [n] => Ok(all.swap_remove(n)),
            [] => Err(IoError::input(
                path,
                "series",
                format!("there is no {wanted}"),
                format!("there are: {}", list(&all)),
            )),
            _ => Err(IoError::input(
                path,
                "series",
                format!("{wanted} is several volumes: {}", list(&all)),
                "choose one with --series",
            )),
        };
    }
    // A single image beside a stack is an overview or a part of another examination.
    let stacks = all.iter().filter(|series| series.planes.len() > 1).count();
    if stacks == 1 && all.len() > 1 {
        let singles = all.len() - 1;
        all.retain(|series| series.planes.len() > 1);
        notes.push(format!("series: {singles} single image(s) left out"));
    }
    if all.len() > 1 {
        let problem = format!("there are {}: {}", all.len(), list(&all));
        return Err(IoError::input(
            path,
            "series",
            problem,
            "choose one with --series, for example --series ".to_owned() + &all[0].label,
        ));
    }
    all.pop().ok_or_else(|| {
        IoError::input(path, "series", "there is no image", "give the folder of a DICOM series")
    })
}
