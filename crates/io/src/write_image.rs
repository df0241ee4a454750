//! Writing images: NIfTI-1 (`.nii`, `.nii.gz`), MetaImage (`.mha`, `.mhd`) and NRRD (`.nrrd`,
//! `.nhdr`), voxels and affine as they are.

use crate::file_names::ends_with_extension;
use crate::raw::{RawImage, Scaling, VoxelType};
use crate::{IoError, write_atomically};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use nalgebra::{Matrix3, Rotation3, UnitQuaternion, Vector3};
use pbt_volume::check_memory;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

/// The extensions of formats that are written.
const WRITTEN: [&str; 6] = ["nii", "nii.gz", "mha", "mhd", "nrrd", "nhdr"];

/// Whether a file's extension is that of a format that [`write_image`] writes.
pub fn is_written(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    WRITTEN.iter().any(|extension| ends_with_extension(&name, extension))
}

/// Writes an image in the format that the file's extension names. The voxel type and its bits are
/// kept, compressed in `.nii.gz`, `.mha` and `.nrrd`; `.mhd` and `.nhdr` are headers whose voxels
/// go into a `.raw` file of the same name beside them. NIfTI keeps a scaling, as `f32`; the other two
/// formats have no field for it, so scaled voxels become `f64` there, and in NIfTI where `f32` would make
/// a number of the scaling 0 or infinite.
///
/// NIfTI-1 stores the affine as `f32` (an affine that was read from such a file is written bit for
/// bit); the other formats keep `f64`.
///
/// # Errors
/// [`IoError`] (an output error) when the extension is another one, when a dimension does not fit
/// the format (NIfTI-1: at most 32767), or when the file cannot be written; an older file of that
/// name is then untouched.
pub fn write_image(path: &Path, image: &RawImage) -> Result<(), IoError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is = |extension| ends_with_extension(&name, extension);
    if is("nii") || is("nii.gz") {
        let image = &*with_storable_scaling(path, image)?;
        let header = nifti_header(path, image)?;
        if is("nii") {
            return write_atomically(path, |writer| write_both(writer, &header, image.bytes()));
        }
        return write_atomically(path, |writer| {
            let mut encoder = GzEncoder::new(writer, Compression::default());
            write_both(&mut encoder, &header, image.bytes())?;
            encoder.finish().map(drop)
        });
    }
    let (voxel_type, bytes) = real_voxels(path, image)?;
    if is("mhd") || is("nhdr") {
        let data = path.with_extension("raw");
        // Readers take some characters in the name of a data file for more than a name.
        let data_name = data
            .file_name()
            .and_then(|name| name.to_str())
            .filter(|name| !name.contains(['%', '\\']) && name.trim() == *name);
        let Some(data_name) = data_name else {
            return Err(IoError::unwritable(
                path,
                "file",
                "has a name that a header cannot hold",
                "leave out % and blanks at the ends",
            ));
        };
        let header = if is("mhd") {
            metaimage_header(image, voxel_type, None, data_name)
        } else {
            nrrd_header(image, voxel_type, Some(data_name), &[])
        };
        write_atomically(&data, |writer| writer.write_all(&bytes))?;
        return write_atomically(path, |writer| writer.write_all(header.as_bytes()));
    }
    if is("mha") {
        // MetaImage states the compressed size before the data, so that is made first.
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        let compressed = encoder
            .write_all(&bytes)
            .and_then(|()| encoder.finish())
            .map_err(|error| IoError::output(path, &error))?;
        let header = metaimage_header(image, voxel_type, Some(compressed.len()), "LOCAL");
        return write_atomically(path, |writer| write_both(writer, header.as_bytes(), &compressed));
    }
    if is("nrrd") {
        return write_nrrd(path, image, &[]);
    }
    Err(IoError::unwritable(
        path,
        "file",
        "has no extension of a format that can be written",
        "use .nii, .nii.gz, .mha, .mhd, .nrrd or .nhdr",
    ))
}

/// NIfTI's intent code of label maps (nifti1.h, `NIFTI_INTENT_LABEL`).
const INTENT_LABEL: i16 = 1002;

