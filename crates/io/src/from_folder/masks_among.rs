//! Masks and label maps among images, by their names.

use super::pairs::{Images, Owner};
use super::place::{Place, Role};
use crate::case_name;
use std::path::{Path, PathBuf};

/// Of images below a folder those that are masks or label maps of others there, by the names from which
/// [`dataset_from_folder`](super::dataset_from_folder) would make cases.
pub fn masks_among<'a>(folder: &Path, images: &'a [PathBuf]) -> Vec<&'a Path> {
    let place = |path: &'a PathBuf| {
        let relative = path.strip_prefix(folder).unwrap_or(path);
        (path.as_path(), Place::new(relative, &case_name(path)))
    };
    let (masks, others): (Vec<_>, Vec<_>) =
        images.iter().map(place).partition(|(_, place)| place.role == Some(Role::Labels));
    let others: Vec<Place> = others.into_iter().map(|(_, place)| place).collect();
    let others = Images::new(&others);
    let has_image = |place: &Place| others.owner(place) != Owner::None;
    masks.into_iter().filter(|(_, place)| has_image(place)).map(|(path, _)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_those_that_belong_to_an_image() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (images, masks) in [
            (
                &["s/a.nii.gz", "s/a_seg.nii.gz", "s/b.mha"] as &[&str],
                &["s/a_seg.nii.gz"] as &[&str],
            ),
            (&["s/images/a.nii", "s/labels/a.nii"], &["s/labels/a.nii"]),
            (&["s/p/ct.nii", "s/p/segmentations/liver.nii"], &["s/p/segmentations/liver.nii"]),
            // Nobody's, and masks alone: somebody may want just these.
            (&["s/a.nii", "s/b_seg.nii"], &[]),
            (&["s/a_seg.nii", "s/b_seg.nii"], &[]),
            (&["s/seg_1.nii", "s/scan.nii"], &[]),
        ] {
            let images = paths(images);
            assert_eq!(masks_among(Path::new("s"), &images), paths(masks), "{images:?}");
        }
    }
}
