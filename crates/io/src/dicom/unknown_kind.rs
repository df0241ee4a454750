//! Elements whose value representation a writer did not know (UN): read by that of the dictionary.
//!
//! Systems that pass a file on write UN where they do not know an element (PS3.5, section 6.2.2). Its
//! bytes are those of implicit little endian, so that nothing is lost.

use dicom_core::dictionary::DataDictionaryEntry;
use dicom_core::dictionary::VirtualVr;
use dicom_core::header::DataElementHeader;
use dicom_core::{DataDictionary, PrimitiveValue, VR};
use dicom_dictionary_std::StandardDataDictionary;

/// The kind and value of an element of unknown kind, where the dictionary knows a text or a number.
pub(super) fn known_kind(header: DataElementHeader, bytes: &[u8]) -> Option<(VR, PrimitiveValue)> {
    if header.vr != VR::UN {
        return None;
    }
    let VirtualVr::Exact(vr) = StandardDataDictionary.by_tag(header.tag)?.vr() else {
        return None;
    };
    let value = match vr {
        VR::AE
        | VR::AS
        | VR::CS
        | VR::DA
        | VR::DS
        | VR::DT
        | VR::IS
        | VR::LO
        | VR::PN
        | VR::SH
        | VR::TM
        | VR::UI => {
            let text = std::str::from_utf8(bytes).ok()?;
            let parts = text.split('\\').map(|part| part.trim_matches(['\0', ' ']).to_owned());
            PrimitiveValue::Strs(parts.collect())
        }
        VR::US => PrimitiveValue::U16(numbers(bytes, u16::from_le_bytes)?.into()),
        VR::SS => PrimitiveValue::I16(numbers(bytes, i16::from_le_bytes)?.into()),
        VR::UL => PrimitiveValue::U32(numbers(bytes, u32::from_le_bytes)?.into()),
        VR::SL => PrimitiveValue::I32(numbers(bytes, i32::from_le_bytes)?.into()),
        VR::FL => PrimitiveValue::F32(numbers(bytes, f32::from_le_bytes)?.into()),
        VR::FD => PrimitiveValue::F64(numbers(bytes, f64::from_le_bytes)?.into()),
        _ => return None,
    };
    Some((vr, value))
}

/// A whole number of numbers.
fn numbers<T, const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (whole, []) = bytes.as_chunks::<N>() else { return None };
    Some(whole.iter().map(|&number| read(number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use dicom_core::{Length, Tag};

    fn known(tag: Tag, bytes: &[u8]) -> Option<(VR, PrimitiveValue)> {
        let length = Length(bytes.len() as u32);
        known_kind(DataElementHeader { tag, vr: VR::UN, len: length }, bytes)
    }

    #[test]
    fn texts_and_numbers_are_read() {
        let (vr, spacing) = known(Tag(0x0028, 0x0030), b"0.5\\0.25 ").unwrap();
        assert_eq!((vr, spacing.to_multi_float64().unwrap()), (VR::DS, vec![0.5, 0.25]));
        let (vr, rows) = known(Tag(0x0028, 0x0010), &[2, 1]).unwrap();
        assert_eq!((vr, rows.to_int::<i32>().unwrap()), (VR::US, 258));
        assert_eq!(known(Tag(0x0028, 0x0010), &[2, 1, 0]), None);
        assert_eq!(known(Tag(0x0029, 0x1010), b"private"), None);
    }
}
