//! `pbt init`: a folder becomes a data set that validates and trains.

use crate::support::{Outcome, pbt, read_json, scratch, text, tiny};
use pbt_io::{RegionMap, read_image, read_labels, read_markups, write_markups};
use pbt_volume::{Pose, Volume, VoxelIndex};
use serde_json::{Value, json};
use std::fs::{copy, create_dir_all, write};
use std::path::Path;

/// The image and the pose of a case of the tiny data set.
fn case(n: usize) -> (std::path::PathBuf, Pose) {
    let markups = tiny().folder().join(format!("c{n}.mrk.json"));
    let pose = *read_markups(&markups).unwrap().pose("gland").unwrap();
    (tiny().folder().join(format!("c{n}.nii.gz")), pose)
}

/// Writes the voxels of a case's box, as far as `share` of its edges, as a mask.
fn write_mask(path: &Path, n: usize, share: f64, value: u16) {
    let (image, pose) = case(n);
    let geometry = read_image(&image).unwrap().volume.geometry().clone();
    let to_box = pose.orientation.inverse();
    let labels = Volume::from_fn(geometry.clone(), |i, j, k| {
        let at = geometry.to_lps(VoxelIndex::new(i as f64, j as f64, k as f64));
        let place = to_box * (at.0 - pose.center.0);
        let inside = (0..3).all(|axis| place[axis].abs() <= share * pose.size_mm[axis] / 2.0);
        if inside { value } else { 0 }
    });
    create_dir_all(path.parent().unwrap()).unwrap();
    RegionMap { labels, regions: vec![("x".to_owned(), value)] }.write_labels(path).unwrap();
}

fn copy_image(n: usize, to: &Path) {
    create_dir_all(to.parent().unwrap()).unwrap();
    copy(case(n).0, to).unwrap();
}

fn init(folder: &Path, more: &[&str]) -> Outcome {
    pbt([&["init", text(folder)], more].concat())
}

/// The data set that was written, which `validate` has nothing against.
#[track_caller]
fn sound(dataset: &Path) -> Value {
    pbt(["validate", text(dataset)]).exits_with(0);
    read_json(dataset)
}

#[track_caller]
fn trains(dataset: &Path, model: &Path) {
    let config = tiny().quick_config();
    let arguments = ["train", "-q", "-i", text(dataset), "-o", text(model), "--config"];
    pbt([&arguments[..], &[text(&config), "--no-segmentation"]].concat()).exits_with(0);
    assert!(model.is_file());
}

fn splits(dataset: &Value) -> Vec<(&str, &str)> {
    let cases = dataset["cases"].as_array().unwrap().iter();
    cases.map(|c| (c["id"].as_str().unwrap(), c["split"].as_str().unwrap())).collect()
}

