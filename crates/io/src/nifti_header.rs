//! The fields of a NIfTI-1 or NIfTI-2 header that place and scale a volume, and the checks that
//! they must pass.
//!
//! NIfTI-1 headers are decoded by the crate `nifti`; its traps are guarded here: it guesses the
//! byte order from `dim[0]`, reads dimensions as unsigned, panics on a negative `pixdim`, and lets
//! a NaN slope through. NIfTI-2, which it does not know, differs only in the widths and the order
//! of the fields (<https://nifti.nimh.nih.gov/pub/dist/doc/nifti2.h>).

use crate::IoError;
use crate::raw::{Scaling, VoxelType};
use nalgebra::{Matrix3, Matrix4, Quaternion, UnitQuaternion, Vector3};
use nifti::{Endianness, NiftiHeader, NiftiType};
use pbt_volume::{Geometry, GeometryError};
use std::path::Path;

/// Bytes of the longer header (NIfTI-2); NIfTI-1 has 348.
pub(crate) const MAX_HEADER_BYTES: usize = 540;

/// A decoded header, both versions.
#[derive(Debug)]
pub(crate) struct Header {
    /// Whether the voxels are in the same file (magic `n+1`), not in an `.img` file beside it
    /// (`ni1`).
    pub(crate) single_file: bool,
    pub(crate) big_endian: bool,
    header_bytes: usize,
    dim: [i64; 8],
    datatype: i16,
    pixdim: [f64; 8],
    vox_offset: f64,
    scl_slope: f64,
    scl_inter: f64,
    units: i32,
    qform_code: i32,
    sform_code: i32,
    /// `quatern_b`, `quatern_c`, `quatern_d`.
    quatern: [f64; 3],
    /// `qoffset_x`, `qoffset_y`, `qoffset_z`.
    qoffset: [f64; 3],
    /// `srow_x`, `srow_y`, `srow_z`.
    srow: [[f64; 4]; 3],
}

fn bad(path: &Path, field: impl Into<String>, problem: impl Into<String>) -> IoError {
    IoError::input(path, field, problem, "repair the header or export the volume again")
}

impl Header {
    /// Decodes the first bytes of a file.
    pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, IoError> {
        let Some(&size) = bytes.first_chunk::<4>() else {
            return Err(bad(
                path,
                "sizeof_hdr",
                format!("the file holds only {} bytes", bytes.len()),
            ));
        };
        match (i32::from_le_bytes(size), i32::from_be_bytes(size)) {
            (348, _) => Self::parse_1(path, bytes, false),
            (_, 348) => Self::parse_1(path, bytes, true),
            (540, _) => Self::parse_2(path, bytes, false),
            (_, 540) => Self::parse_2(path, bytes, true),
            (other, _) => Err(bad(
                path,
                "sizeof_hdr",
                format!("is {other}, not 348 or 540: this is no NIfTI file"),
            )),
        }
    }

    fn parse_1(path: &Path, bytes: &[u8], big_endian: bool) -> Result<Self, IoError> {
        let Some(bytes) = bytes.get(..348) else {
            return Err(bad(path, "header", format!("is cut after {} of 348 bytes", bytes.len())));
        };
        let signed = |at: usize| {
            let two = [bytes[at], bytes[at + 1]];
            i64::from(if big_endian { i16::from_be_bytes(two) } else { i16::from_le_bytes(two) })
        };
        let dim: [i64; 8] = std::array::from_fn(|a| signed(40 + 2 * a));
        if !(1..=7).contains(&dim[0]) {
            return Err(bad(path, "dim[0]", format!("is {}, not 1 to 7", dim[0])));
        }
        if &bytes[344..348] != b"n+1\0" && &bytes[344..348] != b"ni1\0" {
            return Err(bad(
                path,
                "magic",
                "is neither n+1 nor ni1: this is no NIfTI file (ANALYZE 7.5 has no reliable orientation)",
            ));
        }
        let h = NiftiHeader::from_reader(bytes)
            .map_err(|error| bad(path, "header", format!("cannot be decoded: {error}")))?;
        // With dim[0] from 1 to 7 in the order that sizeof_hdr states, the crate's own guess of the
        // byte order must be the same.
        if (h.endianness == Endianness::Big) != big_endian {
            return Err(bad(path, "sizeof_hdr", "and dim[0] disagree about the byte order"));
        }
        let wide = |row: [f32; 4]| row.map(f64::from);
        Ok(Self {
            single_file: &h.magic == b"n+1\0",
            big_endian,
            header_bytes: 348,
            dim,
            datatype: h.datatype,
            pixdim: h.pixdim.map(f64::from),
            vox_offset: h.vox_offset.into(),
            scl_slope: h.scl_slope.into(),
            scl_inter: h.scl_inter.into(),
            units: h.xyzt_units.into(),
            qform_code: h.qform_code.into(),
            sform_code: h.sform_code.into(),
            quatern: [h.quatern_b, h.quatern_c, h.quatern_d].map(f64::from),
            qoffset: [h.quatern_x, h.quatern_y, h.quatern_z].map(f64::from),
            srow: [wide(h.srow_x), wide(h.srow_y), wide(h.srow_z)],
        })
    }

