//! `pbt validate` on photographs with landmarks and no boxes: what is wrong with a case is said in one
//! line, in pixels.

use crate::support::{pbt, scratch};
use image::{GrayImage, Luma, RgbImage};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const WIDTH: u32 = 160;
const HEIGHT: u32 = 120;
const CASES: usize = 16;

/// By landmark, where it is from the middle of the picture, pixels.
const PLACES: [(&str, [f64; 2]); 7] = [
    ("tip", [-50.0, 6.0]),
    ("base", [46.0, -4.0]),
    ("hinge", [40.0, 22.0]),
    ("notch", [12.0, -26.0]),
    ("spot", [-8.0, 18.0]),
    ("bend", [-28.0, -14.0]),
    ("vein", [4.0, 2.0]),
];

/// A repeatable number from -1 to 1.
fn wobble(n: usize) -> f64 {
    let scrambled = (n as u32 + 1).wrapping_mul(2_654_435_761).rotate_left(13);
    f64::from(scrambled.wrapping_mul(2_246_822_519)) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Where the landmarks of a case are, pixels.
fn places(n: usize) -> Vec<(&'static str, [f64; 2])> {
    let (sin, cos) = (0.2 * wobble(300 + n)).sin_cos();
    let place = |(landmark, (name, [x, y])): (usize, (&'static str, [f64; 2]))| {
        let off = |a: usize| 0.7 * wobble(50 * n + 2 * landmark + a);
        (name, [80.0 + cos * x - sin * y + off(0), 60.0 + sin * x + cos * y + off(1)])
    };
    PLACES.into_iter().enumerate().map(place).collect()
}

fn write_table(folder: &Path, n: usize, places: &[(&str, [f64; 2])]) {
    let row = |(name, [x, y]): &(&str, [f64; 2])| format!("{name},{x},{y}\n");
    let rows: String = places.iter().map(row).collect();
    std::fs::write(folder.join(format!("w{n}.csv")), format!("label,x_px,y_px\n{rows}")).unwrap();
}

fn pictures() -> TempDir {
    let folder = scratch();
    let mut cases = Vec::new();
    for n in 0..CASES {
        let grey = |i: u32, j: u32| {
            (128.0 + 90.0 * wobble(7 * n + i as usize / 4 + 41 * (j as usize / 4))) as u8
        };
        let image = GrayImage::from_fn(WIDTH, HEIGHT, |i, j| Luma([grey(i, j)]));
        image.save(folder.path().join(format!("w{n}.png"))).unwrap();
        write_table(folder.path(), n, &places(n));
        cases.push(json!({
            "id": format!("w{n}"), "image": format!("w{n}.png"), "annotations": format!("w{n}.csv"),
            "split": "train",
        }));
    }
    let structures: Value =
        PLACES.iter().map(|(name, _)| json!({ "name": name, "kind": "landmark" })).collect();
    let dataset = json!({
        "schema": "pbt-dataset/1", "name": "wings", "modality": "photograph",
        "structures": structures, "cases": cases,
    });
    std::fs::write(folder.path().join("dataset.json"), dataset.to_string()).unwrap();
    folder
}

/// What `--json` says.
fn validation(path: &Path) -> Value {
    let arguments = ["validate".as_ref(), "--json".as_ref(), "-i".as_ref(), path.as_os_str()];
    serde_json::from_str(&pbt(arguments).exits_with(0).stdout).unwrap()
}

#[test]
fn each_spoilt_case_has_one_line() {
    let folder = pictures();
    let data = folder.path();
    let sound = validation(data);
    assert_eq!(sound["findings"], json!([]), "{sound:#}");

    let spoil = |n: usize, change: &dyn Fn(usize, [f64; 2]) -> [f64; 2]| {
        let mut places = places(n);
        places.iter_mut().enumerate().for_each(|(landmark, (_, at))| *at = change(landmark, *at));
        write_table(data, n, &places);
    };
    spoil(1, &|landmark, [x, y]| if landmark == 4 { [x + 40.0, y] } else { [x, y] });
    let exchanged = places(2);
    spoil(2, &|landmark, _| exchanged[[0, 2, 1, 3, 4, 5, 6][landmark]].1);
    spoil(3, &|_, [x, y]| [x, f64::from(HEIGHT) - 1.0 - y]);
    spoil(4, &|_, [x, y]| [f64::from(WIDTH) - 1.0 - x, y]);
    spoil(5, &|_, [x, y]| [x / 10.0, y / 10.0]);
    let found = validation(data);
    let findings = found["findings"].as_array().unwrap();
    let one = |case: &str| {
        let of: Vec<&Value> = findings.iter().filter(|f| f["cases"] == json!([case])).collect();
        let [finding] = of[..] else { panic!("{case}: {findings:#?}") };
        finding["message"].as_str().unwrap()
    };
    for (case, words) in [
        ("w1", "w1.csv: spot: the landmark lies "),
        ("w2", "w2.csv: landmarks: base and hinge seem exchanged"),
        (
            "w3",
            "dataset.json: landmarks: upside down in 1 of 16 cases: w3 (is y counted from the bottom?)",
        ),
        ("w4", "mirrored left to right in 1 of 16 cases: w4 (is x counted from the right"),
        ("w5", "w5.csv: landmarks: their shape is "),
    ] {
        assert!(one(case).contains(words), "{words}: {}", one(case));
    }
    assert_eq!(findings.len(), 5, "{findings:#?}");
    assert!(one("w1").contains(" pixels (") && !one("w1").contains(" mm"), "{}", one("w1"));
    assert!(one("w5").contains("times smaller"), "{}", one("w5"));
}

#[test]
fn colours_are_told_once() {
    let folder = pictures();
    for n in 3..10 {
        let color = |i: u32, j: u32| image::Rgb([(40 * n + i) as u8, (3 * j) as u8, (i + j) as u8]);
        let image = RgbImage::from_fn(WIDTH, HEIGHT, color);
        image.save(folder.path().join(format!("w{n}.png"))).unwrap();
    }
    let found = validation(folder.path());
    let [finding] = &found["findings"].as_array().unwrap()[..] else { panic!("{found:#}") };
    let message = finding["message"].as_str().unwrap();
    let told = "w3.png: colour: turned to grey; 7 of 16 images are so: w3, w4, w5, w6, w7, ...";
    assert!(message.ends_with(told), "{message}");
    assert_eq!(finding["cases"], json!(["w3", "w4", "w5", "w6", "w7", "w8", "w9"]));
}

/// As other commands take it, and not twice.
#[test]
fn the_path_may_be_an_input() {
    let folder = pictures();
    let path = folder.path().as_os_str();
    let said = |arguments: &[&std::ffi::OsStr]| {
        pbt(["validate".as_ref()].iter().chain(arguments)).exits_with(0).stdout
    };
    let plain = said(&[path]);
    assert!(plain.contains("nothing is wrong"), "{plain}");
    assert_eq!(said(&["-i".as_ref(), path]), plain);
    assert_eq!(said(&["--input".as_ref(), path]), plain);
    pbt(["validate".as_ref(), path, "-i".as_ref(), path]).exits_with(2);
    pbt(["validate"]).exits_with(2);
}
