//! Errors on a split, stored and rotated, stage by stage.

use crate::rotate::rotated;
use nalgebra::{Quaternion, UnitQuaternion, Vector3};
use pbt::session::{AnnotatedCase, LoadedModel, Wanted, read_cases};
use pbt_cpu::Cpu;
use pbt_detect::{Detections, LandmarkDetection, StructureModel};
use pbt_evaluate::{BoxError, Summary, success_rates};
use pbt_io::Dataset;
use pbt_volume::{PointLps, Pose, Status, positive};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::Path;

/// One detection against the truth.
struct Row {
    name: String,
    error: BoxError,
    score: f64,
    status: Status,
    /// Nearest candidate mm, nearest mode (mm, degrees), nearest converged pose (mm, degrees).
    stages: [f64; 5],
    milliseconds: f64,
}

/// One landmark against the truth.
struct PointRow {
    volume: String,
    landmark: String,
    mm: f64,
    found: bool,
}

pub(crate) fn run(model: &str, dataset: &str, split: &str, rotations: usize) -> anyhow::Result<()> {
    let fail = |f: pbt::Failure| anyhow::anyhow!("{f}");
    let model = LoadedModel::open(Path::new(model)).map_err(fail)?;
    let dataset = Dataset::load(Path::new(dataset))?;
    let structures = &model.model.structures;
    let landmarks = structures.iter().flat_map(|s| s.landmarks()).map(|l| l.name.clone());
    let names: Vec<String> = structures.iter().map(|s| s.name.clone()).chain(landmarks).collect();
    let wanted = Wanted::new(&dataset, &names).map_err(fail)?;
    let cases: Vec<_> = dataset.split(split).cloned().collect();
    let mut points: Vec<Vec<PointRow>> = structures.iter().map(|_| Vec::new()).collect();
    let mut rows: Vec<Vec<Row>> = model.model.structures.iter().map(|_| Vec::new()).collect();
    for (n, case) in read_cases(&dataset, &cases, &wanted).map_err(fail)?.iter().enumerate() {
        let numbers = case.spec.read_image()?.volume.numbers();
        let mut random = ChaCha8Rng::seed_from_u64(1000 + n as u64);
        for copy in 0..=rotations {
            for ((structure, rows), points) in structures.iter().zip(&mut rows).zip(&mut points) {
                let Some((_, truth)) = case.boxes.iter().find(|(name, _)| name == &structure.name)
                else {
                    continue;
                };
                let stored = *truth;
                let (turned, truth) = if copy == 0 {
                    (numbers.clone(), stored)
                } else {
                    let shift = Vector3::from_fn(|_, _| {
                        (uniform(&mut random) - 0.5) * 0.4 * structure.prior.scale_mm
                    });
                    rotated(&numbers, &stored, random_rotation(&mut random), shift)
                };
                let name = format!("{}/{copy}", case.spec.id);
                let found = model.model.detect(&Cpu, &[turned.into()])?;
                points.extend(point_rows(&name, case, structure, &found, &stored, &truth));
                rows.push(row(name, structure, &found, &truth));
            }
        }
    }
    for ((structure, rows), points) in structures.iter().zip(&rows).zip(&points) {
        print(structure, rows);
        print_points(points);
    }
    Ok(())
}

/// The landmarks of a box in an image that was turned with its box from `stored` to `turned`.
fn point_rows(
    name: &str,
    case: &AnnotatedCase,
    structure: &StructureModel,
    found: &Detections,
    stored: &Pose,
    turned: &Pose,
) -> Vec<PointRow> {
    let d = found
        .detections
        .iter()
        .find(|d| d.name == structure.name)
        .expect("a detection for every structure");
    let along = |point: PointLps| {
        PointLps(
            turned.center.0
                + turned.orientation * (stored.orientation.inverse() * (point.0 - stored.center.0)),
        )
    };
    let row = |l: &LandmarkDetection| {
        let (_, truth) = case.landmarks.iter().find(|(landmark, _)| *landmark == l.name)?;
        let found = l.status == Status::Found;
        Some(PointRow {
            volume: name.to_owned(),
            landmark: l.name.clone(),
            mm: l.point.distance_mm(&along(*truth)),
            found,
        })
    };
    d.landmarks.iter().filter_map(row).collect()
}

