//! SHA-256 (FIPS 180-4), by which files and models are named in results.

use sha2::{Digest, Sha256};

/// SHA-256 of some buffers one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// The same in lower-case hexadecimal.
pub fn sha256_hex(parts: &[&[u8]]) -> String {
    hex(&sha256(parts))
}

/// Bytes in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first example of FIPS 180-4.
    #[test]
    fn the_published_example() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_hex(&[b"a", b"bc"]), expected);
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
