//! Images of several channels: a gland that only the second channel shows, in every form in which
//! such images come.

use crate::bad_input::sealed;
use crate::support::{
    Outcome, TEST, TRAINING, lasting, pbt, read_json, refused, scratch, text, tiny, train,
};
use pbt_io::{RawImage, VoxelType, read_image, read_raw, write_image};
use pbt_volume::{Geometry, PointLps, resample};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["noise", "signal"];

/// The tiny data set with a first channel of noise, as a list of files a case, and a model of it.
pub(crate) struct Two {
    folder: TempDir,
}

impl Two {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn model(&self) -> PathBuf {
        self.folder().join("two.pbt")
    }

    /// The file of a channel of a case.
    pub(crate) fn channel(&self, case: usize, channel: usize) -> PathBuf {
        self.folder().join(format!("c{case}_{channel:04}.nii.gz"))
    }
}

pub(crate) fn two() -> &'static Two {
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
        train(two.folder(), &two.model(), &["--threads", "2"]).exits_with(0);
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
    train(alone.path(), &model, &[]).exits_with(0);
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
    // The gland is 40 mm across, and its place in the images alone is a good guess.
    assert!(both.iter().all(|&mm| mm < 1.5), "{both:?}");
    assert!(first.iter().sum::<f64>() > 10.0 * both.iter().sum::<f64>(), "{first:?}");
    let info = pbt(["info", text(&two.model())]).exits_with(0).stdout;
    assert!(info.contains("channel 1      noise: percentiles 1 to 99\n"), "{info}");
    let searched = "channel 2      signal: percentiles 1 to 99, searched for the position\n";
    assert!(info.contains(searched), "{info}");
}