fn print_points(points: &[PointRow]) {
    let errors: Vec<f64> = points.iter().map(|p| p.mm).collect();
    let Some(s) = Summary::new(&errors) else { return };
    println!(
        "  landmarks, mm                mean {:8.3}  median {:8.3}  P95 {:8.3}  max {:8.3}",
        s.mean, s.median, s.p95, s.max
    );
    let limits = [0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 4.0];
    let rates: Vec<String> = success_rates(&errors, &limits)
        .iter()
        .zip(limits)
        .map(|(r, mm)| format!("{:.1} % within {mm}", 100.0 * r))
        .collect();
    println!(
        "  {}; found {} of {}",
        rates.join(", "),
        points.iter().filter(|p| p.found).count(),
        points.len()
    );
    let mut worst: Vec<&PointRow> = points.iter().collect();
    worst.sort_by(|a, b| b.mm.total_cmp(&a.mm));
    for p in worst.iter().take(5) {
        println!(
            "  worst: {} {} {:.2} mm{}",
            p.volume,
            p.landmark,
            p.mm,
            if p.found { "" } else { ", not sure" }
        );
    }
}

fn row(name: String, structure: &StructureModel, found: &Detections, truth: &Pose) -> Row {
    let d = found
        .detections
        .iter()
        .find(|d| d.name == structure.name)
        .expect("a detection for every structure");
    let nearest = |poses: &[Pose], f: &dyn Fn(&BoxError) -> f64| {
        poses.iter().map(|p| f(&BoxError::new(p, truth))).fold(f64::INFINITY, f64::min)
    };
    let candidate = d
        .trace
        .candidates
        .iter()
        .map(|c| c.point.distance_mm(&truth.center))
        .fold(f64::INFINITY, f64::min);
    Row {
        name,
        error: BoxError::new(&d.pose, truth),
        score: d.score,
        status: d.status,
        stages: [
            candidate,
            nearest(&d.trace.modes, &|e| e.center_mm),
            nearest(&d.trace.modes, &|e| e.angle_deg),
            nearest(&d.trace.converged, &|e| e.center_mm),
            nearest(&d.trace.converged, &|e| e.angle_deg),
        ],
        milliseconds: found.timing_ms.iter().map(|(_, ms)| ms).sum(),
    }
}

fn print(structure: &StructureModel, rows: &[Row]) {
    let count = |status: Status| rows.iter().filter(|r| r.status == status).count();
    println!(
        "{}: {} volumes, {} found, {} doubtful",
        structure.name,
        rows.len(),
        count(Status::Found),
        count(Status::Doubtful)
    );
    let line = |what: &str, f: &dyn Fn(&Row) -> f64| {
        if let Some(s) = Summary::new(&rows.iter().map(f).collect::<Vec<_>>()) {
            println!(
                "  {what:28} mean {:8.3}  median {:8.3}  P95 {:8.3}  max {:8.3}",
                s.mean, s.median, s.p95, s.max
            );
        }
    };
    line("centre, mm", &|r| r.error.center_mm);
    line("angle, degrees", &|r| r.error.angle_deg);
    line("size, %", &|r| r.error.size_percent);
    line("nearest candidate, mm", &|r| r.stages[0]);
    line("nearest mode, mm", &|r| r.stages[1]);
    line("nearest mode, degrees", &|r| r.stages[2]);
    line("nearest converged, mm", &|r| r.stages[3]);
    line("nearest converged, degrees", &|r| r.stages[4]);
    line("score", &|r| r.score);
    line("time without loading, ms", &|r| r.milliseconds);
    let within = |mm: f64, degrees: f64| {
        rows.iter().filter(|r| r.error.center_mm <= mm && r.error.angle_deg <= degrees).count()
    };
    println!(
        "  within 0.5 mm and 4 degrees: {}, 1.5 mm and 15 degrees: {}",
        within(0.5, 4.0),
        within(1.5, 15.0)
    );
    let d = structure.prior.scale_mm;
    for r in rows.iter().filter(|r| r.error.center_mm > 0.15 * d || r.error.angle_deg > 15.0) {
        println!(
            "  far off: {} {:.2} mm {:.1} degrees, score {:.4}, {:?}",
            r.name, r.error.center_mm, r.error.angle_deg, r.score, r.status
        );
    }
}

fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Uniform in SO(3) (Shoemake 1992).
fn random_rotation(random: &mut ChaCha8Rng) -> UnitQuaternion<f64> {
    let (u, v, w) = (
        uniform(random),
        uniform(random) * std::f64::consts::TAU,
        uniform(random) * std::f64::consts::TAU,
    );
    let (a, b) = ((1.0 - u).sqrt(), u.sqrt());
    positive(UnitQuaternion::new_normalize(Quaternion::new(
        b * w.cos(),
        a * v.sin(),
        a * v.cos(),
        b * w.sin(),
    )))
}
