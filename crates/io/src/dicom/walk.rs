//! A walk over the elements of a data set that believes no length before it is checked.
//!
//! `dicom-object` makes room for an element's value before it reads it, so a file of a few bytes could ask for gigabytes. Here every length
//! is compared with what is there, and the depth of sequences is bounded; only data sets that pass are parsed.
//! Encodings: DICOM PS3.5, sections 7.1 (explicit, implicit), 7.5 (sequences) and A.4 (encapsulated pixel data).

use dicom_core::dictionary::{DataDictionary, DataDictionaryEntry};
use dicom_core::{Tag, VR};
use dicom_dictionary_std::StandardDataDictionary;
use std::ops::Range;

/// Sequences in sequences; real files go three or four deep.
const MAX_DEPTH: usize = 16;

const PIXEL_DATA: Tag = Tag(0x7fe0, 0x0010);
const ITEM: Tag = Tag(0xfffe, 0xe000);
const ITEM_END: Tag = Tag(0xfffe, 0xe00d);
const SEQUENCE_END: Tag = Tag(0xfffe, 0xe0dd);
const UNDEFINED: u32 = u32::MAX;

/// How elements are encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Encoding {
    pub(super) explicit_vr: bool,
    pub(super) big_endian: bool,
}

/// Where the pixel data lie, as ranges of bytes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PixelData {
    /// One frame after the other.
    Native(Range<usize>),
    /// Compressed: the basic offset table and the fragments.
    Encapsulated { offsets: Vec<u32>, fragments: Vec<Range<usize>> },
}

/// What is wrong with a data set, and at which byte.
#[derive(Debug, PartialEq)]
pub(super) struct Damage {
    pub(super) at: usize,
    pub(super) what: String,
}

/// A data set that was walked through.
#[derive(Debug)]
pub(super) struct Walked {
    /// The pixel data, where there are some.
    pub(super) pixel_data: Option<PixelData>,
    /// Where the elements before the pixel data end.
    pub(super) header_end: usize,
}

/// The head of an element.
struct Head {
    tag: Tag,
    vr: Option<VR>,
    length: u32,
    value: usize,
}

struct Walker<'a> {
    bytes: &'a [u8],
    encoding: Encoding,
}

/// Walks through the data set that starts at `start`, up to its pixel data.
pub(super) fn walk(bytes: &[u8], start: usize, encoding: Encoding) -> Result<Walked, Damage> {
    let walker = Walker { bytes, encoding };
    let mut at = start;
    // Less than the head of an element is padding.
    while at + 8 <= bytes.len() {
        let head = walker.head(at, encoding)?;
        if head.tag == PIXEL_DATA {
            let pixel_data = if head.length == UNDEFINED {
                walker.fragments(head.value)?
            } else {
                // The pixel data are compared with rows, columns and frames later; here they may be cut.
                let end = head.value.saturating_add(head.length as usize).min(bytes.len());
                PixelData::Native(head.value..end)
            };
            return Ok(Walked { pixel_data: Some(pixel_data), header_end: at });
        }
        if head.tag > PIXEL_DATA {
            return Ok(Walked { pixel_data: None, header_end: at });
        }
        at = walker.value_end(&head, bytes.len(), 0)?;
    }
    Ok(Walked { pixel_data: None, header_end: at.min(bytes.len()) })
}

/// The value of an element of the file's meta group (0002), which is always explicit little-endian, and where the group ends.
pub(super) fn meta_group(bytes: &[u8], start: usize, wanted: Tag) -> Result<(Option<Range<usize>>, usize), Damage> {
    let encoding = Encoding { explicit_vr: true, big_endian: false };
    let walker = Walker { bytes, encoding };
    let (mut found, mut at) = (None, start);
    while at + 8 <= bytes.len() && bytes[at..at + 2] == [2, 0] {
        let head = walker.head(at, encoding)?;
        let end = walker.value_end(&head, bytes.len(), 0)?;
        if head.tag == wanted {
            found = Some(head.value..end);
        }
        at = end;
    }
    Ok((found, at))
}

