//! Nothing brings it down: memory, devices, folders, names, threads. Each case fails by itself, with
//! one clear line.

use crate::support::{limited, pbt, read_json, refused, scratch, text, tiny};
use std::path::{Path, PathBuf};
use std::process::Command;

fn detect<'a>(model: &'a Path, image: &'a Path, out: &'a Path) -> Vec<&'a str> {
    vec!["detect", "-m", text(model), "-i", text(image), "-o", text(out)]
}

/// The 352 bytes before the voxels of a NIfTI file of bytes.
fn nifti_header(shape: [i16; 3], spacing_mm: f32) -> Vec<u8> {
    let mut header = vec![0; 352];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348i32.to_le_bytes());
    put(40, &[3, shape[0], shape[1], shape[2], 1, 1, 1, 1].map(i16::to_le_bytes).concat());
    put(70, &2i16.to_le_bytes());
    put(72, &8i16.to_le_bytes());
    put(76, &[1.0, spacing_mm, spacing_mm, spacing_mm].map(f32::to_le_bytes).concat());
    put(108, &352f32.to_le_bytes());
    put(254, &1i16.to_le_bytes());
    for row in 0..3 {
        put(280 + 20 * row, &spacing_mm.to_le_bytes());
    }
    put(344, b"n+1\0");
    header
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A `.nii.gz` of zeros: a thousandth of their number, as members in a row.
fn zeros(path: &Path, shape: [i16; 3], spacing_mm: f32) {
    let voxels: usize = shape.iter().map(|&n| n as usize).product();
    let mut file = gzip(&nifti_header(shape, spacing_mm));
    file.extend(gzip(&vec![0; 1 << 20]).repeat(voxels >> 20));
    file.extend(gzip(&vec![0; voxels % (1 << 20)]));
    std::fs::write(path, file).unwrap();
}

/// A `.nrrd` of `n` voxels of noise along each axis with these directions.
fn sheared(path: &Path, n: usize, directions: &str) {
    let header = format!(
        "NRRD0005\ntype: uint8\ndimension: 3\nspace: left-posterior-superior\nsizes: {n} {n} {n}\n\
         space directions: {directions}\nkinds: domain domain domain\nendian: little\n\
         encoding: raw\nspace origin: (0,0,0)\n\n"
    );
    let voxels = (0..n * n * n).map(|v| (v * 7919 % 251) as u8);
    std::fs::write(path, header.into_bytes().into_iter().chain(voxels).collect::<Vec<_>>())
        .unwrap();
}

#[test]
fn an_image_beyond_the_memory_is_refused_by_its_header() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let (model, out) = (tiny().model(), at("out"));
    // 1.4 GB in a file of 1.4 MB; it takes 6 GB to read and search it. The other takes 5 GB.
    zeros(&at("zeros.nii.gz"), [1200, 1200, 1000], 0.3);
    sheared(&at("sheared.nrrd"), 36, "(1,0,0) (-1,800,0) (0,0,40)");
    for image in [at("zeros.nii.gz"), at("sheared.nrrd")] {
        let arguments = [detect(&model, &image, &out), vec!["--memory", "1G"]].concat();
        let memory = format!("{}: memory: needs about ", text(&image));
        refused(pbt(&arguments), 4, &[&memory, "more than the 1.1 GB", "--memory"]);
        // Without that option what the process may take counts; 1.5 GB suffice for the program.
        #[cfg(target_os = "linux")]
        {
            let outcome = limited("ulimit -v 1500000", &detect(&model, &image, &out));
            refused(outcome, 4, &[&memory]);
        }
        assert!(!out.exists());
    }
    // What cannot be searched is said before memory is an issue.
    zeros(&at("far.nii.gz"), [1200, 1200, 1000], 1000.0);
    refused(pbt(detect(&model, &at("far.nii.gz"), &out)), 4, &["spacing: ", "check the spacing"]);
    // The other readers of images ask, too.
    let image = at("zeros.nii.gz");
    refused(
        pbt(["convert", "--memory", "1G", text(&image), text(&at("x.nrrd"))]),
        4,
        &["memory: needs about 1.4 GB"],
    );
    let listed = pbt(["validate", "--memory", "1G", text(&image)]).exits_with(4);
    assert!(listed.stdout.contains("memory: needs about"), "{}", listed.stdout);
    pbt(["validate", "--memory", "much", text(&image)]).exits_with(2).error_line();
}

