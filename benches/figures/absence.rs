//! Are structures called absent where they are absent? Crops of test volumes that leave structures
//! out, and images of other body parts.

use nalgebra::Vector3;
use pbt::session::{LoadedModel, Wanted, read_cases};
use pbt_cpu::Cpu;
use pbt_detect::Detection;
use pbt_evaluate::Proportion;
use pbt_io::Dataset;
use pbt_volume::{Geometry, PointLps, Status, Volume, VoxelIndex};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::path::Path;

/// A structure is out of view when its centre lies so far outside the image, mm.
const OUTSIDE_MM: f64 = 5.0;

/// The most by which a crop ends farther from the centre than that, as a share of the structure's
/// mean size.
const FARTHER: f64 = 0.8;

/// A crop keeps this share of the image's length at least.
const KEPT: f64 = 0.3;

/// Answers by status.
#[derive(Default)]
struct Count {
    found: usize,
    doubtful: usize,
    absent: usize,
}

impl Count {
    fn add(&mut self, status: Status) {
        match status {
            Status::Found => self.found += 1,
            Status::Doubtful => self.doubtful += 1,
            Status::Outside | Status::Absent => self.absent += 1,
        }
    }

    fn print(&self, what: &str) {
        let n = self.found + self.doubtful + self.absent;
        let sure = 100.0 * self.found as f64 / n.max(1) as f64;
        println!(
            "  {what:52} {n:5}: found {} ({sure:.1} %), doubtful {}, absent {}",
            self.found, self.doubtful, self.absent
        );
    }
}

/// Images in which structures are absent. One image may lack several, and they are wrong together,
/// so that the share of good images says more than the share of good answers.
#[derive(Default)]
struct Images {
    /// Answers about absent structures.
    answers: Count,
    /// Images that lack a structure; good where no absent one is called found.
    good: Proportion,
    /// Images that detection refused: smaller than the features reach, or flat.
    refused: usize,
}

impl Images {
    /// Counts an image with what is said of its absent structures; with none it says nothing.
    fn add(&mut self, absent: impl Iterator<Item = Status>) -> Option<bool> {
        let mut good = None;
        for status in absent {
            self.answers.add(status);
            good = Some(good.unwrap_or(true) && status != Status::Found);
        }
        good.inspect(|&good| self.good.add(good))
    }

    fn print(&self, what: &str, answers: &str) {
        self.answers.print(answers);
        println!(
            "  {what}: all absent structures doubtful or absent in {}; {} more refused",
            self.good, self.refused
        );
    }
}

