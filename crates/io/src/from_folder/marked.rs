//! Boxes and points of scans: from files that stay where they are, or written anew where the files alone
//! do not say what they mean.

use super::notes::{Notes, few};
use super::options::Options;
use super::scans::Scan;
use super::table::Marked;
use crate::markups::name_of_file;
use crate::{
    Annotations, IoError, LandmarkState, read_annotations, write_atomically, write_markups,
};
use pbt_volume::{PointLps, StructureKind, rotation_to_vector};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is annotated in a scan.
#[derive(Debug, Default)]
pub(super) struct Annotated {
    /// The files of the case.
    pub(super) files: Vec<PathBuf>,
    /// The structures in them.
    pub(super) names: BTreeSet<String>,
}

/// Structures of files and tables, in the order in which they are first met.
#[derive(Debug, Default)]
pub(super) struct Kinds(Vec<(String, StructureKind)>);

impl Kinds {
    fn add(&mut self, name: &str, kind: StructureKind) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            None => self.0.push((name.to_owned(), kind)),
            // A point of a box's name says that the box is out of view.
            Some((_, known)) if kind == StructureKind::Box => *known = kind,
            Some(_) => {}
        }
    }

    pub(super) fn of(&self, kind: StructureKind) -> impl Iterator<Item = &String> {
        self.0.iter().filter(move |(_, k)| *k == kind).map(|(name, _)| name)
    }
}

/// A file of annotations as it was read.
struct Read {
    path: PathBuf,
    annotations: Annotations,
    /// Whether its only box has no name of its own, and what its file's name says in place of one.
    unnamed: Option<Option<String>>,
}

/// Reads all files, and writes what tables say into the folder `own`, a file each scan. A box without a
/// name is called after its file, as Slicer does; where that is the scan's name, it is the structure that
/// the options name.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn annotations(
    scans: &[Scan],
    own: &Path,
    options: &Options,
    notes: &mut Notes,
) -> Result<(Vec<Annotated>, Kinds), IoError> {
    let read: Vec<Vec<Read>> = scans.iter().map(|scan| read_files(scan, notes)).collect();
    let all = || read.iter().flatten();
    let boxes = all().map(|file| file.annotations.boxes.len()).sum::<usize>();
    let nameless = all().filter(|file| file.unnamed == Some(None)).count();
    let only_kind = boxes == nameless
        && scans.iter().flat_map(|scan| &scan.rows).all(|row| matches!(row, Marked::Point(_)))
        && scans.iter().all(|scan| scan.label_map.is_none() && scan.masks.is_empty());
    let only = options.structure();
    if nameless > 0 {
        notes.assumed.push(format!("boxes without a name are `{only}` (--structure names them)"));
    }
    let mut kinds = Kinds::default();
    let mut annotated = Vec::new();
    let mut doubled = Vec::new();
    for (scan, files) in scans.iter().zip(read) {
        let mut of_scan = Annotated::default();
        let mut anew = scan.rows.clone();
        for mut file in files {
            let renamed = file.unnamed.take().map(|name| name.unwrap_or_else(|| only.to_owned()));
            if let ([(name, _)], Some(new)) = (&mut file.annotations.boxes[..], renamed) {
                *name = new;
                // Of a data set with one box the reader knows what a nameless box is.
                if !only_kind {
                    let boxes = std::mem::take(&mut file.annotations.boxes).into_iter();
                    anew.extend(boxes.map(|(name, pose)| Marked::Box(name, pose)));
                    let points = std::mem::take(&mut file.annotations.landmarks).into_iter();
                    anew.extend(points.map(Marked::Point));
                    continue;
                }
            }
            for (name, _) in &file.annotations.boxes {
                kinds.add(name, StructureKind::Box);
                of_scan.names.insert(name.clone());
            }
            for point in &file.annotations.landmarks {
                kinds.add(&point.name, StructureKind::Landmark);
                of_scan.names.insert(point.name.clone());
            }
            of_scan.files.push(file.path);
        }
        let count = anew.len();
        // In the order of the tables, which may count the points.
        let (mut of_file, mut known) = (Vec::new(), of_scan.names.clone());
        for row in anew {
            let (Marked::Box(name, _) | Marked::Point(crate::Landmark { name, .. })) = &row;
            if known.insert(name.clone()) {
                of_file.push((name.clone(), row));
            }
        }
        if of_file.len() < count {
            doubled.push(scan.id.clone());
        }
        if !of_file.is_empty() {
            let path = write(own, scan, of_file.iter().map(|(_, row)| row))?;
            of_scan.files.push(path);
        }
        for (name, row) in of_file {
            let is_box = matches!(row, Marked::Box(..));
            kinds.add(&name, if is_box { StructureKind::Box } else { StructureKind::Landmark });
            of_scan.names.insert(name);
        }
        annotated.push(of_scan);
    }
    if !doubled.is_empty() {
        let names = few(&doubled, ", ");
        let what =
            format!("boxes or points that are there twice, of which the first counts: {names}");
        notes.left_out.push(what);
    }
    Ok((annotated, kinds))
}

