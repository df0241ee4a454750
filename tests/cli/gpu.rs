//! Whole trainings and detections on a GPU: the same bytes as from the CPU, but for the record of
//! the run. Without a GPU these tests say that they are skipped; with PBT_REQUIRE_GPU=1 they fail.

use crate::channels::two;
use crate::column::column;
use crate::determinism::VARIANTS;
use crate::instances::cells;
use crate::landmarks::with_landmarks;
use crate::sets::set;
use crate::support::{TEST, TRAINING, pbt, program, read_json, scratch, small_and, text, tiny};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether there is a GPU.
pub(crate) fn gpu() -> bool {
    let outcome = pbt(["info", "--devices", "--json"]).exits_with(0);
    let listed: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let there = listed["devices"].as_array().unwrap().iter().any(|device| device["kind"] == "gpu");
    assert!(there || std::env::var_os("PBT_REQUIRE_GPU").is_none(), "{listed}");
    if !there {
        println!("skipped: {}", outcome.stderr.trim());
    }
    there
}

/// A training and the images to detect in.
struct Chain<'a> {
    data: &'a Path,
    settings: String,
    more: &'a [&'a str],
    images: Vec<PathBuf>,
}

impl<'a> Chain<'a> {
    /// On the tiny data set or one like it, with these settings beside the small ones.
    fn of_one_box(data: &'a Path, settings: &str, more: &'a [&'a str]) -> Self {
        let settings = small_and(&[settings]);
        let image = |n: usize| data.join(format!("c{n}.nii.gz"));
        Self { data, settings, more, images: (TRAINING..TRAINING + TEST).map(image).collect() }
    }

    /// Four look-alikes with a network, a test of their level and a landmark.
    fn of_several_boxes() -> Self {
        Self {
            data: column().folder(),
            settings: std::fs::read_to_string(column().config()).unwrap(),
            more: &[],
            images: column().images().into_iter().chain([column().part()]).collect(),
        }
    }

    /// What occurs many times beside what occurs once.
    fn of_cells_and_a_core() -> Self {
        Self {
            data: cells().folder(),
            settings: std::fs::read_to_string(cells().config()).unwrap(),
            more: &[],
            images: cells().images(),
        }
    }
}

/// Trains and detects; the model, and what was found by image.
fn trained_and_detected(
    chain: &Chain<'_>,
    device: &str,
    images_mb: Option<u32>,
) -> (Vec<u8>, Vec<Value>) {
    let out = scratch();
    let (config, model) = (out.path().join("c.toml"), out.path().join("m.pbt"));
    std::fs::write(&config, &chain.settings).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program("pbt"));
        command.args(arguments).args(["-q", "--device", device]);
        if let Some(mb) = images_mb {
            command.env("PBT_GPU_IMAGES_MB", mb.to_string());
        }
        let output = command.output().expect("the program starts");
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run(&[
        ["train", "-i", text(chain.data), "-o", text(&model), "--config", text(&config)].as_slice(),
        chain.more,
    ]
    .concat());
    let found = chain.images.iter().map(|image| {
        run(&["detect", "-m", text(&model), "-i", text(image), "-o", text(out.path())]);
        let name = image.file_name().unwrap().to_str().unwrap().replace("nii.gz", "json");
        let mut result = read_json(&out.path().join(name));
        assert_eq!(result["run"]["device"]["kind"], device);
        result.as_object_mut().unwrap().remove("run");
        result
    });
    let found = found.collect();
    (std::fs::read(&model).unwrap(), found)
}

#[test]
fn a_gpu_gives_the_same_models_and_detections_cuda() {
    if !gpu() {
        return;
    }
    let landmarks = with_landmarks(3);
    let variants =
        VARIANTS.map(|(settings, more)| Chain::of_one_box(tiny().folder(), settings, more));
    let with_close_up = ["", "[working]\nspacing_mm = 3.6\n[landmarks]\nhalvings = 1\n"]
        .map(|settings| Chain::of_one_box(landmarks.path(), settings, &[]));
    let several = [Chain::of_several_boxes(), Chain::of_cells_and_a_core()];
    for chain in variants.into_iter().chain(with_close_up).chain(several) {
        is_the_same_on_a_gpu(&chain);
    }
}

/// In images large enough for search regions.
#[test]
fn a_gpu_searches_in_the_same_regions_cuda() {
    if !gpu() {
        return;
    }
    let Some(data) = set("head_neck_ct") else { return };
    let image = |name: &str| data.join("images").join(format!("{name}.nii.gz"));
    let chain = Chain {
        data: &data,
        settings: std::fs::read_to_string(tiny().quick_config()).unwrap(),
        more: &["--cases", "8", "--no-segmentation"],
        images: ["okbp_017", "okbp_024", "okbp_034"].map(image).to_vec(),
    };
    is_the_same_on_a_gpu(&chain);
}

#[test]
fn a_gpu_gives_the_same_of_several_channels_cuda() {
    if !gpu() {
        return;
    }
    let images = (TRAINING..TRAINING + TEST).map(|n| two().channel(n, 0)).collect();
    is_the_same_on_a_gpu(&Chain { images, ..Chain::of_one_box(two().folder(), "", &[]) });
}

fn is_the_same_on_a_gpu(chain: &Chain<'_>) {
    let expected = trained_and_detected(chain, "cpu", None);
    assert!(
        !expected.1.is_empty()
            && expected.1.iter().all(|result| result["detections"][0]["name"].is_string())
    );
    // With all images on the device, and with two megabytes of them, which is one or two.
    for images_mb in [None, Some(2)] {
        let found = trained_and_detected(chain, "gpu", images_mb);
        let what = format!("{} {:?} {images_mb:?}", chain.settings, chain.more);
        assert!(found.0 == expected.0, "{what}: another model");
        assert_eq!(found.1, expected.1, "{what}");
    }
}

#[test]
fn a_limit_that_is_no_number_is_refused() {
    let out = scratch();
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    let mut command = Command::new(program("pbt"));
    command
        .args(["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())])
        .env("PBT_GPU_IMAGES_MB", "half");
    let output = command.output().expect("the program starts");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with("error: PBT_GPU_IMAGES_MB: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}
