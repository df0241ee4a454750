//! Images of several channels: a gland that only the second channel shows, in every form in which
//! such images come.

use crate::gpu::gpu;
use crate::support::{
    Outcome, TEST, TRAINING, lasting, pbt, read_json, refused, scratch, text, tiny,
};
use pbt_io::{RawImage, VoxelType, read_image, read_raw, write_image};
use pbt_volume::{Geometry, PointLps, VoxelIndex};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["noise", "signal"];

/// The tiny data set with a first channel of noise, as a list of files a case, and a model of it.
struct Two {
    folder: TempDir,
}

impl Two {
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn model(&self) -> PathBuf {
        self.folder().join("two.pbt")
    }

    /// The file of a channel of a case.
    fn channel(&self, case: usize, channel: usize) -> PathBuf {
        self.folder().join(format!("c{case}_{channel:04}.nii.gz"))
    }
}

fn train(data: &Path, model: &Path, more: &[&str]) -> Outcome {
    let config = tiny().config();
    let arguments = ["train", "-i", text(data), "-o", text(model), "--config", text(&config)];
    pbt(arguments.iter().chain(more))
}

fn two() -> &'static Two {
    static TWO: OnceLock<Two> = OnceLock::new();
    TWO.get_or_init(|| {
        let two = Two { folder: lasting() };
        for n in 0..TRAINING + TEST {
            let signal = read_raw(&tiny().folder().join(format!("c{n}.nii.gz"))).unwrap().raw;
            let mut random = ChaCha8Rng::seed_from_u64(n as u64);
            let noise = (0..signal.bytes().len()).map(|_| random.next_u32() as u8).collect();
            let noise = RawImage::new(signal.geometry().clone(), VoxelType::U8, noise, None);
            write_image(&two.channel(n, 0), &noise.unwrap()).unwrap();
            write_image(&two.channel(n, 1), &signal).unwrap();
            let markups = format!("c{n}.mrk.json");
            std::fs::copy(tiny().folder().join(&markups), two.folder().join(&markups)).unwrap();
        }
        let image = |n: usize| json!([format!("c{n}_0000.nii.gz"), format!("c{n}_0001.nii.gz")]);
        write_dataset(two.folder(), Some(&NAMES), image);
        train(two.folder(), &two.model(), &["--quick", "--threads", "2"]).exits_with(0);
        two
    })
}

/// A `dataset.json` of the cases of [`two`], whose annotations lie in its folder.
fn write_dataset(folder: &Path, names: Option<&[&str]>, image: impl Fn(usize) -> Value) {
    let cases: Vec<Value> = (0..TRAINING + TEST)
        .map(|n| {
            json!({ "id": format!("c{n}"), "image": image(n), "annotations": format!("c{n}.mrk.json"),
                    "split": if n < TRAINING { "train" } else { "test" } })
        })
        .collect();
    let mut dataset = json!({
        "schema": "pbt-dataset/1", "name": "two", "modality": "noise",
        "structures": [{ "name": "gland", "kind": "box" }], "cases": cases,
    });
    if let Some(names) = names {
        dataset["channels"] = json!(names);
    }
    std::fs::write(folder.join("dataset.json"), dataset.to_string()).unwrap();
}

/// A folder with the annotations of [`two`] only.
fn with_annotations() -> TempDir {
    let folder = scratch();
    for n in 0..TRAINING + TEST {
        let name = format!("c{n}.mrk.json");
        std::fs::copy(two().folder().join(&name), folder.path().join(&name)).unwrap();
    }
    folder
}

/// One NIfTI file of these volumes of 8 bits, one after the other.
fn write_4d(path: &Path, channels: &[PathBuf]) {
    let volumes: Vec<RawImage> = channels.iter().map(|c| read_raw(c).unwrap().raw).collect();
    write_image(path, &volumes[0]).unwrap();
    let mut bytes = std::fs::read(path).unwrap();
    assert_eq!(i32::from_le_bytes(bytes[..4].try_into().unwrap()), 348);
    bytes[40..42].copy_from_slice(&4i16.to_le_bytes());
    bytes[48..50].copy_from_slice(&(volumes.len() as i16).to_le_bytes());
    for volume in &volumes[1..] {
        bytes.extend_from_slice(volume.bytes());
    }
    std::fs::write(path, bytes).unwrap();
}

fn detect(model: &Path, images: &[&Path], out: &Path) -> Outcome {
    let images = images.iter().flat_map(|image| ["-i", text(image)]);
    pbt(["detect", "-m", text(model), "-o", text(out)].into_iter().chain(images))
}

/// How far a result's gland lies from the annotated one, mm.
fn off_mm(result: &Value, case: usize) -> f64 {
    let markups = read_json(&tiny().folder().join(format!("c{case}.mrk.json")));
    let truth = &markups["markups"][0]["center"];
    let found = &result["detections"][0]["position_lps_mm"];
    let square = |a: usize| (truth[a].as_f64().unwrap() - found[a].as_f64().unwrap()).powi(2);
    // Absent: as wrong as can be.
    if found.is_null() { f64::INFINITY } else { (0..3).map(square).sum::<f64>().sqrt() }
}

/// All of a result but what tells of the run and of the case.
fn without_run(path: &Path) -> Value {
    let mut result = read_json(path);
    for key in ["run", "case_id"] {
        result.as_object_mut().unwrap().remove(key);
    }
    result
}

#[test]
fn what_only_the_second_channel_shows_is_found_with_both_and_not_with_the_first() {
    let (two, out) = (two(), scratch());
    let alone = with_annotations();
    write_dataset(alone.path(), None, |n| json!(text(&two.channel(n, 0))));
    let model = alone.path().join("first.pbt");
    train(alone.path(), &model, &["--quick"]).exits_with(0);
    let (mut both, mut first) = (Vec::new(), Vec::new());
    for n in TRAINING..TRAINING + TEST {
        let channels = [two.channel(n, 0), two.channel(n, 1)];
        detect(&two.model(), &[&channels[0], &channels[1]], out.path()).exits_with(0);
        let result = out.path().join(format!("c{n}_0000.json"));
        both.push(off_mm(&read_json(&result), n));
        detect(&model, &[&channels[0]], out.path()).exits_with(0);
        first.push(off_mm(&read_json(&result), n));
    }
    println!("both: {both:?}, the first alone: {first:?}");
    // The gland is 40 mm across.
    assert!(both.iter().all(|&mm| mm < 4.0), "{both:?}");
    assert!(first.iter().sum::<f64>() > 4.0 * both.iter().sum::<f64>(), "{first:?}");
}
