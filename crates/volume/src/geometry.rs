//! Where the voxels of a volume lie: shape and the affine from voxel index to LPS millimetres.

use nalgebra::{Matrix3, Matrix4, Point3, Vector3};

/// A point in the patient, LPS millimetres.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointLps(pub Point3<f64>);

impl PointLps {
    /// The point `(x, y, z)` in LPS millimetres.
    pub fn new(x: f64, y: f64, z: f64) -> Self {
        Self(Point3::new(x, y, z))
    }

    /// Distance in millimetres.
    pub fn distance_mm(&self, other: &Self) -> f64 {
        (self.0 - other.0).norm()
    }
}

/// A position in voxel units: voxel centres are at integers, so `(0, 0, 0)` is the centre of the
/// first voxel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VoxelIndex(pub Point3<f64>);

impl VoxelIndex {
    /// The position `(i, j, k)` in voxel units.
    pub fn new(i: f64, j: f64, k: f64) -> Self {
        Self(Point3::new(i, j, k))
    }
}

/// No position or step may exceed this: a thousand kilometres.
const MAX_MM: f64 = 1e9;

/// Why a shape and an affine do not make a geometry.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum GeometryError {
    /// A dimension is zero.
    #[error("shape {0:?} has an empty dimension")]
    EmptyShape([usize; 3]),
    /// The number of voxels does not fit the address space.
    #[error("shape {0:?} has too many voxels")]
    TooLarge([usize; 3]),
    /// An entry of the affine is NaN or infinite.
    #[error("the affine has an entry that is not finite")]
    NotFinite,
    /// An entry of the affine is larger than any patient, and would overflow further on.
    #[error("the affine has an entry beyond 10^9 mm")]
    TooFar,
    /// Some axis has no length, or two axes are parallel.
    #[error("the affine is singular (a spacing is zero or two axes are parallel)")]
    Singular,
}

/// Shape and placement of a volume: any oblique, sheared, mirrored or anisotropic grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    shape: [usize; 3],
    /// Columns are the steps in mm for one voxel along i, j and k.
    matrix: Matrix3<f64>,
    inverse: Matrix3<f64>,
    origin: Vector3<f64>,
}

/// Shape, spacing and position, as messages name a grid.
impl std::fmt::Display for Geometry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ([i, j, k], [x, y, z], origin) = (self.shape, self.spacing_mm(), self.origin);
        write!(
            f,
            "{i} x {j} x {k} voxels of {x:.3} x {y:.3} x {z:.3} mm from ({:.1}, {:.1}, {:.1})",
            origin.x, origin.y, origin.z
        )
    }
}

impl Geometry {
    /// A geometry from shape, step matrix (columns: LPS mm for one voxel along i, j, k) and the LPS
    /// position of voxel `(0, 0, 0)`.
    ///
    /// # Errors
    /// [`GeometryError`] when a dimension is zero, the number of voxels overflows, or the matrix is
    /// not finite or singular.
    pub fn new(
        shape: [usize; 3],
        matrix: Matrix3<f64>,
        origin: PointLps,
    ) -> Result<Self, GeometryError> {
        if shape.contains(&0) {
            return Err(GeometryError::EmptyShape(shape));
        }
        if shape
            .iter()
            .try_fold(1usize, |n, &d| n.checked_mul(d))
            .is_none_or(|n| n > isize::MAX as usize / 16)
        {
            return Err(GeometryError::TooLarge(shape));
        }
        if !matrix.iter().chain(origin.0.iter()).all(|v| v.is_finite()) {
            return Err(GeometryError::NotFinite);
        }
        if !matrix.iter().chain(origin.0.iter()).all(|v| v.abs() <= MAX_MM) {
            return Err(GeometryError::TooFar);
        }
        let lengths = matrix.column(0).norm() * matrix.column(1).norm() * matrix.column(2).norm();
        let inverse = matrix.try_inverse().filter(|m| m.iter().all(|v| v.is_finite()));
        // A determinant far below the product of the axis lengths means axes within about 0.006
        // degrees of one plane.
        match inverse {
            Some(inverse) if matrix.determinant().abs() > 1e-4 * lengths => {
                Ok(Self { shape, matrix, inverse, origin: origin.0.coords })
            }
            _ => Err(GeometryError::Singular),
        }
    }