    fn parse_2(path: &Path, bytes: &[u8], big_endian: bool) -> Result<Self, IoError> {
        let Some(bytes) = bytes.get(..540) else {
            return Err(bad(path, "header", format!("is cut after {} of 540 bytes", bytes.len())));
        };
        let field = Fields { bytes, big_endian };
        let magic = &bytes[4..12];
        if magic != b"n+2\0\r\n\x1a\n" && magic != b"ni2\0\r\n\x1a\n" {
            return Err(bad(
                path,
                "magic",
                "is neither n+2 nor ni2, or the file was changed by a text transfer",
            ));
        }
        let dim: [i64; 8] = std::array::from_fn(|a| i64::from_le_bytes(field.at(16 + 8 * a)));
        if !(1..=7).contains(&dim[0]) {
            return Err(bad(path, "dim[0]", format!("is {}, not 1 to 7", dim[0])));
        }
        Ok(Self {
            single_file: magic[1] == b'+',
            big_endian,
            header_bytes: 540,
            dim,
            datatype: i16::from_le_bytes(field.at(12)),
            pixdim: std::array::from_fn(|a| field.f64(104 + 8 * a)),
            vox_offset: i64::from_le_bytes(field.at(168)) as f64,
            scl_slope: field.f64(176),
            scl_inter: field.f64(184),
            units: i32::from_le_bytes(field.at(500)),
            qform_code: i32::from_le_bytes(field.at(344)),
            sform_code: i32::from_le_bytes(field.at(348)),
            quatern: std::array::from_fn(|a| field.f64(352 + 8 * a)),
            qoffset: std::array::from_fn(|a| field.f64(376 + 8 * a)),
            srow: std::array::from_fn(|row| {
                std::array::from_fn(|column| field.f64(400 + 32 * row + 8 * column))
            }),
        })
    }

    /// Number of volumes one after the other.
    pub(crate) fn time_points(&self) -> usize {
        if self.dim[0] >= 4 { usize::try_from(self.dim[4]).unwrap_or(0).max(1) } else { 1 }
    }

    /// Number of voxels along i, j, k.
    pub(crate) fn shape(&self, path: &Path) -> Result<[usize; 3], IoError> {
        let rank = self.dim[0] as usize;
        for a in 1..=rank {
            if self.dim[a] < 1 {
                return Err(bad(
                    path,
                    format!("dim[{a}]"),
                    format!("is {}, not at least 1", self.dim[a]),
                ));
            }
        }
        for a in 5..=rank {
            if self.dim[a] > 1 {
                let problem = format!("has {} components a voxel; one is needed", self.dim[a]);
                return Err(IoError::input(
                    path,
                    format!("dim[{a}]"),
                    problem,
                    "extract one component",
                ));
            }
        }
        Ok([1, 2, 3].map(|a| if a <= rank { self.dim[a] as usize } else { 1 }))
    }

    /// The type of the stored voxels.
    pub(crate) fn voxel_type(&self, path: &Path) -> Result<VoxelType, IoError> {
        // The crate knows the list of codes (nifti1.h, "NIFTI_TYPE_…"); its parser of one value
        // needs a whole header.
        let header = NiftiHeader { datatype: self.datatype, ..NiftiHeader::default() };
        let refuse = |what: &str, advice: &str| {
            Err(IoError::input(path, "datatype", format!("{} {what}", self.datatype), advice))
        };
        match header.data_type() {
            Ok(NiftiType::Uint8) => Ok(VoxelType::U8),
            Ok(NiftiType::Int8) => Ok(VoxelType::I8),
            Ok(NiftiType::Uint16) => Ok(VoxelType::U16),
            Ok(NiftiType::Int16) => Ok(VoxelType::I16),
            Ok(NiftiType::Uint32) => Ok(VoxelType::U32),
            Ok(NiftiType::Int32) => Ok(VoxelType::I32),
            Ok(NiftiType::Uint64) => Ok(VoxelType::U64),
            Ok(NiftiType::Int64) => Ok(VoxelType::I64),
            Ok(NiftiType::Float32) => Ok(VoxelType::F32),
            Ok(NiftiType::Float64) => Ok(VoxelType::F64),
            Ok(NiftiType::Rgb24 | NiftiType::Rgba32) => {
                refuse("is colour; one value a voxel is needed", "convert to grey values")
            }
            Ok(NiftiType::Complex64 | NiftiType::Complex128 | NiftiType::Complex256) => {
                refuse("is complex; one real value a voxel is needed", "export the magnitude")
            }
            Ok(NiftiType::Float128) => refuse(
                "is 128-bit floating point, which is not supported",
                "convert to float32 or float64",
            ),
            Err(_) => {
                refuse("is no NIfTI data type", "repair the header or export the volume again")
            }
        }
    }

