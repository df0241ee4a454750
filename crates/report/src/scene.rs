//! What pictures and the viewer show of a case, and how a page holds it for the viewer.

use crate::encode::base64;
use crate::labels::{self, DrawnLabels};
use crate::picture::{Case, DrawnBox, DrawnPoint, Mark, PictureError, three_slices};
use crate::shrink::{range, shrunk_image, shrunk_labels, smaller_grid};
use flate2::{Compression, write::GzEncoder};
use pbt_volume::{Geometry, PointLps, Pose, Status, Volume};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

/// An image and what was found in it.
#[derive(Debug, Clone)]
pub struct Scene<'a> {
    /// The image.
    pub image: &'a Volume<f32>,
    /// Intensities shown black and white.
    pub window: (f64, f64),
    /// Labels on the image's grid, 0 for none.
    pub labels: Option<&'a Volume<u16>>,
    /// Names of values of the labels.
    pub label_names: BTreeMap<u16, String>,
    /// What has a position.
    pub structures: Vec<SceneStructure>,
    /// The point that slices go through at first.
    pub through: PointLps,
    /// Whether lengths count pixels.
    pub in_pixels: bool,
}

/// A structure with a position.
#[derive(Debug, Clone, PartialEq)]
pub struct SceneStructure {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub status: Status,
    /// The probability that the position is right.
    pub score: f64,
    /// The centre of a box, or the landmark.
    pub position: PointLps,
    /// The pose of a box.
    pub pose: Option<Pose>,
}

/// A scene as a page holds it: a smaller image in 8 bits, and slices of it for paper and for browsers that
/// cannot show the viewer.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedScene {
    pub(crate) json: String,
    pub(crate) slices: String,
}

/// All lengths and positions are LPS, mm; the viewer's script brings them to its own axes.
#[derive(Serialize)]
struct Content<'a> {
    shape: [usize; 3],
    full_shape: [usize; 3],
    /// Row-major, from voxel index.
    affine: [[f64; 4]; 3],
    window: [f64; 2],
    /// Voxels, `i` fastest, compressed by gzip, in base 64.
    image: String,
    /// In each voxel the number of its label among `label_names`, from 1, in 8 bits; those beyond 255
    /// share that number.
    labels: Option<String>,
    /// Value and name.
    label_names: Vec<(u16, String)>,
    structures: Vec<Shown<'a>>,
    through: [f64; 3],
    in_pixels: bool,
}

#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    status: &'static str,
    score: f64,
    position: [f64; 3],
    /// In the order of [`Pose::corners`].
    corners: Option<[[f64; 3]; 8]>,
}

impl Scene<'_> {
    /// Three slices of the whole image, as SVG.
    ///
    /// # Errors
    /// [`PictureError`] when a slice is too large for a PNG.
    pub fn slices(&self, title: &str) -> Result<String, PictureError> {
        self.slices_of(self.image, self.window, self.labels, title)
    }

    fn slices_of(
        &self,
        image: &Volume<f32>,
        window: (f64, f64),
        labels: Option<&Volume<u16>>,
        title: &str,
    ) -> Result<String, PictureError> {
        let name = |s: &SceneStructure| s.name.clone();
        let boxes: Vec<DrawnBox> = (self.structures.iter())
            .filter_map(|s| Some(DrawnBox { name: name(s), pose: s.pose?, mark: Mark::Found }))
            .collect();
        let points: Vec<DrawnPoint> = (self.structures.iter().filter(|s| s.pose.is_none()))
            .map(|s| DrawnPoint { name: name(s), point: s.position, mark: Mark::Found })
            .collect();
        let (boxes, points) = (&boxes[..], &points[..]);
        let labels = labels.map(|map| DrawnLabels { map, names: &self.label_names });
        let through = self.through;
        three_slices(&Case { image, window, labels, through, boxes, points, title, note: "" })
    }

    /// The scene for a page, in at most about so many bytes: the image gets fewer voxels until it fits.
    ///
    /// # Errors
    /// [`PictureError`] as [`Scene::slices`].
    pub fn packed(&self, title: &str, most_bytes: usize) -> Result<PackedScene, PictureError> {
        let full = self.image.geometry();
        let quantised = range(self.window).quantise(&self.image.clone().into());
        // Few images shrink to less than a quarter of their bytes.
        let mut grid = smaller_grid(full, most_bytes.saturating_mul(4));
        loop {
            let image = shrunk_image(&quantised, &grid);
            let labels = self.labels.map(|labels| shrunk_labels(labels, &grid));
            let shown = image.map(f32::from);
            let packed = PackedScene {
                slices: self.slices_of(&shown, (0.0, 255.0), labels.as_ref(), title)?,
                json: self.json(&image, labels),
            };
            let bytes = packed.bytes();
            if bytes <= most_bytes || grid.len() <= FEWEST_VOXELS {
                return Ok(packed);
            }
            let share = 0.95 * most_bytes as f64 / bytes as f64;
            grid = smaller_grid(full, (grid.len() as f64 * share) as usize);
        }
    }

    fn json(&self, image: &Volume<u8>, labels: Option<Volume<u16>>) -> String {
        let values: BTreeSet<u16> = (labels.iter())
            .flat_map(|labels| labels.data().iter().copied().filter(|&value| value > 0))
            .collect();
        let numbers = |labels: &Volume<u16>| -> Vec<u8> {
            let mut number = vec![0u8; usize::from(u16::MAX) + 1];
            for (n, &value) in values.iter().enumerate() {
                number[usize::from(value)] = u8::try_from(n + 1).unwrap_or(u8::MAX);
            }
            labels.data().iter().map(|&value| number[usize::from(value)]).collect()
        };
        let name = |value: u16| (value, labels::name(&self.label_names, value));
        let content = Content {
            shape: image.shape(),
            full_shape: self.image.shape(),
            affine: affine(image.geometry()),
            window: [range(self.window).low, range(self.window).high],
            image: compressed(image.data()),
            labels: labels.filter(|_| !values.is_empty()).map(|l| compressed(&numbers(&l))),
            label_names: values.iter().map(|&value| name(value)).collect(),
            structures: self.structures.iter().map(shown).collect(),
            through: coordinates(self.through),
            in_pixels: self.in_pixels,
        };
        // Text in a script element ends at the first `</script`, whatever the names are.
        serde_json::to_string(&content).unwrap_or_default().replace('<', "\\u003c")
    }
}

