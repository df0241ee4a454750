//! Label maps of scans with the names of their values.

use super::labels::{Mask, Merged, merge, segment_names, values_of};
use super::notes::{Notes, few};
use super::only::Only;
use super::options::Options;
use super::scans::Scan;
use crate::IoError;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Labels of all scans.
#[derive(Debug, Default)]
pub(super) struct NamedLabels {
    /// Name of each value.
    pub(super) names: BTreeMap<u16, String>,
    /// Of each scan: its label map, and the values in it.
    pub(super) maps: Vec<Option<(PathBuf, BTreeSet<u16>)>>,
    /// The wanted ones.
    pub(super) only: Only,
}

/// Reads all label maps, and writes one for each scan with several masks into the folder `own`. `known` are
/// names of values that the folder says.
///
/// # Errors
/// A label map that cannot be written.
pub(super) fn labels(
    scans: &mut [Scan],
    known: &BTreeMap<u16, String>,
    own: &Path,
    options: &Options,
    notes: &mut Notes,
) -> Result<NamedLabels, IoError> {
    let mut names = known.clone();
    names.extend(segments(scans));
    names.extend(options.labels.clone());
    one_mask_is_a_map(scans, &mut names);
    let read: Vec<_> = scans
        .par_iter()
        .map(|scan| scan.label_map.as_ref().map(|path| values_of(path).map(|v| (path.clone(), v))))
        .collect();
    let mut maps = Vec::new();
    for map in read {
        maps.push(match map.transpose() {
            Ok(map) => map,
            Err(error) => {
                notes.left_out.push(error.to_string());
                None
            }
        });
    }
    let found: BTreeSet<u16> =
        maps.iter().flatten().flat_map(|(_, values)| values).copied().collect();
    for (value, name) in options.labels.iter().filter(|(value, _)| !found.contains(value)) {
        let what = format!(
            "the name `{name}` (--label {value}={name}), since no label map has this value"
        );
        notes.left_out.push(what);
    }
    let one_each = maps.iter().flatten().all(|(_, values)| values.len() < 2);
    name_values((&found, one_each), &mut names, options, notes);
    let only = Only::of(&options.only, scans, &found, &names);
    join_values(scans, &mut maps, &mut names);
    only.keep_masks(scans);
    merge_masks(scans, &mut maps, &mut names, own, notes)?;
    Ok(NamedLabels { names, maps, only })
}

/// Names of values in segmentations of Slicer. Slicer numbers the segments of each file by themselves: where
/// two files have different names for one value, all become masks of their names.
fn segments(scans: &mut [Scan]) -> BTreeMap<u16, String> {
    let of_files: Vec<BTreeMap<u16, String>> = scans
        .par_iter()
        .map(|scan| scan.label_map.as_deref().map(segment_names).unwrap_or_default())
        .collect();
    let mut names: BTreeMap<u16, String> = BTreeMap::new();
    let agree = of_files
        .iter()
        .flatten()
        .all(|(&value, name)| names.entry(value).or_insert_with(|| name.clone()) == name);
    if agree {
        return names;
    }
    for (scan, names) in scans.iter_mut().zip(of_files).filter(|(_, names)| !names.is_empty()) {
        let Some(path) = scan.label_map.take() else { continue };
        let mask = |(value, name)| Mask { name, path: path.clone(), value: Some(value) };
        scan.masks = names.into_iter().map(mask).collect();
    }
    BTreeMap::new()
}

/// Where each scan has one mask, always of the same name and value, it is a label map as it is.
fn one_mask_is_a_map(scans: &mut [Scan], names: &mut BTreeMap<u16, String>) {
    let masks: Vec<&[Mask]> =
        scans.iter().map(|scan| &scan.masks[..]).filter(|masks| !masks.is_empty()).collect();
    let mut labelled = scans.iter().filter(|scan| scan.label_map.is_some());
    let Some([first]) = masks.first() else { return };
    let alike =
        |masks: &&[Mask]| matches!(masks, [one] if one.name == first.name && one.value.is_none());
    if labelled.next().is_some() || !masks.iter().all(alike) {
        return;
    }
    let values: BTreeSet<u16> = masks
        .par_iter()
        .map(|masks| values_of(&masks[0].path).unwrap_or_default())
        .reduce(BTreeSet::new, |mut a, b| {
            a.extend(b);
            a
        });
    if let (Some(&value), 1) = (values.first(), values.len()) {
        names.insert(value, first.name.clone());
        for scan in scans {
            scan.label_map = scan.masks.pop().map(|mask| mask.path);
        }
    }
}

