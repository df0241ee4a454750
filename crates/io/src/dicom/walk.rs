//! A walk through a data set that believes no length before it is checked.
//!
//! `dicom-object` makes room for a value before it reads it, so a file of a few bytes could ask for
//! gigabytes. A guard that walks through the bytes by itself first must agree with the parser in
//! every detail, and it is the details that spoilt files are about. So the parser's own tokens are
//! the walk: each value is compared with what the file holds before it is read, values that nobody
//! needs are passed over, and what is kept has a limit. Encodings: DICOM PS3.5, sections 7.1
//! (explicit, implicit), 7.5 (sequences) and A.4 (encapsulated pixel data).

use super::damage::Damage;
use super::file::{IMPLICIT_LITTLE, chain};
use super::pixel_data::{ITEM, PixelData, SEQUENCE_END, UNDEFINED, pixel_data};
use super::unknown_kind::known_kind;
use dicom_core::header::DataElementHeader;
use dicom_core::value::{DataSetSequence, Value};
use dicom_core::{DataElement, Length, Tag, VR};
use dicom_encoding::TransferSyntax;
use dicom_object::InMemDicomObject;
use dicom_parser::DynStatefulDecoder;
use dicom_parser::dataset::LazyDataToken;
use dicom_parser::dataset::lazy_read::LazyDataSetReader;
use std::cell::Cell;
use std::io::Read;
use std::ops::Range;
use std::rc::Rc;

/// Sequences in sequences; real files go three or four deep.
const MAX_DEPTH: usize = 16;

/// What is kept may take as much memory as the file has bytes, and this much more.
const KEPT_SLACK: usize = 32 << 20;

/// Memory of an element or item beside its value, rounded up: the element, its part of the tree
/// that holds it.
const ELEMENT_BYTES: usize = 256;

/// Memory of one value of a multi-valued text beside its letters: the text's own record and the
/// allocator's.
const TEXT_BYTES: usize = 64;

/// The groups whose elements are used: what an image is, how it was taken, where it lies, how its
/// pixels are stored, Siemens' private header, doses, functional groups. Those of the patient are
/// not among them.
const GROUPS: [u16; 7] = [0x0008, 0x0018, 0x0020, 0x0028, 0x0029, 0x3004, 0x5200];

const PIXEL_DATA: Tag = Tag(0x7fe0, 0x0010);
const ITEM_END: Tag = Tag(0xfffe, 0xe00d);

/// What becomes of values before the pixel data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    /// Those of the groups that are used are kept.
    Kept,
    /// All are passed over, for who wants the pixel data alone.
    PassedOver,
}

/// A data set that was walked through.
#[derive(Debug)]
pub(super) struct Walked {
    /// The elements before the pixel data.
    pub(super) elements: InMemDicomObject,
    /// The pixel data, where there are some.
    pub(super) pixel_data: Option<PixelData>,
}

/// The bytes of a file, with a place that parser and walker share.
struct Source<'a> {
    bytes: &'a [u8],
    at: Rc<Cell<usize>>,
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut rest = self.bytes.get(self.at.get()..).unwrap_or_default();
        let read = rest.read(out)?;
        self.at.set(self.at.get() + read);
        Ok(read)
    }
}

type Reader<'a> = LazyDataSetReader<DynStatefulDecoder<Source<'a>>>;

/// Walks through the data set that starts at `start`, up to its pixel data. `syntax` is an encoding
/// of elements, not of pixels.
pub(super) fn walk(
    bytes: &[u8],
    start: usize,
    syntax: &TransferSyntax,
    values: Values,
) -> Result<Walked, Damage> {
    let left = bytes.len().saturating_add(KEPT_SLACK);
    let mut walker = Walker { bytes, syntax, at: Rc::new(Cell::new(start)), left };
    let mut reader = walker.reader()?;
    let (elements, end) = walker.elements(&mut reader, 0, values == Values::Kept)?;
    let pixel_data = match end {
        // The parser stands behind the head of the pixel data.
        End::Pixels(length) => {
            Some(pixel_data(bytes, walker.at.get(), length, walker.is_big_endian())?)
        }
        End::Item | End::Elements => None,
    };
    Ok(Walked { elements, pixel_data })
}

/// Where the elements of a data set or item end.
enum End {
    /// At pixel data of this length, which may be [`UNDEFINED`].
    Pixels(u32),
    /// At the end of the item.
    Item,
    /// At the end of the data set.
    Elements,
}

