//! What a file holds that is there already, so that nothing is lost to a slip.

use pbt_io::read_start;
use std::path::Path;

/// What a file holds, by how it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Empty,
    Model,
    DataSet,
    /// Of `pbt detect`.
    DetectionResult,
    /// Of `pbt evaluate`, `tune` and `learning-curve`.
    Report,
    /// Any other JSON.
    Json,
    Picture,
    Page,
    Image,
    /// The table of `pbt components`.
    Components,
    Other,
}

/// So much of a file is looked at.
const HEAD: u64 = 4096;

impl Content {
    /// Of a file; what cannot be read is [`Content::Other`].
    pub(crate) fn of_file(path: &Path) -> Self {
        read_start(path, HEAD).map_or(Self::Other, |head| Self::of(&head))
    }

    fn of(head: &[u8]) -> Self {
        let text = String::from_utf8_lossy(head);
        let text = text.trim_start();
        let begins =
            |with: &str| text.get(..with.len()).is_some_and(|t| t.eq_ignore_ascii_case(with));
        let has = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|h| h.starts_with(magic));
        // gzip, NIfTI-1 and 2, DICOM, PNG, JPEG, TIFF
        let images: [(usize, &[u8]); 9] = [
            (0, b"\x1f\x8b"),
            (4, b"n+2"),
            (344, b"n+1"),
            (344, b"ni1"),
            (128, b"DICM"),
            (0, b"\x89PNG"),
            (0, b"\xff\xd8\xff"),
            (0, b"II*\0"),
            (0, b"MM\0*"),
        ];
        let reports = ["evaluation", "region-evaluation", "comparison", "learning-curve", "tuning"];
        let is_json = begins("{");
        let is_of = |schema: &str| is_json && text.contains(&format!("\"pbt-{schema}/"));
        if text.is_empty() && (head.len() as u64) < HEAD {
            Self::Empty
        } else if text.contains("{\"__metadata__\":{\"pbt\"") {
            Self::Model
        } else if images.iter().any(|(at, magic)| has(*at, magic))
            || begins("NRRD0")
            || begins("ObjectType")
        {
            Self::Image
        } else if is_of("dataset") {
            Self::DataSet
        } else if is_of("result") {
            Self::DetectionResult
        } else if reports.into_iter().any(is_of) {
            Self::Report
        } else if is_json {
            Self::Json
        } else if begins("<svg") {
            Self::Picture
        } else if begins("<!doctype html") {
            Self::Page
        } else if begins("label,value,voxels,") {
            Self::Components
        } else {
            Self::Other
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Model => "a model",
            Self::DataSet => "a data set",
            Self::DetectionResult => "a result",
            Self::Report => "a report",
            Self::Json => "a JSON file",
            Self::Picture => "a picture",
            Self::Page => "a page",
            Self::Image => "an image",
            Self::Components => "a table of components",
            Self::Empty | Self::Other => "a file of another kind",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_how_they_begin() {
        let model = b"\x10\0\0\0\0\0\0\0{\"__metadata__\":{\"pbt\":\"{}\"}}";
        let contents: [(&[u8], Content); 13] = [
            (b"", Content::Empty),
            (b"\n", Content::Empty),
            (b"results of yesterday", Content::Other),
            (model, Content::Model),
            (b"{\n  \"schema\": \"pbt-evaluation/1\"", Content::Report),
            (b"{\"schema\":\"pbt-dataset/1\"", Content::DataSet),
            (b"{\"schema\":\"pbt-result/1\"", Content::DetectionResult),
            (b"{\"markups\": []}", Content::Json),
            (b"<svg xmlns=", Content::Picture),
            (b"<!doctype html>", Content::Page),
            (b"\x1f\x8b\x08\0 an image", Content::Image),
            (b"label,value,voxels,volume_mm3,i_min", Content::Components),
            (&[&[0; 128][..], b"DICM"].concat(), Content::Image),
        ];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (content, expected) in contents {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Content::of_file(&path), expected, "{content:?}");
        }
    }
}
