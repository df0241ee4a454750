//! A level of a pyramid, in memory or in a temporary file.

use crate::scratch::{Scratch, StoredVolume};
use crate::{Geometry, Volume};
use std::io;
use std::sync::Arc;

/// The voxels of one channel of a level. Clones share them.
#[derive(Debug, Clone)]
pub enum Level {
    /// In memory.
    Held(Volume<u16>),
    /// In a file.
    Stored(StoredVolume),
}

impl From<Volume<u16>> for Level {
    fn from(volume: Volume<u16>) -> Self {
        Self::Held(volume)
    }
}

/// The same voxels at the same place.
impl PartialEq for Level {
    fn eq(&self, other: &Self) -> bool {
        self.geometry() == other.geometry() && self.volume() == other.volume()
    }
}

impl Level {
    /// Shape and placement.
    pub fn geometry(&self) -> &Geometry {
        match self {
            Self::Held(volume) => volume.geometry(),
            Self::Stored(volume) => volume.geometry(),
        }
    }

    /// Number of voxels along i, j, k.
    pub fn shape(&self) -> [usize; 3] {
        self.geometry().shape()
    }

    /// All of it, read where it is in a file.
    pub fn volume(&self) -> Volume<u16> {
        match self {
            Self::Held(volume) => volume.clone(),
            Self::Stored(volume) => volume.load(),
        }
    }

    /// The voxels of a box in it, i fastest.
    ///
    /// # Panics
    /// When the box is not all inside.
    pub fn block(&self, first: [usize; 3], shape: [usize; 3]) -> Vec<u16> {
        let inside = |a: usize| first[a] + shape[a] <= self.shape()[a];
        assert!((0..3).all(inside), "a block of {shape:?} at {first:?} of {:?}", self.shape());
        match self {
            Self::Held(volume) => {
                let mut block = Vec::with_capacity(shape.iter().product());
                for k in first[2]..first[2] + shape[2] {
                    for j in first[1]..first[1] + shape[1] {
                        let begin = volume.offset(first[0], j, k);
                        block.extend_from_slice(&volume.data()[begin..begin + shape[0]]);
                    }
                }
                block
            }
            Self::Stored(volume) => volume.block(first, shape),
        }
    }

    /// The same in a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn stored(&self, scratch: &Arc<Scratch>) -> io::Result<Self> {
        match self {
            Self::Held(volume) => Ok(Self::Stored(scratch.store(volume)?)),
            Self::Stored(_) => Ok(self.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two volumes in one file, blocks anywhere.
        #[test]
        fn a_stored_level_is_the_held_one(
            shape in prop::array::uniform3(1usize..12),
            corners in prop::array::uniform3((0usize..12, 0usize..12)),
            values in prop::collection::vec(any::<u16>(), 2 * 1331),
        ) {
            let geometry = Geometry::isotropic(shape, 0.7).unwrap();
            let n = geometry.len();
            let held: Vec<Level> = [&values[..n], &values[1331..1331 + n]]
                .map(|values| Volume::new(geometry.clone(), values.to_vec()).into())
                .into();
            let folder = tempfile::tempdir().unwrap();
            let scratch = Arc::new(Scratch::new(folder.path()).unwrap());
            let stored: Vec<Level> =
                held.iter().map(|level| level.stored(&scratch).unwrap()).collect();
            let ends = [0, 1, 2].map(|a| {
                let (low, high) = (corners[a].0 % shape[a], corners[a].1 % shape[a]);
                (low.min(high), low.abs_diff(high) + 1)
            });
            let (first, across) = (ends.map(|e| e.0), ends.map(|e| e.1));
            for (held, stored) in held.iter().zip(&stored) {
                prop_assert!(matches!(stored, Level::Stored(_)));
                prop_assert_eq!(held.geometry(), stored.geometry());
                prop_assert_eq!(held.volume(), stored.volume());
                let block = held.block(first, across);
                prop_assert_eq!(block[0], held.volume().at(first[0], first[1], first[2]));
                prop_assert_eq!(block.last().copied(), Some(held.volume().at(
                    first[0] + across[0] - 1, first[1] + across[1] - 1, first[2] + across[2] - 1,
                )));
                prop_assert_eq!(block, stored.block(first, across));
            }
            prop_assert_eq!(scratch.check(), Ok(()));
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Arc::new(Scratch::new(folder.path()).unwrap());
        let volume = Volume::filled(Geometry::isotropic([3; 3], 1.0).unwrap(), 7u16);
        let Level::Stored(stored) = Level::from(volume).stored(&scratch).unwrap() else {
            panic!("not stored")
        };
        scratch.truncate();
        assert_eq!(stored.load().data(), [0; 27]);
        assert!(scratch.check().is_err());
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Scratch::new(std::path::Path::new("/nowhere/at/all")).is_err());
    }
}