/// Writes `.nii.gz` whose header says that the voxels are labels.
pub(crate) fn write_label_nifti(path: &Path, image: &RawImage) -> Result<(), IoError> {
    let mut header = nifti_header(path, image)?;
    header[68..70].copy_from_slice(&INTENT_LABEL.to_le_bytes());
    write_atomically(path, |writer| {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        write_both(&mut encoder, &header, image.bytes())?;
        encoder.finish().map(drop)
    })
}

/// Writes `.nii.gz` with a fourth axis: the image, and the bytes of others like it.
pub(crate) fn write_nifti_volumes<B: AsRef<[u8]>>(
    path: &Path,
    image: &RawImage,
    rest: impl ExactSizeIterator<Item = B>,
) -> Result<(), IoError> {
    let mut header = nifti_header(path, image)?;
    let count = 1 + rest.len();
    let count = i16::try_from(count).map_err(|_| {
        let what = format!("{count} volumes are more than NIfTI-1's 32767");
        IoError::unwritable(path, "dim[4]", what, "write fewer")
    })?;
    // dim[0] and dim[4], and a step of 1 along the fourth axis.
    header[40..42].copy_from_slice(&4i16.to_le_bytes());
    header[48..50].copy_from_slice(&count.to_le_bytes());
    header[92..96].copy_from_slice(&1f32.to_le_bytes());
    write_atomically(path, |writer| {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        write_both(&mut encoder, &header, image.bytes())?;
        for bytes in rest {
            encoder.write_all(bytes.as_ref())?;
        }
        encoder.finish().map(drop)
    })
}

fn write_both(writer: &mut impl Write, header: &[u8], voxels: &[u8]) -> io::Result<()> {
    writer.write_all(header)?;
    writer.write_all(voxels)
}

/// A field that means something to one application and nothing to others.
pub(crate) type KeyValue = (String, String);

/// Writes `.nrrd`, gzip-compressed, with further fields.
pub(crate) fn write_nrrd(
    path: &Path,
    image: &RawImage,
    fields: &[KeyValue],
) -> Result<(), IoError> {
    let (voxel_type, bytes) = real_voxels(path, image)?;
    let header = nrrd_header(image, voxel_type, None, fields);
    write_atomically(path, |writer| {
        writer.write_all(header.as_bytes())?;
        let mut encoder = GzEncoder::new(writer, Compression::default());
        encoder.write_all(&bytes)?;
        encoder.finish().map(drop)
    })
}

/// The voxels with their scaling applied.
fn real_voxels<'a>(
    path: &Path,
    image: &'a RawImage,
) -> Result<(VoxelType, Cow<'a, [u8]>), IoError> {
    if image.scaling().is_none() {
        return Ok((image.voxel_type(), Cow::Borrowed(image.bytes())));
    }
    // The values, and their bytes.
    let bytes = 2 * size_of::<f64>() as u64 * image.geometry().len() as u64;
    check_memory(bytes).map_err(|error| IoError::memory(path, &error))?;
    Ok((VoxelType::F64, image.to_f64().iter().flat_map(|v| v.to_le_bytes()).collect()))
}

/// Whether NIfTI-1 can hold a scaling, whose numbers it rounds to `f32`: none may become 0, which says
/// that there is no scaling, or infinite.
pub fn fits_nifti(scaling: Scaling) -> bool {
    [scaling.slope, scaling.intercept].into_iter().all(|number| {
        let stored = number as f32;
        stored.is_finite() && (stored != 0.0 || number == 0.0)
    })
}

/// The image as NIfTI-1 can hold it.
fn with_storable_scaling<'a>(
    path: &Path,
    image: &'a RawImage,
) -> Result<Cow<'a, RawImage>, IoError> {
    if image.scaling().is_none_or(fits_nifti) {
        return Ok(Cow::Borrowed(image));
    }
    let (voxel_type, bytes) = real_voxels(path, image)?;
    let real = RawImage::new(image.geometry().clone(), voxel_type, bytes.into_owned(), None);
    let odd =
        || IoError::unwritable(path, "voxels", "are not as many as its shape says", "write .nrrd");
    real.map(Cow::Owned).ok_or_else(odd)
}

