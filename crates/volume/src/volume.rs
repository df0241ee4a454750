//! A volume: voxels and where they lie.

use crate::Geometry;
use std::sync::Arc;

/// Voxels of type `T` on a [`Geometry`]; `i` is fastest in memory. Clones share the voxels until
/// one of them is changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume<T> {
    geometry: Geometry,
    data: Arc<Vec<T>>,
}

impl<T: Copy> Volume<T> {
    /// A volume from its voxels.
    ///
    /// # Panics
    /// When the number of voxels is not that of the geometry: a programming error, readers check
    /// before.
    pub fn new(geometry: Geometry, data: Vec<T>) -> Self {
        assert_eq!(data.len(), geometry.len(), "voxels and shape disagree");
        Self { geometry, data: Arc::new(data) }
    }

    /// A volume of one value.
    pub fn filled(geometry: Geometry, value: T) -> Self {
        let data = vec![value; geometry.len()];
        Self::new(geometry, data)
    }

    /// A volume whose voxel `(i, j, k)` is `f(i, j, k)`.
    pub fn from_fn(geometry: Geometry, mut f: impl FnMut(usize, usize, usize) -> T) -> Self {
        let [nx, ny, nz] = geometry.shape();
        let mut data = Vec::with_capacity(geometry.len());
        for k in 0..nz {
            for j in 0..ny {
                for i in 0..nx {
                    data.push(f(i, j, k));
                }
            }
        }
        Self::new(geometry, data)
    }

    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Number of voxels along i, j, k.
    pub fn shape(&self) -> [usize; 3] {
        self.geometry.shape()
    }

    /// All voxels, i fastest.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// All voxels, i fastest, to change.
    pub fn data_mut(&mut self) -> &mut [T] {
        Arc::make_mut(&mut self.data).as_mut_slice()
    }

    /// The voxels alone.
    pub fn into_data(self) -> Vec<T> {
        Arc::unwrap_or_clone(self.data)
    }

    /// Place of voxel `(i, j, k)` in [`Volume::data`].
    pub fn offset(&self, i: usize, j: usize, k: usize) -> usize {
        let [nx, ny, _] = self.shape();
        (k * ny + j) * nx + i
    }

    /// The voxel `(i, j, k)`.
    ///
    /// # Panics
    /// When the index lies outside.
    pub fn at(&self, i: usize, j: usize, k: usize) -> T {
        self.data[self.offset(i, j, k)]
    }

    /// The voxel nearest to `(i, j, k)` inside the volume: outside, the border goes on.
    pub fn at_clamped(&self, i: i64, j: i64, k: i64) -> T {
        let [nx, ny, nz] = self.shape();
        let inside = |v: i64, n: usize| v.clamp(0, n as i64 - 1) as usize;
        self.at(inside(i, nx), inside(j, ny), inside(k, nz))
    }

    /// The same geometry with every voxel mapped.
    pub fn map<U: Copy>(&self, f: impl FnMut(T) -> U) -> Volume<U> {
        Volume::new(self.geometry.clone(), self.data.iter().copied().map(f).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_clone_leaves_the_original() {
        let original = Volume::filled(Geometry::isotropic([2, 3, 4], 1.0).unwrap(), 7u16);
        let mut clone = original.clone();
        assert_eq!(clone.data().as_ptr(), original.data().as_ptr());
        clone.data_mut()[5] = 8;
        assert_eq!((clone.data()[5], original.data()[5]), (8, 7));
        assert_eq!(original.clone().into_data(), vec![7; 24]);
    }
}