struct Walker<'a> {
    bytes: &'a [u8],
    syntax: &'a TransferSyntax,
    /// Where the parser stands.
    at: Rc<Cell<usize>>,
    /// Bytes of memory that kept elements may still take.
    left: usize,
}

impl<'a> Walker<'a> {
    /// A parser that starts here, outside all sequences.
    fn reader(&self) -> Result<Reader<'a>, Damage> {
        let source = Source { bytes: self.bytes, at: Rc::clone(&self.at) };
        self.parsed(DynStatefulDecoder::new_with_ts(source, self.syntax, 0))
            .map(LazyDataSetReader::new)
    }

    fn is_big_endian(&self) -> bool {
        self.syntax.endianness() == dicom_encoding::Endianness::Big
    }

    fn damage<T>(&self, what: impl Into<String>) -> Result<T, Damage> {
        Err(Damage { at: self.at.get(), what: what.into() })
    }

    fn parsed<T, E: std::error::Error + 'static>(&self, result: Result<T, E>) -> Result<T, Damage> {
        result.map_err(|error| Damage { at: self.at.get(), what: chain(&error) })
    }

    /// The elements of the data set (depth 0) or of an item; where they are not kept, none.
    fn elements(
        &mut self,
        reader: &mut Reader<'a>,
        depth: usize,
        keep: bool,
    ) -> Result<(InMemDicomObject, End), Damage> {
        let mut object = InMemDicomObject::new_empty();
        loop {
            let started = self.at.get();
            let token = match reader.advance() {
                Some(Ok(token)) => token,
                // Less than the shortest head is padding.
                Some(Err(_)) if depth == 0 && self.bytes.len().saturating_sub(started) < 8 => {
                    return Ok((object, End::Elements));
                }
                Some(Err(error)) => return self.damage(chain(&error)),
                None if depth == 0 => return Ok((object, End::Elements)),
                None => return self.damage("the file ends within a sequence"),
            };
            match token {
                LazyDataToken::ElementHeader(head) if depth == 0 && head.tag == PIXEL_DATA => {
                    return Ok((object, End::Pixels(head.len.0)));
                }
                LazyDataToken::PixelSequenceStart if depth == 0 => {
                    return Ok((object, End::Pixels(UNDEFINED)));
                }
                LazyDataToken::ElementHeader(DataElementHeader { tag, .. })
                | LazyDataToken::SequenceStart { tag, .. }
                    if depth == 0 && tag >= PIXEL_DATA =>
                {
                    return Ok((object, End::Elements));
                }
                // Its value is the next token.
                LazyDataToken::ElementHeader(_) => {}
                LazyDataToken::LazyValue { header, .. } => {
                    let value = self.held(header)?;
                    if keep && GROUPS.contains(&header.tag.group()) && is_whole(header) {
                        self.charge(value.len() + text_bytes(header.vr, value))?;
                        let given = self.parsed(token.into_value())?;
                        let (vr, value) = match known_kind(header, value) {
                            Some((vr, value)) => (vr, value),
                            None => (header.vr, given),
                        };
                        object.put(DataElement::new(header.tag, vr, value));
                    } else {
                        self.parsed(token.skip())?;
                    }
                }
                LazyDataToken::SequenceStart { .. } if self.is_of_unknown_kind() => {
                    if depth > 0 {
                        return self.damage("a sequence of unknown kind lies in another one");
                    }
                    match implicit_sequence_end(self.bytes, self.at.get(), 0) {
                        // The parser goes on at the delimiter, which ends the sequence for it, too.
                        Some(end) => self.at.set(end),
                        None => return self.damage("a sequence of unknown kind has no end"),
                    }
                    self.items(reader, 1, false)?;
                }
                LazyDataToken::SequenceStart { tag, .. } => {
                    let keep = keep && GROUPS.contains(&tag.group());
                    let items = self.items(reader, depth + 1, keep)?;
                    if keep {
                        object.put(DataElement::new(
                            tag,
                            VR::SQ,
                            Value::Sequence(DataSetSequence::new(items, Length::UNDEFINED)),
                        ));
                    }
                }
                // The compressed pixels of an icon.
                LazyDataToken::PixelSequenceStart => self.pass_fragments(reader)?,
                LazyDataToken::ItemEnd if depth > 0 => return Ok((object, End::Item)),
                // A delimiter too many, which some writers leave behind a sequence.
                LazyDataToken::ItemEnd => *reader = self.reader()?,
                _ => return self.damage("a sequence or an item ends or starts where none is"),
            }
        }
    }

    /// The items of a sequence, up to its end.
    fn items(
        &mut self,
        reader: &mut Reader<'a>,
        depth: usize,
        keep: bool,
    ) -> Result<Vec<InMemDicomObject>, Damage> {
        if depth > MAX_DEPTH {
            return self.damage(format!("sequences are more than {MAX_DEPTH} deep"));
        }
        let mut items = Vec::new();
        loop {
            match reader.advance() {
                Some(token) => match self.parsed(token)? {
                    LazyDataToken::ItemStart { .. } => {
                        let (item, _) = self.elements(reader, depth, keep)?;
                        if keep {
                            self.charge(0)?;
                            items.push(item);
                        }
                    }
                    LazyDataToken::SequenceEnd => return Ok(items),
                    _ => return self.damage("there is no item where a sequence should have one"),
                },
                None => return self.damage("the file ends within a sequence"),
            }
        }
    }

    fn pass_fragments(&mut self, reader: &mut Reader<'a>) -> Result<(), Damage> {
        loop {
            match reader.advance() {
                Some(token) => match self.parsed(token)? {
                    token @ LazyDataToken::LazyItemValue { .. } => self.parsed(token.skip())?,
                    LazyDataToken::ItemStart { .. } | LazyDataToken::ItemEnd => {}
                    LazyDataToken::SequenceEnd => return Ok(()),
                    _ => {
                        return self
                            .damage("there is no fragment where the pixel data should have one");
                    }
                },
                None => return self.damage("the file ends within a fragment"),
            }
        }
    }

    /// Whether the sequence whose head the parser has just read has the value representation UN.
    /// Its elements have implicit value representations whatever those of the file are (PS3.5,
    /// section 6.2.2), which the parser does not know.
    fn is_of_unknown_kind(&self) -> bool {
        let is_explicit_little = self.syntax.uid() != IMPLICIT_LITTLE && !self.is_big_endian();
        let head = self.at.get().checked_sub(8).and_then(|at| self.bytes.get(at..at + 2));
        is_explicit_little && head == Some(b"UN")
    }

    /// The bytes of the value at which the parser stands, which must all be there.
    fn held(&self, header: DataElementHeader) -> Result<&'a [u8], Damage> {
        let start = self.at.get();
        let bytes: &'a [u8] = self.bytes;
        match bytes.get(start..start.saturating_add(header.len.0 as usize)) {
            Some(value) => Ok(value),
            None => {
                let Tag(group, element) = header.tag;
                self.damage(format!(
                    "the element ({group:04X},{element:04X}) is longer than the rest of the file"
                ))
            }
        }
    }

    /// Takes the memory of an element with a value of this many bytes from what is left.
    fn charge(&mut self, value_bytes: usize) -> Result<(), Damage> {
        match self.left.checked_sub(ELEMENT_BYTES.saturating_add(value_bytes)) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => self.damage("there are more elements than an image of this size needs"),
        }
    }
}