/// The 348 bytes of a little-endian header and four that say "no extension" (nifti1.h). The sform
/// holds the affine; the qform says the same where the axes are orthogonal, for readers that look
/// there first.
fn nifti_header(path: &Path, image: &RawImage) -> Result<[u8; 352], IoError> {
    let geometry = image.geometry();
    let mut header = [0; 352];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &348i32.to_le_bytes());
    let mut dim = [3i16, 1, 1, 1, 1, 1, 1, 1];
    for (a, n) in geometry.shape().into_iter().enumerate() {
        dim[a + 1] = i16::try_from(n).map_err(|_| {
            IoError::unwritable(
                path,
                format!("dim[{}]", a + 1),
                format!("{n} voxels are more than NIfTI-1's 32767"),
                "write .mha or .nrrd",
            )
        })?;
    }
    let floats = |values: &[f64]| -> Vec<u8> {
        values.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect()
    };
    put(40, &dim.map(i16::to_le_bytes).concat());
    let (datatype, bits) =
        (nifti_datatype(image.voxel_type()), 8 * image.voxel_type().size() as i16);
    put(70, &[datatype.to_le_bytes(), bits.to_le_bytes()].concat());

    let lps_to_ras = Matrix3::from_diagonal(&Vector3::new(-1.0, -1.0, 1.0));
    let (matrix, origin) =
        (lps_to_ras * geometry.matrix(), lps_to_ras * geometry.origin().0.coords);
    let spacing_mm = geometry.spacing_mm();
    let qform = quaternion(&matrix, spacing_mm);
    let qfac = qform.map_or(1.0, |(_, qfac)| qfac);
    put(76, &floats(&[qfac, spacing_mm[0], spacing_mm[1], spacing_mm[2], 0.0, 0.0, 0.0, 0.0]));
    put(108, &352f32.to_le_bytes());
    let Scaling { slope, intercept } =
        image.scaling().unwrap_or(Scaling { slope: 1.0, intercept: 0.0 });
    put(112, &floats(&[slope, intercept]));
    // 2: millimetres.
    put(123, &[2]);
    // 1: scanner coordinates, the least specific code that says "real".
    put(254, &1i16.to_le_bytes());
    if let Some((rotation, _)) = qform {
        put(252, &1i16.to_le_bytes());
        put(256, &floats(&[rotation.i, rotation.j, rotation.k, origin.x, origin.y, origin.z]));
    }
    for row in 0..3 {
        put(
            280 + 16 * row,
            &floats(&[matrix[(row, 0)], matrix[(row, 1)], matrix[(row, 2)], origin[row]]),
        );
    }
    put(344, b"n+1\0");
    Ok(header)
}

/// The rotation (w ≥ 0) and `qfac` of a step matrix; `None` when its axes are not orthogonal.
fn quaternion(matrix: &Matrix3<f64>, spacing_mm: [f64; 3]) -> Option<(UnitQuaternion<f64>, f64)> {
    let mut axes = matrix * Matrix3::from_diagonal(&Vector3::from(spacing_mm.map(|s| 1.0 / s)));
    if (axes.transpose() * axes - Matrix3::identity()).abs().max() > 1e-5 {
        return None;
    }
    let qfac = axes.determinant().signum();
    axes.column_mut(2).scale_mut(qfac);
    let rotation = UnitQuaternion::from_rotation_matrix(&Rotation3::from_matrix_unchecked(axes));
    Some((pbt_volume::positive(rotation), qfac))
}

fn nifti_datatype(voxel_type: VoxelType) -> i16 {
    use nifti::NiftiType;
    (match voxel_type {
        VoxelType::U8 => NiftiType::Uint8,
        VoxelType::I8 => NiftiType::Int8,
        VoxelType::U16 => NiftiType::Uint16,
        VoxelType::I16 => NiftiType::Int16,
        VoxelType::U32 => NiftiType::Uint32,
        VoxelType::I32 => NiftiType::Int32,
        VoxelType::U64 => NiftiType::Uint64,
        VoxelType::I64 => NiftiType::Int64,
        VoxelType::F32 => NiftiType::Float32,
        VoxelType::F64 => NiftiType::Float64,
    }) as i16
}

