//! `pbt merge`

use crate::support::{Outcome, TEST, TRAINING, pbt, read_json, refused, scratch, text, tiny};
use serde_json::Value;
use std::path::{Path, PathBuf};
#[cfg(unix)]
use std::process::Command;

fn batch(list: &Path, output: &Path, more: &[&str]) -> Outcome {
    let model = tiny().model();
    let arguments = ["batch", "-q", "-m", text(&model), "-i", text(list), "-o", text(output)];
    pbt(arguments.iter().chain(more))
}

fn merge(list: &Path, output: &Path, parts: &[PathBuf]) -> Outcome {
    let arguments = ["merge", "-i", text(list), "-o", text(output)];
    pbt(arguments.into_iter().chain(parts.iter().map(|part| text(part))))
}

/// All cases of the tiny data set and one that cannot be read, in copies of their own.
fn list(folder: &Path) -> PathBuf {
    std::fs::write(folder.join("spoilt.nii.gz"), "no image").unwrap();
    let mut rows = String::from("case_id,path\nspoilt,spoilt.nii.gz\n");
    for n in (0..TRAINING + TEST).rev() {
        let image = format!("c{n}.nii.gz");
        std::fs::copy(tiny().folder().join(&image), folder.join(&image)).unwrap();
        rows.push_str(&format!("p{n},{image}\n"));
    }
    let path = folder.join("list.csv");
    std::fs::write(&path, rows).unwrap();
    path
}

fn bytes(folder: &Path, file: &str) -> Vec<u8> {
    std::fs::read(folder.join(file)).unwrap()
}

#[test]
fn parts_in_folders_of_their_own_give_the_tables_of_the_whole() {
    let (data, whole, merged) = (scratch(), scratch(), scratch());
    let list = list(data.path());
    batch(&list, whole.path(), &[]).exits_with(3);
    let parts: Vec<PathBuf> = (1..=3).map(|n| data.path().join(format!("part{n}"))).collect();
    for (n, part) in parts.iter().enumerate() {
        let code = if n == 0 { 3 } else { 0 };
        batch(&list, part, &["--shard", &format!("{}/3", n + 1)]).exits_with(code);
    }
    // No image is read.
    for n in 0..TRAINING + TEST {
        std::fs::remove_file(data.path().join(format!("c{n}.nii.gz"))).unwrap();
    }
    let outcome = merge(&list, merged.path(), &parts).exits_with(3);
    assert!(outcome.stderr.contains("10 cases: 9 with a result, 1 failed"), "{}", outcome.stderr);
    let tables = ["detections.csv", "detections.parquet"];
    for file in tables {
        assert_eq!(bytes(whole.path(), file), bytes(merged.path(), file), "{file}");
    }
    let (ours, theirs) =
        (read_json(&merged.path().join("run.json")), read_json(&whole.path().join("run.json")));
    for key in ["schema", "input", "model", "model_path", "device", "counts", "failed"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    assert_eq!(ours["options"]["merged"].as_array().unwrap().len(), 3);
    assert!(ours["seconds"]["detect"].as_f64().unwrap() > 0.0);

    // A part that is not finished.
    std::fs::remove_file(parts[1].join("p8.json")).unwrap();
    refused(
        merge(&list, merged.path(), &[parts[0].clone(), parts[1].clone()]),
        3,
        &["list.csv: 4 of 10 cases have no result, `p8` first", "--resume"],
    );
    assert_eq!(read_json(&merged.path().join("run.json"))["counts"]["detected"], 5);
}

#[test]
fn the_folder_of_a_batch_is_completed_in_its_place() {
    let data = scratch();
    let list = list(data.path());
    let out = data.path().join("out");
    for shard in ["1/2", "2/2"] {
        let code = if shard == "1/2" { 3 } else { 0 };
        batch(&list, &out, &["--shard", shard]).exits_with(code);
    }
    let table = bytes(&out, "detections.csv");
    std::fs::write(out.join("detections.csv"), "what an interrupted part has left").unwrap();
    merge(&list, &out, std::slice::from_ref(&out)).exits_with(3);
    assert_eq!(bytes(&out, "detections.csv"), table);
}

#[test]
fn a_result_of_a_case_that_has_failed_since_does_not_count() {
    let data = scratch();
    let list = list(data.path());
    let [out, merged] = ["out", "merged"].map(|name| data.path().join(name));
    batch(&list, &out, &[]).exits_with(3);
    std::fs::write(data.path().join("c8.nii.gz"), "no image").unwrap();
    batch(&list, &out, &[]).exits_with(3);
    assert!(out.join("p8.json").is_file());
    let outcome = merge(&list, &merged, std::slice::from_ref(&out)).exits_with(3);
    assert!(outcome.stderr.contains("10 cases: 8 with a result, 2 failed"), "{}", outcome.stderr);
    assert_eq!(bytes(&merged, "detections.csv"), bytes(&out, "detections.csv"));
    // Nor does the page show it.
    let page = data.path().join("page.html");
    pbt(["report", text(&out), "-o", text(&page)]).exits_with(0);
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<span class=\"name\">p8<").count(), 1);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let (data, merged) = (scratch(), scratch());
    let list = list(data.path());
    let part = data.path().join("part");
    batch(&list, &part, &["--shard", "2/3"]).exits_with(0);
    let missing = data.path().join("missing");
    refused(merge(&list, merged.path(), &[missing]), 4, &["missing: folder: "]);
    let empty = scratch();
    let folders = [empty.path().to_path_buf()];
    refused(merge(&list, merged.path(), &folders), 4, &["list.csv: cases: none has a result"]);
    let mut other = read_json(&part.join("p5.json"));
    other["model"]["sha256"] = Value::from("0".repeat(64));
    std::fs::write(part.join("p5.json"), other.to_string()).unwrap();
    refused(
        merge(&list, merged.path(), std::slice::from_ref(&part)),
        4,
        &["p5.json: model: is another than that of", "p8.json"],
    );
    assert_eq!(std::fs::read_dir(merged.path()).unwrap().count(), 0);
    pbt(["merge", "-i", text(&list), "-o", text(merged.path())]).exits_with(2);
}

