//! Bad input, through the command line: one clear line that names file and field, the documented
//! exit code, earlier results intact.

use crate::support::{contents, pbt, read_json, refused, scratch, text, tiny, tiny_copy, train};
use pbt_io::{RawImage, VoxelType, read_image, write_image};
use pbt_volume::{Geometry, PointLps, VoxelIndex};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Detects in an image, which must be refused with a line that holds all `parts`, and checks that
/// results that are there stay.
#[track_caller]
fn detection_refused(image: &Path, parts: &[&str]) {
    let out = scratch();
    for name in ["older.json", "older.mrk.json"] {
        std::fs::write(out.path().join(name), "results of yesterday").unwrap();
    }
    let before = contents(out.path());
    let model = tiny().model();
    refused(
        pbt(["detect", "-m", text(&model), "-i", text(image), "-o", text(out.path())]),
        4,
        &[&[text(image)], parts].concat(),
    );
    assert_eq!(contents(out.path()), before);
}

/// Trains on data that must be refused with a line that holds all `parts`, and checks that an older
/// model stays and nothing is added.
#[track_caller]
fn training_refused(data: &Path, parts: &[&str]) {
    let out = scratch();
    let model = out.path().join("m.pbt");
    std::fs::copy(tiny().model(), &model).unwrap();
    let before = contents(out.path());
    refused(train(data, &model, &[]), 4, parts);
    assert_eq!(contents(out.path()), before);
}

fn edit_dataset(folder: &Path, change: impl FnOnce(&mut Value)) {
    let path = folder.join("dataset.json");
    let mut dataset = read_json(&path);
    change(&mut dataset);
    std::fs::write(path, dataset.to_string()).unwrap();
}

/// An image of the tiny data set as the bytes of an uncompressed NIfTI file.
fn nifti() -> Vec<u8> {
    let folder = scratch();
    let path = folder.path().join("a.nii");
    pbt(["convert", text(&tiny().folder().join("c7.nii.gz")), text(&path)]).exits_with(0);
    std::fs::read(path).unwrap()
}

/// Writes an image file whose bytes are changed first.
fn spoilt(folder: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = nifti();
    change(&mut bytes);
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Field offsets of the NIfTI-1 header (nifti1.h).
const DIM: usize = 40;
const PIXDIM: usize = 76;
const QFORM_CODE: usize = 252;
const SFORM_CODE: usize = 254;
const SROW: usize = 280;

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

#[test]
fn files_that_are_no_images() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    detection_refused(&at("missing.nii.gz"), &["file: "]);
    std::fs::create_dir(at("folder.nii")).unwrap();
    detection_refused(&at("folder.nii"), &["folder: holds no DICOM file"]);
    std::fs::write(at("empty.nii"), "").unwrap();
    detection_refused(&at("empty.nii"), &[]);
    std::fs::write(at("empty.nii.gz"), "").unwrap();
    detection_refused(&at("empty.nii.gz"), &[]);
    for keep in [100, 348, 352, 5000] {
        detection_refused(
            &spoilt(folder.path(), &format!("cut{keep}.nii"), |bytes| bytes.truncate(keep)),
            &[],
        );
    }
    let packed = std::fs::read(tiny().folder().join("c7.nii.gz")).unwrap();
    for keep in [5, 200, packed.len() - 4] {
        std::fs::write(at("cut.nii.gz"), &packed[..keep]).unwrap();
        detection_refused(&at("cut.nii.gz"), &[]);
    }
}