/// Whatever the limit, a detection is done or refused; it never aborts half-way.
#[cfg(target_os = "linux")]
#[test]
fn the_estimate_covers_what_a_detection_takes() {
    let folder = scratch();
    let (model, out) = (tiny().model(), folder.path().join("out"));
    let image = folder.path().join("sheared.nrrd");
    sheared(&image, 36, "(1,0,0) (-1,200,0) (0,0,20)");
    let arguments = [detect(&model, &image, &out), vec!["--threads", "2"]].concat();
    let codes = (300_000..=1_900_000)
        .step_by(200_000)
        .map(|kb| limited(&format!("ulimit -v {kb}"), &arguments))
        .map(|outcome| {
            assert!([0, 4].contains(&outcome.code), "{}: {}", outcome.code, outcome.stderr);
            outcome.code
        });
    let codes: Vec<i32> = codes.collect();
    assert_eq!((codes.first(), codes.last()), (Some(&4), Some(&0)), "{codes:?}");
}

#[test]
fn a_training_beyond_the_memory_is_refused() {
    let folder = scratch();
    let (model, config) = (folder.path().join("m.pbt"), tiny().config());
    let outcome = pbt([
        "train",
        "-i",
        text(tiny().folder()),
        "-o",
        text(&model),
        "--config",
        text(&config),
        "--memory",
        "300K",
    ]);
    refused(outcome, 4, &["memory: needs about", "--memory"]);
    assert!(!model.exists());
}

#[cfg(unix)]
fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_not_read_whatever_they_stand_for() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let (model, out) = (tiny().model(), at("out"));
    let image = tiny().folder().join("c7.nii.gz");
    let endless = |name: &str| {
        std::os::unix::fs::symlink("/dev/zero", at(name)).unwrap();
        at(name)
    };
    let piped = |name: &str| {
        pipe(&at(name));
        at(name)
    };
    let device = ["is a pipe or device"];
    for odd in [endless("a.nii"), endless("a.mha"), piped("b.nii.gz"), piped("b.nrrd")] {
        refused(pbt(detect(&model, &odd, &out)), 4, &device);
    }
    for odd in [endless("c.pbt"), piped("d.pbt"), PathBuf::from("/dev/zero")] {
        refused(pbt(detect(&odd, &image, &out)), 4, &device);
        refused(pbt(["info", text(&odd)]), 4, &device);
        let list = ["batch", "-m", text(&model), "-i", text(&odd), "-o", text(&out)];
        refused(pbt(list), 4, &device);
        let data = tiny().folder();
        let config = ["train", "-i", text(data), "-o", text(&out), "--config", text(&odd)];
        refused(pbt(config), 4, &device);
        let compare = ["evaluate", "-i", text(data), "--compare", text(&odd), text(&model)];
        refused(pbt(compare), 4, &device);
        refused(pbt(["train", "-i", text(&odd), "-o", text(&out)]), 4, &[text(&odd)]);
    }
    refused(pbt(["validate", text(&piped("f"))]), 4, &device);
    // Larger than any of its kind, and without a byte on the disk.
    let large = |name: &str| {
        std::fs::File::create(at(name)).unwrap().set_len(2 << 30).unwrap();
        at(name)
    };
    let most = ["has 2147483648 bytes; a file of its kind has at most"];
    refused(pbt(detect(&large("e.pbt"), &image, &out)), 4, &most);
    let (list, settings) = (large("e.csv"), large("e.toml"));
    refused(pbt(["batch", "-m", text(&model), "-i", text(&list), "-o", text(&out)]), 4, &most);
    let data = tiny().folder();
    let config = ["train", "-i", text(data), "-o", text(&out), "--config", text(&settings)];
    refused(pbt(config), 4, &most);
    refused(pbt(["train", "-i", text(&large("e.json")), "-o", text(&out)]), 4, &most);
    // Sixteen times the memory of most machines: that they are no images is said all the same.
    for (name, what) in [("h.nii", "sizeof_hdr"), ("h.nrrd", "magic"), ("h.mha", "ElementDataFile")]
    {
        std::fs::File::create(at(name)).unwrap().set_len(1 << 38).unwrap();
        refused(pbt(detect(&model, &at(name), &out)), 4, &[what]);
    }
    // In a folder that is searched they are passed over.
    let scans = at("scans");
    std::fs::create_dir(&scans).unwrap();
    std::fs::copy(&image, scans.join("c7.nii.gz")).unwrap();
    for name in ["pipe", "pipe.nii", "pipe.dcm", "pipe.zip"] {
        pipe(&scans.join(name));
    }
    let batch = ["batch", "-m", text(&model), "-i", text(&scans), "-o", text(&out)];
    assert!(pbt(batch).exits_with(0).stderr.contains("1 cases: 1 done"));
    pbt(["validate", text(&scans)]).exits_with(0);
}