/// What Slurm does with the scripts, but for the waiting.
#[cfg(unix)]
#[test]
fn the_scripts_for_slurm_run_the_parts_and_merge_them() {
    let (data, whole) = (scratch(), scratch());
    let list = list(data.path());
    batch(&list, whole.path(), &[]).exits_with(3);
    let out = data.path().join("out");
    let script = |name: &str| {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("integrations/slurm");
        let mut script = Command::new("sh");
        script.arg(scripts.join(name)).env("PATH", path_with_pbt());
        script
    };
    let task = |number: usize, tasks: usize, parts: Option<usize>| {
        let mut task = script("batch.sbatch");
        task.args([&tiny().model(), &list, &out]);
        task.env("SLURM_ARRAY_TASK_ID", number.to_string());
        task.env("SLURM_ARRAY_TASK_COUNT", tasks.to_string());
        task.env("SLURM_CPUS_PER_TASK", "1").env_remove("PARTS");
        task.envs(parts.map(|parts| ("PARTS", parts.to_string())));
        task.output().unwrap().status.code()
    };
    assert_eq!([task(1, 3, None), task(3, 3, None)], [Some(0); 2]);
    let merge = || script("merge.sbatch").args([&list, &out]).output().unwrap().status.code();
    assert_eq!(merge(), Some(3));
    assert_ne!(bytes(&out, "detections.csv"), bytes(whole.path(), "detections.csv"));
    // The second was lost, and is sent again by itself.
    assert_eq!(task(2, 1, Some(3)), Some(0));
    assert_eq!(merge(), Some(3));
    assert_eq!(bytes(&out, "detections.csv"), bytes(whole.path(), "detections.csv"));
    assert_eq!(script("batch.sbatch").output().unwrap().status.code(), Some(2));
}

#[cfg(unix)]
fn path_with_pbt() -> std::ffi::OsString {
    let mut path = crate::support::program("pbt").parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    path
}