#[test]
fn headers_that_lie() {
    let folder = scratch();
    // 10^12 voxels of one byte in a file of a few hundred kilobytes: refused before memory is asked
    // for.
    let huge = spoilt(folder.path(), "huge.nii", |bytes| {
        put(bytes, DIM + 2, &[10_000i16; 3].map(i16::to_le_bytes).concat())
    });
    detection_refused(&huge, &["voxel data: the header asks for 1000000000000 bytes"]);
    for (name, size) in [("zero.nii", 0i16), ("negative.nii", -5)] {
        detection_refused(
            &spoilt(folder.path(), name, |bytes| put(bytes, DIM + 2, &size.to_le_bytes())),
            &["dim"],
        );
    }
    // Spacings count where the qform places the image.
    for (name, spacing) in
        [("spacing0.nii", 0.0f32), ("spacing-1.nii", -1.0), ("spacing-nan.nii", f32::NAN)]
    {
        let path = spoilt(folder.path(), name, |bytes| {
            put(bytes, QFORM_CODE, &1i16.to_le_bytes());
            put(bytes, SFORM_CODE, &0i16.to_le_bytes());
            put(bytes, PIXDIM + 4, &spacing.to_le_bytes());
        });
        detection_refused(&path, &["pixdim"]);
    }
    let singular = spoilt(folder.path(), "singular.nii", |bytes| {
        put(bytes, QFORM_CODE, &0i16.to_le_bytes());
        let row = bytes[SROW..SROW + 12].to_vec();
        put(bytes, SROW + 16, &row);
    });
    detection_refused(&singular, &["sform: the affine is singular"]);
}

fn write_voxels(path: &Path, shape: [usize; 3], spacing_mm: f64, voxel: impl Fn(usize) -> f32) {
    let geometry = Geometry::isotropic(shape, spacing_mm).unwrap();
    let bytes = (0..geometry.len()).flat_map(|n| voxel(n).to_le_bytes()).collect();
    write_image(path, &RawImage::new(geometry, VoxelType::F32, bytes, None).unwrap()).unwrap();
}

#[test]
fn voxels_without_an_image() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let large = [60, 60, 60];
    for (name, value) in [("nan.nii", f32::NAN), ("infinite.nii", f32::INFINITY)] {
        write_voxels(&at(name), large, 1.8, |_| value);
        detection_refused(&at(name), &["voxels: the image has no finite voxel"]);
    }
    write_voxels(&at("constant.nii"), large, 1.8, |_| 7.0);
    detection_refused(&at("constant.nii"), &["voxels: the image is constant"]);
    write_voxels(&at("small.nii"), [3, 3, 3], 1.8, |n| n as f32);
    detection_refused(&at("small.nii"), &["shape: "]);
    write_voxels(&at("vast.nii"), [3, 3, 3], 1e6, |n| n as f32);
    detection_refused(&at("vast.nii"), &["spacing: "]);
}

#[test]
fn some_voxels_that_are_no_numbers_are_a_warning() {
    let (folder, out) = (scratch(), scratch());
    let image = read_image(&tiny().folder().join("c7.nii.gz")).unwrap().volume.numbers();
    let bytes = image.data().iter().enumerate().flat_map(|(n, &v)| match n {
        100 => f32::NAN.to_le_bytes(),
        200 => f32::NEG_INFINITY.to_le_bytes(),
        _ => v.to_le_bytes(),
    });
    let path = folder.path().join("holes.nii");
    write_image(
        &path,
        &RawImage::new(image.geometry().clone(), VoxelType::F32, bytes.collect(), None).unwrap(),
    )
    .unwrap();
    let outcome =
        pbt(["detect", "-m", text(&tiny().model()), "-i", text(&path), "-o", text(out.path())])
            .exits_with(0);
    let warning = outcome
        .stderr
        .lines()
        .find(|line| line.starts_with("warning: "))
        .unwrap_or_else(|| panic!("{}", outcome.stderr));
    assert!(warning.contains(&format!("{}: voxel data: 2 of ", path.display())), "{warning}");
    assert_eq!(read_json(&out.path().join("holes.json"))["warnings"].as_array().unwrap().len(), 1);
}

/// Puts an image of this shape round the annotated centre of a training case, so that only its
/// voxels are wrong.
fn replace_image(data: &Path, shape: [usize; 3], voxel: impl Fn(usize) -> u8) {
    let center = read_json(&data.join("c2.mrk.json"))["markups"][0]["center"].clone();
    let origin = [0, 1, 2].map(|a| center[a].as_f64().unwrap() - (shape[a] / 2) as f64);
    let geometry = Geometry::new(
        shape,
        nalgebra::Matrix3::identity(),
        PointLps::new(origin[0], origin[1], origin[2]),
    )
    .unwrap();
    let bytes = (0..geometry.len()).map(voxel).collect();
    write_image(
        &data.join("c2.nii.gz"),
        &RawImage::new(geometry, VoxelType::U8, bytes, None).unwrap(),
    )
    .unwrap();
}