/// `compressed` is the number of bytes that the voxels take where they are compressed.
fn metaimage_header(
    image: &RawImage,
    voxel_type: VoxelType,
    compressed: Option<usize>,
    data_file: &str,
) -> String {
    let geometry = image.geometry();
    let spacing_mm = geometry.spacing_mm();
    let directions =
        geometry.matrix() * Matrix3::from_diagonal(&Vector3::from(spacing_mm.map(|s| 1.0 / s)));
    let element = match voxel_type {
        VoxelType::U8 => "MET_UCHAR",
        VoxelType::I8 => "MET_CHAR",
        VoxelType::U16 => "MET_USHORT",
        VoxelType::I16 => "MET_SHORT",
        VoxelType::U32 => "MET_UINT",
        VoxelType::I32 => "MET_INT",
        VoxelType::U64 => "MET_ULONG_LONG",
        VoxelType::I64 => "MET_LONG_LONG",
        VoxelType::F32 => "MET_FLOAT",
        VoxelType::F64 => "MET_DOUBLE",
    };
    let compression = match compressed {
        Some(size) => format!("CompressedData = True\nCompressedDataSize = {size}\n"),
        None => "CompressedData = False\n".to_owned(),
    };
    let [transform, offset, spacing] =
        [directions.as_slice(), geometry.origin().0.coords.as_slice(), &spacing_mm].map(joined);
    format!(
        "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n{compression}\
         TransformMatrix = {transform}\nOffset = {offset}\nCenterOfRotation = 0 0 0\nElementSpacing = {spacing}\nDimSize = {}\n\
         ElementType = {element}\nElementDataFile = {data_file}\n",
        joined(&geometry.shape())
    )
}

