//! Landmarks as tables: Slicer's older `.fcsv`, and CSV or TSV with one point a row. The space must
//! be declared: to guess between LPS and RAS would be to guess left and right.

use crate::annotations::{Annotations, Landmark, LandmarkState, pixel_box};
use crate::regular_file::{FileKind, read_file};
use crate::table_text::without_comments;
use crate::{IoError, names};
use nalgebra::{Point3, Vector3};
use pbt_volume::{PointLps, Pose};
use std::path::Path;

const LPS: [f64; 3] = [1.0, 1.0, 1.0];
const RAS: [f64; 3] = [-1.0, -1.0, 1.0];

/// Reads landmarks from a table.
///
/// `.fcsv`: as Slicer writes it, `# CoordinateSystem = ` LPS, RAS, or the older codes 1 (LPS) and 0
/// (RAS). CSV and TSV: a header line with `label` (or `name`) and the coordinates `x`, `y`, `z` in
/// mm; the space is in a comment line `# CoordinateSystem = LPS`, in a column `space`, or in the
/// names of the columns (`x_lps_mm`, `x_ras`); an optional column `status` holds `defined` or
/// `missing`. Of 2D images the columns may be `x_px` and `y_px`: pixels, y downwards, z is 0; a row with
/// `size_x_px` and `size_y_px`, too, is a box about that point, turned by `angle_deg` from x towards y.
///
/// # Errors
/// [`IoError`] naming file and line: no declared space, voxel coordinates, a number that is none, a
/// name twice.
pub fn read_points(path: &Path) -> Result<Annotations, IoError> {
    let bytes = read_file(path, FileKind::Document)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| IoError::input(path, "file", "is not UTF-8", "save it as UTF-8"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let comments = text
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter_map(|line| line.split_once('='));
    let mut fields: Vec<(String, &str)> =
        comments.map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim())).collect();
    let mut comment =
        |key: &str| fields.iter().position(|(k, _)| k == key).map(|n| fields.swap_remove(n).1);
    let declared = comment("coordinatesystem").map(|code| signs(path, code)).transpose()?;
    let is_fcsv = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("fcsv"));
    let columns = if is_fcsv {
        Some(comment("columns").unwrap_or("id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc"))
    } else {
        None
    };
    let tabs = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tsv"));
    let delimiter = if tabs { b'\t' } else { b',' };
    // Slicer's rows begin with the number of a point, never with a name.
    let rows = if is_fcsv { text.to_owned() } else { without_comments(text, delimiter) };
    let mut reader = csv::ReaderBuilder::new()
        .comment(is_fcsv.then_some(b'#'))
        .has_headers(!is_fcsv)
        .flexible(is_fcsv)
        .trim(csv::Trim::All)
        .delimiter(delimiter)
        .from_reader(rows.as_bytes());
    let bad = |what: String| IoError::input(path, "table", what, "repair the table");
    let names: Vec<String> = match columns {
        Some(columns) => columns.split(',').map(|name| name.trim().to_ascii_lowercase()).collect(),
        None => reader
            .headers()
            .map_err(|e| bad(e.to_string()))?
            .iter()
            .map(str::to_ascii_lowercase)
            .collect(),
    };
    let table = Columns::of(path, &names, declared)?;
    let (mut landmarks, mut boxes): (Vec<Landmark>, Vec<(String, Pose)>) = Default::default();
    for record in reader.records() {
        let record = record.map_err(|error| bad(error.to_string()))?;
        let Some(landmark) = table.landmark(path, &record, is_fcsv.then_some(names.len()))? else {
            continue;
        };
        if let Some((problem, remedy)) = names::fault(&landmark.name, landmarks.len()) {
            return Err(IoError::input(path, "table", problem, remedy));
        }
        if let Some(pose) = table.pixel_box(path, &record, landmark.state)? {
            boxes.push((landmark.name, pose));
            continue;
        }
        if landmarks.iter().any(|other| other.name == landmark.name) {
            let line = record.position().map_or(0, csv::Position::line);
            return Err(bad(format!(
                "line {line}: the landmark `{}` is there twice",
                landmark.name
            )));
        }
        landmarks.push(landmark);
    }
    let in_pixels = matches!(table.coordinates, Coordinates::Pixels { .. });
    Ok(Annotations { boxes, landmarks, in_pixels, ..Annotations::default() })
}

