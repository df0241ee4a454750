//! Voxels out of the bytes of a file: inflated within bounds that are known before anything is
//! allocated.

use crate::IoError;
use flate2::bufread::{GzDecoder, ZlibDecoder};
use pbt_volume::NotEnoughMemory;
use std::io::{self, Read};
use std::path::Path;

/// Deflate turns one byte into at most 1032 (a match of 258 bytes takes two bits), so a stream's
/// size bounds what it can hold.
const MAX_DEFLATE_RATIO: usize = 1032;

/// How far past the wanted bytes a compressed stream is followed to reach its checksum.
const MAX_TRAILER_BYTES: u64 = 16 << 20;

/// The compression of a stream of voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zlib,
}

impl Compression {
    /// Gzip when the bytes start as gzip does: a file's name may say anything.
    pub(crate) fn of_file(bytes: &[u8]) -> Self {
        if bytes.starts_with(&[0x1f, 0x8b]) { Self::Gzip } else { Self::None }
    }
}

/// At most `limit` bytes from the start of a stream; fewer when it is shorter. For headers, which
/// are small.
pub(crate) fn start_of(
    bytes: &[u8],
    compression: Compression,
    limit: usize,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    match compression {
        Compression::None => out.extend_from_slice(&bytes[..limit.min(bytes.len())]),
        Compression::Gzip => {
            GzDecoder::new(bytes).take(limit as u64).read_to_end(&mut out)?;
        }
        Compression::Zlib => {
            ZlibDecoder::new(bytes).take(limit as u64).read_to_end(&mut out)?;
        }
    }
    Ok(out)
}

/// Whether a (compressed) stream of `length` bytes can hold `size` bytes from `offset` on. Sizes
/// come from headers and may be absurd: what the file cannot hold is refused before memory is asked
/// for.
pub(crate) fn check_capacity(
    path: &Path,
    length: usize,
    compression: Compression,
    offset: usize,
    size: usize,
) -> Result<usize, IoError> {
    let capacity = match compression {
        Compression::None => length,
        _ => length.saturating_mul(MAX_DEFLATE_RATIO),
    };
    offset.checked_add(size).filter(|&end| end <= capacity).ok_or_else(|| {
        let problem = format!(
            "the header asks for {size} bytes from byte {offset} on, the file can hold {capacity}"
        );
        IoError::input(
            path,
            "voxel data",
            problem,
            "the file is cut or its header wrong; copy or export it again",
        )
    })
}

/// Exactly `size` bytes that start at `offset` in the (inflated) stream. A compressed stream's
/// checksum is verified, so that damaged voxels are not taken for real ones.
pub(crate) fn voxel_bytes(
    path: &Path,
    bytes: &[u8],
    compression: Compression,
    offset: usize,
    size: usize,
) -> Result<Vec<u8>, IoError> {
    let end = check_capacity(path, bytes.len(), compression, offset, size)?;
    let mut out = Vec::new();
    if compression == Compression::None {
        out.try_reserve_exact(size).map_err(|_| not_enough(path, size))?;
        out.extend_from_slice(&bytes[offset..end]);
        return Ok(out);
    }
    out.try_reserve_exact(end).map_err(|_| not_enough(path, end))?;
    inflate(bytes, compression, end, &mut out).map_err(|error| {
        IoError::input(
            path,
            "voxel data",
            format!("cannot be inflated: {error}"),
            "copy or export it again",
        )
    })?;
    if out.len() < end {
        let problem = format!(
            "the header asks for {size} bytes, {} are there",
            out.len().saturating_sub(offset)
        );
        return Err(IoError::input(
            path,
            "voxel data",
            problem,
            "the file is cut or its header wrong; copy or export it again",
        ));
    }
    out.drain(..offset);
    Ok(out)
}

/// Appends at most `end` bytes to `out`, then follows the stream to its checksum.
fn inflate(
    bytes: &[u8],
    compression: Compression,
    end: usize,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if compression == Compression::Zlib {
        let mut decoder = ZlibDecoder::new(bytes);
        (&mut decoder).take(end as u64).read_to_end(out)?;
        return io::copy(&mut decoder.take(MAX_TRAILER_BYTES), &mut io::sink()).map(drop);
    }
    // A gzip file may be several members in a row (bgzip); what follows the last one is padding, as
    // gzip itself treats it.
    let mut rest = bytes;
    while out.len() < end && rest.starts_with(&[0x1f, 0x8b]) {
        let mut decoder = GzDecoder::new(rest);
        (&mut decoder).take((end - out.len()) as u64).read_to_end(out)?;
        io::copy(&mut (&mut decoder).take(MAX_TRAILER_BYTES), &mut io::sink())?;
        rest = decoder.into_inner();
    }
    Ok(())
}

fn not_enough(path: &Path, bytes: usize) -> IoError {
    IoError::memory(path, &NotEnoughMemory { asked: bytes as u64, limit: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn take(bytes: &[u8], offset: usize, size: usize) -> Result<Vec<u8>, IoError> {
        voxel_bytes(Path::new("f"), bytes, Compression::of_file(bytes), offset, size)
    }

    #[test]
    fn takes_the_part_asked_for_across_members_and_before_padding() {
        let content: Vec<u8> = (0..200).collect();
        let mut file = [gzip(&content[..120]), gzip(&content[120..])].concat();
        file.extend([0; 7]);
        assert_eq!(take(&file, 50, 100).unwrap(), &content[50..150]);
        assert_eq!(take(&content, 50, 100).unwrap(), &content[50..150]);
    }

    #[test]
    fn refuses_what_is_absurd_cut_or_damaged() {
        let file = gzip(&[7; 5000]);
        assert!(take(&file, 0, 5000).is_ok());
        assert!(take(&file, 0, 5001).unwrap_err().to_string().contains("5000 are there"));
        assert!(take(&file, 0, 1 << 45).unwrap_err().to_string().contains("can hold"));
        assert!(take(&file, usize::MAX, 2).is_err());
        assert!(take(&file[..file.len() - 12], 0, 5000).is_err());
        let mut damaged = file.clone();
        let crc = damaged.len() - 6;
        damaged[crc] ^= 1;
        assert!(
            take(&damaged, 0, 10).is_err(),
            "the checksum is verified even when only a part is wanted"
        );
    }
}