    /// A geometry whose parts follow from a valid one, so that only the range of its numbers may
    /// exceed what [`Geometry::new`] allows.
    pub(crate) fn derived(shape: [usize; 3], matrix: Matrix3<f64>, origin: PointLps) -> Self {
        let inverse = matrix.try_inverse().expect("the axes come from an invertible matrix");
        Self { shape, matrix, inverse, origin: origin.0.coords }
    }

    /// An axis-aligned grid with one spacing and voxel `(0, 0, 0)` at the LPS origin.
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn isotropic(shape: [usize; 3], spacing_mm: f64) -> Result<Self, GeometryError> {
        Self::new(shape, Matrix3::identity() * spacing_mm, PointLps::new(0.0, 0.0, 0.0))
    }

    /// A geometry from a 4×4 affine (index to LPS mm; the last row is ignored).
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn from_affine(shape: [usize; 3], affine: &Matrix4<f64>) -> Result<Self, GeometryError> {
        let matrix = affine.fixed_view::<3, 3>(0, 0).into_owned();
        Self::new(shape, matrix, PointLps::new(affine[(0, 3)], affine[(1, 3)], affine[(2, 3)]))
    }

    /// The 4×4 affine from voxel index to LPS mm.
    pub fn affine(&self) -> Matrix4<f64> {
        let mut affine = Matrix4::identity();
        affine.fixed_view_mut::<3, 3>(0, 0).copy_from(&self.matrix);
        affine.fixed_view_mut::<3, 1>(0, 3).copy_from(&self.origin);
        affine
    }

    /// Whether voxels of the same number lie at the same place: equal shapes, and no corner farther
    /// away than a tenth of a voxel. Files round their affines differently.
    pub fn is_same_grid(&self, other: &Self) -> bool {
        const SAME_VOXELS: f64 = 0.1;
        let off = |corner: VoxelIndex| (other.to_index(self.to_lps(corner)).0 - corner.0).amax();
        self.shape == other.shape && self.corners().into_iter().all(|at| off(at) < SAME_VOXELS)
    }

    /// Centres of the eight outermost voxels.
    pub fn corners(&self) -> [VoxelIndex; 8] {
        std::array::from_fn(|n| {
            let at = |axis: usize| ((n >> axis & 1) * (self.shape[axis] - 1)) as f64;
            VoxelIndex::new(at(0), at(1), at(2))
        })
    }

    /// Number of voxels along i, j, k.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Number of voxels.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Never: a geometry has at least one voxel.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Step matrix: column `a` is the LPS displacement in mm for one voxel along axis `a`.
    pub fn matrix(&self) -> &Matrix3<f64> {
        &self.matrix
    }

    /// LPS position of the centre of voxel `(0, 0, 0)`.
    pub fn origin(&self) -> PointLps {
        PointLps(Point3::from(self.origin))
    }

    /// Distance in mm between neighbouring voxel centres along i, j, k.
    pub fn spacing_mm(&self) -> [f64; 3] {
        [0, 1, 2].map(|a| self.matrix.column(a).norm())
    }

    /// LPS position of a position in voxel units.
    pub fn to_lps(&self, index: VoxelIndex) -> PointLps {
        PointLps(Point3::from(self.matrix * index.0.coords + self.origin))
    }

    /// The inverse of [`Geometry::matrix`].
    pub fn inverse(&self) -> &Matrix3<f64> {
        &self.inverse
    }

    /// Position in voxel units of an LPS point; it may lie outside the volume.
    pub fn to_index(&self, point: PointLps) -> VoxelIndex {
        VoxelIndex(Point3::from(self.inverse * (point.0.coords - self.origin)))
    }

    /// How many voxels a point lies outside the outer voxel centres, the largest over the three
    /// axes; 0 inside.
    pub fn voxels_outside(&self, point: PointLps) -> f64 {
        let index = self.to_index(point).0;
        (0..3).map(|a| (-index[a]).max(index[a] - (self.shape[a] - 1) as f64)).fold(0.0, f64::max)
    }

