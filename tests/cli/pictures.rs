//! 2D images: pictures in pixels, and slices in millimetres.

use crate::support::{numbers, pbt, read_json, refused, scratch, text, tiny, train};
use image::{GrayImage, Luma, RgbImage};
use nalgebra::{Matrix3, Vector3};
use pbt_io::{RawImage, VoxelType, read_image, write_image};
use pbt_volume::{Geometry, PointLps, Random, VoxelIndex};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const WIDTH: u32 = 160;
const HEIGHT: u32 = 120;
const TRAINING: usize = 8;

/// Discs about the middle of a picture: place, radius, brightness.
const DISCS: [(&str, [f64; 2], f64, f64); 5] = [
    ("a", [-40.0, -20.0], 6.0, 250.0),
    ("b", [38.0, -24.0], 9.0, 180.0),
    ("c", [42.0, 22.0], 5.0, 230.0),
    ("d", [-30.0, 25.0], 8.0, 120.0),
    ("e", [0.0, 4.0], 7.0, 40.0),
];

/// A picture of the discs, turned and moved, with noise; and where their middles are, pixels.
fn picture(n: usize) -> (GrayImage, Vec<(&'static str, [f64; 2])>) {
    let mut random = Random::from_seed(n as u64);
    let (sin, cos) = random.between(-0.3, 0.3).sin_cos();
    let shift = [random.between(-10.0, 10.0), random.between(-8.0, 8.0)];
    let scale = random.between(0.9, 1.1);
    let place = |[x, y]: [f64; 2]| {
        let turned = [cos * x - sin * y, sin * x + cos * y];
        [80.0 + scale * turned[0] + shift[0], 60.0 + scale * turned[1] + shift[1]]
    };
    let places: Vec<(&str, [f64; 2])> = DISCS.map(|(name, at, ..)| (name, place(at))).to_vec();
    let image = GrayImage::from_fn(WIDTH, HEIGHT, |i, j| {
        let inside = |n: &usize| {
            let (_, [x, y]) = places[*n];
            (f64::from(i) - x).hypot(f64::from(j) - y) < DISCS[*n].2
        };
        let bright = (0..DISCS.len()).find(inside).map_or(80.0, |n| DISCS[n].3);
        Luma([(bright + random.between(-8.0, 8.0)) as u8])
    });
    (image, places)
}

/// Pictures with tables of landmarks: eight to train, three to test.
fn pictures() -> TempDir {
    let folder = scratch();
    let mut cases = Vec::new();
    for n in 0..TRAINING + 3 {
        let (image, places) = picture(n);
        image.save(folder.path().join(format!("w{n}.png"))).unwrap();
        let row = |(name, [x, y]): &(&str, [f64; 2])| format!("{name},{x},{y}\n");
        let table: String = places.iter().map(row).collect();
        let file = format!("w{n}.csv");
        std::fs::write(folder.path().join(&file), format!("label,x_px,y_px\n{table}")).unwrap();
        let split = if n < TRAINING { "train" } else { "test" };
        cases.push(json!({ "id": format!("w{n}"), "image": format!("w{n}.png"), "annotations": file, "split": split }));
    }
    let structures: Value =
        DISCS.iter().map(|(name, ..)| json!({ "name": name, "kind": "landmark" })).collect();
    let dataset = json!({ "schema": "pbt-dataset/1", "name": "discs", "modality": "photograph", "structures": structures, "cases": cases });
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
    folder
}

fn detected(model: &Path, image: &Path) -> Value {
    let out = scratch();
    pbt(["detect", "-q", "-m", text(model), "-i", text(image), "-o", text(out.path())])
        .exits_with(0);
    let name = Path::new(image.file_name().unwrap()).with_extension("").with_extension("json");
    read_json(&out.path().join(name))
}

fn places(result: &Value) -> Vec<[f64; 3]> {
    let all = result["detections"].as_array().unwrap();
    all.iter().map(|d| numbers(&d["position_lps_mm"])).collect()
}

/// What is seen in green alone, in pictures whose red and blue are noise.
#[test]
fn colours_may_be_channels() {
    let (data, out) = (pictures(), scratch());
    for n in 0..TRAINING + 3 {
        let (image, _) = picture(n);
        let mut random = Random::from_seed(1000 + n as u64);
        let mut noise = || random.between(0.0, 255.0) as u8;
        let color = RgbImage::from_fn(WIDTH, HEIGHT, |i, j| {
            image::Rgb([noise(), image.get_pixel(i, j).0[0], noise()])
        });
        color.save(data.path().join(format!("w{n}.png"))).unwrap();
    }
    let file = data.path().join("dataset.json");
    let mut dataset = read_json(&file);
    dataset["channels"] = json!(["red", "green", "blue"]);
    std::fs::write(&file, dataset.to_string()).unwrap();
    pbt(["validate", text(data.path())]).exits_with(0);
    let model = out.path().join("discs.pbt");
    train(data.path(), &model, &["-q", "--quick"]).exits_with(0);
    let info = pbt(["info", text(&model)]).exits_with(0).stdout;
    assert!(info.contains("green: percentiles 1 to 99, searched for the position"), "{info}");
    let report = out.path().join("report.json");
    let told = pbt(["evaluate", "-m", text(&model), "-i", text(data.path()), "-o", text(&report)])
        .exits_with(0);
    // A quick model has not measured its scores.
    let unmeasured = "warning: scores were not measured on held-out cases";
    assert!(told.stderr.contains(unmeasured), "{}", told.stderr);
    let errors = &read_json(&report)["summary"]["overall"]["center_mm"];
    println!("discs in green: {errors}");
    assert!(errors["mean"].as_f64().unwrap() < 2.0, "{errors}");
    let grey = out.path().join("grey.png");
    picture(0).0.save(&grey).unwrap();
    let refusal = pbt(["detect", "-m", text(&model), "-i", text(&grey), "-o", text(out.path())]);
    refused(refusal, 4, &["grey.png: channel `green`: is missing: the file has one channel"]);
}

#[test]
fn pictures_and_slices_from_training_to_the_report() {
    let (data, out) = (pictures(), scratch());
    pbt(["validate", text(data.path())]).exits_with(0);
    let model = out.path().join("discs.pbt");
    let told = train(data.path(), &model, &["--threads", "1"]).exits_with(0);
    assert!(!told.stderr.contains(" mm"), "{}", told.stderr);
    let training = std::fs::read_to_string(out.path().join("discs.train.json")).unwrap();
    assert!(training.contains("chosen pose, pixels") && !training.contains(", mm"));
    let again = out.path().join("again.pbt");
    train(data.path(), &again, &["-q", "--threads", "2"]).exits_with(0);
    assert!(std::fs::read(&model).unwrap() == std::fs::read(&again).unwrap());
    // Five regressors as in volumes, and three forests.
    let info = pbt(["info", text(&model)]).exits_with(0).stdout;
    assert!(info.contains("landmarks 8") && !info.contains("landmarks 9"), "{info}");
    assert!(info.contains(" pixels") && !info.contains(" mm"), "{info}");

    let report = out.path().join("report.json");
    let told = pbt(["evaluate", "-m", text(&model), "-i", text(data.path()), "-o", text(&report)])
        .exits_with(0);
    assert!(
        told.stdout.contains("centre, pixels") && !told.stdout.contains(" mm"),
        "{}",
        told.stdout
    );
    let errors = &read_json(&report)["summary"]["overall"]["center_mm"];
    let (mean, most) = (errors["mean"].as_f64().unwrap(), errors["max"].as_f64().unwrap());
    println!("discs: mean {mean:.2} px, largest {most:.2}");
    assert!(mean < 1.0 && most < 3.0, "{errors}");

    // Whatever else shows these errors counts pixels, too.
    assert_eq!(read_json(&report)["length_unit"], "pixels");
    let page = out.path().join("page.html");
    pbt(["report", text(&report), "-o", text(&page)]).exits_with(0);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("error, pixels") && !page.contains(", mm"));
    let compared = out.path().join("compared.json");
    let (model_text, report_text) = (text(&model), text(&report));
    let sides = ["evaluate", "--compare", model_text, report_text, "-i", text(data.path())];
    let args = sides.into_iter().chain(["-o", text(&compared)]);
    let told = pbt(args).exits_with(0);
    assert!(told.stdout.contains("pixels") && !told.stdout.contains(" mm"), "{}", told.stdout);
    assert_eq!(read_json(&compared)["overall"][0]["unit"], "pixels");

    let (image, _) = picture(TRAINING);
    let result = detected(&model, &data.path().join(format!("w{TRAINING}.png")));
    assert_eq!(result["coordinate_system"], "pixel");
    assert_eq!(numbers(&result["input"]["shape"]), [160.0, 120.0, 1.0]);
    let why = scratch();
    let png = data.path().join(format!("w{TRAINING}.png"));
    let detect = ["detect", "-q", "--explain", "-m", model_text, "-i", text(&png), "-o"];
    pbt(detect.into_iter().chain([text(why.path())])).exits_with(0);
    let why = read_json(&why.path().join(format!("w{TRAINING}.explain.json")));
    assert_eq!(why["coordinate_system"], "pixel");
    let in_pixels = places(&result);
    assert!(in_pixels.iter().all(|place| place[2] == 0.0));

    // The same pixels as a sagittal and as an oblique slice: the same places, in the patient.
    let tilted = Matrix3::new(0.8, 0.0, 0.6, 0.0, 1.0, 0.0, -0.6, 0.0, 0.8);
    let sagittal = Matrix3::new(0.0, 0.0, 3.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0);
    for (name, matrix, tolerance) in [("sagittal", sagittal, 1e-6), ("tilted", tilted, 0.05)] {
        let origin = matrix * Vector3::new(64.0, -128.0, 17.3);
        let grid = Geometry::new([160, 120, 1], matrix, PointLps(origin.into())).unwrap();
        let raw = RawImage::new(grid.clone(), VoxelType::U8, image.as_raw().clone(), None).unwrap();
        let path = out.path().join(format!("{name}.nrrd"));
        write_image(&path, &raw).unwrap();
        let slice = detected(&model, &path);
        assert_eq!(slice["coordinate_system"], "LPS");
        let scale = "spacing: the training images had no scale; 1 mm counts as one of their pixels";
        assert!(slice["warnings"].as_array().unwrap().contains(&json!(scale)), "{slice}");
        for (pixel, found) in in_pixels.iter().zip(places(&slice)) {
            let there = grid.to_lps(VoxelIndex::new(pixel[0], pixel[1], 0.0));
            let off = there.distance_mm(&PointLps::new(found[0], found[1], found[2]));
            assert!(off < tolerance, "{name}: {off} mm");
        }
    }

    // Colour says the same as the grey that it is made of, and a warning.
    let color = RgbImage::from_fn(WIDTH, HEIGHT, |i, j| {
        let [grey] = image.get_pixel(i, j).0;
        image::Rgb(if (i, j) == (0, 0) { [255, 0, 0] } else { [grey; 3] })
    });
    let path = out.path().join("color.png");
    color.save(&path).unwrap();
    let result = detected(&model, &path);
    assert_eq!(result["warnings"], json!(["colour: turned to grey"]));

    // Volumes and 2D images do not go together.
    let volume = tiny().folder().join("c0.nii.gz");
    let detect = |model: &Path, image: &Path| {
        pbt(["detect", "-q", "-m", text(model), "-i", text(image), "-o", text(out.path())])
    };
    refused(detect(&model, &volume), 4, &["c0.nii.gz: shape: the image has", "of 2D images"]);
    let png = data.path().join("w0.png");
    refused(detect(&tiny().model(), &png), 4, &["w0.png: shape: the image is 2D"]);
}

