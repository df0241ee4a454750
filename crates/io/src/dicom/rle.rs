//! RLE Lossless (PS3.5, annex G). The decoder of `dicom-rs` knows 8 and 16 bits; dose grids have
//! 32.

/// The stored values of one frame, little-endian: `pixels` values of `voxel_bytes` bytes.
pub(super) fn decode(stream: &[u8], pixels: usize, voxel_bytes: usize) -> Result<Vec<u8>, String> {
    let word = |n: usize| {
        stream.get(4 * n..).and_then(<[u8]>::first_chunk).map(|&b| u32::from_le_bytes(b) as usize)
    };
    let count = word(0).ok_or("the RLE header is cut")?;
    if count != voxel_bytes {
        return Err(format!("RLE with {count} segments, where {voxel_bytes} should be"));
    }
    // A run of 128 equal bytes takes two.
    if pixels > stream.len().saturating_mul(64) {
        return Err("the RLE data are too short for the image".into());
    }
    let mut out = vec![0; pixels * voxel_bytes];
    for segment in 0..count {
        let start = word(1 + segment).ok_or("the RLE header is cut")?;
        let end = if segment + 1 < count { word(2 + segment).unwrap_or(0) } else { stream.len() };
        let bytes =
            stream.get(start.max(64)..end).ok_or("the RLE header has offsets outside the data")?;
        // The first segment has the most significant bytes.
        let column = voxel_bytes - 1 - segment;
        unpack(bytes, out.iter_mut().skip(column).step_by(voxel_bytes), pixels)
            .ok_or("the RLE data are cut")?;
    }
    Ok(out)
}

/// Unpacks one segment (PackBits); `None` when it ends before all pixels are there.
fn unpack<'a>(
    bytes: &[u8],
    mut out: impl Iterator<Item = &'a mut u8>,
    pixels: usize,
) -> Option<()> {
    let (mut at, mut left) = (0, pixels);
    while left > 0 {
        let control = *bytes.get(at)?;
        at += 1;
        match control {
            0..=127 => {
                let n = (usize::from(control) + 1).min(left);
                bytes.get(at..at + n)?.iter().zip(&mut out).for_each(|(&b, out)| *out = b);
                at += usize::from(control) + 1;
                left -= n;
            }
            129.. => {
                let n = (257 - usize::from(control)).min(left);
                let &value = bytes.get(at)?;
                out.by_ref().take(n).for_each(|out| *out = value);
                at += 1;
                left -= n;
            }
            // No operation.
            128 => {}
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the TIFF specification (revision 6, section 9), which defines PackBits.
    const PACKED: [u8; 15] =
        [0xfe, 0xaa, 0x02, 0x80, 0x00, 0x2a, 0xfd, 0xaa, 0x03, 0x80, 0x00, 0x2a, 0x22, 0xf7, 0xaa];
    const UNPACKED: [u8; 24] = [
        0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0xaa, 0xaa, 0xaa, 0xaa, 0x80, 0x00, 0x2a, 0x22, 0xaa,
        0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
    ];

    fn stream(segments: &[&[u8]]) -> Vec<u8> {
        let mut header = [0u32; 16];
        header[0] = segments.len() as u32;
        let mut offset = 64;
        for (n, segment) in segments.iter().enumerate() {
            header[n + 1] = offset;
            offset += segment.len() as u32;
        }
        header.iter().flat_map(|word| word.to_le_bytes()).chain(segments.concat()).collect()
    }

    #[test]
    fn unpacks_the_published_example_and_orders_bytes() {
        assert_eq!(decode(&stream(&[&PACKED]), 24, 1).unwrap(), UNPACKED);
        let zeros = [0xe9, 0x00];
        let wide = decode(&stream(&[&zeros, &PACKED]), 24, 2).unwrap();
        assert!(wide.chunks_exact(2).zip(UNPACKED).all(|(b, low)| b == [low, 0]));
        let high = decode(&stream(&[&PACKED, &zeros]), 24, 2).unwrap();
        assert!(high.chunks_exact(2).zip(UNPACKED).all(|(b, top)| b == [0, top]));
    }

    #[test]
    fn what_is_cut_is_refused() {
        let good = stream(&[&PACKED]);
        assert!((0..good.len()).all(|n| decode(&good[..n], 24, 1).is_err()));
        assert!(
            decode(&good, 25, 1).is_err()
                && decode(&good, 24, 2).is_err()
                && decode(&good, usize::MAX / 8, 1).is_err()
        );
    }
}