impl Walker<'_> {
    fn damage<T>(&self, at: usize, what: impl Into<String>) -> Result<T, Damage> {
        Err(Damage { at, what: what.into() })
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], Damage> {
        match self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(array) => Ok(*array),
            None => self.damage(at, "the file ends within an element"),
        }
    }

    fn u16(&self, at: usize) -> Result<u16, Damage> {
        let array = self.array(at)?;
        Ok(if self.encoding.big_endian { u16::from_be_bytes(array) } else { u16::from_le_bytes(array) })
    }

    fn u32(&self, at: usize) -> Result<u32, Damage> {
        let array = self.array(at)?;
        Ok(if self.encoding.big_endian { u32::from_be_bytes(array) } else { u32::from_le_bytes(array) })
    }

    fn head(&self, at: usize, encoding: Encoding) -> Result<Head, Damage> {
        let tag = Tag(self.u16(at)?, self.u16(at + 2)?);
        if tag.0 == 0xfffe || !encoding.explicit_vr {
            // Without a value representation in the file, the dictionary says what is a sequence, as it will to the parser.
            let vr = StandardDataDictionary.by_tag(tag).map(|entry| entry.vr().relaxed());
            return Ok(Head { tag, vr, length: self.u32(at + 4)?, value: at + 8 });
        }
        let code: [u8; 2] = self.array(at + 4)?;
        // The parser takes unknown codes for UN, which has a long head.
        let vr = VR::from_binary(code).unwrap_or(VR::UN);
        let long = matches!(vr, VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::SQ | VR::SV)
            || matches!(vr, VR::UC | VR::UN | VR::UR | VR::UT | VR::UV);
        if long {
            Ok(Head { tag, vr: Some(vr), length: self.u32(at + 8)?, value: at + 12 })
        } else {
            Ok(Head { tag, vr: Some(vr), length: self.u16(at + 6)?.into(), value: at + 8 })
        }
    }

    /// Where a value that must end before `limit` ends.
    fn value_end(&self, head: &Head, limit: usize, depth: usize) -> Result<usize, Damage> {
        if head.length == UNDEFINED {
            // A value of unknown kind and length is a sequence with implicit value representations (PS3.5, section 6.2.2).
            let encoding = if head.vr == Some(VR::UN) { Encoding { explicit_vr: false, ..self.encoding } } else { self.encoding };
            return self.items(head.value, None, limit, encoding, depth);
        }
        let end = head.value.saturating_add(head.length as usize);
        if end > limit {
            let Tag(group, element) = head.tag;
            return self.damage(head.value, format!("the element ({group:04X},{element:04X}) is longer than what holds it"));
        }
        if head.vr == Some(VR::SQ) {
            return self.items(head.value, Some(end), end, self.encoding, depth);
        }
        Ok(end)
    }

    /// Items from `at` to `end`, or to their delimiter.
    fn items(&self, mut at: usize, end: Option<usize>, limit: usize, encoding: Encoding, depth: usize) -> Result<usize, Damage> {
        if depth > MAX_DEPTH {
            return self.damage(at, format!("sequences are more than {MAX_DEPTH} deep"));
        }
        loop {
            if let Some(end) = end.filter(|&end| at >= end) {
                return Ok(end);
            }
            let (tag, length) = (Tag(self.u16(at)?, self.u16(at + 2)?), self.u32(at + 4)?);
            at += 8;
            match tag {
                SEQUENCE_END => return Ok(at),
                ITEM if length == UNDEFINED => at = self.item(at, None, limit, encoding, depth)?,
                ITEM => {
                    let item_end = at.saturating_add(length as usize);
                    if item_end > limit {
                        return self.damage(at, "an item is longer than what holds it");
                    }
                    at = self.item(at, Some(item_end), item_end, encoding, depth)?;
                }
                _ => return self.damage(at - 8, "there is no item where a sequence should have one"),
            }
        }
    }

    /// The elements of an item. Fragments of encapsulated pixel data look like items, too, and hold no elements; they occur in icons only.
    fn item(&self, mut at: usize, end: Option<usize>, limit: usize, encoding: Encoding, depth: usize) -> Result<usize, Damage> {
        loop {
            if let Some(end) = end.filter(|&end| at >= end) {
                return Ok(end);
            }
            let head = self.head(at, encoding)?;
            at = match head.tag {
                ITEM_END => return Ok(head.value),
                PIXEL_DATA if head.length == UNDEFINED => self.fragments_end(head.value)?,
                _ => self.value_end(&head, limit, depth + 1)?,
            };
        }
    }

    fn fragments_end(&self, at: usize) -> Result<usize, Damage> {
        self.fragment_ranges(at).map(|(_, end)| end)
    }

    fn fragment_ranges(&self, mut at: usize) -> Result<(Vec<Range<usize>>, usize), Damage> {
        let mut ranges = Vec::new();
        loop {
            let (tag, length) = (Tag(self.u16(at)?, self.u16(at + 2)?), self.u32(at + 4)?);
            at += 8;
            match tag {
                SEQUENCE_END => return Ok((ranges, at)),
                ITEM if at.saturating_add(length as usize) <= self.bytes.len() => {
                    ranges.push(at..at + length as usize);
                    at += length as usize;
                }
                ITEM => return self.damage(at, "a fragment of the pixel data is longer than the file"),
                _ => return self.damage(at - 8, "there is no fragment where the pixel data should have one"),
            }
        }
    }

    fn fragments(&self, at: usize) -> Result<PixelData, Damage> {
        let (mut ranges, _) = self.fragment_ranges(at)?;
        if ranges.is_empty() {
            return self.damage(at, "the pixel data have no fragment");
        }
        // The first item is the basic offset table, which may be empty.
        let table = ranges.remove(0);
        let offsets = self.bytes[table].chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Ok(PixelData::Encapsulated { offsets, fragments: ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXPLICIT: Encoding = Encoding { explicit_vr: true, big_endian: false };

    fn element(tag: (u16, u16), vr: &[u8; 2], length: u32) -> Vec<u8> {
        [&tag.0.to_le_bytes()[..], &tag.1.to_le_bytes(), vr, &[0, 0], &length.to_le_bytes()].concat()
    }

    #[test]
    fn lengths_beyond_the_file_and_deep_sequences_are_damage() {
        let long = element((0x0029, 0x1010), b"OB", 0x7fff_fff0);
        assert_eq!(walk(&long, 0, EXPLICIT).unwrap_err().at, 12);
        let item: &[u8] = &[0xfe, 0xff, 0x00, 0xe0, 0xff, 0xff, 0xff, 0xff];
        let deep: Vec<u8> = (0..10_000).flat_map(|_| [&element((0x0008, 0x1140), b"SQ", UNDEFINED)[..], item].concat()).collect();
        assert!(walk(&deep, 0, EXPLICIT).unwrap_err().what.contains("deep"));
        // One that never ends is damage, too, and no endless loop.
        let open = [&element((0x0008, 0x1140), b"SQ", UNDEFINED)[..], item].concat();
        assert!(walk(&open, 0, EXPLICIT).is_err());
    }

    #[test]
    fn fragments_are_found() {
        let mut bytes = element((0x7fe0, 0x0010), b"OB", UNDEFINED);
        for part in [&[][..], &[1, 2], &[3, 4, 5, 6]] {
            bytes.extend([0xfe, 0xff, 0x00, 0xe0, part.len() as u8, 0, 0, 0]);
            bytes.extend(part);
        }
        bytes.extend([0xfe, 0xff, 0xdd, 0xe0, 0, 0, 0, 0]);
        let walked = walk(&bytes, 0, EXPLICIT).unwrap();
        assert_eq!(walked.pixel_data, Some(PixelData::Encapsulated { offsets: vec![], fragments: vec![28..30, 38..42] }));
        assert!(walk(&bytes[..bytes.len() - 12], 0, EXPLICIT).is_err());
    }
}
