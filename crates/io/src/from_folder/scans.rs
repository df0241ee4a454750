//! The scans of a folder with what belongs to each.

use super::by_name::{ByName, Unclear};
use super::files::Listing;
use super::labels::Mask;
use super::notes::{Notes, few};
use super::options::Options;
use super::pairs::{Images, Owner, base};
use super::place::{Place, Role};
use super::table::{self, Facts, Marked, Table};
use super::tps;
use crate::dataset::{Dataset, Modality};
use crate::json::{Node, parse};
use crate::markups::name_of_file;
use crate::{
    IoError, Landmark, LandmarkState, OpenImage, ReadOptions, bids, case_name, nnunet, read_points,
};
use pbt_volume::PointLps;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// An image and what belongs to it.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) id: String,
    pub(super) image: PathBuf,
    pub(super) read: ReadOptions,
    /// Files of further channels, by their numbers.
    pub(super) channels: Vec<(u16, PathBuf)>,
    pub(super) subject: Option<String>,
    pub(super) split: Option<String>,
    pub(super) label_map: Option<PathBuf>,
    pub(super) masks: Vec<Mask>,
    /// Files of boxes and points, each with the part of its name that is not the image's.
    pub(super) annotations: Vec<(PathBuf, Option<String>)>,
    /// Boxes and points of tables.
    pub(super) rows: Vec<Marked>,
    /// Whether those of tables are in pixels.
    pub(super) in_pixels: bool,
}

impl Scan {
    pub(super) fn is_known(&self) -> bool {
        self.label_map.is_some()
            || !(self.masks.is_empty() && self.annotations.is_empty() && self.rows.is_empty())
    }
}

/// The scans, and what the layout of the folder says about all of them.
#[derive(Default)]
pub(super) struct Scans {
    pub(super) list: Vec<Scan>,
    pub(super) label_names: BTreeMap<u16, String>,
    pub(super) name: Option<String>,
    pub(super) modality: Option<Modality>,
}

/// Looks for scans below a folder: those of nnU-Net and of BIDS as these say, and else by names of
/// files and folders.
///
/// # Errors
/// An nnU-Net or BIDS data set with a fault.
pub(super) fn find(
    folder: &Path,
    listing: &Listing,
    options: &Options,
    notes: &mut Notes,
) -> Result<Scans, IoError> {
    for (file, is_layout, load, layout) in [
        (
            "dataset.json",
            nnunet::is_nnunet as fn(&serde_json::Value) -> bool,
            nnunet::load as fn(&Path, &Node) -> Result<Dataset, IoError>,
            "an nnU-Net folder",
        ),
        (bids::DESCRIPTION, bids::is_bids, bids::load, "a BIDS folder"),
    ] {
        let path = folder.join(file);
        let Some(value) = parse(&path).ok().filter(is_layout) else { continue };
        if file == bids::DESCRIPTION && !bids::has_label_maps(folder) {
            continue;
        }
        let set = load(&path, &Node::root(&path, &value))?;
        notes.found.push(format!("{layout} with {} images", set.cases.len()));
        return Ok(Scans::of(set, notes));
    }
    Ok(by_names(folder, listing, options, notes))
}

impl Scans {
    /// Those of a data set of another layout.
    fn of(set: Dataset, notes: &mut Notes) -> Self {
        notes.left_out.extend(set.warnings);
        let list = set.cases.into_iter().map(|case| Scan {
            id: case.id,
            image: case.image,
            read: case.options,
            subject: case.subject,
            split: Some(case.split),
            label_map: case.labels,
            annotations: case.annotations.into_iter().map(|path| (path, None)).collect(),
            ..Scan::default()
        });
        let scans = list.collect();
        let (name, modality) = (Some(set.name), Some(set.modality));
        Self { list: scans, label_names: set.label_names, name, modality }
    }
}

