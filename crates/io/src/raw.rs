//! An image as its file holds it: stored voxels of their own type, scaling apart, geometry in LPS
//! millimetres.

use pbt_volume::{Geometry, NotEnoughMemory, RealVolume, Volume, try_zeroed};
use rayon::prelude::*;
use std::ops::RangeInclusive;

/// Voxels converted by one task; any value gives the same result.
const CHUNK: usize = 1 << 16;

/// The type of the stored voxels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoxelType {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// IEEE 754 floating point, 32 bits.
    F32,
    /// IEEE 754 floating point, 64 bits.
    F64,
}

impl VoxelType {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F32,
        Self::F64,
    ];

    /// Bytes a voxel.
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// The linear map from stored to real values, `real = slope · stored + intercept`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Factor, finite and not zero.
    pub slope: f64,
    /// Summand, finite.
    pub intercept: f64,
}

/// An image whose voxels keep the type and the very bits of the file, so that it can be written
/// again without loss.
#[derive(Debug, Clone, PartialEq)]
pub struct RawImage {
    geometry: Geometry,
    voxel_type: VoxelType,
    /// Little-endian, i fastest.
    bytes: Vec<u8>,
    scaling: Option<Scaling>,
}

/// Calls a macro with the Rust type that stands for a [`VoxelType`].
macro_rules! for_type {
    ($voxel_type:expr, $action:ident) => {
        match $voxel_type {
            VoxelType::U8 => $action!(u8),
            VoxelType::I8 => $action!(i8),
            VoxelType::U16 => $action!(u16),
            VoxelType::I16 => $action!(i16),
            VoxelType::U32 => $action!(u32),
            VoxelType::I32 => $action!(i32),
            VoxelType::U64 => $action!(u64),
            VoxelType::I64 => $action!(i64),
            VoxelType::F32 => $action!(f32),
            VoxelType::F64 => $action!(f64),
        }
    };
}

impl RawImage {
    /// An image from its voxels, little-endian, i fastest. `None` when the number of bytes is not
    /// what shape and type ask for.
    pub fn new(
        geometry: Geometry,
        voxel_type: VoxelType,
        bytes: Vec<u8>,
        scaling: Option<Scaling>,
    ) -> Option<Self> {
        let expected = geometry.len().checked_mul(voxel_type.size())?;
        (bytes.len() == expected).then_some(Self { geometry, voxel_type, bytes, scaling })
    }

    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The type of the stored voxels.
    pub fn voxel_type(&self) -> VoxelType {
        self.voxel_type
    }

    /// The stored voxels, little-endian, i fastest.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What turns stored into real values; `None` when they are the same.
    pub fn scaling(&self) -> Option<Scaling> {
        self.scaling
    }

    /// A block of the voxels, bits as they are: `shape` of them from the voxel `first` on. A block that
    /// reaches beyond the image panics.
    pub fn part(&self, first: [usize; 3], shape: [usize; 3]) -> Self {
        let [width, height, _] = self.geometry.shape();
        let size = self.voxel_type.size();
        let mut bytes = Vec::with_capacity(shape.iter().product::<usize>() * size);
        for k in first[2]..first[2] + shape[2] {
            for j in first[1]..first[1] + shape[1] {
                let row = ((k * height + j) * width + first[0]) * size;
                bytes.extend_from_slice(&self.bytes[row..][..shape[0] * size]);
            }
        }
        let geometry = self.geometry.part(first, shape);
        Self { geometry, voxel_type: self.voxel_type, bytes, scaling: self.scaling }
    }

