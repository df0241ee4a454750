//! What all tests of the command line need: the program, a tiny data set, a small model, made once.

use pbt_io::{RawImage, VoxelType, write_image, write_markups};
use pbt_phantom::{PhantomModality, PhantomSettings, phantom};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Training and test cases of the tiny data set.
pub(crate) const TRAINING: usize = 6;
pub(crate) const TEST: usize = 3;

/// Voxels of its images along each axis.
pub(crate) const VOXELS: usize = 44;

/// What a command left behind.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program: where the variable PBT_BIN says, else where Cargo built it.
pub(crate) fn program(name: &str) -> PathBuf {
    match (std::env::var_os("PBT_BIN"), name) {
        (Some(folder), _) => Path::new(&folder).join(name),
        (None, "pbt") => PathBuf::from(env!("CARGO_BIN_EXE_pbt")),
        (None, _) => PathBuf::from(env!("CARGO_BIN_EXE_train-pbt")),
    }
}

/// Runs `pbt` with these arguments.
pub(crate) fn pbt<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    let output = Command::new(program("pbt")).args(arguments).output().expect("the program starts");
    Outcome {
        code: output.status.code().expect("the program ends by itself"),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// Runs `pbt` by a shell after some commands of it, which may set limits.
pub(crate) fn limited(before: &str, arguments: &[&str]) -> Outcome {
    let script = format!("{before}; exec \"$0\" \"$@\"");
    let output =
        Command::new("sh").arg("-c").arg(script).arg(program("pbt")).args(arguments).output();
    let output = output.expect("the shell starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Outcome {
        // A signal has no code, and is what must never be.
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Starts a program that can be interrupted.
#[cfg(unix)]
pub(crate) fn start(arguments: &[&str]) -> Child {
    Command::new(program("pbt"))
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts")
}

/// Presses Ctrl-C as soon as a file is there; returns exit code and stderr.
#[cfg(unix)]
pub(crate) fn interrupt_when_there(child: Child, file: &Path) -> (Option<i32>, String) {
    let begun = Instant::now();
    while !file.exists() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{} does not appear", file.display());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("kill starts")
            .success()
    );
    let output = child.wait_with_output().expect("the program ends");
    (output.status.code(), String::from_utf8(output.stderr).expect("stderr is UTF-8"))
}

impl Outcome {
    /// The same, after a check of the exit code.
    #[track_caller]
    pub(crate) fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// The one line that errors have on stderr.
    #[track_caller]
    pub(crate) fn error_line(&self) -> &str {
        let errors: Vec<&str> =
            self.stderr.lines().filter(|line| line.starts_with("error: ")).collect();
        assert_eq!(errors.len(), 1, "{}", self.stderr);
        errors[0]
    }
}

/// A path as an argument.
#[track_caller]
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// A folder that goes away with the test.
pub(crate) fn scratch() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// A folder that stays, since statics are never dropped: where Cargo keeps such things, if the
/// tests run where they were built.
pub(crate) fn lasting() -> TempDir {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let base = if target.is_dir() { target.to_owned() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("cli-").tempdir_in(base).expect("a temporary folder")
}

/// A JSON file.
#[track_caller]
pub(crate) fn read_json(path: &Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Three numbers of a JSON value.
#[track_caller]
pub(crate) fn numbers(value: &Value) -> [f64; 3] {
    std::array::from_fn(|n| {
        value[n].as_f64().unwrap_or_else(|| panic!("{value} has no number {n}"))
    })
}

/// A data set of ultrasound phantoms with the box `gland` and a model trained on it in seconds.
/// Read only.
pub(crate) struct Tiny {
    folder: TempDir,
}

impl Tiny {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn model(&self) -> PathBuf {
        self.folder().join("gland.pbt")
    }

    /// Settings of a training in seconds.
    pub(crate) fn config(&self) -> PathBuf {
        self.folder().join("small.toml")
    }

    /// The same without held-out cases, in half of the time.
    pub(crate) fn quick_config(&self) -> PathBuf {
        self.folder().join("quick.toml")
    }
}

/// `[segmentation]` is for tests that give the data set label maps; with its defaults a training takes
/// a minute and a half longer.
pub(crate) const SMALL: &str = "\
[position]
copies = 3
negatives = 60
haar.features = 200
[classifier.pbt]
depth = 2
rounds_by_level = [15, 15]
[orientation]
points_across = 4.0
[segmentation]
samples = 12000
features = 60
first = { trees = 25, depth = 4 }
second = { trees = 25, depth = 4 }
[landmarks]
perturbations = 8
[refinement]
points_across = 5.0
perturbations = 40
";

/// Without mirrored copies a training takes two thirds of the time.
const NO_COPIES: &str = "[augmentation]\ncopies = 0\n";

/// Without held-out cases a training takes half of the time.
pub(crate) const NO_CERTAINTY: &str = "[certainty]\nmeasured = false\n";

/// Settings of the tiny data set with others in addition, or in place of its own.
pub(crate) fn small_and(others: &[&str]) -> String {
    fn put(settings: &mut toml::Table, others: toml::Table) {
        for (key, value) in others {
            match (settings.get_mut(&key), value) {
                (Some(toml::Value::Table(own)), toml::Value::Table(value)) => put(own, value),
                (_, value) => _ = settings.insert(key, value),
            }
        }
    }
    let mut settings: toml::Table = SMALL.parse().expect("the settings are TOML");
    for other in [&[NO_COPIES], others].concat() {
        put(&mut settings, other.parse().expect("the settings are TOML"));
    }
    settings.to_string()
}

/// The tiny data set with its model.
pub(crate) fn tiny() -> &'static Tiny {
    static TINY: OnceLock<Tiny> = OnceLock::new();
    TINY.get_or_init(|| {
        let tiny = Tiny { folder: lasting() };
        write_dataset(tiny.folder());
        std::fs::write(tiny.config(), small_and(&[])).expect("the configuration is written");
        std::fs::write(tiny.quick_config(), small_and(&[NO_CERTAINTY]))
            .expect("the configuration is written");
        let path = |path: &Path| path.as_os_str().to_owned();
        pbt([
            "train".into(),
            "-i".into(),
            path(tiny.folder()),
            "-o".into(),
            path(&tiny.model()),
            "--config".into(),
            path(&tiny.config()),
        ])
        .exits_with(0);
        tiny
    })
}

/// A copy of the tiny data set that a test may spoil.
pub(crate) fn tiny_copy() -> TempDir {
    let copy = scratch();
    for entry in std::fs::read_dir(tiny().folder()).expect("the data set is there") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, copy.path().join(path.file_name().expect("a name"))).expect("a copy");
    }
    copy
}

fn write_dataset(folder: &Path) {
    let settings = PhantomSettings {
        voxels: VOXELS,
        spacing_mm: 1.8,
        ..PhantomSettings::new(PhantomModality::Ultrasound)
    };
    let mut cases = Vec::new();
    for n in 0..TRAINING + TEST {
        let made = phantom(PhantomModality::Ultrasound, &settings, n as u64);
        let bytes = made.image.data().iter().map(|&v| v as u8).collect();
        let image = RawImage::new(made.image.geometry().clone(), VoxelType::U8, bytes, None)
            .expect("as many bytes as voxels");
        let (id, split) = (format!("c{n}"), if n < TRAINING { "train" } else { "test" });
        write_image(&folder.join(format!("{id}.nii.gz")), &image).expect("the image is written");
        write_markups(
            &folder.join(format!("{id}.mrk.json")),
            &[("gland".to_owned(), made.pose)],
            &[],
            |_| String::new(),
        )
        .expect("the markups are written");
        cases.push(json!({ "id": id, "image": format!("{id}.nii.gz"), "annotations": format!("{id}.mrk.json"), "split": split }));
    }
    let dataset = json!({
        "schema": "pbt-dataset/1", "name": "tiny", "modality": "US",
        "structures": [{ "name": "gland", "kind": "box" }], "cases": cases,
    });
    std::fs::write(folder.join("dataset.json"), dataset.to_string())
        .expect("the data set is written");
}

/// All files of a folder with the hashes of their bytes.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    let hash = |path: &Path| format!("{:x}", Sha256::digest(std::fs::read(path).unwrap()));
    files.map(|path| (path.clone(), hash(&path))).collect()
}

/// Checks that a command failed as it should: the code, and one line as the last on stderr that
/// holds all `parts`.
#[track_caller]
pub(crate) fn refused(outcome: Outcome, code: i32, parts: &[&str]) {
    let outcome = outcome.exits_with(code);
    let line = outcome.error_line();
    assert_eq!(outcome.stderr.lines().last(), Some(line), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    for part in parts {
        assert!(line.contains(part), "`{part}` is missing in: {line}");
    }
}

/// Trains on a data set with the settings of the tiny one.
pub(crate) fn train(data: &Path, model: &Path, more: &[&str]) -> Outcome {
    let config = tiny().config();
    let arguments = ["train", "-i", text(data), "-o", text(model), "--config", text(&config)];
    pbt(arguments.iter().chain(more))
}