fn by_names(folder: &Path, listing: &Listing, options: &Options, notes: &mut Notes) -> Scans {
    let place =
        |path: &Path, stem: &str| Place::new(path.strip_prefix(folder).unwrap_or(path), stem);
    let (mut images, mut labels) = (Vec::new(), Vec::new());
    for path in &listing.images {
        let at = place(path, &case_name(path));
        match at.role {
            Some(Role::Labels | Role::Annotations) => labels.push((path, at)),
            _ => images.push((path, at)),
        }
    }
    let places: Vec<Place> = images.iter().map(|(_, place)| place.clone()).collect();
    let all = Images::new(&places);
    // What has a label map of its own is an image of its own.
    let labelled: BTreeSet<&str> = labels.iter().map(|(_, place)| place.key.as_str()).collect();
    let mut channels: BTreeMap<&PathBuf, Vec<(u16, PathBuf)>> = BTreeMap::new();
    let mut is_first = vec![true; images.len()];
    for (n, (path, place)) in images.iter().enumerate() {
        if let Some((first, number)) = all.channel(n)
            && !labelled.contains(place.key.as_str())
        {
            channels.entry(images[first].0).or_default().push((number, path.to_path_buf()));
            is_first[n] = false;
        }
    }
    let mut first = is_first.iter();
    images.retain(|_| first.next() == Some(&true));
    let places: Vec<Place> = images.iter().map(|(_, place)| place.clone()).collect();
    let ids = ids(&images);
    let scan = |((path, place), id): (&(&PathBuf, Place), String)| Scan {
        id,
        image: path.to_path_buf(),
        channels: channels.get(path).cloned().unwrap_or_default(),
        subject: bids_subject(place),
        split: place.split.map(str::to_owned),
        ..Scan::default()
    };
    let mut scans = Scans { list: images.iter().zip(ids).map(scan).collect(), ..Scans::default() };
    let owners = Images::new(&places);
    let mut taker = Taker { folder, scans: &mut scans, notes };
    for (path, place) in &labels {
        let owner = owners.owner(place);
        taker.take(path, owner, "label map", |scan, part| {
            if part.is_none() && scan.label_map.is_none() {
                scan.label_map = Some((*path).clone());
            } else if let Some(name) = part {
                scan.masks.push(Mask { name, path: (*path).clone(), value: None });
            } else {
                return Err("its image has another label map".to_owned());
            }
            Ok(())
        });
    }
    for path in &listing.markups {
        let owner = owners.owner(&place(path, &name_of_file(path)));
        taker.take(path, owner, "markups", |scan, part| {
            scan.annotations.push((path.clone(), part));
            Ok(())
        });
    }
    for path in &listing.tables {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let owner = owners.owner(&place(path, &stem));
        taker.table(path, owner, options);
    }
    if scans.list.iter().all(|scan| scan.subject.is_none()) {
        subjects_by_folder(&mut scans.list, &places, notes);
    }
    for scan in &mut scans.list {
        if scan.label_map.is_some() && !scan.masks.is_empty() {
            notes.left_out.push(format!(
                "{}: {} masks of parts, since there is a label map of the whole image",
                scan.id,
                scan.masks.len()
            ));
            scan.masks.clear();
        }
    }
    scans
}

/// Gives files to the scans that they belong to.
struct Taker<'a> {
    folder: &'a Path,
    scans: &'a mut Scans,
    notes: &'a mut Notes,
}

