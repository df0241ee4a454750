//! A data set made of what lies in a folder: images with label maps, masks, Slicer markups or tables, as
//! the names of files and folders join them.

mod by_name;
mod channels;
mod columns;
mod files;
mod labels;
mod marked;
mod masks_among;
mod modality;
mod named_labels;
mod notes;
mod only;
mod options;
mod pairs;
mod place;
mod scans;
mod splits;
mod table;
mod tps;

use crate::dataset::{CaseSpec, Dataset};
use crate::region_labels::IGNORE;
use crate::{IoError, names};
use files::Listing;
pub use labels::segment_names;
use marked::Annotated;
pub use masks_among::masks_among;
use named_labels::NamedLabels;
use notes::{Notes, cases_of, few, images_of, structures_of};
pub use options::Options;
use pbt_volume::{Instances, MOST_STRUCTURES, StructureKind, StructureSpec, is_box_of_landmarks};
use scans::Scan;
use splits::{Basis, Known, natural};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// So many training cases a structure must be annotated in at least.
const FEWEST: usize = 2;

/// A data set that was written, and what to tell about it.
#[derive(Debug)]
pub struct FromFolder {
    /// The data set as it is read again.
    pub dataset: Dataset,
    /// What was found.
    pub found: Vec<String>,
    /// What was assumed, and how to say otherwise.
    pub assumed: Vec<String>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

/// Makes a data set of what lies in a folder and writes it to `output` (`pbt-dataset/1`). What must be
/// written in addition, label maps of several masks and annotations of tables, goes into a folder beside it:
/// `dataset-files` of `dataset.json`.
///
/// # Errors
/// [`IoError`] when the folder cannot be read, when it holds no image with masks or annotations, when no
/// structure is annotated in two training cases, or when something cannot be written.
pub fn dataset_from_folder(
    folder: &Path,
    output: &Path,
    options: &Options,
) -> Result<FromFolder, IoError> {
    let root = folder.canonicalize().map_err(|error| IoError::unreadable(folder, &error))?;
    let own = own_folder(output)?;
    let mut notes = Notes::default();
    let listing = Listing::of(&root, &own)?;
    if let Some(first) = listing.detected.first() {
        let count = listing.detected.len();
        let first = first.strip_prefix(&root).unwrap_or(first).display();
        notes.left_out.push(format!(
            "{count} files beside results of pbt, which were detected and not annotated: {first} and the like \
             (move those that you have corrected to another folder)"
        ));
    }
    let mut found = scans::find(&root, &listing, options, &mut notes)?;
    let all = found.list.len();
    let (known, unknown): (Vec<Scan>, Vec<Scan>) = found.list.into_iter().partition(Scan::is_known);
    found.list = known;
    found.list.sort_by_cached_key(|scan| natural(&scan.id));
    let wrong = |problem: String| {
        let advice = "name masks as in scan_seg.nii.gz or put them into labels/ beside images/; \
                      docs/how-to/train-on-your-data.md shows all ways";
        IoError::input(folder, "folder", problem, advice)
    };
    if found.list.is_empty() {
        notes.left_out.truncate(1);
        let why = notes.left_out.first().map(|why| format!("; {why}")).unwrap_or_default();
        let what = match all {
            0 => "holds no image".to_owned(),
            n => format!(
                "holds {} and no masks or annotations that belong to one{why}",
                images_of(n)
            ),
        };
        return Err(wrong(what));
    }
    if !unknown.is_empty() {
        let mut ids: Vec<String> = unknown.into_iter().map(|scan| scan.id).collect();
        ids.sort_by_cached_key(|id| natural(id));
        let count = images_of(ids.len());
        let ids = few(&ids, ", ");
        notes.left_out.push(format!("{count} without masks and annotations: {ids}"));
    }
    let scans = &mut found.list;
    channels::join(scans, &mut notes);
    let labels = named_labels::labels(scans, &found.label_names, &own, options, &mut notes)?;
    let (annotated, kinds) = marked::annotations(scans, &own, options, &mut notes)?;
    let known: Vec<Known> = scans
        .iter()
        .map(|scan| Known {
            subject: scan.subject.clone().unwrap_or_else(|| scan.id.clone()),
            split: scan.split.clone(),
        })
        .collect();
    let (splits, basis) = splits::split(&known);
    let mut structures = Vec::new();
    let add = |structures: &mut Vec<StructureSpec>, name: &String, kind| {
        if structures.iter().all(|s| s.name != *name) {
            structures.push(StructureSpec {
                name: name.clone(),
                kind,
                parent: None,
                partner: None,
                instances: Instances::One,
            });
        }
    };
    kinds.of(StructureKind::Box).for_each(|name| add(&mut structures, name, StructureKind::Box));
    let shown: BTreeSet<u16> =
        labels.maps.iter().flatten().flat_map(|(_, values)| values).copied().collect();
    let named = labels.names.iter().filter(|(value, _)| shown.contains(value));
    let named = named.map(|(_, name)| name).filter(|name| *name != IGNORE);
    named.for_each(|name| add(&mut structures, name, StructureKind::Box));
    let empty = labels.names.iter().filter(|(value, _)| !shown.contains(value));
    let empty = empty.map(|(_, name)| name).filter(|name| *name != IGNORE);
    let empty: Vec<String> = empty.cloned().collect();
    if !empty.is_empty() {
        let (some, list) = (structures_of(empty.len()), few(&empty, ", "));
        notes.left_out.push(format!("{some} without a voxel anywhere: {list}"));
    }
    let points = kinds.of(StructureKind::Landmark);
    points.for_each(|name| add(&mut structures, name, StructureKind::Landmark));
    notes.left_out.extend(labels.only.keep_structures(&mut structures, folder)?);
    if let Some(name) = options.structure.as_ref()
        && structures.iter().all(|s| s.name != *name)
    {
        notes.left_out.push(format!(
            "the name `{name}` (--structure), since files give names or there are several structures \
             (--label VALUE=NAME names values of label maps)"
        ));
    }
    keep_trainable(&mut structures, &labels, &annotated, &splits, &mut notes);
    if structures.is_empty() {
        let why = notes.left_out.last().map(|why| format!("; {why}")).unwrap_or_default();
        return Err(wrong(format!("no structure is annotated in {FEWEST} training cases{why}")));
    }
    let kept: BTreeSet<&String> = structures.iter().map(|s| &s.name).collect();
    let label_names: BTreeMap<u16, String> = labels
        .names
        .iter()
        .filter(|(_, name)| kept.contains(name) || *name == IGNORE)
        .map(|(value, name)| (*value, name.clone()))
        .collect();
    say_structures(&structures, &label_names, &mut notes);
    let has_label_map = |n: usize| labels.maps[n].as_ref().filter(|_| !label_names.is_empty());
    let cases: Vec<CaseSpec> = (scans.iter().zip(annotated).zip(&splits).enumerate())
        .map(|(n, ((scan, annotated), split))| CaseSpec {
            id: scan.id.clone(),
            image: scan.image.clone(),
            options: scan.read.clone(),
            split: split.clone(),
            subject: scan.subject.clone(),
            annotations: annotated.files,
            labels: has_label_map(n).map(|(path, _)| path.clone()),
            not_drawn: Vec::new(),
        })
        .collect();
    let unsaid: Vec<String> =
        scans.iter().filter(|scan| scan.split.is_none()).map(|scan| scan.id.clone()).collect();
    say_splits(&cases, basis, &unsaid, &mut notes);
    let name = options.name.clone().or(found.name).unwrap_or_else(|| last_name(&root));
    let modality = options.modality.clone().or(found.modality).unwrap_or_else(|| {
        let images: Vec<&Path> = cases.iter().map(|case| &*case.image).collect();
        let relative = |path: &Path| path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let mut named = vec![last_name(&root)];
        named.extend(images.first().map(|path| relative(path)));
        let guess = modality::guess(&images, &named);
        let modality = &guess.modality;
        notes.assumed.push(format!(
            "the modality is {modality}, because {} (--modality says otherwise)",
            guess.why
        ));
        guess.modality
    });
    let mut dataset = Dataset::new(name, modality, structures, cases, output.to_path_buf());
    dataset.label_names = label_names;
    dataset.write()?;
    let Notes { found, assumed, left_out } = notes;
    Ok(FromFolder { dataset: Dataset::load(output)?, found, assumed, left_out })
}

/// Whether there is no image in a folder and below it.
pub(crate) fn holds_no_image(folder: &Path) -> bool {
    Listing::of(folder, Path::new("")).is_ok_and(|listing| listing.images.is_empty())
}

/// Where files beside `dataset.json` go: `dataset-files`.
fn own_folder(output: &Path) -> Result<PathBuf, IoError> {
    let folder = output.parent().filter(|f| *f != Path::new("")).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| IoError::output(output, &error))?;
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    Ok(folder.join(format!("{stem}-files")))
}