    /// Where the voxels start in their file.
    pub(crate) fn voxel_offset(&self, path: &Path) -> Result<usize, IoError> {
        let first = if self.single_file { self.header_bytes + 4 } else { 0 };
        let offset = self.vox_offset;
        // Some writers leave the offset of a single file at 0 and mean "right after the header";
        // nibabel reads them so, too.
        if offset == 0.0 {
            return Ok(first);
        }
        if !(offset >= first as f64 && offset <= 1e15 && offset.fract() == 0.0) {
            return Err(bad(
                path,
                "vox_offset",
                format!("is {offset}, not a whole number from {first} on"),
            ));
        }
        Ok(offset as usize)
    }

    /// The linear map of the stored values. A slope that is 0 or not finite means "none", as in
    /// nibabel.
    pub(crate) fn scaling(&self, path: &Path) -> Result<Option<Scaling>, IoError> {
        if self.scl_slope == 0.0
            || !self.scl_slope.is_finite()
            || (self.scl_slope, self.scl_inter) == (1.0, 0.0)
        {
            return Ok(None);
        }
        if !self.scl_inter.is_finite() {
            return Err(bad(
                path,
                "scl_inter",
                format!("is {} with a slope of {}", self.scl_inter, self.scl_slope),
            ));
        }
        Ok(Some(Scaling { slope: self.scl_slope, intercept: self.scl_inter }))
    }

