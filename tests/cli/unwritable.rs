//! Places that cannot be written to: folders below files, full disks, full devices. Nothing that was
//! there is lost.

use crate::support::{Outcome, contents, pbt, program, refused, scratch, text, tiny, train};
use std::path::Path;
use std::process::Command;

#[test]
fn folders_that_cannot_be_written() {
    let folder = scratch();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let below = file.join("out");
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    for command in ["detect", "batch"] {
        let input = if command == "detect" { &image } else { tiny().folder() };
        refused(
            pbt([command, "-m", text(&model), "-i", text(input), "-o", text(&below)]),
            1,
            &["file/out: --output: "],
        );
    }
    refused(pbt(["convert", text(&image), text(&below.join("x.nii"))]), 1, &["x.nii: file: "]);
    // Before a training of minutes, not after it.
    refused(train(tiny().folder(), &below.join("m.pbt"), &[]), 1, &["file/out/m"]);
    refused(train(tiny().folder(), folder.path(), &[]), 2, &["--output: is a folder"]);
    refused(
        train(tiny().folder(), Path::new(&format!("{}/models/", text(folder.path()))), &[]),
        2,
        &["--output: is a folder"],
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

/// Runs `pbt` where no file may grow beyond `blocks` blocks of 512 bytes (1024 in some shells), as
/// on a disk that is nearly full.
#[cfg(unix)]
fn with_small_files(blocks: u32, arguments: &[&str]) -> Outcome {
    // Ignoring the signal makes the system refuse the write, as a full disk does.
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(program("pbt"))
        .args(arguments)
        .output()
        .unwrap();
    Outcome {
        code: output.status.code().expect("the program ends by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[cfg(unix)]
#[test]
fn a_disk_that_becomes_full_leaves_older_files() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    for name in ["c7.mrk.json", "detections.csv", "run.json", "m.train.toml"] {
        std::fs::write(at(name), "results of yesterday").unwrap();
    }
    std::fs::write(at("c7.json"), r#"{"schema": "pbt-result/1", "case_id": "yesterday's"}"#)
        .unwrap();
    std::fs::copy(&model, at("m.pbt")).unwrap();
    std::fs::copy(&image, at("x.nii")).unwrap();
    let before = contents(folder.path());
    let out = text(folder.path());
    refused(
        with_small_files(1, &["detect", "-m", text(&model), "-i", text(&image), "-o", out]),
        1,
        &["c7.", "cannot be written"],
    );
    // Nothing of a result stays without the result: it would be taken for somebody else's.
    let fresh = scratch();
    let detect = ["detect", "--labels", "-m", text(&model), "-i", text(&image), "-o"];
    let detect = [&detect[..], &[text(fresh.path())]].concat();
    refused(with_small_files(1, &detect), 1, &["c7.", "cannot be written"]);
    assert!(contents(fresh.path()).is_empty());
    refused(
        with_small_files(64, &["convert", text(&image), text(&at("x.nii"))]),
        1,
        &["x.nii: file: cannot be written"],
    );
    refused(
        with_small_files(1, &["batch", "-m", text(&model), "-i", text(tiny().folder()), "-o", out]),
        1,
        &[".json: file: cannot be written"],
    );
    let (data, config) = (tiny().folder(), tiny().config());
    let training = ["train", "-i", text(data), "-o", text(&at("m.pbt")), "--config", text(&config)]
        .map(str::to_owned);
    refused(
        with_small_files(1, &training.each_ref().map(String::as_str)),
        1,
        &["m.partial", "cannot be written"],
    );
    assert_eq!(contents(folder.path()), before);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_is_named() {
    let folder = scratch();
    let link = folder.path().join("c7.json");
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    let outcome =
        pbt(["detect", "-m", text(&model), "-i", text(&image), "-o", text(folder.path())]);
    refused(
        outcome,
        1,
        &["c7.json: file: cannot be written: no space left on device (free some space)"],
    );
    // The same for what goes to stdout and, with nobody to tell, to stderr.
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [
        &["info", text(&model)] as &[&str],
        &["info", "--json", text(&model)],
        &["man"],
        &["validate", text(&image)],
    ] {
        let output = Command::new(program("pbt")).args(arguments).stdout(full()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .starts_with("error: stdout: cannot be written")
        );
    }
    let out = scratch();
    let arguments = ["detect", "-m", text(&model), "-i", text(&image), "-o", text(out.path())];
    let status = Command::new(program("pbt")).args(arguments).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(0));
}
