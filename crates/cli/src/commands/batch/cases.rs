//! Which images a batch goes through: those of a manifest, or those that lie in a folder.

use crate::Failure;
use crate::session::{Input, LeafFile};
use pbt_io::{
    FileKind, ReadOptions, case_name, channel_files, delimiter, is_dicom_path, is_image_path,
    read_file,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An image of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchCase {
    /// Name of its result files.
    pub id: String,
    /// The image.
    pub path: PathBuf,
    /// Which of its volumes.
    pub options: ReadOptions,
}

impl BatchCase {
    fn of_path(path: PathBuf) -> Self {
        Self { id: case_name(&path), path, options: ReadOptions::default() }
    }

    /// As detection takes it.
    pub(crate) fn input(&self) -> Input<'_> {
        Input { case_id: &self.id, path: &self.path, options: &self.options }
    }
}

/// The cases of a CSV file with the columns `case_id` and `path` (relative to the file), in its
/// order, or of all images below a folder, sorted by path.
///
/// # Errors
/// A manifest or folder that cannot be read, that has no case, or two cases whose result files
/// would have one name.
pub fn batch_cases(input: &Path) -> Result<Vec<BatchCase>, Failure> {
    let cases = match input.is_dir() {
        true => with_parents(input, images_below(input)?),
        false => manifest(input)?,
    };
    if cases.is_empty() {
        let what = if input.is_dir() {
            "folder: holds no image (see `pbt batch --help`)"
        } else {
            "rows: there is no case"
        };
        return Err(Failure::input(input, what));
    }
    check_names(input, &cases)?;
    Ok(cases)
}

/// The cases with folders of one name, as in `anna/dicom` and `bert/dicom`, named after the folders that they
/// lie in, too: `anna_dicom`. What would not be distinct then keeps its name, and is refused by it.
fn with_parents(input: &Path, mut cases: Vec<BatchCase>) -> Vec<BatchCase> {
    let mut named: BTreeMap<String, usize> = BTreeMap::new();
    for case in &cases {
        *named.entry(case.id.clone()).or_default() += 1;
    }
    let longer = |case: &BatchCase| -> Option<String> {
        let parent = case.path.parent().filter(|&parent| parent != input)?;
        let is_one_of_many = named[&case.id] > 1 && case.path.is_dir();
        is_one_of_many.then(|| format!("{}_{}", case_name(parent), case.id))
    };
    let longer: Vec<Option<String>> = cases.iter().map(longer).collect();
    for id in longer.iter().flatten() {
        *named.entry(id.clone()).or_default() += 1;
    }
    for (case, longer) in cases.iter_mut().zip(longer) {
        if let Some(id) = longer.filter(|id| named[id] == 1) {
            case.id = id;
        }
    }
    cases
}

/// The cases without those that are files of another's channels, as nnU-Net names them, where an image
/// has so many channels.
pub fn without_channels(cases: Vec<BatchCase>, channels: usize) -> Vec<BatchCase> {
    if channels < 2 {
        return cases;
    }
    let further = cases.iter().filter_map(|case| channel_files(&case.path, channels)).flatten();
    let further: BTreeSet<PathBuf> = further.collect();
    cases.into_iter().filter(|case| !further.contains(&case.path)).collect()
}

/// All images below a folder, sorted by path: image files, zip archives, and folders with DICOM
/// files, which are one case with all below them. Hidden files and folders, and links to folders,
/// which may go in circles, are left out. A folder within that cannot be read is a case, too.
pub(crate) fn images_below(folder: &Path) -> Result<Vec<BatchCase>, Failure> {
    let mut cases = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(below) = folders.pop() {
        let Found { within: mut inside, mut images, dicom } = match look_into(&below) {
            Ok(found) => found,
            Err(e) if below == folder => {
                let what = format!("folder: cannot be read: {e} (check the permissions)");
                return Err(Failure::input(folder, what));
            }
            // It may be a DICOM folder, and fails when its turn comes.
            Err(_) => Found { dicom: true, ..Found::default() },
        };
        cases.append(&mut images);
        if dicom {
            cases.push(BatchCase::of_path(below));
        } else {
            folders.append(&mut inside);
        }
    }
    cases.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(cases)
}

