//! Images: readable, usable, and alike.

use super::about_box::AboutBox;
use super::finding::Finding;
use super::label_map::values_of_label_map;
use super::near_duplicates::Looks;
use pbt_io::{IoError, OpenImage, ReadOptions};
use pbt_volume::{Geometry, IntensityError, IntensityPolicy, LengthUnit, Pose, trimmed};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A spacing that differs by more than this factor from the median of all images is worth a look.
const UNUSUAL_SPACING: f64 = 1.5;

/// What is remembered of an image.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ImageFacts {
    pub(super) case: String,
    /// Split of a case of a data set, else null.
    pub(super) split: Option<String>,
    pub(super) path: String,
    pub(super) shape: [usize; 3],
    pub(super) spacing_mm: [f64; 3],
    /// Where the axes i, j, k point, roughly: `L` or `R`, `P` or `A`, `S` or `I` each.
    pub(super) axes: String,
    pub(super) sha256: String,
    /// What lengths count.
    #[serde(skip)]
    pub(super) unit: LengthUnit,
    /// What reading it warned of.
    #[serde(skip)]
    pub(super) warnings: Vec<String>,
    #[serde(skip)]
    pub(super) geometry: Geometry,
    /// The same without what only surrounds the image: [`trimmed`].
    #[serde(skip)]
    pub(super) trimmed: Geometry,
    #[serde(skip)]
    pub(super) looks: Looks,
    /// What it shows about the boxes of its case.
    #[serde(skip)]
    pub(super) about_boxes: Vec<AboutBox>,
}

impl fmt::Display for ImageFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([i, j, k], [x, y, z]) = (self.shape, self.spacing_mm);
        if !self.unit.is_mm() {
            return write!(f, "{i} x {j} pixels, sha256 {}", self.sha256);
        }
        write!(
            f,
            "{i} x {j} x {k} voxels of {x:.4} x {y:.4} x {z:.4} mm, axes towards {}, sha256 {}",
            self.axes, self.sha256
        )
    }
}

/// Reads an image and looks at it, and about these boxes in it. The facts are missing when it cannot be read.
pub(super) fn look_at(
    case: &str,
    split: Option<&str>,
    (path, options): (&Path, &ReadOptions),
    image: Result<OpenImage, IoError>,
    boxes: &[(String, Pose)],
) -> (Option<ImageFacts>, Vec<Finding>) {
    let image = match image.and_then(OpenImage::read) {
        Ok(image) => image,
        Err(error) => return (None, vec![Finding::error(error)]),
    };
    let mut findings = Vec::new();
    let whole = IntensityPolicy::Percentiles { low_percent: 0.0, high_percent: 100.0 };
    let numbers = image.volume.numbers();
    match whole.range(&image.volume) {
        Ok(_) => {
            if let Some(values) = values_of_label_map(&numbers) {
                let few = few(values
                    .iter()
                    .map(u32::to_string)
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|v| &v[..]));
                findings.push(Finding::warning(Finding::of(path, format_args!(
                    "voxels: all are one of {} integers ({few}), in patches: a label map, and no image to search or to train on",
                    values.len()
                ))));
            }
        }
        // Zeros count as background, so that this is what is said of two values.
        Err(IntensityError::NoContrast { value, .. }) => {
            let what = Finding::of(
                path,
                format_args!(
                    "voxels: all are 0 or {value}: a label map, and no image to search or to train on"
                ),
            );
            // A case of a data set is trained on.
            findings.push(if split.is_some() {
                Finding::error(what)
            } else {
                Finding::warning(what)
            });
        }
        Err(error) => findings.push(Finding::error(Finding::of(
            path,
            format_args!("voxels: {error} (export the image anew)"),
        ))),
    }
    for (name, channel) in options.channels.iter().skip(1).zip(&image.further) {
        if let Err(error) = whole.range(channel) {
            let what = format_args!("voxels: channel `{name}`: {error} (export the image anew)");
            findings.push(Finding::error(Finding::of(path, what)));
        }
    }
    let geometry = image.volume.geometry().clone();
    let facts = ImageFacts {
        case: case.to_owned(),
        split: split.map(str::to_owned),
        path: path.display().to_string(),
        shape: geometry.shape(),
        spacing_mm: geometry.spacing_mm(),
        axes: axes(&geometry),
        unit: image.unit,
        warnings: image.warnings,
        sha256: image.sha256,
        looks: Looks::of(&numbers),
        about_boxes: AboutBox::all((&image.volume, patient_axes(&geometry)), &numbers, boxes),
        trimmed: trimmed(&image.volume).geometry().clone(),
        geometry,
    };
    (Some(facts), findings)
}