/// Detects in the split as it is, in `crops` crops of each of its volumes, and in the test volumes
/// of other data sets.
pub(crate) fn run(
    model: &str,
    dataset: &str,
    split: &str,
    crops: usize,
    others: &[String],
) -> anyhow::Result<()> {
    let fail = |f: pbt::Failure| anyhow::anyhow!("{f}");
    let model = LoadedModel::open(Path::new(model)).map_err(fail)?.model;
    let dataset = Dataset::load(Path::new(dataset))?;
    let names: Vec<String> = model.structures.iter().map(|s| s.name.clone()).collect();
    let wanted = Wanted::new(&dataset, &names).map_err(fail)?;
    let cases: Vec<_> = dataset.split(split).cloned().collect();
    let (mut whole, mut inside) = (Count::default(), Count::default());
    let (mut cropped, mut elsewhere) = (Images::default(), Images::default());
    // Crops of one volume are much alike.
    let mut volumes = Proportion::default();
    for (n, case) in read_cases(&dataset, &cases, &wanted).map_err(fail)?.iter().enumerate() {
        let image = case.spec.read_image()?.volume;
        let centre = |d: &Detection| {
            case.boxes.iter().find(|(name, _)| *name == d.name).map(|(_, pose)| pose.center)
        };
        for d in model
            .detect(&Cpu, std::slice::from_ref(&image))?
            .detections
            .iter()
            .filter(|d| centre(d).is_some())
        {
            whole.add(d.status);
        }
        let mut random = ChaCha8Rng::seed_from_u64(2000 + n as u64);
        let numbers = image.numbers();
        let mut good = None;
        for _ in 0..crops {
            let (_, pose) = &case.boxes[random.next_u32() as usize % case.boxes.len()];
            let size = pose.size_mm.iter().product::<f64>().cbrt();
            let Some(part) =
                (0..50).find_map(|_| crop(&numbers, pose.center, FARTHER * size, &mut random))
            else {
                continue;
            };
            let Ok(found) = model.detect(&Cpu, &[part.clone().into()]) else {
                cropped.refused += 1;
                continue;
            };
            // Between the two it is neither there nor not.
            let mut absent = Vec::new();
            for d in &found.detections {
                let Some(at) = centre(d) else { continue };
                match beyond_mm(part.geometry(), at) {
                    mm if mm >= OUTSIDE_MM => absent.push(d.status),
                    mm if mm <= -0.5 * size => inside.add(d.status),
                    _ => {}
                }
            }
            if let Some(this) = cropped.add(absent.into_iter()) {
                good = Some(good.unwrap_or(true) && this);
            }
        }
        good.into_iter().for_each(|good| volumes.add(good));
    }
    for other in others {
        let other = Dataset::load(Path::new(other))?;
        for case in other.split("test") {
            match model.detect(&Cpu, &case.read_image()?.channels()) {
                Ok(found) => {
                    elsewhere.add(found.detections.iter().map(|d| d.status));
                }
                Err(_) => elsewhere.refused += 1,
            }
        }
    }
    println!("{}: {} volumes", dataset.name, cases.len());
    whole.print("whole volumes, structures that are there");
    inside.print("crops, centre half of its size or more inside");
    cropped.print("crops", &format!("crops, centre {OUTSIDE_MM} mm or more outside"));
    println!("  volumes: the same in all crops of {volumes}");
    elsewhere.print("images of other body parts", "other body parts");
    Ok(())
}

/// How far a point lies beyond the nearest face of an image, mm; negative inside.
fn beyond_mm(geometry: &Geometry, point: PointLps) -> f64 {
    let (at, shape, spacing) =
        (geometry.to_index(point).0, geometry.shape(), geometry.spacing_mm());
    let beyond = |a: usize| (-0.5 - at[a]).max(at[a] - (shape[a] as f64 - 0.5)) * spacing[a];
    (0..3).map(beyond).fold(f64::NEG_INFINITY, f64::max)
}

/// One side of a plane of voxels that leaves a point out; `None` where too little would be left.
fn crop(
    image: &Volume<f32>,
    point: PointLps,
    farther_mm: f64,
    random: &mut ChaCha8Rng,
) -> Option<Volume<f32>> {
    let (geometry, shape) = (image.geometry(), image.shape());
    let (axis, upper) = (random.next_u32() as usize % 3, random.next_u32().is_multiple_of(2));
    let share = f64::from(random.next_u32()) / f64::from(u32::MAX);
    let away = (OUTSIDE_MM + share * farther_mm) / geometry.spacing_mm()[axis] + 0.5;
    let at = geometry.to_index(point).0[axis];
    let (first, end) = if upper {
        ((at + away).ceil(), shape[axis] as f64)
    } else {
        (0.0, (at - away).floor() + 1.0)
    };
    if first < 0.0 || end > shape[axis] as f64 || end - first < (KEPT * shape[axis] as f64).max(2.0)
    {
        return None;
    }
    let (first, end) = (first as usize, end as usize);
    let mut start = Vector3::zeros();
    start[axis] = first as f64;
    let mut part = shape;
    part[axis] = end - first;
    let grid =
        Geometry::new(part, *geometry.matrix(), geometry.to_lps(VoxelIndex(start.into()))).ok()?;
    let from: [usize; 3] = std::array::from_fn(|a| if a == axis { first } else { 0 });
    Some(Volume::from_fn(grid, |i, j, k| image.at(i + from[0], j + from[1], k + from[2])))
}