/// An image of so few voxels is not made smaller.
const FEWEST_VOXELS: usize = 512;

impl PackedScene {
    /// Length in a page.
    pub fn bytes(&self) -> usize {
        self.json.len() + self.slices.len()
    }
}

fn shown(structure: &SceneStructure) -> Shown<'_> {
    Shown {
        name: &structure.name,
        status: structure.status.as_str(),
        score: structure.score,
        position: coordinates(structure.position),
        corners: structure.pose.map(|pose| pose.corners().map(coordinates)),
    }
}

fn coordinates(point: PointLps) -> [f64; 3] {
    point.0.coords.into()
}

fn affine(geometry: &Geometry) -> [[f64; 4]; 3] {
    let affine = geometry.affine();
    [0, 1, 2].map(|row| [0, 1, 2, 3].map(|column| affine[(row, column)]))
}

/// By gzip, in base 64.
fn compressed(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    base64(&encoder.finish().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use pbt_phantom::{PhantomModality, PhantomSettings, phantom};
    use std::io::Read;

    fn decoded(base64: &str) -> Vec<u8> {
        const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digits: Vec<u32> = (base64.chars())
            .filter_map(|c| Some(u32::try_from(ALPHABET.find(c)?).unwrap()))
            .collect();
        let mut file = Vec::new();
        for four in digits.chunks(4) {
            let bits =
                four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
            file.extend(&bits.to_be_bytes()[1..four.len()]);
        }
        let mut bytes = Vec::new();
        GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_scene_fits_and_holds_what_the_results_hold_in_lps() {
        let settings = PhantomSettings { voxels: 48, ..PhantomSettings::new(PhantomModality::Mr) };
        let case = phantom(PhantomModality::Mr, &settings, 3);
        let labels = case.image.map(|value| if value > 0.0 { 300 } else { 0 });
        let high = f64::from(case.image.data().iter().copied().fold(0.0, f32::max));
        let scene = Scene {
            image: &case.image,
            window: (0.0, high),
            labels: Some(&labels),
            label_names: BTreeMap::from([(300, "</script><script>alert(1)</script>".into())]),
            structures: vec![SceneStructure {
                name: "\"><!--".into(),
                status: Status::Doubtful,
                score: 0.25,
                position: case.pose.center,
                pose: Some(case.pose),
            }],
            through: case.pose.center,
            in_pixels: false,
        };
        let packed = scene.packed("a case", 40_000).unwrap();
        assert!(packed.bytes() <= 40_000 && packed.bytes() > 15_000, "{}", packed.bytes());
        assert!(!packed.json.contains('<') && packed.slices.starts_with("<svg"));
        let json: serde_json::Value = serde_json::from_str(&packed.json).unwrap();
        let numbers = |value: &serde_json::Value| -> Vec<f64> {
            value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        let voxels: f64 = numbers(&json["shape"]).iter().product();
        assert_eq!(decoded(json["image"].as_str().unwrap()).len() as f64, voxels);
        let numbers_of = decoded(json["labels"].as_str().unwrap());
        assert_eq!(numbers_of.len() as f64, voxels);
        assert!(numbers_of.iter().all(|&n| n <= 1) && numbers_of.contains(&1));
        assert_eq!(json["label_names"][0][0], 300);
        let shown = &json["structures"][0];
        assert_eq!(shown["name"], "\"><!--");
        assert_eq!(shown["status"], "doubtful");
        assert_eq!(numbers(&shown["position"]), coordinates(case.pose.center));
        assert_eq!(numbers(&shown["corners"][5]), coordinates(case.pose.corners()[5]));
    }
}
