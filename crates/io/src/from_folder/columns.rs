//! Which columns of a table say what: cases, names, and places of points and boxes.

pub(super) const CASE: &[&str] = &[
    "case",
    "case_id",
    "id",
    "image",
    "image_name",
    "scan",
    "file",
    "filename",
    "file_name",
    "image_id",
];
pub(super) const NAME: &[&str] =
    &["name", "structure", "landmark", "label", "box", "class", "point", "keypoint", "marker"];
pub(super) const SUBJECT: &[&str] =
    &["subject", "subject_id", "patient", "patient_id", "participant_id"];
pub(super) const VALUE: &[&str] = &["index", "value", "label", "id"];
pub(super) const STATUS: &[&str] = &["status", "positionstatus"];
pub(super) const SPACE: &[&str] = &["space", "coordinate_system", "coordinatesystem"];

/// Names of columns in lower case.
pub(super) struct Columns(pub(super) Vec<String>);

impl Columns {
    pub(super) fn find(&self, wanted: &[&str]) -> Option<usize> {
        wanted.iter().find_map(|name| self.0.iter().position(|column| column == name))
    }

    /// Columns of one of these forms, all of which must be there.
    pub(super) fn all<const N: usize>(&self, forms: &[[&str; N]]) -> Option<[usize; N]> {
        forms.iter().find_map(|form| {
            let found: Option<Vec<usize>> = form.iter().map(|name| self.find(&[name])).collect();
            found?.try_into().ok()
        })
    }
}

/// The columns of places.
pub(super) enum Places {
    Pixels([usize; 2]),
    PixelBoxes {
        center: [usize; 2],
        size: [usize; 2],
        /// From x towards y, degrees.
        angle: Option<usize>,
    },
    /// Lowest and highest pixels of boxes.
    PixelBounds([usize; 4]),
    Points([usize; 3]),
    Boxes {
        center: [usize; 3],
        size: [usize; 3],
        axes: Axes,
    },
    /// Lowest and highest coordinates of boxes along the axes of the space.
    Bounds([usize; 6]),
}

/// The columns of a box's axes.
pub(super) enum Axes {
    /// Those of the space.
    Space,
    /// Component by component, axis by axis.
    Vectors([usize; 9]),
    /// `qw`, `qx`, `qy`, `qz`.
    Quaternion([usize; 4]),
}

pub(super) const CENTER: [[&str; 3]; 8] = [
    ["x", "y", "z"],
    ["x_mm", "y_mm", "z_mm"],
    ["x_lps", "y_lps", "z_lps"],
    ["x_lps_mm", "y_lps_mm", "z_lps_mm"],
    ["x_ras", "y_ras", "z_ras"],
    ["x_ras_mm", "y_ras_mm", "z_ras_mm"],
    ["cx", "cy", "cz"],
    ["center_x", "center_y", "center_z"],
];
pub(super) const SIZE: [[&str; 3]; 4] = [
    ["size_1_mm", "size_2_mm", "size_3_mm"],
    ["size_1", "size_2", "size_3"],
    ["size_x", "size_y", "size_z"],
    ["len1", "len2", "len3"],
];
pub(super) const BOUNDS: [[&str; 6]; 2] = [
    ["x_min", "y_min", "z_min", "x_max", "y_max", "z_max"],
    ["xmin", "ymin", "zmin", "xmax", "ymax", "zmax"],
];
pub(super) const PIXEL_BOUNDS: [[&str; 4]; 2] =
    [["x_min", "y_min", "x_max", "y_max"], ["xmin", "ymin", "xmax", "ymax"]];
pub(super) const VECTORS: [&str; 9] =
    ["e1x", "e1y", "e1z", "e2x", "e2y", "e2z", "e3x", "e3y", "e3z"];

