//! The leaves of trees that voxels arrive at, as a file.

use crate::write_image::{write_image, write_nifti_volumes};
use crate::{IoError, RawImage, VoxelType};
use pbt_volume::Volume;
use std::path::Path;

/// Writes the numbers of leaves, one volume a tree and all on one grid, as NIfTI (`.nii.gz`) with a
/// fourth axis where there are several. Numbers are unsigned, 16 bits or, where one needs them, 32.
///
/// # Errors
/// [`IoError`] when a dimension does not fit the format or the file cannot be written; an older file
/// of that name is then untouched.
pub fn write_leaves(path: &Path, trees: &[Volume<u32>]) -> Result<(), IoError> {
    let Some((first, rest)) = trees.split_first() else {
        return Err(IoError::unwritable(path, "trees", "there are none", "leave it out"));
    };
    let largest = trees.iter().flat_map(|tree| tree.data()).max();
    let wide = largest.is_some_and(|&leaf| leaf > u32::from(u16::MAX));
    let voxel_type = if wide { VoxelType::U32 } else { VoxelType::U16 };
    let bytes = |tree: &Volume<u32>| -> Vec<u8> {
        match wide {
            true => tree.data().iter().flat_map(|leaf| leaf.to_le_bytes()).collect(),
            false => tree.data().iter().flat_map(|&leaf| (leaf as u16).to_le_bytes()).collect(),
        }
    };
    let image = RawImage::new(first.geometry().clone(), voxel_type, bytes(first), None)
        .ok_or_else(|| IoError::unwritable(path, "shape", "is too large", "use a part of it"))?;
    if rest.is_empty() {
        return write_image(path, &image);
    }
    write_nifti_volumes(path, &image, rest.iter().map(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReadOptions, read_raw, read_raw_with};
    use pbt_volume::Geometry;

    #[test]
    fn each_tree_is_a_volume_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.leaves.nii.gz");
        let geometry = Geometry::isotropic([4, 3, 2], 1.5).unwrap();
        for (step, voxel_type) in [(1000, VoxelType::U16), (4000, VoxelType::U32)] {
            let tree = |n: usize| {
                Volume::from_fn(geometry.clone(), |i, j, k| {
                    ((i + 4 * j + 12 * k) * step + n) as u32
                })
            };
            let trees: Vec<Volume<u32>> = (0..3).map(tree).collect();
            write_leaves(&path, &trees).unwrap();
            for (frame, tree) in trees.iter().enumerate() {
                let options = ReadOptions { frame: Some(frame), ..ReadOptions::default() };
                let found = read_raw_with(&path, &options).unwrap().raw;
                assert_eq!(found.voxel_type(), voxel_type);
                let values = found.to_f32().unwrap();
                assert!(values.data().iter().zip(tree.data()).all(|(a, &b)| *a == b as f32));
            }
            write_leaves(&path, &trees[1..2]).unwrap();
            assert_eq!(read_raw(&path).unwrap().raw.voxel_type(), voxel_type);
        }
    }
}