fn read_files(scan: &Scan, notes: &mut Notes) -> Vec<Read> {
    let mut files = Vec::new();
    for (path, part) in &scan.annotations {
        let annotations = match read_annotations(path) {
            Ok(annotations) => annotations,
            Err(error) => {
                notes.left_out.push(error.to_string());
                continue;
            }
        };
        if annotations.boxes.is_empty() && annotations.landmarks.is_empty() {
            notes.left_out.push(format!("{}: has neither boxes nor points", path.display()));
            continue;
        }
        let unnamed = match &annotations.boxes[..] {
            // The name of a part alone is what Slicer would take.
            [(name, _)] if *name == name_of_file(path) && part.as_ref() != Some(name) => {
                Some(part.clone())
            }
            _ => None,
        };
        files.push(Read { path: path.clone(), annotations, unnamed });
    }
    files
}

/// Writes boxes and points as markups, or points in pixels as a table.
fn write<'a>(
    own: &Path,
    scan: &Scan,
    rows: impl Iterator<Item = &'a Marked> + Clone,
) -> Result<PathBuf, IoError> {
    std::fs::create_dir_all(own).map_err(|error| IoError::output(own, &error))?;
    if scan.in_pixels {
        let path = own.join(format!("{}.csv", scan.id));
        let bytes = pixel_table(rows).map_err(|error| IoError::output(&path, &error))?;
        write_atomically(&path, |writer| writer.write_all(&bytes))?;
        return Ok(path);
    }
    let path = own.join(format!("{}.mrk.json", scan.id));
    let boxes = rows.clone().filter_map(|row| match row {
        Marked::Box(name, pose) => Some((name.clone(), *pose)),
        Marked::Point(_) => None,
    });
    let points = rows.filter_map(|row| match row {
        Marked::Point(point) => Some(point.clone()),
        Marked::Box(..) => None,
    });
    write_markups(&path, &boxes.collect::<Vec<_>>(), &points.collect::<Vec<_>>(), |_| {
        String::new()
    })?;
    Ok(path)
}

/// Boxes and points in pixels as a table.
fn pixel_table<'a>(rows: impl Iterator<Item = &'a Marked> + Clone) -> std::io::Result<Vec<u8>> {
    // Names that begin as comments do are quoted.
    let mut table = csv::WriterBuilder::new().comment(Some(b'#')).from_writer(Vec::new());
    let line = |name: &String, at: Option<PointLps>, more: [String; 3]| {
        let [x, y] = at.map(|at| [at.0.x, at.0.y].map(|n| n.to_string())).unwrap_or_default();
        let status = if at.is_some() { "defined" } else { "missing" }.to_owned();
        let [a, b, angle] = more;
        [name.clone(), x, y, a, b, angle, status]
    };
    let of_row = |row: &Marked| match row {
        Marked::Point(point) => {
            let at = match point.state {
                LandmarkState::At(at) => Some(at),
                LandmarkState::OutOfView => None,
            };
            line(&point.name, at, Default::default())
        }
        Marked::Box(name, pose) => {
            let degrees = rotation_to_vector(&pose.orientation).z.to_degrees();
            let more = [pose.size_mm[0], pose.size_mm[1], degrees].map(|n| n.to_string());
            line(name, Some(pose.center), more)
        }
    };
    let header = ["label", "x_px", "y_px", "size_x_px", "size_y_px", "angle_deg", "status"];
    let has_boxes = rows.clone().any(|row| matches!(row, Marked::Box(..)));
    let has_missing = rows.clone().any(|row| match row {
        Marked::Point(point) => point.state == LandmarkState::OutOfView,
        Marked::Box(..) => false,
    });
    let is_needed = |n: &usize| match n {
        0..3 => true,
        3..6 => has_boxes,
        _ => has_missing,
    };
    let columns: Vec<usize> = (0..header.len()).filter(is_needed).collect();
    for line in std::iter::once(header.map(str::to_owned)).chain(rows.map(of_row)) {
        table.write_record(columns.iter().map(|&n| &line[n]))?;
    }
    table.into_inner().map_err(csv::IntoInnerError::into_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Landmark;

    #[test]
    fn tables_in_pixels_hold_all_there_is() {
        let point = |name: &str, state| Marked::Point(Landmark { name: name.to_owned(), state });
        let at = LandmarkState::At(PointLps::new(3.5, 4.0, 0.0));
        let points = [point("#1", at), point("2", LandmarkState::OutOfView)];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let read = |rows: &[Marked]| {
            let bytes = pixel_table(rows.iter()).unwrap();
            std::fs::write(&path, &bytes).unwrap();
            (String::from_utf8(bytes).unwrap(), read_annotations(&path).unwrap())
        };
        let (text, again) = read(&points);
        assert_eq!(text, "label,x_px,y_px,status\n\"#1\",3.5,4,defined\n2,,,missing\n");
        assert_eq!(again.landmark("#1"), Some(at));
        assert_eq!(again.landmark("2"), Some(LandmarkState::OutOfView));
        assert_eq!(read(&points[..1]).0, "label,x_px,y_px\n\"#1\",3.5,4\n");
        let pose = crate::annotations::pixel_box([8.0, 9.0], [4.0, 5.0], 0.0).unwrap();
        let (text, again) = read(&[points.to_vec(), vec![Marked::Box("b".into(), pose)]].concat());
        assert!(text.ends_with("\n2,,,,,,missing\nb,8,9,4,5,0,defined\n"), "{text}");
        assert!(again.pose("b").is_some() && again.landmarks.len() == 2);
    }
}