/// The first few of a list.
pub(super) fn few<'a>(ids: impl Iterator<Item = &'a str>) -> String {
    const NAMED: usize = 5;
    let mut ids: Vec<&str> = ids.take(NAMED + 1).collect();
    if ids.len() > NAMED {
        ids[NAMED] = "...";
    }
    ids.join(", ")
}

/// What reading the images warned of: what is said of several is said once.
pub(super) fn warnings_of_images(images: &[ImageFacts]) -> Vec<Finding> {
    let mut texts: Vec<&str> = Vec::new();
    let mut of_text: BTreeMap<&str, Vec<&ImageFacts>> = BTreeMap::new();
    for image in images {
        for text in &image.warnings {
            let warned = of_text.entry(text).or_default();
            if warned.is_empty() {
                texts.push(text);
            }
            warned.push(image);
        }
    }
    let finding = |text: &str| {
        let warned = &of_text[text];
        let ids = || warned.iter().map(|image| image.case.as_str());
        let mut what = format!("{}: {text}", warned[0].path);
        if warned.len() > 1 {
            let (count, all) = (warned.len(), images.len());
            what += &format!("; {count} of {all} images are so: {}", few(ids()));
        }
        Finding::warning(what).in_cases(ids())
    };
    texts.into_iter().map(finding).collect()
}