/// With a data file the voxels are raw in it, else they follow compressed.
fn nrrd_header(
    image: &RawImage,
    voxel_type: VoxelType,
    data_file: Option<&str>,
    fields: &[KeyValue],
) -> String {
    let geometry = image.geometry();
    let element = match voxel_type {
        VoxelType::U8 => "uint8",
        VoxelType::I8 => "int8",
        VoxelType::U16 => "uint16",
        VoxelType::I16 => "int16",
        VoxelType::U32 => "uint32",
        VoxelType::I32 => "int32",
        VoxelType::U64 => "uint64",
        VoxelType::I64 => "int64",
        VoxelType::F32 => "float",
        VoxelType::F64 => "double",
    };
    let encoding = match data_file {
        Some(name) => format!("encoding: raw\ndata file: {name}\n"),
        None => "encoding: gzip\n".to_owned(),
    };
    // A line break would end the value.
    let field = |(key, value): &KeyValue| {
        format!("{key}:={}\n", value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', " "))
    };
    let fields: String = fields.iter().map(field).collect();
    let vector = |v: &[f64]| format!("({},{},{})", v[0], v[1], v[2]);
    let directions: Vec<String> =
        geometry.matrix().column_iter().map(|c| vector(c.as_slice())).collect();
    format!(
        "NRRD0004\ntype: {element}\ndimension: 3\nspace: left-posterior-superior\nsizes: {}\nspace directions: {}\nkinds: domain domain domain\n\
         endian: little\nspace origin: {}\n{encoding}{fields}\n",
        joined(&geometry.shape()),
        directions.join(" "),
        vector(geometry.origin().0.coords.as_slice())
    )
}

/// Numbers with blanks between; `{}` prints the shortest text that reads back as the same number.
fn joined<T: std::fmt::Display>(values: &[T]) -> String {
    values.iter().enumerate().fold(String::new(), |mut text, (n, value)| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{value}", if n == 0 { "" } else { " " });
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_raw;
    use pbt_volume::{Geometry, PointLps};
    use proptest::prelude::*;

    #[test]
    fn other_extensions_and_too_long_rows_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let image = RawImage::new(
            Geometry::isotropic([40_000, 1, 1], 1.0).unwrap(),
            VoxelType::U8,
            vec![0; 40_000],
            None,
        )
        .unwrap();
        for (name, field) in [("a.nii", "dim[1]"), ("a.png", "file"), ("nii", "file")] {
            let error = write_image(&folder.path().join(name), &image).unwrap_err();
            assert!(!error.is_input() && error.field() == field, "{error}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_f32_cannot_hold_of_a_scaling_is_in_the_voxels() {
        let geometry = Geometry::isotropic([2, 1, 1], 1.0).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.nii");
        for (slope, intercept, voxel_type) in [
            (1e-46, 0.0, VoxelType::F64),
            (1e39, 0.0, VoxelType::F64),
            (1.0, 1e39, VoxelType::F64),
            (0.1, -3.0, VoxelType::U8),
        ] {
            let scaling = Some(Scaling { slope, intercept });
            let image =
                RawImage::new(geometry.clone(), VoxelType::U8, vec![2, 7], scaling).unwrap();
            write_image(&path, &image).unwrap();
            let again = read_raw(&path).unwrap().raw;
            assert_eq!(again.voxel_type(), voxel_type, "{slope}");
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-7 * b.abs();
            assert!(again.to_f64().iter().zip(&image.to_f64()).all(close), "{slope}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn what_is_written_is_read(
            shape in prop::array::uniform3(1usize..6), steps in prop::array::uniform9(-3.0f64..3.0), origin in prop::array::uniform3(-80.0f64..80.0),
            kind in 0usize..10, seed in prop::array::uniform32(any::<u8>()), scaled in any::<bool>(),
        ) {
            let matrix = Matrix3::from_row_slice(&steps);
            prop_assume!(matrix.determinant().abs() > 0.05);
            let geometry = Geometry::new(shape, matrix, PointLps::new(origin[0], origin[1], origin[2])).unwrap();
            let voxel_type = VoxelType::ALL[kind];
            let bytes: Vec<u8> = seed.iter().copied().cycle().take(geometry.len() * voxel_type.size()).collect();
            let scaling = scaled.then_some(Scaling { slope: 0.25, intercept: -3.0 });
            let image = RawImage::new(geometry, voxel_type, bytes, scaling).unwrap();
            let folder = tempfile::tempdir().unwrap();
            for name in ["a.nii", "a.nii.gz", "a.mha", "a.nrrd", "a.mhd", "a.nhdr"] {
                let path = folder.path().join(name);
                write_image(&path, &image).unwrap();
                let again = read_raw(&path).unwrap();
                prop_assert!(again.warnings.is_empty());
                let exact = if name.contains("nii") { 1e-5 } else { 1e-13 };
                prop_assert!((again.raw.geometry().affine() - image.geometry().affine()).abs().max() < exact);
                if name.contains("nii") || !scaled {
                    prop_assert_eq!(again.raw.voxel_type(), voxel_type);
                    prop_assert_eq!(again.raw.bytes(), image.bytes());
                    prop_assert_eq!(again.raw.scaling(), scaling);
                } else {
                    let bits = |image: &RawImage| -> Vec<u64> { image.to_f64().iter().map(|v| v.to_bits()).collect() };
                    prop_assert_eq!(bits(&again.raw), bits(&image));
                }
            }
        }

        #[test]
        fn an_orthogonal_qform_says_the_same_as_the_sform(
            v in prop::array::uniform3(-1.8f64..1.8), spacing_mm in prop::array::uniform3(0.2f64..4.0), mirrored in any::<bool>(),
        ) {
            let rotation = pbt_volume::rotation_from_vector(Vector3::from(v)).to_rotation_matrix().into_inner();
            let mirror = if mirrored { -1.0 } else { 1.0 };
            let matrix = rotation * Matrix3::from_diagonal(&Vector3::new(spacing_mm[0], spacing_mm[1], mirror * spacing_mm[2]));
            let geometry = Geometry::new([2, 2, 2], matrix, PointLps::new(4.0, 5.0, 6.0)).unwrap();
            let image = RawImage::new(geometry, VoxelType::U8, vec![1; 8], None).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.nii");
            write_image(&path, &image).unwrap();
            // Without its sform code the file must mean the same.
            let mut file = std::fs::read(&path).unwrap();
            file[254] = 0;
            std::fs::write(&path, file).unwrap();
            let again = read_raw(&path).unwrap();
            // The file holds three f32 components of the quaternion; a reader finds the fourth as
            // √(1 − b² − c² − d²) (nifti1.h, METHOD 2). Near a half turn it is small and off by up
            // to √ε, and with it the angle by 2√ε.
            let allowed = 1e-5 + 2.0 * f64::from(f32::EPSILON).sqrt() * spacing_mm.into_iter().fold(0.0, f64::max);
            prop_assert!((again.raw.geometry().affine() - image.geometry().affine()).abs().max() < allowed);
        }
    }
}