/// What is wrong where two places of a table name its space, each another one.
pub(crate) const CONTRADICTED: &str =
    "the table says LPS and RAS of the same coordinates, so left and right are unknown";

/// Signs that turn coordinates into LPS.
pub(crate) fn signs(path: &Path, code: &str) -> Result<[f64; 3], IoError> {
    match code.to_ascii_uppercase().as_str() {
        "LPS" | "1" => Ok(LPS),
        "RAS" | "0" => Ok(RAS),
        "IJK" | "2" => Err(IoError::input(
            path,
            "CoordinateSystem",
            "is IJK, voxels of an image that the file does not name",
            "save the points in LPS",
        )),
        _ => Err(IoError::input(
            path,
            "CoordinateSystem",
            format!("`{code}` is neither LPS nor RAS"),
            "save the points in LPS",
        )),
    }
}

/// Where the table has what.
struct Columns {
    label: usize,
    coordinates: Coordinates,
    status: Option<usize>,
    space: Space,
}

/// The columns of the coordinates.
enum Coordinates {
    /// x, y and z.
    Mm([usize; 3]),
    /// x and y of a 2D image, pixel centres at whole numbers, y downwards; of boxes the edges and the angle.
    Pixels { at: [usize; 2], size: Option<[usize; 2]>, angle: Option<usize> },
}

impl Coordinates {
    fn columns(&self) -> &[usize] {
        match self {
            Self::Mm(columns) => columns,
            Self::Pixels { at, .. } => at,
        }
    }
}

enum Space {
    /// By the table or the names of its columns, and perhaps again in this column.
    Declared([f64; 3], Option<usize>),
    /// In this column, row by row.
    Column(usize),
}

impl Columns {
    fn of(path: &Path, names: &[String], declared: Option<[f64; 3]>) -> Result<Self, IoError> {
        let find = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let missing = |what: &str| {
            IoError::input(
                path,
                "columns",
                format!("there is no `{what}`"),
                "name the columns label, x, y, z in the first line",
            )
        };
        let label = find(&["label", "name", "landmark"]).ok_or_else(|| missing("label"))?;
        let status = find(&["status", "positionstatus"]);
        if let (Some(x), Some(y)) = (find(&["x_px"]), find(&["y_px"])) {
            let size = find(&["size_x_px"]).zip(find(&["size_y_px"])).map(|(a, b)| [a, b]);
            let coordinates = Coordinates::Pixels { at: [x, y], size, angle: find(&["angle_deg"]) };
            return Ok(Self { label, coordinates, status, space: Space::Declared(LPS, None) });
        }
        let axis = |letter: char| {
            let known = ["", "_mm", "_lps", "_lps_mm", "_ras", "_ras_mm"]
                .map(|end| format!("{letter}{end}"));
            names
                .iter()
                .position(|name| known.contains(name))
                .ok_or_else(|| missing(&letter.to_string()))
        };
        let coordinates = [axis('x')?, axis('y')?, axis('z')?];
        let says = |word: &str| coordinates.map(|column| names[column].contains(word));
        let of_names = [(says("_lps"), LPS), (says("_ras"), RAS)];
        let differs = |(said, signs): &([bool; 3], [f64; 3])| {
            said.contains(&true) && declared.is_some_and(|declared| declared != *signs)
        };
        if of_names.iter().any(differs) {
            return Err(IoError::input(path, "CoordinateSystem", CONTRADICTED, "repair the table"));
        }
        let named = of_names.iter().find(|(said, _)| *said == [true; 3]).map(|(_, signs)| *signs);
        let column = find(&["space", "coordinate_system", "coordinatesystem"]);
        let space = match (named.or(declared), column) {
            (Some(signs), column) => Space::Declared(signs, column),
            (None, Some(column)) => Space::Column(column),
            (None, None) => {
                let advice =
                    "add the line `# CoordinateSystem = LPS` (or RAS), or a column `space`";
                return Err(IoError::input(
                    path,
                    "CoordinateSystem",
                    "is not declared, so left and right are unknown",
                    advice,
                ));
            }
        };
        Ok(Self { label, coordinates: Coordinates::Mm(coordinates), status, space })
    }