    /// Whether a point lies outside the image, whose faces lie half a voxel beyond its outer voxel
    /// centres.
    pub fn is_outside(&self, point: PointLps) -> bool {
        self.voxels_outside(point) > 0.5
    }

    /// The grid of some of the voxels: those from `first` on, as many as `shape` says.
    ///
    /// # Panics
    /// When the part is empty or reaches beyond the grid.
    pub fn part(&self, first: [usize; 3], shape: [usize; 3]) -> Self {
        let inside = |a: usize| {
            shape[a] > 0 && first[a] < self.shape[a] && shape[a] <= self.shape[a] - first[a]
        };
        assert!(
            (0..3).all(inside),
            "{shape:?} voxels from {first:?} on are no part of {:?}",
            self.shape
        );
        let [i, j, k] = first.map(|n| n as f64);
        Self::derived(shape, self.matrix, self.to_lps(VoxelIndex::new(i, j, k)))
    }

    /// Lengths of the box about all voxels along L, P and S, mm.
    pub fn lengths_mm(&self) -> [f64; 3] {
        let along =
            |axis: usize| (0..3).map(|a| self.matrix[(axis, a)].abs() * self.shape[a] as f64).sum();
        std::array::from_fn(along)
    }

    /// LPS position of the middle of the volume.
    pub fn center(&self) -> PointLps {
        let half = self.shape.map(|d| (d as f64 - 1.0) / 2.0);
        self.to_lps(VoxelIndex::new(half[0], half[1], half[2]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_what_is_no_grid() {
        let origin = PointLps::new(0.0, 0.0, 0.0);
        assert_eq!(Geometry::isotropic([0, 4, 4], 1.0), Err(GeometryError::EmptyShape([0, 4, 4])));
        assert_eq!(Geometry::isotropic([4, 4, 4], 0.0), Err(GeometryError::Singular));
        assert_eq!(Geometry::isotropic([4, 4, 4], f64::NAN), Err(GeometryError::NotFinite));
        assert_eq!(Geometry::isotropic([4, 4, 4], 1e100), Err(GeometryError::TooFar));
        let flat =
            Matrix3::from_columns(&[Vector3::x(), Vector3::y(), Vector3::x() + Vector3::y()]);
        assert_eq!(Geometry::new([2, 2, 2], flat, origin), Err(GeometryError::Singular));
        assert!(matches!(
            Geometry::isotropic([usize::MAX, 2, 2], 1.0),
            Err(GeometryError::TooLarge(_))
        ));
    }

    proptest! {
        #[test]
        fn index_and_lps_are_inverse(
            steps in prop::array::uniform9(-3.0f64..3.0),
            origin in prop::array::uniform3(-500.0f64..500.0),
            point in prop::array::uniform3(-500.0f64..500.0),
        ) {
            let matrix = Matrix3::from_row_slice(&steps);
            prop_assume!(matrix.determinant().abs() > 0.05);
            let geometry = Geometry::new([9, 8, 7], matrix, PointLps::new(origin[0], origin[1], origin[2])).unwrap();
            let p = PointLps::new(point[0], point[1], point[2]);
            prop_assert!(geometry.to_lps(geometry.to_index(p)).distance_mm(&p) < 1e-8);
            prop_assert_eq!(Geometry::from_affine([9, 8, 7], &geometry.affine()).unwrap(), geometry);
        }
    }

    #[test]
    fn grids_are_the_same_where_their_voxels_are() {
        let grid = |shape: [usize; 3], x: f64, spacing: f64| {
            Geometry::new(shape, Matrix3::identity() * spacing, PointLps::new(x, 0.0, 0.0)).unwrap()
        };
        let one = grid([100, 4, 4], 0.0, 0.5);
        assert!(one.is_same_grid(&one));
        assert!(grid([100, 4, 4], 0.01, 0.5).is_same_grid(&one), "rounded");
        for other in
            [grid([100, 4, 5], 0.0, 0.5), grid([100, 4, 4], 0.2, 0.5), grid([100, 4, 4], 0.0, 0.51)]
        {
            assert!(!other.is_same_grid(&one), "{other:?}");
        }
    }
}
