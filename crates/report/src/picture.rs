//! Three orthogonal slices of a case, or of several, with boxes and landmarks, as SVG.

use crate::box_names::{FONT_SIZE, placed_names};
use crate::encode::{escaped, png_data_uri, shortened};
use crate::labels::{self, DrawnLabels};
use crate::plane::{Plane, planes};
use crate::shown_part::shown_part;
use nalgebra::Matrix3;
use pbt_volume::{Geometry, PointLps, Pose, Volume};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Whether something drawn is the truth or a detection; it decides the colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// What is known to be right: green, whole lines.
    True,
    /// An annotation that may be wrong: the same.
    Annotated,
    /// The detection: orange, dashed lines.
    Found,
    /// What the other cases or structures let expect: magenta, dashed lines.
    Expected,
    /// A position that was considered: a small blue dot.
    Candidate,
    /// A pose that was considered: thin grey lines.
    Mode,
    /// A place that speaks for a detection: a turquoise dot.
    For,
    /// A place that speaks against it: a red dot.
    Against,
}

impl Mark {
    const ALL: [Self; 8] = [
        Self::True,
        Self::Annotated,
        Self::Found,
        Self::Expected,
        Self::Candidate,
        Self::Mode,
        Self::For,
        Self::Against,
    ];

    fn colour(self) -> &'static str {
        match self {
            Self::True | Self::Annotated => "#3ddc84",
            Self::Found => "#ff9f1c",
            Self::Expected => "#ff6ad5",
            Self::Candidate => "#5aa9e6",
            Self::Mode => "#aab3c2",
            Self::For => "#2ee6d6",
            Self::Against => "#ff4d6d",
        }
    }

    fn dash(self) -> &'static str {
        match self {
            Self::Found | Self::Expected => " stroke-dasharray=\"6 4\"",
            _ => "",
        }
    }

    /// Width of a box's lines.
    fn width(self) -> f64 {
        if self == Self::Mode { 0.7 } else { 2.0 }
    }

    /// Points within this distance of a slice are seen in it. Considerations are few and spread
    /// out: every slice shows them all, as if looked at from its side.
    fn reach_mm(self) -> f64 {
        match self {
            Self::True | Self::Annotated | Self::Found | Self::Expected => POINT_REACH_MM,
            _ => f64::INFINITY,
        }
    }

    /// Whether the names of boxes are written beside them, too.
    fn is_named(self) -> bool {
        matches!(self, Self::True | Self::Annotated | Self::Found | Self::Expected)
    }

    fn name(self) -> &'static str {
        match self {
            Self::True => "true",
            Self::Annotated => "annotated",
            // A doubtful one, too.
            Self::Found => "by pbt",
            Self::Expected => "expected",
            Self::Candidate => "candidate",
            Self::Mode => "mode",
            Self::For => "speaks for it",
            Self::Against => "against it",
        }
    }
}

/// A box to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnBox {
    /// The structure's name, shown when the pointer rests on the box, and beside it where a case has boxes of
    /// several names.
    pub name: String,
    /// Where it is.
    pub pose: Pose,
    /// What it is.
    pub mark: Mark,
}

/// A landmark or another point to draw; a true or found one is seen in the slices that pass within
/// 4 mm of it.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnPoint {
    /// The landmark's name, shown when the pointer rests on it.
    pub name: String,
    /// Where it is.
    pub point: PointLps,
    /// What it is.
    pub mark: Mark,
}

/// One case of a picture.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// The image.
    pub image: &'a Volume<f32>,
    /// Intensities shown black and white.
    pub window: (f64, f64),
    /// Labels over the image, if any.
    pub labels: Option<DrawnLabels<'a>>,
    /// The point through which the three slices go; one outside the image is brought to its border.
    pub through: PointLps,
    /// Boxes, drawn in this order.
    pub boxes: &'a [DrawnBox],
    /// Landmarks, drawn in this order, over the boxes.
    pub points: &'a [DrawnPoint],
    /// What the case is.
    pub title: &'a str,
    /// What came out, beside the title.
    pub note: &'a str,
}