#[test]
fn images_with_masks_become_a_data_set_that_trains() {
    let folder = scratch();
    let scans = folder.path().join("glands");
    for n in 0..6 {
        copy_image(n, &scans.join(format!("c{n}.nii.gz")));
        write_mask(&scans.join(format!("c{n}_seg.nii.gz")), n, 1.0, 3);
    }
    copy_image(6, &scans.join("spare.nii.gz"));
    let outcome = init(&scans, &["--structure", "gland", "--modality", "US"]).exits_with(0);
    for part in [
        "6 cases (1 test, 5 train); each case is a subject of its own",
        "1 box: gland",
        "every fifth subject by name is for tests",
        "1 image without masks and annotations: spare",
    ] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    let path = scans.join("dataset.json");
    let dataset = sound(&path);
    assert_eq!((&dataset["name"], &dataset["modality"]), (&json!("glands"), &json!("US")));
    assert_eq!(dataset["structures"], json!([{ "name": "gland", "kind": "box" }]));
    assert_eq!(dataset["labels"], json!({ "3": "gland" }));
    let expected = [
        ("c0", "train"),
        ("c1", "train"),
        ("c2", "train"),
        ("c3", "train"),
        ("c4", "test"),
        ("c5", "train"),
    ];
    assert_eq!(splits(&dataset), expected);
    assert_eq!(dataset["cases"][1]["labels"], "c1_seg.nii.gz");
    trains(&path, &folder.path().join("m.pbt"));

    // What is there is not replaced unless that is wanted, and only where it is a data set.
    let before = std::fs::read(&path).unwrap();
    assert!(init(&scans, &[]).exits_with(2).error_line().contains("--force"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A name that nothing needs is not dropped without a word.
    let unused = init(&scans, &["--force", "--label", "3=gland", "--structure", "liver"]);
    let unused = unused.exits_with(0).stdout;
    assert!(unused.contains("\n  the name `liver` (--structure), since"), "{unused}");
    let quiet =
        init(&scans, &["--force", "-q", "--label", "3=gland", "--modality", "us"]).exits_with(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let other = scans.join("notes.json");
    write(&other, "{}").unwrap();
    let refused = init(&scans, &["--force", "-o", text(&other)]).exits_with(2);
    assert!(refused.error_line().contains("is no data set of pbt"), "{}", refused.stderr);
    // Who has no split is not put into training without a word.
    write(scans.join("splits.csv"), "case,split\nc0,train\nc1,test\nc2,train\nc3,train\nc9,test\n")
        .unwrap();
    let outcome = init(&scans, &["--force", "--structure", "gland"]).exits_with(0).stdout;
    for part in [
        "6 cases (1 test, 5 train)",
        "2 cases without a split in folders and tables are for training: c4, c5",
        "splits.csv: 1 case without an image: c9",
    ] {
        assert!(outcome.contains(part), "{part}: {outcome}");
    }
    write(scans.join("splits.csv"), "case,split\nc0,train\nc1,test\nc0,test\n").unwrap();
    let outcome = init(&scans, &["--force", "--structure", "gland"]).exits_with(0).stdout;
    let part = "splits.csv: line 4: `test` is not the split `train` of `c0` in another row";
    assert!(outcome.contains(part), "{outcome}");
    std::fs::remove_file(scans.join("splits.csv")).unwrap();
    // Elsewhere, paths lead back.
    let elsewhere = folder.path().join("sets/glands.json");
    init(&scans, &["-o", text(&elsewhere), "--structure", "gland"]).exits_with(0);
    assert_eq!(read_json(&elsewhere)["cases"][0]["image"], "../glands/c0.nii.gz");
    sound(&elsewhere);
}

#[test]
fn several_masks_of_a_scan_become_one_label_map() {
    let folder = scratch();
    for n in 0..5 {
        let scan = folder.path().join(format!("s{n}"));
        copy_image(n, &scan.join("ct.nii.gz"));
        write_mask(&scan.join("segmentations/gland.nii.gz"), n, 1.0, 1);
        write_mask(&scan.join("segmentations/core.nii.gz"), n, 0.5, 1);
        write_mask(&scan.join("segmentations/empty.nii.gz"), n, 0.0, 0);
    }
    let outcome = init(folder.path(), &[]).exits_with(0);
    for part in [
        "15 masks of 5 images",
        "2 boxes: core, gland",
        "where masks overlap, the one with fewer voxels in that image has them: core and gland",
        "1 structure without a voxel anywhere: empty",
        "the modality is CT, because of the name `s0/ct.nii.gz` (--modality says otherwise)",
    ] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    let path = folder.path().join("dataset.json");
    let dataset = read_json(&path);
    assert_eq!(dataset["labels"], json!({ "1": "core", "3": "gland" }));
    assert_eq!(dataset["cases"][2]["labels"], "dataset-files/s2.labels.nii.gz");
    let labels =
        pbt_io::read_labels(&folder.path().join("dataset-files/s2.labels.nii.gz")).unwrap();
    let masks = ["gland", "core"].map(|name| {
        pbt_io::read_labels(&folder.path().join(format!("s2/segmentations/{name}.nii.gz"))).unwrap()
    });
    for (n, &label) in labels.data().iter().enumerate() {
        let expected = match masks.each_ref().map(|mask| mask.data()[n]) {
            [_, 1] => 1,
            [1, _] => 3,
            _ => 0,
        };
        assert_eq!(label, expected);
    }
    trains(&path, &folder.path().join("m.pbt"));
    // What was written is not taken for a scan.
    init(folder.path(), &["--force"]).exits_with(0);
    assert_eq!(read_json(&path), dataset);
}

#[test]
fn files_with_nnunets_numbers_are_channels_of_one_image() {
    let folder = scratch();
    for n in 0..5 {
        for channel in 0..2 {
            copy_image(n, &folder.path().join(format!("c{n}_{channel:04}.nii.gz")));
        }
        write_mask(&folder.path().join(format!("c{n}_seg.nii.gz")), n, 1.0, 1);
    }
    let outcome = init(folder.path(), &["--structure", "gland"]).exits_with(0);
    assert!(
        outcome.stdout.contains("2 channels of each image: channel_0, channel_1"),
        "{}",
        outcome.stdout
    );
    let path = folder.path().join("dataset.json");
    let dataset = sound(&path);
    assert_eq!(dataset["channels"], json!(["channel_0", "channel_1"]));
    assert_eq!(dataset["cases"].as_array().unwrap().len(), 5);
    let case = &dataset["cases"][3];
    assert_eq!(case["id"], "c3");
    assert_eq!(case["image"], json!(["c3_0000.nii.gz", "c3_0001.nii.gz"]));
    trains(&path, &folder.path().join("m.pbt"));
    // An image without the second channel: then there is one.
    std::fs::remove_file(folder.path().join("c3_0001.nii.gz")).unwrap();
    let outcome = init(folder.path(), &["--structure", "gland", "--force"]).exits_with(0);
    let why = "4 files of further channels (_0001 and so on), since not every image has the same";
    assert!(outcome.stdout.contains(why), "{}", outcome.stdout);
    let dataset = sound(&path);
    assert_eq!(
        (&dataset["channels"], &dataset["cases"][0]["image"]),
        (&json!(null), &json!("c0_0000.nii.gz"))
    );
}

#[test]
fn several_values_may_be_one_structure() {
    let folder = scratch();
    let core = folder.path().join("core.nii.gz");
    for n in 0..5 {
        copy_image(n, &folder.path().join(format!("c{n}.nii.gz")));
        let path = folder.path().join(format!("c{n}_seg.nii.gz"));
        write_mask(&path, n, 1.0, 1);
        write_mask(&core, n, 0.5, 7);
        let (whole, core) =
            (pbt_io::read_labels(&path).unwrap(), pbt_io::read_labels(&core).unwrap());
        let values = whole.data().iter().zip(core.data()).map(|(&a, &b)| a.max(b)).collect();
        let labels = Volume::new(whole.geometry().clone(), values);
        let regions = vec![("rim".to_owned(), 1), ("core".to_owned(), 7)];
        RegionMap { labels, regions }.write_labels(&path).unwrap();
    }
    std::fs::remove_file(&core).unwrap();
    let said =
        init(folder.path(), &["--label", "7=gland", "--label", "1=gland", "--label", "9=duct"]);
    let said = said.exits_with(0).stdout;
    assert!(said.contains("the name `duct` (--label 9=duct), since no label map has"), "{said}");
    let dataset = sound(&folder.path().join("dataset.json"));
    assert_eq!(dataset["labels"], json!({ "1": "gland" }));
    assert_eq!(dataset["structures"], json!([{ "name": "gland", "kind": "box" }]));
    assert_eq!(dataset["cases"][2]["labels"], "dataset-files/c2.labels.nii.gz");
    let read = |name: &str| pbt_io::read_labels(&folder.path().join(name)).unwrap();
    let (theirs, joined) = (read("c2_seg.nii.gz"), read("dataset-files/c2.labels.nii.gz"));
    assert!(theirs.data().contains(&7) && theirs.data().contains(&1));
    let expected = theirs.data().iter().map(|&value| u16::from(value != 0));
    assert!(joined.data().iter().copied().eq(expected));
}

/// The inside of a mask is 1 in one program and 255 in another.
#[test]
fn the_only_structure_may_have_another_value_in_each_file() {
    let folder = scratch();
    let scans = folder.path().join("scans");
    for n in 0..6 {
        copy_image(n, &scans.join(format!("c{n}.nii.gz")));
        // One of them shows nothing.
        let (share, value) = [(1.0, 1), (1.0, 255), (0.0, 1)][n.saturating_sub(3)];
        write_mask(&scans.join(format!("c{n}_mask.nii.gz")), n, share, value);
    }
    let said = init(&scans, &["--structure", "gland", "--modality", "US"]).exits_with(0).stdout;
    assert!(
        said.contains("the masks, of value 1 or 255, all show `gland` (--structure)"),
        "{said}"
    );
    assert!(!said.contains("left out"), "{said}");
    let dataset = sound(&scans.join("dataset.json"));
    assert_eq!(dataset["structures"], json!([{ "name": "gland", "kind": "box" }]));
    assert_eq!(dataset["cases"].as_array().unwrap().len(), 6);
    // Without a name for it, values are structures.
    let said = init(&scans, &["--force", "--modality", "US"]).exits_with(0).stdout;
    assert!(said.contains("label_255"), "{said}");
}

#[test]
fn boxes_of_slicer_and_of_tables_are_the_same() {
    let folder = scratch();
    let (slicer, table) = (folder.path().join("slicer"), folder.path().join("table"));
    let mut rows =
        "case,structure,cx,cy,cz,e1x,e1y,e1z,e2x,e2y,e2z,e3x,e3y,e3z,len1,len2,len3\n".to_owned();
    for n in 0..5 {
        let (_, pose) = case(n);
        for set in [&slicer, &table] {
            copy_image(n, &set.join(format!("images/c{n}.nii.gz")));
        }
        create_dir_all(slicer.join("annotations")).unwrap();
        let markups = slicer.join(format!("annotations/c{n}.mrk.json"));
        write_markups(&markups, &[("gland".to_owned(), pose)], &[], |_| String::new()).unwrap();
        // In RAS.
        let mut numbers: Vec<f64> = pose.center.0.iter().copied().collect();
        numbers.extend(pose.axes().iter());
        for (n, number) in numbers.iter_mut().enumerate() {
            if n % 3 != 2 {
                *number = -*number;
            }
        }
        numbers.extend(pose.size_mm);
        let numbers: Vec<String> = numbers.iter().map(f64::to_string).collect();
        rows.push_str(&format!("c{n},gland,{}\n", numbers.join(",")));
    }
    let stranger = rows.lines().nth(1).unwrap().replacen("c0", "c77", 1);
    rows.push_str(&stranger);
    write(table.join("boxes.csv"), rows).unwrap();
    init(&slicer, &["--modality", "US"]).exits_with(0);
    let path = slicer.join("dataset.json");
    assert_eq!(sound(&path)["cases"][3]["annotations"], "annotations/c3.mrk.json");

    let unknown = init(&table, &[]).exits_with(4);
    assert!(unknown.error_line().contains("give --space LPS or --space RAS"), "{}", unknown.stderr);
    let outcome = init(&table, &["--modality", "US", "--space", "RAS"]).exits_with(0);
    assert!(outcome.stdout.contains("1 case without an image: c77"), "{}", outcome.stdout);
    sound(&table.join("dataset.json"));
    for n in 0..5 {
        let written = table.join(format!("dataset-files/c{n}.mrk.json"));
        let pose = *read_markups(&written).unwrap().pose("gland").unwrap();
        let (_, truth) = case(n);
        assert!(pose.center.distance_mm(&truth.center) < 1e-9 && pose.angle_to(&truth) < 1e-9);
    }
    trains(&table.join("dataset.json"), &folder.path().join("m.pbt"));
}

#[test]
fn nameless_boxes_of_slicer_stay_where_they_are() {
    let folder = scratch();
    for n in 0..5 {
        copy_image(n, &folder.path().join(format!("c{n}.nii.gz")));
        let path = folder.path().join(format!("c{n}.mrk.json"));
        let (_, pose) = case(n);
        write_markups(&path, &[("x".to_owned(), pose)], &[], |_| String::new()).unwrap();
        // Slicer writes no names.
        let mut file = read_json(&path);
        let markup = file["markups"][0].as_object_mut().unwrap();
        markup.remove("name");
        markup.remove("label");
        write(&path, file.to_string()).unwrap();
    }
    let arguments = ["--structure", "gland", "--modality", "US"];
    let outcome = init(folder.path(), &arguments).exits_with(0);
    assert!(outcome.stdout.contains("boxes without a name are `gland`"), "{}", outcome.stdout);
    let path = folder.path().join("dataset.json");
    assert_eq!(sound(&path)["cases"][0]["annotations"], "c0.mrk.json");
    trains(&path, &folder.path().join("m.pbt"));
}

#[test]
fn nnunet_folders_keep_their_file() {
    let folder = scratch();
    for n in 0..5 {
        copy_image(n, &folder.path().join(format!("imagesTr/c{n}_0000.nii.gz")));
        write_mask(&folder.path().join(format!("labelsTr/c{n}.nii.gz")), n, 1.0, 1);
    }
    let path = folder.path().join("labelsTr/c0.nii.gz");
    let mut labels = read_labels(&path).unwrap();
    labels.data_mut()[0] = 2;
    RegionMap { labels, regions: Vec::new() }.write_labels(&path).unwrap();
    let theirs = json!({
        "channel_names": { "0": "US" }, "labels": { "background": 0, "gland": 1, "ignore": 2 },
        "numTraining": 5, "file_ending": ".nii.gz"
    });
    write(folder.path().join("dataset.json"), theirs.to_string()).unwrap();
    let refused = init(folder.path(), &["--force"]).exits_with(2);
    assert!(refused.error_line().contains("is no data set of pbt"), "{}", refused.stderr);
    let path = folder.path().join("pbt.json");
    let outcome = init(folder.path(), &["-o", text(&path)]).exits_with(0);
    assert!(outcome.stdout.contains("an nnU-Net folder with 5 images"), "{}", outcome.stdout);
    let dataset = sound(&path);
    assert_eq!(dataset["labels"], json!({ "1": "gland", "2": "ignore" }));
    assert!(!outcome.stdout.contains("label_2"), "{}", outcome.stdout);
    assert_eq!(dataset["modality"], "US");
    assert_eq!(splits(&dataset)[4], ("c4", "test"));
    // Without their file, names of folders say the same but for the labels'.
    std::fs::remove_file(folder.path().join("dataset.json")).unwrap();
    let labels = ["--label", "1=gland", "--label", "2=ignore"];
    init(folder.path(), &[&labels[..], &["--modality", "US"]].concat()).exits_with(0);
    let again = read_json(&folder.path().join("dataset.json"));
    assert_eq!((&again["cases"], &again["labels"]), (&dataset["cases"], &dataset["labels"]));
}

#[test]
fn where_there_is_nothing_that_is_said() {
    let folder = scratch();
    let refused = |path: &Path, more: &[&str], code, part: &str| {
        let outcome = init(path, more).exits_with(code);
        assert!(outcome.error_line().contains(part), "{}", outcome.stderr);
    };
    refused(folder.path(), &[], 4, "folder: holds no image");
    refused(&folder.path().join("no"), &[], 4, "does not exist");
    for n in 0..3 {
        copy_image(n, &folder.path().join(format!("c{n}.nii.gz")));
    }
    refused(folder.path(), &[], 4, "holds 3 images and no masks or annotations");
    write_mask(&folder.path().join("other_seg.nii.gz"), 0, 1.0, 1);
    refused(folder.path(), &[], 4, "other_seg.nii.gz: label map of no image by its name");
    write_mask(&folder.path().join("c0_seg.nii.gz"), 0, 1.0, 1);
    refused(folder.path(), &[], 4, "no structure is annotated in 2 training cases");
    refused(&folder.path().join("c0.nii.gz"), &[], 4, "is a file");
    refused(folder.path(), &["--label", "liver"], 2, "as in 1=liver");
    refused(folder.path(), &["--space", "XYZ"], 2, "XYZ");
    // A label map that is none is left out by name.
    write(folder.path().join("c1_seg.nii.gz"), "no image").unwrap();
    write_mask(&folder.path().join("c2_seg.nii.gz"), 2, 1.0, 1);
    let outcome = init(folder.path(), &[]).exits_with(0);
    assert!(outcome.stdout.contains("c1_seg.nii.gz: "), "{}", outcome.stdout);
}

#[test]
fn who_trains_on_or_validates_a_mere_folder_is_sent_to_init() {
    let folder = scratch();
    for n in 1..4 {
        copy_image(n, &folder.path().join(format!("images/c{n}.nii.gz")));
        write_mask(&folder.path().join(format!("labels/c{n}.nii.gz")), n, 1.0, 1);
    }
    let advice = format!("`pbt init {}` makes", text(folder.path()));
    let line = pbt(["train", "-i", text(folder.path()), "-o", text(&folder.path().join("m.pbt"))])
        .exits_with(4)
        .error_line()
        .to_owned();
    assert!(line.contains("folder: holds no dataset.json (") && line.contains(&advice), "{line}");
    let said = pbt(["validate", text(folder.path())]).exits_with(0).stdout;
    assert!(said.contains("3 of 6 images are masks of others") && said.contains(&advice), "{said}");
    assert_eq!(said.matches("warning: ").count(), 1, "{said}");
    init(folder.path(), &[]).exits_with(0);
    sound(&folder.path().join("dataset.json"));
}

#[test]
fn some_of_many_values_or_masks_are_taken() {
    let folder = scratch();
    for n in 0..3 {
        copy_image(n, &folder.path().join(format!("images/c{n}.nii.gz")));
        let path = folder.path().join(format!("labels/c{n}.nii.gz"));
        write_mask(&path, n, 1.0, 1);
        let outer = pbt_io::read_labels(&path).unwrap();
        write_mask(&path, n, 0.6, 1);
        let inner = pbt_io::read_labels(&path).unwrap();
        let both = outer.data().iter().zip(inner.data()).map(|(o, i)| 3 * o + 4 * i).collect();
        let labels = Volume::new(outer.geometry().clone(), both);
        RegionMap { labels, regions: vec![("x".to_owned(), 1)] }.write_labels(&path).unwrap();
    }
    let file = folder.path().join("dataset.json");
    let names = |dataset: &Value| dataset["structures"].as_array().unwrap().len();
    init(folder.path(), &[]).exits_with(0);
    assert_eq!(names(&sound(&file)), 2);
    for only in ["7", "core"] {
        let said =
            init(folder.path(), &["--force", "--label", "7=core", "--only", only]).exits_with(0);
        assert!(
            said.stdout.contains("1 structure that --only does not name: label_3"),
            "{}",
            said.stdout
        );
        let dataset = sound(&file);
        assert_eq!((names(&dataset), &dataset["labels"]), (1, &json!({ "7": "core" })));
    }
    let before = std::fs::read(&file).unwrap();
    for (only, parts) in [
        ("8", "--only: `8` is no name of a structure and no value of a label map here"),
        (
            "label_4",
            "did you mean `label_3`? (there are label_3, label_7; --label 3=NAME names a value)",
        ),
    ] {
        let refused = init(folder.path(), &["--force", "--only", only]).exits_with(4);
        assert!(refused.error_line().contains(parts), "{}", refused.stderr);
    }
    assert_eq!(std::fs::read(&file).unwrap(), before);
    trains(&file, &folder.path().join("m.pbt"));

    // A mask that is left out takes no voxels from one that holds it.
    let folder = scratch();
    for n in 0..3 {
        let at = |name: &str| folder.path().join(format!("s{n}/{name}"));
        copy_image(n, &at("ct.nii.gz"));
        write_mask(&at("segmentations/organ.nii.gz"), n, 1.0, 1);
        write_mask(&at("segmentations/cyst.nii.gz"), n, 0.5, 1);
    }
    init(folder.path(), &["--only", "organ"]).exits_with(0);
    let dataset = sound(&folder.path().join("dataset.json"));
    let labels = folder.path().join(dataset["cases"][0]["labels"].as_str().unwrap());
    let whole = folder.path().join("s0/segmentations/organ.nii.gz");
    let count =
        |path: &Path| pbt_io::read_labels(path).unwrap().data().iter().filter(|v| **v != 0).count();
    assert_eq!(count(&labels), count(&whole));
}

#[test]
fn what_was_detected_is_no_annotation() {
    let folder = scratch();
    let images = folder.path().join("images");
    for n in 0..5 {
        copy_image(n, &images.join(format!("c{n}.nii.gz")));
        write_mask(&folder.path().join(format!("labels/c{n}.nii.gz")), n, 1.0, 1);
    }
    // In a folder of its own, and among the images.
    for out in [folder.path().join("found"), images.clone()] {
        for n in 0..5 {
            let image = images.join(format!("c{n}.nii.gz"));
            pbt([
                "detect",
                "-q",
                "-m",
                "phantom-us",
                "-i",
                text(&image),
                "-o",
                text(&out),
                "--labels",
            ])
            .exits_with(0);
        }
        assert!(out.join("c0.mrk.json").is_file() && out.join("c0.pbt.seg.nrrd").is_file());
    }
    let outcome = init(folder.path(), &["--structure", "gland"]).exits_with(0);
    let told =
        "20 files beside results of pbt, which were detected and not annotated: found/c0.mrk.json";
    assert!(outcome.stdout.contains(told), "{}", outcome.stdout);
    let dataset = read_json(&folder.path().join("dataset.json"));
    let cases = dataset["cases"].as_array().unwrap();
    assert!(cases.len() == 5 && dataset["structures"].as_array().unwrap().len() == 1, "{dataset}");
    for (n, case) in cases.iter().enumerate() {
        assert!(case.get("annotations").is_none(), "{case}");
        assert_eq!(case["labels"], format!("labels/c{n}.nii.gz"));
    }
}
