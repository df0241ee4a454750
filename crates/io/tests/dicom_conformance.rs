//! DICOM series of many scanners against the volumes that a reader should arrive at
//! (`dicom_conformance/cases.csv`).

mod support;

use nalgebra::{Matrix3, Vector3};
use pbt_io::{RawImage, ReadOptions, read_raw, read_raw_with};
use pbt_volume::{Geometry, VoxelIndex};
use std::path::{Path, PathBuf};
use support::data;

/// What the table allows.
const AFFINE_MM: f64 = 1e-3;

struct Case {
    name: String,
    must: String,
    folder: PathBuf,
    /// File and whether it has several time points.
    references: Vec<(PathBuf, usize)>,
}

fn cases(data: &Path) -> Vec<Case> {
    let table = std::fs::read_to_string(data.join("dicom_conformance/cases.csv")).unwrap();
    let case = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let folder = data.join("dicom_conformance").join(fields[0]);
        let reference = |text: &str| {
            let (file, shape) = text.trim().split_once(' ').unwrap();
            let frames = shape.split('x').nth(3).map_or(1, |n| n.parse().unwrap());
            (folder.join("ref").join(file), frames)
        };
        let references = fields[4].split(';').map(reference).collect();
        Case {
            name: fields[0].to_owned(),
            must: fields[1].to_owned(),
            folder: folder.join("dicom"),
            references,
        }
    };
    table.lines().skip(1).map(case).collect()
}

/// Why two images are not the same volume in the world; `None` when they are.
fn difference(ours: &RawImage, reference: &RawImage) -> Option<String> {
    let (a, b) = (ours.geometry(), reference.geometry());
    // The step matrices must differ by a signed permutation.
    let relative: Matrix3<f64> = a.matrix().try_inverse().unwrap() * b.matrix();
    let rounded = relative.map(f64::round);
    if (0..3).any(|n| rounded.column(n).abs().sum() != 1.0 || rounded.row(n).abs().sum() != 1.0) {
        return Some(format!("axes differ: {relative}"));
    }
    let shape = Vector3::from(b.shape().map(|n| n as f64));
    if (rounded.abs() * shape).iter().zip(a.shape()).any(|(&n, m)| n != m as f64) {
        return Some(format!("shapes differ: {:?}, {:?}", a.shape(), b.shape()));
    }
    let first = a.to_index(b.to_lps(VoxelIndex::new(0.0, 0.0, 0.0))).0.map(f64::round);
    let twin = |i: f64, j: f64, k: f64| rounded * Vector3::new(i, j, k) + first.coords;
    for corner in 0..8 {
        let [i, j, k]: [f64; 3] =
            std::array::from_fn(
                |n| if corner >> n & 1 == 1 { b.shape()[n] as f64 - 1.0 } else { 0.0 },
            );
        let index = twin(i, j, k);
        let distance =
            a.to_lps(VoxelIndex(index.into())).distance_mm(&b.to_lps(VoxelIndex::new(i, j, k)));
        if distance > AFFINE_MM {
            return Some(format!("the corner {i}, {j}, {k} lies {distance} mm apart"));
        }
    }
    let (ours, theirs) = (ours.to_f64(), reference.to_f64());
    let ([nx, ny, _], [rx, ry, rz]) = (a.shape(), b.shape());
    for (i, j, k) in
        (0..rz).flat_map(|k| (0..ry).flat_map(move |j| (0..rx).map(move |i| (i, j, k))))
    {
        let index = twin(i as f64, j as f64, k as f64).map(|v| v as usize);
        let (x, y) =
            (ours[index[0] + nx * (index[1] + ny * index[2])], theirs[i + rx * (j + ry * k)]);
        // References keep slopes as f32.
        if x as f32 != y as f32 {
            return Some(format!("the voxel {i}, {j}, {k} is {x}, not {y}"));
        }
    }
    None
}

