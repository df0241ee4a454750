//! Connected components for scripts that compare them with other libraries.
//!
//! `components label FOLDER` reads `FOLDER/request.json`, a list of `{"shape": [i, j, k],
//! "connectivity": 6 | 18 | 26, "labels": bool}`, and their voxels one after the other, a byte each, i
//! fastest, from `FOLDER/voxels.raw`; it writes the labels as 32-bit integers to `FOLDER/labels.raw`.
//!
//! `components time N FILE BITS I J K` prints the median and the least milliseconds of N labellings of
//! a mask with 26 neighbours, in 16 or 32 bits a voxel: into new memory, into memory used before, and
//! what the bytes alone take, in new memory.

use bytemuck::Pod;
use pbt_volume::{Components, Connectivity, Geometry, Joining, LargePages, Volume};
use rayon::prelude::*;
use serde::Deserialize;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

#[derive(Deserialize)]
struct Request {
    shape: [usize; 3],
    connectivity: u8,
    labels: bool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["label", folder] => label(Path::new(folder)),
        ["time", count, file, bits, shape @ ..] => {
            let number = |text: &str| text.parse::<usize>().expect("a number");
            let shape = shape.iter().map(|n| number(n)).collect::<Vec<_>>();
            let shape = shape.try_into().expect("three dimensions");
            match *bits {
                "16" => time(number(count), Path::new(file), shape, |label| label as u16),
                _ => time(number(count), Path::new(file), shape, |label| label),
            }
        }
        _ => panic!("usage: components label FOLDER | components time N FILE BITS I J K"),
    }
}

fn volume(shape: [usize; 3], voxels: Vec<u8>) -> Volume<u8> {
    Volume::new(Geometry::isotropic(shape, 1.0).expect("a grid"), voxels)
}

fn label(folder: &Path) {
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a file");
    let requests: Vec<Request> =
        serde_json::from_slice(&read("request.json")).expect("a list of requests");
    let mut voxels = &read("voxels.raw")[..];
    let mut labels = Vec::new();
    for Request { shape, connectivity, labels: same_label } in requests {
        let (here, rest) = voxels.split_at(shape.iter().product());
        voxels = rest;
        let connectivity = match connectivity {
            6 => Connectivity::Six,
            18 => Connectivity::Eighteen,
            _ => Connectivity::TwentySix,
        };
        let joining = Joining { same_label, intensity: None };
        let found =
            Components::new(&volume(shape, here.to_vec()), |v| v != 0, connectivity, joining)
                .and_then(|components| Ok(components.voxels(u32::to_le_bytes)?))
                .expect("memory");
        labels.extend_from_slice(found.as_flattened());
    }
    std::fs::write(folder.join("labels.raw"), labels).expect("a file");
}

fn time<L: Pod + Default + Send + Sync>(
    count: usize,
    file: &Path,
    shape: [usize; 3],
    of_label: impl Fn(u32) -> L + Copy + Sync,
) {
    let mask = volume(shape, std::fs::read(file).expect("a file"));
    let components = || {
        Components::new(black_box(&mask), |v| v != 0, Connectivity::TwentySix, Joining::default())
            .expect("memory")
    };
    let mut used = vec![of_label(1); mask.data().len()];
    let (mut new, mut again, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        new.push(milliseconds(|| components().voxels(of_label).expect("memory")));
        again.push(milliseconds(|| components().fill(&mut used, of_label)));
        // Every byte of the mask is read and every label written, and nothing else is done.
        bytes.push(milliseconds(|| {
            let mut copy = LargePages::zeroed(mask.data().len()).expect("memory");
            let parts = copy.par_chunks_mut(1 << 16).zip(mask.data().par_chunks(1 << 16));
            parts.for_each(|(to, from)| {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = of_label(from.into()));
            });
            copy
        }));
    }
    let times = [new, again, bytes].map(|mut times| {
        times.sort_by(f64::total_cmp);
        [times[times.len() / 2], times[0]]
    });
    let names = ["new", "again", "bytes"].map(str::to_owned);
    let mut answer: serde_json::Map<_, _> =
        names.into_iter().zip(times.map(|times| serde_json::json!(times))).collect();
    answer.insert("components".to_owned(), components().len().into());
    println!("{}", serde_json::Value::from(answer));
}

/// Without the time that it takes to give the result back.
fn milliseconds<T>(work: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    let result = work();
    let elapsed = started.elapsed();
    drop(black_box(result));
    elapsed.as_secs_f64() * 1e3
}