    /// Shape and placement in LPS millimetres. The sform counts when it is there, else the qform,
    /// else the spacing alone.
    pub(crate) fn geometry(
        &self,
        path: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<Geometry, IoError> {
        let shape = self.shape(path)?;
        for a in 1..=3usize.min(self.dim[0] as usize) {
            let pixdim = self.pixdim[a];
            // Widened from 32 bits, a number would be shown with digits that the file does not
            // hold.
            let shown = pixdim as f32;
            if pixdim == 0.0 || !pixdim.is_finite() {
                return Err(bad(path, format!("pixdim[{a}]"), format!("the spacing is {shown}")));
            }
            if pixdim < 0.0 {
                let (field, problem) =
                    (format!("pixdim[{a}]"), format!("the spacing is {shown}, below zero"));
                if self.sform_code <= 0 {
                    // Some programs take the sign for a mirrored axis, others drop it: to choose
                    // would be to guess left and right.
                    return Err(bad(path, field, problem));
                }
                warnings
                    .push(format!("{field}: {problem}; the sform is used, which does not need it"));
            }
        }
        let (field, ras) = if self.sform_code > 0 {
            let [x, y, z] = self.srow;
            let sform = Matrix4::from_row_slice(&[x, y, z, [0.0, 0.0, 0.0, 1.0]].concat());
            if self.qform_code > 0 {
                self.compare_forms(path, shape, &sform, warnings);
            }
            ("sform", sform)
        } else if self.qform_code > 0 {
            ("qform", self.qform(path)?)
        } else {
            warnings.push("sform_code, qform_code: both are 0, so orientation and position are unknown; a left-to-right mirrored grid around the origin is taken, as nibabel does".into());
            ("pixdim", self.spacing_only(shape))
        };
        let to_mm = match self.units & 7 {
            1 => 1e3,
            3 => 1e-3,
            // 2 is mm. 0 is "unknown"; every reader takes mm.
            0 | 2 => 1.0,
            other => {
                warnings.push(format!(
                    "xyzt_units: the unit of length {other} is not defined; mm is taken"
                ));
                1.0
            }
        };
        let ras_to_lps =
            Matrix4::from_diagonal(&nalgebra::Vector4::new(-to_mm, -to_mm, to_mm, 1.0));
        Geometry::from_affine(shape, &(ras_to_lps * ras)).map_err(|error| {
            let field =
                if matches!(error, GeometryError::EmptyShape(_) | GeometryError::TooLarge(_)) {
                    "dim"
                } else {
                    field
                };
            bad(path, field, error.to_string())
        })
    }

    /// Says when the two placements of a file differ: programs that prefer the other one will see
    /// the volume elsewhere.
    fn compare_forms(
        &self,
        path: &Path,
        shape: [usize; 3],
        sform: &Matrix4<f64>,
        warnings: &mut Vec<String>,
    ) {
        let Ok(qform) = self.qform(path) else {
            warnings.push("qform: is no rotation; the sform is used".into());
            return;
        };
        let far = nalgebra::Vector4::new(
            shape[0] as f64 - 1.0,
            shape[1] as f64 - 1.0,
            shape[2] as f64 - 1.0,
            0.0,
        );
        let corner = |n: usize| {
            nalgebra::Vector4::from_fn(
                |a, _| if a == 3 { 1.0 } else { far[a] * (n >> a & 1) as f64 },
            )
        };
        let apart = (0..8).map(|n| ((qform - sform) * corner(n)).norm()).fold(0.0, f64::max);
        // The quaternion's fourth part is made from three f32 parts; near a half turn it is off by
        // up to √ε, and the angle by twice that.
        let spacing = (1..=3).map(|a| self.step(a).abs()).fold(f64::INFINITY, f64::min);
        if apart > 0.1 * spacing + 1e-3 * (sform * far).norm() {
            warnings.push(format!("qform: places the volume up to {apart:.3} (header units) from where the sform does; the sform is used"));
        }
    }

    /// Index to RAS by the quaternion, "method 2" of nifti1.h.
    fn qform(&self, path: &Path) -> Result<Matrix4<f64>, IoError> {
        let qfac = match self.pixdim[0] {
            -1.0 => -1.0,
            // nifti1.h: "if qfac is 0, set it to 1".
            0.0 | 1.0 => 1.0,
            other => return Err(bad(path, "pixdim[0]", format!("qfac is {other}, not 1 or -1"))),
        };
        let [b, c, d] = self.quatern;
        let w2 = 1.0 - (b * b + c * c + d * d);
        // The three stored parts are f32, so a half turn may come out slightly longer than 1.
        if w2.is_nan() || w2 < -1e-3 {
            let [b, c, d] = self.quatern.map(|part| part as f32);
            return Err(bad(
                path,
                "quatern_b, quatern_c, quatern_d",
                format!("({b}, {c}, {d}) is no part of a unit quaternion"),
            ));
        }
        let rotation = UnitQuaternion::new_normalize(Quaternion::new(w2.max(0.0).sqrt(), b, c, d))
            .to_rotation_matrix();
        let steps = Vector3::new(self.step(1), self.step(2), self.step(3) * qfac);
        let matrix: Matrix3<f64> = rotation.into_inner() * Matrix3::from_diagonal(&steps);
        Ok(affine(&matrix, &Vector3::from(self.qoffset)))
    }

    /// Index to RAS from the spacing alone: x mirrored and the middle of the volume at the origin,
    /// as nibabel's `get_base_affine`.
    fn spacing_only(&self, shape: [usize; 3]) -> Matrix4<f64> {
        let matrix =
            Matrix3::from_diagonal(&Vector3::new(-self.step(1), self.step(2), self.step(3)));
        let middle = Vector3::from(shape.map(|n| (n as f64 - 1.0) / 2.0));
        affine(&matrix, &-(matrix * middle))
    }

    /// Spacing along axis `a` (1 to 3); axes that the volume does not have may hold anything.
    fn step(&self, a: usize) -> f64 {
        if a as i64 <= self.dim[0] { self.pixdim[a] } else { 1.0 }
    }
}

fn affine(matrix: &Matrix3<f64>, origin: &Vector3<f64>) -> Matrix4<f64> {
    let mut affine = matrix.to_homogeneous();
    affine.fixed_view_mut::<3, 1>(0, 3).copy_from(origin);
    affine
}

/// Fields of a NIfTI-2 header by their offset.
struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl Fields<'_> {
    /// `N` bytes at `offset`, brought to little-endian. Offsets are constants within the 540 bytes.
    fn at<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut field: [u8; N] = std::array::from_fn(|n| self.bytes[offset + n]);
        if self.big_endian {
            field.reverse();
        }
        field
    }

    fn f64(&self, offset: usize) -> f64 {
        f64::from_le_bytes(self.at(offset))
    }
}