/// Why a picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// An edge of a slice has more pixels than a PNG can have.
    #[error("a slice of {0} × {1} pixels is too large for a picture")]
    TooLarge(usize, usize),
    /// The slice could not be written as PNG.
    #[error("a slice could not be encoded as PNG")]
    Png(#[from] png::EncodingError),
}

// Layout in SVG units, of which a browser shows one a pixel.
const PANEL: f64 = 264.0;
const GAP: f64 = 10.0;
const MARGIN: f64 = 22.0;
const HEADER: f64 = 48.0;
const CASE_HEADER: f64 = 34.0;
const FOOTER: f64 = 40.0;
/// Names of labels in a row of the legend, and the height of a row.
const LABELS_A_ROW: usize = 5;
const LABEL_ROW: f64 = 20.0;
const LABEL_OPACITY: f64 = 0.45;
const CASE_WIDTH: f64 = 3.0 * PANEL + 2.0 * GAP;
const CASE_HEIGHT: f64 = CASE_HEADER + PANEL;
/// A landmark is drawn in slices nearer than this.
const POINT_REACH_MM: f64 = 4.0;
const BACKGROUND: &str = "#15181d";
const TEXT: &str = "#eceff4";
const FAINT: &str = "#9aa4b2";

/// Axial, coronal and sagittal slices of one case side by side, as an SVG document with the slices
/// embedded.
///
/// Of an image of one slice that slice is shown alone, and without letters and a scale where its pixels have
/// no size in mm. Pixels keep their proportions in mm. The views follow the radiological convention (the patient's
/// right on the viewer's left) and bear the letters R L A P S I of the nearest patient axes; slices
/// of an oblique volume lie along its own axes.
///
/// # Errors
/// [`PictureError`] when a slice is too large for a PNG.
pub fn three_slices(case: &Case<'_>) -> Result<String, PictureError> {
    document(None, std::slice::from_ref(case))
}