impl Taker<'_> {
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(self.folder).unwrap_or(path).display().to_string()
    }

    /// Gives a file to its owner, or says why there is none.
    fn take(
        &mut self,
        path: &Path,
        owner: Owner,
        what: &str,
        give: impl FnOnce(&mut Scan, Option<String>) -> Result<(), String>,
    ) {
        let given = match owner {
            Owner::Image(n) => give(&mut self.scans.list[n], None),
            Owner::Part(n, name) => give(&mut self.scans.list[n], Some(name)),
            Owner::None => Err(format!("{what} of no image by its name")),
            Owner::Several(images) => {
                let images = images.iter().map(|&n| &*self.scans.list[n].image);
                let names: Vec<String> = images.map(|path| self.shown(path)).collect();
                Err(format!("{what} that may belong to {}", few(&names, " or ")))
            }
        };
        if let Err(why) = given {
            self.notes.left_out.push(format!("{}: {why}", self.shown(path)));
        }
    }

    /// Takes what a table says: of all scans, or of the one that it is named after.
    fn table(&mut self, path: &Path, owner: Owner, options: &Options) {
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("tps")) {
            if let Err(why) = self.specimens(path) {
                self.notes.left_out.push(format!("{}: {why}", self.shown(path)));
            }
            return;
        }
        let space = options.space.as_deref();
        let is_fcsv = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("fcsv"));
        let table = match is_fcsv {
            true => Err("is read by the case that it is named after".to_owned()),
            false => table::read(path, space, options.structure()),
        };
        let by_name = self.by_name();
        let beside = match owner {
            Owner::Image(n) | Owner::Part(n, _) => Some(n),
            Owner::None | Owner::Several(_) => None,
        };
        match table {
            Ok(Table::Cases(facts)) => self.facts(path, &facts, &by_name),
            Ok(Table::Names(names)) => self.scans.label_names.extend(names),
            Ok(Table::Rows { rows, in_pixels })
                if rows.iter().any(|row| row.case.as_ref().is_some_and(|c| by_name.knows(c))) =>
            {
                let mut unclear = Unclear::default();
                for row in rows {
                    let case = row.case.unwrap_or_default();
                    let Some(n) = by_name.find(&case, beside, &mut unclear) else { continue };
                    self.scans.list[n].rows.push(row.what);
                    self.scans.list[n].in_pixels |= in_pixels;
                }
                self.say_unclear(path, &unclear);
            }
            Ok(Table::Rows { rows, .. })
                if matches!(owner, Owner::None) && rows.iter().any(|row| row.case.is_some()) =>
            {
                let strangers = rows.into_iter().filter_map(|row| row.case);
                self.say_unclear(path, &Unclear::strangers(strangers));
            }
            // A table of all cases that cannot be used is not one of no image.
            Err(why) if !is_fcsv && !matches!(owner, Owner::Image(_) | Owner::Part(..)) => {
                self.notes.left_out.push(format!("{}: {why}", self.shown(path)));
            }
            own => self.take(path, owner, "table", |scan, part| match (read_points(path), own) {
                (Ok(_), _) => {
                    scan.annotations.push((path.to_path_buf(), part));
                    Ok(())
                }
                (Err(_), Ok(Table::Rows { rows, in_pixels })) => {
                    scan.rows.extend(rows.into_iter().map(|row| row.what));
                    scan.in_pixels |= in_pixels;
                    Ok(())
                }
                (Err(error), _) if is_fcsv => Err(error.to_string()),
                (Err(_), Err(why)) => Err(why),
                (Err(error), _) => Err(error.to_string()),
            }),
        }
    }

    /// Takes the landmarks of a TPS file.
    fn specimens(&mut self, path: &Path) -> Result<(), String> {
        let by_name = self.by_name();
        let mut unclear = Unclear::default();
        for specimen in tps::read(path)? {
            let Some(n) = by_name.find(&specimen.image, None, &mut unclear) else { continue };
            let scan = &mut self.scans.list[n];
            let image = match OpenImage::open(&scan.image, &scan.read) {
                Ok(image) => image,
                Err(error) => {
                    self.notes.left_out.push(error.to_string());
                    continue;
                }
            };
            let points = specimen.in_pixels(image.geometry().shape()[1]);
            scan.rows.extend(points.map(|(name, [x, y])| {
                let state = LandmarkState::At(PointLps::new(x, y, 0.0));
                Marked::Point(Landmark { name, state })
            }));
            scan.in_pixels = true;
        }
        self.say_unclear(path, &unclear);
        Ok(())
    }

    /// The scans by all names that a table may have for them.
    fn by_name(&self) -> ByName {
        ByName::of(self.scans.list.iter().map(|scan| {
            let file = scan.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (self.shown(&scan.image), [file, case_name(&scan.image), scan.id.clone()])
        }))
    }

    fn facts(&mut self, path: &Path, facts: &BTreeMap<String, Facts>, by_name: &ByName) {
        let mut unclear = Unclear::default();
        for (case, facts) in facts {
            let Some(n) = by_name.find(case, None, &mut unclear) else { continue };
            let scan = &mut self.scans.list[n];
            scan.subject = facts.subject.clone().or(scan.subject.take());
            scan.split = facts.split.clone().or(scan.split.take());
        }
        self.say_unclear(path, &unclear);
    }

    /// Says which cases a table speaks of that have no image, or may have several.
    fn say_unclear(&mut self, path: &Path, unclear: &Unclear) {
        let list = &self.scans.list;
        let told = unclear.told(list.len(), |n| self.shown(&list[n].image));
        let path = self.shown(path);
        self.notes.left_out.extend(told.into_iter().map(|what| format!("{path}: {what}")));
    }
}

