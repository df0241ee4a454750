//! Label maps and masks of cases: which values they hold, what these are called, and one label map made
//! of several masks.

use crate::{IoError, RegionMap, read_labels, read_start};
use pbt_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A structure's voxels: those of a file that are not 0, or that have one value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mask {
    pub(super) name: String,
    pub(super) path: PathBuf,
    pub(super) value: Option<u16>,
}

/// The values of a label map, without 0.
///
/// # Errors
/// Those of [`read_labels`].
pub(super) fn values_of(path: &Path) -> Result<BTreeSet<u16>, IoError> {
    let labels = read_labels(path)?;
    let mut seen = vec![false; usize::from(u16::MAX) + 1];
    labels.data().iter().for_each(|&value| seen[usize::from(value)] = true);
    Ok((1..=u16::MAX).filter(|&value| seen[usize::from(value)]).collect())
}

/// Names of the values in a segmentation of 3D Slicer, which has them in the header of its NRRD file;
/// empty for all other files, and for one that cannot be read.
pub fn segment_names(path: &Path) -> BTreeMap<u16, String> {
    let is_nrrd = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("nrrd"));
    let start = if is_nrrd { read_start(path, 1 << 20).unwrap_or_default() } else { Vec::new() };
    let (mut names, mut values) = (BTreeMap::new(), BTreeMap::new());
    for line in start.split(|&b| b == b'\n').take_while(|line| !line.trim_ascii().is_empty()) {
        let line = String::from_utf8_lossy(line);
        let Some((key, value)) = line.trim_end().split_once(":=") else { continue };
        let Some((number, what)) = key.strip_prefix("Segment").and_then(|k| k.split_once('_'))
        else {
            continue;
        };
        match (number.parse::<usize>(), what) {
            (Ok(n), "Name") => drop(names.insert(n, unescaped(value))),
            (Ok(n), "LabelValue") => drop(value.parse().map(|value: u16| values.insert(n, value))),
            _ => {}
        }
    }
    let named = values.into_iter().filter_map(|(n, value)| Some((value, names.remove(&n)?)));
    named.collect()
}