fn last_name(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if name.is_empty() { "data set".to_owned() } else { name }
}

/// Takes out structures that training would refuse.
fn keep_trainable(
    structures: &mut Vec<StructureSpec>,
    labels: &NamedLabels,
    annotated: &[Annotated],
    splits: &[String],
    notes: &mut Notes,
) {
    let mut rare = Vec::new();
    let mut odd = Vec::new();
    structures.retain(|structure| {
        let name = &structure.name;
        if names::fault(name, 0).is_some() || is_box_of_landmarks(name) || name.is_empty() {
            odd.push(format!("`{}`", name.escape_debug()));
            return false;
        }
        let has_label = |n: usize| {
            labels.maps[n].as_ref().is_some_and(|(_, values)| {
                values.iter().any(|value| labels.names.get(value) == Some(name))
            })
        };
        let is_training = |n: &usize| splits[*n] == "train";
        let cases = (0..splits.len()).filter(is_training);
        let count = cases.filter(|&n| annotated[n].names.contains(name) || has_label(n)).count();
        if count < FEWEST {
            rare.push(name.clone());
        }
        count >= FEWEST
    });
    if !rare.is_empty() {
        let (some, list) = (structures_of(rare.len()), few(&rare, ", "));
        let what = format!("{some} that fewer than {FEWEST} training cases have: {list}");
        notes.left_out.push(what);
    }
    if structures.len() > MOST_STRUCTURES {
        odd.extend(structures.drain(MOST_STRUCTURES..).map(|s| s.name));
    }
    if !odd.is_empty() {
        let list = few(&odd, ", ");
        notes.left_out.push(format!("names that structures cannot have, or too many: {list}"));
    }
}

