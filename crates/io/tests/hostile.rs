//! Files made to do harm: small ones that would grow without end, names that lead elsewhere,
//! lengths that lie.

#[path = "support/dicom.rs"]
#[allow(dead_code, reason = "not every test makes every file")]
mod made;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use pbt_io::read_image;
use std::io::{Cursor, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;

fn refusal(path: &Path) -> String {
    let error = read_image(path).expect_err("must be refused");
    assert!(error.is_input(), "{error}");
    error.to_string()
}

fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in entries {
        writer.start_file(*name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

#[test]
fn archives_that_grow_lead_elsewhere_or_lie_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        refusal(&path)
    };
    let grid = made::dose_grid();
    assert!(read_zip(&path, &zip(&[("deep/er/grid", &grid), ("notes.txt", b"x")])).is_ok());
    // 100 MB of zeros behind the mark of DICOM take 100 kB.
    let mut bomb = grid.clone();
    bomb.resize(100 << 20, 0);
    assert!(read(&zip(&[("grid", &bomb)])).contains("would grow to"));
    for name in ["../grid", "/etc/grid", "a/../../grid"] {
        let text = read(&zip(&[(name, &grid)]));
        assert!(text.contains("leads out"), "{name}: {text}");
    }
    assert!(!folder.path().parent().unwrap().join("grid").exists());
    // One byte of the content changed: the checksum says so.
    let mut damaged = zip(&[("grid", &grid)]);
    let at = 30 + "grid".len() + 60;
    damaged[at] ^= 0x10;
    assert!(read(&damaged).contains("zip"), "{}", refusal(&path));
    // An archive in an archive is no DICOM.
    let inner = zip(&[("grid", &grid)]);
    assert!(read(&zip(&[("inner.zip", &inner)])).contains("holds no DICOM"));
}

fn read_zip(path: &Path, bytes: &[u8]) -> Result<(), pbt_io::IoError> {
    std::fs::write(path, bytes).unwrap();
    read_image(path).map(drop)
}

#[test]
fn a_deflated_data_set_that_grows_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&made::element(0x0009, 0x0010, "OB", &vec![0; 100 << 20])).unwrap();
    let mut file = made::file("1.2.840.10008.1.2.1.99", &[]);
    file.extend(encoder.finish().unwrap());
    std::fs::write(&path, file).unwrap();
    assert!(refusal(&path).contains("grows beyond"));
}

#[test]
fn sizes_that_the_file_cannot_hold_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.dcm");
    let good = made::dose_grid();
    for (tag, value) in [([0x28, 0, 0x10, 0], [0xff, 0xff]), ([0x28, 0, 0x11, 0], [0xff, 0xff])] {
        let mut bad = good.clone();
        let at = good.windows(4).position(|bytes| bytes == tag).unwrap() + 8;
        bad[at..at + 2].copy_from_slice(&value);
        std::fs::write(&path, bad).unwrap();
        let text = refusal(&path);
        assert!(text.contains("(7FE0,0010) PixelData") && text.contains("120 bytes"), "{text}");
    }
    // A compressed image of 65535 x 65535 x 5 that takes some bytes.
    let fragments: Vec<u8> = (0..6)
        .flat_map(|_| [0xfe, 0xff, 0x00, 0xe0, 0, 0, 0, 0])
        .chain([0xfe, 0xff, 0xdd, 0xe0, 0, 0, 0, 0])
        .collect();
    let start = good.windows(4).position(|bytes| bytes == [0xe0, 0x7f, 0x10, 0]).unwrap();
    let mut bad = good[..start].to_vec();
    for tag in [[0x28, 0, 0x10, 0], [0x28, 0, 0x11, 0]] {
        let at = bad.windows(4).position(|bytes| bytes == tag).unwrap() + 8;
        bad[at..at + 2].copy_from_slice(&[0xff, 0xff]);
    }
    bad.extend([0xe0, 0x7f, 0x10, 0, b'O', b'B', 0, 0, 0xff, 0xff, 0xff, 0xff]);
    bad.extend(fragments);
    std::fs::write(&path, bad).unwrap();
    assert!(refusal(&path).contains("(7FE0,0010) PixelData"), "{}", refusal(&path));
}
