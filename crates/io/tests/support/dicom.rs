//! DICOM files made by hand, little-endian.

/// Explicit value representations.
pub(crate) const EXPLICIT: &str = "1.2.840.10008.1.2.1";
/// Implicit value representations.
pub(crate) const IMPLICIT: &str = "1.2.840.10008.1.2";

/// An element of a data set of this transfer syntax.
fn element_in(transfer_syntax: &str, group: u16, number: u16, vr: &str, value: &[u8]) -> Vec<u8> {
    if transfer_syntax != IMPLICIT {
        return element(group, number, vr, value);
    }
    let padding = if value.len() % 2 == 1 { &b" "[..] } else { &[] };
    let length = (value.len() + padding.len()) as u32;
    [&group.to_le_bytes()[..], &number.to_le_bytes(), &length.to_le_bytes(), value, padding]
        .concat()
}

/// An element with explicit value representation.
pub(crate) fn element(group: u16, number: u16, vr: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = [&group.to_le_bytes()[..], &number.to_le_bytes(), vr.as_bytes()].concat();
    let padded = value.len() + value.len() % 2;
    if matches!(vr, "OB" | "OW" | "SQ") {
        bytes.extend([0, 0]);
        bytes.extend((padded as u32).to_le_bytes());
    } else {
        bytes.extend((padded as u16).to_le_bytes());
    }
    bytes.extend(value);
    bytes.resize(bytes.len() + padded - value.len(), b' ');
    bytes
}

/// A file of this transfer syntax with these elements, which must be in the order of their tags.
pub(crate) fn file(transfer_syntax: &str, elements: &[(u16, u16, &str, &[u8])]) -> Vec<u8> {
    let mut file = vec![0; 128];
    file.extend(b"DICM");
    file.extend(element(0x0002, 0x0010, "UI", transfer_syntax.as_bytes()));
    elements.iter().for_each(|&(group, number, vr, value)| {
        file.extend(element_in(transfer_syntax, group, number, vr, value))
    });
    file
}

/// Decimal strings, which have at most 16 characters each.
pub(crate) fn decimals(values: &[f64]) -> Vec<u8> {
    let texts: Vec<String> =
        values.iter().map(|v| format!("{v:.12}").chars().take(16).collect()).collect();
    texts.join("\\").into_bytes()
}

/// A slice of a series: 16-bit pixels of `columns` x `rows`.
pub(crate) fn slice(
    instance: usize,
    position: &[f64],
    orientation: &[f64],
    spacing: &[f64],
    [columns, rows]: [u16; 2],
    pixels: &[u8],
) -> Vec<u8> {
    let (uid, number) = (format!("1.2.3.{instance}"), instance.to_string());
    file(
        EXPLICIT,
        &[
            (0x0008, 0x0018, "UI", uid.as_bytes()),
            (0x0008, 0x0060, "CS", b"CT"),
            (0x0020, 0x000e, "UI", b"1.2.4"),
            (0x0020, 0x0013, "IS", number.as_bytes()),
            (0x0020, 0x0032, "DS", &decimals(position)),
            (0x0020, 0x0037, "DS", &decimals(orientation)),
            (0x0028, 0x0002, "US", &1u16.to_le_bytes()),
            (0x0028, 0x0004, "CS", b"MONOCHROME2"),
            (0x0028, 0x0010, "US", &rows.to_le_bytes()),
            (0x0028, 0x0011, "US", &columns.to_le_bytes()),
            (0x0028, 0x0030, "DS", &decimals(spacing)),
            (0x0028, 0x0100, "US", &16u16.to_le_bytes()),
            (0x0028, 0x0101, "US", &16u16.to_le_bytes()),
            (0x0028, 0x0102, "US", &15u16.to_le_bytes()),
            (0x0028, 0x0103, "US", &1u16.to_le_bytes()),
            (0x7fe0, 0x0010, "OW", pixels),
        ],
    )
}

/// A dose grid of 4 x 3 x 5 voxels, with a sequence: a whole volume in one small file.
pub(crate) fn dose_grid() -> Vec<u8> {
    dose_grid_in(EXPLICIT)
}

/// The same in this transfer syntax.
pub(crate) fn dose_grid_in(transfer_syntax: &str) -> Vec<u8> {
    let item = element_in(transfer_syntax, 0x0008, 0x1155, "UI", b"1.2.3");
    let sequence =
        [&[0xfe, 0xff, 0x00, 0xe0][..], &(item.len() as u32).to_le_bytes(), &item].concat();
    file(
        transfer_syntax,
        &[
            (0x0008, 0x0016, "UI", b"1.2.840.10008.5.1.4.1.1.481.2"),
            (0x0008, 0x0060, "CS", b"RTDOSE"),
            (0x0008, 0x1140, "SQ", &sequence),
            (0x0010, 0x0010, "PN", b"A^B"),
            (0x0020, 0x000e, "UI", b"1.2.4"),
            (0x0020, 0x0032, "DS", b"-10\\20\\30.5"),
            (0x0020, 0x0037, "DS", b"1\\0\\0\\0\\1\\0"),
            (0x0028, 0x0002, "US", &1u16.to_le_bytes()),
            (0x0028, 0x0004, "CS", b"MONOCHROME2"),
            (0x0028, 0x0008, "IS", b"5"),
            (0x0028, 0x0010, "US", &3u16.to_le_bytes()),
            (0x0028, 0x0011, "US", &4u16.to_le_bytes()),
            (0x0028, 0x0030, "DS", b"2\\3"),
            (0x0028, 0x0100, "US", &16u16.to_le_bytes()),
            (0x0028, 0x0101, "US", &12u16.to_le_bytes()),
            (0x0028, 0x0102, "US", &11u16.to_le_bytes()),
            (0x0028, 0x0103, "US", &0u16.to_le_bytes()),
            (0x3004, 0x000c, "DS", b"0\\4\\8\\12\\16"),
            (0x3004, 0x000e, "DS", b"0.5"),
            (0x7fe0, 0x0010, "OW", &(0..120).collect::<Vec<u8>>()),
        ],
    )
}