impl Places {
    pub(super) fn of(columns: &Columns) -> Option<Self> {
        let pixel_box = |center| {
            let size = columns.all(&[["size_x_px", "size_y_px"], ["size_x", "size_y"]])?;
            Some(Self::PixelBoxes { center, size, angle: columns.find(&["angle_deg"]) })
        };
        if let Some(pixels) = columns.all(&[["x_px", "y_px"]]) {
            return Some(pixel_box(pixels).unwrap_or(Self::Pixels(pixels)));
        }
        if let Some(bounds) = columns.all(&BOUNDS) {
            return Some(Self::Bounds(bounds));
        }
        if let Some(bounds) = columns.all(&PIXEL_BOUNDS) {
            return Some(Self::PixelBounds(bounds));
        }
        let Some(center) = columns.all(&CENTER) else {
            let is_more = columns.0.iter().any(|column| MORE_THAN_A_POINT.contains(&&column[..]));
            let pixels = columns.all(&[["x", "y"]]).filter(|_| !is_more)?;
            return Some(pixel_box(pixels).unwrap_or(Self::Pixels(pixels)));
        };
        let Some(size) = columns.all(&SIZE) else { return Some(Self::Points(center)) };
        let axes = if let Some(vectors) = columns.all(&[VECTORS]) {
            Axes::Vectors(vectors)
        } else {
            let quaternion = columns.all(&[["qw", "qx", "qy", "qz"]]);
            quaternion.map_or(Axes::Space, Axes::Quaternion)
        };
        Some(Self::Boxes { center, size, axes })
    }
}

impl Places {
    /// Whether they are of 2D images without a scale.
    pub(super) fn in_pixels(&self) -> bool {
        matches!(self, Self::Pixels(_) | Self::PixelBoxes { .. } | Self::PixelBounds(_))
    }
}

/// Columns beside `x` and `y` with which these are no landmark of a 2D image.
pub(super) const MORE_THAN_A_POINT: [&str; 11] =
    ["width", "height", "w", "h", "z", "z_mm", "slice", "frame", "size", "radius", "angle"];

/// Words that have coordinates and are no landmarks, alone or after others.
pub(super) const NO_LANDMARKS: [&str; 22] = [
    "size", "center", "centre", "centroid", "min", "max", "bbox", "box", "spacing", "shape",
    "origin", "dim", "offset", "pos", "position", "coord", "mm", "px", "pixel", "pixels", "lps",
    "ras",
];

/// The landmarks of a table with a row for each image and columns for each landmark, such as `nose_x` and
/// `nose_y`, or `x1` and `y1`; with `nose_z` or `z1` they are points of a volume. None of a table that names
/// what its rows are, or says subjects or splits.
///
/// # Errors
/// A landmark with a part of its columns, and landmarks of images and of volumes together.
pub(super) fn wide(headers: &[String], columns: &Columns) -> Result<Vec<(String, Places)>, String> {
    let is_other = [NAME, SUBJECT, &["split"]].iter().any(|names| columns.find(names).is_some());
    if is_other || columns.find(CASE).is_none() {
        return Ok(Vec::new());
    }
    let mut groups: Vec<(String, [Option<usize>; 3])> = Vec::new();
    for (column, header) in headers.iter().enumerate() {
        let Some((name, axis)) = landmark_and_axis(header) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, found)) => found[axis] = Some(column),
            None => {
                let mut found = [None; 3];
                found[axis] = Some(column);
                groups.push((name, found));
            }
        }
    }
    let is_of_volume = groups.iter().any(|(_, found)| found[2].is_some());
    let places = |(name, found): (String, [Option<usize>; 3])| match (found, is_of_volume) {
        ([Some(x), Some(y), Some(z)], _) => Ok((name, Places::Points([x, y, z]))),
        ([Some(x), Some(y), None], false) => Ok((name, Places::Pixels([x, y]))),
        _ => Err(format!(
            "the landmark `{name}` has not all its columns (name them alike, with x and y, or with x, y and z)"
        )),
    };
    groups.into_iter().map(places).collect()
}

/// The landmark of a column of a wide table, and its axis, 0 to 2.
pub(super) fn landmark_and_axis(header: &str) -> Option<(String, usize)> {
    let is_separator = |c: char| matches!(c, '_' | ' ' | '.' | '-');
    // A name joined to its axis without a separator is a number.
    let name = |rest: &str| {
        let name = rest.trim_matches(is_separator);
        let is_joined = name.len() == rest.len();
        let word = name.rsplit(is_separator).next().unwrap_or(name).to_ascii_lowercase();
        let is_name = !name.is_empty()
            && (!is_joined || name.chars().all(|c| c.is_ascii_digit()))
            && !NO_LANDMARKS.contains(&word.as_str());
        is_name.then(|| name.to_owned())
    };
    let on_axis = |letter: &str| {
        let (first, last) = (header.strip_prefix(letter), header.strip_suffix(letter));
        first.and_then(name).or_else(|| last.and_then(name))
    };
    (0..3).find_map(|axis| {
        let name = on_axis(["x", "y", "z"][axis]).or_else(|| on_axis(["X", "Y", "Z"][axis]))?;
        Some((name, axis))
    })
}
