//! What compressed streams say about themselves, and which fragments make a frame.

use std::fmt;
use std::ops::Range;

/// The size of the image in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) components: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {} with {} component(s)", self.columns, self.rows, self.components)
    }
}

/// The fragments of a frame (PS3.5, annex A.4): all of them, or one each, or those that the basic
/// offset table says.
pub(super) fn of_frame<'a>(
    offsets: &[u32],
    fragments: &'a [Range<usize>],
    frames: usize,
    frame: usize,
) -> Option<&'a [Range<usize>]> {
    if frames == 1 {
        return Some(fragments);
    }
    if fragments.len() == frames {
        return fragments.get(frame..=frame);
    }
    if offsets.len() != frames {
        return None;
    }
    // Offsets count from the first fragment's item, whose head takes 8 bytes.
    let first = fragments.first()?.start;
    let at =
        |offset: u32| fragments.iter().position(|range| range.start - first == offset as usize);
    let start = at(offsets[frame])?;
    let end = offsets.get(frame + 1).map_or(Some(fragments.len()), |&next| at(next))?;
    fragments.get(start..end).filter(|ranges| !ranges.is_empty())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|&b| u16::from_be_bytes(b).into())
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.first_chunk().map(|&b| u32::from_be_bytes(b) as usize)
}

/// The first frame header of a JPEG or JPEG-LS stream (ITU-T T.81, B.2.2; T.87, C.2.2).
pub(super) fn jpeg_size(stream: &[u8]) -> Option<Size> {
    let mut at = 2;
    if !stream.starts_with(&[0xff, 0xd8]) {
        return None;
    }
    loop {
        // Markers may be preceded by any number of 0xff.
        if *stream.get(at)? != 0xff {
            return None;
        }
        let marker = *stream.get(at + 1)?;
        match marker {
            0xff => at += 1,
            // Start of frame, all processes; 0xc4, 0xc8 and 0xcc are tables, 0xf7 is JPEG-LS.
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf | 0xf7 => {
                let (rows, columns) = (u16_at(stream, at + 5)?, u16_at(stream, at + 7)?);
                return Some(Size { rows, columns, components: (*stream.get(at + 9)?).into() });
            }
            0xd8 | 0x01 => at += 2,
            // Entropy-coded data, or the end, before a frame header.
            0xda | 0xd9 => return None,
            _ => at += 2 + u16_at(stream, at + 2)?,
        }
    }
}

/// The SIZ segment of a JPEG 2000 codestream, which is the first one (ITU-T T.800, A.5.1).
pub(super) fn jpeg_2000_size(stream: &[u8]) -> Option<Size> {
    if !stream.starts_with(&[0xff, 0x4f, 0xff, 0x51]) {
        return None;
    }
    let (right, bottom, left, top) =
        (u32_at(stream, 8)?, u32_at(stream, 12)?, u32_at(stream, 16)?, u32_at(stream, 20)?);
    let components = u16_at(stream, 40)?;
    // Subsampled components would have fewer samples than the image.
    let whole = (0..components.min(4)).all(|n| stream.get(43 + 3 * n..45 + 3 * n) == Some(&[1, 1]));
    whole.then_some(Size {
        rows: bottom.checked_sub(top)?,
        columns: right.checked_sub(left)?,
        components,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_of_frames() {
        let fragments: Vec<Range<usize>> = vec![100..110, 118..120, 128..140];
        assert_eq!(of_frame(&[], &fragments, 1, 0).unwrap().len(), 3);
        assert_eq!(of_frame(&[], &fragments, 3, 1).unwrap(), &fragments[1..2]);
        assert_eq!(of_frame(&[0, 28], &fragments, 2, 0).unwrap(), &fragments[..2]);
        assert_eq!(of_frame(&[0, 28], &fragments, 2, 1).unwrap(), &fragments[2..]);
        assert_eq!(of_frame(&[0, 27], &fragments, 2, 1), None);
        assert_eq!(of_frame(&[28, 0], &fragments, 2, 0), None);
        assert_eq!(of_frame(&[], &fragments, 2, 0), None);
    }

    #[test]
    fn sizes_of_streams() {
        let jpeg = [
            0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc3, 0, 11, 16, 2, 0, 1, 0, 1, 1,
            0x11, 0,
        ];
        assert_eq!(jpeg_size(&jpeg), Some(Size { rows: 512, columns: 256, components: 1 }));
        assert!((0..18).all(|n| jpeg_size(&jpeg[..n]).is_none()));
    }
}