/// How names of files end that were made with Slicer or by a batch into the same folder.
const OF_VOXELS: [&str; 5] = [
    ".seg.nrrd",
    ".labels.nii.gz",
    ".probabilities.nii.gz",
    LeafFile::All.ending(),
    LeafFile::First.ending(),
];

/// What a folder itself holds.
#[derive(Default)]
struct Found {
    within: Vec<PathBuf>,
    images: Vec<BatchCase>,
    dicom: bool,
}

fn look_into(folder: &Path) -> std::io::Result<Found> {
    let mut found = Found::default();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if entry.file_type()?.is_dir() {
            found.within.push(path);
        } else if OF_VOXELS.iter().any(|end| path.to_string_lossy().ends_with(end)) {
            // A result, not an image.
        } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("zip"))
            || is_image_path(&path)
        {
            // A link that leads nowhere fails when its turn comes; pipes and devices are no images.
            let may_be_read = std::fs::metadata(&path).map_or(true, |meta| meta.is_file());
            found.images.extend(may_be_read.then(|| BatchCase::of_path(path)));
        } else {
            found.dicom = found.dicom || is_dicom_path(&path);
        }
    }
    Ok(found)
}

/// The rows of a CSV file.
fn manifest(path: &Path) -> Result<Vec<BatchCase>, Failure> {
    if is_image_path(path) && path.is_file() {
        return Err(Failure::input(
            path,
            "file: is an image, not a list (give it to `pbt detect`, or give its folder)",
        ));
    }
    let text = read_file(path, FileKind::Document)?;
    // Spreadsheets put a byte order mark first.
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let header = String::from_utf8_lossy(text.split(|&byte| byte == b'\n').next().unwrap_or(text));
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .delimiter(delimiter(path, &header))
        .from_reader(text);
    let headers = reader
        .headers()
        .map_err(|e| Failure::input(path, format!("line 1: {e} (give a CSV file in UTF-8)")))?
        .clone();
    let column = |name: &str| {
        headers.iter().position(|h| h.eq_ignore_ascii_case(name)).ok_or_else(|| {
            Failure::input(
                path,
                format!(
                    "columns: there is no `{name}` (the first line must name case_id and path)"
                ),
            )
        })
    };
    let (id_column, path_column) = (column("case_id")?, column("path")?);
    let (series_column, frame_column) = (column("series").ok(), column("frame").ok());
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut cases = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|e| Failure::input(path, format!("rows: {e}")))?;
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let (id, image) = (cell(id_column), cell(path_column));
        // The name of a case becomes the name of its result files.
        if id.is_empty()
            || id.starts_with('.')
            || id.contains(['/', '\\'])
            || id.contains(char::is_control)
        {
            let what = format!(
                "line {line}: case_id `{id}` is no file name (leave out slashes, control characters and leading dots)"
            );
            return Err(Failure::input(path, what));
        }
        if image.is_empty() {
            return Err(Failure::input(
                path,
                format!("line {line}: path: is empty (name the image of case `{id}`)"),
            ));
        }
        let frame = match frame_column.map(cell).filter(|text| !text.is_empty()) {
            Some(text) => {
                let wrong = || {
                    Failure::input(
                        path,
                        format!(
                            "line {line}: frame: `{text}` is no number (count time points from 0)"
                        ),
                    )
                };
                Some(text.parse().map_err(|_| wrong())?)
            }
            None => None,
        };
        let series = series_column.map(cell).filter(|text| !text.is_empty()).map(str::to_owned);
        cases.push(BatchCase {
            id: id.to_owned(),
            path: folder.join(image),
            options: ReadOptions { series, frame, ..ReadOptions::default() },
        });
    }
    Ok(cases)
}