/// Several cases under one title, one a row, or two a row when there are more than four.
///
/// # Errors
/// As [`three_slices`].
pub fn sheet(title: &str, cases: &[Case<'_>]) -> Result<String, PictureError> {
    document(Some(title), cases)
}

fn document(title: Option<&str>, cases: &[Case<'_>]) -> Result<String, PictureError> {
    let columns = if cases.len() > 4 { 2 } else { 1 };
    let rows = cases.len().div_ceil(columns);
    let top = if title.is_some() { MARGIN + HEADER } else { MARGIN };
    let width = 2.0 * MARGIN + columns as f64 * CASE_WIDTH + (columns - 1) as f64 * 2.0 * MARGIN;
    let mut drawn = String::new();
    let mut label_names = BTreeMap::new();
    for (n, case) in cases.iter().enumerate() {
        let x = MARGIN + (n % columns) as f64 * (CASE_WIDTH + 2.0 * MARGIN);
        let y = top + (n / columns) as f64 * (CASE_HEIGHT + GAP);
        draw_case(&mut drawn, &mut label_names, case, [x, y])?;
    }
    let below = top + rows as f64 * (CASE_HEIGHT + GAP);
    let height = below + FOOTER + label_names.len().div_ceil(LABELS_A_ROW) as f64 * LABEL_ROW;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"{TEXT}\">\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"12\" fill=\"{BACKGROUND}\"/>\n"
    );
    if let Some(title) = title {
        text(&mut svg, [MARGIN, MARGIN + 20.0], "font-size=\"21\" font-weight=\"600\"", title);
    }
    svg.push_str(&drawn);
    legend(&mut svg, cases, [MARGIN, below + FOOTER / 2.0]);
    label_legend(&mut svg, &label_names, [MARGIN, below + FOOTER / 2.0 + LABEL_ROW]);
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// `label_names` gets the labels that are drawn.
fn draw_case(
    svg: &mut String,
    label_names: &mut BTreeMap<u16, String>,
    case: &Case<'_>,
    [x, y]: [f64; 2],
) -> Result<(), PictureError> {
    text(svg, [x, y + 20.0], "font-size=\"15\" font-weight=\"600\"", case.title);
    text(
        svg,
        [x + CASE_WIDTH, y + 20.0],
        &format!("text-anchor=\"end\" fill=\"{FAINT}\""),
        case.note,
    );
    let geometry = case.image.geometry();
    let flat = (0..3).find(|&axis| geometry.shape()[axis] == 1);
    let panel = if flat.is_some() { [CASE_WIDTH, PANEL] } else { [PANEL, PANEL] };
    let all = planes(geometry, case.through);
    let shown = all.iter().filter(|plane| flat.is_none_or(|axis| plane.axis == axis));
    for (n, plane) in shown.enumerate() {
        let corner = [x + n as f64 * (PANEL + GAP), y + CASE_HEADER];
        draw_plane(svg, label_names, case, plane, (corner, panel))?;
    }
    Ok(())
}

/// Whether pixels of an image of one slice stand for themselves: how photographs are read.
fn is_in_pixels(geometry: &Geometry) -> bool {
    geometry.shape()[2] == 1 && *geometry.matrix() == Matrix3::identity()
}

/// One slice in a panel whose top left corner is `[x, y]`.
fn draw_plane(
    svg: &mut String,
    label_names: &mut BTreeMap<u16, String>,
    case: &Case<'_>,
    plane: &Plane,
    ([x, y], panel): ([f64; 2], [f64; 2]),
) -> Result<(), PictureError> {
    let geometry = case.image.geometry();
    let [width, height] = plane.shape;
    let (Ok(w), Ok(h)) = (u32::try_from(width), u32::try_from(height)) else {
        return Err(PictureError::TooLarge(width, height));
    };
    let pixels = plane.pixels(case.image, case.window);
    let uri = png_data_uri([w, h], png::ColorType::Grayscale, &pixels)?;
    let cuts: Vec<Vec<[f64; 2]>> =
        case.boxes.iter().map(|b| plane.intersection(geometry, &b.pose)).collect();
    let shown = shown_part(&pixels, plane.shape, cuts.iter().flatten());
    let mm = |a: usize, pixels: f64| pixels * plane.size_mm[a] / plane.shape[a] as f64;
    let fits = |a: usize| panel[a] / mm(a, shown[a][1] - shown[a][0]);
    let units_per_mm = fits(0).min(fits(1));
    let size = plane.size_mm.map(|mm| mm * units_per_mm);
    // What is shown lies in the middle of the panel, which cuts off the rest.
    let middle = |a: usize| mm(a, (shown[a][0] + shown[a][1]) / 2.0) * units_per_mm;
    let corner = [x + panel[0] / 2.0 - middle(0), y + panel[1] / 2.0 - middle(1)];
    let place = |p: [f64; 2]| {
        [corner[0] + p[0] / width as f64 * size[0], corner[1] + p[1] / height as f64 * size[1]]
    };

    let [across, down] = panel;
    // A picture in the picture cuts off without a name, of which a page of many pictures would have many.
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{across}\" height=\"{down}\" viewBox=\"{x:.1} {y:.1} {across} {down}\" overflow=\"hidden\">\n\
         <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{across}\" height=\"{down}\" fill=\"#000\"/>\n\
         <image x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" preserveAspectRatio=\"none\" href=\"{uri}\"/>",
        corner[0], corner[1], size[0], size[1]
    );
    if let Some(drawn) = case.labels
        && let Some((uri, values)) = drawn.overlay(plane, [w, h])?
    {
        label_names.extend(values.into_iter().map(|v| (v, labels::name(drawn.names, v))));
        let _ = writeln!(
            svg,
            "<image x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" preserveAspectRatio=\"none\" \
             style=\"image-rendering:pixelated\" opacity=\"{LABEL_OPACITY}\" href=\"{uri}\"/>",
            corner[0], corner[1], size[0], size[1]
        );
    }
    let polygons: Vec<Vec<[f64; 2]>> =
        cuts.into_iter().map(|cut| cut.into_iter().map(place).collect()).collect();
    for (drawn, polygon) in case.boxes.iter().zip(&polygons).filter(|(_, p)| !p.is_empty()) {
        let points: Vec<String> =
            polygon.iter().map(|[px, py]| format!("{px:.1},{py:.1}")).collect();
        let (colour, dash) = (drawn.mark.colour(), drawn.mark.dash());
        // The invisible filling lets the pointer find the name anywhere in the box.
        let _ = writeln!(
            svg,
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0\" stroke=\"{colour}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}>\
             <title>{}</title></polygon>",
            points.join(" "),
            drawn.mark.width(),
            escaped(&format!("{} ({})", drawn.name, drawn.mark.name()))
        );
    }
    for drawn in case.points {
        let (at, distance_mm) = plane.project(geometry, drawn.point);
        if distance_mm > drawn.mark.reach_mm() {
            continue;
        }
        let [px, py] = place(at);
        // The truth is a ring and the detection a dot, so that both are seen where they meet.
        let style = match drawn.mark {
            Mark::True | Mark::Annotated => format!(
                "r=\"5\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"",
                drawn.mark.colour()
            ),
            Mark::Candidate => {
                format!("r=\"1.5\" fill=\"{}\" fill-opacity=\"0.6\"", drawn.mark.colour())
            }
            mark @ (Mark::For | Mark::Against) => {
                format!("r=\"4\" fill=\"{}\" fill-opacity=\"0.85\"", mark.colour())
            }
            mark => format!("r=\"2.5\" fill=\"{}\"", mark.colour()),
        };
        let name = escaped(&format!("{} ({})", drawn.name, drawn.mark.name()));
        let _ = writeln!(
            svg,
            "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" {style}><title>{name}</title></circle>"
        );
    }
    let named = (case.boxes.iter().zip(polygons)).filter(|(drawn, _)| drawn.mark.is_named());
    let (named, polygons): (Vec<&DrawnBox>, Vec<_>) =
        named.map(|(drawn, polygon)| (drawn, (&drawn.name[..], polygon))).unzip();
    for (drawn, name) in named.iter().zip(placed_names(&polygons, [x, y], panel)) {
        let Some(name) = name else { continue };
        let style = format!("font-size=\"{FONT_SIZE}\" fill=\"{}\"", drawn.mark.colour());
        halo(svg, name.at, &style, &name.text);
    }
    svg.push_str("</svg>\n");
    if !is_in_pixels(geometry) {
        lettering(svg, plane, ([x, y], panel), units_per_mm);
    }
    Ok(())
}

/// Letters of the sides, the name of the view and a scale bar.
fn lettering(
    svg: &mut String,
    plane: &Plane,
    ([x, y], [across, down]): ([f64; 2], [f64; 2]),
    units_per_mm: f64,
) {
    let at = [
        [x + 9.0, y + down / 2.0 + 4.0],
        [x + across - 9.0, y + down / 2.0 + 4.0],
        [x + across / 2.0, y + 17.0],
        [x + across / 2.0, y + down - 8.0],
    ];
    for (letter, at) in plane.letters.into_iter().zip(at) {
        halo(
            svg,
            at,
            &format!("text-anchor=\"middle\" font-weight=\"600\" fill=\"{TEXT}\""),
            &letter.to_string(),
        );
    }
    halo(svg, [x + 9.0, y + 18.0], "font-size=\"12\"", plane.name);
    // The longest round length that takes at most a third of the panel.
    let lengths_mm = [100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1];
    let Some(&mm) = lengths_mm.iter().find(|&&mm| mm * units_per_mm <= PANEL / 3.0) else { return };
    let length = mm * units_per_mm;
    let (x1, x2, y) = (x + across - 10.0 - length, x + across - 10.0, y + down - 10.0);
    let _ = writeln!(
        svg,
        "<path d=\"M{x1:.1} {0:.1}V{y:.1}H{x2:.1}V{0:.1}\" fill=\"none\" stroke=\"{BACKGROUND}\" stroke-width=\"4\" stroke-opacity=\"0.6\"/>\
         <path d=\"M{x1:.1} {0:.1}V{y:.1}H{x2:.1}V{0:.1}\" fill=\"none\" stroke=\"{TEXT}\" stroke-width=\"1.5\"/>",
        y - 5.0
    );
    halo(svg, [x2, y - 9.0], "text-anchor=\"end\" font-size=\"11\"", &format!("{mm} mm"));
}

/// What the colours mean, for the marks that occur.
fn legend(svg: &mut String, cases: &[Case<'_>], [x, y]: [f64; 2]) {
    let occurs = |mark: Mark| {
        cases.iter().any(|c| {
            c.boxes.iter().any(|b| b.mark == mark) || c.points.iter().any(|p| p.mark == mark)
        })
    };
    for (n, mark) in Mark::ALL.into_iter().filter(|&mark| occurs(mark)).enumerate() {
        let x = x + 130.0 * n as f64;
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"{}\" stroke-width=\"2.5\"{}/>",
            x + 26.0,
            mark.colour(),
            mark.dash()
        );
        text(svg, [x + 34.0, y + 4.5], "", mark.name());
    }
}

/// Which colour is which label, for those that are drawn.
fn label_legend(svg: &mut String, names: &BTreeMap<u16, String>, [x, y]: [f64; 2]) {
    for (n, (&value, name)) in names.iter().enumerate() {
        let x = x + (n % LABELS_A_ROW) as f64 * CASE_WIDTH / LABELS_A_ROW as f64;
        let y = y + (n / LABELS_A_ROW) as f64 * LABEL_ROW;
        let [red, green, blue] = labels::colour(value);
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"#{red:02x}{green:02x}{blue:02x}\"/>",
            y - 6.0
        );
        text(svg, [x + 18.0, y + 4.5], "font-size=\"12\"", &shortened(name));
    }
}