    /// The box of a row that has edges, about its point.
    fn pixel_box(
        &self,
        path: &Path,
        record: &csv::StringRecord,
        state: LandmarkState,
    ) -> Result<Option<Pose>, IoError> {
        let line = record.position().map_or(0, csv::Position::line);
        let bad =
            |what: String| IoError::input(path, format!("line {line}"), what, "repair the table");
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let (Coordinates::Pixels { size: Some(size), angle, .. }, LandmarkState::At(at)) =
            (&self.coordinates, state)
        else {
            return Ok(None);
        };
        if size.iter().all(|&column| cell(column).is_empty()) {
            return Ok(None);
        }
        let number = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
        let degrees = angle.map(cell).filter(|text| !text.is_empty()).map_or(Some(0.0), number);
        let pose = match (number(cell(size[0])), number(cell(size[1])), degrees) {
            (Some(a), Some(b), Some(degrees)) => pixel_box([at.0.x, at.0.y], [a, b], degrees),
            _ => None,
        };
        let what =
            || bad(format!("`{}` and `{}` are no edges of a box", cell(size[0]), cell(size[1])));
        pose.map(Some).ok_or_else(what)
    }

    /// A row's landmark; `None` where nobody placed it. `known` is the number of named columns of
    /// an `.fcsv`, behind which newer versions of Slicer write the number of the state without a
    /// name.
    fn landmark(
        &self,
        path: &Path,
        record: &csv::StringRecord,
        known: Option<usize>,
    ) -> Result<Option<Landmark>, IoError> {
        let line = record.position().map_or(0, csv::Position::line);
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let bad =
            |what: String| IoError::input(path, format!("line {line}"), what, "repair the table");
        let name = cell(self.label).to_owned();
        if name.is_empty() {
            return Err(bad("the point has no label".into()));
        }
        let state = self.status.map_or_else(|| known.map_or("", cell), cell);
        match state {
            "" | "defined" | "2" => {}
            "missing" | "3" => return Ok(Some(Landmark { name, state: LandmarkState::OutOfView })),
            "undefined" | "preview" | "0" | "1" => return Ok(None),
            other => return Err(bad(format!("the status `{other}` is not known"))),
        }
        let signs = match self.space {
            Space::Declared(declared, column) => {
                let of_row = column.and_then(|column| signs(path, cell(column)).ok());
                if of_row.is_some_and(|of_row| of_row != declared) {
                    return Err(bad(CONTRADICTED.to_owned()));
                }
                declared
            }
            Space::Column(column) => signs(path, cell(column))?,
        };
        let mut position = Vector3::zeros();
        for (axis, &column) in self.coordinates.columns().iter().enumerate() {
            let text = cell(column);
            let value = text.parse().ok().filter(|v: &f64| v.is_finite());
            position[axis] =
                signs[axis] * value.ok_or_else(|| bad(format!("`{text}` is no coordinate")))?;
        }
        Ok(Some(Landmark { name, state: LandmarkState::At(PointLps(Point3::from(position))) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Annotations, IoError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_points(&path)
    }

    fn fcsv(code: &str, end: &str) -> String {
        format!(
            "# Markups fiducial file version = 4.11\n# CoordinateSystem = {code}\n\
             # columns = id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID\n1,10,-20.5,30,0,0,0,1,1,1,0,\"tip, left\",,{end}\n"
        )
    }

    #[test]
    fn fcsv_in_all_its_codes() {
        for (code, x, y) in
            [("LPS", 10.0, -20.5), ("1", 10.0, -20.5), ("RAS", -10.0, 20.5), ("0", -10.0, 20.5)]
        {
            for end in ["", "vtkMRMLScalarVolumeNode1", ",2,0"] {
                let annotations = read("a.fcsv", &fcsv(code, end)).unwrap();
                assert_eq!(
                    annotations.landmark("tip, left"),
                    Some(LandmarkState::At(PointLps::new(x, y, 30.0))),
                    "{code} {end}"
                );
            }
        }
        assert_eq!(
            read("a.fcsv", &fcsv("LPS", ",3,0")).unwrap().landmark("tip, left"),
            Some(LandmarkState::OutOfView)
        );
        assert!(read("a.fcsv", &fcsv("LPS", ",0,0")).unwrap().landmarks.is_empty());
        for code in ["IJK", "2", "XYZ"] {
            assert_eq!(read("a.fcsv", &fcsv(code, "")).unwrap_err().field(), "CoordinateSystem");
        }
        let undeclared = fcsv("LPS", "").replace("# CoordinateSystem = LPS\n", "");
        assert!(read("a.fcsv", &undeclared).unwrap_err().to_string().contains("left and right"));
    }

    #[test]
    fn tables_say_their_space() {
        let at = Some(LandmarkState::At(PointLps::new(-1.0, -2.0, 3.0)));
        for (name, text) in [
            ("a.csv", "# CoordinateSystem = RAS\nlabel,x,y,z\np,1,2,3\n"),
            ("a.csv", "name,x_ras_mm,y_ras_mm,z_ras_mm\np,1,2,3\n"),
            ("a.csv", "\u{feff}x,y,z,Label,Space\r\n-1,-2,3,p,LPS\r\n"),
            (
                "a.tsv",
                "label\tx_lps\ty_lps\tz_lps\tstatus\np\t-1\t-2\t3\tdefined\nq\t\t\t\tmissing\n",
            ),
        ] {
            let annotations = read(name, text).unwrap();
            assert_eq!(annotations.landmark("p"), at, "{text}");
        }
        // What begins as a comment may be a point; what the space column means besides is not ours.
        let text = "# CoordinateSystem = RAS\nlabel,x,y,z,space\n#1,1,2,3,MNI\n# one point\n";
        assert_eq!(read("a.csv", text).unwrap().landmark("#1"), at);
        let pixels = read("a.csv", "label,x_px,y_px\np,1.5,2\n").unwrap();
        let at = LandmarkState::At(PointLps::new(1.5, 2.0, 0.0));
        assert!(pixels.in_pixels && pixels.landmark("p") == Some(at));
        for (text, part) in [
            ("label,x,y,z\np,1,2,3\n", "not declared"),
            ("# CoordinateSystem = RAS\nlabel,x_lps,y_lps,z_lps\np,1,2,3\n", "says LPS and RAS"),
            ("# CoordinateSystem = RAS\nlabel,x_ras,y_lps,z_ras\np,1,2,3\n", "says LPS and RAS"),
            (
                "# CoordinateSystem = RAS\nlabel,x,y,z,space\np,1,2,3,RAS\nq,1,2,3,LPS\n",
                "line 4: the table says LPS and RAS",
            ),
            ("label,x_ras,y_ras,z_ras,space\np,1,2,3,LPS\n", "line 2: the table says LPS"),
            ("label,x_px,y_px\np,1,\n", "line 2: `` is no coordinate"),
            ("label,x_ras,y_lps,z_ras\np,1,2,3\n", "not declared"),
            ("x_lps,y_lps,z_lps\n1,2,3\n", "no `label`"),
            ("label,x_lps,y_lps\np,1,2\n", "no `z`"),
            ("label,x_lps,y_lps,z_lps\np,1,nan,3\n", "line 2: `nan`"),
            (
                "label,x_lps,y_lps,z_lps\np,1,2,3\np,1,2,3\n",
                "line 3: the landmark `p` is there twice",
            ),
            ("label,x_lps,y_lps,z_lps\np,1,2\n", "table"),
        ] {
            let error = read("a.csv", text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