#[test]
fn a_constant_image_cannot_be_trained_on() {
    let data = tiny_copy();
    replace_image(data.path(), [60, 60, 60], |_| 9);
    training_refused(data.path(), &["dataset.json: case c2: ", "constant"]);
}

#[test]
fn an_image_smaller_than_the_features_cannot_be_trained_on() {
    let data = tiny_copy();
    replace_image(data.path(), [3, 3, 3], |n| n as u8);
    training_refused(data.path(), &["dataset.json: case c2: shape: "]);
}

#[test]
fn annotations_outside_the_image() {
    let data = tiny_copy();
    let image = read_image(&data.path().join("c2.nii.gz")).unwrap().volume;
    let last = image.shape().map(|n| (n - 1) as f64);
    let outside_by = |voxels: f64| {
        let point = image
            .geometry()
            .to_lps(VoxelIndex::new(last[0] + voxels, last[1] / 2.0, last[2] / 2.0))
            .0;
        let path = data.path().join("c2.mrk.json");
        let mut markups = read_json(&path);
        markups["markups"][0]["center"] = json!([point.x, point.y, point.z]);
        std::fs::write(path, markups.to_string()).unwrap();
    };
    outside_by(2.1);
    training_refused(data.path(), &["c2.mrk.json: gland: ", "2.1 voxels outside"]);
    outside_by(1.9);
    let out = scratch();
    let outcome = train(data.path(), &out.path().join("m.pbt"), &[]).exits_with(0);
    let warned = outcome.stderr.lines().any(|line| {
        line.starts_with("warning: ")
            && line.contains("c2.mrk.json: gland")
            && line.contains("is used")
    });
    assert!(warned, "{}", outcome.stderr);
}

#[test]
fn too_few_annotations() {
    for keep in [0, 1] {
        let data = tiny_copy();
        edit_dataset(data.path(), |dataset| {
            for case in dataset["cases"].as_array_mut().unwrap().iter_mut().skip(keep) {
                case.as_object_mut().unwrap().remove("annotations");
            }
        });
        training_refused(
            data.path(),
            &["dataset.json: structures: gland: ", &format!("{keep} annotated training case(s)")],
        );
    }
    let data = tiny_copy();
    edit_dataset(data.path(), |dataset| {
        dataset["cases"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|case| case["split"] = json!("test"))
    });
    training_refused(data.path(), &["dataset.json: cases: none has the split `train`"]);
}

#[test]
fn data_sets_with_mistakes() {
    type Mistake = fn(&mut Value);
    let mistakes: [(Mistake, &[&str]); 5] = [
        (|d| d["cases"][3]["id"] = json!("c1"), &["dataset.json: cases[3].id: ", "c1"]),
        (
            |d| d["cases"][0]["image"] = json!("none.nii.gz"),
            &["dataset.json: cases[0].image: ", "none.nii.gz"],
        ),
        (|d| d["schema"] = json!("pbt-dataset/9"), &["dataset.json: schema: ", "pbt-dataset/9"]),
        (
            |d| d["structures"][0]["kind"] = json!("sphere"),
            &["dataset.json: structures[0].kind: ", "sphere"],
        ),
        (|d| d["structures"] = json!([]), &["dataset.json: structures: "]),
    ];
    for (mistake, parts) in mistakes {
        let data = tiny_copy();
        edit_dataset(data.path(), mistake);
        training_refused(data.path(), parts);
    }
    training_refused(&tiny().folder().join("none"), &["none: file: "]);
    training_refused(&tiny().folder().join("none.nii.gz"), &["none.nii.gz: file: cannot be read"]);
    let image = tiny().folder().join("c7.nii.gz");
    training_refused(&image, &["c7.nii.gz: file: is an image, not a data set (give "]);
    refused(
        pbt(["evaluate", "-m", text(&tiny().model()), "-i", text(&image)]),
        4,
        &["c7.nii.gz: file: is an image, not a data set"],
    );
    let out = scratch();
    refused(
        train(tiny().folder(), &out.path().join("m.pbt"), &["--structure", "glnd"]),
        4,
        &["dataset.json: structures: ", "`glnd`", "gland"],
    );
}

