//! Stored pixels of a frame: native ones as they are, compressed ones by the decoders of
//! `dicom-rs`, after a look at the compressed stream's own idea of its size. A decoder that is told
//! nothing would make room for whatever the stream says.

use super::file::{chain, transfer_syntax};
use super::pixel_data::PixelData;
use super::plane::PixelFormat;
use super::{codestream, rle};
use crate::raw::swap_bytes;
use dicom_encoding::adapters::{PixelDataObject, RawPixelData};
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

const EXPLICIT_BIG: &str = "1.2.840.10008.1.2.2";
const RLE: &str = "1.2.840.10008.1.2.5";
/// Baseline, extended, lossless, lossless with the first selection value.
const JPEG: [&str; 4] = [
    "1.2.840.10008.1.2.4.50",
    "1.2.840.10008.1.2.4.51",
    "1.2.840.10008.1.2.4.57",
    "1.2.840.10008.1.2.4.70",
];
const JPEG_LS: [&str; 2] = ["1.2.840.10008.1.2.4.80", "1.2.840.10008.1.2.4.81"];
const JPEG_2000: [&str; 2] = ["1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.4.91"];

/// The stored values of a frame, little-endian, row by row; bits that are not theirs cleared and
/// the sign extended.
pub(super) fn frame<'a>(
    format: &PixelFormat,
    file: &'a [u8],
    frame: usize,
) -> Result<Cow<'a, [u8]>, String> {
    let voxel_bytes = usize::from(format.bits_allocated / 8);
    let size = format.rows * format.columns * voxel_bytes;
    let mut stored = match &format.data {
        PixelData::Native(range) => {
            let start = range.start + frame * size;
            let bytes = file
                .get(start..start + size)
                .filter(|_| start + size <= range.end)
                .ok_or("the pixel data are cut")?;
            let mut bytes = Cow::Borrowed(bytes);
            if format.transfer_syntax == EXPLICIT_BIG {
                if voxel_bytes == 1 {
                    // Whether pairs of bytes are swapped depends on the writer (PS3.5, annex D).
                    return Err("8-bit pixels in a big-endian file are ambiguous".into());
                }
                swap_bytes(bytes.to_mut(), voxel_bytes);
            }
            bytes
        }
        PixelData::Encapsulated { offsets, fragments } => {
            let ranges = codestream::of_frame(offsets, fragments, format.frames, frame)
                .ok_or("the fragments of its frames cannot be told apart")?;
            let stream: Cow<[u8]> = match ranges {
                [one] => Cow::Borrowed(&file[one.clone()]),
                several => Cow::Owned(
                    several.iter().flat_map(|range| &file[range.clone()]).copied().collect(),
                ),
            };
            let decoded = decode(format, &stream)?;
            if decoded.len() != size {
                return Err(format!(
                    "the decoder made {} bytes where {size} should be",
                    decoded.len()
                ));
            }
            Cow::Owned(decoded)
        }
    };
    if format.bits_stored < format.bits_allocated {
        clear_foreign_bits(stored.to_mut(), format);
    }
    Ok(stored)
}

fn decode(format: &PixelFormat, stream: &[u8]) -> Result<Vec<u8>, String> {
    let uid = format.transfer_syntax.as_str();
    if uid == RLE {
        return rle::decode(
            stream,
            format.rows * format.columns,
            usize::from(format.bits_allocated / 8),
        );
    }
    let size = if JPEG.contains(&uid) || JPEG_LS.contains(&uid) {
        codestream::jpeg_size(stream)
    } else if JPEG_2000.contains(&uid) {
        codestream::jpeg_2000_size(stream)
    } else {
        return Err(format!("the transfer syntax {uid} is not supported"));
    };
    let reader = transfer_syntax(uid)
        .and_then(|syntax| syntax.pixel_data_reader().map(|reader| reader.as_ref()));
    let Some(reader) = reader else {
        let hint = if JPEG_LS.contains(&uid) {
            " (JPEG-LS: build pbt with `--features jpeg-ls`)"
        } else {
            ""
        };
        return Err(format!("the transfer syntax {uid} is not supported{hint}"));
    };
    let size = size.ok_or("the compressed stream has no readable header")?;
    let expected = codestream::Size { rows: format.rows, columns: format.columns, components: 1 };
    if size != expected {
        return Err(format!("the compressed stream is {size}, the data set says {expected}"));
    }
    let mut out = Vec::new();
    let object = OneFrame { format, stream };
    // The decoders are other people's; a panic of theirs on a damaged stream must not end a batch.
    match catch_unwind(AssertUnwindSafe(|| reader.decode_frame(&object, 0, &mut out))) {
        Ok(Ok(())) => Ok(out),
        Ok(Err(error)) => Err(format!("the pixel data cannot be decoded: {}", chain(&error))),
        Err(_) => Err("the pixel data cannot be decoded: they are damaged".into()),
    }
}

/// Moves each value's bits down to bit 0, clears what lies above (overlays, in old files) and
/// extends the sign.
fn clear_foreign_bits(bytes: &mut [u8], format: &PixelFormat) {
    let shift = u32::from(format.high_bit + 1 - format.bits_stored);
    let unused = u32::from(format.bits_allocated - format.bits_stored);
    macro_rules! clear {
        ($unsigned:ty, $signed:ty) => {
            for voxel in bytes.as_chunks_mut().0 {
                let up = (<$unsigned>::from_le_bytes(*voxel) >> shift) << unused;
                let value = if format.signed {
                    ((up as $signed) >> unused) as $unsigned
                } else {
                    up >> unused
                };
                *voxel = value.to_le_bytes();
            }
        };
    }
    match format.bits_allocated {
        8 => clear!(u8, i8),
        16 => clear!(u16, i16),
        _ => clear!(u32, i32),
    }
}

/// One compressed frame, as the decoders want it.
struct OneFrame<'a> {
    format: &'a PixelFormat,
    stream: &'a [u8],
}

impl PixelDataObject for OneFrame<'_> {
    fn transfer_syntax_uid(&self) -> &str {
        &self.format.transfer_syntax
    }
    fn rows(&self) -> Option<u16> {
        u16::try_from(self.format.rows).ok()
    }
    fn cols(&self) -> Option<u16> {
        u16::try_from(self.format.columns).ok()
    }
    fn samples_per_pixel(&self) -> Option<u16> {
        Some(1)
    }
    fn bits_allocated(&self) -> Option<u16> {
        Some(self.format.bits_allocated)
    }
    fn bits_stored(&self) -> Option<u16> {
        Some(self.format.bits_stored)
    }
    fn photometric_interpretation(&self) -> Option<&str> {
        Some("MONOCHROME2")
    }
    fn number_of_frames(&self) -> Option<u32> {
        Some(1)
    }
    fn number_of_fragments(&self) -> Option<u32> {
        Some(1)
    }
    fn fragment(&self, fragment: usize) -> Option<Cow<'_, [u8]>> {
        (fragment == 0).then_some(Cow::Borrowed(self.stream))
    }
    fn offset_table(&self) -> Option<Cow<'_, [u32]>> {
        None
    }
    fn raw_pixel_data(&self) -> Option<RawPixelData> {
        Some(RawPixelData {
            fragments: [self.stream.to_vec()].into_iter().collect(),
            offset_table: [].into_iter().collect(),
        })
    }
}
