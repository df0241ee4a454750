//! `pbt report`

use crate::support::{pbt, read_json, refused, scratch, text, tiny};
use serde_json::{Value, json};
use std::path::Path;

/// What a page must show and never run.
const HOSTILE: &str = "<script>alert(\"1\")</script>&'";

fn page(input: &Path, more: &[&str]) -> String {
    let out = scratch();
    let file = out.path().join("page.html");
    pbt(["report", text(input), "-o", text(&file)].iter().chain(more)).exits_with(0);
    std::fs::read_to_string(file).unwrap()
}

/// A report of an evaluation of the tiny data set, made once a test.
fn evaluation(folder: &Path) -> std::path::PathBuf {
    let (model, report) = (tiny().model(), folder.join("report.json"));
    let data = tiny().folder();
    pbt(["evaluate", "-m", text(&model), "-i", text(data), "-o", text(&report)]).exits_with(0);
    report
}

/// Loads nothing, and runs nothing but its own scripts.
fn is_self_contained(page: &str) {
    assert!(page.starts_with("<!doctype html>") && page.contains("default-src 'none'"));
    let viewer = page.contains("id=\"niivue\"");
    assert_eq!(page.matches("<script>").count(), if viewer { 2 } else { 1 });
    assert_eq!(page.matches("'sha256-").count(), if viewer { 3 } else { 1 });
    // The licences of the viewer are text.
    // A page of many pictures has every name once.
    let ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|id| id.split('"').next()).collect();
    let names: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), names.len(), "{ids:?}");
    let (before, after) = page.split_once("<pre>").unwrap_or((page, ""));
    let page = format!("{before}{}", after.split_once("</pre>").map_or("", |(_, rest)| rest));
    for outside in ["http://", "https://", " src=\"/", "@import", "<link"] {
        let namespaces = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!namespaces.contains(outside), "{outside}");
    }
}

#[test]
fn an_evaluation_is_shown_worst_first_and_names_are_text() {
    let folder = scratch();
    let path = evaluation(folder.path());
    let mut report = read_json(&path);
    let records = report["records"].as_array().unwrap().clone();
    let mut worst = records[0].clone();
    worst["case"] = json!(HOSTILE);
    worst["structure"] = json!(HOSTILE);
    worst["right"] = json!(false);
    worst["error"]["center_mm"] = json!(12345.0);
    report["dataset"] = json!(HOSTILE);
    // What is rightly called absent is nothing to look at first.
    let mut absent = records[0].clone();
    for (key, value) in [
        ("case", json!("empty")),
        ("truth", json!("absent")),
        ("answer", json!("absent")),
        ("right", json!(false)),
        ("error", Value::Null),
    ] {
        absent[key] = value;
    }
    report["records"].as_array_mut().unwrap().extend([worst, absent]);
    report["failed"] = json!([{ "case": "cut", "reason": "the file ends too early" }]);
    std::fs::write(&path, report.to_string()).unwrap();
    let page = page(&path, &[]);
    is_self_contained(&page);
    assert!(!page.contains("alert(\"1\")") && page.contains("&lt;script&gt;"));
    // Failed cases, then the worst one, then the others.
    let cases: Vec<&str> = page.split("<span class=\"name\">").skip(1).collect();
    assert!(cases[0].starts_with("cut<") && page.contains("the file ends too early"));
    assert!(cases[1].starts_with("&lt;script"), "{}", &cases[1][..60]);
    let names: std::collections::BTreeSet<&str> =
        records.iter().map(|r| r["case"].as_str().unwrap()).collect();
    assert_eq!(cases.len(), names.len() + 3);
    let last = cases.last().unwrap();
    assert!(last.starts_with("empty<") && last.contains("1 of 1 right"), "{last}");
    assert!(last.contains("rightly absent") && !last.contains("wrong"), "{last}");
    assert!(page.contains("12345.00"));
    let with_viewer = self::page(&path, &["--viewer", "niivue"]);
    assert!(with_viewer.contains("No viewer: a report says neither where images are"));
    assert!(!with_viewer.contains("id=\"niivue\""));
    // What a report cannot show is not dropped without a word.
    let out = folder.path().join("page.html");
    let asked = ["report", text(&path), "-o", text(&out), "--pictures", "3"];
    let outcome = pbt(asked).exits_with(0);
    assert!(outcome.stderr.contains("--pictures: is left out, since"), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("--viewer"), "{}", outcome.stderr);
}

