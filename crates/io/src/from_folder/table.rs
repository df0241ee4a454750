//! Tables of boxes, of points, of what is known about cases, and of names of labels: CSV and TSV with
//! a header line.

use super::columns::{Axes, CASE, Columns, NAME, Places, SPACE, STATUS, SUBJECT, VALUE, wide};
use crate::annotations::pixel_box;
use crate::delimiter::delimiter;
use crate::points::{CONTRADICTED, signs};
use crate::regular_file::{FileKind, read_file};
use crate::table_text::without_comments;
use crate::{Landmark, LandmarkState};
use nalgebra::{Matrix3, Point3, Quaternion, UnitQuaternion, Vector3};
use pbt_volume::{LARGEST_EDGE_MM, PointLps, Pose, SMALLEST_EDGE_MM, positive};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a table is about.
#[derive(Debug, PartialEq)]
pub(super) enum Table {
    /// A box or point each row.
    Rows {
        /// In the table's order.
        rows: Vec<Row>,
        /// Whether places are pixels.
        in_pixels: bool,
    },
    /// The subject, the split or both of each case.
    Cases(BTreeMap<String, Facts>),
    /// Names of label values.
    Names(BTreeMap<u16, String>),
}

/// A row with a box or a point.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    /// The case, where the table has a column for it.
    pub(super) case: Option<String>,
    /// What is there.
    pub(super) what: Marked,
}

/// A box or a landmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Marked {
    Box(String, Pose),
    Point(Landmark),
}

/// What a table says of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) subject: Option<String>,
    pub(super) split: Option<String>,
}

impl Facts {
    /// Adds what another row says of the case.
    ///
    /// # Errors
    /// What the rows contradict each other in.
    fn add(&mut self, other: Self) -> Result<(), String> {
        for (what, mine, other) in
            [("subject", &mut self.subject, other.subject), ("split", &mut self.split, other.split)]
        {
            if let (Some(mine), Some(other)) = (&*mine, &other)
                && mine != other
            {
                return Err(format!("`{other}` is not the {what} `{mine}`"));
            }
            *mine = mine.take().or(other);
        }
        Ok(())
    }
}

fn line_of(record: &csv::StringRecord) -> u64 {
    record.position().map_or(0, csv::Position::line)
}

