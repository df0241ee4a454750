//! The seal of a model file: a digest of all its other bytes in the card, so that no change of a
//! single bit goes unnoticed. It guards against accidents; whoever means to can seal a changed file
//! again.

use sha2::{Digest, Sha256};
use std::ops::Range;

/// What stands in the place of the seal while it is computed: as many characters as a SHA-256 has
/// hexadecimal digits.
pub(crate) const BLANK: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The card's key as it stands in the file: JSON within a JSON string.
const MARK: &[u8] = b"\\\"seal\\\":\\\"";

/// Puts the seal in the place of the blank; `None` when there is none.
pub(crate) fn seal(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let place = place(&bytes)?;
    let digest = digest(&bytes, &place);
    bytes[place].copy_from_slice(digest.as_bytes());
    Some(bytes)
}

/// Whether the seal is there and right.
pub(crate) fn is_intact(bytes: &[u8]) -> bool {
    place(bytes).is_some_and(|place| digest(bytes, &place).as_bytes() == &bytes[place])
}

fn place(bytes: &[u8]) -> Option<Range<usize>> {
    let start = bytes.windows(MARK.len()).position(|w| w == MARK)? + MARK.len();
    let end = start + BLANK.len();
    (end <= bytes.len()).then_some(start..end)
}

fn digest(bytes: &[u8], place: &Range<usize>) -> String {
    let mut hash = Sha256::new();
    hash.update(&bytes[..place.start]);
    hash.update(BLANK);
    hash.update(&bytes[place.end..]);
    pbt_volume::hex(&hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_breaks_the_seal() {
        let file = format!(
            r#"{{"pbt":"{{\"format_version\":1,\"seal\":\"{BLANK}\",\"name\":\"x\"}}"}}tables"#
        )
        .into_bytes();
        assert!(!is_intact(&file));
        let sealed = seal(file).unwrap();
        assert!(is_intact(&sealed));
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << bit;
                assert!(!is_intact(&changed), "byte {at}, bit {bit}");
            }
            assert!(!is_intact(&sealed[..at]));
        }
        assert!(seal(b"no card".to_vec()).is_none());
    }
}
