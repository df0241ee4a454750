//! Boxes in 2D images: from label maps, with masks, and from tables.

use crate::support::{numbers, pbt, read_json, refused, scratch, text};
use image::{GrayImage, Luma};
use nalgebra::Matrix3;
use pbt_io::{Dataset, RawImage, VoxelType, write_image};
use pbt_volume::{Geometry, PointLps, Random};
use std::path::Path;
use tempfile::TempDir;

const WIDTH: u32 = 150;
const HEIGHT: u32 = 110;
const TRAINING: usize = 10;
const ALL: usize = TRAINING + 3;

const SMALL: &str = "\
[augmentation]
copies = 0
[position]
copies = 3
negatives = 60
haar.features = 200
[classifier.pbt]
depth = 2
rounds_by_level = [15, 15]
[orientation]
rotations = 200
[refinement]
points_across = 6.0
perturbations = 60
[segmentation]
samples = 12000
features = 60
first = { trees = 25, depth = 4 }
second = { trees = 25, depth = 4 }
[certainty]
measured = false
";

/// A leaf, thin towards one end, and a stone beside it, turned and moved together.
fn picture(n: usize) -> (GrayImage, GrayImage) {
    let mut random = Random::from_seed(n as u64);
    let (sin, cos) = random.between(-0.3, 0.3).sin_cos();
    let shift = [random.between(-9.0, 9.0), random.between(-7.0, 7.0)];
    let scale = random.between(0.9, 1.1);
    let labels = GrayImage::from_fn(WIDTH, HEIGHT, |i, j| {
        let at = [f64::from(i) - 75.0 - shift[0], f64::from(j) - 55.0 - shift[1]];
        let [x, y] = [(cos * at[0] + sin * at[1]) / scale, (cos * at[1] - sin * at[0]) / scale];
        let leaf = ((x + 15.0) / 30.0).powi(2) + (y / (12.0 - 0.2 * (x + 15.0))).powi(2) < 1.0;
        let stone = ((x - 35.0) / 10.0).powi(2) + ((y - 8.0) / 16.0).powi(2) < 1.0;
        Luma([if leaf { 1 } else { 2 * u8::from(stone) }])
    });
    let image = GrayImage::from_fn(WIDTH, HEIGHT, |i, j| {
        let value = [90.0, 170.0, 220.0][usize::from(labels.get_pixel(i, j).0[0])];
        Luma([(value + 12.0 * random.normal()).clamp(0.0, 255.0) as u8])
    });
    (image, labels)
}

/// A folder that `write` puts images and label maps into, and its data set by `pbt init`: ten cases to train.
fn data_set(write: impl Fn(&Path, usize, &GrayImage)) -> TempDir {
    let folder = scratch();
    for (n, split) in (0..ALL).map(|n| (n, if n < TRAINING { "Tr" } else { "Ts" })) {
        let (image, labels) = picture(n);
        for (kind, picture) in [("images", image), ("labels", labels)] {
            let folder = folder.path().join(format!("{kind}{split}"));
            std::fs::create_dir_all(&folder).unwrap();
            write(&folder, n, &picture);
        }
    }
    std::fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    let labels = ["--label", "1=leaf", "--label", "2=stone", "--modality", "photo"];
    let told = pbt([&["init", text(folder.path())][..], &labels].concat()).exits_with(0).stdout;
    assert!(told.contains("2 boxes: leaf, stone"), "{told}");
    folder
}

fn train_small(data: &Path, model: &Path, more: [&str; 2]) {
    let config = data.join("small.toml");
    let files = ["train", "-q", "-i", text(data), "-o", text(model), "--config", text(&config)];
    pbt([&files[..], &more].concat()).exits_with(0);
}

/// Errors of centres and Dice coefficients in the test cases.
fn measured(model: &Path, data: &Path) -> (f64, f64) {
    let out = scratch();
    let report = out.path().join("report.json");
    let evaluate = ["evaluate", "-q", "-m", text(model), "-i", text(data), "-o", text(&report)];
    pbt(evaluate).exits_with(0);
    let overall = &read_json(&report)["summary"]["overall"];
    assert_eq!(overall["annotated"], 6);
    let center = overall["center_mm"]["max"].as_f64().unwrap();
    pbt([&evaluate[..], &["--labels"]].concat()).exits_with(0);
    let regions = &read_json(&report)["summary"];
    let dice = regions.as_array().unwrap().iter().map(|of| of["mean_dice"].as_f64().unwrap());
    (center, dice.fold(1.0, f64::min))
}