/// Whether a value is a whole number of numbers. Of others the parser reads less than it says, and
/// takes the rest for the next element; the value counts as missing.
fn is_whole(header: DataElementHeader) -> bool {
    let size = match header.vr {
        VR::US | VR::SS | VR::OW => 2,
        VR::AT | VR::FL | VR::OF | VR::SL | VR::UL | VR::OL => 4,
        VR::FD | VR::OD | VR::SV | VR::UV | VR::OV => 8,
        _ => 1,
    };
    header.len.0.is_multiple_of(size)
}

/// What the parts of a multi-valued text take beside their letters.
fn text_bytes(vr: VR, value: &[u8]) -> usize {
    let is_parted = matches!(vr, VR::AE | VR::AS | VR::CS | VR::DA | VR::DS | VR::DT | VR::IS)
        || matches!(vr, VR::LO | VR::PN | VR::SH | VR::TM | VR::UC | VR::UI);
    if is_parted { value.iter().filter(|&&byte| byte == b'\\').count() * TEXT_BYTES } else { 0 }
}

/// Tag and length at a place: of an item, or of an element with implicit value representation.
fn little_endian_head(bytes: &[u8], at: usize) -> Option<(Tag, u32)> {
    let &[a, b, c, d, e, f, g, h] = bytes.get(at..)?.first_chunk()?;
    Some((
        Tag(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])),
        u32::from_le_bytes([e, f, g, h]),
    ))
}

