//! Landmarks that lie otherwise than in the other cases: one elsewhere, two that are exchanged, or all
//! of a case mirrored, turned or at another scale.

use super::boxes::AnnotatedCases;
use super::finding::Finding;
use super::images::{ImageFacts, few};
use super::robust::{FEWEST_TO_COMPARE, Robust, median};
use super::usual_shape::{Placed, Points, UsualShape};
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};
use pbt_volume::{LengthUnit, Plane, angle_between};
use std::collections::BTreeMap;

/// A shape that differs by less than this factor from the median size is not worth a look (cameras
/// come nearer, too) …
const FACTOR: f64 = 2.5;

/// … nor one by less than this many robust standard deviations of the log.
const SIZE_DEVIATIONS: f64 = 6.0;

/// Shapes agree on how they are turned where half of them are within this of the middle, degrees.
const AGREE_WITHIN: f64 = 20.0;

/// A shape that is turned by less than this, degrees, is not worth a look …
const TURNED_BEYOND: f64 = 45.0;

/// … nor one by less than this many times the median angle.
const TURNED_TIMES: f64 = 5.0;

/// So many middle orientations are tried; more would take long.
const MIDDLES: usize = 100;

/// Compares how the landmarks of each case lie to each other and in the image. The images are those of
/// the cases, where they could be read.
pub(super) fn compare_landmarks(
    cases: &AnnotatedCases<'_>,
    images: &[Option<&ImageFacts>],
) -> Vec<Finding> {
    let flat = images.iter().flatten().all(|image| Plane::of(&image.geometry).is_some());
    let unit = LengthUnit::of_all(images.iter().flatten().map(|image| image.unit));
    let names: Vec<String> = cases.landmarks().into_iter().map(|(name, _)| name).collect();
    let seen = points(cases, images, flat);
    let Some(usual) = UsualShape::of(&seen, flat) else { return Vec::new() };
    let placed: Vec<Option<Placed>> = seen.iter().map(|points| usual.place(points)).collect();
    let frames = Frames::of(placed.iter().flatten(), flat);
    let mut findings = Vec::new();
    let mut turned: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for ((spec, _), placed) in cases.cases.iter().zip(&placed) {
        let Some(placed) = placed else { continue };
        let id = spec.id.as_str();
        let mut named = |what: String| {
            let message = Finding::of(spec.annotated_in(), what);
            findings.push(Finding::warning(message).in_cases([id]));
        };
        if let Some(words) = frames.turned(placed) {
            turned.entry(words).or_default().push(id);
        }
        if let Some(factor) = frames.scaled(placed) {
            let way = if factor < 1.0 { "smaller" } else { "larger" };
            named(format!(
                "landmarks: their shape is {:.1} times {way} than in the median case (are these the coordinates of another resolution or unit?)",
                factor.max(1.0 / factor)
            ));
        }
        let Some(misfits) = &placed.misfits else {
            named("landmarks: they lie otherwise to each other than in the other cases (check their order, and that they are of this image)".to_owned());
            continue;
        };
        for &[one, other] in &misfits.exchanged {
            named(format!(
                "landmarks: {} and {} seem exchanged (correct their names)",
                names[one], names[other]
            ));
        }
        for off in &misfits.off {
            named(format!(
                "{}: the landmark lies {:.1} {unit} ({:.0} % of the shape's size, {:.0} times the usual deviation) from where the others of the case expect it (correct it, or check that its name is right)",
                names[off.landmark],
                off.share * placed.fit.scale,
                100.0 * off.share,
                off.deviations
            ));
        }
    }
    for ((words, ask), ids) in turned {
        let (count, all) = (ids.len(), placed.iter().flatten().count());
        let few = few(ids.iter().copied());
        let what = format!("landmarks: {words} in {count} of {all} cases: {few} ({ask})");
        let message = Finding::of(&cases.dataset.path, what);
        findings.push(Finding::warning(message).in_cases(ids));
    }
    findings
}

/// By case and landmark, where it is: in the plane's own coordinates where all images are flat.
fn points(cases: &AnnotatedCases<'_>, images: &[Option<&ImageFacts>], flat: bool) -> Vec<Points> {
    let landmarks = cases.landmarks();
    let mut seen = vec![vec![None; landmarks.len()]; cases.cases.len()];
    for (landmark, (_, points)) in landmarks.iter().enumerate() {
        for &(case, point) in points {
            // Without an image nothing is known of its plane.
            let plane = images[case].filter(|_| flat).map(|image| Plane::of(&image.geometry));
            seen[case][landmark] = match plane {
                Some(plane) => plane.map(|plane| plane.flat_point(point).0.coords),
                None => (!flat).then_some(point.0.coords),
            };
        }
    }
    seen
}

