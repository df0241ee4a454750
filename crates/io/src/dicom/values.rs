//! From stored values to the voxels of an image, with each plane's own slope and intercept.

use super::plane::Plane;
use crate::raw::{RawImage, Scaling, VoxelType};
use pbt_volume::Geometry;
use rayon::prelude::*;

/// How stored values become voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Values {
    /// Stored and real values are the same, or one linear map says the rest.
    AsStored(Option<Scaling>),
    /// Slopes and intercepts are integers: the real values fit a type of integers.
    Integers(VoxelType),
    /// Planes differ.
    Floats,
}

/// The type of stored values.
pub(super) fn stored_type(plane: &Plane) -> VoxelType {
    match (plane.format.bits_allocated, plane.format.signed) {
        (8, false) => VoxelType::U8,
        (8, true) => VoxelType::I8,
        (16, false) => VoxelType::U16,
        (16, true) => VoxelType::I16,
        (_, false) => VoxelType::U32,
        (_, true) => VoxelType::I32,
    }
}

/// Bytes a voxel that mapping takes beside the stored values; 0 where it is done in place.
pub(super) fn mapped_size(planes: &[Plane]) -> usize {
    match values(planes) {
        Values::Integers(to) if to.size() != stored_type(&planes[0]).size() => to.size(),
        Values::Floats => VoxelType::F32.size(),
        _ => 0,
    }
}

/// An image of stored values, plane after plane; `None` when the number of bytes is wrong.
pub(super) fn image(geometry: Geometry, planes: &[Plane], mut stored: Vec<u8>) -> Option<RawImage> {
    let from = stored_type(&planes[0]);
    match values(planes) {
        Values::AsStored(scaling) => RawImage::new(geometry, from, stored, scaling),
        Values::Integers(to) if to.size() == from.size() => {
            let plane_bytes = stored.len() / planes.len();
            stored
                .par_chunks_mut(plane_bytes)
                .zip(planes)
                .for_each(|(bytes, plane)| map_in_place(bytes, plane, from.size()));
            RawImage::new(geometry, to, stored, None)
        }
        Values::Integers(to) => {
            let bytes = mapped(planes, &stored, from, to.size(), |plane, value, out| {
                let value = plane.slope as i64 * value + plane.intercept as i64;
                out.copy_from_slice(&value.to_le_bytes()[..out.len()]);
            });
            RawImage::new(geometry, to, bytes, None)
        }
        Values::Floats => {
            let bytes = mapped(planes, &stored, from, 4, |plane, value, out| {
                out.copy_from_slice(
                    &((value as f64 * plane.slope + plane.intercept) as f32).to_le_bytes(),
                );
            });
            RawImage::new(geometry, VoxelType::F32, bytes, None)
        }
    }
}

/// The linear map of a plane on its stored values. The results fit the type, so their low bits,
/// which do not depend on signs, are all there is to compute.
fn map_in_place(bytes: &mut [u8], plane: &Plane, size: usize) {
    let (slope, intercept) = (plane.slope as i64, plane.intercept as i64);
    macro_rules! map {
        ($t:ty) => {{
            let (slope, intercept) = (slope as $t, intercept as $t);
            for voxel in bytes.as_chunks_mut().0 {
                *voxel = <$t>::from_le_bytes(*voxel)
                    .wrapping_mul(slope)
                    .wrapping_add(intercept)
                    .to_le_bytes();
            }
        }};
    }
    match size {
        1 => map!(u8),
        2 => map!(u16),
        _ => map!(u32),
    }
}

/// Every voxel of every plane through `map`, into voxels of `size` bytes.
fn mapped(
    planes: &[Plane],
    stored: &[u8],
    from: VoxelType,
    size: usize,
    map: impl Fn(&Plane, i64, &mut [u8]) + Sync,
) -> Vec<u8> {
    let plane_bytes = stored.len() / planes.len();
    let mut out = vec![0; stored.len() / from.size() * size];
    out.par_chunks_mut(plane_bytes / from.size() * size)
        .zip(stored.par_chunks(plane_bytes))
        .zip(planes)
        .for_each(|((out, stored), plane)| {
            for (out, voxel) in out.chunks_exact_mut(size).zip(stored.chunks_exact(from.size())) {
                map(plane, read(voxel, from), out);
            }
        });
    out
}

fn values(planes: &[Plane]) -> Values {
    let first = &planes[0];
    let uniform =
        planes.iter().all(|plane| (plane.slope, plane.intercept) == (first.slope, first.intercept));
    if uniform && (first.slope, first.intercept) == (1.0, 0.0) {
        return Values::AsStored(None);
    }
    let integer = |v: f64| v.fract() == 0.0 && v.abs() < 2f64.powi(31);
    if planes.iter().all(|plane| integer(plane.slope) && integer(plane.intercept)) {
        // What the stored bits could hold decides, so that all series of a scanner get one type.
        let ends = planes.iter().flat_map(|plane| {
            let (low, high) = stored_range(plane);
            [low, high].map(|v| plane.slope as i64 * v + plane.intercept as i64)
        });
        let (low, high) =
            ends.fold((i64::MAX, i64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let fits = |a: i64, b: i64| low >= a && high <= b;
        if fits(i16::MIN.into(), i16::MAX.into()) {
            return Values::Integers(VoxelType::I16);
        }
        if fits(0, u16::MAX.into()) {
            return Values::Integers(VoxelType::U16);
        }
        if fits(i32::MIN.into(), i32::MAX.into()) {
            return Values::Integers(VoxelType::I32);
        }
    }
    if uniform {
        return Values::AsStored(Some(Scaling { slope: first.slope, intercept: first.intercept }));
    }
    Values::Floats
}

/// Least and greatest value that the stored bits can hold.
fn stored_range(plane: &Plane) -> (i64, i64) {
    let bits = plane.format.bits_stored;
    if plane.format.signed {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// An integer from its little-endian bytes.
fn read(bytes: &[u8], voxel_type: VoxelType) -> i64 {
    match (voxel_type, bytes) {
        (VoxelType::U8, &[a]) => a.into(),
        (VoxelType::I8, &[a]) => (a as i8).into(),
        (VoxelType::U16, &[a, b]) => u16::from_le_bytes([a, b]).into(),
        (VoxelType::I16, &[a, b]) => i16::from_le_bytes([a, b]).into(),
        (VoxelType::U32, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
        (_, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]).into(),
        _ => 0,
    }
}
