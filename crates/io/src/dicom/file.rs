//! One DICOM file: meta group, data set, and where its pixels are.

use super::damage::Damage;
use super::pixel_data::PixelData;
use super::walk::{Values, meta_group, walk};
use crate::IoError;
use dicom_core::Tag;
use dicom_core::header::HasLength;
use dicom_encoding::TransferSyntax;
use dicom_object::InMemDicomObject;
use dicom_transfer_syntax_registry::{TransferSyntaxIndex, TransferSyntaxRegistry};
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

const TRANSFER_SYNTAX_UID: Tag = Tag(0x0002, 0x0010);
const DEFLATED: &str = "1.2.840.10008.1.2.1.99";
const EXPLICIT_LITTLE: &str = "1.2.840.10008.1.2.1";
/// The only transfer syntax without value representations in the file.
pub(super) const IMPLICIT_LITTLE: &str = "1.2.840.10008.1.2";
const EXPLICIT_BIG: &str = "1.2.840.10008.1.2.2";

/// A deflated data set may grow to this many times the file's size plus [`INFLATED_SLACK`]: images
/// shrink to a half or a third.
pub(super) const MAX_RATIO: u64 = 20;
/// See [`MAX_RATIO`].
pub(super) const INFLATED_SLACK: u64 = 64 << 20;

/// Whether the bytes start as DICOM files do: a preamble of 128 bytes and the letters DICM (PS3.10,
/// section 7.1).
pub(crate) fn is_dicom(start: &[u8]) -> bool {
    start.get(128..132) == Some(b"DICM")
}

/// A file up to its pixels: all lengths in it are checked, no pixel is decoded.
pub(super) struct Layout<'a> {
    /// The file, or its data set where that is deflated.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Transfer syntax.
    pub(super) uid: String,
    /// The elements before the pixel data.
    pub(super) elements: InMemDicomObject,
    pub(super) pixel_data: Option<PixelData>,
}

fn damaged(path: &Path, damage: &Damage) -> IoError {
    IoError::input(
        path,
        "DICOM",
        format!("is damaged at byte {}: {}", damage.at, damage.what),
        "copy or export it again",
    )
}

impl<'a> Layout<'a> {
    /// Walks through a file that [`is_dicom`].
    pub(super) fn of(path: &Path, bytes: &'a [u8], values: Values) -> Result<Self, IoError> {
        let (uid, start) =
            meta_group(bytes, 132, TRANSFER_SYNTAX_UID).map_err(|damage| damaged(path, &damage))?;
        let Some(range) = uid else {
            return Err(IoError::input(
                path,
                "(0002,0010) TransferSyntaxUID",
                "is missing",
                "export the file again",
            ));
        };
        let uid = String::from_utf8_lossy(&bytes[range]).trim_end_matches(['\0', ' ']).to_owned();
        // An unknown one may order bytes in any way; read as another it gives wrong voxels.
        if transfer_syntax(&uid).is_none() {
            return Err(IoError::input(
                path,
                "(0002,0010) TransferSyntaxUID",
                format!("`{uid}` is not known"),
                "export the file as explicit little endian",
            ));
        }
        // What differs between transfer syntaxes before the pixel data is the encoding alone.
        let encoding = match uid.as_str() {
            IMPLICIT_LITTLE => IMPLICIT_LITTLE,
            EXPLICIT_BIG => EXPLICIT_BIG,
            _ => EXPLICIT_LITTLE,
        };
        let syntax = transfer_syntax(encoding).ok_or_else(|| {
            IoError::input(path, "DICOM", "has no known encoding", "export it again")
        })?;
        let (bytes, start) = if uid == DEFLATED {
            (Cow::Owned(inflate(path, &bytes[start..])?), 0)
        } else {
            (Cow::Borrowed(bytes), start)
        };
        let walked =
            walk(&bytes, start, syntax, values).map_err(|damage| damaged(path, &damage))?;
        Ok(Self { uid, elements: walked.elements, pixel_data: walked.pixel_data, bytes })
    }
}

/// A transfer syntax that `dicom-rs` knows.
pub(super) fn transfer_syntax(uid: &str) -> Option<&'static TransferSyntax> {
    TransferSyntaxRegistry.get(uid)
}

/// An error with its causes, on one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn inflate(path: &Path, deflated: &[u8]) -> Result<Vec<u8>, IoError> {
    let limit = deflated.len() as u64 * MAX_RATIO + INFLATED_SLACK;
    let refused = |problem: String| {
        IoError::input(path, "deflated data set", problem, "copy or export it again")
    };
    let mut bytes = Vec::new();
    DeflateDecoder::new(deflated)
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refused(format!("cannot be inflated: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(refused(format!(
            "grows beyond {limit} bytes, {MAX_RATIO} times what an image should"
        )));
    }
    Ok(bytes)
}

/// The elements of a data set or of an item. Values that are empty count as missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements<'a>(pub(super) &'a InMemDicomObject);

impl<'a> Elements<'a> {
    pub(super) fn text(&self, tag: Tag) -> Option<String> {
        let text = self.0.element_opt(tag).ok()??.to_str().ok()?;
        let text = text.trim_matches(['\0', ' ']);
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// The values of a multi-valued text.
    pub(super) fn texts(&self, tag: Tag) -> Vec<String> {
        self.text(tag).map_or_else(Vec::new, |text| {
            text.split('\\').map(|part| part.trim().to_owned()).collect()
        })
    }

    pub(super) fn int(&self, tag: Tag) -> Option<i64> {
        let element = self.0.element_opt(tag).ok()??;
        element.to_int::<i64>().ok().or_else(|| self.text(tag)?.parse().ok())
    }

    /// Finite numbers; `None` when a value is missing or is none.
    pub(super) fn floats(&self, tag: Tag) -> Option<Vec<f64>> {
        let floats = self.0.element_opt(tag).ok()??.to_multi_float64().ok()?;
        (!floats.is_empty() && floats.iter().all(|v| v.is_finite())).then_some(floats)
    }

    pub(super) fn vector<const N: usize>(&self, tag: Tag) -> Option<[f64; N]> {
        self.floats(tag)?.try_into().ok()
    }

    pub(super) fn float(&self, tag: Tag) -> Option<f64> {
        self.vector::<1>(tag).map(|[v]| v)
    }

    pub(super) fn has(&self, tag: Tag) -> bool {
        self.0
            .element_opt(tag)
            .is_ok_and(|element| element.is_some_and(|element| !element.is_empty()))
    }

    pub(super) fn bytes(&self, tag: Tag) -> Option<Cow<'a, [u8]>> {
        self.0.element_opt(tag).ok()??.to_bytes().ok()
    }

    pub(super) fn items(&self, tag: Tag) -> Vec<Self> {
        let items = self.0.element_opt(tag).ok().flatten().and_then(|element| element.items());
        items.unwrap_or_default().iter().map(Self).collect()
    }

    /// The first item of a sequence.
    pub(super) fn item(&self, tag: Tag) -> Option<Self> {
        self.items(tag).first().copied()
    }
}