#[test]
fn a_batch_is_shown_with_pictures_where_they_are_asked_for() {
    let (folder, found) = (scratch(), scratch());
    let list = folder.path().join("list.csv");
    let images = tiny().folder();
    let good = images.join("c0.nii.gz");
    let bad = folder.path().join("bad.nii.gz");
    std::fs::write(&bad, "no image").unwrap();
    std::fs::write(
        &list,
        format!("case_id,path\na good one,{}\na bad one,{}\n", good.display(), bad.display()),
    )
    .unwrap();
    let model = tiny().model();
    pbt(["batch", "-m", text(&model), "-i", text(&list), "-o", text(found.path())]).exits_with(3);
    let plain = page(found.path(), &[]);
    is_self_contained(&plain);
    let names: Vec<&str> =
        plain.split("<span class=\"name\">").skip(1).filter_map(|s| s.split('<').next()).collect();
    assert_eq!(names, ["a bad one", "a good one"]);
    // No voxel leaves unless asked for.
    assert!(!plain.contains("data:image") && !plain.to_lowercase().contains("niivue"));
    let drawn = page(found.path(), &["--pictures", "5"]);
    is_self_contained(&drawn);
    assert_eq!(drawn.matches("data:image/png").count(), 3);
    let viewed = page(found.path(), &["--viewer", "niivue"]);
    is_self_contained(&viewed);
    assert!(viewed.contains("1 of 2 cases, marked “in the viewer”, can be opened in NiiVue"));
    let scene = scene(&viewed);
    let result = read_json(&found.path().join("a good one.json"));
    assert_eq!(scene["structures"][0]["position"], result["detections"][0]["position_lps_mm"]);
    assert_eq!(scene["full_shape"], result["input"]["shape"]);
    assert_eq!(scene["structures"][0]["corners"].as_array().unwrap().len(), 8);
    // Paper, and browsers without WebGL2, have the slices.
    assert_eq!(viewed.matches("data:image/png").count(), 3);

    // Labels beside a result are drawn over the slices, with their names.
    let geometry = pbt_io::read_image(&good).unwrap().volume.geometry().clone();
    let labels = pbt_volume::Volume::filled(geometry, 7);
    let map = pbt_io::RegionMap { labels, regions: vec![("left <gland>".to_owned(), 7)] };
    map.write_labels(&found.path().join("a good one.labels.nii.gz")).unwrap();
    map.write_segmentation(&found.path().join("a good one.pbt.seg.nrrd")).unwrap();
    let drawn = page(found.path(), &["--pictures", "5"]);
    is_self_contained(&drawn);
    assert_eq!(drawn.matches("data:image/png").count(), 6);
    assert!(drawn.contains("left &lt;gland&gt;</text>"), "{drawn}");

    // Where the image is another by now, or gone, the page says so.
    let result = found.path().join("a good one.json");
    let mut changed = read_json(&result);
    changed["input"]["sha256"] = Value::from("0".repeat(64));
    std::fs::write(&result, changed.to_string()).unwrap();
    for more in [["--pictures", "5"], ["--viewer", "niivue"]] {
        let page = page(found.path(), &more);
        assert!(page.contains("is not the image that the result is about"), "{page}");
        assert!(!page.contains("id=\"niivue\""));
    }
}

/// `pbt detect` writes results as `pbt batch` does, among files of the user's own.
#[test]
fn a_folder_of_detect_is_shown() {
    let found = scratch();
    let image = tiny().folder().join("c7.nii.gz");
    let model = tiny().model();
    pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(found.path())]).exits_with(0);
    std::fs::write(found.path().join("mine.json"), "{}").unwrap();
    let shown = page(found.path(), &["--pictures", "1"]);
    assert!(shown.contains(">c7</") && shown.matches("data:image/png").count() == 3, "{shown}");

    // So does a batch, and beside its results there may be explanations and a report.
    let list = found.path().join("list.csv");
    std::fs::write(&list, format!("case_id,path\nc7,{}\n", image.display())).unwrap();
    pbt(["batch", "-m", text(&model), "-i", text(&list), "-o", text(found.path())]).exits_with(0);
    let detect = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(found.path())];
    pbt([&detect[..], &["--explain"]].concat()).exits_with(0);
    evaluation(found.path());
    let shown = page(found.path(), &[]);
    assert_eq!(shown.matches("<span class=\"name\">").count(), 1, "{shown}");
}

/// The first scene of a page for the viewer.
fn scene(page: &str) -> Value {
    let (_, rest) = page.split_once("<script type=\"application/json\"").unwrap();
    let json = rest.split_once('>').unwrap().1.split_once("</script>").unwrap().0;
    serde_json::from_str(json).unwrap()
}

#[test]
fn what_is_no_report_is_refused() {
    let out = scratch();
    let file = out.path().join("page.html");
    let report = |input: &Path| pbt(["report", text(input), "-o", text(&file)]);
    refused(report(&out.path().join("none.json")), 4, &["none.json", "no such file"]);
    refused(report(out.path()), 4, &["holds no result", "pbt batch"]);
    let other = out.path().join("other.json");
    for (content, part) in [
        ("{\"schema\": \"pbt-result/1\"}", "schema"),
        ("{\"schema\": \"pbt-evaluation/1\"}", "missing field"),
        ("[", "other.json: file: is not JSON"),
    ] {
        std::fs::write(&other, content).unwrap();
        refused(report(&other), 4, &["other.json", part]);
    }
    assert!(!file.exists());
}