#[test]
fn what_does_not_fit_2d_images_is_named() {
    let (data, out) = (pictures(), scratch());
    let model = out.path().join("m.pbt");
    let file = data.path().join("dataset.json");
    let whole = read_json(&file);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut dataset = whole.clone();
        change(&mut dataset);
        std::fs::write(&file, dataset.to_string()).unwrap();
        train(data.path(), &model, &["-q"])
    };
    // Pixels of a volume in millimetres.
    let volume = tiny().folder().join("c0.nii.gz");
    let outcome = with(&|d| d["cases"][1]["image"] = json!(text(&volume)));
    refused(outcome, 4, &["w1.csv: columns: the landmarks are in pixels"]);
    let told = pbt(["validate", text(data.path())]).exits_with(4);
    assert!(
        told.stdout.contains("w1.csv: columns: the landmarks are in pixels"),
        "{}",
        told.stdout
    );
    // A volume beside pictures.
    let middle = read_image(&volume).unwrap().volume.geometry().center().0;
    let row = |(name, [x, y], ..): &(&str, [f64; 2], f64, f64)| {
        format!("{name},{},{},{}\n", middle.x + x / 10.0, middle.y + y / 10.0, middle.z)
    };
    let table: String = DISCS.iter().map(row).collect();
    let table = format!("label,x_lps,y_lps,z_lps\n{table}");
    std::fs::write(data.path().join("mm.csv"), table).unwrap();
    let outcome = with(&|d| {
        d["cases"][1]["image"] = json!(text(&volume));
        d["cases"][1]["annotations"] = json!("mm.csv");
    });
    refused(outcome, 4, &["c0.nii.gz: shape: the image is a volume, and others are 2D"]);
    // A slice in millimetres beside pictures.
    let (image, places) = picture(1);
    let grid = Geometry::isotropic([WIDTH as usize, HEIGHT as usize, 1], 0.5).unwrap();
    let slice = RawImage::new(grid, VoxelType::U8, image.into_raw(), None).unwrap();
    write_image(&data.path().join("slice.nrrd"), &slice).unwrap();
    let row = |(name, [x, y]): &(&str, [f64; 2])| format!("{name},{},{},0\n", x / 2.0, y / 2.0);
    let table: String = places.iter().map(row).collect();
    let table = format!("label,x_lps,y_lps,z_lps\n{table}");
    std::fs::write(data.path().join("slice.csv"), table).unwrap();
    let outcome = with(&|d| {
        d["cases"][1]["image"] = json!("slice.nrrd");
        d["cases"][1]["annotations"] = json!("slice.csv");
    });
    let expected = "slice.nrrd: spacing: the image is in millimetres, and others have no scale";
    refused(outcome, 4, &[expected]);
    let told = pbt(["validate", text(data.path())]).exits_with(4);
    assert!(told.stdout.contains(expected), "{}", told.stdout);
}