    /// The real values as `f32`. Scaling and wide types go through `f64` voxel by voxel, so that
    /// each value is rounded once.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn to_f32(&self) -> Result<Volume<f32>, NotEnoughMemory> {
        let out = try_zeroed(self.geometry.len())?;
        macro_rules! convert {
            ($t:ty) => {
                match self.scaling {
                    None => self.decode(|v: $t| v as f32, out),
                    Some(Scaling { slope, intercept }) => {
                        self.decode(move |v: $t| (v as f64 * slope + intercept) as f32, out)
                    }
                }
            };
        }
        let data = for_type!(self.voxel_type, convert);
        Ok(Volume::new(self.geometry.clone(), data))
    }

    /// The real values, with the stored voxels as codes where they have one or two bytes.
    ///
    /// # Errors
    /// When there is no memory for what has more.
    pub fn into_real(self) -> Result<RealVolume, NotEnoughMemory> {
        let Scaling { slope, intercept } =
            self.scaling.unwrap_or(Scaling { slope: 1.0, intercept: 0.0 });
        let real = |stored: f64| (stored * slope + intercept) as f32;
        let bytes = 0..=u8::MAX;
        let words = 0..=u16::MAX;
        let table: Vec<f32> = match self.voxel_type {
            VoxelType::U8 => bytes.map(|code| real(code.into())).collect(),
            VoxelType::I8 => bytes.map(|code| real((code as i8).into())).collect(),
            VoxelType::U16 => words.map(|code| real(code.into())).collect(),
            VoxelType::I16 => words.map(|code| real((code as i16).into())).collect(),
            _ => return Ok(self.to_f32()?.into()),
        };
        Ok(RealVolume::coded(self.geometry, self.bytes, table))
    }

    /// The real values as `f64`, i fastest. Ask [`pbt_volume::check_memory`] before.
    pub fn to_f64(&self) -> Vec<f64> {
        let out = vec![0.0; self.geometry.len()];
        let Scaling { slope, intercept } =
            self.scaling.unwrap_or(Scaling { slope: 1.0, intercept: 0.0 });
        macro_rules! convert {
            ($t:ty) => {
                self.decode(move |v: $t| v as f64 * slope + intercept, out)
            };
        }
        for_type!(self.voxel_type, convert)
    }

    /// The real values as labels of 16 bits, or the first value that is not an integer from 0 to
    /// 65535.
    pub(crate) fn to_labels(&self) -> Result<Volume<u16>, f64> {
        self.to_integers(u16::MAX.into(), |value| value as u16)
    }

    /// The real values as labels of 32 bits, or the first value that is not an integer from 0 to
    /// 2³² − 1.
    pub(crate) fn to_wide_labels(&self) -> Result<Volume<u32>, f64> {
        self.to_integers(u32::MAX, |value| value as u32)
    }

    fn to_integers<L: Copy + Default + Send + Sync>(
        &self,
        most: u32,
        label: impl Fn(f64) -> L + Copy + Sync,
    ) -> Result<Volume<L>, f64> {
        let Scaling { slope, intercept } =
            self.scaling.unwrap_or(Scaling { slope: 1.0, intercept: 0.0 });
        // Whatever has no place in 32 bits comes back as another number.
        let is_label = |value: f64| f64::from(value as u32) == value && value <= f64::from(most);
        // What each stored value is, where there are few: half of the time of reading a label map
        // would go into asking it of every voxel.
        let by_code = |codes: RangeInclusive<u16>, stored: fn(u16) -> f64| -> Vec<Result<L, f64>> {
            let real = |code| stored(code) * slope + intercept;
            codes.map(real).map(|v| if is_label(v) { Ok(label(v)) } else { Err(v) }).collect()
        };
        macro_rules! of_codes {
            ($t:ty, $codes:expr, $stored:expr) => {{
                let table = by_code($codes, $stored);
                self.convert(move |code: $t| table[usize::from(code)])
            }};
        }
        macro_rules! convert {
            ($t:ty) => {
                self.convert(move |v: $t| {
                    let v = v as f64 * slope + intercept;
                    if is_label(v) { Ok(label(v)) } else { Err(v) }
                })
            };
        }
        let (bytes, words) = (0..=u16::from(u8::MAX), 0..=u16::MAX);
        match self.voxel_type {
            VoxelType::U8 => of_codes!(u8, bytes, |code| code.into()),
            VoxelType::I8 => of_codes!(u8, bytes, |code| (code as u8 as i8).into()),
            VoxelType::U16 => of_codes!(u16, words, |code| code.into()),
            VoxelType::I16 => of_codes!(u16, words, |code| (code as i16).into()),
            wide => for_type!(wide, convert),
        }
    }

    /// Every voxel through `f`, or the first that it refuses.
    fn convert<T: FromLeBytes, L: Copy + Default + Send>(
        &self,
        f: impl Fn(T) -> Result<L, f64> + Sync,
    ) -> Result<Volume<L>, f64> {
        let mut out = vec![L::default(); self.geometry.len()];
        let stored = self.bytes.par_chunks(CHUNK * size_of::<T>());
        let odd = out.par_chunks_mut(CHUNK).zip(stored).find_map_first(|(out, stored)| {
            let stored = stored.chunks_exact(size_of::<T>()).map(T::from_le_slice);
            out.iter_mut().zip(stored).find_map(|(out, stored)| match f(stored) {
                Ok(label) => {
                    *out = label;
                    None
                }
                Err(value) => Some(value),
            })
        });
        odd.map_or_else(|| Ok(Volume::new(self.geometry.clone(), out)), Err)
    }

    /// Every voxel through `f` into `out`, which has as many places.
    fn decode<T: FromLeBytes, U: Copy + Send>(
        &self,
        f: impl Fn(T) -> U + Sync,
        mut out: Vec<U>,
    ) -> Vec<U> {
        let stored = self.bytes.par_chunks(CHUNK * self.voxel_type.size());
        out.par_chunks_mut(CHUNK).zip(stored).for_each(|(out, stored)| {
            for (out, bytes) in out.iter_mut().zip(stored.chunks_exact(size_of::<T>())) {
                *out = f(T::from_le_slice(bytes));
            }
        });
        out
    }
}

