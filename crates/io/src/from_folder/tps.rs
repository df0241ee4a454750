//! Landmarks as programs of geometric morphometrics keep them: TPS files of tpsDig (F. J. Rohlf, The tps
//! series of software, Hystrix 26, 2015), of many images each.

use crate::regular_file::{FileKind, read_file};
use std::path::Path;

/// What a TPS file says of an image.
#[derive(Debug, PartialEq)]
pub(super) struct Specimen {
    /// Name of the image file, without folders.
    pub(super) image: String,
    /// The landmarks in their order, x to the right and y upwards from the lowest row of pixels; none where
    /// one is missing.
    pub(super) points: Vec<Option<[f64; 2]>>,
}

impl Specimen {
    /// The landmarks by their numbers from 1, y downwards from the first of so many rows of pixels.
    pub(super) fn in_pixels(&self, rows: usize) -> impl Iterator<Item = (String, [f64; 2])> {
        let last = rows as f64 - 1.0;
        let known = self.points.iter().enumerate();
        known
            .filter_map(move |(n, point)| Some(((n + 1).to_string(), (*point)?, last)))
            .map(|(name, [x, y], last)| (name, [x, last - y]))
    }
}

/// Reads a TPS file. Curves, scales and comments say nothing of landmarks in pixels and are left out.
///
/// # Errors
/// Why the file cannot be used.
pub(super) fn read(path: &Path) -> Result<Vec<Specimen>, String> {
    let bytes = read_file(path, FileKind::Document).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut lines = text.lines().map(str::trim).enumerate();
    let mut specimens: Vec<Specimen> = Vec::new();
    while let Some((n, line)) = lines.next() {
        let Some((key, value)) = line.split_once('=') else { continue };
        let bad = |what: &str| format!("line {}: {what}", n + 1);
        match key.trim().to_ascii_uppercase().as_str() {
            "LM" => {
                let count: usize =
                    value.trim().parse().map_err(|_| bad("LM is no number of landmarks"))?;
                let points = (0..count).map(|_| point(lines.next())).collect::<Result<_, _>>()?;
                specimens.push(Specimen { image: String::new(), points });
            }
            "LM3" => return Err(bad("has landmarks of volumes (give markups)")),
            "IMAGE" => {
                let specimen = specimens.last_mut().ok_or_else(|| bad("IMAGE comes before LM"))?;
                // Written on any system.
                let name = value.rsplit(['/', '\\']).next().unwrap_or(value);
                specimen.image = name.trim().to_owned();
            }
            _ => {}
        }
    }
    match specimens.iter().position(|specimen| specimen.image.is_empty()) {
        _ if specimens.is_empty() => Err("has no landmarks".to_owned()),
        Some(n) => Err(format!("specimen {} has no IMAGE", n + 1)),
        None => Ok(specimens),
    }
}

/// A line with two numbers; a missing landmark has `NA`, or negative ones.
fn point(line: Option<(usize, &str)>) -> Result<Option<[f64; 2]>, String> {
    let Some((n, line)) = line else { return Err("ends before its last landmark".to_owned()) };
    let mut words = line.split_whitespace();
    let mut number = || {
        let word = words.next()?;
        if word.eq_ignore_ascii_case("NA") {
            return Some(None);
        }
        word.parse().ok().filter(|value: &f64| value.is_finite()).map(Some)
    };
    match (number(), number(), words.next()) {
        (Some(x), Some(y), None) => {
            Ok(x.zip(y).map(|(x, y)| [x, y]).filter(|[x, y]| *x >= 0.0 && *y >= 0.0))
        }
        _ => Err(format!("line {}: `{line}` is no landmark of two numbers", n + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Specimen>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tps");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn landmarks_of_several_images() {
        let text = "\u{feff}LM=3\r\n10.00000 20.00000\r\nNA NA\r\n-1 -1\r\nCURVES=1\r\nPOINTS=2\r\n1 2\r\n3 4\r\nIMAGE=C:\\wings\\a 1.jpg\r\nID=0\r\nSCALE=0.004\r\n\r\n\
                    lm=1\n3 4\nimage=b.jpg\n";
        let specimens = read_text(text).unwrap();
        assert_eq!(specimens.len(), 2);
        assert_eq!(specimens[0].image, "a 1.jpg");
        assert_eq!(specimens[0].points, [Some([10.0, 20.0]), None, None]);
        let pixels: Vec<_> = specimens[1].in_pixels(100).collect();
        assert_eq!(pixels, [("1".to_owned(), [3.0, 95.0])]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, what) in [
            ("COMMENT=none\n", "has no landmarks"),
            ("LM=two\n", "line 1: LM is no number"),
            ("LM=2\n1 2\n", "ends before its last landmark"),
            ("LM=1\n1 2 3\nIMAGE=a.jpg\n", "line 2: `1 2 3` is no landmark"),
            ("LM=1\n1 x\nIMAGE=a.jpg\n", "line 2: `1 x` is no landmark"),
            ("LM=1\n1 2\nID=4\n", "specimen 1 has no IMAGE"),
            ("LM3=1\n1 2 3\nIMAGE=a.jpg\n", "line 1: has landmarks of volumes"),
            ("IMAGE=a.jpg\n", "line 1: IMAGE comes before LM"),
        ] {
            let error = read_text(text).unwrap_err();
            assert!(error.contains(what), "{text:?}: {error}");
        }
    }
}