#[test]
fn landmarks_of_tpsdig_and_of_wide_tables_become_a_data_set() {
    let data = pictures();
    let landmarks = |n: usize| picture(n).1;
    let annotations = |folder: &Path| -> Vec<(String, [f64; 2])> {
        pbt(["init", text(folder), "--modality", "photo"]).exits_with(0);
        pbt(["validate", text(folder)]).exits_with(0);
        let set = pbt_io::Dataset::load(folder).unwrap();
        assert_eq!(set.cases.len(), TRAINING + 3);
        let case = set.cases.iter().find(|case| case.id == "w1").unwrap();
        let mut found: Vec<(String, [f64; 2])> = set
            .load_annotations(case)
            .unwrap()
            .landmarks
            .into_iter()
            .map(|landmark| match landmark.state {
                pbt_io::LandmarkState::At(at) => (landmark.name, [at.0.x, at.0.y]),
                other => panic!("{other:?}"),
            })
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    };
    let truth: Vec<[f64; 2]> = landmarks(1).into_iter().map(|(_, at)| at).collect();
    let folder = || {
        let folder = scratch();
        for n in 0..TRAINING + 3 {
            let name = format!("w{n}.png");
            std::fs::copy(data.path().join(&name), folder.path().join(name)).unwrap();
        }
        folder
    };

    let (tps, mut file) = (folder(), String::new());
    for n in 0..TRAINING + 3 {
        file += &format!("LM={}\n", DISCS.len());
        for (_, [x, y]) in landmarks(n) {
            file += &format!("{x:.5} {:.5}\n", f64::from(HEIGHT) - 1.0 - y);
        }
        file += &format!("IMAGE=C:\\pictures\\w{n}.png\nID={n}\n");
    }
    std::fs::write(tps.path().join("all.TPS"), file).unwrap();
    let found = annotations(tps.path());
    assert_eq!(found.len(), truth.len());
    for (n, ((name, at), truth)) in found.iter().zip(&truth).enumerate() {
        assert_eq!(*name, (n + 1).to_string());
        assert!((0..2).all(|a| (at[a] - truth[a]).abs() < 1e-4), "{name}: {at:?} for {truth:?}");
    }

    let table = folder();
    let head = landmarks(0).into_iter().map(|(name, _)| format!(",{name}_x,{name}_y"));
    let mut file = format!("image{}\n", head.collect::<String>());
    for n in 0..TRAINING + 3 {
        let cells = landmarks(n).into_iter().map(|(_, [x, y])| format!(",{x},{y}"));
        file += &format!("w{n}.png{}\n", cells.collect::<String>());
    }
    std::fs::write(table.path().join("all.csv"), file).unwrap();
    let found = annotations(table.path());
    let expected: Vec<(String, [f64; 2])> =
        landmarks(1).into_iter().map(|(name, at)| (name.to_owned(), at)).collect();
    assert_eq!(found, expected);
}