/// The same data set as 4D files and in nnU-Net's folders.
fn other_forms() -> [TempDir; 2] {
    let [files, nnunet] = [with_annotations(), scratch()];
    for n in 0..TRAINING + TEST {
        let channels = [two().channel(n, 0), two().channel(n, 1)];
        write_4d(&files.path().join(format!("c{n}.nii")), &channels);
        let part = if n < TRAINING { "Tr" } else { "Ts" };
        let at = |folder: &str| nnunet.path().join(format!("{folder}{part}"));
        for folder in ["images", "labels"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for channel in channels {
            let name = channel.file_name().unwrap();
            std::fs::copy(&channel, at("images").join(name)).unwrap();
        }
        let name = format!("c{n}.mrk.json");
        std::fs::copy(two().folder().join(&name), at("labels").join(&name)).unwrap();
    }
    write_dataset(files.path(), Some(&NAMES), |n| json!(format!("c{n}.nii")));
    let dataset = json!({
        "name": "two", "channel_names": { "0": "noise", "1": "signal" }, "file_ending": ".nii.gz",
        "labels": { "background": 0, "gland": 1 },
    });
    std::fs::write(nnunet.path().join("dataset.json"), dataset.to_string()).unwrap();
    [files, nnunet]
}

#[test]
fn a_list_a_4d_file_and_nnunet_give_the_same_model_and_results() {
    let (two, [files, nnunet], out) = (two(), other_forms(), scratch());
    let model = |data: &Path, threads: &str| {
        let model = out.path().join("model.pbt");
        train(data, &model, &["--quick", "--threads", threads]).exits_with(0);
        std::fs::read(model).unwrap()
    };
    let of_list = model(two.folder(), "2");
    assert!(model(files.path(), "1") == of_list, "another model of 4D files");
    assert!(model(nnunet.path(), "3") == of_list, "another model of nnU-Net's folders");

    let model = two.model();
    let found = |images: &[&Path]| {
        detect(&model, images, out.path()).exits_with(0);
        let name = pbt_io::case_name(images[0]);
        without_run(&out.path().join(format!("{name}.json")))
    };
    let (first, second) = (two.channel(7, 0), two.channel(7, 1));
    let expected = found(&[&first, &second]);
    assert_eq!(found(&[&first]), expected);
    assert_eq!(found(&[&files.path().join("c7.nii")]), expected);
    let report = |data: &Path| {
        let report = out.path().join("report.json");
        pbt(["evaluate", "-m", text(&model), "-i", text(data), "-o", text(&report)]).exits_with(0);
        read_json(&report)["summary"].clone()
    };
    let expected = report(two.folder());
    assert_eq!(report(nnunet.path()), expected);
    // Channels are told by their names.
    let reversed = with_annotations();
    write_dataset(reversed.path(), Some(&["signal", "noise"]), |n| {
        json!([text(&two.channel(n, 1)), text(&two.channel(n, 0))])
    });
    assert_eq!(report(reversed.path()), expected);
}

#[test]
fn a_batch_takes_the_files_of_a_case_together() {
    let (two, folder, out) = (two(), scratch(), scratch());
    for n in TRAINING..TRAINING + 2 {
        for channel in 0..2 {
            let file = two.channel(n, channel);
            std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
        }
    }
    let run = |more: &[&str]| {
        let model = two.model();
        let arguments =
            ["batch", "-m", text(&model), "-i", text(folder.path()), "-o", text(out.path())];
        pbt(arguments.iter().chain(more)).exits_with(0).stderr
    };
    assert!(run(&[]).contains("2 cases: 2 done"), "two files a case");
    assert!(run(&["--resume"]).contains("2 cases: 0 done, 2 had a result already"));
    let merged = scratch();
    let (input, parts) = (text(folder.path()), text(out.path()));
    let merge = pbt(["merge", "-i", input, "-o", text(merged.path()), parts]).exits_with(0);
    assert!(!merge.stderr.contains("missing"), "{}", merge.stderr);
    let table = |folder: &Path| std::fs::read_to_string(folder.join("detections.csv")).unwrap();
    assert_eq!(table(merged.path()), table(out.path()));
}

#[test]
fn a_channel_on_another_grid_is_resampled() {
    let (two, folder, out) = (two(), scratch(), scratch());
    let signal = read_image(&two.channel(7, 1)).unwrap().volume.numbers();
    let own = signal.geometry();
    let coarser = Geometry::new([30, 26, 34], own.matrix() * 1.3, own.origin()).unwrap();
    let quantised =
        pbt_volume::Volume::new(own.clone(), signal.data().iter().map(|&v| v as u16).collect());
    let there = resample(&quantised, &coarser, pbt_volume::Padding::Edge);
    let bytes = there.data().iter().flat_map(|v| v.to_le_bytes()).collect();
    let there = RawImage::new(coarser.clone(), VoxelType::U16, bytes, None).unwrap();
    let file = folder.path().join("signal.nii.gz");
    write_image(&file, &there).unwrap();
    let shown = detect(&two.model(), &[&two.channel(7, 0), &file], out.path()).exits_with(0);
    let warning = "channel `signal`: is resampled to the grid of the first; it covers ";
    assert!(shown.stderr.contains(warning), "{}", shown.stderr);
    let result = read_json(&out.path().join("c7_0000.json"));
    assert!(off_mm(&result, 7) < 2.0, "{result}");

    let elsewhere = Geometry::new(
        coarser.shape(),
        *coarser.matrix(),
        PointLps(own.origin().0 + nalgebra::Vector3::new(0.0, 900.0, 0.0)),
    );
    let there = RawImage::new(elsewhere.unwrap(), VoxelType::U16, there.bytes().to_vec(), None);
    write_image(&file, &there.unwrap()).unwrap();
    refused(
        detect(&two.model(), &[&two.channel(7, 0), &file], out.path()),
        4,
        &["signal.nii.gz: channel `signal`: shows another place than the first channel"],
    );
}

#[test]
fn what_an_image_lacks_is_named() {
    let (two, folder, out) = (two(), scratch(), scratch());
    let at = |name: &str| folder.path().join(name);
    let refused_of = |model: &Path, images: &[&Path], parts: &[&str]| {
        refused(detect(model, images, out.path()), 4, parts);
    };
    let (first, second) = (two.channel(6, 0), two.channel(6, 1));
    std::fs::copy(&first, at("alone.nii.gz")).unwrap();
    refused_of(
        &two.model(),
        &[&at("alone.nii.gz")],
        &["alone.nii.gz: channel `signal`: is missing: the file has one channel (give a file"],
    );
    std::fs::copy(&first, at("x_0000.nii.gz")).unwrap();
    refused_of(
        &two.model(),
        &[&at("x_0000.nii.gz")],
        &["x_0001.nii.gz: channel `signal`: file: cannot be read: no such file"],
    );
    refused_of(&two.model(), &[&first, &at("no.nii")], &["no.nii: channel `signal`: file: cannot"]);
    let three = [first.clone(), second.clone(), first.clone()];
    write_4d(&at("three.nii"), &three);
    refused_of(
        &two.model(),
        &[&at("three.nii")],
        &["three.nii: channels: has 3 channels; 2, `noise`, `signal`, are needed"],
    );
    refused_of(
        &two.model(),
        &[&first, &second, &first],
        &["c6_0000.nii.gz: channel: is one file too many"],
    );
    let cut = std::fs::read(at("three.nii")).unwrap();
    std::fs::write(at("cut.nii"), &cut[..cut.len() / 3 * 2]).unwrap();
    refused_of(&two.model(), &[&at("cut.nii")], &["cut.nii: voxel data: "]);
    // A model of one channel.
    refused_of(&tiny().model(), &[&second, &first], &["channel: is one image too many: the model"]);
    let two_volumes = &three[..2];
    write_4d(&at("two.nii"), two_volumes);
    refused_of(&tiny().model(), &[&at("two.nii")], &["dim[4]: has 2 time points; one volume"]);
    let report = out.path().join("report.json");
    let evaluated = |model: &Path, data: &Path| {
        pbt(["evaluate", "-m", text(model), "-i", text(data), "-o", text(&report)])
    };
    let shown = evaluated(&tiny().model(), two.folder());
    assert!(
        shown.stderr.contains("the image has 2, `noise`, `signal`, and the model has one"),
        "{}",
        shown.stderr
    );
    let other = with_annotations();
    write_dataset(other.path(), Some(&["noise", "T2"]), |n| {
        json!([text(&two.channel(n, 0)), text(&two.channel(n, 1))])
    });
    let shown = evaluated(&two.model(), other.path());
    assert!(
        shown.stderr.contains("channel `signal`: is missing: the data set has `noise`, `T2`"),
        "{}",
        shown.stderr
    );
    // What is cut out is of one channel.
    let arguments =
        ["detect", "-m", text(&two.model()), "-i", text(&first), "-o", text(out.path())]
            .map(str::to_owned);
    let crop = ["--crop".to_owned(), "gland".to_owned()];
    refused(pbt(arguments.iter().chain(&crop)), 4, &["--crop: takes images of one channel"]);
}

#[test]
fn what_is_wrong_with_the_channels_of_a_data_set_is_named() {
    let (two, folder) = (two(), with_annotations());
    let pair = |n: usize| json!([text(&two.channel(n, 0)), text(&two.channel(n, 1))]);
    let refused_as = |names: Option<&[&str]>, image: &dyn Fn(usize) -> Value, parts: &[&str]| {
        write_dataset(folder.path(), names, image);
        refused(train(folder.path(), &folder.path().join("m.pbt"), &[]), 4, parts);
    };
    refused_as(
        None,
        &pair,
        &["cases[0].image: is a list of 2, and the data set names no channels"],
    );
    refused_as(
        Some(&["a", "b", "c"]),
        &pair,
        &["cases[0].image: channel `c` is missing: 2 of 3 are listed"],
    );
    refused_as(Some(&["a", "a"]), &pair, &["channels[1]: `a` is no name of its own"]);
    refused_as(Some(&["a"; 5]), &pair, &["channels[1]: "]);
    refused_as(
        Some(&NAMES),
        &|n| json!([text(&two.channel(n, 0)), "no.nii"]),
        &["channel `signal`: cases[0].image[1]: `", "does not exist"],
    );
    refused_as(
        Some(&NAMES),
        &|n| json!(text(&tiny().folder().join(format!("c{n}.nii.gz")))),
        &["c0.nii.gz: channel `signal`: is missing"],
    );
    write_dataset(folder.path(), Some(&NAMES), pair);
    let config = folder.path().join("c.toml");
    for (settings, part) in [
        (
            "[working.channels.T2]\npolicy = \"window\"\nlow = 0\nhigh = 1\n",
            "working.channels.T2: `T2` is none",
        ),
        (
            "[position]\nchannel = \"T2\"\n",
            "position.channel: `T2` is none of the data set's channels",
        ),
    ] {
        std::fs::write(&config, settings).unwrap();
        let model = folder.path().join("m.pbt");
        let arguments = ["train", "-i", text(folder.path()), "-o", text(&model)];
        let outcome = pbt(arguments.into_iter().chain(["--config", text(&config)]));
        refused(outcome, 4, &[part]);
    }
    let [_, nnunet] = other_forms();
    std::fs::remove_file(nnunet.path().join("imagesTr/c3_0001.nii.gz")).unwrap();
    refused(
        train(nnunet.path(), &folder.path().join("m.pbt"), &[]),
        4,
        &["c3_0001.nii.gz: channel `signal`: does not exist"],
    );
}

#[test]
fn spoilt_models_of_several_channels_never_panic() {
    let good = std::fs::read(two().model()).unwrap();
    let channels: Vec<_> =
        (0..2).map(|n| read_image(&two().channel(7, n)).unwrap().volume).collect();
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let card = String::from_utf8(good[8..header].to_vec()).unwrap();
    // Of the same length, so that the rest stays in its place.
    for (from, to, part) in [
        (r#"\"channel\":1"#, r#"\"channel\":2"#, "channel: 2 is not between 0 and 1"),
        (r#"\"levels\":[2,3,0,1]"#, r#"\"levels\":[2,4,0,1]"#, "a pyramid level is out of range"),
        (
            r#"\"name\":\"noise\",\"intensity\":{\"policy\":\"percentiles\",\"low_percent\":1.0"#,
            r#"\"name\":\"noise\",\"intensity\":{\"policy\":\"percentiles\",\"low_percent\":2.0"#,
            "channels: the first has two intensity policies",
        ),
    ] {
        assert!(card.contains(from), "{from} is not in {card}");
        let spoilt = card.replacen(from, to, 1);
        let bytes = [&good[..8], spoilt.as_bytes(), &good[header..]].concat();
        let error = pbt_detect::Model::from_bytes(&sealed(bytes)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let mut random = ChaCha8Rng::seed_from_u64(11);
    for _ in 0..300 {
        let mut bytes = good.clone();
        let at = 8 + random.next_u32() as usize % (header - 8);
        bytes[at] = b'0' + (random.next_u32() % 10) as u8;
        match pbt_detect::Model::from_bytes(&sealed(bytes)) {
            Ok(model) => drop(model.detect(&pbt_cpu::Cpu, &channels)),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}