/// Where the delimiter lies of a sequence whose items start at `at`, with implicit value
/// representations.
fn implicit_sequence_end(bytes: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    if depth > MAX_DEPTH {
        return None;
    }
    loop {
        at = match little_endian_head(bytes, at)? {
            (SEQUENCE_END, _) => return Some(at),
            (ITEM, UNDEFINED) => implicit_item_end(bytes, at + 8, depth)?,
            (ITEM, length) => at.checked_add(8)?.checked_add(length as usize)?,
            _ => return None,
        };
    }
}

/// Where an item of undefined length ends, behind its delimiter.
fn implicit_item_end(bytes: &[u8], mut at: usize, depth: usize) -> Option<usize> {
    loop {
        at = match little_endian_head(bytes, at)? {
            (ITEM_END, _) => return Some(at + 8),
            (_, UNDEFINED) => implicit_sequence_end(bytes, at + 8, depth + 1)? + 8,
            (_, length) => at.checked_add(8)?.checked_add(length as usize)?,
        };
    }
}

/// The value of an element of the file's meta group (0002), which is always explicit little-endian,
/// and where the group ends.
pub(super) fn meta_group(
    bytes: &[u8],
    start: usize,
    wanted: Tag,
) -> Result<(Option<Range<usize>>, usize), Damage> {
    let (mut found, mut at) = (None, start);
    while let Some(&[2, 0, c, d, e, f, g, h]) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let vr = VR::from_binary([e, f]).unwrap_or(VR::UN);
        let long =
            matches!(vr, VR::OB | VR::OD | VR::OF | VR::OL | VR::OV | VR::OW | VR::SQ | VR::SV)
                || matches!(vr, VR::UC | VR::UN | VR::UR | VR::UT | VR::UV);
        let (value, length) = match bytes.get(at + 8..).and_then(<[u8]>::first_chunk) {
            Some(&long_length) if long => (at + 12, u32::from_le_bytes(long_length) as usize),
            None if long => {
                return Err(Damage { at, what: "the file ends within an element".to_owned() });
            }
            _ => (at + 8, u16::from_le_bytes([g, h]).into()),
        };
        let end = value.saturating_add(length);
        let tag = Tag(2, u16::from_le_bytes([c, d]));
        if end > bytes.len() {
            return Err(Damage {
                at: value,
                what: format!(
                    "the element (0002,{:04X}) is longer than the rest of the file",
                    tag.element()
                ),
            });
        }
        if tag == wanted {
            found = Some(value..end);
        }
        at = end;
    }
    Ok((found, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dicom::file::transfer_syntax;

    fn element(tag: (u16, u16), vr: &[u8; 2], length: u32) -> Vec<u8> {
        [&tag.0.to_le_bytes()[..], &tag.1.to_le_bytes(), vr, &[0, 0], &length.to_le_bytes()]
            .concat()
    }

    fn short(tag: (u16, u16), vr: &[u8; 2], value: &[u8]) -> Vec<u8> {
        [
            &tag.0.to_le_bytes()[..],
            &tag.1.to_le_bytes(),
            vr,
            &(value.len() as u16).to_le_bytes(),
            value,
        ]
        .concat()
    }

    fn explicit(bytes: &[u8]) -> Result<Walked, Damage> {
        walk(bytes, 0, transfer_syntax("1.2.840.10008.1.2.1").unwrap(), Values::Kept)
    }

    const ITEM_HEAD: [u8; 8] = [0xfe, 0xff, 0x00, 0xe0, 0xff, 0xff, 0xff, 0xff];

    #[test]
    fn lengths_beyond_the_file_and_deep_sequences_are_damage() {
        let long = element((0x0029, 0x1010), b"OB", 0x7fff_fff0);
        assert_eq!(explicit(&long).unwrap_err().at, 12);
        let level = [&element((0x0008, 0x1140), b"SQ", UNDEFINED)[..], &ITEM_HEAD].concat();
        assert!(explicit(&level.repeat(10_000)).unwrap_err().what.contains("deep"));
        // One that never ends is damage, too, and no endless loop.
        assert!(explicit(&level).is_err());
    }

    #[test]
    fn delimiters_too_many_and_padding_are_passed_over() {
        let stray = [0xfe, 0xff, 0x0d, 0xe0, 0, 0, 0, 0];
        let rows = short((0x0028, 0x0010), b"US", &[7, 0]);
        for end in 0..8 {
            let bytes = [&stray[..], &rows, &[0; 7][..end]].concat();
            let object = explicit(&bytes).unwrap().elements;
            assert_eq!(
                object.element(Tag(0x0028, 0x0010)).unwrap().to_int::<u16>().unwrap(),
                7,
                "{end} bytes behind it"
            );
        }
    }

    /// An element of unknown kind and length is a sequence with implicit value representations.
    #[test]
    fn sequences_of_unknown_kind_are_passed_over() {
        let head = element((0x0021, 0x1001), b"UN", UNDEFINED);
        let implicit = |tag: (u16, u16), length: u32| {
            [&tag.0.to_le_bytes()[..], &tag.1.to_le_bytes(), &length.to_le_bytes()].concat()
        };
        let [item_end, sequence_end] =
            [0xe00d, 0xe0dd].map(|element| implicit((0xfffe, element), 0));
        let value = [&implicit((0x0021, 0x1002), 4)[..], b"abcd"].concat();
        let inner = [
            &implicit((0x0021, 0x1003), UNDEFINED)[..],
            &ITEM_HEAD,
            &value,
            &item_end,
            &sequence_end,
        ]
        .concat();
        let sized = [&implicit((0xfffe, 0xe000), value.len() as u32)[..], &value].concat();
        let sequence =
            [&head[..], &ITEM_HEAD, &value, &inner, &item_end, &sized, &sequence_end].concat();
        let rows = short((0x0028, 0x0010), b"US", &[7, 0]);
        let object = explicit(&[&sequence[..], &rows].concat()).unwrap().elements;
        assert_eq!(object.element(Tag(0x0028, 0x0010)).unwrap().to_int::<u16>().unwrap(), 7);
        for end in head.len()..sequence.len() {
            assert!(explicit(&sequence[..end]).is_err(), "cut at {end}");
        }
    }

    /// Of three bytes that should be numbers of two, the parser reads two; it would take the third
    /// for the next element's tag, and what follows for its length.
    #[test]
    fn values_of_broken_length_do_not_shift_what_follows() {
        for vr in [b"US", b"SS", b"FL", b"UL", b"SL", b"AT", b"FD"] {
            let bytes =
                [short((0x0028, 0x0002), vr, &[1, 0, 0]), short((0x0028, 0x0010), b"US", &[7, 0])]
                    .concat();
            let object = explicit(&bytes).unwrap().elements;
            assert_eq!(object.element(Tag(0x0028, 0x0010)).unwrap().to_int::<u16>().unwrap(), 7);
            assert!(object.element_opt(Tag(0x0028, 0x0002)).unwrap().is_none(), "{vr:?}");
        }
    }

    #[test]
    fn elements_take_memory_that_the_file_justifies() {
        // Texts of one backslash after the other would take 30 times their length.
        let long = vec![b'\\'; 1 << 20];
        let bytes = [&element((0x0008, 0x0008), b"UC", long.len() as u32)[..], &long].concat();
        assert!(explicit(&bytes).unwrap_err().what.contains("more elements"));
        // In a group that is not used they are passed over.
        let bytes = [&element((0x0009, 0x0008), b"UC", long.len() as u32)[..], &long].concat();
        assert!(explicit(&bytes).is_ok());
        // Items of nothing.
        let empty = [0xfe, 0xff, 0x00, 0xe0, 0, 0, 0, 0].repeat(1 << 18);
        let bytes = [&element((0x0008, 0x1140), b"SQ", empty.len() as u32)[..], &empty].concat();
        assert!(explicit(&bytes).unwrap_err().what.contains("more elements"));
    }

    #[test]
    fn fragments_are_found() {
        let mut bytes = element((0x7fe0, 0x0010), b"OB", UNDEFINED);
        for part in [&[][..], &[1, 2], &[3, 4, 5, 6]] {
            bytes.extend([0xfe, 0xff, 0x00, 0xe0, part.len() as u8, 0, 0, 0]);
            bytes.extend(part);
        }
        bytes.extend([0xfe, 0xff, 0xdd, 0xe0, 0, 0, 0, 0]);
        let walked = explicit(&bytes).unwrap();
        assert_eq!(
            walked.pixel_data,
            Some(PixelData::Encapsulated { offsets: vec![], fragments: vec![28..30, 38..42] })
        );
        assert!(explicit(&bytes[..bytes.len() - 12]).is_err());
    }
}