/// Images whose spacing or orientation differs from that of most others.
pub(super) fn unlike_the_rest(images: &[ImageFacts]) -> Vec<Finding> {
    if images.len() < 3 {
        return Vec::new();
    }
    let mut findings = Vec::new();
    // Sorted, so that images stored along other axes compare.
    let sorted = |image: &ImageFacts| {
        let mut spacing = image.spacing_mm;
        spacing.sort_by(f64::total_cmp);
        spacing
    };
    let median: [f64; 3] = std::array::from_fn(|a| {
        let mut all: Vec<f64> = images.iter().map(|image| sorted(image)[a]).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    let unusual = |image: &&ImageFacts| {
        sorted(image)
            .into_iter()
            .zip(median)
            .any(|(a, m)| a / m > UNUSUAL_SPACING || m / a > UNUSUAL_SPACING)
    };
    let odd: Vec<&ImageFacts> = images.iter().filter(unusual).collect();
    if let Some(first) = odd.first() {
        let ([x, y, z], [a, b, c]) = (first.spacing_mm, median);
        findings.push(Finding::warning(format!(
            "{}: spacing: {x:.3} x {y:.3} x {z:.3} mm, where the median of all images is {a:.3} x {b:.3} x {c:.3} mm; \
             {} of {} images differ so: {} (check the headers; if they are right, nothing is to be done)",
            first.path,
            odd.len(),
            images.len(),
            few(odd.iter().map(|image| image.case.as_str()))
        )));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    images.iter().for_each(|image| *counts.entry(&image.axes).or_default() += 1);
    let common = counts
        .into_iter()
        .filter(|&(_, count)| 2 * count > images.len())
        .max_by_key(|&(_, count)| count);
    if let Some((common, _)) = common {
        let odd: Vec<&ImageFacts> = images.iter().filter(|image| image.axes != common).collect();
        if let Some(first) = odd.first() {
            findings.push(Finding::warning(format!(
                "{}: orientation: the axes point towards {}, those of most images towards {common}; {} of {} images differ: {} \
                 (check in a viewer that left is left and the head is above; if it is right, nothing is to be done)",
                first.path,
                first.axes,
                odd.len(),
                images.len(),
                few(odd.iter().map(|image| image.case.as_str()))
            )));
        }
    }
    findings
}

/// Images that are the same file: an error where one is learned from and the other tested on.
pub(super) fn duplicates(images: &[ImageFacts]) -> Vec<Finding> {
    let mut first_of: BTreeMap<&str, &ImageFacts> = BTreeMap::new();
    let mut findings = Vec::new();
    for image in images {
        let Some(first) = first_of.get(image.sha256.as_str()) else {
            first_of.insert(&image.sha256, image);
            continue;
        };
        let what = if first.path == image.path {
            format!("the image of two cases, {} and {}", first.case, image.case)
        } else {
            format!("the same bytes as {}", first.path)
        };
        let found = if first.split == image.split {
            Finding::warning(format!("{}: image: {what} (leave one out)", image.path))
        } else {
            let split = |image: &ImageFacts| image.split.clone().unwrap_or_default();
            Finding::error(format!(
                "{}: image: {what}, one in the split `{}` and one in `{}` (keep each image in one split, or tests mean nothing)",
                image.path,
                split(image),
                split(first)
            ))
        };
        findings.push(found);
    }
    findings
}

/// Where each voxel axis points, roughly.
fn axes(geometry: &Geometry) -> String {
    const TOWARDS: [[char; 2]; 3] = [['L', 'R'], ['P', 'A'], ['S', 'I']];
    let nearest = patient_axes(geometry);
    let letter = |column: usize| {
        TOWARDS[nearest[column]][usize::from(geometry.matrix()[(nearest[column], column)] < 0.0)]
    };
    (0..3).map(letter).collect()
}

/// The patient's axis that each voxel axis is nearest to, each once, the clearest first.
fn patient_axes(geometry: &Geometry) -> [usize; 3] {
    let spacing = geometry.spacing_mm();
    let cosine = |row: usize, column: usize| geometry.matrix()[(row, column)] / spacing[column];
    let mut nearest = [None; 3];
    for _ in 0..3 {
        let pairs = (0..3).flat_map(|row| (0..3).map(move |column| (row, column)));
        let clearest = pairs
            .filter(|&(row, column)| nearest[column].is_none() && !nearest.contains(&Some(row)))
            .max_by(|a, b| cosine(a.0, a.1).abs().total_cmp(&cosine(b.0, b.1).abs()));
        if let Some((row, column)) = clearest {
            nearest[column] = Some(row);
        }
    }
    std::array::from_fn(|column| nearest[column].unwrap_or(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::validate::finding::Severity;
    use nalgebra::{Matrix3, Rotation3, Vector3};
    use pbt_volume::PointLps;

    fn geometry(matrix: Matrix3<f64>) -> Geometry {
        Geometry::new([4, 5, 6], matrix, PointLps::new(0.0, 0.0, 0.0)).unwrap()
    }

    #[test]
    fn axes_are_named_by_where_they_point() {
        assert_eq!(axes(&geometry(Matrix3::identity())), "LPS");
        assert_eq!(
            axes(&geometry(Matrix3::new(0.0, 0.0, -2.0, 3.0, 0.0, 0.0, 0.0, -1.0, 0.0))),
            "PIR"
        );
        // Turned by 50 degrees about z: i is nearer to y than to x, though not by much.
        let turned = Rotation3::from_axis_angle(&Vector3::z_axis(), 50f64.to_radians());
        assert_eq!(axes(&geometry(turned.into_inner())), "PRS");
    }

    #[test]
    fn what_differs_from_the_rest_is_named() {
        let facts = |n: usize, spacing: f64, sha256: &str, split: &str| {
            let geometry = geometry(Matrix3::identity() * spacing);
            ImageFacts {
                case: n.to_string(),
                split: Some(split.to_owned()),
                path: format!("{n}.nii"),
                shape: geometry.shape(),
                spacing_mm: geometry.spacing_mm(),
                axes: if n == 1 { "RPS" } else { "LPS" }.to_owned(),
                sha256: sha256.to_owned(),
                unit: LengthUnit::Mm,
                warnings: Vec::new(),
                looks: Looks::default(),
                about_boxes: Vec::new(),
                trimmed: geometry.clone(),
                geometry,
            }
        };
        let images = [
            facts(0, 1.0, "a", "train"),
            facts(1, 1.1, "b", "train"),
            facts(2, 1.6, "a", "test"),
            facts(3, 0.9, "b", "train"),
            facts(4, 1.0, "c", "x"),
        ];
        let messages = |findings: Vec<Finding>| {
            findings.into_iter().map(|f| (f.severity, f.message)).collect::<Vec<_>>()
        };
        let unlike = messages(unlike_the_rest(&images));
        assert_eq!(unlike.len(), 2, "{unlike:?}");
        assert!(
            unlike[0].1.starts_with("2.nii: spacing: 1.600")
                && unlike[1].1.starts_with("1.nii: orientation: ")
        );
        let twice = messages(duplicates(&images));
        assert_eq!(twice.len(), 2, "{twice:?}");
        assert!(
            twice[0].0 == Severity::Error
                && twice[0].1.starts_with("2.nii: image: the same bytes as 0.nii")
        );
        assert!(twice[1].0 == Severity::Warning && twice[1].1.starts_with("3.nii"));
        // One file, named twice.
        let mut images = [facts(0, 1.0, "a", "train"), facts(1, 1.0, "a", "train")];
        images[1].path = images[0].path.clone();
        let twice = messages(duplicates(&images));
        assert_eq!(twice.len(), 1, "{twice:?}");
        assert!(twice[0].1.contains("0.nii: image: the image of two cases, 0 and 1"), "{twice:?}");
    }
}