fn with_step(image: &RawImage, step: Vector3<f64>) -> RawImage {
    let mut matrix = *image.geometry().matrix();
    matrix.set_column(2, &step);
    let geometry =
        Geometry::new(image.geometry().shape(), matrix, image.geometry().origin()).unwrap();
    RawImage::new(geometry, image.voxel_type(), image.bytes().to_vec(), image.scaling()).unwrap()
}

fn options(series: Option<String>, frame: Option<usize>) -> ReadOptions {
    ReadOptions { series, frame, ..ReadOptions::default() }
}

/// All volumes that a path holds, each as it would be chosen.
fn volumes(path: &Path) -> Result<Vec<RawImage>, pbt_io::IoError> {
    let mut volumes = Vec::new();
    for series in pbt_io::list_series(path)? {
        let mut frame = 0;
        loop {
            match read_raw_with(path, &options(Some(series.label.clone()), Some(frame))) {
                Ok(loaded) => volumes.push(loaded.raw),
                Err(error) if error.to_string().contains("there is no frame") => break,
                Err(error) => return Err(error),
            }
            frame += 1;
        }
    }
    Ok(volumes)
}

#[test]
fn every_case_does_what_it_must() {
    let Some(data) = data() else { return };
    let mut equal = 0;
    for case in cases(&data) {
        let ours = match volumes(&case.folder) {
            Ok(ours) => ours,
            Err(error) => {
                println!("{}: refused: {error}", case.name);
                assert!(
                    case.must != "equal" && !error.to_string().contains('\n'),
                    "{}: {error}",
                    case.name
                );
                // What is refused here needs a decoder that this build leaves out.
                assert!(
                    case.name == "ts_8"
                        && !cfg!(feature = "jpeg-ls")
                        && error.to_string().contains("jpeg-ls"),
                    "{}: {error}",
                    case.name
                );
                continue;
            }
        };
        let mut references = Vec::new();
        for (file, frames) in &case.references {
            references.extend(
                (0..*frames)
                    .map(|frame| read_raw_with(file, &options(None, Some(frame))).unwrap().raw),
            );
        }
        // dcm2niix multiplies by Philips' private scale; the standard knows RescaleSlope alone. The
        // stored values must agree.
        let philips = case.name == "philips_enhanced_b0";
        let stored = |raw: RawImage| {
            RawImage::new(raw.geometry().clone(), raw.voxel_type(), raw.bytes().to_vec(), None)
                .unwrap()
        };
        let (ours, references): (Vec<_>, Vec<_>) = if philips {
            (ours.into_iter().map(stored).collect(), references.into_iter().map(stored).collect())
        } else {
            (ours, references)
        };
        // The positions in these files step by 2.5 mm straight up. dcm2niix writes a step of 2.37
        // mm into the sheared volume (the distance of the planes, along the wrong direction; its
        // resampled volume is right), so the truth is put in.
        let tilted = case.name == "ct_tilt_philips";
        let references: Vec<_> = references
            .into_iter()
            .map(|r| if tilted { with_step(&r, Vector3::new(0.0, 0.0, 2.5)) } else { r })
            .collect();
        // One volume: equal to one of the references. Several: each to its own.
        let differences = |volume: &RawImage| {
            references.iter().map(|r| difference(volume, r)).collect::<Vec<_>>()
        };
        for (n, volume) in ours.iter().enumerate() {
            let found = differences(volume);
            let twin = if ours.len() == references.len() && ours.len() > 1 && !philips {
                found[n].is_none()
            } else {
                found.contains(&None)
            };
            assert!(twin, "{} volume {n} of {}: {found:?}", case.name, ours.len());
        }
        let several = ours.len() > 1;
        let alone = read_raw(&case.folder);
        assert_eq!(alone.is_err(), several, "{}", case.name);
        if let Err(error) = alone {
            let text = error.to_string();
            println!("{}: {text}", case.name);
            assert!(text.contains("--frame") || text.contains("--series"), "{text}");
        }
        equal += 1;
    }
    assert_eq!(equal, if cfg!(feature = "jpeg-ls") { 22 } else { 21 });
}