/// A name for each image: that of its file where no other has it, else with its folders.
fn ids(images: &[(&PathBuf, Place)]) -> Vec<String> {
    let short = |path: &Path, place: &Place| match (base(place), place.folders.last()) {
        ("", Some(folder)) => folder.clone(),
        ("", None) => case_name(path),
        (key, _) => key.to_owned(),
    };
    let long = |place: &Place| {
        let key = Some(base(place)).filter(|key| !key.is_empty());
        let parts: Vec<&str> = place.folders.iter().map(String::as_str).chain(key).collect();
        parts.join("_")
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (path, place) in images {
        *counts.entry(short(path, place)).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    let id = |(path, place): &(&PathBuf, Place)| {
        let short = short(path, place);
        let wanted = if counts[&short] == 1 { short } else { long(place) };
        // It becomes a file's name.
        let wanted = wanted.replace(|c: char| c.is_control() || matches!(c, '/' | '\\'), "_");
        let mut id = wanted.clone();
        for n in 2.. {
            if taken.insert(id.clone()) {
                break;
            }
            id = format!("{wanted}-{n}");
        }
        id
    };
    images.iter().map(id).collect()
}

/// `sub-01` of a file or folder that is named as BIDS names them.
fn bids_subject(place: &Place) -> Option<String> {
    let names = place.folders.iter().map(String::as_str).chain([place.key.as_str()]);
    let subject = |name: &str| {
        let value = name.strip_prefix("sub-")?.split(['_', '-']).next()?;
        (!value.is_empty()).then(|| format!("sub-{value}"))
    };
    names.into_iter().find_map(subject)
}

/// Takes the images of one folder for scans of one subject, where there are at least five such folders and
/// none has more than a fifth of all images: folders of sites or scanners have more.
fn subjects_by_folder(scans: &mut [Scan], places: &[Place], notes: &mut Notes) {
    let mut counts: BTreeMap<&[String], usize> = BTreeMap::new();
    for place in places {
        *counts.entry(&place.folders).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    if most < 2 || counts.len() < 5 || 5 * most > places.len() {
        return;
    }
    for (scan, place) in scans.iter_mut().zip(places) {
        scan.subject = Some(place.folders.join("/")).filter(|subject| !subject.is_empty());
    }
    notes.assumed.push("images of one folder show one subject".to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(paths: &[&str]) -> (Vec<PathBuf>, Vec<Place>) {
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let places = paths.iter().map(|path| Place::new(path, &case_name(path))).collect();
        (paths, places)
    }

    #[test]
    fn every_image_has_a_name_of_its_own() {
        for (paths, expected) in [
            (&["x/a.nii", "x/b_0000.nii.gz"] as &[&str], &["a", "b"] as &[&str]),
            (&["s1/ct.nii", "s2/ct.nii"], &["s1", "s2"]),
            (&["x/a.nii", "y/a.nii", "y/b.nii"], &["x_a", "y_a", "b"]),
            (&["a.nii", "a.mha"], &["a", "a-2"]),
            (&["ct.nii"], &["ct"]),
        ] {
            let (paths, places) = list(paths);
            let images: Vec<(&PathBuf, Place)> = paths.iter().zip(places).collect();
            assert_eq!(ids(&images), expected);
        }
    }

    #[test]
    fn folders_are_subjects_where_there_are_many_small_ones() {
        let subjects = |paths: &[String]| {
            let (paths, places) = list(&paths.iter().map(String::as_str).collect::<Vec<_>>());
            let mut scans: Vec<Scan> = paths.iter().map(|_| Scan::default()).collect();
            subjects_by_folder(&mut scans, &places, &mut Notes::default());
            scans.into_iter().filter_map(|scan| scan.subject).collect::<Vec<_>>()
        };
        let patients: Vec<String> =
            (0..5).flat_map(|p| ["t1.nii", "t2.nii"].map(|scan| format!("p{p}/{scan}"))).collect();
        assert_eq!(subjects(&patients)[..3], ["p0", "p0", "p1"]);
        let sites: Vec<String> =
            (0..2).flat_map(|site| (0..9).map(move |n| format!("site{site}/{n}.nii"))).collect();
        assert!(subjects(&sites).is_empty());
        let (_, places) = list(&["sub-07/ses-1/x.nii", "sub-12_T1w.nii", "subject.nii"]);
        let found: Vec<_> = places.iter().map(bids_subject).collect();
        assert_eq!(found, [Some("sub-07".to_owned()), Some("sub-12".to_owned()), None]);
    }
}