/// How shapes usually are turned, and how large they are.
struct Frames {
    flat: bool,
    /// The logarithm of the size.
    size: Option<Robust>,
    /// The middle orientation, and how far from it is worth a look, degrees. `None` where they lie
    /// anyhow.
    middle: Option<(UnitQuaternion<f64>, f64)>,
}

impl Frames {
    fn of<'a>(placed: impl Iterator<Item = &'a Placed> + Clone, flat: bool) -> Self {
        let logs = placed.clone().map(|placed| placed.fit.scale.ln());
        let turns: Vec<UnitQuaternion<f64>> =
            placed.filter(|p| !p.mirrored).map(|p| quaternion(&p.fit.rotation)).collect();
        let angles = |middle: &UnitQuaternion<f64>| -> Vec<f64> {
            turns.iter().map(|turn| angle_between(middle, turn).to_degrees()).collect()
        };
        let middle = || {
            let sum = |turn: &UnitQuaternion<f64>| angles(turn).iter().sum::<f64>();
            let tried = turns.iter().take(MIDDLES).map(|turn| (sum(turn), turn));
            let (_, middle) = tried.min_by(|a, b| a.0.total_cmp(&b.0))?;
            let usual = median(angles(middle))?;
            (usual <= AGREE_WITHIN).then_some((*middle, (TURNED_TIMES * usual).max(TURNED_BEYOND)))
        };
        let enough = turns.len() >= FEWEST_TO_COMPARE;
        Self {
            flat,
            size: Robust::of(logs).filter(|_| enough),
            middle: enough.then(middle).flatten(),
        }
    }

    /// By what factor a shape is larger than the median, where that is worth a look.
    fn scaled(&self, placed: &Placed) -> Option<f64> {
        let size = self.size?;
        let off = placed.fit.scale.ln() - size.median;
        (off.abs() >= (SIZE_DEVIATIONS * size.deviation).max(FACTOR.ln())).then(|| off.exp())
    }

    /// How a shape is mirrored or turned against most, and what to ask.
    fn turned(&self, placed: &Placed) -> Option<(String, &'static str)> {
        let rotation = placed.fit.rotation;
        let angle = |rotation: &Matrix3<f64>| {
            let (middle, limit) = self.middle.as_ref()?;
            let angle = angle_between(middle, &quaternion(rotation)).to_degrees();
            Some((angle, *limit))
        };
        if !placed.mirrored {
            let (angle, limit) = angle(&rotation)?;
            // A case that fits nowhere is not turned.
            placed.misfits.as_ref().filter(|_| angle > limit)?;
            let words = format!("turned by about {:.0} degrees", (angle / 10.0).round() * 10.0);
            let ask = if self.flat {
                "are they those of an image that was turned?"
            } else {
                "do they say LPS or RAS rightly?"
            };
            return Some((words, ask));
        }
        // The rotation that is left depends on what mirrored the case.
        let flipped = |mirror: &Matrix3<f64>| {
            let x = Matrix3::from_diagonal(&Vector3::new(-1.0, 1.0, 1.0));
            angle(&(mirror * x * rotation)).map_or(f64::INFINITY, |(angle, _)| angle)
        };
        let best = self
            .mirrors()
            .into_iter()
            .map(|(mirror, words, ask)| (flipped(&mirror), words, ask))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(angle, ..)| *angle < TURNED_BEYOND);
        Some(match best {
            Some((_, words, ask)) => (words.to_owned(), ask),
            None => (
                "mirrored".to_owned(),
                "is it the other side, or are coordinates counted from another edge?",
            ),
        })
    }

    /// What may mirror a case, in words.
    fn mirrors(&self) -> Vec<(Matrix3<f64>, &'static str, &'static str)> {
        let sign = |x: f64, y: f64, z: f64| Matrix3::from_diagonal(&Vector3::new(x, y, z));
        let left = (sign(-1.0, 1.0, 1.0), "mirrored left to right");
        if !self.flat {
            let ask = "is a sign of their coordinates wrong, or is it the other side?";
            let front = (sign(1.0, -1.0, 1.0), "mirrored front to back");
            let top = (sign(1.0, 1.0, -1.0), "mirrored top to bottom");
            return [left, front, top].map(|(mirror, words)| (mirror, words, ask)).to_vec();
        }
        let exchange = Matrix3::new(0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0);
        vec![
            (left.0, left.1, "is x counted from the right, or is it the other side?"),
            (sign(1.0, -1.0, 1.0), "upside down", "is y counted from the bottom?"),
            (exchange, "mirrored about the diagonal", "are x and y exchanged?"),
        ]
    }
}

fn quaternion(rotation: &Matrix3<f64>) -> UnitQuaternion<f64> {
    UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(*rotation))
}