/// Reads a table. `space`, LPS or RAS, counts where the table names none; `only` is the name of
/// structures where it has no column for it.
///
/// # Errors
/// Why the table cannot be used.
pub(super) fn read(path: &Path, space: Option<&str>, only: &str) -> Result<Table, String> {
    let bytes = read_file(path, FileKind::Document).map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "is not UTF-8 (save it as UTF-8)")?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let header = text.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    let delimiter = delimiter(path, header);
    let semicolons = delimiter == b';';
    let table = without_comments(text, delimiter);
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .delimiter(delimiter)
        .from_reader(table.as_bytes());
    let headers: Vec<String> = {
        let headers = reader.headers().map_err(|error| error.to_string())?;
        headers.iter().map(str::to_owned).collect()
    };
    let columns = Columns(headers.iter().map(|header| header.to_ascii_lowercase()).collect());
    if columns.find(&["model_sha256"]).is_some() {
        return Err("is a table of detections, not of annotations".to_owned());
    }
    let mut comments = text.lines().filter_map(|line| line.strip_prefix('#')?.split_once('='));
    let declared = comments.find(|(key, _)| key.trim().eq_ignore_ascii_case("coordinatesystem"));
    let declared = declared.map(|(_, space)| space.trim());
    let records = reader.records().collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    if let Some(places) = Places::of(&columns) {
        let named = Named {
            path,
            columns: &columns,
            places: &places,
            declared,
            space,
            only,
            decimal_commas: semicolons,
        };
        let rows = records.iter().map(|record| named.row(record).transpose());
        let rows: Vec<Row> = rows.flatten().collect::<Result<_, _>>()?;
        named.check_names(&rows, &headers)?;
        return Ok(Table::Rows { rows, in_pixels: places.in_pixels() });
    }
    let wide = wide(&headers, &columns)?;
    if !wide.is_empty() {
        let mut rows = Vec::new();
        for record in &records {
            for (name, places) in &wide {
                let named = Named {
                    path,
                    columns: &columns,
                    places,
                    declared,
                    space,
                    only,
                    decimal_commas: semicolons,
                };
                rows.extend(named.of_group(record, name)?);
            }
        }
        let in_pixels = wide.iter().any(|(_, places)| places.in_pixels());
        return Ok(Table::Rows { rows, in_pixels });
    }
    let case = columns.find(CASE);
    let (subject, split) = (columns.find(SUBJECT), columns.find(&["split"]));
    if let Some(case) = case.or(subject)
        && (split.is_some() || subject.is_some_and(|subject| subject != case))
    {
        let mut cases: BTreeMap<String, Facts> = BTreeMap::new();
        for record in &records {
            let cell = |column: Option<usize>| {
                column
                    .and_then(|n| record.get(n))
                    .filter(|text| !text.is_empty())
                    .map(str::to_owned)
            };
            // Spreadsheets end with empty rows.
            let Some(case) = cell(Some(case)) else { continue };
            let facts = Facts { subject: cell(subject), split: cell(split) };
            let line = line_of(record);
            let add = cases.entry(case.clone()).or_default().add(facts);
            add.map_err(|what| format!("line {line}: {what} of `{case}` in another row"))?;
        }
        return Ok(Table::Cases(cases));
    }
    if let (Some(value), Some(name)) = (columns.find(VALUE), columns.find(&["name", "structure"])) {
        let mut names: BTreeMap<u16, String> = BTreeMap::new();
        for record in &records {
            let pair = || Some((record.get(value)?.parse().ok()?, record.get(name)?));
            let (value, name) = pair().ok_or("has values that are no labels")?;
            let known = names.entry(value).or_insert_with(|| name.to_owned());
            if known != name {
                let line = line_of(record);
                return Err(format!("line {line}: the value {value} is `{known}` in another row"));
            }
        }
        return Ok(Table::Names(names));
    }
    Err("has no columns that say boxes, points, splits, subjects or names of labels".to_owned())
}

/// What a row is read with.
struct Named<'a> {
    path: &'a Path,
    columns: &'a Columns,
    places: &'a Places,
    /// What a comment of the table says of its space.
    declared: Option<&'a str>,
    /// The space of tables that do not say it.
    space: Option<&'a str>,
    only: &'a str,
    /// Whether the decimal sign is a comma.
    decimal_commas: bool,
}

