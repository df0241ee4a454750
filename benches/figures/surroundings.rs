//! Does an answer depend on what surrounds a structure? Test volumes are cut and padded so that every
//! structure stays whole; its position and its score should stay as they were.

use nalgebra::Vector3;
use pbt::session::{LoadedModel, Wanted, read_cases};
use pbt::table::{row, table};
use pbt_cpu::Cpu;
use pbt_detect::Detection;
use pbt_io::Dataset;
use pbt_volume::{Geometry, Pose, Status, Volume, VoxelIndex};
use std::path::Path;

/// How an image is changed: from the margins that it has to those that it gets.
struct Way {
    name: &'static str,
    change: fn(Margins, f64) -> Margins,
}

/// How far the image reaches beyond the corners of its structures: low and high end of each axis, mm.
type Margins = [[f64; 2]; 3];

/// Far enough that no structure looks cut: of a structure's mean size.
const KEPT: f64 = 0.5;

/// The ways; `d` is the mean size of the structures, mm.
const WAYS: [Way; 5] = [
    Way { name: "padded by its size", change: |m, d| m.map(|ends| ends.map(|end| end + d)) },
    Way {
        name: "padded at the low ends alone",
        change: |m, d| m.map(|[low, high]| [low + d, high]),
    },
    Way {
        name: "45 mm off the middle of a larger volume",
        change: |m, _| m.map(|[low, high]| [low + 5.0, high + 95.0]),
    },
    Way {
        name: "cut to half its size beyond",
        change: |m, d| m.map(|ends| ends.map(|end| end.min(KEPT * d))),
    },
    Way {
        name: "cut so at the high ends alone",
        change: |m, d| m.map(|[low, high]| [low, high.min(KEPT * d)]),
    },
];

/// What changed of one structure, an image each.
#[derive(Default)]
struct Moved {
    /// Of the centre, in the structure's mean size.
    shifts: Vec<f64>,
    scores: Vec<f64>,
    /// Found before and not after, or the other way round.
    other_status: usize,
}

/// Detects in each volume of a split, as it is and in every way, and prints what moved.
pub(crate) fn run(model: &str, dataset: &str, split: &str) -> anyhow::Result<()> {
    let fail = |f: pbt::Failure| anyhow::anyhow!("{f}");
    let model = LoadedModel::open(Path::new(model)).map_err(fail)?.model;
    let dataset = Dataset::load(Path::new(dataset))?;
    let names: Vec<String> = model.structures.iter().map(|s| s.name.clone()).collect();
    let wanted = Wanted::new(&dataset, &names).map_err(fail)?;
    let cases: Vec<_> = dataset.split(split).cloned().collect();
    let mut moved: [Vec<Moved>; 5] = WAYS.map(|_| names.iter().map(|_| Moved::default()).collect());
    let mut refused = [0; 5];
    for case in read_cases(&dataset, &cases, &wanted).map_err(fail)? {
        let image = case.spec.read_image()?.volume;
        let numbers = image.numbers();
        let before = model.detect(&Cpu, std::slice::from_ref(&image))?;
        let poses: Vec<Pose> = case.boxes.iter().map(|(_, pose)| *pose).collect();
        let sizes = poses.iter().map(Pose::mean_size_mm);
        let size = sizes.sum::<f64>() / poses.len().max(1) as f64;
        let margins = margins(image.geometry(), &poses);
        for ((way, moved), refused) in WAYS.iter().zip(&mut moved).zip(&mut refused) {
            let changed = (way.change)(margins, size);
            let other = resized(&numbers, &margins, &changed)?;
            match model.detect(&Cpu, &[other.into()]) {
                Ok(after) => {
                    let pairs = before.detections.iter().zip(&after.detections);
                    moved.iter_mut().zip(pairs).for_each(|(moved, (old, new))| moved.add(old, new));
                }
                Err(error) => {
                    eprintln!("{}, {}: {error}", case.spec.id, way.name);
                    *refused += 1;
                }
            }
        }
    }
    println!("{}: {} volumes", dataset.name, cases.len());
    let mut rows = vec![row([
        "volumes",
        "structure",
        "n",
        "centre: mean, D",
        "P95",
        "largest",
        "score: mean",
        "largest",
        "status changed",
    ])];
    for (way, moved) in WAYS.iter().zip(&mut moved) {
        for (name, moved) in names.iter().zip(moved) {
            rows.push(moved.cells(way.name, name));
        }
    }
    println!("{}", table(2, &rows));
    for (way, refused) in WAYS.iter().zip(refused).filter(|(_, refused)| *refused > 0) {
        println!("{}: {refused} volumes refused", way.name);
    }
    Ok(())
}

