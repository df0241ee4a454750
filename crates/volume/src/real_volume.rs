//! Volumes of real numbers that take no more memory than the voxels of their file.

use crate::{Geometry, Volume};
use rayon::prelude::*;
use std::sync::Arc;

/// A volume of real numbers, `i` fastest in memory. Voxels of one or two bytes, as scanners have them,
/// stay these codes, with a table of the numbers that they stand for. Clones and parts share the voxels.
#[derive(Debug, Clone)]
pub struct RealVolume {
    geometry: Geometry,
    voxels: Arc<Voxels>,
    /// Shape of what is shared, and the voxel of it that is this volume's first.
    shared: [usize; 3],
    first: [usize; 3],
}

#[derive(Debug, Clone)]
enum Voxels {
    Numbers(Vec<f32>),
    /// One byte a voxel, of 256 numbers.
    Bytes(Vec<u8>, Vec<f32>),
    /// Two bytes a voxel, little-endian, of 65,536 numbers.
    Words(Vec<u8>, Vec<f32>),
}

/// Voxels that lie one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Row<'a> {
    Numbers(&'a [f32]),
    Bytes(&'a [u8]),
    Words(&'a [u8]),
}

impl Row<'_> {
    /// Calls `take` with the code of each voxel.
    ///
    /// # Panics
    /// Where voxels are numbers: a programming error.
    pub(crate) fn codes(self, mut take: impl FnMut(usize)) {
        match self {
            Self::Numbers(_) => unreachable!("numbers have no codes"),
            Self::Bytes(codes) => codes.iter().for_each(|&code| take(code.into())),
            Self::Words(codes) => codes.chunks_exact(2).for_each(|code| take(word(code))),
        }
    }
}

/// A code of two bytes.
pub(crate) fn word(bytes: &[u8]) -> usize {
    u16::from_le_bytes([bytes[0], bytes[1]]).into()
}

impl From<Volume<f32>> for RealVolume {
    fn from(volume: Volume<f32>) -> Self {
        let geometry = volume.geometry().clone();
        Self::whole(geometry, Voxels::Numbers(volume.into_data()))
    }
}

impl PartialEq for RealVolume {
    fn eq(&self, other: &Self) -> bool {
        self.geometry == other.geometry && self.numbers().data() == other.numbers().data()
    }
}

impl RealVolume {
    fn whole(geometry: Geometry, voxels: Voxels) -> Self {
        Self { shared: geometry.shape(), first: [0; 3], geometry, voxels: Arc::new(voxels) }
    }

    /// A volume from codes, one byte each where the table has 256 numbers, and two, little-endian, where
    /// it has 65,536.
    ///
    /// # Panics
    /// When the table has another length, or there are not as many codes as voxels: programming errors.
    pub fn coded(geometry: Geometry, codes: Vec<u8>, table: Vec<f32>) -> Self {
        let voxels = match table.len() {
            256 => Voxels::Bytes(codes, table),
            0x1_0000 => Voxels::Words(codes, table),
            numbers => panic!("a table of {numbers} numbers"),
        };
        let voxel_bytes = if matches!(voxels, Voxels::Bytes(..)) { 1 } else { 2 };
        let (Voxels::Bytes(codes, _) | Voxels::Words(codes, _)) = &voxels else { unreachable!() };
        assert_eq!(codes.len(), geometry.len() * voxel_bytes, "voxels and shape disagree");
        Self::whole(geometry, voxels)
    }

    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Number of voxels along i, j, k.
    pub fn shape(&self) -> [usize; 3] {
        self.geometry.shape()
    }

    /// The voxel `(i, j, k)`.
    ///
    /// # Panics
    /// When the index lies outside.
    pub fn at(&self, i: usize, j: usize, k: usize) -> f32 {
        assert!(i < self.shape()[0], "outside");
        let at = self.place(i, j, k);
        match &*self.voxels {
            Voxels::Numbers(numbers) => numbers[at],
            Voxels::Bytes(codes, table) => table[usize::from(codes[at])],
            Voxels::Words(codes, table) => table[word(&codes[2 * at..])],
        }
    }

    /// The part of `shape` voxels from the voxel `first` on. A part that reaches beyond the volume panics.
    pub fn part(&self, first: [usize; 3], shape: [usize; 3]) -> Self {
        assert!((0..3).all(|a| first[a] + shape[a] <= self.shape()[a]), "outside");
        Self {
            geometry: self.geometry.part(first, shape),
            voxels: self.voxels.clone(),
            shared: self.shared,
            first: [0, 1, 2].map(|a| self.first[a] + first[a]),
        }
    }

    /// The same voxels on another grid of as many along each axis.
    ///
    /// # Panics
    /// When the shape is another: a programming error.
    pub fn on(self, geometry: Geometry) -> Self {
        assert_eq!(self.shape(), geometry.shape(), "voxels and shape disagree");
        Self { geometry, ..self }
    }

    /// With every number mapped.
    pub fn map(&self, f: impl Fn(f32) -> f32) -> Self {
        let mapped = |numbers: &[f32]| numbers.iter().map(|&number| f(number)).collect();
        let voxels = match &*self.voxels {
            Voxels::Numbers(_) => return Self::from(self.numbers().map(f)),
            Voxels::Bytes(codes, table) => Voxels::Bytes(codes.clone(), mapped(table)),
            Voxels::Words(codes, table) => Voxels::Words(codes.clone(), mapped(table)),
        };
        Self { voxels: Arc::new(voxels), ..self.clone() }
    }

    /// The numbers, 4 bytes a voxel.
    pub fn numbers(&self) -> Volume<f32> {
        let [nx, ny, _] = self.shape();
        let mut data = vec![0.0; self.geometry.len()];
        data.par_chunks_mut(nx * ny).enumerate().for_each(|(k, plane)| {
            let mut row = Vec::with_capacity(nx);
            for (j, to) in plane.chunks_mut(nx).enumerate() {
                row.clear();
                self.extend_with_row(&mut row, j, k);
                to.copy_from_slice(&row);
            }
        });
        Volume::new(self.geometry.clone(), data)
    }

    /// How many voxels are NaN or infinite.
    pub fn not_finite(&self) -> usize {
        if self.table().is_some_and(|table| table.iter().all(|number| number.is_finite())) {
            return 0;
        }
        let [_, ny, nz] = self.shape();
        let mut row = Vec::new();
        let of_row = |(j, k)| {
            row.clear();
            self.extend_with_row(&mut row, j, k);
            row.iter().filter(|number| !number.is_finite()).count()
        };
        (0..nz).flat_map(|k| (0..ny).map(move |j| (j, k))).map(of_row).sum()
    }

    /// Appends the numbers of a row.
    pub fn extend_with_row(&self, numbers: &mut Vec<f32>, j: usize, k: usize) {
        match (self.row(j, k), self.table()) {
            (Row::Numbers(row), _) => numbers.extend_from_slice(row),
            (row, Some(table)) => row.codes(|code| numbers.push(table[code])),
            (_, None) => unreachable!("codes have a table"),
        }
    }

    /// The number of each code, where voxels are codes.
    pub(crate) fn table(&self) -> Option<&[f32]> {
        match &*self.voxels {
            Voxels::Numbers(_) => None,
            Voxels::Bytes(_, table) | Voxels::Words(_, table) => Some(table),
        }
    }

    /// A row of voxels.
    pub(crate) fn row(&self, j: usize, k: usize) -> Row<'_> {
        self.part_of_row(0..self.shape()[0], j, k)
    }

    /// Some voxels of a row.
    pub(crate) fn part_of_row(&self, i: std::ops::Range<usize>, j: usize, k: usize) -> Row<'_> {
        let (at, n) = (self.place(i.start, j, k), i.len());
        match &*self.voxels {
            Voxels::Numbers(numbers) => Row::Numbers(&numbers[at..at + n]),
            Voxels::Bytes(codes, _) => Row::Bytes(&codes[at..at + n]),
            Voxels::Words(codes, _) => Row::Words(&codes[2 * at..2 * (at + n)]),
        }
    }

    /// Place of a voxel among the shared ones.
    fn place(&self, i: usize, j: usize, k: usize) -> usize {
        let [first_i, first_j, first_k] = self.first;
        ((first_k + k) * self.shared[1] + first_j + j) * self.shared[0] + first_i + i
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same numbers as codes of two bytes, if there are not more of them; in the order in which
    /// they occur.
    pub(crate) fn as_codes(volume: &Volume<f32>) -> RealVolume {
        let mut table: Vec<f32> = Vec::new();
        let mut codes = Vec::new();
        for number in volume.data() {
            let same = |other: &f32| other.to_bits() == number.to_bits();
            let code = table.iter().position(same).unwrap_or(table.len());
            if code == table.len() {
                table.push(*number);
            }
            codes.extend((code as u16).to_le_bytes());
        }
        table.resize(0x1_0000, f32::NAN);
        RealVolume::coded(volume.geometry().clone(), codes, table)
    }

    proptest! {
        #[test]
        fn parts_of_codes_are_parts_of_numbers(
            shape in prop::array::uniform3(1usize..6),
            first in prop::array::uniform3(0usize..6),
            seed in any::<u32>(),
        ) {
            let geometry = Geometry::isotropic(shape, 1.5).unwrap();
            let volume = Volume::from_fn(geometry, |i, j, k| {
                ((i * 31 + j * 17 + k * 7) as u32 ^ seed) as u8 as f32 / 3.0
            });
            let first = [0, 1, 2].map(|a| first[a].min(shape[a] - 1));
            let shape = [0, 1, 2].map(|a| shape[a] - first[a]);
            let bytes = volume.data().iter().map(|&v| (v * 3.0).round() as u8).collect();
            let table = (0..256).map(|code| code as f32 / 3.0).collect();
            let of_bytes = RealVolume::coded(volume.geometry().clone(), bytes, table);
            for real in [RealVolume::from(volume.clone()), as_codes(&volume), of_bytes] {
                let part = real.part(first, shape);
                prop_assert_eq!(part.geometry(), &volume.geometry().part(first, shape));
                let numbers = part.numbers();
                for (k, j, i) in (0..shape[2]).flat_map(|k| (0..shape[1]).flat_map(move |j| (0..shape[0]).map(move |i| (k, j, i)))) {
                    let expected = volume.at(first[0] + i, first[1] + j, first[2] + k);
                    prop_assert_eq!((part.at(i, j, k), numbers.at(i, j, k)), (expected, expected));
                }
                let doubled = part.map(|v| 2.0 * v);
                prop_assert_eq!(doubled.at(0, 0, 0), 2.0 * part.at(0, 0, 0));
                prop_assert_eq!(part.not_finite(), 0);
            }
        }
    }

    #[test]
    fn voxels_that_are_no_numbers_are_counted() {
        let geometry = Geometry::isotropic([2, 2, 1], 1.0).unwrap();
        let volume = Volume::new(geometry, vec![1.0, f32::NAN, f32::INFINITY, 2.0]);
        assert_eq!(as_codes(&volume).not_finite(), 2);
        assert_eq!(RealVolume::from(volume).part([0; 3], [1, 2, 1]).not_finite(), 1);
    }
}