impl Named<'_> {
    /// A row's box or point; none where the row says that it was not found.
    fn row(&self, record: &csv::StringRecord) -> Result<Option<Row>, String> {
        let line = line_of(record);
        let bad = |what: &str| format!("line {line}: {what}");
        let cell = |column: usize| record.get(column).unwrap_or_default();
        let text = |names: &[&str]| self.columns.find(names).map(cell).filter(|t| !t.is_empty());
        let case = text(CASE).map(str::to_owned);
        // Of a table with a column `label` for the case's number the name is in another one.
        let name = text(NAME).unwrap_or(self.only).to_owned();
        let what = match text(STATUS).unwrap_or("defined").to_ascii_lowercase().as_str() {
            "missing" => Marked::Point(Landmark { name, state: LandmarkState::OutOfView }),
            "absent" | "failed" | "undefined" => return Ok(None),
            _ if self.is_blank(record) => return Ok(None),
            _ => self.marked(record, name).map_err(|what| bad(&what))?,
        };
        Ok(Some(Row { case, what }))
    }

    /// The landmark of this name of a row of a wide table; none where its cells are empty or say so.
    fn of_group(&self, record: &csv::StringRecord, name: &str) -> Result<Option<Row>, String> {
        if self.is_blank(record) {
            return Ok(None);
        }
        let line = line_of(record);
        let what = self.marked(record, name.to_owned());
        let what = what.map_err(|what| format!("line {line}: {name}: {what}"))?;
        let case = self.columns.find(CASE).and_then(|n| record.get(n)).filter(|t| !t.is_empty());
        Ok(Some(Row { case: case.map(str::to_owned), what }))
    }

    /// Rows of one case without a column that names them would all be one thing.
    fn check_names(&self, rows: &[Row], headers: &[String]) -> Result<(), String> {
        if self.columns.find(NAME).is_some() {
            return Ok(());
        }
        let mut seen = BTreeSet::new();
        match rows.iter().find(|row| row.case.is_some() && !seen.insert(&row.case)) {
            None => Ok(()),
            Some(row) => Err(format!(
                "has several rows for `{}`, and no column that says what each of them is (call it `name`; the columns \
                 are {})",
                row.case.as_deref().unwrap_or_default(),
                headers.join(", ")
            )),
        }
    }

    /// Whether nothing was marked: the cells of the place are empty, or say so.
    fn is_blank(&self, record: &csv::StringRecord) -> bool {
        let place: &[usize] = match self.places {
            Places::Pixels(place) | Places::PixelBoxes { center: place, .. } => place,
            Places::PixelBounds(place) => place,
            Places::Points(place) | Places::Boxes { center: place, .. } => place,
            Places::Bounds(place) => place,
        };
        place.iter().all(|&column| {
            let cell = record.get(column).unwrap_or_default();
            cell.is_empty() || ["na", "nan"].contains(&cell.to_ascii_lowercase().as_str())
        })
    }

    fn marked(&self, record: &csv::StringRecord, name: String) -> Result<Marked, String> {
        let number = |column: usize| {
            let text = record.get(column).unwrap_or_default();
            let point = if self.decimal_commas { &text.replace(',', ".") } else { text };
            let value = point.parse().ok().filter(|value: &f64| value.is_finite());
            value.ok_or_else(|| format!("`{text}` is no number"))
        };
        let vector = |columns: &[usize]| -> Result<Vector3<f64>, String> {
            Ok(Vector3::new(number(columns[0])?, number(columns[1])?, number(columns[2])?))
        };
        let point = |at: Vector3<f64>| PointLps(Point3::from(at));
        let (center, size, axes) = match self.places {
            Places::Pixels([x, y]) => {
                let state = LandmarkState::At(PointLps::new(number(*x)?, number(*y)?, 0.0));
                return Ok(Marked::Point(Landmark { name, state }));
            }
            Places::PixelBoxes { center: [x, y], size: [a, b], angle } => {
                let degrees = angle.filter(|&n| record.get(n).is_some_and(|text| !text.is_empty()));
                let degrees = degrees.map_or(Ok(0.0), number)?;
                let (center, size) = ([number(*x)?, number(*y)?], [number(*a)?, number(*b)?]);
                let pose = pixel_box(center, size, degrees);
                let pose =
                    pose.ok_or_else(|| format!("{size:?} are no edges of a box in pixels"))?;
                return Ok(Marked::Box(name, pose));
            }
            Places::PixelBounds([left, top, right, bottom]) => {
                let (low, high) =
                    ([number(*left)?, number(*top)?], [number(*right)?, number(*bottom)?]);
                let center = [(low[0] + high[0]) / 2.0, (low[1] + high[1]) / 2.0];
                let size = [high[0] - low[0], high[1] - low[1]];
                let pose = pixel_box(center, size, 0.0);
                let pose =
                    pose.ok_or_else(|| format!("{size:?} are no edges of a box in pixels"))?;
                return Ok(Marked::Box(name, pose));
            }
            Places::Points(columns) => {
                let at = vector(columns)?.component_mul(&self.signs(record, columns[0])?);
                let state = LandmarkState::At(point(at));
                return Ok(Marked::Point(Landmark { name, state }));
            }
            Places::Bounds(columns) => {
                let to_lps = self.signs(record, columns[0])?;
                let (low, high) = (vector(&columns[..3])?, vector(&columns[3..])?);
                let center = (low + high).component_mul(&to_lps) / 2.0;
                // The axes are those of LPS: of a box along the axes a sign changes nothing.
                (center, high - low, Matrix3::identity())
            }
            Places::Boxes { center, size, axes } => {
                let to_lps = self.signs(record, center[0])?;
                let turn = Matrix3::from_diagonal(&to_lps);
                let axes = match axes {
                    Axes::Space => Matrix3::identity(),
                    Axes::Vectors(c) => {
                        let [a, b, c] = [vector(&c[..3])?, vector(&c[3..6])?, vector(&c[6..])?];
                        let axes = turn * Matrix3::from_columns(&[a, b, c]);
                        // A box is the same with an axis turned round.
                        let hand = axes.determinant().signum();
                        axes * Matrix3::from_diagonal(&Vector3::new(1.0, 1.0, hand))
                    }
                    Axes::Quaternion([w, x, y, z]) => {
                        let q = Quaternion::new(number(*w)?, number(*x)?, number(*y)?, number(*z)?);
                        if (q.norm() - 1.0).abs() > 0.01 {
                            return Err("qw, qx, qy and qz are no rotation".to_owned());
                        }
                        let q = positive(UnitQuaternion::from_quaternion(q));
                        turn * q.to_rotation_matrix().into_inner()
                    }
                };
                (vector(center)?.component_mul(&to_lps), vector(size)?, axes)
            }
        };
        let size_mm = [size.x, size.y, size.z];
        if !size_mm.iter().all(|edge| (SMALLEST_EDGE_MM..=LARGEST_EDGE_MM).contains(edge)) {
            return Err(format!("{size_mm:?} are no edges of a box in mm"));
        }
        let pose = Pose::from_axes(point(center), &axes, size_mm);
        let pose = pose.ok_or("the axes are no unit vectors at right angles")?;
        Ok(Marked::Box(name, pose))
    }

    /// Signs that turn coordinates of a row into LPS; the name of a column of them may say the space.
    fn signs(&self, record: &csv::StringRecord, column: usize) -> Result<Vector3<f64>, String> {
        let name = &self.columns.0[column];
        let of_row = self.columns.find(SPACE).and_then(|n| record.get(n)).filter(|t| !t.is_empty());
        let of_column = match (name.contains("_lps"), name.contains("_ras")) {
            (true, _) => Some("LPS"),
            (_, true) => Some("RAS"),
            _ => None,
        };
        let said = [of_column, of_row, self.declared];
        let known: Vec<_> =
            said.iter().flatten().filter_map(|code| signs(self.path, code).ok()).collect();
        if known.iter().any(|signs| *signs != known[0]) {
            return Err(CONTRADICTED.to_owned());
        }
        let undeclared = "does not say whether its coordinates are LPS or RAS, so left and right are \
                          unknown (give --space LPS or --space RAS)";
        let code = said.into_iter().flatten().next().or(self.space);
        let code = code.ok_or_else(|| undeclared.to_owned())?;
        signs(self.path, code).map(Vector3::from).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str, space: Option<&str>) -> Result<Table, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, text).unwrap();
        read(&path, space, "structure")
    }

    fn only_box(text: &str, space: Option<&str>) -> (String, Pose) {
        match read_text(text, space).unwrap() {
            Table::Rows { rows, .. } => match &rows[..] {
                [Row { what: Marked::Box(name, pose), .. }] => (name.clone(), *pose),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn boxes_in_all_their_forms_are_the_same() {
        let center = PointLps::new(1.0, -2.0, 3.0);
        for (text, space) in [
            ("case,structure,x,y,z,size_x,size_y,size_z\na,liver,-1,2,3,4,5,6\n", Some("RAS")),
            ("case,structure,x_lps,y_lps,z_lps,size_1,size_2,size_3\na,liver,1,-2,3,4,5,6\n", None),
            (
                "# CoordinateSystem = RAS\ncase,name,cx,cy,cz,len1,len2,len3\na,liver,-1,2,3,4,5,6\n",
                None,
            ),
            (
                "case,class,space,x_min,y_min,z_min,x_max,y_max,z_max\na,liver,LPS,-1,-4.5,0,3,0.5,6\n",
                None,
            ),
            (
                "case,name,x,y,z,size_1,size_2,size_3,qw,qx,qy,qz\na,liver,1,-2,3,4,5,6,1,0,0,0\n",
                Some("LPS"),
            ),
            (
                "case,name,cx,cy,cz,e1x,e1y,e1z,e2x,e2y,e2z,e3x,e3y,e3z,len1,len2,len3\n\
                 a,liver,1,-2,3,1,0,0,0,1,0,0,0,-1,4,5,6\n",
                Some("LPS"),
            ),
        ] {
            let (name, pose) = only_box(text, space);
            assert_eq!(
                (name.as_str(), pose.center, pose.size_mm),
                ("liver", center, [4.0, 5.0, 6.0])
            );
            // Up to the sign of axes, which a box does not have.
            assert!((pose.axes().abs() - Matrix3::identity()).norm() < 1e-12, "{text}");
        }
    }

    #[test]
    fn spreadsheets_of_all_countries() {
        let points = |text: &str| -> Vec<(String, [f64; 2])> {
            let Table::Rows { rows, .. } = read_text(text, None).unwrap() else { panic!("{text}") };
            let of = |row: Row| match row.what {
                Marked::Point(Landmark { name, state: LandmarkState::At(at) }) => {
                    (name, [at.0.x, at.0.y])
                }
                other => panic!("{other:?}"),
            };
            rows.into_iter().map(of).collect()
        };
        let expected = vec![("10".to_owned(), [3.5, 4.0]), ("2".to_owned(), [5.0, 6.0])];
        // Points that nobody placed are no rows.
        assert_eq!(points("file,point,X,Y\na,10,3.5,4\na,1,,\na,3,NA,NA\na,2,5,6\n"), expected);
        assert_eq!(points("file;point;X;Y\na;10;3,5;4\na;1;;\na;2;5;6\n"), expected);
    }

    #[test]
    fn names_may_begin_as_comments_do() {
        let text = "# CoordinateSystem = LPS\ncase,name,x,y,z\n#1,#2,1,2,3\n# the end\n";
        let Table::Rows { rows, .. } = read_text(text, None).unwrap() else { panic!("no rows") };
        let [Row { case: Some(case), what: Marked::Point(point) }] = &rows[..] else {
            panic!("{rows:?}")
        };
        assert_eq!((case.as_str(), point.name.as_str()), ("#1", "#2"));
    }

    #[test]
    fn axes_turn_with_the_space() {
        let text = "case,name,cx,cy,cz,e1x,e1y,e1z,e2x,e2y,e2z,e3x,e3y,e3z,len1,len2,len3\n\
                    a,liver,0,0,0,0.6,0.8,0,-0.8,0.6,0,0,0,1,4,5,6\n";
        let (_, pose) = only_box(text, Some("RAS"));
        assert!((pose.axes().column(0) - Vector3::new(-0.6, -0.8, 0.0)).norm() < 1e-12);
        assert!((pose.axes().column(1) - Vector3::new(0.8, -0.6, 0.0)).norm() < 1e-12);
    }

    #[test]
    fn other_tables_say_what_they_say() {
        let cases = read_text("case_id,patient,split\na,p1,test\nb,,\n", None).unwrap();
        let Table::Cases(cases) = cases else { panic!("{cases:?}") };
        assert_eq!(cases["a"], Facts { subject: Some("p1".into()), split: Some("test".into()) });
        assert_eq!(cases["b"], Facts::default());
        // Of several rows each may say a part, or the same again.
        let cases = read_text("case,patient,split\na,p1,\na,,test\na,p1,test\n,,\n", None).unwrap();
        let facts = Facts { subject: Some("p1".into()), split: Some("test".into()) };
        assert_eq!(cases, Table::Cases([("a".into(), facts)].into()));
        let names = read_text("index,name\n1,liver\n7,spleen\n", None).unwrap();
        assert_eq!(names, Table::Names([(1, "liver".into()), (7, "spleen".into())].into()));
        let points = read_text("case,label,x_px,y_px\na,tip,3,4\n", None).unwrap();
        assert!(matches!(points, Table::Rows { in_pixels: true, .. }));
        for (text, part) in [
            ("case,name,x,y,z\na,tip,1,2,3\n", "LPS or RAS"),
            (
                "case,split\na,train\nb,test\na,test\n",
                "line 4: `test` is not the split `train` of `a` in another row",
            ),
            ("case,patient\na,1\na,2\n", "line 3: `2` is not the subject `1` of `a`"),
            ("index,name\n1,a\n1,b\n", "line 3: the value 1 is `a` in another row"),
            (
                "# CoordinateSystem = RAS\ncase,name,x_lps,y_lps,z_lps\na,tip,1,2,3\n",
                "line 3: the table says LPS and RAS",
            ),
            ("case,name,space,x_ras,y_ras,z_ras\na,tip,LPS,1,2,3\n", "says LPS and RAS"),
            ("case,name,x_lps,y_lps,z_lps\na,tip,1,x,3\n", "line 2: `x` is no number"),
            ("case,weight\na,3\n", "no columns"),
            ("case_id,name,x_lps_mm,y_lps_mm,z_lps_mm,model_sha256\n", "table of detections"),
            ("case,name,x_lps,y_lps,z_lps,size_1,size_2,size_3\na,b,1,2,3,0,1,1\n", "no edges"),
            (
                "file,nr,x,y\na,1,3,4\na,2,5,6\n",
                "several rows for `a`, and no column that says what",
            ),
        ] {
            let error = read_text(text, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_row_may_hold_all_landmarks_of_an_image() {
        let points = |text: &str, space: Option<&str>| -> (bool, Vec<(String, String, PointLps)>) {
            let Table::Rows { rows, in_pixels } = read_text(text, space).unwrap() else {
                panic!("no rows")
            };
            let of = |row: Row| match row.what {
                Marked::Point(Landmark { name, state: LandmarkState::At(at) }) => {
                    (row.case.unwrap(), name, at)
                }
                other => panic!("{other:?}"),
            };
            (in_pixels, rows.into_iter().map(of).collect())
        };
        let one =
            |name: &str, x, y, z| ("a.jpg".to_owned(), name.to_owned(), PointLps::new(x, y, z));
        for text in [
            "image,x1,y1,x2,y2\na.jpg,3,4,5,6\n",
            "image_name,1_x,1_y,2_x,2_y\na.jpg,3,4,5,6\n",
            "file,X 1,Y 1,X 2,Y 2\na.jpg,3,4,5,6\n",
        ] {
            let expected = vec![one("1", 3.0, 4.0, 0.0), one("2", 5.0, 6.0, 0.0)];
            assert_eq!(points(text, None), (true, expected), "{text}");
        }
        // Names keep their capitals; an empty cell is a landmark that is not there.
        let text = "id,Nose_x,Nose_y,ear_x,ear_y\na.jpg,3,4,,\n";
        assert_eq!(points(text, None), (true, vec![one("Nose", 3.0, 4.0, 0.0)]));
        let text = "id,nose_x,nose_y,nose_z\na.jpg,-3,-4,5\n";
        assert_eq!(points(text, Some("RAS")), (false, vec![one("nose", 3.0, 4.0, 5.0)]));
        let text = "image,landmark,x,y\na.jpg,nose,3,4\n";
        assert_eq!(points(text, None), (true, vec![one("nose", 3.0, 4.0, 0.0)]));
        // What has coordinates and is no landmark, or only some of them.
        for text in [
            "image,size_x,size_y\na.jpg,3,4\n",
            "image,voxel_size_x,voxel_size_y\na.jpg,3,4\n",
            "case,name,x_mm,y_mm\na,nose,3,4\n",
            "image,x1,y1,x2,y2,class\na.jpg,1,2,3,4,cat\n",
            "image,label,x,y,width,height\na.jpg,cat,1,2,3,4\n",
            "image,nose_x,nose_y,ear_x\na.jpg,1,2,3\n",
            "image,nose_x,nose_y,nose_z,ear_x,ear_y\na.jpg,1,2,3,4,5\n",
        ] {
            assert!(read_text(text, Some("LPS")).is_err(), "{text}");
        }
        let splits = read_text("case,split,age_x,age_y\na,test,50,50\n", None);
        assert!(matches!(splits, Ok(Table::Cases(_))), "{splits:?}");
        let names = read_text("id,name,centroid_x,centroid_y,centroid_z\n4,liver,1,2,3\n", None);
        assert!(matches!(names, Ok(Table::Names(_))), "{names:?}");
        let error = read_text("image,x1,y1\na.jpg,3,four\n", None).unwrap_err();
        assert!(error.contains("line 2: 1: `four` is no number"), "{error}");
    }
}