fn train<'a>(model: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let config = Box::leak(tiny().config().into_boxed_path());
    let data = tiny().folder();
    let arguments = ["train", "-i", text(data), "-o", text(model), "--config", text(config)];
    [&arguments[..], more].concat()
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A process with the number of an earlier one, as the first of a container always has it, finds
/// what that one left when it was killed.
#[cfg(unix)]
#[test]
fn what_a_killed_process_left_is_in_nobodys_way() {
    let folder = scratch();
    let model = folder.path().join("m.pbt");
    let old = format!(
        "cd '{}' && for n in 0 1 2 3 4 5 6 7 8 9; do for f in m.pbt m.partial m.train.toml \
         m.train.json; do : > .$f.$$-$n.tmp; done; done",
        text(folder.path())
    );
    let ours = folder.path().join(".m.pbt.0a1B2c3D4e5F.pbt-tmp");
    std::fs::write(&ours, "half of a model").unwrap();
    // By its bare name, in the current folder.
    limited(&old, &train(Path::new("m.pbt"), &["-q"])).exits_with(0);
    let left: Vec<String> =
        names(folder.path()).into_iter().filter(|name| !name.ends_with(".tmp")).collect();
    assert_eq!(left, ["m.pbt", "m.train.json", "m.train.toml"]);

    std::fs::write(&ours, "half of a result").unwrap();
    let batch =
        ["batch", "-m", text(&model), "-i", text(tiny().folder()), "-o", text(folder.path())];
    pbt(batch).exits_with(0);
    assert!(!ours.exists());
}