/// Brings voxels to little-endian in place.
pub(crate) fn swap_bytes(bytes: &mut [u8], voxel_size: usize) {
    if voxel_size > 1 {
        bytes
            .par_chunks_mut(CHUNK * voxel_size)
            .for_each(|chunk| chunk.chunks_exact_mut(voxel_size).for_each(<[u8]>::reverse));
    }
}

/// A number from its little-endian bytes.
trait FromLeBytes {
    /// `bytes` has the size of the type.
    fn from_le_slice(bytes: &[u8]) -> Self;
}

macro_rules! impl_from_le {
    ($($t:ty)*) => {$(
        impl FromLeBytes for $t {
            // Of a single byte the compiler made a call each.
            #[inline(always)]
            fn from_le_slice(bytes: &[u8]) -> Self {
                let mut array = [0; size_of::<$t>()];
                array.copy_from_slice(bytes);
                <$t>::from_le_bytes(array)
            }
        }
    )*};
}
impl_from_le!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);

#[cfg(test)]
mod tests {
    use super::*;

    fn image(voxel_type: VoxelType, bytes: Vec<u8>, scaling: Option<Scaling>) -> RawImage {
        let n = bytes.len() / voxel_type.size();
        RawImage::new(Geometry::isotropic([n, 1, 1], 1.0).unwrap(), voxel_type, bytes, scaling)
            .unwrap()
    }

    #[test]
    fn wide_integers_keep_their_precision_under_scaling() {
        // Through f32, 16 777 217 would become 16 777 216 before the offset brings it back to a
        // small number.
        let bytes: Vec<u8> =
            [16_777_217i32, 16_777_219].iter().flat_map(|v| v.to_le_bytes()).collect();
        let scaling = Some(Scaling { slope: 1.0, intercept: -16_777_216.0 });
        assert_eq!(image(VoxelType::I32, bytes, scaling).to_f32().unwrap().data(), [1.0, 3.0]);
    }

    #[test]
    fn labels_are_small_integers() {
        let of = |values: &[f64]| {
            image(VoxelType::F64, values.iter().flat_map(|v| v.to_le_bytes()).collect(), None)
                .to_labels()
        };
        assert_eq!(of(&[0.0, 3.0, 65535.0]).unwrap().data(), [0, 3, 65535]);
        assert_eq!(of(&[1.0, 2.5]).unwrap_err(), 2.5);
        assert!(of(&[f64::NAN]).unwrap_err().is_nan());
        assert_eq!(of(&[-1.0]).unwrap_err(), -1.0);
        assert_eq!(of(&[65536.0]).unwrap_err(), 65536.0);
        let narrow = |voxel_type, bytes: &[u8], slope| {
            let scaling = Some(Scaling { slope, intercept: 1.0 });
            image(voxel_type, bytes.to_vec(), scaling).to_labels().map(|v| v.into_data())
        };
        assert_eq!(narrow(VoxelType::U8, &[0, 7, 255], 2.0), Ok(vec![1, 15, 511]));
        assert_eq!(narrow(VoxelType::I8, &[0, 255, 254, 253], 1.0), Err(-1.0));
        assert_eq!(narrow(VoxelType::I16, &[255, 255, 3, 1], 1.0), Ok(vec![0, 260]));
        assert_eq!(narrow(VoxelType::U16, &[1, 0, 3, 0], 0.5), Err(1.5));
        let wide = |value: f64| {
            image(VoxelType::F64, value.to_le_bytes().to_vec(), None)
                .to_wide_labels()
                .map(|v| v.data()[0])
        };
        assert_eq!(wide(4_294_967_295.0), Ok(u32::MAX));
        assert_eq!(wide(4_294_967_296.0), Err(4_294_967_296.0));
        assert_eq!(wide(-1.0), Err(-1.0));
    }

    #[test]
    fn byte_order_is_reversed_within_each_voxel() {
        let mut bytes = vec![1, 2, 3, 4];
        swap_bytes(&mut bytes, 2);
        assert_eq!(bytes, [2, 1, 4, 3]);
    }
}
