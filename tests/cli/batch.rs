//! `pbt batch`

use crate::support::{Outcome, TEST, TRAINING, numbers, pbt, read_json, scratch, text, tiny};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;
use std::path::Path;

fn batch(input: &Path, output: &Path, more: &[&str]) -> Outcome {
    let model = tiny().model();
    let arguments = ["batch", "-m", text(&model), "-i", text(input), "-o", text(output)];
    pbt(arguments.iter().chain(more))
}

/// A list of all cases of the tiny data set, in an order of its own; `spoilt` is one that cannot be
/// read.
fn list(folder: &Path) -> std::path::PathBuf {
    std::fs::write(folder.join("spoilt.nii.gz"), "no image").unwrap();
    let mut text = String::from("case_id,path\n");
    for n in (0..TRAINING + TEST).rev() {
        text.push_str(&format!(
            "p{n},{}\n",
            tiny().folder().join(format!("c{n}.nii.gz")).display()
        ));
        if n == 4 {
            text.push_str("spoilt,spoilt.nii.gz\n");
        }
    }
    let path = folder.join("list.csv");
    std::fs::write(&path, text).unwrap();
    path
}

/// The CSV table as rows of cells; the first holds the names.
fn table(folder: &Path) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .from_path(folder.join("detections.csv"))
        .unwrap();
    reader.records().map(|r| r.unwrap().iter().map(str::to_owned).collect()).collect()
}

/// The column of that name, without the name.
fn column(table: &[Vec<String>], name: &str) -> Vec<String> {
    let place = table[0].iter().position(|n| n == name).unwrap();
    table[1..].iter().map(|row| row[place].clone()).collect()
}

/// A result file without the part that may differ between runs.
fn result(path: &Path) -> Value {
    let mut value = read_json(path);
    value.as_object_mut().unwrap().remove("run");
    value
}

#[test]
fn a_list_gives_results_tables_and_a_record() {
    let (data, out) = (scratch(), scratch());
    let outcome = batch(&list(data.path()), out.path(), &["--threads", "2"]).exits_with(3);
    assert!(
        outcome.error_line().contains("case spoilt: ")
            && outcome.error_line().contains("spoilt.nii.gz"),
        "{}",
        outcome.stderr
    );

    let table = table(out.path());
    assert_eq!(
        column(&table, "case_id"),
        ["p8", "p7", "p6", "p5", "p4", "spoilt", "p3", "p2", "p1", "p0"]
    );
    let failed = &table[6];
    assert_eq!(column(&table, "status")[5], "failed");
    assert!(column(&table, "reason")[5].contains("spoilt.nii.gz"));
    assert!(!out.path().join("spoilt.json").exists());
    let single = scratch();
    for (n, row) in table[1..].iter().enumerate().filter(|&(n, _)| n != 5) {
        let id = &row[0];
        // What `pbt detect` finds in the same image.
        let image = tiny().folder().join(format!("c{}.nii.gz", &id[1..]));
        pbt(["detect", "-m", text(&tiny().model()), "-i", text(&image), "-o", text(single.path())])
            .exits_with(0);
        let mut expected = result(&single.path().join(format!("c{}.json", &id[1..])));
        expected["case_id"] = Value::from(id.as_str());
        let found = result(&out.path().join(format!("{id}.json")));
        assert_eq!(found, expected);
        let markups = read_json(&out.path().join(format!("{id}.mrk.json")));
        let detection = &found["detections"][0];
        assert_eq!(markups["markups"][0]["center"], detection["position_lps_mm"]);
        let cell = |name: &str| column(&table, name)[n].clone();
        let place =
            ["x_lps_mm", "y_lps_mm", "z_lps_mm"].map(|name| cell(name).parse::<f64>().unwrap());
        assert_eq!(place, numbers(&detection["position_lps_mm"]));
        let size =
            ["size_1_mm", "size_2_mm", "size_3_mm"].map(|name| cell(name).parse::<f64>().unwrap());
        assert_eq!(size, numbers(&detection["size_mm"]));
        assert_eq!(
            cell("qw").parse::<f64>().unwrap(),
            detection["orientation"]["quaternion_wxyz"][0].as_f64().unwrap()
        );
        assert_eq!((cell("name"), cell("kind")), ("gland".to_owned(), "box".to_owned()));
        assert_eq!(cell("input_sha256"), found["input"]["sha256"].as_str().unwrap());
    }
    assert!(failed[failed.len() - 2] == column(&table, "model_sha256")[0]);

    let run = read_json(&out.path().join("run.json"));
    assert_eq!(
        (run["schema"].as_str(), run["options"]["resume"].as_bool()),
        (Some("pbt-run/1"), Some(false))
    );
    let counts = &run["counts"];
    assert_eq!(
        ["cases", "detected", "resumed", "failed"].map(|n| counts[n].as_u64().unwrap()),
        [10, 9, 0, 1]
    );
    assert_eq!(
        (run["failed"].as_array().unwrap().len(), run["failed"][0]["case_id"].as_str()),
        (1, Some("spoilt"))
    );
    assert_eq!(run["device"]["threads"], 2);
    // Two cases are in detection at a time.
    let seconds = |key: &str| run["seconds"][key].as_f64().unwrap();
    assert!(seconds("detect") > 0.0 && 2.0 * seconds("total") >= seconds("detect"));
}