#[cfg(unix)]
#[test]
fn a_result_keeps_the_mode_of_the_one_before() {
    use std::os::unix::fs::PermissionsExt;
    let out = scratch();
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    pbt(detect(&model, &image, out.path())).exits_with(0);
    let result = out.path().join("c7.json");
    std::fs::set_permissions(&result, std::fs::Permissions::from_mode(0o640)).unwrap();
    limited("umask 0", &detect(&model, &image, out.path())).exits_with(0);
    assert_eq!(std::fs::metadata(&result).unwrap().permissions().mode() & 0o777, 0o640);
    // A new one obeys the umask.
    let fresh = scratch();
    limited("umask 027", &detect(&model, &image, fresh.path())).exits_with(0);
    let mode = std::fs::metadata(fresh.path().join("c7.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_model_is_not_taken_for_its_checkpoint() {
    let folder = scratch();
    for name in ["m.partial", "M.PARTIAL"] {
        let model = folder.path().join(name);
        refused(pbt(train(&model, &[])), 2, &["--output", "checkpoint"]);
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn resuming_notes_that_an_image_was_replaced() {
    let (data, out) = (scratch(), scratch());
    let at = |name: &str| data.path().join(name);
    for (from, to) in [("c6", "a"), ("c7", "b")] {
        std::fs::copy(tiny().folder().join(format!("{from}.nii.gz")), at(&format!("{to}.nii.gz")))
            .unwrap();
    }
    let model = tiny().model();
    let batch =
        ["batch", "-m", text(&model), "-i", text(data.path()), "-o", text(out.path()), "--resume"];
    pbt(batch).exits_with(0);
    let kept = std::fs::read(out.path().join("b.json")).unwrap();
    // By a file that is older than the result.
    std::fs::copy(tiny().folder().join("c8.nii.gz"), at("new")).unwrap();
    let file = std::fs::File::options().write(true).open(at("new")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    std::fs::rename(at("new"), at("a.nii.gz")).unwrap();
    pbt(batch).exits_with(0);
    let counts = &read_json(&out.path().join("run.json"))["counts"];
    assert_eq!(["detected", "resumed"].map(|n| counts[n].as_u64().unwrap()), [1, 1]);
    assert_eq!(std::fs::read(out.path().join("b.json")).unwrap(), kept);
    pbt(detect(&model, &tiny().folder().join("c8.nii.gz"), data.path())).exits_with(0);
    let hash = |path: &Path| read_json(path)["input"]["sha256"].clone();
    assert_eq!(hash(&out.path().join("a.json")), hash(&at("c8.json")));
}

/// No thread can have a stack of that size, so that none can be made.
const NO_THREADS: &str = "export RUST_MIN_STACK=70368744177664";

#[cfg(target_os = "linux")]
#[test]
fn without_threads_one_does_the_work() {
    let folder = scratch();
    let at = |name: &str| folder.path().join(name);
    let (model, image) = (tiny().model(), tiny().folder().join("c7.nii.gz"));
    let content = |path: &Path| {
        let mut result = read_json(path);
        result.as_object_mut().unwrap().remove("run");
        result
    };
    pbt(detect(&model, &image, &at("usual"))).exits_with(0);
    for (out, more) in [("one", &["--threads", "1"][..]), ("all", &[])] {
        let out = at(out);
        limited(NO_THREADS, &[&detect(&model, &image, &out)[..], more].concat()).exits_with(0);
        assert_eq!(content(&out.join("c7.json")), content(&at("usual/c7.json")));
        let data = text(tiny().folder());
        let batch = ["batch", "-m", text(&model), "-i", data, "-o", text(&out)];
        limited(NO_THREADS, &[&batch[..], more].concat()).exits_with(0);
        assert_eq!(content(&out.join("c7.json")), content(&at("usual/c7.json")));
        for command in [
            &["validate", data][..],
            &["convert", text(&image), text(&out.join("c.nrrd"))],
            &["info", text(&model)],
            &["evaluate", "-m", text(&model), "-i", data],
        ] {
            limited(NO_THREADS, &[command, more].concat()).exits_with(0);
        }
    }
    let again = at("m.pbt");
    limited(NO_THREADS, &train(&again, &[])).exits_with(0);
    assert_eq!(std::fs::read(again).unwrap(), std::fs::read(&model).unwrap());
}

/// A batch of two hundred with every way to fail among them.
#[cfg(unix)]
#[test]
fn a_batch_of_two_hundred_ends_with_two_hundred_rows() {
    let (data, out) = (scratch(), scratch());
    let at = |name: &str| data.path().join(name);
    let good = tiny().folder().join("c7.nii.gz");
    zeros(&at("zeros.nii.gz"), [1200, 1200, 1000], 0.3);
    sheared(&at("sheared.nrrd"), 36, "(1,0,0) (-1,400,0) (0,0,40)");
    zeros(&at("far.nii.gz"), [60, 60, 60], 1000.0);
    pipe(&at("pipe.nii"));
    std::os::unix::fs::symlink("/dev/zero", at("endless.nii")).unwrap();
    std::fs::create_dir(at("folder.nii")).unwrap();
    std::fs::write(at("empty.nii"), "").unwrap();
    let bytes = std::fs::read(&good).unwrap();
    std::fs::write(at("cut.nii.gz"), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(at("no.zip"), "PK\x03\x04 and nothing more").unwrap();
    let long = "n".repeat(300);
    let odd = [
        ("zeros", "zeros.nii.gz", "memory: needs about"),
        ("sheared", "sheared.nrrd", "memory: needs about"),
        ("far", "far.nii.gz", "spacing: "),
        ("pipe", "pipe.nii", "is a pipe or device"),
        ("endless", "endless.nii", "is a pipe or device"),
        ("folder", "folder.nii", "holds no DICOM file"),
        ("empty", "empty.nii", "is empty"),
        ("cut", "cut.nii.gz", "voxel data: "),
        ("no", "no.zip", "zip: "),
        ("missing", "missing.nii", "no such file"),
        ("taken", text(&good), "taken.json: file: cannot be written"),
        ("blocked", text(&good), "blocked.json: file: cannot be written"),
        (long.as_str(), text(&good), "cannot be written"),
    ];
    std::fs::create_dir(out.path().join("taken.json")).unwrap();
    pipe(&out.path().join("blocked.json"));
    let mut list = String::from("case_id,path\n");
    for n in 0..200 {
        // Spread among the others.
        match odd.get(n / 15).filter(|_| n % 15 == 7) {
            Some((id, path, _)) => list.push_str(&format!("{id},{path}\n")),
            None => list.push_str(&format!("c{n},{}\n", text(&good))),
        }
    }
    std::fs::write(at("list.csv"), list).unwrap();
    let (model, input) = (tiny().model(), at("list.csv"));
    // A table that cannot be written is said before the work is done.
    let elsewhere = scratch();
    std::fs::create_dir(elsewhere.path().join("detections.csv")).unwrap();
    let blocked = ["batch", "-m", text(&model), "-i", text(&input), "-o", text(elsewhere.path())];
    refused(pbt(blocked), 1, &["detections.csv: file: cannot be written"]);
    assert_eq!(names(elsewhere.path()), ["detections.csv"]);
    let batch = ["batch", "-m", text(&model), "-i", text(&input), "-o", text(out.path())];
    let run = |more: &[&str]| pbt([&batch[..], &["--memory", "1G"], more].concat());
    for (more, detected, resumed) in
        [(&[][..], 200 - odd.len(), 0), (&["--resume"], 0, 200 - odd.len())]
    {
        let outcome = run(more).exits_with(3);
        assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
        let counts = &read_json(&out.path().join("run.json"))["counts"];
        let count = |name: &str| counts[name].as_u64().unwrap() as usize;
        assert_eq!((count("cases"), count("failed")), (200, odd.len()));
        assert_eq!((count("detected"), count("resumed")), (detected, resumed));
        let mut table = csv::Reader::from_path(out.path().join("detections.csv")).unwrap();
        let headers = table.headers().unwrap().clone();
        let place = |name: &str| headers.iter().position(|h| h == name).unwrap();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 200);
        for (id, _, reason) in odd {
            let row = rows.iter().find(|row| &row[place("case_id")] == id).unwrap();
            assert_eq!(&row[place("status")], "failed");
            assert!(row[place("reason")].contains(reason), "{id}: {}", &row[place("reason")]);
            let markups = out.path().join(format!("{id}.mrk.json"));
            assert!(!markups.exists(), "half of a result of {id}");
        }
    }
}

/// A folder that cannot be read because its path is longer than the system takes.
#[cfg(target_os = "linux")]
#[test]
fn a_folder_that_cannot_be_read_is_one_failed_case() {
    let (data, out) = (scratch(), scratch());
    for name in ["a", "z"] {
        let image = tiny().folder().join("c7.nii.gz");
        std::fs::copy(image, data.path().join(format!("{name}.nii.gz"))).unwrap();
    }
    let deep = "d".repeat(200);
    let deeper = format!(
        "cd '{}' && for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do mkdir {deep} && \
         cd -P {deep}; done; cd /",
        text(data.path())
    );
    let model = tiny().model();
    let batch = ["batch", "-m", text(&model), "-i", text(data.path()), "-o", text(out.path())];
    let outcome = limited(&deeper, &batch).exits_with(3);
    assert!(outcome.error_line().contains("cannot be read"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("3 cases: 2 done, 1 failed"), "{}", outcome.stderr);
    assert_eq!(
        std::fs::read_to_string(out.path().join("detections.csv")).unwrap().lines().count(),
        4
    );
}