#[test]
fn settings_with_mistakes() {
    let folder = scratch();
    let config = folder.path().join("settings.toml");
    for (settings, parts) in [
        ("[position]\nkep = 3\n", &["settings.toml: line 2: position.kep: "] as &[&str]),
        ("colour = 1\n", &["settings.toml: line 1: ", "`colour`"]),
        ("[position]\nkeep = \"many\"\n", &["settings.toml: line 2: position.keep: "]),
        ("[position]\nkeep = 0\n", &["settings.toml: position.keep: "]),
        ("[orientation]\nrotations = -4\n", &["settings.toml: line 2: orientation.rotations: "]),
        ("[working]\nspacing_mm = nan\n", &["settings.toml: working.spacing_mm: "]),
        ("[position\n", &["settings.toml: line 1: "]),
    ] {
        std::fs::write(&config, settings).unwrap();
        let model = folder.path().join("m.pbt");
        refused(
            pbt([
                "train",
                "-i",
                text(tiny().folder()),
                "-o",
                text(&model),
                "--config",
                text(&config),
            ]),
            4,
            parts,
        );
        assert!(!model.exists());
    }
    let missing = folder.path().join("none.toml");
    let outcome =
        pbt(["train", "-i", text(tiny().folder()), "-o", "m.pbt", "--config", text(&missing)]);
    refused(outcome, 4, &["none.toml: file: "]);
}

#[test]
fn a_slip_of_output_costs_no_file_of_another_kind() {
    let data = tiny_copy();
    let (set, model) = (text(data.path()).to_owned(), data.path().join("m.pbt"));
    std::fs::copy(tiny().model(), &model).unwrap();
    let [dataset, image] = ["dataset.json", "c7.nii.gz"].map(|name| data.path().join(name));
    let before = contents(data.path());
    let (model, dataset, image) = (text(&model), text(&dataset), text(&image));
    let [named_image, picture] = ["new.nii.gz", "odd.png"].map(|name| data.path().join(name));
    let (named_image, picture) = (text(&named_image), text(&picture));
    let slips: [(&[&str], &str); 8] = [
        (&["train", "-i", &set, "-o", named_image], "an image (let it end in .pbt)"),
        (&["validate", &set, "--picture", picture], "an image (let it end in .svg)"),
        (&["train", "-i", &set, "-o", dataset], "is a data set already"),
        (&["train", "-i", &set, "-o", image], "is an image already"),
        (&["evaluate", "-m", model, "-i", &set, "-o", model], "is a model already"),
        (&["evaluate", "-m", model, "-i", &set, "-o", dataset], "is a data set already"),
        (&["validate", &set, "--picture", dataset], "--picture: is a data set already"),
        (&["report", dataset, "-o", dataset], "is a data set already"),
    ];
    for (arguments, what) in slips {
        refused(pbt(arguments), 2, &[what]);
        assert_eq!(contents(data.path()), before, "{arguments:?}");
    }
}

/// Detects with the bytes of a model, which must be rejected.
#[track_caller]
fn model_rejected(bytes: &[u8], parts: &[&str]) {
    let folder = scratch();
    let (model, out) = (folder.path().join("spoilt.pbt"), folder.path().join("out"));
    std::fs::write(&model, bytes).unwrap();
    let outcome = pbt([
        "detect",
        "-m",
        text(&model),
        "-i",
        text(&tiny().folder().join("c7.nii.gz")),
        "-o",
        text(&out),
    ]);
    refused(outcome, 5, &[&["spoilt.pbt: "], parts].concat());
    assert!(!out.exists());
}