/// A value of a key in the header of an NRRD file: `\n` is a line break, and `\\` a backslash
/// (<https://teem.sourceforge.net/nrrd/format.html#general.4>).
fn unescaped(value: &str) -> String {
    let parts: Vec<String> = value.split(r"\\").map(|part| part.replace(r"\n", "\n")).collect();
    parts.join(r"\")
}

/// One label map of several masks.
pub(super) struct Merged {
    map: RegionMap,
    /// The values that have voxels.
    pub(super) values: BTreeSet<u16>,
    /// How many voxels two structures both have, by their names.
    pub(super) overlaps: BTreeMap<(String, String), u64>,
}

/// Makes a label map of masks on one grid. A voxel that several masks have goes to the one with the
/// fewest voxels, because a structure that lies in another one would vanish otherwise.
///
/// # Errors
/// A mask that cannot be read or lies on another grid than the first one.
pub(super) fn merge(masks: &[Mask], values: &BTreeMap<&str, u16>) -> Result<Merged, IoError> {
    let mut merged: Option<Volume<u16>> = None;
    let most = values.values().copied().max().unwrap_or(0);
    let mut counts = vec![0u64; usize::from(most) + 1];
    let mut overlaps: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for mask in masks {
        let value = values[mask.name.as_str()];
        let voxels = read_labels(&mask.path)?;
        let into = merged.get_or_insert_with(|| Volume::filled(voxels.geometry().clone(), 0));
        if !into.geometry().is_same_grid(voxels.geometry()) {
            let problem = format!("differs from that of {}", masks[0].path.display());
            return Err(IoError::input(&mask.path, "grid", problem, "make all masks on one grid"));
        }
        let is_in = |&voxel: &u16| mask.value.map_or(voxel != 0, |value| voxel == value);
        let count = voxels.data().iter().filter(|voxel| is_in(voxel)).count() as u64;
        counts[usize::from(value)] += count;
        let voxels = into.data_mut().iter_mut().zip(voxels.data());
        for (into, _) in voxels.filter(|(_, voxel)| is_in(voxel)) {
            let other = *into;
            if other != 0 && other != value {
                *overlaps.entry((other.min(value), other.max(value))).or_default() += 1;
                if counts[usize::from(other)] <= count {
                    continue;
                }
            }
            *into = value;
        }
    }
    let Some(labels) = merged else {
        let problem = "there are no masks";
        return Err(IoError::input(Path::new(""), "masks", problem, "give some"));
    };
    let mut kept = vec![false; usize::from(most) + 1];
    labels.data().iter().for_each(|&value| kept[usize::from(value)] = true);
    let name = |wanted: u16| {
        let found = values.iter().find(|&(_, &value)| value == wanted);
        found.map_or(String::new(), |(name, _)| (*name).to_owned())
    };
    let overlaps = overlaps.into_iter().map(|((a, b), n)| ((name(a), name(b)), n)).collect();
    let by_name = values;
    let values = (1..).zip(&kept[1..]).filter_map(|(value, kept)| kept.then_some(value)).collect();
    let mut regions: Vec<_> = by_name.iter().map(|(name, &n)| ((*name).to_owned(), n)).collect();
    regions.sort_by_key(|(_, value)| *value);
    Ok(Merged { map: RegionMap { labels, regions }, values, overlaps })
}

impl Merged {
    /// What is known about it, when the voxels are on the disk.
    pub(super) fn without_voxels(mut self) -> Self {
        let geometry = self.map.labels.geometry().part([0; 3], [1; 3]);
        self.map.labels = Volume::filled(geometry, 0);
        self
    }

    /// Writes the label map (`.nii.gz`).
    ///
    /// # Errors
    /// Those of [`RegionMap::write_labels`].
    pub(super) fn write(&self, path: &Path) -> Result<(), IoError> {
        self.map.write_labels(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbt_volume::Geometry;

    fn write(
        folder: &Path,
        name: &str,
        geometry: &Geometry,
        is_in: impl Fn(usize) -> bool,
    ) -> Mask {
        let path = folder.join(format!("{name}.nii.gz"));
        let labels = Volume::from_fn(geometry.clone(), |i, _, _| u16::from(is_in(i)));
        RegionMap { labels, regions: vec![(name.to_owned(), 1)] }.write_labels(&path).unwrap();
        Mask { name: name.to_owned(), path, value: None }
    }

    #[test]
    fn the_smallest_of_several_masks_has_the_voxel() {
        let folder = tempfile::tempdir().unwrap();
        let grid = Geometry::isotropic([8, 2, 2], 1.0).unwrap();
        let masks = [
            write(folder.path(), "body", &grid, |i| i > 0),
            write(folder.path(), "cyst", &grid, |i| i == 3),
            write(folder.path(), "liver", &grid, |i| (2..5).contains(&i)),
        ];
        let values = [("body", 1), ("cyst", 2), ("liver", 3), ("spleen", 700)].into();
        // Whatever the order.
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let merged = merge(&order.map(|n| masks[n].clone()), &values).unwrap();
            assert_eq!(merged.map.labels.data()[..8], [0, 1, 3, 2, 3, 1, 1, 1]);
            assert_eq!(merged.values, BTreeSet::from([1, 2, 3]));
            let shared = |a: &str, b: &str| merged.overlaps.get(&(a.into(), b.into())).copied();
            assert_eq!(shared("body", "liver").max(shared("body", "cyst")).unwrap() % 4, 0);
            merged.write(&folder.path().join("all.nii.gz")).unwrap();
            assert_eq!(values_of(&folder.path().join("all.nii.gz")).unwrap(), merged.values);
        }
        let elsewhere = Geometry::isotropic([8, 2, 2], 2.0).unwrap();
        let mut others = masks.to_vec();
        others.push(write(folder.path(), "spleen", &elsewhere, |_| true));
        assert_eq!(merge(&others, &values).err().unwrap().field(), "grid");
    }

    #[test]
    fn slicer_names_its_segments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.seg.nrrd");
        let grid = Geometry::isotropic([3, 1, 1], 1.0).unwrap();
        let labels = Volume::new(grid, vec![0, 1, 9]);
        let regions = vec![("soft tissue".to_owned(), 1), ("\\new\nb\\\\o".to_owned(), 9)];
        let expected = regions.iter().map(|(name, value)| (*value, name.clone())).collect();
        RegionMap { labels, regions }.write_segmentation(&path).unwrap();
        assert_eq!(segment_names(&path), expected);
        assert_eq!(values_of(&path).unwrap(), BTreeSet::from([1, 9]));
    }
}
