//! Where the pixel data of a data set lie.

use super::damage::Damage;
use dicom_core::Tag;
use std::ops::Range;

/// Tags and the length that divide sequences: PS3.5, section 7.5.
pub(super) const ITEM: Tag = Tag(0xfffe, 0xe000);
pub(super) const SEQUENCE_END: Tag = Tag(0xfffe, 0xe0dd);
pub(super) const UNDEFINED: u32 = u32::MAX;

/// More fragments of compressed pixels than any image has.
const MAX_FRAGMENTS: usize = 1 << 20;

/// Where the pixel data lie, as ranges of bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PixelData {
    /// One frame after the other.
    Native(Range<usize>),
    /// Compressed: the basic offset table and the fragments.
    Encapsulated { offsets: Vec<u32>, fragments: Vec<Range<usize>> },
}

/// Pixel data whose value starts at `start`.
pub(super) fn pixel_data(
    bytes: &[u8],
    start: usize,
    length: u32,
    big_endian: bool,
) -> Result<PixelData, Damage> {
    if length != UNDEFINED {
        // They are compared with rows, columns and frames later; here they may be cut.
        return Ok(PixelData::Native(
            start.min(bytes.len())..start.saturating_add(length as usize).min(bytes.len()),
        ));
    }
    let damage = |at: usize, what: &str| Err(Damage { at, what: what.to_owned() });
    let (mut at, mut ranges) = (start, Vec::new());
    loop {
        let Some(head) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else {
            return damage(at, "the file ends within the pixel data");
        };
        let &[a, b, c, d, e, f, g, h] = head;
        // Nobody writes compressed pixels in a big-endian file, but a spoilt one may claim so.
        let (tag, length) = if big_endian {
            (
                Tag(u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
                u32::from_be_bytes([e, f, g, h]),
            )
        } else {
            (
                Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
                u32::from_le_bytes([e, f, g, h]),
            )
        };
        at += 8;
        let end = at.saturating_add(length as usize);
        match tag {
            SEQUENCE_END => break,
            ITEM if end > bytes.len() => {
                return damage(at, "a fragment of the pixel data is longer than the file");
            }
            ITEM if ranges.len() == MAX_FRAGMENTS => {
                return damage(at, "the pixel data have more fragments than an image needs");
            }
            ITEM => ranges.push(at..end),
            _ => {
                return damage(at - 8, "there is no fragment where the pixel data should have one");
            }
        }
        at = end;
    }
    if ranges.is_empty() {
        return damage(start, "the pixel data have no fragment");
    }
    // The first item is the basic offset table, which may be empty.
    let table = ranges.remove(0);
    let offsets = bytes[table]
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    Ok(PixelData::Encapsulated { offsets, fragments: ranges })
}