fn pictures() -> TempDir {
    data_set(|folder, n, picture| picture.save(folder.join(format!("p{n}.png"))).unwrap())
}

#[test]
fn label_maps_of_pictures_become_boxes_with_masks() {
    let data = pictures();
    let (data, out) = (data.path(), scratch());
    let told = pbt(["validate", text(data)]).exits_with(0).stdout;
    assert!(told.contains("median size, pixels") && !told.contains(" mm"), "{told}");
    let [model, again] = ["leaf.pbt", "again.pbt"].map(|name| out.path().join(name));
    train_small(data, &model, ["--threads", "1"]);
    train_small(data, &again, ["--threads", "2"]);
    assert!(std::fs::read(&model).unwrap() == std::fs::read(&again).unwrap());
    let (center, dice) = measured(&model, data);
    println!("pictures: centres within {center} pixels, Dice at least {dice}");
    assert!(center < 3.0 && dice > 0.85);
    // Lengths are in pixels everywhere.
    let svg = out.path().join("network.svg");
    let info = pbt(["info", text(&model), "--svg", text(&svg)]).exits_with(0).stdout;
    assert!(info.contains(" pixels away, ± ") && info.contains("masks of"), "{info}");
    let svg = std::fs::read_to_string(&svg).unwrap();
    let report = out.path().join("report.json");
    let labels = ["evaluate", "--labels", "-m", text(&model), "-i", text(data), "-o"];
    let table = pbt(labels.into_iter().chain([text(&report)])).exits_with(0).stdout;
    assert!(table.contains("HD95 pixels") && table.contains("surface pixels"), "{table}");
    assert_eq!(read_json(&report)["length_unit"], "pixels");
    let page = out.path().join("labels.html");
    pbt(["report", text(&report), "-o", text(&page)]).exits_with(0);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("HD95, pixels") && !page.contains(", mm") && !page.contains(", ml"));
    for shown in [info, svg, table] {
        assert!(!shown.contains(" mm"), "{shown}");
    }

    let (found, images) = (out.path().join("found"), data.join("imagesTs"));
    let batch = ["batch", "-q", "--labels", "-m", text(&model), "-i", text(&images)];
    pbt([&batch[..], &["-o", text(&found)]].concat()).exits_with(0);
    let result = read_json(&found.join("p10.json"));
    assert_eq!(result["coordinate_system"], "pixel");
    for detection in result["detections"].as_array().unwrap() {
        // As thick as a pixel is wide, and turned in the plane.
        let size: [f64; 3] = numbers(&detection["size_mm"]);
        assert!(size[2] == 1.0 && size[..2].iter().all(|&edge| edge > 15.0), "{size:?}");
        let turn = &detection["orientation"]["quaternion_wxyz"];
        assert!(turn[1] == 0.0 && turn[2] == 0.0, "{turn}");
        assert!(detection["visible"].as_f64().unwrap() > 0.99, "{detection}");
    }
    // What has no scale is not cut out, and has no result that would count as finished.
    let cut = out.path().join("cut");
    for more in [&[][..], &["--resume"]] {
        let crop = [&["-o", text(&cut), "--crop", "leaf"][..], more].concat();
        let told = pbt([&batch[..], &crop].concat()).exits_with(3).stderr;
        assert!(told.contains("p10.png: --crop: takes volumes"), "{told}");
        assert!(!cut.join("p10.json").exists());
    }
    let page = out.path().join("page.html");
    pbt(["report", text(&found), "-o", text(&page)]).exits_with(0);
    assert!(std::fs::read_to_string(&page).unwrap().contains("mean area, thousand pixels"));
}

/// A data set of its own has mean shapes of its own, by which a model would be found wrong.
#[test]
fn a_model_is_held_against_boxes_as_it_learned_them() {
    let data = pictures();
    let (data, out) = (data.path(), scratch());
    let [model, report] = ["leaf.pbt", "report.json"].map(|name| out.path().join(name));
    train_small(data, &model, ["--threads", "2"]);
    let mut tests = read_json(&data.join("dataset.json"));
    tests["cases"].as_array_mut().unwrap().retain(|case| case["split"] == "test");
    let alone = data.join("alone.json");
    std::fs::write(&alone, tests.to_string()).unwrap();
    let boxes = |file: &Path| {
        let set = Dataset::load(file).unwrap();
        set.split("test").map(|case| set.load_annotations(case).unwrap().boxes).collect::<Vec<_>>()
    };
    assert_ne!(boxes(data), boxes(&alone));
    let [together, by_itself] = [data, &alone].map(|set| {
        let evaluate = ["evaluate", "-q", "-m", text(&model), "-i", text(set), "-o", text(&report)];
        pbt(evaluate).exits_with(0);
        read_json(&report)["records"].clone()
    });
    assert_eq!(together.as_array().unwrap().len(), 6);
    assert_eq!(together, by_itself);
}

