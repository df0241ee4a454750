//! Connected components for scripts that compare them with other libraries.
//!
//! `components label FOLDER` reads `FOLDER/request.json`, a list of `{"shape": [i, j, k],
//! "connectivity": 6 | 18 | 26, "labels": bool}`, and their voxels one after the other, a byte each, i
//! fastest, from `FOLDER/voxels.raw`; it writes the labels as 32-bit integers to `FOLDER/labels.raw`.
//!
//! `components time N FILE I J K` prints milliseconds of N labellings of a mask with 26 neighbours:
//! into new memory, into memory used before, and what the bytes alone take.

use pbt_volume::{Components, Connectivity, Geometry, Joining, Volume};
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
        ["time", count, file, shape @ ..] => {
            let number = |text: &str| text.parse::<usize>().expect("a number");
            let shape = shape.iter().map(|n| number(n)).collect::<Vec<_>>();
            time(number(count), Path::new(file), shape.try_into().expect("three dimensions"));
        }
        _ => panic!("usage: components label FOLDER | components time N FILE I J K"),
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
        labels.extend(found.into_flattened());
    }
    std::fs::write(folder.join("labels.raw"), labels).expect("a file");
}

fn time(count: usize, file: &Path, shape: [usize; 3]) {
    let mask = volume(shape, std::fs::read(file).expect("a file"));
    let components = || {
        Components::new(black_box(&mask), |v| v != 0, Connectivity::TwentySix, Joining::default())
            .expect("memory")
    };
    let mut used: Vec<u32> = vec![1; mask.data().len()];
    let (mut new, mut again, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        new.push(milliseconds(|| components().voxels(|label| label).expect("memory")));
        again.push(milliseconds(|| components().fill(&mut used, |label| label)));
        // Every byte of the mask is read and every label written, and nothing else is done.
        bytes.push(milliseconds(|| {
            let mut copy = vec![0u32; mask.data().len()];
            let parts = copy.par_chunks_mut(1 << 16).zip(mask.data().par_chunks(1 << 16));
            parts.for_each(|(to, from)| {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = from.into());
            });
            copy
        }));
    }
    println!(
        "{{\"components\": {}, \"new\": {:.3}, \"again\": {:.3}, \"bytes\": {:.3}}}",
        components().len(),
        median(new),
        median(again),
        median(bytes)
    );
}

/// Without the time that it takes to give the result back.
fn milliseconds<T>(work: impl FnOnce() -> T) -> f64 {
    let started = Instant::now();
    let result = work();
    let elapsed = started.elapsed();
    drop(black_box(result));
    elapsed.as_secs_f64() * 1e3
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