fn say_structures(
    structures: &[StructureSpec],
    label_names: &BTreeMap<u16, String>,
    notes: &mut Notes,
) {
    for (kind, one, many) in [
        (StructureKind::Box, "box", "boxes"),
        (StructureKind::Region, "region", "regions"),
        (StructureKind::Landmark, "landmark", "landmarks"),
    ] {
        let of_kind = structures.iter().filter(|s| s.kind == kind);
        let names: Vec<String> = of_kind.map(|s| s.name.clone()).collect();
        if !names.is_empty() {
            let word = if names.len() == 1 { one } else { many };
            // Who gives names to values needs all of them.
            let list = if names.len() <= 20 { names.join(", ") } else { few(&names, ", ") };
            notes.found.push(format!("{} {word}: {list}", names.len()));
        }
    }
    let first_box = structures.iter().find(|s| s.kind == StructureKind::Box);
    if let Some(parent) =
        first_box.filter(|_| structures.iter().any(|s| s.kind == StructureKind::Landmark))
    {
        notes.assumed.push(format!(
            "landmarks are found in the frame of `{}` (`parent` in the file names another box)",
            parent.name
        ));
    }
    // What the trainer's limit of regions is about.
    if label_names.len() > crate::region_labels::MOST_REGIONS {
        notes.assumed.push(format!(
            "{} names of labels are more than the {} that are learned voxel by voxel: boxes alone are \
             learned (--structure of `pbt train` chooses some)",
            label_names.len(),
            crate::region_labels::MOST_REGIONS
        ));
    }
}

/// `unsaid` are the cases whose split no folder or table says.
fn say_splits(cases: &[CaseSpec], basis: Basis, unsaid: &[String], notes: &mut Notes) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        *counts.entry(&case.split).or_default() += 1;
    }
    let list: Vec<String> = counts.iter().map(|(split, n)| format!("{n} {split}")).collect();
    let subjects: BTreeSet<&String> = cases.iter().filter_map(|c| c.subject.as_ref()).collect();
    let of = if subjects.is_empty() {
        "each case is a subject of its own".to_owned()
    } else {
        format!("{} subjects", subjects.len())
    };
    notes.found.insert(0, format!("{} cases ({}); {of}", cases.len(), list.join(", ")));
    notes.assumed.extend(match basis {
        Basis::Given if unsaid.is_empty() => None,
        Basis::Given => Some(format!(
            "{} without a split in folders and tables {} for training: {}",
            cases_of(unsaid.len()),
            if unsaid.len() == 1 { "is" } else { "are" },
            few(unsaid, ", ")
        )),
        Basis::EveryFifth => Some("every fifth subject by name is for tests".to_owned()),
        Basis::TooFew => {
            Some("there are fewer than five subjects, so that all are for training".to_owned())
        }
    });
}
