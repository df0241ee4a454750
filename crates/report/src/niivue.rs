//! NiiVue, the viewer of volumes that a page can carry: its script, as published, and its licences.

use crate::encode::base64;

/// `dist/niivue.umd.js` of `@niivue/niivue` 0.69.0, compressed; `vendor/README.md` says where it comes
/// from.
const SCRIPT: &[u8] = include_bytes!("../vendor/niivue-0.69.0.umd.js.gz");

/// SHA-256 of that script, not compressed. A browser runs no other: it is part of the page's policy.
const SHA256: [u8; 32] = [
    0x47, 0xb8, 0x96, 0xb7, 0x7e, 0xc4, 0xa5, 0xbe, 0x3e, 0xf1, 0x94, 0x9c, 0x33, 0xad, 0x39, 0x3b,
    0x6f, 0x45, 0x62, 0x99, 0x21, 0xf3, 0x26, 0xc2, 0x79, 0x00, 0x0b, 0xcf, 0x51, 0xbd, 0xb4, 0xaf,
];

/// What a page that carries the script must say of it and of what is in it.
pub(crate) const LICENCES: &str = include_str!("../vendor/LICENCES.txt");

/// The compressed script in base 64.
pub(crate) fn packed_script() -> String {
    base64(SCRIPT)
}

/// Length of [`packed_script`].
pub(crate) const fn packed_length() -> usize {
    SCRIPT.len().div_ceil(3) * 4
}

/// The script's SHA-256 in base 64, as a page's policy has it.
pub(crate) fn script_hash() -> String {
    base64(&SHA256)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use pbt_volume::sha256;
    use std::io::Read;

    #[test]
    fn the_script_is_the_one_that_was_published() {
        let mut script = Vec::new();
        GzDecoder::new(SCRIPT).read_to_end(&mut script).unwrap();
        assert_eq!(sha256(&[&script]), SHA256);
        assert_eq!(packed_script().len(), packed_length());
    }

    #[test]
    fn its_licences_stand_in_the_list_of_third_parties() {
        let listed = include_str!("../../../THIRD_PARTY.md");
        for text in [include_str!("../vendor/README.md"), listed] {
            assert!(text.contains("@niivue/niivue") && text.contains("0.69.0"));
        }
        let (_, licences) = LICENCES.split_once("BSD 2-Clause License").unwrap();
        let (niivue, _) = licences.split_once("\n\n====").unwrap();
        assert!(listed.contains(niivue));
    }
}