#[test]
fn models_that_are_none() {
    let model = std::fs::read(tiny().model()).unwrap();
    for keep in [0, 1, 7, 8, 100, model.len() / 2, model.len() - 1] {
        model_rejected(&model[..keep], &[]);
    }
    model_rejected(b"no model at all, but long enough to have a header", &[]);
    model_rejected(&nifti(), &[]);
    model_rejected(&[0xff; 64], &[]);
    model_rejected(&[&model[..], b"more"].concat(), &[]);

    let version = b"\\\"format_version\\\":";
    let at =
        model.windows(version.len()).position(|w| w == version).expect("the card says its version");
    let mut newer = model.clone();
    newer[at + version.len()] = b'8';
    model_rejected(&newer, &["format_version: version 8"]);

    let image = tiny().folder().join("c7.nii.gz");
    let out = scratch();
    refused(
        pbt(["detect", "-m", text(&image), "-i", text(&image), "-o", text(out.path())]),
        5,
        &["c7.nii.gz: file: is an image, not a model"],
    );
    let missing = out.path().join("none.pbt");
    refused(
        pbt(["detect", "-m", text(&missing), "-i", text(&image), "-o", text(out.path())]),
        4,
        &["none.pbt: file: "],
    );
    refused(
        pbt(["detect", "-m", text(out.path()), "-i", text(&image), "-o", text(out.path())]),
        4,
        &["file: is a folder"],
    );
}

#[test]
fn models_with_a_bit_changed_anywhere() {
    let model = std::fs::read(tiny().model()).unwrap();
    // Places all over the file: the header, the card, every table.
    for n in 0..40 {
        let mut edited = model.clone();
        let at = (edited.len() - 1) * n / 39;
        edited[at] ^= 1 << (n % 8);
        model_rejected(&edited, &[]);
    }
}

#[test]
fn devices_that_are_not_there() {
    let out = scratch();
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    for device in ["gpu", "gpu:3"] {
        let outcome = pbt([
            "detect",
            "-m",
            text(&model),
            "-i",
            text(&image),
            "-o",
            text(out.path()),
            "--device",
            device,
        ]);
        refused(outcome, 6, &["device: gpu:"]);
        refused(
            train(tiny().folder(), &out.path().join("m.pbt"), &["--device", device]),
            6,
            &["device: gpu:"],
        );
    }
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0);
    pbt(["info", "--devices", "--device", "abacus"]).exits_with(2).error_line();
}

/// A number from 0 to below `n`.
fn below(random: &mut ChaCha8Rng, n: usize) -> usize {
    random.next_u32() as usize % n
}

/// A model file with the seal that its content asks for, where there is a place for one.
pub(crate) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    const MARK: &[u8] = br#"\"seal\":\""#;
    const DIGITS: usize = 64;
    let Some(start) = bytes.windows(MARK.len()).position(|w| w == MARK).map(|at| at + MARK.len())
    else {
        return bytes;
    };
    let Some(seal) = bytes.get_mut(start..start + DIGITS) else { return bytes };
    seal.fill(b'0');
    let digest = format!("{:x}", Sha256::digest(&bytes));
    bytes[start..start + DIGITS].copy_from_slice(digest.as_bytes());
    bytes
}

#[test]
fn spoilt_models_never_panic() {
    // `PBT_MUTATIONS` sets another number for a long run.
    let rounds = std::env::var("PBT_MUTATIONS")
        .ok()
        .map_or(2000, |text| text.parse().expect("PBT_MUTATIONS is a number"));
    let good = std::fs::read(tiny().model()).unwrap();
    // A model is a length, a header in JSON with the card, and numbers.
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let image = read_image(&tiny().folder().join("c7.nii.gz")).unwrap().volume.numbers();
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut refused = 0;
    for _ in 0..rounds {
        let mut bytes = good.clone();
        for _ in 0..1 + below(&mut random, 3) {
            let reach = if below(&mut random, 2) == 0 { header } else { bytes.len() };
            let at = below(&mut random, reach);
            bytes[at] = match below(&mut random, 4) {
                0 => bytes[at] ^ (1 << below(&mut random, 8)),
                1 => 0xff,
                2 => b'0' + below(&mut random, 10) as u8,
                _ => random.next_u32() as u8,
            };
        }
        if below(&mut random, 8) == 0 {
            bytes.truncate(below(&mut random, good.len()));
        }
        // Sealed again, as whoever means harm would: else nothing gets past the seal.
        match pbt_detect::Model::from_bytes(&sealed(bytes)) {
            Ok(model) => drop(model.detect(&pbt_cpu::Cpu, &[image.clone().into()])),
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
    println!("{refused} of {rounds} were refused");
    assert!(
        refused > rounds / 4 && refused < rounds - rounds / 20,
        "{refused} of {rounds} were refused"
    );
}