/// Gives every value a name. `one_each` says that no file has several.
fn name_values(
    (found, one_each): (&BTreeSet<u16>, bool),
    names: &mut BTreeMap<u16, String>,
    options: &Options,
    notes: &mut Notes,
) {
    let nameless: Vec<u16> = found.iter().copied().filter(|v| !names.contains_key(v)).collect();
    let only = options.structure();
    match nameless[..] {
        [] => {}
        [value] if found.len() == 1 => {
            names.insert(value, only.to_owned());
            if options.structure.is_none() {
                let what = format!("the masks show `{only}` (--structure gives another name)");
                notes.assumed.push(what);
            }
        }
        // Programs write the inside of a mask as 1 or as 255.
        _ if one_each && options.structure.is_some() && nameless.len() == found.len() => {
            let values: Vec<String> = found.iter().map(u16::to_string).collect();
            let values = few(&values, " or ");
            notes
                .assumed
                .push(format!("the masks, of value {values}, all show `{only}` (--structure)"));
            names.extend(nameless.into_iter().map(|value| (value, only.to_owned())));
        }
        _ => {
            let name = |value: u16| format!("label_{value}");
            let new: Vec<String> = nameless.iter().map(|&value| name(value)).collect();
            let list = few(&new, ", ");
            let what = format!(
                "values of label maps without a name are {list} (--label 1=NAME names them)"
            );
            notes.assumed.push(what);
            names.extend(nameless.into_iter().map(|value| (value, name(value))));
        }
    }
}

/// Makes one structure of all values that have one name: their voxels become masks, of which label maps are
/// made anew. The structure has the lowest of the values.
fn join_values(
    scans: &mut [Scan],
    maps: &mut [Option<(PathBuf, BTreeSet<u16>)>],
    names: &mut BTreeMap<u16, String>,
) {
    let named = names.clone();
    let mut seen = BTreeSet::new();
    names.retain(|_, name| seen.insert(name.clone()));
    if names.len() == named.len() {
        return;
    }
    for (scan, map) in scans.iter_mut().zip(maps) {
        let Some((path, values)) = map.take() else { continue };
        let mask = |value: u16| Mask {
            name: named[&value].clone(),
            path: path.clone(),
            value: Some(value),
        };
        scan.masks = values.into_iter().map(mask).collect();
    }
}

fn merge_masks(
    scans: &[Scan],
    maps: &mut [Option<(PathBuf, BTreeSet<u16>)>],
    names: &mut BTreeMap<u16, String>,
    own: &Path,
    notes: &mut Notes,
) -> Result<(), IoError> {
    let with_masks: Vec<usize> = (0..scans.len()).filter(|&n| !scans[n].masks.is_empty()).collect();
    if with_masks.is_empty() {
        return Ok(());
    }
    let masks = || with_masks.iter().flat_map(|&n| &scans[n].masks);
    let wanted: BTreeSet<&str> = masks().map(|mask| mask.name.as_str()).collect();
    for name in wanted {
        if names.values().all(|known| known != name) {
            let free = (1..u16::MAX).find(|value| !names.contains_key(value));
            let Some(value) = free else { break };
            names.insert(value, name.to_owned());
        }
    }
    let values: BTreeMap<&str, u16> =
        names.iter().map(|(&value, name)| (name.as_str(), value)).collect();
    std::fs::create_dir_all(own).map_err(|error| IoError::output(own, &error))?;
    let file = |n: usize| own.join(format!("{}.labels.nii.gz", scans[n].id));
    let merged: Vec<Result<Merged, IoError>> = with_masks
        .par_iter()
        .map(|&n| {
            let merged = merge(&scans[n].masks, &values)?;
            merged.write(&file(n))?;
            Ok(merged.without_voxels())
        })
        .collect();
    let (mut overlaps, mut count) = (BTreeMap::new(), 0);
    for (&n, merged) in with_masks.iter().zip(merged) {
        match merged {
            Ok(merged) => {
                count += 1;
                for (pair, voxels) in merged.overlaps {
                    *overlaps.entry(pair).or_insert(0) += voxels;
                }
                maps[n] = Some((file(n), merged.values));
            }
            Err(error) if error.is_input() => notes.left_out.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    notes.found.push(format!(
        "{} masks of {count} images, made into one label map each in {}",
        masks().count(),
        own.display()
    ));
    if !overlaps.is_empty() {
        let mut worst: Vec<_> = overlaps.into_iter().collect();
        worst.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let pairs = worst.iter().map(|((a, b), voxels)| format!("{a} and {b} ({voxels} voxels)"));
        let pairs = few(&pairs.collect::<Vec<_>>(), ", ");
        notes.assumed.push(format!(
            "where masks overlap, the one with fewer voxels in that image has them: {pairs}"
        ));
    }
    Ok(())
}