#[test]
fn parquet_holds_what_csv_holds() {
    let (data, out) = (scratch(), scratch());
    batch(&list(data.path()), out.path(), &[]).exits_with(3);
    let table = table(out.path());
    let reader = SerializedFileReader::new(
        std::fs::File::open(out.path().join("detections.parquet")).unwrap(),
    )
    .unwrap();
    let cell = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Double(value) => value.to_string(),
        Field::Str(text) => text.clone(),
        other => panic!("{other:?}"),
    };
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        assert_eq!(
            row.get_column_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(),
            table[0]
        );
        rows.push(row.get_column_iter().map(|(_, field)| cell(field)).collect::<Vec<_>>());
    }
    assert_eq!(rows, table[1..]);
}

#[test]
fn shards_together_give_the_whole_and_resuming_leaves_results_alone() {
    let (data, whole, parts) = (scratch(), scratch(), scratch());
    let list = list(data.path());
    batch(&list, whole.path(), &["-q"]).exits_with(3);
    batch(&list, parts.path(), &["-q", "--shard", "1/2"]).exits_with(0);
    assert_eq!(table(parts.path()).len(), 1 + 5);
    batch(&list, parts.path(), &["-q", "--shard", "2/2"]).exits_with(3);
    let bytes = |folder: &Path, file: &str| std::fs::read(folder.join(file)).unwrap();
    for file in ["detections.csv", "detections.parquet"] {
        assert_eq!(bytes(whole.path(), file), bytes(parts.path(), file), "{file}");
    }
    // The first part again, after the second has recorded its failure.
    batch(&list, parts.path(), &["-q", "--shard", "1/2"]).exits_with(0);
    assert_eq!(bytes(whole.path(), "detections.csv"), bytes(parts.path(), "detections.csv"));

    // A result of this model stays, one that is damaged or of another model is made again.
    let path = |id: &str| whole.path().join(format!("{id}.json"));
    let kept = bytes(whole.path(), "p1.json");
    std::fs::write(path("p2"), "{").unwrap();
    let mut other = read_json(&path("p3"));
    other["model"]["sha256"] = Value::from("0".repeat(64));
    std::fs::write(path("p3"), other.to_string()).unwrap();
    std::fs::remove_file(whole.path().join("p4.mrk.json")).unwrap();
    let table_before = bytes(whole.path(), "detections.csv");
    batch(&list, whole.path(), &["--resume"]).exits_with(3);
    assert_eq!(bytes(whole.path(), "p1.json"), kept);
    assert_eq!(bytes(whole.path(), "detections.csv"), table_before);
    assert!(whole.path().join("p4.mrk.json").exists());
    let counts = &read_json(&whole.path().join("run.json"))["counts"];
    assert_eq!(
        ["cases", "detected", "resumed", "failed"].map(|n| counts[n].as_u64().unwrap()),
        [10, 3, 6, 1]
    );
}

#[test]
fn a_folder_is_searched_and_two_of_a_name_are_refused() {
    let (data, out) = (scratch(), scratch());
    std::fs::create_dir_all(data.path().join("b")).unwrap();
    for (case, file) in [("c7", "z.nii.gz"), ("c6", "b/y.nii.gz")] {
        std::fs::copy(tiny().folder().join(format!("{case}.nii.gz")), data.path().join(file))
            .unwrap();
    }
    std::fs::write(data.path().join("notes.txt"), "no image").unwrap();
    let outcome = batch(data.path(), out.path(), &[]).exits_with(0);
    assert!(outcome.stderr.contains("2 cases: 2 done, 0 failed"), "{}", outcome.stderr);
    assert_eq!(column(&table(out.path()), "case_id"), ["y", "z"]);
    assert!(!outcome.stderr.contains("masks"), "{}", outcome.stderr);
    // A mask beside its image is searched as an image, and named.
    let mask = data.path().join("z_seg.nii.gz");
    std::fs::copy(data.path().join("z.nii.gz"), &mask).unwrap();
    let with_mask = batch(data.path(), scratch().path(), &[]).exits_with(0).stderr;
    let warning = "1 of 3 images are masks of others by their names";
    assert!(with_mask.contains(warning) && with_mask.contains("z_seg.nii.gz"), "{with_mask}");
    std::fs::remove_file(&mask).unwrap();

    std::fs::copy(data.path().join("z.nii.gz"), data.path().join("b/z.nii.gz")).unwrap();
    let fresh = scratch();
    let line = batch(data.path(), fresh.path(), &[]).exits_with(4).error_line().to_owned();
    let alone = format!("give {} alone", data.path().join("b").display());
    for part in ["case_id", "z.json", "b/z.nii.gz", &alone] {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(std::fs::read_dir(fresh.path()).unwrap().count(), 0);
    batch(fresh.path(), out.path(), &[]).exits_with(4).error_line();
    batch(data.path(), fresh.path(), &["--shard", "3/2"]).exits_with(2);
}
