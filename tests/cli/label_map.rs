//! Detections as label maps.

use crate::support::{TRAINING, contents, numbers, pbt, read_json, refused, scratch, text, tiny};
use pbt_io::{read_labels, read_raw};
use pbt_volume::VoxelIndex;

#[test]
fn a_label_map_holds_the_box_on_the_images_grid() {
    let folder = scratch();
    let (tiny, image) = (tiny(), tiny().folder().join(format!("c{TRAINING}.nii.gz")));
    let run = |output: &str, more: &[&str]| {
        let output = folder.path().join(output);
        let fixed = [
            "detect".into(),
            "-m".into(),
            tiny.model().into_os_string(),
            "-i".into(),
            image.clone().into(),
            "-o".into(),
            output.into_os_string(),
        ];
        pbt(fixed.into_iter().chain(more.iter().map(Into::into))).exits_with(0);
    };
    run("with", &["--labels"]);
    run("without", &[]);
    let name = format!("c{TRAINING}");
    assert!(!folder.path().join("without").join(format!("{name}.pbt.seg.nrrd")).exists());

    let map =
        read_labels(&folder.path().join("with").join(format!("{name}.pbt.seg.nrrd"))).unwrap();
    let original = read_raw(&image).unwrap().raw;
    assert_eq!(map.geometry(), original.geometry());
    let result = read_json(&folder.path().join("with").join(format!("{name}.json")));
    let gland = &result["detections"][0];
    // The voxels' volume and middle are those of the box, which lies inside the image.
    let inside: Vec<usize> = (0..map.data().len()).filter(|&n| map.data()[n] == 1).collect();
    assert!(map.data().iter().all(|&label| label <= 1));
    let voxel_mm3 = map.geometry().matrix().determinant().abs();
    let (volume, expected) =
        (inside.len() as f64 * voxel_mm3, numbers(&gland["size_mm"]).iter().product::<f64>());
    assert!((volume / expected - 1.0).abs() < 0.1, "{volume} and {expected} mm³");
    let [nx, ny, _] = map.shape();
    let place = |n: &usize| {
        map.geometry()
            .to_lps(VoxelIndex::new((n % nx) as f64, (n / nx % ny) as f64, (n / nx / ny) as f64))
            .0
            .coords
    };
    let middle = inside.iter().map(place).sum::<nalgebra::Vector3<f64>>() / inside.len() as f64;
    let off_mm = (middle - nalgebra::Vector3::from(numbers(&gland["position_lps_mm"]))).norm();
    assert!(off_mm < 0.5, "{off_mm} mm");
}

#[test]
fn a_batch_writes_label_maps_and_resumes_those_without() {
    let folder = scratch();
    let (images, found) = (folder.path().join("images"), folder.path().join("found"));
    std::fs::create_dir(&images).unwrap();
    for n in TRAINING..TRAINING + 2 {
        let name = format!("c{n}.nii.gz");
        std::fs::copy(tiny().folder().join(&name), images.join(&name)).unwrap();
    }
    let batch = |more: &[&str]| {
        let fixed = [
            "batch".into(),
            "-m".into(),
            tiny().model().into_os_string(),
            "-i".into(),
            images.clone().into_os_string(),
            "-o".into(),
            found.clone().into_os_string(),
        ];
        pbt(fixed.into_iter().chain(more.iter().map(Into::into))).exits_with(0);
        read_json(&found.join("run.json"))
    };
    assert_eq!(batch(&[])["options"]["labels"].as_bool(), Some(false));
    // Results without a label map are not complete.
    let run = batch(&["--labels", "--resume"]);
    assert_eq!(
        (run["counts"]["resumed"].as_u64(), run["counts"]["detected"].as_u64()),
        (Some(0), Some(2))
    );
    let run = batch(&["--labels", "--resume"]);
    assert_eq!(
        (run["counts"]["resumed"].as_u64(), run["options"]["labels"].as_bool()),
        (Some(2), Some(true))
    );
    for n in TRAINING..TRAINING + 2 {
        assert!(
            read_labels(&found.join(format!("c{n}.pbt.seg.nrrd"))).unwrap().data().contains(&1)
        );
    }
}

#[test]
fn label_maps_of_earlier_runs_are_neither_results_nor_images() {
    let folder = scratch();
    let name = format!("c{TRAINING}");
    std::fs::copy(
        tiny().folder().join(format!("{name}.nii.gz")),
        folder.path().join(format!("{name}.nii.gz")),
    )
    .unwrap();
    let map = folder.path().join(format!("{name}.pbt.seg.nrrd"));
    let batch = |more: &[&str]| {
        let fixed = [
            "batch".as_ref(),
            "-m".as_ref(),
            tiny().model().as_os_str(),
            "-i".as_ref(),
            folder.path().as_os_str(),
            "-o".as_ref(),
        ]
        .map(ToOwned::to_owned);
        pbt(fixed.into_iter().chain([folder.path().into()]).chain(more.iter().map(Into::into)))
            .exits_with(0);
        read_json(&folder.path().join("run.json"))["counts"]["cases"].as_u64()
    };
    assert_eq!(batch(&["--labels"]), Some(1));
    assert!(map.is_file());
    // The map is no case; and beside a new result it would look like a part of it.
    assert_eq!(batch(&[]), Some(1));
    assert!(!map.exists());
}

#[test]
fn what_somebody_else_made_is_neither_replaced_nor_removed() {
    let folder = scratch();
    let name = format!("c{TRAINING}");
    let image = folder.path().join(format!("{name}.nii.gz"));
    std::fs::copy(tiny().folder().join(format!("{name}.nii.gz")), &image).unwrap();
    let at = |end: &str| folder.path().join(format!("{name}{end}"));
    let detect = |more: &[&str]| {
        let model = tiny().model();
        let fixed = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(folder.path())];
        pbt([&fixed[..], more].concat())
    };
    // Annotations may have the names of results.
    for end in [".mrk.json", ".json", ".pbt.seg.nrrd"] {
        std::fs::write(at(end), "{\"by\": \"hand\"}").unwrap();
        let before = contents(folder.path());
        refused(detect(&["--labels"]), 2, &[&at(end).display().to_string(), "is there already"]);
        assert_eq!(contents(folder.path()), before);
        std::fs::remove_file(at(end)).unwrap();
    }
    std::fs::write(at(".explain.svg"), "by hand").unwrap();
    refused(detect(&["--explain"]), 2, &[&at(".explain.svg").display().to_string()]);
    std::fs::remove_file(at(".explain.svg")).unwrap();
    // What this run does not write stays.
    std::fs::write(at(".labels.nii.gz"), "by hand").unwrap();
    detect(&[]).exits_with(0);
    assert_eq!(std::fs::read(at(".labels.nii.gz")).unwrap(), b"by hand");
    // Beside a result it belongs to that one, and so does an explanation.
    detect(&["--explain"]).exits_with(0);
    assert!(!at(".labels.nii.gz").exists() && at(".explain.json").is_file());
    detect(&[]).exits_with(0);
    assert!(!at(".explain.json").exists() && !at(".explain.svg").exists());
    // What a run was writing when it was killed belongs to the result that it had begun.
    std::fs::write(at(".json"), "{\n").unwrap();
    std::fs::write(at(".pbt.seg.nrrd"), "cut off").unwrap();
    detect(&[]).exits_with(0);
    assert!(!at(".pbt.seg.nrrd").exists());
    assert_eq!(read_json(&at(".json"))["schema"], "pbt-result/1");
}