#[test]
fn a_gpu_gives_the_same_in_pictures_cuda() {
    if !crate::gpu::gpu() {
        return;
    }
    let (data, out) = (pictures(), scratch());
    let made = ["cpu", "gpu"].map(|device| {
        let (model, found) = (out.path().join(format!("{device}.pbt")), out.path().join(device));
        train_small(data.path(), &model, ["--device", device]);
        let image = data.path().join("imagesTs/p10.png");
        let detect = ["detect", "-q", "--labels", "-m", text(&model), "-i", text(&image)];
        pbt([&detect[..], &["-o", text(&found), "--device", device]].concat()).exits_with(0);
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        let result = read_json(&found.join("p10.json"))["detections"].clone();
        (bytes(&model), bytes(&found.join("p10.labels.nii.gz")), result)
    });
    assert!(made[0] == made[1], "models, labels or detections differ");
}

/// Slices that are stored as the first of three axes, and lie across the patient's left and right.
#[test]
fn slices_lie_where_they_lie() {
    let data = data_set(|folder, n, picture| {
        let matrix = Matrix3::new(2.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, 0.0, -0.5);
        let shape = [1, WIDTH as usize, HEIGHT as usize];
        let grid = Geometry::new(shape, matrix, PointLps::new(7.0, -30.0, 90.0)).unwrap();
        let bytes = picture.clone().into_raw();
        let slice = RawImage::new(grid, VoxelType::U8, bytes, None).unwrap();
        write_image(&folder.join(format!("s{n}.nii.gz")), &slice).unwrap();
    });
    let (data, out) = (data.path(), scratch());
    pbt(["validate", text(data)]).exits_with(0);
    let model = out.path().join("leaf.pbt");
    train_small(data, &model, ["--threads", "2"]);
    let (center, dice) = measured(&model, data);
    println!("slices: centres within {center} mm, Dice at least {dice}");
    assert!(center < 1.5 && dice > 0.85);
}

#[test]
fn tables_hold_boxes_of_pictures() {
    let boxes = |table: &str| {
        let folder = scratch();
        for n in 0..6 {
            picture(n).0.save(folder.path().join(format!("p{n}.png"))).unwrap();
        }
        std::fs::write(folder.path().join("boxes.csv"), table).unwrap();
        let outcome = pbt(["init", text(folder.path())]);
        (folder, outcome)
    };
    let rows = |row: &dyn Fn(f64) -> String| -> String {
        (0..6).map(|n| format!("p{n}.png,leaf,{}\n", row(f64::from(n)))).collect()
    };
    let centred = rows(&|n| format!("{},40,60,24,30", 50.0 + n));
    let bounds = rows(&|n| format!("{},28,{},52", 20.0 + n, 80.0 + n));
    for (table, degrees) in [
        (format!("image,name,x_px,y_px,size_x_px,size_y_px,angle_deg\n{centred}"), 30.0),
        (format!("image,name,x,y,size_x,size_y,comment\n{centred}"), 0.0),
        (format!("image,name,x_min,y_min,x_max,y_max\n{bounds}"), 0.0),
    ] {
        let (folder, outcome) = boxes(&table);
        let told = outcome.exits_with(0).stdout;
        assert!(told.contains("1 box: leaf"), "{told}");
        pbt(["validate", text(folder.path())]).exits_with(0);
        let set = Dataset::load(folder.path()).unwrap();
        let annotations = set.load_annotations(&set.cases[2]).unwrap();
        let pose = annotations.pose("leaf").unwrap();
        assert!(pose.center.distance_mm(&PointLps::new(52.0, 40.0, 0.0)) < 1e-9);
        assert!((pose.size_mm[0] - 60.0).abs() < 1e-9 && (pose.size_mm[1] - 24.0).abs() < 1e-9);
        let turned = pbt_volume::rotation_to_vector(&pose.orientation).z.to_degrees();
        assert!((turned - degrees).abs() < 1e-9, "{turned}");
    }
    let flat = rows(&|n| format!("{},40,60,0", 50.0 + n));
    let (_, outcome) = boxes(&format!("image,name,x_px,y_px,size_x_px,size_y_px\n{flat}"));
    refused(outcome, 4, &["[60.0, 0.0] are no edges of a box in pixels"]);
}
