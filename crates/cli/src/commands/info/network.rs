//! The network of a model as text and as a picture.

use nalgebra::{Matrix3, UnitQuaternion, Vector3};
use pbt_detect::{Anchor, Arc, Model, Network};
use std::fmt::Write;

/// The tree of structures, indented, with the distance of each from the one above it and how much
/// that varies.
pub(super) fn text(model: &Model, network: &Network) -> String {
    if network.arcs.is_empty() {
        let about = if model.level_shifts.is_empty() { "" } else { ", and what lies about it" };
        return format!("where it lies in the image counts{about}\n");
    }
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "network");
    if let Some(root) = network.arcs.first() {
        branch(model, network, root.from, 1, None, &mut text);
    }
    if let [first, others @ ..] = &network.anchors[..] {
        let name = |anchor: &Anchor| model.structures[anchor.structure].name.as_str();
        let or: String = others.iter().map(|other| format!(", or {}", name(other))).collect();
        let _ = writeln!(
            text,
            "  in large images {}{or} is searched for first, and the others about it",
            name(first)
        );
    }
    let placed = network.center_priors.iter().flatten().count();
    let _ = writeln!(
        text,
        "  centre priors count for {placed} of {} structures",
        network.center_priors.len()
    );
    for test in model.level_shifts.iter().filter(|test| !test.spec.of_parts) {
        let names: Vec<&str> =
            test.spec.members.iter().map(|&s| model.structures[s].name.as_str()).collect();
        let _ = writeln!(text, "  tested for standing at the right level: {}", names.join(" - "));
    }
    text
}

fn branch(
    model: &Model,
    network: &Network,
    structure: usize,
    depth: usize,
    arc: Option<&Arc>,
    text: &mut String,
) {
    let indent = "  ".repeat(depth);
    let name = &model.structures[structure].name;
    let unit = model.provenance.unit;
    let _ = match arc {
        Some(arc) => writeln!(
            text,
            "{indent}{name}  {:.1} {unit} away, ± {:.1} {unit}",
            distance_mm(arc),
            spread_mm(arc)
        ),
        None => writeln!(text, "{indent}{name}"),
    };
    for arc in network.arcs.iter().filter(|arc| arc.from == structure) {
        branch(model, network, arc.to, depth + 1, Some(arc), text);
    }
}

fn distance_mm(arc: &Arc) -> f64 {
    Vector3::from(arc.shift_mm.mean).norm()
}

/// Standard deviation of the relative position along an axis, the root mean square of the three.
fn spread_mm(arc: &Arc) -> f64 {
    let precision = Matrix3::from_fn(|r, c| arc.shift_mm.precision[r][c]);
    precision.try_inverse().map_or(0.0, |covariance| (covariance.trace() / 3.0).max(0.0).sqrt())
}

/// A picture (SVG): the structures where they lie on average, seen along the direction in which
/// they spread least.
pub(super) fn svg(model: &Model, network: &Network) -> String {
    let at = means(model, network);
    let low = |a: usize| at.iter().map(|p| p[a]).fold(f64::INFINITY, f64::min);
    let extent = |a: usize| at.iter().map(|p| p[a]).fold(f64::NEG_INFINITY, f64::max) - low(a);
    // LPS: the third axis points up; of the other two the wider one is shown.
    let (across, up) = (if extent(0) > extent(1) { 0 } else { 1 }, 2);
    let scale = 420.0 / extent(across).max(extent(up)).max(1.0);
    let place = |s: usize| {
        (
            90.0 + (at[s][across] - low(across)) * scale,
            40.0 + (low(up) + extent(up) - at[s][up]) * scale,
        )
    };
    let (width, height) = (extent(across) * scale + 220.0, extent(up) * scale + 80.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for arc in &network.arcs {
        let ((x1, y1), (x2, y2)) = (place(arc.from), place(arc.to));
        let _ = writeln!(
            svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#888\" stroke-width=\"2\"/>"
        );
        let (x, y) = ((x1 + x2) / 2.0 + 8.0, (y1 + y2) / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#666\" font-size=\"11\">± {:.1} {}</text>",
            spread_mm(arc),
            model.provenance.unit
        );
    }
    for (s, structure) in model.structures[..model.once()].iter().enumerate() {
        let (x, y) = place(s);
        let name = structure.name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" fill=\"#2a6fb0\"/>");
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{name}</text>", x + 14.0, y + 5.0);
    }
    svg + "</svg>\n"
}

/// Mean position of each structure, LPS mm relative to the root, which lies as its training cases
/// lie in the middle.
fn means(model: &Model, network: &Network) -> Vec<Vector3<f64>> {
    let mut at = vec![(Vector3::zeros(), UnitQuaternion::identity()); model.once()];
    if let Some(root) = network.arcs.first() {
        at[root.from].1 = model.structures[root.from].prior.middle;
    }
    for arc in &network.arcs {
        let (center, orientation) = at[arc.from];
        at[arc.to] =
            (center + orientation * Vector3::from(arc.shift_mm.mean), orientation * arc.rotation);
    }
    at.into_iter().map(|(center, _)| center).collect()
}