fn text(svg: &mut String, [x, y]: [f64; 2], style: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escaped(content));
}

/// Text with a dark outline, readable on any tissue; drawn twice because not every viewer knows
/// `paint-order`.
fn halo(svg: &mut String, at: [f64; 2], style: &str, content: &str) {
    text(
        svg,
        at,
        &format!(
            "{style} stroke=\"#000\" stroke-opacity=\"0.7\" stroke-width=\"3\" stroke-linejoin=\"round\""
        ),
        content,
    );
    text(svg, at, style, content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_phantom::{PhantomModality, PhantomSettings, phantom};

    fn picture(title: &str) -> String {
        let settings = PhantomSettings {
            voxels: 32,
            spacing_mm: 2.4,
            ..PhantomSettings::new(PhantomModality::Mr)
        };
        let case = phantom(PhantomModality::Mr, &settings, 1);
        let boxes = [
            DrawnBox { name: "hippocampus".into(), pose: case.pose, mark: Mark::True },
            DrawnBox { name: "hippocampus".into(), pose: case.pose, mark: Mark::Found },
        ];
        let points =
            [DrawnPoint { name: "centre".into(), point: case.pose.center, mark: Mark::True }];
        let high = case.image.data().iter().copied().fold(0.0, f32::max);
        let through = case.pose.center;
        let case = Case {
            image: &case.image,
            window: (0.0, f64::from(high)),
            labels: None,
            through,
            boxes: &boxes,
            points: &points,
            title,
            note: "",
        };
        three_slices(&case).unwrap()
    }

    #[test]
    fn a_slice_is_drawn_alone_and_photographs_have_no_scale() {
        let points = [DrawnPoint {
            name: "tip".into(),
            point: PointLps::new(5.0, 3.0, 0.0),
            mark: Mark::True,
        }];
        let drawn = |edge_mm: f64| {
            let matrix = Matrix3::identity() * edge_mm;
            let geometry =
                Geometry::new([60, 40, 1], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
            let image = Volume::filled(geometry, 0.0_f32);
            let svg = three_slices(&Case {
                image: &image,
                window: (0.0, 1.0),
                labels: None,
                through: points[0].point,
                boxes: &[],
                points: &points,
                title: "",
                note: "",
            });
            let svg = svg.unwrap();
            assert_eq!((svg.matches("<image ").count(), svg.matches("<circle ").count()), (1, 1));
            svg
        };
        assert!(drawn(0.5).contains("axial") && drawn(0.5).contains(" mm</text>"));
        assert!(!drawn(1.0).contains("axial") && !drawn(1.0).contains(" mm</text>"));
    }

    #[test]
    fn all_that_is_given_is_drawn() {
        let svg = picture("case <1> & \"more\"");
        assert_eq!(svg.matches("<image ").count(), 3);
        assert_eq!(svg.matches("<polygon ").count(), 6);
        assert_eq!(svg.matches("<circle ").count(), 3);
        assert!(svg.contains("case &lt;1&gt; &amp; &quot;more&quot;"));
        assert!(svg.contains(">true</text>") && svg.contains(">by pbt</text>"));
        for open in ["svg", "text", "polygon", "circle", "title"] {
            let (opened, closed) = (
                svg.matches(&format!("<{open}>")).count()
                    + svg.matches(&format!("<{open} ")).count(),
                format!("</{open}>"),
            );
            assert_eq!(opened, svg.matches(&closed).count(), "{open}");
        }
        assert_eq!(svg, picture("case <1> & \"more\""));
    }

    /// What was considered is seen in every slice, what was found only near its own place.
    #[test]
    fn considerations_are_drawn_in_every_slice() {
        let geometry = pbt_volume::Geometry::isotropic([40, 40, 40], 1.0).unwrap();
        let image = Volume::filled(geometry.clone(), 1.0f32);
        let point = |mark: Mark| DrawnPoint {
            name: mark.name().into(),
            point: PointLps::new(30.0, 8.0, 25.0),
            mark,
        };
        let drawn = |mark: Mark| {
            let points = [point(mark)];
            let through = geometry.center();
            let case = Case {
                image: &image,
                window: (0.0, 1.0),
                labels: None,
                through,
                boxes: &[],
                points: &points,
                title: "",
                note: "",
            };
            three_slices(&case).unwrap().matches("<circle ").count()
        };
        assert_eq!(Mark::ALL.map(drawn), [0, 0, 0, 0, 3, 3, 3, 3]);
    }

    #[test]
    fn an_anisotropic_volume_keeps_its_proportions() {
        let matrix = nalgebra::Matrix3::from_diagonal(&nalgebra::Vector3::new(1.0, 1.0, 4.0));
        let geometry =
            pbt_volume::Geometry::new([20, 20, 10], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap();
        let through = geometry.center();
        let image = Volume::filled(geometry, 1.0f32);
        let case = Case {
            image: &image,
            window: (0.0, 1.0),
            labels: None,
            through,
            boxes: &[],
            points: &[],
            title: "",
            note: "",
        };
        let svg = sheet("", &[case]).unwrap();
        // 20 mm wide and 40 mm high: half as wide as the panel.
        assert!(svg.contains("width=\"132.00\" height=\"264.00\" preserveAspectRatio"));
    }
}