/// Every file that a batch writes must have its own name: `a.mrk` and `a` would both write
/// `a.mrk.json`, and `run` the record of the run.
fn check_names(input: &Path, cases: &[BatchCase]) -> Result<(), Failure> {
    let mut taken: BTreeMap<String, &BatchCase> = BTreeMap::new();
    for case in cases {
        for file in [format!("{}.json", case.id), format!("{}.mrk.json", case.id)] {
            if file == "run.json" {
                return Err(Failure::input(
                    input,
                    "case_id: `run` is the name of the batch's own record (choose another)",
                ));
            }
            if let Some(first) = taken.insert(file.clone(), case) {
                let alone = match first.path.parent() {
                    // As where images lie in one folder, and their label maps in another.
                    Some(folder) if !case.path.starts_with(folder) => {
                        format!("{} alone, or ", folder.display())
                    }
                    _ => String::new(),
                };
                let (a, b) = (first.path.display(), case.path.display());
                let what = format!(
                    "case_id: {a} and {b} would both write {file} (give {alone}each case its own case_id, in a CSV manifest)"
                );
                return Err(Failure::input(input, what));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(cases: &[BatchCase]) -> Vec<&str> {
        cases.iter().map(|c| c.id.as_str()).collect()
    }

    #[test]
    fn images_are_found_below_and_sorted() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("b/c")).unwrap();
        for file in ["z.nii", "b/c/y.nii.gz", "b/.x.nii", "b/notes.txt", "b/w.img", "b/w.hdr"] {
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        assert_eq!(ids(&batch_cases(folder.path()).unwrap()), ["y", "w.hdr", "z"]);
        std::fs::write(folder.path().join("y.nrrd"), "").unwrap();
        assert!(batch_cases(folder.path()).unwrap_err().to_string().contains("y.json"));
    }

    #[test]
    fn folders_of_one_name_are_named_after_their_parents_too() {
        let folder = tempfile::tempdir().unwrap();
        let add = |path: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("1.dcm"), "").unwrap();
        };
        add("a/dicom");
        assert_eq!(ids(&batch_cases(folder.path()).unwrap()), ["dicom"]);
        ["b/dicom", "c/other", "dicom"].into_iter().for_each(add);
        let cases = batch_cases(folder.path()).unwrap();
        assert_eq!(ids(&cases), ["a_dicom", "b_dicom", "other", "dicom"]);
        // What is not distinct then is refused as before.
        add("x/a/dicom");
        let error = batch_cases(folder.path()).unwrap_err().to_string();
        assert!(error.contains("would both write dicom.json"), "{error}");
    }

    #[test]
    fn manifests_are_read_with_their_quirks_and_faults() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            batch_cases(&path)
        };
        let chosen = &read("case_id,path,frame,series\na,b,3,\nc,d,,4.1\n").unwrap();
        assert_eq!(chosen[0].options, ReadOptions { frame: Some(3), ..ReadOptions::default() });
        assert_eq!(
            chosen[1].options,
            ReadOptions { series: Some("4.1".into()), ..ReadOptions::default() }
        );
        let cases =
            read("\u{feff}age, path ,case_id\r\n44,\"d, e/1.nii\",one\r\n45, /abs/2.nii ,two\r\n")
                .unwrap();
        assert_eq!(ids(&cases), ["one", "two"]);
        assert_eq!(cases[0].path, folder.path().join("d, e/1.nii"));
        assert_eq!(cases[1].path, Path::new("/abs/2.nii"));
        // As spreadsheets write them where the decimal sign is a comma, and with capitals.
        let cases = read("Case_ID;Path;Frame\none;d, e/1.nii;3\n").unwrap();
        assert_eq!((ids(&cases), cases[0].options.frame), (vec!["one"], Some(3)));
        assert_eq!(cases[0].path, folder.path().join("d, e/1.nii"));
        for (text, part) in [
            ("case_id\na\n", "no `path`"),
            ("case_id,path\n", "no case"),
            ("case_id,path\na,b\na,c\n", "both write a.json"),
            ("case_id,path\na.mrk,b\na,c\n", "both write a.mrk.json"),
            ("case_id,path\nrun,b\n", "own record"),
            ("case_id,path\n../a,b\n", "line 2: case_id `../a`"),
            ("case_id,path\na,b\n,c\n", "line 3"),
            ("case_id,path\na,\n", "line 2: path"),
            ("case_id,path\na,b,c\n", "rows: "),
            ("case_id,path,frame\na,b,x\n", "line 2: frame"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("list.csv: "), "{error}");
        }
    }
}