impl Moved {
    fn add(&mut self, old: &Detection, new: &Detection) {
        let found = |d: &Detection| d.status == Status::Found;
        self.other_status += usize::from(found(old) != found(new));
        self.scores.push((old.score - new.score).abs());
        let shift = (old.pose.center.0 - new.pose.center.0).norm();
        self.shifts.push(shift / old.pose.mean_size_mm());
    }

    fn cells(&mut self, way: &str, structure: &str) -> Vec<String> {
        self.shifts.sort_by(f64::total_cmp);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let p95 = self.shifts.get((self.shifts.len() * 95).div_ceil(100).saturating_sub(1));
        let mut cells = row([way, structure]);
        cells.push(self.scores.len().to_string());
        cells.extend(
            [mean(&self.shifts), p95.copied().unwrap_or(0.0), largest(&self.shifts)]
                .map(|d| format!("{d:.4}")),
        );
        cells.extend([mean(&self.scores), largest(&self.scores)].map(|s| format!("{s:.3}")));
        cells.push(self.other_status.to_string());
        cells
    }
}

/// How far an image reaches beyond the corners of all boxes; negative where a box is cut.
fn margins(geometry: &Geometry, poses: &[Pose]) -> Margins {
    let corners: Vec<_> =
        poses.iter().flat_map(Pose::corners).map(|corner| geometry.to_index(corner).0).collect();
    let (shape, spacing) = (geometry.shape(), geometry.spacing_mm());
    std::array::from_fn(|a| {
        let ends = |pick: fn(f64, f64) -> f64, start: f64| {
            corners.iter().map(|corner| corner[a]).fold(start, pick)
        };
        let (low, high) = (ends(f64::min, f64::INFINITY), ends(f64::max, f64::NEG_INFINITY));
        [(low + 0.5) * spacing[a], (shape[a] as f64 - 0.5 - high) * spacing[a]]
    })
}

/// The same image with other margins; what is added has the smallest value of the image, as air has.
fn resized(image: &Volume<f32>, now: &Margins, then: &Margins) -> anyhow::Result<Volume<f32>> {
    let (geometry, shape) = (image.geometry(), image.shape());
    let spacing = geometry.spacing_mm();
    // Voxels that are added at an end; negative: taken away. Never more than what lies beyond.
    let added: [[i64; 2]; 3] = std::array::from_fn(|a| {
        std::array::from_fn(|end| {
            let voxels = (then[a][end] - now[a][end]) / spacing[a];
            if now[a][end] < 0.0 && voxels < 0.0 { 0 } else { voxels.trunc() as i64 }
        })
    });
    let new_shape: [usize; 3] =
        std::array::from_fn(|a| (shape[a] as i64 + added[a][0] + added[a][1]).max(1) as usize);
    let start = Vector3::from_fn(|a, _| -(added[a][0] as f64));
    let grid =
        Geometry::new(new_shape, *geometry.matrix(), geometry.to_lps(VoxelIndex(start.into())))?;
    let air = image.data().iter().copied().filter(|v| v.is_finite()).fold(f32::INFINITY, f32::min);
    Ok(Volume::from_fn(grid, |i, j, k| {
        let at: [i64; 3] = std::array::from_fn(|a| [i, j, k][a] as i64 - added[a][0]);
        match (0..3).all(|a| (0..shape[a] as i64).contains(&at[a])) {
            true => image.at(at[0] as usize, at[1] as usize, at[2] as usize),
            false => air,
        }
    }))
}
