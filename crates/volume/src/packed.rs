//! Bricks of voxels in as few bits as their range takes: air takes none, and the noise of an image half
//! of what its type has.

/// Voxels along the edge of a brick.
pub(crate) const EDGE: usize = 16;

/// Appends a brick: its least value, the bits of the differences from that, and these, one after the
/// other from the lowest bit on, in whole bytes.
pub(crate) fn pack(values: &[u16], to: &mut Vec<u8>) {
    let (mut low, mut high) = (u16::MAX, 0);
    for &value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    let bits = 16 - (high.saturating_sub(low)).leading_zeros();
    to.extend(low.to_le_bytes());
    to.push(bits as u8);
    if bits == 0 {
        return;
    }
    let (mut word, mut filled) = (0u64, 0);
    for &value in values {
        word |= u64::from(value - low) << filled;
        filled += bits;
        if filled >= 32 {
            to.extend((word as u32).to_le_bytes());
            word >>= 32;
            filled -= 32;
        }
    }
    to.extend(&word.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// The values of a packed brick, in the place of what is in `to`. What is no brick gives any values.
pub(crate) fn unpack(bytes: &[u8], to: &mut [u16]) {
    let &[a, b, bits, ref packed @ ..] = bytes else { return to.fill(0) };
    let (low, bits) = (u16::from_le_bytes([a, b]), u32::from(bits.min(16)));
    let (mut word, mut filled) = (0u64, 0);
    let mask = (1u64 << bits) - 1;
    let mut words = packed.chunks(4);
    for value in to {
        if filled < bits {
            let mut next = [0; 4];
            if let Some(chunk) = words.next() {
                next[..chunk.len()].copy_from_slice(chunk);
            }
            word |= u64::from(u32::from_le_bytes(next)) << filled;
            filled += 32;
        }
        *value = low.wrapping_add((word & mask) as u16);
        word >>= bits;
        filled -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(
            low in 0u16..60_000, bits in 0u32..17, values in prop::collection::vec(any::<u16>(), 0..300),
        ) {
            let range = ((1u32 << bits) - 1).min(u32::from(u16::MAX - low)) + 1;
            let values: Vec<u16> = values.iter().map(|&v| low + (u32::from(v) % range) as u16).collect();
            let mut packed = vec![7; 5];
            pack(&values, &mut packed);
            prop_assert!(packed.len() <= 5 + 3 + (values.len() * bits as usize).div_ceil(8));
            let mut back = vec![1; values.len()];
            unpack(&packed[5..], &mut back);
            prop_assert_eq!(back, values);
        }

        #[test]
        fn what_is_no_brick_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            unpack(&bytes, &mut [0; 100]);
        }
    }
}
