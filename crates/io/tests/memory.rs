//! Files of ten megabytes made to take gigabytes: whatever they hold, reading one takes at most
//! twice its size and 64 MiB.

#[path = "support/dicom.rs"]
#[allow(dead_code, reason = "not every test makes every file")]
mod made;

use made::{EXPLICIT, IMPLICIT};
use pbt_io::read_image;

const SIZE: usize = 10 << 20;
const MAX_FRAMES: usize = 1 << 16;

/// A line of the process's status in bytes; `None` where there is no such file.
fn status_bytes(key: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? << 10)
}

/// The head of an element with implicit value representation.
fn implicit(group: u16, element: u16, length: usize) -> Vec<u8> {
    [&group.to_le_bytes()[..], &element.to_le_bytes(), &(length as u32).to_le_bytes()].concat()
}

/// Elements of a file of frames of one pixel, up to the pixel data.
fn frames(count: usize) -> Vec<(u16, u16, Vec<u8>)> {
    let short = |value: u16| value.to_le_bytes().to_vec();
    vec![
        (0x0020, 0x0032, b"0\\0\\0 ".to_vec()),
        (0x0020, 0x0037, b"1\\0\\0\\0\\1\\0 ".to_vec()),
        (0x0028, 0x0002, short(1)),
        (0x0028, 0x0008, format!("{count:010}").into_bytes()),
        (0x0028, 0x0010, short(1)),
        (0x0028, 0x0011, short(1)),
        (0x0028, 0x0030, b"1\\1 ".to_vec()),
        (0x0028, 0x0100, short(8)),
        (0x0028, 0x0101, short(8)),
        (0x0028, 0x0102, short(7)),
        (0x0028, 0x0103, short(0)),
    ]
}

fn write_implicit(elements: &[(u16, u16, Vec<u8>)]) -> Vec<u8> {
    let mut file = made::file(IMPLICIT, &[]);
    for (group, element, value) in elements {
        file.extend(implicit(*group, *element, value.len()));
        file.extend(value);
    }
    file
}

/// A dose grid of so many frames.
fn dose_grid(count: usize) -> Vec<u8> {
    let mut elements = frames(count);
    let offsets: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    elements.push((0x3004, 0x000c, offsets.join("\\").into_bytes()));
    elements.push((0x3004, 0x000e, b"1 ".to_vec()));
    elements.push((0x7fe0, 0x0010, vec![0; count]));
    write_implicit(&elements)
}

fn many_frames() -> Vec<u8> {
    dose_grid(SIZE / 8)
}

/// Functional groups for as many frames, all empty.
fn many_groups() -> Vec<u8> {
    let count = SIZE / 9;
    let mut elements = frames(count);
    elements.push((0x5200, 0x9230, [0xfe, 0xff, 0x00, 0xe0, 0, 0, 0, 0].repeat(count)));
    elements.push((0x7fe0, 0x0010, vec![0; count]));
    write_implicit(&elements)
}

/// One text of backslashes.
fn many_texts() -> Vec<u8> {
    write_implicit(&[(0x0008, 0x0008, vec![b'\\'; SIZE])])
}

/// Elements without a value.
fn many_elements() -> Vec<u8> {
    let mut file = made::file(IMPLICIT, &[]);
    (0..SIZE / 8)
        .for_each(|n| file.extend(implicit(0x0018 + 8 * (n >> 16) as u16 % 3, n as u16, 0)));
    file
}

/// Compressed pixels in fragments without a byte.
fn many_fragments() -> Vec<u8> {
    let mut file = made::file(EXPLICIT, &[]);
    file.extend([0xe0, 0x7f, 0x10, 0, b'O', b'B', 0, 0, 0xff, 0xff, 0xff, 0xff]);
    file.extend([0xfe, 0xff, 0x00, 0xe0, 0, 0, 0, 0].repeat(SIZE / 8));
    file.extend([0xfe, 0xff, 0xdd, 0xe0, 0, 0, 0, 0]);
    file
}

/// An archive whose directory has nothing but entries.
fn many_entries() -> Vec<u8> {
    let count = SIZE / 46;
    let entry = [&b"PK\x01\x02"[..], &[0; 42]].concat();
    let mut file = entry.repeat(count);
    let size = (file.len() as u32).to_le_bytes();
    file.extend([&b"PK\x05\x06"[..], &[0; 4], &[0xff; 4], &size, &[0; 6]].concat());
    file
}

/// Makes the bytes of a file.
type Make = fn() -> Vec<u8>;

#[test]
fn memory_is_what_the_file_justifies() {
    let folder = tempfile::tempdir().unwrap();
    let files: [(&str, &str, Make); 7] = [
        ("texts.dcm", "more elements than", many_texts),
        ("elements.dcm", "more elements than", many_elements),
        ("groups.dcm", "more elements than", many_groups),
        ("frames.dcm", "more elements than", many_frames),
        ("fragments.dcm", "more fragments than", many_fragments),
        ("entries.zip", "more than 100000 entries", many_entries),
        // As many frames as a file may have, each one pixel.
        ("most.dcm", "", || dose_grid(MAX_FRAMES)),
    ];
    let sizes = files.map(|(name, _, make)| {
        let file = make();
        std::fs::write(folder.path().join(name), &file).unwrap();
        file.len()
    });
    for ((name, refusal, _), size) in files.into_iter().zip(sizes) {
        let before = status_bytes("VmRSS:");
        match read_image(&folder.path().join(name)) {
            Ok(image) => assert!(
                refusal.is_empty() && image.volume.shape() == [1, 1, MAX_FRAMES],
                "{name} is read"
            ),
            Err(error) => {
                assert!(!refusal.is_empty() && error.to_string().contains(refusal), "{error}")
            }
        }
        if let (Some(before), Some(most)) = (before, status_bytes("VmHWM:")) {
            println!("{name}: {} MiB for {} MiB", most.saturating_sub(before) >> 20, size >> 20);
            assert!(most < before + 2 * size + (64 << 20), "{name}: {} MiB", (most - before) >> 20);
        }
    }
}
